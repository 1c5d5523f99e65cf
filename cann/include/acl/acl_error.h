/* AscendCL's error codes: 1xxxxx for errors of the caller, 2xxxxx for resources, 5xxxxx for the
 * runtime. The numbers are those of the Apache-2.0 headers of 2020 (acl_base.h,
 * error_codes/rt_error_codes.h); 207013 is from torch_npu's NPUErrorCodes.h, BSD-3. */
#ifndef WEIR_ACL_ERROR_H
#define WEIR_ACL_ERROR_H

/* name, number, text */
#define WEIR_ACL_ERROR_LIST(X)                                                         \
    X(ACL_ERROR_INVALID_PARAM, 100000, "a parameter is invalid")                       \
    X(ACL_ERROR_UNINITIALIZE, 100001, "aclInit has not been called")                   \
    X(ACL_ERROR_REPEAT_INITIALIZE, 100002, "aclInit has been called already")          \
    X(ACL_ERROR_INVALID_FILE, 100003, "the file cannot be used")                       \
    X(ACL_ERROR_INVALID_MODEL_ID, 100011, "there is no such model")                    \
    X(ACL_ERROR_OP_NOT_FOUND, 100024, "the operator is not there")                     \
    X(ACL_ERROR_UNSUPPORTED_DATA_TYPE, 100026, "the data type is not supported")       \
    X(ACL_ERROR_FORMAT_NOT_MATCH, 100027, "the format does not fit")                   \
    X(ACL_ERROR_REPEAT_SUBSCRIBE, 100033, "subscribed already")                        \
    X(ACL_ERROR_STREAM_NOT_SUBSCRIBE, 100034, "the stream is not subscribed")          \
    X(ACL_ERROR_THREAD_NOT_SUBSCRIBE, 100035, "the thread is not subscribed")          \
    X(ACL_ERROR_WAIT_CALLBACK_TIMEOUT, 100036, "no callback came in time")             \
    X(ACL_ERROR_REPEAT_FINALIZE, 100037, "aclFinalize has been called already")        \
    X(ACL_ERROR_RT_PARAM_INVALID, 107000, "a parameter is invalid")                    \
    X(ACL_ERROR_RT_INVALID_DEVICEID, 107001, "there is no such device")                \
    X(ACL_ERROR_RT_CONTEXT_NULL, 107002, "the thread has no context")                  \
    X(ACL_ERROR_RT_STREAM_CONTEXT, 107003, "the stream is of another context")         \
    X(ACL_ERROR_RT_MODEL_CONTEXT, 107004, "the model is of another context")           \
    X(ACL_ERROR_RT_STREAM_MODEL, 107005, "the stream is not the model's")              \
    X(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, 107006, "the event has no time")           \
    X(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, 107007, "the end is before the start")    \
    X(ACL_ERROR_RT_ADDR_UNALIGNED, 107008, "the address is not aligned")               \
    X(ACL_ERROR_RT_STREAM_SUBSCRIBE, 107011, "the stream's subscription fails")        \
    X(ACL_ERROR_RT_THREAD_SUBSCRIBE, 107012, "the thread's subscription fails")        \
    X(ACL_ERROR_RT_STREAM_NO_CB_REG, 107015, "no thread takes the stream's callbacks") \
    X(ACL_ERROR_RT_INVALID_MEMORY_TYPE, 107016, "the kind of memory does not fit")     \
    X(ACL_ERROR_RT_INVALID_HANDLE, 107017, "the handle is invalid")                    \
    X(ACL_ERROR_RT_INVALID_MALLOC_TYPE, 107018, "the allocation policy is invalid")    \
    X(ACL_ERROR_RT_WAIT_TIMEOUT, 107019, "the wait took too long")                     \
    X(ACL_ERROR_BAD_ALLOC, 200000, "out of host memory")                               \
    X(ACL_ERROR_API_NOT_SUPPORT, 200001, "the function is not supported")              \
    X(ACL_ERROR_INVALID_DEVICE, 200002, "the device is invalid")                       \
    X(ACL_ERROR_RESOURCE_NOT_MATCH, 200004, "the resources do not belong together")    \
    X(ACL_ERROR_INVALID_RESOURCE_HANDLE, 200005, "the handle is invalid")              \
    X(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 207000, "the feature is not supported")        \
    X(ACL_ERROR_RT_MEMORY_ALLOCATION, 207001, "out of device memory")                  \
    X(ACL_ERROR_RT_MEMORY_FREE, 207002, "memory cannot be freed")                      \
    X(ACL_ERROR_RT_NO_DEVICE, 207004, "there is no device")                            \
    X(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, 207005, "out of resources")                    \
    X(ACL_ERROR_RT_QUEUE_EMPTY, 207013, "the queue is empty")                          \
    X(ACL_ERROR_INTERNAL_ERROR, 500000, "internal error")                              \
    X(ACL_ERROR_FAILURE, 500001, "failure")                                            \
    X(ACL_ERROR_GE_FAILURE, 500002, "the graph engine failed")                         \
    X(ACL_ERROR_RT_FAILURE, 500003, "the runtime failed")                              \
    X(ACL_ERROR_RT_INTERNAL_ERROR, 507000, "runtime internal error")                   \
    X(ACL_ERROR_RT_MODEL_EXECUTE, 507011, "the graph's execution failed")              \
    X(ACL_ERROR_RT_REPORT_TIMEOUT, 507012, "no callback came in time")                 \
    X(ACL_ERROR_RT_AICORE_TIMEOUT, 507014, "an operator took too long")                \
    X(ACL_ERROR_RT_AICORE_EXCEPTION, 507015, "an operator failed")                     \
    X(ACL_ERROR_RT_IPC_ERROR, 507022, "another process cannot be reached")

#define ACL_ERROR_NONE 0
#define ACL_SUCCESS 0
#define ACL_RT_SUCCESS 0
enum {
#define WEIR_ACL_ERROR_ENUM(name, number, text) name = number,
    WEIR_ACL_ERROR_LIST(WEIR_ACL_ERROR_ENUM)
#undef WEIR_ACL_ERROR_ENUM
};

#endif
