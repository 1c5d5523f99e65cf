/* A cache for short collectives between processes that are called repeatedly. */
#ifndef WEIR_OPS_CALL_AGAIN_H
#define WEIR_OPS_CALL_AGAIN_H

#include "ops/op.h"
#include "tensor/member.h"

/* Caches the call, which has just been queued, if it is short and was made before. (L) */
void weir__again_keep(const struct weir__call *call, const struct weir__kernel *kernel,
                      const weir_rank *rank, const weir_tensor *in, const weir_tensor *out);
/* Makes a cached call. False if the call is not cached, or must take the usual path. The result is
 * written to `into`, or if that is NULL to a new tensor *made. */
bool weir__again_run(const struct weir__op *op, const void *params, weir_rank *rank,
                     weir_tensor *in, weir_tensor *into, weir_tensor **made, weir_status *status);

#endif
