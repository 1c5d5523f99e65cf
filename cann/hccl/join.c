/* Joins the ranks of a communicator, which find each other by root information: in shared memory of
 * one host, as threads of one process, or through hosts.c. */
#include "comm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "weir hccl root 2"
#define MEMORY_NAME "weir hccl memory"

/* A communicator whose ranks are all in this process; identified by its root. */
struct local {
    uint64_t id;
    uint32_t nranks, joined, left;
    weir_device *devices[MAX_RANKS];
    weir_group *group;
    weir_status status;
    struct local *next;
};

/* Root information that this process has created, and that not all ranks have used yet. */
struct made {
    struct root root;
    struct made *next;
};

static struct local *locals;
static struct made *mades;
static uint64_t roots;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* ---- root information ---- */

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
    /* Only the header: pairs and slots are added when the number of ranks is known. */
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

HcclResult root_read(const char *function, const HcclRootInfo *info, struct root *root)
{
    memcpy(root, info->internal, sizeof *root);
    root->engine[sizeof root->engine - 1] = root->address[sizeof root->address - 1] = 0;
    root->token[sizeof root->token - 1] = 0;
    if (memcmp(root->magic, MAGIC, sizeof MAGIC))
        return hccl_fail(function, HCCL_E_PARA,
                         "the root information was not made by "
                         "HcclGetRootInfo");
    return HCCL_SUCCESS;
}

/* Frees root information after all ranks have joined. */
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

/* ---- processes of one host ---- */

static HcclResult map(const char *function, const struct root *root, struct comm *c)
{
    char path[64], target[64];
    size_t pairs;
    ssize_t n;

    if (root->pid == getpid()) /* /proc may list this process under another pid */
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
    pairs = (size_t)c->nranks * c->nranks;
    c->slot = c->nranks > MANY_RANKS ? SLOT_OF_MANY : SLOT;
    c->mapped = sizeof(struct shared) + pairs * (sizeof *c->pairs + c->slot);
    if (ftruncate(c->fd, (off_t)c->mapped))
        return hccl_fail(function, HCCL_E_MEMORY, "%zu bytes of shared memory: %s", c->mapped,
                         strerror(errno));
    c->shared = mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
    if (c->shared == MAP_FAILED) {
        c->shared = NULL;
        return hccl_fail(function, HCCL_E_MEMORY, "%zu bytes of shared memory: %s", c->mapped,
                         strerror(errno));
    }
    c->pairs = (void *)(c->shared + 1);
    c->slots = (char *)(c->pairs + pairs);
    return HCCL_SUCCESS;
}

/* Announces this rank and waits for the others. Sets *same if all are in one process, and *apart if
 * some are on another host. */
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
        return hccl_fail(function, HCCL_E_PARA, "rank %u has already joined, as process %u",
                         c->rank, expected);
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

void join_unmap(struct comm *c)
{
    if (c->shared)
        munmap(c->shared, c->mapped);
    if (c->fd >= 0)
        close(c->fd);
    c->shared = NULL;
    c->fd = -1;
}

/* ---- threads of one process ---- */

/* For ranks that are threads of this process: the last to join creates weir's group. */
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

/* The last rank frees the group. Each rank waits only for its own work: other ranks may be in later
 * calls, which this rank has not made yet. */
void join_leave_local(struct comm *c)
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

/* ---- entry point ---- */

HcclResult join_ranks(const char *function, const struct root *root, struct comm *c)
{
    bool same = false, apart = root->engine[0];
    HcclResult r = HCCL_SUCCESS;

    if (!apart && (apart = !hosts_is_here(root)))
        r = hosts_knock(function, root, c);
    else if (!apart && !(r = map(function, root, c)))
        r = gather(function, root, c, &same, &apart);
    if (!r && apart) {
        join_unmap(c);
        r = hosts_join(function, root, c);
    } else if (!r && same) {
        r = join_local(function, root->id, c);
    }
    if (!r)
        forget(root);
    return r;
}
