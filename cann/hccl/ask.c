/* Queries of a communicator: ranks, names, errors, settings. */
#include "comm.h"

#include <stdio.h>
#include <string.h>

EXPORT HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize)
{
    struct comm *c;
    HcclResult r = comm_get(__func__, comm, &c);

    if (!r && !rankSize)
        r = hccl_fail(__func__, HCCL_E_PTR, "rankSize is NULL");
    if (!r)
        *rankSize = c->nranks;
    return r;
}

EXPORT HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank)
{
    struct comm *c;
    HcclResult r = comm_get(__func__, comm, &c);

    if (!r && !rank)
        r = hccl_fail(__func__, HCCL_E_PTR, "rank is NULL");
    if (!r)
        *rank = c->rank;
    return r;
}

EXPORT HcclResult HcclGetCommName(HcclComm comm, char *commName)
{
    struct comm *c;
    HcclResult r = comm_get(__func__, comm, &c);

    if (!r && !commName)
        r = hccl_fail(__func__, HCCL_E_PTR, "commName is NULL");
    if (!r)
        strcpy(commName, c->name);
    return r;
}

EXPORT HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError)
{
    struct comm *c = comm_find(comm, false);

    if (!asyncError)
        return hccl_fail(__func__, HCCL_E_PTR, "asyncError is NULL");
    if (!c)
        return hccl_fail(__func__, HCCL_E_PARA, "%p is not a communicator", comm);
    *asyncError =
        c->group ? (weir_group_state(c->group) ? HCCL_E_NETWORK : HCCL_SUCCESS) : c->error;
    return HCCL_SUCCESS;
}

EXPORT uint32_t HcclGetCommConfigCapability(void)
{
    return 0; /* communicators have no settings here */
}

EXPORT const char *HcclGetErrorString(HcclResult code)
{
    switch ((int)code) {
#define TEXT(name, number, text) \
    case number:                 \
        return text;
        WEIR_HCCL_RESULT_LIST(TEXT)
#undef TEXT
    default:
        return "an unknown error";
    }
}

EXPORT HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue)
{
    (void)config, (void)configValue;
    return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue)
{
    (void)config;
    if (!configValue)
        return hccl_fail(__func__, HCCL_E_PTR, "configValue is NULL");
    configValue->value = 1; /* deterministic: results are the same in every run */
    return HCCL_SUCCESS;
}
