/* Plans of short operators, each of which waits for the one before it. */
#include "figures.h"

enum { OPERATORS = 24, WIDTH = 4096 };

/* Two neighbours are never fused into one kernel. */
static weir_tensor *forward(weir_tensor *x, weir_tensor *weight)
{
    weir_tensor *y = weir_tensor_retain(x), *next;

    for (int i = 0; i < OPERATORS; i++) {
        switch (i % 4) {
        case 0:
            check(weir_rms_norm(y, weight, 1e-5, &next));
            break;
        case 1:
            check(weir_add(y, x, &next));
            break;
        case 2:
            check(weir_softmax(y, 1, &next));
            break;
        default:
            check(weir_mul(y, x, &next));
        }
        weir_tensor_release(y);
        y = next;
    }
    return y;
}

static weir_plan *chain_plan(weir_device *dev, int64_t rows)
{
    weir_tensor *x, *weight, *y;
    weir_graph *g;
    weir_plan *plan;

    check(weir_graph_create(dev, &g));
    check(weir_graph_input(g, "x", WEIR_F16, 2, (int64_t[]){rows, WIDTH}, &x));
    check(weir_graph_input(g, "weight", WEIR_F16, 1, (int64_t[]){WIDTH}, &weight));
    check(weir_graph_begin(g));
    y = forward(x, weight);
    check(weir_graph_end(g));
    check(weir_graph_output(g, "y", y));
    check(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    weir_tensor_release(x);
    weir_tensor_release(weight);
    weir_tensor_release(y);
    return plan;
}

void chains(weir_device *dev)
{
    weir_stream *s = weir_stream_default(dev);

    for (int64_t rows = 16; rows <= 4096; rows *= 16) {
        weir_plan *plan = chain_plan(dev, rows);
        weir_tensor *row = random_matrix(s, WEIR_F16, 1, WIDTH), *in[2], *out = NULL;
        char subject[64];

        in[0] = random_matrix(s, WEIR_F16, rows, WIDTH);
        check(weir_tensor_reshape(row, 1, (int64_t[]){WIDTH}, &in[1]));
        check(weir_plan_run(plan, s, in, 2, &out, 1));
        check(weir_device_sync(dev));
        snprintf(subject, sizeof subject, "weir plan, 24 operators, %lldx4096", (long long)rows);
        THROUGHPUT("chains", subject, "us", 50, check(weir_plan_run(plan, s, in, 2, &out, 1)),
                   weir_device_sync(dev));
        weir_tensor_release(row);
        weir_tensor_release(in[0]);
        weir_tensor_release(in[1]);
        weir_tensor_release(out);
        weir_plan_destroy(plan);
    }
}
