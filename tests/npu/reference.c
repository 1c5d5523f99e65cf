#include "reference.h"

#include <stdlib.h>
#include <string.h>

#include "harness/test.h"

enum state { NOT_YET, LAUNCHING, READY, RUNNING, RECORDING, OVER };

struct op {
    enum state state;
    int wake;         /* when launching or recording ends */
    int waits_passed; /* of the events it waits for */
    int wait_until;   /* of the one it is passing; -1 for none */
    int ready;
    int not_started; /* blocks */
    int cores;       /* blocks at once */
    int time;        /* of a block */
    int blocks;
    bool arrived;
};

/* One core. */
struct core {
    int node;   /* that has it; -1 if nobody */
    int left;   /* microseconds of its block; -1 while it is only held */
    bool first; /* of the cores of its block: the one that counts */
};

struct rank {
    struct op ops[MAX_NODES];
    struct core cores[2][MAX_CORES];
};

struct machine {
    const struct ref_program *p;
    struct rank ranks[MAX_RANKS];
    int now;
};

static const struct ref_node *node_of(const struct machine *m, int r, int v)
{
    return &m->p->ranks[r].nodes[v];
}

static int total(const struct machine *m, int pool)
{
    return pool ? m->p->vector : m->p->cube;
}

static int per_block(enum kind kind, int pool)
{
    if (kind == MIX)
        return pool ? 2 : 1;
    return (kind == VECTOR) == (pool == 1);
}

static int count_cores(const struct machine *m, int r, int pool, int node)
{
    int n = 0;

    for (int i = 0; i < total(m, pool); i++)
        n += m->ranks[r].cores[pool][i].node == node;
    return n;
}

/* ---- how an operator is cut ---- */

static void cut(struct machine *m, int r, int v)
{
    const struct ref_node *n = node_of(m, r, v);
    struct op *op = &m->ranks[r].ops[v];
    bool together = n->gang || n->us > 0;
    int all = n->kind == CUBE                 ? m->p->cube
              : n->kind == VECTOR             ? m->p->vector
              : m->p->cube < m->p->vector / 2 ? m->p->cube
                                              : m->p->vector / 2;
    int most = n->limit ? n->limit : together ? n->blocks : all;

    op->cores = most < n->blocks ? most : n->blocks;
    op->time = n->us > 0 ? n->us : n->us_per_block;
    op->blocks = n->blocks;
    if (together) { /* each core does its share, one after the other */
        op->time *= (n->blocks + op->cores - 1) / op->cores;
        op->blocks = op->cores;
    }
    op->not_started = op->blocks;
    op->wait_until = -1;
}

/* ---- collectives ---- */

/* Which of its name it is on its rank. */
static int occurrence(const struct machine *m, int r, int v)
{
    int k = 0;

    for (int i = 0; i < v; i++)
        k += node_of(m, r, i)->collective == node_of(m, r, v)->collective;
    return k;
}

/* Whether its counterpart on every rank has cores. */
static bool met(const struct machine *m, int r, int v)
{
    for (int o = 0; o < m->p->nranks; o++) {
        bool there = false;

        for (int i = 0; i < m->p->ranks[o].nnodes; i++)
            there |= node_of(m, o, i)->collective == node_of(m, r, v)->collective &&
                     occurrence(m, o, i) == occurrence(m, r, v) && m->ranks[o].ops[i].arrived;
        if (!there)
            return false;
    }
    return true;
}

/* ---- streams ---- */

/* The node before it on its stream; -1 if there is none. */
static int before(const struct machine *m, int r, int v)
{
    for (int i = v - 1; i >= 0; i--)
        if (node_of(m, r, i)->stream == node_of(m, r, v)->stream)
            return i;
    return -1;
}

/* Whether `to` comes after `from` by stream order and dependencies. */
static bool reaches(const struct machine *m, int r, int from, int to)
{
    int b = before(m, r, to);

    if (from == to)
        return true;
    if (from > to)
        return false;
    if (b >= 0 && reaches(m, r, from, b))
        return true;
    for (int i = 0; i < node_of(m, r, to)->ndeps; i++)
        if (reaches(m, r, from, node_of(m, r, to)->deps[i]))
            return true;
    return false;
}

/* No event is needed where stream order and the other dependencies imply it. */
static bool needs_event(const struct machine *m, int r, int v, int which)
{
    const struct ref_node *n = node_of(m, r, v);
    int dep = n->deps[which], b = before(m, r, v);

    if (node_of(m, r, dep)->stream == n->stream || (b >= 0 && reaches(m, r, dep, b)))
        return false;
    for (int i = 0; i < n->ndeps; i++)
        if (n->deps[i] != dep && reaches(m, r, dep, n->deps[i]))
            return false;
    for (int i = 0; i < which; i++)
        if (n->deps[i] == dep)
            return false;
    return true;
}

