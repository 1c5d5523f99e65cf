/* Gates, and calls of the CUDA driver that must not overlap with them.
 *
 * Some calls of the driver wait until the GPU is idle: loading and unloading code, and freeing
 * device or pinned memory. Meanwhile other threads wait inside the driver (seen on an H200). A
 * stream at the gate of a collective is not idle before all ranks have arrived, and the thread that
 * then queues their parts needs the driver. The same holds for a gate that waits for a device of
 * another kind. Together that would be a deadlock.
 *
 * Rule: such a call waits here, outside the driver, until no gate of these kinds is in CUDA's
 * queues; no gate is queued before the call has returned.
 *
 * A gate is queued only when something comes after it. By then ranks that are called one after the
 * other have usually all been called. Everything that the commands after the gate need is loaded
 * and allocated before the gate is queued. */
#include "cuda/cuda.h"
#include "cuda/product/product.h"

#include <time.h>

enum { GPUS = 64, NAP_NS = 20000, ASK_EVERY = 50 };

/* Gates for other devices that are in CUDA's queues. */
struct gates {
    struct weir__mutex lock; /* held over calls that need quiet */
    struct {
        const struct weir__cuda_stream *stream;
        uint64_t seq;
    } * shut;
    int n, cap;
};

static struct gates gpus[GPUS]; /* by GPU number: devices on one GPU share an entry */

static struct gates *gates_of(const struct weir__cuda *dev)
{
    return &gpus[(unsigned)dev->gpu.device % GPUS];
}

static bool is_dead(const struct weir__cuda_stream *s)
{
    return atomic_load(&weir__cuda_of(s->base.dev)->faults.dead);
}

/* Removes open gates from the list. True if none is left. */
static bool is_quiet(struct gates *g)
{
    int n = 0;

    for (int i = 0; i < g->n; i++)
        if (atomic_load(&g->shut[i].stream->word->gate) < g->shut[i].seq &&
            !is_dead(g->shut[i].stream))
            g->shut[n++] = g->shut[i];
    g->n = n;
    return !n;
}

