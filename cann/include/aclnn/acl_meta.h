/* The objects that aclnn operators take: tensors, scalars, arrays and lists of them.
 *
 * Written for weir; what each function means was taken from the Apache-2.0 licensed acl_meta.h of
 * graphengine and from how op-plugin (BSD-3) and ggml-cann (MIT) call it.
 *
 * The creator owns an object until the matching aclDestroy. An executor holds references to its
 * objects, so they may be destroyed between the two phases of an operator. returns  0;
 * ACLNN_ERR_PARAM_NULLPTR for a NULL, ACLNN_ERR_PARAM_INVALID for other bad arguments. Functions
 * that create an object return NULL instead; aclGetRecentErrMsg returns the reason. threads  any,
 * one at a time per object.
 */
#ifndef WEIR_ACLNN_ACL_META_H
#define WEIR_ACLNN_ACL_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ACLNN_META
#define ACLNN_META
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef int32_t aclnnStatus;
#endif

/* The numbers are those quoted in public bug reports of vllm-ascend (Apache-2.0). */
enum {
    ACLNN_SUCCESS = 0,
    ACLNN_ERR_PARAM_NULLPTR = 161001,
    ACLNN_ERR_PARAM_INVALID = 161002,
    ACLNN_ERR_RUNTIME_ERROR = 361001,
    ACLNN_ERR_INNER_NULLPTR = 561103,
};

#define WEIR_ACLNN_API __attribute__((visibility("default")))

/* A view of device memory: `offset` elements after tensorData, strides in elements (NULL means
 * contiguous). At most 8 dims. */
WEIR_ACLNN_API aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum,
                                          aclDataType dataType, const int64_t *stride,
                                          int64_t offset, aclFormat format,
                                          const int64_t *storageDims, uint64_t storageDimsNum,
                                          void *tensorData);
WEIR_ACLNN_API aclScalar *aclCreateScalar(void *value, aclDataType dataType);
WEIR_ACLNN_API aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size);
WEIR_ACLNN_API aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size);
WEIR_ACLNN_API aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size);
/* The list takes ownership of the tensors: aclDestroyTensorList destroys them. */
WEIR_ACLNN_API aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size);
WEIR_ACLNN_API aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size);

WEIR_ACLNN_API aclnnStatus aclDestroyTensor(const aclTensor *tensor);
WEIR_ACLNN_API aclnnStatus aclDestroyScalar(const aclScalar *scalar);
WEIR_ACLNN_API aclnnStatus aclDestroyIntArray(const aclIntArray *array);
WEIR_ACLNN_API aclnnStatus aclDestroyFloatArray(const aclFloatArray *array);
WEIR_ACLNN_API aclnnStatus aclDestroyBoolArray(const aclBoolArray *array);
WEIR_ACLNN_API aclnnStatus aclDestroyTensorList(const aclTensorList *array);
WEIR_ACLNN_API aclnnStatus aclDestroyScalarList(const aclScalarList *array);

/* The caller owns the returned arrays: free them with delete[] or free(). */
WEIR_ACLNN_API aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims,
                                           uint64_t *viewDimsNum);
WEIR_ACLNN_API aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims,
                                              uint64_t *storageDimsNum);
WEIR_ACLNN_API aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue,
                                             uint64_t *stridesNum);
WEIR_ACLNN_API aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset);
WEIR_ACLNN_API aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format);
WEIR_ACLNN_API aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType);
WEIR_ACLNN_API aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr);
WEIR_ACLNN_API aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr);
WEIR_ACLNN_API aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size);
WEIR_ACLNN_API aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size);
WEIR_ACLNN_API aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size);
WEIR_ACLNN_API aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size);
WEIR_ACLNN_API aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size);

/* Reinitialises an existing tensor. */
WEIR_ACLNN_API aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims,
                                         uint64_t viewDimsNum, aclDataType dataType,
                                         const int64_t *stride, int64_t offset, aclFormat format,
                                         const int64_t *storageDims, uint64_t storageDimsNum,
                                         void *tensorDataAddr);

/* An executor is destroyed after its second phase, unless it was made repeatable. A repeatable one
 * lives until aclDestroyAclOpExecutor, and the addresses of its tensors may be set between runs.
 * `index` counts the operator's tensors in the order of its arguments. */
WEIR_ACLNN_API aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor);
WEIR_ACLNN_API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor);
WEIR_ACLNN_API aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index,
                                            aclTensor *tensor, void *addr);
WEIR_ACLNN_API aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index,
                                                 aclTensor *tensor, void *addr);
WEIR_ACLNN_API aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index,
                                                  aclTensor *tensor, void *addr);
WEIR_ACLNN_API aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                   const size_t relativeIndex,
                                                   aclTensorList *tensors, void *addr);
WEIR_ACLNN_API aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                        const size_t relativeIndex,
                                                        aclTensorList *tensors, void *addr);
WEIR_ACLNN_API aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                         const size_t relativeIndex,
                                                         aclTensorList *tensors, void *addr);

#ifdef __cplusplus
}
#endif
#endif
