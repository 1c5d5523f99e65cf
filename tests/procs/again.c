/* Short calls that come again and again: whichever way a rank comes to one, at once or by its
 * stream, values are right, and ranks that disagree or die are named. */
#include <pthread.h>

#include "procs/kids.h"

static weir_tensor *room(weir_stream *s, weir_dtype type, int64_t n)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, type, 1, &n, &t));
    CHECK_OK(weir_fill(t, 0));
    return t;
}

static void expect(weir_tensor *t, int64_t n, int32_t value)
{
    int32_t data[400];

    CHECK(n <= 400);
    CHECK_OK(weir_tensor_read(t, data, (size_t)n * sizeof *data));
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(data[i], value);
}

/* ---- values ---- */

/* More pairs of tensors than a group keeps calls of, of 4 bytes to more than a record carries. */
enum { PAIRS = 12, STEPS = 6000 / TEST_SLOWDOWN };

/* A tensor of n numbers that is new: of the pool, or memory of the host. */
static weir_tensor *new_input(weir_stream *s, int64_t n, int32_t value, bool wraps)
{
    int32_t *data = malloc((size_t)n * sizeof *data);
    weir_tensor *t;

    for (int64_t i = 0; i < n; i++)
        data[i] = value;
    if (wraps) {
        CHECK_OK(weir_tensor_wrap(s, WEIR_I32, 1, &n, NULL, data, free, data, &t));
    } else {
        CHECK_OK(weir_tensor_from(s, WEIR_I32, 1, &n, data, &t));
        free(data);
    }
    return t;
}

/* All ranks make the same calls; on which stream, whether that is idle, how the input was written,
 * whether it and the result are new and whether a trace is recorded is each one's own matter. */
SCENARIO(again)
{
    static const int64_t sizes[] = {1, 3, 8, 9, 64, 255, 256, 300};
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_rank *self = weir_group_self(g);
    int me = weir_rank_index(self), ranks = weir_group_size(g);
    uint64_t shared = 7, own = 100 + (uint64_t)me;
    weir_tensor *x[PAIRS], *y[PAIRS], *in, *out;
    weir_stream *streams[2] = {weir_stream_default(dev)}, *s = streams[0];

    CHECK_OK(weir_stream_create(dev, NULL, &streams[1]));
    for (int i = 0; i < PAIRS; i++) {
        x[i] = room(s, WEIR_I32, sizes[i % 8]);
        y[i] = room(s, WEIR_I32, sizes[i % 8]);
    }
    for (int step = 0; step < STEPS; step++) {
        /* mostly the same few, so that they are kept */
        int i = (int)(draw(&shared) % (step % 1000 < 700 ? 3 : PAIRS)), in_place;
        int kind = (int)(draw(&shared) % 8), base = step % 1000;
        int32_t want = kind == 0   ? base + 10 * (ranks - 1)
                       : kind == 1 ? base + 10 * (step % ranks)
                                   : ranks * base + 10 * ranks * (ranks - 1) / 2;

        test_note("rank %d, step %d, pair %d, kind %d", me, step, i, kind);
        in_place = draw(&shared) % 4 == 0;
        if (draw(&own) % 16 == 0) {
            CHECK_OK(weir_stream_sync(s));
            s = streams[draw(&own) % 2];
            CHECK_OK(weir_stream_set_current(s));
        }
        CHECK_OK(weir_fill(x[i], base + 10 * me));
        if (draw(&own) % 2)
            CHECK_OK(weir_stream_sync(s));
        if (draw(&own) % 500 == 0)
            CHECK_OK(weir_trace_start(NULL));
        in = weir_tensor_retain(x[i]);
        if (draw(&own) % 3 == 0) {
            weir_tensor_release(in);
            in = new_input(s, sizes[i % 8], base + 10 * me, draw(&own) % 2);
        }
        out = in_place ? weir_tensor_retain(in) : weir_tensor_retain(y[i]);
        if (draw(&own) % 3 == 0) {
            weir_tensor_release(out);
            CHECK_OK(kind == 0   ? weir_all_reduce(self, in, WEIR_REDUCE_MAX, &out)
                     : kind == 1 ? weir_broadcast(self, in, step % ranks, &out)
                                 : weir_all_reduce(self, in, WEIR_REDUCE_SUM, &out));
        } else if (kind == 0) {
            CHECK_OK(weir_all_reduce_into(self, in, WEIR_REDUCE_MAX, out));
        } else if (kind == 1) {
            CHECK_OK(weir_broadcast_into(self, in, step % ranks, out));
        } else {
            CHECK_OK(weir_all_reduce_into(self, in, WEIR_REDUCE_SUM, out));
        }
        weir_tensor_release(in);
        if (weir_trace_running()) {
            weir_trace *trace;

            CHECK_OK(weir_trace_stop(&trace));
            weir_trace_free(trace);
        }
        if (draw(&own) % 4)
            expect(out, sizes[i % 8], want);
        else if (draw(&own) % 2)
            CHECK_OK(weir_device_sync(dev));
        weir_tensor_release(out);
    }
    for (int i = 0; i < PAIRS; i++) {
        weir_tensor_release(x[i]);
        weir_tensor_release(y[i]);
    }
    CHECK_OK(weir_stream_set_current(streams[0]));
    CHECK_OK(weir_stream_sync(streams[1]));
    CHECK_OK(weir_stream_destroy(streams[1]));
    leave(g, dev);
}

