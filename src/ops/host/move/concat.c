/* Concatenation: copies the pieces one after another with the elementwise walker. */
#include "ops/host/move/concat.h"

#include <string.h>

#include "ops/host/math/elementwise.h"
#include "ops/host/row.h"
#include "ops/tile.h"
#include "tensor/view.h"

enum {
    SHORT_ROW_BYTES = 1024,
    STRIP_BYTES = 16384,
    COPIES_AT = 1 << 20, /* offset in local memory, behind the walker's part */
};

/* Describes the copy of one piece into the slice of out that begins at `at`. */
static struct weir__ew piece_copy(const struct weir__concat *c, const int64_t *piece, int64_t at)
{
    struct weir__ew e = {.nin = 1};
    struct weir__view in = {.data = (char *)(intptr_t)piece[0], .ndim = c->ndim}, out;
    size_t elem = weir__elem_size(c->dtype);

    memcpy(in.shape, c->shape, sizeof in.shape);
    in.shape[c->dim] = piece[1];
    out = in;
    memcpy(out.stride, c->stride, sizeof out.stride);
    if (c->strided)
        memcpy(in.stride, piece + 2, (size_t)c->ndim * sizeof *in.stride);
    else
        weir__view_set_contiguous(&in);
    weir__view_collapse((struct weir__view *[]){&out, &in}, 2);
    e.numel = weir__view_numel(&in);
    e.out = c->out + at * c->stride[c->dim] * (int64_t)elem;
    e.in[0] = in.data;
    e.out_type = e.out_compute = e.in_type[0] = e.in_compute[0] = (unsigned char)c->dtype;
    e.ndim = in.ndim;
    memcpy(e.shape, in.shape, sizeof e.shape);
    memcpy(e.in_stride[0], in.stride, sizeof in.stride);
    memcpy(e.out_stride, out.stride, sizeof out.stride);
    return e;
}

/* For outputs whose rows consist of short parts. Copying piece by piece would write each cache line
 * of the output several times. So a few rows are assembled in the first-level cache, then the next
 * few. */
static void concat_rows(const struct weir__concat *c, int64_t rows, int64_t inner,
                        const weir_block *block)
{
    int64_t step = c->strided ? 2 + c->ndim : 2, at = 0;
    int64_t bytes = c->shape[c->dim] * inner * (int64_t)weir__elem_size(c->dtype);
    struct weir__range r = weir__tile_rows(rows, 1, block);
    struct weir__ew *copies = (void *)((char *)block->local + COPIES_AT);

    for (int i = 0; i < c->npieces; i++) {
        const int64_t *piece = c->pieces + i * step;

        copies[i] = piece_copy(c, piece, at);
        at += piece[1];
    }
    for (int64_t row = r.begin, n; row < r.end; row += n) {
        n = weir__min(r.end - row, weir__max(STRIP_BYTES / bytes, 1));
        for (int i = 0; i < c->npieces; i++) {
            int64_t part = c->pieces[i * step + 1] * inner;

            WEIR__ISA_NAME(weir__ew_range)
            (&copies[i], row * part, (row + n) * part, block->local);
        }
    }
}

weir_status WEIR__ISA_NAME(weir__concat_kernel)(const void *args, const weir_block *block)
{
    const struct weir__concat *c = args;
    int64_t step = c->strided ? 2 + c->ndim : 2, at = 0, total = 1, first = 0, inner = 1;
    struct weir__range r;

    for (int d = 0; d < c->ndim; d++)
        total *= c->shape[d];
    for (int d = c->dim + 1; d < c->ndim; d++)
        inner *= c->shape[d];
    if (total && (!block->count || c->shape[c->dim] * inner * (int64_t)weir__elem_size(c->dtype) <=
                                       SHORT_ROW_BYTES)) {
        concat_rows(c, total / (c->shape[c->dim] * inner), inner, block);
        return WEIR_OK;
    }
    r = weir__tile_range(total, 64, block);
    for (int i = 0; i < c->npieces; i++) {
        const int64_t *piece = c->pieces + i * step;
        int64_t numel = total ? total / c->shape[c->dim] * piece[1] : 0;

        if (r.begin < first + numel && first < r.end) {
            struct weir__ew e = piece_copy(c, piece, at);

            WEIR__ISA_NAME(weir__ew_range)
            (&e, weir__max(r.begin - first, 0), weir__min(r.end - first, numel), block->local);
        }
        first += numel;
        at += piece[1];
    }
    return WEIR_OK;
}
