/* Shared by all collective operators: parameters, checks, tiling. */
#include "ops/collective/collective.h"

#include <string.h>

#include "ops/tile.h"

enum { SHARED_MOST = 16 << 20, ROUNDS_BLOCK = 2 << 20 }; /* bytes read and written */

void weir__collective_member(const void *params, struct weir__member *member)
{
    const struct weir__collective_params *p = params;

    *member = (struct weir__member){.is_collective = true,
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
    if (!weir__word_is(p->mode, "vector\0") && !weir__word_is(p->mode, "sdma\0\0\0") && *p->mode)
        return weir__fail(WEIR_EINVAL, "%s: there is no mode '%s': vector or sdma", op, p->mode);
    for (int i = 0; i < call->nin; i++)
        if (!weir__view_is_contiguous(call->in[i]))
            return weir__fail(WEIR_ESHAPE,
                              "%s: input %d is not contiguous: call weir_contiguous first", op, i);
    return WEIR_OK;
}

/* The cores of a part. If the ranks on a host have more running blocks than the host has cores, a
 * block waits for peers that do not run: only large transfers are worth that. In rounds workers
 * fall asleep in between; waking one takes as long as moving a megabyte. */
static unsigned cores_of(const struct weir__call *call, const struct weir__meet *meet,
                         int64_t bytes)
{
    unsigned share = call->rank && !call->for_gpu ? call->rank->group->share : 0;

    if (!share || bytes >= SHARED_MOST)
        return call->cores;
    if (meet->in_rounds)
        share = (unsigned)weir__min((int64_t)share, weir__max(bytes / ROUNDS_BLOCK, INT64_C(1)));
    return weir__min(share, call->cores);
}

void weir__collective_work(const struct weir__call *call, struct weir__work *work,
                           weir_kernel_fn fn, size_t args_size, int64_t bytes, int64_t units)
{
    const struct weir__collective_params *p = call->params;
    struct weir__meet *meet = (void *)work->args;
    bool sdma = *p->mode == 's'; /* weir__collective_check has verified the mode */

    meet->args_size = (uint32_t)args_size;
    if (!meet->shown && work->code)
        meet->shown = work->code->shown;
    work->fn = fn;
    work->args_size = args_size;
    work->is_collective = true;
    work->engine = sdma ? WEIR_ENGINE_SDMA : WEIR_ENGINE_VECTOR;
    work->blocks = sdma ? 1
                        : weir__tile_blocks(bytes / WEIR__TILE_BYTES_PER_NS, units,
                                            cores_of(call, meet, bytes));
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

static weir_status run_packed(const struct weir__op *op, const void *params, weir_tensor *const *in,
                              int nin, weir_tensor *into, weir_tensor **out)
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

weir_status weir__collective_run(const struct weir__op *op, const void *params,
                                 weir_tensor *const *in, int nin, weir_tensor *into,
                                 weir_tensor **out)
{
    bool packs = false;

    for (int i = 0; i < nin; i++)
        packs |= !in[i] || !weir__view_is_contiguous(&in[i]->view);
    if (weir__unlikely(packs))
        return run_packed(op, params, in, nin, into, out);
    return into ? weir__op_run_into(op, params, in, nin, &into)
                : weir__op_run(op, params, in, nin, out);
}
