/* Ranks that die, stop, are cut off, disagree, leave or do not come: everybody else gets an error
 * that names the rank and the call, and ends. */
#define _GNU_SOURCE
#include "kids.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "comm/procs/procs.h"

static weir_tensor *numbers(weir_device *dev, int64_t n)
{
    weir_tensor *t;
    float *data = calloc((size_t)n + 1, sizeof *data);

    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, &n, data, &t));
    free(data);
    return t;
}

/* With KID_PLAN a call is a run of a plan that has three of them. */
static weir_plan *plan_of(weir_group *g, weir_device *dev, int64_t n)
{
    weir_tensor *at[5];
    weir_graph *graph;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &graph));
    CHECK_OK(weir_graph_input(graph, "x", WEIR_F32, 1, &n, &at[0]));
    CHECK_OK(weir_graph_begin(graph));
    CHECK_OK(weir_add(at[0], at[0], &at[1]));
    for (int i = 1; i < 4; i++)
        CHECK_OK(weir_all_reduce(weir_group_self(g), at[i], WEIR_REDUCE_SUM, &at[i + 1]));
    CHECK_OK(weir_graph_end(graph));
    CHECK_OK(weir_graph_output(graph, "y", at[4]));
    CHECK_OK(weir_graph_compile(graph, NULL, &plan));
    for (int i = 0; i < 5; i++)
        weir_tensor_release(at[i]);
    weir_graph_destroy(graph);
    return plan;
}

/* Calls until there is an error, and says it. With KID_INTO all calls have the same tensors. */
static void call_until_error(weir_group *g, weir_device *dev, int64_t n)
{
    weir_plan *plan = getenv("KID_PLAN") ? plan_of(g, dev, n) : NULL;
    weir_tensor *x = numbers(dev, n), *into = getenv("KID_INTO") ? numbers(dev, n) : NULL, *y;
    weir_status st = WEIR_OK;

    for (int i = 0; !st; i++) {
        if (i == 20)
            say("ready\n");
        y = NULL;
        st = plan   ? weir_plan_run(plan, weir_stream_default(dev), &x, 1, &y, 1)
             : into ? weir_all_reduce_into(weir_group_self(g), x, WEIR_REDUCE_SUM, into)
                    : weir_all_reduce(weir_group_self(g), x, WEIR_REDUCE_SUM, &y);
        if (!st) {
            st = weir_stream_sync(weir_stream_default(dev));
            weir_tensor_release(y);
        }
    }
    say("error %s\n", weir_last_error());
    if (getenv("KID_LOG")) {
        FILE *log = fopen(getenv("KID_LOG"), "a");

        fprintf(log, "%s\n", weir_last_error());
        fclose(log);
    }
    CHECK(weir_group_state(g));
    weir_tensor_release(x);
    weir_tensor_release(into);
    weir_plan_destroy(plan);
}

static void *lose_self(void *user)
{
    int rank, how;
    long us;

    if (sscanf(getenv("KID_LOSE"), "%d %d %ld", &rank, &how, &us) == 3 && rank == *(int *)user) {
        nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
        kill(getpid(), how);
    }
    return NULL;
}

/* KID_LOSE="RANK SIGNAL MICROSECONDS": that rank sends it to itself then. */
SCENARIO(calls)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    static int me;
    pthread_t thread;

    me = weir_rank_index(weir_group_self(g));
    if (getenv("KID_LOSE"))
        CHECK(!pthread_create(&thread, NULL, lose_self, &me) && !pthread_detach(thread));
    /* Calls of a plan are over together, and the fake NCCL's take long. */
    call_until_error(g, dev, !getenv("KID_LARGE") ? 10 : getenv("KID_PLAN") ? 1 << 16 : 1 << 20);
    leave(g, dev);
}

