/* The model against published figures. Each row names its source and how far off the model
 * may be; docs/model.md states how far off it is. Parameters are those of the profile. */
#include <stdlib.h>

#include "kernels.h"

#define A3 "npu:a3,overhead=off"

static void check_within(const char *what, double model, double published, double tolerance)
{
    test_note("%s: %.1f us, published %.1f us: %+.1f %%", what, model, published,
              100 * (model / published - 1));
    CHECK(fabs(model / published - 1) <= tolerance);
}

/* Operator time against cores, A3 (hicann/cann-recipes-infer). Each operator is given the
 * bytes that take its published time on the whole die; what half of the cores do to it
 * follows from core_gb_s, which is fitted to the three together. Tolerance 12 %. */
TEST(figures, operators_on_half_of_the_cores)
{
    static const struct {
        const char *name;
        double whole, half;
    } rows[] = {{"MLAProlog", 45.2, 68.1}, {"FlashAttention", 91.8, 118}, {"MatMul", 14.2, 18}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kernel k = {
            .name = "op", .engine = "mix", .blocks = 24, .bytes = (int64_t)(rows[i].whole * 1.6e6)};

        check_within(rows[i].name, kernel_run(A3, 1, &k, 1, NULL), rows[i].whole, 0.01);
        k.cube = 12;
        k.vector = 24;
        check_within(rows[i].name, kernel_run(A3, 1, &k, 1, NULL), rows[i].half, 0.12);
    }
}

/* Two streams V20-C40-V20 and V30-C20-V20 (V vector, C cube): 110 us as they come, 100 us
 * once an event lets the first go first (hicann/cann-recipes-infer). Exact. */
TEST(figures, two_streams_in_and_out_of_order)
{
    struct kernel k[] = {
        {.name = "w1", .engine = "vector", .blocks = 48, .us = 30, .stream = "b"},
        {.name = "v1", .engine = "vector", .blocks = 48, .us = 20, .stream = "a"},
        {.name = "c1", .engine = "cube", .blocks = 24, .us = 40, .stream = "a"},
        {.name = "v2", .engine = "vector", .blocks = 48, .us = 20, .stream = "a"},
        {.name = "d1", .engine = "cube", .blocks = 24, .us = 20, .stream = "b"},
        {.name = "w2", .engine = "vector", .blocks = 48, .us = 20, .stream = "b"},
    };

    CHECK_NEAR(kernel_run(A3, 1, k, 6, NULL), 110, 0);
    k[0].after = "v1"; /* the loader puts v1 before it */
    CHECK_NEAR(kernel_run(A3, 1, k, 6, NULL), 100, 0);
}

/* MoE dispatch and combine, 128 tokens a rank, 8 experts a token, 7168 wide; int8 there and
 * half precision back (arXiv 2506.12708). Tolerance 15 %. */
TEST(figures, dispatch_and_combine_by_expert_parallel_degree)
{
    static const struct {
        unsigned ranks;
        double dispatch, combine;
    } rows[] = {{8, 116, 118}, {16, 131, 132}, {32, 133, 146}};
    const int64_t bytes = 128 * 8 * 7168;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kernel there = {.name = "d",
                               .engine = "vector",
                               .blocks = 16,
                               .bytes = bytes,
                               .collective = "dispatch"};
        struct kernel back = {.name = "c",
                              .engine = "vector",
                              .blocks = 16,
                              .bytes = 2 * bytes,
                              .collective = "combine"};

        check_within("dispatch", kernel_run(A3, rows[i].ranks, &there, 1, NULL), rows[i].dispatch,
                     0.15);
        check_within("combine", kernel_run(A3, rows[i].ranks, &back, 1, NULL), rows[i].combine,
                     0.15);
    }
}
