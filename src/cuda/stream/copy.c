/* Copies between tensors and the host.
 *
 * Pageable host memory is copied through the stream's pinned stage. A host function moves the bytes
 * between the two when the stream reaches the copy, so no call waits. Tensors that are not packed
 * are gathered or scattered by a kernel. */
#include "cuda/fault/faults.h"

#include <sched.h>
#include <string.h>

/* The arguments of the kernel source "copy": `count` elements from number `first` on in row-major
 * order, between strided and packed memory. */
struct strided {
    struct weir__copy copy;
    char *packed; /* NULL: between the copy's own src and dst */
    int64_t first, count;
    unsigned char bytes[1024]; /* the source, if copy.src is NULL */
};

static void strided_shape(const void *args, unsigned phase, unsigned cores,
                          struct weir__code_launch *l)
{
    const struct strided *s = args;
    int64_t most = (int64_t)cores * 16;

    (void)phase;
    l->variant[0] = (uint8_t)s->copy.elem;
    l->variant[1] = s->packed != NULL;
    l->variant[2] = s->copy.direction == WEIR__COPY_TO_HOST;
    l->variant[3] = s->copy.src == NULL;
    l->grid = (uint32_t)weir__min(weir__div_up(s->count, 256), most);
}

static const struct weir__code strided_code = {.text = "copy", .shape = strided_shape};

static weir_status move_strided(struct weir__cuda *dev, weir__cu_stream stream,
                                struct strided *args)
{
    struct weir__code_launch l = {.threads = 256};
    void *params[] = {args};
    weir__cu_function function;
    weir_status st;

    strided_shape(args, 0, dev->cores.total, &l);
    if ((st = weir__cuda_find_function(dev, &strided_code, args, &l, &function)))
        return st;
    return weir__cuda_check(
        dev, dev->api->cu.launch(function, l.grid, 1, 1, l.threads, 1, 1, 0, stream, params, NULL),
        "a copy");
}

static bool is_packed(const struct weir__copy *c, const int64_t *stride)
{
    return c->ndim == 1 && (stride[0] == 1 || c->shape[0] <= 1);
}

static int64_t numel(const struct weir__copy *c)
{
    int64_t n = 1;

    for (int d = 0; d < c->ndim; d++)
        n *= c->shape[d];
    return n;
}

static weir_status move_bytes(struct weir__cuda *dev, weir__cu_stream stream, const void *dst,
                              const void *src, size_t size)
{
    return weir__cuda_check(dev,
                            dev->api->cu.copy_async((weir__cu_address)(uintptr_t)dst,
                                                    (weir__cu_address)(uintptr_t)src, size, stream),
                            "a copy");
}

/* ---- through the stage ---- */

/* A range of elements to be moved between host memory, which may be strided, and the stage. */
struct weir__cuda_host_copy {
    struct weir__cuda *dev;
    struct weir__cuda_host_copy *next, **at;
    uint64_t number; /* of the copy that it is a part of */
    struct weir__cuda_stream *stream;
    uint64_t seq; /* the number of the copy's command */
    struct weir__copy copy;
    char *stage;
    int64_t first, count; /* count 0: cancelled */
    bool under_way;
};

/* Moves `n` elements between the stage, from element `staged` on, and host memory, from element
 * `place` on with that stride. */
static void move_run(const struct weir__cuda_host_copy *h, int64_t place, int64_t stride,
                     int64_t staged, int64_t n)
{
    const struct weir__copy *c = &h->copy;
    int64_t size = (int64_t)c->elem, host = place * size, step = stride * size, at = staged * size;

    if (stride == 1)
        size *= n, n = 1; /* one memcpy */
    for (int64_t i = 0; i < n; i++, host += step, at += size)
        if (c->direction == WEIR__COPY_TO_HOST)
            memcpy((char *)c->dst + host, h->stage + at, (size_t)size);
        else
            memcpy(h->stage + at, (const char *)c->src + host, (size_t)size);
}

