/* Random eager programs on several streams: in order by events, or by autosync alone; by one host
 * thread, or by several that each have a program of their own. */
#include "conformance/eager/eager.h"

#include <pthread.h>
#include <stdlib.h>

enum { STEPS = 150, THREADS = 3 };

static const struct {
    const char *name;
    void (*run)(struct machine *m);
    int weight;
} steps[] = {
    {"unary", do_unary, 5},
    {"binary", do_binary, 12},
    {"binary into", do_binary_into, 16},
    {"scalar", do_scalar, 8},
    {"copy into", do_copy_into, 8},
    {"fill", do_fill, 5},
    {"where", do_where, 4},
    {"reduce", do_reduce, 6},
    {"scan", do_scan, 5},
    {"sort", do_sort, 4},
    {"concat", do_concat, 5},
    {"gather", do_gather, 4},
    {"scatter", do_scatter, 6},
    {"fresh", do_fresh, 8},
    {"read", do_read, 3},
    {"read async", do_read_async, 5},
    {"write", do_write, 5},
    {"host call", do_host_call, 3},
    {"callback", do_callback, 2},
    {"limit", do_limit, 2},
    {"new stream", do_new_stream, 2},
    {"rest", do_rest, 3},
};

static void run_step(struct machine *m)
{
    int total = 0, pick, at = 0;

    for (size_t i = 0; i < countof(steps); i++)
        total += steps[i].weight;
    pick = (int)rng_int(&m->rng, 0, total - 1);
    while (pick >= steps[at].weight)
        pick -= steps[at++].weight;
    m->at = (int)rng_int(&m->rng, 0, STREAMS - 1);
    CHECK_OK(weir_stream_set_current(m->streams[m->at]));
    if (getenv("EAGER_SHOW"))
        fprintf(stderr, "%s on %d\n", steps[at].name, m->at);
    for (int64_t times = rng_chance(&m->rng, 10) ? rng_int(&m->rng, 2, 9) : 1; times > 0; times--)
        steps[at].run(m);
}

static void open_machine(struct machine *m, weir_device *dev, uint64_t seed, bool autosync)
{
    static const weir_dtype types[] = {WEIR_I64, WEIR_I32, WEIR_I8, WEIR_U8};

    *m = (struct machine){.dev = dev, .rng = rng_make("eager", seed), .autosync = autosync};
    m->type = types[rng_int(&m->rng, 0, countof(types) - 1)];
    for (int i = 0; i < STREAMS; i++)
        m->streams[i] = new_stream(dev);
    CHECK_OK(weir_stream_set_current(m->streams[0]));
    for (int i = 0; i < SLOTS; i++) {
        CHECK_OK(weir_event_create(dev, NULL, &m->slots[i].written));
        for (int k = 0; k < STREAMS; k++)
            CHECK_OK(weir_event_create(dev, NULL, &m->slots[i].read[k]));
        m->slots[i].n = 1;
        CHECK_OK(
            weir_tensor_from(m->streams[0], m->type, 0, NULL, m->slots[i].want, &m->slots[i].t));
        m->slots[i].writer = -1;
    }
    for (int i = 0; i < SLOTS; i++)
        do_fresh(m);
}

static void check_slot(struct machine *m, struct slot *s)
{
    size_t size = (size_t)s->n * weir_dtype_size(m->type);
    char *got = malloc(size + 1), *want = to_bytes(m->type, s->want, s->n);

    CHECK_OK(weir_tensor_read(s->t, got, size));
    CHECK_MEM_EQ(got, want, size);
    free(got);
    free(want);
}

static void close_machine(struct machine *m)
{
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &m->slots[i];

        check_slot(m, s);
        weir_tensor_release(s->t);
        CHECK_OK(weir_event_destroy(s->written));
        for (int k = 0; k < STREAMS; k++)
            CHECK_OK(weir_event_destroy(s->read[k]));
    }
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_sync(m->streams[i]));
    CHECK_OK(weir_device_sync(m->dev)); /* streams that were destroyed, too */
    check_pending(m);
    CHECK_OK(weir_stream_set_current(weir_stream_default(m->dev)));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(m->streams[i]));
}

/* EAGER_SEED and EAGER_COUNT say which programs, EAGER_SHOW shows their steps, EAGER_CHECK
 * checks all values after each. */
