/* Bounds of waits. weir's own bound is the device's op_timeout; these are kept and answered. */
#include "runtime/runtime.h"

static _Atomic uint32_t op_wait;
static _Atomic uint64_t op_execute;

EXPORT aclError aclrtSetOpWaitTimeout(uint32_t timeout)
{
    op_wait = timeout;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetOpExecuteTimeOut(uint32_t timeout)
{
    op_execute = timeout;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout)
{
    NEED(actualTimeout);
    op_execute = timeout;
    *actualTimeout = timeout;
    return ACL_SUCCESS;
}
