/* Programs written for AscendCL, on weir. */
#ifndef TESTS_CANN_HELPERS_H
#define TESTS_CANN_HELPERS_H

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "harness/test.h"

#define CHECK_ACL(call)                                                      \
    do {                                                                     \
        aclError acl_error_ = (call);                                        \
        if (acl_error_)                                                      \
            test_fail(__FILE__, __LINE__, "%s is %d: %s", #call, acl_error_, \
                      aclGetRecentErrMsg());                                 \
    } while (0)

/* Tests of what a GPU's driver does not have. */
static inline bool t_on_cuda(void)
{
    const char *spec = getenv("WEIR_DEVICE");

    return spec && !strncmp(spec, "cuda", 4);
}

#define NOT_ON_CUDA(reason)        \
    do {                           \
        if (t_on_cuda())           \
            SKIP("cuda: " reason); \
    } while (0)

/* A device of its own, closed with everything on it. */
static inline void t_begin(void)
{
    CHECK_ACL(aclInit(NULL));
    CHECK_ACL(aclrtSetDevice(0));
}

static inline void t_end(void)
{
    CHECK_ACL(aclFinalize());
}

static inline aclrtStream t_stream(void)
{
    aclrtStream stream = NULL;

    CHECK_ACL(aclrtCreateStream(&stream));
    return stream;
}

static inline void *t_device(size_t bytes)
{
    void *memory = NULL;

    CHECK_ACL(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    return memory;
}

/* The byte at a device's address. */
static inline int t_byte(const void *address)
{
    unsigned char value = 0;

    CHECK_ACL(aclrtMemcpy(&value, 1, address, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

#endif
