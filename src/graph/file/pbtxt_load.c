/* Builds a graph from the records of a graph file. */
#include "graph/file/pbtxt_load.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { LARGE_FILE = 1 << 24, MAX_FILE = 1 << 29 }; /* 16 MiB; a million nodes */

/* ---- outputs ---- */

/* Loads output k of NetOutput. Its name is the k-th of `names`, or else the name of what it refers
 * to. */
static weir_status load_output(struct weir__pb_loader *l, const struct weir__pb_ref *ref,
                               const char *name)
{
    struct weir__operand operand;
    weir_tensor *t;
    char generated[128];
    weir_status st;

    if (l->g->noutputs >= WEIR__PB_MAX_ENDS)
        return weir__pb_fail(&l->file.text, WEIR_EINVAL, ref->at, "a graph has at most %d outputs",
                             WEIR__PB_MAX_ENDS);
    if ((st = weir__pb_operand(l, ref, &operand)))
        return st;
    if (!name && ref->index)
        snprintf(generated, sizeof generated, "%.100s:%d", ref->name, ref->index);
    if ((st = weir__graph_tensor(l->g, &operand, &t)))
        return st;
    st = weir_graph_output(l->g, name ? name : ref->index ? generated : ref->name, t);
    weir_tensor_release(t);
    return st && st != WEIR_ENOMEM
               ? weir__pb_fail(&l->file.text, WEIR_EINVAL, ref->at, "%s", weir_last_error())
               : st;
}

static weir_status load_outputs(struct weir__pb_loader *l, const struct weir__pb_node *n)
{
    const struct weir__pb_attr *names = weir__pb_attr_find(&l->file, n, "names");
    struct weir__pb_value v;
    struct weir__pb_event e = {.kind = WEIR__PB_END};
    weir_status st = WEIR_OK;

    if (names && (st = weir__pb_value_open(&v, &l->file, n, names)))
        return st;
    for (int i = n->refs; i < n->refs + n->nrefs && !st; i++) {
        const struct weir__pb_ref *ref = &l->file.refs[i];
        const char *name = NULL;

        if (ref->kind != WEIR__PB_DATA)
            continue;
        if (names && !(st = weir__pb_value_next(&v, &e)) && e.kind != WEIR__PB_END)
            st = weir__pb_to_string(&v, &e, &name);
        if (!st)
            st = load_output(l, ref, name);
    }
    if (names)
        weir__pb_value_close(&v);
    return st;
}

/* ---- the file ---- */

static bool is_op(const struct weir__pb_node *n, const char *a, const char *b, const char *c)
{
    return !strcmp(n->op, a) || !strcmp(n->op, b) || !strcmp(n->op, c);
}

static bool is_outputs(const struct weir__pb_node *n)
{
    return !strcmp(n->op, "NetOutput");
}

static weir_status load_node(struct weir__pb_loader *l, int index)
{
    const struct weir__pb_node *n = &l->file.nodes[index];
    struct weir__pb_made *m = &l->made[index];
    bool input = is_op(n, "Placeholder", "Data", "Arg");
    bool constant = is_op(n, "Const", "Constant", "ConstPlaceHolder");
    bool alias = is_op(n, "Identity", "View", "View");

    if (!weir__op_find(n->op))
        weir__pb_lose_foreign(l, n);
    if ((input || constant || alias) && !(m->operand = weir__calloc(1, sizeof *m->operand)))
        return weir__fail_nomem("%s: allocating node '%.80s'", l->file.text.where, n->name);
    m->kind = input || constant ? WEIR__PB_MADE_OPERAND : WEIR__PB_MADE_NOTHING;
    if (input)
        return weir__pb_load_input(&l->file, n, l->g, m->operand);
    if (constant)
        return weir__pb_load_constant(&l->file, n, l->g, &l->zeros, m->operand);
    if (is_outputs(n))
        return WEIR_OK;
    return alias ? weir__pb_load_alias(l, n, m) : weir__pb_load_operator(l, n, m);
}

