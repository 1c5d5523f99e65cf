/* weir_check_graphs and weir_check_files. */
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "graph/check/check_graph.h"
#include "graph/file/pbtxt_load.h"

enum { MAX_RANKS = 1 << 16 };

/* ---- graphs ---- */

static void checked_fini(struct weir__checked *x)
{
    weir__compile_fini(&x->c);
    weir_graph_destroy(x->g);
}

static weir_status checked_init(struct weir__checked *x, const weir_graph *g, const char *where)
{
    weir_status st;

    *x = (struct weir__checked){.where = where};
    if ((st = weir__graph_clone(g, &x->g)))
        return st;
    weir__super_fuse_streams(x->g);
    x->c.g = x->g;
    if ((st = weir__graph_edges(x->g, &x->c.edges)) || (st = weir__pass_live(&x->c)))
        checked_fini(x);
    return st;
}

/* Checks a rank's graph by itself. If several ranks have the same graph, only the first one is
 * checked. */
static weir_status check_rank(weir_graph *const *graphs, size_t rank, struct weir__check_program *p,
                              const struct weir__check_members *members,
                              const weir_check_options *options, struct weir__report *report)
{
    bool first = true, several = false;
    struct weir__checked x;
    const char *where;
    weir_status st;

    for (int i = 0; i < p->nranks; i++) {
        first &= (size_t)i >= rank || graphs[i] != graphs[rank];
        several |= graphs[i] != graphs[0];
    }
    where = several ? weir__report_text(report, "rank %zu: ", rank) : "";
    if ((st = checked_init(&x, graphs[rank], where)))
        return st;
    x.members = members;
    if (!(st = weir__check_translate(&x, p, (int)rank)) && first &&
        !(st = weir__check_settings(&x, options, report))) {
        weir__check_groups(&x, (int)rank, p->nranks, report);
        st = weir__check_races(&x, report);
    }
    checked_fini(&x);
    return st;
}

/* ---- several groups with one name ---- */

/* Sets *fails if ranks would wait for each other for ever when the groups are split as in
 * `members`. */
static weir_status try_parting(weir_graph *const *graphs, size_t nranks,
                               const struct weir__check_members *members,
                               const weir_check_options *options, bool *fails)
{
    struct weir__report *report = weir__report_new();
    struct weir__check_program p;
    struct weir__checked x;
    weir_status st;

    if (!report)
        return WEIR_ENOMEM;
    st = weir__check_program_init(&p, (int)nranks);
    for (size_t r = 0; r < nranks && !st; r++) {
        if ((st = checked_init(&x, graphs[r], "")))
            break;
        x.members = members;
        st = weir__check_translate(&x, &p, (int)r);
        checked_fini(&x);
    }
    if (!st) {
        weir__check_misfits(&p, report);
        st = weir__check_analyse(&p, options, report);
    }
    weir__check_program_fini(&p);
    *fails = false;
    for (int i = 0; i < report->nfindings; i++)
        *fails |= report->findings[i].is_error;
    weir_check_free(&report->public);
    return st;
}

/* Chooses one of the possible splits: a failing one if all fail, else one that does not fail. Adds
 * a warning if only some fail. */
static weir_status choose_parting(weir_graph *const *graphs, size_t nranks,
                                  struct weir__check_members *members,
                                  const weir_check_options *options, struct weir__report *report)
{
    int ways, bad = 0, good = -1;
    bool alike = true, fails;
    weir_status st = WEIR_OK;

    for (size_t r = 1; r < nranks; r++)
        alike &= graphs[r] == graphs[0];
    ways = weir__check_count_partings(members, alike);
    for (int i = 0; i < ways && ways > 1 && !st; i++) {
        weir__check_set_parting(members, i, alike);
        if ((st = try_parting(graphs, nranks, members, options, &fails)))
            return st;
        bad += fails;
        good = fails ? good : i;
    }
    if (ways)
        weir__check_set_parting(members, good < 0 ? 0 : good, alike);
    if (bad && good >= 0)
        weir__check_add_partings(members, ways, bad, report);
    return st;
}

