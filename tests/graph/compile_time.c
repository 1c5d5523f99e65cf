/* Compiling large graphs: bounded, and in proportion to their size. */
#include <stdlib.h>
#include <time.h>

#include "harness/test.h"
#include "random_graph.h"

enum { NODES = 10000 / TEST_SLOWDOWN };

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Each node adds two values made up to `window` nodes before (0: any before); what the
 * last nodes make is the output. */
static weir_graph *make_graph(weir_device *dev, int nodes, int streams, int window)
{
    weir_tensor **values = calloc((size_t)nodes + 1, sizeof *values);
    struct rng r = {1};
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){8, 16}, &values[0]));
    for (int i = 1; i <= nodes; i++) {
        int reach = window && window < i ? window : i;
        /* One of the two is the node before, so that none is dead. */
        weir_tensor *in[2] = {values[i - 1], values[i - 1 - rng_below(&r, reach)]};
        char tag[16] = "default";
        int stream = rng_below(&r, streams);

        if (stream)
            snprintf(tag, sizeof tag, "%d", stream);
        CHECK_OK(weir_scope_push_stream(tag, 0));
        CHECK_OK(weir_graph_add(g, "Add", NULL, NULL, 0, in, 2, &values[i], 1));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    }
    CHECK_OK(weir_graph_output(g, "y", values[nodes]));
    for (int i = 0; i <= nodes; i++)
        weir_tensor_release(values[i]);
    free(values);
    return g;
}

/* The best of three, so that a pause of the machine does not count. */
static double compile_seconds(weir_device *dev, int nodes, int streams, int window)
{
    weir_graph *g = make_graph(dev, nodes, streams, window);
    double best = 1e9;

    for (int i = 0; i < 3; i++) {
        double began = cpu_seconds(), took;
        weir_plan *plan;

        CHECK_OK(weir_graph_compile(g, NULL, &plan));
        took = cpu_seconds() - began;
        best = took < best ? took : best;
        weir_plan_destroy(plan);
    }
    weir_graph_destroy(g);
    return best;
}

TEST(compile_time, ten_thousand_nodes_take_less_than_a_second_and_growth_is_near_linear)
{
    static const int windows[] = {0, 50};
    weir_device *dev;

    CHECK_OK(weir_device_open("cpu:cores=2,threads=1", &dev));
    for (int streams = 1; streams <= 8; streams *= 8)
        for (size_t i = 0; i < weir__countof(windows); i++) {
            double some = compile_seconds(dev, NODES, streams, windows[i]);
            double more = compile_seconds(dev, 4 * NODES, streams, windows[i]);

            test_note("%d streams, window %d: %.3f and %.3f s", streams, windows[i], some, more);
            CHECK(some < 1.0);
            CHECK(more < 10 * some); /* linear is 4 times, quadratic 16 */
        }
    CHECK_OK(weir_device_close(dev));
}
