/* Estimates the time of a plan from operators' costs and a fluid model of the cores. */
#include "graph/pass/simulate.h"

#include <string.h>

#include "graph/build/stand_in.h"
#include "tensor/kernel_params.h"

#define NODE_NS 100.0   /* least time of a node */
#define BLOCK_NS 5000.0 /* time of a block if an operator's tiling is unknown */

enum { POOL_CUBE, POOL_VECTOR, POOL_SDMA, POOL_HOST };

/* ---- nodes ---- */

/* On a device of host threads all engines share them. */
static int pool_of(const weir_device *dev, weir_engine engine)
{
    if (dev->props.threads)
        return POOL_CUBE;
    switch (engine) {
    case WEIR_ENGINE_SDMA:
        return POOL_SDMA;
    case WEIR_ENGINE_HOST:
        return POOL_HOST;
    case WEIR_ENGINE_VECTOR:
        return dev->props.features & WEIR_FEATURE_SPLIT_CORES ? POOL_VECTOR : POOL_CUBE;
    default:
        return POOL_CUBE;
    }
}

/* The number of blocks of the operator: from its own tiling if it has one. */
static double blocks_of(const struct weir__call *call, double ns)
{
    struct weir__work work;

    weir__work_init(&work, call->op);
    if (!call->op->prepare || call->op->prepare(call, &work))
        return ns / BLOCK_NS;
    return work.blocks;
}

static struct weir__placement_cost estimate(const weir_graph *g, const struct weir__node *n)
{
    bool kernel = strcmp(n->op->name, "Kernel") == 0;
    weir_engine engine = kernel ? weir__kernel_engine(n->params) : n->op->engine;
    unsigned cores = weir__cores_of(g->dev, engine, g->dev->props.cores, n->marks.limit);
    struct weir__stand_in s;
    struct weir__cost cost = {0};

    weir__stand_in_init(&s, n, cores, NULL);
    if (n->op->cost)
        n->op->cost(&s.call, &cost);
    double ns = weir__cost_ns(&cost);
    double blocks = blocks_of(&s.call, ns);

    if (blocks > cores)
        blocks = cores;
    return (struct weir__placement_cost){
        .ns = (float)(ns > NODE_NS ? ns : NODE_NS),
        .width = blocks > 1 ? (int)blocks : 1,
        .pool = pool_of(g->dev, engine),
    };
}

weir_status weir__estimates_init(struct weir__estimates *e, const weir_graph *g)
{
    const weir_device_props *props = &g->dev->props;
    int cores = (int)weir__max(props->cores.cube, props->cores.vector);

    *e = (struct weir__estimates){0};
    e->capacity[POOL_CUBE] =
        (int)weir__max(1, props->threads ? weir__min(props->threads, cores) : props->cores.cube);
    e->capacity[POOL_VECTOR] = (int)weir__max(1, props->cores.vector);
    e->capacity[POOL_SDMA] = e->capacity[POOL_HOST] = 1;
    if (!(e->node = weir__calloc((size_t)g->nnodes, sizeof *e->node)))
        return weir__fail_nomem("allocating costs of %d nodes", g->nnodes);
    for (int v = 0; v < g->nnodes; v++) {
        e->node[v] = estimate(g, &g->nodes[v]);
        /* There may be more logical cores than threads that run them. */
        e->node[v].width = (int)weir__min(e->node[v].width, e->capacity[e->node[v].pool]);
    }
    return WEIR_OK;
}

void weir__estimates_fini(struct weir__estimates *e)
{
    weir__free(e->node);
    e->node = NULL;
}

/* ---- time ---- */

struct sim {
    const struct weir__compile *c;
    const struct weir__estimates *e;
    int *done;    /* by stream: completed positions */
    int *running; /* streams whose next node has started, in order of its start */
    int nrunning;
    bool *started;
    double *left, *rate; /* by stream, for its running node: remaining core-ns, cores */
};

static bool may_start(const struct sim *m, int v)
{
    for (int i = m->c->sync_first[v]; i < m->c->sync_first[v + 1]; i++)
        if (m->done[m->c->syncs[i].stream] <= m->c->syncs[i].position)
            return false;
    return true;
}

/* Starts every node that can start, the most urgent first. */
static void start_nodes(struct sim *m)
{
    for (;;) {
        int best = -1;

        for (int s = 0; s < m->c->nstreams; s++)
            if (!m->started[s] && m->done[s] < m->c->streams[s].nnodes &&
                (best < 0 || m->c->streams[s].priority < m->c->streams[best].priority) &&
                may_start(m, weir__node_at(m->c, s, m->done[s])))
                best = s;
        if (best < 0)
            return;
        m->started[best] = true;
        m->left[best] = m->e->node[weir__node_at(m->c, best, m->done[best])].ns;
        m->running[m->nrunning++] = best;
    }
}

/* Divides the cores among the running nodes. Returns the time until the first of them ends. */
static double share_cores(struct sim *m)
{
    double soonest = -1;
    int cores[WEIR__SIM_POOLS];

    memcpy(cores, m->e->capacity, sizeof cores);
    for (int i = 0; i < m->nrunning; i++) {
        int s = m->running[i];
        const struct weir__placement_cost *e = &m->e->node[weir__node_at(m->c, s, m->done[s])];
        int take = e->width < cores[e->pool] ? e->width : cores[e->pool];

        cores[e->pool] -= take;
        m->rate[s] = take;
        if (take && (soonest < 0 || m->left[s] / take < soonest))
            soonest = m->left[s] / take;
    }
    return soonest;
}

static void end_nodes(struct sim *m, double time)
{
    int kept = 0;

    for (int i = 0; i < m->nrunning; i++) {
        int s = m->running[i];

        m->left[s] -= time * m->rate[s];
        if (m->left[s] > 1e-6 * m->rate[s] || !m->rate[s]) {
            m->running[kept++] = s;
            continue;
        }
        m->started[s] = false;
        m->done[s]++;
    }
    m->nrunning = kept;
}

weir_status weir__simulate(const struct weir__compile *c, const struct weir__estimates *e,
                           double *makespan)
{
    size_t n = (size_t)c->nstreams;
    struct sim m = {.c = c, .e = e};

    *makespan = 0;
    m.done = weir__calloc(2 * n, sizeof *m.done);
    m.started = weir__calloc(n, sizeof *m.started);
    m.left = weir__calloc(2 * n, sizeof *m.left);
    if (!m.done || !m.started || !m.left) {
        weir__free(m.left);
        weir__free(m.started);
        weir__free(m.done);
        return weir__fail_nomem("simulating %zu streams", n);
    }
    m.running = m.done + n;
    m.rate = m.left + n;
    for (start_nodes(&m); m.nrunning; start_nodes(&m)) {
        double time = share_cores(&m);

        end_nodes(&m, time);
        *makespan += time;
    }
    weir__free(m.left);
    weir__free(m.started);
    weir__free(m.done);
    return WEIR_OK;
}
