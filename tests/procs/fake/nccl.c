/* An NCCL that is none, for the GPU that is none: ranks of one host meet in shared memory, where a
 * function of the host, queued on the stream, does what NCCL's kernel would. As NCCL's, calls of a
 * communicator must come in one order, and a GPU is for one rank: FAKE_NCCL_ONE_GPU=1 refuses the
 * second as the real one does. FAKE_NCCL_FAIL=N makes the N-th call an asynchronous error;
 * FAKE_NCCL_CTAS=N refuses communicators that do not ask for at most N; FAKE_NCCL_DIES=R kills rank
 * R while it makes one. Like NCCL's, communicators that do not block take their time over
 * everything. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/procs/nccl/api.h"

#define EXPORT __attribute__((visibility("default")))
enum { RANKS = 8, SLOT = 4 << 20, UNHANDLED = 1, INVALID_USAGE = 5, IN_PROGRESS = 7, ASKED = 3 };

/* What ranks of a communicator share. */
struct rendezvous {
    _Atomic int users;
    _Atomic uint64_t arrived[2]; /* alternating barriers */
    _Atomic int aborted;
    struct {
        uint64_t call; /* which it is at, to see that the order is one */
        uint64_t n;
        int type;
        char what[16];
    } at[RANKS];
    unsigned char slots[RANKS][SLOT];
};

struct comm {
    struct rendezvous *m;
    int ranks, rank, fd;
    uint64_t barriers, calls;
    uint64_t whole;         /* calls of all ranks that have run */
    _Atomic(void *) issued; /* calls, linked: graphs run them more than once */
    _Atomic int error;
    bool blocks;
    _Atomic int busy;  /* so often it still says that it is in progress */
    struct comm *next; /* of those that were aborted */
};
static _Atomic(struct comm *) aborted; /* calls under way still look at them */

struct call {
    void *next; /* of its communicator's, first of all */
    struct comm *comm;
    char what[16];
    const void *in;
    void *out;
    size_t n; /* elements */
    int type, reduce, root;
};

static _Atomic int issued; /* calls of this process; those that a graph has count once */
static __thread int depth; /* of groups */
static __thread struct call pending[2 * RANKS];
static __thread int npending;
static __thread void *pending_stream;

static size_t size_of(int type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return sizes[type];
}

/* False if the communicator was aborted. */
static bool barrier(struct comm *c)
{
    uint64_t turn = c->barriers++ / 2 + 1;
    _Atomic uint64_t *at = &c->m->arrived[(c->barriers - 1) % 2];

    atomic_fetch_add(at, 1);
    while (atomic_load(at) < turn * (uint64_t)c->ranks)
        if (atomic_load(&c->m->aborted))
            return false;
        else
            sched_yield();
    return true;
}

static double load(const void *p, int type, size_t i)
{
    switch (type) {
    case WEIR__NCCL_F32:
        return ((const float *)p)[i];
    case WEIR__NCCL_F64:
        return ((const double *)p)[i];
    case WEIR__NCCL_I32:
        return ((const int *)p)[i];
    case WEIR__NCCL_I64:
        return (double)((const long *)p)[i];
    case WEIR__NCCL_U8:
        return ((const unsigned char *)p)[i];
    default:
        return ((const signed char *)p)[i];
    }
}

static void store(void *p, int type, size_t i, double v)
{
    switch (type) {
    case WEIR__NCCL_F32:
        ((float *)p)[i] = (float)v;
        break;
    case WEIR__NCCL_F64:
        ((double *)p)[i] = v;
        break;
    case WEIR__NCCL_I32:
        ((int *)p)[i] = (int)v;
        break;
    case WEIR__NCCL_I64:
        ((long *)p)[i] = (long)v;
        break;
    default:
        ((signed char *)p)[i] = (signed char)(long)v;
    }
}

