/* Memory: the host's, with the bookkeeping of the device's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

enum { GRANULARITY = 2 << 20 };

/* Room for `struct block` before the memory, which keeps its alignment. */
struct block {
    size_t size;
    enum fake_kind kind;
    int fd; /* of allocations: other processes map them */
};
enum { HEAD = 4096 };

static _Atomic size_t in_use;

/* What the driver can say of addresses; under the lock. */
struct range {
    uintptr_t first, size;
    int type, device;
    unsigned reached_by; /* GPUs, a bit each */
    struct range *next;
};
static struct range *ranges;

static void know(const void *address, size_t size, int type, unsigned reached_by)
{
    struct range *r = malloc(sizeof *r);

    if (!r)
        abort();
    pthread_mutex_lock(&fake_lock);
    *r = (struct range){.first = (uintptr_t)address,
                        .size = size,
                        .type = type,
                        .device = fake_current() ? fake_current()->device : 0,
                        .reached_by = reached_by,
                        .next = ranges};
    ranges = r;
    pthread_mutex_unlock(&fake_lock);
}

/* Under the lock; NULL for memory that the driver has never heard of. */
static struct range *find_range(weir__cu_address address)
{
    struct range *r = ranges;

    while (r && address - r->first >= r->size)
        r = r->next;
    return r;
}

void fake_check_reach(weir__cu_address address)
{
    const struct range *r;
    bool reached;

    pthread_mutex_lock(&fake_lock);
    r = find_range(address);
    reached = r && r->reached_by >> fake_current()->device & 1;
    pthread_mutex_unlock(&fake_lock);
    if (!reached)
        fake_misuse("GPU %d does not reach %llx", fake_current()->device,
                    (unsigned long long)address);
}

