/* Plans of open sizes: one compile serves sizes that change with every run. */
#include "gpu.h"

enum { HEADS = 2, D = 16, TOKENS = 40, PROMPTS = 12 };

static weir_tensor *random_tensor(weir_stream *s, int ndim, const int64_t *shape, uint64_t seed)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, ndim, shape, &t));
    CHECK_OK(weir_random_normal(t, seed, 0, 1));
    return t;
}

/* Attention of one token whose key and value are appended to those of the tokens before:
 * in = {q, k, v, new k, new v}, out = {k, v, result}. */
static void token(weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *attended, *scaled;

    CHECK_OK(weir_concat((weir_tensor *[]){in[1], in[3]}, 2, 2, &out[0]));
    CHECK_OK(weir_concat((weir_tensor *[]){in[2], in[4]}, 2, 2, &out[1]));
    CHECK_OK(weir_mul_scalar(in[0], 0.5, &scaled));
    CHECK_OK(weir_attention(scaled, out[0], out[1], NULL, NULL, &attended));
    CHECK_OK(weir_add(attended, in[0], &out[2]));
    weir_tensor_release(attended);
    weir_tensor_release(scaled);
}

/* A layer of a whole prompt: in = {x [n, 8], w [8, 8]}, out = {n x n products, n x 8 sums}. */
static void prompt(weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *turned, *scores, *hidden;

    CHECK_OK(weir_tensor_transpose(in[0], 0, 1, &turned));
    CHECK_OK(weir_matmul(in[0], turned, &scores));
    CHECK_OK(weir_softmax(scores, -1, &out[0]));
    CHECK_OK(weir_matmul(out[0], in[0], &hidden));
    CHECK_OK(weir_linear(hidden, in[1], NULL, &out[1]));
    weir_tensor_release(turned);
    weir_tensor_release(scores);
    weir_tensor_release(hidden);
}

struct model {
    void (*build)(weir_tensor *const *in, weir_tensor **out);
    int nin, nout, ndim[5];
    int64_t shape[5][4]; /* -1: open */
};
static const struct model tokens = {
    token,
    5,
    3,
    {4, 4, 4, 4, 4},
    {{1, HEADS, 1, D}, {1, HEADS, -1, D}, {1, HEADS, -1, D}, {1, HEADS, 1, D}, {1, HEADS, 1, D}}};
static const struct model prompts = {prompt, 2, 2, {2, 2}, {{-1, 8}, {8, 8}}};

static weir_plan *compile(weir_device *dev, const struct model *m)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    weir_tensor *in[5], *out[5];
    weir_plan *plan;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < m->nin; i++)
        CHECK_OK(weir_graph_input(g, names[i], WEIR_F32, m->ndim[i], m->shape[i], &in[i]));
    CHECK_OK(weir_graph_begin(g));
    m->build(in, out);
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < m->nout; i++)
        CHECK_OK(weir_graph_output(g, names[i], out[i]));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int i = 0; i < m->nin; i++)
        weir_tensor_release(in[i]);
    for (int i = 0; i < m->nout; i++)
        weir_tensor_release(out[i]);
    weir_graph_destroy(g);
    return plan;
}

static void check_same(weir_tensor *a, weir_tensor *b)
{
    size_t bytes = (size_t)weir_tensor_numel(a) * sizeof(float);
    char *p = malloc(bytes), *q = malloc(bytes);

    CHECK_EQ(weir_tensor_numel(a), weir_tensor_numel(b));
    CHECK_OK(weir_tensor_read(a, p, bytes));
    CHECK_OK(weir_tensor_read(b, q, bytes));
    CHECK(!memcmp(p, q, bytes));
    free(p);
    free(q);
}

/* Fills `in` for open sizes of n. Inputs without an open size depend on the seed. */
static void make_inputs(weir_stream *s, const struct model *m, int64_t n, uint64_t seed,
                        weir_tensor **in)
{
    for (int i = 0; i < m->nin; i++) {
        int64_t shape[4];

        for (int d = 0; d < m->ndim[i]; d++)
            shape[d] = m->shape[i][d] < 0 ? n : m->shape[i][d];
        in[i] = random_tensor(s, m->ndim[i], shape, seed * 8 + (uint64_t)i);
    }
}

