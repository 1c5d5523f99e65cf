/* Virtual memory management: a program reserves ranges of addresses, allocates physical memory, and
 * maps the memory into the ranges. weir sees a range as one allocation, so a tensor may span
 * several pieces of memory. Physical memory is an anonymous file (memfd), which other processes of
 * the user may open. */
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)

struct physical {
    void *handle;
    int fd, device;
    size_t size;
};

/* A mapping; a range may have many. */
struct mapping {
    char *base;
    size_t size;
    struct mapping *next;
};

static struct mapping *mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic size_t given[64];

size_t physical_bytes(int device)
{
    return given[device & 63];
}

static aclError check_mappable(const char *function, const struct device *d)
{
    if (d->props.features & WEIR_FEATURE_HOST_MEMORY)
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                             "%s has no memory that can be mapped by address: use aclrtMalloc",
                             d->props.name);
}

static aclError check_device(const char *function, struct context **c)
{
    aclError err = context_current(c);

    return err ? err : check_mappable(function, (*c)->device);
}

/* Returns the device of a new range. torch_npu tries a range before it sets a device: then device
 * 0. */
static aclError range_device(const char *function, struct device **d)
{
    struct context *c;
    aclError err = ACL_SUCCESS;

    if (context_set() && !(err = context_current(&c)))
        *d = c->device;
    else if (!err)
        err = device_get(0, d);
    return err ? err : check_mappable(function, *d);
}

EXPORT aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment,
                                       void *expectPtr, uint64_t flags)
{
    struct allocation a = {.kind = ALLOCATION_RANGE};
    struct device *d;
    weir_status st;
    int64_t shape;
    aclError err;
    char *base;

    (void)flags; /* page sizes: not used */
    NEED(virPtr);
    *virPtr = NULL;
    if (!size || size > INT64_MAX - 2 * GRANULE)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "a range of %zu bytes", size);
    if (alignment)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "alignment is %zu, and must be 0", alignment);
    if ((err = range_device(__func__, &d)))
        return err;
    size = (size + GRANULE - 1) / GRANULE * GRANULE;
    shape = (int64_t)size;
    base = mmap(expectPtr, size + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (base == MAP_FAILED)
        return FAIL(ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes of addresses: %s", size,
                    strerror(errno));
    a.padding = (GRANULE - (uintptr_t)base % GRANULE) % GRANULE;
    a.base = base + a.padding;
    a.size = size;
    a.device = d->id;
    if ((st = weir_tensor_wrap(weir_stream_default(d->dev), WEIR_U8, 1, &shape, NULL, a.base, NULL,
                               NULL, &a.bytes)))
        err = fail_status(st, __func__);
    else if ((err = allocation_add(&a)))
        weir_tensor_release(a.bytes);
    if (err) {
        munmap(base, size + GRANULE);
        return err;
    }
    *virPtr = a.base;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtReleaseMemAddress(void *virPtr)
{
    struct allocation a;
    weir_status st;

    NEED(virPtr);
    if (!allocation_take(virPtr, ALLOCATION_RANGE, &a))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not a reserved range", virPtr);
    st = weir_tensor_sync(a.bytes); /* queued work may use the addresses */
    weir_tensor_release(a.bytes);
    pthread_mutex_lock(&lock);
    for (struct mapping **link = &mappings; *link;) {
        struct mapping *m = *link;

        if (m->base < a.base || m->base >= a.base + a.size) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        free(m);
    }
    pthread_mutex_unlock(&lock);
    munmap(a.base - a.padding, a.size + GRANULE);
    return fail_status(st, __func__);
}

static aclError physical_new(const char *function, int fd, size_t size, int device,
                             aclrtDrvMemHandle *out)
{
    struct physical *p = malloc(sizeof *p);

    if (!p) {
        close(fd);
        return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "a record of physical memory");
    }
    *p = (struct physical){.fd = fd, .device = device, .size = size};
    if (!(p->handle = handle_new(KIND_PHYSICAL, p))) {
        close(fd);
        free(p);
        return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "a handle of physical memory");
    }
    given[device & 63] += size;
    *out = p->handle;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                    const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    weir_memory_stats stats;
    struct context *c;
    size_t used;
    aclError err;
    int fd;

    (void)flags;
    NEED(handle);
    NEED(prop);
    *handle = NULL;
    if (!size || size % GRANULE || size > INT64_MAX)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "size %zu is no multiple of 2 MiB", size);
    if ((err = check_device(__func__, &c)))
        return err;
    weir_memory_get_stats(c->device->dev, &stats, sizeof stats);
    used = stats.reserved + physical_bytes(c->device->id);
    if (stats.limit && (used > stats.limit || size > stats.limit - used))
        return FAIL(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    "%zu bytes: device %d has %zu, of which %zu "
                    "are used",
                    size, c->device->id, stats.limit, used);
    if ((fd = memfd_create("weir physical memory", MFD_CLOEXEC)) < 0)
        return FAIL(ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes: %s", size, strerror(errno));
    if (ftruncate(fd, (off_t)size)) {
        close(fd);
        return FAIL(ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes: %s", size, strerror(errno));
    }
    return physical_new(__func__, fd, size, c->device->id, handle);
}

EXPORT aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    struct physical *p;

    NEED(handle);
    if (!(p = handle_take(handle, KIND_PHYSICAL)))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not physical memory, or is freed", handle);
    given[p->device & 63] -= p->size;
    close(p->fd); /* existing mappings stay valid */
    free(p);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                            uint64_t flags)
{
    struct physical *p = handle_get(handle, KIND_PHYSICAL);
    struct mapping *m;
    struct allocation a;

    (void)flags;
    NEED(virPtr);
    if (!p)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not physical memory, or is freed", handle);
    if (offset || size != p->size)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID,
                    "%zu bytes from %zu on: all %zu of the physical memory are mapped at once",
                    size, offset, p->size);
    if ((uintptr_t)virPtr % GRANULE)
        return FAIL(ACL_ERROR_RT_ADDR_UNALIGNED, "%p is not a multiple of 2 MiB", virPtr);
    if (!allocation_find(virPtr, &a) || a.kind != ALLOCATION_RANGE ||
        size > a.size - (size_t)((char *)virPtr - a.base))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%zu bytes at %p are not in a reserved range", size,
                    virPtr);
    if (!(m = malloc(sizeof *m)))
        return FAIL(ACL_ERROR_BAD_ALLOC, "a record of a mapping");
    pthread_mutex_lock(&lock);
    for (struct mapping *o = mappings; o; o = o->next)
        if ((char *)virPtr < o->base + o->size && o->base < (char *)virPtr + size) {
            pthread_mutex_unlock(&lock);
            free(m);
            return FAIL(ACL_ERROR_RT_PARAM_INVALID, "something is mapped at %p already",
                        (void *)o->base);
        }
    if (mmap(virPtr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd, 0) ==
        MAP_FAILED) {
        pthread_mutex_unlock(&lock);
        free(m);
        return FAIL(ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes at %p: %s", size, virPtr,
                    strerror(errno));
    }
    *m = (struct mapping){.base = virPtr, .size = size, .next = mappings};
    mappings = m;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtUnmapMem(void *virPtr)
{
    struct mapping *m = NULL;
    weir_tensor *bytes;
    aclError err;

    NEED(virPtr);
    pthread_mutex_lock(&lock);
    for (struct mapping **link = &mappings; *link; link = &(*link)->next)
        if ((*link)->base == virPtr) {
            m = *link;
            *link = m->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!m)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %p", virPtr);
    /* Queued work may still use the bytes. This waits for uses of the whole range. */
    if (!(err = allocation_bytes(__func__, virPtr, m->size, &bytes))) {
        err = fail_status(weir_tensor_sync(bytes), __func__);
        weir_tensor_release(bytes);
    }
    mmap(virPtr, m->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
    free(m);
    return err;
}

EXPORT aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                                 aclrtMemGranularityOptions option,
                                                 size_t *granularity)
{
    (void)option;
    NEED(prop);
    NEED(granularity);
    *granularity = GRANULE;
    return ACL_SUCCESS;
}

