/* Products on a GPU. */
#include <string.h>

#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"
#include "ops/host/product/gemm.h"

static void gemm_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__gemm_stack *s = args;
    bool tiles = weir_dtype_size(s->gemm.dtype) == 2 && l->arch >= 80; /* gemm_tiles.cuh */
    int64_t side = tiles ? 64 : 16;

    (void)phase;
    l->variant[0] = (uint8_t)s->gemm.dtype;
    l->threads = tiles ? 128 : 256;
    weir__gpu_spread(s->batch * weir__div_up(s->gemm.m, side) * weir__div_up(s->gemm.n, side),
                     cores, 8, l);
}

static bool gemm_product(const void *args, struct weir__product *p)
{
    const struct weir__gemm_stack *s = args;
    const struct weir__gemm *g = &s->gemm;

    if (!weir_dtype_is_float(g->dtype) || !g->m || !g->n || !g->k || !s->batch)
        return false;
    *p = (struct weir__product){
        .dtype = g->dtype,
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .a = g->a,
        .b = g->b,
        .bias = g->bias,
        .c = g->c,
        .a_row = g->a_row,
        .a_col = g->a_col,
        .b_row = g->b_row,
        .b_col = g->b_col,
        .c_row = g->c_row,
        .c_col = g->c_col,
        .bias_step = g->bias_col,
        .ndims = s->ndims,
    };
    memcpy(p->shape, s->shape, sizeof s->shape);
    memcpy(p->a_step, s->a_step, sizeof s->a_step);
    memcpy(p->b_step, s->b_step, sizeof s->b_step);
    memcpy(p->c_step, s->c_step, sizeof s->c_step);
    return true;
}

const struct weir__code weir__gpu_gemm = {
    .text = "gemm", .contract = true, .shape = gemm_shape, .product = gemm_product};
