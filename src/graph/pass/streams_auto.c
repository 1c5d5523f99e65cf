/* streams=auto: places nodes without a label on added streams where that pays; streams=siblings
 * places them without estimating.
 *
 * Several placements are made and compared by one measure: the simulated time on the device's
 * cores, plus a cost for every sync. Streams that do not pay for their syncs are removed again, and
 * without a clear gain in total everything stays on one stream. Nodes inside a super kernel are one
 * launch and stay together. Collectives are placed like any node: streams keep the program's order
 * and syncs go forward in it, so ranks with the same program never meet in two groups in opposite
 * orders, even if their placements differ.
 */
#include "graph/pass/streams.h"

#include <string.h>

#define MARGIN 0.8 /* the estimates are rough: gains below 20 % are ignored */
/* From this many nodes on, fewer placements are tried, and no chains. */
#define LARGE 20000
#define LARGE_STREAMS 3
#define CHAINS_MAX 1024
/* Beside the caller's stream: for keys and values, or for a product and small operators. */
#define SIBLING_STREAMS 3

static const char *const tags[WEIR__AUTO_STREAMS] = {
    "auto:1", "auto:2",  "auto:3",  "auto:4",  "auto:5",  "auto:6",  "auto:7", "auto:8",
    "auto:9", "auto:10", "auto:11", "auto:12", "auto:13", "auto:14", "auto:15"};

struct placing {
    struct weir__compile *c;
    struct weir__estimates estimates;
    bool *movable;
    int nmovable;
    bool chains;                /* the graph is small enough for them */
    int first;                  /* number of the first added stream: lower ones are the caller's and
                                 * the labels' */
    int most;                   /* streams that may be added */
    struct weir__compile trial; /* a copy with arrays of its own, to simulate placements */
    int *stream, *best;         /* by node */
    double best_price;
    double gain[WEIR__AUTO_STREAMS]; /* by added stream: the time lost if it were removed */
};

/* ---- judging ---- */

static weir_status judge(struct placing *p, const int *stream, double *price)
{
    struct weir__compile *t = &p->trial;
    weir_status st;

    memcpy(t->stream, stream, (size_t)t->g->nnodes * sizeof *t->stream);
    weir__streams_number(t);
    st = weir__pass_sync(t);
    if (!st && !(st = weir__simulate(t, &p->estimates, price)))
        *price += WEIR__AUTO_SYNC_NS * (t->nsyncs + t->njoins) +
                  (t->nsyncs + t->njoins && t->g->dev->props.threads ? WEIR__AUTO_WAKE_NS : 0);
    weir__free(t->sync_first);
    weir__free(t->syncs);
    weir__free(t->joins);
    t->sync_first = NULL;
    t->syncs = t->joins = NULL;
    t->nsyncs = t->njoins = 0;
    return st;
}

/* Keeps p->stream as the best placement if it is better than the best so far. */
static weir_status consider(struct placing *p)
{
    double price;
    weir_status st = judge(p, p->stream, &price);

    if (!st && price < p->best_price) {
        memcpy(p->best, p->stream, (size_t)p->c->g->nnodes * sizeof *p->best);
        p->best_price = price;
    }
    return st;
}

/* ---- trying ---- */

static weir_status try_placements(struct placing *p)
{
    weir_status st = WEIR_OK;
    int nchains;

    for (int n = 1; n <= p->most && !st; n += n < 4 ? 1 : n / 2) {
        st = weir__place_earliest(p->c, &p->estimates, p->movable, p->first, n, WEIR__AUTO_SYNC_NS,
                                  p->stream);
        if (!st)
            st = consider(p);
    }
    if (st || !p->chains)
        return st;
    if (!(st = weir__place_chains(p->c, p->movable, p->first, WEIR__AUTO_STREAMS, p->stream,
                                  &nchains)))
        st = consider(p);
    return st;
}

/* Moves all nodes of stream `from` to stream `to`. */
static void move_all(const struct placing *p, int from, int to)
{
    for (int v = 0; v < p->c->g->nnodes; v++)
        p->stream[v] = p->best[v] == from ? to : p->best[v];
}

static bool is_used(const struct placing *p, int stream)
{
    for (int v = 0; v < p->c->g->nnodes; v++)
        if (p->best[v] == stream)
            return true;
    return false;
}

/* Removes streams that do not pay, and records the gain of the others. */
static weir_status take_out_useless(struct placing *p)
{
    bool changed = true;
    double price;
    weir_status st;

    while (changed) {
        changed = false;
        for (int i = WEIR__AUTO_STREAMS - 1; i >= 0; i--) {
            if (!is_used(p, p->first + i))
                continue;
            move_all(p, p->first + i, 0);
            if ((st = judge(p, p->stream, &price)))
                return st;
            p->gain[i] = price - p->best_price;
            if (p->gain[i] > 0)
                continue;
            memcpy(p->best, p->stream, (size_t)p->c->g->nnodes * sizeof *p->best);
            p->best_price = price;
            changed = true;
        }
    }
    return WEIR_OK;
}

/* ---- keeping ---- */

