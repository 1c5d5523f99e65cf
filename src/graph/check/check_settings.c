/* Settings of scopes and attributes that cannot take effect or contradict each other. */
#include <string.h>

#include "graph/check/check_graph.h"
#include "graph/pass/streams.h"
#include "tensor/kernel_params.h"

/* Streams of an Ascend device; other devices have as many as a plan can use. */
enum { ASCEND_STREAMS = 1984 };

static void add_finding(struct weir__report *r, weir_finding_kind kind, bool is_error,
                        struct weir__lines *nodes, const char *text, const char *remedy)
{
    weir_finding f = {.kind = kind, .is_error = is_error, .text = text, .remedy.text = remedy};

    f.nodes = weir__report_lines(r, nodes, &f.nnodes);
    weir__report_add(r, &f);
}

static const char *name_of(struct weir__report *r, const struct weir__node *n)
{
    return weir__report_text(r, "%s", n->name);
}

/* ---- streams ---- */

static void check_single_stream(const struct weir__checked *x, struct weir__report *r)
{
    const weir_compile_options single = {.single_stream = true};
    struct weir__lines nodes = {0};

    if (!weir__streams_check(x->g, &single))
        return;
    for (int v = 0; v < x->g->nnodes; v++)
        if (x->g->nodes[v].marks.stream)
            weir__report_line(r, &nodes, name_of(r, &x->g->nodes[v]));
    add_finding(r, WEIR_FINDING_CONFLICT, true, &nodes,
                weir__report_text(r, "%s%s", x->where, weir_last_error()),
                "set single_stream to false, or take the labels out");
}

static void check_stream_count(const struct weir__checked *x, struct weir__report *r)
{
    const weir_device_props *props = &x->g->dev->props;
    bool ascend = !strncmp(props->name, "npu", 3);
    int has = ascend ? ASCEND_STREAMS : WEIR__PLAN_MAX_STREAMS, used = 1;
    struct weir__lines none = {0};
    bool *seen = weir__calloc((size_t)x->g->nlabels, sizeof *seen);

    if (!seen) {
        r->failed = true;
        return;
    }
    for (int v = 0; v < x->g->nnodes; v++) {
        int label = x->g->nodes[v].marks.stream;

        used += label && !seen[label];
        seen[label] = true;
    }
    weir__free(seen);
    if (used > has)
        add_finding(r, WEIR_FINDING_STREAM_COUNT, true, &none,
                    weir__report_text(r, "%sit uses %d streams, %s has %d", x->where, used,
                                      props->name, has),
                    "use fewer stream labels");
    else if (used > WEIR__PLAN_MAX_STREAMS)
        add_finding(r, WEIR_FINDING_STREAM_COUNT, false, &none,
                    weir__report_text(r, "%sit uses %d streams, a plan of weir has at most %d",
                                      x->where, used, WEIR__PLAN_MAX_STREAMS),
                    "use fewer stream labels");
}

/* ---- super kernels ---- */

/* Reports a scope with operators of several streams that no option puts on one stream. */
static void check_scope(const struct weir__checked *x, int k, struct weir__report *r)
{
    const struct weir__super_kernel *scope = &x->g->super_kernels[k];
    struct weir__lines nodes = {0};
    int first = -1, other = -1;

    for (int v = 0; v < x->g->nnodes; v++) {
        const struct weir__marks *m = &x->g->nodes[v].marks;

        if (m->super_kernel != k)
            continue;
        if (first < 0)
            first = m->stream;
        if (m->stream != first)
            other = m->stream;
        weir__report_line(r, &nodes, name_of(r, &x->g->nodes[v]));
    }
    if (other < 0) {
        weir__free(nodes.at);
        return;
    }
    add_finding(r, WEIR_FINDING_CONFLICT, false, &nodes,
                weir__report_text(r,
                                  "%ssuper kernel '%s' holds operators of streams '%s' and '%s', "
                                  "which are not fused with each other",
                                  x->where, scope->name, x->g->labels[first], x->g->labels[other]),
                "set stream-fusion=1 in its options, or keep its operators on one stream");
}

