/* Threads, forks, and the end of a process with work in flight. */
#include "helpers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt.h"

static void *work(void *user)
{
    unsigned char value = (unsigned char)(uintptr_t)user;
    aclrtEvent event;
    aclrtStream a, b;
    void *x, *y;

    CHECK_ACL(aclrtSetDevice(value % 2));
    a = t_stream(), b = t_stream();
    CHECK_ACL(aclrtCreateEventExWithFlag(&event, 0));
    for (int i = 0; i < 40 / TEST_SLOWDOWN + 5; i++) {
        x = t_device(4096), y = t_device(4096);
        CHECK_ACL(aclrtMemsetAsync(x, 4096, value + i, 4096, a));
        CHECK_ACL(aclrtRecordEvent(event, a));
        CHECK_ACL(aclrtStreamWaitEvent(b, event));
        CHECK_ACL(aclrtMemcpyAsync(y, 4096, x, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE, b));
        CHECK_ACL(aclrtFree(x));
        CHECK_ACL(aclrtSynchronizeStream(b));
        CHECK_EQ(t_byte((char *)y + 4095), (unsigned char)(value + i));
        CHECK_ACL(aclrtFree(y));
    }
    CHECK_ACL(aclrtDestroyEvent(event));
    CHECK_ACL(aclrtDestroyStream(a));
    CHECK_ACL(aclrtDestroyStream(b));
    return NULL;
}

TEST(process, threads_can_use_two_devices_at_the_same_time)
{
    pthread_t threads[4];

    NOT_ON_CUDA("there may be one GPU");
    t_begin();
    for (uintptr_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    t_end();
}

static void *make_and_destroy(void *user)
{
    atomic_int *running = user;

    CHECK_ACL(aclrtSetDevice(0));
    for (int i = 0; i < 400 / TEST_SLOWDOWN + 40; i++) {
        aclrtStream all[8];

        for (int j = 0; j < 8; j++)
            all[j] = t_stream();
        for (int j = 0; j < 8; j++)
            CHECK_ACL(aclrtDestroyStream(all[j]));
    }
    atomic_fetch_sub(running, 1);
    return NULL;
}

/* Both calls look at all streams of the process, whoever made them. */
TEST(process, streams_may_be_destroyed_while_other_threads_wait_for_callbacks_and_devices)
{
    atomic_int running = 2;
    pthread_t threads[2];
    aclrtStream s;

    t_begin();
    s = t_stream();
    CHECK_ACL(aclrtSubscribeReport((uint64_t)pthread_self(), s));
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, make_and_destroy, &running), 0);
    while (atomic_load(&running)) {
        CHECK_EQ(aclrtProcessReport(0), ACL_ERROR_RT_REPORT_TIMEOUT);
        CHECK_ACL(aclrtSynchronizeDeviceWithTimeout(10000));
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_ACL(aclrtUnSubscribeReport((uint64_t)pthread_self(), s));
    t_end();
}

static void *begin_late(void *user)
{
    atomic_int *begun = user;

    for (int i = 0; i < 100; i++)
        sched_yield();
    atomic_store(begun, 1);
    while (atomic_load(begun) == 1)
        aclrtProcessReport(1);
    return NULL;
}

/* MindSpore frees what it started the thread with soon after. */
TEST(process, a_synchronised_device_has_let_threads_that_take_callbacks_begin)
{
    atomic_int begun = 0;
    pthread_t thread;
    aclrtStream s;

    t_begin();
    s = t_stream();
    CHECK_EQ(pthread_create(&thread, NULL, begin_late, &begun), 0);
    CHECK_ACL(aclrtSubscribeReport((uint64_t)thread, s));
    CHECK_ACL(aclrtSynchronizeDevice());
    CHECK_EQ(atomic_load(&begun), 1);
    atomic_store(&begun, 2);
    pthread_join(thread, NULL);
    t_end();
}

static void *receive(void *channel)
{
    acltdtDataset *set = acltdtCreateDataset();
    aclError err = acltdtReceiveTensor(channel, set, -1);

    /* Stopped, or gone before the call. */
    CHECK(err == ACL_ERROR_RT_QUEUE_EMPTY || err == ACL_ERROR_INVALID_PARAM);
    CHECK_ACL(acltdtDestroyDataset(set));
    return NULL;
}

