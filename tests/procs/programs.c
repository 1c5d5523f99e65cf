/* Graphs, sub-groups and streams between processes. */
#include <stdatomic.h>

#include "procs/kids.h"

/* ---- graphs ---- */

SCENARIO(graph)
{
    enum { N = 5000, RUNS = 20 };
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank), ranks = weir_group_size(group);
    weir_tensor *x, *twice, *sum, *y;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_I64, 1, (int64_t[]){N}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(x, x, &twice));
    CHECK_OK(weir_scope_push_stream("communication", 0));
    CHECK_OK(weir_all_reduce(rank, twice, WEIR_REDUCE_SUM, &sum));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_add(sum, x, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(twice);
    weir_tensor_release(sum);
    weir_tensor_release(y);
    for (int i = 0; i < RUNS; i++) {
        weir_tensor *in = numbers(dev, N, me + i), *out = NULL;
        int64_t sum_of = (int64_t)ranks * (ranks - 1) / 2 + (int64_t)ranks * i;

        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, &out, 1));
        expect_numbers(out, N, 2 * sum_of + me + i, 2 * ranks + 1);
        weir_tensor_release(in);
        weir_tensor_release(out);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    leave(group, dev);
}

TEST(procs, captured_collectives_between_processes_replay)
{
    kids_run(2, "graph", NULL);
}

/* ---- traces ---- */

SCENARIO(traces)
{
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *self = weir_group_self(group);
    weir_tensor *x = numbers(dev, 100, 0), *y;
    weir_trace *trace;
    char path[80];

    CHECK_OK(weir_trace_start(NULL));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weir_all_reduce(self, x, WEIR_REDUCE_SUM, &y));
        CHECK_OK(weir_stream_sync(weir_stream_default(dev)));
        weir_tensor_release(y);
    }
    CHECK_OK(weir_trace_stop(&trace));
    snprintf(path, sizeof path, "%s.%d", getenv("KID_TRACES"), weir_rank_index(self));
    CHECK_OK(weir_trace_write_chrome(trace, path));
    weir_trace_free(trace);
    weir_tensor_release(x);
    leave(group, dev);
}

/* The k-th call of one rank and that of the other are over only when both have begun. */
TEST(procs, traces_of_ranks_are_merged_on_one_clock)
{
    char name[100], path[120];
    const char *const extra[] = {name, NULL};
    const weir_trace_op *ops[2][20];
    int n[2] = {0, 0};
    weir_trace *traces[2], *all;
    weir_trace_data d;
    struct kids k;

    snprintf(name, sizeof name, "KID_TRACES=/tmp/weir-test-trace-%d", (int)getpid());
    kids_start(&k, 2, "traces", extra);
    kids_end_well(&k);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s.%d", name + strlen("KID_TRACES="), i);
        CHECK_OK(weir_trace_load(path, &traces[i]));
        unlink(path);
    }
    CHECK_STATUS(weir_trace_merge((const weir_trace *[]){traces[0], traces[0]}, 2, &all),
                 WEIR_EINVAL);
    CHECK_OK(weir_trace_merge((const weir_trace *[]){traces[0], traces[1]}, 2, &all));
    weir_trace_get(all, &d, sizeof d);
    for (size_t i = 0; i < d.nops; i++) {
        int rank = d.devices[d.ops[i].device].rank;

        if (!strcmp(d.ops[i].name, "AllReduce") && n[rank] < 20)
            ops[rank][n[rank]++] = &d.ops[i];
    }
    CHECK_EQ(n[0], 20);
    CHECK_EQ(n[1], 20);
    for (int i = 0; i < 20; i++) {
        CHECK(ops[0][i]->queued_ns <= ops[1][i]->ended_ns + 1000000);
        CHECK(ops[1][i]->queued_ns <= ops[0][i]->ended_ns + 1000000);
    }
    weir_trace_free(all);
    weir_trace_free(traces[0]);
    weir_trace_free(traces[1]);
}

/* ---- sub-groups on several streams ---- */

enum { GROUPS = 4, STREAMS = 3, STEPS = 150 };

