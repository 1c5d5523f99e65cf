/* Plans whose collectives are NCCL's, in the plan's own graph: on the fake GPU and the fake NCCL.
 */
#include "procs/kids.h"
#include "weir/trace.h"

#include "cuda/fake/control.h"

#include <dlfcn.h>

static const char *const fake[] = {"WEIR_ENGINE=nccl",
                                   "WEIR_LIBNCCL=" FAKE_NCCL,
                                   "KID_DEVICE=cuda:0,op_timeout=30",
                                   "WEIR_LIBCUDA=" FAKE_CUDA,
                                   "WEIR_LIBNVRTC=" FAKE_CUDA,
                                   "WEIR_LIBCUBLASLT=" FAKE_CUDA,
                                   "WEIR_CACHE_DIR=/dev/null/cache",
                                   NULL};

static void run_well(int n, const char *scenario)
{
    kids_run(n, scenario, fake);
}

static void *find_in(const char *library, const char *symbol)
{
    void *lib = dlopen(getenv(library), RTLD_NOW | RTLD_NOLOAD), *found;

    CHECK(lib && (found = dlsym(lib, symbol)));
    dlclose(lib);
    return found;
}

/* Calls that this process has made of NCCL. */
static int issued(void)
{
    void *found = find_in("WEIR_LIBNCCL", "fake_nccl_issued");
    int (*count)(void);

    memcpy(&count, &found, sizeof count);
    return count();
}

enum { N = 600, RUNS = 12 };

/* y = the sum over ranks of 2 x, plus x; z = the x of the last rank. Two lanes and the caller's. */
static weir_plan *make_plan(weir_device *dev, weir_rank *rank)
{
    int last = weir_group_size(weir_rank_group(rank)) - 1;
    weir_tensor *x, *twice, *sum, *z, *y;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_I64, 1, (int64_t[]){N}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(x, x, &twice));
    CHECK_OK(weir_scope_push_stream("communication", 0));
    CHECK_OK(weir_all_reduce(rank, twice, WEIR_REDUCE_SUM, &sum));
    CHECK_OK(weir_broadcast(rank, x, last, &z));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_add(sum, x, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_output(g, "z", z));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(twice);
    weir_tensor_release(sum);
    weir_tensor_release(z);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    return plan;
}

static int64_t sum_of(int ranks, int run)
{
    return (int64_t)ranks * (ranks - 1) / 2 + (int64_t)ranks * run;
}

/* Between runs that are not waited for another stream calls too: whatever gets to the device first,
 * the communicator has its calls by number. */
SCENARIO(nccl_plan)
{
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank), ranks = weir_group_size(group), before;
    weir_plan *plan = make_plan(dev, rank);
    weir_tensor *in[RUNS], *out[RUNS][2] = {{NULL}}, *beside[RUNS];
    weir_stream *other;

    CHECK_OK(weir_stream_create(dev, NULL, &other));
    for (int i = 0; i < RUNS; i++)
        in[i] = numbers(dev, N, me + i);
    CHECK_OK(weir_device_sync(dev));
    before = issued();
    for (int i = 0; i < RUNS; i++) {
        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in[i], 1, out[i], 2));
        CHECK_OK(weir_stream_set_current(other));
        CHECK_OK(weir_all_reduce(rank, in[i], WEIR_REDUCE_MAX, &beside[i]));
        CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
        if (i % 3 == 2)
            CHECK_OK(weir_device_sync(dev));
    }
    for (int i = 0; i < RUNS; i++) {
        test_note("run %d of rank %d", i, me);
        expect_numbers(out[i][0], N, 2 * sum_of(ranks, i) + me + i, 2 * ranks + 1);
        expect_numbers(out[i][1], N, ranks - 1 + i, 1);
        expect_numbers(beside[i], N, ranks - 1 + i, 1);
        weir_tensor_release(out[i][0]);
        weir_tensor_release(out[i][1]);
        weir_tensor_release(beside[i]);
    }
    /* Other memory is another graph, or a run without one; the same memory is none. */
    before = issued();
    for (int i = 0; i < 5; i++) {
        weir_tensor *again[2] = {NULL, NULL};

        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in[0], 1, again, 2));
        expect_numbers(again[0], N, 2 * sum_of(ranks, 0) + me, 2 * ranks + 1);
        if (i == 3)
            before = issued();
        weir_tensor_release(again[0]);
        weir_tensor_release(again[1]);
    }
    CHECK_EQ(issued(), before);
    for (int i = 0; i < RUNS; i++)
        weir_tensor_release(in[i]);
    CHECK_OK(weir_stream_destroy(other));
    weir_plan_destroy(plan);
    leave(group, dev);
}
TEST(procs_nccl, collectives_of_a_plan_are_in_its_graph_and_in_order_with_eager_ones)
{
    run_well(2, "nccl_plan");
    run_well(3, "nccl_plan");
    run_well(1, "nccl_plan");
}

