/* Convolution on one core against f64: all ways that a problem may take, and any cut. */
#include "kernels/tiles.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/half.h"
#include "harness/test.h"

typedef void conv_kernel(const struct weir__conv *c, const struct weir__conv_part *part,
                         void *local);

static uint64_t state;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static bool chance(int percent)
{
    return below(100) < percent;
}

static double load(const void *from, int64_t at, weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_F16:
        return (double)weir__f16_to_f32(((const uint16_t *)from)[at]);
    case WEIR_BF16:
        return (double)weir__bf16_to_f32(((const uint16_t *)from)[at]);
    case WEIR_F32:
        return (double)((const float *)from)[at];
    default:
        return ((const double *)from)[at];
    }
}

static void *noise(int64_t n, weir_dtype dtype)
{
    void *x = malloc((size_t)weir__max(n, 1) * weir_dtype_size(dtype));

    CHECK(x);
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)(below(4001) - 2000) / 1000;

        if (dtype == WEIR_F16)
            ((uint16_t *)x)[i] = weir__f32_to_f16((float)v);
        else if (dtype == WEIR_BF16)
            ((uint16_t *)x)[i] = weir__f32_to_bf16((float)v);
        else if (dtype == WEIR_F32)
            ((float *)x)[i] = (float)v;
        else
            ((double *)x)[i] = v;
    }
    return x;
}

/* A problem with the sizes of its images and filters; `c` says the rest. */
struct problem {
    struct weir__conv c;
    int64_t images;
};

/* Lays four dims out, the last first or in an order of their own, with a gap here and there. */
static int64_t lay_out(const int64_t *shape, int64_t *step, bool odd)
{
    const int order[2][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}};
    const int *which = order[odd && chance(60)];
    int64_t n = 1;

    for (int i = 0; i < 4; i++) {
        step[which[i]] = n;
        n = shape[which[i]] * n + (odd && chance(20) ? below(4) : 0);
    }
    return n;
}

static void make(struct problem *p, bool odd)
{
    struct weir__conv *c = &p->c;

    for (int i = 0; i < 2; i++) {
        const int64_t kernel = i ? c->kw : c->kh, side = i ? c->w : c->h;
        int64_t *out = i ? &c->ow : &c->oh;

        *out = (side + 2 * c->padding[i] - (kernel - 1) * c->dilation[i] - 1) / c->stride[i] + 1;
    }
    c->x =
        noise(lay_out((int64_t[]){p->images, c->groups * c->channels, c->h, c->w}, c->x_step, odd),
              c->dtype);
    c->weight = noise(lay_out((int64_t[]){c->groups * c->outputs, c->channels, c->kh, c->kw},
                              c->weight_step, odd),
                      c->dtype);
    c->bias_step = 1 + (odd ? below(2) : 0);
    c->bias = chance(70) ? noise(c->groups * c->outputs * 2, c->dtype) : NULL;
}

static int64_t count_results(const struct problem *p)
{
    return p->images * p->c.groups * p->c.outputs * p->c.oh * p->c.ow;
}

static struct problem random_problem(weir_dtype dtype)
{
    struct problem p = {.images = 1 + below(2)};
    struct weir__conv *c = &p.c;
    const bool long_row = chance(20), depthwise = chance(25), points = chance(15);

    c->dtype = dtype;
    c->groups = depthwise ? 1 + below(6) : chance(80) ? 1 : 2 + below(2);
    c->channels = depthwise && chance(80) ? 1 : 1 + below(chance(20) ? 60 : 9);
    c->outputs = depthwise ? 1 : 1 + below(chance(30) ? 70 : 20);
    c->kh = points || long_row ? 1 : 1 + below(chance(20) ? 7 : 3);
    c->kw = points ? 1 : 1 + below(chance(20) ? 12 : 4);
    for (int i = 0; i < 2; i++) {
        c->stride[i] = chance(60) ? 1 : 1 + below(4);
        c->dilation[i] = chance(80) ? 1 : 1 + below(3);
        c->padding[i] = points && chance(50) ? 0 : below(4);
    }
    c->h = long_row ? 1 : (c->kh - 1) * c->dilation[0] + 1 + below(20);
    c->w = (c->kw - 1) * c->dilation[1] + 1 + below(long_row ? 1500 : 40);
    if (long_row)
        c->padding[0] = 0;
    make(&p, chance(40));
    return p;
}

static void let_go(struct problem *p)
{
    free((void *)p->c.x);
    free((void *)p->c.weight);
    free((void *)p->c.bias);
    free(p->c.out);
}