/* Somebody on another stream waits for it. */
static bool is_recorded(const struct machine *m, int r, int v)
{
    for (int i = v + 1; i < m->p->ranks[r].nnodes; i++)
        for (int k = 0; k < node_of(m, r, i)->ndeps; k++)
            if (node_of(m, r, i)->deps[k] == v && needs_event(m, r, i, k))
                return true;
    return false;
}

/* A node whose turn on its stream has come passes its waits, then is launched. */
static bool advance(struct machine *m, int r, int v)
{
    struct op *op = &m->ranks[r].ops[v];
    const struct ref_node *n = node_of(m, r, v);
    int b = before(m, r, v);

    if (op->state == RECORDING && op->wake <= m->now) {
        op->state = OVER;
        return true;
    }
    if (op->state == LAUNCHING && op->wake <= m->now) {
        op->state = READY;
        op->ready = m->now;
        return true;
    }
    if (op->state != NOT_YET || (b >= 0 && m->ranks[r].ops[b].state != OVER))
        return false;
    if (op->wait_until > m->now)
        return false;
    for (; op->waits_passed < n->ndeps; op->waits_passed++) {
        if (!needs_event(m, r, v, op->waits_passed))
            continue;
        if (op->wait_until < 0) {
            if (m->ranks[r].ops[n->deps[op->waits_passed]].state != OVER)
                return false;
            op->wait_until = m->now + m->p->wait;
            if (op->wait_until > m->now)
                return true;
        }
        op->wait_until = -1;
    }
    op->state = LAUNCHING;
    op->wake = m->now + m->p->launch;
    return true;
}

/* ---- cores ---- */

static void give(struct machine *m, int r, int pool, int v, int n, int left)
{
    for (int i = 0; i < total(m, pool) && n; i++)
        if (m->ranks[r].cores[pool][i].node < 0) {
            m->ranks[r].cores[pool][i] = (struct core){v, left, false};
            n--;
        }
    CHECK_EQ(n, 0);
}

/* Starts n blocks on free cores. The first core of each block's first pool counts. */
static void start_blocks(struct machine *m, int r, int v, int n)
{
    enum kind kind = node_of(m, r, v)->kind;
    struct op *op = &m->ranks[r].ops[v];
    int counts = kind == VECTOR;

    for (int k = 0; k < n; k++)
        for (int pool = 0; pool < 2; pool++)
            for (int c = 0; c < per_block(kind, pool); c++)
                for (int i = 0; i < total(m, pool); i++) {
                    struct core *core = &m->ranks[r].cores[pool][i];

                    if (core->node >= 0)
                        continue;
                    *core = (struct core){v, op->time, pool == counts};
                    break;
                }
    op->not_started -= n;
    op->arrived = true;
}

static bool try_start(struct machine *m, int r, int v)
{
    const struct ref_node *n = node_of(m, r, v);
    struct op *op = &m->ranks[r].ops[v];
    int fits = MAX_CORES * 2, running = 0;

    for (int pool = 0; pool < 2; pool++) {
        int each = per_block(n->kind, pool);

        if (each && count_cores(m, r, pool, -1) / each < fits)
            fits = count_cores(m, r, pool, -1) / each;
        if (each)
            running = count_cores(m, r, pool, v) / each;
    }
    if (n->gang && m->p->hold) { /* takes what there is, starts with all */
        bool all = true, any = false;

        for (int pool = 0; pool < 2; pool++) {
            int missing = op->blocks * per_block(n->kind, pool) - count_cores(m, r, pool, v);
            int have = count_cores(m, r, pool, -1);

            give(m, r, pool, v, missing < have ? missing : have, -1);
            any |= missing && have;
            all &= missing <= have;
        }
        if (!all)
            return any;
        for (int pool = 0; pool < 2; pool++)
            for (int i = 0; i < total(m, pool); i++)
                if (m->ranks[r].cores[pool][i].node == v)
                    m->ranks[r].cores[pool][i].node = -1;
        start_blocks(m, r, v, op->blocks);
        op->state = RUNNING;
        return true;
    }
    if (n->gang || n->us > 0) {
        if (fits < op->blocks)
            return false;
        start_blocks(m, r, v, op->blocks);
        op->state = RUNNING;
        return true;
    }
    if (fits > op->cores - running)
        fits = op->cores - running;
    if (fits > op->not_started)
        fits = op->not_started;
    if (!fits)
        return false;
    start_blocks(m, r, v, fits);
    op->state = RUNNING;
    return true;
}

