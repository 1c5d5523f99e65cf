/* Ranks that are lost while they join, make groups, call on them and destroy them. */
#define _GNU_SOURCE
#include "procs/kids.h"
#include "procs/loss/left.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static _Atomic(weir_group *) here; /* NULL: the rank has not joined yet */
static atomic_bool ended;

static void *end_self(void *user)
{
    enum { AGAIN_MS = 100 };
    weir_group *world;
    int rank, signal_;
    long us;

    (void)user;
    CHECK_EQ(sscanf(getenv("KID_LOSE"), "%d %d %ld", &rank, &signal_, &us), 3);
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
    do {
        world = atomic_load(&here);
        lose_self(world, signal_);
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000}, NULL);
    } while (!world && !atomic_load(&ended));
    return NULL;
}

static void come_until_error(weir_group *world, weir_device *dev)
{
    weir_status st = WEIR_OK;
    weir_group *g;
    int all[16];

    for (int i = 0; i < 16; i++)
        all[i] = i;
    while (!st) {
        if ((st = weir_group_split(world, all, weir_group_size(world), NULL, &g))) {
            say_error();
            return;
        }
        for (int i = 0; i < 3 && !st; i++)
            st = sum_once(g, dev);
        if (st)
            say_error();
        CHECK_OK(weir_group_destroy(g));
    }
}

/* KID_LOSE as for lose_soon, from when the rank begins to join. */
SCENARIO(come_and_go)
{
    weir_device *dev;
    weir_group *world = NULL;
    pthread_t thread;
    weir_status st;

    own_begin();
    CHECK_OK(weir_device_open("cpu:cores=1", &dev));
    if (atoi(getenv("KID_LOSE")) == atoi(getenv("WEIR_RANK")))
        CHECK(!pthread_create(&thread, NULL, end_self, NULL));
    st = weir_group_join(
        dev, &(weir_join_options){.join_timeout_ns = INT64_C(2000000000) * TEST_SLOWDOWN}, &world);
    if (!st)
        atomic_store(&here, world);
    if (st)
        say_error();
    else
        come_until_error(world, dev);
    atomic_store(&ended, true);
    await_go(); /* one that ends would have died, to those who have not noticed yet */
    leave(world, dev);
}

/* A rank that is lost while they join may only be missed by the others. */
static bool is_missed(const char *text)
{
    return strstr(text, "did not come") || strstr(text, "did not find rank 0") ||
           strstr(text, "did not answer in time");
}

/* When it was lost, which it may have been more than once. */
static int64_t last_loss(const char *text, int64_t before_ns)
{
    static const char said[] = "lost at ";
    int64_t last = 0;

    while ((text = strstr(text, said))) {
        int64_t at = strtoll(text += strlen(said), NULL, 10);

        last = !last || at <= before_ns ? at : last;
    }
    return last;
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs, ranks_lost_while_groups_come_and_go_are_named, 3600)
{
    uint64_t seed = losses_seed(5);
    int runs = losses_runs(4);

    for (int i = 0; i < runs; i++) {
        int ranks = 2 + (int)(draw(&seed) % 3), victim = (int)(draw(&seed) % (uint64_t)ranks);
        enum how how = (enum how)(draw(&seed) % HOWS);
        unsigned us = (unsigned)(draw(&seed) % 40000);
        char lose[60], name[20];
        struct kids k;

        test_note("rank %d of %d is %s after %u us", victim, ranks, loss_ways[how].name, us);
        losses_begin();
        left_begin();
        snprintf(lose, sizeof lose, "KID_LOSE=%d %d %u", victim, loss_ways[how].signal, us);
        snprintf(name, sizeof name, "rank %d", victim);
        kids_start(&k, ranks, "come_and_go", (const char *[]){lose, NULL});
        for (int r = 0; r < ranks; r++)
            if (r != victim) {
                kids_await_line(&k, r, "error at ");
                /* Or it came when rank 0 had learned of it, and given up. */
                if (!strstr(k.text[r], "did not find rank 0"))
                    CHECK_STR(k.text[r], name);
            }
        kill(k.pid[victim], SIGKILL);
        kids_end(&k, victim);
        for (int r = 0; r < ranks; r++)
            if (r != victim) {
                if (!is_missed(k.text[r]))
                    losses_add(how, last_loss(k.text[victim], number_after(k.text[r], "error at ")),
                               k.text[r]);
                kids_go(&k, r);
                kids_end(&k, r);
                CHECK_EQ(k.status[r], 0);
            }
        unlink(k.store + strlen("file:"));
        expect_nothing_left();
    }
    losses_report("shm, while groups come and go");
}
