/* Joins elementwise calls to chains, one at a time. */
#include "ops/gpu/chain.h"

#include <string.h>

#include "ops/gpu/gpu.h"
#include "ops/gpu/layout.h"
#include "ops/gpu/spread.h"
#include "ops/host/row.h"

_Static_assert(sizeof(struct weir__chain) <= WEIR_ARGS_MAX, "a launch's arguments hold a chain");

/* ---- joining ---- */

int weir__chain_find_result(const struct weir__chain *c, const char *data, uint8_t type)
{
    int s = c->nsteps - 1;

    while (s >= 0 && (c->written[s] != data || c->step[s].out_type != type))
        s--;
    return s;
}

static bool same_dims(const struct weir__chain_dim *dim, const struct weir__ew *e)
{
    for (int d = 0; d < e->ndim; d++)
        if (dim[d].size != (uint32_t)e->shape[d])
            return false;
    return true;
}

/* Finds or adds the call's dims among the chain's; -1 if there is no room. */
static int add_dims(struct weir__chain *c, const struct weir__ew *e)
{
    int first = 0;

    while (first + e->ndim <= c->ndims && !same_dims(&c->dim[first], e))
        first++;
    if (first + e->ndim <= c->ndims)
        return first;
    first = c->ndims;
    if (e->numel > INT32_MAX || first + e->ndim > WEIR__CHAIN_DIMS)
        return -1;
    for (int d = 0; d < e->ndim; d++)
        c->dim[first + d] = (struct weir__chain_dim){(uint32_t)e->shape[d], e->divisor[d]};
    c->ndims = (uint8_t)(c->ndims + e->ndim);
    return first;
}

static bool is_packed(const struct weir__ew *e, const int64_t *stride)
{
    int64_t next = 1;

    for (int d = e->ndim - 1; d >= 0; next *= e->shape[d--])
        if (stride[d] != next)
            return false;
    return true;
}

static bool same_operand(const struct weir__chain *c, const struct weir__chain_operand *a,
                         const struct weir__chain_operand *b, const int64_t *stride)
{
    return a->data == b->data && a->type == b->type && a->ndim == b->ndim && a->dim == b->dim &&
           !memcmp(&c->stride[a->stride], stride, b->ndim * sizeof *stride);
}

/* Finds or adds an operand of the call; -1 if there is no room. */
static int add_operand(struct weir__chain *c, const struct weir__ew *e, const char *data,
                       uint8_t type, const int64_t *stride)
{
    struct weir__chain_operand o = {.data = (char *)data, .type = type};

    if (!is_packed(e, stride)) {
        int dim = add_dims(c, e);

        if (dim < 0)
            return -1;
        o.ndim = (uint8_t)e->ndim;
        o.dim = (uint8_t)dim;
    }
    for (int i = 0; i < c->noperands; i++)
        if (same_operand(c, &c->operand[i], &o, stride))
            return i;
    if (c->noperands == WEIR__CHAIN_OPERANDS || c->nstrides + o.ndim > WEIR__CHAIN_STRIDES)
        return -1;
    o.stride = c->nstrides;
    memcpy(&c->stride[o.stride], stride, o.ndim * sizeof *stride);
    c->nstrides = (uint8_t)(c->nstrides + o.ndim);
    c->operand[c->noperands] = o;
    return c->noperands++;
}

static bool add_input(struct weir__chain *c, const struct weir__ew *e, int i, int8_t *in)
{
    int result, operand;

    if (!e->in[i]) {
        *in = WEIR__CHAIN_CONSTANT;
        return true;
    }
    if (is_packed(e, e->in_stride[i]) &&
        (result = weir__chain_find_result(c, e->in[i], e->in_type[i])) >= 0) {
        *in = (int8_t)WEIR__CHAIN_RESULT(result);
        return true;
    }
    operand = add_operand(c, e, e->in[i], e->in_type[i], e->in_stride[i]);
    *in = (int8_t)operand;
    return operand >= 0;
}

