/* Exchanges between pairs: all-to-all, also with counts per rank, sends and receives. */
#include "comm.h"

#include <stdlib.h>
#include <string.h>

/* Copies the rank's own `bytes` bytes, which need no message. */
static void finish_own(struct job *j)
{
    if (j->bytes)
        memmove(j->recv, j->send, j->bytes);
}

/* Returns the number of bytes that `n` counts at their displacements span. */
static uint64_t reach(const uint64_t *counts, const uint64_t *displacements, uint32_t n,
                      size_t width)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < n; i++)
        if (counts[i] && (counts[i] + displacements[i]) * width > most)
            most = (counts[i] + displacements[i]) * width;
    return most;
}

static HcclResult exchange(struct call *c, const uint64_t *scounts, const uint64_t *sdispls,
                           const uint64_t *rcounts, const uint64_t *rdispls)
{
    size_t width = type_size(c->type);
    uint32_t n = c->comm->nranks, me = c->comm->rank;
    struct job *j;

    c->send_bytes = reach(scounts, sdispls, n, width);
    c->recv_bytes = reach(rcounts, rdispls, n, width);
    if (scounts[me] != rcounts[me])
        return hccl_fail(c->function, HCCL_E_PARA,
                         "rank %u sends itself %llu elements and receives %llu", me,
                         (unsigned long long)scounts[me], (unsigned long long)rcounts[me]);
    if (c->comm->group)
        return group_exchange(c, scounts, sdispls, rcounts, rdispls);
    if (!(j = job_new(c, 2 * (int)n, 0)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if (i != me) {
            job_add(j, true, i, j->send + sdispls[i] * width, scounts[i] * width);
            job_add(j, false, i, j->recv + rdispls[i] * width, rcounts[i] * width);
        }
    j->send += sdispls[me] * width;
    j->recv += rdispls[me] * width;
    j->bytes = scounts[me] * width;
    j->finish = finish_own;
    return call_queue(c, j);
}

EXPORT HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls,
                                HcclDataType sendType, const void *recvBuf, const void *recvCounts,
                                const void *rdispls, HcclDataType recvType, HcclComm comm,
                                aclrtStream stream)
{
    struct call c = {__func__, NULL, stream,   sendBuf, (void *)(uintptr_t)recvBuf,
                     0,        0,    sendType, 0};
    HcclResult r = call_check(&c, comm, false);

    if (r)
        return r;
    if (!sendCounts || !sdispls || !recvCounts || !rdispls)
        return hccl_fail(__func__, HCCL_E_PTR, "counts or displacements are NULL");
    if (sendType != recvType)
        return hccl_fail(__func__, HCCL_E_PARA, "types %d and %d differ", (int)sendType,
                         (int)recvType);
    return exchange(&c, sendCounts, sdispls, recvCounts, rdispls);
}

EXPORT HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType,
                               const void *recvBuf, uint64_t recvCount, HcclDataType recvType,
                               HcclComm comm, aclrtStream stream)
{
    uint64_t counts[MAX_RANKS], displs[MAX_RANKS];
    struct call c = {__func__, NULL, stream,   sendBuf, (void *)(uintptr_t)recvBuf,
                     0,        0,    sendType, 0};
    HcclResult r = call_check(&c, comm, false);

    if (r)
        return r;
    if (sendType != recvType || sendCount != recvCount)
        return hccl_fail(__func__, HCCL_E_PARA,
                         "%llu elements of type %d are sent, %llu of %d "
                         "received",
                         (unsigned long long)sendCount, (int)sendType,
                         (unsigned long long)recvCount, (int)recvType);
    if (c.comm->group) {
        c.send_bytes = c.recv_bytes = sendCount * c.comm->nranks * type_size(sendType);
        return group_call(&c, ALL_TO_ALL, 0);
    }
    for (uint32_t i = 0; i < c.comm->nranks; i++) {
        counts[i] = sendCount;
        displs[i] = i * sendCount;
    }
    return exchange(&c, counts, displs, counts, displs);
}

EXPORT HcclResult HcclAllGatherV(const void *sendBuf, uint64_t sendCount, const void *recvBuf,
                                 const void *recvCounts, const void *rdispls, HcclDataType dataType,
                                 HcclComm comm, aclrtStream stream)
{
    uint64_t counts[MAX_RANKS], displs[MAX_RANKS] = {0};
    struct call c = {__func__, NULL, stream,   sendBuf, (void *)(uintptr_t)recvBuf,
                     0,        0,    dataType, 0};
    HcclResult r = call_check(&c, comm, false);

    if (r)
        return r;
    if (!recvCounts || !rdispls)
        return hccl_fail(__func__, HCCL_E_PTR, "counts or displacements are NULL");
    for (uint32_t i = 0; i < c.comm->nranks; i++)
        counts[i] = sendCount;
    return exchange(&c, counts, displs, recvCounts, rdispls);
}