static int by_address(const void *a, const void *b)
{
    const struct emu_range *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

bool fake_is_device_memory(uintptr_t address)
{
    const struct range *r;
    bool is;

    pthread_mutex_lock(&fake_lock);
    r = find_range(address);
    is = r && r->type == CU_MEMORY_DEVICE;
    pthread_mutex_unlock(&fake_lock);
    return is;
}

/* What the pool has been given is the blocks that it gave out of it; neighbours become one. */
const struct emu_range *fake_ranges(int *n, uint64_t at)
{
    static struct emu_range *all;
    int count = 0, kept = 0;

    pthread_mutex_lock(&fake_lock);
    for (const struct range *r = ranges; r; r = r->next)
        count++;
    if (!(all = realloc(all, (size_t)(count + fake_blocks(NULL, at) + 1) * sizeof *all)))
        abort();
    count = fake_blocks(all, at);
    for (const struct range *r = ranges; r; r = r->next)
        if (!fake_has_blocks(r->first, r->size, at))
            all[count++] = (struct emu_range){r->first, r->size};
    pthread_mutex_unlock(&fake_lock);
    if (count)
        qsort(all, (size_t)count, sizeof *all, by_address);
    for (int i = 0; i < count; i++) {
        struct emu_range *before = kept ? &all[kept - 1] : NULL;

        if (!before || before->first + before->size < all[i].first)
            all[kept++] = all[i];
        else if (all[i].first + all[i].size > before->first + before->size)
            before->size = all[i].first + all[i].size - before->first;
    }
    *n = kept;
    return all;
}

static void forget(const void *address)
{
    pthread_mutex_lock(&fake_lock);
    for (struct range **at = &ranges; *at; at = &(*at)->next)
        if ((*at)->first == (uintptr_t)address) {
            struct range *r = *at;

            *at = r->next;
            free(r);
            break;
        }
    pthread_mutex_unlock(&fake_lock);
}

/* Of an address that nobody knows all are 0, as with CUDA, but for the device. */
int cuPointerGetAttributes(unsigned n, int *attributes, void **values, weir__cu_address address)
{
    const struct range *r;

    FAKE_CALL_IN_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    r = find_range(address);
    for (unsigned i = 0; i < n; i++)
        if (attributes[i] == CU_POINTER_ORDINAL)
            *(int *)values[i] = r ? r->device : -2;
        else
            *(int *)values[i] = r ? r->type : 0;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

static size_t whole_size(size_t size)
{
    return HEAD + (size + HEAD - 1) / HEAD * HEAD;
}

static char *map_file(size_t size, int *fd)
{
    char *memory = MAP_FAILED;

    *fd = memfd_create("fake GPU", MFD_CLOEXEC);
    if (*fd >= 0 && !ftruncate(*fd, (off_t)size))
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (memory == MAP_FAILED && *fd >= 0)
        close(*fd);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Bits are set where it begins: nobody may count on zeros. */
static void *new_block(enum fake_kind kind, size_t size)
{
    char *memory;
    int fd = -1;

    if (atomic_fetch_add(&in_use, size) + size > FAKE_MEMORY ||
        !(memory = kind == FAKE_ALLOCATION ? map_file(whole_size(size), &fd)
                                           : aligned_alloc(HEAD, whole_size(size)))) {
        atomic_fetch_sub(&in_use, size);
        return NULL;
    }
    *(struct block *)memory = (struct block){size, kind, fd};
    memset(memory + HEAD, 0xff, size < 1 << 16 ? size : 1 << 16);
    fake_count(kind, 1);
    if (kind == FAKE_PINNED)
        know(memory + HEAD, size, CU_MEMORY_HOST, UINT32_MAX);
    else
        know(memory + HEAD, size, CU_MEMORY_DEVICE, 1U << fake_current()->device);
    return memory + HEAD;
}

static void free_block(enum fake_kind kind, void *address)
{
    struct block *b = (struct block *)((char *)address - HEAD);

    if (!address || b->kind != kind)
        fake_misuse("%p is freed and was not allocated so", address);
    atomic_fetch_sub(&in_use, b->size);
    fake_count(kind, -1);
    forget(address);
    if (kind == FAKE_ALLOCATION) {
        close(b->fd);
        munmap(b, whole_size(b->size));
    } else {
        free(b);
    }
}

/* ---- for other processes ---- */

/* What a handle says. */
struct shown {
    int pid, fd;
    size_t size;
};

int cuIpcGetMemHandle(struct weir__cu_ipc *handle, weir__cu_address address)
{
    const struct block *b = (const struct block *)(uintptr_t)(address - HEAD);
    struct shown shown = {getpid(), b->fd, b->size};

    FAKE_CALL_IN_CONTEXT();
    if (b->kind != FAKE_ALLOCATION)
        fake_misuse("%llx is shown to others and is no allocation", (unsigned long long)address);
    memcpy(handle->bytes, &shown, sizeof shown);
    return 0;
}

int cuIpcOpenMemHandle_v2(weir__cu_address *address, struct weir__cu_ipc handle, unsigned flags)
{
    char path[60], *memory;
    struct shown shown;
    int fd;

    FAKE_CALL_IN_CONTEXT();
    memcpy(&shown, handle.bytes, sizeof shown);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", shown.pid, shown.fd);
    if (flags != CU_IPC_LAZY_PEER_ACCESS || shown.pid == getpid() ||
        (fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        return FAKE_INVALID;
    memory = mmap(NULL, whole_size(shown.size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return CU_ERROR_OUT_OF_MEMORY;
    know(memory + HEAD, shown.size, CU_MEMORY_DEVICE, 1U << fake_current()->device);
    *address = (weir__cu_address)(uintptr_t)(memory + HEAD);
    return 0;
}

int cuIpcCloseMemHandle(weir__cu_address address)
{
    struct block *b = (struct block *)(uintptr_t)(address - HEAD);
    int code = fake_enter_context(__func__);

    forget((void *)(uintptr_t)address);
    munmap(b, whole_size(b->size));
    return code;
}

int cuMemGetInfo_v2(size_t *available, size_t *total)
{
    FAKE_CALL_IN_CONTEXT();
    *total = FAKE_MEMORY;
    *available = FAKE_MEMORY - atomic_load(&in_use);
    return 0;
}

int cuMemAlloc_v2(weir__cu_address *address, size_t size)
{
    void *memory;

    FAKE_CALL_IN_CONTEXT();
    if (!(memory = new_block(FAKE_ALLOCATION, size)))
        return CU_ERROR_OUT_OF_MEMORY;
    *address = (weir__cu_address)(uintptr_t)memory;
    return 0;
}

int cuMemFree_v2(weir__cu_address address)
{
    int code = fake_enter_context(__func__);

    if (fake_current())
        fake_await_idle(); /* as the real one does */
    free_block(FAKE_ALLOCATION, (void *)(uintptr_t)address);
    return code;
}

int cuMemHostAlloc(void **address, size_t size, unsigned flags)
{
    (void)flags;
    FAKE_CALL_IN_CONTEXT();
    return (*address = new_block(FAKE_PINNED, size)) ? 0 : CU_ERROR_OUT_OF_MEMORY;
}

int cuMemFreeHost(void *address)
{
    int code = fake_enter_context(__func__);

    free_block(FAKE_PINNED, address);
    return code;
}

/* ---- virtual memory ---- */

int cuMemGetAllocationGranularity(size_t *bytes, const struct weir__cu_memory *memory, int option)
{
    (void)memory;
    (void)option;
    FAKE_CALL();
    *bytes = GRANULARITY;
    return 0;
}

int cuMemAddressReserve(weir__cu_address *address, size_t size, size_t align, weir__cu_address hint,
                        uint64_t flags)
{
    void *memory;

    (void)align;
    (void)hint;
    (void)flags;
    FAKE_CALL();
    if (size % GRANULARITY)
        return FAKE_INVALID;
    memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return CU_ERROR_OUT_OF_MEMORY;
    fake_count(FAKE_RESERVATION, 1);
    *address = (weir__cu_address)(uintptr_t)memory;
    return 0;
}

int cuMemAddressFree(weir__cu_address address, size_t size)
{
    int code = fake_enter(__func__);

    if (munmap((void *)(uintptr_t)address, size))
        fake_misuse("an address range is given back that is none");
    fake_count(FAKE_RESERVATION, -1);
    return code;
}

int cuMemCreate(uint64_t *handle, size_t size, const struct weir__cu_memory *memory, uint64_t flags)
{
    (void)flags;
    FAKE_CALL();
    if (memory->type != CU_MEMORY_PINNED || memory->location.type != CU_LOCATION_DEVICE ||
        size % GRANULARITY)
        return FAKE_INVALID;
    if (atomic_fetch_add(&in_use, size) + size > FAKE_MEMORY) {
        atomic_fetch_sub(&in_use, size);
        return CU_ERROR_OUT_OF_MEMORY;
    }
    fake_count(FAKE_HANDLE, 1);
    *handle = size;
    return 0;
}

int cuMemRelease(uint64_t handle)
{
    int code = fake_enter(__func__);

    atomic_fetch_sub(&in_use, handle);
    fake_count(FAKE_HANDLE, -1);
    return code;
}

int cuMemMap(weir__cu_address address, size_t size, size_t offset, uint64_t handle, uint64_t flags)
{
    (void)offset;
    (void)flags;
    FAKE_CALL();
    if (handle != size)
        return FAKE_INVALID;
    atomic_fetch_add(&in_use, size);
    fake_count(FAKE_MAPPING, 1);
    know((void *)(uintptr_t)address, size, CU_MEMORY_DEVICE, 0);
    return 0;
}

int cuMemSetAccess(weir__cu_address address, size_t size, const struct weir__cu_access *access,
                   size_t n)
{
    struct range *r;
    unsigned reached_by = 0;

    FAKE_CALL();
    for (size_t i = 0; i < n; i++) {
        if (access[i].flags != CU_ACCESS_READ_WRITE || access[i].location.id >= FAKE_DEVICES)
            return FAKE_INVALID;
        reached_by |= 1U << access[i].location.id;
    }
    pthread_mutex_lock(&fake_lock);
    if ((r = find_range(address)))
        r->reached_by = reached_by;
    pthread_mutex_unlock(&fake_lock);
    return mprotect((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE) ? FAKE_INVALID : 0;
}

int cuMemUnmap(weir__cu_address address, size_t size)
{
    int code = fake_enter(__func__);

    /* Whoever touches it now is caught. */
    if (mprotect((void *)(uintptr_t)address, size, PROT_NONE))
        fake_misuse("a range is unmapped that is none");
    atomic_fetch_sub(&in_use, size);
    fake_count(FAKE_MAPPING, -1);
    forget((void *)(uintptr_t)address);
    return code;
}
