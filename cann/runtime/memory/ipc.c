/* Shares device memory with other processes of this machine and user.
 *
 * Allocations of aclrtMalloc share no page with other memory. The first export replaces the pages
 * by an anonymous file (memfd) with the same contents at the same addresses; before that they are
 * ordinary memory. The key is a text: process, descriptor, inode, offset and size. An importer
 * opens the file through /proc and checks its inode. */
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

struct key {
    uint32_t pid, fd;
    uint64_t inode, offset, size;
};

/* An import of this process. If a key was imported twice, the newest import is closed first. */
struct import {
    struct key key;
    void *base;
    struct import *next;
};

static struct import *imports;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void ipc_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    imports = NULL;
}

static aclError check_device(const char *function, const struct device *d)
{
    if (d->props.features & WEIR_FEATURE_HOST_MEMORY)
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                             "memory of %s is not shared with other processes", d->props.name);
}

/* Parses weir.PID.FD.INODE.OFFSET.SIZE, with numbers in hexadecimal. */
static bool read_key(const char *text, struct key *k)
{
    unsigned long long numbers[5];

    if (strncmp(text, "weir", 4) != 0)
        return false;
    text += 4;
    for (int i = 0; i < 5; i++) {
        char *end;

        if (text[0] != '.' || !strchr("0123456789abcdef", text[1]) || !text[1])
            return false;
        errno = 0;
        numbers[i] = strtoull(text + 1, &end, 16);
        if (errno)
            return false;
        text = end;
    }
    if (*text || numbers[0] > UINT32_MAX || numbers[1] > UINT32_MAX)
        return false;
    *k = (struct key){(uint32_t)numbers[0], (uint32_t)numbers[1], numbers[2], numbers[3],
                      numbers[4]};
    return k->size && k->size <= INT64_MAX - 2 * PAGE &&
           k->offset <= INT64_MAX - 2 * PAGE - k->size;
}

static aclError bad_key(const char *function)
{
    return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                             "the key is none that aclrtIpcMemGetExportKey wrote");
}

/* Replaces the pages by a file. Nothing may write them meanwhile: the device is idle, and while the
 * record's lock is held no work on this address can be queued. */
static aclError share_pages(struct allocation *a)
{
    size_t size = (a->size + PAGE - 1) / PAGE * PAGE, done = 0;
    struct stat st;
    int fd;

    if (a->inode)
        return ACL_SUCCESS;
    if ((fd = memfd_create("weir device memory", MFD_CLOEXEC)) < 0 || ftruncate(fd, (off_t)size) ||
        fstat(fd, &st))
        goto fail;
    while (done < a->size) {
        ssize_t n = pwrite(fd, a->base + done, a->size - done, (off_t)done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            goto fail;
        done += (size_t)n;
    }
    if (mmap(a->base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        goto fail;
    a->fd = fd;
    a->inode = st.st_ino;
    return ACL_SUCCESS;

fail:
    if (fd >= 0)
        close(fd);
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes to share: %s", size, strerror(errno));
}

EXPORT aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len,
                                        uint64_t flags)
{
    struct allocation a;
    struct device *d;
    char text[128];
    aclError err;
    int n;

    (void)flags; /* every process of the user may import */
    NEED(devPtr);
    NEED(key);
    if (!allocation_find(devPtr, &a) || a.kind != ALLOCATION_DEVICE)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID,
                    "%p is not memory of aclrtMalloc: ranges have shareable handles", devPtr);
    if (!size || size > a.size - (size_t)((char *)devPtr - a.base))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%zu bytes at %p: the allocation has %zu", size,
                    devPtr, a.size);
    if (!(d = device_opened(a.device)) || (err = check_device(__func__, d)))
        return d ? err : FAIL(ACL_ERROR_RT_PARAM_INVALID, "device %d is closed", a.device);
    if (!a.inode) {
        weir_status st = weir_device_sync(d->dev);

        if (st)
            return fail_status(st, __func__);
        if (!allocation_change(a.base, share_pages, &err) || !allocation_find(devPtr, &a))
            return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p was freed meanwhile", devPtr);
        if (err)
            return err;
    }
    n = snprintf(text, sizeof text, "weir.%x.%x.%llx.%llx.%llx", (unsigned)getpid(), (unsigned)a.fd,
                 (unsigned long long)a.inode, (unsigned long long)((char *)devPtr - a.base),
                 (unsigned long long)size);
    if ((size_t)n >= len)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "the key has %d bytes, there is room for %zu",
                    n + 1, len);
    memcpy(key, text, (size_t)n + 1);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num)
{
    struct key k;

    NEED(key);
    NEED(pid);
    if (!read_key(key, &k))
        return bad_key(__func__);
    if (!num)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "0 processes");
    return ACL_SUCCESS; /* all processes of the user may import */
}