weir_status weir__check_ranks(weir_graph *const *graphs, size_t nranks,
                              const weir_check_options *options, struct weir__report *report)
{
    struct weir__check_members members = {0};
    struct weir__check_program p;
    weir_status st = weir__check_program_init(&p, (int)nranks);

    for (size_t r = 0; r < nranks && !st; r++)
        st = weir__check_count_groups(graphs[r], (int)r, &members);
    if (!st && !(st = weir__check_settle_groups(&members, (int)nranks)))
        st = choose_parting(graphs, nranks, &members, options, report);
    for (size_t r = 0; r < nranks && !st; r++)
        st = check_rank(graphs, r, &p, &members, options, report);
    weir__check_members_fini(&members);
    if (!st) {
        weir__check_misfits(&p, report);
        st = weir__check_analyse(&p, options, report);
    }
    weir__check_program_fini(&p);
    return st;
}

static weir_status check_count(size_t nranks)
{
    if (nranks < 1 || nranks > MAX_RANKS)
        return weir__fail(WEIR_EINVAL, "a program of %zu ranks cannot be checked: 1..%d", nranks,
                          MAX_RANKS);
    return WEIR_OK;
}

weir_status weir_check_graphs(weir_graph *const *graphs, size_t nranks,
                              const weir_check_options *options, weir_check_report **out)
{
    weir_check_options o;
    struct weir__report *report;
    weir_status st;

    WEIR__NEED(graphs, "graphs");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = WEIR__TAKE(&o, options, "options of a check")) || (st = check_count(nranks)))
        return st;
    for (size_t i = 0; i < nranks; i++)
        if (!graphs[i])
            return weir__fail(WEIR_EINVAL, "rank %zu has no graph", i);
    if (!(report = weir__report_new()))
        return WEIR_ENOMEM;
    if ((st = weir__check_ranks(graphs, nranks, &o, report))) {
        weir_check_free(&report->public);
        return st;
    }
    return weir__report_finish(report, out);
}

/* ---- files ---- */

/* Reports control inputs that name no node: nothing ever records what they wait for. */
static bool find_unrecorded(const struct weir__pb_file *f, struct weir__report *report)
{
    bool any = false;

    for (int i = 0; i < f->nnodes; i++)
        for (int j = 0; j < f->nodes[i].nrefs; j++) {
            const struct weir__pb_ref *ref = &f->refs[f->nodes[i].refs + j];
            weir_finding found = {.kind = WEIR_FINDING_UNRECORDED_EVENT, .is_error = true};
            struct weir__lines nodes = {0};
            size_t line, column;

            if (ref->kind != WEIR__PB_CONTROL || ref->node >= 0)
                continue;
            any = true;
            weir__pb_place(&f->text, ref->at, &line, &column);
            found.text =
                weir__report_text(report,
                                  "%s:%zu:%zu: %s waits for %s, but no node of the file has that "
                                  "name: it would wait for ever",
                                  f->text.where, line, column, f->nodes[i].name, ref->name);
            weir__report_line(report, &nodes, weir__report_text(report, "%s", f->nodes[i].name));
            found.nodes = weir__report_lines(report, &nodes, &found.nnodes);
            found.remedy.node = found.nnodes ? found.nodes[0] : NULL;
            found.remedy.text = weir__report_text(
                report, "name a node that exists, or take input \"^%s\" out", ref->name);
            weir__report_add(report, &found);
        }
    return any;
}

/* Adds the file's nodes with the order that it asks for: their inputs, and their places on the
 * streams that they name. Nodes without a stream may come in any order in a file. */
