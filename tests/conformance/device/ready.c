/* Values written by the host are visible to every stream; values read by the host include the work
 * of every stream. */
#include "conformance/conformance.h"

#include <pthread.h>
#include <stdlib.h>

enum { BUSY = 96 }; /* side of a product that keeps a stream from getting to what is behind it */

/* Work that takes longer than making a tensor and using it. */
static void keep_busy(weir_stream *s, weir_tensor *square)
{
    weir_tensor *t;

    CHECK_OK(weir_stream_set_current(s));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_matmul(square, square, &t));
        weir_tensor_release(t);
    }
}

static weir_tensor *make_square(weir_device *dev)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){BUSY, BUSY}, &t));
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_fill(t, 0));
    CHECK_OK(weir_stream_sync(weir_stream_default(dev)));
    return t;
}

/* ---- ways to make a tensor; each holds first, first + 1, ... ---- */

static weir_tensor *by_from(weir_stream *s, int64_t n, int32_t first)
{
    int32_t *values = malloc((size_t)n * sizeof *values + 1);
    weir_tensor *t;

    CHECK(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = first + (int32_t)i;
    CHECK_OK(weir_tensor_from(s, WEIR_I32, 1, &n, values, &t));
    free(values);
    return t;
}

/* Into every other element of a tensor that was used before. */
static weir_tensor *by_write(weir_stream *s, int64_t n, int32_t first)
{
    int32_t *values = malloc((size_t)n * sizeof *values + 1);
    int64_t whole = 2 * n;
    weir_tensor *base, *t;

    CHECK(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = first + (int32_t)i;
    CHECK_OK(weir_tensor_empty(s, WEIR_I32, 1, &whole, &base));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_fill(base, -7));
    CHECK_OK(weir_tensor_slice(base, 0, 0, whole, 2, &t));
    weir_tensor_release(base);
    CHECK_OK(weir_tensor_write(t, values, (size_t)n * sizeof *values));
    free(values);
    return t;
}

static weir_tensor *by_arange(weir_stream *s, int64_t n, int32_t first)
{
    weir_tensor *t;

    CHECK_OK(weir_arange(s, WEIR_I32, n, first, 1, &t));
    return t;
}

/* Operators of one stream, said to be there for all. */
static weir_tensor *by_fill(weir_stream *s, int64_t n, int32_t first)
{
    weir_tensor *counted = by_arange(s, n, 0), *t;

    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_tensor_empty(s, WEIR_I32, 1, &n, &t));
    CHECK_OK(weir_fill(t, first));
    CHECK_OK(weir_add_into(t, counted, t));
    CHECK_OK(weir_wait_tensor(t, t));
    weir_tensor_release(counted);
    return t;
}

static weir_tensor *(*const makers[])(weir_stream *s, int64_t n,
                                      int32_t first) = {by_from, by_write, by_arange, by_fill};
static const char *const maker_names[] = {"from", "write", "arange", "fill"};

