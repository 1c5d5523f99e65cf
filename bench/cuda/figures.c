/* weir on an NVIDIA GPU beside the bare driver, in one run: overheads, the model of the seed,
 * a mixture-of-experts layer and what core limits do. Prints one line per figure:
 * work, subject, median of the rounds, unit. figures.py prints the same for PyTorch. */
#include "figures.h"

#include <math.h>

/* ---- overheads ---- */

static void empty_launch(struct bare *b, int n)
{
    for (int i = 0; i < n; i++)
        bare_check(b->api->cu.launch(b->empty, 1, 1, 1, 32, 1, 1, 0, b->stream[0], NULL, NULL));
}

static void overheads(struct bare *b, weir_device *dev)
{
    enum { N = 2000 };
    weir_stream *s = weir_stream_default(dev), *other;
    weir_tensor *x, *y;
    weir_event *e;
    weir_buffer *buffer;

    check(weir_stream_create(dev, NULL, &other));
    check(weir_event_create(dev, NULL, &e));
    check(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){4}, &x));
    check(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){4}, &y));
    check(weir_fill(x, 1));
    check(weir_add_into(x, x, y));
    check(weir_device_sync(dev));
    MEASURE("submit", "bare launch", "us", N, empty_launch(b, N), bare_sync(b));
    MEASURE("submit", "weir add of 4 elements", "us", N,
            for (int i = 0; i < N; i++) check(weir_add_into(x, x, y)), weir_device_sync(dev));
    MEASURE("submit", "weir empty operator", "us", N,
            for (int i = 0; i < N; i++)
                check(weir_launch_submit(s, &(weir_launch){.name = "empty"})),
            weir_device_sync(dev));
    MEASURE(
        "record + wait", "bare", "us", N,
        for (int i = 0; i < N; i++) {
            bare_check(b->api->cu.event_record(b->event[0], b->stream[0]));
            bare_check(b->api->cu.stream_wait(b->stream[1], b->event[0], 0));
        },
        bare_sync(b));
    MEASURE(
        "record + wait", "weir", "us", N,
        for (int i = 0; i < N; i++) {
            check(weir_launch_submit(s, &(weir_launch){.name = "empty"}));
            check(weir_event_record(e, s));
            check(weir_stream_wait(other, e));
        },
        weir_device_sync(dev));
    MEASURE(
        "allocate + free", "weir pool", "us", N,
        for (int i = 0; i < N; i++) {
            check(weir_buffer_alloc(s, 1 << 20, &buffer));
            weir_buffer_free(buffer);
        },
        weir_device_sync(dev));
    weir_event_destroy(e);
    weir_tensor_release(x);
    weir_tensor_release(y);
}

