/* Operators that work in tiles, across their tiles' edges, against some of the results in double
 * precision. */
#include "conformance/conformance.h"

#include <math.h>
#include <stdlib.h>

enum { EVERY = TEST_SLOWDOWN > 1 ? 2 : 1 }; /* every so many-th type is tried */

static weir_tensor *noise(weir_device *dev, weir_dtype dtype, int ndim, const int64_t *shape,
                          uint64_t seed)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), dtype, ndim, shape, &t));
    CHECK_OK(weir_random_normal(t, seed, 0, 1));
    return t;
}

/* ---- attention ---- */

/* ONE_KEY: all keys are one in memory, which the GPU does not fetch whole tiles of. HIDDEN: the
 * mask hides all keys but the second hundred of every four, from all rows alike. */
enum mask { NO_MASK = 0, BOOL_MASK = 1, ADDED_MASK = 2, ONE_KEY = 4, HIDDEN = 8, ROWS_FIRST = 16 };

struct attention {
    int64_t batch, heads, key_heads, lq, lk, d, dv;
    bool causal;
    unsigned mask;
};

/* One row of the result: its weighted values, and for each what they would be without signs. */
static void attend(const struct attention *c, const struct array *q, const struct array *k,
                   const struct array *v, const struct array *mask, int64_t row, double *out,
                   double *reach)
{
    int64_t head = row / c->lq, own = row % c->lq, batch = head / c->heads;
    int64_t at = batch * c->key_heads + head % c->heads / (c->heads / c->key_heads);
    double *score = malloc((size_t)c->lk * sizeof *score), top = -INFINITY, total = 0;

    CHECK(score);
    for (int64_t j = 0; j < c->lk; j++) {
        double dot = 0;

        for (int64_t i = 0; i < c->d; i++)
            dot += q->at[row * c->d + i] * k->at[(at * c->lk + j) * c->d + i];
        score[j] = dot / sqrt((double)c->d);
        if (c->mask & ADDED_MASK)
            score[j] += mask->at[own * c->lk + j];
        if (((c->mask & BOOL_MASK) && mask->at[own * c->lk + j] == 0) ||
            (c->causal && j > own + c->lk - c->lq))
            score[j] = -INFINITY;
        top = fmax(top, score[j]);
    }
    memset(out, 0, (size_t)c->dv * sizeof *out);
    memset(reach, 0, (size_t)c->dv * sizeof *reach);
    for (int64_t j = 0; j < c->lk && top > -INFINITY; j++)
        total += exp(score[j] - top);
    for (int64_t j = 0; j < c->lk && top > -INFINITY; j++)
        for (int64_t i = 0; i < c->dv; i++) {
            double term = exp(score[j] - top) / total * v->at[(at * c->lk + j) * c->dv + i];

            out[i] += term;
            reach[i] += fabs(term);
        }
    free(score);
}

static void hide(const struct attention *c, weir_tensor *mask)
{
    for (int64_t first = 0; first < c->lk; first += 100)
        if (first / 100 % 4 != 1) {
            int64_t end = first + 100 < c->lk ? first + 100 : c->lk;
            weir_tensor *part;

            CHECK_OK(weir_tensor_slice(mask, 1, first, end, 1, &part));
            CHECK_OK(weir_fill(part, -INFINITY));
            weir_tensor_release(part);
        }
}

static weir_tensor *make_mask(weir_device *dev, const struct attention *c, weir_dtype dtype)
{
    const int64_t shape[] = {c->lq, c->lk};
    weir_tensor *t, *some;

    if (!(c->mask & (BOOL_MASK | ADDED_MASK)))
        return NULL;
    t = noise(dev, dtype, 2, shape, 4);
    if (c->mask & HIDDEN)
        hide(c, t);
    if (c->mask & ADDED_MASK)
        return t;
    CHECK_OK(weir_gt_scalar(t, -0.5, &some));
    weir_tensor_release(t);
    return some;
}

