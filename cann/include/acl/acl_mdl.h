/* Captured graphs (aclmdlRI*), as torch_npu (BSD-3) calls them, and the dump calls of 2020. A
 * capture builds a graph of weir, which is compiled to a plan when the capture ends. Offline models
 * (*.om) are not supported. */
#ifndef WEIR_ACL_MDL_H
#define WEIR_ACL_MDL_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *aclmdlRI;
typedef void *aclrtTaskGrp;

typedef enum {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL,
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED,
} aclmdlRICaptureMode;

typedef enum {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2,
} aclmdlRICaptureStatus;

/* From now on work queued on the stream is recorded and does not run. A stream that waits for an
 * event recorded on it joins the capture. A wait of the host for such a stream fails and breaks the
 * capture. */
aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);
/* Call it on the stream that began the capture. Compiles the graph, and returns errors of that. */
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);
aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
                                aclmdlRI *modelRI);
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);
aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);
aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);
aclError aclmdlRIDestroy(aclmdlRI modelRI);
aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId);
aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name);
aclError aclmdlRISetName(aclmdlRI modelRI, const char *name);
/* Writes the graph as a graph file to stdout or to a file. */
aclError aclmdlRIDebugPrint(aclmdlRI modelRI);
aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags);

/* The operators between these two can be captured again later, all together, on any stream. */
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

/* [T] an inner graph that runs if the condition's word is not 0 when the stream reaches it. The
 * word is 8 bytes of device memory, which earlier work of the graph may write. If the flag says so,
 * each run of the outer graph first sets the word to its default. The inner graph is captured on a
 * stream of its own, before the outer capture ends, and belongs to the outer graph. Not on cuda.
 * [W] numbers and layout. */
typedef void *aclmdlRICondHandle;
#define ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT 0x1u
typedef enum { ACL_MODEL_RI_COND_TYPE_IF = 0 } aclmdlRICondTaskType;
typedef struct aclmdlRICondTaskParams {
    aclmdlRICondHandle handle;
    aclmdlRICondTaskType type;
    uint32_t size; /* of the array; must be 1 */
    aclmdlRI *modelRIArray;
} aclmdlRICondTaskParams;
aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, unsigned int defaultLaunchValue, uint32_t flag,
                                  aclmdlRICondHandle *handle);
aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr);
aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags);
aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                       aclmdlRICaptureMode mode);

aclError aclmdlInitDump(void);
aclError aclmdlSetDump(const char *dumpCfgPath);
aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif
#endif
