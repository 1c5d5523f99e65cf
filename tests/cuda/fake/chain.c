/* Chains of elementwise calls: step by step with the host's kernels, each result in memory of its
 * own until the end, when what is kept is written. */
#include "ops/gpu/chain.h"

#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "ops/host/math/norm.h"
#include "ops/host/row.h"

static weir__ew_fn function_of(const struct weir__chain_step *s)
{
    if (s->code == WEIR__EW_CONVERT)
        return NULL;
    if (s->code == WEIR__EW_WHERE)
        return WEIR__ISA_PICK(weir__where)(weir__elem_size(s->out_type));
    if (s->code == WEIR__EW_SWIGLU)
        return s->out_type == WEIR_F64 ? WEIR__ISA_PICK(weir__swiglu_f64)
                                       : WEIR__ISA_PICK(weir__swiglu_f32);
    if (s->code >= WEIR__EW_UNARY)
        return WEIR__ISA_PICK(weir__unary)->fn[s->code - WEIR__EW_UNARY][s->in_type[0]];
    return WEIR__ISA_PICK(weir__binary)->fn[s->code][s->in_type[0]];
}

/* The operand's elements one after the other, as the texts find them: by the divisors. */
static char *pack(const struct weir__chain *c, const struct weir__chain_operand *o)
{
    size_t elem = weir__elem_size(o->type);
    char *packed = malloc((size_t)c->numel * elem);

    if (!packed)
        abort();
    for (int64_t i = 0; i < c->numel; i++) {
        int64_t at = o->ndim ? 0 : i;
        uint32_t rest = (uint32_t)i;

        for (int d = o->ndim - 1; d >= 0; d--) {
            const struct weir__chain_dim *dim = &c->dim[o->dim + d];
            uint64_t high = (uint64_t)rest * dim->divisor.magic >> 32;
            uint32_t next = (uint32_t)(high + rest) >> dim->divisor.shift;

            if (next != rest / dim->size)
                fake_misuse("%u / %u is not %u", rest, dim->size, next);
            at += (int64_t)(rest % dim->size) * c->stride[o->stride + d];
            rest = next;
        }
        memcpy(packed + i * (int64_t)elem, o->data + at * (int64_t)elem, elem);
    }
    return packed;
}

static char *run_step(const struct weir__chain *c, int s, char *const *result,
                      const weir_block *block)
{
    const struct weir__chain_step *step = &c->step[s];
    bool raw = step->code == WEIR__EW_CONVERT || step->code == WEIR__EW_WHERE;
    char *own[WEIR__EW_MAX_IN] = {0};
    struct weir__ew e = {
        .fn = function_of(step),
        .code = step->code,
        .numel = c->numel,
        .out = malloc((size_t)c->numel * weir__elem_size(step->out_type)),
        .nin = step->nin,
        .out_type = step->out_type,
        .out_compute = raw ? step->out_type : (unsigned char)weir__compute_type(step->out_type),
    };

    if (!e.out)
        abort();
    memcpy(e.constant, c->constant[s], sizeof e.constant);
    for (int i = 0; i < step->nin; i++) {
        int in = step->in[i];

        e.in_type[i] = step->in_type[i];
        e.in_compute[i] = !e.fn ? e.out_compute
                          : raw ? e.in_type[i]
                                : (unsigned char)weir__compute_type(e.in_type[i]);
        if (in >= 0)
            e.in[i] = own[i] = pack(c, &c->operand[in]);
        else if (in != WEIR__CHAIN_CONSTANT)
            e.in[i] = result[WEIR__CHAIN_RESULT(in)];
    }
    WEIR__ISA_PICK(weir__ew_kernel)(&e, block);
    for (int i = 0; i < step->nin; i++)
        free(own[i]);
    return e.out;
}

static void run_steps(const struct weir__chain *c, char **result, const weir_block *block)
{
    for (int s = 0; s < c->nsteps; s++)
        result[s] = run_step(c, s, result, block);
}

static void write_results(const struct weir__chain *c, char **result)
{
    for (int s = 0; s < c->nsteps; s++) {
        const struct weir__chain_step *step = &c->step[s];

        if (step->out != WEIR__CHAIN_NOWHERE)
            memcpy(c->operand[step->out].data, result[s],
                   (size_t)c->numel * weir__elem_size(step->out_type));
        free(result[s]);
    }
}

weir_status fake_chain(const void *args, const weir_block *block)
{
    char *result[WEIR__CHAIN_STEPS];

    run_steps(args, result, block);
    write_results(args, result);
    return WEIR_OK;
}

weir_status fake_chain_norm(const void *args, const weir_block *block)
{
    const struct weir__chain_norm *j = args;
    char *result[WEIR__CHAIN_STEPS];
    struct weir__norm norm = {
        .out = j->out,
        .weight = j->weight,
        .bias = j->bias,
        .weight_step = j->weight_step,
        .bias_step = j->bias_step,
        .dtype = j->type,
        .centred = j->centred,
        .eps = j->eps,
        .rows = {.count = j->count,
                 .n = j->n,
                 .in_step = 1,
                 .out_step = 1,
                 .ndim = 1,
                 .shape = {j->count},
                 .in_stride = {j->n},
                 .out_stride = {j->n}},
    };

    run_steps(&j->chain, result, block);
    norm.in = result[j->step];
    WEIR__ISA_PICK(weir__norm_kernel)(&norm, block);
    write_results(&j->chain, result);
    return WEIR_OK;
}