/* ---- traces ---- */

/* How a rank gets to the values of a run: launches of graphs, of kernels by themselves, and calls
 * of NCCL; the nodes of the last graph. */
struct path {
    int graphs, kernels, calls;
    char nodes[4096];
};

static struct path run_and_watch(weir_plan *plan, weir_device *dev, weir_tensor *in,
                                 weir_tensor **out)
{
    const struct fake_control *gpu = find_in("WEIR_LIBCUDA", FAKE_CONTROL);
    struct path path = {0, 0, -issued(), ""};
    const char *called;

    gpu->watch();
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, out, 2));
    CHECK_OK(weir_device_sync(dev));
    for (uint64_t i = 1; (called = gpu->watched(i)); i++) {
        path.graphs += !strcmp(called, "cuGraphLaunch");
        path.kernels += !strncmp(called, "cuLaunchKernel", 14);
    }
    path.calls += issued();
    gpu->launched(path.nodes, sizeof path.nodes);
    return path;
}

static const weir_trace_op *op_named(const weir_trace_data *d, const char *name, int n)
{
    for (size_t i = 0; i < d->nops; i++)
        if (!strcmp(d->ops[i].name, name) && !n--)
            return &d->ops[i];
    FAIL("the trace has too few operators '%s'", name);
}

/* The n-th run of make_plan's plan in the trace. */
static void check_times(const weir_trace_data *d, int n)
{
    const weir_trace_op *twice = op_named(d, "Add_0", n), *y = op_named(d, "Add_3", n),
                        *sum = op_named(d, "AllReduce_1", n), *z = op_named(d, "Broadcast_2", n);

    CHECK(twice->stream == y->stream && sum->stream == z->stream && sum->stream != y->stream);
    CHECK_LE(twice->queued_ns, twice->started_ns);
    CHECK_LE(twice->ended_ns, sum->started_ns);
    CHECK_LE(sum->ended_ns, y->started_ns);
    CHECK_LE(sum->ended_ns, z->started_ns); /* a communicator has one call at a time */
    CHECK_LE(z->started_ns, z->ended_ns);
    if (n) {
        CHECK_LE(op_named(d, "Add_3", n - 1)->ended_ns, twice->started_ns);
        CHECK_LE(op_named(d, "Broadcast_2", n - 1)->ended_ns, twice->started_ns);
    }
}

/* All ranks but the last record a trace: it changes nothing for either. */
SCENARIO(nccl_traced)
{
    enum { TRACED = 3 };
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank), ranks = weir_group_size(group);
    bool traces = me < ranks - 1 || ranks == 1;
    weir_plan *plan = make_plan(dev, rank);
    weir_tensor *in = numbers(dev, N, me), *out[2] = {numbers(dev, N, 0), numbers(dev, N, 0)};
    weir_trace *trace = NULL;
    struct path plain, traced;

    (void)run_and_watch(plan, dev, in, out);
    plain = run_and_watch(plan, dev, in, out);
    CHECK_EQ(plain.graphs, 1);
    CHECK_EQ(plain.kernels, 0);
    CHECK_EQ(plain.calls, 0);
    if (traces)
        CHECK_OK(weir_trace_start(NULL));
    for (int i = 0; i < TRACED; i++) {
        test_note("run %d of rank %d", i, me);
        traced = run_and_watch(plan, dev, in, out);
        CHECK_EQ(traced.graphs, 1);
        CHECK_EQ(traced.kernels, traces && !i ? 2 : 0); /* captured once, */
        CHECK_EQ(traced.calls, traces && !i ? 2 : 0);   /* as are NCCL's */
        CHECK_STR_EQ(traced.nodes, plain.nodes);
        expect_numbers(out[0], N, 2 * sum_of(ranks, 0) + me, 2 * ranks + 1);
        expect_numbers(out[1], N, ranks - 1, 1);
    }
    if (traces) {
        weir_trace_data d;

        CHECK_OK(weir_trace_stop(&trace));
        weir_trace_get(trace, &d, sizeof d);
        CHECK_EQ(d.nops, (4 + 2) * TRACED); /* and the reading of two results */
        for (int i = 0; i < TRACED; i++)
            check_times(&d, i);
        weir_trace_free(trace);
    }
    traced = run_and_watch(plan, dev, in, out);
    CHECK_EQ(traced.graphs, 1);
    CHECK_EQ(traced.calls, 0);
    weir_tensor_release(in);
    for (int i = 0; i < 2; i++)
        weir_tensor_release(out[i]);
    weir_plan_destroy(plan);
    leave(group, dev);
}
TEST(procs_nccl, a_traced_run_is_one_launch_of_the_same_kernels_and_calls)
{
    run_well(1, "nccl_traced");
    run_well(2, "nccl_traced");
    run_well(3, "nccl_traced");
}

