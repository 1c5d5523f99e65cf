/* libhccl: communicators of more than 64 ranks, as processes and as threads. */
#define _GNU_SOURCE
#include "helpers.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hccl/hccl.h"

enum { PROCESSES = 70, THREADS = 110, LONG = 40000 /* floats: more than a slot of many holds */ };

/* Rank r sends (r + i) % 3 floats to rank i, with a gap of one behind each. */
static int uneven(uint32_t rank, uint32_t ranks, HcclComm comm, float *x, float *y, aclrtStream s)
{
    uint64_t scounts[THREADS], sdispls[THREADS], rcounts[THREADS], rdispls[THREADS];
    uint64_t sent = 0, got = 0;

    for (uint32_t i = 0; i < ranks; i++) {
        scounts[i] = rcounts[i] = (rank + i) % 3;
        sdispls[i] = sent;
        rdispls[i] = got;
        for (uint64_t k = 0; k < scounts[i]; k++)
            x[sent + k] = (float)(1000 * rank + i);
        sent += scounts[i] + 1;
        got += rcounts[i];
    }
    if (HcclAlltoAllV(x, scounts, sdispls, HCCL_DATA_TYPE_FP32, y, rcounts, rdispls,
                      HCCL_DATA_TYPE_FP32, comm, s) ||
        aclrtSynchronizeStream(s))
        return 1;
    for (uint32_t i = 0; i < ranks; i++)
        for (uint64_t k = 0; k < rcounts[i]; k++)
            if (y[rdispls[i] + k] != (float)(1000 * i + rank))
                return 2;
    return 0;
}

static int be_rank(uint32_t rank, uint32_t ranks, const HcclRootInfo *root)
{
    uint32_t next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks, devices;
    float *x, *y;
    aclrtStream s;
    HcclComm comm;

    if (aclrtGetDeviceCount(&devices) || aclrtSetDevice((int32_t)(rank % devices)) ||
        aclrtCreateStream(&s) || HcclCommInitRootInfo(ranks, root, rank, &comm) ||
        aclrtMalloc((void **)&x, LONG * sizeof *x, 0) ||
        aclrtMalloc((void **)&y, LONG * sizeof *y, 0))
        return 1;
    x[0] = (float)rank;
    if (HcclAllReduce(x, y, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s) ||
        aclrtSynchronizeStream(s) || y[0] != (float)(ranks * (ranks - 1) / 2))
        return 2;
    for (uint32_t i = 0; i < ranks; i++)
        x[i] = (float)(1000 * rank + i);
    if (HcclAlltoAll(x, 1, HCCL_DATA_TYPE_FP32, y, 1, HCCL_DATA_TYPE_FP32, comm, s) ||
        aclrtSynchronizeStream(s))
        return 3;
    for (uint32_t i = 0; i < ranks; i++)
        if (y[i] != (float)(1000 * i + rank))
            return 4;
    if (uneven(rank, ranks, comm, x, y, s))
        return 5;
    for (int i = 0; i < LONG; i++)
        x[i] = (float)rank;
    if (HcclSend(x, LONG, HCCL_DATA_TYPE_FP32, next, comm, NULL) ||
        HcclRecv(y, LONG, HCCL_DATA_TYPE_FP32, last, comm, s) || aclrtSynchronizeStream(s) ||
        aclrtSynchronizeStream(NULL) || y[0] != (float)last || y[LONG - 1] != (float)last)
        return 6;
    return HcclCommDestroy(comm) ? 7 : 0;
}

TEST_TIMEOUT(hccl, seventy_processes_reduce_exchange_and_send_in_a_ring, 120)
{
    HcclRootInfo root;
    pid_t children[PROCESSES];

    NOT_ON_CUDA("the host cannot read its memory");
    if (TEST_SANITIZED)
        SKIP("it takes many processes");
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        CHECK_GE(children[i], 0);
        if (!children[i])
            _exit(be_rank(i, PROCESSES, &root));
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;

        test_note("rank %d", i);
        CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
        CHECK_EQ(status, 0);
    }
}

struct place {
    const HcclRootInfo *root;
    uint32_t rank;
    int status;
};

static void *be_a_thread(void *user)
{
    struct place *p = user;

    p->status = be_rank(p->rank, THREADS, p->root);
    return NULL;
}

TEST_TIMEOUT(hccl, a_hundred_and_ten_threads_reduce_exchange_and_send_in_a_ring, 120)
{
    struct place places[THREADS];
    pthread_t threads[THREADS];
    HcclRootInfo root;

    NOT_ON_CUDA("the host cannot read its memory");
    t_begin();
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    for (uint32_t i = 0; i < THREADS; i++) {
        places[i] = (struct place){&root, i, -1};
        CHECK_EQ(pthread_create(&threads[i], NULL, be_a_thread, &places[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        test_note("rank %d", i);
        CHECK_EQ(places[i].status, 0);
    }
    t_end();
}

TEST(hccl, more_ranks_than_there_may_be_are_refused_with_the_number)
{
    HcclRootInfo root;
    HcclComm comm;

    t_begin();
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    CHECK_EQ(HcclCommInitRootInfo(1025, &root, 0, &comm), HCCL_E_PARA);
    CHECK_STR(aclGetRecentErrMsg(), "1024");
    t_end();
}
