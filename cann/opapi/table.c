/* Defines the operators' public functions from the rows of the table. */
#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_ops.h"
#include "run.h"

#define PACK_T(name) {.object = name},
#define PACK_TQ PACK_T
#define PACK_O PACK_T
#define PACK_OQ PACK_T
#define PACK_X PACK_T
#define PACK_XQ PACK_T
#define PACK_L PACK_T
#define PACK_LQ PACK_T
#define PACK_M PACK_T
#define PACK_MQ PACK_T
#define PACK_S PACK_T
#define PACK_SQ PACK_T
#define PACK_Z PACK_T
#define PACK_N PACK_T
#define PACK_NQ PACK_T
#define PACK_D PACK_T
#define PACK_A PACK_T
#define PACK_AQ PACK_T
#define PACK_C PACK_T
#define PACK_CQ PACK_T
#define PACK_I(name) {.i = (int64_t)name},
#define PACK_J PACK_I
#define PACK_K PACK_I
#define PACK_B PACK_I
#define PACK_Y PACK_I
#define PACK_F(name) {.f = (double)name},
#define PACK_G PACK_F
#define PACK(operand) PACK_##operand

#define SAY_T(name) {#name, OPERAND_T, false},
#define SAY_TQ(name) {#name, OPERAND_T, true},
#define SAY_O(name) {#name, OPERAND_O, false},
#define SAY_OQ(name) {#name, OPERAND_O, true},
#define SAY_X(name) {#name, OPERAND_X, false},
#define SAY_XQ(name) {#name, OPERAND_X, true},
#define SAY_L(name) {#name, OPERAND_L, false},
#define SAY_LQ(name) {#name, OPERAND_L, true},
#define SAY_M(name) {#name, OPERAND_M, false},
#define SAY_MQ(name) {#name, OPERAND_M, true},
#define SAY_S(name) {#name, OPERAND_S, false},
#define SAY_SQ(name) {#name, OPERAND_S, true},
#define SAY_Z(name) {#name, OPERAND_Z, false},
#define SAY_N(name) {#name, OPERAND_N, false},
#define SAY_NQ(name) {#name, OPERAND_N, true},
#define SAY_D(name) {#name, OPERAND_D, false},
#define SAY_A(name) {#name, OPERAND_A, false},
#define SAY_AQ(name) {#name, OPERAND_A, true},
#define SAY_C(name) {#name, OPERAND_C, false},
#define SAY_CQ(name) {#name, OPERAND_C, true},
#define SAY_I(name) {#name, OPERAND_VALUE, false},
#define SAY_J SAY_I
#define SAY_K SAY_I
#define SAY_B SAY_I
#define SAY_Y SAY_I
#define SAY_F SAY_I
#define SAY_G SAY_I
#define SAY(operand) SAY_##operand

#define WEIR_ACLNN_ROW(name_, run_, types_, ...)                                               \
    static const struct operand operands_##name_[] = {WEIR_MAP(SAY, __VA_ARGS__)};             \
    static const struct row row_##name_ = {                                                    \
        .name = #name_,                                                                        \
        .run = run_,                                                                           \
        .types = TYPES_##types_,                                                               \
        .count = sizeof operands_##name_ / sizeof *operands_##name_,                           \
        .operands = operands_##name_,                                                          \
    };                                                                                         \
    aclnnStatus aclnn##name_##GetWorkspaceSize(WEIR_MAP(WEIR_ACLNN_DECLARE, __VA_ARGS__)       \
                                                   uint64_t *workspaceSize,                    \
                                               aclOpExecutor **executor)                       \
    {                                                                                          \
        const union arg args[] = {WEIR_MAP(PACK, __VA_ARGS__)};                                \
        return executor_make(&row_##name_, args, workspaceSize, executor);                     \
    }                                                                                          \
    aclnnStatus aclnn##name_(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, \
                             aclrtStream stream)                                               \
    {                                                                                          \
        (void)workspace;                                                                       \
        (void)workspaceSize;                                                                   \
        return executor_run(&row_##name_, executor, stream);                                   \
    }
#include "aclnnop/rows.h"
#undef WEIR_ACLNN_ROW

/* The largest workspace of an operator in a graph when its parameters are updated: also 0. */
#define MAX_WORKSPACE(name)                                                                   \
    WEIR_ACLNN_API __typeof__(aclnn##name##GetWorkspaceSize) aclnn##name##GetMaxWorkspaceSize \
        __attribute__((alias("aclnn" #name "GetWorkspaceSize")));
MAX_WORKSPACE(FusedInferAttentionScoreV2)
MAX_WORKSPACE(FusedInferAttentionScoreV3)
MAX_WORKSPACE(FusedInferAttentionScoreV4)
MAX_WORKSPACE(FusedInferAttentionScoreV5)

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType,
                                             uint64_t *weightTensorSize)
{
    uint64_t bytes = aclDataTypeSize(dataType), dims;
    aclnnStatus err;

    if (!weightTensorSize)
        return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "%s: weightTensorSize is NULL", __func__);
    *weightTensorSize = 0;
    if ((err = aclGetIntArraySize(tensorShape, &dims)))
        return err;
    if (!bytes)
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "%s: data type %d has no size", __func__,
                              (int)dataType);
    for (uint64_t i = 0; i < dims; i++)
        if (tensorShape->value[i] < 0 ||
            __builtin_mul_overflow(bytes, (uint64_t)tensorShape->value[i], &bytes))
            return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "%s: size %lld of dim %llu", __func__,
                                  (long long)tensorShape->value[i], (unsigned long long)i);
    *weightTensorSize = bytes;
    return ACLNN_SUCCESS;
}

aclnnStatus aclnnInit(const char *configPath)
{
    (void)configPath;
    return ACLNN_SUCCESS;
}

aclnnStatus aclnnFinalize(void)
{
    return ACLNN_SUCCESS;
}

/* Functions that MindSpore's graphs call around operators, to let a thread's executors share
 * memory. weir's executors need none. The types follow op-plugin's op_api_common.h (BSD-3). */
WEIR_ACLNN_API int InitHugeMemThreadLocal(void *arg, bool sync);
WEIR_ACLNN_API void UnInitHugeMemThreadLocal(void *arg, bool sync);
WEIR_ACLNN_API void ReleaseHugeMem(void *arg, bool sync);

int InitHugeMemThreadLocal(void *arg, bool sync)
{
    (void)arg, (void)sync;
    return 0;
}

void UnInitHugeMemThreadLocal(void *arg, bool sync)
{
    (void)arg, (void)sync;
}

void ReleaseHugeMem(void *arg, bool sync)
{
    (void)arg, (void)sync;
}