static bool is_contiguous(const struct weir__copy *c, const int64_t *stride)
{
    int64_t next = 1;

    for (int d = c->ndim - 1; d >= 0; next *= c->shape[d--])
        if (stride[d] != next)
            return false;
    return true;
}

/* Moves everything at once if it is contiguous, else one run along the last dim at a time. */
static void move_host_copy(const struct weir__cuda_host_copy *h)
{
    const struct weir__copy *c = &h->copy;
    bool to_host = c->direction == WEIR__COPY_TO_HOST;
    const int64_t *stride = to_host ? c->dst_stride : c->src_stride;
    int last = c->ndim - 1;

    if (is_contiguous(c, stride)) {
        move_run(h, h->first, 1, 0, h->count);
        return;
    }
    for (int64_t at = h->first, end = at + h->count, n; at < end; at += n) {
        int64_t left = at / c->shape[last], place = at % c->shape[last] * stride[last];

        n = weir__min(c->shape[last] - at % c->shape[last], end - at);
        for (int d = last - 1; d >= 0; d--) {
            place += left % c->shape[d] * stride[d];
            left /= c->shape[d];
        }
        move_run(h, place, stride[last], at - h->first, n);
    }
}

static void drop_host_copy(struct weir__cuda_host_copy *h)
{
    weir__spin_lock(&h->dev->copies.lock);
    *h->at = h->next;
    if (h->next)
        h->next->at = h->at;
    weir__spin_unlock(&h->dev->copies.lock);
    weir__free(h);
}

/* On CUDA's thread, in stream order. A copy after a failed operator is skipped and does not touch
 * host memory. */
static void run_host_copy(void *user)
{
    struct weir__cuda_host_copy *h = user;
    bool may_fail = atomic_load_explicit(&h->stream->faults.may_fail, memory_order_relaxed);

    weir__spin_lock(&h->dev->copies.lock);
    h->under_way = h->count > 0;
    weir__spin_unlock(&h->dev->copies.lock);
    if (h->under_way && !(may_fail && weir__cuda_failed_before(h->stream, h->seq)))
        move_host_copy(h);
    drop_host_copy(h);
}

/* Cancels a copy that could not be queued completely: afterwards no part of it accesses the
 * caller's memory. */
static void cancel_host_copies(struct weir__cuda *dev, uint64_t number)
{
    bool again = true;

    while (again) {
        again = false;
        weir__spin_lock(&dev->copies.lock);
        for (struct weir__cuda_host_copy *h = dev->copies.under_way; h; h = h->next)
            if (h->number == number && h->under_way)
                again = true;
            else if (h->number == number)
                h->count = 0;
        weir__spin_unlock(&dev->copies.lock);
        if (again)
            sched_yield();
    }
}

static weir_status queue_host_copy(struct weir__cuda_stream *s, weir__cu_stream stream,
                                   const struct weir__copy *c, int64_t first, int64_t count)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct weir__cuda_host_copy *h = weir__malloc(sizeof *h);
    weir_status st;

    if (!h)
        return weir__fail_nomem("copying %lld elements", (long long)count);
    weir__spin_lock(&dev->copies.lock);
    *h = (struct weir__cuda_host_copy){.dev = dev,
                                       .next = dev->copies.under_way,
                                       .at = &dev->copies.under_way,
                                       .number = dev->copies.staged,
                                       .stream = s,
                                       .seq = weir__stream_submitted(&s->base) + 1,
                                       .copy = *c,
                                       .stage = s->scratch.stage,
                                       .first = first,
                                       .count = count};
    if (h->next)
        h->next->at = &h->next;
    dev->copies.under_way = h;
    weir__spin_unlock(&dev->copies.lock);
    if ((st = weir__cuda_check(dev, dev->api->cu.launch_host(stream, run_host_copy, h), "a copy")))
        drop_host_copy(h);
    return st;
}