static void check_attention(weir_device *dev, const struct attention *c, weir_dtype dtype)
{
    const double unit = dtype == WEIR_F32 ? 0x1p-17 : dtype == WEIR_F16 ? 0x1p-10 : 0x1p-7;
    const weir_attention_options options = {.causal = c->causal,
                                            .rows_first = c->mask & ROWS_FIRST};
    const int64_t rows = c->batch * c->heads * c->lq;
    const int64_t every = rows > 4096 ? 131 : c->lq > 16 ? 13 : 1; /* so many-th row is tried */
    weir_tensor *in[3], *mask = make_mask(dev, c, dtype), *out;
    struct array a[3], m = {.at = NULL}, got;
    double want[256], reach[256];
    weir_tensor *key;

    in[0] = noise(dev, dtype, 4, (int64_t[]){c->batch, c->heads, c->lq, c->d}, 1);
    in[1] = noise(dev, dtype, 4, (int64_t[]){c->batch, c->key_heads, c->lk, c->d}, 2);
    in[2] = noise(dev, dtype, 4, (int64_t[]){c->batch, c->key_heads, c->lk, c->dv}, 3);
    if (c->mask & ONE_KEY) {
        CHECK_OK(weir_tensor_slice(in[1], 2, 0, 1, 1, &key));
        weir_tensor_release(in[1]);
        CHECK_OK(
            weir_tensor_expand(key, 4, (int64_t[]){c->batch, c->key_heads, c->lk, c->d}, &in[1]));
        weir_tensor_release(key);
    }
    CHECK_OK(weir_attention(in[0], in[1], in[2], mask, &options, &out));
    if (options.rows_first) {
        weir_tensor *made = out;

        CHECK_OK(weir_tensor_transpose(made, 1, 2, &out));
        weir_tensor_release(made);
    }
    for (int i = 0; i < 3; i++)
        download(in[i], &a[i]);
    if (mask)
        download(mask, &m);
    download(out, &got);
    for (int64_t row = 0; row < rows; row += every) {
        attend(c, &a[0], &a[1], &a[2], &m, row, want, reach);
        for (int64_t i = 0; i < c->dv; i++)
            if (!(fabs(got.at[row * c->dv + i] - want[i]) <= unit * (fabs(want[i]) + reach[i])))
                FAIL("column %lld of row %lld is %g, not %g", (long long)i, (long long)row,
                     got.at[row * c->dv + i], want[i]);
    }
    for (int i = 0; i < 3; i++) {
        array_free(&a[i]);
        weir_tensor_release(in[i]);
    }
    array_free(&m);
    array_free(&got);
    weir_tensor_release(mask);
    weir_tensor_release(out);
}

/* On the fake GPU, which takes seconds for some, each case has one of the types. */
static bool left_out(weir_device *dev, size_t at, size_t type)
{
    return EVERY == 1 && is_fake(dev) && type % 2 != at % 2;
}

static void check_attentions(weir_device *dev, const struct attention *cases, size_t n)
{
    static const weir_dtype types[] = {WEIR_F16, WEIR_BF16};

    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < countof(types); t += EVERY) {
            if (left_out(dev, i, t))
                continue;
            test_note("case %zu, %s", i, weir_dtype_name(types[t]));
            check_attention(dev, &cases[i], types[t]);
        }
}

CONFORMANCE(tiles, attention_of_many_queries)
{
    static const struct attention cases[] = {
        {1, 2, 1, 130, 257, 128, 128, true, NO_MASK},
        {1, 1, 1, 128, 128, 64, 64, true, NO_MASK},
        {2, 2, 2, 100, 130, 64, 128, false, ROWS_FIRST},
        {1, 2, 1, 129, 200, 80, 40, false, BOOL_MASK | ROWS_FIRST},
        {1, 2, 2, 90, 140, 128, 64, true, ADDED_MASK},
        {1, 1, 1, 200, 70, 64, 64, true, NO_MASK}, /* the first queries see no key */
        /* more tiles of rows than a GPU has cores */
        {1, 151, 151, 130, 140, 16, 8, true, NO_MASK},
        {1, 151, 1, 192, 130, 32, 8, false, NO_MASK},
    };

    check_attentions(dev, cases, countof(cases));
}

CONFORMANCE(tiles, attention_of_many_queries_with_long_heads)
{
    static const struct attention cases[] = {
        {1, 2, 2, 130, 200, 192, 128, true, NO_MASK},
        {1, 2, 1, 150, 150, 256, 256, true, NO_MASK},
        {1, 2, 1, 70, 130, 136, 200, false, BOOL_MASK},
        {1, 1, 1, 100, 70, 64, 192, false, ADDED_MASK},
        {1, 2, 1, 70, 130, 192, 128, true, ONE_KEY},
        {1, 1, 1, 90, 90, 256, 256, false, ONE_KEY},
    };

    check_attentions(dev, cases, countof(cases));
}

