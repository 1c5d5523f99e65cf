/* Plans that cannot be queued whole: what was queued ends, in order, and nobody waits for the
 * rest. */
#include "gpu.h"

#include <string.h>

enum { N = 64 };

struct rank {
    weir_device *dev;
    weir_tensor *in, *out;
    weir_plan *plan;
};

/* Two streams, with a collective on each and work before and after. */
static void compile(struct rank *r, weir_rank *rank)
{
    const int64_t n = N;
    weir_graph *g;
    weir_tensor *x, *sum, *more, *beside, *out;

    CHECK_OK(weir_graph_create(r->dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add_scalar(x, 1, &more));
    CHECK_OK(weir_all_reduce(rank, more, WEIR_REDUCE_SUM, &sum));
    CHECK_OK(weir_scope_push_stream("side", 0));
    CHECK_OK(weir_mul_scalar(more, 2, &beside));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    weir_tensor_release(more);
    CHECK_OK(weir_add(sum, beside, &more));
    CHECK_OK(weir_all_reduce(rank, more, WEIR_REDUCE_SUM, &out));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", out));
    CHECK_OK(weir_graph_compile(g, NULL, &r->plan));
    weir_tensor_release(x);
    weir_tensor_release(sum);
    weir_tensor_release(more);
    weir_tensor_release(beside);
    weir_tensor_release(out);
    weir_graph_destroy(g);
}

static weir_status run(struct rank *r)
{
    return weir_plan_run(r->plan, weir_stream_default(r->dev), &r->in, 1, &r->out, 1);
}

struct pair {
    struct rank ranks[2];
    weir_group *group;
};

static void open_pair(struct pair *p)
{
    weir_device *devs[2];

    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_device_open(i ? "cuda:1" : "cuda:0", &devs[i]));
    /* It never times out: what ends a wait is the rank that failed. */
    CHECK_OK(weir_group_create(devs, 2, &(weir_group_options){.timeout_ns = -1}, &p->group));
    for (int i = 0; i < 2; i++) {
        p->ranks[i].dev = devs[i];
        compile(&p->ranks[i], weir_group_rank(p->group, i));
        p->ranks[i].in = gpu_tensor(weir_stream_default(devs[i]), WEIR_F32, N, 1);
        p->ranks[i].out = gpu_tensor(weir_stream_default(devs[i]), WEIR_F32, N, 0);
    }
}

static void close_pair(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(p->ranks[i].in);
        weir_tensor_release(p->ranks[i].out);
        weir_plan_destroy(p->ranks[i].plan);
    }
    CHECK_OK(weir_group_destroy(p->group));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_device_close(p->ranks[i].dev));
}

static void expect_values(struct pair *p)
{
    float got[N];

    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_tensor_read(p->ranks[i].out, got, sizeof got));
        CHECK_NEAR(got[N - 1], 16, 0); /* 2 * (2 + 2 + 2 * 2) */
    }
}

/* Rank 0 failed half-way: both ranks hear why, at once. */
static void expect_end(struct pair *p, const char *why)
{
    for (int i = 0; i < 2; i++) {
        CHECK(weir_stream_sync(weir_stream_default(p->ranks[i].dev)) != WEIR_OK);
        CHECK_STR(weir_last_error(), why);
    }
}

/* Rank 1 is there; rank 0's run has its n-th call of CUDA fail. True once there is none. */
static bool try_call(uint64_t n, int *halfway)
{
    const struct fake_control *fake = find_fake();
    struct pair p;
    uint64_t before;
    weir_status st;
    bool last;

    test_note("call %d", (int)n);
    open_pair(&p);
    for (int i = 0; i < 2; i++)
        CHECK_OK(run(&p.ranks[i]));
    expect_values(&p);
    CHECK_OK(run(&p.ranks[1]));
    before = fake->calls();
    fake->fail_call(n, 1);
    st = run(&p.ranks[0]);
    fake->fail_call(0, 0);
    last = n > fake->calls() - before;
    if (st && run(&p.ranks[0])) { /* what was not queued at all may be tried again */
        ++*halfway;
        expect_end(&p, "could not be queued");
        CHECK_STR(weir_last_error(), "rank 0");
    } else if (!weir_stream_sync(weir_stream_default(p.ranks[0].dev))) {
        expect_values(&p);
    }
    close_pair(&p);
    return last;
}

TEST_TIMEOUT(cuda_halfway, a_plan_that_fails_while_it_is_queued_lets_its_peers_go, 120)
{
    const struct fake_control *fake = use_fake();
    int halfway = 0;
    char live[200];

    for (uint64_t n = 1; !try_call(n, &halfway); n += TEST_SLOWDOWN > 1 ? 3 : 1)
        ;
    CHECK_GT(halfway, 0); /* how many depends on what else calls CUDA meanwhile */
    fake->live(live, sizeof live);
    CHECK_EQ(strlen(live), 0);
}
