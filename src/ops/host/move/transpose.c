/* Transposes through a tile that stays in the first-level cache. */
#include "ops/host/move/transpose.h"

#include "ops/host/box.h"
#include "ops/host/row.h"
#include "ops/tile.h"

#define TILE WEIR__TRANSPOSE_TILE

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
        struct weir__box box;

        for (int d = t->nouter - 1; d >= 0; d--) {
            in += outer % t->shape[d] * t->in_stride[d];
            out += outer % t->shape[d] * t->out_stride[d];
            outer /= t->shape[d];
        }
        WEIR__ISA_NAME(weir__box_init)
        (&box, 2, (int64_t[]){rows, cols}, (int64_t[]){1, t->in_col});
        WEIR__ISA_NAME(weir__box_pack)(tile, t->in + in * (int64_t)in_elem, &box, in_elem);
        for (int64_t k = 0; k < rows; k++)
            WEIR__ISA_NAME(weir__row_convert)
        (t->out + (out + k * t->out_row) * (int64_t)out_elem, t->out_type,
         tile + (size_t)(k * cols) * in_elem, t->in_type, cols);
    }
    return WEIR_OK;
}
