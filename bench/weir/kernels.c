/* Real operators: convolution, addition, and two streams of matmuls side by side. */
#include "bench/weir/works.h"

enum {
    OVERLAP_N = 256,
    OVERLAP_CHAIN = 50,
    ADDS = 100, /* of one sample: the peer's time begins and ends inside its threads, so what it
                 * takes to wake them and to be woken must not count here either */
};

static weir_tensor *make_tensor(const struct bench *b, weir_stream *stream, int ndim,
                                const int64_t *shape)
{
    weir_tensor *x;

    weir__bench_must(b, weir_tensor_empty(stream, WEIR_F32, ndim, shape, &x));
    weir__bench_must(b, weir_random_uniform(x, 1, -1, 1));
    return x;
}

/* ---- two chains of matmuls on two streams against one ---- */

struct chains {
    const struct bench *b;
    weir_device *dev;
    weir_stream *stream[2];
    weir_tensor *a[2], *x[2], *out[2];
};

static double run_chains(const struct chains *c, int streams)
{
    double start = bench_now_ns();
    weir_status st = WEIR_OK;

    for (int i = 0; i < 2 * OVERLAP_CHAIN && !st; i++) {
        int which = i & 1;

        st = weir_stream_set_current(c->stream[streams == 1 ? 0 : which]);
        if (!st)
            st = weir_matmul_into(c->a[which], c->x[which], c->out[which]);
    }
    weir__bench_must(c->b, st);
    weir__bench_must(c->b, weir_device_sync(c->dev));
    return bench_now_ns() - start;
}

static double overlap_once(void *ctx)
{
    double one = run_chains(ctx, 1);

    return one / run_chains(ctx, 2);
}

void weir__bench_overlap(struct bench *b)
{
    static const int64_t shape[2] = {OVERLAP_N, OVERLAP_N};
    struct chains c = {.b = b, .dev = weir__bench_open(b, 2)};

    for (int i = 0; i < 2; i++) {
        c.stream[i] = weir__bench_stream(b, c.dev);
        weir__bench_must(b, weir_stream_set_limit(c.stream[i], (weir_cores){1, 1}));
        weir__bench_must(b, weir_stream_set_current(c.stream[i]));
        c.a[i] = make_tensor(b, c.stream[i], 2, shape);
        c.x[i] = make_tensor(b, c.stream[i], 2, shape);
        c.out[i] = make_tensor(b, c.stream[i], 2, shape);
    }
    weir__bench_must(b, weir_device_sync(c.dev));
    bench_sample(b, "weir", "x", b->quick ? 1 : 3, overlap_once, &c);
}

/* ---- one operator at a time, the host waiting for it ---- */

struct operands {
    const struct bench *b;
    weir_stream *stream;
    weir_tensor *x, *y, *out;
};

/* Both inputs of `shape_x` and `shape_y`; the output is of `shape_x`. */
static struct operands make_operands(const struct bench *b, int ndim, const int64_t *shape_x,
                                     const int64_t *shape_y)
{
    weir_stream *stream = weir_stream_default(weir__bench_open(b, b->threads));
    struct operands o = {.b = b, .stream = stream};

    o.x = make_tensor(b, stream, ndim, shape_x);
    o.y = make_tensor(b, stream, ndim, shape_y);
    o.out = make_tensor(b, stream, ndim, shape_x);
    weir__bench_must(b, weir_stream_sync(stream));
    return o;
}

static double conv2d_once(void *ctx)
{
    static const weir_conv2d_options options = {.padding = {1, 1}};
    const struct operands *o = ctx;
    double start = bench_now_ns();
    weir_tensor *out;

    weir__bench_must(o->b, weir_conv2d(o->x, o->y, NULL, &options, &out));
    weir_tensor_release(out);
    weir__bench_must(o->b, weir_stream_sync(o->stream));
    return 2.0 * 10 * 32 * 32 * 32 * 32 * 9 / (bench_now_ns() - start);
}

void weir__bench_conv2d(struct bench *b)
{
    static const int64_t data[4] = {10, 32, 32, 32}, filter[4] = {32, 32, 3, 3};
    struct operands o = make_operands(b, 4, data, filter);

    bench_sample(b, "weir", "GFLOP/s", 3, conv2d_once, &o);
}

static double add_once(void *ctx)
{
    const struct operands *o = ctx;
    double start = bench_now_ns();

    for (int i = 0; i < ADDS; i++)
        weir__bench_must(o->b, weir_add_into(o->x, o->y, o->out));
    weir__bench_must(o->b, weir_stream_sync(o->stream));
    return ADDS * 3.0 * 4 * 1000 * 1000 / (bench_now_ns() - start);
}

void weir__bench_add(struct bench *b)
{
    static const int64_t shape[2] = {1000, 1000};
    struct operands o = make_operands(b, 2, shape, shape);

    bench_sample(b, "weir", "GB/s", 3, add_once, &o);
}
