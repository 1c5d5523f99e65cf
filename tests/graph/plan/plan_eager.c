/* Plans of random graphs against the same calls one by one. */
#include "graph/build/random_graph.h"
#include "graph/plan/plan_helpers.h"
#include "ops/op.h"

/* A handle on a view of the value's tensor. */
static weir_tensor *operand_tensor(weir_tensor *const *values, const struct weir__operand *o)
{
    weir_tensor *whole, *t;

    if (o->value == WEIR__NO_VALUE)
        return NULL;
    whole = values[o->value];
    CHECK_OK(weir_tensor_slice(whole, 0, 0, 0, 1, &t)); /* any handle on the buffer */
    t->view = o->view;
    t->view.data = whole->buffer->address + (uintptr_t)o->view.data;
    return t;
}

static void run_node(const weir_graph *g, int v, weir_tensor **values)
{
    const struct weir__node *n = &g->nodes[v];
    weir_tensor *in[WEIR__OP_MAX_IN], *out[WEIR__OP_MAX_OUT] = {NULL};
    bool into = n->nout && g->values[n->out[0].value].node != v;

    for (int i = 0; i < n->nin; i++)
        in[i] = operand_tensor(values, &n->in[i]);
    CHECK_OK(weir_scope_push_cores(
        (weir_cores){n->marks.limit.cube > 0 ? n->marks.limit.cube : -1,
                     n->marks.limit.vector > 0 ? n->marks.limit.vector : -1}));
    if (into)
        out[0] = operand_tensor(values, &n->out[0]);
    if (into)
        CHECK_OK(weir__op_run_into(n->op, n->params, in, n->nin, out));
    else
        CHECK_OK(weir__op_run(n->op, n->params, in, n->nin, out));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    for (int i = 0; i < n->nin; i++)
        weir_tensor_release(in[i]);
    for (int i = 0; i < n->nout; i++) {
        if (into)
            weir_tensor_release(out[i]);
        else
            values[n->out[i].value] = out[i];
    }
}

static weir_tensor *random_input(weir_device *dev, const struct weir__view *view, uint64_t seed)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), view->dtype, view->ndim, view->shape, &t));
    CHECK_OK(weir_random_normal(t, seed, 0, 1));
    return t;
}

static void compare_with_eager(const char *spec, const struct random_graph_options *options,
                               const weir_compile_options *compile)
{
    weir_device *dev = open_device(spec);
    weir_graph *g = random_graph(dev, options);
    weir_tensor **values = calloc((size_t)g->nvalues, sizeof *values);
    weir_tensor *in[8] = {NULL}, *out[1024];
    weir_plan *plan;

    CHECK_LE(g->ninputs, 8);
    CHECK_OK(weir_graph_compile(g, compile, &plan));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < g->ninputs; i++)
            in[i] = random_input(dev, &g->values[g->inputs[i]].view, options->seed + (uint64_t)i);
        memset(out, 0, sizeof out);
        CHECK_OK((round ? weir_plan_call : weir_plan_run)(
            plan, weir_stream_default(dev), in, (size_t)g->ninputs, out, (size_t)g->noutputs));
        CHECK_OK(weir_device_sync(dev));
        for (int i = 0; i < g->nvalues;
             i++) /* constants that are written change from round to round */
            values[i] = g->values[i].constant ? weir_tensor_retain(g->values[i].constant) : NULL;
        if (!round || !options->in_place) {
            for (int i = 0; i < g->ninputs; i++)
                values[g->inputs[i]] =
                    random_input(dev, &g->values[g->inputs[i]].view, options->seed + (uint64_t)i);
            for (int v = 0; v < g->nnodes; v++)
                run_node(g, v, values);
            for (int i = 0; i < g->noutputs; i++) {
                weir_tensor *want = operand_tensor(values, &g->outputs[i].operand);

                check_same(g->outputs[i].name, out[i], want);
                weir_tensor_release(want);
            }
        }
        for (int i = 0; i < g->nvalues; i++)
            weir_tensor_release(values[i]);
        for (int i = 0; i < g->noutputs; i++)
            weir_tensor_release(out[i]);
        for (int i = 0; i < g->ninputs; i++)
            weir_tensor_release(in[i]);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    free(values);
    CHECK_OK(weir_device_close(dev));
}

TEST_TIMEOUT(plan, random_graphs_give_the_bits_of_eager_calls, 240)
{
    char spec[96];

    for (uint64_t seed = 1; seed <= 1000 / TEST_SLOWDOWN; seed++) {
        struct random_graph_options o =
            random_graph_defaults(seed, 4 + (int)(seed % 40), 1 + (int)(seed % 8));

        o.in_place = seed % 3 ? o.in_place : 0;
        snprintf(spec, sizeof spec, "cpu:cube=24,vector=48,threads=%d,jitter=%d", 1 + (int)seed % 4,
                 (int)seed);
        test_note("seed %d on %s", (int)seed, spec);
        compare_with_eager(
            spec, &o,
            &(weir_compile_options){
                .streams = (weir_stream_placement)(seed / 3 % 3),
                .mode = seed % 3 ? WEIR_COMPILE_REDUCE_OVERHEAD : WEIR_COMPILE_MAX_AUTOTUNE,
            });
    }
}
