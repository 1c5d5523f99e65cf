/* Ranks that disagree, die or never arrive: every rank gets an error that names them. */
#include "helpers.h"

static void expect_on_all(struct world *w, weir_status status, const char *one, const char *other)
{
    for (int r = 0; r < w->n; r++) {
        test_note("rank %d", r);
        CHECK_STATUS(weir_stream_sync(weir_stream_default(w->dev[r])), status);
        CHECK_STR(weir_last_error(), one);
        CHECK_STR(weir_last_error(), other);
    }
    test_note("%s", "");
    CHECK_STATUS(weir_group_state(w->group), status);
}

static void release_all(weir_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        weir_tensor_release(t[i]);
}

TEST(errors, different_shapes_are_named)
{
    struct world w;
    weir_tensor *x[2], *y[2];

    world_open(&w, 2, "cpu:cores=1", &(weir_group_options){.name = "tp"});
    for (int r = 0; r < 2; r++) {
        x[r] = ramp(w.dev[r], 4 + r, 0, 1);
        CHECK_OK(weir_all_reduce(w.rank[r], x[r], WEIR_REDUCE_SUM, &y[r]));
    }
    expect_on_all(&w, WEIR_EINVAL, "AllReduce (call 1 of group 'tp')", "the shape differs");
    CHECK_STR(weir_last_error(), "calls AllReduce sum f32[4]");
    CHECK_STR(weir_last_error(), "calls AllReduce sum f32[5]");
    release_all(x, 2);
    release_all(y, 2);
    world_close(&w);
}

TEST(errors, different_types_reductions_operators_and_roots_are_named)
{
    for (int what = 0; what < 4; what++) {
        static const char *const text[] = {"the data type differs", "the reduction differs",
                                           "the operator differs", "the root differs"};
        struct world w;
        weir_tensor *x[3], *y[3];

        world_open(&w, 3, "cpu:cores=1", NULL);
        for (int i = 0; i < 3; i++) {
            int r = (i + 2) % 3; /* rank 1 comes last: afterwards the group takes no calls */
            bool odd = r == 1;

            x[r] = tensor_of(w.dev[r], what == 0 && odd ? WEIR_I32 : WEIR_F32, 1, (int64_t[]){3},
                             (float[]){1, 2, 3});
            if (what == 2 && odd)
                CHECK_OK(weir_reduce_scatter(w.rank[r], x[r], WEIR_REDUCE_SUM, &y[r]));
            else if (what == 3)
                CHECK_OK(weir_broadcast(w.rank[r], x[r], odd, &y[r]));
            else
                CHECK_OK(weir_all_reduce(
                    w.rank[r], x[r], what == 1 && odd ? WEIR_REDUCE_MAX : WEIR_REDUCE_SUM, &y[r]));
        }
        expect_on_all(&w, WEIR_EINVAL, text[what], "rank 1 calls");
        release_all(x, 3);
        release_all(y, 3);
        world_close(&w);
    }
}

TEST(errors, counts_that_do_not_fit_are_named)
{
    struct world w;
    weir_tensor *x[2], *y[2];

    world_open(&w, 2, "cpu:cores=1", NULL);
    for (int r = 0; r < 2; r++) {
        x[r] = ramp(w.dev[r], 4, 0, 1);
        CHECK_OK(weir_all_to_all_counts(w.rank[r], x[r], (int64_t[]){2, 2},
                                        (int64_t[]){r ? 3 : 2, 2}, &y[r]));
    }
    expect_on_all(&w, WEIR_EINVAL, "rank 0 sends 2 rows to rank 1", "expects 3 from it");
    release_all(x, 2);
    release_all(y, 2);
    world_close(&w);
}

