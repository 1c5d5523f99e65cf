/* Functions of the host as commands of a stream.
 *
 * A function gets copies of its operands in host memory. The stream makes the copies, CUDA calls
 * the function, and then the stream copies the written operands back to the device. CUDA's thread
 * must not call CUDA; a weir_kernel_fn never does. */
#include "cuda/fault/faults.h"

#include <stdio.h>
#include <string.h>

/* A queued call. It exists until the stream has passed it. */
struct weir__cuda_host_call {
    struct weir__cuda *dev;
    struct weir__cuda_host_call *next, **at;
    struct weir__mark blamed; /* the command that fails with it */
    weir_kernel_fn fn;
    const char *name, *stream;
    struct weir__mark own; /* its own command, which in a plan differs from `blamed` */
    _Atomic bool off;      /* it could not be queued completely: do not run it */
    char *memory;
    _Alignas(16) unsigned char args[WEIR_ARGS_MAX]; /* with addresses in `memory` */
};

/* ---- one call's life ---- */

static void list(struct weir__cuda_host_call *h)
{
    struct weir__cuda_copies *all = &h->dev->copies;

    weir__spin_lock(&all->lock);
    h->next = all->calls;
    h->at = &all->calls;
    if (h->next)
        h->next->at = &h->next;
    all->calls = h;
    weir__spin_unlock(&all->lock);
}

static void drop(struct weir__cuda_host_call *h)
{
    weir__spin_lock(&h->dev->copies.lock);
    *h->at = h->next;
    if (h->next)
        h->next->at = h->at;
    weir__spin_unlock(&h->dev->copies.lock);
    weir__free(h->memory);
    weir__free(h);
}

/* On CUDA's thread: frees the call after everything that used its memory has completed. */
static void end(void *user)
{
    drop(user);
}

void weir__cuda_host_calls_close(struct weir__cuda *dev)
{
    while (dev->copies.calls)
        drop(dev->copies.calls);
}

static void fail(const struct weir__cuda_host_call *h, weir_status status)
{
    const char *sentence = weir__said();
    char text[600];

    weir__hush();
    snprintf(text, sizeof text, "operator '%s' failed on stream '%s': %s", h->name, h->stream,
             sentence ? sentence : weir_status_text(status));
    weir__cuda_fail(weir__cuda_stream_of(h->blamed.stream), h->blamed.seq, status, text);
}

static bool failed_before(struct weir__mark mark)
{
    return weir__cuda_failed_before(weir__cuda_stream_of(mark.stream), mark.seq);
}

/* On CUDA's thread. */
static void call(void *user)
{
    const struct weir__cuda_host_call *h = user;
    weir_block block = {.count = 1};
    weir_status st;

    if (atomic_load(&h->off) || failed_before(h->own) || failed_before(h->blamed))
        return;
    if ((st = h->fn(h->args, &block)))
        fail(h, st);
}

/* ---- queueing ---- */

/* Computes the operands' offsets in `memory`, at cache lines. Returns the bytes needed. */
static size_t place(const struct weir__code_operand *operands, int n, size_t *offsets)
{
    size_t bytes = 0;

    for (int i = 0; i < n; i++) {
        offsets[i] = bytes;
        bytes += (operands[i].bytes + WEIR__LINE - 1) / WEIR__LINE * WEIR__LINE;
    }
    return bytes;
}

static weir_status move(struct weir__cuda_stream *s, weir__cu_stream on, char *dst, const char *src,
                        size_t bytes, bool to_host)
{
    const struct weir__copy copy = {
        .dst = dst,
        .src = src,
        .direction = to_host ? WEIR__COPY_TO_HOST : WEIR__COPY_FROM_HOST,
        .elem = 1,
        .ndim = 1,
        .shape = {(int64_t)bytes},
        .dst_stride = {1},
        .src_stride = {1},
    };

    return bytes ? weir__cuda_copy(s, on, &copy) : WEIR_OK;
}

static weir_status queue(struct weir__cuda_stream *s, weir__cu_stream on,
                         struct weir__cuda_host_call *h, const struct weir__code_operand *operands,
                         int n, const size_t *offsets)
{
    struct weir__cuda *dev = h->dev;
    const struct weir__cu *cu = &dev->api->cu;
    const char *name = h->name;
    char *device[WEIR__CODE_OPERANDS];
    weir_status st = WEIR_OK;

    for (int i = 0; i < n && !st; i++) {
        device[i] = *operands[i].address;
        *operands[i].address = h->memory + offsets[i];
        /* Copy results too: the function may not write all elements or the gaps between them. */
        st = move(s, on, h->memory + offsets[i], device[i], operands[i].bytes, true);
    }
    if (!st)
        st = weir__cuda_check(dev, cu->launch_host(on, call, h), name);
    for (int i = 0; i < n && !st; i++)
        if (operands[i].written)
            st = move(s, on, device[i], h->memory + offsets[i], operands[i].bytes, false);
    /* the call may end, and free h, before this returns */
    return st ? st : weir__cuda_check(dev, cu->launch_host(on, end, h), name);
}

weir_status weir__cuda_call_host(struct weir__cuda_stream *s, weir__cu_stream on,
                                 const struct weir__kernel *k, struct weir__mark blamed)
{
    struct weir__cuda_host_call *h = weir__calloc(1, sizeof *h);
    struct weir__code_operand operands[WEIR__CODE_OPERANDS];
    size_t offsets[WEIR__CODE_OPERANDS];
    weir_status st;
    int n;

    if (!h)
        return weir__fail_nomem("queueing '%s' on stream '%s'", k->name, s->base.name);
    memcpy(h->args, k->args, k->args_size);
    n = k->code->operands(h->args, operands);
    if (!(h->memory = weir__alloc_aligned(place(operands, n, offsets) + WEIR__LINE, WEIR__LINE))) {
        weir__free(h);
        return weir__fail_nomem("copying the inputs of '%s' to the host", k->name);
    }
    h->dev = weir__cuda_of(s->base.dev);
    h->own = (struct weir__mark){&s->base, weir__stream_submitted(&s->base) + 1};
    h->blamed = blamed;
    h->fn = k->fn;
    h->name = k->name;
    h->stream = s->base.name;
    list(h);
    if ((st = queue(s, on, h, operands, n, offsets)))
        atomic_store(&h->off, true); /* queued calls may still run, so their memory stays */
    return st;
}
