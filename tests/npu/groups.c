/* Groups of modelled devices: one clock, cores held until all ranks are there, the times that
 * `weir run` predicts, and deadlocks as errors. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graph/predict/predict.h"
#include "harness/test.h"
#include "weir/weir.h"

enum { RANKS = 2 };

struct pair {
    weir_device *dev[RANKS];
    weir_group *group;
    weir_rank *rank[RANKS];
};

static void open_pair(struct pair *p, const char *spec, const weir_group_options *options)
{
    for (int r = 0; r < RANKS; r++)
        CHECK_OK(weir_device_open(spec, &p->dev[r]));
    CHECK_OK(weir_group_create(p->dev, RANKS, options, &p->group));
    for (int r = 0; r < RANKS; r++)
        p->rank[r] = weir_group_rank(p->group, r);
}

static void close_pair(struct pair *p)
{
    for (int r = 0; r < RANKS; r++)
        weir_device_sync(p->dev[r]); /* may be in error */
    CHECK_OK(weir_group_destroy(p->group));
    for (int r = 0; r < RANKS; r++)
        CHECK_OK(weir_device_close(p->dev[r]));
}

static weir_stream *new_stream(weir_device *dev)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, NULL, &s));
    return s;
}

static void launch(weir_stream *s, weir_engine engine, unsigned blocks, unsigned us, bool gang)
{
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = gang ? "gang" : "work",
                                                  .engine = engine,
                                                  .blocks = blocks,
                                                  .gang = gang,
                                                  .work_ns = us * 1000}));
}

static weir_tensor *filled(weir_device *dev, int64_t n, double value)
{
    weir_tensor *x;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_fill(x, value));
    CHECK_OK(weir_device_sync(dev));
    return x;
}

static float first_of(weir_tensor *x, int64_t n)
{
    float *data = malloc((size_t)n * sizeof *data), first;

    CHECK_OK(weir_tensor_read(x, data, (size_t)n * sizeof *data));
    first = data[0];
    free(data);
    return first;
}

/* Rank 1 comes 100 us late. Meanwhile work of rank 0 that wants every vector core waits behind
 * a collective that holds some, and not behind one of the copy engine. */
TEST(groups, cores_are_held_until_every_rank_is_there)
{
    enum { N = 1 << 20 };

    for (int sdma = 0; sdma < 2; sdma++) {
        struct pair p;
        weir_tensor *x[RANKS], *y[RANKS];
        weir_stream *beside;
        uint64_t start, beside_ns, over_ns;

        open_pair(&p, "npu:a3,overhead=off",
                  &(weir_group_options){.mode = sdma ? WEIR_COMM_SDMA : WEIR_COMM_VECTOR});
        beside = new_stream(p.dev[0]);
        for (int r = 0; r < RANKS; r++)
            x[r] = filled(p.dev[r], N, r + 1);
        start = weir_device_now(p.dev[0]);
        CHECK_EQ(start, weir_device_now(p.dev[1]));
        launch(weir_stream_default(p.dev[1]), WEIR_ENGINE_CUBE, 24, 100, false);
        for (int r = 0; r < RANKS; r++)
            CHECK_OK(weir_all_reduce(p.rank[r], x[r], WEIR_REDUCE_SUM, &y[r]));
        CHECK_OK(weir_stream_wait_stream(beside, weir_stream_default(p.dev[0])));
        CHECK_OK(weir_stream_sync(beside)); /* to see when the collective is over */
        over_ns = weir_device_now(p.dev[0]) - start;
        CHECK_GT(over_ns, 100000);
        CHECK_NEAR(first_of(y[0], N), 3, 0);
        CHECK_NEAR(first_of(y[1], N), 3, 0);
        CHECK_EQ(weir_device_now(p.dev[0]), weir_device_now(p.dev[1]));

        /* The same again, with work beside it that wants all 48. */
        start = weir_device_now(p.dev[0]);
        launch(weir_stream_default(p.dev[1]), WEIR_ENGINE_CUBE, 24, 100, false);
        for (int r = 0; r < RANKS; r++)
            CHECK_OK(weir_all_reduce_into(p.rank[r], x[r], WEIR_REDUCE_SUM, y[r]));
        launch(beside, WEIR_ENGINE_VECTOR, 48, 10, true);
        CHECK_OK(weir_stream_sync(beside));
        beside_ns = weir_device_now(p.dev[0]) - start;
        if (sdma)
            CHECK_EQ(beside_ns, 10000);
        else
            CHECK(beside_ns - over_ns - 10000 <= 1); /* the clock shows whole nanoseconds */
        for (int r = 0; r < RANKS; r++) {
            weir_tensor_release(x[r]);
            weir_tensor_release(y[r]);
        }
        close_pair(&p);
    }
}