static void check_values(weir_tensor *t, int64_t n, int32_t first)
{
    int32_t *got = malloc((size_t)n * sizeof *got + 1);

    CHECK(got);
    CHECK_OK(weir_tensor_read(t, got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(got[i], first + i);
    free(got);
}

static int64_t any_size(struct rng *rng)
{
    static const int64_t sizes[] = {1, 2, 255, 256, 257, 3000};

    return sizes[rng_int(rng, 0, countof(sizes) - 1)];
}

/* Makes on one stream, uses on another, reads while a third is current. */
static void check_many(weir_device *dev, struct rng *rng, weir_stream *const *streams, int n,
                       weir_tensor *square, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        int how = (int)rng_int(rng, 0, countof(makers) - 1);
        weir_stream *makes = streams[rng_int(rng, 0, n - 1)],
                    *uses = streams[rng_int(rng, 0, n - 1)];
        int32_t first = (int32_t)rng_int(rng, 1, 1000000);
        int64_t size = any_size(rng);
        weir_tensor *x, *y;

        test_note("round %u: %lld elements by %s", i, (long long)size, maker_names[how]);
        if (rng_chance(rng, 50))
            keep_busy(makes, square);
        x = makers[how](makes, size, first);
        CHECK_OK(weir_stream_set_current(uses));
        CHECK_OK(weir_add_scalar(x, 1, &y));
        weir_tensor_release(x);
        CHECK_OK(weir_stream_set_current(streams[rng_int(rng, 0, n - 1)]));
        check_values(y, size, first + 1);
        weir_tensor_release(y);
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
}

CONFORMANCE(ready, host_data_is_there_for_every_stream_when_the_call_returns)
{
    struct rng rng = rng_make("ready", 0);
    weir_tensor *square = make_square(dev);
    weir_stream *streams[4] = {weir_stream_default(dev)};

    for (int i = 1; i < 4; i++)
        streams[i] = new_stream(dev);
    check_many(dev, &rng, streams, 4, square, repeats(dev, 400));
    weir_tensor_release(square);
    for (int i = 1; i < 4; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
}

/* ---- the same by many threads at once, over shared streams and their own ---- */

enum { THREADS = 6, STREAMS = 8 };

struct worker {
    weir_device *dev;
    weir_stream *const *streams;
    weir_tensor *square;
    uint64_t index;
    unsigned rounds;
    pthread_t thread;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct rng rng = rng_make("ready threads", w->index);

    check_many(w->dev, &rng, w->streams, STREAMS, w->square, w->rounds);
    return NULL;
}

CONFORMANCE(ready, host_data_of_many_threads_is_there_for_every_stream)
{
    weir_stream *streams[STREAMS] = {weir_stream_default(dev)};
    weir_tensor *square = make_square(dev);
    struct worker workers[THREADS];

    for (int i = 1; i < STREAMS; i++)
        streams[i] = new_stream(dev);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.dev = dev,
                                     .streams = streams,
                                     .square = square,
                                     .index = (uint64_t)i,
                                     .rounds = repeats(dev, 100)};
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
    weir_tensor_release(square);
    for (int i = 1; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
}

CONFORMANCE(ready, the_race_checker_finds_nothing_to_say_about_host_data)
{
    struct rng rng = rng_make("ready races", 0);
    weir_tensor *square = make_square(dev);
    weir_stream *streams[3] = {weir_stream_default(dev), new_stream(dev), new_stream(dev)};

    CHECK_OK(weir_race_set_mode(WEIR_RACE_ERROR));
    check_many(dev, &rng, streams, 3, square, repeats(dev, 60));
    CHECK_OK(weir_race_set_mode(WEIR_RACE_OFF));
    weir_tensor_release(square);
    for (int i = 1; i < 3; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
}

/* ---- plans and copies take what the host made as operators do ---- */

CONFORMANCE(ready, a_plan_on_another_stream_reads_what_the_host_wrote)
{
    weir_stream *a = new_stream(dev), *b = new_stream(dev);
    weir_tensor *square = make_square(dev), *in, *out;
    int64_t n = 8;
    weir_graph *graph;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &graph));
    CHECK_OK(weir_graph_input(graph, "x", WEIR_I32, 1, &n, &in));
    CHECK_OK(weir_graph_begin(graph));
    CHECK_OK(weir_add_scalar(in, 1, &out));
    CHECK_OK(weir_graph_end(graph));
    CHECK_OK(weir_graph_output(graph, "y", out));
    weir_tensor_release(in);
    weir_tensor_release(out);
    CHECK_OK(weir_graph_compile(graph, NULL, &plan));
    for (int32_t i = 0; i < 30; i++) {
        weir_tensor *x, *y;

        keep_busy(a, square);
        x = by_from(a, n, i);
        CHECK_OK(weir_stream_set_current(b));
        CHECK_OK(weir_tensor_empty(b, WEIR_I32, 1, &n, &y));
        CHECK_OK(weir_plan_run(plan, b, &x, 1, &y, 1));
        weir_tensor_release(x);
        check_values(y, n, i + 1);
        weir_tensor_release(y);
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    weir_tensor_release(square);
    weir_plan_destroy(plan);
    weir_graph_destroy(graph);
    CHECK_OK(weir_stream_destroy(a));
    CHECK_OK(weir_stream_destroy(b));
}

CONFORMANCE(ready, a_copy_to_another_device_takes_what_the_host_wrote)
{
    weir_device *other = open_another();
    weir_stream *a = new_stream(dev), *b = new_stream(dev);
    weir_tensor *square = make_square(dev);
    int64_t n = 8;

    for (int32_t i = 0; i < 30; i++) {
        weir_tensor *x, *y;

        keep_busy(a, square);
        x = by_from(a, n, i);
        CHECK_OK(weir_stream_set_current(b));
        CHECK_OK(weir_tensor_empty(weir_stream_default(other), WEIR_I32, 1, &n, &y));
        CHECK_OK(weir_tensor_copy(y, x));
        weir_tensor_release(x);
        check_values(y, n, i);
        weir_tensor_release(y);
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    weir_tensor_release(square);
    CHECK_OK(weir_stream_destroy(a));
    CHECK_OK(weir_stream_destroy(b));
    CHECK_OK(weir_device_close(other));
}

/* ---- back to the host ---- */

static weir_status failing_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_ERANGE;
}

CONFORMANCE(ready, a_read_gives_the_error_of_the_stream_that_made_the_values)
{
    int64_t n = 4;
    int32_t got[4];
    weir_tensor *t;
    weir_stream *s;

    need_gates(dev);
    s = new_stream(dev);
    CHECK_OK(weir_tensor_empty(s, WEIR_I32, 1, &n, &t));
    CHECK_OK(weir_launch_submit(
        s, &(weir_launch){.name = "fails", .fn = failing_kernel, .tensors = &t, .ntensors = 1}));
    CHECK_STATUS(weir_tensor_read(t, got, sizeof got), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "fails");
    weir_tensor_release(t);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_sync(weir_stream_default(dev))); /* which is none of its business */
}