/* Rank 0 leaves; the others go on in a group of their own. */
SCENARIO(orphans)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL), *rest = NULL;

    if (weir_rank_index(weir_group_self(g)))
        CHECK_OK(weir_group_split(g, (int[]){1, 2}, 2, NULL, &rest));
    CHECK_OK(weir_barrier(weir_group_self(g)));
    CHECK_OK(weir_device_sync(dev));
    if (rest) {
        call_until_error(rest, dev, getenv("KID_LARGE") ? 1 << 16 : 10);
        CHECK_OK(weir_group_destroy(rest));
    }
    leave(g, dev);
}

static const char *const large[] = {"KID_LARGE=1", NULL};

void lose_one(int ranks, int victim, enum how how, const char *const *extra, long pause_us)
{
    static const int signals[] = {[KILL] = SIGKILL, [STOP] = SIGSTOP, [TERMINATE] = SIGTERM};
    char name[40];
    struct kids k;

    test_note("rank %d of %d, signal %d", victim, ranks, signals[how]);
    kids_start(&k, ranks, "calls", extra);
    for (int i = 0; i < ranks; i++)
        kids_await(&k, i, "ready");
    nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000}, NULL);
    CHECK(!kill(k.pid[victim], signals[how]));
    snprintf(name, sizeof name, "rank %d %s", victim, how == STOP ? "is stopped" : "died");
    for (int i = 0; i < ranks; i++)
        if (i != victim) {
            kids_end(&k, i);
            CHECK_STR(k.text[i], name);
            CHECK_STR(k.text[i], "group 'world'");
            CHECK_EQ(k.status[i], 0);
        }
    kill(k.pid[victim], SIGKILL);
    kids_end(&k, victim);
}

TEST(procs, a_killed_rank_is_named_by_all_others)
{
    lose_one(3, 1, KILL, NULL, 0);
}

static void lose_after_rank_0(int signal_, const char *said, const char *const *extra)
{
    struct kids k;

    kids_start(&k, 3, "orphans", extra);
    kids_end(&k, 0);
    CHECK_EQ(k.status[0], 0);
    kids_await(&k, 1, "ready");
    CHECK(!kill(k.pid[2], signal_));
    kids_end(&k, 1);
    CHECK_STR(k.text[1], said);
    CHECK_EQ(k.status[1], 0);
    kill(k.pid[2], SIGKILL);
    kids_end(&k, 2);
}

TEST(procs, ranks_that_are_lost_when_rank_0_has_left_are_named)
{
    lose_after_rank_0(SIGKILL, "rank 2 died", NULL);
    lose_after_rank_0(SIGKILL, "rank 2 died", large);
    lose_after_rank_0(SIGSTOP, "rank 2 is stopped", NULL);
}

TEST(procs, killed_rank_0_is_named_by_all_others)
{
    lose_one(3, 0, KILL, large, 0);
}

TEST(procs, a_stopped_rank_is_named_by_all_others)
{
    lose_one(2, 1, STOP, NULL, 0);
}

TEST(procs, stopped_rank_0_is_named_by_all_others)
{
    lose_one(3, 0, STOP, NULL, 0);
}

TEST(procs, a_terminated_rank_is_named_by_all_others)
{
    lose_one(2, 1, TERMINATE, large, 0);
}

void lose_at_random(int runs, const char *const *extra)
{
    unsigned seed = getenv("WEIR_SOAK") ? (unsigned)time(NULL) : 1;

    if (getenv("WEIR_SOAK"))
        runs = atoi(getenv("WEIR_SOAK"));
    for (int i = 0; i < runs; i++) {
        int ranks = 2 + rand_r(&seed) % 3;
        const char *both[16] = {rand_r(&seed) & 1 ? large[0] : "KID_SMALL=1"};

        for (int n = 0; extra && extra[n]; n++)
            both[n + 1] = extra[n];
        lose_one(ranks, rand_r(&seed) % ranks, (enum how)(rand_r(&seed) % 3), both,
                 rand_r(&seed) % 20000);
    }
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs, ranks_lost_at_random_points_are_named, 1200)
{
    lose_at_random(2, NULL);
}

/* ---- cut off ---- */

