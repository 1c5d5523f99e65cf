/* Reads back what chrome_write.c wrote. The file is not trusted: every index is checked before it
 * is used. */
#include "trace/read/load.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *keep(struct weir__json *j, weir_trace *t, const char *text)
{
    const char *copy = text ? weir__trace_keep(&t->texts, text, strlen(text)) : "";

    if (!copy)
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the texts of the trace");
    return copy ? copy : "";
}

/* Returns the value if it is a whole number in [low, high]; else fails with `what`. */
static int64_t whole(struct weir__json *j, long double value, int64_t low, int64_t high,
                     const char *what)
{
    if (value >= (long double)low && value <= (long double)high &&
        value == (long double)(int64_t)value)
        return (int64_t)value;
    weir__json_fail(j, WEIR_EPARSE, what);
    return low;
}

/* ---- the description ---- */

static void read_device(struct weir__json *j, weir_trace *t)
{
    weir_trace_device d = {.name = "", .model = ""};
    char key[16];

    for (weir__json_object(j); weir__json_key(j, key, sizeof key);) {
        if (!strcmp(key, "name"))
            d.name = keep(j, t, weir__json_string(j));
        else if (!strcmp(key, "model"))
            d.model = keep(j, t, weir__json_string(j));
        else if (!strcmp(key, "cube"))
            d.cores.cube = (int)whole(j, weir__json_number(j), 0, 1 << 15, "no count of cores");
        else if (!strcmp(key, "vector"))
            d.cores.vector = (int)whole(j, weir__json_number(j), 0, 1 << 15, "no count of cores");
        else if (!strcmp(key, "rank"))
            d.rank = (int)whole(j, weir__json_number(j), 0, INT_MAX, "no rank");
        else if (!strcmp(key, "split"))
            d.split_cores = weir__json_bool(j);
        else if (!strcmp(key, "real_time"))
            d.real_time = weir__json_bool(j);
        else
            weir__json_skip(j);
    }
    if (!weir__grow(&t->devices, t->ndevices, &t->cap_devices, sizeof d))
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the devices of the trace");
    else
        t->devices[t->ndevices++] = d;
}

static void read_stream(struct weir__json *j, weir_trace *t)
{
    weir_trace_stream s = {.name = ""};
    char key[16];

    for (weir__json_object(j); weir__json_key(j, key, sizeof key);) {
        if (!strcmp(key, "name"))
            s.name = keep(j, t, weir__json_string(j));
        else if (!strcmp(key, "device"))
            s.device = (uint32_t)whole(j, weir__json_number(j), 0, t->ndevices - 1,
                                       "the stream's device is not one of those before");
        else if (!strcmp(key, "priority"))
            s.priority =
                (int)whole(j, weir__json_number(j), INT_MIN, INT_MAX, "no priority of a stream");
        else
            weir__json_skip(j);
    }
    if (!t->ndevices)
        weir__json_fail(j, WEIR_EPARSE, "a stream comes before the first device");
    if (!weir__grow(&t->streams, t->nstreams, &t->cap_streams, sizeof s))
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the streams of the trace");
    else
        t->streams[t->nstreams++] = s;
}

static void read_process(struct weir__json *j, weir_trace *t)
{
    char key[16];

    t->process.known = true;
    for (weir__json_object(j); weir__json_key(j, key, sizeof key);) {
        if (!strcmp(key, "rank"))
            t->process.rank = (int)whole(j, weir__json_number(j), 0, INT_MAX, "no rank");
        else if (!strcmp(key, "start_ns"))
            t->process.start_ns =
                (uint64_t)whole(j, weir__json_number(j), 0, INT64_MAX / 4, "no time");
        else if (!strcmp(key, "offset_ns"))
            t->process.offset_ns = whole(j, weir__json_number(j), -INT64_MAX / 4, INT64_MAX / 4,
                                         "no offset of a clock");
        else
            weir__json_skip(j);
    }
}

void weir__load_description(struct weir__json *j, weir_trace *t)
{
    char key[16];

    for (weir__json_object(j); weir__json_key(j, key, sizeof key);) {
        if (!strcmp(key, "trace"))
            whole(j, weir__json_number(j), 1, 1, "this trace is of a later version of weir");
        else if (!strcmp(key, "dropped"))
            t->dropped = (uint64_t)whole(j, weir__json_number(j), 0, INT64_MAX, "no count");
        else if (!strcmp(key, "process"))
            read_process(j, t);
        else if (!strcmp(key, "devices"))
            for (weir__json_array(j); weir__json_item(j);)
                read_device(j, t);
        else if (!strcmp(key, "streams"))
            for (weir__json_array(j); weir__json_item(j);)
                read_stream(j, t);
        else
            weir__json_skip(j);
    }
}

