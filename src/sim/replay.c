#include "sim/replay.h"

#include <string.h>

#include "base/progress.h"

enum stage { STAGE_WAITS, STAGE_LAUNCH, STAGE_RUN, STAGE_RECORD, STAGE_END };

struct lane {
    struct weir__sim_lane base; /* first */
    const struct weir__replay_program *program;
    const struct weir__replay_stream *stream;
    struct lane *siblings; /* the rank's lanes, by stream */
    struct weir__sim_span *spans;
    struct weir__replay_stats *stats;
    uint32_t position, done; /* done: completed nodes that other lanes can see */
    uint32_t wait_at;
    enum stage stage;
    struct lane *parked_on; /* NULL if it is not */
    struct lane *waiters, *next_waiter;
    uint64_t cause; /* enum weir__cause in the top byte, rank, node */
};

struct replay {
    struct weir__sim sim;
    const struct weir__replay_options *options;
    struct lane *lanes;
    uint32_t nlanes;
    uint64_t makespan;
    struct weir__replay_result *out;
    bool short_of_memory;
    uint64_t over, all; /* numbers of nodes: completed, in all */
};

static const struct weir__replay_node *head(const struct lane *l)
{
    return &l->program->nodes[l->stream->nodes[l->position]];
}

static uint64_t pack_cause(enum weir__cause cause, uint64_t tag)
{
    return (uint64_t)cause << 56 | (tag & UINT64_C(0xffffffffffffff));
}

static uint64_t tag_of(const struct lane *l, uint32_t position)
{
    return (uint64_t)l->base.rank << 32 | l->stream->nodes[position];
}

/* ---- a lane from node to node ---- */

static void park(struct lane *l, struct lane *source)
{
    l->parked_on = source;
    l->next_waiter = source->waiters;
    source->waiters = l;
}

/* Processes the waits before the node. False if the lane must wait or sleep. */
static bool pass_waits(struct replay *r, struct lane *l)
{
    const struct weir__replay_node *n = head(l);

    while (l->wait_at < n->nwaits) {
        const struct weir__replay_wait *w = &l->program->waits[n->waits + l->wait_at];
        struct lane *source = &l->siblings[w->stream];

        if (source->done <= w->position) {
            park(l, source);
            return false;
        }
        l->wait_at++;
        if (r->options->wait_ps && !n->measured) {
            weir__sim_sleep(&r->sim, &l->base, r->options->wait_ps);
            return false;
        }
    }
    return true;
}

static void go_on(struct replay *r, struct lane *l)
{
    const struct weir__sim_op *op;

    if (l->position == l->stream->nnodes) {
        l->stage = STAGE_END;
        return;
    }
    op = &l->program->ops[head(l)->op];
    if (l->stage == STAGE_WAITS) {
        if (!pass_waits(r, l))
            return;
        l->stage = STAGE_LAUNCH;
        if (op->launch_ps) {
            weir__sim_sleep(&r->sim, &l->base, op->launch_ps);
            return;
        }
    }
    l->stage = STAGE_RUN;
    weir__sim_ask(&r->sim, &l->base, op, l->stream->nodes[l->position], tag_of(l, l->position));
}

/* Makes the end of the node visible to other lanes and continues the lane. */
static void publish(struct replay *r, struct lane *l)
{
    struct lane *waiting = l->waiters, *next;

    l->done = l->position + 1;
    l->waiters = NULL;
    for (; waiting; waiting = next) {
        const struct weir__replay_node *n = head(waiting);
        const struct weir__replay_wait *w = &waiting->program->waits[n->waits + waiting->wait_at];

        next = waiting->next_waiter;
        waiting->parked_on = NULL;
        if (w->position >= l->done) {
            park(waiting, l);
            continue;
        }
        waiting->cause = pack_cause(WEIR__CAUSE_EVENT, tag_of(l, w->position));
        go_on(r, waiting);
    }
    l->cause = pack_cause(WEIR__CAUSE_STREAM, tag_of(l, l->position));
    l->position++;
    l->wait_at = 0;
    l->stage = STAGE_WAITS;
    go_on(r, l);
}

