/* Which stream may reuse freed bytes, proven by order alone: gates keep the work from
 * completing. */
#include "helpers.h"

enum { SIZE = 1 << 20, MAX_HELD = 64 };

static const char spec[] = "cpu:cores=8,threads=8";

struct flow {
    weir_device *dev;
    weir_stream *s0, *s1, *s2;
    struct gate gate;
    weir_buffer *held[MAX_HELD];
    int nheld;
};

static void open_flow(struct flow *f)
{
    *f = (struct flow){.dev = open_device(spec)};
    f->s0 = weir_stream_default(f->dev);
    f->s1 = new_stream(f->dev, 0);
    f->s2 = new_stream(f->dev, 0);
}

static void free_last(struct flow *f)
{
    weir_buffer_free(f->held[--f->nheld]);
}

static void close_flow(struct flow *f)
{
    open_gate(&f->gate);
    while (f->nheld)
        free_last(f);
    CHECK_OK(weir_device_close(f->dev));
}

/* A buffer of s0, in use on s1 behind the gate, freed. */
static void *lend_and_free(struct flow *f)
{
    weir_buffer *b = alloc_on(f->s0, SIZE);
    void *bytes = weir_buffer_data(b);

    order_after(f->s1, f->s0);
    use_on(f->s1, b, &f->gate);
    weir_buffer_free(b);
    return bytes;
}

/* Whether the stream is given those bytes next. What it gets it keeps to the end of the
 * case, so that the next question is not answered from there. */
static bool gets(struct flow *f, weir_stream *s, const void *bytes)
{
    CHECK_LT(f->nheld, MAX_HELD);
    f->held[f->nheld] = alloc_on(s, SIZE);
    return weir_buffer_data(f->held[f->nheld++]) == bytes;
}

TEST(return_flow, lent_bytes_stay_until_the_borrower_is_done)
{
    struct flow f;

    open_flow(&f);
    void *bytes = lend_and_free(&f);

    CHECK_GE(stats_of(f.dev).pending, SIZE);
    CHECK(!gets(&f, f.s0, bytes));
    CHECK(!gets(&f, f.s2, bytes));
    CHECK_OK(weir_memory_empty_cache(f.dev));
    CHECK_GE(stats_of(f.dev).pending, SIZE);
    open_gate(&f.gate);
    CHECK_OK(weir_device_sync(f.dev));
    CHECK_EQ(stats_of(f.dev).pending, 0);
    close_flow(&f);
}

TEST(return_flow, a_direct_return_flow_frees_without_host_sync)
{
    struct flow f;

    open_flow(&f);
    void *bytes = lend_and_free(&f);

    order_after(f.s0, f.s1);
    CHECK(gets(&f, f.s0, bytes));
    CHECK_EQ(stats_of(f.dev).grown, 1);
    CHECK_EQ(stats_of(f.dev).host_syncs, 0);
    CHECK_EQ(stats_of(f.dev).device_waits, 0);
    close_flow(&f);
}

TEST(return_flow, a_return_flow_through_a_third_stream_frees_without_host_sync)
{
    struct flow f;

    open_flow(&f);
    void *bytes = lend_and_free(&f);

    order_after(f.s2, f.s1);
    order_after(f.s0, f.s2);
    CHECK(gets(&f, f.s0, bytes));
    CHECK_EQ(stats_of(f.dev).grown, 1);
    CHECK_EQ(stats_of(f.dev).host_syncs, 0);
    CHECK_EQ(stats_of(f.dev).device_waits, 0);
    close_flow(&f);
}

TEST(return_flow, a_return_flow_counts_even_if_it_precedes_the_free)
{
    struct flow f;

    open_flow(&f);
    weir_buffer *b = alloc_on(f.s0, SIZE);
    void *bytes = weir_buffer_data(b);

    order_after(f.s1, f.s0);
    use_on(f.s1, b, &f.gate);
    order_after(f.s2, f.s1);
    order_after(f.s0, f.s2);
    weir_buffer_free(b);
    CHECK_EQ(stats_of(f.dev).pending, 0);
    CHECK(gets(&f, f.s0, bytes));
    free_last(&f);
    CHECK(!gets(&f, f.s2, bytes)); /* s2 is not ordered after what s0 has done since */
    close_flow(&f);
}