/* ---- events ---- */

static int64_t arg(struct weir__json *j, const struct weir__event *e, const char *key, int64_t high)
{
    return whole(j, weir__event_number(e, key, 0), 0, high, "an argument is out of range");
}

/* Reads an index that may refer to a later event; weir__load_finish checks it. */
static uint32_t index_arg(struct weir__json *j, const struct weir__event *e, const char *key)
{
    const struct weir__event_arg *a = weir__event_find_arg(e, key);

    if (!a || a->word) /* null */
        return WEIR_TRACE_NONE;
    return (uint32_t)arg(j, e, key, UINT32_MAX - 1);
}

/* Reads the index that a thread's id stands for; ids count from 1. */
static int64_t track(struct weir__json *j, const struct weir__event *e, int64_t high,
                     const char *what)
{
    return whole(j, strtold(e->tid, NULL), 1, high, what) - 1;
}

static weir_engine engine_of(const char *name)
{
    int e = 0;

    while (name && e < WEIR_ENGINE_COUNT && strcmp(name, weir_engine_name((weir_engine)e)))
        e++;
    return name ? (weir_engine)e : WEIR_ENGINE_COUNT;
}

static void read_op(struct weir__json *j, weir_trace *t, const struct weir__event *e)
{
    int64_t stream = track(j, e, t->nstreams, "the operator's stream is not in the description");
    weir_trace_op *op;

    if (j->bad)
        return;
    if (!weir__grow(&t->ops, t->nops, &t->cap_ops, sizeof *op)) {
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the operators of the trace");
        return;
    }
    op = &t->ops[t->nops++];
    *op = (weir_trace_op){
        .name = keep(j, t, e->name),
        .scope = keep(j, t, weir__event_text(e, "scope")),
        .source = keep(j, t, weir__event_text(e, "source")),
        .device = t->streams[stream].device,
        .stream = (uint32_t)stream,
        .seq = (uint64_t)arg(j, e, "seq", INT64_MAX),
        .engine = engine_of(weir__event_text(e, "engine")),
        .blocks = (uint32_t)arg(j, e, "blocks", UINT32_MAX),
        .cores = (uint32_t)arg(j, e, "cores", UINT32_MAX),
        .bytes = (uint64_t)arg(j, e, "bytes", INT64_MAX),
        .queued_ns = weir__event_ns(weir__event_number(e, "queued", e->ts)),
        .ready_ns = weir__event_ns(weir__event_number(e, "ready", e->ts)),
        .started_ns = weir__event_ns(e->ts),
        .ended_ns = weir__event_ns(e->ts + e->dur),
        .failed = weir__event_number(e, "failed", 0) != 0,
    };
    if (op->engine == WEIR_ENGINE_COUNT)
        weir__json_fail(j, WEIR_EPARSE, "the operator's engine is unknown");
    if (op->ended_ns < op->started_ns)
        weir__json_fail(j, WEIR_EPARSE, "the operator ends before it starts");
}

static void read_part(struct weir__json *j, weir_trace *t, const struct weir__event *e)
{
    int64_t index = arg(j, e, "part", INT_MAX), core = track(j, e, INT_MAX, "no core");
    weir_trace_part *p;

    if (index + 1 == t->nparts && core < UINT16_MAX) { /* the same block on another core */
        p = &t->parts[index];
        if (p->ncores == 3)
            weir__json_fail(j, WEIR_EPARSE, "a block has at most three cores");
        else
            p->cores[p->ncores++] = (uint16_t)core;
        return;
    }
    if (index != t->nparts)
        weir__json_fail(j, WEIR_EPARSE, "the blocks are not in order");
    else if (!weir__grow(&t->parts, t->nparts, &t->cap_parts, sizeof *p))
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the blocks of the trace");
    if (j->bad)
        return;
    p = &t->parts[t->nparts++];
    *p = (weir_trace_part){
        .op = index_arg(j, e, "op"),
        .blocks = (uint32_t)arg(j, e, "blocks", UINT32_MAX),
        .started_ns = weir__event_ns(e->ts),
        .ended_ns = weir__event_ns(e->ts + e->dur),
    };
    if (core < UINT16_MAX)
        p->cores[p->ncores++] = (uint16_t)core;
}

