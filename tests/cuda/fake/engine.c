/* Streams, and the thread that runs what is queued. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

static struct fake_stream *streams; /* of all contexts */
static bool started, held;
static _Thread_local bool is_engine;

bool fake_is_engine(void)
{
    return is_engine;
}

static _Atomic int64_t skipped_ms;

double fake_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec * 1000 + skipped_ms) + (double)t.tv_nsec / 1e6;
}

void fake_skip_ms(int ms)
{
    skipped_ms += ms;
}

unsigned fake_random(void)
{
    static _Atomic uint64_t state = 0x9e3779b97f4a7c15;
    uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (unsigned)(x >> 33);
}

/* ---- commands ---- */

void fake_free_op(struct fake_op *op)
{
    if (op->sharers-- > 0)
        return;
    switch (op->kind) {
    case FAKE_OP_KERNEL:
        free(op->u.kernel.params[0]);
        break;
    case FAKE_OP_PRODUCT:
        free(op->u.product);
        break;
    case FAKE_OP_RECORD:
    case FAKE_OP_WAIT:
        fake_put_point(op->u.mark.point);
        break;
    case FAKE_OP_GRAPH:
        fake_put_run(&op->u.graph);
        break;
    default:
        break;
    }
    free(op);
}

/* Kernels and copies of a lost GPU are over: nobody frees memory that one still uses. */
static _Atomic bool works;

static bool is_work(const struct fake_op *op)
{
    return op->kind == FAKE_OP_KERNEL || op->kind == FAKE_OP_COPY || op->kind == FAKE_OP_FILL ||
           op->kind == FAKE_OP_PRODUCT;
}

/* Under the lock, by whoever has said that the GPU is lost. */
static void await_work(void)
{
    while (!is_engine && atomic_load(&works)) {
        pthread_mutex_unlock(&fake_lock);
        sched_yield();
        pthread_mutex_lock(&fake_lock);
    }
}

void fake_run_op(struct fake_op *op)
{
    int code = 0;

    atomic_store(&works, is_work(op));
    if (is_work(op) && atomic_load(&fake_lost)) { /* since it was taken */
        atomic_store(&works, false);
        return;
    }
    switch (op->kind) {
    case FAKE_OP_KERNEL:
        code = fake_run_kernel(op);
        break;
    case FAKE_OP_COPY:
        memcpy(op->u.bytes.to, op->u.bytes.from, op->u.bytes.size);
        break;
    case FAKE_OP_FILL:
        memset(op->u.bytes.to, op->u.bytes.value, op->u.bytes.size);
        break;
    case FAKE_OP_HOST:
        op->u.host.fn(op->u.host.user);
        break;
    case FAKE_OP_PRODUCT:
        fake_run_product(op->u.product);
        break;
    case FAKE_OP_WRITE:
        atomic_store(op->u.word.address, op->u.word.value);
        break;
    case FAKE_OP_GRAPH:
        fake_run_graph(&op->u.graph);
        break;
    case FAKE_OP_RECORD:
    case FAKE_OP_WAIT:
    case FAKE_OP_WAIT_VALUE:
        break;
    }
    atomic_store(&works, false);
    if (code) {
        pthread_mutex_lock(&fake_lock);
        fake_lose(code);
        pthread_mutex_unlock(&fake_lock);
    }
}

/* ---- the thread; under the lock ---- */

static bool is_due(const struct fake_op *op, bool *polls)
{
    if (op->kind == FAKE_OP_WAIT)
        return op->u.mark.point->over;
    if (op->kind == FAKE_OP_WAIT_VALUE) {
        bool due = atomic_load(op->u.word.address) >= op->u.word.value;

        *polls |= !due;
        return due;
    }
    return true;
}

/* Some stream whose next command can run, any of them. */
static struct fake_stream *choose(bool *polls)
{
    struct fake_stream *chosen = NULL;
    unsigned n = 0;

    for (struct fake_stream *s = streams; s; s = s->next)
        if (s->ops && (!held || s == s->context->default_stream) && is_due(s->ops, polls) &&
            fake_random() % ++n == 0)
            chosen = s;
    return chosen;
}

