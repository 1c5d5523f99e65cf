/* Chains with a norm of rows. A joined norm gives the same bits as a launch of its own: elements
 * are rounded to their type before it, and sums have the same order (kernels/math/row.cuh) if its
 * operands are aligned to 16 bytes. */
#include <string.h>

#include "base/base.h"
#include "ops/gpu/chain.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/layout.h"
#include "ops/gpu/spread.h"
#include "ops/host/math/norm.h"
#include "ops/host/row.h"

_Static_assert(sizeof(struct weir__chain_norm) <= WEIR_ARGS_MAX, "a launch's arguments hold it");

/* The chunks of 16 bytes that a thread holds of a row: 1, 2, 4 or 8. 0 if rows do not consist of
 * whole chunks or are too long. */
static uint8_t held_chunks(int64_t n, size_t elem, uint32_t *threads)
{
    int64_t pack = 16 / (int64_t)elem, chunks = n / pack;
    uint8_t held = 1;

    *threads = (uint32_t)weir__min(weir__div_up(weir__max(chunks, 1), 64) * 32, 512);
    if (n % pack || chunks > 8 * (int64_t)*threads)
        return 0;
    while (held * (int64_t)*threads < chunks)
        held *= 2;
    return held;
}

static bool rows_are_packed(const struct weir__rows *rows, const int64_t *stride)
{
    int64_t next = rows->n;

    for (int d = rows->ndim - 1; d >= 0; next *= rows->shape[d--])
        if (stride[d] != next && rows->shape[d] != 1)
            return false;
    return rows->in_step == 1 && rows->out_step == 1;
}

bool weir__chain_norm_join(void *joined, const void *norm, bool keep)
{
    struct weir__chain_norm *j = joined;
    const struct weir__norm *a = norm;
    int step = weir__chain_find_result(&j->chain, a->in, (uint8_t)a->dtype);
    uint32_t threads;

    if (step < 0 || !keep || j->chain.numel != a->rows.count * a->rows.n ||
        !held_chunks(a->rows.n, weir__elem_size(a->dtype), &threads) ||
        !rows_are_packed(&a->rows, a->rows.in_stride) ||
        !rows_are_packed(&a->rows, a->rows.out_stride))
        return false;
    j->out = a->out;
    j->weight = a->weight;
    j->bias = a->bias;
    j->weight_step = a->weight_step;
    j->bias_step = a->bias_step;
    j->count = a->rows.count;
    j->n = a->rows.n;
    j->eps = a->eps;
    j->type = (uint8_t)a->dtype;
    j->centred = a->centred;
    j->step = (uint8_t)step;
    return true;
}

/* The layout of the norm's own operand; 255: there is none. */
static uint8_t lies(const char *data, int64_t step)
{
    if (!data)
        return 255;
    return step != 1              ? WEIR__LAYOUT_ANY
           : (uintptr_t)data & 15 ? WEIR__LAYOUT_LOOSE
                                  : WEIR__LAYOUT_NEXT;
}

struct form {
    struct weir__chain_form chain;
    uint8_t held, out, weight, bias;
    uint32_t threads;
};

static void find_form(const struct weir__chain_norm *j, struct form *form)
{
    *form = (struct form){
        .out = lies(j->out, 1),
        .weight = lies(j->weight, j->weight_step),
        .bias = lies(j->bias, j->bias_step),
    };
    form->held = held_chunks(j->n, weir__elem_size(j->type), &form->threads);
    form->chain.pack = (uint8_t)(16 / weir__elem_size(j->type));
    weir__chain_find_layouts(&j->chain, &form->chain);
}

static void chain_norm_shape(const void *args, unsigned phase, unsigned cores,
                             struct weir__code_launch *l)
{
    const struct weir__chain_norm *j = args;
    struct form form;
    uint64_t h;

    (void)phase;
    find_form(j, &form);
    h = weir__chain_hash(&j->chain, &form.chain);
    h = weir__chain_mix(
        h, (uint8_t[]){j->type, j->centred, j->step, form.held, form.out, form.weight, form.bias},
        7);
    memcpy(l->variant, &h, sizeof h);
    l->threads = form.threads;
    weir__gpu_spread(j->count, cores, 2048 / l->threads, l);
}

static void chain_norm_write(const void *args, struct weir__text *text)
{
    const struct weir__chain_norm *j = args;
    struct form form;

    find_form(j, &form);
    weir__text_add(text,
                   "#include \"chain_norm.cuh\"\n\n"
                   "struct First {\n"
                   "    static __device__ inline Pack<Type<%d>::store, %d> "
                   "run(const weir__chain &c, int64_t i)\n    {\n    constexpr int n = %d;\n",
                   j->type, form.chain.pack, form.chain.pack);
    weir__chain_write_steps(&j->chain, &form.chain, text);
    weir__text_add(
        text,
        "    return r%d;\n    }\n};\n\n"
        "extern \"C\" __global__ void __launch_bounds__(512) "
        "chain_norm(const __grid_constant__ weir__chain_norm a)\n{\n"
        "    await_earlier();\n"
        "    int turn = 0;\n"
        "    for (int64_t row = blockIdx.x; row < a.count; row += gridDim.x, turn ^= 1)\n"
        "        norm_row<%d, %d, %d, %d, %d, %d, First>(a, row, turn);\n}\n",
        j->step, j->type, j->centred, form.held, form.out, form.weight, form.bias);
}

const struct weir__code weir__gpu_chain_norm = {
    .text = "chain_norm", .shape = chain_norm_shape, .write = chain_norm_write};
