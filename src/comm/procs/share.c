#define _GNU_SOURCE
#include "comm/procs/share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/lock.h"

static const size_t huge_page = (size_t)2 << 20;

struct segment {
    struct segment *next;
    char *base;
    size_t size;
    int fd;
    uint64_t inode;
};

/* Guards the list of this process's segments. */
static struct weir__mutex lock;
static struct segment *segments;

/* Maps the file at an aligned address: reserves anonymous memory first, then maps the file over an
 * aligned part of it. */
static char *map_aligned(int fd, size_t size)
{
    size_t room = size + huge_page;
    char *raw = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *start;

    if (raw == MAP_FAILED)
        return NULL;
    start = (char *)(((uintptr_t)raw + huge_page - 1) & ~(uintptr_t)(huge_page - 1));
    if (start > raw)
        munmap(raw, (size_t)(start - raw));
    if (start + size < raw + room)
        munmap(start + size, (size_t)(raw + room - start - size));
    if (mmap(start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) ==
        MAP_FAILED) {
        munmap(start, size);
        return NULL;
    }
    madvise(start, size, MADV_HUGEPAGE); /* advice only: a failure does no harm */
    return start;
}

void *weir__share_map(size_t asked)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (asked + page - 1) / page * page;
    struct segment *s;
    struct stat st;

    if (asked > PTRDIFF_MAX / 2 || !(s = weir__calloc(1, sizeof *s)))
        return NULL;
    s->size = size;
    s->fd = memfd_create("weir", MFD_CLOEXEC);
    if (s->fd < 0 || ftruncate(s->fd, (off_t)size) || fstat(s->fd, &st) ||
        !(s->base = map_aligned(s->fd, size))) {
        if (s->fd >= 0)
            close(s->fd);
        weir__free(s);
        return NULL;
    }
    s->inode = st.st_ino;
    weir__mutex_lock(&lock);
    s->next = segments;
    segments = s;
    weir__mutex_unlock(&lock);
    return s->base;
}

bool weir__share_unmap(void *address, size_t size)
{
    struct segment **at, *s;

    (void)size; /* the segment has its size */
    weir__mutex_lock(&lock);
    for (at = &segments; *at && (*at)->base != address; at = &(*at)->next)
        ;
    if ((s = *at))
        *at = s->next;
    weir__mutex_unlock(&lock);
    if (!s)
        return false;
    munmap(s->base, s->size);
    close(s->fd);
    weir__free(s);
    return true;
}

bool weir__share_find(const void *address, size_t bytes, struct weir__shared_place *place)
{
    const char *p = address;
    bool found = false;

    weir__mutex_lock(&lock);
    for (const struct segment *s = segments; s && !found; s = s->next)
        if (p >= s->base && p < s->base + s->size) {
            found = bytes <= (size_t)(s->base + s->size - p);
            *place = (struct weir__shared_place){
                .fd = s->fd, .inode = s->inode, .offset = (uint64_t)(p - s->base), .bytes = bytes};
        }
    weir__mutex_unlock(&lock);
    return found;
}

/* ---- others' memory ---- */

static struct weir__reached *open_reached(uint32_t pid, const struct weir__shared_place *place,
                                          bool writes)
{
    struct weir__reached *r = weir__calloc(1, sizeof *r);
    char path[48];
    struct stat st;
    int fd;

    if (!r) {
        weir__fail_nomem("mapping memory of process %u", pid);
        return NULL;
    }
    snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, (int)place->fd);
    fd = open(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_ino != place->inode || st.st_size <= 0) {
        weir__fail(WEIR_EUNAVAILABLE, "the memory of process %u cannot be opened at %s: %s", pid,
                   path, fd < 0 ? strerror(errno) : "it is another file");
        goto close_file;
    }
    r->inode = place->inode;
    r->size = (size_t)st.st_size;
    r->base = mmap(NULL, r->size, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (r->base == MAP_FAILED) {
        weir__fail(WEIR_EUNAVAILABLE, "%zu bytes of process %u cannot be mapped: %s", r->size, pid,
                   strerror(errno));
        goto close_file;
    }
    close(fd);
    return r;

close_file:
    if (fd >= 0)
        close(fd);
    weir__free(r);
    return NULL;
}

void *weir__reached_at(const struct weir__reached *r, uint32_t pid,
                       const struct weir__shared_place *place)
{
    if (place->offset > r->size || place->bytes > r->size - place->offset) {
        weir__fail(WEIR_EINTERNAL, "process %u shows %llu bytes at %llu of memory of %zu", pid,
                   (unsigned long long)place->bytes, (unsigned long long)place->offset, r->size);
        return NULL;
    }
    return r->base + place->offset;
}

void *weir__share_reach(struct weir__reached **list, uint32_t pid,
                        const struct weir__shared_place *place, bool writes)
{
    struct weir__reached *r = *list;

    while (r && r->inode != place->inode)
        r = r->next;
    if (!r) {
        if (!(r = open_reached(pid, place, writes)))
            return NULL;
        r->next = *list;
        *list = r;
    }
    return weir__reached_at(r, pid, place);
}

void weir__share_leave(struct weir__reached **list)
{
    while (*list) {
        struct weir__reached *r = *list;

        *list = r->next;
        munmap(r->base, r->size);
        weir__free(r);
    }
}

/* ---- staging ---- */

enum { LEAST_LOG = 16, CLASSES = 32 };

struct idle {
    struct idle *next;
};
static struct idle *idle[CLASSES]; /* guarded by `lock`; the links are in the idle pieces */

static int class_of(size_t bytes)
{
    int c = 0;

    while (((size_t)1 << (LEAST_LOG + c)) < bytes)
        c++;
    return c;
}

void *weir__stage_take(size_t bytes)
{
    int c = class_of(bytes);
    struct idle *piece;

    if (c >= CLASSES)
        return NULL;
    weir__mutex_lock(&lock);
    if ((piece = idle[c]))
        idle[c] = piece->next;
    weir__mutex_unlock(&lock);
    return piece ? (void *)piece : weir__share_map((size_t)1 << (LEAST_LOG + c));
}

void weir__stage_give(void *memory, size_t bytes)
{
    int c = class_of(bytes);
    struct idle *piece = memory;

    weir__mutex_lock(&lock);
    piece->next = idle[c];
    idle[c] = piece;
    weir__mutex_unlock(&lock);
}

void weir__stage_trim(void)
{
    for (int c = 0; c < CLASSES; c++)
        for (;;) {
            struct idle *piece;

            weir__mutex_lock(&lock);
            if ((piece = idle[c]))
                idle[c] = piece->next;
            weir__mutex_unlock(&lock);
            if (!piece)
                break;
            weir__share_unmap(piece, 0);
        }
}

/* ---- sleeping ---- */

void weir__futex_wait_shared(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec left = {timeout_ns / 1000000000, timeout_ns % 1000000000};

    syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &left, NULL, 0);
}

void weir__futex_wake_shared(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