/* ---- plans of a group take what weir run predicts ---- */

#define ATTR_S(k, v) " attr { key: \"" k "\" value { s: \"" v "\" } }"
#define ATTR_I(k, v) " attr { key: \"" k "\" value { i: " #v " } }"
#define ATTR_F(k, v) " attr { key: \"" k "\" value { f: " #v " } }"
#define GANG " attr { key: \"gang\" value { b: true } }"
#define KERNEL(name, inputs, more) "node { name: \"" name "\" op: \"Kernel\"" inputs more " }\n"

static const char *const programs[][RANKS] = {
    {KERNEL("a", "", ATTR_S("engine", "cube") ATTR_I("blocks", 24) ATTR_F("us_per_block", 31))
         KERNEL("rs", " input: \"^a\"",
                ATTR_I("blocks", 16) GANG ATTR_S("collective", "rs") ATTR_I("bytes", 4000000)
                    ATTR_S("_user_stream_label", "comm"))
             KERNEL("b", "", ATTR_I("blocks", 40) ATTR_F("us_per_block", 13)),
     KERNEL("a", "", ATTR_S("engine", "cube") ATTR_I("blocks", 24) ATTR_F("us_per_block", 7))
         KERNEL("b", "", ATTR_I("blocks", 40) ATTR_F("us_per_block", 13))
             KERNEL("rs", " input: \"^a\"",
                    ATTR_I("blocks", 16) GANG ATTR_S("collective", "rs") ATTR_I("bytes", 4000000)
                        ATTR_S("_user_stream_label", "comm"))},
    {KERNEL("d", "",
            ATTR_S("engine", "sdma") ATTR_S("collective", "dispatch") ATTR_I("bytes", 900000)
                ATTR_S("_user_stream_label", "comm"))
         KERNEL("m", "", ATTR_S("engine", "mix") ATTR_I("blocks", 50) ATTR_F("us_per_block", 9))
             KERNEL("c", " input: \"^m\"",
                    ATTR_F("us", 21) ATTR_I("blocks", 8) ATTR_S("collective", "combine")
                        ATTR_S("_user_stream_label", "comm")),
     KERNEL("m", "", ATTR_S("engine", "mix") ATTR_I("blocks", 20) ATTR_F("us_per_block", 17))
         KERNEL("d", " input: \"^m\"",
                ATTR_S("engine", "sdma") ATTR_S("collective", "dispatch") ATTR_I("bytes", 900000)
                    ATTR_S("_user_stream_label", "comm"))
             KERNEL("c", "",
                    ATTR_F("us", 21) ATTR_I("blocks", 8) ATTR_S("collective", "combine")
                        ATTR_S("_user_stream_label", "comm"))},
};

/* What both runs of the plans take on the devices, and what they must. */
static void run_plans(const char *spec, const char *const *texts, weir_status want,
                      const char *message)
{
    struct pair p;
    weir_graph *g[RANKS];
    weir_plan *plan[RANKS];
    struct weir__prediction predicted;

    open_pair(&p, spec, &(weir_group_options){.name = "world"});
    for (int r = 0; r < RANKS; r++) {
        CHECK_OK(weir_graph_load(p.dev[r], texts[r], strlen(texts[r]), "rank", &g[r]));
        CHECK_OK(weir_graph_compile(g[r], &(weir_compile_options){.ranks = &p.rank[r], .nranks = 1},
                                    &plan[r]));
    }
    CHECK_OK(weir__predict(g, RANKS, &(struct weir__predict_options){0}, &predicted));
    CHECK_EQ(predicted.run.deadlock, want == WEIR_EDEADLOCK);
    for (int run = 1; run <= 2 && !want; run++) {
        for (int r = 0; r < RANKS; r++)
            CHECK_OK(weir_plan_run(plan[r], weir_stream_default(p.dev[r]), NULL, 0, NULL, 0));
        for (int r = 0; r < RANKS; r++)
            CHECK_OK(weir_device_sync(p.dev[r]));
    }
    if (!want) {
        uint64_t most = weir_device_now(p.dev[0]);

        most = weir_device_now(p.dev[1]) > most ? weir_device_now(p.dev[1]) : most;
        CHECK_GT(predicted.makespan, 0);
        CHECK_LE(most, 2 * predicted.makespan / 1000);
        CHECK_GE(most, 2 * predicted.makespan / 1000 - 1);
    } else {
        bool told = false;

        for (int r = 0; r < RANKS; r++)
            CHECK_OK(weir_plan_run(plan[r], weir_stream_default(p.dev[r]), NULL, 0, NULL, 0));
        for (int r = 0; r < RANKS; r++) {
            CHECK_STATUS(weir_stream_sync(weir_stream_default(p.dev[r])), want);
            told |= strstr(weir_last_error(), message) != NULL;
        }
        CHECK(told);
        CHECK_STATUS(weir_group_state(p.group), want);
        CHECK_STR(weir_last_error(), message);
    }
    weir__prediction_fini(&predicted);
    for (int r = 0; r < RANKS; r++) {
        weir_graph_destroy(g[r]);
        weir_plan_destroy(plan[r]);
    }
    close_pair(&p);
}

