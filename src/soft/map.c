/* Memory from the system. */
#define _GNU_SOURCE
#include "comm/procs/share.h"
#include "soft/soft.h"

#include <sys/mman.h>
#include <unistd.h>

static const size_t huge_page = (size_t)2 << 20;

/* Aligned to huge pages, which it asks for: with them a first touch costs a third as much. */
void *weir__soft_map(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = size + huge_page, used;
    char *raw, *start, *end;

    if (size > PTRDIFF_MAX - huge_page)
        return NULL;
    raw = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
               0);
    if (raw == MAP_FAILED)
        return NULL;
    start = (char *)(((uintptr_t)raw + huge_page - 1) & ~(uintptr_t)(huge_page - 1));
    used = (size + page - 1) / page * page;
    end = start + used;
    if (start > raw)
        munmap(raw, (size_t)(start - raw));
    if (end < raw + room)
        munmap(end, (size_t)(raw + room - end));
    madvise(start, size, MADV_HUGEPAGE); /* advice only: a failure does no harm */
    return start;
}

void weir__soft_unmap(void *address, size_t size)
{
    munmap(address, size);
}

void *weir__soft_map_for(weir_device *dev, size_t size)
{
    void *shared =
        atomic_load_explicit(&dev->shares, memory_order_relaxed) ? weir__share_map(size) : NULL;

    return shared ? shared : weir__soft_map(size);
}

void weir__soft_unmap_for(weir_device *dev, void *address, size_t size)
{
    if (!atomic_load_explicit(&dev->shares, memory_order_relaxed) ||
        !weir__share_unmap(address, size))
        weir__soft_unmap(address, size);
}