TEST(errors, collectives_in_another_order_are_no_hang)
{
    struct world w;
    weir_tensor *x[2], *y[4] = {NULL};
    weir_status st;

    world_open(&w, 2, "cpu:cores=1", NULL);
    for (int r = 0; r < 2; r++)
        x[r] = ramp(w.dev[r], 4, 0, 1);
    CHECK_OK(weir_all_reduce(w.rank[0], x[0], WEIR_REDUCE_SUM, &y[0]));
    CHECK_OK(weir_all_gather(w.rank[0], x[0], &y[1]));
    CHECK_OK(weir_all_gather(w.rank[1], x[1], &y[2]));
    st = weir_all_reduce(w.rank[1], x[1], WEIR_REDUCE_SUM, &y[3]);
    CHECK(!st || st == WEIR_ESTATE); /* the ranks may have met by now */
    expect_on_all(&w, WEIR_EINVAL, "calls AllReduce", "calls AllGather");
    release_all(x, 2);
    release_all(y, 4);
    world_close(&w);
}

TEST(errors, a_rank_that_never_arrives_is_named)
{
    struct world w;
    weir_tensor *x[3], *y[3];

    world_open(&w, 3, "cpu:cores=1",
               &(weir_group_options){.name = "ep", .timeout_ns = 1000 * 1000 * 1000});
    for (int r = 0; r < 3; r += 2)
        x[r] = ramp(w.dev[r], 4, 0, 1);
    for (int r = 0; r < 3; r += 2) /* one after the other, within the timeout */
        CHECK_OK(weir_all_gather(w.rank[r], x[r], &y[r]));
    for (int r = 0; r < 3; r += 2) {
        CHECK_STATUS(weir_stream_sync(weir_stream_default(w.dev[r])), WEIR_ETIMEDOUT);
        CHECK_STR(weir_last_error(), "AllGather (call 1 of group 'ep') timed out after 1 s");
        CHECK_STR(weir_last_error(), is_modelled() ? "rank 1 (device 2; not called)"
                                     : is_gpu()    ? "rank 1 on cuda:"
                                                   : "rank 1 on cpu:cores=1 (device ");
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
    }
    CHECK_STATUS(weir_barrier(w.rank[1]), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "group 'ep' is broken and must be created anew");
    world_close(&w);
}

/* Without a timeout of its own the group's comes before the device's. */
TEST(errors, the_devices_timeout_is_the_default)
{
    struct world w;

    world_open(&w, 2, "cpu:cores=1,op_timeout=1", NULL);
    CHECK_OK(weir_barrier(w.rank[0]));
    CHECK_STATUS(weir_stream_sync(weir_stream_default(w.dev[0])), WEIR_ETIMEDOUT);
    CHECK_STR(weir_last_error(), "rank 1");
    CHECK_STATUS(weir_group_state(w.group), WEIR_ETIMEDOUT);
    world_close(&w);
}

TEST(errors, a_rank_whose_stream_is_in_error_is_named)
{
    struct world w;
    weir_tensor *x[3], *y[3];

    world_open(&w, 3, "cpu:cores=1", NULL);
    for (int i = 0; i < 3; i++) {
        int r = (i + 2) % 3; /* rank 1 comes last: afterwards the group takes no calls */

        x[r] = ramp(w.dev[r], 4, 0, 1);
        if (r == 1)
            submit_failure(weir_stream_default(w.dev[r]));
        CHECK_OK(weir_all_reduce(w.rank[r], x[r], WEIR_REDUCE_SUM, &y[r]));
    }
    for (int r = 0; r < 3; r++) {
        CHECK_STATUS(weir_stream_sync(weir_stream_default(w.dev[r])), failure_status());
        CHECK_STR(weir_last_error(),
                  is_gpu() ? "operator 'IndexSelect'" : "operator 'broken' failed");
        if (r != 1)
            CHECK_STR(weir_last_error(), "rank 1 does not take part");
    }
    release_all(x, 3);
    release_all(y, 3);
    world_close(&w);
}

