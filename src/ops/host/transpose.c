/* Transposing copies through a tile that stays in the first-level cache. */
#include "ops/host/transpose.h"

#include "ops/host/row.h"
#include "ops/tile.h"

#define TILE WEIR__TRANSPOSE_TILE

/* Reads along in's rows, so that every line is used whole while it is here. */
#define TURN(type)                                   \
    do {                                             \
        const type *s = (const void *)in;            \
        type *d = tile;                              \
        for (int64_t c = 0; c < cols; c++)           \
            for (int64_t r = 0; r < rows; r++)       \
                d[r * TILE + c] = s[c * in_col + r]; \
    } while (0)

static void turn(void *tile, const char *in, int64_t in_col, size_t elem, int64_t rows,
                 int64_t cols)
{
    switch (elem) {
    case 1:
        TURN(uint8_t);
        break;
    case 2:
        TURN(uint16_t);
        break;
    case 4:
        TURN(uint32_t);
        break;
    default:
        TURN(uint64_t);
        break;
    }
}

weir_status WEIR__ISA_NAME(weir__transpose_kernel)(const void *args, const weir_block *block)
{
    const struct weir__transpose *t = args;
    size_t in_elem = weir__elem_size(t->in_type), out_elem = weir__elem_size(t->out_type);
    int64_t down = weir__div_up(t->rows, TILE), across = weir__div_up(t->cols, TILE);
    struct weir__range range = weir__tile_range(weir__transpose_tiles(t), 1, block);
    char *tile = block->local;

    for (int64_t i = range.begin; i < range.end; i++) {
        int64_t c = i % across * TILE, r = i / across % down * TILE, outer = i / across / down;
        int64_t rows = weir__min(TILE, t->rows - r), cols = weir__min(TILE, t->cols - c);
        int64_t in = r + c * t->in_col, out = r * t->out_row + c;

        for (int d = t->nouter - 1; d >= 0; d--) {
            in += outer % t->shape[d] * t->in_stride[d];
            out += outer % t->shape[d] * t->out_stride[d];
            outer /= t->shape[d];
        }
        turn(tile, t->in + in * (int64_t)in_elem, t->in_col, in_elem, rows, cols);
        for (int64_t k = 0; k < rows; k++)
            WEIR__ISA_NAME(weir__row_convert)
        (t->out + (out + k * t->out_row) * (int64_t)out_elem, t->out_type,
         tile + (size_t)(k * TILE) * in_elem, t->in_type, cols);
    }
    return WEIR_OK;
}
