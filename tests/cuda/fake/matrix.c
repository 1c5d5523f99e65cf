/* Kernels whose arguments carry the host's function and how to cut the work: all of it as one
 * piece. The structs begin as those of src/ops do. And sorting, which takes other scratch memory
 * on a GPU. */
#include <stdlib.h>

#include "fake.h"
#include "ops/host/move/sort.h"
#include "ops/host/product/attention.h"
#include "ops/host/product/conv.h"
#include "ops/host/product/gemm.h"

struct gemm_args {
    struct weir__gemm_stack stack;
    void (*run)(const struct weir__gemm *g, void *local);
};

struct conv_args {
    struct weir__conv conv;
    int64_t images;
    void (*run)(const struct weir__conv *c, int64_t image, int64_t group, int64_t o0, int64_t o1,
                int64_t y0, int64_t y1, void *local);
};

struct attention_args {
    struct weir__attention attention;
    void (*run)(const struct weir__attention *a, int64_t unit, void *local);
    void (*combine)(const struct weir__attention *a, int64_t row, void *local);
    int64_t units;
};

weir_status fake_gemm(const void *pointer, const weir_block *block)
{
    const struct gemm_args *args = pointer;
    const struct weir__gemm_stack *s = &args->stack;
    int64_t size = (int64_t)weir_dtype_size(s->gemm.dtype);
    int64_t out = s->gemm.dtype == WEIR_I8 ? 4 : size; /* products of i8 are i32 */

    for (int64_t i = 0; i < s->batch; i++) {
        struct weir__gemm g = s->gemm;
        int64_t rest = i;

        for (int d = s->ndims - 1; d >= 0; d--) {
            int64_t at = rest % s->shape[d];

            rest /= s->shape[d];
            g.a += at * s->a_step[d] * size;
            g.b += at * s->b_step[d] * size;
            g.c += at * s->c_step[d] * out;
        }
        args->run(&g, block->local);
    }
    return WEIR_OK;
}

weir_status fake_conv(const void *pointer, const weir_block *block)
{
    const struct conv_args *args = pointer;
    const struct weir__conv *c = &args->conv;

    for (int64_t i = 0; i < args->images * c->groups; i++)
        args->run(c, i / c->groups, i % c->groups, 0, c->outputs, 0, c->oh, block->local);
    return WEIR_OK;
}

weir_status fake_attention(const void *pointer, const weir_block *block)
{
    const struct attention_args *args = pointer;
    struct weir__attention a = args->attention;
    int64_t units = args->units / a.splits;

    a.splits = 1; /* the GPU's parts are of its own making */
    a.split_keys = a.lk;
    for (int64_t unit = 0; unit < units; unit++)
        args->run(&a, unit, block->local);
    return WEIR_OK;
}

weir_status fake_sort(const void *pointer, const weir_block *block)
{
    struct weir__sort sort = *(const struct weir__sort *)pointer;
    weir_status st;

    if (sort.wide_rows && !(sort.wide_rows = malloc(WEIR__SORT_BYTES(sort.rows.n))))
        abort();
    st = WEIR__ISA_PICK(weir__sort_kernel)(&sort, block);
    free(sort.wide_rows);
    return st;
}
