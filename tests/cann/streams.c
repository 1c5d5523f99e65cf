/* Streams, events, copies, callbacks, notifies and limits. */
#include "helpers.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SIZE = 1 << 16 };

TEST(streams, copies_on_two_streams_are_ordered_by_an_event)
{
    aclrtStream a, b;
    aclrtEvent done;
    void *first, *second;
    static char host[SIZE], back[SIZE];

    t_begin();
    a = t_stream(), b = t_stream();
    first = t_device(SIZE), second = t_device(SIZE);
    CHECK_ACL(aclrtCreateEventExWithFlag(&done, ACL_EVENT_SYNC));
    for (int round = 1; round < 50; round++) {
        memset(host, round, sizeof host);
        CHECK_ACL(aclrtMemcpyAsync(first, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, a));
        CHECK_ACL(aclrtRecordEvent(done, a));
        CHECK_ACL(aclrtStreamWaitEvent(b, done));
        CHECK_ACL(aclrtMemcpyAsync(second, SIZE, first, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, b));
        CHECK_ACL(aclrtMemcpyAsync(back, SIZE, second, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, b));
        CHECK_ACL(aclrtSynchronizeStream(b));
        CHECK_MEM_EQ(back, host, SIZE);
    }
    t_end();
}

TEST(streams, an_event_knows_whether_it_has_passed_and_measures_time)
{
    aclrtEventRecordedStatus recorded;
    aclrtEvent start, end, untimed;
    aclrtEventStatus status;
    uint64_t stamp = 0;
    float ms = -1;

    t_begin();
    CHECK_ACL(aclrtCreateEvent(&start));
    CHECK_ACL(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE));
    CHECK_ACL(aclrtCreateEventWithFlag(&untimed, ACL_EVENT_SYNC));
    CHECK_EQ(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_ACL(aclrtRecordEvent(start, NULL));
    CHECK_ACL(aclrtRecordEvent(end, NULL));
    CHECK_ACL(aclrtRecordEvent(untimed, NULL));
    CHECK_ACL(aclrtSynchronizeEvent(end));
    CHECK_ACL(aclrtQueryEvent(end, &status));
    CHECK_EQ(status, ACL_EVENT_STATUS_COMPLETE);
    CHECK_ACL(aclrtQueryEventStatus(end, &recorded));
    CHECK_EQ(recorded, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK_ACL(aclrtEventElapsedTime(&ms, start, end));
    CHECK(ms >= 0);
    CHECK_ACL(aclrtEventGetTimestamp(end, &stamp));
    CHECK_EQ(aclrtEventElapsedTime(&ms, start, untimed), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_STR(aclGetRecentErrMsg(), "ACL_EVENT_TIME_LINE");
    CHECK_STR_EQ(aclGetRecentErrMsg(), "");
    CHECK_ACL(aclrtDestroyEvent(start));
    CHECK_EQ(aclrtDestroyEvent(start), ACL_ERROR_RT_PARAM_INVALID);
    t_end();
}

TEST(streams, every_thread_has_a_context_of_its_own)
{
    aclrtContext here, there, now;
    int32_t device = -1;

    NOT_ON_CUDA("there may be one GPU");
    t_begin();
    CHECK_ACL(aclrtGetCurrentContext(&here));
    CHECK_ACL(aclrtCreateContext(&there, 1));
    CHECK_ACL(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
    CHECK_ACL(aclrtSetCurrentContext(here));
    CHECK_ACL(aclrtGetDevice(&device));
    CHECK_EQ(device, 0);
    CHECK_ACL(aclrtDestroyContext(there));
    CHECK_EQ(aclrtSetCurrentContext(there), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtDestroyContext(here), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_ACL(aclrtResetDevice(0));
    CHECK_EQ(aclrtGetCurrentContext(&now), ACL_ERROR_RT_CONTEXT_NULL);
    t_end();
}

/* ---- callbacks ---- */

static void *address;
static atomic_int seen;

static void look(void *user)
{
    *(int *)user = *(volatile unsigned char *)address;
    atomic_fetch_add(&seen, 1);
}

TEST(devices, a_stream_waits_for_an_event_of_another_device)
{
    aclrtEvent events[3];
    aclrtStream here, there[3];
    void *x[3], *y;

    NOT_ON_CUDA("there may be one GPU");
    t_begin();
    here = t_stream();
    y = t_device(3 << 20);
    CHECK_ACL(aclrtSetDevice(1));
    for (int round = 0; round < 3; round++) {
        CHECK_ACL(aclrtSetDevice(1));
        for (int i = 0; i < 3; i++) {
            if (!round) {
                there[i] = t_stream();
                x[i] = t_device(1 << 20);
                CHECK_ACL(
                    aclrtCreateEventExWithFlag(&events[i], i ? ACL_EVENT_SYNC : ACL_EVENT_IPC));
            }
            CHECK_ACL(aclrtMemsetAsync(x[i], 1 << 20, 7 * round + i, 1 << 20, there[i]));
            CHECK_ACL(aclrtRecordEvent(events[i], there[i]));
        }
        CHECK_ACL(aclrtSetDevice(0));
        for (int i = 2; i >= 0; i--) {
            CHECK_ACL(aclrtStreamWaitEvent(here, events[i]));
            CHECK_ACL(aclrtMemcpyAsync((char *)y + (i << 20), 1 << 20, x[i], 1 << 20,
                                       ACL_MEMCPY_DEVICE_TO_DEVICE, here));
        }
        CHECK_ACL(aclrtSynchronizeStream(here));
        for (int i = 0; i < 3; i++)
            CHECK_EQ(t_byte((char *)y + (i << 20) + (1 << 20) - 1), 7 * round + i);
    }
    t_end();
}

TEST(devices, a_process_sees_those_that_the_environment_lists)
{
    static const struct {
        const char *list;
        uint32_t count;
        int32_t first; /* the machine's number of device 0 */
    } rows[] = {{"0,1", 2, 0}, {"2,3,5", 3, 2}, {"1,32,2", 1, 1}, {"", 0, 0},
                {",0", 0, 0},  {"0,", 1, 0},    {"3, 4", 1, 3},   {"npu0", 0, 0},
                {"1,0", 0, 0}, {"0,0", 0, 0},   {"32", 0, 0},     {"7", 1, 7}};
    uint32_t count;
    int32_t id;

    setenv("WEIR_CANN_DEVICES", "8", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_note("%s", rows[i].list);
        setenv("ASCEND_RT_VISIBLE_DEVICES", rows[i].list, 1);
        CHECK_ACL(aclrtGetDeviceCount(&count));
        CHECK_EQ(count, rows[i].count);
        CHECK_EQ(aclrtSetDevice((int32_t)count), ACL_ERROR_RT_INVALID_DEVICEID);
        if (!count)
            continue;
        CHECK_ACL(aclrtGetLogicDevIdByUserDevId(0, &id));
        CHECK_EQ(id, rows[i].first);
    }
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    CHECK_ACL(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 8);
}

TEST(callbacks, a_host_function_runs_in_stream_order_and_the_stream_waits_for_it)
{
    aclrtStream s;
    int first = -1, second = -1;

    NOT_ON_CUDA("the host cannot read its memory");
    t_begin();
    s = t_stream();
    address = t_device(64);
    CHECK_ACL(aclrtMemsetAsync(address, 64, 1, 64, s));
    CHECK_ACL(aclrtLaunchHostFunc(s, look, &first));
    CHECK_ACL(aclrtMemsetAsync(address, 64, 2, 64, s));
    CHECK_ACL(aclrtLaunchHostFunc(s, look, &second));
    CHECK_ACL(aclrtMemsetAsync(address, 64, 3, 64, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_EQ(first, 1);
    CHECK_EQ(second, 2);
    CHECK_EQ(t_byte(address), 3);
    t_end();
}

static atomic_bool stop;

static void *reporter(void *unused)
{
    while (!stop)
        aclrtProcessReport(20);
    return unused;
}

TEST(callbacks, a_callback_runs_in_the_thread_that_subscribed)
{
    aclrtStream s;
    pthread_t thread;
    int first = -1, second = -1;

    NOT_ON_CUDA("the host cannot read its memory");
    t_begin();
    s = t_stream();
    address = t_device(64);
    CHECK_EQ(aclrtProcessReport(0), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    CHECK_EQ(aclrtLaunchCallback(look, &first, ACL_CALLBACK_BLOCK, s),
             ACL_ERROR_RT_STREAM_NO_CB_REG);
    CHECK_EQ(pthread_create(&thread, NULL, reporter, NULL), 0);
    CHECK_ACL(aclrtSubscribeReport((uint64_t)thread, s));
    CHECK_EQ(aclrtSubscribeReport((uint64_t)thread, s), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    CHECK_ACL(aclrtMemsetAsync(address, 64, 1, 64, s));
    CHECK_ACL(aclrtLaunchCallback(look, &first, ACL_CALLBACK_BLOCK, s));
    CHECK_ACL(aclrtMemsetAsync(address, 64, 2, 64, s));
    CHECK_ACL(aclrtLaunchCallback(look, &second, ACL_CALLBACK_BLOCK, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_EQ(first, 1);
    CHECK_EQ(second, 2);
    CHECK_ACL(aclrtUnSubscribeReport((uint64_t)thread, s));
    stop = true;
    pthread_join(thread, NULL);
    t_end();
}

/* ---- notify ---- */

TEST(notify, a_wait_for_a_notify_may_be_queued_before_its_record)
{
    aclrtNotify notify;
    aclrtStream a, b;
    char *x, *y;

    t_begin();
    a = t_stream(), b = t_stream();
    x = t_device(64), y = t_device(64);
    CHECK_ACL(aclrtMemset(x, 64, 1, 64));
    CHECK_ACL(aclrtCreateNotify(&notify, 0));
    CHECK_ACL(aclrtWaitAndResetNotify(notify, b, 0));
    CHECK_ACL(aclrtMemcpyAsync(y, 64, x, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, b));
    CHECK_ACL(aclrtMemsetAsync(x, 64, 2, 64, a));
    CHECK_ACL(aclrtRecordNotify(notify, a));
    CHECK_ACL(aclrtSynchronizeStream(b));
    CHECK_EQ(t_byte(y), 2);
    CHECK_ACL(aclrtRecordNotify(notify, a)); /* and the other way round */
    CHECK_ACL(aclrtSynchronizeStream(a));
    CHECK_ACL(aclrtWaitAndResetNotify(notify, b, 0));
    CHECK_ACL(aclrtSynchronizeStream(b));
    CHECK_ACL(aclrtDestroyNotify(notify));
    t_end();
}

/* ---- limits ---- */

TEST(limits, a_streams_limit_overrides_the_devices_and_a_thread_may_use_one)
{
    uint32_t value = 0;
    aclrtStream s;

    setenv("WEIR_DEVICE", "cpu:cube=24,vector=48", 1);
    t_begin();
    s = t_stream();
    CHECK_ACL(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &value));
    CHECK_EQ(value, 24);
    CHECK_ACL(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_VECTOR_CORE, 40));
    CHECK_ACL(aclrtGetStreamResLimit(s, ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 40);
    CHECK_ACL(aclrtSetStreamResLimit(s, ACL_RT_DEV_RES_VECTOR_CORE, 8));
    CHECK_ACL(aclrtGetStreamResLimit(s, ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 8);
    CHECK_ACL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 40);
    CHECK_ACL(aclrtUseStreamResInCurrentThread(s));
    CHECK_ACL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 8);
    CHECK_ACL(aclrtUnuseStreamResInCurrentThread(s));
    CHECK_ACL(aclrtResetStreamResLimit(s));
    CHECK_ACL(aclrtGetStreamResLimit(s, ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 40);
    CHECK_ACL(aclrtResetDeviceResLimit(0));
    CHECK_ACL(aclrtGetStreamResLimit(s, ACL_RT_DEV_RES_VECTOR_CORE, &value));
    CHECK_EQ(value, 48);
    CHECK_EQ(aclrtSetStreamResLimit(s, ACL_RT_DEV_RES_CUBE_CORE, 25), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_STR(aclGetRecentErrMsg(), "1..24");
    t_end();
}