TEST(groups, plans_take_the_time_that_weir_run_predicts)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        test_note("program %zu", i);
        run_plans("npu:a3,overhead=off", programs[i], WEIR_OK, NULL);
        run_plans("npu:a3,overhead=off,policy=batch", programs[i], WEIR_OK, NULL);
    }
}

/* Each card holds cores for the collective that the other one cannot start. */
static const char *const crossed[RANKS] = {
    KERNEL("rs", "",
           ATTR_I("blocks", 30) ATTR_F("us_per_block", 20) GANG ATTR_S("collective", "rs")
               ATTR_S("_user_stream_label", "1"))
        KERNEL("dc", "",
               ATTR_I("blocks", 30) ATTR_F("us_per_block", 20) GANG ATTR_S("collective", "dc")
                   ATTR_S("_user_stream_label", "2")),
    KERNEL("dc", "",
           ATTR_I("blocks", 30) ATTR_F("us_per_block", 20) GANG ATTR_S("collective", "dc")
               ATTR_S("_user_stream_label", "2"))
        KERNEL("rs", "",
               ATTR_I("blocks", 30) ATTR_F("us_per_block", 20) GANG ATTR_S("collective", "rs")
                   ATTR_S("_user_stream_label", "1")),
};

TEST(groups, a_deadlock_between_devices_is_an_error_that_says_who_waits_for_whom)
{
    run_plans("npu:a3,overhead=off", crossed, WEIR_EDEADLOCK,
              "operator 'rs' holds 30 vector cores and waits for rank 1");
    run_plans("npu:a3,overhead=off,policy=batch", crossed, WEIR_EDEADLOCK,
              "operator 'dc' holds no cores and waits until it has 30 vector cores");
}

/* Calls in different orders on one stream each. */
TEST(groups, two_groups_called_in_opposite_orders_are_reported_as_a_deadlock)
{
    struct pair p;
    weir_group *other;
    weir_tensor *x[RANKS];

    open_pair(&p, "npu:a3", &(weir_group_options){.name = "tp"});
    CHECK_OK(weir_group_create(p.dev, RANKS, &(weir_group_options){.name = "dp"}, &other));
    for (int r = 0; r < RANKS; r++) {
        x[r] = filled(p.dev[r], 64, 1);
        for (int k = 0; k < 2; k++)
            CHECK_OK(weir_all_reduce_into(k == r ? p.rank[r] : weir_group_rank(other, r), x[r],
                                          WEIR_REDUCE_SUM, x[r]));
    }
    for (int r = 0; r < RANKS; r++) {
        CHECK_STATUS(weir_stream_sync(weir_stream_default(p.dev[r])), WEIR_EDEADLOCK);
        CHECK_STR(weir_last_error(), "waits for rank 1");
        CHECK_STR(weir_last_error(), "of group 'dp'");
        weir_tensor_release(x[r]);
    }
    weir_device_sync(p.dev[0]);
    weir_device_sync(p.dev[1]);
    CHECK_OK(weir_group_destroy(other));
    close_pair(&p);
}

/* ---- a host thread for each rank ---- */

struct rank_thread {
    weir_rank *rank;
    int rounds;
};

static void *run_rank(void *arg)
{
    const struct rank_thread *t = arg;
    weir_device *dev = weir_rank_device(t->rank);
    weir_tensor *x = filled(dev, 1000, weir_rank_index(t->rank) + 1);

    for (int i = 0; i < t->rounds; i++) {
        weir_tensor *y;

        CHECK_OK(weir_all_reduce(t->rank, x, WEIR_REDUCE_MEAN, &y));
        CHECK_NEAR(first_of(y, 1000), 1.5, 0);
        weir_tensor_release(y);
    }
    weir_tensor_release(x);
    return NULL;
}

