/* Short collectives are brought on by whoever arrives last, and arrived at by whoever has the
 * stream, a host thread too: what stands before, between and after them keeps its order. */
#include "helpers.h"

enum { RANKS = 3, CALLS = 100 };

struct chain {
    struct world *w;
    weir_tensor *x[RANKS];
    float want[RANKS];
    weir_stream *side[RANKS];
};

/* What may follow a rank's collective on its stream. */
static void follow(struct chain *c, int r, unsigned what)
{
    weir_stream *main = weir_stream_default(c->w->dev[r]);

    switch (what % 5) {
    case 0:
    case 1:
        CHECK_OK(weir_add_scalar_into(c->x[r], what % 7, c->x[r]));
        c->want[r] += (float)(what % 7);
        break;
    case 2: /* a stream that waits for the collective, and is waited for */
        CHECK_OK(weir_stream_wait_stream(c->side[r], main));
        CHECK_OK(weir_stream_wait_stream(main, c->side[r]));
        break;
    case 3:
        if (what % 16 == 3)
            CHECK_NEAR(first_of(c->x[r]), c->want[r], 0);
        break;
    default:
        break;
    }
}

static void run_chain(struct world *w, unsigned seed)
{
    struct chain c = {.w = w};

    for (int r = 0; r < RANKS; r++) {
        c.x[r] = ramp(w->dev[r], 64, r, 0);
        c.want[r] = (float)r;
        CHECK_OK(weir_stream_create(w->dev[r], NULL, &c.side[r]));
    }
    for (int k = 0; k < CALLS; k++) {
        float most = c.want[0];

        for (int r = 1; r < RANKS; r++)
            most = c.want[r] > most ? c.want[r] : most;
        for (int i = 0; i < RANKS; i++) {
            int r = (i + k) % RANKS;

            CHECK_OK(weir_all_reduce_into(w->rank[r], c.x[r], WEIR_REDUCE_MAX, c.x[r]));
            c.want[r] = most;
        }
        for (int r = 0; r < RANKS; r++)
            follow(&c, r, (unsigned)rand_r(&seed));
    }
    for (int r = 0; r < RANKS; r++) {
        CHECK_NEAR(first_of(c.x[r]), c.want[r], 0);
        weir_tensor_release(c.x[r]);
        CHECK_OK(weir_stream_destroy(c.side[r]));
    }
}

TEST(handover, work_after_a_collective_runs_after_it)
{
    for (unsigned seed = 1; seed <= 2; seed++) {
        struct world w;
        char spec[64];

        snprintf(spec, sizeof spec, "cpu:cores=1,threads=1%s", seed % 2 ? "" : ",jitter=5");
        test_note("seed %u", seed);
        world_open(&w, RANKS, spec, NULL);
        run_chain(&w, seed);
        world_close(&w);
    }
}

/* Ranks of one device, whose streams meet each other. */
TEST(handover, ranks_of_one_device_meet_on_their_streams)
{
    weir_device *dev, *all[2];
    weir_group *group;
    weir_stream *s[2];
    weir_tensor *x[2];

    CHECK_OK(weir_device_open("cpu:cores=1,threads=1", &dev));
    all[0] = all[1] = dev;
    CHECK_OK(weir_group_create(all, 2, NULL, &group));
    for (int r = 0; r < 2; r++) {
        x[r] = ramp(dev, 16, r, 0);
        s[r] = fresh_stream(dev);
    }
    for (int k = 0; k < 200; k++)
        for (int r = 0; r < 2; r++) {
            CHECK_OK(weir_stream_set_current(s[r]));
            CHECK_OK(weir_all_reduce_into(weir_group_rank(group, r), x[r], WEIR_REDUCE_MAX, x[r]));
            CHECK_OK(weir_add_scalar_into(x[r], r, x[r]));
        }
    for (int r = 0; r < 2; r++)
        CHECK_OK(weir_stream_sync(s[r]));
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int r = 0; r < 2; r++) {
        CHECK_NEAR(first_of(x[r]), 200 + r, 0); /* the last addition is rank 1's alone */
        weir_tensor_release(x[r]);
    }
    CHECK_OK(weir_group_destroy(group));
    CHECK_OK(weir_device_close(dev));
}

