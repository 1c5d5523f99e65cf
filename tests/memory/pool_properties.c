/* Random programs on up to 8 streams, every step of which the oracle follows. */
#include "helpers.h"

#include <stdlib.h>

#include "oracle.h"

enum { MAX_LIVE = 24, MAX_EVENTS = 6, MAX_NAMED = 3, MAX_GATES = 256 };

struct event {
    weir_event *handle;
    struct oracle_set set;
};

struct program {
    weir_device *dev;
    int nstreams;
    bool gated; /* some commands end only when the program says so, and the host never waits */
    bool poison;
    size_t largest;
    uint64_t random;
    weir_stream *streams[ORACLE_STREAMS];
    struct event events[MAX_EVENTS];
    struct oracle_buffer *live[MAX_LIVE];
    int nlive;
    struct gate gates[MAX_GATES];
    int ngates, nopen;
    struct oracle oracle;
};

/* ---- what the commands do ---- */

struct use {
    struct oracle *oracle;
    unsigned command, spins;
    struct gate *gate;
    int n;
    struct oracle_buffer *buffers[MAX_NAMED];
};

/* First and last word. Atomic, since uses of one buffer may run side by side. */
static void mark(const struct oracle_buffer *b)
{
    atomic_store_explicit((_Atomic uint64_t *)b->address, b->id, memory_order_relaxed);
    atomic_store_explicit((_Atomic uint64_t *)(b->address + b->size - 8), b->id,
                          memory_order_relaxed);
}

static bool is_marked(const struct oracle_buffer *b)
{
    return atomic_load_explicit((_Atomic uint64_t *)b->address, memory_order_relaxed) == b->id &&
           atomic_load_explicit((_Atomic uint64_t *)(b->address + b->size - 8),
                                memory_order_relaxed) == b->id;
}

static weir_status use_kernel(const void *args, const weir_block *block)
{
    const struct use *u = args;

    for (int i = 0; i < u->n; i++) {
        CHECK(oracle_bytes_are_free(u->oracle, u->buffers[i]));
        mark(u->buffers[i]);
    }
    if (u->gate)
        gate_kernel(&u->gate, block);
    for (unsigned i = 0; i < u->spins; i++)
        atomic_signal_fence(memory_order_seq_cst);
    for (int i = 0; i < u->n; i++)
        CHECK(is_marked(u->buffers[i]));
    atomic_store(&u->oracle->over[u->command], true);
    return WEIR_OK;
}

/* ---- steps ---- */

static int any_stream(struct program *p)
{
    return (int)pick(&p->random, (size_t)p->nstreams);
}

/* The bytes that the pool ordered for the stream when it made it wait: the buffer's,
 * and what it cut off behind them. */
static size_t ordered_bytes(struct program *p, int s, const weir_buffer *b)
{
    static weir_block_info rows[4096];
    size_t n = weir_memory_get_blocks(p->dev, rows, sizeof *rows, 4096), i = 0, bytes;

    while (i < n && rows[i].address != (uintptr_t)weir_buffer_data(b))
        i++;
    CHECK_LT(i, n);
    bytes = rows[i].size;
    if (i + 1 < n && rows[i + 1].segment == rows[i].segment &&
        rows[i + 1].state == WEIR_BLOCK_IDLE &&
        rows[i + 1].stream_id == weir_stream_id(p->streams[s]))
        bytes += rows[i + 1].size;
    return bytes;
}

static void step_alloc(struct program *p)
{
    weir_memory_stats before = stats_of(p->dev), after;
    int s = any_stream(p);
    size_t size = 16 + pick(&p->random, pick(&p->random, 4) ? p->largest / 16 : p->largest) / 8 * 8;
    weir_buffer *b;
    weir_status st;

    if (p->nlive == MAX_LIVE)
        return;
    st = weir_buffer_alloc(p->streams[s], size, &b);
    after = stats_of(p->dev);
    if (after.host_syncs > before.host_syncs) {
        CHECK(!p->gated);
        oracle_host_sync(&p->oracle, -1);
    }
    if (st) {
        CHECK_EQ(st, WEIR_EOOM);
        CHECK(!b);
        CHECK_EQ(after.failed, before.failed + 1);
        CHECK_EQ(after.allocated, before.allocated);
        return;
    }
    CHECK_EQ(after.allocations, before.allocations + 1);
    p->live[p->nlive++] = oracle_alloc(
        &p->oracle, b, s, after.device_waits > before.device_waits ? ordered_bytes(p, s, b) : 0);
}