static void release(weir_tensor *const *tensors, int n)
{
    for (int i = 0; i < n; i++)
        weir_tensor_release(tensors[i]);
}

/* Grows keys and values token by token without waiting, the plan beside eager calls, and compares
 * all results at the end. */
static void generate(weir_stream *s, weir_plan *plan, int64_t first, weir_tensor *(*results)[2])
{
    weir_tensor *in[5], *out[3], *want[3];

    make_inputs(s, &tokens, first, 1, in);
    for (int i = 0; i < TOKENS; i++) {
        memset(out, 0, sizeof out);
        CHECK_OK(weir_plan_run(plan, s, in, 5, out, 3));
        token(in, want);
        results[i][0] = out[2];
        results[i][1] = want[2];
        release(want, 2);
        release(in, 5);
        make_inputs(s, &tokens, 1, (uint64_t)i + 2, in);
        release(in + 1, 2);
        in[1] = out[0];
        in[2] = out[1];
    }
    release(in, 5);
}

TEST(cuda_sizes, a_growing_cache_is_queued_without_a_compile_a_capture_or_a_wait)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = compile(dev, &tokens);
    weir_tensor *results[TOKENS][2];
    weir_plan_stats stats;

    generate(s, plan, 20, results); /* kernels are compiled now */
    for (int i = 0; i < TOKENS; i++) {
        check_same(results[i][0], results[i][1]);
        release(results[i], 2);
    }
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_GE(stats.shape_resizes, TOKENS - 8); /* the others: it grew beyond its room */
    fake->watch();
    generate(s, plan, 61, results);
    CHECK_LE(called(fake, "cuStreamBeginCapture_v2"), TOKENS / 8); /* beyond its room: every 8th */
    CHECK_GE(called(fake, "cuGraphLaunch"), TOKENS - 8);
    CHECK_EQ(called(fake, "nvrtcCompileProgram"), 0);
    for (int i = 0; i < TOKENS; i++) {
        check_same(results[i][0], results[i][1]);
        release(results[i], 2);
    }
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

static void run_prompt(weir_stream *s, weir_plan *plan, int64_t n, weir_tensor **out)
{
    weir_tensor *in[2];

    make_inputs(s, &prompts, n, (uint64_t)n, in);
    out[0] = out[1] = NULL;
    CHECK_OK(weir_plan_run(plan, s, in, 2, out, 2));
    prompt(in, out + 2);
    release(in, 2);
}

TEST(cuda_sizes, prompts_of_any_length_give_the_bits_of_eager_calls_while_earlier_ones_still_run)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = compile(dev, &prompts);
    weir_tensor *out[PROMPTS][4];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PROMPTS; i++)
            run_prompt(s, plan, 1 + (i * 29 + round * 13) % 90, out[i]);
        for (int i = 0; i < PROMPTS; i++) {
            check_same(out[i][0], out[i][2]);
            check_same(out[i][1], out[i][3]);
            release(out[i], 4);
        }
    }
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* Sizes that come again get a plan of their own with a graph, also while the runs before are
 * pending. */
TEST(cuda_sizes, sizes_that_come_again_are_one_launch)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = compile(dev, &prompts);
    weir_tensor *in[2], *out[2] = {NULL}, *want[2];

    make_inputs(s, &prompts, 30, 5, in);
    for (int i = 0; i < 8; i++) /* the same memory each time, after the first */
        CHECK_OK(weir_plan_run(plan, s, in, 2, out, 2));
    CHECK_OK(weir_stream_sync(s));
    fake->watch();
    for (int i = 0; i < 4; i++)
        CHECK_OK(weir_plan_run(plan, s, in, 2, out, 2));
    CHECK_EQ(called(fake, "cuGraphLaunch"), 4);
    CHECK_EQ(called(fake, "cuLaunchKernelEx"), 0);
    prompt(in, want);
    check_same(out[0], want[0]);
    check_same(out[1], want[1]);
    release(out, 2);
    release(want, 2);
    release(in, 2);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}
