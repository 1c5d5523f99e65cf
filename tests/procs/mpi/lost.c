/* Ranks that are lost by engine `mpi`: on one host by Open MPI 5 and MPICH, on two hosts that are
 * namespaces by Open MPI 5 and 4. Ranks write to files what they say, because their launcher
 * may not hand it on. */
#define _GNU_SOURCE
#include "procs/loss/left.h"
#include "procs/mpi/launch.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "comm/procs/mpi/api.h"

/* These let the others go on when a rank dies; Open MPI 4, and the others without these options,
 * end the job. */
static const struct family open_mpi5_stays = {
    .launcher = "mpirun.openmpi5",
    .variable = "TEST_OPEN_MPI5",
    .library = "libmpi.so.40",
    .options = {"--allow-run-as-root", "--oversubscribe", "--with-ft", "ulfm"}};
static const struct family open_mpi5_far = {.launcher = "mpirun.openmpi5",
                                            .variable = "TEST_OPEN_MPI5",
                                            .library = "libmpi.so.40",
                                            .hosts = "open-mpi5"};
static const struct family mpich_stays = {.launcher = "mpiexec.hydra",
                                          .variable = "TEST_MPICH",
                                          .library = "libmpi_abi.so.1",
                                          .options = {"-disable-auto-cleanup"},
                                          .own_names = "mpich_shm_",
                                          .settings = MPICH_SETTINGS};