static void check_result(const struct problem *p, const char *by, int64_t at)
{
    const struct weir__conv *c = &p->c;
    const int64_t x = at % c->ow, y = at / c->ow % c->oh, plane = c->oh * c->ow;
    const int64_t o = at / plane % (c->groups * c->outputs),
                  image = at / plane / (c->groups * c->outputs), group = o / c->outputs;
    const double unit = c->dtype == WEIR_F16 ? 0x1p-10 : c->dtype == WEIR_BF16 ? 0x1p-8 : 0x1p-22;
    double sum = c->bias ? load(c->bias, o * c->bias_step, c->dtype) : 0, reach = fabs(sum) + 1e-3;
    const double got = load(c->out, at, c->dtype);

    for (int64_t k = 0; k < c->channels * c->kh * c->kw; k++) {
        const int64_t ch = k / (c->kh * c->kw), ky = k / c->kw % c->kh, kx = k % c->kw;
        const int64_t row = y * c->stride[0] - c->padding[0] + ky * c->dilation[0];
        const int64_t col = x * c->stride[1] - c->padding[1] + kx * c->dilation[1];
        double term;

        if (row < 0 || row >= c->h || col < 0 || col >= c->w)
            continue;
        term = load(c->x,
                    image * c->x_step[0] + (group * c->channels + ch) * c->x_step[1] +
                        row * c->x_step[2] + col * c->x_step[3],
                    c->dtype) *
               load(c->weight,
                    o * c->weight_step[0] + ch * c->weight_step[1] + ky * c->weight_step[2] +
                        kx * c->weight_step[3],
                    c->dtype);
        sum += term;
        reach += fabs(term);
    }
    if (!(fabs(got - sum) <= fabs(sum) * unit + reach * 0x1p-20))
        test_fail(__FILE__, __LINE__,
                  "by %s: output %lld of image %lld, row %lld, column %lld is %g, not %g", by,
                  (long long)o, (long long)image, (long long)y, (long long)x, got, sum);
}

static int64_t step_of(int64_t n)
{
    return chance(40) ? weir__max(n, 1) : 1 + below(weir__max(n, 1));
}

/* Runs the problem in blocks of random sizes. */
static void run_cut(const struct weir__conv *c, int64_t images, conv_kernel *run, void *local)
{
    const int64_t units = images * c->groups, n = c->oh == 1 ? c->ow : c->oh;
    const int64_t du = step_of(units), dout = step_of(c->outputs), dn = step_of(n);

    for (int64_t u = 0; u < units; u += du)
        for (int64_t o = 0; o < c->outputs; o += dout)
            for (int64_t y = 0; y < n; y += dn) {
                const struct weir__conv_part part = {u, weir__min(units, u + du),
                                                     o, weir__min(c->outputs, o + dout),
                                                     y, weir__min(n, y + dn)};

                memset(local, 0xff, WEIR_LOCAL_BYTES / 4); /* NaN */
                run(c, &part, local);
            }
}

/* Whole and in parts: what f64 gives, and the same bits. */
static void check_problem(struct problem *p, conv_kernel *run, const char *by, void *local,
                          int64_t every)
{
    struct weir__conv *c = &p->c;
    const size_t size = (size_t)count_results(p) * weir_dtype_size(c->dtype);
    const int64_t n = c->oh == 1 ? c->ow : c->oh;
    char *whole = malloc(size + 1);

    CHECK(whole);
    free(c->out);
    c->out = malloc(size + 1);
    CHECK(c->out);
    memset(c->out, 0xff, size + 1);
    memset(local, 0xff, WEIR_LOCAL_BYTES);
    run(c, &(struct weir__conv_part){0, p->images * c->groups, 0, c->outputs, 0, n}, local);
    CHECK_EQ((unsigned char)c->out[size], 0xff);
    for (int64_t at = 0; at < count_results(p); at += every)
        check_result(p, by, at);
    memcpy(whole, c->out, size);
    memset(c->out, 0xff, size);
    run_cut(c, p->images, run, local);
    if (memcmp(whole, c->out, size))
        test_fail(__FILE__, __LINE__, "by %s: a cut shows in the bits", by);
    free(whole);
}

static void check_all(struct problem *p, void *local, int64_t every)
{
    if (p->c.dtype == WEIR_F64) {
        check_problem(p, WEIR__ISA_PICK(weir__conv_f64), "f64", local, every);
        return;
    }
    check_problem(p, WEIR__ISA_PICK(weir__conv_f32), "f32", local, every);
    if (!weir__conv_takes_pairs(&p->c))
        return;
    check_problem(p, WEIR__ISA_PICK(weir__conv_bf16), "pairs", local, every);
#if TILES_ARE_BUILT
    check_problem(p, weir__conv_bf16_amx, "tiles", local, 7 * every);
#endif
}

static void note(const struct problem *p)
{
    const struct weir__conv *c = &p->c;

    test_note("%s, %lld x %lld of %lld x %lld, %lld groups of %lld filters of %lld x %lld, stride "
              "%lld %lld, padding %lld %lld, dilation %lld %lld",
              weir_dtype_name(c->dtype), (long long)p->images, (long long)c->channels,
              (long long)c->h, (long long)c->w, (long long)c->groups, (long long)c->outputs,
              (long long)c->kh, (long long)c->kw, (long long)c->stride[0], (long long)c->stride[1],
              (long long)c->padding[0], (long long)c->padding[1], (long long)c->dilation[0],
              (long long)c->dilation[1]);
}

static void *make_local(void)
{
    void *local = aligned_alloc(64, WEIR_LOCAL_BYTES);

    CHECK(local);
    return local;
}

