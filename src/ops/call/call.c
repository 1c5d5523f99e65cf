/* From an operator's row and its operands to queued work. */
#include "ops/call/again.h"
#include "scope/scope.h"
#include "tensor/infer.h"
#include "tensor/member.h"

#include <string.h>

struct operands {
    weir_device *dev;
    uint64_t graph; /* the graph that an input belongs to; 0 if all have bytes */
    weir_tensor *const *in;
    int nin;
    const struct weir__view *views[WEIR__OP_MAX_IN];
    /* For collectives: */
    weir_rank *rank; /* we hold a use of its group until the command holds it */
    struct weir__channel *channel;
};

static weir_status collect(const struct weir__op *op, weir_tensor *const *in, int nin,
                           struct operands *o)
{
    /* Set field by field: most views are unused, and this runs for every operator. */
    o->dev = NULL;
    o->graph = 0;
    o->in = in;
    o->nin = nin;
    o->rank = NULL;
    o->channel = NULL;
    if (nin < op->nin_min || nin > op->nin_max || nin > WEIR__OP_MAX_IN)
        return weir__fail(WEIR_EINVAL, "%s takes %d..%d inputs, not %d", op->name, op->nin_min,
                          op->nin_max, nin);
    for (int i = nin; i < op->nin_max && i < WEIR__OP_MAX_IN; i++)
        o->views[i] = NULL;
    for (int i = 0; i < nin; i++) {
        o->views[i] = in[i] ? &in[i]->view : NULL;
        if (!in[i] && i < op->nin_min)
            return weir__fail(WEIR_EINVAL, "%s: input %d is NULL", op->name, i);
        if (!in[i])
            continue;
        if (!o->dev)
            o->dev = in[i]->dev;
        if (in[i]->graph)
            o->graph = in[i]->graph;
        if (in[i]->dev != o->dev)
            return weir__fail(WEIR_EDEVICE, "%s: input 0 is on %s, input %d on %s", op->name,
                              o->dev->label, i, in[i]->dev->label);
    }
    return WEIR_OK;
}

/* Checks that the first input, which an in-place operator writes, is writable. */
static weir_status check_in_place(const struct weir__op *op, const struct operands *o)
{
    weir_status st = weir__check_writable(op->name, o->views[0]);

    for (int i = 1; i < o->nin && !st; i++)
        st = o->in[i] ? weir__check_overlap(op->name, o->in[0], o->in[i], weir__op_takes_same(op))
                      : WEIR_OK;
    return st;
}

static weir_status check_outputs(const struct weir__op *op, const struct operands *o,
                                 struct weir__call *call, weir_tensor *const *into)
{
    for (int i = 0; i < op->nout; i++) {
        const struct weir__view *want = &call->out[i], *have = &into[i]->view;
        weir_status st;

        if (into[i]->dev != o->dev)
            return weir__fail(WEIR_EDEVICE, "%s: the inputs are on %s, the output on %s", op->name,
                              o->dev->label, into[i]->dev->label);
        if (want->dtype != have->dtype || want->ndim != have->ndim ||
            memcmp(want->shape, have->shape, (size_t)want->ndim * sizeof *want->shape))
            return weir__fail(want->dtype != have->dtype ? WEIR_EDTYPE : WEIR_ESHAPE,
                              "%s gives %s, the output is %s", op->name, weir__view_text(want).text,
                              weir__view_text(have).text);
        if ((st = weir__check_writable(op->name, have)))
            return st;
        for (int j = 0; j < o->nin; j++)
            if (o->in[j] &&
                (st = weir__check_overlap(op->name, into[i], o->in[j], weir__op_takes_same(op))))
                return st;
        call->out[i] = *have;
    }
    return WEIR_OK;
}

