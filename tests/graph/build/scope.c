/* Scopes: nesting, inheritance, restoring, and what they say of bad use. */
#include "harness/test.h"
#include "weir/weir.h"

#include <stdlib.h>

static weir_device *open_device(const char *spec)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(spec, &dev));
    return dev;
}

static const char *here(weir_device *dev)
{
    return weir_stream_name(weir_stream_current(dev));
}

TEST(scope, stream_scopes_nest_and_restore_the_stream)
{
    weir_device *dev = open_device("cpu");
    weir_stream *own;

    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.name = "own"}, &own));
    CHECK_STR_EQ(here(dev), "default");
    CHECK_OK(weir_scope_push_stream("a", -2));
    CHECK_STR_EQ(here(dev), "a");
    CHECK_EQ(weir_stream_priority(weir_stream_current(dev)), -2);
    CHECK_OK(weir_scope_push_stream("b", 0));
    CHECK_STR_EQ(here(dev), "b");
    CHECK_OK(weir_stream_set_current(own)); /* inside a scope: until it is left */
    CHECK_STR_EQ(here(dev), "own");
    CHECK_OK(weir_scope_push_stream("default", 0));
    CHECK_STR_EQ(here(dev), "default");
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_STR_EQ(here(dev), "own");
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_STR_EQ(here(dev), "a");
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_STR_EQ(here(dev), "default");
    CHECK_OK(weir_device_close(dev));
}

static int leave_by_return(weir_device *dev)
{
    WEIR_STREAM_SCOPE("r", 0)
    {
        WEIR_CORE_SCOPE(1, 1)
        {
            CHECK_STR_EQ(here(dev), "r");
            return weir_scope_depth();
        }
    }
    return -1;
}

TEST(scope, the_block_form_is_left_by_break_goto_and_return)
{
    weir_device *dev = open_device("cpu");

    CHECK_EQ(leave_by_return(dev), 2);
    CHECK_EQ(weir_scope_depth(), 0);
    WEIR_STREAM_SCOPE("x", 0)
    {
        CHECK_STR_EQ(here(dev), "x");
        break;
    }
    CHECK_EQ(weir_scope_depth(), 0);
    WEIR_STREAM_SCOPE("y", 0)
    {
        WEIR_SUPER_KERNEL_SCOPE("k", "stream-fusion=1")
        {
            goto out;
        }
    }
out:
    CHECK_EQ(weir_scope_depth(), 0);
    int ran = 0;
    WEIR_STREAM_SCOPE("", 0) /* refused: the body does not run */
    ran = 1;
    CHECK_EQ(ran, 0);
    CHECK_EQ(weir_scope_depth(), 0);
    CHECK_OK(weir_device_close(dev));
}

TEST(scope, every_kind_has_a_block_form)
{
    int ran = 0;

    WEIR_NEVER_TIMEOUT_SCOPE(true)
    {
        WEIR_SUPER_KERNEL_SCOPE("k", "")
        {
            CHECK_EQ(weir_scope_depth(), 2);
            ran++;
        }
        CHECK_EQ(weir_scope_depth(), 1);
        break;
    }
    CHECK_EQ(ran, 1);
    CHECK_EQ(weir_scope_depth(), 0);
}

TEST(scope, the_error_for_an_unpaired_scope_names_its_kind)
{
    CHECK_STATUS(weir_scope_pop(WEIR_SCOPE_CORES), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "core limit scope is left that was never entered");
    CHECK_OK(weir_scope_push_stream("a", 0));
    CHECK_STATUS(weir_scope_pop(WEIR_SCOPE_CORES), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "innermost open one is a stream scope");
    CHECK_EQ(weir_scope_depth(), 1);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_STATUS(weir_scope_pop((weir_scope_kind)9), WEIR_EINVAL);
    for (int i = 0; i < 32; i++)
        CHECK_OK(weir_scope_push_never_timeout(true));
    CHECK_STATUS(weir_scope_push_never_timeout(true), WEIR_ESTATE);
}

