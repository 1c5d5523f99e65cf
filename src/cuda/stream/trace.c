/* Trace records of a GPU. While a trace is recorded, an operator is queued between two timing
 * events. When the GPU has passed them, their times are converted to the host's clock and written
 * to the record. In a plan each node has an event after it: see trace_run.h. Nothing waits for
 * events: each sync writes the records of commands that have completed, in the order of
 * queueing. */
#include "cuda/stream/trace_run.h"

enum { SPARE = 256 };

/* ---- recording ---- */

static void free_traced(struct weir__cuda *dev, struct weir__cuda_traced *h)
{
    for (int i = 0; i < 2; i++)
        if (h->ends[i]) /* a wait has none */
            dev->api->cu.event_destroy(h->ends[i]);
    weir__free(h);
}

weir_status weir__cuda_trace_new(struct weir__cuda *dev, struct weir__cuda_traced **out)
{
    uint32_t recording = atomic_load_explicit(&weir__trace_generation, memory_order_relaxed);
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_traced *h;
    weir_status st = WEIR_OK;

    if (dev->traced.recording != recording) {
        if ((st = weir__cuda_anchor(dev)))
            return st; /* without a clock there are no times to record */
        dev->traced.recording = recording;
    }
    weir__spin_lock(&dev->clock.lock);
    if ((h = dev->traced.spare)) {
        dev->traced.spare = h->next;
        dev->traced.nspare--;
    }
    weir__spin_unlock(&dev->clock.lock);
    if (!h) {
        if (!(h = weir__calloc(1, sizeof *h)))
            return WEIR_ENOMEM;
        for (int i = 0; i < 2 && !st; i++)
            st = weir__cuda_check(dev, cu->event_create(&h->ends[i], CU_EVENT_DEFAULT), "a trace");
        if (st) {
            free_traced(dev, h);
            return st;
        }
    }
    h->source = NULL;
    h->run = NULL;
    atomic_store_explicit(&h->end, WEIR__CUDA_TRACE_PENDING, memory_order_relaxed);
    *out = h;
    return st;
}

void weir__cuda_trace_drop(struct weir__cuda *dev, struct weir__cuda_traced *h)
{
    bool keep;

    weir__cuda_run_drop(dev, h->run);
    h->run = NULL;
    weir__spin_lock(&dev->clock.lock);
    if ((keep = !h->source && dev->traced.nspare < SPARE)) {
        h->next = dev->traced.spare;
        dev->traced.spare = h;
        dev->traced.nspare++;
    }
    weir__spin_unlock(&dev->clock.lock);
    if (!keep)
        free_traced(dev, h);
}

void weir__cuda_trace_add(struct weir__cuda *dev, struct weir__cuda_traced *h)
{
    h->next = NULL;
    weir__spin_lock(&dev->clock.lock);
    *dev->traced.end = h;
    dev->traced.end = &h->next;
    atomic_store_explicit(&dev->traced.any, true, memory_order_relaxed);
    weir__spin_unlock(&dev->clock.lock);
}

uint32_t weir__cuda_trace_cores(const struct weir__kernel *k)
{
    struct weir__code_launch l = {.threads = 256};
    struct weir__product product;

    if (k->engine > WEIR_ENGINE_MIX || !k->fn || !k->code || k->code->kind != WEIR__CODE_KERNEL)
        return 0;
    if (k->code->product && k->code->product(k->args, &product))
        return k->cores;
    k->code->shape(k->args, 0, k->cores, &l);
    return l.grid < k->cores ? l.grid : k->cores;
}

struct weir__trace_record weir__cuda_trace_describe(const weir_stream *s, uint64_t seq,
                                                    const struct weir__kernel *k)
{
    return (struct weir__trace_record){
        .kind = WEIR__TRACE_OP,
        .engine = (uint8_t)k->engine,
        .device = (uint32_t)s->dev->id,
        .slot = s->slot,
        .seq = seq,
        .amount = (uint64_t)k->bytes,
        .u.op = {weir__trace_name(k->name), k->scope, (uint16_t)k->cores},
        .blocks = k->blocks * k->phases,
    };
}

