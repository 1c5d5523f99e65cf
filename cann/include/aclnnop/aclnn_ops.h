/* Every operator of libopapi: for each row of rows.h
 *
 *     aclnnStatus aclnnXGetWorkspaceSize(operands..., uint64_t *workspaceSize,
 *                                        aclOpExecutor **executor);
 *     aclnnStatus aclnnX(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
 *                        aclrtStream stream);
 *
 * The first function checks and keeps the operands, the second queues the work. weir allocates
 * scratch memory from its own pool, so the workspace is always 0 bytes.
 * Written for weir; the order of operands was taken from calls in op-plugin (BSD-3), ggml-cann
 * (MIT) and MindSpore (Apache-2.0). returns  0; ACLNN_ERR_PARAM_NULLPTR for a required operand that
 * is NULL; ACLNN_ERR_PARAM_INVALID for a bad one; ACLNN_ERR_RUNTIME_ERROR if weir refuses the work.
 * aclGetRecentErrMsg names the operator, the operand and the reason. threads  any. */
#ifndef WEIR_ACLNNOP_ACLNN_OPS_H
#define WEIR_ACLNNOP_ACLNN_OPS_H

#include "aclnn/acl_meta.h"
#include "aclnnop/map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of operands: T tensor, O tensor that is written, X tensor that is read and written, L list
 * of tensors, M list of tensors that are written, S scalar, Z list of scalars, N integers, D
 * floats, A bools, I int64_t, J int8_t, K int32_t, B bool, F double, G float, Y data type, C text.
 * A Q after the letter means that it may be NULL. */
#define WEIR_ACLNN_DECLARE_T(name) const aclTensor *name,
#define WEIR_ACLNN_DECLARE_TQ(name) const aclTensor *name,
#define WEIR_ACLNN_DECLARE_O(name) aclTensor *name,
#define WEIR_ACLNN_DECLARE_OQ(name) aclTensor *name,
#define WEIR_ACLNN_DECLARE_X(name) aclTensor *name,
#define WEIR_ACLNN_DECLARE_XQ(name) aclTensor *name,
#define WEIR_ACLNN_DECLARE_L(name) const aclTensorList *name,
#define WEIR_ACLNN_DECLARE_LQ(name) const aclTensorList *name,
#define WEIR_ACLNN_DECLARE_M(name) const aclTensorList *name,
#define WEIR_ACLNN_DECLARE_MQ(name) const aclTensorList *name,
#define WEIR_ACLNN_DECLARE_S(name) const aclScalar *name,
#define WEIR_ACLNN_DECLARE_SQ(name) const aclScalar *name,
#define WEIR_ACLNN_DECLARE_Z(name) const aclScalarList *name,
#define WEIR_ACLNN_DECLARE_N(name) const aclIntArray *name,
#define WEIR_ACLNN_DECLARE_NQ(name) const aclIntArray *name,
#define WEIR_ACLNN_DECLARE_D(name) const aclFloatArray *name,
#define WEIR_ACLNN_DECLARE_A(name) const aclBoolArray *name,
#define WEIR_ACLNN_DECLARE_AQ(name) const aclBoolArray *name,
#define WEIR_ACLNN_DECLARE_I(name) int64_t name,
#define WEIR_ACLNN_DECLARE_J(name) int8_t name,
#define WEIR_ACLNN_DECLARE_K(name) int32_t name,
#define WEIR_ACLNN_DECLARE_B(name) bool name,
#define WEIR_ACLNN_DECLARE_F(name) double name,
#define WEIR_ACLNN_DECLARE_G(name) float name,
#define WEIR_ACLNN_DECLARE_Y(name) aclDataType name,
#define WEIR_ACLNN_DECLARE_C(name) const char *name,
#define WEIR_ACLNN_DECLARE_CQ(name) const char *name,
#define WEIR_ACLNN_DECLARE(operand) WEIR_ACLNN_DECLARE_##operand

#define WEIR_ACLNN_ROW(name, run, types, ...)                                       \
    WEIR_ACLNN_API aclnnStatus aclnn##name##GetWorkspaceSize(                       \
        WEIR_MAP(WEIR_ACLNN_DECLARE, __VA_ARGS__) uint64_t *workspaceSize,          \
        aclOpExecutor **executor);                                                  \
    WEIR_ACLNN_API aclnnStatus aclnn##name(void *workspace, uint64_t workspaceSize, \
                                           aclOpExecutor *executor, aclrtStream stream);
#include "aclnnop/rows.h"
#undef WEIR_ACLNN_ROW

/* Returns the bytes of a matrix after aclnnTransMatmulWeight, which does not change them. */
WEIR_ACLNN_API aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape,
                                                            aclDataType dataType,
                                                            uint64_t *weightTensorSize);

#ifdef __cplusplus
}
#endif
#endif
