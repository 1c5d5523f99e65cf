#include "graph/streams.h"

weir_status weir__streams_auto(struct weir__compile *c)
{
    (void)c;
    return WEIR_OK;
}
