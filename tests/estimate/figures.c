/* Whole models against published figures, as tests/npu/figures.c has operators. All rows are
 * of DeepSeek-R1 (the sizes of V3); docs/validation.md has them for people. WEIR_FIGURES=1 prints
 * the rows of that page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

/* arXiv 2506.12708: decoding on 160 cards (320 dies), one drafted token of which 0.7 are taken;
 * prefill on 16 cards with heads spread over all dies. arXiv 2508.02520: 144 cards, 0.9 taken, an
 * exchange a layer (a combine of 312 us is 20.4 % of 93 ms), so one stream. DeepSeek's own profiles
 * of an H800 as arXiv 2506.12708 has them, with experts loaded evenly. */
enum what { TPOT, LAYER, ATTENTION, EXPERTS, DECODE_RATE, PREFILL_RATE };
enum use { FIT, SEEN }; /* SEEN: by readers alone, never by a fit */

struct figure {
    const char *name, *spec;
    enum what what;
    double published; /* ms; us of a layer; tokens a second and card */
    enum use use;
    double off; /* percent, when the row was written */
    uint32_t ranks;
    double batch, prompt, output, accept;
    enum weir__placement placement;
    double imbalance; /* 0: as it comes */
};

/* Which placement small batches had is not said: the smallest is taken to have one stream, as two
 * microbatches would read the weights twice. */
#define A3 "npu:a3"
#define H800 "npu:h800"
#define TWO WEIR__PLACE_TWO
#define ONE WEIR__PLACE_SINGLE
static const struct figure figures[] = {
    {"TPOT, EP320, 128 sequences a card, 1 Ki + 1 Ki tokens", A3, TPOT, 46.8, SEEN, 1.4, 320, 64,
     1024, 1024, 0.7, TWO, 0},
    {"TPOT, EP320, 112 a card, 2 Ki + 256", A3, TPOT, 47.4, SEEN, 5.5, 320, 56, 2048, 256, 0.7, TWO,
     0},
    {"TPOT, EP320, 96 a card, 4 Ki + 256", A3, TPOT, 49.4, SEEN, 7.2, 320, 48, 4096, 256, 0.7, TWO,
     0},
    {"TPOT, EP320, 24 a card, 4 Ki + 256", A3, TPOT, 24.6, SEEN, 3, 320, 12, 4096, 256, 0.7, TWO,
     0},
    {"TPOT, EP320, 8 a card, 4 Ki + 256, one stream", A3, TPOT, 14.9, FIT, 0.3, 320, 4, 4096, 256,
     0.7, ONE, 0},
    {"a layer, EP320, 96 a card, 4 Ki + 256, drafting", A3, LAYER, 1260, SEEN, 6.6, 320, 48, 4096,
     256, 0.7, TWO, 0},
    {"a layer of it without drafting", A3, LAYER, 874, SEEN, 0.3, 320, 48, 4096, 256, 0, TWO, 0},
    {"its attention stream, on 16 + 32 cores", A3, ATTENTION, 600, SEEN, 3.6, 320, 48, 4096, 256,
     0.7, TWO, 0},
    {"its stream of experts, on 8 + 16 cores", A3, EXPERTS, 600, SEEN, 0.8, 320, 48, 4096, 256, 0.7,
     TWO, 0},
    {"TPOT, EP288, 120 a card, 3 Ki, one stream", A3, TPOT, 50, FIT, 6.9, 288, 60, 3000, 0, 0.9,
     ONE, 0},
    {"prefill, EP32, 16 Ki tokens a card, even experts", A3, PREFILL_RATE, 6688, SEEN, 6.2, 32, 2,
     4096, 256, 0, TWO, 1},
    {"prefill, the same, experts as they come", A3, PREFILL_RATE, 5655, FIT, 5.9, 32, 2, 4096, 256,
     0, TWO, 0},
    {"H800 prefill, EP32, 16 Ki tokens a GPU, even experts", H800, PREFILL_RATE, 7839, SEEN, 9.8,
     32, 4, 4096, 256, 0, TWO, 1},
    {"H800 TPOT, EP128, 128 a GPU, 4 Ki, even experts", H800, TPOT, 50.2, SEEN, 2.6, 128, 128, 4096,
     0, 0, TWO, 1},
    {"H800 decode, the same", H800, DECODE_RATE, 2325, SEEN, 6.9, 128, 128, 4096, 0, 0, TWO, 1},
};

static struct weir__deploy deploy_of(const struct figure *f)
{
    struct weir__deploy d = deploy(f->ranks, f->batch, f->placement);

    d.prompt = f->prompt;
    d.output = f->output;
    d.accept = f->accept;
    d.imbalance = f->imbalance;
    d.spread = f->what == PREFILL_RATE && f->spec[4] == 'a';
    d.quant = f->spec[4] == 'a' ? WEIR__QUANT_W8A8 : WEIR__QUANT_F8;
    return d;
}

/* What one layer more takes. */
static double layer_us(weir_device *dev, const struct weir__llm *m, const struct weir__deploy *d)
{
    struct weir__llm fewer = *m;
    double us, less;

    fewer.layers -= 10;
    CHECK_OK(weir__estimate_time_step(dev, m, d, false, &us));
    CHECK_OK(weir__estimate_time_step(dev, &fewer, d, false, &less));
    return (us - less) / 10;
}

/* What a microbatch has of a layer on that stream. */
static double stream_us(const struct weir__estimate *e, const char *stream)
{
    double us = 0;

    for (size_t i = 0; i < e->decode.nparts; i++)
        if (!strcmp(e->decode.parts[i].stream, stream))
            us += e->decode.parts[i].us * e->decode.parts[i].count;
    return us / (2 * 62);
}

