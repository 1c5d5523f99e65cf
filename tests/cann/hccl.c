/* libhccl: ranks that are processes, threads, and processes of several hosts. */
#define _GNU_SOURCE
#include "helpers.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hccl_rank.h"

enum { RANKS = T_HCCL_RANKS, COUNT = 700000 }; /* more than a slot holds */

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

/* Rank r sends r + 1 elements to each, 2 apart, and takes what it gets 4 apart. */
static int gaps(uint32_t rank, HcclComm comm, float *x, float *y, aclrtStream s)
{
    uint64_t scounts[RANKS], sdispls[RANKS], rcounts[RANKS], rdispls[RANKS];

    for (uint64_t i = 0; i < RANKS; i++) {
        scounts[i] = rank + 1;
        sdispls[i] = i * (rank + 3);
        rcounts[i] = i + 1;
        rdispls[i] = i * 4;
        for (uint64_t k = 0; k < scounts[i]; k++)
            x[sdispls[i] + k] = (float)(100 * rank + 10 * i + k);
    }
    for (int i = 0; i < 4 * RANKS; i++)
        y[i] = -1;
    if (HcclAlltoAllV(x, scounts, sdispls, HCCL_DATA_TYPE_FP32, y, rcounts, rdispls,
                      HCCL_DATA_TYPE_FP32, comm, s) ||
        aclrtSynchronizeStream(s))
        return 1;
    for (uint32_t i = 0; i < RANKS; i++)
        for (uint32_t k = 0; k < 4; k++)
            if (y[4 * i + k] != (k <= i ? (float)(100 * i + 10 * rank + k) : -1))
                return 2;
    if (HcclAllGatherV(x, rank + 1, y, rcounts, rdispls, HCCL_DATA_TYPE_FP32, comm, s) ||
        aclrtSynchronizeStream(s))
        return 3;
    for (uint32_t i = 0; i < RANKS; i++)
        for (uint32_t k = 0; k < 4; k++)
            if (y[4 * i + k] != (k <= i ? (float)(100 * i + k) : -1))
                return 4;
    return 0;
}

/* Reduce, scatter, products, a type that is only moved, and both neighbours at once. */
static int rarer_calls(uint32_t rank, HcclComm comm, float *x, float *y, aclrtStream s)
{
    uint32_t next = (rank + 1) % RANKS, last = (rank + RANKS - 1) % RANKS;
    HcclSendRecvItem items[4] = {{HCCL_RECV, y, 2, HCCL_DATA_TYPE_FP32, last},
                                 {HCCL_SEND, x, 2, HCCL_DATA_TYPE_FP32, next},
                                 {HCCL_RECV, y + 2, 1, HCCL_DATA_TYPE_FP32, next},
                                 {HCCL_SEND, x + 2, 1, HCCL_DATA_TYPE_FP32, last}};
    short *small = (short *)x, *all = (short *)y;

    for (int i = 0; i < RANKS; i++)
        x[i] = (float)(rank + 2), y[i] = -1;
    if (HcclReduce(x, y, 3, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_PROD, 1, comm, s) ||
        aclrtSynchronizeStream(s) || y[2] != (rank == 1 ? 24 : -1))
        return 1;
    for (int i = 0; i < RANKS; i++)
        x[i] = (float)(10 * rank) + (float)i;
    if (HcclScatter(x, y, 1, HCCL_DATA_TYPE_FP32, 2, comm, s) || aclrtSynchronizeStream(s) ||
        y[0] != (float)(20 + rank))
        return 2;
    if (HcclBatchSendRecv(items, 4, comm, s) || aclrtSynchronizeStream(s) ||
        y[0] != (float)(10 * last) || y[1] != (float)(10 * last + 1) ||
        y[2] != (float)(10 * next + 2))
        return 3;
    small[0] = (short)(-300 - (int)rank);
    if (HcclAllGather(small, all, 1, HCCL_DATA_TYPE_INT16, comm, s) || aclrtSynchronizeStream(s) ||
        all[0] != -300 || all[2] != -302)
        return 4;
    return 0;
}

int t_hccl_rank(uint32_t rank, const HcclRootInfo *root)
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
    if (gaps(rank, comm, x, y, s))
        return 10;
    if (rarer_calls(rank, comm, x, y, s))
        return 11;
    return HcclCommDestroy(comm) ? 12 : 0;
}

static void three_processes(void)
{
    HcclRootInfo root;
    pid_t children[RANKS];

    NOT_ON_CUDA("the host cannot read its memory");
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    for (uint32_t i = 0; i < RANKS; i++) {
        children[i] = fork();
        CHECK_GE(children[i], 0);
        if (!children[i])
            _exit(t_hccl_rank(i, &root));
    }
    for (int i = 0; i < RANKS; i++) {
        int status;

        test_note("rank %d", i);
        CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
        CHECK_EQ(status, 0);
    }
}

TEST(hccl, three_processes_reduce_gather_broadcast_and_send_in_a_ring)
{
    three_processes();
}

