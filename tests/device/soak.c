/* Many streams, more workers than the machine has CPUs, and several threads that queue.
 *
 * WEIR_SOAK is how many operators the last case takes: 10000000 for the long one. */
#include "soak.h"
#include "per_stream.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct step {
    struct line *line;
    uint64_t number;
    struct line *other; /* which has got to `reached`, by a wait; NULL: none */
    uint64_t reached;
    uint32_t spins;
};

static uint64_t mix(uint64_t value, uint64_t number)
{
    return (value ^ number) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static weir_status run_step(const void *args, const weir_block *block)
{
    const struct step *s = args;

    (void)block;
    if (s->line->next != s->number || (s->other && atomic_load(&s->other->over) < s->reached))
        atomic_fetch_add(&s->line->wrong, 1);
    for (volatile uint32_t i = 0; i < s->spins; i++)
        continue;
    s->line->next = s->number + 1;
    s->line->value = mix(s->line->value, s->number);
    atomic_store(&s->line->over, s->number + 1);
    return WEIR_OK;
}

static weir_status count_block(const void *args, const weir_block *block)
{
    struct line *line = *(struct line *const *)args;

    (void)block;
    for (volatile uint32_t i = 0; i < 300; i++) /* long enough for others to come and help */
        continue;
    atomic_fetch_add(&line->blocks, 1);
    return WEIR_OK;
}

static void queue_step(struct submitter *me, int k, struct step step, uint64_t work_ns)
{
    struct soak *soak = me->soak;

    step.line = &soak->lines[k];
    step.number = atomic_load(&soak->queued[k]);
    CHECK_OK(weir_launch_submit(soak->streams[k], &(weir_launch){.name = "step",
                                                                 .fn = run_step,
                                                                 .args = &step,
                                                                 .args_size = sizeof step,
                                                                 .work_ns = work_ns}));
    atomic_store(&soak->queued[k], step.number + 1);
}

/* A wait for any stream, whoever queues there, and a step that sees what it promised. */
static void queue_wait(struct submitter *me, int k)
{
    struct soak *soak = me->soak;
    int other = (int)(draw(me) % STREAMS);
    struct step step = {.other = &soak->lines[other], .reached = atomic_load(&soak->queued[other])};

    CHECK_OK(weir_stream_wait_stream(soak->streams[k], soak->streams[other]));
    queue_step(me, k, step, 1);
}

static void queue_blocks(struct submitter *me, int own, bool gang)
{
    struct soak *soak = me->soak;
    int k = me->index * OWN + own;
    struct line *line = &soak->lines[k];
    unsigned blocks = gang ? 2 : 5;

    CHECK_OK(weir_launch_submit(soak->streams[k], &(weir_launch){.name = "blocks",
                                                                 .fn = count_block,
                                                                 .args = &line,
                                                                 .args_size = sizeof line,
                                                                 .blocks = blocks,
                                                                 .gang = gang}));
    me->blocks[own] += (int)blocks;
}

/* Bounds how far ahead of the workers this thread queues, and so the memory. */
static void sync_own(const struct submitter *me)
{
    for (int own = 0; own < OWN; own++) {
        CHECK_OK(weir_stream_sync(me->soak->streams[me->index * OWN + own]));
        if (me->soak->tensors)
            soak_tensors_check(me, own);
    }
}

static void *submit_all(void *arg)
{
    struct submitter *me = arg;

    for (uint64_t i = me->from; i < me->to; i++) {
        int own = (int)(i % OWN), k = me->index * OWN + own;
        uint64_t r = draw(me) >> 20;

        if (r % 16 == 0)
            queue_wait(me, k);
        else if (r % 64 == 1)
            queue_step(me, k, (struct step){.spins = 2000}, 5000);
        else
            queue_step(me, k, (struct step){0}, 1);
        if (r % 8 == 2)
            queue_blocks(me, own, r % 512 == 2);
        if (me->soak->tensors && r % 8 == 5)
            soak_tensors_step(me, own);
        if (me->soak->per_stream && r % 16 == 3)
            lock_per_stream(me->soak->dev);
        if (i % me->soak->steps_between_syncs == 0)
            sync_own(me);
        if (r % 4096 == 3)
            pause_us(200); /* workers fall asleep */
    }
    return NULL;
}

static void check_lines(const struct soak *soak, const struct submitter *all)
{
    for (int k = 0; k < STREAMS; k++) {
        const struct line *line = &soak->lines[k];
        uint64_t value = 0, n = atomic_load(&soak->queued[k]);

        for (uint64_t i = 0; i < n; i++)
            value = mix(value, i);
        CHECK_EQ(atomic_load(&line->wrong), 0);
        CHECK_EQ(line->next, n);
        CHECK_EQ(line->value, value);
        CHECK_EQ(atomic_load(&line->blocks), all[k / OWN].blocks[k % OWN]);
    }
}

static struct soak soak;
static struct submitter all[SUBMITTERS];

/* Runs the steps up to `to` of each submitter, until everything has completed. */
static void run_round(uint64_t to)
{
    for (int i = 0; i < SUBMITTERS; i++) {
        all[i].from = all[i].to;
        all[i].to = to;
        CHECK_EQ(pthread_create(&all[i].thread, NULL, submit_all, &all[i]), 0);
    }
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(all[i].thread, NULL);
    CHECK_OK(weir_device_sync(soak.dev));
}

static void begin_soak(const char *spec, uint64_t operators)
{
    weir_device_props props;

    soak.dev = open_device(spec);
    weir_device_get_props(soak.dev, &props, sizeof props);
    soak.cores = props.cores.cube;
    soak.steps = operators / SUBMITTERS;
    pthread_mutex_init(&soak.lock, NULL);
    for (int k = 0; k < STREAMS; k++) /* every eighth is more or less urgent */
        soak.streams[k] = new_stream(soak.dev, k % 16 == 0 ? -4 : k % 16 == 8 ? 4 : 0);
    for (int i = 0; i < SUBMITTERS; i++) {
        all[i] = (struct submitter){
            .soak = &soak, .index = i, .random = 88172645463325252u + (unsigned)i};
        if (soak.tensors)
            soak_tensors_begin(&all[i]);
    }
}

static void end_soak(void)
{
    check_lines(&soak, all);
    for (int i = 0; i < SUBMITTERS && soak.tensors; i++) {
        for (int own = 0; own < OWN; own++)
            soak_tensors_check(&all[i], own);
        soak_tensors_end(&all[i]);
    }
    CHECK_OK(weir_device_close(soak.dev));
}

static void run_soak(const char *spec, uint64_t operators, const struct soak *how)
{
    soak = *how;
    begin_soak(spec, operators);
    run_round(soak.steps);
    end_soak();
}

/* ---- memory ---- */

struct sample {
    long resident_kb;   /* without the pool's */
    int64_t live_bytes; /* that the library has allocated for its own records */
    weir_memory_stats pool;
};

static _Atomic int64_t live_bytes;

static void *counted_alloc(void *user, size_t size, size_t align)
{
    void *memory = NULL;

    (void)user;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size))
        return NULL;
    atomic_fetch_add(&live_bytes, (int64_t)malloc_usable_size(memory));
    return memory;
}