/* Runs that are queued before a recording begins, in it and after it, all before the first of them
 * is launched. Those of the recording have events of their own. */
SCENARIO(nccl_trace_begins)
{
    enum { RUNS_OF_EACH = 3 };
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank), ranks = weir_group_size(group), before, graphs = 0;
    const struct fake_control *gpu = find_in("WEIR_LIBCUDA", FAKE_CONTROL);
    weir_plan *plan = make_plan(dev, rank);
    weir_tensor *in = numbers(dev, N, me), *out[2] = {numbers(dev, N, 0), numbers(dev, N, 0)};
    weir_trace *trace;
    weir_trace_data d;
    const char *called;

    (void)run_and_watch(plan, dev, in, out);
    for (int round = 0; round < 2; round++) {
        before = issued();
        gpu->watch();
        gpu->hold(true);
        for (int i = 0; i < 3 * RUNS_OF_EACH; i++) {
            if (i == RUNS_OF_EACH)
                CHECK_OK(weir_trace_start(NULL));
            if (i == 2 * RUNS_OF_EACH && !round) { /* what it has not seen the end of is left out */
                CHECK_OK(weir_trace_stop(&trace));
                weir_trace_free(trace);
            }
            CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, out, 2));
        }
        gpu->hold(false);
        CHECK_OK(weir_device_sync(dev));
        for (uint64_t i = 1; (called = gpu->watched(i)); i++)
            graphs += !strcmp(called, "cuGraphLaunch");
        CHECK_EQ(graphs, 3 * RUNS_OF_EACH * (round + 1));
        CHECK_EQ(issued() - before, round ? 0 : 2);
        expect_numbers(out[0], N, 2 * sum_of(ranks, 0) + me, 2 * ranks + 1);
    }
    CHECK_OK(weir_trace_stop(&trace));
    weir_trace_get(trace, &d, sizeof d);
    for (int i = 0; i < 2 * RUNS_OF_EACH; i++)
        check_times(&d, i);
    weir_trace_free(trace);
    weir_tensor_release(in);
    for (int i = 0; i < 2; i++)
        weir_tensor_release(out[i]);
    weir_plan_destroy(plan);
    leave(group, dev);
}
TEST(procs_nccl, a_trace_that_begins_while_launches_are_to_come_leaves_them_as_they_are)
{
    run_well(1, "nccl_trace_begins");
    run_well(2, "nccl_trace_begins");
}

/* ---- ranks that do different things ---- */

/* More calls in a plan than there are places to meet; one rank makes the same calls one by one, and
 * waits for each. */
