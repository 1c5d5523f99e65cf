/* Sorts the operators of a profile, and finds what they waited for.
 *
 * A profile says when an operator ran, and sometimes what it waited for. From the most to the least
 * reliable:
 *   a wait that names the record, by its call or by its event: the operator waited for the last
 *   operator before that record
 *   a wait that names a stream: for the last operator there that had ended
 *   a synchronisation of the host: for everything launched before it
 *   a wait that names nothing: for the operator of another stream that ended last and was launched
 *   before the wait was called
 * Without any of these, an operator is taken to have waited for an operator of another stream if it
 * started right after that one ended, and after a longer pause than is usual on its own stream.
 *
 * If all waits are of the first two kinds, the order is known. Otherwise it is guessed
 * (weir_trace.order_guessed), and write/graph_order.c assumes more order than these waits.
 */
#include "trace/read/import.h"

#include <stdlib.h>
#include <string.h>

enum { SLACK_NS = 5000, MANY = 4096 };

int weir__import_compare_spans(const void *x, const void *y)
{
    const struct weir__import_span *a = x, *b = y;

    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->to < b->to) - (a->to > b->to); /* outer before inner */
}

static int compare_gaps(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return (a > b) - (a < b);
}

/* The median pause between operators of the stream that begins at s[0]. */
static int64_t usual_gap(const struct weir__import_span *s, int n)
{
    int64_t gaps[MANY];
    int ngaps = 0;

    for (int i = 1; i < n && s[i].stream == s[0].stream && ngaps < MANY; i++)
        gaps[ngaps++] = s[i].from > s[i - 1].to ? s[i].from - s[i - 1].to : 0;
    qsort(gaps, (size_t)ngaps, sizeof *gaps, compare_gaps);
    return ngaps ? gaps[ngaps / 2] : 0;
}

/* ---- operators ---- */

/* The last wait on a stream before its next operator. */
struct pending {
    bool any;    /* there is a wait */
    bool device; /* the device recorded it; else it is derived from a call of the host */
    int source;
    uint64_t before; /* it waits only for launches of calls before this one; 0: for any */
    uint64_t event;  /* that it waits for; 0: unknown */
    int64_t passed;
};

/* Facts about an operator that the trace does not keep. */
struct note {
    struct pending wait;
    uint64_t launch, synced;
};

/* When an operator ended. */
struct end {
    uint32_t device;
    int64_t at;
    uint32_t op;
};

/* A record of an event on its stream. */
struct record {
    uint64_t event;
    int64_t at;
    uint32_t stream, op; /* op: the stream's last operator before it, or WEIR_TRACE_NONE */
};

struct order {
    weir_trace *t;
    struct note *notes; /* by operator */
    int cap_notes;
    int64_t *usual;         /* the usual pause between operators, by stream */
    uint32_t *first;        /* first operator of each stream; one more entry marks the end */
    struct end *ends;       /* of all operators, sorted */
    struct record *records; /* sorted */
    int nrecords, cap_records;
    bool vague; /* a wait of the device does not say what it waits for */
};

static bool add_op(struct order *o, const struct weir__import_span *s, const struct pending *wait)
{
    weir_trace *t = o->t;
    const weir_trace_op *before =
        t->nops && t->ops[t->nops - 1].stream == s->stream ? &t->ops[t->nops - 1] : NULL;
    int64_t from = before && before->ended_ns > s->from ? before->ended_ns : s->from;
    uint64_t seq = before ? before->seq + 1 : 1;

    if (!weir__grow(&t->ops, t->nops, &t->cap_ops, sizeof *t->ops) ||
        !weir__grow(&o->notes, t->nops, &o->cap_notes, sizeof *o->notes))
        return false;
    o->notes[t->nops] = (struct note){*wait, s->launch, s->synced};
    t->ops[t->nops++] = (weir_trace_op){
        .name = s->name,
        .scope = s->scope ? s->scope : "",
        .source = s->source_line ? s->source_line : "",
        .device = s->device,
        .stream = s->stream,
        .seq = seq,
        .engine = s->engine,
        .blocks = s->blocks,
        .cores = s->blocks,
        .bytes = s->bytes,
        .queued_ns = from,
        .ready_ns = from,
        .started_ns = from,
        .ended_ns = s->to > from ? s->to : from,
    };
    return true;
}

static bool add_record(struct order *o, const struct weir__import_span *s)
{
    const weir_trace *t = o->t;
    bool first = !t->nops || t->ops[t->nops - 1].stream != s->stream;

    if (!weir__grow(&o->records, o->nrecords, &o->cap_records, sizeof *o->records))
        return false;
    o->records[o->nrecords++] = (struct record){s->event, s->to, s->stream,
                                                first ? WEIR_TRACE_NONE : (uint32_t)t->nops - 1};
    return true;
}

