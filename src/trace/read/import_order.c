/* Operators of a profile in order, and what they waited for.
 *
 * A profile says when something ran, rarely why not earlier. Where it has waits of streams,
 * the next operator waited for what ended last on the stream that was named, or on any
 * other. Elsewhere an operator that came after a longer pause than is usual on its stream,
 * and right after an operator of another stream ended, is taken to have waited for that.
 */
#include "trace/read/import.h"

#include <stdlib.h>
#include <string.h>

enum { SLACK_NS = 5000, MANY = 4096 };

static int compare_spans(const void *x, const void *y)
{
    const struct weir__import_span *a = x, *b = y;

    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->to < b->to) - (a->to > b->to); /* what holds others comes before them */
}

/* A span around others is their caller, not work: only the innermost are kept. */
static int drop_callers(struct weir__import_span *s, int n)
{
    int kept = 0;

    for (int i = 0; i < n; i++) {
        const struct weir__import_span *next = i + 1 < n ? &s[i + 1] : NULL;

        if (s[i].kind == WEIR__SPAN_WORK && next && next->stream == s[i].stream &&
            next->from < s[i].to && next->to <= s[i].to)
            continue;
        s[kept++] = s[i];
    }
    return kept;
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

/* Waits that stand before an operator, until it comes. */
struct pending {
    bool any;
    int source;
};

/* When an operator ended. */
struct end {
    uint32_t device;
    int64_t at;
    uint32_t op;
};

struct order {
    weir_trace *t;
    struct pending *pending; /* by operator */
    int cap_pending;
    int64_t *usual;   /* by stream */
    struct end *ends; /* of all operators, sorted */
};

static bool add_op(struct order *o, const struct weir__import_span *s, struct pending wait)
{
    weir_trace *t = o->t;
    const weir_trace_op *before =
        t->nops && t->ops[t->nops - 1].stream == s->stream ? &t->ops[t->nops - 1] : NULL;
    int64_t from = before && before->ended_ns > s->from ? before->ended_ns : s->from;
    uint64_t seq = before ? before->seq + 1 : 1;

    if (!weir__grow(&t->ops, t->nops, &t->cap_ops, sizeof *t->ops) ||
        !weir__grow(&o->pending, t->nops, &o->cap_pending, sizeof *o->pending))
        return false;
    o->pending[t->nops] = wait;
    t->ops[t->nops++] = (weir_trace_op){
        .name = s->name,
        .scope = "",
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

static bool add_ops(struct order *o, const struct weir__import_span *s, int n)
{
    struct pending wait = {false, WEIR__SPAN_ANY};

    for (int i = 0; i < n; i++) {
        if (!i || s[i].stream != s[i - 1].stream) {
            wait = (struct pending){false, WEIR__SPAN_ANY};
            o->usual[s[i].stream] = usual_gap(&s[i], n - i);
        }
        if (s[i].kind == WEIR__SPAN_WAIT) {
            wait = (struct pending){true, s[i].source};
            continue;
        }
        if (!add_op(o, &s[i], wait))
            return false;
        wait.any = false;
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

/* The operator of the source stream, or of any stream but its own, that ended last in
 * (after, until]; WEIR_TRACE_NONE if none did. */
static uint32_t last_end(const struct order *o, const weir_trace_op *op, int source, int64_t after,
                         int64_t until)
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
        if (source == WEIR__SPAN_ANY ? stream != op->stream : stream == (uint32_t)source)
            return e->op;
    }
    return WEIR_TRACE_NONE;
}

/* What operator i waited for, as far as the profile tells. */
static uint32_t source_of(const struct order *o, int i)
{
    const weir_trace_op *op = &o->t->ops[i];
    const weir_trace_op *before = i && op[-1].stream == op->stream ? op - 1 : NULL;
    int64_t usual = o->usual[op->stream], slack = usual > SLACK_NS ? usual : SLACK_NS;
    int64_t idle_from = before ? before->ended_ns : INT64_MIN;

    if (o->pending[i].any)
        return last_end(o, op, o->pending[i].source, idle_from, op->started_ns);
    if (before && (op->started_ns - before->ended_ns) / 2 <= usual)
        return WEIR_TRACE_NONE;
    if (idle_from < op->started_ns - slack)
        idle_from = op->started_ns - slack;
    return last_end(o, op, WEIR__SPAN_ANY, idle_from, op->started_ns);
}

static bool add_waits(struct order *o)
{
    weir_trace *t = o->t;

    for (int i = 0; i < t->nops; i++)
        o->ends[i] = (struct end){t->ops[i].device, t->ops[i].ended_ns, (uint32_t)i};
    qsort(o->ends, (size_t)t->nops, sizeof *o->ends, compare_ends);
    for (int i = 0; i < t->nops; i++) {
        uint32_t source = source_of(o, i);
        weir_trace_op *op = &t->ops[i];
        int64_t reached = i && op[-1].stream == op->stream ? op[-1].ended_ns : 0;

        op->first_wait = (uint32_t)t->nwaits;
        if (source == WEIR_TRACE_NONE)
            continue;
        if (!weir__grow(&t->waits, t->nwaits, &t->cap_waits, sizeof *t->waits))
            return false;
        if (reached > t->ops[source].ended_ns)
            reached = t->ops[source].ended_ns;
        t->waits[t->nwaits++] = (weir_trace_wait){
            .stream = op->stream,
            .source_stream = t->ops[source].stream,
            .op = (uint32_t)i,
            .source_op = source,
            .reached_ns = reached,
            .passed_ns = t->ops[source].ended_ns,
        };
        op->queued_ns = reached;
        op->nwaits = 1;
    }
    return true;
}

/* Profiles count from whenever; the first operator is at 0. */
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

weir_status weir__import_order(weir_trace *t, struct weir__import_span *spans, int n)
{
    struct order o = {.t = t};
    bool ok;

    shift(spans, n);
    qsort(spans, (size_t)n, sizeof *spans, compare_spans);
    n = drop_callers(spans, n);
    o.usual = weir__calloc((size_t)t->nstreams, sizeof *o.usual);
    o.ends = weir__calloc((size_t)n, sizeof *o.ends);
    ok = o.usual && o.ends && add_ops(&o, spans, n) && add_waits(&o);
    weir__free(o.pending);
    weir__free(o.usual);
    weir__free(o.ends);
    return ok ? WEIR_OK : weir__fail_nomem("a trace of %d spans", n);
}
