/* Kernels as machine code, and the driver's functions for host memory. They exist so that libraries
 * which link to them load; calls fail. */
#include "runtime/runtime.h"

#define NO_KERNELS "machine code of an NPU cannot be run"

aclError aclrtBinaryLoadFromData(const void *data, size_t length, const void *options,
                                 void **binHandle);
aclError aclrtBinaryGetFunction(const void *binHandle, const char *kernelName, void **funcHandle);
aclError aclrtGetFunctionAddr(void *funcHandle, void **aicAddr, void **aivAddr);
int32_t rtDevBinaryRegister(const void *bin, void **handle);
int32_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char *stubName,
                           const void *devFunc, uint32_t funcMode);
int32_t rtKernelLaunch(const void *stubFunc, uint32_t blockDim, void *args, uint32_t argsSize,
                       void *smDesc, void *stream);
int32_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len);
int32_t rtDevBinaryUnRegister(void *handle);
int32_t rtLaunch(const void *stubFunc);
int32_t halHostRegister(void *host, uint64_t size, uint32_t flag, uint32_t device, void **out);
int32_t halHostUnregister(void *host, uint32_t device);

EXPORT aclError aclrtBinaryLoadFromData(const void *data, size_t length, const void *options,
                                        void **binHandle)
{
    (void)data, (void)length, (void)options, (void)binHandle;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NO_KERNELS);
}
EXPORT aclError aclrtBinaryGetFunction(const void *binHandle, const char *kernelName,
                                       void **funcHandle)
{
    (void)binHandle, (void)funcHandle;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NO_KERNELS ": %s", kernelName ? kernelName : "");
}
EXPORT aclError aclrtGetFunctionAddr(void *funcHandle, void **aicAddr, void **aivAddr)
{
    (void)funcHandle, (void)aicAddr, (void)aivAddr;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NO_KERNELS);
}
EXPORT int32_t rtDevBinaryRegister(const void *bin, void **handle)
{
    (void)bin, (void)handle;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NO_KERNELS);
}
EXPORT int32_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char *stubName,
                                  const void *devFunc, uint32_t funcMode)
{
    (void)binHandle, (void)stubFunc, (void)devFunc, (void)funcMode;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NO_KERNELS ": %s", stubName ? stubName : "");
}
EXPORT int32_t rtKernelLaunch(const void *stubFunc, uint32_t blockDim, void *args,
                              uint32_t argsSize, void *smDesc, void *stream)
{
    (void)stubFunc, (void)blockDim, (void)args, (void)argsSize, (void)smDesc, (void)stream;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NO_KERNELS);
}
EXPORT int32_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len)
{
    (void)addr, (void)len;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NO_KERNELS);
}
EXPORT int32_t rtDevBinaryUnRegister(void *handle)
{
    (void)handle;
    return ACL_SUCCESS; /* nothing can have been registered */
}
EXPORT int32_t rtLaunch(const void *stubFunc)
{
    (void)stubFunc;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NO_KERNELS);
}
EXPORT int32_t halHostRegister(void *host, uint64_t size, uint32_t flag, uint32_t device,
                               void **out)
{
    (void)flag, (void)device;
    return aclrtHostRegister(host, size, ACL_HOST_REGISTER_MAPPED, out);
}
EXPORT int32_t halHostUnregister(void *host, uint32_t device)
{
    (void)device;
    return aclrtHostUnregister(host);
}