static void wait_stream(struct program *p, int s, int other)
{
    CHECK_OK(weir_stream_wait_stream(p->streams[s], p->streams[other]));
    oracle_unite(&p->oracle.after[s], &p->oracle.after[other]);
}

static struct gate *new_gate(struct program *p)
{
    if (!p->gated || p->ngates - p->nopen == p->nstreams || p->ngates == MAX_GATES ||
        pick(&p->random, 3))
        return NULL;
    return &p->gates[p->ngates++];
}

static void step_use(struct program *p)
{
    int s = any_stream(p);
    struct use u = {.oracle = &p->oracle, .spins = (unsigned)pick(&p->random, 20000)};
    weir_buffer *handles[MAX_NAMED];

    if (!p->nlive || p->oracle.ncommands == ORACLE_COMMANDS)
        return;
    u.n = 1 + (int)pick(&p->random, MAX_NAMED);
    for (int i = 0; i < u.n; i++) {
        struct oracle_buffer *b = p->live[pick(&p->random, (size_t)p->nlive)];

        if (b->nuses == ORACLE_USES - MAX_NAMED)
            return;
        /* The bytes are for the owner first; who else uses them comes after that. With
         * poison the owner may have a fill queued that no set knows of. */
        if (p->poison || !oracle_within(&b->born, &p->oracle.after[s]))
            wait_stream(p, s, b->stream);
        u.buffers[i] = b;
        handles[i] = b->handle;
    }
    u.command = oracle_command(&p->oracle, s);
    u.gate = new_gate(p);
    CHECK_OK(weir_launch_submit(p->streams[s], &(weir_launch){.name = "use",
                                                              .fn = use_kernel,
                                                              .args = &u,
                                                              .args_size = sizeof u,
                                                              .buffers = handles,
                                                              .nbuffers = (size_t)u.n}));
    for (int i = 0; i < u.n; i++)
        oracle_use(&p->oracle, u.buffers[i], u.command);
}

static void free_at(struct program *p, size_t i)
{
    weir_buffer *handle = p->live[i]->handle;

    oracle_free(&p->oracle, p->live[i]);
    weir_buffer_free(handle);
    p->live[i] = p->live[--p->nlive];
}

static void step_event(struct program *p)
{
    struct event *e = &p->events[pick(&p->random, MAX_EVENTS)];
    int s = any_stream(p);

    switch (pick(&p->random, 5)) {
    case 0:
    case 1:
        CHECK_OK(weir_event_record(e->handle, p->streams[s]));
        e->set = p->oracle.after[s];
        break;
    case 2:
    case 3:
        CHECK_OK(weir_stream_wait(p->streams[s], e->handle));
        oracle_unite(&p->oracle.after[s], &e->set);
        break;
    default: /* an event may go while waits for it are queued */
        weir_event_destroy(e->handle);
        CHECK_OK(weir_event_create(p->dev, &(weir_event_options){.timing = s & 1}, &e->handle));
        e->set = (struct oracle_set){0};
    }
}

static void step_host(struct program *p)
{
    int s = any_stream(p);

    if (p->gated) {
        if (p->nopen < p->ngates)
            open_gate(&p->gates[p->nopen++]);
        return;
    }
    CHECK_OK(weir_stream_sync(p->streams[s]));
    oracle_host_sync(&p->oracle, s);
}

/* A new stream may get the place of an old one; it is ordered after nothing. */
static void step_stream(struct program *p)
{
    int s = 1 + (int)pick(&p->random, (size_t)p->nstreams - 1);

    for (int i = 0; i < p->nlive; i++)
        if (p->live[i]->stream == s)
            return;
    CHECK_OK(weir_stream_destroy(p->streams[s]));
    p->streams[s] = new_stream(p->dev, 0);
    p->oracle.after[s] = (struct oracle_set){0};
}

