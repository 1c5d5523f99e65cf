/* Captured streams: graphs and plans of weir. */
#include "helpers.h"

#include <stdatomic.h>

TEST(capture, captured_work_does_not_run_and_each_run_reads_the_present_values)
{
    aclmdlRICaptureStatus status;
    aclrtStream s;
    aclmdlRI graph;
    void *x, *y;

    t_begin();
    s = t_stream();
    x = t_device(64), y = t_device(64);
    CHECK_ACL(aclrtMemset(x, 64, 1, 64));
    CHECK_ACL(aclrtMemset(y, 64, 0, 64));
    CHECK_ACL(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CHECK_ACL(aclmdlRICaptureGetInfo(s, &status, NULL));
    CHECK_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    CHECK_ACL(aclrtMemcpyAsync(y, 64, x, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    CHECK_ACL(aclmdlRICaptureEnd(s, &graph));
    CHECK_ACL(aclmdlRICaptureGetInfo(s, &status, NULL));
    CHECK_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    CHECK_EQ(t_byte(y), 0);
    for (int i = 2; i < 10; i++) {
        CHECK_ACL(aclrtMemset(x, 64, i, 64));
        CHECK_ACL(aclmdlRIExecuteAsync(graph, s));
        CHECK_ACL(aclrtSynchronizeStream(s));
        CHECK_EQ(t_byte(y), i);
    }
    CHECK_ACL(aclmdlRIDestroy(graph));
    CHECK_EQ(aclmdlRIDestroy(graph), ACL_ERROR_RT_PARAM_INVALID);
    t_end();
}

TEST(capture, a_stream_that_waits_for_a_captured_event_joins_the_capture)
{
    aclmdlRICaptureStatus status;
    aclrtEvent fork, join;
    aclrtStream a, b;
    aclmdlRI graph;
    char *x, *y, *z;

    t_begin();
    a = t_stream(), b = t_stream();
    x = t_device(64), y = t_device(64), z = t_device(64);
    CHECK_ACL(aclrtCreateEventExWithFlag(&fork, 0));
    CHECK_ACL(aclrtCreateEventExWithFlag(&join, 0));
    CHECK_ACL(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CHECK_ACL(aclrtMemsetAsync(x, 64, 4, 64, a));
    CHECK_ACL(aclrtRecordEvent(fork, a));
    CHECK_ACL(aclrtStreamWaitEvent(b, fork));
    CHECK_ACL(aclmdlRICaptureGetInfo(b, &status, NULL));
    CHECK_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    CHECK_ACL(aclrtMemcpyAsync(y, 64, x, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, b));
    CHECK_ACL(aclrtRecordEvent(join, b));
    CHECK_ACL(aclrtStreamWaitEvent(a, join));
    CHECK_ACL(aclrtMemcpyAsync(z, 64, y, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, a));
    CHECK_ACL(aclmdlRICaptureEnd(a, &graph));
    CHECK_ACL(aclmdlRICaptureGetInfo(b, &status, NULL));
    CHECK_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    CHECK_ACL(aclmdlRIExecuteAsync(graph, b));
    CHECK_ACL(aclrtSynchronizeStream(b));
    CHECK_EQ(t_byte(z), 4);
    CHECK_ACL(aclmdlRIDestroy(graph));
    t_end();
}

TEST(capture, a_wait_of_the_host_is_refused_and_the_capture_continues)
{
    aclmdlRICaptureStatus status;
    aclrtStream s;
    aclmdlRI graph;
    void *x;

    t_begin();
    s = t_stream();
    x = t_device(64);
    CHECK_ACL(aclrtMemset(x, 64, 0, 64));
    CHECK_ACL(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    /* not ACL_ERROR_RT_FEATURE_NOT_SUPPORT, which torch_npu takes for a warning */
    CHECK_EQ(aclmdlRICaptureBegin(s, 0), ACL_ERROR_API_NOT_SUPPORT);
    CHECK_ACL(aclrtMemsetAsync(x, 64, 4, 64, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_API_NOT_SUPPORT);
    CHECK_STR(aclGetRecentErrMsg(), "aclrtSynchronizeStream");
    CHECK_ACL(aclmdlRICaptureGetInfo(s, &status, NULL));
    CHECK_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    CHECK_ACL(aclrtMemsetAsync(x, 32, 5, 32, s));
    CHECK_ACL(aclmdlRICaptureEnd(s, &graph));
    CHECK_EQ(t_byte(x), 0);
    CHECK_ACL(aclmdlRIExecuteAsync(graph, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_EQ(t_byte(x), 5);
    CHECK_EQ(t_byte((char *)x + 63), 4);
    CHECK_ACL(aclmdlRIDestroy(graph));
    t_end();
}

TEST(capture, a_task_group_can_be_captured_again)
{
    aclrtStream s, other;
    aclrtTaskGrp group;
    aclmdlRI graph;
    char *x, *y;

    t_begin();
    s = t_stream(), other = t_stream();
    x = t_device(64), y = t_device(64);
    CHECK_ACL(aclmdlRICaptureBegin(s, 0));
    CHECK_ACL(aclrtMemsetAsync(x, 64, 1, 64, s));
    CHECK_ACL(aclmdlRICaptureTaskGrpBegin(s));
    CHECK_ACL(aclrtMemsetAsync(x, 8, 2, 8, s));
    CHECK_ACL(aclmdlRICaptureTaskGrpEnd(s, &group));
    CHECK_ACL(aclrtMemcpyAsync(y, 64, x, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    CHECK_ACL(aclmdlRICaptureEnd(s, &graph));
    CHECK_ACL(aclmdlRIExecuteAsync(graph, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_EQ(t_byte(y), 2);
    CHECK_EQ(t_byte(y + 8), 1);
    CHECK_ACL(aclmdlRICaptureTaskUpdateBegin(other, group));
    CHECK_ACL(aclrtMemsetAsync(x, 8, 3, 8, other));
    CHECK_ACL(aclmdlRICaptureTaskUpdateEnd(other));
    CHECK_ACL(aclmdlRIExecuteAsync(graph, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_EQ(t_byte(y), 3);
    CHECK_EQ(t_byte(y + 8), 1);
    CHECK_ACL(aclmdlRIDestroy(graph));
    t_end();
}

static atomic_int calls;

static void count(void *user)
{
    atomic_fetch_add(&calls, *(int *)user);
}

TEST(capture, a_host_function_is_called_at_each_run)
{
    int one = 1;
    aclrtStream s;
    aclmdlRI graph;
    void *x;

    t_begin();
    s = t_stream();
    x = t_device(64);
    CHECK_ACL(aclmdlRICaptureBegin(s, 0));
    CHECK_ACL(aclrtMemsetAsync(x, 64, 1, 64, s));
    CHECK_ACL(aclrtLaunchHostFunc(s, count, &one));
    CHECK_ACL(aclmdlRICaptureEnd(s, &graph));
    CHECK_EQ(calls, 0);
    for (int i = 1; i < 5; i++) {
        CHECK_ACL(aclmdlRIExecuteAsync(graph, s));
        CHECK_ACL(aclrtSynchronizeStream(s));
        CHECK_EQ(calls, i);
    }
    CHECK_ACL(aclmdlRIDestroy(graph));
    t_end();
}

static void t_branch(aclrtStream outer, aclrtStream inner, uint64_t *flag, char *x, int value)
{
    aclmdlRICondHandle condition;
    aclmdlRICaptureStatus status;
    aclmdlRI whole, child, ended;
    uint64_t *word;

    CHECK_ACL(aclmdlRICaptureGetInfo(outer, &status, &whole));
    CHECK_ACL(
        aclmdlRICondHandleCreate(whole, 0, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &condition));
    CHECK_ACL(aclmdlRICondHandleGetCondPtr(condition, &word));
    CHECK_ACL(aclrtMemcpyAsync(word, 8, flag, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, outer));
    CHECK_ACL(aclmdlRIAddCondTask((aclmdlRICondTaskParams){condition, 0, 1, &child}, outer, 0));
    CHECK_ACL(aclmdlRICaptureToModelRIBegin(inner, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CHECK_ACL(aclrtMemsetAsync(x, 64, value, 64, inner));
    CHECK_ACL(aclmdlRICaptureEnd(inner, &ended));
    CHECK_PTR_EQ(ended, child);
    CHECK_EQ(aclmdlRIDestroy(child), ACL_ERROR_API_NOT_SUPPORT);
    CHECK_EQ(aclmdlRIExecuteAsync(child, inner), ACL_ERROR_API_NOT_SUPPORT);
}

TEST(capture, a_conditional_task_runs_in_those_runs_whose_word_is_set)
{
    aclrtStream outer, inner;
    aclmdlRI graph;
    uint64_t *flags;
    char *x, *y;

    NOT_ON_CUDA("the host cannot read its memory");
    t_begin();
    outer = t_stream(), inner = t_stream();
    flags = t_device(64), x = t_device(64), y = t_device(64);
    CHECK_ACL(aclmdlRICaptureBegin(outer, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CHECK_ACL(aclrtMemsetAsync(x, 64, 1, 64, outer));
    t_branch(outer, inner, &flags[0], x, 2);
    t_branch(outer, inner, &flags[1], x, 3);
    CHECK_ACL(aclrtMemcpyAsync(y, 64, x, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, outer));
    CHECK_ACL(aclmdlRICaptureEnd(outer, &graph));
    for (int run = 0; run < 8; run++) {
        const uint64_t set[] = {run & 1 ? 5 : 0, run & 2 ? 1 : 0};

        CHECK_ACL(aclrtMemcpy(flags, 16, set, 16, ACL_MEMCPY_HOST_TO_DEVICE));
        CHECK_ACL(aclmdlRIExecuteAsync(graph, outer));
        CHECK_ACL(aclrtSynchronizeStream(outer));
        CHECK_EQ(t_byte(y + 63), run & 2 ? 3 : run & 1 ? 2 : 1);
    }
    CHECK_ACL(aclmdlRIExecuteAsync(graph, outer));
    CHECK_ACL(aclmdlRIDestroy(graph)); /* its last run still ends */
    CHECK_ACL(aclrtSynchronizeStream(outer));
    t_end();
}

TEST(capture, a_conditional_task_that_was_not_captured_is_an_error)
{
    aclmdlRICondHandle condition;
    aclmdlRICaptureStatus status;
    aclrtStream outer;
    aclmdlRI whole, child;

    NOT_ON_CUDA("the host cannot read its memory");
    t_begin();
    outer = t_stream();
    CHECK_ACL(aclmdlRICaptureBegin(outer, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CHECK_ACL(aclmdlRICaptureGetInfo(outer, &status, &whole));
    CHECK_ACL(aclmdlRICondHandleCreate(whole, 0, 0, &condition));
    CHECK_ACL(aclmdlRIAddCondTask((aclmdlRICondTaskParams){condition, 0, 1, &child}, outer, 0));
    CHECK_EQ(aclmdlRICaptureEnd(outer, &whole), ACL_ERROR_API_NOT_SUPPORT);
    CHECK_EQ(aclmdlRICaptureToModelRIBegin(outer, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED),
             ACL_ERROR_RT_PARAM_INVALID);
    t_end();
}