/* A chain of N kernels that do nothing as one graph. */
static weir_plan *empty_plan(weir_device *dev, int n)
{
    struct weir__text text = {0};
    weir_graph *g;
    weir_plan *plan;

    for (int i = 0; i < n; i++) {
        weir__text_add(&text, "node { name: \"n%d\" op: \"Kernel\"", i);
        if (i)
            weir__text_add(&text, " input: \"^n%d\"", i - 1);
        weir__text_add(&text, " }\n");
    }
    check(weir_graph_load(dev, text.data, text.size, "a chain", &g));
    check(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    weir__text_free(&text);
    return plan;
}

static void replay(struct bare *b, weir_device *dev)
{
    enum { N = 1000 };
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = empty_plan(dev, N);
    weir__cu_graph graph;
    weir__cu_exec exec;

    bare_check(b->api->cu.capture_begin(b->stream[0], CU_CAPTURE_RELAXED));
    empty_launch(b, N);
    bare_check(b->api->cu.capture_end(b->stream[0], &graph));
    bare_check(b->api->cu.graph_instantiate(&exec, graph, 0));
    END_TO_END("replay of 1000 nodes", "bare graph", "us per node", N,
               bare_check(b->api->cu.exec_launch(exec, b->stream[0])), bare_sync(b));
    check(weir_plan_run(plan, s, NULL, 0, NULL, 0));
    END_TO_END("replay of 1000 nodes", "weir plan", "us per node", N,
               check(weir_plan_run(plan, s, NULL, 0, NULL, 0)), weir_device_sync(dev));
    weir_plan_destroy(plan);
}

/* ---- the seed's model: add, mm, mm, add on three streams, f16 1000 x 1000 ---- */

static void seed_forward(weir_tensor *const *in, weir_tensor **out, bool streams, int cores)
{
    check(weir_add(in[0], in[1], &out[0]));
    check(weir_scope_push_stream(streams ? "1" : "default", 0));
    if (streams)
        check(weir_wait_tensor(in[3], out[0]));
    check(weir_scope_push_cores((weir_cores){cores, cores}));
    check(weir_matmul(in[2], in[3], &out[1]));
    check(weir_scope_pop(WEIR_SCOPE_CORES));
    check(weir_scope_pop(WEIR_SCOPE_STREAM));
    check(weir_scope_push_cores((weir_cores){cores, cores}));
    check(weir_matmul(in[2], in[3], &out[2]));
    check(weir_scope_pop(WEIR_SCOPE_CORES));
    check(weir_scope_push_stream(streams ? "2" : "default", 0));
    if (streams)
        check(weir_wait_tensor(in[3], out[1]));
    check(weir_add(in[2], in[3], &out[3]));
    check(weir_scope_pop(WEIR_SCOPE_STREAM));
}

static void seed_eager(weir_tensor *const *in, bool streams)
{
    weir_tensor *out[4];

    seed_forward(in, out, streams, -1);
    for (int i = 0; i < 4; i++)
        weir_tensor_release(out[i]);
}

static weir_plan *seed_plan(weir_device *dev, bool streams, const char *mode, int cores)
{
    const weir_compile_options options = {.mode = mode};
    const int64_t shape[] = {1000, 1000};
    weir_tensor *in[4], *out[4];
    weir_graph *g;
    weir_plan *plan;
    char name[8];

    check(weir_graph_create(dev, &g));
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "in%d", i);
        check(weir_graph_input(g, name, WEIR_F16, 2, shape, &in[i]));
    }
    check(weir_graph_begin(g));
    seed_forward(in, out, streams, cores);
    check(weir_graph_end(g));
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "out%d", i);
        check(weir_graph_output(g, name, out[i]));
        weir_tensor_release(in[i]);
        weir_tensor_release(out[i]);
    }
    check(weir_graph_compile(g, &options, &plan));
    weir_graph_destroy(g);
    return plan;
}

static void seed_model(weir_device *dev)
{
    static const struct {
        const char *name, *mode;
        bool streams;
        int cores;
    } plans[] = {
        {"weir plan, 1 stream", NULL, false, -1},
        {"weir plan, 3 streams", NULL, true, -1},
        {"weir plan, 3 streams, products not tuned", "reduce-overhead", true, -1},
        {"weir plan, 3 streams, 64 cores a product", NULL, true, 64},
    };
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *in[4], *out[4] = {NULL};

    for (int i = 0; i < 4; i++)
        in[i] = random_matrix(s, WEIR_F16, 1000, 1000);
    for (int streams = 0; streams < 2; streams++) {
        seed_eager(in, streams);
        check(weir_device_sync(dev));
        THROUGHPUT("seed model", streams ? "weir eager, 3 streams" : "weir eager, 1 stream", "us",
                   200, seed_eager(in, streams), weir_device_sync(dev));
    }
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        weir_plan *plan = seed_plan(dev, plans[i].streams, plans[i].mode, plans[i].cores);

        check(weir_plan_run(plan, s, in, 4, out, 4));
        check(weir_device_sync(dev));
        THROUGHPUT("seed model", plans[i].name, "us", 200,
                   check(weir_plan_run(plan, s, in, 4, out, 4)), weir_device_sync(dev));
        weir_plan_destroy(plan);
    }
    for (int i = 0; i < 4; i++) {
        weir_tensor_release(in[i]);
        weir_tensor_release(out[i]);
    }
}

/* ---- core limits ---- */