static void step(struct program *p)
{
    size_t r = pick(&p->random, 100);

    if (r < 27)
        step_alloc(p);
    else if (r < 55)
        step_use(p);
    else if (r < 77)
        p->nlive ? free_at(p, pick(&p->random, (size_t)p->nlive)) : (void)0;
    else if (r < 90)
        step_event(p);
    else if (r < 94)
        wait_stream(p, any_stream(p), any_stream(p));
    else if (r < 97)
        step_host(p);
    else if (r < 99)
        CHECK_OK(weir_memory_empty_cache(p->dev));
    else
        step_stream(p);
}

/* ---- programs ---- */

static void finish(struct program *p)
{
    while (p->nopen < p->ngates)
        open_gate(&p->gates[p->nopen++]);
    CHECK_OK(weir_device_sync(p->dev));
    oracle_host_sync(&p->oracle, -1);
    while (p->nlive)
        free_at(p, 0);
    oracle_check_blocks(&p->oracle, p->dev);
    CHECK_EQ(stats_of(p->dev).pending, 0);
    CHECK_OK(weir_device_sync(p->dev)); /* freeing may have queued a fill with poison */
    CHECK_OK(weir_memory_empty_cache(p->dev));
    CHECK_EQ(stats_of(p->dev).reserved, 0);
    CHECK_EQ(stats_of(p->dev).segments, 0);
    for (int i = 0; i < MAX_EVENTS; i++)
        weir_event_destroy(p->events[i].handle);
    CHECK_EQ(stats_of(p->dev).events_live, 0);
    CHECK_OK(weir_device_close(p->dev));
    oracle_fini(&p->oracle);
    free(p);
}

static void run_program(const char *spec, uint64_t seed, bool gated, size_t largest, int steps)
{
    struct program *p = calloc(1, sizeof *p);

    CHECK(p);
    p->dev = open_device(spec);
    p->random = seed * 0x9e3779b97f4a7c15u;
    p->gated = gated;
    p->poison = strstr(spec, "poison=1");
    p->largest = largest;
    p->nstreams = 2 + (int)pick(&p->random, ORACLE_STREAMS - 1);
    p->streams[0] = weir_stream_default(p->dev);
    for (int i = 1; i < p->nstreams; i++)
        p->streams[i] = new_stream(p->dev, 0);
    for (int i = 0; i < MAX_EVENTS; i++)
        CHECK_OK(weir_event_create(p->dev, NULL, &p->events[i].handle));
    for (int i = 0; i < steps; i++) {
        test_note("%s, seed %llu, step %d", spec, (unsigned long long)seed, i);
        step(p);
        oracle_check_blocks(&p->oracle, p->dev);
        CHECK_EQ(stats_of(p->dev).events_live, MAX_EVENTS);
    }
    finish(p);
}

TEST(pool_properties, pool_invariants_hold_while_nothing_completes_by_itself)
{
    for (uint64_t seed = 1; seed <= 60 / TEST_SLOWDOWN; seed++)
        run_program("cpu:cores=12,threads=12", seed, true, 1 << 20, 800);
}

TEST(pool_properties, pool_invariants_hold_while_work_completes_at_random)
{
    for (uint64_t seed = 1; seed <= 40 / TEST_SLOWDOWN; seed++)
        run_program("cpu:cores=4,threads=3,jitter=7", seed, false, 1 << 20, 1200);
}

TEST(pool_properties, pool_invariants_hold_when_memory_is_short)
{
    for (uint64_t seed = 1; seed <= 40 / TEST_SLOWDOWN; seed++)
        run_program("cpu:cores=4,threads=3,memory=2m,jitter=3", seed, false, 1 << 20, 1200);
}

TEST(pool_properties, pool_invariants_hold_in_deterministic_mode)
{
    for (uint64_t seed = 1; seed <= 20 / TEST_SLOWDOWN; seed++)
        run_program("cpu:cores=4,threads=3,memory=2m,deterministic=1,jitter=3", seed, false,
                    1 << 20, 1200);
}

TEST(pool_properties, pool_invariants_hold_with_poison)
{
    for (uint64_t seed = 1; seed <= 20 / TEST_SLOWDOWN; seed++)
        run_program("cpu:cores=4,threads=3,memory=4m,poison=1,jitter=5", seed, false, 1 << 20,
                    1200);
}
