/* What engines promise, and which devices' ranks can be processes, and how many. */
#include "procs/kids.h"

#include <string.h>

#include "comm/procs/engine.h"

TEST(procs, each_engine_says_whom_it_connects_and_which_bits_it_promises)
{
    static const struct {
        const char *name, *connects, *bits;
    } rows[] = {
        {"shm", "processes of one host and user, on cpu or cuda",
         "sums in rank order, the same bits on every rank"},
        {"mpi", "processes of many hosts", "sums in rank order, the same bits on every rank"},
        {"nccl", "processes of one host, each on a GPU", "bits may differ from run to run"},
    };
    weir_engine_info list[8];
    size_t n = weir_engine_list(list, sizeof *list, weir__countof(list));

    CHECK_EQ(n, weir__countof(rows));
    for (size_t i = 0; i < n; i++) {
        test_note("%s", rows[i].name);
        CHECK_STR_EQ(list[i].name, rows[i].name);
        CHECK_STR(list[i].promise, rows[i].connects);
        CHECK_STR(list[i].promise, rows[i].bits);
        CHECK(!list[i].reason || strstr(list[i].reason, "engine ") == list[i].reason);
        CHECK(weir__engine_find(rows[i].name));
    }
    CHECK(!list[0].reason); /* it needs nothing but the system */
    CHECK(!weir__engine_find("tcp"));
}

TEST(procs, a_list_of_engines_has_as_much_as_there_is_room_for)
{
    struct {
        weir_engine_info first;
        const char *guard;
    } two[2] = {{.guard = "a"}, {.first.name = "untouched", .guard = "b"}};
    struct {
        size_t more[8];
        weir_engine_info larger;
    } large = {.larger.name = "?"};
    const char *names[3] = {"", "", "untouched"};

    CHECK_EQ(weir_engine_list(NULL, 0, 0), 3);
    CHECK_EQ(weir_engine_list(&two[0].first, sizeof two[0], 1), 3);
    CHECK_STR_EQ(two[0].first.name, "shm");
    CHECK_STR_EQ(two[1].first.name, "untouched");
    /* An older program's rows end with the name; a newer one's have more, which is zero. */
    CHECK_EQ(weir_engine_list((weir_engine_info *)(void *)names, sizeof *names, 2), 3);
    CHECK_STR_EQ(names[0], "shm");
    CHECK_STR_EQ(names[1], "mpi");
    CHECK_STR_EQ(names[2], "untouched");
    memset(large.more, 0xff, sizeof large.more);
    CHECK_EQ(weir_engine_list((weir_engine_info *)(void *)&large, sizeof large.more, 1), 3);
    CHECK_EQ(large.more[7], 0);
    CHECK_STR_EQ(large.larger.name, "?");
}

TEST(procs, an_engine_that_cannot_be_loaded_says_why)
{
    weir_engine_info list[3];
    weir_device *dev;
    weir_group *g;

    setenv("WEIR_LIBNCCL", "/nonexistent/libnccl.so", 1);
    CHECK_EQ(weir_engine_list(list, sizeof *list, 3), 3);
    CHECK_STR(list[2].reason, "/nonexistent/libnccl.so");
    /* The same words when it is asked for. */
    CHECK_OK(weir_device_open("cpu:cores=1", &dev));
    CHECK_STATUS(
        weir_group_join(
            dev, &(weir_join_options){.ranks = 2, .store = "file:/nonexistent/x", .engine = "nccl"},
            &g),
        WEIR_EUNAVAILABLE);
    CHECK_STR_EQ(weir_last_error(), list[2].reason);
    CHECK(!g);
    CHECK_STATUS(weir_group_join(dev, &(weir_join_options){.ranks = 2, .engine = "tcp"}, &g),
                 WEIR_EUNSUPPORTED);
    CHECK_STR(weir_last_error(), "there is no engine 'tcp' between processes: shm, mpi or nccl");
    CHECK_OK(weir_device_close(dev));
}

/* A common virtual clock of several processes is refused before anybody is waited for. */
TEST(procs, ranks_on_a_modelled_npu_cannot_be_processes_and_the_error_says_why)
{
    static const char *const specs[] = {"npu:a2", "npu:a3", "npu:a3,compute=off"};

    for (size_t i = 0; i < weir__countof(specs); i++) {
        weir_join_options o = {.ranks = 2, .store = "file:/nonexistent/x"};
        weir_device *dev;
        weir_group *g;

        test_note("%s", specs[i]);
        CHECK_OK(weir_device_open(specs[i], &dev));
        CHECK_STATUS(weir_group_join(dev, &o, &g), WEIR_EUNSUPPORTED);
        CHECK_STR(weir_last_error(), "npu:");
        CHECK_STR(weir_last_error(), "has its own clock, which processes cannot share: make its "
                                     "ranks devices of one process (weir_group_create)");
        CHECK(!g);
        /* What the sentence advises works. */
        CHECK_OK(weir_group_create((weir_device *[]){dev, dev}, 2, NULL, &g));
        CHECK_STR_EQ(weir_group_engine(g), "local");
        CHECK(!weir_group_self(g));
        CHECK_EQ(weir_group_clock_offset_ns(g), 0);
        CHECK_OK(weir_group_destroy(g));
        CHECK_OK(weir_device_close(dev));
    }
    CHECK_EQ(weir_group_clock_offset_ns(NULL), 0);
}

/* Kernels on a GPU find the memory of so many ranks. No rank waits for others to learn that. */
TEST(procs, more_ranks_on_gpus_than_shm_and_mpi_can_have_are_refused_at_once)
{
    static const char *const engines[] = {NULL, "shm"};
    const struct weir__sharing some = {.kind = "cuda", .most_ranks = 64};
    weir_device *dev;
    weir_group *g;

    setenv("WEIR_LIBCUDA", FAKE_CUDA, 1);
    setenv("WEIR_LIBNVRTC", FAKE_CUDA, 1);
    setenv("WEIR_LIBCUBLASLT", FAKE_CUDA, 1);
    setenv("WEIR_CACHE_DIR", "/dev/null/cache", 1);
    CHECK_OK(weir_device_open("cuda:0", &dev));
    for (size_t i = 0; i < weir__countof(engines); i++) {
        weir_join_options o = {
            .ranks = 65, .rank = 64, .store = "file:/nonexistent/x", .engine = engines[i]};

        CHECK_STATUS(weir_group_join(dev, &o, &g), WEIR_ERANGE);
        CHECK_STR_EQ(weir_last_error(), "a group of 65 ranks is too large: engines shm and mpi on "
                                        "cuda have at most 64, nccl 1024");
        CHECK(!g);
    }
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir__procs_check_most(&weir__shm_engine, &some, 64));
    CHECK_OK(weir__procs_check_most(&weir__nccl_engine, &some, 65));
    CHECK_OK(
        weir__procs_check_most(&weir__mpi_engine, NULL, WEIR_MAX_RANKS)); /* the host's memory */
    CHECK_STATUS(weir__procs_check_most(&weir__mpi_engine, &some, 65), WEIR_ERANGE);
    CHECK_STATUS(weir__procs_check_most(NULL, &some, 65), WEIR_ERANGE);
}
