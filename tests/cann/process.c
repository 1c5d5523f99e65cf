/* Threads, forks, and the end of a process with work in flight. */
#include "helpers.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hccl/hccl.h"

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

/* ---- libhccl between processes ---- */

enum { RANKS = 3, COUNT = 700000 }; /* more than a slot holds */

/* Ranks 2 and 0, in that order, make a communicator of their own; the other says that it is none.
 */
static int small_group(uint32_t rank, HcclComm comm, float *x, float *y, aclrtStream s)
{
    uint32_t members[2] = {2, 0}, place = rank == 2 ? 0 : 1;
    HcclComm two;

    if (rank == 1)
        return HcclCreateSubCommConfig(&comm, 0, NULL, 5, 0, NULL, &two) || two;
    x[0] = (float)rank;
    if (HcclCreateSubCommConfig(&comm, 2, members, 5, 1 - place, NULL, &two) != HCCL_E_PARA ||
        HcclCreateSubCommConfig(&comm, 2, members, 5, place, NULL, &two) ||
        HcclAllGather(x, y, 1, HCCL_DATA_TYPE_FP32, two, s) || aclrtSynchronizeStream(s))
        return 1;
    return y[0] != 2 || y[1] != 0 || HcclCommDestroy(two);
}

/* Rank i gets i + 1 elements; every rank sends 10 * its number + the place. */
static int uneven_parts(uint32_t rank, HcclComm comm, float *x, float *y, aclrtStream s)
{
    uint64_t counts[RANKS] = {1, 2, 3}, displs[RANKS] = {0, 1, 3};

    for (int i = 0; i < 6; i++)
        x[i] = (float)(10 * rank) + (float)i;
    if (HcclReduceScatterV(x, counts, displs, y, rank + 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                           comm, s) ||
        aclrtSynchronizeStream(s))
        return 1;
    for (uint64_t i = 0; i <= rank; i++)
        if (y[i] != (float)(30 + 3 * (displs[rank] + i)))
            return 1;
    return HcclReduceScatterV(x, counts, displs, y, rank + 2, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                              comm, s) != HCCL_E_PARA;
}

static int rank_main(uint32_t rank, const HcclRootInfo *root)
{
    size_t bytes = COUNT * sizeof(float);
    float *x, *y, sum = 0;
    aclrtStream s;
    HcclComm comm;

    for (int i = 0; i < RANKS; i++)
        sum += (float)(i + 1);
    if (aclrtSetDevice((int32_t)rank) || aclrtCreateStream(&s) ||
        HcclCommInitRootInfo(RANKS, root, rank, &comm) || aclrtMalloc((void **)&x, bytes, 0) ||
        aclrtMalloc((void **)&y, RANKS * bytes, 0))
        return 1;
    for (int i = 0; i < COUNT; i++) /* the host reads this device's memory */
        x[i] = (float)(rank + 1);
    if (HcclAllReduce(x, y, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s) ||
        aclrtSynchronizeStream(s) || y[0] != sum || y[COUNT - 1] != sum)
        return 2;
    if (HcclAllGather(x, y, COUNT, HCCL_DATA_TYPE_FP32, comm, s) || aclrtSynchronizeStream(s))
        return 3;
    for (int i = 0; i < RANKS; i++)
        if (y[(size_t)i * COUNT] != (float)(i + 1) ||
            y[(size_t)(i + 1) * COUNT - 1] != (float)(i + 1))
            return 4;
    if (HcclBroadcast(x, COUNT, HCCL_DATA_TYPE_FP32, 1, comm, s) || aclrtSynchronizeStream(s) ||
        x[COUNT - 1] != 2)
        return 5;
    /* In a ring, each sends before it receives. */
    if (HcclSend(y, COUNT, HCCL_DATA_TYPE_FP32, (rank + 1) % RANKS, comm, NULL) ||
        HcclRecv(x, COUNT, HCCL_DATA_TYPE_FP32, (rank + RANKS - 1) % RANKS, comm, s) ||
        aclrtSynchronizeStream(s) || aclrtSynchronizeStream(NULL) || x[COUNT - 1] != 1)
        return 6;
    if (HcclBarrier(comm, s) || aclrtSynchronizeStream(s))
        return 7;
    if (uneven_parts(rank, comm, x, y, s))
        return 8;
    if (small_group(rank, comm, x, y, s))
        return 9;
    return HcclCommDestroy(comm) ? 10 : 0;
}

