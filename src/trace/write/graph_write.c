/* Writes a trace as a graph file. Each operator becomes a Kernel node on its stream, with the time
 * it took and the predecessors that graph_order.c found. */
#include "trace/write/graph_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/record/kernel_names.h"
#include "trace/write/graph_order.h"
#include "trace/write/out.h"

enum { COLLECTIVE_NAME = 63 };

/* A collective on one rank. */
struct rendezvous {
    struct weir__short_name name; /* as written to the file; collectives meet by this name */
    int rank, index;              /* index in the rank's order */
    int64_t ns;
    int meets; /* number of ranks that meet, including this one; 0: none */
};

struct writer {
    struct weir__graph_rank *ranks;
    struct weir__graph_order *orders; /* by rank */
    int nranks, rank;                 /* rank: the one being written */
    struct rendezvous *rendezvous;    /* sorted by rank and index after they were matched */
    int nrendezvous, cap_rendezvous, next;
};

/* ---- collectives of several ranks ---- */

static int by_name(const void *x, const void *y)
{
    const struct rendezvous *a = x, *b = y;
    int order = strcmp(a->name.text, b->name.text);

    if (!order)
        order = a->rank - b->rank;
    return order ? order : a->index - b->index;
}

static int by_rank(const void *x, const void *y)
{
    const struct rendezvous *a = x, *b = y;

    return a->rank != b->rank ? a->rank - b->rank : a->index - b->index;
}

/* Precondition: m[0..n) have one name and are sorted by rank.
 * returns  how many ranks have a collective of that name, if all have equally many; else 0. */
static int ranks_alike(const struct rendezvous *m, int n)
{
    int each = 1, nranks;

    while (each < n && m[each].rank == m[0].rank)
        each++;
    nranks = n / each;
    for (int i = 0; i < n; i++)
        if (n % each || m[i].rank != m[i - i % each].rank ||
            (i >= each && m[i].rank == m[i - each].rank))
            return 0;
    return nranks;
}

/* Sets each matched collective's time to the shortest among its ranks: the rank that arrives last
 * does not wait, so its time is that of the transfer. */
static void meet(struct rendezvous *m, int n, int nranks)
{
    int each = n / nranks;

    for (int k = 0; k < each; k++) {
        int64_t least = INT64_MAX;

        for (int r = 0; r < nranks; r++)
            least = m[r * each + k].ns < least ? m[r * each + k].ns : least;
        for (int r = 0; r < nranks; r++) {
            m[r * each + k].ns = least;
            m[r * each + k].meets = nranks;
        }
    }
}

static bool find_collectives(struct writer *w)
{
    for (int r = 0; r < w->nranks; r++)
        for (int i = 0; i < w->orders[r].nops; i++) {
            const weir_trace_op *op = &w->ranks[r].trace->ops[w->orders[r].ops[i].op];

            if (op->engine == WEIR_ENGINE_HOST || !weir__trace_is_comm(op->name))
                continue;
            if (!weir__grow(&w->rendezvous, w->nrendezvous, &w->cap_rendezvous,
                            sizeof *w->rendezvous))
                return false;
            w->rendezvous[w->nrendezvous++] = (struct rendezvous){
                weir__shorten_name(op->name), r, i, op->ended_ns - op->started_ns, 0};
        }
    return true;
}

static weir_status match_collectives(struct writer *w)
{
    if (w->nranks < 2)
        return WEIR_OK;
    if (!find_collectives(w))
        return weir__fail_nomem("allocating the collectives of %d ranks", w->nranks);
    if (w->nrendezvous)
        qsort(w->rendezvous, (size_t)w->nrendezvous, sizeof *w->rendezvous, by_name);
    for (int i = 0, n, nranks; i < w->nrendezvous; i += n) {
        const char *name = w->rendezvous[i].name.text;

        for (n = 1; i + n < w->nrendezvous && !strcmp(name, w->rendezvous[i + n].name.text);)
            n++;
        nranks = ranks_alike(&w->rendezvous[i], n);
        if (nranks > 1)
            meet(&w->rendezvous[i], n, nranks);
    }
    if (w->nrendezvous)
        qsort(w->rendezvous, (size_t)w->nrendezvous, sizeof *w->rendezvous, by_rank);
    for (int i = 0; i < w->nrendezvous; i++)
        ++*(w->rendezvous[i].meets ? &w->ranks[w->rendezvous[i].rank].met
                                   : &w->ranks[w->rendezvous[i].rank].alone);
    return WEIR_OK;
}

/* ---- text ---- */

static void write_signs(FILE *out, const char *text, size_t most)
{
    for (; *text && most--; text++)
        fputc(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *text)
                  ? *text
                  : '_',
              out);
}

/* Writes a node's name: the kernel's short name in letters, digits and a few signs, then the
 * operator's number, which makes the name unique. */
