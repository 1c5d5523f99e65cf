/* The explorer's verdict equals that of an enumeration of all timings. */
#include "check/deadlock/explore.h"

#include "brute.h"
#include "generate.h"
#include "harness/test.h"

static const char *const policies[] = {"hold", "batch"};

struct tally {
    int programs, deadlocks, safe, skipped, stuck;
};

static void compare(const struct weir__check_program *p, unsigned seed, struct tally *tally)
{
    struct weir__check_order orders[4];
    struct weir__deadlock deadlock;
    int *order[4];
    bool over;

    CHECK_OK(weir__deadlock_init(&deadlock, p));
    CHECK_OK(weir__check_flow(p, &deadlock, order, &over));
    for (int r = 0; over && r < p->nranks; r++)
        CHECK_OK(weir__check_order_init(&orders[r], &p->ranks[r], order[r]));
    for (int policy = 0; policy < WEIR__POLICY_COUNT; policy++) {
        enum brute truth = brute_force(p, policy, 40000);
        struct weir__budget budget = weir__budget_of(1000000, 10000000, "a program");
        struct weir__exploration x;
        bool wrong;

        tally->programs++;
        if (truth == BRUTE_TOO_LARGE) {
            tally->skipped++;
            continue;
        }
        if (!over) {
            if (truth != BRUTE_DEADLOCKS)
                print_program(p);
            CHECK_EQ(truth, BRUTE_DEADLOCKS);
            tally->stuck++;
            continue;
        }
        CHECK_OK(weir__explore(p, orders, policy, &budget, true, &x));
        wrong = x.verdict == WEIR__TOO_LARGE ||
                (x.verdict == WEIR__DEADLOCKS) != (truth == BRUTE_DEADLOCKS);
        if (wrong) {
            print_program(p);
            FAIL("seed %u, %s: %s, but all timings say %s", seed, policies[policy],
                 x.verdict == WEIR__SAFE ? "safe" : "deadlock",
                 truth == BRUTE_SAFE ? "safe" : "deadlock");
        }
        *(x.verdict == WEIR__SAFE ? &tally->safe : &tally->deadlocks) += 1;
        weir__exploration_fini(&x);
    }
    for (int r = 0; over && r < p->nranks; r++)
        weir__check_order_fini(&orders[r]);
    weir__free(order[0]);
    weir__deadlock_fini(&deadlock);
}

/* At least one of `rare` is a deadlock, or the programs are not worth comparing. */
static void compare_many(const struct shape *shape, int count, int rare)
{
    struct tally tally = {0};

    for (int i = 0; i < count / TEST_SLOWDOWN_ALONE / (TEST_SANITIZED ? 2 : 1); i++) {
        struct weir__check_program p;

        test_note("seed %d", i);
        generate(&p, shape, (unsigned)i);
        compare(&p, (unsigned)i, &tally);
        weir__check_program_fini(&p);
    }
    printf("%d: %d deadlock, %d safe, %d stuck without cores, %d too large\n", tally.programs,
           tally.deadlocks, tally.safe, tally.stuck, tally.skipped);
    CHECK(TEST_THREADS_WATCHED ||
          tally.deadlocks > tally.programs / rare); /* few are tried there */
    CHECK_GT(tally.safe, tally.programs / 10);
    CHECK_LT(tally.skipped, tally.programs / 5);
}

TEST(verdicts, verdicts_of_one_rank_equal_brute_force)
{
    compare_many(
        &(struct shape){
            .ranks = 1, .streams = 4, .ops = 6, .cores = 5, .priorities = true, .mixed = true},
        2000, 500);
}

TEST(verdicts, verdicts_of_ranks_of_one_priority_equal_brute_force)
{
    compare_many(&(struct shape){.ranks = 2, .streams = 3, .ops = 4, .cores = 4}, 2000, 50);
}

TEST(verdicts, verdicts_of_three_ranks_equal_brute_force)
{
    compare_many(&(struct shape){.ranks = 3, .streams = 2, .ops = 2, .cores = 3}, 1500, 50);
}

TEST(verdicts, verdicts_with_priorities_equal_brute_force)
{
    compare_many(
        &(struct shape){.ranks = 2, .streams = 3, .ops = 3, .cores = 4, .priorities = true}, 2000,
        50);
}

TEST(verdicts, verdicts_with_mixed_blocks_equal_brute_force)
{
    compare_many(
        &(struct shape){
            .ranks = 2, .streams = 3, .ops = 3, .cores = 4, .priorities = true, .mixed = true},
        2000, 50);
}