EXPORT HcclResult HcclReduceScatterV(const void *sendBuf, const void *sendCounts,
                                     const void *sdispls, const void *recvBuf, uint64_t recvCount,
                                     HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                                     aclrtStream stream)
{
    uint64_t each = type_size(dataType), bytes = recvCount * each;
    const uint64_t *counts = sendCounts, *displs = sdispls;
    struct call c = {__func__, NULL,  stream,   sendBuf, (void *)(uintptr_t)recvBuf,
                     0,        bytes, dataType, op};
    HcclResult r = call_check(&c, comm, true);
    struct job *j;

    if (r)
        return r;
    if (!counts || !displs)
        return hccl_fail(__func__, HCCL_E_PTR, "counts or displacements are NULL");
    if (counts[c.comm->rank] != recvCount)
        return hccl_fail(__func__, HCCL_E_PARA, "rank %u takes %llu elements and sends itself %llu",
                         c.comm->rank, (unsigned long long)recvCount,
                         (unsigned long long)counts[c.comm->rank]);
    for (uint32_t i = 0; i < c.comm->nranks; i++)
        if ((displs[i] + counts[i]) * each > c.send_bytes)
            c.send_bytes = (displs[i] + counts[i]) * each;
    if (c.comm->group)
        return group_reduce_scatter(&c, counts, displs);
    if (!(j = job_new(&c, 2 * (int)c.comm->nranks, bytes)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < c.comm->nranks; i++) {
        if (i == c.comm->rank)
            continue;
        if (counts[i])
            job_add(j, true, i, j->send + displs[i] * each, counts[i] * each);
        if (bytes)
            job_add(j, false, i, j->inbox + i * bytes, bytes);
    }
    j->send += displs[c.comm->rank] * each;
    j->count = recvCount;
    j->finish = bytes ? finish_reduce : NULL;
    return call_queue(&c, j);
}

/* ---- one rank to another ---- */

static HcclResult one(const char *function, void *buf, uint64_t count, HcclDataType type,
                      uint32_t peer, HcclComm comm, aclrtStream stream, bool sends)
{
    uint64_t bytes = count * type_size(type);
    struct call c = {
        function,          NULL, stream, sends ? buf : NULL, sends ? NULL : buf, sends ? bytes : 0,
        sends ? 0 : bytes, type, 0};
    HcclResult r = call_check(&c, comm, false);
    struct job *j;

    if (r || (r = call_check_rank(&c, peer, "rank")))
        return r;
    if (peer == c.comm->rank)
        return hccl_fail(function, HCCL_E_PARA, "rank %u is this one", peer);
    if (!count)
        return HCCL_SUCCESS;
    if (c.comm->group)
        return group_call(&c, sends ? SEND : RECV, peer);
    if (!(j = job_new(&c, 1, 0)))
        return HCCL_E_MEMORY;
    job_add(j, sends, peer, buf, bytes);
    return call_queue(&c, j);
}

EXPORT HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank,
                           HcclComm comm, aclrtStream stream)
{
    return one(__func__, sendBuf, count, dataType, destRank, comm, stream, true);
}

EXPORT HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank,
                           HcclComm comm, aclrtStream stream)
{
    return one(__func__, recvBuf, count, dataType, srcRank, comm, stream, false);
}

EXPORT HcclResult HcclBatchSendRecv(HcclSendRecvItem *items, uint32_t itemNum, HcclComm comm,
                                    aclrtStream stream)
{
    struct call c = {__func__, NULL, stream, NULL, NULL, 0, 0, HCCL_DATA_TYPE_INT8, 0};
    HcclResult r = call_check(&c, comm, false);
    struct job *j;

    if (r)
        return r;
    if (!items || !itemNum)
        return hccl_fail(__func__, HCCL_E_PTR, "%u messages at %p", itemNum, (void *)items);
    if (!(j = job_new(&c, (int)itemNum, 0)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < itemNum && !r; i++) {
        uint64_t bytes = items[i].count * type_size(items[i].dataType);
        int64_t size = (int64_t)bytes;
        weir_tensor *t = NULL;

        if (!type_size(items[i].dataType))
            r = hccl_fail(__func__, HCCL_E_NOT_SUPPORT, "data type %d", (int)items[i].dataType);
        else if (!(r = call_check_rank(&c, items[i].remoteRank, "rank")) && bytes &&
                 weir_cann_tensor(items[i].buf, WEIR_U8, 1, &size, NULL, &t))
            r = HCCL_E_PARA; /* the address is not device memory */
        weir_tensor_release(t);
        if (!r)
            job_add(j, items[i].sendRecvType == HCCL_SEND, items[i].remoteRank, items[i].buf,
                    bytes);
    }
    if (!r && !c.comm->group)
        return call_queue(&c, j);
    job_free(j);
    return r ? r : group_batch(&c, items, itemNum);
}