/* The same numbers on every rank. */
/* All ranks make the same calls in the same order, each on streams of its own choice. */
SCENARIO(random)
{
    static const int members[GROUPS][4] = {{0, 1, 2, 3}, {0, 2}, {3, 1}, {2, 1, 0}};
    static const int sizes[GROUPS] = {4, 2, 2, 3};
    weir_device *dev;
    weir_group *world = join(&dev, NULL), *groups[GROUPS] = {NULL};
    int me = weir_rank_index(weir_group_self(world)), place[GROUPS];
    weir_stream *streams[STREAMS];
    uint64_t shared = 42, own = 1000 + (uint64_t)me;
    weir_tensor *out[STEPS] = {NULL};
    int64_t want[STEPS], step[STEPS], count[STEPS];

    for (int g = 0; g < GROUPS; g++) {
        place[g] = -1;
        for (int i = 0; i < sizes[g]; i++)
            if (members[g][i] == me)
                place[g] = i;
        if (place[g] >= 0)
            CHECK_OK(weir_group_split(world, members[g], sizes[g], NULL, &groups[g]));
    }
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &streams[i]));
    for (int i = 0; i < STEPS; i++) {
        int g = (int)(draw(&shared) % GROUPS), kind = (int)(draw(&shared) % 3);
        int64_t n = (int64_t)(draw(&shared) % 3000), sum = 0;
        int root = (int)(draw(&shared) % (uint64_t)sizes[g]);
        weir_rank *rank;
        weir_tensor *x;

        if (place[g] < 0)
            continue;
        rank = weir_group_self(groups[g]);
        CHECK_EQ(weir_rank_index(rank), place[g]);
        x = numbers(dev, n, i * 10 + me);
        CHECK_OK(weir_stream_set_current(streams[draw(&own) % STREAMS]));
        for (int m = 0; m < sizes[g]; m++)
            sum += i * 10 + members[g][m];
        count[i] = n;
        if (kind == 0) {
            CHECK_OK(weir_all_reduce(rank, x, WEIR_REDUCE_SUM, &out[i]));
            want[i] = sum;
            step[i] = sizes[g];
        } else if (kind == 1) {
            CHECK_OK(weir_broadcast(rank, x, root, &out[i]));
            want[i] = i * 10 + members[g][root];
            step[i] = 1;
        } else {
            CHECK_OK(weir_all_reduce(rank, x, WEIR_REDUCE_MAX, &out[i]));
            want[i] = i * 10;
            for (int m = 0; m < sizes[g]; m++)
                want[i] = members[g][m] + i * 10 > want[i] ? members[g][m] + i * 10 : want[i];
            step[i] = 1;
        }
        weir_tensor_release(x);
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < STEPS; i++)
        if (out[i]) {
            test_note("rank %d, step %d", me, i);
            expect_numbers(out[i], count[i], want[i], step[i]);
            weir_tensor_release(out[i]);
        }
    for (int g = 0; g < GROUPS; g++)
        CHECK_OK(weir_group_destroy(groups[g]));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
    leave(world, dev);
}

TEST(procs, random_programs_of_sub_groups_on_several_streams_give_the_right_values)
{
    kids_run(4, "random", NULL);
}

/* ---- more calls under way than there are places to meet ---- */

static void wait_for_flag(void *user, weir_status status)
{
    _Atomic int *flag = user;

    (void)status;
    while (!atomic_load(flag))
        usleep(100);
}

/* The first call of a round is held back on one rank until all others but the last are over; the
 * last one meets where the first did. Whoever sleeps until the first has left must be rung when the
 * others come: a rank that is not would look by itself after a second, and the rounds take longer
 * than the case may. */
SCENARIO(places)
{
    enum { CALLS = 17, ROUNDS = 90 / TEST_SLOWDOWN, N = 1000 };
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank), ranks = weir_group_size(group);
    weir_stream *streams[CALLS];

    for (int i = 0; i < CALLS; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &streams[i]));
    for (int round = 0; round < ROUNDS; round++) {
        weir_tensor *x = numbers(dev, N, me + round), *out[CALLS];
        _Atomic int go = 0;
        int64_t first = (int64_t)ranks * (ranks - 1) / 2 + (int64_t)ranks * round;

        CHECK_OK(weir_device_sync(dev));
        if (me == 1)
            CHECK_OK(weir_stream_callback(streams[0], wait_for_flag, &go));
        for (int i = 0; i < CALLS; i++) {
            CHECK_OK(weir_stream_set_current(streams[i]));
            CHECK_OK(weir_all_reduce(rank, x, WEIR_REDUCE_SUM, &out[i]));
        }
        for (int i = 1; i < CALLS - 1; i++)
            CHECK_OK(weir_stream_sync(streams[i]));
        atomic_store(&go, 1);
        CHECK_OK(weir_device_sync(dev));
        CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
        for (int i = 0; i < CALLS; i++) {
            expect_numbers(out[i], N, first, ranks);
            weir_tensor_release(out[i]);
        }
        weir_tensor_release(x);
    }
    for (int i = 0; i < CALLS; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
    leave(group, dev);
}