static void keep(struct replay *r, struct lane *l)
{
    const struct weir__sim_lane *s = &l->base;
    uint64_t cause = s->met_by != WEIR__SIM_NOBODY && s->met_by != s->tag
                         ? pack_cause(WEIR__CAUSE_PEER, s->met_by)
                     : s->freed_by != WEIR__SIM_NOBODY ? pack_cause(WEIR__CAUSE_CORES, s->freed_by)
                                                       : l->cause;

    r->over++;
    if (!l->stats->over++)
        l->stats->first = s->started;
    l->stats->last = r->makespan = r->sim.now;
    l->stats->busy_ps += r->sim.now - s->started;
    l->stats->waiting_ps += s->started - s->ready;
    if (l->spans)
        l->spans[l->stream->nodes[l->position]] = (struct weir__sim_span){
            .ready = s->ready,
            .start = s->started,
            .end = r->sim.now,
            .cause_node = (uint32_t)cause,
            .cause_rank = (uint32_t)(cause >> 32) & 0xffffff,
            .cause = (uint32_t)(cause >> 56),
        };
}

static void on_over(void *user, struct weir__sim_lane *base)
{
    struct replay *r = user;
    struct lane *l = (struct lane *)base;

    keep(r, l);
    if (head(l)->recorded && !head(l)->measured && r->options->record_ps) {
        l->stage = STAGE_RECORD;
        weir__sim_sleep(&r->sim, base, r->options->record_ps);
    } else {
        publish(r, l);
    }
}

static void on_ended(void *user, struct weir__sim_lane *base, uint32_t blocks, uint64_t from)
{
    struct replay *r = user;
    const struct lane *l = (const struct lane *)base;
    struct weir__replay_result *out = r->out;

    if (!weir__grow(&out->parts, out->nparts, &out->cap_parts, sizeof *out->parts))
        r->short_of_memory = true;
    else
        out->parts[out->nparts++] = (struct weir__replay_part){
            from, r->sim.now, base->rank, l->stream->nodes[l->position], blocks};
}

static void on_awake(void *user, struct weir__sim_lane *base)
{
    struct replay *r = user;
    struct lane *l = (struct lane *)base;

    if (l->stage == STAGE_RECORD)
        publish(r, l);
    else
        go_on(r, l);
}

/* ---- deadlock ---- */

static uint32_t index_of(const struct weir__replay_result *out, const struct lane *l)
{
    for (uint32_t i = 0; i < out->nstuck; i++)
        if (out->stuck[i].rank == l->base.rank &&
            out->stuck[i].stream == (uint32_t)(l - l->siblings))
            return i;
    return UINT32_MAX;
}

/* Returns a stuck stream that holds cores that `s` lacks; UINT32_MAX if there is none. */
static uint32_t holder(const struct weir__replay_result *out, const struct weir__stuck *s)
{
    for (uint32_t i = 0; i < out->nstuck; i++) {
        const struct weir__stuck *o = &out->stuck[i];

        for (int p = 0; p < WEIR__POOLS && o != s && o->rank == s->rank; p++)
            if (s->missing[p] && o->held[p])
                return i;
    }
    return UINT32_MAX;
}

/* Returns a stream of another rank that has not arrived yet at the rendezvous in which `l`
 * waits. */
static const struct lane *absent(const struct replay *r, const struct lane *l, uint32_t *node,
                                 uint32_t *nranks)
{
    uint32_t rendezvous = l->program->ops[head(l)->op].rendezvous;
    const struct lane *found = NULL;

    *nranks =
        r->sim.rendezvous[rendezvous - 1].expected - r->sim.rendezvous[rendezvous - 1].arrived;
    for (uint32_t i = 0; i < r->nlanes && !found; i++) {
        const struct lane *o = &r->lanes[i];

        for (uint32_t p = o->position; p < o->stream->nnodes && !found; p++) {
            const struct weir__replay_node *n = &o->program->nodes[o->stream->nodes[p]];

            if (o->base.rank == l->base.rank || o->program->ops[n->op].rendezvous != rendezvous)
                continue;
            if (p == o->position && o->base.op && o->base.started != UINT64_MAX)
                continue; /* it has arrived */
            found = o;
            *node = o->stream->nodes[p];
        }
    }
    return found;
}

