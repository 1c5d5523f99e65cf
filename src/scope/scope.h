/* The settings of the open scopes of this thread. */
#ifndef WEIR_SCOPE_SCOPE_H
#define WEIR_SCOPE_SCOPE_H

#include "graph/build/graph.h"

/* The super kernel of operators made now, as a number for traces; 0: none. */
uint16_t weir__scope_traced(void);

/* The settings of all open scopes, as marks of a node of `g`.
 * returns  WEIR_ENOMEM; WEIR_ERANGE for a core limit that the device does not have. */
weir_status weir__scope_marks(weir_graph *g, struct weir__marks *out);

/* Makes the stream wait for every use of the buffer so far. Under the device lock. */
weir_status weir__wait_uses(weir_stream *s, const weir_buffer *b);

#endif