static void counted_free(void *user, void *memory)
{
    (void)user;
    atomic_fetch_sub(&live_bytes, (int64_t)malloc_usable_size(memory));
    free(memory);
}

static long page_kb(void)
{
    return sysconf(_SC_PAGESIZE) / 1024;
}

/* Resident pages of the pool's segments: the pool may touch more of what it has reserved. */
static long pool_pages(void)
{
    static weir_block_info blocks[65536];
    static unsigned char here[16384]; /* of a part of a segment */
    size_t n =
        weir_memory_get_blocks(soak.dev, blocks, sizeof *blocks, sizeof blocks / sizeof *blocks);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t last = 0;
    long resident = 0;

    CHECK_LE(n, sizeof blocks / sizeof *blocks);
    for (size_t i = 0; i < n; i++) {
        if (blocks[i].segment == last)
            continue;
        last = blocks[i].segment;
        for (size_t at = 0; at < blocks[i].segment_size; at += sizeof here * page) {
            size_t bytes = blocks[i].segment_size - at;

            bytes = bytes < sizeof here * page ? bytes : sizeof here * page;
            CHECK_EQ(mincore((void *)(uintptr_t)(last + at), bytes, here), 0);
            for (size_t p = 0; p * page < bytes; p++)
                resident += here[p] & 1;
        }
    }
    return resident;
}

