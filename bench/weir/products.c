/* Matrix products and attention; b->work gives the type and the size (bench/products.h). */
#include "bench/products.h"
#include "bench/weir/works.h"

struct product {
    const struct bench *b;
    struct bench_product what;
    weir_stream *stream;
    weir_dtype dtype;
    weir_tensor *in[3], *out;
};

static void open_product(struct product *p, const struct bench *b)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_BF16, WEIR_F16};

    *p = (struct product){.b = b, .what = bench_product_of(b->work), .dtype = WEIR_DTYPE_COUNT};
    p->stream = weir_stream_default(weir__bench_open(b, b->threads));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(p->what.type, weir_dtype_name(types[i])))
            p->dtype = types[i];
}

static weir_tensor *make_tensor(const struct product *p, int ndim, const int64_t *shape)
{
    weir_tensor *x;

    weir__bench_must(p->b, weir_tensor_empty(p->stream, p->dtype, ndim, shape, &x));
    weir__bench_must(p->b, weir_random_uniform(x, 1, -1, 1));
    return x;
}

static double matmul_once(void *ctx)
{
    const struct product *p = ctx;
    double start = bench_now_ns();

    weir__bench_must(p->b, weir_matmul_into(p->in[0], p->in[1], p->out));
    weir__bench_must(p->b, weir_stream_sync(p->stream));
    return p->what.amount / (bench_now_ns() - start);
}

static double attention_once(void *ctx)
{
    const struct product *p = ctx;
    double start = bench_now_ns();
    weir_tensor *out;

    weir__bench_must(p->b, weir_attention(p->in[0], p->in[1], p->in[2], NULL, NULL, &out));
    weir_tensor_release(out);
    weir__bench_must(p->b, weir_stream_sync(p->stream));
    return p->what.amount / (bench_now_ns() - start);
}

/* A product with a square matrix; matvec has one row. */
void weir__bench_product(struct bench *b)
{
    struct product p;

    open_product(&p, b);

    int64_t square[2] = {p.what.size, p.what.size};
    int64_t rows[2] = {strcmp(p.what.op, "matvec") ? p.what.size : 1, p.what.size};

    p.in[0] = make_tensor(&p, 2, rows);
    p.in[1] = make_tensor(&p, 2, square);
    p.out = make_tensor(&p, 2, rows);
    weir__bench_must(b, weir_stream_sync(p.stream));
    bench_product_sample(b, "weir", &p.what, matmul_once, &p);
}

void weir__bench_attention(struct bench *b)
{
    struct product p;

    open_product(&p, b);

    int64_t shape[4] = {1, BENCH_HEADS, p.what.size, BENCH_HEAD};

    for (int i = 0; i < 3; i++)
        p.in[i] = make_tensor(&p, 4, shape);
    weir__bench_must(b, weir_stream_sync(p.stream));
    bench_product_sample(b, "weir", &p.what, attention_once, &p);
}