static uint64_t first_seed(void)
{
    return getenv("EAGER_SEED") ? strtoull(getenv("EAGER_SEED"), NULL, 0) : 1;
}

static uint64_t seeds(weir_device *dev, unsigned often)
{
    return getenv("EAGER_COUNT") ? strtoull(getenv("EAGER_COUNT"), NULL, 0)
                                 : 1 + repeats(dev, often);
}

/* The fake GPU compiles a kernel for every operator and layout, which takes seconds each. */
static int steps_on(weir_device *dev)
{
    return is_fake(dev) ? 12 : STEPS;
}

static void need_many_kernels(weir_device *dev)
{
    if (is_fake(dev) && !getenv("EAGER_COUNT"))
        SKIP("the fake GPU compiles a kernel for every operator and layout");
}

static void run_program(weir_device *dev, uint64_t seed, bool autosync)
{
    struct machine *m = malloc(sizeof *m);

    test_note("seed %llu", (unsigned long long)seed);
    open_machine(m, dev, seed, autosync);
    for (int i = 0; i < steps_on(dev); i++) {
        test_note("seed %llu, %s, step %d", (unsigned long long)seed, weir_dtype_name(m->type), i);
        run_step(m);
        for (int k = 0; k < SLOTS && getenv("EAGER_CHECK"); k++)
            check_slot(m, &m->slots[k]);
    }
    close_machine(m);
    free(m);
}

CONFORMANCE(mixed_programs, on_views_in_order_by_events_give_what_plain_c_gives)
{
    for (uint64_t i = 0; i < seeds(dev, 40); i++)
        run_program(dev, first_seed() + i, false);
}

CONFORMANCE(mixed_programs, on_views_in_order_by_autosync_give_what_plain_c_gives)
{
    need_many_kernels(dev);
    CHECK_OK(weir_race_set_mode(WEIR_RACE_AUTOSYNC));
    for (uint64_t i = 0; i < seeds(dev, 20); i++)
        run_program(dev, first_seed() + i, true);
    CHECK_OK(weir_race_set_mode(WEIR_RACE_OFF));
}

/* The device closes as soon as the program has let everything go: what is queued still runs. */
CONFORMANCE(mixed_programs, on_views_run_to_their_end_when_the_device_closes)
{
    need_many_kernels(dev);
    for (uint64_t i = 0; i < seeds(dev, 12); i++) {
        struct machine *m = malloc(sizeof *m);
        weir_device *other = open_another();

        test_note("seed %llu", (unsigned long long)(first_seed() + i));
        open_machine(m, other, first_seed() + i, false);
        for (int k = 0; k < STEPS / 2; k++)
            run_step(m);
        for (int k = 0; k < 5 * SLOTS; k++) {
            m->at = k % STREAMS;
            CHECK_OK(weir_stream_set_current(m->streams[m->at]));
            do_read_async(m);
        }
        for (int k = 0; k < SLOTS; k++) {
            weir_tensor_release(m->slots[k].t);
            CHECK_OK(weir_event_destroy(m->slots[k].written));
            for (int n = 0; n < STREAMS; n++)
                CHECK_OK(weir_event_destroy(m->slots[k].read[n]));
        }
        CHECK_OK(weir_device_close(other));
        check_pending(m);
        free(m);
    }
}

struct thread {
    pthread_t thread;
    weir_device *dev;
    uint64_t seed;
};

static void *work(void *user)
{
    struct thread *t = user;

    run_program(t->dev, t->seed, false);
    return NULL;
}

CONFORMANCE(mixed_programs, on_views_by_several_threads_give_what_plain_c_gives)
{
    need_many_kernels(dev);
    for (uint64_t i = 0; i < seeds(dev, 8); i++) {
        struct thread threads[THREADS];

        for (int k = 0; k < THREADS; k++) {
            threads[k] =
                (struct thread){.dev = dev, .seed = first_seed() + i * THREADS + (uint64_t)k};
            CHECK(!pthread_create(&threads[k].thread, NULL, work, &threads[k]));
        }
        for (int k = 0; k < THREADS; k++)
            CHECK(!pthread_join(threads[k].thread, NULL));
    }
}
