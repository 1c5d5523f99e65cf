/* Allocators of a program for the workspaces of operators called by name. weir's operators need no
 * workspace, so these allocators are never called. */
#include "runtime/runtime.h"

static char allocator; /* the object behind every description's handle */

EXPORT aclrtAllocatorDesc aclrtAllocatorCreateDesc(void)
{
    void *handle = handle_new(KIND_ALLOCATOR, &allocator);

    if (!handle)
        fail(ACL_ERROR_BAD_ALLOC, "a description of an allocator");
    return handle;
}

static aclError check(const char *function, aclrtAllocatorDesc desc)
{
    return handle_get(desc, KIND_ALLOCATOR)
               ? ACL_SUCCESS
               : weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM,
                                   "%p is not a description of an allocator", desc);
}

EXPORT aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc)
{
    aclError err = check(__func__, allocatorDesc);

    handle_take(allocatorDesc, KIND_ALLOCATOR);
    return err;
}

EXPORT aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, void *object)
{
    (void)object;
    return check(__func__, allocatorDesc);
}

EXPORT aclError aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                 aclrtAllocatorAllocFunc func)
{
    NEED(func);
    return check(__func__, allocatorDesc);
}

EXPORT aclError aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                aclrtAllocatorFreeFunc func)
{
    NEED(func);
    return check(__func__, allocatorDesc);
}

EXPORT aclError aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                       aclrtAllocatorAllocAdviseFunc func)
{
    NEED(func);
    return check(__func__, allocatorDesc);
}

EXPORT aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                            aclrtAllocatorGetAddrFromBlockFunc func)
{
    NEED(func);
    return check(__func__, allocatorDesc);
}

EXPORT aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc)
{
    struct stream *s;
    aclError err = check(__func__, allocatorDesc);

    return err ? err : stream_get(stream, &s);
}

EXPORT aclError aclrtAllocatorUnregister(aclrtStream stream)
{
    struct stream *s;

    return stream_get(stream, &s);
}