static void describe(const struct replay *r, const struct lane *l, struct weir__stuck *s)
{
    const struct weir__sim_op *op = l->base.op;
    const struct lane *other;

    *s = (struct weir__stuck){.rank = l->base.rank,
                              .stream = (uint32_t)(l - l->siblings),
                              .node = l->stream->nodes[l->position]};
    memcpy(s->held, l->base.held, sizeof s->held);
    if (l->parked_on) {
        const struct weir__replay_wait *w = &l->program->waits[head(l)->waits + l->wait_at];

        s->why = WEIR__STUCK_EVENT;
        s->of_rank = s->rank;
        s->of_stream = w->stream;
        s->of_node = l->parked_on->stream->nodes[w->position];
        return;
    }
    if (!l->base.stalled || l->base.started == UINT64_MAX) { /* some blocks may have run already */
        s->why = WEIR__STUCK_CORES;
        for (int p = 0; p < WEIR__POOLS; p++) {
            uint32_t need =
                op->grant == WEIR__GRANT_ANY ? op->per_block[p] : op->blocks * op->per_block[p];
            uint32_t have = l->base.held[p] + r->sim.ranks[s->rank].nfree[p];

            s->missing[p] = need > have ? need - have : 0;
        }
        return;
    }
    s->why = WEIR__STUCK_PEERS;
    s->of_node = UINT32_MAX;
    if ((other = absent(r, l, &s->of_node, &s->nwaiting))) {
        s->of_rank = other->base.rank;
        s->of_stream = (uint32_t)(other - other->siblings);
    }
}

/* Finds which stuck stream waits for which, and marks a cycle. A stream that waits for no other
 * stuck stream points to itself. */
static void find_cycle(const struct replay *r, struct weir__replay_result *out)
{
    for (uint32_t i = 0; i < out->nstuck; i++) {
        struct weir__stuck *s = &out->stuck[i];

        s->next = UINT32_MAX;
        if (s->why == WEIR__STUCK_CORES)
            s->next = holder(out, s);
        else if (s->of_node != UINT32_MAX)
            for (uint32_t l = 0; l < r->nlanes; l++)
                if (r->lanes[l].base.rank == s->of_rank &&
                    (uint32_t)(&r->lanes[l] - r->lanes[l].siblings) == s->of_stream)
                    s->next = index_of(out, &r->lanes[l]);
        if (s->next == UINT32_MAX)
            s->next = i;
    }
    /* After nstuck steps `at` is on a cycle. */
    uint32_t at = 0;

    for (uint32_t i = 0; i < out->nstuck; i++)
        at = out->stuck[at].next;
    for (uint32_t i = at; !out->stuck[i].in_cycle; i = out->stuck[i].next)
        out->stuck[i].in_cycle = true;
}

static weir_status find_stuck(struct replay *r, struct weir__replay_result *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->nlanes; i++)
        n += r->lanes[i].stage != STAGE_END;
    if (!n)
        return WEIR_OK;
    if (!(out->stuck = weir__calloc(n, sizeof *out->stuck)))
        return weir__fail_nomem("writing the report of a deadlock");
    out->deadlock = true;
    for (uint32_t i = 0; i < r->nlanes; i++)
        if (r->lanes[i].stage != STAGE_END)
            describe(r, &r->lanes[i], &out->stuck[out->nstuck++]);
    find_cycle(r, out);
    return WEIR_OK;
}

/* ---- beginning and end ---- */

static weir_status open_rank(struct replay *r, const struct weir__replay_program *p, uint32_t rank,
                             struct weir__replay_result *out)
{
    struct lane *first = &r->lanes[r->nlanes];
    weir_status st;

