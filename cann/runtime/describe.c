/* Tensor descriptions and data buffers: the operands of operators called by name. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 64 };

struct buffer {
    void *handle, *data;
    size_t size;
};

struct desc {
    void *handle;
    aclDataType type;
    aclFormat format, storage_format;
    int ndims;
    int64_t dims[MAX_DIMS];
    char name[128];
};

/* Conversions of IEEE half precision; ties round to even. */
EXPORT float aclFloat16ToFloat(aclFloat16 value)
{
    uint32_t sign = (uint32_t)(value & 0x8000) << 16, exponent = value >> 10 & 31,
             mantissa = value & 1023, bits;
    float out;

    if (exponent == 31) {
        bits = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else { /* subnormal: mantissa * 2^-24 */
        out = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &out, sizeof bits);
        bits |= sign;
    }
    memcpy(&out, &bits, sizeof out);
    return out;
}

EXPORT aclFloat16 aclFloatToFloat16(float value)
{
    uint32_t bits, sign, mantissa, half, rest;
    int exponent;

    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    exponent = (int)(bits >> 23 & 255) - 112;
    mantissa = bits & 0x7fffff;
    if (exponent >= 31) /* NaN stays NaN */
        return (aclFloat16)(sign | 0x7c00 | (exponent == 143 && mantissa ? 0x200 : 0));
    if (exponent < -10)
        return (aclFloat16)sign;
    if (exponent <= 0) {
        mantissa |= 0x800000;
        half = mantissa >> (14 - exponent);
        rest = mantissa << (18 + exponent);
    } else {
        half = (uint32_t)exponent << 10 | mantissa >> 13;
        rest = mantissa << 19;
    }
    half += rest > 0x80000000 || (rest == 0x80000000 && half & 1);
    return (aclFloat16)(sign | half);
}

EXPORT size_t aclDataTypeSize(aclDataType dataType)
{
    switch (dataType) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
        return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
        return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
        return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64:
        return 8;
    case ACL_COMPLEX128:
        return 16;
    default:
        return 0;
    }
}

/* ---- data buffers ---- */

EXPORT aclDataBuffer *aclCreateDataBuffer(void *data, size_t size)
{
    struct buffer *b = malloc(sizeof *b);

    if (b) {
        *b = (struct buffer){.data = data, .size = size};
        if ((b->handle = handle_new(KIND_DATA_BUFFER, b)))
            return b->handle;
    }
    free(b);
    fail(ACL_ERROR_BAD_ALLOC, "a data buffer");
    return NULL;
}

EXPORT aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer)
{
    struct buffer *b;

    NEED(dataBuffer);
    if (!(b = handle_take(dataBuffer, KIND_DATA_BUFFER)))
        return FAIL(ACL_ERROR_INVALID_PARAM, "%p is not a data buffer", (const void *)dataBuffer);
    free(b);
    return ACL_SUCCESS;
}

EXPORT aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size)
{
    struct buffer *b = handle_get(dataBuffer, KIND_DATA_BUFFER);

    NEED(dataBuffer);
    if (!b)
        return FAIL(ACL_ERROR_INVALID_PARAM, "%p is not a data buffer", (void *)dataBuffer);
    b->data = data;
    b->size = size;
    return ACL_SUCCESS;
}

EXPORT void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer)
{
    struct buffer *b = handle_get(dataBuffer, KIND_DATA_BUFFER);

    return b ? b->data : NULL;
}

EXPORT size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer)
{
    struct buffer *b = handle_get(dataBuffer, KIND_DATA_BUFFER);

    return b ? b->size : 0;
}

EXPORT uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer)
{
    return (uint32_t)aclGetDataBufferSizeV2(dataBuffer);
}

/* ---- tensor descriptions ---- */

static struct desc *desc_get(const aclTensorDesc *desc)
{
    return handle_get(desc, KIND_TENSOR_DESC);
}

static aclError no_desc(const char *function, const aclTensorDesc *desc)
{
    return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "%p is not a tensor description",
                             (const void *)desc);
}

static aclError set_shape(const char *function, struct desc *d, int n, const int64_t *dims)
{
    if (n < 0 || n > MAX_DIMS || (n && !dims))
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM,
                                 "%d dims: there are 0..%d, and their sizes", n, MAX_DIMS);
    d->ndims = n;
    if (n)
        memcpy(d->dims, dims, (size_t)n * sizeof *dims);
    return ACL_SUCCESS;
}

EXPORT aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims,
                                          aclFormat format)
{
    struct desc *d = calloc(1, sizeof *d);

    if (!d) {
        fail(ACL_ERROR_BAD_ALLOC, "a tensor description");
        return NULL;
    }
    d->type = dataType;
    d->format = d->storage_format = format;
    if (set_shape(__func__, d, numDims, dims) || !(d->handle = handle_new(KIND_TENSOR_DESC, d))) {
        free(d);
        return NULL;
    }
    return d->handle;
}