static double combine(int reduce, double a, double b)
{
    switch (reduce) {
    case 1:
        return a * b;
    case 2:
        return a > b ? a : b;
    case 3:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

/* The last rank first: nobody may count on an order of sums. */
static void reduce_slots(const struct call *k, size_t from, size_t n)
{
    const struct comm *c = k->comm;

    for (size_t i = 0; i < n; i++) {
        double v = load(c->m->slots[c->ranks - 1], k->type, from + i);

        for (int r = c->ranks - 2; r >= 0; r--)
            v = combine(k->reduce, v, load(c->m->slots[r], k->type, from + i));
        store(k->out, k->type, i, k->reduce == 4 ? v / c->ranks : v);
    }
}

static void misuse(const struct call *k, const char *what)
{
    fprintf(stderr, "fake NCCL: %s of rank %d: %s\n", k->what, k->comm->rank, what);
    abort();
}

static void finish(const struct call *k)
{
    const struct comm *c = k->comm;
    size_t bytes = k->n * size_of(k->type);

    if (!strcmp(k->what, "all_reduce"))
        reduce_slots(k, 0, k->n);
    else if (!strcmp(k->what, "reduce_scatter"))
        reduce_slots(k, k->n * (size_t)c->rank, k->n);
    else if (!strcmp(k->what, "all_gather"))
        for (int r = 0; r < c->ranks; r++)
            memcpy((char *)k->out + (size_t)r * bytes, c->m->slots[r], bytes);
    else
        memcpy(k->out, c->m->slots[k->root], bytes);
}

static void run_call(void *user)
{
    struct call *k = user;
    struct comm *c = k->comm;
    size_t bytes =
        k->n * size_of(k->type) * (strcmp(k->what, "reduce_scatter") ? 1 : (size_t)c->ranks);

    if (bytes > SLOT)
        misuse(k, "it is too large");
    memcpy(c->m->slots[c->rank], k->in, bytes);
    c->m->at[c->rank].call = ++c->whole;
    c->m->at[c->rank].n = k->n;
    c->m->at[c->rank].type = k->type;
    snprintf(c->m->at[c->rank].what, sizeof c->m->at[0].what, "%s", k->what);
    if (barrier(c)) {
        for (int r = 0; r < c->ranks; r++)
            if ((c->m->at[r].call != c->whole || c->m->at[r].n != k->n ||
                 c->m->at[r].type != k->type || strcmp(c->m->at[r].what, k->what)) &&
                !atomic_load(&c->m->aborted)) /* then the others have gone on */
                misuse(k, "another rank is at another call");
        finish(k);
        barrier(c);
    }
}

/* Sends and receives of one group at once: a slot has the sizes for each peer, then the bytes. */
struct batch {
    void *next; /* as a call's */
    struct comm *comm;
    int n;
    struct call calls[2 * RANKS];
};

static void run_batch(void *user)
{
    struct batch *b = user;
    struct comm *c = b->comm;
    unsigned char *slot = c->m->slots[c->rank];
    uint64_t at[RANKS + 1] = {0}, end = sizeof at;

    for (int peer = 0; peer < c->ranks; peer++) {
        at[peer] = end;
        for (int i = 0; i < b->n; i++)
            if (!strcmp(b->calls[i].what, "send") && b->calls[i].root == peer) {
                memcpy(slot + end, b->calls[i].in, b->calls[i].n);
                end += b->calls[i].n;
            }
    }
    memcpy(slot, at, sizeof at);
    if (barrier(c)) {
        for (int i = 0; i < b->n; i++)
            if (!strcmp(b->calls[i].what, "recv")) {
                const unsigned char *from = c->m->slots[b->calls[i].root];

                memcpy(at, from, sizeof at);
                memcpy(b->calls[i].out, from + at[c->rank], b->calls[i].n);
            }
        barrier(c);
    }
}

static int queue(void *stream, void (*fn)(void *), void *user)
{
    static int (*launch)(void *, void (*)(void *), void *);

    if (!launch) {
        void *cuda = dlopen(getenv("WEIR_LIBCUDA"), RTLD_NOW | RTLD_NOLOAD);
        void *found = cuda ? dlsym(cuda, "cuLaunchHostFunc") : NULL;

        memcpy(&launch, &found, sizeof launch);
    }
    return launch && !launch(stream, fn, user) ? 0 : UNHANDLED;
}

static void keep(struct comm *c, void *call)
{
    void **next = call;

    *next = atomic_load(&c->issued);
    while (!atomic_compare_exchange_weak(&c->issued, next, call))
        ;
}

/* What a call says that has been queued. */
static int said(struct comm *c, int code)
{
    if (code || c->blocks)
        return code;
    atomic_store(&c->busy, ASKED);
    return IN_PROGRESS;
}

static int end_group(void)
{
    struct batch *b;

    if (!npending)
        return 0;
    b = calloc(1, sizeof *b);
    b->comm = pending[0].comm;
    b->n = npending;
    memcpy(b->calls, pending, (size_t)npending * sizeof *pending);
    npending = 0;
    keep(b->comm, b);
    return said(pending[0].comm, queue(pending_stream, run_batch, b));
}

static int call(const struct call *draft, void *stream)
{
    const char *fail = getenv("FAKE_NCCL_FAIL");
    struct comm *c = draft->comm;
    struct call *k;

    if (fail && c->calls + 1 == strtoull(fail, NULL, 10))
        atomic_store(&c->error, UNHANDLED);
    c->calls++;
    atomic_fetch_add(&issued, 1);
    if (!strcmp(draft->what, "send") || !strcmp(draft->what, "recv")) {
        pending[npending++] = *draft;
        pending_stream = stream;
        return depth ? 0 : end_group();
    }
    k = malloc(sizeof *k);
    *k = *draft;
    keep(c, k);
    return said(c, queue(stream, run_call, k));
}

/* ---- what weir calls ---- */

#define DECLARE(symbol, name, args) EXPORT int symbol args;
WEIR__NCCL_SYMBOLS(DECLARE)
#undef DECLARE
EXPORT const char *ncclGetErrorString(int code);
EXPORT int ncclCommFinalize(void *comm);
EXPORT int fake_nccl_issued(void);

int fake_nccl_issued(void)
{
    return atomic_load(&issued);
}

const char *ncclGetErrorString(int code)
{
    return code == INVALID_USAGE ? "invalid usage" : "unhandled system error";
}
int ncclGetVersion(int *version)
{
    *version = 22809;
    return 0;
}

/* pid, file, and that it is one. */
int ncclGetUniqueId(struct weir__nccl_id *id)
{
    int fd = memfd_create("fake NCCL", MFD_CLOEXEC);

    memset(id, 0, sizeof *id);
    if (fd < 0 || ftruncate(fd, sizeof(struct rendezvous)))
        return UNHANDLED;
    snprintf(id->bytes, sizeof id->bytes, "/proc/%d/fd/%d", (int)getpid(), fd);
    return 0;
}

int ncclCommInitRankConfig(void **out, int ranks, struct weir__nccl_id id, int rank,
                           struct weir__nccl_config *config)
{
    const char *ctas = getenv("FAKE_NCCL_CTAS"), *dies = getenv("FAKE_NCCL_DIES");
    struct comm *c;

    if (config->magic != WEIR__NCCL_MAGIC || config->size != sizeof *config || ranks > RANKS ||
        rank < 0 || rank >= ranks)
        return INVALID_USAGE;
    if (getenv("FAKE_NCCL_ONE_GPU") && ranks > 1)
        return INVALID_USAGE;
    if (ctas && (config->min_ctas != 1 || config->max_ctas != atoi(ctas)))
        return INVALID_USAGE;
    c = calloc(1, sizeof *c);
    c->fd = open(id.bytes, O_RDWR | O_CLOEXEC);
    c->m = c->fd < 0 ? MAP_FAILED
                     : mmap(NULL, sizeof *c->m, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
    if (c->m == MAP_FAILED) {
        free(c);
        return UNHANDLED;
    }
    c->ranks = ranks;
    c->rank = rank;
    if (dies && rank == atoi(dies))
        kill(getpid(), SIGKILL);
    c->blocks = config->blocking;
    atomic_fetch_add(&c->m->users, 1);
    *out = c;
    if (!c->blocks)
        return IN_PROGRESS;
    while (atomic_load(&c->m->users) < ranks)
        sched_yield();
    return 0;
}

int ncclCommFinalize(void *comm)
{
    return said(comm, 0);
}
int ncclCommDestroy(void *comm)
{
    struct comm *c = comm;

    for (void *k = atomic_load(&c->issued), *next; k; k = next) {
        memcpy(&next, k, sizeof next);
        free(k);
    }
    munmap(c->m, sizeof *c->m);
    close(c->fd);
    free(c);
    return 0;
}
int ncclCommAbort(void *comm)
{
    struct comm *c = comm;

    atomic_store(&c->m->aborted, 1);
    c->next = atomic_load(&aborted);
    while (!atomic_compare_exchange_weak(&aborted, &c->next, c))
        ;
    return 0;
}
int ncclCommGetAsyncError(void *comm, int *code)
{
    struct comm *c = comm;

    *code = atomic_load(&c->error);
    if (!*code && (atomic_load(&c->m->users) < c->ranks || atomic_load(&c->busy) > 0))
        *code = IN_PROGRESS;
    if (atomic_load(&c->busy) > 0)
        atomic_fetch_sub(&c->busy, 1);
    return 0;
}
int ncclAllReduce(const void *in, void *out, size_t n, int type, int reduce, void *comm,
                  void *stream)
{
    return call(&(struct call){NULL, comm, "all_reduce", in, out, n, type, reduce, 0}, stream);
}
int ncclReduceScatter(const void *in, void *out, size_t n, int type, int reduce, void *comm,
                      void *stream)
{
    return call(&(struct call){NULL, comm, "reduce_scatter", in, out, n, type, reduce, 0}, stream);
}
int ncclAllGather(const void *in, void *out, size_t n, int type, void *comm, void *stream)
{
    return call(&(struct call){NULL, comm, "all_gather", in, out, n, type, 0, 0}, stream);
}
int ncclBroadcast(const void *in, void *out, size_t n, int type, int root, void *comm, void *stream)
{
    return call(&(struct call){NULL, comm, "broadcast", in, out, n, type, 0, root}, stream);
}
int ncclSend(const void *in, size_t n, int type, int peer, void *comm, void *stream)
{
    return call(&(struct call){NULL, comm, "send", in, NULL, n, type, 0, peer}, stream);
}
int ncclRecv(void *out, size_t n, int type, int peer, void *comm, void *stream)
{
    return call(&(struct call){NULL, comm, "recv", NULL, out, n, type, 0, peer}, stream);
}
int ncclGroupStart(void)
{
    depth++;
    return 0;
}
int ncclGroupEnd(void)
{
    return --depth ? 0 : end_group();
}
