/* weir_nonzero in a captured graph. */
#include <stdlib.h>

#include "graph/file/pbtxt_helpers.h"

enum { ROWS = 40, COLUMNS = 70, NUMEL = ROWS * COLUMNS };

static weir_tensor *sparse(weir_device *dev, int every)
{
    float values[NUMEL];
    weir_tensor *t;

    for (int i = 0; i < NUMEL; i++)
        values[i] = every && i % every == 0 ? (float)i + 1 : 0;
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){ROWS, COLUMNS},
                              values, &t));
    return t;
}

/* The padded form begins with the exact one, and has -1 in all other rows. */
static void check_padded(weir_tensor *padded, weir_tensor *exact)
{
    static int64_t all[NUMEL][2], some[NUMEL][2];
    int64_t count = weir_tensor_shape(exact)[0];

    CHECK_EQ(weir_tensor_shape(padded)[0], NUMEL);
    CHECK_OK(weir_tensor_read(padded, all, sizeof all));
    CHECK_OK(weir_tensor_read(exact, some, (size_t)count * sizeof *some));
    CHECK_MEM_EQ(all, some, (size_t)count * sizeof *some);
    for (int64_t i = count; i < NUMEL; i++)
        if (all[i][0] != -1 || all[i][1] != -1)
            FAIL("row %lld of %lld is no padding", (long long)i, (long long)count);
}

TEST(nonzero, the_same_call_captured_gives_padded_rows)
{
    static const int every[] = {1, 2, 3, 64, 1000, 0};
    weir_device *dev;
    weir_tensor *x, *captured;
    weir_graph *g, *again;
    weir_plan *plan;
    char *text;

    CHECK_OK(weir_device_open("cpu:cores=4,threads=2", &dev));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){ROWS, COLUMNS}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_nonzero(x, &captured));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "where", captured));
    CHECK((text = weir_graph_dump(g)) != NULL); /* padding survives a file */
    CHECK_OK(weir_graph_load(dev, text, strlen(text), "nonzero", &again));
    CHECK_OK(weir_graph_compile(again, NULL, &plan));
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
        weir_tensor *in = sparse(dev, every[i]), *exact, *padded, *count, *out = NULL;
        int64_t n;

        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, &out, 1));
        CHECK_OK(weir_nonzero(in, &exact));
        CHECK_OK(weir_nonzero_padded(in, &padded, &count));
        check_padded(out, exact);
        check_padded(padded, exact);
        CHECK_OK(weir_tensor_read(count, &n, sizeof n));
        CHECK_EQ(n, weir_tensor_shape(exact)[0]);
        weir_tensor_release(in);
        weir_tensor_release(exact);
        weir_tensor_release(padded);
        weir_tensor_release(count);
        weir_tensor_release(out);
    }
    free(text);
    weir_plan_destroy(plan);
    weir_graph_destroy(again);
    weir_graph_destroy(g);
    weir_tensor_release(x);
    weir_tensor_release(captured);
    CHECK_OK(weir_device_close(dev));
}
