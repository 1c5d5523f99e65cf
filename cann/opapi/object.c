/* Creates, reads and destroys the objects that operators take. */
#include "object.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"

/* ---- pools: each thread reuses the objects that it frees ---- */

enum { POOL_MAX = 256 };

struct pool {
    struct object *first;
    unsigned count;
};

static pthread_key_t pool_key;
static pthread_once_t pool_once = PTHREAD_ONCE_INIT;
static _Thread_local struct pool *pool;

static void pool_free(void *memory)
{
    struct pool *p = memory;

    for (struct object *o = p->first, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    free(p);
    pool = NULL;
}

static void pool_init(void)
{
    (void)pthread_key_create(&pool_key, pool_free);
}

/* Returns the thread's pool; NULL when out of memory: then objects are freed instead of reused. */
static struct pool *pool_get(void)
{
    if (pool)
        return pool;
    (void)pthread_once(&pool_once, pool_init);
    if (!(pool = calloc(1, sizeof *pool)))
        return NULL;
    (void)pthread_setspecific(pool_key, pool);
    return pool;
}

void *object_get(enum object_kind kind)
{
    struct pool *p = pool_get();
    struct object *o = p ? p->first : NULL;

    if (o) {
        p->first = o->next;
        p->count--;
    } else if (!(o = malloc(OBJECT_BYTES))) {
        (void)weir_cann_fail(ACL_ERROR_BAD_ALLOC, "out of host memory: an aclnn object");
        return NULL;
    }
    o->kind = kind;
    atomic_store_explicit(&o->handles, 1, memory_order_relaxed);
    return o;
}

void *object_new(enum object_kind kind)
{
    struct object *o = object_get(kind);

    if (o)
        memset(o + 1, 0, OBJECT_BYTES - sizeof *o);
    return o;
}

static void free_contents(struct object *o)
{
    switch ((enum object_kind)o->kind) {
    case OBJECT_TENSOR:
    case OBJECT_SCALAR:
        break;
    case OBJECT_INTS:
        free(((aclIntArray *)o)->value);
        break;
    case OBJECT_FLOATS:
        free(((aclFloatArray *)o)->value);
        break;
    case OBJECT_BOOLS:
        free(((aclBoolArray *)o)->value);
        break;
    case OBJECT_TENSORS: {
        aclTensorList *list = (aclTensorList *)o;

        for (uint64_t i = 0; i < list->size; i++)
            object_drop(list->value[i]);
        free(list->value);
        break;
    }
    case OBJECT_SCALARS: {
        aclScalarList *list = (aclScalarList *)o;

        for (uint64_t i = 0; i < list->size; i++)
            object_drop(list->value[i]);
        free(list->value);
        break;
    }
    case OBJECT_EXECUTOR:
        executor_free_contents((aclOpExecutor *)o);
        break;
    }
}

void object_drop(const void *object)
{
    struct object *o = (struct object *)object;
    struct pool *p;

    if (!o || atomic_fetch_sub_explicit(&o->handles, 1, memory_order_acq_rel) > 1)
        return;
    free_contents(o);
    o->kind = 0;
    p = pool_get();
    if (!p || p->count >= POOL_MAX) {
        free(o);
        return;
    }
    o->next = p->first;
    p->first = o;
    p->count++;
}

/* ---- types ---- */

const struct acl_type acl_types[ACL_TYPES] = {
    [ACL_FLOAT] = {"float", WEIR_F32, WEIR_F32, WEIR_F32},
    [ACL_FLOAT16] = {"float16", WEIR_F16, WEIR_F16, WEIR_F16},
    [ACL_INT8] = {"int8", WEIR_I8, WEIR_I8, WEIR_I8},
    [ACL_INT32] = {"int32", WEIR_I32, WEIR_I32, WEIR_I32},
    [ACL_UINT8] = {"uint8", WEIR_U8, WEIR_U8, WEIR_U8},
    [ACL_INT16] = {"int16", -1, WEIR_I32, WEIR_F16},
    [ACL_UINT16] = {"uint16", -1, WEIR_I32, WEIR_F16},
    [ACL_UINT32] = {"uint32", -1, -1, WEIR_I32},
    [ACL_INT64] = {"int64", WEIR_I64, WEIR_I64, WEIR_I64},
    [ACL_UINT64] = {"uint64", -1, -1, WEIR_I64},
    [ACL_DOUBLE] = {"double", WEIR_F64, WEIR_F64, WEIR_F64},
    [ACL_BOOL] = {"bool", WEIR_BOOL, WEIR_BOOL, WEIR_BOOL},
    [ACL_STRING] = {"string", -1, -1, -1},
    [ACL_COMPLEX64] = {"complex64", -1, -1, WEIR_I64},
    [ACL_COMPLEX128] = {"complex128", -1, -1, -1},
    [ACL_BF16] = {"bfloat16", WEIR_BF16, WEIR_BF16, WEIR_BF16},
    [ACL_INT4] = {"int4", -1, -1, -1},
};

const char *acl_type_name(aclDataType type)
{
    return (unsigned)type < ACL_TYPES && acl_types[type].name ? acl_types[type].name : "unknown";
}

/* ---- tensors ---- */

static aclnnStatus set_tensor(aclTensor *t, const int64_t *dims, uint64_t n, aclDataType type,
                              const int64_t *stride, int64_t offset, aclFormat format,
                              const int64_t *storage, uint64_t storage_n, void *data)
{
    int64_t step = 1;

    if ((n && !dims) || (storage_n && !storage))
        return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "a tensor's dims are NULL");
    if (n > MAX_DIMS || storage_n > MAX_DIMS)
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "a tensor of %llu dims, %d fit",
                              (unsigned long long)(n > storage_n ? n : storage_n), MAX_DIMS);
    for (uint64_t i = 0; i < n; i++)
        if (dims[i] < 0)
            return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "a tensor's size %llu is negative: %lld",
                                  (unsigned long long)i, (long long)dims[i]);
    t->type = type;
    t->format = format;
    t->offset = offset;
    t->data = data;
    t->ndim = (int)n;
    t->storage_ndim = (int)storage_n;
    for (int i = (int)n - 1; i >= 0; i--) {
        t->shape[i] = dims[i];
        t->stride[i] = stride ? stride[i] : step;
        step *= dims[i];
    }
    for (int i = 0; i < (int)storage_n; i++)
        t->storage[i] = storage[i];
    return 0;
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t *stride, int64_t offset, aclFormat format,
                           const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData)
{
    aclTensor *t = object_new(OBJECT_TENSOR);

    if (t && set_tensor(t, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                        storageDimsNum, tensorData)) {
        object_drop(t);
        return NULL;
    }
    return t;
}

