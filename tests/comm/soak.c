/* Random programs on 2 to 4 devices: collectives and compute on several streams, limits that
 * change, operators that fail, groups that are aborted. Nothing may hang, leak or give a wrong
 * value. WEIR_SOAK_SECONDS makes it longer. */
#include "helpers.h"

enum { STREAMS = 3, STEPS = 40, COUNT = 24 /* elements: every world size divides it */ };

struct machine {
    struct world w;
    weir_stream *streams[MAX_WORLD][STREAMS];
    int at[MAX_WORLD];         /* the stream that made the rank's tensor */
    weir_tensor *x[MAX_WORLD]; /* COUNT equal values */
    float value[MAX_WORLD];    /* what they must be */
    bool broken;               /* calls may be refused from here on */
    uint64_t random;
};

static unsigned roll(struct machine *m, unsigned n)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (unsigned)(m->random >> 11) % n;
}

/* The rank goes on, on any of its streams, after what made its tensor. */
static void choose_stream(struct machine *m, int r)
{
    int next = (int)roll(m, STREAMS);

    CHECK_OK(weir_stream_wait_stream(m->streams[r][next], m->streams[r][m->at[r]]));
    CHECK_OK(weir_stream_set_current(m->streams[r][next]));
    m->at[r] = next;
}

/* Takes the result as the rank's tensor. A broken group may have refused the call. */
static void take(struct machine *m, int r, weir_status st, weir_tensor *y)
{
    if (st) {
        if (!m->broken)
            FAIL("refused: %s", weir_last_error());
        CHECK_EQ(st, WEIR_ESTATE);
        return;
    }
    weir_tensor_release(m->x[r]);
    m->x[r] = y;
}

static float mean(const struct machine *m)
{
    float sum = m->value[0];

    for (int r = 1; r < m->w.n; r++)
        sum += m->value[r];
    return m->w.n > 1 ? sum / (float)m->w.n : sum;
}

static void reduce(struct machine *m)
{
    float want = mean(m);

    for (int r = 0; r < m->w.n; r++) {
        weir_tensor *y = NULL;
        weir_status st;

        choose_stream(m, r);
        st = weir_all_reduce(m->w.rank[r], m->x[r], WEIR_REDUCE_MEAN, &y);
        take(m, r, st, y);
    }
    for (int r = 0; r < m->w.n; r++)
        m->value[r] = want;
}

/* Each rank takes its neighbour's values out of everybody's. */
static void rotate(struct machine *m)
{
    float first = m->value[0];

    for (int r = 0; r < m->w.n; r++) {
        weir_tensor *all = NULL, *y = NULL;
        int64_t from = (r + 1) % m->w.n * COUNT;
        weir_status st;

        choose_stream(m, r);
        if (!(st = weir_all_gather(m->w.rank[r], m->x[r], &all)))
            CHECK_OK(weir_tensor_slice(all, 0, from, from + COUNT, 1, &y));
        take(m, r, st, y);
        weir_tensor_release(all);
    }
    for (int r = 0; r < m->w.n; r++)
        m->value[r] = r + 1 < m->w.n ? m->value[r + 1] : first;
}

/* A part from each rank, then the mean of them spread over the ranks and put together. */
static void scatter_gather(struct machine *m)
{
    float want = mean(m);

    for (int r = 0; r < m->w.n; r++) {
        weir_tensor *part = NULL, *y = NULL;
        weir_status st;

        choose_stream(m, r);
        if (!(st = weir_reduce_scatter(m->w.rank[r], m->x[r], WEIR_REDUCE_MEAN, &part)))
            st = weir_all_gather(m->w.rank[r], part, &y);
        take(m, r, st, y);
        weir_tensor_release(part);
    }
    for (int r = 0; r < m->w.n; r++)
        m->value[r] = want;
}

static void compute(struct machine *m)
{
    int r = (int)roll(m, (unsigned)m->w.n);
    weir_tensor *y;

    choose_stream(m, r);
    CHECK_OK(weir_add_scalar(m->x[r], 1, &y));
    weir_tensor_release(m->x[r]);
    m->x[r] = y;
    m->value[r] += 1;
}