/* Numbers the remaining streams without gaps. */
static void keep(struct placing *p, double alone)
{
    struct weir__compile *c = p->c;

    for (int i = 0; i < WEIR__AUTO_STREAMS; i++) {
        int count = 0, s = c->nstreams;

        if (!is_used(p, p->first + i))
            continue;
        for (int v = 0; v < c->g->nnodes; v++)
            if (p->best[v] == p->first + i) {
                c->stream[v] = s;
                count++;
            }
        c->streams[c->nstreams++] = (struct weir__plan_stream){.tag = tags[s - p->first]};
        if (c->options.streams == WEIR_STREAMS_AUTO)
            weir__text_add(&c->notes, "stream %s: %d nodes, without it %.1f us more are expected\n",
                           tags[s - p->first], count, p->gain[i] / 1000);
    }
    weir__text_add(&c->notes, "streams=%s: %.1f us are expected instead of %.1f us\n",
                   c->options.streams == WEIR_STREAMS_AUTO ? "auto" : "siblings",
                   p->best_price / 1000, alone / 1000);
    weir__streams_number(c);
}

/* Keeps the streams whatever their estimated gain: a caller who asks for siblings measures.
 */
static weir_status take_siblings(struct placing *p, double alone)
{
    weir_status st;

    if ((st = weir__place_siblings(p->c, p->movable, p->first,
                                   (int)weir__min(SIBLING_STREAMS, p->most), p->best)) ||
        (st = judge(p, p->best, &p->best_price)))
        return st;
    keep(p, alone);
    return p->c->notes.failed ? weir__fail_nomem("allocating notes of the streams") : WEIR_OK;
}

static weir_status choose(struct placing *p)
{
    struct weir__compile *c = p->c;
    double alone;
    weir_status st;

    if ((st = judge(p, c->stream, &alone)))
        return st;
    p->best_price = alone;
    memcpy(p->best, c->stream, (size_t)c->g->nnodes * sizeof *p->best);
    if (c->options.streams == WEIR_STREAMS_SIBLINGS)
        return take_siblings(p, alone);
    if ((st = try_placements(p)) || (st = take_out_useless(p)))
        return st;
    if (p->best_price < MARGIN * alone)
        keep(p, alone);
    else
        weir__text_add(&c->notes,
                       "streams=auto: nothing is split: %.1f us are expected as it is, %.1f us at "
                       "best\n",
                       alone / 1000, p->best_price / 1000);
    return c->notes.failed ? weir__fail_nomem("allocating notes of the streams") : WEIR_OK;
}

/* ---- setting up ---- */

static void find_movable(struct placing *p)
{
    const struct weir__compile *c = p->c;
    int cores = 0;

    for (int v = 0; v < c->g->nnodes; v++) {
        const struct weir__marks *marks = &c->g->nodes[v].marks;

        p->movable[v] = c->live[v] && !marks->stream && marks->super_kernel < 0;
        p->nmovable += p->movable[v];
    }
    for (int i = 0; i < WEIR__SIM_POOLS; i++)
        cores += p->estimates.capacity[i];
    /* More streams than cores would only compete for cores. */
    p->most = (int)weir__min(WEIR__AUTO_STREAMS, cores);
    if (p->nmovable >= LARGE)
        p->most = (int)weir__min(LARGE_STREAMS, p->most);
    p->chains = p->nmovable <= CHAINS_MAX && c->g->nnodes <= 2 * CHAINS_MAX;
    p->trial.nstreams = p->first + (p->chains ? WEIR__AUTO_STREAMS : p->most);
}

static bool allocate(struct placing *p)
{
    const struct weir__compile *c = p->c;
    size_t nnodes = (size_t)c->g->nnodes, nstreams = (size_t)p->first + WEIR__AUTO_STREAMS;
    struct weir__compile *t = &p->trial;

    *t = *c;
    t->stream = weir__calloc(nnodes, sizeof *t->stream);
    t->position = weir__calloc(nnodes, sizeof *t->position);
    t->order = weir__calloc(nnodes, sizeof *t->order);
    t->streams = weir__calloc(nstreams, sizeof *t->streams);
    p->movable = weir__calloc(nnodes, sizeof *p->movable);
    p->stream = weir__calloc(nnodes, sizeof *p->stream);
    p->best = weir__calloc(nnodes, sizeof *p->best);
    if (!t->stream || !t->position || !t->order || !t->streams || !p->movable || !p->stream ||
        !p->best)
        return false;
    memcpy(t->streams, c->streams, (size_t)p->first * sizeof *t->streams);
    return true;
}

weir_status weir__streams_auto(struct weir__compile *c)
{
    struct placing p = {.c = c, .first = c->nstreams};
    weir_status st = weir__estimates_init(&p.estimates, c->g);

    if (!st && !allocate(&p))
        st = weir__fail_nomem("placing %d nodes", c->g->nnodes);
    if (!st) {
        find_movable(&p);
        st = choose(&p);
    }
    weir__free(p.best);
    weir__free(p.stream);
    weir__free(p.movable);
    weir__free(p.trial.streams);
    weir__free(p.trial.order);
    weir__free(p.trial.position);
    weir__free(p.trial.stream);
    weir__estimates_fini(&p.estimates);
    return st;
}