static void free_stream(struct fake_stream *s)
{
    for (struct fake_stream **at = &streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    free(s->before.nodes);
    free(s);
}

static void take_next(struct fake_stream *s)
{
    struct fake_op *op = s->ops;

    if (!(s->ops = op->next))
        s->end = &s->ops;
    s->running = true;
    pthread_mutex_unlock(&fake_lock);
    fake_run_op(op);
    pthread_mutex_lock(&fake_lock);
    s->running = false;
    if (op->kind == FAKE_OP_RECORD)
        fake_pass_point(op->u.mark.point);
    fake_free_op(op);
    if (s->destroyed && !s->ops)
        free_stream(s);
    pthread_cond_broadcast(&fake_changed);
}

static void *run_streams(void *unused)
{
    is_engine = true;
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        bool polls = false;
        struct fake_stream *s = choose(&polls);

        if (s) {
            take_next(s);
        } else if (polls) {
            pthread_mutex_unlock(&fake_lock);
            nanosleep(&(struct timespec){0, 20000}, NULL);
            pthread_mutex_lock(&fake_lock);
        } else {
            pthread_cond_wait(&fake_changed, &fake_lock);
        }
    }
    return unused;
}

static void start(void)
{
    pthread_t thread;

    if (started)
        return;
    if (pthread_create(&thread, NULL, run_streams, NULL))
        abort();
    pthread_detach(thread);
    started = true;
}

void fake_lose(int code)
{
    atomic_store(&fake_lost, code);
    await_work();
    for (struct fake_stream *s = streams, *next; s; s = next) {
        next = s->next;
        while (s->ops) {
            struct fake_op *op = s->ops;

            s->ops = op->next;
            fake_free_op(op);
        }
        s->end = &s->ops;
        if (s->destroyed && !s->running)
            free_stream(s);
    }
    pthread_cond_broadcast(&fake_changed);
}

void fake_hold(bool hold)
{
    pthread_mutex_lock(&fake_lock);
    held = hold;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
}

int fake_queue(struct fake_stream *s, const struct fake_op *draft)
{
    struct fake_op *op = malloc(sizeof *op);
    int lost = atomic_load(&fake_lost);

    if (!op)
        abort();
    *op = *draft;
    op->next = NULL;
    if (lost) { /* since the call began */
        fake_free_op(op);
        return lost;
    }
    if (s->capture)
        return fake_capture_op(s, op);
    *s->end = op;
    s->end = &op->next;
    start();
    pthread_cond_broadcast(&fake_changed);
    return 0;
}

/* ---- streams ---- */

struct fake_stream *fake_new_stream(const struct fake_cores *cores)
{
    static const struct fake_cores all = {.runs = {{0, FAKE_CORES}}, .nruns = 1};
    struct fake_stream *s = fake_new(FAKE_STREAM, sizeof *s);

    s->context = fake_current();
    s->end = &s->ops;
    s->cores = cores ? *cores : all;
    s->next = streams;
    streams = s;
    return s;
}

/* A context's own stream is as old as the process. */
struct fake_stream *fake_stream(weir__cu_stream handle)
{
    struct fake_context *current = fake_current();
    struct fake_stream *s;

    if (handle) {
        s = fake_check(handle, FAKE_STREAM);
        if (s->context != current)
            fake_misuse("a stream of another context than the current one is used");
        return s;
    }
    if (!current->default_stream) {
        current->default_stream = fake_new_stream(NULL);
        fake_count(FAKE_STREAM, -1);
    }
    return current->default_stream;
}

struct fake_stream *fake_any_stream(weir__cu_stream handle)
{
    return handle ? fake_check(handle, FAKE_STREAM) : fake_stream(NULL);
}

