/* A command of a stream: a kernel, a copy, a function of the host or a collective. */
#include "cuda/collective/meet.h"
#include "cuda/fault/faults.h"

weir_status weir__cuda_submit(weir_stream *base, const struct weir__kernel *k)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    uint64_t seq = weir__stream_submitted(base) + 1;
    struct weir__cuda_sink sink = {
        .dev = dev,
        .cores = k->cores,
        .context = weir__cuda_context(dev, base, seq),
        .workspace = &s->scratch.workspace,
        .counters = &s->scratch.counters,
        .own = s,
    };
    weir_status st = weir__cuda_alive(dev);
    struct weir__cuda_traced *traced = NULL;
    bool pushed;

    if (!st && k->fn && !k->code)
        st = weir__fail(WEIR_EUNSUPPORTED,
                        "'%s' is a host function, which %s cannot run: use an operator, or "
                        "a device such as cpu",
                        k->name, base->dev->props.name);
    if (st)
        return st;
    if (k->is_collective || (k->code && k->code->fails))
        weir__cuda_may_fail(s);
    if ((k->fn && !weir__cuda_is_doomed(s, seq)) || k->is_collective) {
        pushed = weir__cuda_enter(dev);
        if (!(st = weir__cuda_make_ready(s, k)))
            st = weir__cuda_tail(s, k->engine <= WEIR_ENGINE_MIX ? k->cores : UINT32_MAX,
                                 &sink.stream);
        if (!st && weir__trace_on())
            traced = weir__cuda_trace_begin(s, sink.stream, k, seq);
        if (!st)
            st = k->is_collective ? weir__cuda_queue_meet(s, sink.stream, k, NULL, traced)
                 : k->code->kind == WEIR__CODE_COPY ? weir__cuda_copy(s, sink.stream, k->args)
                 : k->code->kind == WEIR__CODE_HOST
                     ? weir__cuda_call_host(s, sink.stream, k, (struct weir__mark){base, seq})
                     : weir__cuda_issue(&sink, k);
        if (traced && k->is_collective)
            weir__cuda_trace_arrive(traced, !st);
        else if (traced)
            weir__cuda_trace_end(traced, sink.stream, !st);
        weir__cuda_leave(dev, pushed);
    }
    if (st)
        return st;
    if (k->never_timeout)
        atomic_store_explicit(&s->untimed, seq, memory_order_relaxed);
    weir__cuda_count(s, 1, k->name);
    return WEIR_OK;
}
