/* Mixture of experts between ranks that share memory. */
#ifndef WEIR_OPS_HOST_MOE_H
#define WEIR_OPS_HOST_MOE_H

#include "comm/comm.h"
#include "ops/host/isa.h"
#include "ops/host/part.h"
#include "weir/launch.h"

/* Errors of these calls, with the same text on every kind of device. */
#define WEIR__MOE_BAD_EXPERT_TEXT "expert %lld of token %lld on rank %d is out of range: 0..%lld"
#define WEIR__MOE_NO_ROOM_TEXT "the experts of rank %d get %lld rows, its capacity is %lld"
#define WEIR__MOE_BAD_POSITION_TEXT "position %lld of token %lld on rank %d: rank %d has %lld rows"

struct weir__moe {
    struct weir__meet meet;
    const char *x;       /* dispatch: [tokens, hidden]; combine: rows [capacity, hidden] */
    const void *experts; /* [tokens, k] */
    int64_t tokens, k, hidden, nexperts, capacity;
    int ranks;
    unsigned char dtype;
    bool wide_experts; /* experts are i64, else i32 */
    char *out;         /* dispatch: rows; combine: [tokens, hidden] */
    int32_t *positions;
    /* Dispatch: */
    int64_t *counts;
    int64_t *starts;                /* scratch, [ranks, nexperts]: the next row of each */
    struct weir__moe_route *routes; /* scratch, [capacity], behind `starts` */
    /* Combine: */
    const void *weights;
    unsigned char weight_type;
};

/* Bytes of `starts` and `routes`. */
static inline size_t weir__moe_scratch(int64_t ranks, int64_t nexperts, int64_t capacity)
{
    return (size_t)(ranks * nexperts) * sizeof(int64_t) +
           (size_t)(capacity + 1) * sizeof(struct weir__moe_route);
}

/* The blocks' functions; their arguments are a struct weir__moe. Dispatch has two phases: the first
 * block computes all destinations, then all blocks copy rows. */
WEIR__ISA_DECLARE(weir_status, weir__moe_dispatch_kernel,
                  (const void *args, const weir_block *block));
WEIR__ISA_DECLARE(weir_status, weir__moe_combine_kernel,
                  (const void *args, const weir_block *block));

#endif
