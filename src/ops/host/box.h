/* A box is a range of elements along each of several dims of a strided operand. It is packed into
 * row-major order and unpacked again. This moves many short rows at once, and copies operands that
 * are contiguous along another dim tile by tile. */
#ifndef WEIR_OPS_HOST_BOX_H
#define WEIR_OPS_HOST_BOX_H

#include <stdbool.h>

#include "ops/host/isa.h"
#include "weir/tensor.h"

/* The box of one operand. Dims are merged where the operand's layout allows. Strides in
 * elements. */
struct weir__box {
    int ndim;
    int64_t numel;
    int64_t shape[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS];
};

/* Whether the elements are adjacent in memory. */
static inline bool weir__box_is_packed(const struct weir__box *b)
{
    return b->numel == 1 || (b->ndim == 1 && b->stride[0] == 1);
}

/* Whether all elements are the same element in memory. */
static inline bool weir__box_is_one(const struct weir__box *b)
{
    return b->numel == 1 || (b->ndim == 1 && b->stride[0] == 0);
}

/* ndim >= 1 and no empty dim. */
WEIR__ISA_DECLARE(void, weir__box_init,
                  (struct weir__box * box, int ndim, const int64_t *shape, const int64_t *stride));
/* Packs the box at src into box->numel elements of `elem` bytes. */
WEIR__ISA_DECLARE(void, weir__box_pack,
                  (void *dst, const void *src, const struct weir__box *box, size_t elem));
/* Unpacks to the box at dst. No stride of the box may be 0. */
WEIR__ISA_DECLARE(void, weir__box_unpack,
                  (void *dst, const void *src, const struct weir__box *box, size_t elem));

#endif
