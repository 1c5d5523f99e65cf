/* Random programs of operators on eight streams give what one stream gives. */
#include "conformance/conformance.h"

#include <pthread.h>

enum { STREAMS = 8, SLOTS = 10, STEPS = 60, SIDE = 24 };

enum kind {
    FRESH,
    ADD,
    MUL,
    MATMUL,
    TANH,
    SOFTMAX,
    TURN_ADD,
    SORT,
    NORM,
    SUM_SUB,
    GATHER_ROWS,
    ADD_INTO,
    SCALE_INTO,
    ROW_INTO,
    KINDS
};

struct step {
    enum kind kind;
    int to, a, b, stream;
    uint64_t seed;
    bool by_event; /* how it waits for others */
};

/* What a slot's next user has to wait for. */
struct slot {
    weir_tensor *tensor;
    int writer;          /* stream */
    unsigned readers;    /* streams since */
    weir_event *written; /* after the writer */
    weir_event *read[STREAMS];
};

struct machine {
    weir_device *dev;
    weir_stream *streams[STREAMS];
    struct slot slots[SLOTS];
};

static void make_program(struct rng *rng, struct step *steps)
{
    for (int i = 0; i < STEPS; i++)
        steps[i] = (struct step){
            .kind = i < SLOTS ? FRESH : (enum kind)rng_int(rng, 0, KINDS - 1),
            .to = i < SLOTS ? i : (int)rng_int(rng, 0, SLOTS - 1),
            .a = (int)rng_int(rng, 0, SLOTS - 1),
            .b = (int)rng_int(rng, 0, SLOTS - 1),
            .stream = (int)rng_int(rng, 0, STREAMS - 1),
            .seed = rng_next(rng),
            .by_event = rng_chance(rng, 70),
        };
}

static void wait_for(struct machine *m, const struct step *s, int other, weir_event *event)
{
    if (other == s->stream)
        return;
    if (s->by_event)
        CHECK_OK(weir_stream_wait(m->streams[s->stream], event));
    else
        CHECK_OK(weir_stream_wait_stream(m->streams[s->stream], m->streams[other]));
}

static void before_read(struct machine *m, const struct step *s, int at)
{
    wait_for(m, s, m->slots[at].writer, m->slots[at].written);
}

static void after_read(struct machine *m, const struct step *s, int at)
{
    m->slots[at].readers |= 1u << s->stream;
    CHECK_OK(weir_event_record(m->slots[at].read[s->stream], m->streams[s->stream]));
}

/* For writes in place only: a new tensor needs no one's leave. */
static void before_write(struct machine *m, const struct step *s, int at)
{
    before_read(m, s, at);
    for (int i = 0; i < STREAMS; i++)
        if (m->slots[at].readers & 1u << i)
            wait_for(m, s, i, m->slots[at].read[i]);
}

static void after_write(struct machine *m, const struct step *s, int at)
{
    m->slots[at].writer = s->stream;
    m->slots[at].readers = 0;
    CHECK_OK(weir_event_record(m->slots[at].written, m->streams[s->stream]));
}

/* Operators of several steps on temporaries that are released at once. */
static weir_tensor *turn_add(weir_tensor *a, weir_tensor *b)
{
    weir_tensor *turned, *out;

    CHECK_OK(weir_tensor_transpose(a, 0, 1, &turned));
    CHECK_OK(weir_add(turned, b, &out));
    weir_tensor_release(turned);
    return out;
}

static weir_tensor *sum_sub(weir_tensor *a, weir_tensor *b)
{
    weir_tensor *sum, *out;

    CHECK_OK(weir_mean(a, (int[]){1}, 1, true, &sum));
    CHECK_OK(weir_sub(b, sum, &out));
    weir_tensor_release(sum);
    return out;
}

static weir_tensor *gather_rows(weir_tensor *a, weir_tensor *b)
{
    weir_tensor *order_of, *out;

    CHECK_OK(weir_argsort(b, 0, true, &order_of));
    CHECK_OK(weir_gather(a, 0, order_of, &out));
    weir_tensor_release(order_of);
    return out;
}

static weir_tensor *fresh(weir_stream *stream, uint64_t seed)
{
    int64_t shape[] = {SIDE, SIDE};
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(stream, WEIR_F32, 2, shape, &t));
    CHECK_OK(weir_random_uniform(t, seed, -1, 1));
    return t;
}

static weir_tensor *compute(const struct step *s, weir_stream *stream, weir_tensor *a,
                            weir_tensor *b)
{
    weir_tensor *out = NULL, *row;

    switch (s->kind) {
    case FRESH:
        return fresh(stream, s->seed);
    case ADD:
        CHECK_OK(weir_add(a, b, &out));
        break;
    case MUL:
        CHECK_OK(weir_mul(a, b, &out));
        break;
    case MATMUL:
        CHECK_OK(weir_matmul(a, b, &out));
        break;
    case TANH:
        CHECK_OK(weir_tanh(a, &out));
        break;
    case SOFTMAX:
        CHECK_OK(weir_softmax(a, 0, &out));
        break;
    case TURN_ADD:
        return turn_add(a, b);
    case SORT:
        CHECK_OK(weir_sort(a, 1, false, &out, NULL));
        break;
    case NORM:
        CHECK_OK(weir_layer_norm(a, NULL, NULL, 1e-5, &out));
        break;
    case SUM_SUB:
        return sum_sub(a, b);
    case GATHER_ROWS:
        return gather_rows(a, b);
    case ADD_INTO:
        CHECK_OK(weir_add_into(a, b, a));
        break;
    case SCALE_INTO:
        CHECK_OK(weir_mul_scalar_into(a, 0.5, a));
        break;
    default:
        CHECK_OK(weir_tensor_slice(a, 0, 3, 4, 1, &row));
        CHECK_OK(weir_random_uniform(row, s->seed, 0, 1));
        weir_tensor_release(row);
    }
    return out;
}

