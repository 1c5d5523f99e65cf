/* Verifies the remedies that a report proposes by enumerating all timings. */
#include "check/deadlock/report.h"

#include "brute.h"
#include "generate.h"
#include "harness/test.h"

enum { MOST = 60000 };

/* Limits the operator on every rank; `keep` gets what was there. */
static void limit(struct weir__check_program *p, const weir_remedy *remedy, int cube, int vector,
                  int *keep)
{
    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->ranks[r].nops; i++) {
            struct weir__check_op *op = &p->ranks[r].ops[i];

            *keep++ = op->blocks;
            if (!op->obeys || op->take == WEIR__TAKE_NONE || strcmp(op->name, remedy->node) != 0)
                continue;
            if (op->limit_cube && op->blocks > cube / op->limit_cube)
                op->blocks = cube / op->limit_cube;
            if (op->limit_vector && op->blocks > vector / op->limit_vector)
                op->blocks = vector / op->limit_vector;
        }
}

static void restore(struct weir__check_program *p, const int *keep)
{
    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->ranks[r].nops; i++)
            p->ranks[r].ops[i].blocks = *keep++;
}

static enum brute try_limit(struct weir__check_program *p, const weir_remedy *remedy, int cube,
                            int vector, enum weir__policy policy)
{
    int keep[64];
    enum brute truth;

    limit(p, remedy, cube, vector, keep);
    truth = brute_force(p, policy, MOST);
    restore(p, keep);
    return truth;
}

static bool is_hold(const weir_finding *f)
{
    return f->policy == WEIR_POLICY_HOLD;
}

/* The operators of that name take one kind of core alone, all the same. */
static bool is_simple(const struct weir__check_program *p, const char *name)
{
    int cube = -1, vector = -1;

    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->ranks[r].nops; i++) {
            const struct weir__check_op *op = &p->ranks[r].ops[i];

            if (op->take == WEIR__TAKE_NONE || !op->obeys || strcmp(op->name, name) != 0)
                continue;
            if (cube >= 0 && (cube != op->limit_cube || vector != op->limit_vector))
                return false;
            cube = op->limit_cube;
            vector = op->limit_vector;
        }
    return cube + vector == 1;
}

static int blocks_now(const struct weir__check_program *p, const char *name)
{
    int most = 0;

    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->ranks[r].nops; i++)
            if (!strcmp(p->ranks[r].ops[i].name, name) && p->ranks[r].ops[i].obeys &&
                p->ranks[r].ops[i].blocks > most)
                most = p->ranks[r].ops[i].blocks;
    return most;
}

/* The largest limit: it helps, and one core more does not. */
static void check_remedy(struct weir__check_program *p, const weir_finding *f, int *limits,
                         int *safe)
{
    const weir_remedy *m = &f->remedy;
    enum weir__policy policy = is_hold(f) ? WEIR__POLICY_HOLD : WEIR__POLICY_BATCH;
    int cube = m->cube ? 1 : 0, vector = m->vector ? 1 : 0;

    if (!m->cube && !m->vector)
        return;
    if (!is_simple(p, m->node))
        return;
    ++*limits;
    CHECK_EQ(try_limit(p, m, m->cube, m->vector, policy), BRUTE_SAFE);
    CHECK_LT(m->cube + m->vector, blocks_now(p, m->node));
    CHECK(
        try_limit(p, m, m->cube + cube, m->vector + vector, WEIR__POLICY_HOLD) == BRUTE_DEADLOCKS ||
        try_limit(p, m, m->cube + cube, m->vector + vector, WEIR__POLICY_BATCH) == BRUTE_DEADLOCKS);
    if (!m->safe_cube && !m->safe_vector)
        return;
    ++*safe;
    CHECK_LE(m->safe_cube, m->cube);
    CHECK_LE(m->safe_vector, m->vector);
    CHECK_EQ(try_limit(p, m, m->safe_cube, m->safe_vector, policy), BRUTE_SAFE);
}

static void check_finding(const weir_finding *f)
{
    CHECK(*f->text);
    CHECK_GT(f->nnodes, 0);
    if (f->kind != WEIR_FINDING_CORE_DEADLOCK)
        return;
    CHECK_GT(f->nsteps, 0);
    CHECK_GE(f->ncycle, 2);
    CHECK(f->policy == WEIR_POLICY_HOLD || f->policy == WEIR_POLICY_BATCH);
    for (size_t i = 0; i < f->nsteps; i++)
        CHECK(*f->steps[i]);
}

static void try_remedies(const struct shape *shape, int count)
{
    int deadlocks = 0, cured = 0, limits = 0, safe = 0;

    for (int i = 0; i < count / TEST_SLOWDOWN; i++) {
        const weir_check_options options = {.policies = 0};
        struct weir__report *report = weir__report_new();
        weir_check_report *out;
        struct weir__check_program p;

        test_note("seed %d", i);
        generate(&p, shape, 700000 + (unsigned)i);
        CHECK_OK(weir__check_analyse(&p, &options, report));
        CHECK_OK(weir__report_finish(report, &out));
        CHECK(out->exhaustive);
        for (size_t k = 0; k < out->nfindings; k++) {
            const weir_finding *f = &out->findings[k];

            if (!f->is_error)
                continue;
            check_finding(f);
            if (f->kind != WEIR_FINDING_CORE_DEADLOCK)
                continue;
            deadlocks++;
            cured += f->remedy.text != NULL;
            check_remedy(&p, f, &limits, &safe);
        }
        weir_check_free(out);
        weir__check_program_fini(&p);
    }
    printf("%d deadlocks, %d with a remedy, %d limits, %d safe ones\n", deadlocks, cured, limits,
           safe);
    CHECK_GT(deadlocks, count / TEST_SLOWDOWN / 20);
    CHECK_GT(cured, deadlocks * 2 / 3);
    CHECK_GT(limits, deadlocks / 8);
    CHECK_GT(safe, 0);
}

TEST(remedies, the_largest_limit_helps_and_one_more_does_not)
{
    try_remedies(&(struct shape){.ranks = 2, .streams = 3, .ops = 4, .cores = 6}, 1200);
}

TEST(remedies, a_remedy_helps_if_priorities_differ)
{
    try_remedies(
        &(struct shape){.ranks = 2, .streams = 3, .ops = 3, .cores = 5, .priorities = true}, 1000);
}