static void limits(weir_device *dev)
{
    weir_stream *s[2];
    weir_tensor *a[2], *b[2], *c[2], *from, *to;
    const int64_t n = 4096, big = (int64_t)1 << 28;

    for (int i = 0; i < 2; i++) {
        check(weir_stream_create(dev, NULL, &s[i]));
        a[i] = random_matrix(s[i], WEIR_F16, n, n);
        b[i] = random_matrix(s[i], WEIR_F16, n, n);
        check(weir_tensor_empty(s[i], WEIR_F16, 2, (int64_t[]){n, n}, &c[i]));
    }
    check(weir_tensor_empty(s[1], WEIR_F32, 1, &big, &from));
    check(weir_tensor_empty(s[1], WEIR_F32, 1, &big, &to));
    check(weir_device_sync(dev));
#define PRODUCT(i)                                 \
    do {                                           \
        check(weir_stream_set_current(s[i]));      \
        check(weir_matmul_into(a[i], b[i], c[i])); \
    } while (0)
#define COPY()                                \
    do {                                      \
        check(weir_stream_set_current(s[1])); \
        check(weir_add_into(from, from, to)); \
    } while (0)
    check(weir_stream_set_current(s[1]));
    check(weir_fill(from, 1));
    for (int limited = 0; limited < 2; limited++) {
        const char *with = limited ? "64 cores each" : "no limits";
        char text[64];

        for (int i = 0; i < 2 && limited; i++)
            check(weir_stream_set_limit(s[i], (weir_cores){64, 64}));
        PRODUCT(0);
        PRODUCT(1);
        COPY();
        check(weir_device_sync(dev));
        snprintf(text, sizeof text, "one product, %s", with);
        THROUGHPUT("limits, 4096^3 f16", text, "us", 40, PRODUCT(0), weir_device_sync(dev));
        snprintf(text, sizeof text, "two side by side, %s", with);
        THROUGHPUT(
            "limits, 4096^3 f16", text, "us", 40,
            {
                PRODUCT(0);
                PRODUCT(1);
            },
            weir_device_sync(dev));
        snprintf(text, sizeof text, "one 3 GB add, %s", with);
        THROUGHPUT("limits, 4096^3 f16", text, "us", 20, COPY(), weir_device_sync(dev));
        snprintf(text, sizeof text, "product beside the add, %s", with);
        THROUGHPUT(
            "limits, 4096^3 f16", text, "us for both", 20,
            {
                for (int k = 0; k < 4; k++)
                    PRODUCT(0);
                COPY();
            },
            weir_device_sync(dev));
    }
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(a[i]);
        weir_tensor_release(b[i]);
        weir_tensor_release(c[i]);
        weir_stream_destroy(s[i]);
    }
    weir_tensor_release(from);
    weir_tensor_release(to);
    check(weir_stream_set_current(weir_stream_default(dev)));
}

/* ---- a mixture-of-experts layer ---- */

enum { TOKENS = 128, HIDDEN = 7168, EXPERTS = 32, WIDTH = 2048, CHOSEN = 8 };

struct moe {
    weir_tensor *x, *router, *up, *down, *shared_up, *shared_down, *zeros;
};

static weir_tensor *shared_expert(const struct moe *m)
{
    weir_tensor *h, *g, *y;

    check(weir_linear(m->x, m->shared_up, NULL, &h));
    check(weir_swiglu(h, -1, &g));
    check(weir_linear(g, m->shared_down, NULL, &y));
    weir_tensor_release(h);
    weir_tensor_release(g);
    return y;
}

/* All experts at once: what a token did not choose has weight 0. The second product sums over
 * experts and their width together. */