TEST(scope, bad_arguments_enter_no_scope)
{
    static char longest[100];

    memset(longest, 'x', sizeof longest - 1);
    CHECK_STATUS(weir_scope_push_stream("", 0), WEIR_EINVAL);
    CHECK_STATUS(weir_scope_push_stream(NULL, 0), WEIR_EINVAL);
    CHECK_STATUS(weir_scope_push_stream(longest, 0), WEIR_EINVAL);
    CHECK_STATUS(weir_scope_push_stream("a", 8), WEIR_ERANGE);
    CHECK_STATUS(weir_scope_push_cores((weir_cores){0, 1}), WEIR_ERANGE);
    CHECK_STATUS(weir_scope_push_cores((weir_cores){1, -2}), WEIR_ERANGE);
    CHECK_STATUS(weir_scope_push_super_kernel("k", "stream-fusion"), WEIR_EINVAL);
    CHECK_STATUS(weir_scope_push_super_kernel("k", "stream-fusion=2"), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "expected 0 or 1");
    CHECK_STATUS(weir_scope_push_super_kernel("k", "colour=red"), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "unknown super kernel option 'colour'");
    CHECK_STATUS(weir_scope_push_super_kernel("k", "debug-aic-num=x"), WEIR_EINVAL);
    CHECK_STATUS(weir_scope_push_super_kernel("", NULL), WEIR_EINVAL);
    CHECK_EQ(weir_scope_depth(), 0);
    CHECK_OK(weir_scope_push_super_kernel(
        "k", "stream-fusion=0:strict-scope-check=abort:feed-sync-all=1:debug-aiv-num=12"));
    CHECK_OK(weir_scope_push_super_kernel(NULL, NULL));
}

TEST(scope, a_core_limit_applies_to_eager_operators_and_is_checked)
{
    weir_device *dev = open_device("cpu:cube=4,vector=8");
    const int64_t shape[] = {4};
    weir_tensor *x, *y;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 1, shape, &x));
    CHECK_OK(weir_fill(x, 1));
    CHECK_OK(weir_scope_push_cores((weir_cores){2, 64}));
    CHECK_STATUS(weir_relu(x, &y), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "core limit 64 for vector cores is out of range");
    CHECK_PTR_EQ(y, NULL);
    CHECK_OK(weir_scope_push_cores((weir_cores){-1, 3})); /* the inner one wins */
    CHECK_OK(weir_relu(x, &y));
    weir_tensor_release(y);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

TEST(scope, wait_tensor_orders_eager_work_on_any_stream)
{
    weir_device *dev = open_device("cpu:jitter=11,threads=4,cores=4");
    const int64_t n = 20000;
    weir_stream *a, *b, *c;

    CHECK_OK(weir_stream_tagged(dev, "a", 0, &a));
    CHECK_OK(weir_stream_tagged(dev, "b", 0, &b));
    CHECK_OK(weir_stream_tagged(dev, "c", 0, &c));
    for (int round = 0; round < 300; round++) {
        weir_tensor *x, *y;
        static float values[20000];

        CHECK_OK(weir_stream_set_current(a));
        CHECK_OK(weir_tensor_empty(a, WEIR_F32, 1, &n, &x));
        CHECK_OK(weir_fill(x, round)); /* slow enough to be overtaken */
        CHECK_OK(weir_stream_set_current(b));
        CHECK_OK(weir_wait_tensor(x, x));
        CHECK_OK(weir_stream_set_current(c)); /* never told to wait by anyone but x itself */
        CHECK_OK(weir_add_scalar(x, 1, &y));
        CHECK_OK(weir_tensor_read(y, values, sizeof values));
        CHECK(values[0] == (float)round + 1 && values[n - 1] == (float)round + 1);
        weir_tensor_release(x);
        weir_tensor_release(y);
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(scope, a_node_that_uses_a_waiting_tensor_twice_has_one_edge)
{
    weir_device *dev = open_device("cpu:cores=2");
    const int64_t n = 4;
    weir_tensor *x, *y, *z, *out;
    weir_graph *g, *loaded;
    char *text, *again;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_relu(x, &y));
    CHECK_OK(weir_neg(x, &z));
    CHECK_OK(weir_wait_tensor(y, z));
    CHECK_OK(weir_wait_tensor(x, z));
    CHECK_OK(weir_add(y, y, &out));
    weir_tensor_release(out);
    CHECK_OK(weir_mul(x, y, &out));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "out", out));
    text = weir_graph_dump(g);
    CHECK_OK(weir_graph_load(dev, text, strlen(text), "dumped", &loaded));
    again = weir_graph_dump(loaded);
    CHECK_STR_EQ(again, text);
    free(text);
    free(again);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_tensor_release(out);
    weir_graph_destroy(g);
    weir_graph_destroy(loaded);
    CHECK_OK(weir_device_close(dev));
}

