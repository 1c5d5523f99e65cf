/* Elementwise operators, moves and generators on a GPU. */
#include "ops/host/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"
#include "ops/host/concat.h"
#include "ops/host/generate.h"
#include "ops/host/row.h"
#include "ops/host/transpose.h"

/* As many elements as 16 bytes of the widest operand hold, if every operand lies for it. */
static unsigned pack_of(const struct weir__ew *e)
{
    size_t widest = weir__elem_size(e->out_type), pack;
    uintptr_t bits = (uintptr_t)e->out;

    for (int i = 0; i < e->nin; i++)
        if (e->in[i]) {
            bits |= (uintptr_t)e->in[i];
            if (weir__elem_size(e->in_type[i]) > widest)
                widest = weir__elem_size(e->in_type[i]);
        }
    pack = 16 / widest;
    return bits & 15 ? 1 : (unsigned)pack;
}

static void ew_shape(const void *args, unsigned phase, unsigned cores, struct weir__code_launch *l)
{
    const struct weir__ew *e = args;
    unsigned pack = e->ndim ? 0 : pack_of(e), mask = 0;

    (void)phase;
    for (int i = 0; i < e->nin; i++)
        mask |= e->in[i] ? 0 : 1u << i;
    l->variant[0] = e->code;
    l->variant[1] = e->out_type;
    l->variant[2] = e->in_type[0];
    l->variant[3] = e->in_type[e->nin > 1 ? 1 : 0];
    l->variant[4] = e->in_type[e->nin > 2 ? 2 : 0];
    l->variant[5] = (uint8_t)mask;
    l->variant[6] = (uint8_t)pack;
    l->variant[7] = !pack && e->numel <= INT32_MAX;
    weir__gpu_spread_threads(pack ? weir__div_up(e->numel, pack) : e->numel, cores, l);
}

const struct weir__code weir__gpu_ew = {.text = "ew", .shape = ew_shape};

static void transpose_shape(const void *args, unsigned phase, unsigned cores,
                            struct weir__code_launch *l)
{
    const struct weir__transpose *t = args;

    (void)phase;
    l->variant[0] = (uint8_t)t->out_type;
    l->variant[1] = (uint8_t)t->in_type;
    weir__gpu_spread(t->outer * weir__div_up(t->rows, 32) * weir__div_up(t->cols, 32), cores, 16,
                     l);
}

const struct weir__code weir__gpu_transpose = {.text = "transpose", .shape = transpose_shape};

static void concat_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__concat *c = args;
    int64_t n = 1;

    (void)phase;
    for (int d = 0; d < c->ndim; d++)
        n *= c->shape[d];
    l->variant[0] = (uint8_t)weir__elem_size(c->dtype);
    weir__gpu_spread_threads(n, cores, l);
}

const struct weir__code weir__gpu_concat = {.text = "concat", .shape = concat_shape};

static void gen_shape(const void *args, unsigned phase, unsigned cores, struct weir__code_launch *l)
{
    const struct weir__gen *g = args;

    (void)phase;
    l->variant[0] = (uint8_t)g->dtype;
    l->variant[1] = (uint8_t)g->kind;
    weir__gpu_spread_threads(g->numel, cores, l);
}

const struct weir__code weir__gpu_gen = {.text = "gen", .shape = gen_shape};
