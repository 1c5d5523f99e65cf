/* A mixture-of-experts layer. */
#include "figures.h"

enum { TOKENS = 128, HIDDEN = 7168, EXPERTS = 32, WIDTH = 2048, CHOSEN = 8 };

struct moe {
    weir_tensor *x, *router, *up, *down, *shared_up, *shared_down, *zeros;
};

/* What runs beside the routed experts: nothing, the shared expert, or the shared expert and the
 * choice of experts. Also the cores that the shared and the routed experts may use, 0 for all. */
struct form {
    const char *name;
    enum { NOTHING, SHARED, SHARED_AND_GATES } beside;
    int shared_cores, routed_cores;
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

/* The weight of every expert for every token: 0 where it was not chosen. */
static weir_tensor *gates(const struct moe *m)
{
    weir_tensor *logits, *weights, *experts, *dense, *index;

    check(weir_linear(m->x, m->router, NULL, &logits));
    check(weir_moe_gating(logits, CHOSEN, true, &weights, &experts));
    check(weir_copy(m->zeros, &dense));
    check(weir_cast(experts, WEIR_I64, &index));
    check(weir_scatter_add(dense, 1, index, weights));

    weir_tensor *done[] = {logits, weights, experts, index};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
    return dense;
}

/* All experts at once. The second product sums over both the experts and their width. */
static weir_tensor *routed_experts(const struct moe *m, weir_tensor *dense)
{
    weir_tensor *own = dense ? NULL : (dense = gates(m)), *h, *h3, *g, *w3, *scaled, *flat, *y;

    check(weir_linear(m->x, m->up, NULL, &h));
    check(weir_tensor_reshape(h, 3, (int64_t[]){TOKENS, EXPERTS, 2 * WIDTH}, &h3));
    check(weir_swiglu(h3, -1, &g));
    check(weir_tensor_reshape(dense, 3, (int64_t[]){TOKENS, EXPERTS, 1}, &w3));
    check(weir_mul(g, w3, &scaled));
    check(weir_tensor_reshape(scaled, 2, (int64_t[]){TOKENS, EXPERTS * WIDTH}, &flat));
    check(weir_matmul(flat, m->down, &y));

    weir_tensor *done[] = {own, h, h3, g, w3, scaled, flat};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
    return y;
}

static void push_cores(int cores)
{
    if (cores)
        check(weir_scope_push_cores((weir_cores){cores, cores}));
}

static void pop_cores(int cores)
{
    if (cores)
        check(weir_scope_pop(WEIR_SCOPE_CORES));
}

static weir_tensor *forward(const struct moe *m, const struct form *f)
{
    weir_tensor *shared, *routed, *sum, *dense = NULL;

    check(weir_scope_push_stream(f->beside ? "shared" : "default", 0));
    push_cores(f->shared_cores);
    if (f->beside == SHARED_AND_GATES)
        dense = gates(m);
    shared = shared_expert(m);
    pop_cores(f->shared_cores);
    check(weir_scope_pop(WEIR_SCOPE_STREAM));
    push_cores(f->routed_cores);
    routed = routed_experts(m, dense);
    pop_cores(f->routed_cores);
    check(weir_add(routed, shared, &sum));
    weir_tensor_release(dense);
    weir_tensor_release(shared);
    weir_tensor_release(routed);
    return sum;
}

static weir_plan *moe_plan(weir_device *dev, struct moe m, const struct form *f)
{
    weir_tensor *real = m.x, *out;
    weir_graph *g;
    weir_plan *plan;

    check(weir_graph_create(dev, &g));
    check(weir_graph_input(g, "x", WEIR_BF16, 2, weir_tensor_shape(real), &m.x));
    check(weir_graph_begin(g));
    out = forward(&m, f);
    check(weir_graph_end(g));
    check(weir_graph_output(g, "y", out));
    check(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(out);
    weir_tensor_release(m.x);
    weir_graph_destroy(g);
    return plan;
}

static struct moe make_moe(weir_stream *s)
{
    struct moe m = {
        .x = random_matrix(s, WEIR_BF16, TOKENS, HIDDEN),
        .router = random_matrix(s, WEIR_BF16, EXPERTS, HIDDEN),
        .up = random_matrix(s, WEIR_BF16, EXPERTS * 2 * WIDTH, HIDDEN),
        .down = random_matrix(s, WEIR_BF16, EXPERTS * WIDTH, HIDDEN),
        .shared_up = random_matrix(s, WEIR_BF16, 2 * WIDTH, HIDDEN),
        .shared_down = random_matrix(s, WEIR_BF16, HIDDEN, WIDTH),
        .zeros = random_matrix(s, WEIR_BF16, TOKENS, EXPERTS),
    };

    check(weir_fill(m.zeros, 0));
    return m;
}

static void free_moe(struct moe *m)
{
    weir_tensor *done[] = {m->x, m->router, m->up, m->down, m->shared_up, m->shared_down, m->zeros};

    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
}

void moe_layer(weir_device *dev)
{
    static const struct form forms[] = {
        {"weir plan, 1 stream", NOTHING, 0, 0},
        {"weir plan, 2 streams", SHARED, 0, 0},
        {"weir plan, 2 streams, gates beside", SHARED_AND_GATES, 0, 0},
        {"weir plan, 2 streams, shared expert on 32", SHARED, 32, 0},
        {"weir plan, 2 streams, shared expert on 64", SHARED, 64, 0},
        {"weir plan, 2 streams, gates too, on 48", SHARED_AND_GATES, 48, 0},
        {"weir plan, 2 streams, gates too, on 16 + 104", SHARED_AND_GATES, 16, 104},
    };
    weir_stream *s = weir_stream_default(dev);
    struct moe m = make_moe(s);
    weir_tensor *out = NULL;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        weir_plan *plan = moe_plan(dev, m, &forms[i]);

        check(weir_plan_run(plan, s, &m.x, 1, &out, 1));
        check(weir_device_sync(dev));
        THROUGHPUT("MoE layer", forms[i].name, "us", 20,
                   check(weir_plan_run(plan, s, &m.x, 1, &out, 1)), weir_device_sync(dev));
        weir_plan_destroy(plan);
    }
    weir_tensor_release(out);
    free_moe(&m);
}

/* ---- traces with and without limits ---- */

/* Traces one run, after a first run that tunes and warms up. */
static weir_trace *record(weir_device *dev, weir_plan *plan, weir_tensor *x)
{
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *out = NULL;
    weir_trace *trace;

    for (int i = 0; i < 2; i++) {
        if (i)
            check(weir_trace_start(NULL));
        check(weir_plan_run(plan, s, &x, 1, &out, 1));
        check(weir_device_sync(dev));
    }
    check(weir_trace_stop(&trace));
    weir_tensor_release(out);
    return trace;
}

static void print_trace(const char *title, const weir_trace *trace)
{
    weir_trace_data d;
    int64_t began = INT64_MAX;

    weir_trace_get(trace, &d, sizeof d);
    for (size_t i = 0; i < d.nops; i++)
        began = weir__min(began, d.ops[i].started_ns);
    for (size_t i = 0; i < d.nops; i++)
        printf("MoE trace, %-13s %-8s %-14s on %3u cores, from %7.1f to %7.1f us\n", title,
               d.streams[d.ops[i].stream].name, d.ops[i].name, d.ops[i].cores,
               (double)(d.ops[i].started_ns - began) / 1e3,
               (double)(d.ops[i].ended_ns - began) / 1e3);
}

void moe_trace(weir_device *dev, const char *path)
{
    static const struct form forms[] = {{"no limits", SHARED_AND_GATES, 0, 0},
                                        {"16 + 104", SHARED_AND_GATES, 16, 104}};
    struct moe m = make_moe(weir_stream_default(dev));
    const char *titles[2];
    weir_trace *traces[2];

    for (int i = 0; i < 2; i++) {
        weir_plan *plan = moe_plan(dev, m, &forms[i]);

        traces[i] = record(dev, plan, m.x);
        titles[i] = forms[i].name;
        print_trace(titles[i], traces[i]);
        weir_plan_destroy(plan);
    }
    check(weir_trace_write_html((const weir_trace *const *)traces, titles, 2, path));
    weir_trace_free(traces[0]);
    weir_trace_free(traces[1]);
    free_moe(&m);
}
