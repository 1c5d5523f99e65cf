/* A graph as a rank of the checker's program: streams, order, and the cores each node
 * takes. */
#include <string.h>

#include "graph/build/stand_in.h"
#include "graph/check/check_graph.h"
#include "tensor/kernel_params.h"

/* ---- cores ---- */

/* How the operator's own tiling cuts it. If the tiling is unknown, it takes all cores that it may
 * use. */
static void tile(const weir_graph *g, const struct weir__node *n, unsigned cores,
                 struct weir__work *work)
{
    struct weir__stand_in s;

    weir__stand_in_init(&s, n, cores, NULL);
    weir__work_init(work, n->op);
    if (g->dynamic || n->op->prepare(&s.call, work)) {
        work->blocks = cores;
        work->gang = n->op->flags & WEIR__OP_GANG;
        work->is_collective = false;
    }
}

/* Keeps the offer of a collective, for comparison with its peers' (check_groups.c). */
static bool keep_offer(const struct weir__work *work, int rank, struct weir__check_op *op)
{
    struct weir__meet *meet;

    if (!work->is_collective)
        return true;
    if (!(meet = weir__malloc(work->args_size)))
        return false;
    memcpy(meet, work->args, work->args_size);
    meet->rank = rank;
    op->meet = meet;
    return true;
}

/* The cores that a block takes on that engine, and what it counts in a limit. */
static void set_engine(const weir_device *dev, weir_engine engine, struct weir__check_op *op)
{
    bool split = dev->props.features & WEIR_FEATURE_SPLIT_CORES;
    bool mix = engine == WEIR_ENGINE_MIX;

    op->cube = !split || engine != WEIR_ENGINE_VECTOR;
    op->vector = !split                         ? 0
                 : engine == WEIR_ENGINE_VECTOR ? 1
                 : !mix                         ? 0
                 : dev->props.cores.vector < 2  ? 1
                                                : 2;
    op->limit_cube = engine != WEIR_ENGINE_VECTOR;
    op->limit_vector = engine == WEIR_ENGINE_VECTOR ? 1 : !mix ? 0 : split ? 2 : 1;
}

/* The limit without counts that are out of range: check_settings.c reports those. */
static weir_cores valid_limit(const weir_device *dev, weir_cores limit)
{
    return (weir_cores){limit.cube <= dev->props.cores.cube ? limit.cube : 0,
                        limit.vector <= dev->props.cores.vector ? limit.vector : 0};
}

/* Whether a gang with more blocks than cores runs in several rounds. A device with separate cube
 * and vector cores models an accelerator, which cannot. */
static bool runs_in_turns(const weir_device *dev)
{
    return dev->props.features & WEIR_FEATURE_REAL_TIME &&
           !(dev->props.features & WEIR_FEATURE_SPLIT_CORES);
}

static weir_status set_demand(const weir_graph *g, const struct weir__node *n, int rank,
                              struct weir__check_op *op)
{
    const struct weir__kernel_params *k = strcmp(n->op->name, "Kernel") ? NULL : n->params;
    weir_engine engine = weir__node_engine(n);
    weir_cores limit = {0, 0};
    struct weir__work work = {.engine = engine};
    bool limited;
    int may;

    op->take = WEIR__TAKE_NONE;
    op->obeys = weir__node_obeys_limit(n);
    if (op->obeys)
        limit = valid_limit(g->dev, n->marks.limit);
    may = (int)weir__cores_of(g->dev, engine, g->dev->props.cores, limit);
    if (k)
        work.blocks = k->measured && engine <= WEIR_ENGINE_MIX
                          ? weir__kernel_measured_cores(k, (unsigned)may)
                          : weir__kernel_blocks(k);
    else
        tile(g, n, (unsigned)may, &work);
    if (!k && !keep_offer(&work, rank, op))
        return weir__fail_nomem("checking '%s'", n->name);
    if (work.engine > WEIR_ENGINE_MIX || !work.blocks)
        return WEIR_OK;
    op->take = (k ? k->gang : work.gang || (work.is_collective && work.blocks > 1))
                   ? WEIR__TAKE_GANG
               : k && k->us > 0 ? WEIR__TAKE_TOGETHER
                                : WEIR__TAKE_ANY;
    set_engine(g->dev, work.engine, op);
    may = (int)weir__cores_of(g->dev, work.engine, g->dev->props.cores, limit);
    limited = (op->limit_cube && limit.cube > 0) || (op->limit_vector && limit.vector > 0);
    op->blocks = (int)weir__min(work.blocks, may);
    op->asked = op->take != WEIR__TAKE_ANY && (limited || runs_in_turns(g->dev)) ? op->blocks
                                                                                 : (int)work.blocks;
    return WEIR_OK;
}

/* ---- streams and order ---- */

static int stream_of(const weir_graph *g, struct weir__check_rank *rank, int *by_label,
                     const struct weir__marks *marks)
{
    if (by_label[marks->stream] < 0)
        by_label[marks->stream] = weir__check_add_stream(rank, g->labels[marks->stream],
                                                         marks->stream ? marks->priority : 0);
    return by_label[marks->stream];
}

static weir_status add_node(const struct weir__checked *x, struct weir__check_program *p, int rank,
                            int v, int *by_label, int *op_of)
{
    const struct weir__node *n = &x->g->nodes[v];
    const struct weir__kernel_params *k = strcmp(n->op->name, "Kernel") ? NULL : n->params;
    struct weir__check_rank *r = &p->ranks[rank];
    int stream = stream_of(x->g, r, by_label, &n->marks);
    const char *collective = k ? k->collective : NULL;
    struct weir__check_membership found;
    bool meets = weir__check_find_rendezvous(x, n, rank, p->nranks, &found);
    weir_status st;

    if (meets)
        collective = found.name;
    if (stream < 0 || (op_of[v] = weir__check_add_op(p, rank, stream, n->name, collective)) < 0)
        return WEIR_ENOMEM;
    if (meets)
        weir__check_set_needs(p, rank, op_of[v], found.needs, found.from, found.to);
    else if (k && k->collective[0])
        weir__check_set_needs(p, rank, op_of[v], weir__check_kernel_needs(x, k, p->nranks), -1, -1);
    st = set_demand(x->g, n, rank, &r->ops[op_of[v]]);
    for (int i = x->c.edges.first[v]; i < x->c.edges.first[v + 1] && !st; i++) {
        int before = x->c.edges.preds[i];

        if (x->c.live[before] && r->ops[op_of[before]].stream != stream)
            st = weir__check_add_after(r, op_of[v], op_of[before]);
    }
    return st;
}

weir_status weir__check_translate(const struct weir__checked *x, struct weir__check_program *p,
                                  int rank)
{
    const weir_device_props *props = &x->g->dev->props;
    int *by_label = weir__malloc((size_t)x->g->nlabels * sizeof *by_label);
    int *op_of = weir__calloc((size_t)x->g->nnodes + 1, sizeof *op_of);
    weir_status st = WEIR_OK;

    p->ranks[rank].cube = props->cores.cube;
    p->ranks[rank].vector = props->cores.vector;
    p->ranks[rank].split = props->features & WEIR_FEATURE_SPLIT_CORES;
    if (!by_label || !op_of)
        st = weir__fail_nomem("checking %d nodes", x->g->nnodes);
    for (int i = 0; !st && i < x->g->nlabels; i++)
        by_label[i] = -1;
    for (int v = 0; v < x->g->nnodes && !st; v++)
        if (x->c.live[v])
            st = add_node(x, p, rank, v, by_label, op_of);
    weir__free(by_label);
    weir__free(op_of);
    return st;
}
