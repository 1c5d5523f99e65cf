/* Sharing of bandwidth as fluid flows, and the cost of collectives. */
#include <stdlib.h>

#include "kernels.h"

#define A3 "npu:a3,overhead=off"

/* Bytes that 1600 GB/s, of which operators reach 0.841, move in a microsecond. */
#define BYTES_US INT64_C(1345600)
#define CORE_GB_S 83.0

TEST(flows, kernels_that_draw_on_memory_slow_each_other_down)
{
    struct kernel k[] = {
        {.name = "a", .engine = "cube", .blocks = 24, .us = 100, .bytes = 100 * BYTES_US},
        {.name = "b",
         .engine = "vector",
         .blocks = 48,
         .us = 100,
         .bytes = 100 * BYTES_US,
         .stream = "s"},
    };
    double ends[2];

    CHECK_NEAR(kernel_run(A3, 1, k, 1, NULL), 100, 1e-3);
    k[1].bytes = 0;
    CHECK_NEAR(kernel_run(A3, 1, k, 2, NULL), 100, 1e-3);
    /* 24 cores and 48 share it core by core: 1/3 and 2/3 until one is over. */
    k[1].bytes = 100 * BYTES_US;
    CHECK_NEAR(kernel_run(A3, 1, k, 2, ends), 200, 1e-3);
    CHECK_NEAR(ends[1], 150, 1e-3);
    /* One that wants less than its share gets it; the other gets the rest. */
    k[1].bytes = 50 * BYTES_US;
    CHECK_NEAR(kernel_run(A3, 1, k, 2, ends), 150, 1e-3);
    CHECK_NEAR(ends[1], 100, 1e-3);
}

TEST(flows, a_kernel_known_by_its_bytes_takes_the_time_of_memory)
{
    struct kernel k = {.name = "copy", .engine = "vector", .blocks = 48, .bytes = 80 * BYTES_US};

    CHECK_NEAR(kernel_run(A3, 1, &k, 1, NULL), 80, 1e-3);
    k.cube = 24;
    k.vector = 8;
    CHECK_NEAR(kernel_run(A3, 1, &k, 1, NULL), 80 * 1345.6 / (8 * CORE_GB_S), 0.1);
}

TEST(flows, the_rate_changes_whenever_something_starts_or_ends)
{
    struct kernel k[] = {
        {.name = "long", .engine = "cube", .blocks = 24, .us = 100, .bytes = 100 * BYTES_US},
        {.name = "wait", .engine = "host", .us = 30, .stream = "s"},
        {.name = "burst",
         .engine = "cube",
         .blocks = 24,
         .us = 10,
         .bytes = 10 * BYTES_US,
         .stream = "t"},
        {.name = "vector",
         .engine = "vector",
         .blocks = 24,
         .us = 20,
         .bytes = 20 * BYTES_US,
         .stream = "s"},
    };
    double ends[4];

    /* From 30 on `vector` has half of the memory for 40 us, so `long` loses 20; `burst`
     * comes when `long` frees the cube cores. */
    CHECK_NEAR(kernel_run(A3, 1, k, 4, ends), 130, 1e-3);
    CHECK_NEAR(ends[3], 70, 1e-3);
    CHECK_NEAR(ends[0], 120, 1e-3);
}

TEST(flows, collectives_share_the_link)
{
    const struct kernel k[] = {
        {.name = "a", .engine = "sdma", .bytes = 100 << 20, .collective = "all_gather"},
        {.name = "b", .engine = "sdma", .bytes = 100 << 20, .collective = "ag", .stream = "s"},
    };
    double one = kernel_run(A3, 8, k, 1, NULL), two = kernel_run(A3, 8, k, 2, NULL);

    CHECK_NEAR(two, 2 * one, 0.01 * one);
}

static double cost(const char *algorithm, unsigned nranks, const char *name, int64_t bytes)
{
    const struct kernel k = {.name = "c", .engine = "sdma", .bytes = bytes, .collective = name};
    char spec[64];

    snprintf(spec, sizeof spec, A3 ",algorithm=%s", algorithm);
    return kernel_run(spec, nranks, &k, 1, NULL);
}

TEST(flows, collective_algorithms_take_the_time_of_the_bytes_they_send)
{
    const int64_t big = INT64_C(1) << 30;
    double gather = (double)big * 7 / 8 / (196e3 * 0.85); /* microseconds on the wire */

    /* A ring pays a latency for each step, a mesh one; both send the same bytes. */
    CHECK_NEAR(cost("ring", 8, "all_gather", big), gather + 7 * 1.2, 0.01);
    CHECK_NEAR(cost("mesh", 8, "all_gather", big), gather + 1.2, 0.01);
    CHECK_NEAR(cost("ring", 8, "all_reduce", big), 2 * (gather + 7 * 1.2), 0.02);
    CHECK_NEAR(cost("mesh", 8, "reduce_scatter", big), gather + 1.2, 0.01);
    /* Two dies of a package have a faster link, dies beyond the super node a slow one. */
    CHECK(cost("mesh", 2, "all_gather", big) < cost("mesh", 4, "all_gather", big));
    CHECK(cost("mesh", 800, "all_gather", big) > 5 * cost("mesh", 768, "all_gather", big));
    /* There it pays to send within servers first; auto takes the best. */
    CHECK(cost("hierarchical", 800, "all_reduce", big) < cost("mesh", 800, "all_reduce", big));
    CHECK(cost("auto", 800, "all_reduce", big) <= cost("hierarchical", 800, "all_reduce", big));
    CHECK_NEAR(cost("auto", 8, "barrier", 1), 1.2, 1e-6);
    CHECK_NEAR(cost("auto", 1, "all_reduce", big), 0, 0);
}

/* In vector mode a collective keeps its cores while it waits for the others, in sdma mode
 * it has none. */
TEST(flows, only_vector_collectives_hold_cores)
{
    struct kernel late[] = {
        {.name = "busy", .engine = "host", .us = 50, .stream = "c"},
        {.name = "ar",
         .engine = "vector",
         .blocks = 48,
         .us = 10,
         .stream = "c",
         .collective = "x"},
        {.name = "work", .engine = "vector", .blocks = 48, .us = 5},
    };
    struct weir__prediction p;
    weir_graph *graphs[2];
    weir_device *dev;

    for (int sdma = 0; sdma < 2; sdma++) {
        CHECK_OK(weir_device_open(A3, &dev));
        late[1].engine = sdma ? "sdma" : "vector";
        late[1].blocks = sdma ? 1 : 48;
        graphs[0] = kernel_graph(dev, late, 3);
        late[0].us = 1; /* rank 1 arrives first */
        late[2].after = "busy";
        graphs[1] = kernel_graph(dev, late, 3);
        late[0].us = 50;
        late[2].after = NULL;
        CHECK_OK(weir__predict(graphs, 2, &(struct weir__predict_options){0}, &p));
        CHECK_EQ(p.makespan / WEIR__PS_PER_US, sdma ? 60 : 65);
        CHECK_EQ(p.run.ranks[1].idle_held[WEIR__POOL_VECTOR] / WEIR__PS_PER_US, sdma ? 0 : 48 * 49);
        weir__prediction_fini(&p);
        weir_graph_destroy(graphs[0]);
        weir_graph_destroy(graphs[1]);
        CHECK_OK(weir_device_close(dev));
    }
}
