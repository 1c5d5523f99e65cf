/* Many streams, more workers than the machine has CPUs, and several threads that queue.
 *
 * WEIR_SOAK is how many operators the soak takes: 10000000 for the long one. */
#include "helpers.h"
#include "per_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { STREAMS = 64, SUBMITTERS = 8, OWN = STREAMS / SUBMITTERS };

/* What the operators of one stream do: each notes its number, so a stream that two workers ran at
 * once, or out of order, has wrong values, and a data race. */
struct line {
    _Alignas(64) uint64_t next;
    uint64_t value;
    _Atomic uint64_t over;
    atomic_int blocks;
    atomic_int wrong;
};

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

struct soak {
    weir_device *dev;
    weir_stream *streams[STREAMS];
    struct line lines[STREAMS];
    _Atomic uint64_t queued[STREAMS];
    uint64_t steps; /* of each submitter, */
    uint64_t steps_between_syncs;
    bool per_stream; /* launches take the lock of their stream every so often */
};

struct submitter {
    struct soak *soak;
    int index;
    uint64_t random;
    int blocks[OWN];
    pthread_t thread;
};

static uint64_t draw(struct submitter *me)
{
    me->random ^= me->random << 13;
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return me->random;
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

static void *submit_all(void *arg)
{
    struct submitter *me = arg;

    for (uint64_t i = 0; i < me->soak->steps; i++) {
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
        if (me->soak->per_stream && r % 16 == 3)
            lock_per_stream(me->soak->dev);
        if (i % me->soak->steps_between_syncs == 0)
            CHECK_OK(weir_stream_sync(me->soak->streams[k]));
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

static long resident_kb(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0;

    CHECK(f && fscanf(f, "%*s %ld", &pages) == 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void run_soak_with(const char *spec, uint64_t operators, uint64_t steps_between_syncs,
                          bool per_stream)
{
    static struct soak soak;
    static struct submitter all[SUBMITTERS];

    memset(&soak, 0, sizeof soak);
    soak.per_stream = per_stream;
    soak.dev = open_device(spec);
    soak.steps = operators / SUBMITTERS;
    soak.steps_between_syncs = steps_between_syncs;
    for (int k = 0; k < STREAMS; k++) /* every eighth is more or less urgent */
        soak.streams[k] = new_stream(soak.dev, k % 16 == 0 ? -4 : k % 16 == 8 ? 4 : 0);
    for (int i = 0; i < SUBMITTERS; i++) {
        all[i] = (struct submitter){
            .soak = &soak, .index = i, .random = 88172645463325252u + (unsigned)i};
        CHECK_EQ(pthread_create(&all[i].thread, NULL, submit_all, &all[i]), 0);
    }
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(all[i].thread, NULL);
    CHECK_OK(weir_device_sync(soak.dev));
    check_lines(&soak, all);
    CHECK_OK(weir_device_close(soak.dev));
}

static void run_soak(const char *spec, uint64_t operators, uint64_t steps_between_syncs)
{
    run_soak_with(spec, operators, steps_between_syncs, false);
}

TEST(soak, eight_threads_queue_on_64_streams_of_16_workers)
{
    run_soak("cpu:cores=16,threads=16", TEST_SANITIZED ? 10000 : 40000, 2000);
}

TEST(soak, the_same_where_workers_are_delayed_at_random)
{
    run_soak("cpu:cores=4,threads=4,jitter=7", TEST_SANITIZED ? 4000 : 16000, 2000);
}

TEST(soak, the_same_where_cores_are_fewer_than_workers)
{
    run_soak("cpu:cores=3,threads=5", TEST_SANITIZED ? 4000 : 16000, 2000);
}

/* A waiting host thread helps, and has a core that a worker wants. */
TEST(soak, the_same_where_host_threads_often_wait)
{
    run_soak("cpu:cores=2,threads=2", TEST_SANITIZED ? 4000 : 16000, 3);
}

TEST(soak, the_same_where_launches_take_the_lock_of_their_stream)
{
    run_soak_with("cpu:cores=4,threads=4", TEST_SANITIZED ? 8000 : 40000, 500, true);
}

TEST_TIMEOUT(soak, the_long_one_keeps_its_memory, 3600)
{
    const char *operators = getenv("WEIR_SOAK");
    uint64_t n = operators ? strtoull(operators, NULL, 10) : 0;
    long before;

    if (!n)
        SKIP("WEIR_SOAK says how many operators: 10000000");
    run_soak("cpu:cores=16,threads=16", n / 4, 2000);
    before = resident_kb();
    run_soak("cpu:cores=16,threads=16", n - n / 4, 2000);
    CHECK_LE(resident_kb(), before + 16 * 1024);
}