static bool add_step(struct weir__chain *c, const struct weir__ew *e, bool keep)
{
    struct weir__chain_step *step = &c->step[c->nsteps];

    if (c->nsteps == WEIR__CHAIN_STEPS || (c->nsteps && c->numel != e->numel) ||
        !is_packed(e, e->out_stride))
        return false;
    *step = (struct weir__chain_step){.code = weir__gpu_ew_code(e),
                                      .nin = e->nin,
                                      .out_type = e->out_type,
                                      .out = WEIR__CHAIN_NOWHERE};
    for (int i = 0; i < WEIR__EW_MAX_IN; i++) {
        step->in_type[i] = e->in_type[i < e->nin ? i : 0];
        if (i < e->nin && !add_input(c, e, i, &step->in[i]))
            return false;
    }
    if (keep) {
        int out = add_operand(c, e, e->out, e->out_type, e->out_stride);

        if (out < 0)
            return false;
        step->out = (int8_t)out;
    }
    c->numel = e->numel;
    memcpy(c->constant[c->nsteps], e->constant, sizeof e->constant);
    c->written[c->nsteps++] = e->out;
    return true;
}

bool weir__chain_join(void *chain, const void *ew, bool keep)
{
    struct weir__chain longer = *(struct weir__chain *)chain;

    if (!add_step(&longer, ew, keep))
        return false;
    *(struct weir__chain *)chain = longer;
    return true;
}

/* ---- launching ---- */

void weir__chain_find_form(const struct weir__chain *c, struct weir__chain_form *form)
{
    size_t narrowest = sizeof(double), widest = 1;
    int64_t inner = 0; /* bits of all strides: a power of two that divides it divides each stride */

    *form = (struct weir__chain_form){0};
    for (int i = 0; i < c->noperands; i++) {
        const struct weir__chain_operand *o = &c->operand[i];
        size_t elem = weir__elem_size(o->type);

        narrowest = elem < narrowest ? elem : narrowest;
        widest = elem > widest ? elem : widest;
        if (o->ndim)
            inner |= c->dim[o->dim + o->ndim - 1].size;
    }
    form->pack = (uint8_t)weir__layout_pack(narrowest, widest, inner);
    weir__chain_find_layouts(c, form);
}

void weir__chain_find_layouts(const struct weir__chain *c, struct weir__chain_form *form)
{
    for (int i = 0; i < c->noperands; i++) {
        const struct weir__chain_operand *o = &c->operand[i];
        const int64_t *stride = &c->stride[o->stride];
        size_t elem = weir__elem_size(o->type);
        uintptr_t bits = (uintptr_t)o->data;

        for (int d = 0; d < o->ndim - 1; d++)
            bits |= (uintptr_t)stride[d] * elem;
        form->layout[i] =
            (uint8_t)weir__layout_of(bits, elem, o->ndim ? c->dim[o->dim + o->ndim - 1].size : 0,
                                     o->ndim ? stride[o->ndim - 1] : 1, form->pack);
    }
}

uint64_t weir__chain_mix(uint64_t h, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return h;
}

uint64_t weir__chain_hash(const struct weir__chain *c, const struct weir__chain_form *form)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    h = weir__chain_mix(h, &c->nsteps, 1);
    h = weir__chain_mix(h, c->step, c->nsteps * sizeof *c->step);
    h = weir__chain_mix(h, &form->pack, 1);
    for (int i = 0; i < c->noperands; i++) {
        const struct weir__chain_operand *o = &c->operand[i];

        h = weir__chain_mix(h, (uint8_t[]){form->layout[i], o->type, o->ndim, o->dim, o->stride},
                            5);
    }
    return h;
}

static void chain_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct weir__chain *c = args;
    struct weir__chain_form form;
    uint64_t h;

    (void)phase;
    weir__chain_find_form(c, &form);
    h = weir__chain_hash(c, &form);
    memcpy(l->variant, &h, sizeof h);
    weir__gpu_spread_threads(weir__div_up(c->numel, form.pack), cores, l);
}

const struct weir__code weir__gpu_chain = {
    .text = "chain", .shape = chain_shape, .write = weir__chain_write};
