/* A plan for people: streams as columns, syncs, bytes and cores. */
#include "base/sized.h"
#include "graph/plan/dynamic.h"

#include <stdio.h>
#include <string.h>

enum { COLUMN = 26 };

void weir_plan_get_stats(const weir_plan *plan, weir_plan_stats *out, size_t size)
{
    weir_plan_stats stats;
    size_t live = 0, launches = 0;

    if (!plan || !out)
        return;
    if (plan->dynamic) {
        weir__dynamic_stats(plan, &stats);
        weir__sized_give(out, size, &stats, sizeof stats);
        return;
    }
    for (int v = 0; v < plan->graph->nnodes; v++) {
        live += plan->c.live[v];
        launches += plan->c.live[v] && plan->c.leader[v] == v;
    }
    stats = (weir_plan_stats){
        .nodes = live,
        .launches = launches,
        .streams = (size_t)plan->c.nstreams,
        .syncs = (size_t)(plan->c.nsyncs + plan->c.njoins),
        .arena_bytes = plan->c.arena_bytes,
        .lower_bound = plan->c.lower_bound,
        .instances = (size_t)plan->ninstances,
    };
    weir__sized_give(out, size, &stats, sizeof stats);
}

static const char *stream_name(const struct weir__compile *c, int stream)
{
    return stream ? c->streams[stream].tag : "(caller)";
}

static void list_node(struct weir__text *text, const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];
    int nwrites;
    const struct weir__operand *w = weir__node_writes(n, &nwrites);
    char cell[COLUMN + 1];

    snprintf(cell, sizeof cell, "%s", n->name);
    weir__text_add(text, "  %*s%-*s", c->stream[v] * (COLUMN + 2), "", COLUMN, cell);
    weir__text_add(text, "%*s  %-6s %s", (c->nstreams - 1 - c->stream[v]) * (COLUMN + 2), "",
                   weir_engine_name(weir__node_engine(n)),
                   nwrites ? weir__view_text(&w->view).text : "");
    if (nwrites && c->slot[w->value] >= 0)
        weir__text_add(text, weir__device_can(c->g->dev, WEIR__RUNS_SOURCE)
                                 ? " in registers"
                                 : " in its block's memory");
    else if (nwrites && c->offset[w->value] >= 0)
        weir__text_add(text, " @%lld", (long long)c->offset[w->value]);
    if (c->leader[v] != v && (c->chunked[c->leader[v]] || c->absorbs[c->leader[v]]))
        weir__text_add(text, " with %s", c->g->nodes[c->leader[v]].name);
    if (n->marks.super_kernel >= 0)
        weir__text_add(text, " in %s%s", c->g->super_kernels[n->marks.super_kernel].name,
                       c->leader[v] == v ? "" : " (fused)");
    if (c->limit[v].cube || c->limit[v].vector)
        weir__text_add(text, " cores %s", weir__cores_to_text(c->limit[v]).text);
    else if (!weir__node_obeys_limit(n))
        weir__text_add(text, " takes no core limit");
    for (int i = c->sync_first[v]; i < c->sync_first[v + 1]; i++)
        weir__text_add(
            text, "  <- %s",
            c->g->nodes[weir__node_at(c, c->syncs[i].stream, c->syncs[i].position)].name);
    weir__text_add(text, "\n");
}

void weir__plan_list(const weir_plan *plan, struct weir__text *text)
{
    const struct weir__compile *c = &plan->c;
    weir_plan_stats stats;

    weir_plan_get_stats(plan, &stats, sizeof stats);
    weir__text_add(text, "plan on %s: %zu node(s), %zu stream(s), %zu sync(s), arena %s%s\n",
                   plan->dev->props.name, stats.nodes, stats.streams, stats.syncs,
                   weir__size(stats.arena_bytes).text,
                   c->options.static_kernels ? ", static kernels (core limits are frozen)" : "");
    if (plan->merged)
        weir__text_add(text, "  too short to gain from running side by side: run in this order on "
                             "the caller's stream\n");
    weir__text_add(text, "  ");
    for (int i = 0; i < c->nstreams; i++)
        weir__text_add(text, "%-*.*s  ", COLUMN, COLUMN, stream_name(c, i));
    weir__text_add(text, "engine result\n");
    for (int v = 0; v < c->g->nnodes; v++)
        if (c->live[v])
            list_node(text, c, v);
    weir__text_add(text, "  %-*s", COLUMN, "(join)");
    for (int i = 0; i < c->njoins; i++)
        weir__text_add(
            text, "  <- %s",
            c->g->nodes[weir__node_at(c, c->joins[i].stream, c->joins[i].position)].name);
    weir__text_add(text, "\n%s", c->notes.data ? c->notes.data : "");
}

char *weir_plan_list(const weir_plan *plan)
{
    struct weir__text text = {0};

    if (!plan)
        return NULL;
    if (plan->dynamic)
        weir__dynamic_list(plan, &text);
    else
        weir__plan_list(plan, &text);
    if (text.failed) {
        weir__text_free(&text);
        weir__fail_nomem("writing the listing of a plan");
        return NULL;
    }
    return text.data;
}
