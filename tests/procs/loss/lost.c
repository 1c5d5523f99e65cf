/* Ranks that die, stop or are cut off, at any point: everybody else gets an error that names the
 * rank and the call, and ends. */
#define _GNU_SOURCE
#include "procs/kids.h"
#include "procs/loss/left.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "comm/procs/procs.h"

static void cut_off(const weir_group *g)
{
    struct weir__world *w = weir__procs_group_world(g->procs);

    weir__mutex_lock(&w->conn_lock);
    shutdown(w->conn.fd, SHUT_RDWR);
    weir__mutex_unlock(&w->conn_lock);
}

/* Every connection of this process: before it has joined, nobody can say which are the world's. */
static bool cut_all(void)
{
    bool any = false;

    for (int fd = 3; fd < 200; fd++) {
        int domain = 0, listens = 1;
        socklen_t size = sizeof(int);

        if (!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_INET &&
            !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && !listens)
            any |= !shutdown(fd, SHUT_RDWR);
    }
    return any;
}

static _Atomic bool is_lost; /* this rank */

static void note_loss(long long now)
{
    char path[200];
    FILE *file;

    if (!getenv("KID_LOG")) {
        say("lost at %lld\n", now);
        return;
    }
    /* Who starts the ranks may have to end this one, and its launcher may not hand on what it says.
     */
    snprintf(path, sizeof path, "%s.lost", getenv("KID_LOG"));
    CHECK((file = fopen(path, "w")));
    fprintf(file, "%d lost at %lld\n", (int)getpid(), now);
    CHECK(!fclose(file));
}

void say_error(void)
{
    long long now = clock_now();
    FILE *log;

    say("error at %lld: %s\n", now, weir_last_error());
    if (getenv("KID_LOG") && !atomic_load(&is_lost) && (log = fopen(getenv("KID_LOG"), "a"))) {
        fprintf(log, "error at %lld: %s\n", now, weir_last_error());
        fclose(log);
    }
}

void lose_self(weir_group *world, int signal_)
{
    long long now = clock_now();

    atomic_store(&is_lost, true);
    if (!signal_ && !world) {
        if (cut_all())
            note_loss(now);
        return;
    }
    note_loss(now);
    signal(SIGTERM, SIG_DFL); /* ranks with KID_LOG ignore it */
    if (signal_)
        kill(getpid(), signal_);
    else
        cut_off(world);
}

static bool is_to_lose(const weir_group *g, int *signal_, long *us)
{
    int rank;

    return getenv("KID_LOSE") && sscanf(getenv("KID_LOSE"), "%d %d %ld", &rank, signal_, us) == 3 &&
           rank == weir_rank_index(weir_group_self((weir_group *)g));
}

static void *lose_then(void *user)
{
    int signal_;
    long us;

    CHECK(is_to_lose(user, &signal_, &us));
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
    lose_self(user, signal_);
    return NULL;
}

bool lose_soon(weir_group *world)
{
    pthread_t thread;

    if (!is_to_lose(world, &(int){0}, &(long){0}))
        return false;
    CHECK(!pthread_create(&thread, NULL, lose_then, world) && !pthread_detach(thread));
    return true;
}

void stay_for_others(void)
{
    int want = getenv("KID_STAY") ? atoi(getenv("KID_STAY")) : 0, have = 0;

    for (int i = 0; i < 2000 && have < want; i++) {
        FILE *log = fopen(getenv("KID_LOG"), "r");

        for (have = 0; log && fscanf(log, "%*[^\n]%*c") != EOF;)
            have++;
        if (log)
            fclose(log);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

/* With KID_PLAN a call is a run of a plan that has three of them, with KID_INTO all have the same
 * tensors. */
void call_until_error(weir_group *g, weir_device *dev, int64_t n)
{
    weir_plan *plan = getenv("KID_PLAN") ? plan_of_sums(weir_group_self(g), dev, n, 3) : NULL;
    weir_tensor *x = zeros(dev, n), *into = getenv("KID_INTO") ? zeros(dev, n) : NULL, *y;
    weir_status st = WEIR_OK;
    bool lost = false;

    for (int i = 0; !st; i++) {
        if (i == 20) {
            say("ready\n");
            lost = lose_soon(g);
        }
        y = NULL;
        st = plan   ? weir_plan_run(plan, weir_stream_default(dev), &x, 1, &y, 1)
             : into ? weir_all_reduce_into(weir_group_self(g), x, WEIR_REDUCE_SUM, into)
                    : weir_all_reduce(weir_group_self(g), x, WEIR_REDUCE_SUM, &y);
        if (!st) {
            st = weir_stream_sync(weir_stream_default(dev));
            weir_tensor_release(y);
        }
    }
    say_error();
    if (getenv("KID_LOG") && !lost)
        stay_for_others();
    CHECK(weir_group_state(g));
    if (lost && getenv("KID_STAY")) {
        stay_for_others();
        _exit(0);
    }
    while (lost) /* one that ends would have died, to those who have not noticed yet */
        pause();
    weir_tensor_release(x);
    weir_tensor_release(into);
    weir_plan_destroy(plan);
}

SCENARIO(calls)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);

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

void lose_one_of(const char *scenario, int ranks, int victim, enum how how,
                 const char *const *extra, long pause_us)
{
    const struct loss_way *way = &loss_ways[how];
    char name[60], lose[40];
    const char *all[20] = {lose};
    int64_t lost_ns;
    struct kids k;
    int n = 1;

    test_note("%s: rank %d of %d is %s", scenario, victim, ranks, way->name);
    losses_begin();
    left_begin();
    snprintf(lose, sizeof lose, "KID_LOSE=%d 0 %ld", how == CUT ? victim : -1, pause_us);
    for (; extra && extra[n - 1]; n++)
        all[n] = extra[n - 1];
    kids_start(&k, ranks, scenario, all);
    for (int i = 0; i < ranks; i++)
        kids_await(&k, i, "ready");
    nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000}, NULL);
    lost_ns = clock_now();
    if (how != CUT) {
        CHECK(!kill(k.pid[victim], way->signal));
    } else { /* it is told, too */
        kids_await_line(&k, victim, "error at ");
        lost_ns = number_after(k.text[victim], "lost at ");
        losses_add(how, lost_ns, k.text[victim]);
    }
    snprintf(name, sizeof name, "rank %d %s", victim, way->said);
    for (int i = 0; i < ranks; i++)
        if (i != victim) {
            kids_end(&k, i);
            CHECK_STR(k.text[i], name);
            CHECK_STR(k.text[i], "group '");
            CHECK_EQ(k.status[i], 0);
            losses_add(how, lost_ns, k.text[i]);
        }
    kill(k.pid[victim], SIGKILL);
    kids_end(&k, victim);
    expect_nothing_left();
    CHECK(access(k.store + strlen("file:"), F_OK));
}

