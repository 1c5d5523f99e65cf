/* Blocks, limits, gangs and priorities on logical cores. */
#include "helpers.h"

#include <pthread.h>
#include <sched.h>

/* Counts how many blocks run at once, and how often each ran. */
struct meter {
    atomic_int running, most;
    atomic_int runs[4096];
    atomic_int phase_done[8]; /* blocks that ended in each phase */
    atomic_int early;         /* a phase began before the one before it had ended */
    struct gate *gate;        /* blocks must not run before it is open; NULL: none */
    atomic_int past_gate;     /* those that did */
    long us;
};

static weir_status meter_kernel(const void *args, const weir_block *block)
{
    struct meter *m = *(struct meter *const *)args;
    int now = atomic_fetch_add(&m->running, 1) + 1, most = atomic_load(&m->most);

    while (now > most && !atomic_compare_exchange_weak(&m->most, &most, now))
        ;
    if (block->phase && atomic_load(&m->phase_done[block->phase - 1]) != (int)block->count)
        atomic_fetch_add(&m->early, 1);
    if (m->gate && !atomic_load(&m->gate->open))
        atomic_fetch_add(&m->past_gate, 1);
    atomic_fetch_add(&m->runs[block->index], 1);
    ((char *)block->local)[WEIR_LOCAL_BYTES - 1] = 1;
    if (m->us)
        pause_us(m->us);
    atomic_fetch_add(&m->phase_done[block->phase], 1);
    atomic_fetch_sub(&m->running, 1);
    return WEIR_OK;
}

static void submit_meter(weir_stream *s, struct meter *m, weir_launch launch)
{
    launch.name = "meter";
    launch.fn = meter_kernel;
    launch.args = &m;
    launch.args_size = sizeof m;
    CHECK_OK(weir_launch_submit(s, &launch));
}

