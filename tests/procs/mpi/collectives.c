/* Engine `mpi` by Open MPI and by MPICH 5, where they are installed. A case hands a scenario of the
 * other files to their launcher: TEST_OPEN_MPI, TEST_OPEN_MPI5 and TEST_MPICH name it
 * (scripts/mpi-env installs the latter two), else it is looked for in PATH. WEIR_MPI says which
 * library the ranks load; without it, the one that came with a launcher that was named. */
#define _GNU_SOURCE
#include "procs/mpi/launch.h"

#include "comm/procs/mpi/api.h"

/* Without what it needs to go on when a rank dies. */
static const struct family open_mpi5 = {.launcher = "mpirun.openmpi5",
                                        .variable = "TEST_OPEN_MPI5",
                                        .library = "libmpi.so.40",
                                        .options = {"--allow-run-as-root", "--oversubscribe"}};

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
TEST(procs_mpi, collectives_by_open_mpi_5_give_the_bits_of_one_process)
{
    mpi_run_well(&open_mpi5, 3, "values");
}
TEST(procs_mpi, random_programs_of_sub_groups_and_on_reused_memory_run_by_open_mpi_5)
{
    mpi_run_well(&open_mpi5, 4, "random");
    setenv("KID_SEED", "3", 1);
    mpi_run_well(&open_mpi5, 4, "reuse");
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
