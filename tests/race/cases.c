/* Small programs with a known answer, among them those that PyTorch's stream sanitizer is
 * tested with. */
#include "helpers.h"

#define READ(s, t) CHECK_OK(touch(s, "read", t, false))
#define WRITE(s, t) CHECK_OK(touch(s, "write", t, true))

TEST(race_cases, reads_alone_never_race)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *t = new_tensor(f.a, 8);

    READ(f.a, t);
    READ(f.b, t);
    READ(f.c, t);
    READ(f.a, t);
    CHECK_EQ(races(), 0);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_cases, an_unordered_write_and_read_is_a_race)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *t = new_tensor(f.a, 8);
    weir_race found;
    char *report;

    weir_source_set("model.py", 12);
    WRITE(f.a, t);
    weir_source_set("model.py", 15);
    READ(f.b, t);
    weir_source_set(NULL, 0);
    CHECK_EQ(races(), 1);
    CHECK_EQ(weir_race_list(&found, sizeof found, 1), 1);
    CHECK_STR(found.first.op, "write");
    CHECK_STR(found.first.stream, "a");
    CHECK_STR(found.first.tensor, "f32[8]");
    CHECK(found.first.writes);
    CHECK_STR(found.first.file, "model.py");
    CHECK_EQ(found.first.line, 12);
    CHECK_STR(found.second.op, "read");
    CHECK_STR(found.second.stream, "b");
    CHECK_EQ(found.second.line, 15);
    CHECK(!found.second.writes);
    CHECK_EQ(found.ordered_up_to, 0);
    report = weir_race_report();
    CHECK_STR(report, "'read' on stream 'b' reads f32[8] that 'write' on stream 'a' writes");
    CHECK_STR(report, "record an event on 'a' after 'write', and let 'b' wait for it");
    CHECK_STR(report, "(model.py:15)");
    free(report);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_cases, waits_syncs_and_queries_order)
{
    for (int way = 0; way < 6; way++) {
        struct fixture f = open_fixture(WEIR_RACE_REPORT);
        weir_tensor *t = new_tensor(f.a, 8);
        weir_event *e;
        bool done = false;

        test_note("way %d", way);
        CHECK_OK(weir_event_create(f.dev, NULL, &e));
        WRITE(f.a, t);
        CHECK_OK(weir_event_record(e, f.a));
        switch (way) {
        case 0:
            CHECK_OK(weir_stream_wait(f.b, e));
            break;
        case 1:
            order(f.a, f.b);
            break;
        case 2:
            CHECK_OK(weir_event_sync(e));
            break;
        case 3:
            CHECK_OK(weir_stream_sync(f.a));
            break;
        case 4:
            CHECK_OK(weir_device_sync(f.dev));
            break;
        case 5:
            while (!done)
                CHECK_OK(weir_event_query(e, &done));
            break;
        }
        READ(f.b, t);
        CHECK_EQ(races(), 0);
        WRITE(f.c, t);
        CHECK_EQ(races(), way >= 2 ? 1 : 2); /* with the read, and the write nobody saw over */
        weir_event_destroy(e);
        weir_tensor_release(t);
        close_fixture(&f);
    }
}

TEST(race_cases, order_is_transitive_through_a_third_stream)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *t = new_tensor(f.a, 8);

    WRITE(f.a, t);
    order(f.a, f.b);
    order(f.b, f.c);
    READ(f.c, t);
    CHECK_EQ(races(), 0);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_cases, an_event_recorded_before_the_write_does_not_help)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *t = new_tensor(f.a, 8);
    weir_event *e;
    weir_race found;

    CHECK_OK(weir_event_create(f.dev, NULL, &e));
    READ(f.a, t);
    CHECK_OK(weir_event_record(e, f.a));
    WRITE(f.a, t);
    CHECK_OK(weir_stream_wait(f.b, e));
    READ(f.b, t);
    CHECK_EQ(races(), 1);
    CHECK_EQ(weir_race_list(&found, sizeof found, 1), 1);
    CHECK_EQ(found.ordered_up_to, 1); /* the first read */
    /* Recording again moves the mark; a wait queued before keeps the old one. */
    CHECK_OK(weir_event_record(e, f.a));
    CHECK_OK(weir_stream_wait(f.c, e));
    READ(f.c, t);
    CHECK_EQ(races(), 1);
    weir_event_destroy(e);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_cases, every_reader_is_compared_with_a_later_write)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *t = new_tensor(f.a, 8);

    WRITE(f.a, t);
    order(f.a, f.b);
    order(f.a, f.c);
    READ(f.b, t);
    READ(f.c, t);
    order(f.b, f.a);
    WRITE(f.a, t); /* b is ordered, c is not */
    CHECK_EQ(races(), 1);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_cases, a_new_stream_comes_after_host_syncs_only)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *t = new_tensor(f.a, 8);
    weir_stream *d, *e;

    WRITE(f.a, t);
    CHECK_OK(weir_device_sync(f.dev));
    CHECK_OK(weir_stream_create(f.dev, NULL, &d));
    READ(d, t);
    CHECK_EQ(races(), 0);
    WRITE(d, t);
    CHECK_OK(weir_stream_create(f.dev, NULL, &e));
    READ(e, t);
    CHECK_EQ(races(), 1);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_cases, overlapping_columns_and_rows_race_and_disjoint_ones_do_not)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *m, *left, *right, *row;

    CHECK_OK(weir_tensor_empty(f.a, WEIR_F16, 2, (int64_t[]){16, 32}, &m));
    CHECK_OK(weir_tensor_slice(m, 1, 0, 16, 1, &left));
    CHECK_OK(weir_tensor_slice(m, 1, 16, 32, 1, &right));
    CHECK_OK(weir_tensor_slice(m, 0, 3, 4, 1, &row));
    WRITE(f.a, left);
    order(f.a, f.b);
    WRITE(f.b, right);
    WRITE(f.a, left); /* the other half: nothing to order */
    CHECK_EQ(races(), 0);
    READ(f.c, row);
    CHECK_EQ(races(), 2);
    weir_tensor_release(left);
    weir_tensor_release(right);
    weir_tensor_release(row);
    weir_tensor_release(m);
    close_fixture(&f);
}

