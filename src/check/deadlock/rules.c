/* Rules that need no exploration: they add up cores. */
#include <string.h>

#include "check/deadlock/trial.h"

/* Above this many operators of a rank, streams are not compared pair by pair. */
enum { MAX_OPS = 4000 };

/* The most pairs of streams that are reported. */
enum { MAX_TIGHT = 8 };

static bool blocks_others(const struct weir__check_op *op)
{
    return (op->take == WEIR__TAKE_GANG || op->take == WEIR__TAKE_TOGETHER) ? op->blocks > 1
                                                                            : op->rendezvous >= 0;
}

static int cores_of(const struct weir__check_op *op, bool cube)
{
    struct weir__demand d = weir__check_demand(op);

    return cube ? d.cube : d.vector;
}

/* Returns the operator of the stream with the largest demand that can overlap with a, or -1. */
static int worst_beside(const struct weir__check_rank *rank, const struct weir__check_order *order,
                        int a, int stream, bool cube)
{
    int worst = -1;

    for (int i = 0; i < rank->streams[stream].nops; i++) {
        int b = rank->streams[stream].ops[i];

        if (weir__check_beside(order, rank, a, b) && cores_of(&rank->ops[b], cube) &&
            (worst < 0 || cores_of(&rank->ops[b], cube) > cores_of(&rank->ops[worst], cube)))
            worst = b;
    }
    return worst;
}

/* Adds a finding if operators that may overlap ask for more cores than exist. */
static bool add_sum(const struct weir__check_program *p, int r,
                    const struct weir__check_order *order, enum weir__policy policy, bool cube,
                    struct weir__report *report)
{
    const struct weir__check_rank *rank = &p->ranks[r];
    int total = cube ? rank->cube : rank->vector;

    for (int a = 0; a < rank->nops; a++) {
        weir_finding f = {
            .kind = WEIR_FINDING_CORE_DEADLOCK, .is_error = true, .policy = 1u << policy};
        struct weir__lines nodes = {0};
        int sum = cores_of(&rank->ops[a], cube);

        if (!sum || !weir__check_holds(&rank->ops[a], policy))
            continue;
        weir__report_line(report, &nodes, weir__report_text(report, "%s", rank->ops[a].name));
        for (int s = 0; s < rank->nstreams; s++) {
            int b = s == rank->ops[a].stream ? -1 : worst_beside(rank, order, a, s, cube);

            if (b < 0)
                continue;
            sum += cores_of(&rank->ops[b], cube);
            weir__report_line_once(report, &nodes,
                                   weir__report_text(report, "%s", rank->ops[b].name));
        }
        f.nodes = weir__report_lines(report, &nodes, &f.nnodes);
        if (sum <= total)
            continue;
        f.text = weir__report_text(
            report,
            "not proved free of deadlock: there are too many timings to explore, and by the rule "
            "%s%s and %zu operators that may run beside it want %d %scores together, of %d",
            weir__report_rank(report, p, r), rank->ops[a].name, f.nnodes - 1, sum,
            !rank->split ? ""
            : cube       ? "cube "
                         : "vector ",
            total);
        f.remedy.text = "lower their core limits until they fit together, or order them";
        weir__report_add(report, &f);
        return true;
    }
    return false;
}

weir_status weir__add_rule_broken(const struct weir__check_program *p,
                                  const struct weir__check_order *orders, enum weir__policy policy,
                                  struct weir__report *report, bool *broken)
{
    *broken = false;
    for (int r = 0; r < p->nranks && !*broken; r++) {
        struct weir__machine m;
        bool fits;
        weir_status st = weir__machine_init(&m, &p->ranks[r], &orders[r], policy, &fits);

        weir__machine_fini(&m);
        if (st)
            return st;
        *broken = (m.contended.vector && add_sum(p, r, &orders[r], policy, false, report)) ||
                  (m.contended.cube && add_sum(p, r, &orders[r], policy, true, report));
    }
    return WEIR_OK;
}

/* Finds a pair of operators on the two streams that together exceed the device's cores. */
static bool find_tight(const struct weir__check_rank *rank, const struct weir__check_order *order,
                       int s, int t, int *a, int *b)
{
    int most = 0;

    for (int i = 0; i < rank->streams[s].nops; i++)
        for (int j = 0; j < rank->streams[t].nops; j++) {
            int x = rank->streams[s].ops[i], y = rank->streams[t].ops[j];
            const struct weir__check_op *u = &rank->ops[x], *v = &rank->ops[y];
            int cube = cores_of(u, true) && cores_of(v, true)
                           ? cores_of(u, true) + cores_of(v, true) - rank->cube
                           : 0;
            int vector = cores_of(u, false) && cores_of(v, false)
                             ? cores_of(u, false) + cores_of(v, false) - rank->vector
                             : 0;
            int over = cube > vector ? cube : vector;

            if (over <= most || !blocks_others(u) || !blocks_others(v) ||
                !weir__check_beside(order, rank, x, y))
                continue;
            most = over;
            *a = x;
            *b = y;
        }
    return most > 0;
}

void weir__add_tight_streams(const struct weir__check_program *p,
                             const struct weir__check_order *orders, struct weir__report *report)
{
    struct weir__lines told = {0};

    for (int r = 0; r < p->nranks; r++) {
        const struct weir__check_rank *rank = &p->ranks[r];

        for (int s = 0; s < rank->nstreams && rank->nops <= MAX_OPS; s++)
            for (int t = s + 1; t < rank->nstreams && told.n < MAX_TIGHT; t++) {
                weir_finding f = {.kind = WEIR_FINDING_LIMIT};
                struct weir__lines nodes = {0};
                const struct weir__check_op *x, *y;
                int a, b, before = told.n;

                if (!find_tight(rank, &orders[r], s, t, &a, &b))
                    continue;
                if (strcmp(rank->ops[a].name, rank->ops[b].name) >
                    0) { /* each pair is reported once */
                    int swap = a;

                    a = b;
                    b = swap;
                }
                x = &rank->ops[a];
                y = &rank->ops[b];
                f.text = weir__report_text(
                    report,
                    "streams %s and %s together want more cores than there are: %s %s beside %s "
                    "%s; that is against the rule for core limits, though no timing of this "
                    "program deadlocks",
                    rank->streams[x->stream].name, rank->streams[y->stream].name, x->name,
                    weir__report_blocks(report, rank, x, x->blocks), y->name,
                    weir__report_blocks(report, rank, y, y->blocks));
                weir__report_line_once(report, &told, f.text);
                if (told.n == before)
                    continue;
                weir__report_line(report, &nodes, weir__report_text(report, "%s", x->name));
                weir__report_line(report, &nodes, weir__report_text(report, "%s", y->name));
                f.nodes = weir__report_lines(report, &nodes, &f.nnodes);
                weir__report_add(report, &f);
            }
    }
    weir__free(told.at);
}
