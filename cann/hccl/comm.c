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

#define MAGIC "weir hccl root 2"
#define MEMORY_NAME "weir hccl memory"

/* Communicators whose ranks are all of this process, by their root. */
struct local {
    uint64_t id;
    uint32_t nranks, joined, left;
    weir_device *devices[MAX_RANKS];
    weir_group *group;
    weir_status status;
    struct local *next;
};

/* Root information that this process has made, and that ranks still meet by. */
struct made {
    struct root root;
    struct made *next;
};

static struct comm *comms[1024]; /* a handle is a place here, and a number */
static uint32_t numbers[1024];
static struct local *locals;
static struct made *mades;
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
    struct made *m;

    if (!rootInfo)
        return hccl_fail(__func__, HCCL_E_PTR, "rootInfo is NULL");
    memset(rootInfo, 0, sizeof *rootInfo);
    if (!(m = calloc(1, sizeof *m)))
        return hccl_fail(__func__, HCCL_E_MEMORY, "root information");
    strcpy(m->root.magic, MAGIC);
    m->root.pid = (int32_t)getpid();
    m->root.fd = memfd_create(MEMORY_NAME, MFD_CLOEXEC);
    /* The counters; slots are added once the number of ranks is known. */
    if (m->root.fd < 0 || ftruncate(m->root.fd, sizeof(struct shared))) {
        HcclResult r = hccl_fail(__func__, HCCL_E_MEMORY, "shared memory: %s", strerror(errno));

        if (m->root.fd >= 0)
            close(m->root.fd);
        free(m);
        return r;
    }
    hosts_offer(&m->root);
    pthread_mutex_lock(&lock);
    m->root.id = (uint64_t)m->root.pid << 32 | ++roots;
    m->next = mades;
    mades = m;
    pthread_mutex_unlock(&lock);
    memcpy(rootInfo->internal, &m->root, sizeof m->root);
    return HCCL_SUCCESS;
}

