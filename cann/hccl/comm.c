/* Communicators: their handles, their creation and destruction. */
#include "comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COMMS = 4096 };
static struct comm *comms[MOST_COMMS]; /* a handle encodes an index here and a generation */
static uint32_t numbers[MOST_COMMS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

/* For libopapi, whose operators get a communicator's name. If ranks are threads of one process,
 * several communicators have the same name, so the rank is needed as well. */
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
        return hccl_fail(function, HCCL_E_PARA, "%p is not a communicator, or a destroyed one",
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

/* ---- creation ---- */

int64_t seconds_of(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    long value = text ? strtol(text, NULL, 10) : 0;

    return (value > 0 ? value : otherwise) * 1000000000;
}

static void comm_free(struct comm *c)
{
    join_unmap(c);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c);
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

/* Makes the handle, or frees the communicator if `r` is an error. */
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
    return hccl_fail(function, HCCL_E_MEMORY, "more than %d communicators", MOST_COMMS);
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
    if ((r = root_read(function, info, &root)))
        return r;
    if (!nranks || nranks > MAX_RANKS || rank >= nranks)
        return hccl_fail(function, HCCL_E_PARA, "rank %u of %u: there may be 1..%d", rank, nranks,
                         MAX_RANKS);
    if (!(c = comm_new(function, nranks, rank, root.id)))
        return HCCL_E_MEMORY;
    r = join_ranks(function, &root, c);
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
    (void)config; /* sizes of buffers and similar settings: not used */
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

EXPORT HcclResult HcclCommDestroy(HcclComm comm)
{
    struct comm *c = comm_find(comm, true);

    if (!comm)
        return hccl_fail(__func__, HCCL_E_PTR, "comm is NULL");
    if (!c)
        return hccl_fail(__func__, HCCL_E_PARA, "%p is not a communicator, or a destroyed one",
                         comm);
    if (c->device) {
        weir_device_sync(c->device);
        weir_group_destroy(c->group);
    } else if (c->group) {
        join_leave_local(c);
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
