/* Processes on GPUs: CUDA IPC, on the fake GPU, or on a real one with KID_DEVICE=cuda. */
#include "procs/kids.h"

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
    run_well(4, "reuse");
}
TEST(procs_cuda, sends_receives_batches_and_graphs_run_on_gpus)
{
    run_well(4, "pairs");
    run_well(3, "batch");
    run_well(2, "graph");
}

/* ---- NCCL: a fake, or with KID_DEVICE=cuda the real one ---- */

enum { MOST_EXTRA = 12 };

/* The environment of `fake` or `real`, and more. */
static void with_nccl(const char **out, const char *more)
{
    const char *asked = getenv("KID_DEVICE");
    const char *const *from = asked && !strncmp(asked, "cuda", 4) ? real : fake;
    int n = 0;

    out[n++] = "WEIR_ENGINE=nccl";
    if (from == fake)
        out[n++] = "WEIR_LIBNCCL=" FAKE_NCCL;
    if (more)
        out[n++] = more;
    while (*from)
        out[n++] = *from++;
    out[n] = NULL;
}

static bool is_real(void)
{
    return getenv("KID_DEVICE") && !strncmp(getenv("KID_DEVICE"), "cuda", 4);
}

/* Sums of small whole numbers: the same in any order. */
SCENARIO(nccl)
{
    enum { N = 1000 };
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_rank *self = weir_group_self(g);
    int me = weir_rank_index(self), n = weir_group_size(g);
    weir_stream *s = weir_stream_default(dev), *other;
    int64_t rows = (int64_t)n * N, sum = (int64_t)n * (n + 1) / 2;
    float *host = malloc((size_t)rows * n * sizeof *host);
    weir_tensor *x, *y, *z;

    CHECK_STR_EQ(weir_group_engine(g), "nccl");
    for (int64_t i = 0; i < rows; i++)
        host[i] = (float)(me + 1);
    CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, &rows, host, &x));
    CHECK_OK(weir_stream_create(dev, NULL, &other));
    for (int i = 0; i < 20; i++) { /* on streams that run ahead of each other */
        CHECK_OK(weir_stream_set_current(i % 3 ? s : other));
        CHECK_OK(weir_all_reduce(self, x, WEIR_REDUCE_SUM, &y));
        CHECK_OK(weir_tensor_read(y, host, (size_t)rows * sizeof *host));
        CHECK(host[0] == (float)sum && host[rows - 1] == (float)sum);
        weir_tensor_release(y);
    }
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_all_reduce(self, x, WEIR_REDUCE_MEAN, &y));
    CHECK_OK(weir_reduce_scatter(self, x, WEIR_REDUCE_MAX, &z));
    CHECK_OK(weir_tensor_read(y, host, (size_t)rows * sizeof *host));
    CHECK(host[7] == (float)sum / (float)n);
    CHECK_OK(weir_tensor_read(z, host, N * sizeof *host));
    CHECK(host[N - 1] == (float)n);
    weir_tensor_release(y);
    weir_tensor_release(z);
    CHECK_OK(weir_all_gather(self, x, &y));
    CHECK_OK(weir_broadcast(self, x, n - 1, &z));
    CHECK_OK(weir_tensor_read(y, host, (size_t)rows * n * sizeof *host));
    for (int r = 0; r < n; r++)
        CHECK(host[r * rows] == (float)(r + 1));
    CHECK_OK(weir_tensor_read(z, host, (size_t)rows * sizeof *host));
    CHECK(host[rows - 1] == (float)n);
    weir_tensor_release(y);
    weir_tensor_release(z);
    CHECK_OK(weir_all_to_all(self, x, &y));
    CHECK_OK(weir_tensor_read(y, host, (size_t)rows * sizeof *host));
    for (int r = 0; r < n; r++)
        CHECK(host[r * N] == (float)(r + 1));
    CHECK_OK(weir_barrier(self));
    for (int i = 0; i < 3 && n > 1; i++) {
        if (me == 0)
            CHECK_OK(weir_send(self, x, 1));
        if (me == 1)
            CHECK_OK(weir_recv(self, y, 0));
    }
    if (me == 1) {
        CHECK_OK(weir_tensor_read(y, host, (size_t)rows * sizeof *host));
        CHECK(host[rows - 1] == 1);
    }
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_destroy(other));
    free(host);
    leave(g, dev);
}
TEST(procs_cuda, collectives_by_nccl_give_the_values)
{
    const char *extra[MOST_EXTRA];
    struct kids k;

    with_nccl(extra, NULL);
    kids_start(&k, is_real() ? 1 : 3, "nccl", extra);
    kids_end_well(&k);
}

