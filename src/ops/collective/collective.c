/* What collective operators share: parameters, checks, tiling. */
#include "ops/collective/collective.h"

#include <string.h>

#include "ops/tile.h"

struct weir__collective_params weir__collective_make_params(const weir_rank *rank)
{
    struct weir__collective_params p = {
        .rank = rank->id, .ranks = rank->group->nranks, .root = -1, .to = -1, .from = -1};

    _Static_assert(sizeof p.group == sizeof rank->group->name, "names of groups fit");
    memcpy(p.group, rank->group->name, sizeof p.group);
    memcpy(p.mode, rank->group->mode == WEIR_COMM_SDMA ? "sdma\0\0" : "vector", 7);
    return p;
}

void weir__collective_member(const void *params, struct weir__member *member)
{
    const struct weir__collective_params *p = params;

    *member = (struct weir__member){.meets = true,
                                    .rank = p->rank,
                                    .group = p->group,
                                    .ranks = p->ranks,
                                    .name = "",
                                    .to = -1,
                                    .from = -1};
}

weir_status weir__collective_check(const struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;
    const char *op = call->op->name;

    if (p->ranks < 1 || p->ranks > WEIR_MAX_RANKS)
        return weir__fail(WEIR_ERANGE, "%s: %lld ranks are out of range: 1..%d", op,
                          (long long)p->ranks, WEIR_MAX_RANKS);
    if (*p->mode && strcmp(p->mode, "vector") && strcmp(p->mode, "sdma"))
        return weir__fail(WEIR_EINVAL, "%s: there is no mode '%s': vector or sdma", op, p->mode);
    for (int i = 0; i < call->nin; i++)
        if (!weir__view_is_contiguous(call->in[i]))
            return weir__fail(WEIR_ESHAPE,
                              "%s: input %d is not contiguous: call weir_contiguous first", op, i);
    return WEIR_OK;
}

void weir__collective_work(const struct weir__call *call, struct weir__work *work,
                           weir_kernel_fn fn, size_t args_size, int64_t bytes, int64_t units)
{
    const struct weir__collective_params *p = call->params;
    struct weir__meet *meet = (void *)work->args;
    bool sdma = !strcmp(p->mode, "sdma");

    meet->args_size = (uint32_t)args_size;
    if (!meet->shown && work->code)
        meet->shown = work->code->shown;
    work->fn = fn;
    work->args_size = args_size;
    work->meets = true;
    work->engine = sdma ? WEIR_ENGINE_SDMA : WEIR_ENGINE_VECTOR;
    work->blocks =
        sdma ? 1 : weir__tile_blocks(bytes / WEIR__TILE_BYTES_PER_NS, units, call->cores);
}

void weir__collective_offer(const struct weir__call *call, struct weir__offer *offer)
{
    const struct weir__view *x = call->in[0];

    offer->label = offer->what = call->op->name;
    offer->reduce = "";
    offer->root = -1;
    offer->dtype = x->dtype;
    offer->ndim = x->ndim;
    memcpy(offer->shape, x->shape, (size_t)x->ndim * sizeof *x->shape);
}

weir_status weir__collective_run(const struct weir__op *op, const void *params,
                                 weir_tensor *const *in, int nin, weir_tensor *into,
                                 weir_tensor **out)
{
    weir_tensor *packed[5] = {NULL};
    weir_status st = WEIR_OK;

    for (int i = 0; i < op->nout && out; i++)
        out[i] = NULL;
    for (int i = 0; i < nin && !st; i++)
        st = weir_contiguous(in[i], &packed[i]);
    if (!st)
        st = into ? weir__op_run_into(op, params, packed, nin, &into)
                  : weir__op_run(op, params, packed, nin, out);
    for (int i = 0; i < nin; i++)
        weir_tensor_release(packed[i]);
    return st;
}
