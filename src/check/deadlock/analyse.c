/* Analyses a program and adds findings to a report. */
#include <string.h>

#include "check/deadlock/story.h"
#include "check/deadlock/trial.h"

/* Bounds: states of one exploration, visits per state, and the same for all remedies. */
#define DEFAULT_STATES 200000
#define STEPS_PER_STATE 50
#define REMEDY_STEPS ((size_t)4000000)
#define REMEDY_STATES 50000

struct analysis {
    struct weir__check_program *p;
    struct weir__report *r;
    struct weir__trial x;
    size_t max_states;
    unsigned policies; /* 1 << enum weir__policy */
    bool deadlocks;
};

static const char *const policy_names[] = {"hold", "batch"};

/* ---- collectives and events ---- */

/* How many operators of the collective the rank has. */
static int count_of(const struct weir__check_program *p, const char *name, int rank)
{
    int n = 0;

    for (int i = 0; i < p->nrendezvous; i++)
        n += p->rendezvous[i].op[rank] >= 0 && !strcmp(p->rendezvous[i].name, name);
    return n;
}

/* Returns a rank that must call the rendezvous and does not, or -1. */
static int absent_of(const struct weir__check_program *p, const struct weir__check_rendezvous *m)
{
    int absent = -1;

    for (int r = 0; r < p->nranks; r++)
        if (m->op[r] < 0 && (m->needs == p->nranks || r == m->pair[0] || r == m->pair[1] ||
                             (m->pair[0] < 0 && count_of(p, m->name, r))))
            absent = r;
    return absent;
}

static bool add_missing(struct analysis *a)
{
    const struct weir__check_program *p = a->p;
    struct weir__lines told = {0};
    bool any = false;

    for (int i = 0; i < p->nrendezvous; i++) {
        const struct weir__check_rendezvous *m = &p->rendezvous[i];
        struct weir__lines nodes = {0};
        weir_finding f = {.kind = WEIR_FINDING_COLLECTIVE_ORDER, .is_error = true};
        int has = 0, lacks = absent_of(p, m), before = told.n;

        if (m->count == m->needs || lacks < 0)
            continue;
        any = true;
        weir__report_line_once(a->r, &told, m->name);
        if (told.n == before)
            continue;
        for (int r = 0; r < p->nranks; r++)
            has = m->op[r] < 0 ? has : r;
        f.text = weir__report_text(
            a->r,
            "collective '%s' is issued %d times by rank %d but %d times by rank %d: call %d "
            "never completes",
            m->name, count_of(p, m->name, has), has, count_of(p, m->name, lacks), lacks, m->k + 1);
        weir__report_line(a->r, &nodes,
                          weir__report_text(a->r, "%s", p->ranks[has].ops[m->op[has]].name));
        f.nodes = weir__report_lines(a->r, &nodes, &f.nnodes);
        f.remedy.text = weir__report_text(a->r, "issue '%s' equally often on every rank", m->name);
        weir__report_add(a->r, &f);
    }
    weir__free(told.at);
    return any;
}

/* Adds a finding for streams that stop even if cores are unlimited. */
static weir_status add_stuck(struct analysis *a)
{
    weir_finding f = {.kind = WEIR_FINDING_EVENT_CYCLE, .is_error = true};
    struct weir__lines lines = {0}, nodes = {0};
    struct weir__cycle cycle;
    weir_status st = weir__deadlock_cycle(a->p, &a->x.deadlock, &cycle);

    if (st)
        return st;
    for (int i = 0; i < cycle.n; i++) {
        const struct weir__check_wait *w = &cycle.waits[i];

        if (w->why == WEIR__WAIT_RENDEZVOUS)
            f.kind = WEIR_FINDING_COLLECTIVE_ORDER;
        weir__report_line_once(a->r, &nodes,
                               weir__report_text(a->r, "%s", a->p->ranks[w->rank].ops[w->op].name));
    }
    weir__describe_cycle(a->r, a->p, &a->x.deadlock, &cycle, &lines);
    weir__free(cycle.waits);
    if (f.kind == WEIR_FINDING_COLLECTIVE_ORDER) {
        f.text = "ranks issue their collectives in different orders and wait for each other, "
                 "however many cores there are";
        f.remedy.text = "issue the collectives of a stream in the same order on every rank, or put "
                        "them on streams of their own";
    } else {
        f.text = weir__report_text(
            a->r, "%d operators wait for each other: none of them can ever run", nodes.n);
        f.remedy.text = "remove one of these waits, or change the order on the stream";
    }
    f.cycle = weir__report_lines(a->r, &lines, &f.ncycle);
    f.nodes = weir__report_lines(a->r, &nodes, &f.nnodes);
    weir__report_add(a->r, &f);
    return WEIR_OK;
}

