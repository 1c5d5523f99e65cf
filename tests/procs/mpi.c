/* Engine `mpi` by Open MPI and by MPICH 5, where they are installed. A case hands a scenario of the
 * other files to their launcher: TEST_OPEN_MPI, TEST_OPEN_MPI5 and TEST_MPICH name it
 * (scripts/mpi-env installs the latter two), else it is looked for in PATH. WEIR_MPI says which
 * library the ranks load; without it, the one that came with a launcher that was named. */
#define _GNU_SOURCE
#include "mpi_launch.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "comm/procs/mpi/api.h"

static const struct family open_mpi_far = {.launcher = "mpirun.openmpi",
                                           .variable = "TEST_OPEN_MPI",
                                           .library = "libmpi.so.40",
                                           .hosts = "open-mpi"};
static const struct family mpich_far = {.launcher = "mpiexec.hydra",
                                        .variable = "TEST_MPICH",
                                        .library = "libmpi_abi.so.1",
                                        .settings = MPICH_SETTINGS,
                                        .hosts = "mpich"};

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

/* Open MPI 4 and MPICH's launcher end the job themselves; Open MPI 5's, which TEST_OPEN_MPI5 names,
 * lets the others go on. */
static const struct family stays = {
    .launcher = "mpirun.openmpi5",
    .variable = "TEST_OPEN_MPI5",
    .library = "libmpi.so.40",
    .options = {"--allow-run-as-root", "--oversubscribe", "--with-ft", "ulfm"}};

struct loss {
    const char *name; /* what the others say of it */
    int ranks;
    char log[60], victim[70]; /* files */
};

/* The launcher waits for one that is stopped or cut off: it is killed when the others have said
 * what they say. */
