/* Two matmuls and two adds on three streams, in one graph:
 *
 *     caller's stream   add_result = in1 + in2        mm1 = in3 x in4
 *     stream "1"          └─ mm_result = in3 x in4
 *     stream "2"               └─ add2 = in3 + in4
 *
 * wait_tensor says that whoever uses in4 from there on comes after add_result, and then
 * after mm_result. The program captures that once, prints the plan, runs it, and checks
 * that it gives the bits that the same calls give without a graph.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

enum { N = 1000 };

static void check(weir_status status)
{
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "%s: %s\n", weir_status_name(status), weir_last_error());
    exit(1);
}

static void forward(weir_tensor *const *in, weir_tensor **out)
{
    check(weir_add(in[0], in[1], &out[0]));
    WEIR_STREAM_SCOPE("1", 0)
    {
        check(weir_wait_tensor(in[3], out[0]));
        check(weir_matmul(in[2], in[3], &out[1]));
    }
    check(weir_matmul(in[2], in[3], &out[2]));
    WEIR_STREAM_SCOPE("2", 0)
    {
        check(weir_wait_tensor(in[3], out[1]));
        check(weir_add(in[2], in[3], &out[3]));
    }
}

static void release(weir_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++)
        weir_tensor_release(tensors[i]);
}

static weir_plan *compile(weir_device *dev)
{
    static const char *const inputs[] = {"in1", "in2", "in3", "in4"};
    static const char *const outputs[] = {"add_result", "mm_result", "mm1", "add2"};
    const int64_t shape[] = {N, N};
    weir_tensor *in[4], *out[4];
    weir_graph *graph;
    weir_plan *plan;

    check(weir_graph_create(dev, &graph));
    for (int i = 0; i < 4; i++)
        check(weir_graph_input(graph, inputs[i], WEIR_F16, 2, shape, &in[i]));
    check(weir_graph_begin(graph));
    forward(in, out);
    check(weir_graph_end(graph));
    for (int i = 0; i < 4; i++)
        check(weir_graph_output(graph, outputs[i], out[i]));
    check(weir_graph_compile(graph, NULL, &plan));
    release(in, 4);
    release(out, 4);
    weir_graph_destroy(graph);
    return plan;
}

static int same(weir_tensor *a, weir_tensor *b)
{
    static uint16_t x[N * N], y[N * N];

    check(weir_tensor_read(a, x, sizeof x));
    check(weir_tensor_read(b, y, sizeof y));
    return memcmp(x, y, sizeof x) == 0;
}

int main(void)
{
    const int64_t shape[] = {N, N};
    weir_tensor *in[4], *eager[4], *out[4] = {NULL};
    int equal = 1;
    weir_device *dev;
    weir_plan *plan;
    char *list;

    check(weir_device_open(NULL, &dev));
    for (int i = 0; i < 4; i++) {
        check(weir_tensor_empty(weir_stream_default(dev), WEIR_F16, 2, shape, &in[i]));
        check(weir_random_normal(in[i], 1 + (uint64_t)i, 0, 1));
    }
    check(weir_device_sync(dev));
    forward(in, eager);
    check(weir_device_sync(dev));

    plan = compile(dev);
    if ((list = weir_plan_list(plan)))
        fputs(list, stdout);
    free(list);
    check(weir_plan_run(plan, weir_stream_default(dev), in, 4, out, 4));
    check(weir_device_sync(dev));
    for (int i = 0; i < 4; i++)
        equal &= same(out[i], eager[i]);
    printf("the plan's results %s those of eager calls\n", equal ? "equal" : "DIFFER from");

    release(in, 4);
    release(eager, 4);
    release(out, 4);
    weir_plan_destroy(plan);
    check(weir_device_close(dev));
    return equal ? 0 : 1;
}
