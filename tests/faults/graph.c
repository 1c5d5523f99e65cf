/* Every allocation and every driver call behind building, loading and dumping graphs, and
 * behind the same calls without a graph. */
#include "steps.h"

#include <stdlib.h>

static const char spec[] = "cpu:cores=2,threads=1";
static const char tag[] = "faults";

/* ---- the steps ---- */

static weir_status make_graph(struct world *w)
{
    return weir_graph_create(w->dev, &w->graph);
}

static weir_status input(struct world *w)
{
    return weir_graph_input(w->graph, "x", WEIR_F32, 2, (int64_t[]){4, 6}, &w->extra[X]);
}

static weir_status begin(struct world *w)
{
    return weir_graph_begin(w->graph);
}

static weir_status add(struct world *w)
{
    return weir_add(w->extra[X], w->tensors[0], &w->extra[SUM]);
}

static weir_status transpose(struct world *w)
{
    return weir_tensor_transpose(w->extra[SUM], 0, 1, &w->extra[TURNED]);
}

static weir_status on_another_stream(struct world *w)
{
    weir_status st;

    CHECK_OK(weir_scope_push_stream("1", 0));
    CHECK_OK(weir_scope_push_cores((weir_cores){1, 1}));
    st = weir_matmul(w->extra[SUM], w->extra[TURNED], &w->extra[PRODUCT]);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    return st;
}

static weir_status wait_tensor(struct world *w)
{
    return weir_wait_tensor(w->extra[X], w->extra[PRODUCT]);
}

static weir_status in_super_kernel(struct world *w)
{
    weir_status st;

    CHECK_OK(weir_scope_push_super_kernel("both", "stream-fusion=1"));
    st = weir_mul_scalar(w->extra[X], 2, &w->extra[SCALED]);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_SUPER_KERNEL));
    return st;
}

static weir_status in_place(struct world *w)
{
    weir_status st;

    CHECK_OK(weir_scope_push_super_kernel("both", "stream-fusion=1"));
    st = weir_relu_into(w->extra[SCALED], w->extra[SCALED]);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_SUPER_KERNEL));
    return st;
}

/* A run that was refused must not have done this. */
static weir_status count_runs(struct world *w)
{
    return weir_add_scalar_into(w->tensors[COUNTED], 1, w->tensors[COUNTED]);
}

static weir_status record_token(struct world *w)
{
    return weir_token_record(w->dev, &w->extra[TOKEN]);
}

static weir_status wait_for_token(struct world *w)
{
    weir_status st;

    CHECK_OK(weir_scope_push_stream("2", 0));
    st = weir_token_wait(&w->extra[TOKEN], 1);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    return st;
}

static weir_status create_tagged(struct world *w)
{
    return weir_tagged_event_create(w->dev, tag);
}

static weir_status record_tagged(struct world *w)
{
    return weir_tagged_event_record(w->dev, tag);
}

static weir_status wait_for_tagged(struct world *w)
{
    weir_status st;

    CHECK_OK(weir_scope_push_stream("2", 0));
    st = weir_tagged_event_wait(w->dev, tag);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    return st;
}

static weir_status destroy_tagged(struct world *w)
{
    return weir_tagged_event_destroy(w->dev, tag);
}

static weir_status end(struct world *w)
{
    return weir_graph_end(w->graph);
}

static weir_status by_name(struct world *w)
{
    weir_attr dims = {.name = "dims", .kind = WEIR_ATTR_INTS};

    dims.value.ints.data = (int64_t[]){1};
    dims.value.ints.count = 1;
    return weir_graph_add(w->graph, "Sum", "sum_of_rows", &dims, 1, &w->extra[SCALED], 1,
                          &w->extra[LAST], 1);
}

static weir_status last_as_output(struct world *w)
{
    return weir_graph_output(w->graph, "last", w->extra[LAST]);
}

static weir_status view_as_output(struct world *w)
{
    return weir_graph_output(w->graph, "turned", w->extra[TURNED]);
}

static weir_status product_as_output(struct world *w)
{
    return weir_graph_output(w->graph, "product", w->extra[PRODUCT]);
}

/* Which a graph sees to itself. */
static weir_status let_another_stream_wait(struct world *w)
{
    weir_stream *one;
    weir_status st = weir_stream_tagged(w->dev, "1", 0, &one);

    return st ? st : weir_stream_wait_stream(one, w->s);
}

/* Both with and without a graph. */
#define OPERATORS                                                                        \
    on_another_stream, wait_tensor, in_super_kernel, in_place, count_runs, record_token, \
        wait_for_token, create_tagged, record_tagged, wait_for_tagged, destroy_tagged

