/* streams=auto against one stream, on graphs of every kind: it must not be slower. */
#include "bench/weir/works.h"

enum { RUNS = 20, MAX_WIDTH = 8 };

struct race {
    const struct bench *b;
    weir_stream *stream;
    weir_plan *one, *placed; /* on one stream; as streams=auto places them */
    weir_tensor *x, *y;
};

/* Adds the operators of one kind of graph. returns the result for the input x. */
typedef weir_tensor *(*shape_fn)(const struct bench *b, weir_tensor *x);

/* Replaces the tensor *t. */
static void replace(weir_tensor **t, weir_tensor *by)
{
    weir_tensor_release(*t);
    *t = by;
}

static weir_tensor *product(const struct bench *b, weir_tensor *a, weir_tensor *c)
{
    weir_tensor *out;

    weir__bench_must(b, weir_matmul(a, c, &out));
    return out;
}

static weir_tensor *sum(const struct bench *b, weir_tensor *a, weir_tensor *c)
{
    weir_tensor *out;

    weir__bench_must(b, weir_add(a, c, &out));
    return out;
}

static weir_tensor *softmax(const struct bench *b, weir_tensor *x)
{
    weir_tensor *out;

    weir__bench_must(b, weir_softmax(x, 1, &out));
    return out;
}

/* `length` nodes one after the other, from `from`. */
static weir_tensor *chain_of(const struct bench *b, weir_tensor *from, int length,
                             weir_tensor *(*next)(const struct bench *, weir_tensor *))
{
    weir_tensor *at = weir_tensor_retain(from);

    for (int i = 0; i < length; i++)
        replace(&at, next(b, at));
    return at;
}

static weir_tensor *square(const struct bench *b, weir_tensor *x)
{
    return product(b, x, x);
}

static weir_tensor *twice(const struct bench *b, weir_tensor *x)
{
    return sum(b, x, x);
}

static weir_tensor *forked(const struct bench *b, weir_tensor *x, int width, int length,
                           weir_tensor *(*next)(const struct bench *, weir_tensor *))
{
    weir_tensor *all = chain_of(b, x, length, next);

    for (int i = 1; i < width; i++) {
        weir_tensor *branch = chain_of(b, x, length, next);

        replace(&all, sum(b, all, branch));
        weir_tensor_release(branch);
    }
    return all;
}

static weir_tensor *matmul_chain(const struct bench *b, weir_tensor *x)
{
    return chain_of(b, x, 20, square);
}

static weir_tensor *matmul_forks(const struct bench *b, weir_tensor *x)
{
    return forked(b, x, 4, 4, square);
}

static weir_tensor *softmax_forks(const struct bench *b, weir_tensor *x)
{
    return forked(b, x, MAX_WIDTH, 4, softmax);
}

static weir_tensor *elementwise_forks(const struct bench *b, weir_tensor *x)
{
    return forked(b, x, 4, 8, twice);
}

/* A wide branch beside many narrow ones. */
static weir_tensor *experts(const struct bench *b, weir_tensor *x)
{
    weir_tensor *shared = chain_of(b, x, 4, square), *gate = softmax(b, x), *all;

    all = forked(b, gate, MAX_WIDTH, 2, softmax);
    replace(&all, sum(b, all, shared));
    weir_tensor_release(shared);
    weir_tensor_release(gate);
    return all;
}

static weir_plan *compile(const struct bench *b, weir_device *dev, shape_fn shape, int64_t side,
                          weir_stream_placement streams)
{
    weir_graph *g;
    weir_plan *plan;
    weir_tensor *x, *y;

    weir__bench_must(b, weir_graph_create(dev, &g));
    weir__bench_must(b, weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){side, side}, &x));
    weir__bench_must(b, weir_graph_begin(g));
    y = shape(b, x);
    weir__bench_must(b, weir_graph_end(g));
    weir__bench_must(b, weir_graph_output(g, "y", y));
    weir__bench_must(b, weir_graph_compile(g, &(weir_compile_options){.streams = streams}, &plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    return plan;
}

static double time_of(const struct race *r, weir_plan *plan)
{
    double start = bench_now_ns();
    weir_tensor *y = r->y;

    weir__bench_must(r->b, weir_plan_run(plan, r->stream, &r->x, 1, &y, 1));
    weir__bench_must(r->b, weir_stream_sync(r->stream));
    return bench_now_ns() - start;
}

/* The speedup of streams=auto. The two take turns, so that noise hits both alike. */
static double race_once(void *ctx)
{
    const struct race *r = ctx;
    double one[RUNS], placed[RUNS];

    for (int i = 0; i < RUNS; i++) {
        one[i] = time_of(r, r->one);
        placed[i] = time_of(r, r->placed);
    }
    return bench_quantile(one, RUNS, 0.5) / bench_quantile(placed, RUNS, 0.5);
}

void weir__bench_auto(struct bench *b)
{
    static const struct {
        const char *subject;
        shape_fn shape;
        int64_t side;
    } rows[] = {
        {"weir: matmul chain", matmul_chain, 128},
        {"weir: matmul forks", matmul_forks, 128},
        {"weir: large matmul forks", matmul_forks, 512},
        {"weir: softmax forks", softmax_forks, 64},
        {"weir: elementwise forks", elementwise_forks, 512},
        {"weir: tiny forks", softmax_forks, 4},
        {"weir: experts", experts, 128},
    };
    weir_device *dev = weir__bench_open(b, b->threads);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct race r = {.b = b, .stream = weir__bench_stream(b, dev)};
        const int64_t shape[] = {rows[i].side, rows[i].side};

        weir__bench_must(b, weir_tensor_empty(r.stream, WEIR_F32, 2, shape, &r.x));
        weir__bench_must(b, weir_tensor_empty(r.stream, WEIR_F32, 2, shape, &r.y));
        weir__bench_must(b, weir_fill(r.x, 1.0 / (double)rows[i].side));
        weir__bench_must(b, weir_device_sync(dev));
        r.one = compile(b, dev, rows[i].shape, rows[i].side, WEIR_STREAMS_EXPLICIT);
        r.placed = compile(b, dev, rows[i].shape, rows[i].side, WEIR_STREAMS_AUTO);
        bench_sample(b, rows[i].subject, "x", 1, race_once, &r);
    }
}
