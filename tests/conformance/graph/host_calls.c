/* Functions of the program as operators: in order with their stream, and nodes of plans. */
#include "conformance/conformance.h"

enum { ROWS = 40, COLUMNS = 30, COUNT = ROWS * COLUMNS };

struct told {
    _Atomic int calls;
    _Atomic int fails; /* the call with this number does */
};

/* out0 = 2 * in0, whose columns lie COLUMNS apart, and out1 = the sum of in0 and in1. */
static weir_status twice_and_sum(void *user, void *const *in, void *const *out)
{
    struct told *t = user;
    const float *x = in[0], *y = in[1];
    float *twice = out[0], sum = 0;
    int call = ++t->calls;

    for (int i = 0; i < COLUMNS; i++)
        for (int k = 0; k < ROWS; k++) {
            twice[i * ROWS + k] = 2 * x[k * COLUMNS + i];
            sum += x[k * COLUMNS + i] + y[i];
        }
    *(float *)out[1] = sum;
    return call == t->fails ? weir_kernel_fail(WEIR_EKERNEL, "asked to fail") : WEIR_OK;
}

/* Of a matrix and a row: what the function above makes of the matrix, turned, and the row. */
static void ask(struct told *t, weir_tensor *x, weir_tensor *row, weir_tensor **out)
{
    weir_host_call call = {.name = "twice and sum", .fn = twice_and_sum, .user = t, .nout = 2};
    weir_tensor *turned;

    call.out[0].dtype = call.out[1].dtype = WEIR_F32;
    call.out[0].ndim = 2;
    call.out[0].shape[0] = COLUMNS;
    call.out[0].shape[1] = ROWS;
    CHECK_OK(weir_tensor_transpose(x, 0, 1, &turned));
    CHECK_OK(weir_host_run(&call, (weir_tensor *[]){turned, row}, 2, out));
    weir_tensor_release(turned);
}

static void make_inputs(weir_stream *s, weir_tensor **x, weir_tensor **row)
{
    static float values[COUNT];

    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i % 7);
    CHECK_OK(weir_tensor_from(s, WEIR_F32, 2, (int64_t[]){ROWS, COLUMNS}, values, x));
    for (int i = 0; i < COLUMNS; i++)
        values[i] = 1;
    CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, (int64_t[]){COLUMNS}, values, row));
}

/* `twice` is made of the matrix times `times`. */
static void check(weir_tensor *twice, weir_tensor *sum, float times)
{
    static float got[COUNT];
    float total = COUNT, found;

    CHECK_OK(weir_tensor_read(twice, got, sizeof got));
    CHECK_OK(weir_tensor_read(sum, &found, sizeof found));
    for (int i = 0; i < COLUMNS; i++)
        for (int k = 0; k < ROWS; k++) {
            float x = times * (float)((k * COLUMNS + i) % 7);

            CHECK_EQ((int)got[i * ROWS + k], (int)(2 * x));
            total += x;
        }
    CHECK_EQ((int)found, (int)total);
}

CONFORMANCE(host_calls, come_between_what_is_before_them_and_behind_them)
{
    weir_stream *s = new_stream(dev);
    weir_tensor *x, *row, *more, *out[2], *less;
    struct told t = {0};

    CHECK_OK(weir_stream_set_current(s));
    make_inputs(s, &x, &row);
    for (int i = 1; i <= 20; i++) {
        CHECK_OK(weir_mul_scalar(x, i, &more));
        ask(&t, more, row, out);
        CHECK_OK(weir_fill(more, 99)); /* behind it */
        CHECK_OK(weir_mul_scalar(out[0], 1, &less));
        CHECK_OK(weir_fill(out[0], 98));
        check(less, out[1], (float)i);
        weir_tensor_release(more);
        weir_tensor_release(less);
        weir_tensor_release(out[0]);
        weir_tensor_release(out[1]);
    }
    CHECK_EQ(t.calls, 20);
    weir_tensor_release(x);
    weir_tensor_release(row);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
}

CONFORMANCE(host_calls, that_fail_are_errors_of_their_stream_and_of_who_waits)
{
    weir_stream *s = new_stream(dev), *other = new_stream(dev);
    weir_tensor *x, *row, *out[2], *none[2];
    struct told t = {.fails = 2};

    CHECK_OK(weir_stream_set_current(s));
    make_inputs(s, &x, &row);
    ask(&t, x, row, out);
    check(out[0], out[1], 1);
    ask(&t, x, row, none);
    order(s, other);
    CHECK_STATUS(weir_stream_sync(other), WEIR_EKERNEL);
    CHECK_STR(weir_last_error(), "'twice and sum'");
    CHECK_STR(weir_last_error(), "asked to fail");
    CHECK_STATUS(weir_stream_sync(s), WEIR_EKERNEL);
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(out[i]);
        weir_tensor_release(none[i]);
    }
    weir_tensor_release(x);
    weir_tensor_release(row);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_destroy(other));
    CHECK_EQ(t.calls, 2);
}

CONFORMANCE(host_calls, are_nodes_of_plans_on_several_streams)
{
    weir_tensor *x, *row, *more, *first[2], *second[2], *in[2], *out[4] = {NULL};
    weir_stream *s = new_stream(dev);
    struct told t = {.fails = 9};
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){ROWS, COLUMNS}, &x));
    CHECK_OK(weir_graph_input(g, "row", WEIR_F32, 1, (int64_t[]){COLUMNS}, &row));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_mul_scalar(x, 3, &more));
    ask(&t, more, row, first);
    CHECK_OK(weir_scope_push_stream("beside", 0));
    ask(&t, x, row, second);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_graph_output(g, i ? "first sum" : "first", first[i]));
        CHECK_OK(weir_graph_output(g, i ? "second sum" : "second", second[i]));
        weir_tensor_release(first[i]);
        weir_tensor_release(second[i]);
    }
    weir_tensor_release(x);
    weir_tensor_release(row);
    weir_tensor_release(more);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_EQ(t.calls, 0);

    CHECK_OK(weir_stream_set_current(s));
    make_inputs(s, &in[0], &in[1]);
    for (int i = 0; i < 4; i++)
        CHECK_OK(weir_plan_run(plan, s, in, 2, out, 4));
    check(out[0], out[2], 3);
    check(out[1], out[3], 1);
    CHECK_EQ(t.calls, 8);
    CHECK_OK(weir_plan_run(plan, s, in, 2, out, 4));
    CHECK_STATUS(weir_stream_sync(s), WEIR_EKERNEL);
    CHECK_STR(weir_last_error(), "'twice and sum'");
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    for (int i = 0; i < 4; i++)
        weir_tensor_release(out[i]);
    weir_tensor_release(in[0]);
    weir_tensor_release(in[1]);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
}
