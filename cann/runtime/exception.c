/* Reports failed work to the program's exception callback. */
#include "runtime/runtime.h"

struct rtExceptionInfo {
    uint32_t task, stream, thread, device, code;
};

static _Atomic(aclrtExceptionInfoCallback) callback;

EXPORT aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback fn)
{
    callback = fn; /* NULL removes it */
    return ACL_SUCCESS;
}

void exception_report(int32_t stream, int32_t device, aclError code)
{
    aclrtExceptionInfoCallback fn = callback;
    struct rtExceptionInfo info = {.stream = (uint32_t)stream,
                                   .device = (uint32_t)device,
                                   .thread = (uint32_t)pthread_self(),
                                   .code = (uint32_t)code};

    if (fn)
        fn(&info);
}

#define NONE 0xFFFFFFFFu

EXPORT uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->task : NONE;
}
EXPORT uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->stream : NONE;
}
EXPORT uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->thread : NONE;
}
EXPORT uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->device : NONE;
}
EXPORT uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return info ? info->code : NONE;
}
