/* Ranks that go on when the rank that joins them is gone: the next one joins them, and ranks that
 * are lost then are named as before. */
#define _GNU_SOURCE
#include "procs/kids.h"
#include "procs/loss/left.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "comm/procs/procs.h"

static void wait_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int read_ranks(const char *text, int *ranks)
{
    int n = 0, used;

    while (n < MOST_KIDS && sscanf(text, "%d%n", &ranks[n], &used) == 1) {
        text += used;
        n++;
    }
    return n;
}

/* KID_REST="1 2": these ranks go on in a group of their own. The others wait for their end, or
 * leave with KID_LEAVE. When the world is broken, or all others have left, the rest makes another
 * group, which needs a hub, and calls on it until there is an error. */
SCENARIO(heirs)
{
    weir_device *dev;
    weir_group *world = join(&dev, NULL), *rest, *again;
    int me = weir_rank_index(weir_group_self(world)), ranks[MOST_KIDS], order[MOST_KIDS];
    int n = read_ranks(getenv("KID_REST"), ranks), self = -1;

    for (int i = 0; i < n; i++) {
        self = ranks[i] == me ? i : self;
        order[i] = i;
    }
    if (self < 0) {
        CHECK_OK(weir_barrier(weir_group_self(world)));
        CHECK_OK(weir_device_sync(dev));
        say("joined\n");
        while (!getenv("KID_LEAVE"))
            pause();
        CHECK_OK(weir_group_destroy(world));
        say("ready\n");
        stay_for_others();
        CHECK_OK(weir_device_close(dev));
        return;
    }
    CHECK_OK(weir_group_split(world, ranks, n, NULL, &rest));
    CHECK_OK(weir_barrier(weir_group_self(world)));
    CHECK_OK(weir_device_sync(dev));
    say("joined\n");
    if (getenv("KID_ONCE")) {
        call_until_error(rest, dev, getenv("KID_LARGE") ? 1 << 16 : 10);
        CHECK_OK(weir_group_destroy(rest));
        leave(world, dev);
        return;
    }
    for (int i = 0; getenv("KID_LEAVE") ? i < 5 : !weir_group_state(world); i++)
        wait_ms(getenv("KID_LEAVE") ? 100 : 5);
    CHECK_OK(weir_group_split(rest, order, n, &(weir_group_options){.name = "again"}, &again));
    call_until_error(again, dev, getenv("KID_LARGE") ? 1 << 16 : 10);
    CHECK_OK(weir_group_destroy(again));
    CHECK_OK(weir_group_destroy(rest));
    leave(world, dev);
}

static void expect_named(struct kids *k, int n, const int *rest, int victim, enum how how,
                         int64_t lost_ns)
{
    char name[80];

    snprintf(name, sizeof name, "rank %d %s", victim, loss_ways[how].said);
    for (int i = 0; i < n; i++)
        if (rest[i] != victim) {
            kids_end(k, rest[i]);
            CHECK_STR(k->text[rest[i]], name);
            CHECK_EQ(k->status[rest[i]], 0);
            losses_add(how, lost_ns, k->text[rest[i]]);
        }
}

/* Ranks of `first`, at once, get the signal (0: they leave); then `victim` does.
 */
static void lose_in_turn(int ranks, const char *rest, const char *first, int first_signal,
                         int victim, enum how how)
{
    char rest_text[60];
    const char *extra[] = {rest_text, first_signal ? "KID_STAYS=1" : "KID_LEAVE=1", NULL};
    int rests[MOST_KIDS], firsts[MOST_KIDS], n = read_ranks(rest, rests),
                                             nfirst = read_ranks(first, firsts);
    int64_t lost_ns;
    struct kids k;

    test_note("first %s by signal %d, then %d of %s is %s", first, first_signal, victim, rest,
              loss_ways[how].name);
    losses_begin();
    left_begin();
    snprintf(rest_text, sizeof rest_text, "KID_REST=%s", rest);
    kids_start(&k, ranks, "heirs", extra);
    for (int i = 0; i < ranks; i++)
        kids_await(&k, i, "joined");
    for (int i = 0; i < nfirst; i++)
        if (first_signal)
            CHECK(!kill(k.pid[firsts[i]], first_signal));
    for (int i = 0; i < n; i++)
        kids_await(&k, rests[i], "ready");
    lost_ns = clock_now();
    CHECK(!kill(k.pid[victim], loss_ways[how].signal));
    expect_named(&k, n, rests, victim, how, lost_ns);
    for (int i = 0; i < ranks; i++)
        if (i == victim || !strchr(rest, '0' + i)) {
            kill(k.pid[i], SIGKILL);
            kids_end(&k, i);
        }
    expect_nothing_left();
}

