/* Random programs in which operators fail, eagerly and in plans: what runs, and what every stream
 * and callback says of it, follows from the order of the calls alone. A stream in error runs
 * nothing more; whoever waits for what comes after the failure takes the error over; everything
 * else goes on. */
#include "conformance/conformance.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { TENSORS = 5, LANES = 4, WIDTH = 8, EVENTS = 4, ACTIONS = 120, CALLBACKS = ACTIONS };

struct mark {
    int error; /* of what comes after it; 0: none */
};

struct callback {
    atomic_int calls;
    bool fails;
    atomic_bool failed;
};

struct failing {
    weir_device *dev;
    struct rng rng;
    weir_stream *streams[LANES];
    int error[LANES]; /* the number of the operator that failed; 0: none */
    weir_tensor *t[TENSORS];
    int64_t memory[TENSORS][WIDTH], want[TENSORS];
    int user[TENSORS]; /* the stream that used it last; -1: the host saw that over */
    weir_event *used[TENSORS], *events[EVENTS];
    struct mark used_mark[TENSORS], marks[EVENTS];
    weir_plan *add, *check;
    struct callback callbacks[CALLBACKS];
    int ncallbacks, nfailed;
    int skipped, ran;
};

static const char *const bad_names[] = {"?",     "bad_1", "bad_2", "bad_3", "bad_4",
                                        "bad_5", "bad_6", "bad_7", "bad_8", "bad_9"};

static int any_stream(struct failing *f)
{
    int s = (int)rng_int(&f->rng, 0, LANES - 1);

    CHECK_OK(weir_stream_set_current(f->streams[s]));
    return s;
}

static int any_tensor(struct failing *f)
{
    return (int)rng_int(&f->rng, 0, TENSORS - 1);
}

static void take(struct failing *f, int s, int error)
{
    if (!f->error[s])
        f->error[s] = error;
}

/* ---- use in order ---- */

static void before(struct failing *f, int s, int t)
{
    if (f->user[t] < 0 || f->user[t] == s)
        return;
    CHECK_OK(weir_stream_wait(f->streams[s], f->used[t]));
    take(f, s, f->used_mark[t].error);
}

static void after(struct failing *f, int s, int t)
{
    f->user[t] = s;
    CHECK_OK(weir_event_record(f->used[t], f->streams[s]));
    f->used_mark[t].error = f->error[s];
}

/* Whether what is queued on the stream now is to run. */
static bool runs(struct failing *f, int s)
{
    f->skipped += !!f->error[s];
    f->ran += !f->error[s];
    return !f->error[s];
}

static void do_scale(struct failing *f)
{
    int s = any_stream(f), t = any_tensor(f);
    int64_t k = rng_int(&f->rng, 1, 9);

    before(f, s, t);
    CHECK_OK(weir_mul_scalar_into(f->t[t], 3, f->t[t]));
    CHECK_OK(weir_add_scalar_into(f->t[t], (double)k, f->t[t]));
    if (runs(f, s))
        f->want[t] = (int64_t)((uint64_t)f->want[t] * 3 + (uint64_t)k);
    after(f, s, t);
}

static void do_sum(struct failing *f)
{
    int s = any_stream(f), t = any_tensor(f), from = any_tensor(f);

    before(f, s, t);
    before(f, s, from);
    CHECK_OK(weir_add_into(f->t[t], f->t[from], f->t[t]));
    if (runs(f, s))
        f->want[t] = (int64_t)((uint64_t)f->want[t] + (uint64_t)f->want[from]);
    after(f, s, from);
    after(f, s, t);
}

static weir_status fail(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return weir_kernel_fail(WEIR_EINVAL, "as it should");
}

static weir_status spin(const void *args, const weir_block *block)
{
    (void)block;
    for (volatile int64_t i = *(const int64_t *)args; i > 0; i--)
        continue;
    return WEIR_OK;
}

static void do_spin(struct failing *f)
{
    int64_t n = rng_int(&f->rng, 1, 20000);

    CHECK_OK(weir_launch_submit(
        f->streams[any_stream(f)],
        &(weir_launch){.name = "spin", .fn = spin, .args = &n, .args_size = sizeof n}));
}

static void do_fail(struct failing *f)
{
    int s = any_stream(f);

    if (f->nfailed + 1 == countof(bad_names) || rng_chance(&f->rng, 40))
        return;
    f->nfailed++;
    CHECK_OK(weir_launch_submit(f->streams[s],
                                &(weir_launch){.name = bad_names[f->nfailed], .fn = fail}));
    take(f, s, f->nfailed);
}

/* ---- plans ---- */

