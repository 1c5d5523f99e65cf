/* Short collectives between processes that come again and again. */
#ifndef WEIR_OPS_CALL_AGAIN_H
#define WEIR_OPS_CALL_AGAIN_H

#include "ops/op.h"
#include "tensor/member.h"

/* Keeps the call, which has just been queued, if it is short and has come before. (L) */
void weir__again_keep(const struct weir__call *call, const struct weir__kernel *kernel,
                      const weir_rank *rank, const weir_tensor *in, const weir_tensor *out);
/* Makes a call of which the like was kept; false if none was, or if it must go the usual way.
 * `into` is written to; NULL: *made is, which is new. */
bool weir__again_run(const struct weir__op *op, const void *params, weir_rank *rank,
                     weir_tensor *in, weir_tensor *into, weir_tensor **made, weir_status *status);

#endif
