/* Coordinates of the nonzero elements. */
#include "ops/host/move/nonzero.h"

#include "ops/host/row.h"
#include "ops/tile.h"

/* Returns one byte per element from p on, nonzero if the element is; *n gets the number of
 * bytes. */
static const uint8_t *load_flags(const struct weir__nonzero *a, void *buffer, int64_t p,
                                 int64_t end, int64_t *n)
{
    int last = a->ndim - 1;
    int64_t column = p % a->shape[last], rest = p / a->shape[last];
    int64_t at = column * a->stride[last];

    for (int d = last - 1; d >= 0; d--) {
        at += rest % a->shape[d] * a->stride[d];
        rest /= a->shape[d];
    }
    *n = weir__min(weir__min(end - p, a->shape[last] - column), WEIR__ROW_CHUNK);
    return WEIR__ISA_NAME(weir__row_load)(buffer, WEIR_BOOL,
                                          a->in + at * (int64_t)weir__elem_size(a->dtype), a->dtype,
                                          a->stride[last], *n);
}

static int64_t count(const struct weir__nonzero *a, void *buffer, struct weir__range r)
{
    int64_t total = 0, n;

    for (int64_t p = r.begin; p < r.end; p += n) {
        const uint8_t *flags = load_flags(a, buffer, p, r.end, &n);
        int32_t sum = 0;

        for (int64_t i = 0; i < n; i++)
            sum += flags[i] != 0;
        total += sum;
    }
    return total;
}

/* Writes the coordinates of position p, except the last one, to coord. */
static void find_coords(const struct weir__nonzero *a, int64_t p, int64_t *coord)
{
    int last = a->coords - 1;

    p /= a->coord_shape[last];
    for (int d = last - 1; d >= 0; d--) {
        coord[d] = p % a->coord_shape[d];
        p /= a->coord_shape[d];
    }
}

static void write(const struct weir__nonzero *a, void *buffer, struct weir__range r, int64_t row)
{
    int64_t coord[WEIR_MAX_DIMS], found[WEIR__ROW_CHUNK], line = -1, n, m;
    int last = a->coords - 1;

    if (a->coords == 0)
        return;
    for (int64_t p = r.begin; p < r.end; p += n) {
        const uint8_t *flags = load_flags(a, buffer, p, r.end, &n);

        m = 0;
        for (int64_t i = 0; i < n; i++) {
            found[m] = p + i; /* overwritten by the next position unless this one is nonzero */
            m += flags[i] != 0;
        }
        for (int64_t i = 0; i < m; i++, row++) {
            int64_t *out = a->out + row * a->out_row, at = found[i] - line;

            if (line < 0 || at >= a->coord_shape[last]) {
                line = found[i] / a->coord_shape[last] * a->coord_shape[last];
                at = found[i] - line;
                find_coords(a, found[i], coord);
            }
            for (int d = 0; d < last; d++)
                out[d * a->out_step] = coord[d];
            out[last * a->out_step] = at;
        }
    }
}

/* Fills this block's part of the rows past the count with -1. */
static void pad(const struct weir__nonzero *a, int64_t total, const weir_block *block)
{
    int64_t rest = a->numel - total, share = rest / block->count + 1;
    int64_t begin = total + weir__min(share * block->index, rest);
    int64_t end = weir__min(begin + share, a->numel);

    for (int64_t row = begin; row < end; row++)
        for (int d = 0; d < a->coords; d++)
            a->out[row * a->out_row + d * a->out_step] = -1;
}

weir_status WEIR__ISA_NAME(weir__nonzero_kernel)(const void *args, const weir_block *block)
{
    const struct weir__nonzero *a = args;
    struct weir__range r = weir__tile_range(a->numel, 64, block);
    int64_t before = 0, total = 0;

    if (block->phase == 0) {
        a->counts[block->index] = count(a, block->local, r);
        return WEIR_OK;
    }
    for (unsigned b = 0; b < block->count; b++) {
        before += b < block->index ? a->counts[b] : 0;
        total += a->counts[b];
    }
    write(a, block->local, r, before);
    if (a->pad)
        pad(a, total, block);
    if (block->index == block->count - 1)
        *a->count = total;
    return WEIR_OK;
}