struct mapped {
    void *base;
    size_t size;
};

static void unmap(void *user)
{
    struct mapped *m = user;

    munmap(m->base, m->size);
    free(m);
}

/* Maps the pages that contain the bytes. They are unmapped after their last use. */
static aclError map_key(const struct key *k, struct mapped *m)
{
    char path[48];
    struct stat st;
    aclError err = ACL_SUCCESS;
    int fd;

    snprintf(path, sizeof path, "/proc/%u/fd/%u", k->pid, k->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || st.st_ino != k->inode ||
        (uint64_t)st.st_size < k->offset + k->size) {
        err = fail(ACL_ERROR_RT_PARAM_INVALID,
                   "the memory cannot be opened: process %u has freed it, has ended, or is not of "
                   "this user",
                   k->pid);
    } else {
        size_t before = k->offset % PAGE;

        m->size = (before + k->size + PAGE - 1) / PAGE * PAGE;
        m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       (off_t)(k->offset - before));
        if (m->base == MAP_FAILED)
            err = fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes of process %u: %s", m->size,
                       k->pid, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    return err;
}

EXPORT aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags)
{
    struct allocation a = {.kind = ALLOCATION_IMPORTED};
    struct import *i = NULL;
    struct mapped *m = NULL;
    struct context *c;
    int64_t size;
    weir_status st;
    struct key k;
    aclError err;

    (void)flags;
    NEED(devPtr);
    NEED(key);
    *devPtr = NULL;
    if (!read_key(key, &k))
        return bad_key(__func__);
    if ((err = context_current(&c)) || (err = check_device(__func__, c->device)))
        return err;
    if (!(i = malloc(sizeof *i)) || !(m = malloc(sizeof *m))) {
        err = FAIL(ACL_ERROR_BAD_ALLOC, "memory of another process");
        goto free_records;
    }
    if ((err = map_key(&k, m)))
        goto free_records;
    size = (int64_t)k.size;
    a.base = (char *)m->base + k.offset % PAGE;
    a.size = k.size;
    a.device = c->device->id;
    if ((st = weir_tensor_wrap(weir_stream_default(c->device->dev), WEIR_U8, 1, &size, NULL, a.base,
                               unmap, m, &a.bytes))) {
        err = fail_status(st, __func__);
        munmap(m->base, m->size);
        goto free_records;
    }
    if ((err = allocation_add(&a))) {
        weir_tensor_release(a.bytes); /* unmaps */
        free(i);
        return err;
    }
    *i = (struct import){.key = k, .base = a.base};
    pthread_mutex_lock(&lock);
    i->next = imports;
    imports = i;
    pthread_mutex_unlock(&lock);
    *devPtr = a.base;
    return ACL_SUCCESS;

free_records:
    free(m);
    free(i);
    return err;
}

static struct import *take_import(const struct key *k)
{
    struct import *found = NULL;

    pthread_mutex_lock(&lock);
    for (struct import **link = &imports; *link; link = &(*link)->next)
        if (!memcmp(&(*link)->key, k, sizeof *k)) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Closes an import. In the exporting process the key stays valid until the memory is freed. */
EXPORT aclError aclrtIpcMemClose(const char *key)
{
    struct allocation a;
    struct import *i;
    struct key k;

    NEED(key);
    if (!read_key(key, &k))
        return bad_key(__func__);
    if (!(i = take_import(&k))) {
        if (k.pid == (uint32_t)getpid())
            return ACL_SUCCESS;
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "nothing is imported by this key, or no longer");
    }
    if (allocation_take(i->base, ALLOCATION_IMPORTED, &a))
        weir_tensor_release(a.bytes);
    free(i);
    return ACL_SUCCESS;
}

/* Frees the list of imports. Their memory is released with the allocations. */
void ipc_close_all(void)
{
    pthread_mutex_lock(&lock);
    while (imports) {
        struct import *i = imports;

        imports = i->next;
        free(i);
    }
    pthread_mutex_unlock(&lock);
}

bool process_lives(uint32_t pid)
{
    char path[32], text[256], *state;
    FILE *file;
    bool lives = false;

    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (!(file = fopen(path, "r")))
        return false;
    if (fgets(text, sizeof text, file) && (state = strrchr(text, ')')))
        lives = state[1] && state[2] != 'Z' && state[2] != 'X';
    fclose(file);
    return lives;
}
