/* Ranks that leave while their messages are in flight, by engine `mpi`. */
#include "procs/mpi/launch.h"

#include <time.h>

#include "comm/procs/mpi/mpi.h"

static int (*test_request)(void **request, int *flag, void *status);
static struct weir__procs_group *held;
static int until_gone; /* WEIR__GONE_LEFT: until the link says so of rank 1; 0: until it closes */
static int looks;

/* Under world->lock, as all of MPI's tests: nothing is seen to have come before the link says that
 * rank 1 goes, nor for many looks after. */
static int test_later(void **request, int *flag, void *status)
{
    enum { LOOKS = 300 };
    bool goes = held && (until_gone ? atomic_load(&held->world->peers[1].gone) == until_gone
                                    : held->counts->of[1].closes);

    if (held) /* MPI goes on sending */
        held->world->mpi->api->iprobe(1, WEIR__MPI_NO_TAG, held->comm, flag, NULL);
    *flag = 0;
    looks += goes;
    return looks > LOOKS ? test_request(request, flag, status) : 0;
}

/* Rank 1 has sent its record, and goes; rank 0 sees the record later. */
static void broadcast_and_leave(void)
{
    struct weir__mpi_api *api = (struct weir__mpi_api *)weir__mpi_load();
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    int me = weir_rank_index(weir_group_self(g));
    weir_tensor *x = numbers(dev, 3, me), *y;

    CHECK(api);
    test_request = api->test;
    if (!me) {
        held = g->procs;
        api->test = test_later;
    }
    CHECK_OK(weir_broadcast(weir_group_self(g), x, 1, &y));
    CHECK_OK(weir_device_sync(dev));
    expect_numbers(y, 3, 1, 1);
    weir_tensor_release(x);
    weir_tensor_release(y);
    if (me && until_gone) { /* as if it had waited in vain for rank 0 to say that all has come */
        weir__mutex_lock(&g->procs->world->lock);
        g->procs->counts->of[0].has = true;
        weir__mutex_unlock(&g->procs->world->lock);
    }
    leave(g, dev);
    CHECK(me || looks);
}

SCENARIO(left_behind)
{
    broadcast_and_leave();
}
SCENARIO(left_far_behind)
{
    until_gone = WEIR__GONE_LEFT;
    broadcast_and_leave();
}

TEST(procs_mpi, messages_sent_before_a_rank_left_are_received)
{
    mpi_run_well(&open_mpi, 2, "left_behind");
    mpi_run_well(&mpich, 2, "left_behind");
}

TEST(procs_mpi, a_message_that_comes_after_its_sender_has_left_is_waited_for)
{
    mpi_run_well(&open_mpi, 2, "left_far_behind");
    mpi_run_well(&mpich, 2, "left_far_behind");
}

TEST(procs_mpi, a_rank_that_has_left_is_named_by_the_ranks_that_call)
{
    char text[8000];

    mpi_launch(&open_mpi, 2, "leaves", text, sizeof text);
    test_note("%.600s", text);
    CHECK_STR(text, "AllReduce (call 1 of group 'world'): rank 1 has left");
}

/* Rank 1 leaves a group and stays in the world. */
SCENARIO(leaves_some)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL), *both;
    int me = weir_rank_index(weir_group_self(g));

    CHECK_OK(weir_group_split(g, (int[]){0, 1}, 2, NULL, &both));
    if (!me)
        call_until_error(both, dev, 3);
    CHECK_OK(weir_group_destroy(both));
    CHECK_OK(weir_barrier(weir_group_self(g)));
    leave(g, dev);
}

TEST(procs_mpi, a_rank_that_has_left_a_group_and_not_the_world_is_named)
{
    char text[8000];

    mpi_launch(&open_mpi, 2, "leaves_some", text, sizeof text);
    test_note("%.600s", text);
    CHECK_STR(text, "AllReduce (call 1 of group '");
    CHECK_STR(text, "rank 1 has left");
}

/* Rank 1 says that it sent what it did not, and then something else. */
SCENARIO(miscounts)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);

    if (weir_rank_index(weir_group_self(g)))
        weir__world_send_close(g->procs->world, g->procs->key, 0, true, 1000);
    else
        call_until_error(g, dev, 3);
    leave(g, dev);
}

/* The same before rank 0 has made the group. */
SCENARIO(miscounts_early)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    struct weir__procs_group *p = g->procs;
    struct weir__participant *woken = NULL;

    if (!weir_rank_index(weir_group_self(g))) {
        weir__mutex_lock(&p->world->lock);
        p->group = NULL;
        weir__mpi_see_close(p, 1, true, 1000, &woken);
        weir__mpi_see_close(p, 1, true, 0, &woken);
        weir__mutex_unlock(&p->world->lock);
        CHECK_OK(weir__procs_transport.open(g));
    }
    call_until_error(g, dev, 3);
    leave(g, dev);
}

TEST(procs_mpi, a_rank_that_miscounts_before_the_group_is_made_breaks_it_everywhere)
{
    char text[8000];
    int said = 0;

    mpi_launch(&open_mpi, 2, "miscounts_early", text, sizeof text);
    test_note("%.400s", text);
    for (const char *at = text; (at = strstr(at, "rank 1 says that it has sent 0 messages")); at++)
        said++;
    CHECK_EQ(said, 2);
}

static int (*probe)(int from, int tag, void *comm, int *flag, void *status);
static _Atomic int probes;

static int count_probe(int from, int tag, void *comm, int *flag, void *status)
{
    atomic_fetch_add(&probes, 1);
    return probe(from, tag, comm, flag, status);
}

/* MPI may hold back what it was given, and peers wait for it: it is asked also when no call is
 * under way, though rarely. */
SCENARIO(idle)
{
    struct weir__mpi_api *api = (struct weir__mpi_api *)weir__mpi_load();
    weir_device *dev;
    weir_group *g = join(&dev, NULL);

    CHECK(api);
    CHECK_OK(weir_barrier(weir_group_self(g)));
    CHECK_OK(weir_device_sync(dev));
    weir__mutex_lock(&g->procs->world->lock);
    probe = api->iprobe;
    api->iprobe = count_probe;
    weir__mutex_unlock(&g->procs->world->lock);
    while (atomic_load(&probes) < 3)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK_OK(weir_barrier(weir_group_self(g))); /* nobody closes before */
    leave(g, dev);
}

TEST(procs_mpi, mpi_goes_on_while_no_call_is_under_way)
{
    mpi_run_well(&open_mpi, 2, "idle");
    mpi_run_well(&mpich, 2, "idle");
}

TEST(procs_mpi, a_rank_that_miscounts_what_it_sent_breaks_the_group)
{
    char text[8000];

    mpi_launch(&open_mpi, 2, "miscounts", text, sizeof text);
    test_note("%.600s", text);
    CHECK_STR(
        text,
        "group 'world': rank 1 says that it has sent 0 messages, but 0 have arrived and it has "
        "announced 1000 before");
}

/* The rank that joins them is another one each time. */
TEST(procs_mpi, ranks_leave_in_turn_by_open_mpi_while_the_others_go_on)
{
    mpi_run_well(&open_mpi, 5, "leave_in_turn");
}
TEST(procs_mpi, ranks_leave_in_turn_by_mpich_while_the_others_go_on)
{
    mpi_run_well(&mpich, 5, "leave_in_turn");
}
