/* Kernel nodes of graph files, whose collectives have names, between processes. */
#include "procs/kids.h"

#include <string.h>

/* A plan of Kernels on a stream each, all at once, whose collectives are names[0..n-1]. */
static weir_plan *plan_of(weir_device *dev, weir_rank *rank, const char *const *names, int n)
{
    size_t size = (size_t)n * 400 + 1, at = 0;
    char *text = malloc(size);
    weir_graph *g;
    weir_plan *plan;

    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(
            text + at, size - at,
            "node { name: \"n%d\" op: \"Kernel\" attr { key: \"us\" value { f: 1 } }"
            " attr { key: \"collective\" value { s: \"%s\" } }"
            " attr { key: \"_user_stream_label\" value { s: \"s%d\" } } }",
            i, names[i], i % 3);
    CHECK_OK(weir_graph_load(dev, text, at, "rank", &g));
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.ranks = &rank, .nranks = 1}, &plan));
    weir_graph_destroy(g);
    free(text);
    return plan;
}

static weir_status run(weir_plan *plan, weir_device *dev)
{
    weir_status st = weir_plan_run(plan, weir_stream_default(dev), NULL, 0, NULL, 0);
    weir_status over = weir_device_sync(dev);

    return st ? st : over;
}

/* Ranks have the same names in other orders, one of them twice; then rank 0 goes on alone. */
SCENARIO(named)
{
    enum { RUNS = 50 };
    static const char *const orders[3][4] = {
        {"rs", "ag", "a name that is longer than a record of a call has room for", "rs"},
        {"ag", "rs", "rs", "a name that is longer than a record of a call has room for"},
        {"a name that is longer than a record of a call has room for", "rs", "ag", "rs"},
    };
    weir_device *dev;
    weir_group *g = join(&dev, &(weir_join_options){.timeout_ns = INT64_C(20000000000)});
    weir_group *quick;
    weir_rank *rank = weir_group_self(g);
    weir_plan *plan = plan_of(dev, rank, orders[weir_rank_index(rank) % 3], 4);

    for (int i = 0; i < RUNS; i++)
        CHECK_OK(run(plan, dev));
    weir_plan_destroy(plan);
    CHECK_OK(weir_group_split(g, (int[]){0, 1}, 2,
                              &(weir_group_options){.timeout_ns = INT64_C(1000000000)}, &quick));
    plan = plan_of(dev, weir_group_self(quick), (const char *const[]){"alone"}, 1);
    if (!weir_rank_index(rank)) {
        CHECK_STATUS(run(plan, dev), WEIR_ETIMEDOUT);
        say("%s\n", weir_last_error());
    }
    CHECK_OK(weir_barrier(rank)); /* rank 1 stays until rank 0 is done */
    weir_device_sync(dev);
    weir_plan_destroy(plan);
    CHECK_OK(weir_group_destroy(quick));
    leave(g, dev);
}

TEST(procs, kernels_of_graph_files_meet_by_name)
{
    struct kids k;

    kids_start(&k, 2, "named", NULL);
    kids_end_well(&k);
    CHECK_STR(k.text[0], "alone (call 1 of name alone of group");
    CHECK_STR(k.text[0], "rank 1 did not arrive");
}

/* A group of processes has room for so many names; rank 0 says so to all. */
SCENARIO(names)
{
    enum { NAMES = 520, PLAN = 13 };
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_status st = WEIR_OK;

    for (int first = 0; first < NAMES && !st; first += PLAN) {
        char text[PLAN][16];
        const char *names[PLAN];
        weir_plan *plan;

        for (int i = 0; i < PLAN; i++) {
            snprintf(text[i], sizeof text[i], "name%d", first + i);
            names[i] = text[i];
        }
        plan = plan_of(dev, weir_group_self(g), names, PLAN);
        st = run(plan, dev);
        CHECK(first + PLAN == NAMES ? st : !st);
        weir_plan_destroy(plan);
    }
    say("%s\n", weir_last_error());
    leave(g, dev);
}

TEST(procs, names_beyond_what_a_group_of_processes_has_room_for_are_refused)
{
    struct kids k;

    kids_start(&k, 2, "names", NULL);
    for (int i = 0; i < 2; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "at most 512 names");
    }
}