static void *end_victim(void *user)
{
    const struct loss *l = user;
    FILE *file;
    int pid = 0;

    count_lines(l->log, l->name, l->ranks - 1);
    file = fopen(l->victim, "r");
    if (file && fscanf(file, "%d", &pid) == 1 && pid > 0)
        kill(pid, SIGKILL);
    if (file)
        fclose(file);
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
static bool lose_by_mpi(int ranks, const char *name, const char *scenario)
{
    struct loss l = {.name = name, .ranks = ranks};
    char text[8000];
    pthread_t thread;

    mpi_need(&stays); /* before there is a thread */
    snprintf(l.log, sizeof l.log, "/tmp/weir-test-mpi-%d", (int)getpid());
    snprintf(l.victim, sizeof l.victim, "%s.pid", l.log);
    setenv("KID_LOG", l.log, 1);
    CHECK(!pthread_create(&thread, NULL, end_victim, &l));
    mpi_launch(&stays, ranks, scenario, text, sizeof text);
    pthread_join(thread, NULL);
    if (!is_open_mpi_s_own(text)) {
        printf("%s, of %d ranks: %s\n", name, ranks, text);
        CHECK_EQ(count_lines(l.log, name, ranks - 1), ranks - 1);
        CHECK(!strstr(text, "Segmentation fault"));
    }
    unlink(l.log);
    unlink(l.victim);
    return !is_open_mpi_s_own(text);
}

/* WEIR_SOAK=200 for as many. Every other one has large messages. */
TEST_TIMEOUT(procs_mpi, ranks_lost_at_random_points_by_open_mpi_5_are_named, 1200)
{
    static const struct {
        int signal;
        const char *said;
    } ways[] = {{SIGKILL, "died"},
                {SIGTERM, "died"},
                {SIGSTOP, "is stopped"},
                {0, "is gone: its connection was cut"}};
    int runs = getenv("WEIR_SOAK") ? atoi(getenv("WEIR_SOAK")) : 1;
    unsigned seed = 7;

    for (int i = 0; i < runs; i++) {
        int ranks = 2 + rand_r(&seed) % 3, victim = rand_r(&seed) % ranks, way = i % 4;
        char lose[40], name[60];

        snprintf(lose, sizeof lose, "%d %d %d", victim, ways[way].signal, rand_r(&seed) % 20000);
        setenv("KID_LOSE", lose, 1);
        if (i / 4 % 2)
            setenv("KID_LARGE", "1", 1);
        else
            unsetenv("KID_LARGE");
        snprintf(name, sizeof name, "rank %d %s", victim, ways[way].said);
        CHECK(lose_by_mpi(ranks, name, "calls"));
    }
}

static int (*make_comm)(void *comm, void *group, int tag, void **out);

static int make_comm_and_die(void *comm, void *group, int tag, void **out)
{
    make_comm(comm, group, tag, out);
    return kill(getpid(), SIGKILL);
}

/* Rank 0 dies when it has its communicator. The others may still be making theirs, which must not
 * be revoked then: those that have it wait for those that have not. */
SCENARIO(die_making)
{
    struct weir__mpi_api *api = (struct weir__mpi_api *)weir__mpi_load();
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    weir_device *dev;
    weir_group *g;
    FILE *log;

    CHECK(api && rank);
    make_comm = api->comm_create_group;
    if (!atoi(rank))
        api->comm_create_group = make_comm_and_die;
    CHECK_OK(weir_device_open("cpu:cores=1", &dev));
    CHECK(weir_group_join(dev, NULL, &g));
    CHECK((log = fopen(getenv("KID_LOG"), "a")));
    fprintf(log, "%s\n", weir_last_error());
    fclose(log);
    _exit(0); /* MPI, in which a call may be stuck, is not ended */
}

TEST_TIMEOUT(procs_mpi, a_rank_that_dies_while_communicators_are_made_is_named, 1200)
{
    int runs = getenv("WEIR_SOAK") ? atoi(getenv("WEIR_SOAK")) : 2, well = 0;

    for (int i = 0; i < runs || (i < 4 * runs && !well); i++)
        well += lose_by_mpi(3 + i % 2, "rank 0", "die_making"); /* died, or is gone */
    CHECK(well);
}

/* Every rank says both sides. */
static void disagree(const struct family *f)
{
    char text[8000];
    int said = 0;

    mpi_launch(f, 3, "shapes", text, sizeof text);
    test_note("%.1500s", text);
    for (const char *at = text; (at = strstr(at, "the shape differs")); at++)
        said++;
    CHECK(said >= 3);
    CHECK_STR(text, "f32[3]");
    CHECK_STR(text, "f32[4]");
}

TEST(procs_mpi, collectives_by_open_mpi_give_the_bits_of_one_process)
{
    mpi_run_well(&open_mpi, 3, "values");
}
TEST(procs_mpi, collectives_by_mpich_give_the_bits_of_one_process)
{
    mpi_run_well(&mpich, 3, "values");
}
TEST(procs_mpi, random_programs_of_sub_groups_on_several_streams_run_by_open_mpi)
{
    mpi_run_well(&open_mpi, 4, "random");
}
TEST(procs_mpi, random_programs_of_sub_groups_on_several_streams_run_by_mpich)
{
    mpi_run_well(&mpich, 4, "random");
}
TEST(procs_mpi, random_programs_in_place_and_on_reused_memory_run_by_open_mpi)
{
    mpi_run_well(&open_mpi, 4, "reuse");
}
TEST(procs_mpi, random_programs_in_place_and_on_reused_memory_run_by_mpich)
{
    setenv("KID_SEED", "2", 1);
    mpi_run_well(&mpich, 4, "reuse");
}
TEST(procs_mpi, sends_receives_batches_and_graphs_run_by_open_mpi)
{
    mpi_run_well(&open_mpi, 4, "pairs");
    mpi_run_well(&open_mpi, 3, "batch");
    mpi_run_well(&open_mpi, 2, "graph");
    mpi_run_well(&open_mpi, 2, "named");
}
TEST(procs_mpi, sends_receives_batches_and_graphs_run_by_mpich)
{
    mpi_run_well(&mpich, 4, "pairs");
    mpi_run_well(&mpich, 3, "batch");
    mpi_run_well(&mpich, 2, "graph");
    mpi_run_well(&mpich, 2, "named");
}
TEST(procs_mpi, large_reductions_in_rounds_by_open_mpi_give_the_bits_of_one_rank)
{
    mpi_run_well(&open_mpi, 5, "rounds");
    mpi_run_well(&open_mpi, 4, "rounds_beside");
}
TEST(procs_mpi, large_reductions_in_rounds_by_mpich_give_the_bits_of_one_rank)
{
    mpi_run_well(&mpich, 4, "rounds");
    mpi_run_well(&mpich, 4, "rounds_beside");
}

TEST(procs_mpi, ranks_that_disagree_by_open_mpi_get_an_error_with_both_sides)
{
    disagree(&open_mpi);
}
TEST(procs_mpi, ranks_that_disagree_by_mpich_get_an_error_with_both_sides)
{
    disagree(&mpich);
}
/* The fake GPU, or with KID_DEVICE=cuda a real one. */
static void be_on_gpu(void)
{
    if (getenv("KID_DEVICE") && !strncmp(getenv("KID_DEVICE"), "cuda", 4))
        return;
    setenv("KID_DEVICE", "cuda:0,op_timeout=30", 1);
    setenv("WEIR_LIBCUDA", FAKE_CUDA, 1);
    setenv("WEIR_LIBNVRTC", FAKE_CUDA, 1);
    setenv("WEIR_LIBCUBLASLT", FAKE_CUDA, 1);
    setenv("WEIR_CACHE_DIR", "/dev/null/cache", 1);
}

TEST(procs_mpi, collectives_of_ranks_on_gpus_by_open_mpi_give_the_bits_of_one_process)
{
    be_on_gpu();
    mpi_run_well(&open_mpi, 3, "values");
}
TEST(procs_mpi, messages_and_graphs_of_ranks_on_gpus_run_by_open_mpi)
{
    be_on_gpu();
    mpi_run_well(&open_mpi, 4, "random");
    mpi_run_well(&open_mpi, 3, "batch");
    mpi_run_well(&open_mpi, 2, "graph");
}
TEST(procs_mpi, collectives_of_ranks_on_gpus_by_mpich_give_the_bits_of_one_process)
{
    be_on_gpu();
    mpi_run_well(&mpich, 3, "values");
}

TEST_TIMEOUT(procs_mpi, two_hosts_joined_by_open_mpi_give_the_bits_of_one_process, 120)
{
    mpi_run_well(&open_mpi_far, 3, "values");
    mpi_run_well(&open_mpi_far, 4, "random");
}
TEST_TIMEOUT(procs_mpi, two_hosts_joined_by_mpich_give_the_bits_of_one_process, 120)
{
    mpi_run_well(&mpich_far, 3, "values");
    mpi_run_well(&mpich_far, 4, "random");
}

/* Open MPI goes on to wait for what it has lost: ranks write to a file. `say` of them say it. */
static void lose_far_in(const char *scenario, int ranks, const char *variable, const char *value,
                        int say, const char *what)
{
    char text[8000], log[60], stay[8];

    snprintf(stay, sizeof stay, "%d", say);
    setenv("KID_STAY", stay, 1);
    snprintf(log, sizeof log, "/tmp/weir-test-mpi-%d", (int)getpid());
    setenv("KID_LOG", log, 1);
    setenv(variable, value, 1);
    mpi_launch(&open_mpi_far, ranks, scenario, text, sizeof text);
    test_note("%s %s: %.600s", variable, value, text);
    CHECK_EQ(count_lines(log, what, say), say);
    unlink(log);
    unsetenv(variable);
}

static void lose_far(int ranks, const char *variable, const char *value, int say, const char *what)
{
    lose_far_in("calls", ranks, variable, value, say, what);
}

TEST_TIMEOUT(procs_mpi, ranks_on_two_hosts_whose_cable_is_cut_name_the_other_side, 120)
{
    lose_far(2, "TWO_HOSTS_CUT", "1", 2, "is out of reach: its host does not answer");
}

/* Not that it was silent for long: a neighbour on its host has seen it. */
TEST_TIMEOUT(procs_mpi, a_stopped_rank_of_another_host_is_told_by_its_neighbour, 120)
{
    lose_far(4, "TWO_HOSTS_STOP", "3", 3, "rank 3 is stopped (by a signal or a debugger)");
}

/* These ranks have no neighbour: the observer reports them before they count as silent. */
TEST_TIMEOUT(procs_mpi, a_stopped_rank_that_is_alone_on_its_host_is_named_on_the_other, 120)
{
    lose_far(3, "TWO_HOSTS_STOP", "2", 2, "rank 2 is stopped (by a signal or a debugger)");
}
TEST_TIMEOUT(procs_mpi, stopped_rank_0_is_named_on_another_host, 120)
{
    lose_far(2, "TWO_HOSTS_STOP", "0", 1, "rank 0 is stopped (by a signal or a debugger)");
    lose_far(4, "TWO_HOSTS_STOP", "0", 3, "rank 0 is stopped (by a signal or a debugger)");
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
}

/* The observer of that host ends with the rank that has started it. */
TEST_TIMEOUT(procs_mpi, a_rank_that_is_left_alone_on_its_host_is_watched, 120)
{
    lose_far_later(4, "0 3", "TWO_HOSTS_STOP", "3", 1, "is stopped (by a signal or a debugger)");
    lose_far_later(4, "1 3", "TWO_HOSTS_STOP", "3", 1, "is stopped (by a signal or a debugger)");
}

TEST(procs_mpi, a_program_that_has_started_mpi_keeps_using_it)
{
    mpi_run_well(&open_mpi, 2, "own_mpi");
}
/* Groups come and go; the program's MPI is there before and after. */
SCENARIO(own_mpi)
{
    const struct weir__mpi_api *api = weir__mpi_load();
    weir_device *dev;
    weir_group *g;
    weir_tensor *x, *y;
    float two[2] = {1, 2};
    int level = 0, ranks = 0, over = 1;

    CHECK(api);
    CHECK_EQ(api->init_thread(NULL, NULL, api->thread_multiple, &level), 0);
    CHECK_EQ(level, api->thread_multiple);
    for (int i = 0; i < 2; i++) {
        g = join(&dev, NULL);
        CHECK_STR_EQ(weir_group_engine(g), "mpi");
        CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, (int64_t[]){2}, two, &x));
        CHECK_OK(weir_all_reduce(weir_group_self(g), x, WEIR_REDUCE_SUM, &y));
        CHECK_OK(weir_tensor_read(y, two, sizeof two));
        weir_tensor_release(x);
        weir_tensor_release(y);
        leave(g, dev);
    }
    CHECK(two[1] == 8);
    CHECK_EQ(api->finalized(&over), 0);
    CHECK_EQ(over, 0);
    CHECK_EQ(api->comm_size(api->comm_world, &ranks), 0);
    CHECK_EQ(ranks, 2);
    CHECK_EQ(api->finalize(), 0);
}

TEST(procs_mpi, processes_without_an_mpi_launcher_are_told_so)
{
    const char *const extra[] = {"WEIR_ENGINE=mpi", "OMPI_ALLOW_RUN_AS_ROOT=1", NULL};
    struct kids k;

    mpi_need(&open_mpi);
    kids_start(&k, 2, "lonely", extra);
    for (int i = 0; i < 2; i++) {
        kids_end(&k, i);
        CHECK_STR(k.text[i], "start all ranks with the mpirun or mpiexec");
    }
}
SCENARIO(lonely)
{
    char folder[] = "/tmp/weir-mpi-XXXXXX";
    weir_device *dev;
    weir_group *g;

    CHECK(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    CHECK_OK(weir_device_open("cpu:cores=1", &dev));
    CHECK(weir_group_join(dev, NULL, &g) == WEIR_EUNAVAILABLE);
    say("%s\n", weir_last_error());
    CHECK_OK(weir_device_close(dev));
    remove_folder(folder);
}