TEST(procs, ranks_that_are_lost_after_rank_0_died_are_named)
{
    lose_in_turn(3, "1 2", "0", SIGKILL, 2, KILL);
    lose_in_turn(3, "1 2", "0", SIGKILL, 1, KILL);
    lose_in_turn(3, "1 2", "0", SIGKILL, 2, STOP);
    lose_in_turn(3, "1 2", "0", SIGKILL, 1, STOP);
    losses_report("shm, after rank 0");
}

TEST(procs, ranks_that_are_lost_after_rank_0_was_stopped_are_named)
{
    lose_in_turn(4, "2 1 3", "0", SIGSTOP, 1, KILL);
    lose_in_turn(3, "1 2", "0", SIGSTOP, 1, STOP);
    losses_report("shm, after rank 0");
}

TEST(procs, ranks_that_are_lost_after_rank_0_has_left_are_named)
{
    lose_in_turn(3, "1 2", "0", 0, 1, KILL);
    lose_in_turn(3, "2 1", "0", 0, 2, STOP);
    losses_report("shm, after rank 0");
}

TEST(procs, ranks_go_on_after_two_have_died_at_once)
{
    lose_in_turn(4, "2 3", "0 1", SIGKILL, 3, KILL);
    lose_in_turn(5, "2 3 4", "1 0", SIGKILL, 2, KILL);
    lose_in_turn(4, "2 3", "0 1", SIGSTOP, 2, KILL);
    losses_report("shm, after rank 0");
}

/* Rank 0, which would say it, is lost with a rank of a group that rank 0 is not in. */
static void lose_together(int signal_0, int victim, enum how how, const char *size)
{
    const char *extra[] = {"KID_REST=1 2 3", "KID_ONCE=1", size, NULL};
    static const int rest[] = {1, 2, 3};
    int64_t lost_ns;
    struct kids k;

    test_note("rank 0 by signal %d and %d is %s, %s", signal_0, victim, loss_ways[how].name, size);
    losses_begin();
    left_begin();
    kids_start(&k, 4, "heirs", extra);
    for (int i = 0; i < 4; i++)
        kids_await(&k, i, i ? "ready" : "joined");
    CHECK(!kill(k.pid[0], signal_0));
    lost_ns = clock_now();
    CHECK(!kill(k.pid[victim], loss_ways[how].signal));
    expect_named(&k, 3, rest, victim, how, lost_ns);
    for (int i = 0; i <= victim; i += victim) {
        kill(k.pid[i], SIGKILL);
        kids_end(&k, i);
    }
    expect_nothing_left();
}

TEST(procs, ranks_lost_together_with_rank_0_are_named)
{
    static const int signals[] = {SIGKILL, SIGSTOP};

    for (int i = 0; i < 8; i++)
        lose_together(signals[i & 1], 1 + i % 3, i >> 1 & 1 ? STOP : KILL,
                      i & 4 ? "KID_LARGE=1" : "KID_SMALL=1");
    losses_report("shm, together with rank 0");
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs, ranks_lost_at_random_after_others_are_named, 3600)
{
    uint64_t seed = losses_seed(3);
    int runs = losses_runs(2);

    for (int i = 0; i < runs; i++) {
        static const int first_signals[] = {0, SIGKILL, SIGSTOP, SIGTERM};
        int ranks = 3 + (int)(draw(&seed) % 4), how = first_signals[draw(&seed) % 4];
        int nfirst = how ? 1 + (int)(draw(&seed) % (uint64_t)(ranks - 2)) : 1, n = 0;
        char rest[40] = "", first[40] = "";
        int victim = 0;

        for (int r = 0; r < ranks; r++)
            sprintf(r < nfirst ? first + strlen(first) : rest + strlen(rest), " %d", r);
        for (int r = nfirst; r < ranks; r++)
            victim = draw(&seed) % (uint64_t)++n ? victim : r;
        lose_in_turn(ranks, rest, first, how, victim, (enum how)(draw(&seed) % CUT));
    }
    losses_report("shm, after others");
}

/* Each joins the others until it dies. */
SCENARIO(dynasty)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL), *next;
    int me = weir_rank_index(weir_group_self(g)), n = weir_group_size(g);

    for (int gone = 0;; gone++) {
        int order[16];

        for (int i = 0; i + gone + 1 < n; i++)
            order[i] = i + 1;
        CHECK_OK(weir_barrier(weir_group_self(g)));
        CHECK_OK(weir_device_sync(dev));
        if (gone == me && me == n - 1)
            break;
        next = NULL;
        if (gone < me)
            CHECK_OK(weir_group_split(g, order, n - gone - 1, NULL, &next));
        CHECK_OK(weir_barrier(weir_group_self(g)));
        CHECK_OK(weir_device_sync(dev));
        if (gone == me) {
            if (me % 2)
                break;
            kill(getpid(), SIGKILL);
        }
        g = next; /* the others are destroyed with the process */
    }
    say("rank %d\n", me);
    _exit(0);
}