TEST(process, a_channel_may_be_destroyed_while_a_thread_waits_for_its_tensors)
{
    t_begin();
    for (int i = 0; i < 200 / TEST_SLOWDOWN + 20; i++) {
        acltdtChannelHandle *channel = acltdtCreateChannel(0, "data");
        pthread_t thread;

        CHECK(channel != NULL);
        CHECK_EQ(pthread_create(&thread, NULL, receive, channel), 0);
        if (i % 2)
            sched_yield();
        CHECK_ACL(acltdtDestroyChannel(channel));
        pthread_join(thread, NULL);
    }
    t_end();
}

struct captured {
    aclrtStream stream;
    char *x;
};

static void *queue_some(void *user)
{
    struct captured *c = user;

    CHECK_ACL(aclrtSetDevice(0));
    for (int i = 0; i < 8; i++)
        CHECK_ACL(aclrtMemsetAsync(c->x + i, 1, i, 1, c->stream));
    return NULL;
}

TEST(process, work_of_other_threads_on_a_captured_stream_is_captured)
{
    pthread_t there, beside;
    struct captured c;
    aclmdlRI graph;

    t_begin();
    c = (struct captured){t_stream(), t_device(64)};
    CHECK_ACL(aclrtMemset(c.x, 64, 99, 64));
    CHECK_ACL(aclmdlRICaptureBegin(c.stream, 0));
    CHECK_EQ(pthread_create(&there, NULL, queue_some, &c), 0);
    CHECK_EQ(pthread_create(&beside, NULL, work, (void *)6), 0); /* others go on meanwhile */
    for (int i = 8; i < 16; i++)
        CHECK_ACL(aclrtMemsetAsync(c.x + i, 1, i, 1, c.stream));
    pthread_join(there, NULL);
    CHECK_ACL(aclmdlRICaptureEnd(c.stream, &graph));
    pthread_join(beside, NULL);
    CHECK_EQ(t_byte(c.x + 7), 99);
    CHECK_ACL(aclmdlRIExecuteAsync(graph, c.stream));
    CHECK_ACL(aclrtSynchronizeStream(c.stream));
    for (int i = 0; i < 16; i++)
        CHECK_EQ(t_byte(c.x + i), i);
    CHECK_ACL(aclmdlRIDestroy(graph));
    t_end();
}

/* ---- fork and exit ---- */

static int child_of(void (*body)(void))
{
    int status;
    pid_t child = fork();

    CHECK_GE(child, 0);
    if (!child) {
        body();
        exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

static aclrtStream parents;

static void use_after_fork(void)
{
    aclrtContext context;
    void *x;

    /* What was the parent's is gone, and said to be. */
    if (!aclrtSynchronizeStream(parents) || !aclrtGetCurrentContext(&context))
        _exit(1);
    if (aclrtSetDevice(0) || aclrtMalloc(&x, 64, 0) || aclrtMemset(x, 64, 3, 64) || *(char *)x != 3)
        _exit(2);
}

TEST(process, a_child_of_fork_has_devices_of_its_own)
{
    NOT_ON_CUDA("a forked process cannot use its driver");
    if (TEST_SANITIZED)
        SKIP("a sanitizer's own locks may be held by another thread at the fork");
    t_begin();
    parents = t_stream();
    CHECK_ACL(aclrtSynchronizeStream(parents));
    CHECK_EQ(child_of(use_after_fork), 0);
    CHECK_ACL(aclrtSynchronizeStream(parents));
    t_end();
}

static void leave_work_behind(void)
{
    aclrtStream s;
    void *x;

    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&s) || aclrtMalloc(&x, 16 << 20, 0))
        _exit(1);
    for (int i = 0; i < 50; i++)
        if (aclrtMemsetAsync(x, 16 << 20, i, 16 << 20, s))
            _exit(2);
}

TEST(process, a_process_may_end_with_work_in_flight)
{
    CHECK_EQ(child_of(leave_work_behind), 0);
}
