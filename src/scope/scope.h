/* The settings of the open scopes of this thread. */
#ifndef WEIR_SCOPE_SCOPE_H
#define WEIR_SCOPE_SCOPE_H

#include "graph/build/graph.h"

/* The super kernel that operators made now belong to, as traces have it; 0 for none. */
uint16_t weir__scope_traced(void);

/* All of it, as marks of a node of `g`.
 * returns  WEIR_ENOMEM; WEIR_ERANGE if a core limit is not one the device has. */
weir_status weir__scope_marks(weir_graph *g, struct weir__marks *out);

/* The stream waits for every use of the buffer so far. Under the device's lock. */
weir_status weir__wait_uses(weir_stream *s, const weir_buffer *b);

#endif