TEST(conv, random_convolutions_agree_with_f64_whole_and_split)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_BF16, WEIR_F16, WEIR_F64};
    const char *given = getenv("CONV_PROBLEMS"); /* for a longer run by hand */
    const uint64_t problems = given ? strtoull(given, NULL, 10) : 160 / TEST_SLOWDOWN_ALONE + 20;
    void *local = make_local();

    for (uint64_t seed = 1; seed <= problems; seed++) {
        struct problem p;

        state = seed * 1000003;
        p = random_problem(types[seed % weir__countof(types)]);
        note(&p);
        if (p.c.oh > 0 && p.c.ow > 0)
            check_all(&p, local, 1 + below(5));
        let_go(&p);
    }
    free(local);
}

/* As many groups of one filter as are computed at once, and some more or fewer. */
static struct problem depthwise_problem(weir_dtype dtype)
{
    struct problem p = {.images = 1 + below(3)};
    struct weir__conv *c = &p.c;

    *c = (struct weir__conv){.dtype = dtype, .groups = 4 + below(40), .channels = 1, .outputs = 1};
    c->kh = chance(10) ? 11 : 1 + below(7);
    c->kw = chance(10) ? 12 : 1 + below(7);
    for (int i = 0; i < 2; i++) {
        c->stride[i] = chance(50) ? 1 : 1 + below(3);
        c->dilation[i] = chance(80) ? 1 : 1 + below(3);
        c->padding[i] = chance(80) ? below(4) : below(30);
    }
    c->h = (c->kh - 1) * c->dilation[0] + 1 + below(chance(10) ? 120 : 20);
    c->w = (c->kw - 1) * c->dilation[1] + 1 + below(chance(10) ? 300 : 40);
    make(&p, chance(20));
    return p;
}

TEST(conv, one_filter_a_group_is_that_of_f64_whole_and_in_parts)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_BF16, WEIR_F16};
    const char *given = getenv("CONV_PROBLEMS");
    const uint64_t problems = given ? strtoull(given, NULL, 10) : 120 / TEST_SLOWDOWN_ALONE + 20;
    void *local = make_local();

    for (uint64_t seed = 1; seed <= problems; seed++) {
        struct problem p;

        state = seed * 1000033;
        p = depthwise_problem(types[seed % weir__countof(types)]);
        note(&p);
        check_all(&p, local, 1 + below(17));
        let_go(&p);
    }
    free(local);
}

/* Images of which not even a few columns have room, filters of more taps than are written down, and
 * rows longer than a strip. */
TEST(conv, sizes_at_the_limits_are_computed)
{
    static const struct weir__conv sizes[] = {
        {.groups = 1,
         .channels = 4500,
         .outputs = 9,
         .h = 3,
         .w = 12,
         .kh = 3,
         .kw = 3,
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.groups = 1,
         .channels = 70000,
         .outputs = 8,
         .h = 1,
         .w = 9,
         .kh = 1,
         .kw = 1,
         .stride = {1, 1},
         .padding = {0, 1},
         .dilation = {1, 1}},
        {.groups = 1,
         .channels = 512,
         .outputs = 40,
         .h = 1,
         .w = 1301,
         .kh = 1,
         .kw = 3,
         .stride = {1, 2},
         .padding = {0, 1},
         .dilation = {1, 1}},
        {.groups = 1,
         .channels = 3,
         .outputs = 33,
         .h = 4,
         .w = 2100,
         .kh = 3,
         .kw = 3,
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.groups = 2,
         .channels = 1,
         .outputs = 1,
         .h = 12,
         .w = 30,
         .kh = 11,
         .kw = 11,
         .stride = {1, 1},
         .padding = {5, 5},
         .dilation = {1, 1}},
        /* long images of which one column is read, and a column of many rows */
        {.groups = 16,
         .channels = 1,
         .outputs = 1,
         .h = 40,
         .w = 4000,
         .kh = 2,
         .kw = 3,
         .stride = {1, 4000},
         .padding = {0, 0},
         .dilation = {1, 1}},
        {.groups = 17,
         .channels = 1,
         .outputs = 1,
         .h = 9000,
         .w = 1,
         .kh = 3,
         .kw = 1,
         .stride = {2, 1},
         .padding = {1, 0},
         .dilation = {1, 1}},
        {.groups = 1,
         .channels = 1,
         .outputs = 8,
         .h = 40,
         .w = 40,
         .kh = 2,
         .kw = 2,
         .stride = {30, 30},
         .padding = {0, 0},
         .dilation = {3, 3}},
        {.groups = 1,
         .channels = 0,
         .outputs = 9,
         .h = 4,
         .w = 4,
         .kh = 2,
         .kw = 2,
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
    };
    void *local = make_local();

    for (size_t i = 0; i < weir__countof(sizes); i++)
        for (int t = 0; t < 2; t++) {
            struct problem p = {.images = 1, .c = sizes[i]};

            state = i + 1;
            p.c.dtype = t ? WEIR_BF16 : WEIR_F32;
            make(&p, false);
            note(&p);
            check_all(&p, local, 31);
            let_go(&p);
        }
    free(local);
}