CONFORMANCE(tiles, attention_of_many_queries_with_masks_in_whole_16_bytes)
{
    static const struct attention cases[] = {
        {1, 2, 1, 130, 336, 64, 64, true, BOOL_MASK},
        {1, 2, 2, 130, 272, 128, 128, false, ADDED_MASK},
        {1, 1, 1, 70, 208, 256, 256, true, ADDED_MASK},
        {1, 1, 1, 70, 208, 192, 256, false, BOOL_MASK},
        {1, 1, 1, 80, 144, 64, 128, true, BOOL_MASK | ONE_KEY},
        {1, 1, 1, 80, 144, 64, 64, false, ADDED_MASK | ONE_KEY},
        {1, 1, 1, 80, 144, 192, 128, false, ADDED_MASK | ONE_KEY},
    };

    check_attentions(dev, cases, countof(cases));
}

CONFORMANCE(tiles, attention_of_few_queries_with_long_heads)
{
    static const struct attention cases[] = {
        {2, 4, 4, 1, 900, 192, 128, false, NO_MASK},
        {1, 4, 1, 2, 700, 256, 256, true, BOOL_MASK},
        {1, 2, 1, 1, 40, 136, 232, false, ADDED_MASK},
    };

    check_attentions(dev, cases, countof(cases));
}

CONFORMANCE(tiles, attention_of_few_queries)
{
    static const struct attention cases[] = {
        {1, 4, 2, 1, 1500, 128, 128, false, NO_MASK},
        {2, 4, 1, 3, 530, 64, 32, true, ROWS_FIRST},
        {1, 2, 2, 1, 1, 128, 128, false, NO_MASK},
        {1, 2, 1, 20, 700, 72, 128, true, BOOL_MASK | ROWS_FIRST},
        {1, 2, 1, 5, 1100, 64, 64, false, ADDED_MASK},
        {1, 1, 1, 9, 4, 16, 16, true, NO_MASK},
    };

    check_attentions(dev, cases, countof(cases));
}

CONFORMANCE(tiles, attention_of_one_query_of_many_sequences)
{
    static const struct attention cases[] = {
        {8, 16, 16, 1, 128, 128, 128, false, BOOL_MASK | HIDDEN},
        {9, 16, 16, 1, 40, 64, 64, false, ADDED_MASK}, /* more than a GPU has cores */
        {5, 64, 32, 1, 70, 32, 64, false, BOOL_MASK},
        {1, 8, 8, 1, 2200, 64, 64, false, NO_MASK}, /* in many parts */
    };

    check_attentions(dev, cases, countof(cases));
}

CONFORMANCE(tiles, attention_of_few_queries_to_a_cache_that_is_mostly_hidden)
{
    static const struct attention cases[] = {
        {2, 4, 2, 1, 1500, 128, 128, false, BOOL_MASK | HIDDEN},
        {2, 4, 4, 1, 1100, 64, 64, false, ADDED_MASK | HIDDEN},
        {1, 2, 1, 3, 530, 64, 64, false, ADDED_MASK | HIDDEN}, /* rows with masks of their own */
        {1, 4, 4, 1, 90, 64, 64, false, BOOL_MASK | HIDDEN},   /* no key is seen */
        {1, 2, 2, 1, 4500, 192, 128, true, BOOL_MASK | HIDDEN},
    };

    check_attentions(dev, cases, countof(cases));
}

CONFORMANCE(tiles, attention_of_f32_keeps_its_precision)
{
    static const struct attention cases[] = {
        {1, 2, 2, 70, 70, 64, 64, true, ROWS_FIRST},
        {1, 4, 2, 33, 50, 24, 40, false, BOOL_MASK},
        {1, 2, 1, 40, 65, 128, 128, true, ADDED_MASK},
        {2, 4, 1, 1, 150, 128, 128, false, NO_MASK},
        {1, 8, 2, 1, 70, 64, 64, false, ADDED_MASK | HIDDEN},
        {1, 2, 2, 20, 20, 256, 256, true, NO_MASK},
        {1, 1, 1, 66, 40, 192, 128, true, NO_MASK}, /* the first rows see nothing */
        {2, 6, 2, 7, 45, 68, 36, true, BOOL_MASK | ROWS_FIRST},
        {1, 3, 3, 150, 210, 128, 128, true, NO_MASK}, /* several tiles of rows and of keys */
        {1, 2, 1, 70, 150, 256, 256, true, NO_MASK},
        {1, 2, 2, 40, 30, 32, 256, false, NO_MASK}, /* sums take more memory than tiles */
    };

    for (size_t i = 0; i < countof(cases); i++) {
        test_note("case %zu", i);
        check_attention(dev, &cases[i], WEIR_F32);
    }
}

/* ---- convolution ---- */