TEST(procs, each_rank_joins_the_others_until_it_dies)
{
    struct kids k;

    kids_start(&k, 6, "dynasty", NULL);
    for (int i = 0; i < 6; i++) {
        kids_end(&k, i);
        CHECK(i % 2 ? !k.status[i] : k.status[i] == SIGKILL);
    }
    CHECK_STR(k.text[5], "rank 5");
}

/* One after the other leaves, in order and with pauses, while the rest makes groups and calls. */
SCENARIO(leave_in_turn)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL), *next;
    int me = weir_rank_index(weir_group_self(g)), n = weir_group_size(g);
    uint64_t seed = 9;

    for (int gone = 0; gone < me; gone++) {
        int order[16];

        for (int i = 0; i + gone + 1 < n; i++)
            order[i] = i + 1;
        CHECK_OK(weir_group_split(g, order, n - gone - 1, NULL, &next));
        CHECK_OK(weir_barrier(weir_group_self(g)));
        CHECK_OK(weir_device_sync(dev));
        CHECK_OK(weir_group_destroy(g));
        g = next;
        for (uint64_t i = draw(&seed) % 40; i; i--) {
            CHECK_OK(sum_once(g, dev));
            wait_ms(5);
        }
    }
    if (me < n - 1) {
        CHECK_OK(weir_barrier(weir_group_self(g)));
        CHECK_OK(weir_device_sync(dev));
    }
    leave(g, dev);
}

TEST(procs, ranks_leave_in_turn_while_the_others_go_on)
{
    kids_run(8, "leave_in_turn", NULL);
}

/* Rank 1 of three, whose connection is cut, and rank 2 are in a group without rank 0. */
SCENARIO(cut_rest)
{
    weir_device *dev;
    weir_group *world = join(&dev, NULL), *rest = NULL;
    struct weir__world *w = weir__procs_group_world(world->procs);
    int me = weir_rank_index(weir_group_self(world));

    if (me)
        CHECK_OK(weir_group_split(world, (int[]){1, 2}, 2, NULL, &rest));
    CHECK_OK(weir_barrier(weir_group_self(world)));
    CHECK_OK(weir_device_sync(dev));
    if (me == 1) {
        weir__mutex_lock(&w->conn_lock);
        shutdown(w->conn.fd, SHUT_RDWR);
        weir__mutex_unlock(&w->conn_lock);
    }
    if (me)
        call_until_error(rest, dev, 10);
    else
        call_until_error(world, dev, 10);
    for (;;)
        pause();
}

TEST(procs, a_rank_that_is_cut_off_loses_all_others)
{
    struct kids k;

    kids_start(&k, 3, "cut_rest", NULL);
    kids_await(&k, 0, "rank 1 is gone: its connection was cut");
    kids_await(&k, 2, "was cut");
    kids_await(&k, 1, "was cut");
    for (int i = 0; i < 3; i++) {
        CHECK(!kill(k.pid[i], SIGKILL));
        kids_end(&k, i);
    }
}

/* The error of a part on one rank, which the others cannot see themselves. */
SCENARIO(abort_rest)
{
    weir_device *dev;
    weir_group *world = join(&dev, NULL), *rest = NULL;
    int me = weir_rank_index(weir_group_self(world));

    if (me)
        CHECK_OK(weir_group_split(world, (int[]){1, 2, 3}, 3, NULL, &rest));
    CHECK_OK(weir_barrier(weir_group_self(world)));
    CHECK_OK(weir_device_sync(dev));
    if (!me)
        kill(getpid(), SIGKILL);
    while (!weir_group_state(world))
        wait_ms(5);
    if (me == 1)
        weir_group_abort(rest, "rank 1 has no more memory");
    while (!weir_group_state(rest))
        wait_ms(5);
    say("%s\n", weir_last_error());
    CHECK_OK(weir_group_destroy(rest));
    leave(world, dev);
}

TEST(procs, an_abort_reaches_all_ranks_when_rank_0_has_died)
{
    struct kids k;

    kids_start(&k, 4, "abort_rest", NULL);
    kids_end(&k, 0);
    for (int i = 1; i < 4; i++) {
        kids_end(&k, i);
        CHECK_STR(k.text[i], "rank 1 has no more memory");
        CHECK_EQ(k.status[i], 0);
    }
}