void lose_one(int ranks, int victim, enum how how, const char *const *extra, long pause_us)
{
    lose_one_of("calls", ranks, victim, how, extra, pause_us);
}

TEST(procs, a_killed_rank_is_named_by_all_others)
{
    lose_one(3, 1, KILL, NULL, 0);
    losses_report("shm");
}

static void lose_after_rank_0(enum how how, const char *const *extra)
{
    int64_t lost_ns;
    char said[60];
    struct kids k;

    snprintf(said, sizeof said, "rank 2 %s", loss_ways[how].said);
    losses_begin();
    left_begin();
    kids_start(&k, 3, "orphans", extra);
    kids_end(&k, 0);
    CHECK_EQ(k.status[0], 0);
    kids_await(&k, 1, "ready");
    lost_ns = clock_now();
    CHECK(!kill(k.pid[2], loss_ways[how].signal));
    kids_end(&k, 1);
    CHECK_STR(k.text[1], said);
    CHECK_EQ(k.status[1], 0);
    losses_add(how, lost_ns, k.text[1]);
    kill(k.pid[2], SIGKILL);
    kids_end(&k, 2);
    expect_nothing_left();
}

TEST(procs, ranks_that_are_lost_when_rank_0_has_left_are_named)
{
    lose_after_rank_0(KILL, NULL);
    lose_after_rank_0(KILL, large);
    lose_after_rank_0(STOP, NULL);
    lose_after_rank_0(KILL, (const char *[]){"WEIR_STANDBY=0", NULL});
    lose_after_rank_0(STOP, (const char *[]){"WEIR_STANDBY=0", NULL});
    losses_report("shm, after rank 0 has left");
}

TEST(procs, killed_rank_0_is_named_by_all_others)
{
    lose_one(3, 0, KILL, large, 0);
    losses_report("shm");
}

TEST(procs, a_stopped_rank_is_named_by_all_others)
{
    lose_one(2, 1, STOP, NULL, 0);
    losses_report("shm");
}

TEST(procs, stopped_rank_0_is_named_by_all_others)
{
    lose_one(3, 0, STOP, NULL, 0);
    losses_report("shm");
}

TEST(procs, a_terminated_rank_is_named_by_all_others)
{
    lose_one(2, 1, TERMINATE, large, 0);
    losses_report("shm");
}

void lose_at_random(const char *title, int runs, const char *const *extra)
{
    unsigned seed = losses_seed(1);

    runs = losses_runs(runs);
    for (int i = 0; i < runs; i++) {
        int ranks = 2 + rand_r(&seed) % 3;
        const char *both[16] = {rand_r(&seed) & 1 ? large[0] : "KID_SMALL=1"};

        for (int n = 0; extra && extra[n]; n++)
            both[n + 1] = extra[n];
        lose_one(ranks, rand_r(&seed) % ranks, (enum how)(rand_r(&seed) % HOWS), both,
                 rand_r(&seed) % 20000);
    }
    losses_report(title);
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs, ranks_lost_at_random_points_are_named, 3600)
{
    lose_at_random("shm", 2, NULL);
}

/* ---- cut off ---- */

/* At the first call. */
SCENARIO(cut)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_rank *self = weir_group_self(g);

    CHECK_OK(weir_barrier(self));
    CHECK_OK(weir_stream_sync(weir_stream_default(dev)));
    if (weir_rank_index(self) == 1)
        lose_self(g, 0);
    call_until_error(g, dev, 10);
    await_go(); /* one that ends would have died, to those who have not noticed yet */
    leave(g, dev);
}

TEST(procs, a_rank_whose_connection_is_cut_is_named)
{
    struct kids k;

    losses_begin();
    left_begin();
    kids_start(&k, 3, "cut", NULL);
    for (int i = 0; i < 3; i++) /* its own link tells rank 1, or the others do: who is first */
        kids_await(&k, i, i == 1 ? "was cut" : "rank 1 is gone: its connection was cut");
    for (int i = 0; i < 3; i++) {
        kids_await_line(&k, i, "error at ");
        losses_add(CUT, number_after(k.text[1], "lost at "), k.text[i]);
        kids_go(&k, i);
    }
    kids_end_well(&k);
    expect_nothing_left();
    losses_report("shm, at the first call");
}