weir_status weir__check_stuck(struct weir__check_program *p, struct weir__report *report,
                              bool *stuck)
{
    struct analysis a = {.p = p, .r = report};
    int **order = weir__calloc((size_t)p->nranks, sizeof *order);
    weir_status st = order ? weir__deadlock_init(&a.x.deadlock, p)
                           : weir__fail_nomem("allocating the order of %d ranks", p->nranks);

    if (!st && !(st = weir__check_flow(p, &a.x.deadlock, order, stuck))) {
        weir__free(order[0]);
        *stuck = !*stuck;
        if (*stuck)
            st = add_stuck(&a);
    }
    weir__deadlock_fini(&a.x.deadlock);
    weir__free(order);
    return st;
}

/* ---- core deadlocks ---- */

/* Lists the operators of the cycle, then the others that hold cores or wait for them. */
static void list_blocked(struct analysis *a, const struct weir__deadlock *deadlock,
                         const struct weir__cycle *cycle, struct weir__lines *names)
{
    const struct weir__check_program *p = a->p;

    for (int i = 0; i < cycle->n; i++)
        weir__report_line_once(
            a->r, names,
            weir__report_text(a->r, "%s",
                              p->ranks[cycle->waits[i].rank].ops[cycle->waits[i].op].name));
    for (int r = 0; r < p->nranks; r++)
        for (int s = 0; s < p->ranks[r].nstreams; s++) {
            int op = weir__deadlock_head_op(p, deadlock, r, s);

            if (op >= 0 && p->ranks[r].ops[op].take != WEIR__TAKE_NONE &&
                weir__deadlock_is_ready(p, deadlock, r, op))
                weir__report_line_once(a->r, names,
                                       weir__report_text(a->r, "%s", p->ranks[r].ops[op].name));
        }
}

static const char *join_names(struct weir__report *r, const struct weir__lines *names)
{
    const int most = 6;
    const char *text = "";

    for (int i = 0; i < names->n && i < most; i++)
        text = weir__report_text(r, "%s%s%s", text,
                                 !i                  ? ""
                                 : i == names->n - 1 ? " and "
                                                     : ", ",
                                 names->at[i]);
    return names->n > most ? weir__report_text(r, "%s and %d more", text, names->n - most) : text;
}

/* Finds a remedy for all requested policies, or failing that for this one. */
static weir_status find_remedy(struct analysis *a, enum weir__policy policy,
                               const struct weir__lines *names, weir_remedy *out)
{
    struct weir__trials t = {a->p, a->r, a->policies, REMEDY_STATES, REMEDY_STEPS};
    weir_status st = weir__find_remedy(&t, names, out);

    if (st || out->text || t.policies == 1u << policy)
        return st;
    t.policies = 1u << policy;
    t.steps = REMEDY_STEPS;
    return weir__find_remedy(&t, names, out);
}

static weir_status add_deadlock(struct analysis *a, enum weir__policy policy,
                                const struct weir__exploration *e)
{
    const int few = 4;
    weir_finding f = {.kind = WEIR_FINDING_CORE_DEADLOCK, .is_error = true, .policy = 1u << policy};
    struct weir__lines steps = {0}, lines = {0}, names = {0};
    bool *told = weir__calloc((size_t)a->p->nranks, sizeof *told);
    struct weir__cycle cycle = {0};
    weir_status st = told ? weir__deadlock_cycle(a->p, &e->deadlock, &cycle)
                          : weir__fail_nomem("writing the report of a deadlock");

    if (!st) {
        for (int i = 0; i < cycle.n; i++)
            told[cycle.waits[i].rank] = true;
        list_blocked(a, &e->deadlock, &cycle, &names);
        weir__describe_trace(a->r, a->p, &e->trace, a->p->nranks > few ? told : NULL, &steps);
        weir__describe_cycle(a->r, a->p, &e->deadlock, &cycle, &lines);
        f.text = weir__report_text(a->r,
                                   "under policy %s %s can wait for each other's cores for "
                                   "ever",
                                   policy_names[policy], join_names(a->r, &names));
        st = find_remedy(a, policy, &names, &f.remedy);
    }
    f.steps = weir__report_lines(a->r, &steps, &f.nsteps);
    f.cycle = weir__report_lines(a->r, &lines, &f.ncycle);
    f.nodes = weir__report_lines(a->r, &names, &f.nnodes);
    weir__free(cycle.waits);
    weir__free(told);
    weir__report_add(a->r, &f);
    a->deadlocks = true;
    return st;
}

