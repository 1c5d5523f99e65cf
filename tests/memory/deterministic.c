/* The same calls give the same addresses, independent of the timing of work. */
#include "helpers.h"

enum { STEPS = 1500, LIVE = 16, STREAMS = 5, SEGMENTS = 64 };

/* Where a buffer is: the how-manieth segment, and how far into it. */
struct place {
    int segment;
    size_t offset;
};

struct places {
    uintptr_t bases[SEGMENTS];
    int nbases;
    struct place place[STEPS];
};

static struct place place_of(struct places *p, weir_device *dev, const weir_buffer *b)
{
    static weir_block_info rows[4096];
    size_t n = weir_memory_get_blocks(dev, rows, sizeof *rows, 4096), i = 0;
    uintptr_t address = (uintptr_t)weir_buffer_data(b);
    int segment = 0;

    while (i < n && rows[i].address != address)
        i++;
    CHECK_LT(i, n);
    while (segment < p->nbases && p->bases[segment] != rows[i].segment)
        segment++;
    CHECK_LT(segment, SEGMENTS);
    if (segment == p->nbases)
        p->bases[p->nbases++] = rows[i].segment;
    return (struct place){segment, address - rows[i].segment};
}

static weir_status spin_kernel(const void *args, const weir_block *block)
{
    (void)block;
    for (unsigned i = 0; i < *(const unsigned *)args; i++)
        atomic_signal_fence(memory_order_seq_cst);
    return WEIR_OK;
}

static void run_program(const char *spec, uint64_t seed, struct places *out)
{
    weir_device *dev = open_device(spec);
    weir_stream *streams[STREAMS] = {weir_stream_default(dev)};
    weir_buffer *live[LIVE];
    int nlive = 0;
    uint64_t random = seed * 0x9e3779b97f4a7c15u;

    out->nbases = 0;
    for (int i = 1; i < STREAMS; i++)
        streams[i] = new_stream(dev, 0);
    for (int i = 0; i < STEPS; i++) {
        size_t what = pick(&random, 100), s = pick(&random, STREAMS), t = pick(&random, STREAMS);
        size_t size = pick(&random, 6 << 20), which = pick(&random, LIVE);
        unsigned spins = (unsigned)pick(&random, 20000);
        weir_buffer *b;

        out->place[i] = (struct place){-1, 0};
        if (what < 40 && nlive < LIVE) {
            if (!weir_buffer_alloc(streams[s], size, &b)) {
                out->place[i] = place_of(out, dev, b);
                live[nlive++] = b;
            }
        } else if (what < 65 && (int)which < nlive) {
            CHECK_OK(weir_launch_submit(streams[s], &(weir_launch){.fn = spin_kernel,
                                                                   .args = &spins,
                                                                   .args_size = sizeof spins,
                                                                   .buffers = &live[which],
                                                                   .nbuffers = 1}));
        } else if (what < 85 && (int)which < nlive) {
            weir_buffer_free(live[which]);
            live[which] = live[--nlive];
        } else if (what < 95) {
            CHECK_OK(weir_stream_wait_stream(streams[s], streams[t]));
        } else if (what < 97) {
            CHECK_OK(weir_stream_sync(streams[s]));
        } else if (what < 99 && s) {
            CHECK_OK(weir_stream_destroy(streams[s]));
            streams[s] = new_stream(dev, 0);
        } else {
            pause_us((long)pick(&random, 100));
        }
    }
    while (nlive)
        weir_buffer_free(live[--nlive]);
    CHECK_OK(weir_device_close(dev));
}

static void compare_runs(const char *options, uint64_t seed)
{
    static const int jitters[] = {1, 77, 12345};
    static struct places first, again;
    char spec[128];

    for (size_t j = 0; j < sizeof jitters / sizeof *jitters; j++) {
        snprintf(spec, sizeof spec, "cpu:cores=4,threads=3,deterministic=1%s,jitter=%d", options,
                 jitters[j]);
        run_program(spec, seed, j ? &again : &first);
        for (int i = 0; j && i < STEPS; i++) {
            test_note("%s, seed %llu, step %d", spec, (unsigned long long)seed, i);
            CHECK_EQ(again.place[i].segment, first.place[i].segment);
            CHECK_EQ(again.place[i].offset, first.place[i].offset);
        }
    }
}

TEST(deterministic, addresses_repeat_in_every_run)
{
    for (uint64_t seed = 1; seed <= 12 / TEST_SLOWDOWN; seed++)
        compare_runs("", seed);
}

TEST(deterministic, addresses_repeat_in_every_run_when_memory_is_short)
{
    for (uint64_t seed = 1; seed <= 12 / TEST_SLOWDOWN; seed++)
        compare_runs(",memory=32m", seed); /* one segment, so that its place is all */
}

/* Whether the old stream's work is over must not decide which bytes the new one gets. */
TEST(deterministic, a_new_stream_gets_the_same_bytes_early_or_late)
{
    size_t offset[2];

    for (int late = 0; late < 2; late++) {
        weir_device *dev = open_device("cpu:cores=4,threads=4,deterministic=1");
        weir_stream *s = new_stream(dev, 0);
        struct gate g = {.open = late};
        weir_buffer *b = alloc_on(s, 1 << 20), *c;
        char *base = weir_buffer_data(b);
        bool done = false;

        use_on(s, b, &g);
        weir_buffer_free(b);
        while (late && !done)
            CHECK_OK(weir_stream_query(s, &done));
        CHECK_OK(weir_stream_destroy(s));
        c = alloc_on(new_stream(dev, 0), 4096);
        offset[late] = (size_t)((char *)weir_buffer_data(c) - base);
        weir_buffer_free(c);
        open_gate(&g);
        CHECK_OK(weir_device_close(dev));
    }
    CHECK_EQ(offset[0], offset[1]);
}
