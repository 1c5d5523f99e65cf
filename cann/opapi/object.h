/* What stands behind aclTensor, aclScalar, the arrays and the lists.
 *
 * Objects are counted: their maker has one handle, and every executor that was given the object
 * has one, because torch_npu destroys its objects between the two phases of an operator. */
#ifndef WEIR_OPAPI_OBJECT_H
#define WEIR_OPAPI_OBJECT_H

#include <stdatomic.h>

#include "aclnn/acl_meta.h"
#include "cann.h"

enum { MAX_DIMS = WEIR_MAX_DIMS };

/* Says what the object is: a pointer to something else is refused by it. */
enum object_kind {
    OBJECT_TENSOR = 0x7e45,
    OBJECT_SCALAR,
    OBJECT_INTS,
    OBJECT_FLOATS,
    OBJECT_BOOLS,
    OBJECT_TENSORS,
    OBJECT_SCALARS,
    OBJECT_EXECUTOR,
};

struct object {
    uint32_t kind; /* 0 once it is gone */
    atomic_uint handles;
    struct object *next; /* while it lies in a pool */
};

struct aclTensor {
    struct object object;
    aclDataType type;
    aclFormat format;
    int ndim, storage_ndim;
    int64_t shape[MAX_DIMS], stride[MAX_DIMS], storage[MAX_DIMS];
    int64_t offset;
    char *data;
};

struct aclScalar {
    struct object object;
    aclDataType type;
    bool whole; /* an integer or a bool: `integer` has it exactly */
    int64_t integer;
    double number; /* the real part of a complex one */
    double imaginary;
};

struct aclIntArray {
    struct object object;
    uint64_t size;
    int64_t *value;
};

struct aclFloatArray {
    struct object object;
    uint64_t size;
    float *value;
};

struct aclBoolArray {
    struct object object;
    uint64_t size;
    bool *value;
};

struct aclTensorList {
    struct object object;
    uint64_t size;
    aclTensor **value;
};

struct aclScalarList {
    struct object object;
    uint64_t size;
    aclScalar **value;
};

/* A zeroed object of at most OBJECT_BYTES with one handle, from this thread's pool or new; NULL
 * when out of memory. */
enum { OBJECT_BYTES = 320 };
void *object_new(enum object_kind kind);
/* The same, with whatever lies behind the struct object. */
void *object_get(enum object_kind kind);
static inline void object_keep(const void *object)
{
    if (object)
        atomic_fetch_add_explicit(&((struct object *)object)->handles, 1, memory_order_relaxed);
}
/* One handle less; the last one frees it with what it holds. NULL is fine. */
void object_drop(const void *object);
/* Whether it is an object of that kind that is still there. */
static inline bool object_is(const void *object, enum object_kind kind)
{
    return object && ((const struct object *)object)->kind == (uint32_t)kind;
}

/* weir's types for AscendCL's; -1 if there is none. */
struct acl_type {
    const char *name;
    signed char weir;
    signed char
        computed;        /* in which operators compute with it: 16-bit integers as i32 (narrow.h) */
    signed char carrier; /* of as many bytes, in which its bits can be moved */
};
enum { ACL_TYPES = ACL_INT4 + 1 };
extern const struct acl_type acl_types[ACL_TYPES];

static inline int type_of_acl(aclDataType type)
{
    return (unsigned)type < ACL_TYPES && acl_types[type].name ? acl_types[type].weir : -1;
}
static inline int computed_of_acl(aclDataType type)
{
    return (unsigned)type < ACL_TYPES && acl_types[type].name ? acl_types[type].computed : -1;
}
static inline int carrier_of_acl(aclDataType type)
{
    return (unsigned)type < ACL_TYPES && acl_types[type].name ? acl_types[type].carrier : -1;
}
static inline bool type_is_narrow(aclDataType type)
{
    return type == ACL_INT16 || type == ACL_UINT16;
}
static inline bool type_is_complex(aclDataType type)
{
    return type == ACL_COMPLEX64 || type == ACL_COMPLEX128;
}
/* "float16" and so on; "unknown" for a number that is no type. */
const char *acl_type_name(aclDataType type);

#endif