struct conv {
    int64_t images, channels, h, w, outputs, kernel[2], stride, padding, dilation, groups;
};

static double convolve(const struct conv *c, const struct array *x, const struct array *weight,
                       const int64_t *at, double *reach)
{
    int64_t group = at[1] / (c->outputs / c->groups), channels = c->channels / c->groups;
    double sum = 0;

    *reach = 0;
    for (int64_t ch = 0; ch < channels; ch++)
        for (int64_t i = 0; i < c->kernel[0]; i++)
            for (int64_t j = 0; j < c->kernel[1]; j++) {
                int64_t row = at[2] * c->stride - c->padding + i * c->dilation;
                int64_t column = at[3] * c->stride - c->padding + j * c->dilation;
                double term;

                if (row < 0 || row >= c->h || column < 0 || column >= c->w)
                    continue;
                term = x->at[((at[0] * c->channels + group * channels + ch) * c->h + row) * c->w +
                             column] *
                       weight->at[((at[1] * channels + ch) * c->kernel[0] + i) * c->kernel[1] + j];
                sum += term;
                *reach += fabs(term);
            }
    return sum;
}

static void check_conv(weir_device *dev, const struct conv *c, weir_dtype dtype)
{
    const double unit = dtype == WEIR_F16 ? 0x1p-10 : dtype == WEIR_BF16 ? 0x1p-7 : 0x1p-20;
    const weir_conv2d_options options = {
        {c->stride, c->stride}, {c->padding, c->padding}, {c->dilation, c->dilation}, c->groups};
    weir_tensor *in[3], *out;
    struct array a[3], got;
    int64_t index[4] = {0};

    in[0] = noise(dev, dtype, 4, (int64_t[]){c->images, c->channels, c->h, c->w}, 1);
    in[1] = noise(dev, dtype, 4,
                  (int64_t[]){c->outputs, c->channels / c->groups, c->kernel[0], c->kernel[1]}, 2);
    in[2] = noise(dev, dtype, 1, (int64_t[]){c->outputs}, 3);
    CHECK_OK(weir_conv2d(in[0], in[1], in[2], &options, &out));
    for (int i = 0; i < 3; i++)
        download(in[i], &a[i]);
    download(out, &got);
    for (int64_t i = 0; i < array_numel(&got); i++, step_index(4, got.shape, index)) {
        double reach, want;

        if (i % 101 && i + 1 < array_numel(&got))
            continue;
        want = convolve(c, &a[0], &a[1], index, &reach) + a[2].at[index[1]];
        if (!(fabs(got.at[i] - want) <= unit * fabs(want) + 0x1p-20 * (reach + 1)))
            FAIL("[%lld, %lld, %lld, %lld] is %g, not %g", (long long)index[0], (long long)index[1],
                 (long long)index[2], (long long)index[3], got.at[i], want);
    }
    for (int i = 0; i < 3; i++) {
        array_free(&a[i]);
        weir_tensor_release(in[i]);
    }
    array_free(&got);
    weir_tensor_release(out);
}

CONFORMANCE(tiles, convolution)
{
    static const weir_dtype types[] = {WEIR_F16, WEIR_BF16, WEIR_F32, WEIR_F64};
    static const struct conv cases[] = {
        {2, 64, 9, 33, 70, {3, 3}, 1, 1, 1, 1}, {1, 3, 30, 40, 64, {7, 7}, 2, 3, 1, 1},
        {1, 40, 5, 70, 16, {1, 1}, 1, 0, 1, 1}, {3, 32, 11, 13, 32, {3, 2}, 1, 2, 2, 2},
        {1, 20, 8, 130, 9, {2, 5}, 3, 1, 1, 1}, {1, 96, 4, 4, 129, {3, 3}, 1, 1, 1, 1},
    };

    for (size_t i = 0; i < countof(cases); i++)
        for (size_t t = 0; t < countof(types); t += EVERY) {
            if (left_out(dev, i, t))
                continue;
            test_note("case %zu, %s", i, weir_dtype_name(types[t]));
            check_conv(dev, &cases[i], types[t]);
        }
}

/* ---- rows and columns ---- */

/* `got` against what is expected, within `relative` of it or of `reach`. */
static void check_near(double got, double want, double relative, double reach, const char *what,
                       int64_t i)
{
    if (!(fabs(got - want) <= relative * fabs(want) + 0x1p-18 * reach + 1e-7))
        FAIL("%s %lld is %g, not %g", what, (long long)i, got, want);
}

