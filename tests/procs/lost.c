/* Ranks that die, stop or are cut off, at any point: everybody else gets an error that names the
 * rank and the call, and ends. */
#define _GNU_SOURCE
#include "kids.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
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

/* KID_LOSE="RANK SIGNAL MICROSECONDS": that rank sends it to itself then; 0: its connection is cut.
 */
static bool is_to_lose(const weir_group *g, int *signal_, long *us)
{
    int rank;

    return getenv("KID_LOSE") && sscanf(getenv("KID_LOSE"), "%d %d %ld", &rank, signal_, us) == 3 &&
           rank == weir_rank_index(weir_group_self((weir_group *)g));
}

static void *lose_self(void *user)
{
    int signal_;
    long us;

    CHECK(is_to_lose(user, &signal_, &us));
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
    if (signal_)
        kill(getpid(), signal_);
    else
        cut_off(user);
    return NULL;
}

static bool lose_soon(weir_group *g)
{
    pthread_t thread;

    if (!is_to_lose(g, &(int){0}, &(long){0}))
        return false;
    if (getenv("KID_LOG")) { /* who starts the ranks may have to end this one */
        char path[200];
        FILE *file;

        snprintf(path, sizeof path, "%s.pid", getenv("KID_LOG"));
        CHECK((file = fopen(path, "w")));
        fprintf(file, "%d", (int)getpid());
        CHECK(!fclose(file));
    }
    CHECK(!pthread_create(&thread, NULL, lose_self, g) && !pthread_detach(thread));
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
    say("error %s\n", weir_last_error());
    if (getenv("KID_LOG") && !lost) {
        FILE *log = fopen(getenv("KID_LOG"), "a");

        fprintf(log, "%s\n", weir_last_error());
        fclose(log);
        stay_for_others();
    }
    CHECK(weir_group_state(g));
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

/* Memory that ranks share has no name, and the file by which they met is gone. */
static void expect_nothing_left(const struct kids *k)
{
    DIR *folder = opendir("/dev/shm");
    const struct dirent *entry;

    while (folder && (entry = readdir(folder)))
        if (strstr(entry->d_name, "weir"))
            FAIL("/dev/shm/%s is left", entry->d_name);
    if (folder)
        closedir(folder);
    CHECK(access(k->store + strlen("file:"), F_OK));
}

void lose_one(int ranks, int victim, enum how how, const char *const *extra, long pause_us)
{
    static const struct {
        int signal;
        const char *said;
    } ways[] = {[KILL] = {SIGKILL, "died"},
                [STOP] = {SIGSTOP, "is stopped"},
                [TERMINATE] = {SIGTERM, "died"},
                [CUT] = {0, "is gone: its connection was cut"}};
    char name[60], lose[40];
    const char *all[20] = {lose};
    struct kids k;
    int n = 1;

    test_note("rank %d of %d, signal %d", victim, ranks, ways[how].signal);
    snprintf(lose, sizeof lose, "KID_LOSE=%d 0 %ld", how == CUT ? victim : -1, pause_us);
    for (; extra && extra[n - 1]; n++)
        all[n] = extra[n - 1];
    kids_start(&k, ranks, "calls", all);
    for (int i = 0; i < ranks; i++)
        kids_await(&k, i, "ready");
    nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000}, NULL);
    if (how != CUT)
        CHECK(!kill(k.pid[victim], ways[how].signal));
    snprintf(name, sizeof name, "rank %d %s", victim, ways[how].said);
    for (int i = 0; i < ranks; i++)
        if (i != victim) {
            kids_end(&k, i);
            CHECK_STR(k.text[i], name);
            CHECK_STR(k.text[i], "group 'world'");
            CHECK_EQ(k.status[i], 0);
        }
    kill(k.pid[victim], SIGKILL);
    kids_end(&k, victim);
    expect_nothing_left(&k);
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
    lose_after_rank_0(SIGKILL, "rank 2 died", (const char *[]){"WEIR_STANDBY=0", NULL});
    lose_after_rank_0(SIGSTOP, "rank 2 is stopped", (const char *[]){"WEIR_STANDBY=0", NULL});
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
        lose_one(ranks, rand_r(&seed) % ranks, (enum how)(rand_r(&seed) % HOWS), both,
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
    if (weir_rank_index(self) == 1)
        cut_off(g);
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
