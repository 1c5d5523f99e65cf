/* The objects behind aclTensor, aclScalar, the arrays and the lists.
 *
 * Objects have reference counts. The creator holds one reference, and so does every executor that
 * got the object, because torch_npu destroys its objects between the two phases of an operator. */
#ifndef WEIR_OPAPI_OBJECT_H
#define WEIR_OPAPI_OBJECT_H

#include <stdatomic.h>

#include "aclnn/acl_meta.h"
#include "cann.h"

enum { MAX_DIMS = WEIR_MAX_DIMS };

/* The kind of an object. Its value is checked, so that a pointer to something else is refused. */
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
    uint32_t kind;       /* 0 after the object was freed */
    atomic_uint handles; /* references */
    struct object *next; /* in a pool */
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
    bool whole; /* an integer or a bool, whose exact value is `integer` */
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

/* Returns a zeroed object of at most OBJECT_BYTES with one reference, from this thread's pool or
 * newly allocated; NULL when out of memory. */
enum { OBJECT_BYTES = 320 };
void *object_new(enum object_kind kind);
/* The same, but bytes after the struct object are not initialised. */
void *object_get(enum object_kind kind);
static inline void object_keep(const void *object)
{
    if (object)
        atomic_fetch_add_explicit(&((struct object *)object)->handles, 1, memory_order_relaxed);
}
/* Drops a reference; the last one frees the object and drops what it references. NULL is
 * allowed. */
void object_drop(const void *object);
/* True for a live object of that kind. */
static inline bool object_is(const void *object, enum object_kind kind)
{
    return object && ((const struct object *)object)->kind == (uint32_t)kind;
}

/* weir's types for AscendCL's; -1 if there is none. */
struct acl_type {
    const char *name;
    signed char weir;
    signed char
        computed; /* the type that operators compute in: i32 for 16-bit integers (narrow.h) */
    signed char carrier; /* a type of the same size, by which its bits can be moved */
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
