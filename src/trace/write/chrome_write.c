/* Writes the Chrome trace event format, as Perfetto documents it: complete events for operators,
 * waits and blocks, flow events for syncs, counters. Each device is two processes, one with its
 * streams as threads and one with its cores, so that viewers group them.
 *
 * Data that the format has no field for is in `args` and in the top-level object "weir", which
 * viewers ignore. load_weir.c reads it back, so a trace survives the round trip unchanged. */
#include "trace/record/store.h"

#include <inttypes.h>
#include <stdlib.h>

#include "trace/write/out.h"

struct writer {
    FILE *out;
    const weir_trace *t;
    bool filled; /* the array of events is not empty */
};

/* Threads of the core process for blocks that need no core. */
enum { HOST_TID = 100000, MOST_HOST_THREADS = 64 };

static int streams_pid(uint32_t device)
{
    return 2 * (int)device + 1;
}
static int cores_pid(uint32_t device)
{
    return 2 * (int)device + 2;
}

/* ---- the description ---- */

static void write_devices(struct writer *w)
{
    fputs("\"devices\":[", w->out);
    for (int i = 0; i < w->t->ndevices; i++) {
        const weir_trace_device *d = &w->t->devices[i];

        fprintf(w->out, "%s\n{\"name\":", i ? "," : "");
        weir__json_quote(w->out, d->name);
        fputs(",\"model\":", w->out);
        weir__json_quote(w->out, d->model);
        fprintf(w->out, ",\"cube\":%d,\"vector\":%d,\"split\":%s,\"real_time\":%s,\"rank\":%d}",
                d->cores.cube, d->cores.vector, d->split_cores ? "true" : "false",
                d->real_time ? "true" : "false", d->rank);
    }
    fputs("],\n\"streams\":[", w->out);
    for (int i = 0; i < w->t->nstreams; i++) {
        const weir_trace_stream *s = &w->t->streams[i];

        fprintf(w->out, "%s\n{\"name\":", i ? "," : "");
        weir__json_quote(w->out, s->name);
        fprintf(w->out, ",\"device\":%" PRIu32 ",\"priority\":%d}", s->device, s->priority);
    }
    fputs("]", w->out);
}

/* ---- events ---- */

static void begin(struct writer *w, const char *kind, int pid, int tid)
{
    fprintf(w->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", w->filled ? "," : "", kind, pid,
            tid);
    w->filled = true;
}

static void span(struct writer *w, int64_t from, int64_t to)
{
    fputs(",\"ts\":", w->out);
    weir__json_us(w->out, from);
    fputs(",\"dur\":", w->out);
    weir__json_us(w->out, to - from);
}

static void name_track(struct writer *w, const char *what, int pid, int tid, const char *format,
                       const char *text, int number)
{
    struct weir__text name = {0};

    weir__text_add(&name, format, text, number);
    begin(w, "M", pid, tid);
    fprintf(w->out, ",\"name\":\"%s_name\",\"args\":{\"name\":", what);
    weir__json_quote(w->out, name.data ? name.data : "");
    fputs("}}", w->out);
    begin(w, "M", pid, tid);
    fprintf(w->out, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}", what,
            tid ? tid : pid);
    weir__text_free(&name);
}

static void write_tracks(struct writer *w)
{
    const weir_trace *t = w->t;

    for (int i = 0; i < t->ndevices; i++) {
        const weir_trace_device *d = &t->devices[i];
        int cube = d->cores.cube, cores = cube + (d->split_cores ? d->cores.vector : 0);

        name_track(w, "process", streams_pid((uint32_t)i), 0, "%s: streams (rank %d)", d->name,
                   d->rank);
        name_track(w, "process", cores_pid((uint32_t)i), 0, "%s: cores (rank %d)", d->name,
                   d->rank);
        for (int c = 0; c < cores; c++)
            name_track(w, "thread", cores_pid((uint32_t)i), c + 1, "%s %d",
                       !d->split_cores ? "core"
                       : c < cube      ? "cube core"
                                       : "vector core",
                       c < cube ? c : c - cube);
    }
    for (int i = 0; i < t->nstreams; i++)
        name_track(w, "thread", streams_pid(t->streams[i].device), i + 1, "%s (priority %d)",
                   t->streams[i].name, t->streams[i].priority);
}

