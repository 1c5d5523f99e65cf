/* Builds a trace from records: sorts them by stream and command, then joins them in one sweep. */
#include "trace/record/store.h"

#include <stdlib.h>
#include <string.h>

/* An announced stream. */
struct known {
    uint32_t device, slot; /* device is an index */
    uint64_t first;
    uint32_t order;  /* of announcements: of two for the same command the later one counts */
    uint32_t stream; /* index in the trace; WEIR_TRACE_NONE until the sweep meets a record of it */
    const struct weir__trace_raw_stream *raw;
};

/* The command of an operator, for waits that name a command. */
struct origin {
    uint32_t device, slot;
    uint64_t seq;
};

struct collector {
    struct weir__trace_raw *raw;
    weir_trace *trace;
    struct known *known;
    int nknown;
    struct origin *origins; /* by operator */
    int cap_origins;
    struct weir__trace_record *sources; /* by wait: its record */
    int cap_sources;
    /* State of the sweep within one slot. */
    const struct weir__trace_record *queued;
    int64_t last_end; /* of the last operator or wait; INT64_MIN before the first */
    int first_wait;   /* the first wait that belongs to no operator yet */
};

/* ---- order ---- */

static int compare_ids(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* The order of records of one command: its queueing, the operator or wait, the operator's parts. */
static int rank_of(const struct weir__trace_record *r)
{
    return r->kind == WEIR__TRACE_QUEUED ? 0 : r->kind == WEIR__TRACE_PART ? 2 : 1;
}

static int compare_records(const void *x, const void *y)
{
    const struct weir__trace_record *a = x, *b = y;
    int order = (a->kind == WEIR__TRACE_MEMORY) - (b->kind == WEIR__TRACE_MEMORY);

    if (!order)
        order = compare_ids(a->device, b->device);
    if (!order)
        order = compare_ids(a->slot, b->slot);
    if (!order)
        order = compare_ids(a->seq, b->seq);
    if (!order)
        order = rank_of(a) - rank_of(b);
    return order ? order : compare_ids(a->from, b->from);
}

static int compare_known(const void *x, const void *y)
{
    const struct known *a = x, *b = y;
    int order = compare_ids(a->device, b->device);

    if (!order)
        order = compare_ids(a->slot, b->slot);
    if (!order)
        order = compare_ids(a->first, b->first);
    return order ? order : compare_ids(a->order, b->order);
}

/* ---- devices, streams, time ---- */

/* Finds a device by its id. Devices are sorted by id. */
static uint32_t device_index(const struct weir__trace_raw *raw, uint64_t id)
{
    int low = 0, high = raw->ndevices;

    while (low < high) {
        int middle = (low + high) / 2;

        if (raw->devices[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < raw->ndevices && raw->devices[low].id == id ? (uint32_t)low : WEIR_TRACE_NONE;
}

static int64_t time_of(const struct weir__trace_raw *raw, uint32_t device, uint64_t at)
{
    switch (raw->devices[device].clock) {
    case WEIR__TRACE_TICKS: /* a wait may have been reached before the recording began */
        return at < raw->start_ticks
                   ? 0
                   : (int64_t)((double)(at - raw->start_ticks) * raw->ns_per_tick);
    case WEIR__TRACE_HOST_NS:
        return at < raw->start_ns ? 0 : (int64_t)(at - raw->start_ns);
    case WEIR__TRACE_OWN_NS:
        break;
    }
    return (int64_t)at;
}

static bool add_devices(struct collector *c)
{
    weir_trace *t = c->trace;

    t->process = weir__trace_own_process(c->raw->start_ns);
    for (int i = 0; i < c->raw->ndevices; i++) {
        const struct weir__trace_raw_device *from = &c->raw->devices[i];
        weir_trace_device d = {
            .name = weir__trace_keep(&t->texts, from->name, strlen(from->name)),
            .model = weir__trace_keep(&t->texts, from->model, strlen(from->model)),
            .cores = from->cores,
            .split_cores = from->split,
            .real_time = from->real_time,
            .rank = t->process.known ? t->process.rank : i,
        };

        if (!d.name || !d.model ||
            !weir__grow(&t->devices, t->ndevices, &t->cap_devices, sizeof *t->devices))
            return false;
        t->devices[t->ndevices++] = d;
    }
    return true;
}

static bool know_streams(struct collector *c)
{
    const struct weir__trace_raw *raw = c->raw;

    if (!(c->known = weir__calloc((size_t)raw->nstreams, sizeof *c->known)))
        return false;
    for (int i = 0; i < raw->nstreams; i++) {
        const struct weir__trace_raw_stream *s = &raw->streams[i];
        uint32_t device = device_index(raw, s->device);

        if (device != WEIR_TRACE_NONE)
            c->known[c->nknown++] =
                (struct known){device, s->slot, s->first, (uint32_t)i, WEIR_TRACE_NONE, s};
    }
    qsort(c->known, (size_t)c->nknown, sizeof *c->known, compare_known);
    return true;
}

/* Returns the last announcement for the slot at or before the command. Every stream is announced
 * before anything is queued on it, so it is NULL only if memory was short. */
static struct known *find_known(struct collector *c, uint32_t device, uint32_t slot, uint64_t seq)
{
    struct known want = {device, slot, seq, UINT32_MAX, 0, NULL};
    int low = 0, high = c->nknown;

    while (low < high) {
        int middle = (low + high) / 2;

        if (compare_known(&c->known[middle], &want) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || c->known[low - 1].device != device || c->known[low - 1].slot != slot)
        return NULL;
    return &c->known[low - 1];
}

/* Returns the stream's index in the trace; adds the stream if needed. WEIR_TRACE_NONE if it was
 * never announced. Sets *ok to false when out of memory. */
static uint32_t stream_index(struct collector *c, uint32_t device, uint32_t slot, uint64_t seq,
                             bool *ok)
{
    struct known *k = find_known(c, device, slot, seq);
    weir_trace *t = c->trace;
    const char *name;

    if (!k || k->stream != WEIR_TRACE_NONE)
        return k ? k->stream : WEIR_TRACE_NONE;
    name = weir__trace_keep(&t->texts, k->raw->name, strlen(k->raw->name));
    if (!name || !weir__grow(&t->streams, t->nstreams, &t->cap_streams, sizeof *t->streams)) {
        *ok = false;
        return WEIR_TRACE_NONE;
    }
    k->stream = (uint32_t)t->nstreams;
    t->streams[t->nstreams++] = (weir_trace_stream){name, device, k->raw->priority};
    return k->stream;
}

/* ---- the sweep ---- */

static uint16_t core_number(unsigned base, uint16_t core)
{
    return core >= WEIR__TRACE_ANY_CORE ? core : (uint16_t)(base + core);
}

static bool add_one_part(struct collector *c, const struct weir__trace_record *r, uint32_t blocks)
{
    weir_trace *t = c->trace;
    weir_trace_op *op = &t->ops[t->nops - 1];
    const weir_trace_device *d = &t->devices[op->device];
    unsigned base = d->split_cores ? (unsigned)d->cores.cube : 0;
    weir_trace_part *p;

    if (!weir__grow(&t->parts, t->nparts, &t->cap_parts, sizeof *t->parts))
        return false;
    p = &t->parts[t->nparts++];
    *p = (weir_trace_part){
        .op = (uint32_t)t->nops - 1,
        .blocks = blocks,
        .started_ns = time_of(c->raw, op->device, r->from),
        .ended_ns = time_of(c->raw, op->device, r->to),
    };
    if (r->cores.cube != WEIR__TRACE_NO_CORE)
        p->cores[p->ncores++] = r->cores.cube;
    for (int i = 0; i < 2; i++)
        if (r->cores.vector[i] != WEIR__TRACE_NO_CORE)
            p->cores[p->ncores++] = core_number(base, r->cores.vector[i]);
    op->nparts++;
    if (p->started_ns < op->started_ns)
        op->started_ns = p->started_ns;
    if (p->ended_ns > op->ended_ns)
        op->ended_ns = p->ended_ns;
    return true;
}

/* Adds the record's blocks as one part, or as one part per block if their cores are unnamed. */
static bool add_part(struct collector *c, const struct weir__trace_record *r)
{
    bool unnamed =
        r->cores.cube == WEIR__TRACE_ANY_CORE || r->cores.vector[0] == WEIR__TRACE_ANY_CORE;
    uint32_t n = unnamed ? r->blocks : 1;

    for (uint32_t i = 0; i < n; i++)
        if (!add_one_part(c, r, unnamed ? 1 : r->blocks))
            return false;
    return true;
}

static bool add_op(struct collector *c, const struct weir__trace_record *r, uint32_t device,
                   uint32_t stream)
{
    const struct weir__trace_record *q = c->queued;
    weir_trace *t = c->trace;
    weir_trace_op *op;

    if (!weir__grow(&t->ops, t->nops, &t->cap_ops, sizeof *t->ops) ||
        !weir__grow(&c->origins, t->nops, &c->cap_origins, sizeof *c->origins))
        return false;
    c->origins[t->nops] = (struct origin){device, r->slot, r->seq};
    op = &t->ops[t->nops++];
    *op = (weir_trace_op){
        .name = weir__trace_name_text(r->u.op.name),
        .scope = weir__trace_scope_text(r->u.op.scope),
        .source = "",
        .device = device,
        .stream = stream,
        .seq = r->seq,
        .engine = r->engine,
        .blocks = r->blocks,
        .cores = r->u.op.limit,
        .bytes = r->amount,
        .started_ns = time_of(c->raw, device, r->from),
        .ended_ns = time_of(c->raw, device, r->to),
        .first_part = (uint32_t)t->nparts,
        .first_wait = (uint32_t)c->first_wait,
        .nwaits = (uint32_t)(t->nwaits - c->first_wait),
        .failed = r->failed,
    };
    for (; c->first_wait < t->nwaits; c->first_wait++)
        t->waits[c->first_wait].op = (uint32_t)t->nops - 1;
    op->queued_ns =
        q && r->seq - q->seq < q->u.count ? time_of(c->raw, device, q->from) : INT64_MIN;
    return !r->whole || add_part(c, r);
}

/* Sets the last operator's queued and ready times once its parts are known, in order: queued,
 * ready, started. Times read by two threads may differ by a few ticks, so they are clamped. */
static void order_times(struct collector *c)
{
    weir_trace_op *op = &c->trace->ops[c->trace->nops - 1];

    if (op->queued_ns == INT64_MIN)
        op->queued_ns = c->last_end > INT64_MIN ? c->last_end : op->started_ns;
    if (op->queued_ns > op->started_ns)
        op->queued_ns = op->started_ns;
    op->ready_ns = op->queued_ns > c->last_end ? op->queued_ns : c->last_end;
    if (op->ready_ns > op->started_ns)
        op->ready_ns = op->started_ns;
    c->last_end = op->ended_ns;
}

static bool add_wait(struct collector *c, const struct weir__trace_record *r, uint32_t device,
                     uint32_t stream)
{
    weir_trace *t = c->trace;
    weir_trace_wait *w;

    if (!weir__grow(&t->waits, t->nwaits, &t->cap_waits, sizeof *t->waits) ||
        !weir__grow(&c->sources, t->nwaits, &c->cap_sources, sizeof *c->sources))
        return false;
    c->sources[t->nwaits] = *r;
    w = &t->waits[t->nwaits++];
    *w = (weir_trace_wait){
        .stream = stream,
        .source_stream = WEIR_TRACE_NONE,
        .op = WEIR_TRACE_NONE,
        .source_op = WEIR_TRACE_NONE,
        .reached_ns = time_of(c->raw, device, r->from),
        .passed_ns = time_of(c->raw, device, r->to),
    };
    c->last_end = w->passed_ns;
    return true;
}

static bool add_memory(struct collector *c, const struct weir__trace_record *r, uint32_t device)
{
    weir_trace *t = c->trace;

    if (!weir__grow(&t->memory, t->nmemory, &t->cap_memory, sizeof *t->memory))
        return false;
    t->memory[t->nmemory++] =
        (weir_trace_memory){device, time_of(c->raw, device, r->from), r->amount, r->u.reserved};
    return true;
}

/* Adds one command with all its records, or one record of memory; moves *at past it. */
static bool take(struct collector *c, size_t *at)
{
    const struct weir__trace_raw *raw = c->raw;
    const struct weir__trace_record *r = &raw->records[(*at)++];
    uint32_t device = device_index(raw, r->device), stream;
    bool ok = true;

    if (device == WEIR_TRACE_NONE)
        return true;
    if (r->kind == WEIR__TRACE_MEMORY)
        return add_memory(c, r, device);
    if (r->kind == WEIR__TRACE_QUEUED) {
        c->queued = r;
        return true;
    }
    stream = stream_index(c, device, r->slot, r->seq, &ok);
    if (stream == WEIR_TRACE_NONE || r->kind == WEIR__TRACE_PART) /* a part of a lost operator */
        return ok;
    if (r->kind == WEIR__TRACE_WAIT)
        return add_wait(c, r, device, stream);
    if (!add_op(c, r, device, stream))
        return false;
    for (; *at < raw->nrecords && raw->records[*at].kind == WEIR__TRACE_PART; (*at)++) {
        const struct weir__trace_record *p = &raw->records[*at];

        if (p->device != r->device || p->slot != r->slot || p->seq != r->seq)
            break;
        if (!add_part(c, p))
            return false;
    }
    order_times(c);
    return true;
}

static bool sweep(struct collector *c)
{
    const struct weir__trace_record *before = NULL, *r;

    for (size_t at = 0; at < c->raw->nrecords; before = r) {
        r = &c->raw->records[at];
        if (!before || r->device != before->device || r->slot != before->slot) {
            c->queued = NULL;
            c->last_end = INT64_MIN;
            c->first_wait = c->trace->nwaits;
        }
        if (!take(c, &at))
            return false;
    }
    return true;
}

/* ---- the sources of waits ---- */

static int compare_origin(const struct origin *o, uint32_t device, uint32_t slot, uint64_t seq)
{
    int order = compare_ids(o->device, device);

    if (!order)
        order = compare_ids(o->slot, slot);
    return order ? order : compare_ids(o->seq, seq);
}

/* Returns the last operator of the slot at or before the command, or WEIR_TRACE_NONE. */
static uint32_t find_op(const struct collector *c, uint32_t device, uint32_t slot, uint64_t seq)
{
    int low = 0, high = c->trace->nops;

    while (low < high) {
        int middle = (low + high) / 2;

        if (compare_origin(&c->origins[middle], device, slot, seq) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || c->origins[low - 1].device != device || c->origins[low - 1].slot != slot)
        return WEIR_TRACE_NONE;
    return (uint32_t)low - 1;
}

static bool resolve_waits(struct collector *c)
{
    bool ok = true;

    for (int i = 0; i < c->trace->nwaits && ok; i++) {
        const struct weir__trace_record *r = &c->sources[i];
        weir_trace_wait *w = &c->trace->waits[i];
        uint32_t device = device_index(c->raw, r->u.source.device), op;

        if (device == WEIR_TRACE_NONE)
            continue;
        op = w->source_op = find_op(c, device, r->u.source.slot, r->amount);
        w->source_stream = op != WEIR_TRACE_NONE
                               ? c->trace->ops[op].stream
                               : stream_index(c, device, r->u.source.slot, r->amount, &ok);
    }
    return ok;
}

weir_status weir__trace_collect(struct weir__trace_raw *raw, weir_trace **out)
{
    struct collector c = {.raw = raw};
    bool ok;

    if (!(c.trace = weir__calloc(1, sizeof *c.trace)))
        return weir__fail_nomem("making a trace");
    c.trace->dropped = raw->dropped;
    qsort(raw->records, raw->nrecords, sizeof *raw->records, compare_records);
    ok = add_devices(&c) && know_streams(&c) && sweep(&c) && resolve_waits(&c) &&
         weir__trace_name_cores(c.trace);
    weir__free(c.known);
    weir__free(c.origins);
    weir__free(c.sources);
    if (ok) {
        *out = c.trace;
        return WEIR_OK;
    }
    weir__allocator_hold(1); /* weir_trace_free releases one hold; the caller keeps its own */
    weir_trace_free(c.trace);
    return weir__fail_nomem("sorting a trace of %zu records", raw->nrecords);
}
