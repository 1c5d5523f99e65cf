/* Lanes of short kernels, which a worker runs in a row: each once, in order, and none after
 * one that failed. */
#include <stdatomic.h>

#include "graph/build/graph.h"
#include "harness/test.h"

enum { NODES = 300 };

static const struct weir__op *relu;
static atomic_int ran;
static int fails_at; /* -1: none does */

static weir_status count(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return atomic_fetch_add(&ran, 1) == fails_at ? WEIR_ERANGE : WEIR_OK;
}

static weir_status prepare(const struct weir__call *call, struct weir__work *work)
{
    weir_status st = relu->prepare(call, work);

    work->fn = count;
    return st;
}

/* A chain "step_0", "step_1", ...; every few nodes one that is not short, or of another
 * engine, or several blocks. */
static weir_plan *make_chain(weir_device *dev, struct weir__op *op, bool mixed)
{
    struct weir__marks marks = {.super_kernel = -1};
    weir_attr us = {.name = "us", .kind = WEIR_ATTR_FLOAT, .value.f = 2};
    weir_attr engine = {.name = "engine", .kind = WEIR_ATTR_STRING, .value.s = "cube"};
    weir_attr blocks = {.name = "blocks", .kind = WEIR_ATTR_INT, .value.i = 3};
    const weir_attr *kinds[] = {&us, &engine, &blocks};
    weir_tensor *at, *next, *other;
    weir_graph *g;
    weir_plan *plan;

    relu = weir__op_find("Relu");
    *op = *relu;
    op->prepare = prepare;
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){16}, &at));
    for (int i = 0; i < NODES; i++) {
        char name[24];

        snprintf(name, sizeof name, "step_%d", i);
        CHECK_OK(weir__graph_add_call(g, op, name, NULL, &at, 1, NULL, &marks, &next));
        weir_tensor_release(at);
        at = next;
        if (!mixed || i % 7)
            continue;
        CHECK_OK(weir_graph_add(g, "Kernel", NULL, kinds[i / 7 % 3], 1, &at, 1, &other, 1));
        weir_tensor_release(other);
    }
    CHECK_OK(weir_graph_output(g, "y", at));
    weir_tensor_release(at);
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.mode = WEIR_COMPILE_REDUCE_OVERHEAD},
                                &plan));
    weir_graph_destroy(g);
    return plan;
}

static void run_chain(const char *spec, bool mixed)
{
    static const int places[] = {-1, 0, 1, 2, 50, 123, 124, 125, 126, NODES - 1};
    weir_tensor *x, *y = NULL;
    struct weir__op op;
    weir_device *dev;
    weir_plan *plan;

    CHECK_OK(weir_device_open(spec, &dev));
    plan = make_chain(dev, &op, mixed);
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 1, (int64_t[]){16}, &x));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 1, (int64_t[]){16}, &y));
    for (size_t i = 0; i < weir__countof(places); i++) {
        weir_stream *s;
        char name[32];

        test_note("%s, mixed %d, fails at %d", spec, mixed, places[i]);
        CHECK_OK(weir_stream_create(dev, NULL, &s));
        fails_at = places[i];
        atomic_store(&ran, 0);
        CHECK_OK(weir_plan_run(plan, s, &x, 1, &y, 1));
        if (places[i] < 0) {
            CHECK_OK(weir_stream_sync(s));
            CHECK_EQ(atomic_load(&ran), NODES);
        } else {
            snprintf(name, sizeof name, "'step_%d'", places[i]);
            CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
            CHECK_STR(weir_last_error(), name);
            CHECK_EQ(atomic_load(&ran), places[i] + 1);
        }
        CHECK_OK(weir_stream_destroy(s));
    }
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

TEST(lanes, every_node_runs_once_and_none_after_one_that_failed)
{
    static const char *const specs[] = {"cpu:cores=1,threads=1", "cpu:cores=2,threads=2",
                                        "cpu:cube=1,vector=2,threads=2",
                                        "cpu:cores=2,threads=2,jitter=8"};

    for (size_t i = 0; i < weir__countof(specs); i++) {
        run_chain(specs[i], false);
        run_chain(specs[i], true);
    }
}