static void write_op(struct writer *w, const weir_trace_op *op)
{
    begin(w, "X", streams_pid(op->device), (int)op->stream + 1);
    fputs(",\"cat\":\"op\",\"name\":", w->out);
    weir__json_quote(w->out, op->name);
    span(w, op->started_ns, op->ended_ns);
    fprintf(w->out,
            ",\"args\":{\"seq\":%" PRIu64 ",\"engine\":\"%s\",\"blocks\":%" PRIu32
            ",\"cores\":%" PRIu32 ",\"bytes\":%" PRIu64,
            op->seq, weir_engine_name(op->engine), op->blocks, op->cores, op->bytes);
    fputs(",\"queued\":", w->out);
    weir__json_us(w->out, op->queued_ns);
    fputs(",\"ready\":", w->out);
    weir__json_us(w->out, op->ready_ns);
    if (*op->scope) {
        fputs(",\"scope\":", w->out);
        weir__json_quote(w->out, op->scope);
    }
    if (*op->source) {
        fputs(",\"source\":", w->out);
        weir__json_quote(w->out, op->source);
    }
    fputs(op->failed ? ",\"failed\":true}}" : "}}", w->out);
}

static void write_part(struct writer *w, uint32_t index, int tid)
{
    const weir_trace_part *p = &w->t->parts[index];
    const weir_trace_op *op = &w->t->ops[p->op];

    begin(w, "X", cores_pid(op->device), tid);
    fputs(",\"cat\":\"part\",\"name\":", w->out);
    weir__json_quote(w->out, op->name);
    span(w, p->started_ns, p->ended_ns);
    fprintf(w->out, ",\"args\":{\"part\":%" PRIu32 ",\"op\":%" PRIu32 ",\"blocks\":%" PRIu32 "}}",
            index, p->op, p->blocks);
}

/* Any number of blocks that need no core may overlap. Each goes to the first host thread of its
 * device that is free. */
struct host_threads {
    uint32_t device;
    int n;
    int64_t free_at[MOST_HOST_THREADS];
};

static void write_host_part(struct writer *w, struct host_threads *h, uint32_t index)
{
    const weir_trace_part *p = &w->t->parts[index];
    uint32_t device = w->t->ops[p->op].device;
    int lane = 0;

    if (h->device != device)
        *h = (struct host_threads){.device = device};
    while (lane < h->n && lane + 1 < MOST_HOST_THREADS && h->free_at[lane] > p->started_ns)
        lane++;
    if (lane == h->n) {
        h->n++;
        name_track(w, "thread", cores_pid(device), HOST_TID + lane, "%s %d", "host thread", lane);
    }
    h->free_at[lane] = p->ended_ns;
    write_part(w, index, HOST_TID + lane);
}

/* Writes the blocks. Those of one device are consecutive, as are its operators. */
static void write_parts(struct writer *w)
{
    struct host_threads host = {.device = UINT32_MAX};

    for (int i = 0; i < w->t->nparts; i++) {
        const weir_trace_part *p = &w->t->parts[i];

        for (uint32_t c = 0; c < p->ncores; c++)
            write_part(w, (uint32_t)i, p->cores[c] + 1);
        if (!p->ncores)
            write_host_part(w, &host, (uint32_t)i);
    }
}

static void index_or_null(struct writer *w, const char *key, uint32_t index)
{
    if (index == WEIR_TRACE_NONE)
        fprintf(w->out, "\"%s\":null", key);
    else
        fprintf(w->out, "\"%s\":%" PRIu32, key, index);
}

static void write_wait(struct writer *w, const weir_trace_wait *wait)
{
    const weir_trace *t = w->t;

    begin(w, "X", streams_pid(t->streams[wait->stream].device), (int)wait->stream + 1);
    fputs(",\"cat\":\"wait\",\"name\":", w->out);
    weir__json_quote(w->out, wait->source_op == WEIR_TRACE_NONE ? "wait" : "wait for");
    span(w, wait->reached_ns, wait->passed_ns);
    fputs(",\"args\":{", w->out);
    index_or_null(w, "op", wait->op);
    fputc(',', w->out);
    index_or_null(w, "source_op", wait->source_op);
    fputc(',', w->out);
    index_or_null(w, "source_stream", wait->source_stream);
    if (wait->source_op != WEIR_TRACE_NONE) {
        fputs(",\"for\":", w->out);
        weir__json_quote(w->out, t->ops[wait->source_op].name);
    }
    fputs("}}", w->out);
}

/* Writes an arrow from the end of the operator waited for to the operator that waited. The format
 * requires both ends to lie inside their slices. */