static weir_status refuse_some(void *user, void *const *in, void *const *out)
{
    const int64_t *x = in[0];

    (void)user;
    if ((*x & 7) == 5)
        return weir_kernel_fail(WEIR_EINVAL, "a value that it does not like");
    memcpy(out[0], x, WIDTH * sizeof *x);
    return WEIR_OK;
}

/* x = 5x; y += x beside it. Or y += what a function makes of x, which fails for some values. */
static weir_plan *make_plan(weir_device *dev, bool checks)
{
    weir_tensor *x, *y, *z;
    weir_host_call call = {.size = sizeof call, .name = "check_x", .fn = refuse_some, .nout = 1};
    const int64_t n = WIDTH;
    weir_graph *g;
    weir_plan *plan;

    call.out[0].dtype = WEIR_I64;
    call.out[0].ndim = 1;
    call.out[0].shape[0] = n;
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_I64, 1, &n, &x));
    CHECK_OK(weir_graph_input(g, "y", WEIR_I64, 1, &n, &y));
    CHECK_OK(weir_graph_begin(g));
    if (checks) {
        CHECK_OK(weir_host_run(&call, &x, 1, &z));
        CHECK_OK(weir_add_into(y, z, y));
        weir_tensor_release(z);
    } else {
        CHECK_OK(weir_scope_push_stream("errors beside", 0));
        CHECK_OK(weir_add_into(y, x, y));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
        CHECK_OK(weir_mul_scalar_into(x, 5, x));
    }
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g,
                                &(weir_compile_options){.size = sizeof(weir_compile_options),
                                                        .mode = WEIR_COMPILE_REDUCE_OVERHEAD},
                                &plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    return plan;
}

static void do_plan(struct failing *f)
{
    int s = any_stream(f), x = any_tensor(f),
        y = (x + (int)rng_int(&f->rng, 1, TENSORS - 1)) % TENSORS;
    bool checks = rng_chance(&f->rng, 35);

    before(f, s, x);
    before(f, s, y);
    CHECK_OK(weir_plan_run(checks ? f->check : f->add, f->streams[s],
                           (weir_tensor *[]){f->t[x], f->t[y]}, 2, NULL, 0));
    if (runs(f, s)) {
        if (checks && (f->want[x] & 7) == 5) {
            take(f, s, -1);
        } else {
            f->want[y] = (int64_t)((uint64_t)f->want[y] + (uint64_t)f->want[x]);
            if (!checks)
                f->want[x] = (int64_t)((uint64_t)f->want[x] * 5);
        }
    }
    after(f, s, x);
    after(f, s, y);
}

/* ---- events and waits ---- */

static void do_record(struct failing *f)
{
    int s = any_stream(f), e = (int)rng_int(&f->rng, 0, EVENTS - 1);

    CHECK_OK(weir_event_record(f->events[e], f->streams[s]));
    f->marks[e].error = f->error[s];
}

static void do_wait(struct failing *f)
{
    int s = any_stream(f), other = (int)rng_int(&f->rng, 0, LANES - 1);
    int e = (int)rng_int(&f->rng, 0, EVENTS - 1);

    if (rng_chance(&f->rng, 60)) {
        CHECK_OK(weir_stream_wait(f->streams[s], f->events[e]));
        take(f, s, f->marks[e].error);
    } else if (s != other) {
        CHECK_OK(weir_stream_wait_stream(f->streams[s], f->streams[other]));
        take(f, s, f->error[other]);
    }
}

static void check_status(weir_status st, int error, const char *what)
{
    const char *name = error < 0 ? "check_x" : bad_names[error];

    if (!error)
        CHECK_OK(st);
    else if (!st)
        FAIL("%s knows nothing of %s", what, name);
    else if (!strstr(weir_last_error(), name))
        FAIL("%s is not %s: %s", what, name, weir_last_error());
}

static void called(void *user, weir_status status)
{
    struct callback *c = user;

    atomic_store(&c->failed, status != WEIR_OK);
    atomic_fetch_add(&c->calls, 1);
}

static void do_callback(struct failing *f)
{
    int s = any_stream(f);
    struct callback *c = &f->callbacks[f->ncallbacks++];

    c->fails = f->error[s];
    CHECK_OK(weir_stream_callback(f->streams[s], called, c));
}

static void do_sync(struct failing *f)
{
    int s = any_stream(f), e = (int)rng_int(&f->rng, 0, EVENTS - 1);
    bool done;
    weir_status st;

    switch (rng_int(&f->rng, 0, 3)) {
    case 0:
        check_status(weir_stream_sync(f->streams[s]), f->error[s], "a stream");
        break;
    case 1:
        check_status(weir_event_sync(f->events[e]), f->marks[e].error, "an event");
        break;
    case 2:
        if ((st = weir_stream_query(f->streams[s], &done)))
            check_status(st, f->error[s], "a query");
        break;
    default:
        if (rng_chance(&f->rng, 70))
            break;
        st = weir_device_sync(f->dev);
        for (s = 0; s < LANES && !f->error[s]; s++)
            continue;
        CHECK_EQ(!st, s == LANES);
    }
}

