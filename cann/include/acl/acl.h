/* AscendCL as weir implements it. `#include <acl/acl.h>` declares all of it. */
#ifndef WEIR_ACL_H
#define WEIR_ACL_H

#include "acl_base.h"
#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the library ---- */

/* A second call returns ACL_ERROR_REPEAT_INITIALIZE; the file of settings is not read. */
aclError aclInit(const char *configPath);
/* Waits for all work, frees the remaining streams, events and memory, and closes the devices.
 * A second call returns ACL_ERROR_REPEAT_FINALIZE. */
aclError aclFinalize(void);

aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch);

/* Returns the message of this thread's last error once; then "" until the next error. */
const char *aclGetRecentErrMsg(void);

/* ---- properties of a device ---- */

/* The numbers of this enumeration and the next are those that the torch_npu wheel passes. */
typedef enum {
    ACL_DEVICE_INFO_UNDEFINED = -1,
    ACL_DEVICE_INFO_AI_CORE_NUM = 0,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
    ACL_DEVICE_INFO_L2_SIZE = 2,
} aclDeviceInfo;
aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value);

typedef enum {
    ACL_CANN_ATTR_UNDEFINED = -1,
    ACL_CANN_ATTR_INF_NAN = 0,
} aclCannAttr;
aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num);
aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value);

#ifdef __cplusplus
}
#endif
#endif