static void run_step(struct machine *m, const struct step *s)
{
    bool in_place = s->kind >= ADD_INTO;
    weir_tensor *out;

    CHECK_OK(weir_stream_set_current(m->streams[s->stream]));
    if (in_place)
        before_write(m, s, s->a);
    else if (s->kind != FRESH)
        before_read(m, s, s->a);
    if (s->kind != FRESH)
        before_read(m, s, s->b);
    out = compute(s, m->streams[s->stream], m->slots[s->a].tensor, m->slots[s->b].tensor);
    if (s->kind != FRESH) {
        after_read(m, s, s->a);
        after_read(m, s, s->b);
    }
    if (in_place) {
        after_write(m, s, s->a);
        return;
    }
    /* The old one goes while others may still read it. */
    weir_tensor_release(m->slots[s->to].tensor);
    m->slots[s->to].tensor = out;
    after_write(m, s, s->to);
}

static void machine_open(struct machine *m, weir_device *dev, bool many)
{
    m->dev = dev;
    for (int i = 0; i < STREAMS; i++)
        m->streams[i] = many || !i ? new_stream(dev) : m->streams[0];
    for (int i = 0; i < SLOTS; i++) {
        m->slots[i] = (struct slot){.writer = 0};
        CHECK_OK(weir_event_create(dev, NULL, &m->slots[i].written));
        for (int k = 0; k < STREAMS; k++)
            CHECK_OK(weir_event_create(dev, NULL, &m->slots[i].read[k]));
    }
}

static void machine_close(struct machine *m, bool many)
{
    for (int i = 0; i < SLOTS; i++) {
        weir_tensor_release(m->slots[i].tensor);
        weir_event_destroy(m->slots[i].written);
        for (int k = 0; k < STREAMS; k++)
            weir_event_destroy(m->slots[i].read[k]);
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(m->dev)));
    for (int i = 0; i < (many ? STREAMS : 1); i++)
        CHECK_OK(weir_stream_destroy(m->streams[i]));
}

/* The bytes of all slots at the end, read in program order on stream 0. */
static void run_program(weir_device *dev, const struct step *steps, bool many, float *result)
{
    struct machine m;

    machine_open(&m, dev, many);
    for (int i = 0; i < STEPS; i++)
        run_step(&m, &steps[i]);
    CHECK_OK(weir_stream_set_current(m.streams[0]));
    for (int i = 0; i < SLOTS; i++) {
        before_read(&m, &(struct step){.stream = 0, .by_event = true}, i);
        CHECK_OK(weir_tensor_read(m.slots[i].tensor, result + i * SIDE * SIDE,
                                  SIDE * SIDE * sizeof *result));
    }
    machine_close(&m, many);
}

struct bytes {
    float at[SLOTS * SIDE * SIDE];
};

CONFORMANCE(programs, many_streams_give_what_one_gives)
{
    static struct bytes want, got;
    struct step steps[STEPS];

    for (uint64_t seed = 0; seed < repeats(dev, 200); seed++) {
        struct rng rng = rng_make("programs", seed);

        test_note("seed %llu", (unsigned long long)seed);
        make_program(&rng, steps);
        run_program(dev, steps, false, want.at);
        for (int round = 0; round < 3; round++) {
            run_program(dev, steps, true, got.at);
            CHECK_MEM_EQ(&got, &want, sizeof want);
        }
    }
}

struct worker {
    pthread_t thread;
    weir_device *dev;
    struct step steps[STEPS];
    struct bytes want, got;
    uint64_t seed;
};

static void *run_worker(void *user)
{
    struct worker *w = user;

    test_note("seed %llu", (unsigned long long)w->seed);
    for (int round = 0; round < 3; round++) {
        run_program(w->dev, w->steps, true, w->got.at);
        CHECK_MEM_EQ(&w->got, &w->want, sizeof w->want);
    }
    return NULL;
}

CONFORMANCE(programs, host_threads_do_not_disturb_each_other)
{
    static struct worker workers[4];

    for (uint64_t seed = 0; seed < repeats(dev, 20); seed++) {
        for (size_t i = 0; i < countof(workers); i++) {
            struct worker *w = &workers[i];
            struct rng rng = rng_make("threads", w->seed = 4 * seed + i);

            w->dev = dev;
            make_program(&rng, w->steps);
            run_program(dev, w->steps, false, w->want.at);
        }
        for (size_t i = 0; i < countof(workers); i++)
            CHECK_EQ(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
        for (size_t i = 0; i < countof(workers); i++)
            CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
    }
}