static struct sample take_sample(const char *when)
{
    FILE *f = fopen("/proc/self/statm", "r");
    struct sample s = {.live_bytes = atomic_load(&live_bytes)};
    size_t held = soak_tensors_shown(&soak);
    long pages = 0;

    CHECK(f && fscanf(f, "%*s %ld", &pages) == 1);
    fclose(f);
    s.resident_kb = (pages - pool_pages()) * page_kb();
    weir_memory_get_stats(soak.dev, &s.pool, sizeof s.pool);
    for (int i = 0; i < SUBMITTERS; i++)
        held += soak_tensors_bytes(&all[i]);
    CHECK_EQ(s.pool.allocated, held);
    printf("%s: resident %ld kB, without the pool %ld kB, of it allocated %lld kB; the pool has "
           "reserved %zu kB in %zu segments, allocated %zu kB, %zu blocks, %llu allocations, %llu "
           "grown, %llu host syncs\n",
           when, pages * page_kb(), s.resident_kb, (long long)s.live_bytes / 1024,
           s.pool.reserved / 1024, s.pool.segments, s.pool.allocated / 1024, s.pool.blocks,
           (unsigned long long)s.pool.allocations, (unsigned long long)s.pool.grown,
           (unsigned long long)s.pool.host_syncs);
    return s;
}

TEST(soak, eight_threads_queue_on_64_streams_of_16_workers)
{
    run_soak("cpu:cores=16,threads=16", TEST_SANITIZED ? 10000 : 40000,
             &(struct soak){.steps_between_syncs = 2000});
}

TEST(soak, the_same_where_workers_are_delayed_at_random)
{
    run_soak("cpu:cores=4,threads=4,jitter=7", TEST_SANITIZED ? 4000 : 16000,
             &(struct soak){.steps_between_syncs = 2000, .tensors = true});
}

TEST(soak, the_same_where_cores_are_fewer_than_workers)
{
    run_soak("cpu:cores=3,threads=5", TEST_SANITIZED ? 4000 : 16000,
             &(struct soak){.steps_between_syncs = 2000});
}

/* A waiting host thread helps, and has a core that a worker wants. */
TEST(soak, the_same_where_host_threads_often_wait)
{
    run_soak("cpu:cores=2,threads=2", TEST_SANITIZED ? 4000 : 16000,
             &(struct soak){.steps_between_syncs = 3});
}

TEST(soak, the_same_where_launches_take_the_lock_of_their_stream)
{
    run_soak("cpu:cores=4,threads=4", TEST_SANITIZED ? 8000 : 40000,
             &(struct soak){.steps_between_syncs = 500, .per_stream = true, .tensors = true});
}

/* Memory is sampled when a third has run, and at the end, in one device's life. What a leak adds
 * grows with the operators. Allocated bytes are exactly those of the tensors held and of the plans.
 * What the pool has reserved depends a little on how far streams happen to be apart. */
TEST_TIMEOUT(soak, tensors_plans_and_limits_that_change_keep_values_and_memory, 3600)
{
    const char *operators = getenv("WEIR_SOAK");
    uint64_t n = operators ? strtoull(operators, NULL, 10) : TEST_SANITIZED ? 16000 : 400000;
    struct sample first, last;

    soak = (struct soak){.steps_between_syncs = 2000, .per_stream = true, .tensors = true};
    CHECK_OK(weir_allocator_set(&(weir_allocator){counted_alloc, counted_free, NULL}));
    begin_soak("cpu:cores=16,threads=16", n);
    run_round(soak.steps / 3);
    first = take_sample("after a third");
    run_round(soak.steps);
    last = take_sample("at the end");
    CHECK_EQ(last.pool.events_live, first.pool.events_live);
    if (!TEST_SANITIZED) { /* which keep freed memory, and run too few to warm up */
        CHECK_LE(last.pool.reserved, first.pool.reserved + ((size_t)64 << 20));
        CHECK_LE(last.live_bytes, first.live_bytes + (512 << 10)); /* queues keep their chunks */
        CHECK_LE(last.resident_kb, first.resident_kb + (8 << 10));
    }
    end_soak();
    CHECK_EQ(atomic_load(&live_bytes), 0);
}
