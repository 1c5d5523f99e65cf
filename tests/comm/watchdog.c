/* What a timeout says: who holds what, who waits for whom, and the cycle. */
#include "helpers.h"

/* Two groups whose collectives the two ranks issue in different orders, each on one stream:
 * a program that waits for itself. */
TEST(watchdog, a_cycle_through_two_groups_is_named)
{
    struct world w;
    weir_group *other;
    weir_stream *s[2];
    weir_tensor *x[2];
    int cycles = 0;

    if (is_modelled())
        needs_threads();
    world_open(&w, 2, "cpu:cores=2,op_timeout=1", &(weir_group_options){.name = "tp"});
    CHECK_OK(weir_group_create(w.dev, 2, &(weir_group_options){.name = "dp"}, &other));
    for (int i = 0; i < 2; i++) {
        weir_rank *mine = w.rank[i], *theirs = weir_group_rank(other, i);

        x[i] = ramp(w.dev[i], 8, 1, 1);
        s[i] = fresh_stream(w.dev[i]);
        CHECK_OK(weir_all_reduce_into(i ? theirs : mine, x[i], WEIR_REDUCE_SUM, x[i]));
        CHECK_OK(weir_all_reduce_into(i ? mine : theirs, x[i], WEIR_REDUCE_SUM, x[i]));
    }
    /* Whichever group gives up first sees the cycle; the other may find it broken up. */
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(weir_stream_sync(s[i]), WEIR_ETIMEDOUT);
        CHECK_STATUS(weir_group_state(i ? other : w.group), WEIR_ETIMEDOUT);
        cycles += strstr(weir_last_error(), "did not arrive; cycle: stream ") &&
                  strstr(weir_last_error(), " waits for stream ");
    }
    CHECK_GE(cycles, is_gpu() ? 0 : 1); /* a GPU does not say what its streams wait for */
    for (int i = 0; i < 2; i++) {
        weir_device_sync(w.dev[i]);
        weir_tensor_release(x[i]);
        weir_stream_destroy(s[i]);
    }
    CHECK_OK(weir_group_destroy(other));
    world_close(&w);
}

TEST(watchdog, a_report_says_cores_and_waits)
{
    weir_device *dev;
    weir_stream *holder, *gang, *waiter;
    struct gate g = {0};

    needs_threads();
    CHECK_OK(weir_device_open("cpu:cube=2,vector=4,threads=2", &dev));
    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.name = "holder"}, &holder));
    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.name = "gang"}, &gang));
    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.name = "waiter"}, &waiter));
    submit_gate(holder, WEIR_ENGINE_VECTOR, &g);
    wait_gate(&g, 1);
    CHECK_OK(weir_launch_submit(gang, &(weir_launch){.name = "barrier",
                                                     .fn = failing_kernel,
                                                     .engine = WEIR_ENGINE_VECTOR,
                                                     .blocks = 4,
                                                     .gang = true}));
    CHECK_OK(weir_stream_wait_stream(waiter, gang));
    CHECK_OK(weir_launch_submit(waiter, &(weir_launch){.name = "late"}));
    do { /* on a busy machine the other worker may not have got that far */
        CHECK_STATUS(weir_stream_sync_for(waiter, 100000000), WEIR_ETIMEDOUT);
    } while (!strstr(weir_last_error(), "waits for command 1 of stream 'gang'"));
    CHECK_STR(weir_last_error(), "stream 'holder' of device");
    CHECK_STR(weir_last_error(), "at operator 'gate', which runs and holds 1 core");
    CHECK_STR(weir_last_error(), "at operator 'barrier', waits for 4 vector cores");
    open_gate(&g);
    CHECK_STATUS(weir_stream_sync(waiter), WEIR_EKERNEL);
    CHECK_OK(weir_stream_destroy(gang));
    CHECK_OK(weir_stream_destroy(waiter));
    CHECK_OK(weir_device_close(dev));
}

/* An operator that no worker has looked at yet. The wait is for the worker's own stream: one
 * for `plain` would run its operator itself. */
TEST(watchdog, a_report_names_what_waits_behind_a_busy_worker)
{
    weir_device *dev;
    weir_stream *holder, *gang, *plain;
    struct gate g = {0};

    if (is_gpu())
        needs_threads();
    CHECK_OK(weir_device_open("cpu:cube=2,vector=4,threads=1", &dev));
    CHECK_OK(weir_stream_create(dev, NULL, &holder));
    CHECK_OK(weir_stream_create(dev, NULL, &gang));
    CHECK_OK(weir_stream_create(dev, NULL, &plain));
    submit_gate(holder, WEIR_ENGINE_VECTOR, &g);
    wait_gate(&g, 1);
    CHECK_OK(weir_launch_submit(
        gang, &(weir_launch){
                  .name = "barrier", .engine = WEIR_ENGINE_VECTOR, .blocks = 3, .gang = true}));
    CHECK_OK(weir_launch_submit(plain, &(weir_launch){.name = "product"}));
    CHECK_STATUS(weir_stream_sync_for(holder, 50000000), WEIR_ETIMEDOUT);
    CHECK_STR(weir_last_error(), "at operator 'barrier', waits for 3 vector cores");
    CHECK_STR(weir_last_error(), "at operator 'product', waits for 1 cube core");
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_device_close(dev));
}

static void keep_report(void *user, weir_log_level level, const char *text)
{
    if (level == WEIR_LOG_WARN && strstr(text, "timed out:"))
        snprintf(user, 1024, "%s", text);
}

TEST(watchdog, the_report_of_a_group_shows_every_rank_that_waits)
{
    static char report[1024];
    const char *first;
    struct world w;

    if (is_modelled())
        test_skip("tests/npu/groups.c has the report of modelled devices");
    weir_log_set(keep_report, report, WEIR_LOG_WARN);
    world_open(&w, 3, "cpu:cores=2", &(weir_group_options){.timeout_ns = 1000000000});
    CHECK_OK(weir_barrier(w.rank[1])); /* rank 0 never comes */
    CHECK_OK(weir_barrier(w.rank[2]));
    for (int i = 1; i < 3; i++) {
        CHECK_STATUS(weir_stream_sync(weir_stream_default(w.dev[i])), WEIR_ETIMEDOUT);
        CHECK_STR(weir_last_error(), is_gpu() ? "rank 0 on cuda:0" : "rank 0 on cpu:cores=2 (");
    }
    CHECK((first = strstr(report, is_gpu() ? "'Barrier'" : "waits for rank 0")));
    CHECK_STR(first + 1, is_gpu() ? "'Barrier'" : "waits for rank 0");
    weir_log_set(NULL, NULL, WEIR_LOG_ERROR);
    world_close(&w);
}