TEST(race_cases, memory_that_weir_does_not_own_is_compared_by_its_bytes)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    float data[16];
    weir_tensor *whole, *tail;

    CHECK_OK(weir_tensor_wrap(f.a, WEIR_F32, 1, (int64_t[]){16}, NULL, data, NULL, NULL, &whole));
    CHECK_OK(
        weir_tensor_wrap(f.b, WEIR_F32, 1, (int64_t[]){4}, NULL, data + 12, NULL, NULL, &tail));
    WRITE(f.a, whole);
    READ(f.b, tail);
    CHECK_EQ(races(), 1);
    weir_tensor_release(whole);
    weir_tensor_release(tail);
    CHECK_OK(weir_device_sync(f.dev));
    /* The same bytes for something else, after everything is over. */
    CHECK_OK(weir_tensor_wrap(f.c, WEIR_F32, 1, (int64_t[]){16}, NULL, data, NULL, NULL, &whole));
    WRITE(f.c, whole);
    CHECK_EQ(races(), 1);
    weir_tensor_release(whole);
    close_fixture(&f);
}

TEST(race_cases, memory_that_the_pool_reuses_is_ordered)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);

    for (int i = 0; i < 200; i++) {
        weir_stream *s = i % 3 ? f.a : f.b;
        weir_tensor *t = new_tensor(s, 1024);

        WRITE(s, t);
        READ(s, t);
        weir_tensor_release(t);
    }
    CHECK_EQ(races(), 0);
    close_fixture(&f);
}

/* Memory is free for the stream it was allocated on: first use elsewhere needs an order. */
TEST(race_cases, first_use_on_another_stream_than_the_allocations_needs_an_order)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *first = new_tensor(f.a, 64), *second;

    WRITE(f.a, first);
    weir_tensor_release(first);
    second = new_tensor(f.a, 64);
    WRITE(f.b, second);
    CHECK_EQ(races(), 1);
    weir_tensor_release(second);
    close_fixture(&f);
}

/* The document's first sample, which it calls incorrect, its correction, and the sample
 * with events that waits for the wrong one. In virtual time: these races are real. */
static uint64_t seed_sample(bool wait_first, bool with_events, bool right_event)
{
    struct fixture f;
    weir_stream *home;
    weir_tensor *a, *b, *c, *d;
    weir_event *e1, *e2;
    float values[400] = {0};
    uint64_t n;

    setenv("WEIR_DEVICE", "npu:a3", 1);
    f = open_fixture(WEIR_RACE_REPORT);
    home = weir_stream_default(f.dev);
    CHECK_OK(weir_event_create(f.dev, NULL, &e1));
    CHECK_OK(weir_event_create(f.dev, NULL, &e2));
    CHECK_OK(weir_tensor_from(home, WEIR_F32, 2, (int64_t[]){20, 20}, values, &a));
    CHECK_OK(weir_matmul(a, a, &b));
    CHECK_OK(weir_event_record(e1, home));
    if (wait_first)
        order(home, f.a);
    if (with_events)
        CHECK_OK(weir_stream_wait(f.a, e1));
    CHECK_OK(weir_stream_set_current(f.a));
    CHECK_OK(weir_sum(b, NULL, 0, false, &c));
    CHECK_OK(weir_event_record(e2, f.a));
    CHECK_OK(weir_stream_set_current(home));
    if (with_events) {
        CHECK_OK(weir_stream_wait(home, right_event ? e2 : e1));
        CHECK_OK(weir_neg(c, &d));
        weir_tensor_release(d);
    }
    n = races();
    weir_event_destroy(e1);
    weir_event_destroy(e2);
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(c);
    close_fixture(&f);
    return n;
}

TEST(race_cases, the_samples_of_the_documents_race_as_they_say)
{
    /* One thread: the races are the program's, and none of them happens. */
    setenv("WEIR_DEVICE", "cpu:threads=1", 1);
    CHECK_EQ(seed_sample(false, false, false), 1);
    CHECK_EQ(seed_sample(true, false, false), 0);
    CHECK_EQ(seed_sample(false, true, false), 1);
    CHECK_EQ(seed_sample(false, true, true), 0);
}

TEST(race_cases, wait_tensor_and_tokens_order)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *x = new_tensor(f.a, 8), *y = new_tensor(f.b, 8), *token;

    WRITE(f.a, x);
    WRITE(f.b, y);
    CHECK_OK(weir_stream_set_current(f.b));
    CHECK_OK(weir_wait_tensor(y, x));
    READ(f.c, y); /* after b's write, and through it after a's */
    READ(f.c, x);
    CHECK_EQ(races(), 0);
    WRITE(f.a, x); /* with c's read */
    CHECK_EQ(races(), 1);
    CHECK_OK(weir_stream_set_current(f.a));
    CHECK_OK(weir_token_record(f.dev, &token));
    CHECK_OK(weir_stream_set_current(f.b));
    CHECK_OK(weir_token_wait(&token, 1));
    READ(f.b, x);
    CHECK_EQ(races(), 1);
    weir_tensor_release(token);
    weir_tensor_release(x);
    weir_tensor_release(y);
    close_fixture(&f);
}