/* ---- other processes ---- */

/* A shareable handle consists of the process and a file descriptor, which others open by /proc. */
EXPORT aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle,
                                                aclrtMemHandleType handleType, uint64_t flags,
                                                uint64_t *shareableHandle)
{
    struct physical *p = handle_get(handle, KIND_PHYSICAL);

    (void)flags; /* every process of the user may import */
    NEED(shareableHandle);
    if (!p)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not physical memory, or is freed", handle);
    if (handleType != ACL_MEM_HANDLE_TYPE_NONE)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "handle type %d is not 0", (int)handleType);
    *shareableHandle = (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)p->fd;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid,
                                                size_t pidNum)
{
    NEED(pid);
    if (!shareableHandle || !pidNum)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "handle %llx, %zu processes",
                    (unsigned long long)shareableHandle, pidNum);
    return ACL_SUCCESS; /* all processes of the user may import */
}

EXPORT aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                  aclrtDrvMemHandle *handle)
{
    char path[64], target[64];
    struct context *c;
    struct stat st;
    ssize_t n;
    aclError err;
    int fd;

    NEED(handle);
    *handle = NULL;
    if (deviceId < 0 || (uint32_t)deviceId >= device_count())
        return FAIL(ACL_ERROR_RT_INVALID_DEVICEID, "device %d: there are %u", deviceId,
                    device_count());
    if ((err = check_device(__func__, &c)))
        return err;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", (uint32_t)(shareableHandle >> 32),
             (uint32_t)shareableHandle);
    n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    if (!strstr(target, "memfd:weir physical memory"))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID,
                    "%llx is no exported memory: process %u has none there, or has ended",
                    (unsigned long long)shareableHandle, (uint32_t)(shareableHandle >> 32));
    if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0 || fstat(fd, &st)) {
        err = FAIL(ACL_ERROR_RT_PARAM_INVALID, "memory of process %u cannot be opened: %s",
                   (uint32_t)(shareableHandle >> 32), strerror(errno));
        if (fd >= 0)
            close(fd);
        return err;
    }
    return physical_new(__func__, fd, (size_t)st.st_size, deviceId, handle);
}