static weir_status submit_checked(weir_stream *s, const struct weir__kernel *k,
                                  weir_buffer *const *buffers, size_t nbuffers,
                                  const struct operands *o, weir_tensor *const *out,
                                  const struct weir__op *op)
{
    struct weir__access accesses[WEIR__OP_MAX_IN + WEIR__OP_MAX_OUT];
    int n = 0;

    for (int i = 0; i < o->nin; i++)
        if (o->in[i])
            accesses[n++] =
                (struct weir__access){o->in[i], i == 0 && (op->flags & WEIR__OP_IN_PLACE)};
    for (int i = 0; i < op->nout; i++)
        accesses[n++] = (struct weir__access){out[i], true};
    return weir__submit_checked(s, k, buffers, nbuffers, accesses, n);
}

/* Finds the rank and the channel of a collective, and from the rank its device: there may be no
 * inputs. */
static weir_status find_member(const struct weir__op *op, const void *params, struct operands *o)
{
    struct weir__member member;
    weir_status st;

    if (!op->member)
        return WEIR_OK;
    op->member(params, &member);
    if ((st = weir__member_rank(&member, op->name, NULL, 0, &o->rank)))
        return st;
    if (!o->dev)
        o->dev = o->rank->dev;
    if (o->dev != o->rank->dev)
        st = weir__fail(WEIR_EDEVICE, "%s: the input is on %s, rank %d of group '%s' on %s",
                        op->name, o->dev->label, o->rank->index, o->rank->group->name,
                        o->rank->device);
    else
        st = weir__member_channel(&member, op->name, o->rank, &o->channel);
    return st;
}

static void drop_member(struct operands *o)
{
    if (o->rank)
        weir__group_drop(o->rank->group);
    o->rank = NULL;
}

/* Numbers the call on its channel: the peers' calls with the same number meet it. */
static void set_rendezvous(const struct operands *o, struct weir__kernel *k,
                           struct weir__work *work)
{
    struct weir__meet *meet = (void *)work->args;

    k->is_collective = true;
    meet->channel = o->channel;
    meet->rank = o->rank->index;
    meet->pulls = o->channel->group->pulls;
    meet->call =
        atomic_load_explicit(&o->channel->callers[o->rank->index].calls, memory_order_relaxed);
    meet->place = 0;
    meet->timed = !k->never_timeout;
}

/* Counts the call once the command is queued. The command drops the group when it completes. */
static void count_call(struct operands *o, const weir_stream *s)
{
    weir__channel_count(o->channel, o->rank->index, 1, s);
    o->rank = NULL;
}

/* Refuses a call that is queued behind the peer's call that waits for it: the stream would never
 * reach it. */
static weir_status check_stream(const struct weir__op *op, const struct operands *o,
                                const weir_stream *s)
{
    int other = weir__channel_blocker(o->channel, o->rank->index, s);

    if (other < 0)
        return WEIR_OK;
    return weir__fail(WEIR_EINVAL,
                      "%s: rank %d of group '%s' would wait for ever on stream '%s': the call of "
                      "rank %d that it meets is ahead of it there; give each rank its own stream",
                      op->name, o->rank->index, o->rank->group->name, s->name, other);
}

/* Queues the kernel of a call whose outputs are allocated. The caller holds the device lock or, if
 * `alone`, the stream's: the race checker, which needs the former, may be switched on meanwhile. */
static weir_status queue(const struct weir__op *op, struct weir__call *call, weir_stream *s,
                         struct operands *o, weir_cores limit, weir_tensor *const *out, bool alone)
{
    weir_buffer *buffers[WEIR__OP_MAX_IN + WEIR__OP_MAX_OUT + 1], *scratch = NULL;
    bool prepares = weir__device_runs_kernels(s->dev);
    size_t n = 0, scratch_bytes = prepares && op->scratch ? op->scratch(call) : 0;
    struct weir__work work;
    weir_status st;