SCENARIO(nccl_mixed)
{
    enum { CALLS = 20 };
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank), ranks = weir_group_size(group);
    weir_tensor *at[CALLS + 1], *x = numbers(dev, N, me), *y = NULL;
    int64_t times = 1;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_I64, 1, (int64_t[]){N}, &at[0]));
    CHECK_OK(weir_graph_begin(g));
    for (int i = 0; i < CALLS; i++)
        CHECK_OK(weir_all_reduce(rank, at[i], i ? WEIR_REDUCE_MAX : WEIR_REDUCE_SUM, &at[i + 1]));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", at[CALLS]));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int i = 0; i <= CALLS; i++)
        weir_tensor_release(at[i]);
    for (int run = 0; run < 6; run++) {
        if (me == 1 && run % 2) {
            at[0] = x;
            for (int i = 0; i < CALLS; i++) {
                CHECK_OK(weir_all_reduce(rank, at[i], i ? WEIR_REDUCE_MAX : WEIR_REDUCE_SUM,
                                         &at[i + 1]));
                CHECK_OK(weir_device_sync(dev));
                if (i)
                    weir_tensor_release(at[i]);
            }
            y = at[CALLS];
        } else {
            y = NULL;
            CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, &y, 1));
        }
        expect_numbers(y, N, sum_of(ranks, 0) * times, ranks);
        weir_tensor_release(y);
    }
    weir_tensor_release(x);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    leave(group, dev);
}
TEST(procs_nccl, a_rank_that_runs_a_plan_meets_one_that_makes_its_calls)
{
    run_well(2, "nccl_mixed");
    run_well(3, "nccl_mixed");
}

/* Messages of one pair on streams of each side's own choice: the k-th that is sent is the k-th that
 * is received. */
SCENARIO(nccl_messages)
{
    enum { MESSAGES = 24, STREAMS = 3 };
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank);
    weir_tensor *at[MESSAGES];
    weir_stream *streams[STREAMS];

    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &streams[i]));
    for (int i = 0; i < MESSAGES; i++)
        at[i] = numbers(dev, N, me ? 0 : 1000 * i);
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_OK(weir_stream_set_current(streams[(me ? i : i * i) % STREAMS]));
        CHECK_OK(me ? weir_recv(rank, at[i], 0) : weir_send(rank, at[i], 1));
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < MESSAGES; i++) {
        expect_numbers(at[i], N, 1000 * i, 1);
        weir_tensor_release(at[i]);
    }
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
    leave(group, dev);
}
TEST(procs_nccl, messages_of_a_pair_on_several_streams_are_received_in_order)
{
    run_well(2, "nccl_messages");
}

/* Calls that differ are named, also from within graphs, and nobody hangs. A trace has nothing of a
 * graph that was not launched. */
SCENARIO(nccl_differs)
{
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int64_t n = weir_rank_index(rank) == 1 ? N + 1 : N;
    weir_tensor *x, *half, *sum, *in = numbers(dev, n, 1), *out = NULL;
    weir_graph *g;
    weir_plan *plan;
    weir_trace *trace;
    weir_trace_data d;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_I64, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(x, x, &half));
    CHECK_OK(weir_all_reduce(rank, half, WEIR_REDUCE_SUM, &sum));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", sum));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(half);
    weir_tensor_release(sum);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, &out, 1));
    CHECK(weir_device_sync(dev));
    say("%s\n", weir_last_error());
    CHECK_OK(weir_trace_stop(&trace));
    weir_trace_get(trace, &d, sizeof d);
    CHECK_EQ(d.nops, 0);
    weir_trace_free(trace);
    weir_tensor_release(in);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    leave(group, dev);
}
TEST(procs_nccl, plans_that_differ_break_the_group_with_both_sides)
{
    struct kids k;

    kids_start(&k, 2, "nccl_differs", fake);
    for (int i = 0; i < 2; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "the shape differs: rank ");
    }
}

static void with_plan(const char **out, const char *more)
{
    int n = 0;

    out[n++] = "KID_PLAN=1";
    if (more)
        out[n++] = more;
    for (int i = 0; fake[i]; i++)
        out[n++] = fake[i];
    out[n] = NULL;
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs_nccl, ranks_lost_while_graphs_with_nccls_calls_run_are_named, 3600)
{
    const char *extra[12];

    with_plan(extra, NULL);
    lose_at_random("nccl, in graphs", 3, extra);
}
/* The first 9 calls are those of joining. */
TEST(procs_nccl, an_asynchronous_error_of_nccl_ends_a_plan)
{
    const char *extra[12];
    struct kids k;

    with_plan(extra, "FAKE_NCCL_FAIL=11");
    kids_start(&k, 2, "calls", extra);
    for (int i = 0; i < 2; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "unhandled system error");
    }
}
