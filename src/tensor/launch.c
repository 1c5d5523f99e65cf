/* Kernels of the user. */
#include "base/sized.h"
#include "tensor/tensor.h"

static weir_status check(const weir_stream *s, const weir_launch *l, unsigned cores)
{
    const char *name = l->name ? l->name : "kernel";

    if ((unsigned)l->engine >= WEIR_ENGINE_COUNT)
        return weir__fail(WEIR_EINVAL, "launch of '%s': %d is not an engine", name, (int)l->engine);
    if ((l->args_size && !l->args) || (l->ntensors && !l->tensors) || (l->nbuffers && !l->buffers))
        return weir__fail(WEIR_EINVAL, "launch of '%s': its arguments, tensors or buffers are NULL",
                          name);
    if (l->args_size > WEIR_ARGS_MAX)
        return weir__fail(WEIR_EINVAL, "launch of '%s': %zu bytes of arguments, at most %d fit",
                          name, l->args_size, WEIR_ARGS_MAX);
    if (l->phases > UINT8_MAX)
        return weir__fail(WEIR_EINVAL, "launch of '%s': %u phases, at most %d fit", name, l->phases,
                          UINT8_MAX);
    if (l->gang && l->blocks > cores)
        return weir__fail(WEIR_EINVAL,
                          "launch of '%s': a gang of %u blocks needs as many %s cores at once; "
                          "stream '%s' may use %u",
                          name, l->blocks, weir_engine_name(l->engine), s->name, cores);
    for (size_t i = 0; i < l->ntensors; i++) {
        weir_status st = weir__tensor_check_bytes(l->tensors[i], name);

        if (st)
            return st;
        if (l->tensors[i]->dev != s->dev)
            return weir__fail(WEIR_EDEVICE, "launch of '%s' on %s: tensor %zu is on %s", name,
                              s->dev->label, i, l->tensors[i]->dev->label);
    }
    for (size_t i = 0; i < l->nbuffers; i++)
        if (!l->buffers[i])
            return weir__fail(WEIR_EINVAL, "launch of '%s': buffer %zu is NULL", name, i);
        else if (l->buffers[i]->pool != &s->dev->pool)
            return weir__fail(WEIR_EDEVICE, "launch of '%s' on %s: buffer %zu is on another device",
                              name, s->dev->props.name, i);
    return WEIR_OK;
}

static weir_status submit_checked(weir_stream *s, const weir_launch *l,
                                  const struct weir__kernel *k, weir_buffer *const *buffers,
                                  size_t n)
{
    struct weir__access few[16], *accesses = few;
    weir_status st;

    if (l->ntensors > weir__countof(few) &&
        !(accesses = weir__calloc(l->ntensors, sizeof *accesses)))
        return weir__fail_nomem("launching '%s'", k->name);
    for (size_t i = 0; i < l->ntensors; i++)
        accesses[i] = (struct weir__access){l->tensors[i], i >= l->nreads};
    st = weir__submit_checked(s, k, buffers, n, accesses, (int)l->ntensors);
    if (accesses != few)
        weir__free(accesses);
    return st;
}

weir_status weir_kernel_fail(weir_status status, const char *reason)
{
    return status && reason ? weir__fail(status, "%s", reason) : status;
}

bool weir__launch_fits(const weir_stream *s, weir_buffer *const *buffers, size_t n)
{
    if (s->deferred.stream || s->shared || weir__race_on())
        return false;
    for (size_t i = 0; i < n; i++) {
        const weir_buffer *b = buffers[i];

        if (!weir__pool_has_fence(b, s->slot))
            return false;
        if (b->after_seq &&
            !weir__stream_is_after(
                s, (struct weir__mark){s->dev->streams[b->after_slot], b->after_seq},
                WEIR__WAIT_ERRORS))
            return false;
    }
    return true;
}

static weir_status submit(weir_stream *s, const weir_launch *l)
{
    weir_cores scope = weir__current_get_set()->limit;
    bool is_limited = scope.cube || scope.vector;
    weir_buffer *few[16], **buffers = few;
    size_t n = l->ntensors + l->nbuffers;
    struct weir__kernel k = {
        .name = l->name ? l->name : "kernel",
        .fn = l->fn,
        .args = l->args,
        .args_size = (uint32_t)l->args_size,
        .engine = l->engine,
        .blocks = l->blocks ? l->blocks : 1,
        .phases = l->phases ? l->phases : 1,
        .gang = l->gang,
        .own_cores = is_limited && weir__scope_has_cores(l->engine),
        .never_timeout = weir__current_get_set()->never_timeout,
        .work_ns = !l->fn                                  ? 0
                   : l->work_ns && l->work_ns < UINT32_MAX ? (uint32_t)l->work_ns
                                                           : UINT32_MAX,
        .block_us = (float)l->work_ns / 1000,
    };
    weir_status st;
    bool alone;

    if (is_limited && (st = weir__device_check_limit(s->dev, scope)))
        return st;
    if (n > weir__countof(few) && !(buffers = weir__calloc(n, sizeof *buffers)))
        return weir__fail_nomem("launching '%s'", k.name);
    alone = weir__stream_lock(s);
    k.cores = weir__stream_cores(s, l->engine, scope);
    if (!(st = check(s, l, k.cores))) {
        for (size_t i = 0; i < l->ntensors; i++)
            buffers[i] = l->tensors[i]->buffer;
        for (size_t i = 0; i < l->nbuffers; i++)
            buffers[l->ntensors + i] = l->buffers[i];
        if (weir__unlikely(alone) && !weir__launch_fits(s, buffers, n))
            weir__stream_lock_device(s, &alone);
        st = weir__race_on() && !alone ? submit_checked(s, l, &k, buffers, n)
                                       : weir__submit_using(s, &k, buffers, n, alone);
    }
    weir__stream_unlock(s, alone);
    s->dev->driver->kick(s->dev);
    if (buffers != few)
        weir__free(buffers);
    return st;
}

weir_status weir_launch_submit(weir_stream *s, const weir_launch *launch)
{
    weir_launch own;
    weir_status st;

    WEIR__NEED(s, "stream");
    WEIR__NEED(launch, "launch");
    if (!launch->size || launch->size == sizeof *launch)
        return submit(s, launch);
    return (st = WEIR__TAKE(&own, launch, "a launch")) ? st : submit(s, &own);
}