struct weir__cuda_traced *weir__cuda_trace_begin(struct weir__cuda_stream *s, weir__cu_stream on,
                                                 const struct weir__kernel *k, uint64_t seq)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct weir__cuda_traced *h;

    if (weir__cuda_trace_new(dev, &h))
        return NULL;
    h->stream = s;
    h->cores = weir__cuda_trace_cores(k);
    h->record = weir__cuda_trace_describe(&s->base, seq, k);
    if (weir__cuda_check(dev, dev->api->cu.event_record(h->ends[0], on), "a trace")) {
        weir__cuda_trace_drop(dev, h);
        return NULL;
    }
    return h;
}

static void set_end(struct weir__cuda_traced *h, enum weir__cuda_ending end)
{
    atomic_store_explicit(&h->end, end, memory_order_release);
}

void weir__cuda_trace_end(struct weir__cuda_traced *h, weir__cu_stream on, bool queued)
{
    struct weir__cuda *dev = weir__cuda_of(h->stream->base.dev);

    if (queued && !weir__cuda_check(dev, dev->api->cu.event_record(h->ends[1], on), "a trace")) {
        set_end(h, WEIR__CUDA_TRACE_EVENT);
        weir__cuda_trace_add(dev, h);
    } else {
        weir__cuda_trace_drop(dev, h);
    }
}

void weir__cuda_trace_arrive(struct weir__cuda_traced *h, bool queued)
{
    (queued ? weir__cuda_trace_add : weir__cuda_trace_drop)(weir__cuda_of(h->stream->base.dev), h);
}

void weir__cuda_trace_part(struct weir__cuda_traced *h, weir__cu_stream on)
{
    struct weir__cuda *dev = weir__cuda_of(h->stream->base.dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = weir__cuda_check(dev, dev->api->cu.event_record(h->ends[1], on), "a trace");

    weir__cuda_leave(dev, pushed);
    if (st)
        weir__cuda_trace_ended(h);
    else
        set_end(h, WEIR__CUDA_TRACE_EVENT);
}

void weir__cuda_trace_ended(struct weir__cuda_traced *h)
{
    h->record.to = weir__clock_ns();
    set_end(h, WEIR__CUDA_TRACE_HOST);
}

void weir__cuda_trace_launched(struct weir__cuda_traced *h, weir__cu_stream on)
{
    struct weir__cuda *dev = weir__cuda_of(h->stream->base.dev);
    bool is_timed =
        on && !weir__cuda_check(dev, dev->api->cu.event_record(h->ends[1], on), "a trace");

    set_end(h, is_timed ? WEIR__CUDA_TRACE_EVENT : WEIR__CUDA_TRACE_NEVER);
}

void weir__cuda_trace_wait(struct weir__cuda_stream *s, uint64_t seq, struct weir__mark from)
{
    struct weir__cuda_traced *h = weir__calloc(1, sizeof *h);

    if (!h)
        return;
    h->stream = s;
    h->source = weir__cuda_stream_of(from.stream);
    h->record =
        (struct weir__trace_record){.seq = seq, .amount = from.seq, .from = weir__clock_ns()};
    h->record.u.source.device = (uint32_t)from.stream->dev->id;
    h->record.u.source.slot = from.stream->slot;
    weir__cuda_trace_add(weir__cuda_of(s->base.dev), h);
}

void weir__cuda_trace_native(weir_stream *base, void *native, const struct weir__kernel *k)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    struct weir__cuda_traced *h = s->tracing.native;
    bool pushed;

    if (!h && !k)
        return;
    pushed = weir__cuda_enter(dev);
    if (h) /* a record that was never ended is dropped when the next begins */
        weir__cuda_trace_end(h, native, !k && weir__trace_on());
    s->tracing.native =
        k ? weir__cuda_trace_begin(s, native, k, weir__stream_submitted(base)) : NULL;
    weir__cuda_leave(dev, pushed);
}

/* ---- writing records: under the clock's lock ---- */

/* Returns when the last of the stream's commands up to `seq` completed; 0 if not known. */
static uint64_t end_of(const struct weir__cuda_stream *s, uint64_t seq)
{
    uint64_t best = 0, ns = 0;

    for (int i = 0; i < WEIR__CUDA_ENDS; i++)
        if (s->tracing.ends[i].seq <= seq && s->tracing.ends[i].seq >= best) {
            best = s->tracing.ends[i].seq;
            ns = s->tracing.ends[i].ns;
        }
    return ns;
}

void weir__cuda_trace_note(struct weir__cuda_stream *s, uint64_t seq, uint64_t ns)
{
    s->tracing.ends[s->tracing.at].seq = seq;
    s->tracing.ends[s->tracing.at].ns = ns;
    s->tracing.at = (s->tracing.at + 1) % WEIR__CUDA_ENDS;
}

