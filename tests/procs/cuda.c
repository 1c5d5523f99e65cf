/* Processes on GPUs: CUDA IPC, on the fake GPU, or on a real one with KID_DEVICE=cuda. */
#include "kids.h"

static const char *const fake[] = {"KID_DEVICE=cuda:0,op_timeout=30",
                                   "KID_FEWER=1",
                                   "WEIR_LIBCUDA=" FAKE_CUDA,
                                   "WEIR_LIBNVRTC=" FAKE_CUDA,
                                   "WEIR_LIBCUBLASLT=" FAKE_CUDA,
                                   "WEIR_CACHE_DIR=/dev/null/cache",
                                   NULL};
static const char *const real[] = {"KID_DEVICE=cuda:0,op_timeout=30", "KID_FEWER=1", NULL};

static void run_well(int n, const char *scenario)
{
    const char *asked = getenv("KID_DEVICE");
    struct kids k;

    kids_start(&k, n, scenario, asked && !strncmp(asked, "cuda", 4) ? real : fake);
    kids_end_well(&k);
}

TEST(procs_cuda, collectives_of_processes_on_gpus_give_the_bits_of_one_process)
{
    run_well(3, "values");
}
TEST(procs_cuda, random_programs_of_sub_groups_on_several_streams_run_on_gpus)
{
    run_well(4, "random");
}
TEST(procs_cuda, sends_receives_batches_and_graphs_run_on_gpus)
{
    run_well(4, "pairs");
    run_well(3, "batch");
    run_well(2, "graph");
}

/* Experts and tokens that are the same on every device. */
SCENARIO(moe)
{
    enum { TOKENS = 6, HIDDEN = 4, EXPERTS = 4, K = 2, CAPACITY = 32 };
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_rank *self = weir_group_self(g);
    int me = weir_rank_index(self);
    float x[TOKENS][HIDDEN], weights[TOKENS][K], got[TOKENS][HIDDEN];
    int32_t experts[TOKENS][K];
    weir_tensor *tx, *te, *tw, *rows, *counts, *positions, *out;
    weir_stream *s = weir_stream_default(dev);

    for (int t = 0; t < TOKENS; t++) {
        for (int h = 0; h < HIDDEN; h++)
            x[t][h] = (float)(100 * me + 10 * t + h);
        for (int k = 0; k < K; k++) {
            experts[t][k] = (t + me + k) % EXPERTS;
            weights[t][k] = 0.5f;
        }
    }
    CHECK_OK(weir_tensor_from(s, WEIR_F32, 2, (int64_t[]){TOKENS, HIDDEN}, x, &tx));
    CHECK_OK(weir_tensor_from(s, WEIR_I32, 2, (int64_t[]){TOKENS, K}, experts, &te));
    CHECK_OK(weir_tensor_from(s, WEIR_F32, 2, (int64_t[]){TOKENS, K}, weights, &tw));
    CHECK_OK(weir_moe_dispatch(self, tx, te, EXPERTS, CAPACITY, &rows, &counts, &positions));
    CHECK_OK(weir_moe_combine(self, rows, te, EXPERTS, positions, tw, &out));
    CHECK_OK(weir_tensor_read(out, got, sizeof got));
    CHECK_MEM_EQ(got, x, sizeof x); /* experts that change nothing, half of each of two */
    weir_tensor_release(tx);
    weir_tensor_release(te);
    weir_tensor_release(tw);
    weir_tensor_release(rows);
    weir_tensor_release(counts);
    weir_tensor_release(positions);
    weir_tensor_release(out);
    leave(g, dev);
}
TEST(procs_cuda, experts_of_processes_on_gpus_get_and_return_rows)
{
    run_well(2, "moe");
}
TEST(procs, experts_of_processes_get_and_return_rows)
{
    struct kids k;

    kids_start(&k, 2, "moe", NULL);
    kids_end_well(&k);
}

static void expect_error(const char *scenario, int n, const char *part)
{
    struct kids k;

    kids_start(&k, n, scenario, fake);
    for (int i = 0; i < n; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], part);
    }
}
TEST(procs_cuda, ranks_on_gpus_that_disagree_get_an_error_with_both_sides)
{
    expect_error("shapes", 3, "the shape differs: rank ");
}

SCENARIO(mixed)
{
    weir_device *dev;
    weir_group *g;

    CHECK_OK(weir_device_open(getenv("WEIR_RANK")[0] == '1' ? "cpu:cores=1" : "cuda:0", &dev));
    CHECK_STATUS(weir_group_join(dev, NULL, &g), WEIR_EUNSUPPORTED);
    say("%s\n", weir_last_error());
    CHECK_OK(weir_device_close(dev));
}
TEST(procs_cuda, ranks_on_devices_of_two_kinds_are_refused)
{
    expect_error("mixed", 2, "rank 0 is on cuda, rank 1 on cpu");
}