static double predict(const struct figure *f)
{
    struct weir__deploy d = deploy_of(f);
    struct weir__llm m = deepseek();
    struct weir__estimate e = {0};
    weir_device *dev;
    double value;

    CHECK_OK(weir_device_open(f->spec, &dev));
    if (f->what != LAYER)
        CHECK_OK(f->what == PREFILL_RATE ? weir__estimate_quick(dev, &m, &d, &e)
                                         : weir__estimate_model(dev, &m, &d, &e));
    value = f->what == LAYER          ? layer_us(dev, &m, &d)
            : f->what == ATTENTION    ? stream_us(&e, "attention")
            : f->what == EXPERTS      ? stream_us(&e, "experts")
            : f->what == TPOT         ? e.tpot_ms
            : f->what == PREFILL_RATE ? e.prefill_rate / e.cards
                                      : e.decode_rate / e.cards;
    weir__estimate_fini(&e);
    CHECK_OK(weir_device_close(dev));
    return value;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

TEST(figures, no_published_figure_of_a_model_is_missed_by_more_than_before)
{
    static const char *const units[] = {"ms", "us", "us", "us", "tokens/s", "tokens/s"};
    double off[sizeof figures / sizeof *figures];
    size_t n = 0;

    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const struct figure *f = &figures[i];
        double value = predict(f), percent = 100 * (value / f->published - 1);

        test_note("%s: %.1f, published %.1f %s: %+.1f %%", f->name, value, f->published,
                  units[f->what], percent);
        if (getenv("WEIR_FIGURES"))
            printf("| %s | %.4g %s | %.4g %s | %+.1f %% | %s |\n", f->name, f->published,
                   units[f->what], value, units[f->what], percent, f->use == FIT ? "fitted" : "");
        else
            CHECK(fabs(percent) <= f->off + 0.5);
        if (f->use == SEEN)
            off[n++] = fabs(percent);
    }
    qsort(off, n, sizeof *off, by_size);
    test_note("of %zu rows that no fit has seen: median %.1f %%, worst %.1f %%", n, off[n / 2],
              off[n - 1]);
    CHECK(off[n / 2] <= 6);
    CHECK(off[n - 1] <= 15);
}

/* ---- gains: percent more tokens ---- */

struct gain {
    const char *name;
    double least, most; /* published */
    double off;         /* points that the model is beside that */
    uint32_t ranks;
    double batch, accept;
    enum weir__placement placement; /* against one stream; ONE: of drafting against none */
    bool prefill;
};

/* arXiv 2506.12708; prompts of 4 Ki tokens. Those of drafting are given for all batches at once. */
static const struct gain gains[] = {
    {"two microbatches, decode, 128 a card", 6.9, 6.9, 7, 320, 64, 0.7, TWO, false},
    {"two microbatches, decode, 96 a card", 9.4, 9.4, 3, 320, 48, 0.7, TWO, false},
    {"two microbatches, decode, 64 a card", 5.8, 5.8, 2, 320, 32, 0.7, TWO, false},
    {"two microbatches, prefill, EP32", 23, 31, 2, 32, 2, 0, TWO, true},
    {"drafting, decode, 96 a card, two microbatches", 6, 49, 0, 320, 48, 0.7, ONE, false},
    {"drafting, decode, 8 a card", 6, 49, 0, 320, 4, 0.7, ONE, false},
};

static double step_us(weir_device *dev, const struct gain *g, enum weir__placement placement,
                      double accept)
{
    struct weir__deploy d = deploy(g->ranks, g->batch, placement);
    struct weir__llm m = deepseek();
    double us;

    d.prompt = 4096;
    d.output = 256;
    d.accept = accept;
    d.spread = g->prefill;
    CHECK_OK(weir__estimate_time_step(dev, &m, &d, g->prefill, &us));
    return us / (1 + accept);
}

TEST(figures, every_published_gain_has_its_sign)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(A3, &dev));
    for (size_t i = 0; i < sizeof gains / sizeof *gains; i++) {
        const struct gain *g = &gains[i];
        enum weir__placement large = g->batch > 4 ? TWO : ONE;
        double gain = g->placement == TWO
                          ? step_us(dev, g, ONE, g->accept) / step_us(dev, g, TWO, g->accept)
                          : step_us(dev, g, large, 0) / step_us(dev, g, large, g->accept);

        gain = 100 * (gain - 1);
        test_note("%s: %.1f %%, published %g to %g %%", g->name, gain, g->least, g->most);
        if (getenv("WEIR_FIGURES"))
            printf("| gain of %s | %g to %g %% | %.1f %% |\n", g->name, g->least, g->most, gain);
        CHECK(gain > 0);
        CHECK(gain >= g->least - g->off && gain <= g->most + g->off);
    }
    CHECK_OK(weir_device_close(dev));
}

/* Attention has 16 + 32 cores and experts the rest in arXiv 2506.12708. */
TEST(figures, the_best_share_of_the_cores_is_the_published_one)
{
    struct weir__deploy d = deploy(320, 48, TWO);
    struct weir__llm m = deepseek();
    weir_device *dev;

    d.prompt = 4096;
    d.accept = 0.7;
    CHECK_OK(weir_device_open(A3, &dev));
    CHECK_OK(weir__deploy_complete(dev, &m, &d));
    CHECK_EQ(d.cube, 16);
    CHECK_EQ(d.vector, 32);
    CHECK_OK(weir_device_close(dev));
}
