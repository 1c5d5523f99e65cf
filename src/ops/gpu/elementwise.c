/* Elementwise operators, moves and generators on a GPU. */
#include "ops/host/math/elementwise.h"

#include <string.h>

#include "ops/gpu/chain.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/layout.h"
#include "ops/gpu/spread.h"
#include "ops/host/move/concat.h"
#include "ops/host/move/generate.h"
#include "ops/host/move/transpose.h"
#include "ops/host/row.h"

/* The layout of operand `i`; -1 is the output. */
static enum weir__layout layout_of(const struct weir__ew *e, int i, unsigned pack)
{
    size_t elem = weir__elem_size(i < 0 ? e->out_type : e->in_type[i]);
    const int64_t *stride = i < 0 ? e->out_stride : e->in_stride[i];
    uintptr_t bits = (uintptr_t)(i < 0 ? e->out : e->in[i]);
    int inner = e->ndim - 1;

    if (i >= 0 && !e->in[i])
        return WEIR__LAYOUT_SAME;
    if (!e->ndim)
        return weir__layout_of(bits, elem, 0, 1, pack);
    for (int d = 0; d < inner; d++)
        bits |= (uintptr_t)stride[d] * elem;
    if (i < 0 && stride[inner] != 1) /* packs are written only to contiguous outputs */
        return WEIR__LAYOUT_ANY;
    return weir__layout_of(bits, elem, e->shape[inner], stride[inner], pack);
}

/* Whether 32-bit offsets are enough for the call. */
static bool fits(const struct weir__ew *e)
{
    if (e->numel > INT32_MAX)
        return false;
    for (int i = -1; i < e->nin; i++) {
        const int64_t *stride = i < 0 ? e->out_stride : e->in_stride[i];

        for (int d = 0; d < e->ndim; d++)
            if (stride[d] > INT32_MAX)
                return false;
    }
    return true;
}

static unsigned log2_of(unsigned pack)
{
    unsigned log2 = 0;

    while (1u << log2 < pack)
        log2++;
    return log2;
}

/* An exponent that avoids the general power becomes part of the source: the general power uses many
 * registers even if it is not executed. */
uint8_t weir__gpu_ew_code(const struct weir__ew *e)
{
    double exponent = 0;
    float narrow;

    if (e->code != WEIR__BINARY_POW || e->in[1])
        return e->code;
    switch (e->in_type[0]) {
    case WEIR_F32:
    case WEIR_F16:
    case WEIR_BF16:
        memcpy(&narrow, e->constant, sizeof narrow);
        exponent = (double)narrow;
        break;
    case WEIR_F64:
        exponent = e->constant[0];
        break;
    default: /* integers have no special cube */
        break;
    }
    return exponent == 3 ? WEIR__EW_CUBE : e->code;
}

static void ew_shape(const void *args, unsigned phase, unsigned cores, struct weir__code_launch *l)
{
    const struct weir__ew *e = args;
    size_t narrowest = weir__elem_size(e->out_type), widest = narrowest;
    unsigned pack, mask = 0, lies;
    bool simple;

    (void)phase;
    for (int i = 0; i < e->nin; i++) {
        size_t elem = weir__elem_size(e->in_type[i]);

        mask |= e->in[i] ? 0 : 1u << i;
        if (!e->in[i])
            continue;
        narrowest = elem < narrowest ? elem : narrowest;
        widest = elem > widest ? elem : widest;
    }
    pack = weir__layout_pack(narrowest, widest, e->ndim ? e->shape[e->ndim - 1] : 0);
    lies = layout_of(e, -1, pack);
    for (int i = 0; i < e->nin; i++)
        lies |= (unsigned)layout_of(e, i, pack) << (2 * i + 2);
    l->variant[0] = weir__gpu_ew_code(e);
    l->variant[1] = e->out_type;
    l->variant[2] = e->in_type[0];
    l->variant[3] = e->in_type[e->nin > 1 ? 1 : 0];
    l->variant[4] = e->in_type[e->nin > 2 ? 2 : 0];
    l->variant[5] = (uint8_t)mask;
    weir__gpu_spread_threads(weir__div_up(e->numel, pack), cores, l);
    simple = e->ndim ? fits(e)
                     : e->numel == (e->numel & -(int64_t)pack) &&
                           (int64_t)l->grid * l->threads * pack >= e->numel;
    l->variant[6] = (uint8_t)(log2_of(pack) | (unsigned)e->ndim << 3 | (simple ? 128 : 0));
    l->variant[7] = (uint8_t)lies;
}

const struct weir__code weir__gpu_ew = {
    .text = "ew",
    .shape = ew_shape,
    .joined = &weir__gpu_chain,
    .joined_size = sizeof(struct weir__chain),
    .join = weir__chain_join,
};

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

/* Whether n elements of the last dim can always be moved at once, in memory that begins at `data`
 * with these strides (NULL: packed). Raises `reach` to the farthest offset. */
static bool moves_by(const struct weir__concat *c, const void *data, int64_t along,
                     const int64_t *stride, int64_t n, int64_t *reach)
{
    uintptr_t bytes = (uintptr_t)n * weir__elem_size(c->dtype);
    int64_t end = 0, packed = 1;

    for (int d = c->ndim - 1; d >= 0; d--) {
        int64_t size = d == c->dim ? along : c->shape[d], step = stride ? stride[d] : packed;

        if (d == c->ndim - 1 ? size % n || (n > 1 && size > 1 && step != 1) : size > 1 && step % n)
            return false;
        if (step < 0)
            end = INT64_MAX / 2; /* offsets count from the first element: more than 32 bits */
        else
            end += (size - 1) * step;
        packed *= size;
    }
    *reach = weir__max(*reach, end);
    return (uintptr_t)data % bytes == 0;
}

/* The same for the output and all inputs. */
static bool concat_moves_by(const struct weir__concat *c, int64_t n, int64_t *reach)
{
    const int64_t *piece = c->pieces;

    if (!moves_by(c, c->out, c->shape[c->dim], c->stride, n, reach))
        return false;
    for (int i = 0; i < c->npieces; i++, piece += c->strided ? 2 + c->ndim : 2)
        if (piece[1] && !moves_by(c, (const void *)(uintptr_t)piece[0], piece[1],
                                  c->strided ? piece + 2 : NULL, n, reach))
            return false;
    return true;
}

static void concat_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__concat *c = args;
    int64_t elem = (int64_t)weir__elem_size(c->dtype), at_once = 16 / elem, all = 1, reach = 0;

    (void)phase;
    for (int d = 0; d < c->ndim; d++)
        all *= c->shape[d];
    while (at_once > 1 && !concat_moves_by(c, at_once, &reach))
        at_once /= 2;
    reach = 0;
    (void)concat_moves_by(c, at_once, &reach);
    l->variant[0] = (uint8_t)elem;
    l->variant[1] = (uint8_t)at_once;
    l->variant[2] = weir__max(reach, all) < INT32_MAX;
    weir__gpu_spread_threads(all / at_once, cores, l);
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
