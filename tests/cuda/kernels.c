/* Which kernel source a call uses, and with how many launches: conformance cannot see this. */
#include "gpu.h"

enum text {
    ATTENTION,
    ATTENTION_TILES,
    ATTENTION_FEW,
    ATTENTION_WIDE,
    CONV,
    CONV_TILES,
    CONV_REAL,
    SORT,
    TEXTS
};

static int launches[TEXTS]; /* written while the host waits */

#define COUNT(text)                                                         \
    static int count_##text(void *args, struct weir__code_context *context) \
    {                                                                       \
        (void)args;                                                         \
        (void)context;                                                      \
        __atomic_fetch_add(&launches[text], 1, __ATOMIC_RELAXED);           \
        return 0;                                                           \
    }
COUNT(ATTENTION)
COUNT(ATTENTION_TILES)
COUNT(ATTENTION_FEW)
COUNT(ATTENTION_WIDE)
COUNT(CONV)
COUNT(CONV_TILES)
COUNT(CONV_REAL)
COUNT(SORT)

static weir_device *open_counting(void)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev;

    fake->replace("attention", count_ATTENTION);
    fake->replace("attention_tiles", count_ATTENTION_TILES);
    fake->replace("attention_few", count_ATTENTION_FEW);
    fake->replace("attention_wide", count_ATTENTION_WIDE);
    fake->replace("conv", count_CONV);
    fake->replace("conv_tiles", count_CONV_TILES);
    fake->replace("conv_real", count_CONV_REAL);
    fake->replace("sort", count_SORT);
    CHECK_OK(weir_device_open("cuda:0", &dev));
    return dev;
}

/* All launches since the last call are those `n` of `text`. */
static void check_launches(weir_device *dev, enum text text, int n)
{
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < TEXTS; i++) {
        CHECK_EQ(launches[i], i == (int)text ? n : 0);
        launches[i] = 0;
    }
}

static weir_tensor *empty(weir_device *dev, weir_dtype dtype, int ndim, const int64_t *shape)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), dtype, ndim, shape, &t));
    return t;
}

struct attention {
    weir_dtype dtype;
    int64_t heads, lq, lk, d;
    double scale;
    enum text text;
    int launches;
};

static void check_attention(weir_device *dev, const struct attention *c)
{
    const weir_attention_options options = {.scale = c->scale};
    weir_tensor *q = empty(dev, c->dtype, 3, (int64_t[]){c->heads, c->lq, c->d});
    weir_tensor *k = empty(dev, c->dtype, 3, (int64_t[]){1, c->lk, c->d}), *out;

    CHECK_OK(weir_attention(q, k, k, NULL, &options, &out));
    check_launches(dev, c->text, c->launches);
    weir_tensor_release(q);
    weir_tensor_release(k);
    weir_tensor_release(out);
}

TEST(cuda_kernels, attention_takes_tensor_cores_where_types_and_rows_allow)
{
    static const struct attention cases[] = {
        {WEIR_F16, 2, 200, 300, 128, 0, ATTENTION_TILES, 1},
        {WEIR_BF16, 1, 65, 10, 8, 0, ATTENTION_TILES, 1},
        {WEIR_F16, 8, 1, 4096, 128, 0, ATTENTION_FEW, 1}, /* in parts, and those together */
        {WEIR_F16, 8, 1, 300, 128, 0, ATTENTION_FEW, 1},
        {WEIR_F32, 2, 200, 300, 128, 0, ATTENTION_WIDE, 1},
        {WEIR_F32, 8, 1, 4096, 256, 0, ATTENTION_WIDE, 1},
        {WEIR_F32, 2, 200, 300, 264, 0, ATTENTION, 1}, /* longer than they hold */
        {WEIR_F32, 2, 200, 300, 101, 0, ATTENTION, 1}, /* not in whole 16 bytes */
        {WEIR_F64, 2, 200, 300, 128, 0, ATTENTION, 1},
        {WEIR_F16, 2, 200, 300, 192, 0, ATTENTION_TILES, 1},
        {WEIR_F16, 8, 1, 4096, 256, 0, ATTENTION_FEW, 1},
        {WEIR_F16, 2, 200, 300, 264, 0, ATTENTION, 1},  /* longer than they hold */
        {WEIR_F16, 2, 200, 300, 100, 0, ATTENTION, 1},  /* not in whole 16 bytes */
        {WEIR_F16, 2, 200, 300, 128, -1, ATTENTION, 1}, /* maxima would be minima */
        {WEIR_F16, 8, 1, 4096, 100, 0, ATTENTION, 1},   /* scratch memory, and no use for it */
    };
    weir_device *dev = open_counting();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_note("case %zu", i);
        check_attention(dev, &cases[i]);
    }
    CHECK_OK(weir_device_close(dev));
}

/* Calls of the driver's that describe tiles to fetch, since the last `watch`. */
static int count_maps(const struct fake_control *fake)
{
    const char *name;
    int maps = 0;

    for (uint64_t n = 1; (name = fake->watched(n)); n++)
        maps += !strcmp(name, "cuTensorMapEncodeTiled");
    return maps;
}

