/* Rows: copies runs of elements between memory and the form that kernels compute on.
 *
 * Kernels compute on contiguous rows of a compute type (weir__compute_type): f32 for f16 and bf16,
 * the type itself for all others. These functions convert a strided row of any type to that form
 * and back.
 */
#ifndef WEIR_OPS_HOST_ROW_H
#define WEIR_OPS_HOST_ROW_H

#include "ops/host/isa.h"
#include "weir/tensor.h"

/* Elements in one pass over a buffer: four of them stay in the first-level cache. */
#define WEIR__ROW_CHUNK 1024
#define WEIR__ROW_BYTES ((size_t)WEIR__ROW_CHUNK * 8)

static inline weir_dtype weir__compute_type(weir_dtype dtype)
{
    return dtype == WEIR_F16 || dtype == WEIR_BF16 ? WEIR_F32 : dtype;
}

static inline size_t weir__elem_size(weir_dtype dtype)
{
    static const unsigned char size[] = {
#define WEIR__ELEM_SIZE(name, bytes, text) bytes,
        WEIR_DTYPE_LIST(WEIR__ELEM_SIZE)
#undef WEIR__ELEM_SIZE
    };

    return size[dtype];
}

/* Converts n contiguous elements to another type. Floats to integers truncate and saturate, and NaN
 * gives 0; narrower integers wrap; anything but 0 becomes true. */
WEIR__ISA_DECLARE(void, weir__row_convert,
                  (void *dst, weir_dtype to, const void *src, weir_dtype from, int64_t n));
/* Packs n elements that are `stride` apart, and unpacks them. */
WEIR__ISA_DECLARE(void, weir__row_pack,
                  (void *dst, const void *src, int64_t stride, size_t elem, int64_t n));
WEIR__ISA_DECLARE(void, weir__row_unpack,
                  (void *dst, int64_t stride, const void *src, size_t elem, int64_t n));
/* Writes the element at src n times. */
WEIR__ISA_DECLARE(void, weir__row_fill, (void *dst, const void *src, size_t elem, int64_t n));
/* n <= WEIR__ROW_CHUNK elements as a packed row of type `to`: the memory itself if it has this
 * form, else a copy in `buffer`, which has WEIR__ROW_BYTES. */
WEIR__ISA_DECLARE(const void *, weir__row_load,
                  (void *buffer, weir_dtype to, const void *src, weir_dtype from, int64_t stride,
                   int64_t n));
/* The same for any n, always into dst. */
WEIR__ISA_DECLARE(void, weir__row_load_all,
                  (void *dst, weir_dtype to, const void *src, weir_dtype from, int64_t stride,
                   int64_t n));
/* The reverse: stores a packed row of type `from`. n may have any size. */
WEIR__ISA_DECLARE(void, weir__row_store,
                  (void *dst, weir_dtype to, int64_t stride, const void *src, weir_dtype from,
                   int64_t n));
/* memcpy with non-temporal stores, for outputs too large for the caches. */
WEIR__ISA_DECLARE(void, weir__row_stream, (void *dst, const void *src, size_t bytes));
/* Call it once after a block's last such copy: the runtime publishes the block's end with ordinary
 * stores, and non-temporal stores may become visible later than those. */
WEIR__ISA_DECLARE(void, weir__row_stream_end, (void));

/* The rows of two tensors along one dim; the other dims form the list of rows. Strides are in
 * elements. */
struct weir__rows {
    int64_t count;
    int64_t n, in_step, out_step; /* a row: its elements in `in`, and the strides */
    int ndim;
    int64_t shape[WEIR_MAX_DIMS], in_stride[WEIR_MAX_DIMS], out_stride[WEIR_MAX_DIMS];
};

/* Element offsets of row i. */
static inline void weir__rows_at(const struct weir__rows *r, int64_t i, int64_t *in, int64_t *out)
{
    *in = *out = 0;
    for (int d = r->ndim - 1; d >= 0; d--) {
        *in += i % r->shape[d] * r->in_stride[d];
        *out += i % r->shape[d] * r->out_stride[d];
        i /= r->shape[d];
    }
}

#endif