static void change_limit(struct machine *m)
{
    int r = (int)roll(m, (unsigned)m->w.n);
    weir_device_props props;
    weir_cores limit;

    if (is_gpu()) /* a new part of the cores waits until no rank stands in a collective */
        return;
    weir_device_get_props(m->w.dev[r], &props, sizeof props);
    limit.vector = 1 + (int)roll(m, (unsigned)props.cores.vector);
    limit.cube = limit.vector < props.cores.cube ? limit.vector : props.cores.cube;
    if (roll(m, 2))
        CHECK_OK(weir_device_set_limit(m->w.dev[r], limit));
    else
        CHECK_OK(weir_stream_set_limit(m->streams[r][roll(m, STREAMS)], limit));
}

static void gang(struct machine *m)
{
    int r = (int)roll(m, (unsigned)m->w.n);
    weir_stream *s = m->streams[r][m->at[r]];
    weir_cores limit = weir_stream_get_limit(s);

    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "gang",
                                                  .engine = WEIR_ENGINE_VECTOR,
                                                  .blocks = (unsigned)limit.vector,
                                                  .gang = true}));
}

static void misfortune(struct machine *m)
{
    int r = (int)roll(m, (unsigned)m->w.n);

    m->broken = true;
    if (roll(m, 2))
        weir_group_abort(m->w.group, "enough");
    else
        submit_failure(m->streams[r][m->at[r]]);
}

static void step(struct machine *m)
{
    static void (*const steps[])(struct machine *) = {reduce,  rotate,       scatter_gather,
                                                      compute, change_limit, gang};

    steps[roll(m, sizeof steps / sizeof *steps)](m);
}

static void one_program(uint64_t seed)
{
    struct machine m = {.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
    int unlucky = (int)roll(&m, 3 * STEPS); /* two of three programs are lucky */
    char spec[80];

    test_note("seed %llu", (unsigned long long)seed);
    snprintf(spec, sizeof spec, "cpu:cores=%u,threads=%u,jitter=%llu", 1 + roll(&m, 4),
             1 + roll(&m, 2), (unsigned long long)seed);
    world_open(&m.w, 2 + (int)roll(&m, 3), spec,
               &(weir_group_options){.mode = (weir_comm_mode)roll(&m, 2)});
    for (int r = 0; r < m.w.n; r++) {
        m.value[r] = (float)r;
        m.x[r] = ramp(m.w.dev[r], COUNT, r, 0);
        for (int i = 0; i < STREAMS; i++)
            CHECK_OK(weir_stream_create(m.w.dev[r], NULL, &m.streams[r][i]));
        CHECK_OK(weir_device_sync(m.w.dev[r]));
    }
    for (int i = 0; i < STEPS; i++) {
        step(&m);
        if (i == unlucky)
            misfortune(&m);
    }
    for (int r = 0; r < m.w.n; r++) {
        CHECK_OK(weir_stream_set_current(m.streams[r][m.at[r]]));
        if (m.broken)
            weir_stream_sync(m.streams[r][m.at[r]]);
        else
            CHECK_NEAR(first_of(m.x[r]), m.value[r], 0);
        weir_tensor_release(m.x[r]);
        CHECK_OK(weir_stream_set_current(weir_stream_default(m.w.dev[r])));
    }
    for (int r = 0; r < m.w.n; r++) {
        weir_device_sync(m.w.dev[r]);
        for (int i = 0; i < STREAMS; i++)
            CHECK_OK(weir_stream_destroy(m.streams[r][i]));
    }
    world_close(&m.w);
}

TEST_TIMEOUT(soak, random_programs_terminate_with_the_right_values, 7200)
{
    const char *seconds = getenv("WEIR_SOAK_SECONDS");
    double limit = seconds ? atof(seconds) : is_modelled() || is_gpu() ? 0.3 : 2;
    struct timespec begin, now;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t seed = 1;; seed++) {
        one_program(seed);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec) >
            limit)
            break;
    }
}
