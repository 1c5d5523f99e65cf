/* Device memory and pinned host memory. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <unistd.h>

#define PAGE 4096

/* Allocates from weir's pool, which counts the memory and keeps it alive for queued work. The block
 * shares no page with other memory, so that its pages can be shared with other processes
 * (ipc.c). */
static weir_status take_pages(weir_stream *stream, struct allocation *a)
{
    int64_t size = (int64_t)a->size, pages = (size + 2 * PAGE - 1) / PAGE * PAGE;
    weir_tensor *block;
    weir_status st;

    if ((st = weir_tensor_empty(stream, WEIR_U8, 1, &pages, &block)))
        return st;
    a->base = weir_tensor_data(block);
    a->padding = (PAGE - (uintptr_t)a->base % PAGE) % PAGE;
    a->base += a->padding;
    st = weir_tensor_view(block, a->padding, WEIR_U8, 1, &size, NULL, &a->bytes);
    weir_tensor_release(block);
    return st;
}

static aclError allocate(const char *function, void **out, size_t size)
{
    struct allocation a = {.size = size, .kind = ALLOCATION_DEVICE};
    struct context *c;
    weir_stream *copies;
    weir_status st;
    aclError err;

    if (!out)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
    *out = NULL;
    if (!size)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "size is 0");
    if (size > INT64_MAX - 2 * PAGE)
        return weir_cann_fail_in(function, ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes", size);
    if ((err = context_current(&c)) || (err = context_copies(c, &copies)))
        return err;
    if ((st = take_pages(copies, &a)))
        return fail_status(st, function);
    /* Any stream may use the memory at once: wait until all earlier uses of the bytes completed. */
    if ((st = weir_stream_sync(copies))) {
        weir_tensor_release(a.bytes);
        return fail_status(st, function);
    }
    a.device = c->device->id;
    if ((err = allocation_add(&a))) {
        weir_tensor_release(a.bytes);
        return err;
    }
    *out = a.base;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy; /* all policies get the same memory */
    return allocate(__func__, devPtr, size);
}

EXPORT aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return allocate(__func__, devPtr, size);
}

EXPORT aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return allocate(__func__, devPtr, size);
}

EXPORT aclError aclrtFree(void *devPtr)
{
    struct allocation a;

    NEED(devPtr);
    if (!allocation_take(devPtr, ALLOCATION_DEVICE, &a))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID,
                    "%p was not allocated by aclrtMalloc, or has been freed already", devPtr);
    weir_tensor_release(a.bytes);
    if (a.inode)
        close(a.fd);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    struct allocation a = {.size = size, .kind = ALLOCATION_HOST, .device = -1};
    void *base;
    aclError err;

    NEED(hostPtr);
    *hostPtr = NULL;
    if (!size)
        return FAIL(ACL_ERROR_INVALID_PARAM, "size is 0");
    if (size > PTRDIFF_MAX || posix_memalign(&base, 64, size))
        return FAIL(ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes of host memory", size);
    a.base = base;
    if ((err = allocation_add(&a))) {
        free(base);
        return err;
    }
    *hostPtr = base;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtFreeHost(void *hostPtr)
{
    struct allocation a;

    NEED(hostPtr);
    if (!allocation_take(hostPtr, ALLOCATION_HOST, &a))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID,
                    "%p was not allocated by aclrtMallocHost, or has been freed already", hostPtr);
    free(hostPtr);
    return ACL_SUCCESS;
}

static aclError check_range(const char *function, void *address, size_t size)
{
    weir_tensor *bytes;
    aclError err;

    if (!address)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
    if ((err = allocation_bytes(function, address, size, &bytes)))
        return err;
    weir_tensor_release(bytes);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtMemFlush(void *devPtr, size_t size)
{
    return check_range(__func__, devPtr, size);
}

EXPORT aclError aclrtMemInvalidate(void *devPtr, size_t size)
{
    return check_range(__func__, devPtr, size);
}

EXPORT aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
    weir_memory_stats stats;
    struct context *c;
    struct device *d;
    size_t used;
    aclError err;

    (void)attr;
    NEED(free);
    NEED(total);
    /* torch_npu calls this before it sets a device, if its allocator may use only a part of the
     * memory: use device 0. MindSpore calls it before aclInit and expects success without a
     * result. */
    if (!(err = context_current(&c)))
        d = c->device;
    else if (!is_initialised() || (err = device_get(0, &d)))
        return err;
    weir_memory_get_stats(d->dev, &stats, sizeof stats);
    used = stats.allocated + stats.pending + physical_bytes(d->id);
    *total = stats.limit ? stats.limit : d->props.memory_bytes;
    *free = *total > used ? *total - used : 0;
    return ACL_SUCCESS;
}

/* ---- host memory that the device accesses directly ---- */

EXPORT aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type,
                                  void **devPtr)
{
    struct allocation a = {.base = ptr, .size = size, .kind = ALLOCATION_REGISTERED};
    int64_t shape = (int64_t)size;
    struct context *c;
    weir_status st;
    aclError err;

    NEED(ptr);
    NEED(devPtr);
    *devPtr = NULL;
    if (!size || shape < 0)
        return FAIL(ACL_ERROR_INVALID_PARAM, "size is %llu", (unsigned long long)size);
    if (type != ACL_HOST_REGISTER_MAPPED)
        return FAIL(ACL_ERROR_INVALID_PARAM, "type %d is not known", (int)type);
    if ((err = context_current(&c)))
        return err;
    a.device = c->device->id;
    if ((st = weir_tensor_wrap(c->stream->weir, WEIR_U8, 1, &shape, NULL, ptr, NULL, NULL,
                               &a.bytes)))
        return fail_status(st, __func__);
    if ((err = allocation_add(&a))) {
        weir_tensor_release(a.bytes);
        return err;
    }
    *devPtr = ptr;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
    void *mapped;

    (void)flag;
    return aclrtHostRegister(ptr, size, ACL_HOST_REGISTER_MAPPED, &mapped);
}

EXPORT aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag)
{
    struct allocation a;

    (void)flag;
    NEED(pHost);
    NEED(pDevice);
    if (!allocation_find(pHost, &a) || a.kind != ALLOCATION_REGISTERED)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not registered", pHost);
    *pDevice = pHost;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtHostUnregister(void *ptr)
{
    struct allocation a;
    weir_status st;

    NEED(ptr);
    if (!allocation_take(ptr, ALLOCATION_REGISTERED, &a))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not registered", ptr);
    st = weir_tensor_sync(a.bytes); /* the caller may free it next */
    weir_tensor_release(a.bytes);
    return fail_status(st, __func__);
}