/* How many lines of the file have that in them, once there are so many lines or none comes. */
static int count_lines(const char *path, const char *part, int lines)
{
    char line[2000];
    int all = 0, with = 0;

    for (int i = 0; i < 2000 && all < lines; i++) {
        FILE *file = fopen(path, "r");

        for (all = with = 0; file && fgets(line, sizeof line, file); all++)
            with += strstr(line, part) != NULL;
        if (file)
            fclose(file);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return with;
}

struct loss {
    const char *name; /* what the others say of it */
    int ranks;
    char log[60], victim[70]; /* files: what the others say, and who is lost when */
};

static void begin_loss(struct loss *l)
{
    snprintf(l->log, sizeof l->log, "/tmp/weir-test-mpi-%d", (int)getpid());
    snprintf(l->victim, sizeof l->victim, "%s.lost", l->log);
    setenv("KID_LOG", l->log, 1);
    losses_begin();
    left_begin();
}

/* Checks that all others have said it, and notes how long that took. */
static void end_loss(const struct loss *l, enum how how, int64_t lost_ns)
{
    char line[2000];
    FILE *file;

    CHECK_EQ(count_lines(l->log, l->name, l->ranks - 1), l->ranks - 1);
    CHECK((file = fopen(l->log, "r")));
    while (fgets(line, sizeof line, file))
        losses_add(how, lost_ns, line);
    fclose(file);
}

static void remove_files(const struct loss *l)
{
    unlink(l->log);
    unlink(l->victim);
}

static int64_t read_victim(const struct loss *l, int *pid)
{
    FILE *file = fopen(l->victim, "r");
    char line[100] = "";

    if (file && !fgets(line, sizeof line, file))
        line[0] = 0;
    if (file)
        fclose(file);
    *pid = atoi(line);
    return number_after(line, "lost at ");
}

/* The launcher waits for one that is stopped or cut off: it is killed when the others have said
 * what they say. */
static void *end_victim(void *user)
{
    const struct loss *l = user;
    int pid;

    count_lines(l->log, l->name, l->ranks - 1);
    read_victim(l, &pid);
    if (pid > 0)
        kill(pid, SIGKILL);
    return NULL;
}

/* Open MPI 5.0.11 looks at communicators that it is still making when it hears that a rank died,
 * and falls over one. Nobody can keep it from that. */
static bool is_open_mpi_s_own(const char *text)
{
    return strstr(text, "ompi_comm_set_rank_failed");
}

/* Runs the scenario, in which a rank is lost; all others say so, as `name`, and none crashes. False
 * if Open MPI did. */
static bool lose_by_mpi(const struct family *f, int ranks, enum how how, const char *name,
                        const char *scenario)
{
    struct loss l = {.name = name, .ranks = ranks};
    char text[8000];
    pthread_t thread;
    int pid;

    mpi_need(f); /* before there is a thread */
    begin_loss(&l);
    if (!f->hosts)
        CHECK(!pthread_create(&thread, NULL, end_victim, &l));
    mpi_launch(f, ranks, scenario, text, sizeof text);
    if (!f->hosts)
        pthread_join(thread, NULL);
    if (!is_open_mpi_s_own(text)) {
        printf("%s, of %d ranks%s: %s\n", name, ranks, getenv("KID_LARGE") ? ", large" : "", text);
        end_loss(&l, how, read_victim(&l, &pid));
        CHECK(!strstr(text, "Segmentation fault"));
        CHECK(!strstr(text, "left behind: observers "));
    }
    remove_files(&l);
    expect_nothing_left_but(f->own_names);
    return !is_open_mpi_s_own(text);
}

/* Every other one has large messages. With `deaths` false no rank dies before all have said what
 * they say: MPICH 5 may end the job or crash then, or wait. */
static void lose_at_random_by(const struct family *f, bool deaths, const char *title)
{
    unsigned seed = losses_seed(7);
    int runs = losses_runs(1);

    for (int i = 0; i < runs; i++) {
        enum how how = deaths ? (enum how)(i % HOWS) : i % 2 ? CUT : STOP;
        int ranks = 2 + rand_r(&seed) % 3, victim = rand_r(&seed) % ranks;
        char lose[40], name[60], stay[8];

        snprintf(lose, sizeof lose, "%d %d %d", victim, loss_ways[how].signal,
                 rand_r(&seed) % 20000);
        snprintf(stay, sizeof stay, "%d", ranks - 1);
        setenv("KID_LOSE", lose, 1);
        setenv("KID_STAY", stay, 1);
        if (i / HOWS % 2)
            setenv("KID_LARGE", "1", 1);
        else
            unsetenv("KID_LARGE");
        snprintf(name, sizeof name, "rank %d %s", victim, loss_ways[how].said);
        CHECK(lose_by_mpi(f, ranks, how, name, "calls"));
    }
    losses_report(title);
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs_mpi, ranks_lost_at_random_points_by_open_mpi_5_are_named, 3600)
{
    lose_at_random_by(&open_mpi5_stays, true, "Open MPI 5");
}
TEST_TIMEOUT(procs_mpi, ranks_stopped_or_cut_off_at_random_points_by_mpich_are_named, 3600)
{
    lose_at_random_by(&mpich_stays, false, "MPICH 5");
}

static int (*make_comm)(void *comm, void *group, int tag, void **out);

static int make_comm_and_die(void *comm, void *group, int tag, void **out)
{
    make_comm(comm, group, tag, out);
    lose_self(NULL, SIGKILL);
    return 0;
}

/* Rank 0 dies when it has its communicator. The others may still be making theirs, which must not
 * be revoked then: those that have it wait for those that have not. */
SCENARIO(die_making)
{
    struct weir__mpi_api *api = (struct weir__mpi_api *)weir__mpi_load();
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    weir_device *dev;
    weir_group *g;

    CHECK(api && rank);
    make_comm = api->comm_create_group;
    if (!atoi(rank))
        api->comm_create_group = make_comm_and_die;
    CHECK_OK(weir_device_open("cpu:cores=1", &dev));
    CHECK(weir_group_join(dev, NULL, &g));
    say_error();
    _exit(0); /* MPI, in which a call may be stuck, is not ended */
}

TEST_TIMEOUT(procs_mpi, a_rank_that_dies_while_communicators_are_made_is_named, 3600)
{
    int runs = losses_runs(2), well = 0;

    for (int i = 0; i < runs || (i < 4 * runs && !well); i++)
        well += lose_by_mpi(&open_mpi5_stays, 3 + i % 2, KILL, "rank 0",
                            "die_making"); /* died, or is gone */
    CHECK(well);
    losses_report("Open MPI 5, while communicators are made");
}

/* ---- on two hosts ---- */

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs_mpi, ranks_lost_at_random_points_on_two_hosts_are_named, 3600)
{
    setenv("TWO_HOSTS_LOSE", "1", 1);
    lose_at_random_by(&open_mpi5_far, true, "two hosts, Open MPI 5");
}