TEST(return_flow, an_event_before_the_last_use_releases_nothing)
{
    struct flow f;
    weir_event *e;

    open_flow(&f);
    weir_buffer *b = alloc_on(f.s0, SIZE);
    void *bytes = weir_buffer_data(b);

    order_after(f.s1, f.s0);
    use_on(f.s1, b, NULL);
    CHECK_OK(weir_event_create(f.dev, NULL, &e));
    CHECK_OK(weir_event_record(e, f.s1));
    use_on(f.s1, b, &f.gate);
    weir_buffer_free(b);
    CHECK_OK(weir_stream_wait(f.s0, e));
    CHECK(!gets(&f, f.s0, bytes));
    CHECK_OK(weir_event_sync(e));
    CHECK(!gets(&f, f.s0, bytes));
    CHECK_OK(weir_stream_wait(f.s2, e)); /* nor through a third stream */
    order_after(f.s0, f.s2);
    CHECK(!gets(&f, f.s0, bytes));
    CHECK_OK(weir_event_record(e, f.s1)); /* after it, it does */
    CHECK_OK(weir_stream_wait(f.s0, e));
    CHECK(gets(&f, f.s0, bytes));
    weir_event_destroy(e);
    close_flow(&f);
}

TEST(return_flow, recording_again_does_not_move_a_wait_that_is_queued)
{
    struct flow f;
    weir_event *e;

    open_flow(&f);
    CHECK_OK(weir_event_create(f.dev, NULL, &e));
    weir_buffer *b = alloc_on(f.s0, SIZE);
    void *bytes = weir_buffer_data(b);

    order_after(f.s1, f.s0);
    use_on(f.s1, b, NULL);
    CHECK_OK(weir_event_record(e, f.s1));
    CHECK_OK(weir_stream_wait(f.s0, e));
    use_on(f.s1, b, &f.gate);
    CHECK_OK(weir_event_record(e, f.s1));
    weir_buffer_free(b);
    CHECK(!gets(&f, f.s0, bytes));
    weir_event_destroy(e);
    close_flow(&f);
}

/* s1 takes bytes of s0 because it is ordered after their use, and frees them without
 * having queued anything. s2, ordered after nothing, must not get them. */
TEST(return_flow, bytes_that_pass_through_unused_keep_their_order)
{
    struct flow f;

    open_flow(&f);
    weir_buffer *b = alloc_on(f.s0, SIZE);
    void *bytes = weir_buffer_data(b);

    use_on(f.s0, b, &f.gate);
    weir_buffer_free(b);
    order_after(f.s1, f.s0);
    CHECK(gets(&f, f.s1, bytes));
    free_last(&f);
    CHECK(!gets(&f, f.s2, bytes));
    CHECK_OK(weir_memory_empty_cache(f.dev)); /* nor by collecting what is over */
    CHECK(!gets(&f, f.s2, bytes));
    CHECK(gets(&f, f.s1, bytes));
    close_flow(&f);
}

TEST(return_flow, a_repeated_return_flow_needs_no_growth_and_no_events)
{
    struct flow f;
    weir_event *e;
    size_t reserved = 0;

    open_flow(&f);
    open_gate(&f.gate);
    CHECK_OK(weir_event_create(f.dev, NULL, &e));
    for (int i = 0; i < 20000 / TEST_SLOWDOWN; i++) {
        weir_buffer *b = alloc_on(f.s0, SIZE << i % 4);

        CHECK_OK(weir_event_record(e, f.s0));
        CHECK_OK(weir_stream_wait(f.s1, e));
        use_on(f.s1, b, NULL);
        weir_buffer_free(b);
        CHECK_OK(weir_event_record(e, f.s1));
        CHECK_OK(weir_stream_wait(f.s2, e));
        CHECK_OK(weir_event_record(e, f.s2));
        CHECK_OK(weir_stream_wait(f.s0, e));
        CHECK_EQ(stats_of(f.dev).events_live, 1);
        if (i == 4)
            reserved = stats_of(f.dev).reserved;
        if (i > 4)
            CHECK_EQ(stats_of(f.dev).reserved, reserved);
    }
    CHECK_EQ(stats_of(f.dev).host_syncs, 0);
    CHECK_EQ(stats_of(f.dev).device_waits, 0);
    weir_event_destroy(e);
    close_flow(&f);
}

TEST(return_flow, a_return_flow_may_pass_through_any_number_of_streams)
{
    enum { STREAMS = 40 };
    struct flow f;
    weir_stream *streams[STREAMS];

    open_flow(&f);
    weir_buffer *b = alloc_on(f.s0, SIZE);
    void *bytes = weir_buffer_data(b);

    for (int i = 0; i < STREAMS; i++) {
        streams[i] = new_stream(f.dev, 0);
        order_after(streams[i], f.s0);
        if (i == 0)
            use_on(streams[i], b, &f.gate);
        else
            order_after(streams[i], streams[0]);
        use_on(streams[i], b, NULL);
    }
    weir_buffer_free(b);
    for (int i = 0; i < STREAMS; i++) {
        CHECK(!gets(&f, f.s0, bytes));
        order_after(f.s0, streams[i]);
    }
    CHECK(gets(&f, f.s0, bytes));
    CHECK_EQ(stats_of(f.dev).host_syncs, 0);
    close_flow(&f);
}
