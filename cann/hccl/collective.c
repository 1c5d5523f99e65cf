/* Collectives: each is a list of messages, and a function that runs when all have arrived. */
#include "comm.h"

#include <string.h>

/* ---- functions that run when all messages have arrived ---- */

void finish_reduce(struct job *j)
{
    uint32_t me = j->comm->rank;

    memcpy(j->inbox + me * j->bytes, j->send, j->bytes);
    for (uint32_t i = 1; i < j->comm->nranks; i++)
        reduce_into(j->inbox, j->inbox + i * j->bytes, j->count, j->type, j->op);
    memcpy(j->recv, j->inbox, j->bytes);
}

/* ---- public ---- */

EXPORT HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType,
                                HcclReduceOp op, HcclComm comm, aclrtStream stream)
{
    uint64_t bytes = count * type_size(dataType);
    struct call c = {__func__, NULL, stream, sendBuf, recvBuf, bytes, bytes, dataType, op};
    HcclResult r = call_check(&c, comm, true);
    struct job *j;

    if (r || !count)
        return r;
    if (c.comm->group)
        return group_call(&c, ALL_REDUCE, 0);
    if (!(j = job_new(&c, 2 * (int)c.comm->nranks, bytes)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < c.comm->nranks; i++)
        if (i != c.comm->rank) {
            job_add(j, true, i, j->send, bytes);
            job_add(j, false, i, j->inbox + i * bytes, bytes);
        }
    j->count = count;
    j->finish = finish_reduce;
    return call_queue(&c, j);
}

EXPORT HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType,
                             HcclReduceOp op, uint32_t root, HcclComm comm, aclrtStream stream)
{
    uint64_t bytes = count * type_size(dataType);
    struct call c = {__func__, NULL, stream, sendBuf, recvBuf, bytes, 0, dataType, op};
    HcclResult r = call_check(&c, comm, true);
    struct job *j;
    bool mine;

    if (r || (r = call_check_rank(&c, root, "root")) || !count)
        return r;
    mine = root == c.comm->rank;
    c.recv_bytes = mine ? bytes : 0;
    if (c.comm->group)
        return group_call(&c, REDUCE, root);
    if (!(j = job_new(&c, (int)c.comm->nranks, mine ? bytes : 0)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; mine && i < c.comm->nranks; i++)
        if (i != root)
            job_add(j, false, i, j->inbox + i * bytes, bytes);
    if (!mine)
        job_add(j, true, root, j->send, bytes);
    j->count = count;
    j->finish = mine ? finish_reduce : NULL;
    return call_queue(&c, j);
}

EXPORT HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root,
                                HcclComm comm, aclrtStream stream)
{
    uint64_t bytes = count * type_size(dataType);
    struct call c = {__func__, NULL, stream, buf, buf, bytes, bytes, dataType, 0};
    HcclResult r = call_check(&c, comm, false);
    struct job *j;

    if (r || (r = call_check_rank(&c, root, "root")) || !count)
        return r;
    if (c.comm->group)
        return group_call(&c, BROADCAST, root);
    if (root == c.comm->rank)
        c.recv_bytes = 0;
    else
        c.send_bytes = 0;
    if (!(j = job_new(&c, (int)c.comm->nranks, 0)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; root == c.comm->rank && i < c.comm->nranks; i++)
        if (i != root)
            job_add(j, true, i, buf, bytes);
    if (root != c.comm->rank)
        job_add(j, false, root, buf, bytes);
    return call_queue(&c, j);
}

/* Copies the rank's own `count` bytes, which need no message. */
static void finish_own(struct job *j)
{
    if (j->count && j->send != j->recv)
        memmove(j->recv, j->send, j->count);
}

EXPORT HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount,
                                HcclDataType dataType, HcclComm comm, aclrtStream stream)
{
    uint64_t bytes = sendCount * type_size(dataType);
    struct call c = {__func__, NULL, stream, sendBuf, recvBuf, bytes, 0, dataType, 0};
    HcclResult r = call_check(&c, comm, false);
    struct job *j;

    if (r || !sendCount)
        return r;
    c.recv_bytes = bytes * c.comm->nranks;
    if (c.comm->group)
        return group_call(&c, ALL_GATHER, 0);
    if (!(j = job_new(&c, 2 * (int)c.comm->nranks, 0)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < c.comm->nranks; i++)
        if (i != c.comm->rank) {
            job_add(j, true, i, j->send, bytes);
            job_add(j, false, i, j->recv + i * bytes, bytes);
        }
    j->recv += c.comm->rank * bytes;
    j->count = bytes;
    j->finish = finish_own;
    return call_queue(&c, j);
}

EXPORT HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount,
                                    HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                                    aclrtStream stream)
{
    uint64_t bytes = recvCount * type_size(dataType);
    struct call c = {__func__, NULL, stream, sendBuf, recvBuf, 0, bytes, dataType, op};
    HcclResult r = call_check(&c, comm, true);
    struct job *j;

    if (r || !recvCount)
        return r;
    c.send_bytes = bytes * c.comm->nranks;
    if (c.comm->group)
        return group_call(&c, REDUCE_SCATTER, 0);
    if (!(j = job_new(&c, 2 * (int)c.comm->nranks, bytes)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < c.comm->nranks; i++)
        if (i != c.comm->rank) {
            job_add(j, true, i, j->send + i * bytes, bytes);
            job_add(j, false, i, j->inbox + i * bytes, bytes);
        }
    j->send += c.comm->rank * bytes;
    j->count = recvCount;
    j->finish = finish_reduce;
    return call_queue(&c, j);
}

EXPORT HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount,
                              HcclDataType dataType, uint32_t root, HcclComm comm,
                              aclrtStream stream)
{
    uint64_t bytes = recvCount * type_size(dataType);
    struct call c = {__func__, NULL, stream, sendBuf, recvBuf, 0, bytes, dataType, 0};
    HcclResult r = call_check(&c, comm, false);
    struct job *j;

    if (r || (r = call_check_rank(&c, root, "root")) || !recvCount)
        return r;
    if (root == c.comm->rank)
        c.send_bytes = bytes * c.comm->nranks;
    if (c.comm->group)
        return group_call(&c, SCATTER, root);
    if (!(j = job_new(&c, (int)c.comm->nranks, 0)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; root == c.comm->rank && i < c.comm->nranks; i++)
        if (i != root)
            job_add(j, true, i, j->send + i * bytes, bytes);
    if (root != c.comm->rank) {
        job_add(j, false, root, j->recv, bytes);
    } else {
        j->send += root * bytes;
        j->count = bytes;
        j->finish = finish_own;
    }
    return call_queue(&c, j);
}

EXPORT HcclResult HcclBarrier(HcclComm comm, aclrtStream stream)
{
    struct call c = {__func__, NULL, stream, NULL, NULL, 0, 0, HCCL_DATA_TYPE_INT8, 0};
    HcclResult r = call_check(&c, comm, false);
    struct job *j;

    if (r)
        return r;
    if (c.comm->group)
        return group_call(&c, BARRIER, 0);
    if (!(j = job_new(&c, 2 * (int)c.comm->nranks, 1)))
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < c.comm->nranks; i++)
        if (i != c.comm->rank) {
            job_add(j, true, i, j->inbox + c.comm->rank, 1);
            job_add(j, false, i, j->inbox + i, 1);
        }
    return call_queue(&c, j);
}