    if (scratch_bytes && alone)
        return weir__fail(WEIR_EINTERNAL, "operator '%s' asks for scratch only now", op->name);
    if (scratch_bytes) {
        if ((st = weir__pool_alloc(&s->dev->pool, s->slot, scratch_bytes, &scratch)))
            return st;
        call->scratch = scratch->address;
        buffers[n++] = scratch;
    }
    for (int i = 0; i < o->nin; i++)
        if (o->in[i])
            buffers[n++] = o->in[i]->buffer;
    for (int i = 0; i < op->nout; i++)
        buffers[n++] = out[i]->buffer;
    weir__work_init(&work, op);
    st = prepares ? op->prepare(call, &work) : WEIR_OK;
    if (!st && work.blocks) {
        struct weir__kernel k = {
            .name = op->name,
            .call = call,
            .fn = work.fn,
            .code = work.code,
            .args = work.args,
            .args_size = (uint32_t)work.args_size,
            .engine = work.engine,
            .blocks = work.blocks,
            .phases = work.phases,
            .cores =
                work.engine == op->engine ? call->cores : weir__stream_cores(s, work.engine, limit),
            .gang = work.gang && work.blocks > 1,
            .own_cores = weir__scope_has_cores(work.engine),
            .never_timeout = weir__current_get_set()->never_timeout,
            .scope = weir__trace_on() ? weir__scope_traced() : 0,
        };

        weir__kernel_set_cost(&k, call, &work);
        if (o->rank)
            set_rendezvous(o, &k, &work);
        st = weir__race_on() && !alone ? submit_checked(s, &k, buffers, n, o, out, op)
                                       : weir__submit_using(s, &k, buffers, n, alone);
        if (!st && o->rank) {
            if (weir__unlikely(o->rank->group->procs) && op->nout)
                weir__again_keep(call, &k, o->rank, o->in[0], out[0]);
            count_call(o, s);
        }
    }
    /* Frees the scratch in stream order: only later work may reuse it. */
    if (scratch)
        weir__pool_free(&s->dev->pool, scratch);
    return st;
}

/* Allocates the outputs; alone: under the stream's lock. On an error those made so far remain. */
static weir_status make_outputs(weir_stream *s, struct weir__call *call, bool alone,
                                weir_tensor **made, int *nmade)
{
    weir_status st = WEIR_OK;

    for (; *nmade < call->nout && !st; *nmade += !st) {
        struct weir__view *out = &call->out[*nmade];

        if (!alone)
            st = weir__tensor_alloc(s, out, &made[*nmade]);
        else if (!(made[*nmade] = weir__tensor_alloc_alone(s, out)))
            st = WEIR_ENOMEM;
        if (!st)
            out->data = made[*nmade]->view.data;
    }
    return st;
}

/* True if the operator can be queued under the stream's lock alone; its outputs are made then.
 * False leaves everything as it was. */
static bool fits_alone(const struct weir__op *op, struct weir__call *call, weir_stream *s,
                       const struct operands *o, weir_tensor *const *into, weir_tensor **made,
                       int *nmade)
{
    weir_buffer *buffers[WEIR__OP_MAX_IN + WEIR__OP_MAX_OUT];
    size_t n = 0;

    if (o->rank || (op->scratch && op->scratch(call)))
        return false;
    for (int i = 0; i < o->nin; i++)
        if (o->in[i])
            buffers[n++] = o->in[i]->buffer;
    for (int i = 0; into && i < op->nout; i++)
        buffers[n++] = into[i]->buffer;
    if (!weir__launch_fits(s, buffers, n))
        return false;
    if (!made || !make_outputs(s, call, true, made, nmade))
        return true;
    while (*nmade > 0) {
        weir__tensor_drop_alone(s, made[--*nmade]);
        made[*nmade] = NULL;
    }
    return false;
}

/* Adds the operator as a node to the graph that this thread captures. */
static weir_status capture(const struct weir__op *op, const void *params, const struct operands *o,
                           weir_tensor *const *into, weir_tensor **made)
{
    weir_graph *g = weir__capture_on(o->dev);
    struct weir__marks marks;
    weir_status st;

    if (!g)
        return weir__fail(WEIR_ESTATE,
                          "%s: an input belongs to a graph and has no bytes: call operators on it "
                          "between weir_graph_begin and weir_graph_end",
                          op->name);
    if ((st = weir__scope_marks(g, &marks)))
        return st;
    return weir__graph_add_call(g, op, NULL, params, o->in, o->nin, into, &marks, made);
}

