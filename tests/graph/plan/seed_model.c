/* The model of seeds 000-002: add, a matmul on stream "1" after it, a matmul, and an add on
 * stream "2" after the first matmul. Captured, compiled, run: the values of eager calls. */
#include <stdlib.h>

#include "harness/test.h"
#include "weir/weir.h"

enum { N = 96 };

struct model {
    weir_tensor *in[4], *out[4];
};

static void forward(struct model *m)
{
    CHECK_OK(weir_add(m->in[0], m->in[1], &m->out[0]));
    WEIR_STREAM_SCOPE("1", 0)
    {
        CHECK_OK(weir_wait_tensor(m->in[3], m->out[0]));
        CHECK_OK(weir_matmul(m->in[2], m->in[3], &m->out[1]));
    }
    CHECK_OK(weir_matmul(m->in[2], m->in[3], &m->out[2]));
    WEIR_STREAM_SCOPE("2", 0)
    {
        CHECK_OK(weir_wait_tensor(m->in[3], m->out[1]));
        CHECK_OK(weir_add(m->in[2], m->in[3], &m->out[3]));
    }
}

static void release(weir_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        weir_tensor_release(t[i]);
}

static void make_inputs(weir_device *dev, weir_tensor **in)
{
    const int64_t shape[] = {N, N};

    for (int i = 0; i < 4; i++) {
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F16, 2, shape, &in[i]));
        CHECK_OK(weir_random_normal(in[i], 7 + (uint64_t)i, 0, 1));
    }
}

static weir_graph *capture(weir_device *dev)
{
    static const char *const names[] = {"in1", "in2", "in3", "in4"};
    static const char *const results[] = {"add_result", "mm_result", "mm1", "add2"};
    const int64_t shape[] = {N, N};
    struct model m;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < 4; i++)
        CHECK_OK(weir_graph_input(g, names[i], WEIR_F16, 2, shape, &m.in[i]));
    CHECK_OK(weir_graph_begin(g));
    forward(&m);
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < 4; i++)
        CHECK_OK(weir_graph_output(g, results[i], m.out[i]));
    release(m.in, 4);
    release(m.out, 4);
    return g;
}

static void check_equal(weir_tensor *a, weir_tensor *b)
{
    static uint16_t x[N * N], y[N * N];

    CHECK_OK(weir_tensor_read(a, x, sizeof x));
    CHECK_OK(weir_tensor_read(b, y, sizeof y));
    CHECK_MEM_EQ(x, y, sizeof x);
}

TEST(seed_model, a_plan_gives_the_values_of_eager_calls)
{
    weir_device *dev;
    struct model m;
    weir_graph *g;
    weir_plan *plan;
    weir_plan_stats stats;

    CHECK_OK(weir_device_open("cpu:jitter=3,threads=3,cores=3", &dev));
    make_inputs(dev, m.in);
    forward(&m);
    CHECK_OK(weir_device_sync(dev));
    g = capture(dev);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.nodes, 4);
    CHECK_EQ(stats.streams, 3);
    /* add -> mm, mm -> add2, and the join of "2", which implies that of "1"; mm1 uses in4
     * too, and so comes after add, which is on its own stream. */
    CHECK_EQ(stats.syncs, 3);
    for (int run = 0; run < 200; run++) {
        weir_tensor *out[4] = {NULL};

        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), m.in, 4, out, 4));
        if (run % 50 == 0)
            for (int i = 0; i < 4; i++)
                check_equal(out[i], m.out[i]);
        release(out, 4);
    }
    char *list = weir_plan_list(plan);
    CHECK_STR(list, "3 stream(s)");
    free(list);
    weir_plan_destroy(plan);
    release(m.in, 4);
    release(m.out, 4);
    CHECK_OK(weir_device_close(dev));
}