TEST(errors, abort_lets_waiting_ranks_go)
{
    struct world w;

    world_open(&w, 2, "cpu:cores=1", &(weir_group_options){.name = "dp", .timeout_ns = -1});
    CHECK_OK(weir_group_state(w.group));
    CHECK_OK(weir_barrier(w.rank[0]));
    weir_group_abort(w.group, "shutting down");
    weir_group_abort(w.group, "the first reason stays");
    CHECK_STATUS(weir_stream_sync(weir_stream_default(w.dev[0])), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "group 'dp' was aborted: shutting down");
    CHECK_STATUS(weir_barrier(w.rank[1]), WEIR_ESTATE);
    world_close(&w);
}

/* After an error: new streams, a new group, and everything works. */
TEST(errors, a_new_group_on_new_streams_works)
{
    struct world w;
    weir_stream *s[2];
    weir_tensor *x[2], *y[2];

    world_open(&w, 2, "cpu:cores=1", NULL);
    for (int round = 0; round < 3; round++) {
        for (int r = 0; r < 2; r++) {
            x[r] = ramp(w.dev[r], 4, r, 1);
            s[r] = fresh_stream(w.dev[r]);
            if (round == 1 && r == 1)
                submit_failure(s[r]);
            CHECK_OK(weir_all_reduce(w.rank[r], x[r], WEIR_REDUCE_SUM, &y[r]));
        }
        for (int r = 0; r < 2; r++) {
            CHECK_STATUS(weir_stream_sync(s[r]), round == 1 ? failure_status() : WEIR_OK);
            if (round != 1)
                CHECK_NEAR(first_of(y[r]), 1, 0);
            weir_tensor_release(x[r]);
            weir_tensor_release(y[r]);
            CHECK_OK(weir_stream_destroy(s[r]));
            CHECK_OK(weir_stream_set_current(weir_stream_default(w.dev[r])));
        }
        if (round == 1) {
            CHECK_OK(weir_group_destroy(w.group));
            CHECK_OK(weir_group_create(w.dev, 2, NULL, &w.group));
            for (int r = 0; r < 2; r++)
                w.rank[r] = weir_group_rank(w.group, r);
        }
    }
    world_close(&w);
}

TEST(errors, handles_that_are_in_use_stay)
{
    struct world w;
    struct gate gate = {0, 0};

    world_open(&w, 2, "cpu:cores=1", &(weir_group_options){.name = "x"});
    CHECK_STATUS(weir_device_close(w.dev[0]), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "groups have 1 rank(s) on it");
    submit_gate(weir_stream_default(w.dev[0]), WEIR_ENGINE_VECTOR, &gate);
    CHECK_OK(weir_barrier(w.rank[0]));
    CHECK_STATUS(weir_group_destroy(w.group), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "group 'x' cannot be destroyed: 1 queued");
    CHECK_OK(weir_barrier(w.rank[1]));
    open_gate(&gate);
    world_close(&w);
}