TEST(hccl, three_processes_reduce_gather_broadcast_and_send_in_a_ring)
{
    HcclRootInfo root;
    pid_t children[RANKS];

    NOT_ON_CUDA("the host cannot read its memory");
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    for (uint32_t i = 0; i < RANKS; i++) {
        children[i] = fork();
        CHECK_GE(children[i], 0);
        if (!children[i])
            _exit(rank_main(i, &root));
    }
    for (int i = 0; i < RANKS; i++) {
        int status;

        test_note("rank %d", i);
        CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
        CHECK_EQ(status, 0);
    }
}

TEST(hccl, a_rank_that_does_not_come_is_named)
{
    HcclRootInfo root;
    HcclComm comm;

    setenv("HCCL_CONNECT_TIMEOUT", "1", 1);
    t_begin();
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    CHECK_EQ(HcclCommInitRootInfo(3, &root, 1, &comm), HCCL_E_TIMEOUT);
    CHECK_STR(aclGetRecentErrMsg(), "missing: 0 2");
    t_end();
}

static void first_rank(void)
{
    HcclRootInfo *root = (HcclRootInfo *)parents;
    HcclComm comm;

    if (aclrtSetDevice(0) || HcclCommInitRootInfo(2, root, 0, &comm))
        _exit(1);
    _exit(0); /* and never calls the collective */
}

TEST(hccl, a_collective_that_a_rank_does_not_join_ends_with_its_number)
{
    static HcclRootInfo root;
    aclrtStream s;
    HcclComm comm;
    pid_t child;
    void *x;

    NOT_ON_CUDA("the host cannot read its memory");
    setenv("HCCL_EXEC_TIMEOUT", "1", 1);
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    parents = &root;
    child = fork();
    CHECK_GE(child, 0);
    if (!child)
        first_rank();
    t_begin();
    s = t_stream();
    x = t_device(64);
    CHECK_EQ(HcclCommInitRootInfo(2, &root, 1, &comm), HCCL_SUCCESS);
    CHECK_EQ(HcclAllReduce(x, x, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s), HCCL_SUCCESS);
    CHECK_NE(aclrtSynchronizeStream(s), 0);
    CHECK_STR(aclGetRecentErrMsg(), "for rank 0");
    CHECK_NE(HcclBarrier(comm, s), HCCL_SUCCESS);
    CHECK_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    t_end();
}

TEST(hccl, ranks_of_one_process_use_weirs_own_collectives)
{
    int32_t devices[2] = {0, 1};
    HcclComm comms[2];
    aclrtStream s[2];
    float *x[2];

    NOT_ON_CUDA("there may be one GPU");
    t_begin();
    CHECK_EQ(HcclCommInitAll(2, devices, comms), HCCL_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK_ACL(aclrtSetDevice(i));
        s[i] = t_stream();
        x[i] = t_device(1024 * sizeof(float));
        for (int k = 0; k < 1024; k++)
            x[i][k] = (float)(i + k);
        CHECK_EQ(
            HcclAllReduce(x[i], x[i], 1024, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[i], s[i]),
            HCCL_SUCCESS);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_ACL(aclrtSynchronizeStream(s[i]));
        CHECK_NEAR(x[i][1023], 2 * 1023 + 1, 0);
    }
    CHECK_EQ(HcclCommDestroy(comms[0]), HCCL_SUCCESS);
    CHECK_EQ(HcclCommDestroy(comms[1]), HCCL_SUCCESS);
    t_end();
}
