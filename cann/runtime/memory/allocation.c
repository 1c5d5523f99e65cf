/* Records of allocations, sorted by address, under a readers-writer lock. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct allocation *records; /* by base */
static size_t nrecords, room;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

/* Returns the first record whose base is above `address`. */
static size_t above(const char *address)
{
    size_t low = 0, high = nrecords;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (records[middle].base > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

aclError allocation_add(const struct allocation *a)
{
    aclError err = ACL_SUCCESS;
    size_t at;

    pthread_rwlock_wrlock(&lock);
    if (nrecords == room) {
        size_t more = room ? room * 2 : 64;
        struct allocation *grown = realloc(records, more * sizeof *grown);

        if (!grown) {
            err = fail(ACL_ERROR_BAD_ALLOC, "the record of %zu bytes at %p", a->size,
                       (void *)a->base);
            goto unlock;
        }
        records = grown;
        room = more;
    }
    at = above(a->base);
    memmove(&records[at + 1], &records[at], (nrecords - at) * sizeof *records);
    records[at] = *a;
    nrecords++;
unlock:
    pthread_rwlock_unlock(&lock);
    return err;
}

bool allocation_take(const void *base, enum allocation_kind kind, struct allocation *out)
{
    bool found = false;
    size_t at;

    pthread_rwlock_wrlock(&lock);
    at = above(base);
    if (at && records[at - 1].base == base && records[at - 1].kind == kind) {
        *out = records[at - 1];
        memmove(&records[at - 1], &records[at], (nrecords - at) * sizeof *records);
        nrecords--;
        found = true;
    }
    pthread_rwlock_unlock(&lock);
    return found;
}

/* Returns the record that contains `address`, or NULL. The caller holds the lock. */
static struct allocation *find(const void *address)
{
    size_t at = above(address);

    if (!at || (size_t)((const char *)address - records[at - 1].base) >= records[at - 1].size)
        return NULL;
    return &records[at - 1];
}

bool allocation_find(const void *address, struct allocation *out)
{
    struct allocation *a;

    pthread_rwlock_rdlock(&lock);
    if ((a = find(address)))
        *out = *a;
    pthread_rwlock_unlock(&lock);
    return a;
}

bool allocation_change(const void *base, aclError (*change)(struct allocation *a), aclError *err)
{
    struct allocation *a;

    pthread_rwlock_wrlock(&lock);
    if ((a = find(base)) && a->base == base)
        *err = change(a);
    else
        a = NULL;
    pthread_rwlock_unlock(&lock);
    return a;
}

EXPORT aclError weir_cann_tensors(const struct weir_cann_view *views, int n, weir_tensor **out)
{
    weir_status st = WEIR_OK;
    int made = 0;

    pthread_rwlock_rdlock(&lock);
    for (; made < n; made++) {
        const struct weir_cann_view *v = &views[made];
        struct allocation *a = find(v->address);

        out[made] = NULL;
        if (!a || !a->bytes ||
            (st = weir_tensor_view(a->bytes, (size_t)((const char *)v->address - a->base), v->dtype,
                                   v->ndim, v->shape, v->strides, &out[made])))
            break;
    }
    pthread_rwlock_unlock(&lock);
    if (made == n)
        return ACL_SUCCESS;
    for (int i = 0; i < made; i++)
        weir_tensor_release(out[i]);
    for (int i = 0; i < n; i++)
        out[i] = NULL;
    if (st)
        return fail(st == WEIR_ENOMEM ? ACL_ERROR_BAD_ALLOC : ACL_ERROR_RT_PARAM_INVALID,
                    "the tensor at %p: %s", views[made].address, weir_last_error());
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "%p is not memory of a device: it was never allocated, or has been freed",
                views[made].address);
}

EXPORT aclError weir_cann_tensor(const void *address, weir_dtype dtype, int ndim,
                                 const int64_t *shape, const int64_t *strides, weir_tensor **out)
{
    return weir_cann_tensors(&(struct weir_cann_view){address, dtype, ndim, shape, strides}, 1,
                             out);
}

aclError allocation_bytes(const char *function, const void *address, size_t bytes,
                          weir_tensor **out)
{
    int64_t size = (int64_t)bytes;
    weir_status st = WEIR_OK;
    struct allocation *a;
    size_t left = 0;

    *out = NULL;
    pthread_rwlock_rdlock(&lock);
    a = find(address);
    if (a && a->bytes) {
        left = a->size - (size_t)((const char *)address - a->base);
        if (bytes <= left)
            st = weir_tensor_view(a->bytes, a->size - left, WEIR_U8, 1, &size, NULL, out);
    }
    pthread_rwlock_unlock(&lock);
    if (*out)
        return ACL_SUCCESS;
    if (st)
        return fail_status(st, function);
    if (left)
        return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                                 "%zu bytes at %p reach beyond their allocation, which has %zu "
                                 "from there on",
                                 bytes, address, left);
    return weir_cann_fail_in(
        function, ACL_ERROR_RT_PARAM_INVALID,
        "%p is not memory of a device: it was never allocated, or has been freed", address);
}

void allocation_drop_all(int device)
{
    size_t kept = 0;

    pthread_rwlock_wrlock(&lock);
    for (size_t i = 0; i < nrecords; i++) {
        if (device >= 0 && records[i].device != device) {
            records[kept++] = records[i];
            continue;
        }
        weir_tensor_release(records[i].bytes);
        if (records[i].inode)
            close(records[i].fd);
        if (records[i].kind == ALLOCATION_HOST)
            free(records[i].base);
    }
    nrecords = kept;
    if (!nrecords) {
        free(records);
        records = NULL;
        room = 0;
    }
    pthread_rwlock_unlock(&lock);
}

/* A forked child keeps only the host's memory. */
void allocation_forget_all(void)
{
    size_t kept = 0;

    pthread_rwlock_init(&lock, NULL);
    for (size_t i = 0; i < nrecords; i++)
        if (!records[i].bytes)
            records[kept++] = records[i];
    nrecords = kept;
}