TEST(groups, each_rank_may_have_a_host_thread)
{
    struct pair p;
    pthread_t threads[RANKS];
    struct rank_thread args[RANKS];

    open_pair(&p, "npu:a3,seed=5", NULL);
    for (int r = 0; r < RANKS; r++) {
        args[r] = (struct rank_thread){p.rank[r], 100 / TEST_SLOWDOWN};
        CHECK_EQ(pthread_create(&threads[r], NULL, run_rank, &args[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        CHECK_EQ(pthread_join(threads[r], NULL), 0);
    close_pair(&p);
}

/* Devices that share no group have clocks of their own; those that do move together. */
TEST(groups, only_devices_of_a_group_share_a_clock)
{
    struct pair p;
    weir_device *apart;

    open_pair(&p, "npu:a3,overhead=off", NULL);
    CHECK_OK(weir_device_open("npu:a3,overhead=off", &apart));
    launch(weir_stream_default(apart), WEIR_ENGINE_CUBE, 24, 5, false);
    launch(weir_stream_default(p.dev[1]), WEIR_ENGINE_CUBE, 24, 50, false);
    launch(weir_stream_default(p.dev[0]), WEIR_ENGINE_CUBE, 24, 70, false);
    CHECK_OK(weir_device_sync(p.dev[0]));
    CHECK_EQ(weir_device_now(p.dev[0]), 70000);
    CHECK_EQ(weir_device_now(p.dev[1]), 50000);
    CHECK_EQ(weir_device_now(apart), 0);
    CHECK_OK(weir_device_close(apart));
    close_pair(&p);
}

/* ---- operators of a group in graphs ---- */

/* y = all_reduce(x) on its own stream beside a product; then both are needed. */
static weir_graph *capture(weir_rank *rank)
{
    weir_tensor *x, *sum, *product, *y;
    weir_graph *g;

    CHECK_OK(weir_graph_create(weir_rank_device(rank), &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){512, 512}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_stream("comm", 0));
    CHECK_OK(weir_all_reduce(rank, x, WEIR_REDUCE_SUM, &sum));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_matmul(x, x, &product));
    CHECK_OK(weir_add(sum, product, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    weir_tensor_release(x);
    weir_tensor_release(sum);
    weir_tensor_release(product);
    weir_tensor_release(y);
    return g;
}

TEST(groups, captured_collectives_are_predicted_as_they_run)
{
    for (int sdma = 0; sdma < 2; sdma++) {
        struct pair p;
        weir_graph *g[RANKS];
        weir_plan *plan[RANKS];
        weir_tensor *x[RANKS], *y[RANKS] = {NULL};
        struct weir__prediction all, one;
        uint64_t start, took;

        open_pair(&p, "npu:a3,overhead=off",
                  &(weir_group_options){.name = "tp", .mode = (weir_comm_mode)sdma});
        for (int r = 0; r < RANKS; r++) {
            g[r] = capture(p.rank[r]);
            CHECK_OK(weir_graph_compile(
                g[r], &(weir_compile_options){.mode = WEIR_COMPILE_REDUCE_OVERHEAD}, &plan[r]));
            CHECK_OK(weir_tensor_empty(weir_stream_default(p.dev[r]), WEIR_F32, 2,
                                       (int64_t[]){512, 512}, &x[r]));
            CHECK_OK(weir_fill(x[r], 1.0 / 512));
            CHECK_OK(weir_device_sync(p.dev[r]));
        }
        start = weir_device_now(p.dev[0]);
        for (int r = 0; r < RANKS; r++)
            CHECK_OK(weir_plan_run(plan[r], weir_stream_default(p.dev[r]), &x[r], 1, &y[r], 1));
        for (int r = 0; r < RANKS; r++)
            CHECK_OK(weir_device_sync(p.dev[r]));
        took = weir_device_now(p.dev[0]) - start;
        CHECK_NEAR(first_of(y[0], 512 * 512), 3.0 / 512, 1e-9);
        CHECK_OK(weir__predict(g, RANKS, &(struct weir__predict_options){0}, &all));
        CHECK_LE(took, all.makespan / 1000 + 1);
        CHECK_GE(took + 1, all.makespan / 1000);
        /* One rank alone: as if the other came when it does. */
        CHECK_OK(weir__predict(g, 1, &(struct weir__predict_options){0}, &one));
        CHECK_EQ(one.makespan, all.makespan);
        weir__prediction_fini(&one);
        weir__prediction_fini(&all);
        /* Three ranks are not the group's two. */
        CHECK_STATUS(weir__predict((weir_graph *[]){g[0], g[0], g[0]}, 3,
                                   &(struct weir__predict_options){0}, &all),
                     WEIR_EINVAL);
        CHECK_STR(weir_last_error(), "the 2 ranks of group 'tp', but the run has 3");
        for (int r = 0; r < RANKS; r++) {
            weir_graph_destroy(g[r]);
            weir_plan_destroy(plan[r]);
            weir_tensor_release(x[r]);
            weir_tensor_release(y[r]);
        }
        close_pair(&p);
    }
}