static void write_flow(struct writer *w, int index)
{
    const weir_trace_wait *wait = &w->t->waits[index];
    const weir_trace_op *from, *to;

    if (wait->op == WEIR_TRACE_NONE || wait->source_op == WEIR_TRACE_NONE)
        return;
    from = &w->t->ops[wait->source_op];
    to = &w->t->ops[wait->op];
    begin(w, "s", streams_pid(from->device), (int)from->stream + 1);
    fprintf(w->out, ",\"cat\":\"sync\",\"name\":\"sync\",\"id\":%d,\"ts\":", index + 1);
    weir__json_us(w->out, from->ended_ns - (from->ended_ns > from->started_ns));
    fputs("}", w->out);
    begin(w, "f", streams_pid(to->device), (int)to->stream + 1);
    fprintf(w->out,
            ",\"cat\":\"sync\",\"name\":\"sync\",\"id\":%d,\"bp\":\"e\",\"ts\":", index + 1);
    weir__json_us(w->out, to->started_ns);
    fputs("}", w->out);
}

static void write_memory(struct writer *w, const weir_trace_memory *m)
{
    begin(w, "C", streams_pid(m->device), 0);
    fputs(",\"name\":\"memory\",\"ts\":", w->out);
    weir__json_us(w->out, m->time_ns);
    fprintf(w->out, ",\"args\":{\"allocated\":%" PRIu64 ",\"reserved\":%" PRIu64 "}}", m->allocated,
            m->reserved);
}

/* ---- cores in use ---- */

struct step {
    int64_t at;
    uint32_t device;
    int cube, vector; /* change */
};

static int compare_steps(const void *x, const void *y)
{
    const struct step *a = x, *b = y;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static size_t find_steps(const weir_trace *t, struct step *steps)
{
    size_t n = 0;

    for (int i = 0; i < t->nparts; i++) {
        const weir_trace_part *p = &t->parts[i];
        const weir_trace_device *d = &t->devices[t->ops[p->op].device];
        struct step s = {p->started_ns, t->ops[p->op].device, 0, 0};

        for (uint32_t c = 0; c < p->ncores; c++)
            if (d->split_cores && p->cores[c] >= d->cores.cube)
                s.vector++;
            else
                s.cube++;
        steps[n++] = s;
        steps[n++] = (struct step){p->ended_ns, s.device, -s.cube, -s.vector};
    }
    return n;
}

static weir_status write_core_counters(struct writer *w)
{
    size_t n = 2 * (size_t)w->t->nparts;
    struct step *steps = weir__malloc(n * sizeof *steps);
    int cube = 0, vector = 0;

    if (!steps)
        return weir__fail_nomem("allocating the cores in use of a trace");
    n = find_steps(w->t, steps);
    qsort(steps, n, sizeof *steps, compare_steps);
    for (size_t i = 0; i < n; i++) {
        cube += steps[i].cube;
        vector += steps[i].vector;
        if (i + 1 < n && !compare_steps(&steps[i], &steps[i + 1]))
            continue;
        begin(w, "C", streams_pid(steps[i].device), 0);
        fputs(",\"name\":\"cores in use\",\"ts\":", w->out);
        weir__json_us(w->out, steps[i].at);
        if (w->t->devices[steps[i].device].split_cores)
            fprintf(w->out, ",\"args\":{\"cube\":%d,\"vector\":%d}}", cube, vector);
        else
            fprintf(w->out, ",\"args\":{\"cores\":%d}}", cube);
    }
    weir__free(steps);
    return WEIR_OK;
}

weir_status weir__trace_chrome(FILE *out, const void *user)
{
    struct writer w = {.out = out, .t = user};
    weir_status st;

    fprintf(out, "{\"displayTimeUnit\":\"ns\",\n\"weir\":{\"trace\":1,\"dropped\":%" PRIu64 ",",
            w.t->dropped);
    if (w.t->process.known)
        fprintf(out,
                "\"process\":{\"rank\":%d,\"start_ns\":%" PRIu64 ",\"offset_ns\":%" PRId64 "},",
                w.t->process.rank, w.t->process.start_ns, w.t->process.offset_ns);
    write_devices(&w);
    fputs("},\n\"traceEvents\":[", out);
    write_tracks(&w);
    for (int i = 0; i < w.t->nops; i++)
        write_op(&w, &w.t->ops[i]);
    for (int i = 0; i < w.t->nwaits; i++)
        write_wait(&w, &w.t->waits[i]);
    write_parts(&w);
    for (int i = 0; i < w.t->nwaits; i++)
        write_flow(&w, i);
    for (int i = 0; i < w.t->nmemory; i++)
        write_memory(&w, &w.t->memory[i]);
    st = write_core_counters(&w);
    fputs("\n]}\n", out);
    return st;
}

weir_status weir_trace_write_chrome(const weir_trace *trace, const char *path)
{
    WEIR__NEED(trace, "trace");
    WEIR__NEED(path, "path");
    return weir__file_write(path, weir__trace_chrome, trace);
}