static void check_softmax(weir_tensor *x, const struct array *in, double relative)
{
    int64_t n = in->shape[1];
    struct array got;
    weir_tensor *y;

    CHECK_OK(weir_softmax(x, 1, &y));
    download(y, &got);
    for (int64_t i = 0; i < in->shape[0]; i += 7) {
        double sum = 0;

        for (int64_t j = 0; j < n; j++)
            sum += exp(in->at[i * n + j]);
        for (int64_t j = 0; j < n; j++)
            check_near(got.at[i * n + j], exp(in->at[i * n + j]) / sum, relative, 0, "weight",
                       i * n + j);
    }
    array_free(&got);
    weir_tensor_release(y);
}

/* With the weight as the bias, too, where there is one. */
static void check_norm(weir_tensor *x, weir_tensor *weight, bool centred, const struct array *in,
                       double relative)
{
    int64_t n = in->shape[1];
    struct array got, w;
    weir_tensor *y;

    if (centred)
        CHECK_OK(weir_layer_norm(x, weight, weight, 1e-5, &y));
    else
        CHECK_OK(weir_rms_norm(x, weight, 1e-5, &y));
    download(y, &got);
    download(weight, &w);
    for (int64_t i = 0; i < in->shape[0]; i += 7) {
        double mean = 0, square = 0;

        for (int64_t j = 0; j < n && centred; j++)
            mean += in->at[i * n + j] / (double)n;
        for (int64_t j = 0; j < n; j++)
            square += pow(in->at[i * n + j] - mean, 2) / (double)n;
        for (int64_t j = 0; j < n; j++) {
            double want = (in->at[i * n + j] - mean) / sqrt(square + 1e-5) * w.at[j];

            check_near(got.at[i * n + j], want + (centred ? w.at[j] : 0), relative,
                       fabs(want) + fabs(w.at[j]) + 1, "element", i * n + j);
        }
    }
    array_free(&got);
    array_free(&w);
    weir_tensor_release(y);
}

/* Sums and maxima along dim 0 or 1, and where those are. */
static void check_reductions(weir_tensor *x, const struct array *in, int dim, double relative)
{
    int64_t n = in->shape[dim], step = dim ? 1 : in->shape[1];
    struct array sums, tops, places;
    weir_tensor *y[3];

    CHECK_OK(weir_sum(x, &dim, 1, false, &y[0]));
    CHECK_OK(weir_max(x, &dim, 1, false, &y[1]));
    CHECK_OK(weir_argmax(x, dim, false, &y[2]));
    download(y[0], &sums);
    download(y[1], &tops);
    download(y[2], &places);
    for (int64_t i = 0; i < in->shape[!dim]; i++) {
        const double *row = in->at + (dim ? i * n : i);
        double sum = 0, reach = 0;
        int64_t top = 0;

        for (int64_t j = 0; j < n; j++) {
            sum += row[j * step];
            reach += fabs(row[j * step]);
            top = row[j * step] > row[top * step] ? j : top;
        }
        check_near(sums.at[i], sum, relative, reach, "sum", i);
        CHECK(tops.at[i] == row[top * step]);
        CHECK_EQ((int64_t)places.at[i], top);
    }
    array_free(&sums);
    array_free(&tops);
    array_free(&places);
    for (int i = 0; i < 3; i++)
        weir_tensor_release(y[i]);
}

CONFORMANCE(tiles, rows_and_columns)
{
    static const int64_t shapes[][2] = {{3, 8},     {9, 1000},   {2, 4096},  {1, 32768},
                                        {1, 40000}, {1030, 264}, {200, 520}, {1300, 7}};
    static const weir_dtype types[] = {WEIR_F16, WEIR_F32};

    for (size_t i = 0; i < countof(shapes); i++)
        for (size_t t = 0; t < countof(types); t += EVERY) {
            double relative = types[t] == WEIR_F16 ? 0x1p-10 : 0x1p-18;
            weir_tensor *x, *weight;
            struct array in;

            if (left_out(dev, i, t))
                continue;
            x = noise(dev, types[t], 2, shapes[i], 1);
            weight = noise(dev, types[t], 1, &shapes[i][1], 2);
            test_note("%lld x %lld, %s", (long long)shapes[i][0], (long long)shapes[i][1],
                      weir_dtype_name(types[t]));
            download(x, &in);
            check_softmax(x, &in, relative);
            check_norm(x, weight, true, &in, relative);
            check_norm(x, weight, false, &in, relative);
            check_reductions(x, &in, 0, relative);
            check_reductions(x, &in, 1, relative);
            array_free(&in);
            weir_tensor_release(x);
            weir_tensor_release(weight);
        }
}