int cuStreamCreateWithPriority(weir__cu_stream *stream, unsigned flags, int priority)
{
    (void)flags;
    FAKE_CALL_IN_CONTEXT();
    if (priority < -5 || priority > 0)
        return FAKE_INVALID;
    pthread_mutex_lock(&fake_lock);
    *stream = fake_new_stream(NULL);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

int cuStreamDestroy_v2(weir__cu_stream stream)
{
    int code = fake_enter_context(__func__);
    struct fake_stream *s;

    pthread_mutex_lock(&fake_lock);
    s = fake_check(stream, FAKE_STREAM);
    fake_forget(s);
    s->destroyed = true;
    if (!s->ops && !s->running)
        free_stream(s);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int cuStreamQuery(weir__cu_stream stream)
{
    struct fake_stream *s;
    int code;

    FAKE_CALL_IN_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    s = fake_stream(stream);
    code = s->ops || s->running ? FAKE_NOT_READY : 0;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static bool is_idle(const struct fake_context *context)
{
    for (struct fake_stream *s = streams; s; s = s->next)
        if (s->context == context && (s->ops || s->running))
            return false;
    return true;
}

void fake_await_idle(void)
{
    pthread_mutex_lock(&fake_lock);
    while (!atomic_load(&fake_lost) && !held && !is_idle(fake_current()))
        pthread_cond_wait(&fake_changed, &fake_lock);
    pthread_mutex_unlock(&fake_lock);
}

int cuCtxSynchronize(void)
{
    FAKE_CALL_IN_CONTEXT();
    fake_await_idle();
    return atomic_load(&fake_lost);
}

static int queue(weir__cu_stream stream, const struct fake_op *op)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    code = fake_queue(fake_stream(stream), op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int cuMemcpyAsync(weir__cu_address to, weir__cu_address from, size_t size, weir__cu_stream stream)
{
    struct fake_op op = {.kind = FAKE_OP_COPY};

    FAKE_CALL_IN_CONTEXT();
    fake_check_reach(to);
    fake_check_reach(from);
    op.u.bytes.to = (void *)(uintptr_t)to;
    op.u.bytes.from = (const void *)(uintptr_t)from;
    op.u.bytes.size = size;
    return queue(stream, &op);
}

int cuMemsetD8Async(weir__cu_address to, unsigned char value, size_t size, weir__cu_stream stream)
{
    struct fake_op op = {.kind = FAKE_OP_FILL};

    FAKE_CALL_IN_CONTEXT();
    op.u.bytes.to = (void *)(uintptr_t)to;
    op.u.bytes.size = size;
    op.u.bytes.value = value;
    return queue(stream, &op);
}

int cuLaunchHostFunc(weir__cu_stream stream, weir__cu_host_fn fn, void *user)
{
    struct fake_op op = {.kind = FAKE_OP_HOST};

    FAKE_CALL_IN_CONTEXT();
    op.u.host.fn = fn;
    op.u.host.user = user;
    return queue(stream, &op);
}

int cuStreamWriteValue64_v2(weir__cu_stream stream, weir__cu_address to, uint64_t value,
                            unsigned flags)
{
    struct fake_op op = {.kind = FAKE_OP_WRITE};

    (void)flags;
    FAKE_CALL_IN_CONTEXT();
    op.u.word.address = (_Atomic uint64_t *)(uintptr_t)to;
    op.u.word.value = value;
    return queue(stream, &op);
}

int cuStreamWaitValue64_v2(weir__cu_stream stream, weir__cu_address of, uint64_t value,
                           unsigned flags)
{
    struct fake_op op = {.kind = FAKE_OP_WAIT_VALUE};

    FAKE_CALL_IN_CONTEXT();
    if (flags != CU_WAIT_GEQ)
        return FAKE_INVALID;
    op.u.word.address = (_Atomic uint64_t *)(uintptr_t)of;
    op.u.word.value = value;
    return queue(stream, &op);
}

struct fake_capture *fake_find_capture(uint64_t number)
{
    for (struct fake_stream *s = streams; s; s = s->next)
        if (s->capture && s->capture->number == number)
            return s->capture;
    return NULL;
}

void fake_leave_capture(const struct fake_capture *capture)
{
    for (struct fake_stream *s = streams; s; s = s->next)
        if (s->capture == capture) {
            s->capture = NULL;
            free(s->before.nodes);
            s->before = (struct fake_set){NULL, 0};
        }
}