/* All ranks have met: nobody needs it any more. */
static void forget(const struct root *root)
{
    struct made *gone = NULL;

    pthread_mutex_lock(&lock);
    for (struct made **link = &mades; *link && !gone; link = &(*link)->next)
        if ((*link)->root.id == root->id && root->pid == getpid()) {
            gone = *link;
            *link = gone->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!gone)
        return;
    hosts_close(&gone->root);
    close(gone->root.fd);
    free(gone);
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

    if (root->pid == getpid()) /* whatever /proc calls this process */
        snprintf(path, sizeof path, "/proc/self/fd/%d", root->fd);
    else
        snprintf(path, sizeof path, "/proc/%d/fd/%d", root->pid, root->fd);
    n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    if (!strstr(target, MEMORY_NAME))
        return hccl_fail(function, HCCL_E_PARA,
                         "the root information names process %d, which has ended", root->pid);
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

/* Says that this rank is here, and waits for the others. *same: all are of one process; *apart:
 * some are of another host. */
static HcclResult gather(const char *function, const struct root *root, struct comm *c, bool *same,
                         bool *apart)
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

        if (root->pid == getpid())
            hosts_answer(root, c->shared);
        *same = true;
        *apart = false;
        n = snprintf(missing, sizeof missing, "after %lld s these ranks are missing:",
                     (long long)(seconds_of("HCCL_CONNECT_TIMEOUT", 120) / 1000000000));
        for (uint32_t i = 0; i < c->nranks; i++) {
            uint32_t pid = atomic_load(&c->shared->joined[i]);

            all &= pid != 0;
            *same &= pid == (uint32_t)getpid();
            *apart |= pid == ELSEWHERE;
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

static void unmap(struct comm *c)
{
    if (c->shared)
        munmap(c->shared, c->mapped);
    if (c->fd >= 0)
        close(c->fd);
    c->shared = NULL;
    c->fd = -1;
}

static void comm_free(struct comm *c)
{
    unmap(c);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Ranks of one host meet in memory; with one from elsewhere, or if the root was told an engine,
 * they all meet by weir_group_join. */
static HcclResult meet(const char *function, const struct root *root, struct comm *c)
{
    bool same = false, apart = root->engine[0];
    HcclResult r = HCCL_SUCCESS;

    if (!apart && (apart = !hosts_is_here(root)))
        r = hosts_knock(function, root, c);
    else if (!apart && !(r = map(function, root, c)))
        r = gather(function, root, c, &same, &apart);
    if (!r && apart) {
        unmap(c);
        r = hosts_join(function, root, c);
    } else if (!r && same) {
        r = join_local(function, root->id, c);
    }
    return r;
}

static struct comm *comm_new(const char *function, uint32_t nranks, uint32_t rank, uint64_t id)
{
    struct comm *c = calloc(1, sizeof *c);

    if (!c) {
        hccl_fail(function, HCCL_E_MEMORY, "a communicator");
        return NULL;
    }
    c->rank = rank;
    c->nranks = nranks;
    c->fd = -1;
    c->last = &c->first;
    c->timeout_ns = seconds_of("HCCL_EXEC_TIMEOUT", 1836);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    snprintf(c->name, sizeof c->name, "weir_%llx", (unsigned long long)id);
    return c;
}

/* Frees what has failed. */
static HcclResult finish(const char *function, struct comm *c, HcclResult r, HcclComm *out)
{
    int e;

    if (!r && !c->group && (e = pthread_create(&c->thread, NULL, engine_run, c)))
        r = hccl_fail(function, HCCL_E_INTERNAL, "a thread: %s", strerror(e));
    if (r) {
        comm_free(c);
        return r;
    }
    if ((*out = handle_new(c)))
        return HCCL_SUCCESS;
    return hccl_fail(function, HCCL_E_MEMORY, "more than 1024 communicators");
}

static HcclResult init(const char *function, uint32_t nranks, const HcclRootInfo *info,
                       uint32_t rank, HcclComm *out)
{
    struct root root;
    struct comm *c;
    HcclResult r;

    if (!info || !out)
        return hccl_fail(function, HCCL_E_PTR, "%s is NULL", info ? "comm" : "rootInfo");
    *out = NULL;
    memcpy(&root, info->internal, sizeof root);
    root.engine[sizeof root.engine - 1] = root.address[sizeof root.address - 1] = 0;
    root.token[sizeof root.token - 1] = 0;
    if (memcmp(root.magic, MAGIC, sizeof MAGIC))
        return hccl_fail(function, HCCL_E_PARA,
                         "the root information was not made by "
                         "HcclGetRootInfo");
    if (!nranks || nranks > MAX_RANKS || rank >= nranks)
        return hccl_fail(function, HCCL_E_PARA, "rank %u of %u: there may be 1..%d", rank, nranks,
                         MAX_RANKS);
    if (!(c = comm_new(function, nranks, rank, root.id)))
        return HCCL_E_MEMORY;
    if (!(r = meet(function, &root, c)))
        forget(&root);
    return finish(function, c, r, out);
}

HcclResult comm_split(const char *function, struct comm *of, uint64_t id, uint32_t nranks,
                      const uint32_t *ids, uint32_t rank, HcclComm *out)
{
    struct comm *c = comm_new(function, nranks, rank, id);
    int ranks[MAX_RANKS];
    HcclResult r = HCCL_SUCCESS;

    if (!c)
        return HCCL_E_MEMORY;
    for (uint32_t i = 0; i < nranks; i++)
        ranks[i] = (int)ids[i];
    snprintf(c->name, sizeof c->name, "%.90s_%llx", of->name, (unsigned long long)id);
    c->device = of->device;
    if (weir_group_split(
            of->group, ranks, (int)nranks,
            &(weir_group_options){.size = sizeof(weir_group_options), .timeout_ns = of->timeout_ns},
            &c->group))
        r = hccl_fail(function, HCCL_E_NETWORK, "%s", weir_last_error());
    return finish(function, c, r, out);
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

/* The last rank takes the group along. Each waits for its own work only: the others may be in later
 * calls that this one has still to make. */
static void leave_local(struct comm *c)
{
    struct local *gone = NULL;

    weir_device_sync(weir_rank_device(weir_group_rank(c->group, (int)c->rank)));
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
    if (c->device) {
        weir_device_sync(c->device);
        weir_group_destroy(c->group);
    } else if (c->group) {
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