static bool add_ops(struct order *o, const struct weir__import_span *s, int n)
{
    static const struct pending none = {.source = WEIR__SPAN_ANY};
    struct pending wait = none;

    for (int i = 0; i < n; i++) {
        if (!i || s[i].stream != s[i - 1].stream) {
            wait = none;
            o->usual[s[i].stream] = usual_gap(&s[i], n - i);
        }
        if (s[i].kind == WEIR__SPAN_RECORD) {
            if (!add_record(o, &s[i]))
                return false;
            continue;
        }
        if (s[i].kind == WEIR__SPAN_WAIT || s[i].waits)
            wait = (struct pending){.any = true,
                                    .device = s[i].kind == WEIR__SPAN_WAIT,
                                    .source = s[i].source,
                                    .before = s[i].before,
                                    .event = s[i].event,
                                    .passed = s[i].to};
        if (s[i].kind == WEIR__SPAN_WAIT)
            continue;
        if (!add_op(o, &s[i], &wait))
            return false;
        wait = none;
    }
    return true;
}

/* ---- waits ---- */

static int compare_ends(const void *x, const void *y)
{
    const struct end *a = x, *b = y;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

static int compare_records(const void *x, const void *y)
{
    const struct record *a = x, *b = y;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

/* Returns the operator of the stream `source`, or of any stream but the operator's own, that ended
 * last in (after, until] and was launched by a call before `before`; WEIR_TRACE_NONE if none
 * did. */
static uint32_t last_end(const struct order *o, const weir_trace_op *op, int source,
                         uint64_t before, int64_t after, int64_t until)
{
    const struct end want = {op->device, until, UINT32_MAX};
    int low = 0, high = o->t->nops, steps = 0;

    while (low < high) {
        int middle = (low + high) / 2;

        if (compare_ends(&o->ends[middle], &want) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low-- > 0 && steps < MANY; steps++) {
        const struct end *e = &o->ends[low];
        uint32_t stream = o->t->ops[e->op].stream;

        if (e->device != op->device || e->at <= after)
            break;
        if (before && o->notes[e->op].launch >= before)
            continue;
        if (source == WEIR__SPAN_ANY ? stream != op->stream : stream == (uint32_t)source)
            return e->op;
    }
    return WEIR_TRACE_NONE;
}

/* Returns the last operator of a stream that a call before `before` launched and that had ended by
 * `until`. Calls of several threads may reach a stream slightly out of order; the search then finds
 * an operator close to the last, which is good enough. */
static uint32_t last_launched(const struct order *o, uint32_t stream, uint64_t before,
                              int64_t until)
{
    uint32_t low = o->first[stream], high = o->first[stream + 1];

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (o->notes[middle].launch < before && o->t->ops[middle].ended_ns <= until)
            low = middle + 1;
        else
            high = middle;
    }
    return low > o->first[stream] ? low - 1 : WEIR_TRACE_NONE;
}

/* Returns the operator before the record that a wait names. If the wait names none, takes the last
 * record on another stream of the device. */
static uint32_t last_record(struct order *o, const weir_trace_op *op, const struct pending *w)
{
    const struct record want = {.at = w->passed, .stream = UINT32_MAX};
    int low = 0, high = o->nrecords, steps = 0;

    while (low < high) {
        int middle = (low + high) / 2;

        if (compare_records(&o->records[middle], &want) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    o->vague |= !w->event;
    for (; low-- > 0 && steps < MANY; steps++) {
        const struct record *r = &o->records[low];

        if (r->stream != op->stream && o->t->streams[r->stream].device == op->device &&
            (!w->event || r->event == w->event))
            return r->op;
    }
    o->vague = true;
    return WEIR_TRACE_NONE;
}

/* Returns the operator that operator i waited for, as far as the profile says. */
static uint32_t source_of(struct order *o, int i)
{
    const weir_trace_op *op = &o->t->ops[i];
    const weir_trace_op *before = i && op[-1].stream == op->stream ? op - 1 : NULL;
    int64_t usual = o->usual[op->stream], slack = usual > SLACK_NS ? usual : SLACK_NS;
    int64_t idle_from = before ? before->ended_ns : INT64_MIN;
    const struct pending *w = &o->notes[i].wait;

    if (w->any && w->source >= 0)
        return w->before ? last_launched(o, (uint32_t)w->source, w->before, op->started_ns)
                         : last_end(o, op, w->source, 0, INT64_MIN, op->started_ns);
    if (w->any && w->device && o->nrecords)
        return last_record(o, op, w);
    o->vague |= w->any && w->device;
    if (w->any)
        return last_end(o, op, WEIR__SPAN_ANY, w->before, idle_from, op->started_ns);
    if (before && (op->started_ns - before->ended_ns) / 2 <= usual)
        return WEIR_TRACE_NONE;
    if (idle_from < op->started_ns - slack)
        idle_from = op->started_ns - slack;
    return last_end(o, op, WEIR__SPAN_ANY, 0, idle_from, op->started_ns);
}

static bool add_wait(struct order *o, uint32_t i, uint32_t source)
{
    weir_trace *t = o->t;
    weir_trace_op *op = &t->ops[i];
    int64_t reached = i && op[-1].stream == op->stream ? op[-1].ended_ns : 0;

    for (uint32_t k = 0; k < op->nwaits; k++)
        if (t->waits[op->first_wait + k].source_op == source)
            return true;
    if (!weir__grow(&t->waits, t->nwaits, &t->cap_waits, sizeof *t->waits))
        return false;
    if (reached > t->ops[source].ended_ns)
        reached = t->ops[source].ended_ns;
    t->waits[t->nwaits++] = (weir_trace_wait){
        .stream = op->stream,
        .source_stream = t->ops[source].stream,
        .op = i,
        .source_op = source,
        .reached_ns = reached,
        .passed_ns = t->ops[source].ended_ns,
    };
    op->queued_ns = reached;
    op->nwaits++;
    return true;
}

/* Orders the first operator of a stream after a synchronisation after everything that was launched
 * on the other streams of its device before the synchronisation. */
static bool add_sync(struct order *o, uint32_t i)
{
    const weir_trace *t = o->t;
    const weir_trace_op *op = &t->ops[i];
    uint64_t sync = o->notes[i].synced;

    if (!sync || (i && op[-1].stream == op->stream && o->notes[i - 1].synced >= sync))
        return true;
    for (int s = 0; s < t->nstreams; s++) {
        uint32_t source;

        if ((uint32_t)s == op->stream || t->streams[s].device != op->device)
            continue;
        source = last_launched(o, (uint32_t)s, sync, op->started_ns);
        if (source != WEIR_TRACE_NONE && !add_wait(o, i, source))
            return false;
    }
    return true;
}

static void find_streams(struct order *o)
{
    uint32_t stream = 0;

    for (int i = 0; i < o->t->nops; i++)
        while (stream <= o->t->ops[i].stream)
            o->first[stream++] = (uint32_t)i;
    while (stream <= (uint32_t)o->t->nstreams)
        o->first[stream++] = (uint32_t)o->t->nops;
}

static bool add_waits(struct order *o)
{
    weir_trace *t = o->t;
    bool told = false;

    for (int i = 0; i < t->nops; i++)
        o->ends[i] = (struct end){t->ops[i].device, t->ops[i].ended_ns, (uint32_t)i};
    qsort(o->ends, (size_t)t->nops, sizeof *o->ends, compare_ends);
    if (o->nrecords)
        qsort(o->records, (size_t)o->nrecords, sizeof *o->records, compare_records);
    find_streams(o);
    for (int i = 0; i < t->nops; i++) {
        uint32_t source = source_of(o, i);

        t->ops[i].first_wait = (uint32_t)t->nwaits;
        told |= o->notes[i].wait.device;
        if ((source != WEIR_TRACE_NONE && !add_wait(o, (uint32_t)i, source)) ||
            !add_sync(o, (uint32_t)i))
            return false;
    }
    t->order_guessed = t->nstreams > 1 && (!told || o->vague);
    return true;
}

/* Shifts all times so that the first operator starts at 0: each profiler has its own epoch. */
static void shift(struct weir__import_span *s, int n)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < n; i++)
        first = s[i].from < first ? s[i].from : first;
    for (int i = 0; i < n; i++) {
        s[i].from -= first;
        s[i].to = s[i].to > first ? s[i].to - first : 0;
    }
}

weir_status weir__import_order(weir_trace *t, struct weir__import_span *spans, int nspans)
{
    struct order o = {.t = t};
    int n;
    bool ok;

    shift(spans, nspans);
    qsort(spans, (size_t)nspans, sizeof *spans, weir__import_compare_spans);
    n = weir__import_self_time(spans, nspans);
    o.usual = weir__calloc((size_t)t->nstreams + 1, sizeof *o.usual);
    o.first = weir__calloc((size_t)t->nstreams + 1, sizeof *o.first);
    o.ends = weir__calloc((size_t)(n > 0 ? n : 0) + 1, sizeof *o.ends);
    ok = n >= 0 && o.usual && o.first && o.ends && add_ops(&o, spans, n) && add_waits(&o);
    weir__free(o.notes);
    weir__free(o.usual);
    weir__free(o.first);
    weir__free(o.ends);
    weir__free(o.records);
    return ok ? WEIR_OK : weir__fail_nomem("allocating a trace of %d spans", nspans);
}
