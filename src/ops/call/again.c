/* Caches short collectives that are called repeatedly with tensors of the same layouts. A cached
 * call needs no checks and no preparation except the tensors' addresses. If its stream is idle too,
 * the calling thread runs the whole call and nothing is queued (weir__transport.at_once). Such a
 * call has completed when it returns, so it has no number on its stream and its tensors get no
 * fences.
 *
 * A cached call depends only on the operator, its parameters, the two layouts and whether the
 * result is the input; these are compared. Core limits do not matter, because the call has one
 * block. Under open scopes, traces or the race checker a call takes the usual path. The device lock
 * protects everything here. */
#include "ops/call/again.h"

#include <string.h>

#include "graph/build/graph.h"
#include "scope/scope.h"

enum {
    KEPT = 8,          /* cached calls of a group */
    SEEN = 64,         /* hashes of calls that were made once */
    MOST_BYTES = 1024, /* bytes of input: as many as fit into a record */
    MOST_PARAMS = 192,
    MOST_RANKS = 64,
};

struct kept {
    const struct weir__op *op; /* NULL: unused */
    struct weir__view in, out;
    struct weir__kernel kernel;
    struct weir__again again;
    unsigned char params[MOST_PARAMS];
    _Alignas(16) unsigned char args[WEIR_ARGS_MAX];
};

struct weir__agains {
    struct kept *kept[KEPT];
    unsigned next; /* the entry that is replaced next */
    uint64_t seen[SEEN];
    void *local;
};

static void free_agains(weir_group *g)
{
    struct weir__agains *all = g->agains;

    for (int i = 0; i < KEPT; i++) {
        if (all->kept[i])
            g->transport->forget(&all->kept[i]->again);
        weir__free(all->kept[i]);
    }
    weir__free(all->local);
    weir__free(all);
    g->agains = NULL;
}

static struct weir__agains *agains_of(weir_group *g)
{
    struct weir__agains *all = g->agains;

    if (all)
        return all;
    if (!(all = weir__calloc(1, sizeof *all)))
        return NULL;
    if (!(all->local = weir__alloc_aligned(WEIR_LOCAL_BYTES, 64))) {
        weir__free(all);
        return NULL;
    }
    g->agains = all;
    g->free_agains = free_agains;
    return all;
}

/* ---- caching ---- */

static bool has_scopes(void)
{
    const struct weir__current_set *set = weir__current_get_set();

    return set->limit.cube || set->limit.vector || set->never_timeout;
}

static bool suits(const struct weir__call *call, const struct weir__kernel *k,
                  const weir_rank *rank)
{
    const weir_group *g = rank->group;
    const struct weir__meet *meet = k->args;
    struct weir__code_shown shown[WEIR__CODE_SHOWN];

    return g->procs && g->transport->at_once && g->nranks <= MOST_RANKS &&
           rank->dev->driver->helping && meet->channel == g->whole && call->nin == 1 &&
           call->nout == 1 && !call->scratch && call->op->params_size <= MOST_PARAMS && k->fn &&
           k->blocks == 1 && k->phases == 1 && !k->gang && !weir__trace_on() && !weir__race_on() &&
           !has_scopes() && meet->spell && meet->aim && meet->shown &&
           meet->shown(meet, shown) == 1 && shown->bytes <= MOST_BYTES;
}

/* Whether a call of the operator with such an input was made before. Records it if not. */
static bool has_come(struct weir__agains *all, const struct weir__call *call,
                     const struct weir__view *in, const struct weir__view *out)
{
    uint64_t h = (uint64_t)in->dtype << 8 | (uint64_t)in->ndim << 1 | (in->data == out->data);

    for (int i = 0; i < in->ndim; i++)
        h = (h ^ (uint64_t)in->shape[i]) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (uint64_t)(uintptr_t)call->op) * UINT64_C(0x9e3779b97f4a7c15);
    if (all->seen[h >> 58] == h)
        return true;
    all->seen[h >> 58] = h;
    return false;
}