/* Reports what compiling would refuse under strict-scope-check=abort. */
static weir_status check_strict(struct weir__checked *x, struct weir__report *r)
{
    struct weir__lines none = {0};
    weir_status st;

    if (x->g->nlabels > WEIR__PLAN_MAX_STREAMS)
        return WEIR_OK; /* another check reports it */
    if ((st = weir__pass_streams(&x->c)) || (st = weir__pass_sync(&x->c)))
        return st;
    if ((st = weir__pass_super(&x->c)) != WEIR_ECONFLICT)
        return st;
    add_finding(r, WEIR_FINDING_CONFLICT, true, &none,
                weir__report_text(r, "%s%s", x->where, weir_last_error()),
                "take the operator out of the scope, or set strict-scope-check=bypass");
    return WEIR_OK;
}

/* ---- limits ---- */

static void check_range(const struct weir__checked *x, const struct weir__node *n,
                        struct weir__report *r)
{
    const weir_cores most = x->g->dev->props.cores;
    weir_finding f = {.kind = WEIR_FINDING_LIMIT, .is_error = true};
    struct weir__lines nodes = {0};

    if (!weir__device_check_limit(x->g->dev, n->marks.limit))
        return;
    f.text = weir__report_text(r, "%s%s: %s", x->where, n->name, weir_last_error());
    f.remedy.node = name_of(r, n);
    f.remedy.cube = n->marks.limit.cube > most.cube ? most.cube : 0;
    f.remedy.vector = n->marks.limit.vector > most.vector ? most.vector : 0;
    f.remedy.text = "give a limit that the device has";
    weir__report_line(r, &nodes, f.remedy.node);
    f.nodes = weir__report_lines(r, &nodes, &f.nnodes);
    weir__report_add(r, &f);
}

/* Why the node's limit has no effect; NULL if it has one, or there is no limit. */
static const char *why_ignored(struct weir__report *r, const struct weir__node *n)
{
    const struct weir__kernel_params *k = strcmp(n->op->name, "Kernel") ? NULL : n->params;
    weir_engine engine = weir__node_engine(n);
    weir_cores limit = n->marks.limit;

    if (limit.cube <= 0 && limit.vector <= 0)
        return NULL;
    if (engine > WEIR_ENGINE_MIX)
        return weir__report_text(r, "it runs on the %s engine", weir_engine_name(engine));
    if (!weir__node_obeys_limit(n))
        return weir__report_text(r, "no limit reaches %s kernels of class %s",
                                 weir_engine_name(engine), k ? k->class : "static");
    if (engine == WEIR_ENGINE_CUBE && limit.cube <= 0)
        return "it runs on cube cores, and the limit is for vector cores";
    if (engine == WEIR_ENGINE_VECTOR && limit.vector <= 0)
        return "it runs on vector cores, and the limit is for cube cores";
    return NULL;
}

static void check_effect(const struct weir__checked *x, struct weir__report *r)
{
    struct weir__lines nodes = {0};
    const char *why = NULL;

    for (int v = 0; v < x->g->nnodes; v++) {
        const char *ignored = x->c.live[v] ? why_ignored(r, &x->g->nodes[v]) : NULL;

        if (!ignored)
            continue;
        why = why ? why : ignored;
        weir__report_line(r, &nodes, name_of(r, &x->g->nodes[v]));
    }
    if (!nodes.n) {
        weir__free(nodes.at);
        return;
    }
    add_finding(r, WEIR_FINDING_LIMIT, false, &nodes,
                nodes.n == 1
                    ? weir__report_text(r, "%sthe core limit of %s has no effect: %s", x->where,
                                        nodes.at[0], why)
                    : weir__report_text(r,
                                        "%sthe core limits of %d operators have no effect: of %s, "
                                        "since %s, and others",
                                        x->where, nodes.n, nodes.at[0], why),
                "take the limit out, or limit operators that it reaches");
}

weir_status weir__check_settings(struct weir__checked *x, const weir_check_options *options,
                                 struct weir__report *r)
{
    if (options->single_stream)
        check_single_stream(x, r);
    check_stream_count(x, r);
    for (int k = 0; k < x->g->nsuper_kernels; k++)
        check_scope(x, k, r);
    for (int v = 0; v < x->g->nnodes; v++)
        if (x->c.live[v])
            check_range(x, &x->g->nodes[v], r);
    check_effect(x, r);
    return x->g->nsuper_kernels ? check_strict(x, r) : WEIR_OK;
}
