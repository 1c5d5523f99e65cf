/* Registration of memory, and repair of communicators. All bytes pass through the slots, so
 * registering memory has no effect. */
#include "comm.h"

EXPORT HcclResult HcclCommSetMemoryRange(HcclComm comm, void *virPtr, size_t size, size_t alignment,
                                         uint64_t flags)
{
    struct comm *c;

    (void)virPtr, (void)size, (void)alignment, (void)flags;
    return comm_get(__func__, comm, &c);
}

EXPORT HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *virPtr)
{
    struct comm *c;

    (void)virPtr;
    return comm_get(__func__, comm, &c);
}

EXPORT HcclResult HcclCommActivateCommMemory(HcclComm comm, void *virPtr, size_t size,
                                             size_t offset, void *handle, uint64_t flags)
{
    struct comm *c;

    (void)virPtr, (void)size, (void)offset, (void)handle, (void)flags;
    return comm_get(__func__, comm, &c);
}

EXPORT HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr)
{
    struct comm *c;

    (void)virPtr;
    return comm_get(__func__, comm, &c);
}

EXPORT HcclResult HcclCommResume(HcclComm comm)
{
    struct comm *c;

    return comm_get(__func__, comm, &c); /* a broken communicator stays broken */
}

EXPORT HcclResult HcclCommWorkingDevNicSet(HcclComm comm, uint32_t *ranks, bool *useBackup,
                                           uint32_t nRanks)
{
    struct comm *c;
    HcclResult r = comm_get(__func__, comm, &c);

    (void)ranks, (void)useBackup, (void)nRanks;
    return r ? r : hccl_fail(__func__, HCCL_E_NOT_SUPPORT, "there are no network cards to change");
}

EXPORT HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix,
                                 HcclDataType sendType, const void *recvBuf, HcclDataType recvType,
                                 HcclComm comm, aclrtStream stream)
{
    uint64_t scounts[MAX_RANKS], sdispls[MAX_RANKS], rcounts[MAX_RANKS], rdispls[MAX_RANKS];
    const uint64_t *matrix = sendCountMatrix;
    struct comm *c;
    HcclResult r = comm_get(__func__, comm, &c);

    if (r)
        return r;
    if (!matrix)
        return hccl_fail(__func__, HCCL_E_PTR, "sendCountMatrix is NULL");
    for (uint32_t i = 0; i < c->nranks; i++) { /* row: sender; column: receiver */
        scounts[i] = matrix[c->rank * c->nranks + i];
        rcounts[i] = matrix[i * c->nranks + c->rank];
        sdispls[i] = i ? sdispls[i - 1] + scounts[i - 1] : 0;
        rdispls[i] = i ? rdispls[i - 1] + rcounts[i - 1] : 0;
    }
    return HcclAlltoAllV(sendBuf, scounts, sdispls, sendType, recvBuf, rcounts, rdispls, recvType,
                         comm, stream);
}