TEST(scope, tokens_and_tagged_events_order_streams)
{
    weir_device *dev = open_device("cpu:jitter=2,threads=4,cores=4");
    const int64_t n = 20000;
    weir_tensor *token, *x, *y;
    static float values[20000];

    CHECK_OK(weir_tagged_event_create(dev, "e"));
    CHECK_STATUS(weir_tagged_event_create(dev, "e"), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "tagged event tag e is already in use");
    CHECK_STATUS(weir_tagged_event_wait(dev, "f"), WEIR_EINVAL);
    CHECK_STATUS(weir_tagged_event_record(dev, "f"), WEIR_EINVAL);
    CHECK_OK(weir_tagged_event_wait(dev, "e")); /* never recorded: over */
    CHECK_STATUS(weir_token_wait(NULL, 0), WEIR_EINVAL);
    for (int round = 0; round < 300; round++) {
        CHECK_OK(weir_scope_push_stream("p", 0));
        CHECK_OK(weir_tensor_empty(weir_stream_current(dev), WEIR_F32, 1, &n, &x));
        CHECK_OK(weir_fill(x, round));
        if (round % 2)
            CHECK_OK(weir_token_record(dev, &token));
        else
            CHECK_OK(weir_tagged_event_record(dev, "e"));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
        CHECK_OK(weir_scope_push_stream("q", 0));
        if (round % 2) {
            CHECK_OK(weir_token_wait(&token, 1));
            weir_tensor_release(token);
        } else {
            CHECK_OK(weir_tagged_event_wait(dev, "e"));
        }
        CHECK_OK(weir_add_scalar(x, 1, &y));
        CHECK_OK(weir_tensor_record_tagged_stream(x, "q"));
        weir_tensor_release(x);
        CHECK_OK(weir_tensor_read(y, values, sizeof values));
        CHECK(values[0] == (float)round + 1 && values[n - 1] == (float)round + 1);
        weir_tensor_release(y);
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    }
    token = NULL;
    CHECK_STATUS(weir_token_wait(&token, 1), WEIR_EINVAL);
    CHECK_OK(weir_tagged_event_destroy(dev, "e"));
    CHECK_STATUS(weir_tagged_event_destroy(dev, "e"), WEIR_EINVAL);
    CHECK_OK(weir_device_close(dev));
}

TEST(scope, a_wait_for_a_tensor_waits_for_the_work_that_computes_it)
{
    weir_device *dev = open_device("cpu:jitter=2,threads=4,cores=4");
    const int64_t n = 20000;
    weir_tensor *x, *y;
    static float values[20000];

    CHECK_OK(weir_tensor_empty(weir_stream_current(dev), WEIR_F32, 1, &n, &x));
    for (int round = 0; round < 300; round++) {
        CHECK_OK(weir_scope_push_stream("p", 0));
        CHECK_OK(weir_fill(x, round));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
        CHECK_OK(weir_scope_push_stream("q", 0));
        CHECK_OK(weir_token_wait(&x, 1));
        CHECK_OK(weir_add_scalar(x, 1, &y));
        CHECK_OK(weir_tensor_read(y, values, sizeof values));
        CHECK(values[0] == (float)round + 1 && values[n - 1] == (float)round + 1);
        weir_tensor_release(y);
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    }
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}