static weir_status explore(struct analysis *a, enum weir__policy policy)
{
    struct weir__budget budget = weir__budget_of(
        a->max_states, a->max_states * STEPS_PER_STATE,
        policy == WEIR__POLICY_HOLD ? "timings under policy hold" : "timings under policy batch");
    struct weir__exploration e;
    weir_status st = weir__explore(a->p, a->x.orders, policy, &budget, true, &e);

    if (st)
        return st;
    a->r->public.nstates += a->max_states - budget.states;
    if (e.verdict == WEIR__DEADLOCKS)
        st = add_deadlock(a, policy, &e);
    if (e.verdict == WEIR__TOO_LARGE) {
        bool broken;

        a->r->public.exhaustive = false;
        st = weir__add_rule_broken(a->p, a->x.orders, policy, a->r, &broken);
        a->deadlocks |= broken;
    }
    weir__exploration_fini(&e);
    return st;
}

/* ---- demands ---- */

/* Adds a finding for each operator that needs more cores at once than exist: it never starts. */
static weir_status add_demands(struct analysis *a)
{
    struct weir__lines told = {0};
    weir_status st = WEIR_OK;

    for (int r = 0; r < a->p->nranks && !st; r++)
        for (int i = 0; i < a->p->ranks[r].nops && !st; i++) {
            const struct weir__check_rank *rank = &a->p->ranks[r];
            const struct weir__check_op *op = &rank->ops[i];
            struct weir__trials t = {a->p, a->r, a->policies, REMEDY_STATES, REMEDY_STEPS};
            weir_finding f = {.kind = WEIR_FINDING_LIMIT, .is_error = true};
            struct weir__lines nodes = {0};
            int before = told.n;

            if (op->take == WEIR__TAKE_ANY || op->asked <= op->blocks)
                continue;
            weir__report_line_once(a->r, &told, op->name);
            if (told.n == before)
                continue;
            f.text = weir__report_text(a->r,
                                       "%s%s needs %s at once, but the device has %s: it can never "
                                       "start",
                                       weir__report_rank(a->r, a->p, r), op->name,
                                       weir__report_blocks(a->r, rank, op, op->asked),
                                       weir__report_blocks(a->r, rank, op, op->blocks));
            weir__report_line(a->r, &nodes, weir__report_text(a->r, "%s", op->name));
            f.nodes = weir__report_lines(a->r, &nodes, &f.nnodes);
            if (op->obeys && a->x.over)
                st = weir__find_limit(&t, op->name, op->blocks, &f.remedy);
            else
                f.remedy.text = weir__report_text(
                    a->r, "no core limit reaches %s: it must be built with fewer blocks", op->name);
            weir__report_add(a->r, &f);
        }
    weir__free(told.at);
    return st;
}

weir_status weir__check_analyse(struct weir__check_program *p, const weir_check_options *options,
                                struct weir__report *report)
{
    struct analysis a = {.p = p, .r = report};
    bool missing;
    weir_status st;

    report->public.nranks = (size_t)p->nranks;
    for (int r = 0; r < p->nranks; r++)
        report->public.noperators += (size_t)p->ranks[r].nops;
    a.max_states = options->max_states ? options->max_states : DEFAULT_STATES;
    if (!options->policies || options->policies & WEIR_POLICY_HOLD)
        a.policies |= 1u << WEIR__POLICY_HOLD;
    if (!options->policies || options->policies & WEIR_POLICY_BATCH)
        a.policies |= 1u << WEIR__POLICY_BATCH;
    if ((st = weir__prepare(&a.x, p)))
        return st;
    missing = add_missing(&a);
    if (!a.x.over && !missing)
        st = add_stuck(&a);
    if (!st)
        st = add_demands(&a);
    for (int policy = 0; policy < WEIR__POLICY_COUNT && a.x.over && !st; policy++)
        if (a.policies >> policy & 1)
            st = explore(&a, policy);
    if (!st && a.x.over && !a.deadlocks)
        weir__add_tight_streams(p, a.x.orders, report);
    weir__trial_fini(&a.x, p);
    return st;
}
