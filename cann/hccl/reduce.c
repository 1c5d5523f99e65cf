/* Reduces two arrays; computes f16 and bf16 in f32. */
#include "comm.h"

#include <string.h>

static const size_t sizes[HCCL_DATA_TYPE_COUNT] = {
    [HCCL_DATA_TYPE_INT8] = 1,   [HCCL_DATA_TYPE_INT16] = 2, [HCCL_DATA_TYPE_INT32] = 4,
    [HCCL_DATA_TYPE_FP16] = 2,   [HCCL_DATA_TYPE_FP32] = 4,  [HCCL_DATA_TYPE_INT64] = 8,
    [HCCL_DATA_TYPE_UINT64] = 8, [HCCL_DATA_TYPE_UINT8] = 1, [HCCL_DATA_TYPE_UINT16] = 2,
    [HCCL_DATA_TYPE_UINT32] = 4, [HCCL_DATA_TYPE_FP64] = 8,  [HCCL_DATA_TYPE_BFP16] = 2,
};

size_t type_size(HcclDataType type)
{
    return (unsigned)type < HCCL_DATA_TYPE_COUNT ? sizes[type] : 0;
}

/* Integers wrap: sums and products are computed unsigned. A NaN operand gives NaN. */
#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

#define LOOP(wide, OP)               \
    for (uint64_t i = 0; i < n; i++) \
    a[i] = (__typeof__(a[i]))OP((wide)a[i], (wide)b[i])

#define DEFINE(name, type, wide)                                                            \
    static void name(type *restrict a, const type *restrict b, uint64_t n, HcclReduceOp op) \
    {                                                                                       \
        switch (op) {                                                                       \
        case HCCL_REDUCE_SUM:                                                               \
            LOOP(wide, SUM);                                                                \
            break;                                                                          \
        case HCCL_REDUCE_PROD:                                                              \
            LOOP(wide, PROD);                                                               \
            break;                                                                          \
        case HCCL_REDUCE_MAX:                                                               \
            LOOP(type, MAX);                                                                \
            break;                                                                          \
        default:                                                                            \
            LOOP(type, MIN);                                                                \
            break;                                                                          \
        }                                                                                   \
    }
DEFINE(reduce_i8, int8_t, uint32_t)
DEFINE(reduce_u8, uint8_t, uint32_t)
DEFINE(reduce_i16, int16_t, uint32_t)
DEFINE(reduce_u16, uint16_t, uint32_t)
DEFINE(reduce_i32, int32_t, uint32_t)
DEFINE(reduce_u32, uint32_t, uint32_t)
DEFINE(reduce_i64, int64_t, uint64_t)
DEFINE(reduce_u64, uint64_t, uint64_t)
DEFINE(reduce_f32, float, float)
DEFINE(reduce_f64, double, double)

static float from_bf16(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if (f != f)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float one(float a, float b, HcclReduceOp op)
{
    return op == HCCL_REDUCE_SUM    ? SUM(a, b)
           : op == HCCL_REDUCE_PROD ? PROD(a, b)
           : op == HCCL_REDUCE_MAX  ? MAX(a, b)
                                    : MIN(a, b);
}

static void reduce_half(uint16_t *a, const uint16_t *b, uint64_t n, HcclReduceOp op, bool brain)
{
    for (uint64_t i = 0; i < n; i++)
        a[i] = brain ? to_bf16(one(from_bf16(a[i]), from_bf16(b[i]), op))
                     : aclFloatToFloat16(one(aclFloat16ToFloat(a[i]), aclFloat16ToFloat(b[i]), op));
}

void reduce_into(void *into, const void *from, uint64_t n, HcclDataType type, HcclReduceOp op)
{
    switch (type) {
    case HCCL_DATA_TYPE_INT8:
        reduce_i8(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_UINT8:
        reduce_u8(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_INT16:
        reduce_i16(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_UINT16:
        reduce_u16(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_INT32:
        reduce_i32(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_UINT32:
        reduce_u32(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_INT64:
        reduce_i64(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_UINT64:
        reduce_u64(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_FP32:
        reduce_f32(into, from, n, op);
        break;
    case HCCL_DATA_TYPE_FP64:
        reduce_f64(into, from, n, op);
        break;
    default:
        reduce_half(into, from, n, op, type == HCCL_DATA_TYPE_BFP16);
        break;
    }
}