EXPORT void aclDestroyTensorDesc(const aclTensorDesc *desc)
{
    free(handle_take(desc, KIND_TENSOR_DESC));
}

EXPORT aclDataType aclGetTensorDescType(const aclTensorDesc *desc)
{
    struct desc *d = desc_get(desc);

    return d ? d->type : ACL_DT_UNDEFINED;
}

EXPORT aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc)
{
    struct desc *d = desc_get(desc);

    return d ? d->format : ACL_FORMAT_UNDEFINED;
}

EXPORT size_t aclGetTensorDescElementCount(const aclTensorDesc *desc)
{
    struct desc *d = desc_get(desc);
    size_t n = 1;

    for (int i = 0; d && i < d->ndims; i++)
        if (d->dims[i] < 0 || __builtin_mul_overflow(n, (size_t)d->dims[i], &n))
            return 0;
    return d ? n : 0;
}

EXPORT size_t aclGetTensorDescSize(const aclTensorDesc *desc)
{
    size_t n = aclGetTensorDescElementCount(desc);

    return __builtin_mul_overflow(n, aclDataTypeSize(aclGetTensorDescType(desc)), &n) ? 0 : n;
}

EXPORT size_t aclGetTensorDescNumDims(const aclTensorDesc *desc)
{
    struct desc *d = desc_get(desc);

    return d ? (size_t)d->ndims : 0;
}

EXPORT aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize)
{
    struct desc *d = desc_get(desc);

    NEED(dimSize);
    if (!d)
        return no_desc(__func__, desc);
    if (index >= (size_t)d->ndims)
        return FAIL(ACL_ERROR_INVALID_PARAM, "dim %zu: there are %d", index, d->ndims);
    *dimSize = d->dims[index];
    return ACL_SUCCESS;
}

EXPORT int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index)
{
    int64_t size;

    return aclGetTensorDescDimV2(desc, index, &size) ? -1 : size;
}

EXPORT aclError aclSetTensorShapeRange(aclTensorDesc *desc, size_t dimsCount,
                                       int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM])
{
    if (!desc_get(desc))
        return no_desc(__func__, desc);
    if (dimsCount && !dimsRange)
        return FAIL(ACL_ERROR_INVALID_PARAM, "dimsRange is NULL");
    return ACL_SUCCESS;
}

EXPORT void aclSetTensorDescName(aclTensorDesc *desc, const char *name)
{
    struct desc *d = desc_get(desc);

    if (d && name)
        strncpy(d->name, name, sizeof d->name - 1);
}

EXPORT const char *aclGetTensorDescName(aclTensorDesc *desc)
{
    struct desc *d = desc_get(desc);

    return d ? d->name : "";
}

EXPORT aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format)
{
    struct desc *d = desc_get(desc);

    if (!d)
        return no_desc(__func__, desc);
    d->storage_format = format;
    return ACL_SUCCESS;
}

EXPORT aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format)
{
    return aclSetTensorFormat(desc, format);
}

EXPORT aclError aclSetTensorOriginFormat(aclTensorDesc *desc, aclFormat format)
{
    struct desc *d = desc_get(desc);

    if (!d)
        return no_desc(__func__, desc);
    d->format = format;
    return ACL_SUCCESS;
}

/* Sets the shape in memory, for layouts that differ from the shape; weir supports plain layouts
 * only. */
EXPORT aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims)
{
    struct desc unused;

    return desc_get(desc) ? set_shape(__func__, &unused, numDims, dims) : no_desc(__func__, desc);
}

EXPORT aclError aclSetTensorStorageShape(aclTensorDesc *desc, int numDims, const int64_t *dims)
{
    return aclSetTensorShape(desc, numDims, dims);
}

EXPORT aclError aclSetTensorOriginShape(aclTensorDesc *desc, int numDims, const int64_t *dims)
{
    struct desc *d = desc_get(desc);

    return d ? set_shape(__func__, d, numDims, dims) : no_desc(__func__, desc);
}

EXPORT aclError aclSetTensorConst(aclTensorDesc *desc, void *dataBuffer, size_t length)
{
    if (!desc_get(desc))
        return no_desc(__func__, desc);
    if (!dataBuffer && length)
        return FAIL(ACL_ERROR_INVALID_PARAM, "dataBuffer is NULL");
    return ACL_SUCCESS;
}

EXPORT aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType)
{
    if (!desc_get(desc))
        return no_desc(__func__, desc);
    if ((int)memType < 0 || memType > ACL_MEMTYPE_HOST + 1) /* one was added after 2020 */
        return FAIL(ACL_ERROR_INVALID_PARAM, "memType %d is not one of 0, 1, 2", (int)memType);
    return ACL_SUCCESS;
}
