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

#endif