static void read_wait(struct weir__json *j, weir_trace *t, const struct weir__event *e)
{
    int64_t stream = track(j, e, t->nstreams, "the wait's stream is not in the description");

    if (!weir__grow(&t->waits, t->nwaits, &t->cap_waits, sizeof *t->waits)) {
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the waits of the trace");
        return;
    }
    t->waits[t->nwaits++] = (weir_trace_wait){
        .stream = (uint32_t)stream,
        .source_stream = index_arg(j, e, "source_stream"),
        .op = index_arg(j, e, "op"),
        .source_op = index_arg(j, e, "source_op"),
        .reached_ns = weir__event_ns(e->ts),
        .passed_ns = weir__event_ns(e->ts + e->dur),
    };
}

static void read_memory(struct weir__json *j, weir_trace *t, const struct weir__event *e)
{
    int64_t pid = whole(j, strtold(e->pid, NULL), 1, 2 * (int64_t)t->ndevices,
                        "the counter's device is not in the description");

    if (!weir__grow(&t->memory, t->nmemory, &t->cap_memory, sizeof *t->memory)) {
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the memory of the trace");
        return;
    }
    t->memory[t->nmemory++] = (weir_trace_memory){
        .device = (uint32_t)(pid - 1) / 2,
        .time_ns = weir__event_ns(e->ts),
        .allocated = (uint64_t)arg(j, e, "allocated", INT64_MAX),
        .reserved = (uint64_t)arg(j, e, "reserved", INT64_MAX),
    };
}

void weir__load_event(struct weir__json *j, weir_trace *t, const struct weir__event *e)
{
    if (e->phase == 'X' && !strcmp(e->category, "op"))
        read_op(j, t, e);
    else if (e->phase == 'X' && !strcmp(e->category, "part"))
        read_part(j, t, e);
    else if (e->phase == 'X' && !strcmp(e->category, "wait"))
        read_wait(j, t, e);
    else if (e->phase == 'C' && !strcmp(e->name, "memory"))
        read_memory(j, t, e);
}

/* ---- references ---- */

static void finish_parts(struct weir__json *j, weir_trace *t)
{
    uint32_t last = 0;

    for (int i = 0; i < t->nparts; i++) {
        const weir_trace_part *p = &t->parts[i];
        weir_trace_op *op;

        if (p->op >= (uint32_t)t->nops || p->op < last || p->ended_ns < p->started_ns) {
            weir__json_fail(j, WEIR_EPARSE,
                            "a block belongs to no operator, or is not in the order of operators");
            return;
        }
        op = &t->ops[last = p->op];
        for (uint32_t c = 0; c < p->ncores; c++)
            if (p->cores[c] >=
                t->devices[op->device].cores.cube +
                    (t->devices[op->device].split_cores ? t->devices[op->device].cores.vector : 0))
                weir__json_fail(j, WEIR_EPARSE, "a block ran on a core that the device lacks");
        if (!op->nparts++)
            op->first_part = (uint32_t)i;
    }
}

static void finish_waits(struct weir__json *j, weir_trace *t)
{
    uint32_t last = 0;

    for (int i = 0; i < t->nwaits; i++) {
        const weir_trace_wait *w = &t->waits[i];
        weir_trace_op *op;

        if ((w->source_op != WEIR_TRACE_NONE && w->source_op >= (uint32_t)t->nops) ||
            (w->source_stream != WEIR_TRACE_NONE && w->source_stream >= (uint32_t)t->nstreams) ||
            (w->op != WEIR_TRACE_NONE && (w->op >= (uint32_t)t->nops || w->op < last))) {
            weir__json_fail(j, WEIR_EPARSE, "a wait names an operator that does not exist");
            return;
        }
        if (w->op == WEIR_TRACE_NONE)
            continue;
        op = &t->ops[last = w->op];
        if (!op->nwaits)
            op->first_wait = (uint32_t)i;
        else if (op->first_wait + op->nwaits != (uint32_t)i)
            weir__json_fail(j, WEIR_EPARSE, "the waits of an operator are not adjacent");
        op->nwaits++;
    }
}

void weir__load_finish(struct weir__json *j, weir_trace *t)
{
    if (!j->bad)
        finish_parts(j, t);
    if (!j->bad)
        finish_waits(j, t);
}