/* Those that want cores, the most urgent first, then by time ready, then as in the file. */
static bool share_cores(struct machine *m, int r, struct ref_result *out)
{
    bool done[MAX_NODES] = {false}, any = false;

    for (;;) {
        int best = -1;

        for (int v = 0; v < m->p->ranks[r].nnodes; v++) {
            const struct op *op = &m->ranks[r].ops[v],
                            *b = best < 0 ? NULL : &m->ranks[r].ops[best];
            int priority = m->p->priority[node_of(m, r, v)->stream];
            int than = best < 0 ? 0 : m->p->priority[node_of(m, r, best)->stream];

            if (done[v] || (op->state != READY && op->state != RUNNING) || !op->not_started)
                continue;
            if (!b || priority < than || (priority == than && op->ready < b->ready))
                best = v;
        }
        if (best < 0)
            return any;
        done[best] = true;
        if (try_start(m, r, best)) {
            any = true;
            if (out->start[r][best] < 0 && m->ranks[r].ops[best].state == RUNNING)
                out->start[r][best] = m->now;
        }
    }
}

/* Blocks whose time is over end; true if any did. */
static bool end_blocks(struct machine *m, int r, struct ref_result *out)
{
    bool any = false;

    for (int pool = 0; pool < 2; pool++)
        for (int i = 0; i < total(m, pool); i++) {
            struct core *c = &m->ranks[r].cores[pool][i];
            int v = c->node;

            if (v < 0 || c->left != 0 || m->ranks[r].ops[v].state != RUNNING)
                continue;
            if (node_of(m, r, v)->collective >= 0 && !met(m, r, v))
                continue;
            if (c->first)
                m->ranks[r].ops[v].blocks--;
            c->node = -1;
            any = true;
        }
    for (int v = 0; v < m->p->ranks[r].nnodes; v++) {
        struct op *op = &m->ranks[r].ops[v];

        if (op->state == RUNNING && !op->blocks) {
            op->state = RECORDING;
            op->wake = m->now + (is_recorded(m, r, v) ? m->p->record : 0);
            out->end[r][v] = out->makespan = m->now;
            any = true;
        }
    }
    return any;
}

/* Everything that happens without time passing. */
static void settle(struct machine *m, struct ref_result *out)
{
    bool any;

    do {
        do {
            any = false;
            for (int r = 0; r < m->p->nranks; r++) {
                any |= end_blocks(m, r, out);
                for (int v = 0; v < m->p->ranks[r].nnodes; v++)
                    any |= advance(m, r, v);
            }
        } while (any);
        for (int r = 0; r < m->p->nranks; r++)
            any |= share_cores(m, r, out);
    } while (any);
}

/* One microsecond passes. False if nobody uses it. */
static bool tick(struct machine *m)
{
    bool used = false;

    for (int r = 0; r < m->p->nranks; r++) {
        for (int pool = 0; pool < 2; pool++)
            for (int i = 0; i < total(m, pool); i++) {
                struct core *c = &m->ranks[r].cores[pool][i];

                if (c->node < 0 || c->left < 0 || m->ranks[r].ops[c->node].state != RUNNING ||
                    (node_of(m, r, c->node)->collective >= 0 && !met(m, r, c->node)))
                    continue;
                c->left--;
                used = true;
            }
        for (int v = 0; v < m->p->ranks[r].nnodes; v++) {
            const struct op *op = &m->ranks[r].ops[v];

            used |= (op->state == LAUNCHING || op->state == RECORDING) && op->wake > m->now;
            used |= op->state == NOT_YET && op->wait_until > m->now;
        }
    }
    m->now++;
    return used;
}

void reference_run(const struct ref_program *p, struct ref_result *out)
{
    struct machine *m = calloc(1, sizeof *m);

    CHECK(m);
    m->p = p;
    memset(out, 0, sizeof *out);
    memset(out->start, -1, sizeof out->start);
    memset(out->end, -1, sizeof out->end);
    for (int r = 0; r < p->nranks; r++) {
        for (int pool = 0; pool < 2; pool++)
            for (int i = 0; i < MAX_CORES; i++)
                m->ranks[r].cores[pool][i].node = -1;
        for (int v = 0; v < p->ranks[r].nnodes; v++)
            cut(m, r, v);
    }
    do
        settle(m, out);
    while (tick(m));
    for (int r = 0; r < p->nranks; r++)
        for (int v = 0; v < p->ranks[r].nnodes; v++)
            out->deadlock |= out->end[r][v] < 0;
    free(m);
}