SCENARIO(cut)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_rank *self = weir_group_self(g);

    CHECK_OK(weir_barrier(self));
    CHECK_OK(weir_stream_sync(weir_stream_default(dev)));
    if (weir_rank_index(self) == 1) {
        struct weir__world *w = weir__procs_group_world(g->procs);

        weir__mutex_lock(&w->conn_lock);
        shutdown(w->conn.fd, SHUT_RDWR);
        weir__mutex_unlock(&w->conn_lock);
    }
    call_until_error(g, dev, 10);
    for (;;) /* one that ends would have died, to those who have not noticed yet */
        pause();
}

TEST(procs, a_rank_whose_connection_is_cut_is_named)
{
    struct kids k;

    kids_start(&k, 3, "cut", NULL);
    for (int i = 0; i < 3; i++) /* its own link tells rank 1, or the others do: who is first */
        kids_await(&k, i, i == 1 ? "was cut" : "rank 1 is gone: its connection was cut");
    for (int i = 0; i < 3; i++) {
        CHECK(!kill(k.pid[i], SIGKILL));
        kids_end(&k, i);
    }
}

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
    weir_tensor *x = numbers(dev, 4), *y;

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

/* Calls of few bytes, which go with their descriptions, differ in one thing; those before and after
 * it are alike. */
SCENARIO(little)
{
    static const char *const said[] = {"the reduction differs", "the data type differs",
                                       "the shape differs", "the root differs"};
    weir_device *dev;
    weir_group *world = join(&dev, NULL);
    int me = weir_rank_index(weir_group_self(world)), all[] = {0, 1, 2};
    weir_stream *s;

    for (int what = 0; what < 4; what++) {
        bool other = me == 1;
        int64_t shape[] = {other && what == 2 ? 4 : 2, other && what == 2 ? 1 : 2};
        weir_dtype type = other && what == 1 ? WEIR_I32 : WEIR_F32;
        weir_reduce reduce = other && what == 0 ? WEIR_REDUCE_MAX : WEIR_REDUCE_SUM;
        weir_tensor *alike = numbers(dev, 4), *x, *y, *z = NULL;
        weir_group *g;
        weir_rank *self;
        weir_status st;

        CHECK_OK(weir_group_split(world, all, 3, NULL, &g));
        CHECK_OK(weir_stream_create(dev, NULL, &s));
        CHECK_OK(weir_stream_set_current(s));
        self = weir_group_self(g);
        CHECK_OK(weir_all_reduce(self, alike, WEIR_REDUCE_SUM, &y));
        CHECK_OK(weir_tensor_from(s, type, 2, shape, (float[4]){0}, &x));
        st = what == 3 ? weir_broadcast(self, x, other, &z) : weir_all_reduce(self, x, reduce, &z);
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
    leave(world, dev);
}

TEST(procs, whatever_differs_between_calls_of_few_bytes_is_told)
{
    struct kids k;

    kids_start(&k, 3, "little", NULL);
    kids_end_well(&k);
}

/* ---- late, or not there any more ---- */

SCENARIO(late)
{
    weir_device *dev;
    weir_group *g = join(&dev, &(weir_join_options){.timeout_ns = INT64_C(200000000)});
    weir_rank *self = weir_group_self(g);
    struct timespec pause = {.tv_nsec = 1000000};

    if (weir_rank_index(self) != 2) {
        call_until_error(g, dev, 3);
        leave(g, dev);
        return;
    }
    while (!weir_group_state(g)) /* the others' error reaches it, too */
        nanosleep(&pause, NULL);
    say("error %s\n", weir_last_error());
    leave(g, dev);
}

TEST(procs, a_rank_that_does_not_call_is_named_after_the_timeout)
{
    struct kids k;

    kids_start(&k, 3, "late", NULL);
    for (int i = 0; i < 3; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "AllReduce (call 1 of group 'world'): timed out after 0.2 s: rank ");
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

TEST(procs, a_rank_that_has_left_is_named_by_who_calls)
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
    weir_tensor *x = numbers(dev, 3), *y;
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
    struct kids k;

    kids_start(&k, 2, "not_own", NULL);
    kids_end_well(&k);
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
