/* Communicators: how ranks find each other, and what they share. */
#include "comm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "weir hccl root 1"
#define MEMORY_NAME "weir hccl memory"

/* What HcclRootInfo holds: where the memory is. */
struct root {
    char magic[24];
    int32_t pid, fd;
    uint64_t id;
};

_Static_assert(sizeof(struct root) <= ROOT_BYTES, "a smaller communicator's root is handed on");

/* Communicators whose ranks are all of this process, by their root. */
struct local {
    uint64_t id;
    uint32_t nranks, joined, left;
    weir_device *devices[MAX_RANKS];
    weir_group *group;
    weir_status status;
    struct local *next;
};

static struct comm *comms[1024]; /* a handle is a place here, and a number */
static uint32_t numbers[1024];
static struct local *locals;
static uint64_t roots;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

HcclResult hccl_fail(const char *function, HcclResult result, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weir_cann_fail(result == HCCL_E_PARA || result == HCCL_E_PTR ? ACL_ERROR_INVALID_PARAM
                                                                 : ACL_ERROR_FAILURE,
                   "%s: %s", function, text);
    return result;
}

/* ---- handles ---- */

static HcclComm handle_new(struct comm *c)
{
    HcclComm handle = NULL;

    pthread_mutex_lock(&lock);
    for (uintptr_t i = 0; i < sizeof comms / sizeof *comms && !handle; i++)
        if (!comms[i]) {
            comms[i] = c;
            handle = (HcclComm)((uintptr_t)0x48 << 56 | (uintptr_t)++numbers[i] << 16 | i);
        }
    pthread_mutex_unlock(&lock);
    return handle;
}

struct comm *comm_find(HcclComm handle, bool take)
{
    uintptr_t h = (uintptr_t)handle, i = h & 0xffff;
    struct comm *c = NULL;

    pthread_mutex_lock(&lock);
    if (h >> 56 == 0x48 && i < sizeof comms / sizeof *comms &&
        numbers[i] == (uint32_t)(h >> 16 & 0xffffffff)) {
        c = comms[i];
        if (take)
            comms[i] = NULL;
    }
    pthread_mutex_unlock(&lock);
    return c;
}

static HcclComm handle_named(const char *name, uint32_t rank)
{
    HcclComm handle = NULL;

    pthread_mutex_lock(&lock);
    for (uintptr_t i = 0; i < sizeof comms / sizeof *comms && !handle; i++)
        if (comms[i] && comms[i]->rank == rank && !strcmp(comms[i]->name, name))
            handle = (HcclComm)((uintptr_t)0x48 << 56 | (uintptr_t)numbers[i] << 16 | i);
    pthread_mutex_unlock(&lock);
    return handle;
}

/* For libopapi, whose operators are given a communicator's name; of ranks that are threads of one
 * process, several have it. */
HcclResult weir_hccl_all_gather(const char *name, uint32_t rank, void *send, void *recv,
                                uint64_t bytes, aclrtStream stream);

EXPORT HcclResult weir_hccl_all_gather(const char *name, uint32_t rank, void *send, void *recv,
                                       uint64_t bytes, aclrtStream stream)
{
    HcclComm comm = handle_named(name, rank);

    if (!comm)
        return hccl_fail("weir_hccl_all_gather", HCCL_E_PARA,
                         "there is no communicator '%s' with rank %u here", name, rank);
    return HcclAllGather(send, recv, bytes, HCCL_DATA_TYPE_INT8, comm, stream);
}

HcclResult comm_get(const char *function, HcclComm handle, struct comm **out)
{
    if (!handle)
        return hccl_fail(function, HCCL_E_PTR, "comm is NULL");
    if (!(*out = comm_find(handle, false)))
        return hccl_fail(function, HCCL_E_PARA, "%p is no communicator, or a destroyed one",
                         handle);
    if ((*out)->shared && atomic_load(&(*out)->shared->broken))
        return hccl_fail(function, HCCL_E_NETWORK, "the communicator is broken: %s",
                         (*out)->shared->reason);
    return HCCL_SUCCESS;
}

