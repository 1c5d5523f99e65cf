/* Dumps before and after each pass. */
#include "graph/pass/stages.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

struct weir__stages weir__stages_of(const weir_compile_options *options)
{
    static _Atomic unsigned plans;
    struct weir__stages s = {.dir = options->dump_dir};

    if (!s.dir)
        s.dir = getenv("WEIR_GRAPH_DUMP");
    if (s.dir && !*s.dir)
        s.dir = NULL;
    if (s.dir)
        s.plan = atomic_fetch_add(&plans, 1);
    return s;
}

static weir_status write_file(struct weir__stages *s, const char *pass, const char *ext,
                              const char *text)
{
    struct weir__text path = {0};
    weir_status st;

    weir__text_add(&path, "%s/weir_%ld_plan%u_%02u_%s.%s", s->dir, (long)getpid(), s->plan,
                   s->next++, pass, ext);
    if (path.failed)
        return weir__fail_nomem("allocating the path of a pass's dump");
    st = weir__file_write_text(path.data, text);
    weir__text_free(&path);
    return st;
}

weir_status weir__stage_text(struct weir__stages *s, const char *pass, const char *text)
{
    return s->dir ? write_file(s, pass, "txt", text) : WEIR_OK;
}

weir_status weir__stage_graph(struct weir__stages *s, const char *pass, const weir_graph *g)
{
    weir_status st;
    char *text;

    if (!s->dir)
        return WEIR_OK;
    if (!(text = weir_graph_dump(g)))
        return weir__fail_nomem("allocating the dump of pass '%s'", pass);
    st = write_file(s, pass, "pbtxt", text);
    free(text);
    return st;
}

/* ---- decisions so far ---- */

static const char *at_sync(const struct weir__compile *c, const struct weir__sync *sync)
{
    return c->g->nodes[weir__node_at(c, sync->stream, sync->position)].name;
}

static void add_edges(struct weir__text *text, const struct weir__compile *c, int v)
{
    const char *before = "  needs ";

    for (int i = c->edges.first[v]; i < c->edges.first[v + 1]; i++, before = ",")
        weir__text_add(text, "%s%s", before, c->g->nodes[c->edges.preds[i]].name);
}

static void add_waits(struct weir__text *text, const struct weir__compile *c, int v)
{
    const char *before = "  waits ";

    for (int i = c->sync_first[v]; i < c->sync_first[v + 1]; i++, before = ",")
        weir__text_add(text, "%s%s", before, at_sync(c, &c->syncs[i]));
}

static void add_memory(struct weir__text *text, const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];

    for (int i = 0; i < n->nout; i++)
        if (c->offset[n->out[i].value] >= 0)
            weir__text_add(text, "  out%d @%lld", i, (long long)c->offset[n->out[i].value]);
    if (c->scratch_size[v])
        weir__text_add(text, "  scratch @%lld+%lld", (long long)c->scratch_offset[v],
                       (long long)c->scratch_size[v]);
}

/* Writes only what the passes have decided so far. */
static void add_node(struct weir__text *text, const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];
    const struct weir__operand *writes;
    int nwrites;

    writes = weir__node_writes(n, &nwrites);
    weir__text_add(text, "%s  %s", n->name, n->op->name);
    for (int i = 0; i < nwrites; i++)
        weir__text_add(text, " %s", weir__view_text(&writes[i].view).text);
    if (c->edges.first)
        add_edges(text, c, v);
    if (c->live && !c->live[v])
        weir__text_add(text, "  dead");
    else if (c->streams)
        weir__text_add(text, "  on %s #%d",
                       c->stream[v] ? c->streams[c->stream[v]].tag : "(caller)", c->position[v]);
    if (c->sync_first)
        add_waits(text, c, v);
    if (c->leader && c->live[v] && c->leader[v] != v)
        weir__text_add(text, "  part of %s", c->g->nodes[c->leader[v]].name);
    if (c->chunked && c->chunked[v])
        weir__text_add(text, "  piece by piece");
    if (c->limit && (c->limit[v].cube || c->limit[v].vector))
        weir__text_add(text, "  cores %s", weir__cores_to_text(c->limit[v]).text);
    if (c->offset)
        add_memory(text, c, v);
    weir__text_add(text, "\n");
}

weir_status weir__stage_compile(struct weir__stages *s, const char *pass,
                                const struct weir__compile *c)
{
    struct weir__text text = {0};
    weir_status st;

    if (!s->dir)
        return WEIR_OK;
    weir__text_add(&text, "# after %s: %d nodes in program order\n", pass, c->g->nnodes);
    for (int v = 0; v < c->g->nnodes; v++)
        add_node(&text, c, v);
    for (int i = 0; i < c->njoins; i++)
        weir__text_add(&text, "(join)  waits %s\n", at_sync(c, &c->joins[i]));
    if (c->offset)
        weir__text_add(&text, "arena %zu bytes, at least %zu\n", c->arena_bytes, c->lower_bound);
    st = text.failed ? weir__fail_nomem("allocating the dump of pass '%s'", pass)
                     : write_file(s, pass, "txt", text.data);
    weir__text_free(&text);
    return st;
}