static weir_tensor *routed_experts(const struct moe *m)
{
    weir_tensor *logits, *weights, *experts, *dense, *index, *h, *h3, *g, *w3, *scaled, *flat, *y;

    check(weir_linear(m->x, m->router, NULL, &logits));
    check(weir_moe_gating(logits, CHOSEN, true, &weights, &experts));
    check(weir_copy(m->zeros, &dense));
    check(weir_cast(experts, WEIR_I64, &index));
    check(weir_scatter_add(dense, 1, index, weights));
    check(weir_linear(m->x, m->up, NULL, &h));
    check(weir_tensor_reshape(h, 3, (int64_t[]){TOKENS, EXPERTS, 2 * WIDTH}, &h3));
    check(weir_swiglu(h3, -1, &g));
    check(weir_tensor_reshape(dense, 3, (int64_t[]){TOKENS, EXPERTS, 1}, &w3));
    check(weir_mul(g, w3, &scaled));
    check(weir_tensor_reshape(scaled, 2, (int64_t[]){TOKENS, EXPERTS * WIDTH}, &flat));
    check(weir_matmul(flat, m->down, &y));

    weir_tensor *done[] = {logits, weights, experts, dense, index, h, h3, g, w3, scaled, flat};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
    return y;
}

static weir_tensor *moe_forward(const struct moe *m, bool two, int cores)
{
    weir_tensor *shared, *routed, *sum;

    check(weir_scope_push_stream(two ? "shared" : "default", 0));
    if (cores)
        check(weir_scope_push_cores((weir_cores){cores, cores}));
    shared = shared_expert(m);
    if (cores)
        check(weir_scope_pop(WEIR_SCOPE_CORES));
    check(weir_scope_pop(WEIR_SCOPE_STREAM));
    routed = routed_experts(m);
    check(weir_add(routed, shared, &sum));
    weir_tensor_release(shared);
    weir_tensor_release(routed);
    return sum;
}

static weir_plan *moe_plan(weir_device *dev, struct moe m, bool two, int cores)
{
    weir_tensor *real = m.x, *out;
    weir_graph *g;
    weir_plan *plan;

    check(weir_graph_create(dev, &g));
    check(weir_graph_input(g, "x", WEIR_BF16, 2, weir_tensor_shape(real), &m.x));
    check(weir_graph_begin(g));
    out = moe_forward(&m, two, cores);
    check(weir_graph_end(g));
    check(weir_graph_output(g, "y", out));
    check(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(out);
    weir_tensor_release(m.x);
    weir_graph_destroy(g);
    return plan;
}

static void moe_layer(weir_device *dev)
{
    weir_stream *s = weir_stream_default(dev);
    struct moe m = {
        .x = random_matrix(s, WEIR_BF16, TOKENS, HIDDEN),
        .router = random_matrix(s, WEIR_BF16, EXPERTS, HIDDEN),
        .up = random_matrix(s, WEIR_BF16, EXPERTS * 2 * WIDTH, HIDDEN),
        .down = random_matrix(s, WEIR_BF16, EXPERTS * WIDTH, HIDDEN),
        .shared_up = random_matrix(s, WEIR_BF16, 2 * WIDTH, HIDDEN),
        .shared_down = random_matrix(s, WEIR_BF16, HIDDEN, WIDTH),
        .zeros = random_matrix(s, WEIR_BF16, TOKENS, EXPERTS),
    };
    static const int cores[] = {0, 0, 16, 32};
    weir_tensor *out = NULL;

    check(weir_fill(m.zeros, 0));
    for (int i = 0; i < 4; i++) {
        weir_plan *plan = moe_plan(dev, m, i > 0, cores[i]);
        char text[64];

        snprintf(text, sizeof text,
                 cores[i] ? "weir plan, 2 streams, shared expert on %d" : "weir plan, %d stream(s)",
                 cores[i] ? cores[i] : i + 1);
        check(weir_plan_run(plan, s, &m.x, 1, &out, 1));
        check(weir_device_sync(dev));
        THROUGHPUT("MoE layer", text, "us", 20, check(weir_plan_run(plan, s, &m.x, 1, &out, 1)),
                   weir_device_sync(dev));
        weir_plan_destroy(plan);
    }

    weir_tensor *done[] = {m.x, m.router, m.up, m.down, m.shared_up, m.shared_down, m.zeros, out};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
}

int main(void)
{
    struct bare bare;
    weir_device *dev;

    check(weir_device_open("cuda:0", &dev));
    bare_open(&bare, dev);
    overheads(&bare, dev);
    replay(&bare, dev);
    seed_model(dev);
    limits(dev);
    moe_layer(dev);
    check(weir_device_close(dev));
    return 0;
}