weir_status weir__cuda_put_gate(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct gates *g = gates_of(dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = WEIR_OK;

    weir__mutex_lock(&g->lock);
    (void)is_quiet(g);
    if (!weir__grow(&g->shut, g->n, &g->cap, sizeof *g->shut))
        st = WEIR_ENOMEM;
    else
        st = weir__cuda_check(dev,
                              dev->api->cu.stream_wait_value(
                                  s->order.tail, (weir__cu_address)(uintptr_t)&s->word->gate,
                                  s->gate.seq, CU_WAIT_GEQ),
                              "a gate");
    if (!st && s->gate.far) {
        g->shut[g->n].stream = s;
        g->shut[g->n++].seq = s->gate.seq;
    }
    weir__mutex_unlock(&g->lock);
    weir__cuda_leave(dev, pushed);
    return st;
}

/* The nesting depth of quiesce on this thread. */
static _Thread_local int depth;

weir_status weir__cuda_quiesce(struct weir__cuda *dev, const char *what)
{
    struct gates *g = gates_of(dev);
    uint64_t start = weir__clock_ns();
    unsigned naps = 0;
    weir_status st;

    if (depth) {
        depth++;
        return WEIR_OK;
    }
    for (;;) {
        weir__mutex_lock(&g->lock);
        if (is_quiet(g)) {
            depth = 1;
            return WEIR_OK;
        }
        weir__mutex_unlock(&g->lock);
        /* A lost GPU opens no gate; the next call reports it. */
        if ((st = ++naps % ASK_EVERY ? weir__cuda_alive(dev) : weir__cuda_ask(dev)))
            return st;
        if (dev->base.op_timeout_ns >= 0 &&
            weir__clock_ns() - start > (uint64_t)dev->base.op_timeout_ns)
            return weir__fail(
                WEIR_ETIMEDOUT,
                "%s on %s would deadlock: it waits for a stream that is held by a collective whose "
                "ranks have not all arrived, or by a copy that waits for another device. Run each "
                "new operator once before that, or call each rank from its own thread",
                what, dev->base.props.name);
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
}

void weir__cuda_resume(struct weir__cuda *dev)
{
    if (!--depth)
        weir__mutex_unlock(&gates_of(dev)->lock);
}

void weir__cuda_gates_close(struct weir__cuda *dev)
{
    struct gates *g = gates_of(dev);

    weir__mutex_lock(&g->lock);
    if (is_quiet(g)) {
        weir__free(g->shut);
        g->shut = NULL;
        g->cap = 0;
    }
    weir__mutex_unlock(&g->lock);
}

void weir__cuda_free(struct weir__cuda *dev, void *address)
{
    bool quiet = !weir__cuda_quiesce(dev, "memory that is given back");

    dev->api->cu.memory_free((weir__cu_address)(uintptr_t)address);
    if (quiet)
        weir__cuda_resume(dev);
}

void weir__cuda_free_host(struct weir__cuda *dev, void *address)
{
    bool quiet = !weir__cuda_quiesce(dev, "pinned memory that is given back");

    dev->api->cu.host_free(address);
    if (quiet)
        weir__cuda_resume(dev);
}

/* ---- before a gate is queued ---- */

/* The library loads a kernel when it first runs. So runs the product once, unordered, with its
 * result going to temporary memory. */
static weir_status run_early(struct weir__cuda_stream *s, const struct weir__kernel *k,
                             const struct weir__product *x)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct weir__cuda_sink sink = {
        .dev = dev, .cores = k->cores, .workspace = &s->scratch.workspace};
    struct weir__cuda_product *p;
    weir__cu_address into;
    weir_status st = weir__cuda_product_find(dev, x, k->cores, &p);

    if (st == WEIR_EUNSUPPORTED || (!st && p->algorithms[weir__cuda_choice(p, 0)].ran))
        return WEIR_OK;
    if (st || (st = weir__cuda_find_queue(s, k->cores, true, &sink.stream)) ||
        (st = weir__cuda_check(dev, dev->api->cu.memory_alloc(&into, weir__cuda_product_span(x)),
                               k->name)))
        return st;
    sink.into = (char *)(uintptr_t)into;
    st = weir__cuda_issue(&sink, k);
    weir__cuda_free(dev, sink.into);
    return st;
}

weir_status weir__cuda_load(struct weir__cuda_stream *s, const struct weir__kernel *k)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    unsigned phases = k->code && k->code->phases ? k->code->phases : k->phases;
    struct weir__product product;
    weir_status st = WEIR_OK;

    if (!k->fn)
        return WEIR_OK;
    if (k->code->kind == WEIR__CODE_COPY)
        return weir__cuda_copy_ready(s, k->args);
    if (k->code->kind == WEIR__CODE_HOST)
        return weir__cuda_stage_ready(s);
    if (k->code->kind == WEIR__CODE_FILL)
        return WEIR_OK;
    if (k->code->product && k->code->product(k->args, &product) && (st = run_early(s, k, &product)))
        return st;
    for (unsigned phase = 0; phase < phases && !st; phase++) {
        struct weir__code_launch l = weir__cuda_plan_launch(dev, k->cores);
        weir__cu_function function;

        /* It is not known yet whether the launch will have counters: load both variants. */
        for (int counted = 0; counted <= k->code->counts && !st; counted++) {
            l.counters = counted ? WEIR__CODE_COUNTERS : 0;
            k->code->shape(k->args, phase, k->cores, &l);
            if (l.grid)
                st = weir__cuda_find_function(dev, k->code, k->args, &l, &function);
            l.grid = 0;
        }
    }
    return st;
}

/* The shut gate may be the stream's own or of a stream for which it waits, so all are counted. */
weir_status weir__cuda_make_ready(struct weir__cuda_stream *s, const struct weir__kernel *k)
{
    if (weir__likely(
            !atomic_load_explicit(&weir__cuda_of(s->base.dev)->nshut, memory_order_relaxed)))
        return WEIR_OK;
    return weir__cuda_load(s, k);
}
