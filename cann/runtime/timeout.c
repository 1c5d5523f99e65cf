/* Timeouts of operators. They are stored and returned without effect; weir uses the device's
 * op_timeout. */
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