TEST(hccl, three_processes_run_all_collectives_by_an_engine_of_weir)
{
    if (TEST_SANITIZED)
        SKIP("the library's threads are made before these processes end");
    setenv("WEIR_ENGINE", "shm", 1);
    setenv("HCCL_IF_IP", "127.0.0.1", 1);
    three_processes();
}

struct place {
    const HcclRootInfo *root;
    uint32_t rank;
    int status;
};

static void *be_a_rank(void *user)
{
    struct place *p = user;

    p->status = t_hccl_rank(p->rank, p->root);
    return NULL;
}

TEST(hccl, three_threads_run_all_collectives_by_weirs_groups)
{
    struct place places[RANKS];
    pthread_t threads[RANKS];
    HcclRootInfo root;

    NOT_ON_CUDA("the host cannot read its memory");
    t_begin();
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    for (uint32_t i = 0; i < RANKS; i++) {
        places[i] = (struct place){&root, i, -1};
        CHECK_EQ(pthread_create(&threads[i], NULL, be_a_rank, &places[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        test_note("rank %d", i);
        CHECK_EQ(places[i].status, 0);
    }
    t_end();
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

static void first_rank(const HcclRootInfo *root)
{
    HcclComm comm;

    if (aclrtSetDevice(0) || HcclCommInitRootInfo(2, root, 0, &comm))
        _exit(1);
    _exit(0); /* and never calls the collective */
}

TEST(hccl, a_collective_that_a_rank_does_not_join_ends_with_its_number)
{
    HcclRootInfo root;
    aclrtStream s;
    HcclComm comm;
    pid_t child;
    void *x;

    setenv("HCCL_EXEC_TIMEOUT", "1", 1);
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    child = fork();
    CHECK_GE(child, 0);
    if (!child)
        first_rank(&root);
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

TEST(hccl, a_rank_that_has_died_is_named_at_once)
{
    HcclRootInfo root;
    aclrtStream s;
    HcclComm comm;
    pid_t child;
    void *x;

    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS); /* whose timeout is half an hour */
    child = fork();
    CHECK_GE(child, 0);
    if (!child)
        first_rank(&root);
    t_begin();
    s = t_stream();
    x = t_device(64);
    CHECK_EQ(HcclCommInitRootInfo(2, &root, 1, &comm), HCCL_SUCCESS);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    CHECK_EQ(HcclAllReduce(x, x, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s), HCCL_SUCCESS);
    CHECK_NE(aclrtSynchronizeStream(s), 0);
    CHECK_STR(aclGetRecentErrMsg(), "waits for rank 0, process");
    CHECK_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
    t_end();
}

/* Each rank with copies alone, as where the host cannot read the device's memory. */
static int copying_rank(uint32_t rank, const HcclRootInfo *root)
{
    enum { N = 300000 }; /* more than a slot holds */
    const size_t bytes = N * sizeof(float);
    float *host = malloc(2 * bytes), sum = 0;
    void *x, *y;
    aclrtStream s;
    HcclComm comm;

    if (!host || aclrtSetDevice(0) || HcclCommInitRootInfo(2, root, rank, &comm) ||
        aclrtCreateStream(&s) || aclrtMalloc(&x, bytes, 0) || aclrtMalloc(&y, 2 * bytes, 0))
        return 1;
    for (int i = 0; i < N; i++)
        host[i] = (float)((int)rank * 10 + i % 7);
    if (aclrtMemcpy(x, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE) ||
        aclrtMemsetAsync(y, 2 * bytes, 0, 2 * bytes, s) ||
        HcclAllGather(x, y, N, HCCL_DATA_TYPE_FP32, comm, s) ||
        HcclAllReduce(x, x, N, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s) ||
        HcclBroadcast((char *)y + bytes, N, HCCL_DATA_TYPE_FP32, 0, comm, s) ||
        aclrtSynchronizeStream(s) ||
        aclrtMemcpy(host, 2 * bytes, y, 2 * bytes, ACL_MEMCPY_DEVICE_TO_HOST))
        return 2;
    for (int i = 0; i < N; i++) /* rank 0 has sent what it gathered of rank 1 */
        if (host[i] != (float)(i % 7) || host[N + i] != (float)(10 + i % 7))
            return 3;
    if (aclrtMemcpy(host, bytes, x, bytes, ACL_MEMCPY_DEVICE_TO_HOST))
        return 4;
    for (int i = 0; i < N; i++)
        sum += host[i] != (float)(10 + 2 * (i % 7));
    free(host);
    return sum != 0 ? 5 : HcclCommDestroy(comm) ? 6 : 0;
}

TEST(hccl, two_processes_exchange_device_memory_that_the_host_cannot_read)
{
    HcclRootInfo root;
    pid_t child;
    int status;

    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    child = fork();
    CHECK_GE(child, 0);
    if (!child)
        _exit(copying_rank(1, &root));
    CHECK_EQ(copying_rank(0, &root), 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_ACL(aclrtResetDevice(0));
}

TEST(hccl, ranks_of_one_process_use_weirs_groups)
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