void weir__again_keep(const struct weir__call *call, const struct weir__kernel *k,
                      const weir_rank *rank, const weir_tensor *in, const weir_tensor *out)
{
    weir_group *g = rank->group;
    struct weir__agains *all;
    struct kept *kept;

    if (!suits(call, k, rank) || !(all = agains_of(g)) ||
        !has_come(all, call, &in->view, &out->view))
        return;
    kept = all->kept[all->next];
    if (kept)
        g->transport->forget(&kept->again);
    else if (!(kept = weir__alloc_aligned(sizeof *kept, WEIR__LINE)))
        return; /* not cached: the call takes the usual path */
    all->kept[all->next] = kept;
    all->next = (all->next + 1) % KEPT;
    kept->op = call->op;
    kept->in = in->view;
    kept->out = out->view;
    memcpy(kept->params, call->params, call->op->params_size);
    memcpy(kept->args, k->args, k->args_size);
    kept->kernel = *k;
    kept->kernel.call = NULL; /* only devices that take whole operators use it */
    kept->kernel.args = kept->args;
    kept->again = (struct weir__again){
        .group = g,
        .meet = (void *)kept->args,
        .fn = k->fn,
        .local = all->local,
        .wanted = &rank->dev->lock.wanted,
        .wanted_as = WEIR__MUTEX_WANTED,
    };
}

/* ---- calling ---- */

/* Whether the views differ only in their address. Sizes beyond ndim have no meaning. */
static bool is_alike(const struct weir__view *a, const struct weir__view *b)
{
    if (a->dtype != b->dtype || a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] || a->stride[i] != b->stride[i])
            return false;
    return true;
}

/* Whether the cached call matches. `out`: NULL if the result is to be allocated. */
static bool is_like(const struct kept *kept, const struct weir__op *op, const void *params,
                    const weir_tensor *in, const weir_tensor *out)
{
    return kept && kept->op == op && is_alike(&kept->in, &in->view) &&
           (kept->in.data == kept->out.data) == (out && out->view.data == in->view.data) &&
           (!out || is_alike(&kept->out, &out->view)) &&
           !memcmp(kept->params, params, op->params_size);
}

static struct kept *find(const struct weir__agains *all, const struct weir__op *op,
                         const void *params, const weir_tensor *in, const weir_tensor *out)
{
    for (int i = 0; i < KEPT; i++)
        if (is_like(all->kept[i], op, params, in, out))
            return all->kept[i];
    return NULL;
}

/* Sets the addresses of the call to these tensors. */
static void aim(struct kept *kept, const weir_tensor *in, const weir_tensor *out)
{
    kept->in.data = in->view.data;
    kept->out.data = out->view.data;
    kept->again.meet->aim(kept->args, kept->in.data, kept->out.data);
}

/* Finds the cached call and allocates its result. A cached result is contiguous if it was
 * allocated, else it has the layout of the caller's. Allocating may release the lock, and the cache
 * may change meanwhile, so the call is looked up again. */
static struct kept *find_and_make(const struct weir__agains *all, const struct weir__op *op,
                                  const void *params, const weir_tensor *in, weir_stream *s,
                                  weir_tensor **made)
{
    struct kept *kept = find(all, op, params, in, NULL);
    struct weir__view view;

    if (!kept)
        return NULL;
    view = kept->out;
    weir__view_set_contiguous(&view);
    if (weir__tensor_alloc(s, &view, made))
        return NULL; /* the usual path reports the error */
    if ((kept = find(all, op, params, in, *made)))
        return kept;
    weir__tensor_drop(*made);
    *made = NULL;
    return NULL;
}

/* Whether the stream is already ordered after the wait attached to the tensor, if any. */
static bool is_ready(const weir_tensor *t, const weir_stream *s)
{
    const weir_buffer *b = t->buffer;

    return !b->after_seq ||
           weir__stream_is_after(s,
                                 (struct weir__mark){s->dev->streams[b->after_slot], b->after_seq},
                                 WEIR__WAIT_ERRORS);
}