static aclnnStatus check(const void *object, enum object_kind kind, const char *what)
{
    if (!object)
        return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "%s is NULL", what);
    if (!object_is(object, kind))
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "%p is not a live %s", object, what);
    return 0;
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum,
                          aclDataType dataType, const int64_t *stride, int64_t offset,
                          aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                          void *tensorDataAddr)
{
    aclnnStatus err = check(tensor, OBJECT_TENSOR, "aclTensor");

    return err ? err
               : set_tensor(tensor, viewDims, viewDimsNum, dataType, stride, offset, format,
                            storageDims, storageDimsNum, tensorDataAddr);
}

static aclnnStatus give(const aclTensor *t, const int64_t *from, int n, int64_t **out,
                        uint64_t *out_n)
{
    aclnnStatus err = check(t, OBJECT_TENSOR, "aclTensor");

    if (err)
        return err;
    if (!out || !out_n)
        return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "the address for the dims is NULL");
    if (!(*out = malloc((size_t)(n ? n : 1) * sizeof **out)))
        return weir_cann_fail(ACLNN_ERR_INNER_NULLPTR, "out of host memory: a tensor's dims");
    memcpy(*out, from, (size_t)n * sizeof **out);
    *out_n = (uint64_t)n;
    return 0;
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum)
{
    return give(tensor, tensor ? tensor->shape : NULL, tensor ? tensor->ndim : 0, viewDims,
                viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims,
                               uint64_t *storageDimsNum)
{
    return give(tensor, tensor ? tensor->storage : NULL, tensor ? tensor->storage_ndim : 0,
                storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum)
{
    return give(tensor, tensor ? tensor->stride : NULL, tensor ? tensor->ndim : 0, stridesValue,
                stridesNum);
}

#define GETTER(name, object_t, kind, result_t, field)                                         \
    aclnnStatus name(const object_t *object, result_t *out)                                   \
    {                                                                                         \
        aclnnStatus err = check(object, kind, #object_t);                                     \
        if (err)                                                                              \
            return err;                                                                       \
        if (!out)                                                                             \
            return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, #name ": the result's address is " \
                                                                 "NULL");                     \
        *out = object->field;                                                                 \
        return 0;                                                                             \
    }
GETTER(aclGetViewOffset, aclTensor, OBJECT_TENSOR, int64_t, offset)
GETTER(aclGetFormat, aclTensor, OBJECT_TENSOR, aclFormat, format)
GETTER(aclGetDataType, aclTensor, OBJECT_TENSOR, aclDataType, type)
GETTER(aclGetRawTensorAddr, aclTensor, OBJECT_TENSOR, void *, data)
GETTER(aclGetIntArraySize, aclIntArray, OBJECT_INTS, uint64_t, size)
GETTER(aclGetFloatArraySize, aclFloatArray, OBJECT_FLOATS, uint64_t, size)
GETTER(aclGetBoolArraySize, aclBoolArray, OBJECT_BOOLS, uint64_t, size)
GETTER(aclGetTensorListSize, aclTensorList, OBJECT_TENSORS, uint64_t, size)
GETTER(aclGetScalarListSize, aclScalarList, OBJECT_SCALARS, uint64_t, size)

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr)
{
    aclnnStatus err = check(tensor, OBJECT_TENSOR, "aclTensor");

    if (!err)
        tensor->data = addr;
    return err;
}

#define DESTROY(name, object_t, kind)                \
    aclnnStatus name(const object_t *object)         \
    {                                                \
        aclnnStatus err;                             \
        if (!object)                                 \
            return 0;                                \
        if (!(err = check(object, kind, #object_t))) \
            object_drop(object);                     \
        return err;                                  \
    }
DESTROY(aclDestroyTensor, aclTensor, OBJECT_TENSOR)
DESTROY(aclDestroyScalar, aclScalar, OBJECT_SCALAR)
DESTROY(aclDestroyIntArray, aclIntArray, OBJECT_INTS)
DESTROY(aclDestroyFloatArray, aclFloatArray, OBJECT_FLOATS)
DESTROY(aclDestroyBoolArray, aclBoolArray, OBJECT_BOOLS)
DESTROY(aclDestroyTensorList, aclTensorList, OBJECT_TENSORS)
DESTROY(aclDestroyScalarList, aclScalarList, OBJECT_SCALARS)

/* ---- scalars, arrays, lists ---- */

static double half_to_double(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                  : ldexp(mantissa, -24);

    return h >> 15 ? -value : value;
}

static float bfloat_to_float(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

#define READ(type) (*(const type *)value)

aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    aclScalar *s;

    if (!value) {
        (void)weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateScalar: the value is NULL");
        return NULL;
    }
    if (!(s = object_new(OBJECT_SCALAR)))
        return NULL;
    s->type = dataType;
    s->whole = true;
    switch ((int)dataType) {
    case ACL_INT8:
        s->integer = READ(int8_t);
        break;
    case ACL_UINT8:
        s->integer = READ(uint8_t);
        break;
    case ACL_INT16:
        s->integer = READ(int16_t);
        break;
    case ACL_UINT16:
        s->integer = READ(uint16_t);
        break;
    case ACL_INT32:
        s->integer = READ(int32_t);
        break;
    case ACL_UINT32:
        s->integer = READ(uint32_t);
        break;
    case ACL_INT64:
        s->integer = READ(int64_t);
        break;
    case ACL_UINT64:
        s->integer = (int64_t)READ(uint64_t);
        break;
    case ACL_BOOL:
        s->integer = READ(uint8_t) != 0;
        break;
    default:
        s->whole = false;
    }
    if (s->whole) {
        s->number = (double)s->integer;
        return s;
    }
    switch ((int)dataType) {
    case ACL_FLOAT:
        s->number = READ(float);
        break;
    case ACL_DOUBLE:
        s->number = READ(double);
        break;
    case ACL_FLOAT16:
        s->number = half_to_double(READ(uint16_t));
        break;
    case ACL_BF16:
        s->number = bfloat_to_float(READ(uint16_t));
        break;
    case ACL_COMPLEX64:
        s->number = READ(float);
        s->imaginary = ((const float *)value)[1];
        break;
    case ACL_COMPLEX128:
        s->number = READ(double);
        s->imaginary = ((const double *)value)[1];
        break;
    default:
        (void)weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "aclCreateScalar: %d (%s) is no scalar type",
                             (int)dataType, acl_type_name(dataType));
        object_drop(s);
        return NULL;
    }
    return s;
}

#define CREATE_ARRAY(name, object_t, kind, element_t)                                         \
    object_t *name(const element_t *value, uint64_t size)                                     \
    {                                                                                         \
        object_t *a;                                                                          \
        if (size && !value) {                                                                 \
            (void)weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, #name ": the values are NULL");     \
            return NULL;                                                                      \
        }                                                                                     \
        if (size > UINT32_MAX) {                                                              \
            (void)weir_cann_fail(ACLNN_ERR_PARAM_INVALID, #name ": %llu values are too many", \
                                 (unsigned long long)size);                                   \
            return NULL;                                                                      \
        }                                                                                     \
        if (!(a = object_new(kind)))                                                          \
            return NULL;                                                                      \
        if (!(a->value = malloc((size_t)(size ? size : 1) * sizeof *a->value))) {             \
            (void)weir_cann_fail(ACL_ERROR_BAD_ALLOC, "out of host memory: " #name);          \
            object_drop(a);                                                                   \
            return NULL;                                                                      \
        }                                                                                     \
        if (size)                                                                             \
            memcpy(a->value, value, (size_t)size * sizeof *a->value);                         \
        a->size = size;                                                                       \
        return a;                                                                             \
    }
CREATE_ARRAY(aclCreateIntArray, aclIntArray, OBJECT_INTS, int64_t)
CREATE_ARRAY(aclCreateFloatArray, aclFloatArray, OBJECT_FLOATS, float)
CREATE_ARRAY(aclCreateBoolArray, aclBoolArray, OBJECT_BOOLS, bool)
CREATE_ARRAY(aclCreateTensorList, aclTensorList, OBJECT_TENSORS, aclTensor *const)
CREATE_ARRAY(aclCreateScalarList, aclScalarList, OBJECT_SCALARS, aclScalar *const)