TEST_TIMEOUT(procs, a_call_that_waits_for_an_earlier_call_continues_when_that_ends, 20)
{
    kids_run(2, "places", NULL);
}

/* ---- one rank to another ---- */

SCENARIO(pairs)
{
    enum { N = 20000, ROUNDS = 30 };
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank), ranks = weir_group_size(group);

    for (int i = 0; i < ROUNDS; i++) { /* a ring: even ranks send first */
        weir_tensor *x = numbers(dev, N, me + i), *y = numbers(dev, N, 0);
        int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;

        if (me % 2)
            CHECK_OK(weir_recv(rank, y, before));
        CHECK_OK(weir_send(rank, x, next));
        if (me % 2 == 0)
            CHECK_OK(weir_recv(rank, y, before));
        expect_numbers(y, N, before + i, 1);
        weir_tensor_release(x);
        weir_tensor_release(y);
    }
    leave(group, dev);
}

TEST(procs, sends_and_receives_between_processes_meet)
{
    kids_run(4, "pairs", NULL);
}

/* Everybody sends to everybody and receives from everybody, in an order that would not do one after
 * the other. */
SCENARIO(batch)
{
    enum { N = 3000 };
    weir_device *dev;
    weir_group *group = join(&dev, NULL);
    weir_rank *rank = weir_group_self(group);
    int me = weir_rank_index(rank), ranks = weir_group_size(group);

    for (int round = 0; round < 5; round++) {
        weir_message messages[2 * MOST_KIDS];
        int n = 0;

        for (int i = 0; i < ranks; i++)
            if (i != me)
                messages[n++] = (weir_message){numbers(dev, N, 100 * me + i + round), i, false};
        for (int i = 0; i < ranks; i++)
            if (i != me)
                messages[n++] = (weir_message){numbers(dev, N, 0), i, true};
        CHECK_OK(weir_batch_send_recv(rank, messages, n));
        for (int i = 0; i < n; i++) {
            if (messages[i].receives)
                expect_numbers(messages[i].tensor, N, 100 * messages[i].peer + me + round, 1);
            weir_tensor_release(messages[i].tensor);
        }
    }
    leave(group, dev);
}

TEST(procs, a_batch_of_sends_and_receives_needs_no_order)
{
    kids_run(3, "batch", NULL);
}

/* ---- messages from whoever sends first ---- */

static void take_from_any(weir_rank *self, int64_t *x, weir_tensor *t, int *from)
{
    int n = weir_group_size(weir_rank_group(self));
    bool ready = false;

    for (int i = 1; !ready; i++)
        CHECK_OK(weir_recv_ready(self, *from = 1 + i % (n - 1), &ready));
    CHECK_OK(weir_recv(self, t, *from));
    CHECK_OK(weir_tensor_read(t, x, sizeof *x));
}

SCENARIO(any)
{
    enum { EACH = 20 }; /* more than a channel has cells */
    weir_device *dev;
    weir_group *g = join(&dev, NULL), *own;
    weir_rank *self = weir_group_self(g);
    int me = weir_rank_index(self), n = weir_group_size(g), from;
    int64_t x = 0, next[8] = {0};
    weir_tensor *t;
    bool ready;

    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_I64, 1, (int64_t[]){1}, &x, &t));
    CHECK_STATUS(weir_recv_ready(self, me, &ready), WEIR_ERANGE);
    CHECK_STATUS(weir_recv_ready(self, n, &ready), WEIR_ERANGE);
    for (int i = 0; i < EACH && me; i++) {
        x = i;
        CHECK_OK(weir_tensor_write(t, &x, sizeof x));
        CHECK_OK(weir_send(self, t, 0));
    }
    for (int i = 0; i < EACH * (n - 1) && !me; i++) {
        take_from_any(self, &x, t, &from);
        CHECK_EQ(x, next[from]++);
    }
    weir_tensor_release(t);
    CHECK_OK(weir_group_create(&dev, 1, NULL, &own));
    CHECK_STATUS(weir_recv_ready(weir_group_rank(own, 0), 0, &ready), WEIR_ERANGE);
    CHECK_OK(weir_group_destroy(own));
    leave(g, dev);
}

TEST(procs, a_rank_can_receive_from_the_first_sender)
{
    struct kids k;

    kids_start(&k, 4, "any", NULL);
    kids_end_well(&k);
}
