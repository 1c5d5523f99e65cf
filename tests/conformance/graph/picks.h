/* A plan with an operator that fails for a bad index. */
#ifndef TESTS_CONFORMANCE_GRAPH_PICKS_H
#define TESTS_CONFORMANCE_GRAPH_PICKS_H

#include "harness/test.h"
#include "weir/weir.h"

enum { ROWS = 10, TAKEN = 3 };

/* Of a table and an index: softmax(table), and the table's rows at `index`, on the caller's stream
 * or on "beside". */
static inline weir_plan *make_picks(weir_device *dev, bool beside)
{
    weir_tensor *table, *index, *shares, *rows;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_graph_input(g, "table", WEIR_F32, 1, (int64_t[]){ROWS}, &table));
    CHECK_OK(weir_graph_input(g, "index", WEIR_I64, 1, (int64_t[]){TAKEN}, &index));
    CHECK_OK(weir_softmax(table, 0, &shares));
    if (beside)
        CHECK_OK(weir_scope_push_stream("beside", 0));
    CHECK_OK(weir_index_select(table, 0, index, &rows));
    if (beside)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_output(g, "shares", shares));
    CHECK_OK(weir_graph_output(g, "rows", rows));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(table);
    weir_tensor_release(index);
    weir_tensor_release(shares);
    weir_tensor_release(rows);
    weir_graph_destroy(g);
    return plan;
}

/* The plan with tensors for it, which the default stream fills. */
struct picker {
    weir_device *dev;
    weir_plan *plan;
    weir_tensor *table, *good, *bad, *out[2];
};

static inline weir_tensor *filled(weir_device *dev, weir_dtype dtype, int64_t n, double value)
{
    weir_stream *before = weir_stream_current(dev);
    weir_tensor *t;

    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), dtype, 1, &n, &t));
    CHECK_OK(weir_fill(t, value));
    CHECK_OK(weir_stream_set_current(before));
    return t;
}

static inline void picker_init(struct picker *p, weir_device *dev, bool beside)
{
    p->dev = dev;
    p->plan = make_picks(dev, beside);
    p->table = filled(dev, WEIR_F32, ROWS, 1);
    p->good = filled(dev, WEIR_I64, TAKEN, 2);
    p->bad = filled(dev, WEIR_I64, TAKEN, ROWS + 2);
    p->out[0] = filled(dev, WEIR_F32, ROWS, 0);
    p->out[1] = filled(dev, WEIR_F32, TAKEN, 0);
    CHECK_OK(weir_device_sync(dev));
}

static inline void picker_fini(struct picker *p)
{
    CHECK_OK(weir_stream_set_current(weir_stream_default(p->dev)));
    weir_plan_destroy(p->plan);
    weir_tensor_release(p->table);
    weir_tensor_release(p->good);
    weir_tensor_release(p->bad);
    weir_tensor_release(p->out[0]);
    weir_tensor_release(p->out[1]);
}

/* With one index always the same kernels. */
static inline void pick(struct picker *p, weir_stream *s, weir_tensor *index)
{
    CHECK_OK(weir_plan_run(p->plan, s, (weir_tensor *[]){p->table, index}, 2, p->out, 2));
}

#endif