static const inject_call eager[] = {add, transpose, let_another_stream_wait, OPERATORS};
static const inject_call captured[] = {make_graph,
                                       input,
                                       begin,
                                       add,
                                       transpose,
                                       OPERATORS,
                                       end,
                                       by_name,
                                       last_as_output,
                                       view_as_output,
                                       product_as_output};

/* From the step that failed on. */
static weir_status take_steps(struct world *w, const inject_call *steps, int n)
{
    weir_status st;

    for (; w->done < n; w->done++) {
        w->before = stats_of(w->dev);
        if ((st = steps[w->done](w))) {
            CHECK_EQ(weir_scope_depth(), 0);
            return st;
        }
    }
    return WEIR_OK;
}

void steps_make_graph(struct world *w)
{
    CHECK_OK(take_steps(w, captured, (int)weir__countof(captured)));
}

/* ---- graphs ---- */

static char *whole; /* the graph's text when nothing fails */

static weir_status dump(struct world *w)
{
    char *text = weir_graph_dump(w->graph), *dot = text ? weir_graph_dot(w->graph) : NULL;
    weir_status st = text && dot ? WEIR_OK : weir__last_status();

    if (!st) {
        free(whole);
        whole = text;
        text = NULL;
    }
    free(text);
    free(dot);
    return st;
}

static weir_status build(struct world *w)
{
    weir_status st = take_steps(w, captured, (int)weir__countof(captured));
    char *text;

    if (st)
        return st;
    if (!(text = weir_graph_dump(w->graph)))
        return weir__last_status();
    CHECK_STR_EQ(text, whole); /* no trace of the call that failed */
    free(text);
    return WEIR_OK;
}

static weir_status load(struct world *w)
{
    weir_graph *g = (weir_graph *)w;
    weir_status st = weir_graph_load(w->dev, whole, strlen(whole), "whole.pbtxt", &g);

    CHECK(!st == !!g);
    if (!st)
        CHECK_GT(weir_graph_node_count(g), 5);
    weir_graph_destroy(g);
    return st;
}

TEST_TIMEOUT(faults, building_a_graph_survives_any_failed_allocation, 120)
{
    inject_install();
    CHECK_GT(inject_each_in("dump", spec, steps_make_graph, dump), 1);
    CHECK_GT(inject_each_in("build", spec, NULL, build), 60);
    CHECK_GT(inject_each_driver_call("build", spec, NULL, build), 0); /* constants are read */
    free(whole);
}

TEST_TIMEOUT(faults, loading_a_graph_survives_any_failed_allocation, 120)
{
    inject_install();
    inject_each_in("dump", spec, steps_make_graph, dump);
    CHECK_GT(inject_each_in("load", spec, NULL, load), 60);
    CHECK_GT(inject_each_driver_call("load", "npu:a3", NULL, load), 0); /* constants have bytes */
    free(whole);
}

/* ---- the same calls at once ---- */

static void prepare_eager(struct world *w)
{
    w->extra[X] = weir_tensor_retain(w->tensors[2]);
}

static weir_status run_eagerly(struct world *w)
{
    weir_status st = take_steps(w, eager, (int)weir__countof(eager));

    inject_disarm_driver();
    if (!st) {
        CHECK_OK(weir_device_sync(w->dev));
        steps_check_count(w, 1);
    }
    return st;
}

static void hold_stream(struct world *w)
{
    prepare_eager(w);
    submit_gate(w->other, &w->gate);
}

static weir_status back_to_s(struct world *w)
{
    return weir_stream_set_current(w->s);
}

static weir_status wait_for_sum(struct world *w)
{
    return weir_wait_tensor(w->extra[X], w->extra[SUM]);
}

/* On a stream whose work is not over, order needs a wait. */
static weir_status wait_for_held(struct world *w)
{
    static const inject_call steps[] = {add, record_token, back_to_s, wait_for_token, wait_for_sum};

    if (w->done < 2)
        CHECK_OK(weir_stream_set_current(w->other));
    return take_steps(w, steps, (int)weir__countof(steps));
}

TEST_TIMEOUT(faults, eager_scopes_and_waits_survive_any_failed_allocation, 120)
{
    inject_install();
    CHECK_GT(inject_each_in("eager", spec, prepare_eager, run_eagerly), 4);
    CHECK_GT(inject_each_driver_call("eager", spec, prepare_eager, run_eagerly), 4);
    CHECK_GT(inject_each_in("held", spec, hold_stream, wait_for_held), 1);
    CHECK_GT(inject_each_driver_call("held", spec, hold_stream, wait_for_held), 1);
}
