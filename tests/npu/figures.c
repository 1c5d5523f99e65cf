/* The model against published figures. Each row has its source, whether a figure of the profile
 * was fitted to it, and how far off the model is, in percent: a row that gets worse by more than
 * half a percent fails. docs/validation.md is the same table for people. */
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

#define A3 "npu:a3,overhead=off"
#define H800 "npu:h800,overhead=off"

enum use { FIT, SEEN }; /* SEEN: by readers alone, never by a fit */

struct figure {
    const char *name, *spec;
    double published; /* us */
    enum use use;
    double off; /* percent that the model was off when the row was written */
    /* an exchange */
    unsigned ranks;
    int bytes; /* a token and expert */
    const char *collective;
    /* an operator on the whole die in `whole` us, then on half of the cores */
    double whole;
};

/* MoE dispatch and combine of 128 tokens a rank and 8 experts a token, 7168 wide: arXiv
 * 2506.12708 for the 910C (int8 with scales there, half precision back), DeepEP's page of its
 * first version for the H800 (f8 with scales there). Operators on half of the cores:
 * hicann/cann-recipes-infer. */
#define DISPATCH(dies, us, use, off)                                           \
    {                                                                          \
        "910C dispatch, EP" #dies, A3, us, use, off, dies, 7680, "dispatch", 0 \
    }
#define COMBINE(dies, us, use, off)                                              \
    {                                                                            \
        "910C combine, EP" #dies, A3, us, use, off, dies, 2 * 7168, "combine", 0 \
    }
#define DEEPEP_DISPATCH(gpus, us, use, off)                                      \
    {                                                                            \
        "H800 dispatch, EP" #gpus, H800, us, use, off, gpus, 7392, "dispatch", 0 \
    }
#define DEEPEP_COMBINE(gpus, us, use, off)                                         \
    {                                                                              \
        "H800 combine, EP" #gpus, H800, us, use, off, gpus, 2 * 7168, "combine", 0 \
    }
static const struct figure figures[] = {
    DISPATCH(8, 116, FIT, 0),
    DISPATCH(16, 131, SEEN, 5.7),
    DISPATCH(32, 133, SEEN, 2.6),
    DISPATCH(256, 152, FIT, 1.1),
    COMBINE(8, 118, FIT, 2),
    COMBINE(16, 132, SEEN, 1.3),
    COMBINE(32, 146, SEEN, 3.3),
    COMBINE(256, 149, FIT, 1.4),
    DEEPEP_DISPATCH(8, 77, FIT, 0),
    DEEPEP_DISPATCH(16, 118, SEEN, 13),
    DEEPEP_DISPATCH(32, 155, SEEN, 3.3),
    DEEPEP_DISPATCH(64, 173, SEEN, 0.3),
    DEEPEP_DISPATCH(128, 192, SEEN, 3.4),
    DEEPEP_DISPATCH(256, 194, FIT, 1.4),
    DEEPEP_COMBINE(8, 114, FIT, 0),
    DEEPEP_COMBINE(16, 195, SEEN, 1.8),
    DEEPEP_COMBINE(32, 273, SEEN, 3.8),
    DEEPEP_COMBINE(64, 314, SEEN, 4.8),
    DEEPEP_COMBINE(128, 369, SEEN, 4.6),
    DEEPEP_COMBINE(256, 360, FIT, 1),
    {"910C MatMul on 12+24 cores", A3, 18, FIT, 0.7, 0, 0, NULL, 14.2},
    {"910C FlashAttention on 12+24 cores", A3, 118, FIT, 4.2, 0, 0, NULL, 91.8},
    {"910C MLAProlog on 12+24 cores", A3, 68.1, SEEN, 11.9, 0, 0, NULL, 45.2},
};
enum { FIGURES = sizeof figures / sizeof *figures };

static double model_us(const struct figure *f)
{
    struct kernel k = {.name = "op", .engine = "vector"};

    if (f->collective) {
        k.collective = f->collective;
        k.blocks = strcmp(f->spec, A3) ? 132 : 48;
        k.bytes = 128 * 8 * (int64_t)f->bytes;
        return kernel_run(f->spec, f->ranks, &k, 1, NULL);
    }
    k = (struct kernel){.name = "op", .engine = "mix", .blocks = 24};
    /* cube_head_us; hbm_gb_s x hbm_efficiency. A launch takes 1 us, which is no part of it. */
    k.bytes = (int64_t)((f->whole - 3) * 1.3456e6);
    CHECK_NEAR(kernel_run("npu:a3", 1, &k, 1, NULL) - 1, f->whole, 0.01);
    k.cube = 12;
    k.vector = 24;
    return kernel_run("npu:a3", 1, &k, 1, NULL) - 1;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

TEST(figures, no_published_time_of_an_operator_is_missed_by_more_than_before)
{
    double off[FIGURES];
    int n = 0;

    for (int i = 0; i < FIGURES; i++) {
        double us = model_us(&figures[i]), percent = 100 * (us / figures[i].published - 1);

        test_note("%s: %.1f us, published %.1f us: %+.1f %%", figures[i].name, us,
                  figures[i].published, percent);
        if (getenv("WEIR_FIGURES"))
            printf("| %s | %.0f us | %.1f us | %+.1f %% | %s |\n", figures[i].name,
                   figures[i].published, us, percent, figures[i].use == FIT ? "fitted" : "");
        if (!getenv("WEIR_FIGURES"))
            CHECK(fabs(percent) <= fabs(figures[i].off) + 0.5);
        if (figures[i].use == SEEN)
            off[n++] = fabs(percent);
    }
    qsort(off, (size_t)n, sizeof *off, by_size);
    test_note("of %d rows that no fit has seen: median %.1f %%, worst %.1f %%", n, off[n / 2],
              off[n - 1]);
    CHECK(off[n / 2] <= 6);
    CHECK(off[n - 1] <= 15);
}

/* Two streams V20-C40-V20 and V30-C20-V20 (V vector, C cube): 110 us as they come, 100 us
 * once an event lets the first go first (hicann/cann-recipes-infer). Exact. */
TEST(figures, a_stream_order_that_lets_two_streams_overlap_is_faster)
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