/* The GPU fetches tiles by itself, of any stack of matrices but of rows that are all the same. */
TEST(cuda_kernels, tiles_are_fetched_of_stacks_with_any_strides)
{
    weir_device *dev = open_counting();
    const struct fake_control *fake = use_fake();
    weir_tensor *x = empty(dev, WEIR_F16, 4, (int64_t[]){3, 100, 2, 64}), *turned, *row, *wide,
                *out;

    CHECK_OK(weir_tensor_permute(x, (int[]){0, 2, 1, 3}, &turned)); /* heads within rows */
    fake->watch();
    CHECK_OK(weir_attention(turned, turned, turned, NULL, NULL, &out));
    check_launches(dev, ATTENTION_TILES, 1);
    CHECK_EQ(count_maps(fake), 3);
    weir_tensor_release(out);
    CHECK_OK(weir_tensor_slice(turned, 2, 0, 1, 1, &row));
    CHECK_OK(weir_tensor_expand(row, 4, (int64_t[]){3, 2, 70, 64}, &wide));
    fake->watch();
    CHECK_OK(weir_attention(turned, wide, wide, NULL, NULL, &out));
    check_launches(dev, ATTENTION_TILES, 1);
    CHECK_EQ(count_maps(fake), 0);
    weir_tensor_release(out);
    weir_tensor_release(wide);
    weir_tensor_release(row);
    weir_tensor_release(turned);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

/* The driver may refuse to describe one of them: that call alone fails, and says why. */
TEST(cuda_kernels, a_refused_description_of_tiles_is_an_error_of_the_call)
{
    weir_device *dev = open_counting();
    const struct fake_control *fake = use_fake();
    weir_tensor *x = empty(dev, WEIR_F16, 3, (int64_t[]){2, 100, 64}), *out;
    uint64_t at = 1;

    CHECK_OK(weir_attention(x, x, x, NULL, NULL, &out)); /* compiled, and loaded */
    weir_tensor_release(out);
    check_launches(dev, ATTENTION_TILES, 1);
    fake->watch();
    CHECK_OK(weir_attention(x, x, x, NULL, NULL, &out));
    weir_tensor_release(out);
    check_launches(dev, ATTENTION_TILES, 1);
    while (fake->watched(at) && strcmp(fake->watched(at), "cuTensorMapEncodeTiled"))
        at++;
    CHECK(fake->watched(at));
    fake->fail_call(at + 1, 1); /* the second of three */
    CHECK_STATUS(weir_attention(x, x, x, NULL, NULL, &out), WEIR_EDRIVER);
    CHECK_STR(weir_last_error(), "tiles of an operand");
    fake->fail_call(0, 0);
    CHECK_OK(weir_attention(x, x, x, NULL, NULL, &out));
    weir_tensor_release(out);
    check_launches(dev, ATTENTION_TILES, 1);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

/* Rows that begin between multiples of 16 bytes. */
TEST(cuda_kernels, attention_of_unaligned_views_uses_the_plain_kernel)
{
    weir_device *dev = open_counting();
    weir_tensor *all = empty(dev, WEIR_F16, 3, (int64_t[]){1, 100, 72}), *view, *out;

    CHECK_OK(weir_tensor_slice(all, 2, 8, 72, 1, &view));
    CHECK_OK(weir_attention(view, view, view, NULL, NULL, &out));
    check_launches(dev, ATTENTION_TILES, 1);
    weir_tensor_release(view);
    weir_tensor_release(out);
    CHECK_OK(weir_tensor_slice(all, 2, 4, 68, 1, &view));
    CHECK_OK(weir_attention(view, view, view, NULL, NULL, &out));
    check_launches(dev, ATTENTION, 1);
    weir_tensor_release(view);
    weir_tensor_release(out);
    weir_tensor_release(all);
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_kernels, convolution_takes_tensor_cores_where_a_group_has_outputs_for_them)
{
    static const struct {
        weir_dtype dtype;
        int64_t channels, outputs, groups;
        enum text text;
        int launches;
    } cases[] = {
        {WEIR_F16, 64, 64, 1, CONV_TILES, 2}, /* the weight first */
        {WEIR_BF16, 3, 8, 1, CONV_TILES, 2},  {WEIR_F16, 32, 32, 32, CONV, 1},
        {WEIR_F32, 64, 64, 1, CONV_REAL, 2},  {WEIR_F64, 3, 9, 1, CONV_REAL, 2},
        {WEIR_F32, 32, 32, 32, CONV, 1},
    };
    weir_device *dev = open_counting();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const weir_conv2d_options options = {.groups = cases[i].groups};
        weir_tensor *x = empty(dev, cases[i].dtype, 4, (int64_t[]){2, cases[i].channels, 9, 9});
        weir_tensor *w =
            empty(dev, cases[i].dtype, 4,
                  (int64_t[]){cases[i].outputs, cases[i].channels / cases[i].groups, 3, 3});
        weir_tensor *out;

        test_note("case %zu", i);
        CHECK_OK(weir_conv2d(x, w, NULL, &options, &out));
        check_launches(dev, cases[i].text, cases[i].launches);
        weir_tensor_release(x);
        weir_tensor_release(w);
        weir_tensor_release(out);
    }
    CHECK_OK(weir_device_close(dev));
}

/* Three launches for each byte of an element. */
TEST(cuda_kernels, long_rows_are_sorted_a_byte_at_a_time)
{
    static const struct {
        weir_dtype dtype;
        int64_t n;
        int launches;
    } cases[] = {{WEIR_F32, 2048, 1}, {WEIR_F32, 2049, 12}, {WEIR_F16, 5000, 6},
                 {WEIR_U8, 5000, 3},  {WEIR_I64, 5000, 24}, {WEIR_F32, 0, 0}};
    weir_device *dev = open_counting();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_tensor *x = empty(dev, cases[i].dtype, 2, (int64_t[]){3, cases[i].n}), *out;

        test_note("case %zu", i);
        CHECK_OK(weir_argsort(x, 1, false, &out));
        check_launches(dev, SORT, cases[i].launches);
        weir_tensor_release(x);
        weir_tensor_release(out);
    }
    CHECK_OK(weir_device_close(dev));
}