/* Whether everything queued on the stream has completed, and nothing has to be queued before the
 * call. */
static bool is_idle(weir_stream *s, const weir_tensor *in, const weir_tensor *out)
{
    return !s->deferred.stream && !s->shared && is_ready(in, s) && is_ready(out, s) &&
           s->dev->driver->done(s) == weir__stream_submitted(s) &&
           atomic_load_explicit(&s->failed_at, memory_order_acquire) == WEIR__NEVER_FAILED;
}

/* Queues the cached kernel. Returns true if the thread helps to run queued work. */
static bool queue(struct kept *kept, weir_stream *s, const weir_tensor *in, const weir_tensor *out,
                  weir_status *status)
{
    const struct weir__driver_helping *helping = s->dev->driver->helping;
    weir_buffer *buffers[] = {in->buffer, out->buffer};
    weir_group *g = kept->again.group;
    bool held = helping->hold(s->dev, true);

    *status = weir__submit_using(s, &kept->kernel, buffers, 2, false);
    if (held)
        helping->hold(s->dev, false);
    if (*status && kept->again.meet->placed) /* peers continue as if this rank had arrived */
        g->transport->abort(g, *status, weir_last_error());
    return held;
}

/* Whether the call may take the short path. `out`: NULL if the result is to be allocated. */
static bool is_ordinary(const struct weir__op *op, const weir_rank *rank, const weir_tensor *in,
                        const weir_tensor *out)
{
    return rank->group->agains && op->nin_min == 1 && in->dev == rank->dev && !in->graph &&
           (!out || (out->dev == rank->dev && !out->graph &&
                     !weir__check_overlap(op->name, out, in, true))) &&
           !has_scopes() && !weir__trace_on() && !weir__race_on() && !weir__capture_on(rank->dev) &&
           !atomic_load_explicit(&rank->group->broken, memory_order_acquire);
}

bool weir__again_run(const struct weir__op *op, const void *params, weir_rank *rank,
                     weir_tensor *in, weir_tensor *into, weir_tensor **made, weir_status *status)
{
    weir_device *dev = rank->dev;
    weir_group *g = rank->group;
    enum weir__at_once how = WEIR__AT_ONCE_NOT;
    struct weir__channel *whole = g->whole;
    struct kept *kept;
    weir_tensor *out;
    weir_stream *s;
    uint64_t call;
    bool held = false;

    if (!is_ordinary(op, rank, in, into))
        return false;
    s = weir_stream_current(dev);
    weir__device_lock(dev);
    kept = into ? find(g->agains, op, params, in, into)
                : find_and_make(g->agains, op, params, in, s, made);
    if (!kept) {
        weir__device_unlock(dev);
        if (!into)
            dev->driver->kick(dev); /* the allocation may have queued a wait */
        return false;
    }
    out = into ? into : *made;
    aim(kept, in, out);
    weir__group_hold(g);
    call = atomic_load_explicit(&whole->callers[rank->index].calls, memory_order_relaxed);
    kept->again.meet->call = call;
    if (!kept->again.never && is_idle(s, in, out))
        how = g->transport->at_once(&kept->again, call);
    kept->again.meet->placed = how == WEIR__AT_ONCE_SHOWN;
    *status = WEIR_OK;
    if (how != WEIR__AT_ONCE_DONE)
        held = queue(kept, s, in, out, status);
    if (!*status) {
        weir__channel_count(whole, rank->index, 1, s);
    } else if (!into) {
        weir__tensor_drop(out);
        *made = NULL;
    }
    kept->again.meet->placed = false;
    weir__device_unlock(dev);
    if (how == WEIR__AT_ONCE_DONE || *status)
        weir__group_drop(g); /* else the command drops it */
    if (how != WEIR__AT_ONCE_DONE)
        (held ? dev->driver->helping->help : dev->driver->kick)(dev);
    return true;
}