/* A wait is reached when everything before it on its stream has completed, and ends when its source
 * has completed as well. */
static void write_wait(struct weir__cuda_traced *h)
{
    const struct weir__trace_record *r = &h->record;
    uint64_t before = end_of(h->stream, r->seq), source = 0, reached, passed;

    if (h->source->base.dev == h->stream->base.dev)
        source = end_of(h->source, r->amount);
    reached = before > r->from ? before : r->from;
    passed = source > reached ? source : reached;
    weir__trace_put_wait(h->stream->base.dev->id, h->stream->base.slot, r->seq, r->u.source.device,
                         r->u.source.slot, r->amount, reached, passed);
    weir__cuda_trace_note(h->stream, r->seq, passed);
}

void weir__cuda_trace_write(struct weir__cuda_stream *s, struct weir__trace_record *r,
                            uint32_t cores, uint64_t from, uint64_t to)
{
    struct weir__trace_record part = *r;

    r->from = from;
    r->to = to > from ? to : from;
    r->failed = r->seq == atomic_load(&s->base.failed_at);
    weir__cuda_trace_note(s, r->seq, r->to);
    weir__trace_put(r);
    if (!cores)
        return;
    part.kind = WEIR__TRACE_PART;
    part.amount = 0;
    part.u.reserved = 0;
    part.from = from;
    part.to = r->to;
    part.blocks = cores;
    part.cores = WEIR__TRACE_NO_CORES;
    part.cores.cube = WEIR__TRACE_ANY_CORE;
    weir__trace_put(&part);
}

/* Writes the entry's record. False if it has not completed yet. */
static bool write_record(struct weir__cuda *dev, struct weir__cuda_traced *h)
{
    int end = atomic_load_explicit(&h->end, memory_order_acquire);
    uint64_t from, to;

    if (h->source) {
        write_wait(h);
        return true;
    }
    if (end == WEIR__CUDA_TRACE_PENDING)
        return false;
    if (end == WEIR__CUDA_TRACE_NEVER)
        return true;
    if (end == WEIR__CUDA_TRACE_HOST)
        to = h->record.to;
    else if (weir__cuda_time_of(dev, &h->ends[1], &to) == CU_ERROR_NOT_READY)
        return false;
    if (to == WEIR__NO_TIME || weir__cuda_time_of(dev, &h->ends[0], &from))
        return true;
    if (h->run)
        weir__cuda_run_write(dev, h->run, from);
    else
        weir__cuda_trace_write(h->stream, &h->record, h->cores, from, to);
    return true;
}

static void hold_back(const struct weir__cuda_traced *h)
{
    h->stream->tracing.is_behind = true;
    for (int i = 0; h->run && i < h->run->n; i++)
        h->run->nodes[i].stream->tracing.is_behind = true;
}

void weir__cuda_trace_flush(struct weir__cuda *dev)
{
    struct weir__cuda_traced **at, *h, *done = NULL;
    bool pushed;

    if (weir__likely(!atomic_load_explicit(&dev->traced.any, memory_order_relaxed)))
        return;
    pushed = weir__cuda_enter(dev);
    weir__spin_lock(&dev->clock.lock);
    for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next)
        s->tracing.is_behind = false;
    for (at = &dev->traced.first; (h = *at);) {
        if (h->stream->tracing.is_behind || !write_record(dev, h)) {
            hold_back(h); /* later commands of its streams must wait too */
            at = &h->next;
            continue;
        }
        *at = h->next;
        h->next = done;
        done = h;
    }
    dev->traced.end = at;
    atomic_store_explicit(&dev->traced.any, dev->traced.first != NULL, memory_order_relaxed);
    weir__spin_unlock(&dev->clock.lock);
    while ((h = done)) {
        done = h->next;
        weir__cuda_trace_drop(dev, h);
    }
    weir__cuda_leave(dev, pushed);
}

void weir__cuda_trace_close(struct weir__cuda *dev)
{
    struct weir__cuda_traced *lists[] = {dev->traced.first, dev->traced.spare};

    for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next)
        if (s->tracing.native)
            free_traced(dev, s->tracing.native);
    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            struct weir__cuda_traced *next = lists[i]->next;

            weir__cuda_run_drop(dev, lists[i]->run);
            free_traced(dev, lists[i]);
            lists[i] = next;
        }
    weir__cuda_timers_close(dev);
}
