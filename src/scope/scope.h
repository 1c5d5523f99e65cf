/* What the open scopes of this thread say. */
#ifndef WEIR_SCOPE_SCOPE_H
#define WEIR_SCOPE_SCOPE_H

#include "graph/graph.h"

/* The core limit of operators made now; 0 where none is set. */
weir_cores weir__scope_limit(void);
/* Whether op_timeout counts for them. */
bool weir__scope_never_timeout(void);

/* All of it, as marks of a node of `g`.
 * returns  WEIR_ENOMEM; WEIR_ERANGE if a core limit is not one the device has. */
weir_status weir__scope_marks(weir_graph *g, struct weir__marks *out);

#endif