    out->streams[rank] = weir__calloc((size_t)p->nstreams + 1, sizeof **out->streams);
    if (!out->streams[rank])
        return weir__fail_nomem("allocating the streams of rank %u", rank);
    if (r->options->spans) {
        out->spans[rank] = weir__malloc(((size_t)p->nnodes + 1) * sizeof **out->spans);
        if (!out->spans[rank])
            return weir__fail_nomem("allocating the timeline of rank %u", rank);
        memset(out->spans[rank], 0xff, (size_t)p->nnodes * sizeof **out->spans);
    }
    for (uint32_t s = 0; s < p->nstreams; s++) {
        struct lane *l = &r->lanes[r->nlanes];

        if ((st = weir__sim_lane_init(&r->sim, &l->base, rank, p->streams[s].priority)))
            return st;
        l->program = p;
        l->stream = &p->streams[s];
        l->siblings = first;
        l->spans = r->options->spans ? out->spans[rank] : NULL;
        l->stats = &out->streams[rank][s];
        r->nlanes++;
    }
    return WEIR_OK;
}

static weir_status open_all(struct replay *r, const struct weir__replay_program *const *programs,
                            uint32_t nranks, struct weir__replay_result *out)
{
    size_t nlanes = 0;
    weir_status st = WEIR_OK;

    for (uint32_t i = 0; i < nranks; i++)
        nlanes += programs[i]->nstreams;
    r->lanes = weir__calloc(nlanes + 1, sizeof *r->lanes);
    out->spans = weir__calloc(nranks, sizeof *out->spans);
    out->streams = weir__calloc(nranks, sizeof *out->streams);
    out->ranks = weir__calloc(nranks, sizeof *out->ranks);
    out->nranks = nranks;
    if (!r->lanes || !out->spans || !out->streams || !out->ranks)
        return weir__fail_nomem("replaying %u ranks", nranks);
    for (uint32_t i = 0; i < nranks && !st; i++)
        st = open_rank(r, programs[i], i, out);
    return st;
}

static void run_all(struct replay *r)
{
    enum { STEPS_PER_TELL = 1 << 16 };

    for (uint32_t i = 0; i < r->nlanes; i++)
        r->all += r->lanes[i].stream->nnodes;
    for (uint32_t i = 0; i < r->nlanes; i++)
        go_on(r, &r->lanes[i]);
    for (uint64_t steps = 1; weir__sim_step(&r->sim); steps++)
        if (steps % STEPS_PER_TELL == 0)
            weir__progress_report("nodes", (double)r->over / (double)(r->all + 1));
}

weir_status weir__replay(const struct weir__sim_limits *limits,
                         const struct weir__replay_program *const *programs, uint32_t nranks,
                         const uint32_t *rendezvous_sizes, uint32_t nrendezvous,
                         const struct weir__replay_options *options,
                         struct weir__replay_result *out)
{
    struct replay r = {.options = options, .out = out};
    weir_status st;

    *out = (struct weir__replay_result){0};
    if ((st = weir__sim_init(&r.sim, limits, nranks, nrendezvous)))
        return st;
    r.sim.over = on_over;
    r.sim.awake = on_awake;
    r.sim.ended = options->parts ? on_ended : NULL;
    r.sim.user = &r;
    for (uint32_t i = 0; i < nrendezvous; i++)
        r.sim.rendezvous[i].expected = rendezvous_sizes[i];
    if (!(st = open_all(&r, programs, nranks, out))) {
        run_all(&r);
        out->makespan = r.makespan;
        memcpy(out->ranks, r.sim.ranks, nranks * sizeof *out->ranks);
        st = r.short_of_memory ? WEIR_ENOMEM : find_stuck(&r, out);
    }
    for (uint32_t i = 0; i < r.nlanes; i++)
        weir__sim_lane_fini(&r.lanes[i].base);
    weir__free(r.lanes);
    weir__sim_fini(&r.sim);
    if (st)
        weir__replay_fini(out);
    return st;
}

void weir__replay_fini(struct weir__replay_result *result)
{
    for (uint32_t i = 0; i < result->nranks; i++) {
        if (result->spans)
            weir__free(result->spans[i]);
        if (result->streams)
            weir__free(result->streams[i]);
    }
    weir__free(result->spans);
    weir__free(result->streams);
    weir__free(result->ranks);
    weir__free(result->parts);
    weir__free(result->stuck);
    *result = (struct weir__replay_result){0};
}
