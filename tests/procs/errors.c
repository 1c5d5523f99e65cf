/* Ranks that disagree, leave or do not come: everybody else gets an error that names the rank and
 * the call, and ends. */
#include "procs/kids.h"

#include <time.h>

/* ---- disagreeing ---- */

SCENARIO(shapes)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);

    call_until_error(g, dev, weir_rank_index(weir_group_self(g)) == 2 ? 4 : 3);
    leave(g, dev);
}

TEST(procs, other_shapes_are_an_error_with_both_sides_on_every_rank)
{
    struct kids k;

    kids_start(&k, 3, "shapes", NULL);
    for (int i = 0; i < 3; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "AllReduce (call 1 of group 'world'): the shape differs: rank ");
        CHECK_STR(k.text[i], "AllReduce sum f32[3]");
        CHECK_STR(k.text[i], "rank 2 calls AllReduce sum f32[4]");
    }
}

SCENARIO(operators)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_rank *self = weir_group_self(g);
    weir_tensor *x = zeros(dev, 4), *y;

    if (weir_rank_index(self))
        CHECK_OK(weir_all_gather(self, x, &y));
    else
        CHECK_OK(weir_all_reduce(self, x, WEIR_REDUCE_MAX, &y));
    CHECK_STATUS(weir_stream_sync(weir_stream_default(dev)), WEIR_EINVAL);
    say("%s", weir_last_error());
    weir_tensor_release(x);
    weir_tensor_release(y);
    leave(g, dev);
}

TEST(procs, other_operators_are_an_error_with_both_sides_on_every_rank)
{
    struct kids k;

    kids_start(&k, 2, "operators", NULL);
    for (int i = 0; i < 2; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "the operator differs");
        CHECK_STR(k.text[i], "rank 0 calls AllReduce max f32[4]");
        CHECK_STR(k.text[i], "rank 1 calls AllGather f32[4]");
    }
}

/* Calls differ in one thing; those before and after it are alike. Few bytes go with the
 * descriptions of calls, more (KID_LARGE) do not. */
SCENARIO(differ)
{
    static const char *const said[] = {"the reduction differs", "the data type differs",
                                       "the shape differs", "the root differs",
                                       "the operator differs"};
    int64_t half = getenv("KID_LARGE") ? 40000 : 2;
    void *room = calloc((size_t)(2 * half), sizeof(float));
    weir_device *dev;
    weir_group *world = join(&dev, NULL);
    int me = weir_rank_index(weir_group_self(world)), all[] = {0, 1, 2};
    weir_stream *s;

    for (int what = 0; what < 5; what++) {
        bool other = me == 1;
        int64_t shape[] = {other && what == 2 ? 2 * half : half, other && what == 2 ? 1 : 2};
        weir_dtype type = other && what == 1 ? WEIR_I32 : WEIR_F32;
        weir_reduce reduce = other && what == 0 ? WEIR_REDUCE_MAX : WEIR_REDUCE_SUM;
        weir_tensor *alike = zeros(dev, 2 * half), *x, *y, *z = NULL;
        weir_group *g;
        weir_rank *self;
        weir_status st;

        CHECK_OK(weir_group_split(world, all, 3, NULL, &g));
        CHECK_OK(weir_stream_create(dev, NULL, &s));
        CHECK_OK(weir_stream_set_current(s));
        self = weir_group_self(g);
        CHECK_OK(weir_all_reduce(self, alike, WEIR_REDUCE_SUM, &y));
        CHECK_OK(weir_tensor_from(s, type, 2, shape, room, &x));
        if (what == 3)
            st = weir_broadcast(self, x, other, &z);
        else if (what == 4 && other)
            st = weir_all_gather(self, x, &z);
        else
            st = weir_all_reduce(self, x, reduce, &z);
        test_note("%s", said[what]);
        CHECK(st || weir_stream_sync(s)); /* or others were first, and broke the group */
        CHECK_STR(weir_last_error(), said[what]);
        CHECK_STR(weir_last_error(), "rank 1 calls ");
        weir_tensor_release(alike);
        weir_tensor_release(x);
        weir_tensor_release(y);
        weir_tensor_release(z);
        CHECK_OK(weir_group_destroy(g));
        CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
        CHECK_OK(weir_stream_destroy(s));
    }
    free(room);
    leave(world, dev);
}

