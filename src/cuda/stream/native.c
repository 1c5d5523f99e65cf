/* Streams and memory that weir shares with other users of the GPU. */
#include "cuda/cuda.h"

weir_status weir__cuda_wait_for_word(struct weir__cuda *dev, weir__cu_stream tail,
                                     const struct weir__cuda_event *e)
{
    weir__cu_address word = (weir__cu_address)(uintptr_t)&e->word->reached;
    bool pushed = weir__cuda_enter(dev);
    weir_status st = weir__cuda_check(
        dev, dev->api->cu.stream_wait_value(tail, word, e->seq, CU_WAIT_GEQ), "a wait");

    weir__cuda_leave(dev, pushed);
    return st;
}

weir_status weir__cuda_native(weir_stream *base, unsigned cores, void **handle)
{
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    weir_status st = weir__cuda_alive(dev);
    bool pushed;

    if (st)
        return st;
    pushed = weir__cuda_enter(dev);
    st = weir__cuda_share(weir__cuda_stream_of(base), cores, handle);
    weir__cuda_leave(dev, pushed);
    return st;
}

weir_status weir__cuda_wait_native(weir_stream *base, void *native)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    const struct weir__cu *cu = &dev->api->cu;
    weir__cu_stream tail;
    weir_status st = weir__cuda_alive(dev);
    bool pushed;

    if (st)
        return st;
    pushed = weir__cuda_enter(dev);
    if (!s->native.inlet)
        st = weir__cuda_check(dev, cu->event_create(&s->native.inlet, CU_EVENT_DISABLE_TIMING),
                              "an event");
    if (!st && !(st = weir__cuda_tail(s, UINT32_MAX, &tail)) && tail != native &&
        !(st = weir__cuda_check(dev, cu->event_record(s->native.inlet, native),
                                "an event on a stream that is not weir's")))
        st = weir__cuda_check(dev, cu->stream_wait(tail, s->native.inlet, 0), "a wait");
    weir__cuda_leave(dev, pushed);
    if (!st)
        weir__cuda_count(s, 1, "wait");
    return st;
}

weir_status weir__cuda_signal_native(struct weir__mark mark, void *native)
{
    struct weir__cuda *dev = weir__cuda_of(mark.stream->dev);
    struct weir__cuda_event event;
    bool pushed;
    weir_status st = weir__cuda_alive(dev);

    if (st || weir__cuda_find(mark, &event, &st) || event.on == native)
        return st;
    pushed = weir__cuda_enter(dev);
    st = weir__cuda_wait_for(dev, native, &event);
    weir__cuda_leave(dev, pushed);
    return st;
}

bool weir__cuda_reaches(weir_device *base, const void *address)
{
    struct weir__cuda *dev = weir__cuda_of(base);
    weir__cu_address at = (weir__cu_address)(uintptr_t)address;
    bool pushed = weir__cuda_enter(dev), reaches;
    int asked[] = {CU_POINTER_MEMORY_TYPE, CU_POINTER_ORDINAL}, ordinal = -1;
    unsigned type = 0; /* stays 0 if CUDA does not know the address */
    void *values[] = {&type, &ordinal};

    reaches = !dev->api->cu.pointer_attributes(2, asked, values, at) &&
              (type == CU_MEMORY_DEVICE ? ordinal == dev->gpu.device
                                        : type == CU_MEMORY_HOST); /* pinned: as the host sees it */
    weir__cuda_leave(dev, pushed);
    return reaches;
}

bool weir__cuda_reaches_device(const weir_device *dev, const weir_device *other)
{
    const struct weir__cuda *to = (const struct weir__cuda *)other;
    weir__cu_device here = ((const struct weir__cuda *)dev)->gpu.device;
    bool reaches = to->gpu.device == here;

    for (int i = 0; i < to->gpu.npeers; i++)
        reaches |= to->gpu.peers[i] == here;
    return reaches;
}
