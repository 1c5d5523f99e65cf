/* Measures weir on an NVIDIA GPU and the bare driver in one run: overheads, the seed model,
 * a mixture-of-experts layer, single operators and core limits. Prints one line per figure:
 * work, subject, median of the rounds, unit. figures.py prints the same for PyTorch.
 *   bench_cuda [overheads] [seed] [chains] [limits] [power] [moe] [operators]
 *   bench_cuda trace    the MoE layer without limits and with, operator by operator, as text and in
 *                       moe-trace.html */
#include "figures.h"

#include <string.h>

/* ---- overheads ---- */

static void empty_launch(struct bare *b, int n)
{
    for (int i = 0; i < n; i++)
        bare_check(b->api->cu.launch(b->empty, 1, 1, 1, 32, 1, 1, 0, b->stream[0], NULL, NULL));
}

static void add_launch(struct bare *b, int n, const weir_tensor *x, const weir_tensor *y)
{
    const void *from = weir_tensor_data(x), *to = weir_tensor_data(y);
    void *params[] = {&from, &to};

    for (int i = 0; i < n; i++)
        bare_check(b->api->cu.launch(b->add, 1, 1, 1, 32, 1, 1, 0, b->stream[0], params, NULL));
}

/* Each stream waits for the event that the other has just recorded: two pairs. */
static void bare_pairs(struct bare *b)
{
    for (int i = 0; i < 2; i++) {
        bare_check(b->api->cu.event_record(b->event[i], b->stream[i]));
        bare_check(b->api->cu.stream_wait(b->stream[!i], b->event[i], 0));
    }
}

/* weir skips a wait that orders nothing new. With one operator queued first, each of these waits is
 * new to its stream. */
static void weir_pairs(weir_stream *const *s, weir_event *const *e, int n)
{
    check(weir_launch_submit(s[0], &(weir_launch){.name = "empty"}));
    for (int k = 0; k < 2 * n; k++) {
        int i = k % 2;

        check(weir_event_record(e[i], s[i]));
        check(weir_stream_wait(s[!i], e[i]));
    }
}

static void overheads(struct bare *b, weir_device *dev)
{
    enum { N = 500 }; /* CUDA's queues hold the host up when they are full */
    weir_stream *s = weir_stream_default(dev), *both[2] = {s, NULL};
    weir_tensor *x, *y;
    weir_event *e[2];
    weir_buffer *buffer;

    check(weir_stream_create(dev, NULL, &both[1]));
    check(weir_event_create(dev, NULL, &e[0]));
    check(weir_event_create(dev, NULL, &e[1]));
    check(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){4}, &x));
    check(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){4}, &y));
    check(weir_fill(x, 1));
    check(weir_add_into(x, x, y));
    check(weir_device_sync(dev));
    MEASURE("submit", "bare launch", "us", N, empty_launch(b, N), bare_sync(b));
    MEASURE("submit", "bare launch of an add of 4 elements", "us", N, add_launch(b, N, x, y),
            bare_sync(b));
    MEASURE("submit", "weir add of 4 elements", "us", N,
            for (int i = 0; i < N; i++) check(weir_add_into(x, x, y)), weir_device_sync(dev));
    MEASURE("submit", "weir empty operator", "us", N,
            for (int i = 0; i < N; i++)
                check(weir_launch_submit(s, &(weir_launch){.name = "empty"})),
            weir_device_sync(dev));
    MEASURE("record + wait", "bare", "us", 2 * N, for (int i = 0; i < N; i++) bare_pairs(b),
            bare_sync(b));
    MEASURE("record + wait", "weir", "us", 2 * N, weir_pairs(both, e, N), weir_device_sync(dev));
    MEASURE(
        "allocate + free", "weir pool", "us", N,
        for (int i = 0; i < N; i++) {
            check(weir_buffer_alloc(s, 1 << 20, &buffer));
            weir_buffer_free(buffer);
        },
        weir_device_sync(dev));
    weir_event_destroy(e[0]);
    weir_event_destroy(e[1]);
    weir_stream_destroy(both[1]);
    weir_tensor_release(x);
    weir_tensor_release(y);
}

/* A chain of N empty kernels, as one graph. */
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

/* ---- the seed model: add, mm, mm, add on three streams, f16 1000 x 1000 ---- */

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

static weir_plan *seed_plan(weir_device *dev, bool streams, weir_compile_mode mode, int cores)
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
        const char *name;
        weir_compile_mode mode;
        bool streams;
        int cores;
    } plans[] = {
        {"weir plan, 1 stream", WEIR_COMPILE_MAX_AUTOTUNE, false, -1},
        {"weir plan, 3 streams", WEIR_COMPILE_MAX_AUTOTUNE, true, -1},
        {"weir plan, 3 streams, products not tuned", WEIR_COMPILE_REDUCE_OVERHEAD, true, -1},
        {"weir plan, 3 streams, 64 cores a product", WEIR_COMPILE_MAX_AUTOTUNE, true, 64},
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

/* Whether the work was named on the command line. Without names all works run. */
static bool wanted(int argc, char **argv, const char *work)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], work))
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    struct bare bare;
    weir_device *dev;

    check(weir_device_open("cuda:0", &dev));
    bare_open(&bare, dev);
    if (wanted(argc, argv, "overheads")) {
        overheads(&bare, dev);
        replay(&bare, dev);
    }
    if (wanted(argc, argv, "seed"))
        seed_model(dev);
    if (wanted(argc, argv, "chains"))
        chains(dev);
    if (wanted(argc, argv, "limits"))
        limits(&bare, dev);
    if (wanted(argc, argv, "power"))
        power(dev);
    if (wanted(argc, argv, "moe"))
        moe_layer(dev);
    if (argc > 1 && wanted(argc, argv, "trace"))
        moe_trace(dev, "moe-trace.html");
    if (wanted(argc, argv, "operators"))
        operators(dev);
    check(weir_device_close(dev));
    return 0;
}