void weir__cuda_copies_close(struct weir__cuda *dev)
{
    while (dev->copies.under_way)
        drop_host_copy(dev->copies.under_way);
}

/* Copies `count` elements, from `first` on, through the stage. */
static weir_status stage(struct weir__cuda_stream *s, weir__cu_stream stream,
                         const struct weir__copy *c, int64_t first, int64_t count)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    bool to_host = c->direction == WEIR__COPY_TO_HOST;
    bool packed = is_packed(c, to_host ? c->src_stride : c->dst_stride);
    size_t offset = (size_t)first * c->elem, size = (size_t)count * c->elem;
    struct strided args = {.copy = *c, .packed = s->scratch.stage, .first = first, .count = count};
    weir_status st = WEIR_OK;

    if (!to_host)
        st = queue_host_copy(s, stream, c, first, count);
    if (st)
        return st;
    if (!packed)
        st = move_strided(dev, stream, &args);
    else if (to_host)
        st = move_bytes(dev, stream, s->scratch.stage, c->src + offset, size);
    else
        st = move_bytes(dev, stream, c->dst + offset, s->scratch.stage, size);
    if (!st && to_host)
        st = queue_host_copy(s, stream, c, first, count);
    return st;
}

weir_status weir__cuda_stage_ready(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);

    if (s->scratch.stage)
        return WEIR_OK;
    return weir__cuda_check(dev,
                            dev->api->cu.host_alloc((void **)&s->scratch.stage, WEIR__CUDA_STAGE,
                                                    CU_HOST_ALLOC_PORTABLE_MAPPED),
                            "pinned memory");
}

static weir_status copy_staged(struct weir__cuda_stream *s, weir__cu_stream stream,
                               const struct weir__copy *c)
{
    int64_t n = numel(c), step = (int64_t)(WEIR__CUDA_STAGE / c->elem);
    weir_status st = weir__cuda_stage_ready(s);
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);

    dev->copies.staged++;
    for (int64_t first = 0; first < n && !st; first += step)
        st = stage(s, stream, c, first, weir__min(step, n - first));
    if (st)
        cancel_host_copies(dev, dev->copies.staged);
    return st;
}

static weir_status copy_within(struct weir__cuda *dev, weir__cu_stream stream,
                               const struct weir__copy *c)
{
    struct strided args;

    if (c->src && is_packed(c, c->src_stride) && is_packed(c, c->dst_stride))
        return move_bytes(dev, stream, c->dst, c->src, (size_t)numel(c) * c->elem);
    args = (struct strided){.copy = *c, .count = numel(c)};
    if (!c->src)
        memcpy(args.bytes, c + 1, (size_t)args.count * c->elem);
    return move_strided(dev, stream, &args);
}

weir_status weir__cuda_copy(struct weir__cuda_stream *s, weir__cu_stream stream,
                            const struct weir__copy *c)
{
    if (c->src && c->direction != WEIR__COPY_DEVICE)
        return copy_staged(s, stream, c);
    return copy_within(weir__cuda_of(s->base.dev), stream, c);
}

weir_status weir__cuda_copy_ready(struct weir__cuda_stream *s, const struct weir__copy *c)
{
    struct weir__code_launch l = {.threads = 256};
    struct strided args = {.copy = *c, .count = 1};
    bool staged = c->src && c->direction != WEIR__COPY_DEVICE;
    weir__cu_function function;
    weir_status st;

    if (staged && (st = weir__cuda_stage_ready(s)))
        return st;
    if (c->src && is_packed(c, c->src_stride) && is_packed(c, c->dst_stride))
        return WEIR_OK;
    args.packed = staged ? s->scratch.stage : NULL;
    strided_shape(&args, 0, 1, &l);
    return weir__cuda_find_function(weir__cuda_of(s->base.dev), &strided_code, &args, &l,
                                    &function);
}