/* A worker of one device may still be about the other's stream when its host is told. */
TEST(handover, devices_close_right_after_the_last_collective)
{
    int rounds = is_gpu() ? 4 : 30; /* a GPU takes a good part of a second to open */

    for (int i = 0; i < rounds; i++) {
        struct world w;

        world_open(&w, 2, "cpu:cores=1,threads=1", NULL);
        for (int k = 0; k < 1 + i % 4; k++)
            for (int r = 0; r < 2; r++)
                CHECK_OK(weir_barrier(w.rank[(r + i) % 2]));
        for (int r = 0; r < 2; r++)
            CHECK_OK(weir_device_sync(w.dev[r]));
        CHECK_OK(weir_group_destroy(w.group));
        for (int r = 0; r < 2; r++)
            CHECK_OK(weir_device_close(w.dev[r]));
    }
}

/* A plan that begins with a collective is arrived at by the thread that runs it. */
TEST(handover, plans_that_begin_with_a_collective)
{
    struct world w;
    weir_plan *plan[2];
    weir_tensor *x[2], *y[2] = {NULL, NULL};

    world_open(&w, 2, "cpu:cores=1,threads=1", NULL);
    for (int r = 0; r < 2; r++) {
        const int64_t n = 32;
        weir_graph *g;
        weir_tensor *in, *sum, *out;

        CHECK_OK(weir_graph_create(w.dev[r], &g));
        CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &in));
        CHECK_OK(weir_graph_begin(g));
        CHECK_OK(weir_all_reduce(w.rank[r], in, WEIR_REDUCE_SUM, &sum));
        CHECK_OK(weir_all_reduce(w.rank[r], sum, WEIR_REDUCE_MEAN, &out));
        CHECK_OK(weir_graph_end(g));
        CHECK_OK(weir_graph_output(g, "y", out));
        CHECK_OK(weir_graph_compile(g, NULL, &plan[r]));
        weir_tensor_release(in);
        weir_tensor_release(sum);
        weir_tensor_release(out);
        weir_graph_destroy(g);
        x[r] = ramp(w.dev[r], n, r + 1, 0);
        y[r] = ramp(w.dev[r], n, 0, 0);
    }
    for (int k = 0; k < 100; k++)
        for (int r = 0; r < 2; r++)
            CHECK_OK(weir_plan_run(plan[(r + k) % 2], weir_stream_default(w.dev[(r + k) % 2]),
                                   &x[(r + k) % 2], 1, &y[(r + k) % 2], 1));
    for (int r = 0; r < 2; r++) {
        CHECK_NEAR(first_of(y[r]), 3, 0);
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
        weir_plan_destroy(plan[r]);
    }
    world_close(&w);
}

struct glance {
    weir_stream *at;
    bool done, failed;
};

static weir_status glance_kernel(const void *args, const weir_block *block)
{
    struct glance *g = *(struct glance *const *)args;

    (void)block;
    g->failed = weir_stream_query(g->at, &g->done) != WEIR_OK;
    return WEIR_OK;
}

/* Collectives without end, brought on by one worker: others on its device get their turn. */
TEST(handover, other_streams_get_their_turn)
{
    struct world w;
    struct gate gates[2] = {{0, 0}, {0, 0}};
    struct glance g = {NULL, true, false}, *args = &g;
    weir_stream *side;

    needs_threads();
    world_open(&w, 2, "cpu:cores=1,threads=1", NULL);
    CHECK_OK(weir_stream_create(w.dev[1], NULL, &side));
    for (int r = 0; r < 2; r++) {
        submit_gate(weir_stream_default(w.dev[r]), WEIR_ENGINE_VECTOR, &gates[r]);
        wait_gate(&gates[r], 1);
    }
    for (int k = 0; k < 20000; k++)
        for (int r = 0; r < 2; r++)
            CHECK_OK(weir_barrier(w.rank[r]));
    g.at = weir_stream_default(w.dev[1]);
    CHECK_OK(weir_launch_submit(
        side, &(weir_launch){
                  .name = "glance", .fn = glance_kernel, .args = &args, .args_size = sizeof args}));
    for (int r = 0; r < 2; r++)
        open_gate(&gates[r]);
    for (int r = 0; r < 2; r++)
        CHECK_OK(weir_device_sync(w.dev[r]));
    CHECK(!g.failed);
    CHECK(!g.done);
    CHECK_OK(weir_stream_destroy(side));
    world_close(&w);
}