TEST(cores, every_block_of_every_phase_runs_once)
{
    static const char *const specs[] = {"cpu", "cpu:cores=1", "cpu:cores=7,threads=4",
                                        "cpu:cube=3,vector=5,threads=4", "cpu:jitter=3,threads=3"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (unsigned blocks = 1; blocks < 40; blocks += 3)
            for (unsigned phases = 1; phases <= 3; phases++) {
                static struct meter m;
                weir_device *dev = open_device(specs[i]);

                test_note("%s, %u blocks, %u phases", specs[i], blocks, phases);
                memset(&m, 0, sizeof m);
                submit_meter(weir_stream_default(dev), &m,
                             (weir_launch){.blocks = blocks, .phases = phases});
                CHECK_OK(weir_device_sync(dev));
                for (unsigned b = 0; b < blocks; b++)
                    CHECK_EQ(atomic_load(&m.runs[b]), phases);
                CHECK_EQ(atomic_load(&m.early), 0);
                CHECK_OK(weir_device_close(dev));
            }
}

TEST(cores, a_limit_bounds_what_runs_at_once)
{
    weir_device *dev = open_device("cpu:cores=8,threads=8");
    weir_stream *s = new_stream(dev, 0);

    for (int limit = 1; limit <= 8; limit++) {
        static struct meter m;

        memset(&m, 0, sizeof m);
        m.us = 1000;
        CHECK_OK(weir_stream_set_limit(s, (weir_cores){limit, -1}));
        submit_meter(s, &m, (weir_launch){.blocks = 32});
        CHECK_OK(weir_stream_sync(s));
        CHECK_LE(atomic_load(&m.most), limit);
        if (limit > 1)
            CHECK_GT(atomic_load(&m.most), 1);
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(cores, limits_have_ranges_and_fall_back)
{
    weir_device *dev = open_device("cpu:cube=24,vector=48");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    weir_cores got;

    CHECK_OK(weir_stream_set_limit(a, (weir_cores){3, 8}));
    CHECK_OK(weir_stream_set_limit(a, (weir_cores){-1, 9}));
    got = weir_stream_get_limit(a);
    CHECK_EQ(got.cube, 3);
    CHECK_EQ(got.vector, 9);
    got = weir_stream_get_limit(b);
    CHECK_EQ(got.cube, 24);
    CHECK_EQ(got.vector, 48);
    CHECK_STATUS(weir_stream_set_limit(a, (weir_cores){5, 64}), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "core limit 64 for vector cores is out of range");
    CHECK_STR(weir_last_error(), "1..48");
    CHECK_STATUS(weir_stream_set_limit(a, (weir_cores){0, 4}), WEIR_ERANGE);
    CHECK_EQ(weir_stream_get_limit(a).cube, 3); /* nothing changed */
    CHECK_EQ(weir_stream_get_limit(a).vector, 9);
    CHECK_OK(weir_device_set_limit(dev, (weir_cores){20, -1}));
    CHECK_EQ(weir_stream_get_limit(b).cube, 20);
    CHECK_EQ(weir_stream_get_limit(a).cube, 3);
    weir_stream_reset_limit(a);
    CHECK_EQ(weir_stream_get_limit(a).cube, 20);
    CHECK_EQ(weir_stream_get_limit(a).vector, 48);
    CHECK_STATUS(weir_device_set_limit(dev, (weir_cores){25, -1}), WEIR_ERANGE);
    CHECK_EQ(weir_device_get_limit(dev).cube, 20);
    CHECK_OK(weir_device_close(dev));
}

TEST(cores, a_gang_holds_its_cores_together)
{
    weir_device *dev = open_device("cpu:cores=4,threads=4");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    struct gate g = {0};
    static struct meter m;

    m.gate = &g;
    submit_gate(a, &g); /* holds one of four */
    while (!atomic_load(&g.arrived))
        pause_us(50);
    submit_meter(b, &m, (weir_launch){.blocks = 4, .phases = 3, .gang = true});
    for (int i = 0; i < 1000; i++) {
        bool done;

        CHECK_OK(weir_stream_query(b, &done));
        CHECK(!done);
        sched_yield();
    }
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < 4; i++)
        CHECK_EQ(atomic_load(&m.runs[i]), 3);
    CHECK_EQ(atomic_load(&m.early), 0);
    CHECK_EQ(atomic_load(&m.past_gate), 0); /* no block ran with three */
    CHECK_OK(weir_device_close(dev));
}

/* More logical cores than threads: gangs of 48 blocks on this machine's few. */
TEST(cores, gangs_and_small_operators_all_get_through)
{
    weir_device *dev = open_device("cpu:cube=24,vector=48,jitter=5");
    weir_stream *s[6];
    static struct meter gang, small;

    for (int i = 0; i < 6; i++)
        s[i] = new_stream(dev, i - 3);
    for (int i = 0; i < 300; i++) {
        submit_meter(
            s[i % 6], i % 3 ? &small : &gang,
            i % 3 ? (weir_launch){.blocks = 1 + (unsigned)i % 9, .engine = i % 2}
                  : (weir_launch){
                        .blocks = 48, .phases = 2, .gang = true, .engine = WEIR_ENGINE_VECTOR});
    }
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(atomic_load(&gang.runs[47]), 200);
    CHECK_OK(weir_device_close(dev));
}

TEST(cores, mix_takes_cube_and_vector_cores)
{
    weir_device *dev = open_device("cpu:cube=4,vector=4,threads=8");
    static struct meter m;

    m.us = 500;
    submit_meter(weir_stream_default(dev), &m,
                 (weir_launch){.blocks = 16, .engine = WEIR_ENGINE_MIX});
    CHECK_OK(weir_device_sync(dev));
    CHECK_LE(atomic_load(&m.most), 2); /* 2 vector cores a block */
    CHECK_OK(weir_device_close(dev));
}

TEST(cores, the_urgent_stream_goes_first_and_nobody_starves)
{
    enum { N = 200 };
    weir_device *dev = open_device("cpu:cores=1");
    weir_stream *urgent = new_stream(dev, -8), *lazy = new_stream(dev, 7);
    struct gate g = {0};
    atomic_int counter = 0;
    int u[N], l[N];

    submit_gate(weir_stream_default(dev), &g);
    while (!atomic_load(&g.arrived))
        pause_us(50);
    for (int i = 0; i < N; i++)
        submit_ticket(lazy, &counter, &l[i]);
    for (int i = 0; i < N; i++)
        submit_ticket(urgent, &counter, &u[i]);
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    CHECK_LT(u[0], 2);     /* the urgent stream begins */
    CHECK_LT(u[N / 2], N); /* and stays ahead */
    CHECK_LT(l[0], N);     /* but the other gets a turn before it ends */
    CHECK_OK(weir_device_close(dev));
}

static weir_status ticket_of_first_block(const void *args, const weir_block *block)
{
    return block->index ? WEIR_OK : ticket_kernel(args, block);
}

/* Urgent work without end must not keep a gang of the least urgent stream out. */
TEST(cores, a_less_urgent_gang_is_not_starved_by_urgent_work)
{
    enum { STREAMS = 4, EACH = 2000, ALL = STREAMS * EACH };
    weir_device *dev = open_device("cpu:cores=4,threads=4");
    weir_stream *lazy = new_stream(dev, 7);
    struct gate g = {0};
    atomic_int counter = 0;
    static int order[ALL];
    int lazy_order;
    struct ticket_args ticket = {&counter, &lazy_order};

    for (int i = 0; i < 4; i++) /* every core is busy until all is queued */
        submit_gate(new_stream(dev, 0), &g);
    while (atomic_load(&g.arrived) < 4)
        pause_us(50);
    CHECK_OK(weir_launch_submit(lazy, &(weir_launch){.fn = ticket_of_first_block,
                                                     .args = &ticket,
                                                     .args_size = sizeof ticket,
                                                     .blocks = 4,
                                                     .gang = true}));
    for (int i = 0; i < STREAMS; i++) {
        weir_stream *s = new_stream(dev, -8);

        for (int k = 0; k < EACH; k++)
            submit_ticket(s, &counter, &order[i * EACH + k]);
    }
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    CHECK_LT(lazy_order, ALL);
    CHECK_OK(weir_device_close(dev));
}

/* The blocks stay as they were cut; how many run at once is the limit's at the start. */
TEST(cores, a_limit_applies_to_queued_operators_without_limits_of_their_own)
{
    weir_device *dev = open_device("cpu:cores=8,threads=8");
    weir_stream *s = new_stream(dev, 0);
    static struct meter lowered, scoped, raised;
    struct gate g = {0};

    lowered.us = scoped.us = raised.us = 2000;
    submit_gate(s, &g);
    submit_meter(s, &lowered, (weir_launch){.blocks = 24});
    CHECK_OK(weir_scope_push_cores((weir_cores){6, -1}));
    submit_meter(s, &scoped, (weir_launch){.blocks = 24});
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    CHECK_OK(weir_stream_set_limit(s, (weir_cores){2, -1}));
    open_gate(&g);
    CHECK_OK(weir_stream_sync(s));
    CHECK_LE(atomic_load(&lowered.most), 2);
    CHECK_EQ(atomic_load(&lowered.runs[23]), 1);
    CHECK_LE(atomic_load(&scoped.most), 6);
    CHECK_GT(atomic_load(&scoped.most), 2);
    g = (struct gate){0};
    submit_gate(s, &g);
    submit_meter(s, &raised, (weir_launch){.blocks = 24});
    weir_stream_reset_limit(s);
    open_gate(&g);
    CHECK_OK(weir_stream_sync(s));
    CHECK_GT(atomic_load(&raised.most), 2);
    CHECK_OK(weir_device_close(dev));
}

TEST(cores, a_scope_limits_launches_too)
{
    weir_device *dev = open_device("cpu:cores=8,threads=8");
    weir_stream *s = weir_stream_default(dev);
    static struct meter m;

    m.us = 500;
    WEIR_CORE_SCOPE(3, -1)
    submit_meter(s, &m, (weir_launch){.blocks = 24});
    CHECK_OK(weir_stream_sync(s));
    CHECK_LE(atomic_load(&m.most), 3);
    WEIR_CORE_SCOPE(9, -1)
    {
        CHECK_STATUS(weir_launch_submit(s, &(weir_launch){.blocks = 2}), WEIR_ERANGE);
        CHECK_STR(weir_last_error(), "1..8");
    }
    CHECK_OK(weir_device_close(dev));
}

static weir_status fail_some(const void *args, const weir_block *block)
{
    (void)args;
    return block->index == 5 ? WEIR_EKERNEL : WEIR_OK;
}

TEST(cores, one_failing_block_fails_the_operator)
{
    weir_device *dev = open_device("cpu:cores=4,threads=4");
    weir_stream *s = new_stream(dev, 0);

    for (int gang = 0; gang < 2; gang++) {
        CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "some",
                                                      .fn = fail_some,
                                                      .blocks = gang ? 4 : 64,
                                                      .phases = 2,
                                                      .gang = gang}));
        if (gang)
            CHECK_OK(weir_stream_sync(s)); /* only blocks 0..3 */
        else
            CHECK_STATUS(weir_stream_sync(s), WEIR_EKERNEL);
        CHECK_OK(weir_stream_destroy(s));
        s = new_stream(dev, 0);
    }
    CHECK_OK(weir_device_close(dev));
}
