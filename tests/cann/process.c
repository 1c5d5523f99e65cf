/* Threads, forks, and the end of a process with work in flight. */
#include "helpers.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(process, threads_work_beside_each_other_on_two_devices)
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

TEST(process, what_other_threads_queue_on_a_captured_stream_is_captured_too)
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
