/* Accesses to the same bytes from different streams, of which at least one writes, that no input,
 * control input or stream orders. weir runs them in the order of the file; a runtime that keeps
 * only the explicit order might not. */
#include "graph/check/check_graph.h"

enum { MAX_TOLD = 16 };
#define MAX_CLOCKS ((size_t)1 << 25)

struct races {
    const struct weir__checked *x;
    size_t nlabels;
    int *clock;    /* by node, then label: nodes with a lower number on that label complete before
                    * it */
    int *previous; /* by label: the last node so far; -1 */
};

static int *clock_of(const struct races *r, int v)
{
    return r->clock + (size_t)v * r->nlabels;
}

static void run_after(const struct races *r, int v, int before)
{
    int *clock = clock_of(r, v);
    const int *other;

    if (before < 0 || !r->x->c.live[before])
        return;
    other = clock_of(r, before);
    for (size_t i = 0; i < r->nlabels; i++)
        clock[i] = other[i] > clock[i] ? other[i] : clock[i];
    if (clock[r->x->g->nodes[before].marks.stream] <= before)
        clock[r->x->g->nodes[before].marks.stream] = before + 1;
}

/* Computes the order that the program itself gives the node. */
static void order_node(const struct races *r, int v)
{
    const weir_graph *g = r->x->g;
    const struct weir__node *n = &g->nodes[v];

    run_after(r, v, r->previous[n->marks.stream]);
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value != WEIR__NO_VALUE)
            run_after(r, v, g->values[n->in[i].value].node);
    for (int i = 0; i < n->nout; i++)
        if (g->values[n->out[i].value].node != v)
            run_after(r, v, g->values[n->out[i].value].node);
    for (int i = 0; i < n->ncontrol; i++)
        run_after(r, v, n->control[i]);
    r->previous[n->marks.stream] = v;
}

static void add_race(const struct races *r, struct weir__report *report, int before, int v)
{
    const weir_graph *g = r->x->g;
    const struct weir__node *a = &g->nodes[before], *b = &g->nodes[v];
    weir_finding f = {.kind = WEIR_FINDING_RACE};
    struct weir__lines nodes = {0};

    f.text = weir__report_text(
        report,
        "%s%s (stream %s) and %s (stream %s) use the same bytes and one writes them, but nothing "
        "except their place in the program says which comes first: weir keeps that order, other "
        "runtimes may not",
        r->x->where, a->name, g->labels[a->marks.stream], b->name, g->labels[b->marks.stream]);
    weir__report_line(report, &nodes, weir__report_text(report, "%s", a->name));
    weir__report_line(report, &nodes, weir__report_text(report, "%s", b->name));
    f.nodes = weir__report_lines(report, &nodes, &f.nnodes);
    f.remedy.node = f.nnodes > 1 ? f.nodes[1] : NULL;
    f.remedy.text = weir__report_text(report, "let %s run after %s (input: \"^%s\")", b->name,
                                      a->name, a->name);
    weir__report_add(report, &f);
}

weir_status weir__check_races(const struct weir__checked *x, struct weir__report *report)
{
    struct races r = {.x = x, .nlabels = (size_t)x->g->nlabels};
    const struct weir__edges *e = &x->c.edges;
    size_t n = (size_t)x->g->nnodes;
    int told = 0;

    if (x->g->nlabels < 2 || !n || n > MAX_CLOCKS / r.nlabels)
        return WEIR_OK;
    r.clock = weir__calloc(n * r.nlabels, sizeof *r.clock);
    r.previous = weir__calloc(r.nlabels, sizeof *r.previous);
    for (size_t i = 0; r.previous && i < r.nlabels; i++)
        r.previous[i] = -1;
    for (int v = 0; r.clock && r.previous && v < x->g->nnodes; v++) {
        if (!x->c.live[v])
            continue;
        order_node(&r, v);
        for (int i = e->first[v]; i < e->first[v + 1]; i++) {
            int before = e->preds[i];

            if (x->c.live[before] && told < MAX_TOLD &&
                clock_of(&r, v)[x->g->nodes[before].marks.stream] <= before) {
                add_race(&r, report, before, v);
                told++;
            }
        }
    }
    report->failed |= !r.clock || !r.previous;
    weir__free(r.clock);
    weir__free(r.previous);
    return WEIR_OK;
}
