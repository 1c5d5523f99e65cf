/* A trace as a graph file: each operator a Kernel node that takes as long as it took, on its
 * stream, after what it waited for. Nodes stand in the order they started, which no edge
 * goes against. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/record/store.h"
#include "trace/write/out.h"

struct writer {
    const weir_trace *t;
    uint32_t device;
    uint32_t *order; /* operators of the device by start */
    int n;
};

struct start {
    int64_t at;
    uint32_t op;
};

static int compare_starts(const void *x, const void *y)
{
    const struct start *a = x, *b = y;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

static weir_status sort_ops(struct writer *w)
{
    const weir_trace *t = w->t;
    struct start *starts = weir__malloc((size_t)t->nops * sizeof *starts);

    if (!starts || !(w->order = weir__malloc((size_t)t->nops * sizeof *w->order))) {
        weir__free(starts);
        return weir__fail_nomem("a graph of %d operators", t->nops);
    }
    for (int i = 0; i < t->nops; i++)
        if (t->ops[i].device == w->device)
            starts[w->n++] = (struct start){t->ops[i].started_ns, (uint32_t)i};
    qsort(starts, (size_t)w->n, sizeof *starts, compare_starts);
    for (int i = 0; i < w->n; i++)
        w->order[i] = starts[i].op;
    weir__free(starts);
    return WEIR_OK;
}

/* Names of nodes: letters, digits and a few signs, and the operator's number, which makes
 * them differ. */
static void write_name(FILE *out, const weir_trace *t, uint32_t op)
{
    size_t n = 0;

    for (const char *s = t->ops[op].name; *s && n < 80; s++, n++)
        fputc(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *s) ? *s
                                                                                              : '_',
              out);
    fprintf(out, "%s%" PRIu32, n ? "_" : "op_", op);
}

static void write_label(FILE *out, const char *name)
{
    size_t n = 0;

    for (; *name && n < 60; name++, n++)
        fputc(*name == '"' || *name == '\\' || (unsigned char)*name < 32 ? '_' : *name, out);
    if (!n)
        fputs("stream", out);
}

static void attr(FILE *out, const char *key, const char *kind, const char *format, double value)
{
    fprintf(out, "  attr { key: \"%s\" value { %s: ", key, kind);
    fprintf(out, format, value);
    fputs(" } }\n", out);
}

/* What a core limit reaches: see the class attribute of Kernel nodes. */
static const char *class_of(const weir_trace_op *op)
{
    static const char *const comm[] = {"nccl", "hccl", "hcom", "allreduce", "AllReduce"};

    if (op->engine == WEIR_ENGINE_HOST)
        return "aicpu";
    for (size_t i = 0; i < weir__countof(comm); i++)
        if (strstr(op->name, comm[i]))
            return "hccl";
    return NULL;
}

static uint32_t cores_used(const weir_trace_op *op)
{
    uint32_t most = op->cores < op->blocks ? op->cores : op->blocks;

    /* Where blocks are known, no more cores than they were on. */
    if (op->nparts && op->nparts < most)
        most = op->nparts;
    return most ? most : 1;
}

static void write_node(FILE *out, const weir_trace *t, uint32_t index)
{
    const weir_trace_op *op = &t->ops[index];
    const char *class = class_of(op), *stream = t->streams[op->stream].name;

    fputs("node {\n  name: \"", out);
    write_name(out, t, index);
    fputs("\"\n  op: \"Kernel\"\n", out);
    for (uint32_t i = 0; i < op->nwaits; i++) {
        uint32_t source = t->waits[op->first_wait + i].source_op;

        if (source == WEIR_TRACE_NONE || t->ops[source].device != op->device ||
            compare_starts(&(struct start){t->ops[source].started_ns, source},
                           &(struct start){op->started_ns, index}) >= 0)
            continue;
        fputs("  input: \"^", out);
        write_name(out, t, source);
        fputs("\"\n", out);
    }
    fprintf(out, "  attr { key: \"engine\" value { s: \"%s\" } }\n", weir_engine_name(op->engine));
    attr(out, "blocks", "i", "%.0f", cores_used(op));
    attr(out, "us", "f", "%.9g", (double)(op->ended_ns - op->started_ns) / 1e3);
    if (op->bytes)
        attr(out, "bytes", "i", "%.0f", (double)op->bytes);
    if (class)
        fprintf(out, "  attr { key: \"class\" value { s: \"%s\" } }\n", class);
    if (strcmp(stream, "default") != 0) {
        fputs("  attr { key: \"_user_stream_label\" value { s: \"", out);
        write_label(out, stream);
        fputs("\" } }\n", out);
    }
    if (t->streams[op->stream].priority >= -8 && t->streams[op->stream].priority <= 7 &&
        t->streams[op->stream].priority)
        attr(out, "_user_stream_priority", "i", "%.0f", t->streams[op->stream].priority);
    fputs("}\n", out);
}

static weir_status write_body(FILE *out, const void *user)
{
    const struct writer *w = user;

    fprintf(out, "# %d operators of a trace, with their streams, times and syncs.\n", w->n);
    for (int i = 0; i < w->n; i++)
        write_node(out, w->t, w->order[i]);
    return WEIR_OK;
}

weir_status weir_trace_write_graph(const weir_trace *trace, uint32_t device, const char *path)
{
    WEIR__NEED(trace, "trace");
    WEIR__NEED(path, "path");

    struct writer w = {.t = trace, .device = device};
    weir_status st;

    if (device >= (uint32_t)trace->ndevices)
        return weir__fail(WEIR_ERANGE, "the trace has no rank %" PRIu32 ": 0..%d", device,
                          trace->ndevices - 1);
    if (!(st = sort_ops(&w)))
        st = weir__file_write(path, write_body, &w);
    weir__free(w.order);
    return st;
}