void comm_break(struct comm *c, const char *reason)
{
    uint32_t none = 0;

    if (atomic_load(&c->shared->broken))
        return;
    snprintf(c->shared->reason, sizeof c->shared->reason, "%s", reason);
    atomic_compare_exchange_strong(&c->shared->broken, &none, c->rank + 1);
}

char *comm_slot(struct comm *c, uint32_t from, uint32_t to)
{
    return c->slots + ((size_t)from * c->nranks + to) * SLOT;
}

/* ---- finding each other ---- */

EXPORT HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo)
{
    struct root root = {.magic = MAGIC};

    if (!rootInfo)
        return hccl_fail(__func__, HCCL_E_PTR, "rootInfo is NULL");
    memset(rootInfo, 0, sizeof *rootInfo);
    root.pid = (int32_t)getpid();
    if ((root.fd = memfd_create(MEMORY_NAME, MFD_CLOEXEC)) < 0)
        return hccl_fail(__func__, HCCL_E_MEMORY, "shared memory: %s", strerror(errno));
    /* The counters; slots are added once the number of ranks is known. */
    if (ftruncate(root.fd, sizeof(struct shared))) {
        close(root.fd);
        return hccl_fail(__func__, HCCL_E_MEMORY, "shared memory: %s", strerror(errno));
    }
    pthread_mutex_lock(&lock);
    root.id = (uint64_t)root.pid << 32 | ++roots;
    pthread_mutex_unlock(&lock);
    memcpy(rootInfo->internal, &root, sizeof root);
    return HCCL_SUCCESS;
}

int64_t seconds_of(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    long value = text ? strtol(text, NULL, 10) : 0;

    return (value > 0 ? value : otherwise) * 1000000000;
}