TEST(procs, short_calls_give_the_right_values_in_any_order_of_arrival)
{
    for (int ranks = 2; ranks <= 4; ranks++)
        kids_run(ranks, "again", NULL);
}

/* Host threads of a rank have a group and a stream each, on one device. */
static void *call_on_own_group(void *user)
{
    weir_group *g = user;
    weir_rank *self = weir_group_self(g);
    weir_device *dev = weir_rank_device(self);
    int me = weir_rank_index(self), ranks = weir_group_size(g);
    weir_tensor *x, *y;
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, NULL, &s));
    CHECK_OK(weir_stream_set_current(s));
    x = room(s, WEIR_I32, 5);
    y = room(s, WEIR_I32, 5);
    for (int i = 0; i < 600 / TEST_SLOWDOWN; i++) {
        CHECK_OK(weir_fill(x, i + me));
        if (i % 3)
            CHECK_OK(weir_stream_sync(s));
        CHECK_OK(weir_all_reduce_into(self, x, WEIR_REDUCE_SUM, y));
        expect(y, 5, ranks * i + ranks * (ranks - 1) / 2);
    }
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_stream_destroy(s));
    return NULL;
}

SCENARIO(again_threads)
{
    weir_device *dev;
    weir_group *world = join(&dev, NULL), *groups[3];
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        CHECK_OK(weir_group_split(world, (int[]){0, 1}, 2, NULL, &groups[i]));
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_create(&threads[i], NULL, call_on_own_group, groups[i]));
    for (int i = 0; i < 3; i++) {
        CHECK(!pthread_join(threads[i], NULL));
        CHECK_OK(weir_group_destroy(groups[i]));
    }
    leave(world, dev);
}

TEST(procs, host_threads_make_short_calls_on_groups_of_their_own)
{
    kids_run(2, "again_threads", NULL);
}

/* ---- errors ---- */

/* After many calls that were alike one differs in one thing, on one rank. */
SCENARIO(again_differs)
{
    static const char *const said[] = {"the reduction differs", "the data type differs",
                                       "the shape differs", "the operator differs"};
    weir_device *dev;
    weir_group *world = join(&dev, NULL);
    int me = weir_rank_index(weir_group_self(world)), all[] = {0, 1, 2};
    weir_stream *s;

    for (int what = 0; what < 4; what++) {
        bool other = me == 1;
        weir_tensor *x, *y, *more;
        weir_group *g;
        weir_rank *self;
        weir_status st = WEIR_OK;

        CHECK_OK(weir_group_split(world, all, 3, NULL, &g));
        CHECK_OK(weir_stream_create(dev, NULL, &s));
        CHECK_OK(weir_stream_set_current(s));
        self = weir_group_self(g);
        x = room(s, WEIR_I32, 4);
        y = room(s, WEIR_I32, 4);
        more = room(s, what == 1 ? WEIR_F32 : WEIR_I32, what == 2 ? 5 : 4);
        for (int i = 0; i < 40; i++) {
            CHECK_OK(weir_all_reduce_into(self, x, WEIR_REDUCE_SUM, y));
            CHECK_OK(weir_stream_sync(s));
        }
        for (int i = 0; i < 2 && !st;
             i++) { /* the second comes too late if the first was not told */
            if (!other)
                st = weir_all_reduce_into(self, x, WEIR_REDUCE_SUM, y);
            else if (what == 0)
                st = weir_all_reduce_into(self, x, WEIR_REDUCE_MAX, y);
            else if (what == 3)
                st = weir_broadcast_into(self, x, 0, y);
            else
                st = weir_all_reduce_into(self, more, WEIR_REDUCE_SUM, more);
            CHECK(i == 0 || st);
            st = st ? st : weir_stream_sync(s);
        }
        test_note("rank %d: %s", me, said[what]);
        CHECK(st);
        CHECK_STR(weir_last_error(), said[what]);
        CHECK_STR(weir_last_error(), "rank 1 calls ");
        CHECK_STR(weir_last_error(), "call 41 of group");
        weir_tensor_release(x);
        weir_tensor_release(y);
        weir_tensor_release(more);
        CHECK_OK(weir_group_destroy(g));
        CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
        CHECK_OK(weir_stream_destroy(s));
    }
    leave(world, dev);
}

TEST(procs, a_call_that_differs_after_many_equal_ones_is_reported)
{
    kids_run(3, "again_differs", NULL);
}

static const char *const into[] = {"KID_INTO=1", NULL};

TEST(procs, a_rank_that_is_lost_in_short_calls_is_named_by_all_others)
{
    lose_one(3, 1, KILL, into, 100);
    lose_one(3, 0, KILL, into, 1000);
    lose_one(2, 1, STOP, into, 300);
    lose_one(3, 2, TERMINATE, into, 0);
    losses_report("shm, short calls");
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs, ranks_lost_at_random_points_of_short_calls_are_named, 3600)
{
    lose_at_random("shm, short calls", 2, into);
}
