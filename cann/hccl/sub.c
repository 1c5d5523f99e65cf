/* Smaller communicators of one: the members meet in the memory of the larger one. */
#include "comm.h"

#include <string.h>
#include <time.h>

enum { SUB_FREE, SUB_WRITTEN, SUB_READY };

/* Member 0 makes the root information, and leaves it for the others. */
static HcclResult offer(const char *function, struct comm *c, uint64_t id, uint32_t others,
                        HcclRootInfo *root)
{
    HcclResult r = HcclGetRootInfo(root);

    if (r || !others)
        return r;
    for (int i = 0; i < MAX_SUBS; i++) {
        struct sub *sub = &c->shared->subs[i];
        uint32_t expected = SUB_FREE;

        if (!atomic_compare_exchange_strong(&sub->state, &expected, SUB_WRITTEN))
            continue;
        sub->id = id;
        memcpy(sub->root, root->internal, sizeof sub->root);
        atomic_store(&sub->readers, others);
        atomic_store(&sub->state, SUB_READY);
        return HCCL_SUCCESS;
    }
    return hccl_fail(function, HCCL_E_MEMORY, "%d smaller communicators are being made at once",
                     MAX_SUBS);
}

static HcclResult take(const char *function, struct comm *c, uint64_t id, HcclRootInfo *root)
{
    int64_t limit = seconds_of("HCCL_CONNECT_TIMEOUT", 120);

    for (int64_t left = limit; left >= 0; left -= 1000000) {
        for (int i = 0; i < MAX_SUBS; i++) {
            struct sub *sub = &c->shared->subs[i];

            if (atomic_load(&sub->state) != SUB_READY || sub->id != id)
                continue;
            memset(root, 0, sizeof *root);
            memcpy(root->internal, sub->root, sizeof sub->root);
            if (atomic_fetch_sub(&sub->readers, 1) == 1)
                atomic_store(&sub->state, SUB_FREE);
            return HCCL_SUCCESS;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return hccl_fail(function, HCCL_E_TIMEOUT,
                     "after %lld s the first member of communicator %llu is missing",
                     (long long)(limit / 1000000000), (unsigned long long)id);
}

/* A rank that is no member gives no ranks, and gets no communicator. */
EXPORT HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds,
                                          uint64_t subCommId, uint32_t subCommRankId,
                                          HcclCommConfig *config, HcclComm *subComm)
{
    HcclRootInfo root;
    struct comm *c;
    HcclResult r;

    (void)config; /* sizes of buffers and the like */
    if (!subComm || !comm)
        return hccl_fail(__func__, HCCL_E_PTR, "%s is NULL", comm ? "subComm" : "comm");
    *subComm = NULL;
    if ((r = comm_get(__func__, *comm, &c)))
        return r;
    if (!rankIds)
        return HCCL_SUCCESS;
    if (!rankNum || rankNum > c->nranks || subCommRankId >= rankNum)
        return hccl_fail(__func__, HCCL_E_PARA, "rank %u of %u out of %u", subCommRankId, rankNum,
                         c->nranks);
    if (rankIds[subCommRankId] != c->rank)
        return hccl_fail(__func__, HCCL_E_PARA, "member %u is rank %u, and this is rank %u",
                         subCommRankId, rankIds[subCommRankId], c->rank);
    for (uint32_t i = 0; i < rankNum; i++)
        if (rankIds[i] >= c->nranks)
            return hccl_fail(__func__, HCCL_E_PARA, "rank %u: there are %u", rankIds[i], c->nranks);
    if (c->device)
        return comm_split(__func__, c, subCommId, rankNum, rankIds, subCommRankId, subComm);
    r = subCommRankId ? take(__func__, c, subCommId, &root)
                      : offer(__func__, c, subCommId, rankNum - 1, &root);
    return r ? r : HcclCommInitRootInfo(rankNum, &root, subCommRankId, subComm);
}