TEST(procs, any_difference_between_short_calls_is_reported)
{
    kids_run(3, "differ", NULL);
}
TEST(procs, any_difference_between_long_calls_is_reported)
{
    kids_run(3, "differ", (const char *[]){"KID_LARGE=1", NULL});
}

/* ---- late, or not there any more ---- */

SCENARIO(late)
{
    weir_device *dev;
    weir_group *g = join(&dev, &(weir_join_options){.timeout_ns = INT64_C(1000000000)});
    weir_rank *self = weir_group_self(g);
    struct timespec pause = {.tv_nsec = 1000000};

    if (weir_rank_index(self) != 2) {
        call_until_error(g, dev, 3);
        leave(g, dev);
        return;
    }
    while (!weir_group_state(g)) /* the others' error reaches it, too */
        nanosleep(&pause, NULL);
    say_error();
    leave(g, dev);
}

TEST(procs, a_rank_that_does_not_call_is_named_after_the_timeout)
{
    struct kids k;

    kids_start(&k, 3, "late", NULL);
    for (int i = 0; i < 3; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "AllReduce (call 1 of group 'world'): timed out after 1 s: rank ");
        CHECK_STR(k.text[i], "2 did not arrive");
    }
}

SCENARIO(leaves)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);

    if (weir_rank_index(weir_group_self(g)) != 1)
        call_until_error(g, dev, 3);
    leave(g, dev);
}

TEST(procs, a_rank_that_has_left_is_named_by_the_ranks_that_call)
{
    struct kids k;

    kids_start(&k, 2, "leaves", NULL);
    kids_end(&k, 0);
    kids_end(&k, 1);
    CHECK_EQ(k.status[0] | k.status[1], 0);
    CHECK_STR(k.text[0], "AllReduce (call 1 of group 'world'): rank 1 has left");
}

SCENARIO(not_own)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_rank *other = weir_group_rank(g, 1 - weir_rank_index(weir_group_self(g)));
    weir_tensor *x = zeros(dev, 3), *y;
    weir_message message = {x, 0, false};

    CHECK_STATUS(weir_barrier(other), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "is another process: call with weir_group_self");
    CHECK_STATUS(weir_all_gather(other, x, &y), WEIR_EINVAL);
    CHECK_STATUS(weir_batch_send_recv(other, &message, 1), WEIR_EINVAL);
    CHECK_OK(weir_barrier(weir_group_self(g)));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(x);
    leave(g, dev);
}

TEST(procs, a_process_cannot_call_for_another_rank)
{
    kids_run(2, "not_own", NULL);
}

SCENARIO(alone)
{
    weir_device *dev;
    weir_group *g;

    CHECK_OK(weir_device_open("cpu:cores=1", &dev));
    CHECK_STATUS(weir_group_join(dev,
                                 &(weir_join_options){.ranks = 3,
                                                      .rank = atoi(getenv("WEIR_RANK")),
                                                      .join_timeout_ns = INT64_C(3000000000)},
                                 &g),
                 WEIR_ETIMEDOUT);
    say("%s", weir_last_error());
    CHECK_OK(weir_device_close(dev));
}

TEST(procs, ranks_that_do_not_come_are_named)
{
    struct kids k;

    kids_start(&k, 2, "alone", NULL);
    kids_end(&k, 0);
    kids_end(&k, 1);
    CHECK_EQ(k.status[0] | k.status[1], 0);
    CHECK_STR(k.text[0], "2 did not come"); /* rank 1 may be late as well */
}
