/* Ranks on their way to the next hub. */
#define _GNU_SOURCE
#include "procs/kids.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "comm/procs/procs.h"

static void wait_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* Rank 0 has left for the others, but its hub goes on until its process ends. */
static void leave_with_hub(struct weir__world *w)
{
    atomic_store(&w->stop, true);
    weir__mutex_lock(&w->conn_lock);
    weir__conn_send(&w->conn, WEIR__WIRE_BYE, NULL, 0);
    weir__mutex_unlock(&w->conn_lock);
    for (;;)
        pause();
}

static int hub_fd(struct weir__world *w)
{
    int fd;

    weir__mutex_lock(&w->conn_lock);
    fd = w->conn.fd;
    weir__mutex_unlock(&w->conn_lock);
    return fd;
}

static struct weir__world *mover;

static void let_move(int signal_)
{
    (void)signal_;
    atomic_store(&mover->leaves, false);
}

/* Rank 3 waits for the others, and stays with the hub of rank 0: what rank 2 says to the next hub,
 * it must learn there. */
SCENARIO(late_mover)
{
    weir_device *dev;
    weir_group *world = join(&dev, NULL), *rest = NULL;
    struct weir__world *w = weir__procs_group_world(world->procs);
    int me = weir_rank_index(weir_group_self(world)), first_hub = hub_fd(w);

    if (me)
        CHECK_OK(weir_group_split(world, (int[]){1, 2, 3}, 3, NULL, &rest));
    if (me == 3) {
        mover = w;
        signal(SIGUSR1, let_move);
        atomic_store(&w->leaves, true); /* a rank that leaves soon need not move */
    }
    CHECK_OK(weir_barrier(weir_group_self(world)));
    CHECK_OK(weir_device_sync(dev));
    if (!me)
        leave_with_hub(w);
    while (me == 2 && hub_fd(w) == first_hub)
        wait_briefly();
    if (me == 2)
        weir_group_abort(rest, "rank 2 has no more memory");
    if (me == 3 && !weir_barrier(weir_group_self(rest)))
        weir_device_sync(dev);
    while (!weir_group_state(rest))
        wait_briefly();
    say("%s%s.\n", weir_last_error(), hub_fd(w) == first_hub ? ", says rank 0" : "");
    for (;;)
        pause();
}

TEST(procs, an_abort_reaches_a_rank_that_moves_to_the_next_hub_later)
{
    struct kids k;

    kids_start(&k, 4, "late_mover", NULL);
    kids_await(&k, 1, "rank 2 has no more memory.\n"); /* its hub has it */
    CHECK(!kill(k.pid[3], SIGUSR1));
    kids_await(&k, 3, ".\n");
    CHECK_STR(k.text[3], "rank 2 has no more memory.");
    for (int i = 0; i < 4; i++) {
        CHECK(!kill(k.pid[i], SIGKILL));
        kids_end(&k, i);
    }
}

/* No rank can take over, and rank 0's hub would still take gathers. */
SCENARIO(hubless)
{
    static struct weir__wire_gathered all;
    static const unsigned char blob[WEIR__WIRE_BLOB];
    struct weir__ranks both = {{0}};
    weir_device *dev;
    weir_group *world = join(&dev, NULL);
    struct weir__world *w = weir__procs_group_world(world->procs);

    weir__ranks_add(&both, 1);
    weir__ranks_add(&both, 2);
    CHECK_OK(weir_barrier(weir_group_self(world)));
    CHECK_OK(weir_device_sync(dev));
    if (!weir_rank_index(weir_group_self(world)))
        leave_with_hub(w);
    while (!atomic_load(&w->alone))
        wait_briefly();
    if (weir_rank_index(weir_group_self(world)) == 1) {
        CHECK_EQ(weir__world_gather(w, "later", &both, 1000000, blob, &all), WEIR_EUNAVAILABLE);
        say("%s\n", weir_last_error());
    }
    for (;;)
        pause();
}

TEST(procs, a_gather_of_a_rank_without_a_hub_fails_at_once)
{
    struct kids k;

    kids_start(&k, 3, "hubless", (const char *[]){"WEIR_STANDBY=0", NULL});
    kids_await(&k, 1, "\n");
    CHECK_STR(k.text[1], "group 'later' did not form: no rank can be reached");
    for (int i = 0; i < 3; i++) {
        CHECK(!kill(k.pid[i], SIGKILL));
        kids_end(&k, i);
    }
}

/* KID_HOLD=N: rank 1 has a child, which has its sockets and lives until that descriptor ends. */
SCENARIO(parent)
{
    weir_device *dev;
    weir_group *world = join(&dev, NULL), *rest = NULL;
    int me = weir_rank_index(weir_group_self(world)), hold = atoi(getenv("KID_HOLD"));
    char byte;

    if (me)
        CHECK_OK(weir_group_split(world, (int[]){1, 2, 3}, 3, NULL, &rest));
    if (me == 1 && !fork()) {
        close(1);
        close(2);
        (void)!read(hold, &byte, 1);
        _exit(0);
    }
    CHECK_OK(weir_barrier(weir_group_self(world)));
    CHECK_OK(weir_device_sync(dev));
    say("joined\n");
    while (me < 2 || !weir_group_state(rest))
        wait_briefly();
    say("%s.\n", weir_last_error());
    for (;;)
        pause();
}

TEST(procs, a_dead_rank_whose_child_has_its_socket_does_not_hold_up_the_others)
{
    int hold[2];
    char text[40];
    struct kids k;

    CHECK(!pipe2(hold, O_CLOEXEC));
    CHECK(!fcntl(hold[0], F_SETFD, 0));
    snprintf(text, sizeof text, "KID_HOLD=%d", hold[0]);
    kids_start(&k, 4, "parent", (const char *[]){text, NULL});
    close(hold[0]);
    for (int i = 0; i < 4; i++)
        kids_await(&k, i, "joined");
    CHECK(!kill(k.pid[1], SIGKILL)); /* rank 0 notices nothing: the connection is open */
    CHECK(!kill(k.pid[0], SIGKILL));
    for (int i = 2; i < 4; i++) {
        kids_await(&k, i, ".\n");
        CHECK_STR(k.text[i], "rank 1 died"); /* and not: has been silent for long */
    }
    for (int i = 2; i < 4; i++)
        CHECK(!kill(k.pid[i], SIGKILL));
    for (int i = 0; i < 4; i++)
        kids_end(&k, i);
    close(hold[1]);
}