static weir_status add_records(struct weir__pb_file *f, struct weir__check_program *p)
{
    struct weir__check_rank *rank = &p->ranks[0];
    int *stream = weir__calloc((size_t)f->nnodes + 1, sizeof *stream);
    weir_status st =
        stream ? weir__pb_labels(f, stream) : weir__fail_nomem("checking %d nodes", f->nnodes);

    for (int i = 0; i < f->nnodes && !st; i++) {
        const char *label = "default";
        int first = stream[i];

        if (first == i)
            st = weir__pb_attr_string(f, &f->nodes[i], "_user_stream_label", &label);
        stream[i] = first >= 0 && first < i ? stream[first]
                    : st                    ? -1
                                            : weir__check_add_stream(rank, label, 0);
        if (stream[i] < 0 || weir__check_add_op(p, 0, stream[i], f->nodes[i].name, NULL) < 0)
            st = st ? st : WEIR_ENOMEM;
    }
    for (int i = 0; i < f->nnodes && !st; i++)
        for (int j = 0; j < f->nodes[i].nrefs && !st; j++) {
            const struct weir__pb_ref *ref = &f->refs[f->nodes[i].refs + j];

            if (ref->kind != WEIR__PB_ABSENT && ref->node >= 0)
                st = weir__check_add_after(rank, i, ref->node);
        }
    weir__free(stream);
    return st;
}

/* Sets *runs if the file can be run at all. */
static weir_status check_records(struct weir__pb_file *f, struct weir__report *report, bool *runs)
{
    struct weir__check_program p;
    bool unrecorded, stuck = false;
    weir_status st;

    *runs = false;
    if ((st = weir__pb_resolve(f, true)) || (st = weir__check_program_init(&p, 1)))
        return st;
    unrecorded = find_unrecorded(f, report);
    if (!(st = add_records(f, &p)))
        st = weir__check_stuck(&p, report, &stuck);
    *runs = !st && !unrecorded && !stuck;
    weir__check_program_fini(&p);
    return st;
}

/* *out stays NULL if findings say why there is no graph. */
static weir_status load_rank(weir_device *dev, const char *path, struct weir__report *report,
                             weir_graph **out)
{
    struct weir__pb_file f;
    char *data = NULL;
    size_t size;
    bool runs = false;
    weir_status st = weir__pb_read(path, &data, &size);

    *out = NULL;
    if (!st && !(st = weir__pb_file_parse(&f, path, data, size))) {
        st = check_records(&f, report, &runs);
        weir__pb_file_fini(&f);
        if (!st && runs)
            st = weir_graph_load(dev, data, size, path, out);
    }
    weir__free(data);
    return st;
}

static weir_status load_ranks(weir_device *dev, const char *const *paths, size_t nranks,
                              struct weir__report *report, weir_graph **graphs, bool *all)
{
    weir_status st = WEIR_OK;

    *all = true;
    for (size_t r = 0; r < nranks && !st; r++) {
        size_t same = 0;

        while (same < r && strcmp(paths[same], paths[r]) != 0)
            same++;
        if (same < r)
            graphs[r] = graphs[same];
        else
            st = load_rank(dev, paths[r], report, &graphs[r]);
        *all &= graphs[r] != NULL;
    }
    return st;
}

weir_status weir_check_files(weir_device *dev, const char *const *paths, size_t nranks,
                             const weir_check_options *options, weir_check_report **out)
{
    weir_check_options o;
    struct weir__report *report;
    weir_graph **graphs;
    bool all;
    weir_status st;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(paths, "paths");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = WEIR__TAKE(&o, options, "options of a check")) || (st = check_count(nranks)))
        return st;
    report = weir__report_new();
    graphs = weir__calloc(nranks, sizeof *graphs);
    if (!report || !graphs)
        st = weir__fail_nomem("checking %zu files", nranks);
    else if (!(st = load_ranks(dev, paths, nranks, report, graphs, &all))) {
        report->public.nranks = nranks;
        if (all)
            st = weir__check_ranks(graphs, nranks, &o, report);
    }
    for (size_t r = 0; graphs && r < nranks; r++) {
        for (size_t other = r + 1; other < nranks; other++)
            graphs[other] = graphs[other] == graphs[r] ? NULL : graphs[other];
        weir_graph_destroy(graphs[r]);
    }
    weir__free(graphs);
    if (st) {
        weir_check_free(report ? &report->public : NULL);
        return st;
    }
    return weir__report_finish(report, out);
}