static weir_status run(const struct weir__op *op, const void *params, weir_tensor *const *in,
                       int nin, weir_tensor *const *into, weir_tensor **made)
{
    struct weir__view out[WEIR__OP_MAX_OUT];
    weir_tensor *const *targets = into;
    weir_cores limit = weir__current_get_set()->limit;
    const struct weir__driver_helping *helping;
    struct operands o;
    weir_stream *s;
    weir_status st;
    int nmade = 0;
    bool alone, held = false; /* held: this thread has queued the work and helps to run it */

    if ((st = collect(op, in, nin, &o)) || (st = find_member(op, params, &o)) ||
        (st = weir__device_check_limit(o.dev, limit)) || (o.graph || weir__capture_on(o.dev))) {
        if (!st)
            st = capture(op, params, &o, into, made);
        drop_member(&o);
        return st;
    }
    struct weir__call call = {
        .op = op,
        .nin = nin,
        .nout = op->nout,
        .in = o.views,
        .out = out,
        .params = params,
        .for_gpu = weir__device_can(o.dev, WEIR__RUNS_SOURCE),
        .model = o.dev->model,
        .rank = o.rank,
    };
    helping = o.dev->driver->helping;
    if ((st = weir__op_infer(&call)))
        goto drop;
    if ((into && (st = check_outputs(op, &o, &call, into))) ||
        ((op->flags & WEIR__OP_IN_PLACE) && (st = check_in_place(op, &o))))
        goto drop;
    for (int i = 0; made && i < call.nout; i++) /* scratch, tiling and allocation read strides */
        weir__view_set_contiguous(&out[i]);
    s = weir_stream_current(o.dev);
    alone = weir__stream_lock(s);
    call.cores = weir__stream_cores(s, op->engine, limit);
    if (weir__unlikely(alone) && !fits_alone(op, &call, s, &o, into, made, &nmade)) {
        weir__stream_lock_device(s, &alone);
        call.cores = weir__stream_cores(s, op->engine, limit);
    }
    if (o.rank && (st = check_stream(op, &o, s))) {
        weir__stream_unlock(s, alone);
        goto drop;
    }
    if (made) {
        targets = made;
        st = make_outputs(s, &call, alone, made, &nmade);
    }
    if (!st) {
        held = o.rank && o.rank->group->procs && helping && helping->hold(o.dev, true);
        st = queue(op, &call, s, &o, limit, targets, alone);
        if (held)
            helping->hold(o.dev, false);
    }
    if (st)
        while (nmade > 0) {
            nmade--;
            alone ? weir__tensor_drop_alone(s, made[nmade]) : weir__tensor_drop(made[nmade]);
            made[nmade] = NULL;
        }
    weir__stream_unlock(s, alone);
    (held ? helping->help : o.dev->driver->kick)(o.dev);
drop:
    drop_member(&o);
    return st;
}

weir_status weir__op_run(const struct weir__op *op, const void *params, weir_tensor *const *in,
                         int nin, weir_tensor **out)
{
    if (op->nout && !out)
        return weir__fail(WEIR_EINVAL, "%s: the pointer to the result must not be NULL", op->name);
    for (int i = 0; i < op->nout; i++)
        out[i] = NULL;
    return run(op, params, in, nin, NULL, out);
}

weir_status weir__op_run_into(const struct weir__op *op, const void *params, weir_tensor *const *in,
                              int nin, weir_tensor *const *out)
{
    for (int i = 0; i < op->nout; i++)
        if (!out || !out[i])
            return weir__fail(WEIR_EINVAL, "%s: the output must not be NULL", op->name);
    return run(op, params, in, nin, out, NULL);
}