/* A stream that is given back takes its error along. */
static void do_renew(struct failing *f)
{
    int s = any_stream(f);

    check_status(weir_stream_sync(f->streams[s]), f->error[s], "a stream");
    for (int t = 0; t < TENSORS; t++)
        if (f->user[t] == s)
            f->user[t] = -1;
    for (int e = 0; e < EVENTS; e++) { /* what its events say then is another matter */
        weir_event_destroy(f->events[e]);
        CHECK_OK(weir_event_create(f->dev, NULL, &f->events[e]));
        f->marks[e].error = 0;
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(f->dev)));
    CHECK_OK(weir_stream_destroy(f->streams[s]));
    f->streams[s] = new_stream(f->dev);
    f->error[s] = 0;
}

/* ---- programs ---- */

static void run_action(struct failing *f)
{
    static const struct {
        void (*run)(struct failing *f);
        int weight;
    } actions[] = {{do_scale, 20}, {do_sum, 14},  {do_spin, 8}, {do_fail, 4},  {do_plan, 12},
                   {do_record, 8}, {do_wait, 10}, {do_sync, 6}, {do_renew, 8}, {do_callback, 6}};
    int total = 0, pick, at = 0;

    for (size_t i = 0; i < countof(actions); i++)
        total += actions[i].weight;
    pick = (int)rng_int(&f->rng, 0, total - 1);
    while (pick >= actions[at].weight)
        pick -= actions[at++].weight;
    if (getenv("EAGER_SHOW"))
        fprintf(stderr, "action %d\n", at);
    actions[at].run(f);
}

static void check_all(struct failing *f)
{
    for (int s = 0; s < LANES; s++)
        check_status(weir_stream_sync(f->streams[s]), f->error[s], "a stream at the end");
    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < WIDTH; i++)
            CHECK_EQ(f->memory[t][i], f->want[t]);
    for (int i = 0; i < f->ncallbacks; i++) {
        CHECK_EQ(atomic_load(&f->callbacks[i].calls), 1);
        CHECK_EQ(atomic_load(&f->callbacks[i].failed), f->callbacks[i].fails);
    }
}

static void run_failing(weir_device *dev, uint64_t seed)
{
    struct failing *f = calloc(1, sizeof *f);
    const int64_t n = WIDTH;

    f->dev = dev;
    f->rng = rng_make("failing", seed);
    for (int s = 0; s < LANES; s++)
        f->streams[s] = new_stream(dev);
    for (int t = 0; t < TENSORS; t++) {
        f->want[t] = t + 1;
        f->user[t] = -1;
        for (int i = 0; i < WIDTH; i++)
            f->memory[t][i] = t + 1;
        CHECK_OK(weir_tensor_wrap(f->streams[0], WEIR_I64, 1, &n, NULL, f->memory[t], NULL, NULL,
                                  &f->t[t]));
        CHECK_OK(weir_event_create(dev, NULL, &f->used[t]));
    }
    for (int e = 0; e < EVENTS; e++)
        CHECK_OK(weir_event_create(dev, NULL, &f->events[e]));
    f->add = make_plan(dev, false);
    f->check = make_plan(dev, true);
    for (int i = 0; i < ACTIONS; i++) {
        test_note("seed %llu, action %d", (unsigned long long)seed, i);
        run_action(f);
    }
    check_all(f);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int s = 0; s < LANES; s++)
        CHECK_OK(weir_stream_destroy(f->streams[s]));
    CHECK_OK(weir_device_sync(dev));
    for (int t = 0; t < TENSORS; t++) {
        weir_tensor_release(f->t[t]);
        weir_event_destroy(f->used[t]);
    }
    for (int e = 0; e < EVENTS; e++)
        weir_event_destroy(f->events[e]);
    weir_plan_destroy(f->add);
    weir_plan_destroy(f->check);
    if (getenv("EAGER_SHOW"))
        fprintf(stderr, "%d ran, %d skipped\n", f->ran, f->skipped);
    free(f);
}

CONFORMANCE(errors, in_random_programs_stop_what_comes_after_them_and_nothing_else)
{
    const char *first = getenv("EAGER_SEED"), *count = getenv("EAGER_COUNT");
    uint64_t seed = first ? strtoull(first, NULL, 0) : 1;
    uint64_t end = seed + (count ? strtoull(count, NULL, 0) : 1 + repeats(dev, 60));

    need(dev, WEIR_FEATURE_HOST_MEMORY);
    for (; seed < end; seed++)
        run_failing(dev, seed);
}