TEST(errors, invalid_calls_are_refused_at_once)
{
    struct world w;
    weir_tensor *x, *other, *y;
    weir_group *group;
    int64_t counts[2] = {1, 1};

    world_open(&w, 2, "cpu:cores=1", NULL);
    x = ramp(w.dev[0], 3, 0, 1);
    other = ramp(w.dev[1], 3, 0, 1);
    CHECK_STATUS(weir_all_reduce(w.rank[0], other, WEIR_REDUCE_SUM, &y), WEIR_EDEVICE);
    CHECK_STR(weir_last_error(), "rank 0 of group");
    CHECK_STATUS(weir_all_reduce(w.rank[0], x, (weir_reduce)9, &y), WEIR_EINVAL);
    CHECK_STATUS(weir_reduce_scatter(w.rank[0], x, WEIR_REDUCE_SUM, &y), WEIR_ESHAPE);
    CHECK_STR(weir_last_error(), "the first dim of f32[3] is not a multiple of 2 ranks");
    CHECK_STATUS(weir_broadcast(w.rank[0], x, 2, &y), WEIR_ERANGE);
    CHECK_STATUS(weir_send(w.rank[0], x, 0), WEIR_ERANGE);
    CHECK_STATUS(weir_send(w.rank[0], x, 2), WEIR_ERANGE);
    CHECK_STATUS(weir_recv(w.rank[0], x, -1), WEIR_ERANGE);
    CHECK_STATUS(weir_all_to_all_counts(w.rank[0], x, counts, counts, &y), WEIR_ESHAPE);
    counts[0] = -1;
    CHECK_STATUS(weir_all_to_all_counts(w.rank[0], x, counts, counts, &y), WEIR_ERANGE);
    CHECK_STATUS(weir_all_to_all_into(w.rank[0], x, x), WEIR_ESHAPE);
    CHECK_STATUS(weir_group_create(w.dev, 0, NULL, &group), WEIR_ERANGE);
    CHECK_STATUS(weir_group_create(w.dev, WEIR_MAX_RANKS + 1, NULL, &group), WEIR_ERANGE);
    CHECK_STATUS(weir_group_create((weir_device *[]){w.dev[0], NULL}, 2, NULL, &group),
                 WEIR_EINVAL);
    CHECK(!weir_group_rank(w.group, 2));
    CHECK(!weir_group_rank(w.group, -1));
    /* None of that has counted: the next calls are the first. */
    for (int r = 0; r < 2; r++)
        CHECK_OK(weir_barrier(w.rank[r]));
    for (int r = 0; r < 2; r++)
        CHECK_OK(weir_device_sync(w.dev[r]));
    weir_tensor_release(x);
    weir_tensor_release(other);
    world_close(&w);
}

/* Behind the call it is to meet, on the same stream, a call would never be reached. */
TEST(errors, two_ranks_on_one_stream_are_refused)
{
    weir_device *dev, *devices[2];
    weir_group *group;
    weir_tensor *x;

    CHECK_OK(weir_device_open("cpu:cores=1,threads=1", &dev));
    devices[0] = devices[1] = dev;
    CHECK_OK(weir_group_create(devices, 2, &(weir_group_options){.name = "tp"}, &group));
    x = ramp(dev, 8, 1, 0);
    for (int k = 0; k < 2; k++)
        CHECK_OK(weir_all_reduce_into(weir_group_rank(group, 0), x, WEIR_REDUCE_SUM, x));
    CHECK_STATUS(weir_all_reduce_into(weir_group_rank(group, 1), x, WEIR_REDUCE_SUM, x),
                 WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "rank 1 of group 'tp' would wait for ever on stream 'default'");
    CHECK_STR(weir_last_error(), "the call of rank 0");
    CHECK_OK(weir_group_state(group)); /* nothing was queued, and nothing is broken */
    weir_group_abort(group, "enough");
    CHECK_STATUS(weir_stream_sync(weir_stream_default(dev)), WEIR_ESTATE);
    weir_tensor_release(x);
    CHECK_OK(weir_group_destroy(group));
    CHECK_OK(weir_device_close(dev));
}

/* Calls in turn on the same streams, and on each other's, are no such thing. */
TEST(errors, ranks_may_change_streams)
{
    weir_device *dev, *devices[2];
    weir_group *group;
    weir_stream *s[2];

    CHECK_OK(weir_device_open("cpu:cores=1,threads=1", &dev));
    devices[0] = devices[1] = dev;
    CHECK_OK(weir_group_create(devices, 2, NULL, &group));
    for (int r = 0; r < 2; r++)
        s[r] = fresh_stream(dev);
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < 2; i++) {
            int r = (i + k / 2) % 2;

            CHECK_OK(weir_stream_set_current(s[(r + k) % 2]));
            CHECK_OK(weir_barrier(weir_group_rank(group, r)));
        }
    for (int r = 0; r < 2; r++)
        CHECK_OK(weir_stream_sync(s[r]));
    CHECK_OK(weir_group_destroy(group));
    CHECK_OK(weir_device_close(dev));
}