static weir_status load_nodes(struct weir__pb_loader *l)
{
    const struct weir__pb_file *f = &l->file;
    size_t n = (size_t)f->nnodes + 1;
    weir_status st = WEIR_OK;

    if (f->nnodes > WEIR__PB_MAX_NODES)
        return weir__pb_fail(&f->text, WEIR_EINVAL, f->nodes[WEIR__PB_MAX_NODES].at,
                             "a graph file has at most %d nodes", WEIR__PB_MAX_NODES);
    if ((st = weir__pb_resolve(&l->file, false)) || (st = weir__pb_sort(&l->file, &l->order)) ||
        (st = weir__pb_find_read(l)))
        return st;
    if ((st = weir__graph_expect_nodes(l->g, f->nnodes)))
        return st;
    l->made = weir__calloc(n, sizeof *l->made);
    l->stamp = weir__calloc(n, sizeof *l->stamp);
    if (!l->made || !l->stamp)
        return weir__fail_nomem("%s: allocating %d nodes", f->text.where, f->nnodes);
    for (int i = 0; i < f->nnodes && !st; i++) {
        size_t at = f->nodes[l->order[i]].at;

        weir__pb_source_keep(f->text.source, at, at + 1);
        st = load_node(l, l->order[i]);
    }
    /* Outputs come last: they are the final contents of values, wherever the file names them. */
    for (int i = 0; i < f->nnodes && !st; i++)
        if (is_outputs(&f->nodes[i]))
            st = load_outputs(l, &f->nodes[i]);
    return st;
}

/* Loads from the text, or from a source of it. */
static weir_status load_text(weir_device *dev, const char *text, size_t size,
                             struct weir__pb_source *source, const char *where, weir_graph **out)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL), before;
    struct weir__pb_loader l = {0};
    weir_status st;

    *out = NULL;
    if (!plain)
        return weir__fail_nomem("creating the locale to read %s", where ? where : "a graph");
    before = uselocale(plain); /* numbers have a decimal point in every locale */
    st = source ? weir__pb_file_parse_source(&l.file, where, source)
                : weir__pb_file_parse(&l.file, where ? where : "graph", text, size);
    if (!st && !(st = weir_graph_create(dev, &l.g)))
        st = load_nodes(&l);
    if (st) {
        weir_graph_destroy(l.g);
    } else {
        *out = l.g;
        weir__pb_warn_foreign(&l);
        weir__pb_file_hand_over(&l.file, &l.g->adopted, &l.g->free_adopted);
    }
    for (int i = 0; l.made && i < l.file.nnodes; i++)
        weir__free(l.made[i].operand);
    weir__pb_file_fini(&l.file);
    weir__free(l.order);
    weir__free(l.read);
    weir__free(l.made);
    weir__free(l.waits);
    weir__free(l.stamp);
    weir__pb_source_tidy(source);
    uselocale(before);
    freelocale(plain);
    return st;
}

weir_status weir_graph_load(weir_device *dev, const char *text, size_t size, const char *where,
                            weir_graph **out)
{
    WEIR__NEED(text, "text");
    WEIR__NEED(dev, "dev");
    WEIR__NEED(out, "out");

    return load_text(dev, text, size, NULL, where, out);
}

weir_status weir__pb_read(const char *path, char **data, size_t *size)
{
    return weir__file_read(path, MAX_FILE, "graph file", data, size);
}

weir_status weir_graph_load_file(weir_device *dev, const char *path, weir_graph **out)
{
    WEIR__NEED(dev, "dev");
    WEIR__NEED(path, "path");
    WEIR__NEED(out, "out");

    struct weir__pb_source *source;
    char *data = NULL;
    size_t size = 0;
    weir_status st;

    *out = NULL;
    if ((st = weir__pb_source_open(path, LARGE_FILE, MAX_FILE, &source)))
        return st;
    if (source || !(st = weir__pb_read(path, &data, &size)))
        st = load_text(dev, data, size, source, path, out);
    weir__pb_source_close(source);
    weir__free(data);
    return st;
}