static HcclResult map(const char *function, const struct root *root, struct comm *c)
{
    char path[64], target[64];
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", root->pid, root->fd);
    n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    if (!strstr(target, MEMORY_NAME))
        return hccl_fail(function, HCCL_E_PARA,
                         "the root information names process %d, which has ended or is not on this "
                         "machine",
                         root->pid);
    if ((c->fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        return hccl_fail(function, HCCL_E_PARA, "memory of process %d cannot be opened: %s",
                         root->pid, strerror(errno));
    c->mapped = sizeof(struct shared) + (size_t)c->nranks * c->nranks * SLOT;
    if (ftruncate(c->fd, (off_t)c->mapped))
        return hccl_fail(function, HCCL_E_MEMORY, "%zu bytes of shared memory: %s", c->mapped,
                         strerror(errno));
    c->shared = mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
    if (c->shared == MAP_FAILED) {
        c->shared = NULL;
        return hccl_fail(function, HCCL_E_MEMORY, "%zu bytes of shared memory: %s", c->mapped,
                         strerror(errno));
    }
    c->slots = (char *)(c->shared + 1);
    return HCCL_SUCCESS;
}

/* Says that this rank is here, and waits for the others. *same: all are of one process. */
static HcclResult gather(const char *function, struct comm *c, bool *same)
{
    int64_t left = seconds_of("HCCL_CONNECT_TIMEOUT", 120);
    uint32_t none = 0, expected = 0;
    char missing[256];
    int n;

    if (!atomic_compare_exchange_strong(&c->shared->nranks, &none, c->nranks) && none != c->nranks)
        return hccl_fail(function, HCCL_E_PARA, "rank %u says %u ranks, another says %u", c->rank,
                         c->nranks, none);
    if (!atomic_compare_exchange_strong(&c->shared->joined[c->rank], &expected, (uint32_t)getpid()))
        return hccl_fail(function, HCCL_E_PARA, "rank %u is here already, as process %u", c->rank,
                         expected);
    for (;; left -= 1000000) {
        bool all = true;

        *same = true;
        n = snprintf(missing, sizeof missing, "after %lld s these ranks are missing:",
                     (long long)(seconds_of("HCCL_CONNECT_TIMEOUT", 120) / 1000000000));
        for (uint32_t i = 0; i < c->nranks; i++) {
            uint32_t pid = atomic_load(&c->shared->joined[i]);

            all &= pid != 0;
            *same &= pid == (uint32_t)getpid();
            if (!pid && (size_t)n < sizeof missing)
                n += snprintf(missing + n, sizeof missing - (size_t)n, " %u", i);
        }
        if (all)
            return HCCL_SUCCESS;
        if (left < 0) {
            comm_break(c, missing);
            return hccl_fail(function, HCCL_E_TIMEOUT, "%s", missing);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* All ranks are threads of this process: the last to come makes weir's group. */
static HcclResult join_local(const char *function, uint64_t id, struct comm *c)
{
    weir_device *dev;
    struct local *l;
    weir_status st;

    if (weir_cann_device(&dev))
        return HCCL_E_PARA;
    pthread_mutex_lock(&lock);
    for (l = locals; l && l->id != id; l = l->next)
        ;
    if (!l && (l = calloc(1, sizeof *l))) {
        l->id = id;
        l->nranks = c->nranks;
        l->next = locals;
        locals = l;
    }
    if (!l) {
        pthread_mutex_unlock(&lock);
        return hccl_fail(function, HCCL_E_MEMORY, "a group");
    }
    l->devices[c->rank] = dev;
    if (++l->joined == l->nranks) {
        char name[32];

        snprintf(name, sizeof name, "hccl %llx", (unsigned long long)id);
        l->status = weir_group_create(
            l->devices, (int)l->nranks,
            &(weir_group_options){.name = name, .timeout_ns = c->timeout_ns}, &l->group);
        pthread_cond_broadcast(&changed);
    }
    while (l->joined < l->nranks)
        pthread_cond_wait(&changed, &lock);
    c->group = l->group;
    st = l->status;
    pthread_mutex_unlock(&lock);
    if (st)
        return hccl_fail(function, HCCL_E_NOT_SUPPORT, "%s", weir_last_error());
    return HCCL_SUCCESS;
}

static void comm_free(struct comm *c)
{
    if (c->shared)
        munmap(c->shared, c->mapped);
    if (c->fd >= 0)
        close(c->fd);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static HcclResult init(const char *function, uint32_t nranks, const HcclRootInfo *info,
                       uint32_t rank, HcclComm *out)
{
    struct root root;
    struct comm *c;
    HcclResult r;
    bool same = false;
    int e;

    if (!info || !out)
        return hccl_fail(function, HCCL_E_PTR, "%s is NULL", info ? "comm" : "rootInfo");
    *out = NULL;
    memcpy(&root, info->internal, sizeof root);
    if (memcmp(root.magic, MAGIC, sizeof MAGIC))
        return hccl_fail(function, HCCL_E_PARA,
                         "the root information was not made by "
                         "HcclGetRootInfo");
    if (!nranks || nranks > MAX_RANKS || rank >= nranks)
        return hccl_fail(function, HCCL_E_PARA, "rank %u of %u: there may be 1..%d", rank, nranks,
                         MAX_RANKS);
    if (!(c = calloc(1, sizeof *c)))
        return hccl_fail(function, HCCL_E_MEMORY, "a communicator");
    c->rank = rank;
    c->nranks = nranks;
    c->fd = -1;
    c->last = &c->first;
    c->timeout_ns = seconds_of("HCCL_EXEC_TIMEOUT", 1836);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    snprintf(c->name, sizeof c->name, "weir_%llx", (unsigned long long)root.id);
    if ((r = map(function, &root, c)) || (r = gather(function, c, &same)) ||
        (same && (r = join_local(function, root.id, c))))
        goto free_comm;
    if (!c->group && (e = pthread_create(&c->thread, NULL, engine_run, c))) {
        r = hccl_fail(function, HCCL_E_INTERNAL, "a thread: %s", strerror(e));
        goto free_comm;
    }
    if ((*out = handle_new(c)))
        return HCCL_SUCCESS;
    return hccl_fail(function, HCCL_E_MEMORY, "more than 1024 communicators");

free_comm:
    comm_free(c);
    return r;
}

EXPORT HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                       HcclComm *comm)
{
    return init(__func__, nRanks, rootInfo, rank, comm);
}

EXPORT HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo,
                                             uint32_t rank, const HcclCommConfig *config,
                                             HcclComm *comm)
{
    (void)config; /* sizes of buffers and the like */
    return init(__func__, nRanks, rootInfo, rank, comm);
}

struct starter {
    uint32_t n, rank;
    const HcclRootInfo *root;
    int32_t device;
    HcclComm comm;
    HcclResult result;
};

static void *start(void *user)
{
    struct starter *s = user;

    s->result = aclrtSetDevice(s->device)
                    ? HCCL_E_PARA
                    : init("HcclCommInitAll", s->n, s->root, s->rank, &s->comm);
    return NULL;
}

EXPORT HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms_out)
{
    struct starter starters[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    HcclResult r = HCCL_SUCCESS;
    HcclRootInfo root;
    uint32_t started;

    if (!devices || !comms_out)
        return hccl_fail(__func__, HCCL_E_PTR, "%s is NULL", devices ? "comms" : "devices");
    if (!ndev || ndev > MAX_RANKS)
        return hccl_fail(__func__, HCCL_E_PARA, "%u devices: there may be 1..%d", ndev, MAX_RANKS);
    if ((r = HcclGetRootInfo(&root)))
        return r;
    for (started = 0; started < ndev; started++) {
        starters[started] = (struct starter){ndev, started, &root, devices[started], NULL, 0};
        if (pthread_create(&threads[started], NULL, start, &starters[started]))
            break;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        comms_out[i] = starters[i].comm;
        if (starters[i].result)
            r = starters[i].result;
    }
    return started < ndev ? hccl_fail(__func__, HCCL_E_INTERNAL, "a thread") : r;
}

EXPORT HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm)
{
    (void)rank;
    if (!clusterInfo || !comm)
        return hccl_fail(__func__, HCCL_E_PTR, "%s is NULL", comm ? "clusterInfo" : "comm");
    *comm = NULL;
    return hccl_fail(__func__, HCCL_E_NOT_SUPPORT,
                     "the table of ranks in %s is not read: unset RANK_TABLE_FILE", clusterInfo);
}

EXPORT HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank,
                                                HcclCommConfig *config, HcclComm *comm)
{
    (void)config;
    return HcclCommInitClusterInfo(clusterInfo, rank, comm);
}

/* The last rank takes the group along. */
static void leave_local(struct comm *c)
{
    struct local *gone = NULL;

    pthread_mutex_lock(&lock);
    for (struct local **link = &locals; *link; link = &(*link)->next)
        if ((*link)->group == c->group) {
            if (++(*link)->left == (*link)->nranks) {
                gone = *link;
                *link = gone->next;
            }
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!gone)
        return;
    for (uint32_t i = 0; i < gone->nranks; i++)
        weir_device_sync(gone->devices[i]);
    weir_group_destroy(gone->group);
    free(gone);
}

EXPORT HcclResult HcclCommDestroy(HcclComm comm)
{
    struct comm *c = comm_find(comm, true);

    if (!comm)
        return hccl_fail(__func__, HCCL_E_PTR, "comm is NULL");
    if (!c)
        return hccl_fail(__func__, HCCL_E_PARA, "%p is no communicator, or a destroyed one", comm);
    if (c->group) {
        leave_local(c);
    } else {
        pthread_mutex_lock(&c->lock);
        c->stops = true;
        pthread_cond_signal(&c->wake);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    comm_free(c);
    return HCCL_SUCCESS;
}
