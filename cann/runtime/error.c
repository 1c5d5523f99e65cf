/* Error codes, and the message of each thread's last error. */
#include "runtime/runtime.h"

#include "aclnn/acl_meta.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[2048];
static _Thread_local char given[2048]; /* the text that aclGetRecentErrMsg returned */
static _Thread_local aclError last;

static const char *code_text(aclError code)
{
    switch (code) {
#define TEXT(name, number, text) \
    case number:                 \
        return text;
        WEIR_ACL_ERROR_LIST(TEXT)
#undef TEXT
    case ACLNN_ERR_PARAM_NULLPTR:
        return "an operand is NULL";
    case ACLNN_ERR_PARAM_INVALID:
        return "an operand is invalid";
    case ACLNN_ERR_RUNTIME_ERROR:
        return "the operator cannot be queued";
    case ACLNN_ERR_INNER_NULLPTR:
        return "out of host memory";
    default:
        return "an unknown error";
    }
}

static aclError keep(const char *function, aclError code, const char *format, va_list args)
{
    int n = snprintf(message, sizeof message, "EZ%d: %s%s%s: ", code, function ? function : "",
                     function ? ": " : "", code_text(code));

    if (n > 0 && (size_t)n < sizeof message)
        vsnprintf(message + n, sizeof message - (size_t)n, format, args);
    last = code;
    return code;
}

EXPORT aclError weir_cann_fail(aclError code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    keep(NULL, code, format, args);
    va_end(args);
    return code;
}

aclError weir_cann_fail_in(const char *function, aclError code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    keep(function, code, format, args);
    va_end(args);
    return code;
}

/* AscendCL's codes for weir's. None is ACL_ERROR_RT_FEATURE_NOT_SUPPORT: torch_npu treats that as a
 * warning and continues although the work was not done. */
static const aclError codes[WEIR_STATUS_COUNT] = {
    [WEIR_EINVAL] = ACL_ERROR_RT_PARAM_INVALID,
    [WEIR_ERANGE] = ACL_ERROR_RT_PARAM_INVALID,
    [WEIR_ESHAPE] = ACL_ERROR_INVALID_PARAM,
    [WEIR_EDTYPE] = ACL_ERROR_UNSUPPORTED_DATA_TYPE,
    [WEIR_EDEVICE] = ACL_ERROR_RESOURCE_NOT_MATCH,
    [WEIR_EDRIVER] = ACL_ERROR_RT_INTERNAL_ERROR,
    [WEIR_ESPEC] = ACL_ERROR_RT_NO_DEVICE,
    [WEIR_EUNAVAILABLE] = ACL_ERROR_RT_NO_DEVICE,
    [WEIR_EUNSUPPORTED] = ACL_ERROR_API_NOT_SUPPORT,
    [WEIR_ENOMEM] = ACL_ERROR_BAD_ALLOC,
    [WEIR_EOOM] = ACL_ERROR_RT_MEMORY_ALLOCATION,
    [WEIR_ESTATE] = ACL_ERROR_API_NOT_SUPPORT,
    [WEIR_EBUSY] = ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
    [WEIR_ECONFLICT] = ACL_ERROR_INVALID_PARAM,
    [WEIR_EPARSE] = ACL_ERROR_INVALID_FILE,
    [WEIR_EIO] = ACL_ERROR_INVALID_FILE,
    [WEIR_EKERNEL] = ACL_ERROR_RT_AICORE_EXCEPTION,
    [WEIR_ETIMEDOUT] = ACL_ERROR_RT_AICORE_TIMEOUT,
    [WEIR_EDEADLOCK] = ACL_ERROR_RT_AICORE_TIMEOUT,
    [WEIR_EINTERNAL] = ACL_ERROR_RT_INTERNAL_ERROR,
    [WEIR_EINTERRUPTED] = ACL_ERROR_FAILURE,
    [WEIR_ERACE] = ACL_ERROR_RT_AICORE_EXCEPTION,
};

EXPORT aclError weir_cann_fail_status(weir_status status, const char *what)
{
    if (status == WEIR_OK)
        return ACL_SUCCESS;
    return weir_cann_fail_in(what,
                             (unsigned)status < WEIR_STATUS_COUNT && codes[status]
                                 ? codes[status]
                                 : ACL_ERROR_INTERNAL_ERROR,
                             "%s", weir_last_error());
}

/* ---- errors on torch_npu's queue ---- */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool queue_ended;
static aclError queue_error;
static char queue_message[sizeof message]; /* this and queue_error: written before queue_ended */

EXPORT aclError weir_cann_launched(aclError err)
{
    char name[16] = "";

    if (!err || pthread_getname_np(pthread_self(), name, sizeof name) ||
        strcmp(name, "acl_thread") != 0)
        return err;
    pthread_mutex_lock(&queue_lock);
    if (!queue_ended) {
        memcpy(queue_message, message, sizeof message);
        queue_error = err;
        queue_ended = true;
    }
    pthread_mutex_unlock(&queue_lock);
    return err;
}

aclError launch_check(const char *function)
{
    if (!atomic_load_explicit(&queue_ended, memory_order_acquire))
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, queue_error,
                             "torch_npu's queue ended with an earlier error, and what was queued "
                             "later has not run: %s",
                             queue_message);
}

void launch_forget(void)
{
    pthread_mutex_init(&queue_lock, NULL);
    queue_ended = false;
}

/* Returns the message once: further calls return "" until the next error. */
EXPORT const char *aclGetRecentErrMsg(void)
{
    memcpy(given, message, sizeof given);
    message[0] = 0;
    return given;
}

EXPORT aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    aclError code = last;

    (void)level;
    last = ACL_SUCCESS;
    return code;
}

EXPORT aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    (void)level;
    return last;
}