static void write_name(FILE *out, const weir_trace *t, uint32_t op)
{
    struct weir__short_name name = weir__shorten_name(t->ops[op].name);

    write_signs(out, name.text, sizeof name.text);
    fprintf(out, "%s%" PRIu32, *name.text ? "_" : "op_", op);
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

/* Returns the class attribute of a Kernel node, which decides whether core limits apply to it. */
static const char *class_of(const weir_trace_op *op)
{
    return op->engine == WEIR_ENGINE_HOST ? "aicpu" : weir__trace_is_comm(op->name) ? "hccl" : NULL;
}

static void write_node(FILE *out, struct writer *w, int index)
{
    const weir_trace *t = w->ranks[w->rank].trace;
    const struct weir__graph_order *o = &w->orders[w->rank];
    const struct weir__graph_op *g = &o->ops[index];
    const weir_trace_op *op = &t->ops[g->op];
    const char *class = class_of(op), *stream = t->streams[op->stream].name;
    const struct rendezvous *m = NULL;
    int64_t ns = op->ended_ns - op->started_ns;

    if (w->next < w->nrendezvous && w->rendezvous[w->next].rank == w->rank &&
        w->rendezvous[w->next].index == index)
        m = &w->rendezvous[w->next++];
    if (m && m->meets)
        ns = m->ns;
    fputs("node {\n  name: \"", out);
    write_name(out, t, g->op);
    fputs("\"\n  op: \"Kernel\"\n", out);
    for (uint32_t i = 0; i < g->nedges; i++) {
        fputs("  input: \"^", out);
        write_name(out, t, o->edges[g->first_edge + i]);
        fputs("\"\n", out);
    }
    fprintf(out, "  attr { key: \"engine\" value { s: \"%s\" } }\n", weir_engine_name(op->engine));
    attr(out, "blocks", "i", "%.0f", g->cores);
    if (g->of > 1)
        attr(out, "of_cores", "i", "%.0f", g->of);
    attr(out, "us", "f", "%.9g", (double)ns / 1e3);
    attr(out, "delay_us", "f", "%.9g", (double)g->delay_ns / 1e3);
    fputs("  attr { key: \"measured\" value { b: true } }\n", out);
    if (op->bytes)
        attr(out, "bytes", "i", "%.0f", (double)op->bytes);
    if (class)
        fprintf(out, "  attr { key: \"class\" value { s: \"%s\" } }\n", class);
    if (m && m->meets) {
        fputs("  attr { key: \"collective\" value { s: \"", out);
        write_signs(out, m->name.text, COLLECTIVE_NAME);
        fputs("\" } }\n", out);
        if (m->meets < w->nranks)
            attr(out, "ranks", "i", "%.0f", m->meets);
    }
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
    struct writer *w = *(struct writer *const *)user;
    const struct weir__graph_rank *r = &w->ranks[w->rank];

    fprintf(out,
            "# %d operators of a trace, with their streams, times and %d orders between streams.\n",
            r->operators, r->edges);
    if (r->assumed)
        fprintf(out,
                "# %d of these are assumed: no wait of the trace says so, but the one had ended "
                "when the other started.\n",
                r->assumed);
    for (int i = 0; i < w->orders[w->rank].nops; i++)
        write_node(out, w, i);
    return WEIR_OK;
}

/* ---- entry points ---- */

static weir_status order_rank(struct writer *w, int rank)
{
    struct weir__graph_rank *r = &w->ranks[rank];
    struct weir__graph_order *o = &w->orders[rank];
    const weir_trace *t = r->trace;
    weir_status st;

    if (r->device >= (uint32_t)t->ndevices)
        return weir__fail(WEIR_ERANGE, "the trace has no rank %" PRIu32 ": 0..%d", r->device,
                          t->ndevices - 1);
    if ((st = weir__graph_order_init(o, t, r->device)))
        return st;
    r->operators = o->nops;
    r->assumed = o->nassumed;
    for (int i = 0; i < o->nops; i++)
        for (uint32_t k = 0; k < o->ops[i].nedges; k++)
            r->edges +=
                t->ops[o->edges[o->ops[i].first_edge + k]].stream != t->ops[o->ops[i].op].stream;
    return WEIR_OK;
}

weir_status weir__trace_write_graphs(struct weir__graph_rank *ranks, int nranks)
{
    struct writer w = {.ranks = ranks, .nranks = nranks}, *user = &w;
    weir_status st = WEIR_OK;

    if (!(w.orders = weir__calloc((size_t)nranks, sizeof *w.orders)))
        return weir__fail_nomem("allocating the graphs of %d ranks", nranks);
    for (int r = 0; r < nranks; r++)
        ranks[r].operators = ranks[r].edges = ranks[r].assumed = ranks[r].met = ranks[r].alone = 0;
    for (int r = 0; r < nranks && !st; r++)
        st = order_rank(&w, r);
    if (!st)
        st = match_collectives(&w);
    for (w.rank = 0; w.rank < nranks && !st; w.rank++)
        st = weir__file_write(ranks[w.rank].path, write_body, &user);
    for (int r = 0; r < nranks; r++)
        weir__graph_order_fini(&w.orders[r]);
    weir__free(w.orders);
    weir__free(w.rendezvous);
    return st;
}

weir_status weir_trace_write_graph(const weir_trace *trace, uint32_t device, const char *path)
{
    WEIR__NEED(trace, "trace");
    WEIR__NEED(path, "path");

    return weir__trace_write_graphs(
        &(struct weir__graph_rank){.trace = trace, .device = device, .path = path}, 1);
}