/* Open MPI goes on to wait for what it has lost. `say` of the ranks say it. */
static void lose_far_in(const char *scenario, int ranks, const char *variable, const char *value,
                        int say, const char *what)
{
    struct loss l = {.name = what, .ranks = say + 1};
    char text[8000], stay[8];

    mpi_need(&open_mpi_far);
    snprintf(stay, sizeof stay, "%d", say);
    setenv("KID_STAY", stay, 1);
    setenv(variable, value, 1);
    begin_loss(&l);
    mpi_launch(&open_mpi_far, ranks, scenario, text, sizeof text);
    test_note("%s %s: %.600s", variable, value, text);
    end_loss(&l, strstr(variable, "CUT") ? CUT : STOP, number_after(text, "lost at "));
    CHECK(!strstr(text, "left behind: observers "));
    remove_files(&l);
    expect_nothing_left();
    unsetenv(variable);
}

static void lose_far(int ranks, const char *variable, const char *value, int say, const char *what)
{
    lose_far_in("calls", ranks, variable, value, say, what);
}

TEST_TIMEOUT(procs_mpi, ranks_on_two_hosts_whose_cable_is_cut_name_the_other_side, 120)
{
    lose_far(2, "TWO_HOSTS_CUT", "1", 2, "is out of reach: its host does not answer");
    losses_report("two hosts, Open MPI 4");
}

/* Not that it was silent for long: a neighbour on its host has seen it. */
TEST_TIMEOUT(procs_mpi, a_stopped_rank_of_another_host_is_told_by_its_neighbour, 120)
{
    lose_far(4, "TWO_HOSTS_STOP", "3", 3, "rank 3 is stopped (by a signal or a debugger)");
    losses_report("two hosts, Open MPI 4");
}

/* These ranks have no neighbour: the observer reports them before they count as silent. */
TEST_TIMEOUT(procs_mpi, a_stopped_rank_that_is_alone_on_its_host_is_named_on_the_other, 120)
{
    lose_far(3, "TWO_HOSTS_STOP", "2", 2, "rank 2 is stopped (by a signal or a debugger)");
    losses_report("two hosts, Open MPI 4");
}
TEST_TIMEOUT(procs_mpi, stopped_rank_0_is_named_on_another_host, 120)
{
    lose_far(2, "TWO_HOSTS_STOP", "0", 1, "rank 0 is stopped (by a signal or a debugger)");
    lose_far(4, "TWO_HOSTS_STOP", "0", 3, "rank 0 is stopped (by a signal or a debugger)");
    losses_report("two hosts, Open MPI 4");
}

/* The ranks of KID_REST go on when the others have left. Half of the ranks are on either host. */
static void lose_far_later(int ranks, const char *rest, const char *variable, const char *value,
                           int say, const char *what)
{
    setenv("KID_REST", rest, 1);
    setenv("KID_LEAVE", "1", 1);
    lose_far_in("heirs", ranks, variable, value, say, what);
}

TEST_TIMEOUT(procs_mpi, ranks_of_other_hosts_are_watched_after_rank_0_has_left, 240)
{
    static const char stopped[] = "is stopped (by a signal or a debugger)";

    lose_far_later(4, "1 2 3", "TWO_HOSTS_STOP", "3", 2, stopped); /* by its neighbour, rank 2 */
    lose_far_later(3, "1 2", "TWO_HOSTS_STOP", "2", 1, stopped);   /* alone on its host */
    lose_far_later(3, "1 2", "TWO_HOSTS_STOP", "1", 1, stopped);   /* it joins the ranks now */
    lose_far_later(4, "2 3", "TWO_HOSTS_STOP", "3", 1, stopped);   /* nobody is left there */
    lose_far_later(3, "1 2", "TWO_HOSTS_CUT", "1", 2, "is out of reach: its host does not answer");
    losses_report("two hosts, Open MPI 4");
}

/* The observer of that host ends with the rank that has started it. */
TEST_TIMEOUT(procs_mpi, a_rank_that_is_left_alone_on_its_host_is_watched, 120)
{
    lose_far_later(4, "0 3", "TWO_HOSTS_STOP", "3", 1, "is stopped (by a signal or a debugger)");
    lose_far_later(4, "1 3", "TWO_HOSTS_STOP", "3", 1, "is stopped (by a signal or a debugger)");
    losses_report("two hosts, Open MPI 4");
}