/* A library that does not take two ranks on one GPU says so. */
SCENARIO(refused)
{
    weir_device *dev;
    weir_group *g;

    CHECK_OK(weir_device_open(getenv("KID_DEVICE"), &dev));
    CHECK_STATUS(weir_group_join(dev, NULL, &g), WEIR_EUNAVAILABLE);
    say("%s\n", weir_last_error());
    CHECK_OK(weir_device_close(dev));
}
TEST(procs_cuda, two_ranks_on_one_gpu_are_refused_by_nccl_in_its_words)
{
    const char *extra[MOST_EXTRA];
    struct kids k;

    with_nccl(extra, "FAKE_NCCL_ONE_GPU=1");
    kids_start(&k, 2, "refused", extra);
    for (int i = 0; i < 2; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "NCCL: a communicator: ");
        CHECK_STR(k.text[i], "invalid usage");
    }
}
TEST(procs_cuda, a_rank_that_dies_while_nccl_joins_the_ranks_is_named_by_the_others)
{
    const char *extra[MOST_EXTRA];
    struct kids k;

    if (is_real())
        SKIP("only the fake kills when it is told to");
    with_nccl(extra, "FAKE_NCCL_DIES=1");
    kids_start(&k, 3, "refused", extra);
    for (int i = 0; i < 3; i++) {
        kids_end(&k, i);
        if (i == 1)
            continue;
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "NCCL: a communicator: rank 1 died");
    }
}

/* A limit of the device's cores is one of CTAs. */
SCENARIO(limited)
{
    weir_device *dev;
    weir_group *g;

    CHECK_OK(weir_device_open(getenv("KID_DEVICE"), &dev));
    CHECK_OK(weir_device_set_limit(dev, (weir_cores){8, 8}));
    CHECK_OK(weir_group_join(dev, NULL, &g));
    CHECK_OK(weir_barrier(weir_group_self(g)));
    CHECK_OK(weir_device_sync(dev));
    leave(g, dev);
}
TEST(procs_cuda, a_limit_of_cores_is_a_limit_of_nccls_ctas)
{
    const char *extra[MOST_EXTRA];
    struct kids k;

    with_nccl(extra, "FAKE_NCCL_CTAS=8");
    kids_start(&k, is_real() ? 1 : 2, "limited", extra);
    kids_end_well(&k);
}
TEST(procs_cuda, an_asynchronous_error_of_nccl_breaks_the_group)
{
    const char *extra[MOST_EXTRA];
    struct kids k;

    if (is_real())
        SKIP("only the fake fails when it is told to");
    with_nccl(extra, "FAKE_NCCL_FAIL=30");
    kids_start(&k, 2, "calls", extra);
    for (int i = 0; i < 2; i++) {
        kids_end(&k, i);
        CHECK_EQ(k.status[i], 0);
        CHECK_STR(k.text[i], "group 'world'");
        CHECK_STR(k.text[i], "unhandled system error");
    }
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs_cuda, ranks_lost_at_random_points_by_cuda_ipc_are_named, 3600)
{
    lose_at_random("CUDA IPC", 1, is_real() ? real : fake);
}
TEST_TIMEOUT(procs_cuda, ranks_lost_at_random_points_by_nccl_are_named, 3600)
{
    const char *extra[MOST_EXTRA];

    if (is_real())
        SKIP("NCCL takes one rank of a GPU");
    with_nccl(extra, NULL);
    lose_at_random("nccl", 1, extra);
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
    kids_run(2, "moe", NULL);
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
