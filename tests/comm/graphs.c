/* Collectives in graphs: captured per rank, replayed, written down and read back. */
#include "helpers.h"

enum { N = 300 };

/* y = all_reduce(x + x) * 2 on the communication stream, z = x * 3 beside it. */
static weir_graph *capture(weir_rank *rank, int64_t n)
{
    weir_device *dev = weir_rank_device(rank);
    weir_tensor *x, *twice, *sum, *y, *z;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(x, x, &twice));
    CHECK_OK(weir_scope_push_stream("communication", 0));
    CHECK_OK(weir_all_reduce(rank, twice, WEIR_REDUCE_SUM, &sum));
    CHECK_OK(weir_barrier(rank));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_mul_scalar(x, 3, &z));
    CHECK_OK(weir_mul_scalar(sum, 2, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_output(g, "z", z));
    weir_tensor_release(x);
    weir_tensor_release(twice);
    weir_tensor_release(sum);
    weir_tensor_release(y);
    weir_tensor_release(z);
    return g;
}

/* Runs the plans of all ranks `runs` times with other inputs each time. */
static void replay(struct world *w, weir_plan **plans, int runs)
{
    for (int i = 0; i < runs; i++) {
        weir_tensor *x[MAX_WORLD], *out[MAX_WORLD][2] = {{NULL}};
        double want = 0;

        for (int r = 0; r < w->n; r++) {
            x[r] = ramp(w->dev[r], N, r + i, 0);
            want += 4.0 * (r + i);
            CHECK_OK(weir_plan_run(plans[r], weir_stream_default(w->dev[r]), &x[r], 1, out[r], 2));
        }
        for (int r = 0; r < w->n; r++) {
            CHECK_NEAR(first_of(out[r][0]), want, 0);
            CHECK_NEAR(first_of(out[r][1]), 3.0 * (r + i), 0);
            weir_tensor_release(x[r]);
            weir_tensor_release(out[r][0]);
            weir_tensor_release(out[r][1]);
        }
    }
}

TEST(graphs, captured_collectives_replay)
{
    static const weir_compile_mode modes[] = {WEIR_COMPILE_MAX_AUTOTUNE,
                                              WEIR_COMPILE_REDUCE_OVERHEAD};

    for (int n = 1; n <= 3; n++)
        for (int m = 0; m < 2; m++) {
            struct world w;
            weir_plan *plans[MAX_WORLD];

            test_note("%d ranks, mode %d", n, (int)modes[m]);
            world_open(&w, n, "cpu:cores=2,threads=1", NULL);
            for (int r = 0; r < n; r++) {
                weir_graph *g = capture(w.rank[r], N);

                CHECK_OK(
                    weir_graph_compile(g, &(weir_compile_options){.mode = modes[m]}, &plans[r]));
                weir_graph_destroy(g);
            }
            replay(&w, plans, 20);
            CHECK_STATUS(weir_group_destroy(w.group), WEIR_EBUSY); /* plans hold it */
            for (int r = 0; r < n; r++)
                weir_plan_destroy(plans[r]);
            world_close(&w);
        }
}

/* Many runs are queued before any of them can start; numbers keep them apart. */
TEST(graphs, runs_that_are_queued_at_once_meet_in_order)
{
    enum { RUNS = 7 }; /* as many instances as a plan has, less one */
    struct world w;
    weir_plan *plans[2];
    weir_tensor *x[2][RUNS], *out[2][RUNS][2] = {{{NULL}}};
    struct gate gate = {0, 0};

    if (is_gpu())
        needs_threads();
    world_open(&w, 2, "cpu:cores=2", NULL);
    for (int r = 0; r < 2; r++) {
        weir_graph *g = capture(w.rank[r], N);

        CHECK_OK(weir_graph_compile(g, NULL, &plans[r]));
        weir_graph_destroy(g);
        for (int i = 0; i < RUNS; i++)
            x[r][i] = ramp(w.dev[r], N, 100 * r + i, 0);
    }
    submit_gate(weir_stream_default(w.dev[0]), WEIR_ENGINE_VECTOR, &gate);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < RUNS; i++) {
            weir_tensor *eager;

            CHECK_OK(
                weir_plan_run(plans[r], weir_stream_default(w.dev[r]), &x[r][i], 1, out[r][i], 2));
            if (i % 3 == 1) { /* calls between runs count as well */
                CHECK_OK(weir_all_reduce(w.rank[r], x[r][i], WEIR_REDUCE_MAX, &eager));
                weir_tensor_release(eager);
            }
        }
    open_gate(&gate);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < RUNS; i++) {
            CHECK_NEAR(first_of(out[r][i][0]), 4.0 * (100 + 2 * i), 0);
            weir_tensor_release(x[r][i]);
            weir_tensor_release(out[r][i][0]);
            weir_tensor_release(out[r][i][1]);
        }
        weir_plan_destroy(plans[r]);
    }
    world_close(&w);
}

/* A file says the group's name; who is which rank is said when it is compiled. */
TEST(graphs, files_are_compiled_as_any_rank)
{
    struct world w;
    weir_plan *plans[3];
    weir_graph *captured, *g;
    char *text, *again;

    world_open(&w, 3, "cpu:cores=2", &(weir_group_options){.name = "tp", .mode = WEIR_COMM_SDMA});
    captured = capture(w.rank[1], N);
    CHECK((text = weir_graph_dump(captured)));
    CHECK_STR(text, "\"AllReduce\"");
    CHECK_STR(text, "\"tp\"");
    for (int r = 0; r < 3; r++) {
        CHECK_OK(weir_graph_load(w.dev[r], text, strlen(text), "dump", &g));
        CHECK((again = weir_graph_dump(g)));
        CHECK_STR_EQ(text, again);
        free(again);
        CHECK_STATUS(weir_graph_compile(g, NULL, &plans[r]), WEIR_EINVAL);
        CHECK_STR(weir_last_error(), "no rank of group 'tp' is given");
        CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.ranks = &w.rank[r], .nranks = 1},
                                    &plans[r]));
        weir_graph_destroy(g);
    }
    replay(&w, plans, 5);
    for (int r = 0; r < 3; r++)
        weir_plan_destroy(plans[r]);
    free(text);
    weir_graph_destroy(captured);
    world_close(&w);
}

TEST(graphs, every_collective_is_captured_and_read_back)
{
    struct world w;
    weir_tensor *x, *experts, *weights, *out[20] = {NULL};
    weir_graph *g, *loaded;
    weir_plan *plan;
    char *text, *again;
    int n = 0;

    world_open(&w, 1, "cpu:cores=2", &(weir_group_options){.name = "solo"});
    CHECK_OK(weir_graph_create(w.dev[0], &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){4, 6}, &x));
    CHECK_OK(weir_graph_input(g, "experts", WEIR_I32, 2, (int64_t[]){4, 2}, &experts));
    CHECK_OK(weir_graph_input(g, "weights", WEIR_F32, 2, (int64_t[]){4, 2}, &weights));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_all_reduce(w.rank[0], x, WEIR_REDUCE_MEAN, &out[n++]));
    CHECK_OK(weir_reduce_scatter(w.rank[0], x, WEIR_REDUCE_MIN, &out[n++]));
    CHECK_OK(weir_all_gather(w.rank[0], x, &out[n++]));
    CHECK_OK(weir_broadcast(w.rank[0], x, 0, &out[n++]));
    CHECK_OK(weir_all_to_all(w.rank[0], x, &out[n++]));
    CHECK_OK(weir_all_to_all_counts(w.rank[0], x, (int64_t[]){4}, (int64_t[]){4}, &out[n++]));
    CHECK_OK(weir_moe_dispatch(w.rank[0], x, experts, 3, 9, &out[n], &out[n + 1], &out[n + 2]));
    CHECK_OK(weir_moe_combine(w.rank[0], out[n], experts, 3, out[n + 2], weights, &out[n + 3]));
    n += 4;
    CHECK_OK(weir_barrier(w.rank[0]));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "combined", out[n - 1]));
    CHECK((text = weir_graph_dump(g)));
    CHECK_OK(weir_graph_load(w.dev[0], text, strlen(text), "dump", &loaded));
    CHECK((again = weir_graph_dump(loaded)));
    CHECK_STR_EQ(text, again);
    CHECK_OK(weir_graph_compile(loaded, &(weir_compile_options){.ranks = &w.rank[0], .nranks = 1},
                                &plan));
    {
        float ones[24], half[8], got[24];
        int32_t ids[8] = {0, 1, 2, 0, 1, 2, 0, 1};
        weir_tensor *in[3], *y = NULL;

        for (int i = 0; i < 24; i++)
            ones[i] = (float)i;
        for (int i = 0; i < 8; i++)
            half[i] = 0.5f;
        in[0] = tensor_of(w.dev[0], WEIR_F32, 2, (int64_t[]){4, 6}, ones);
        in[1] = tensor_of(w.dev[0], WEIR_I32, 2, (int64_t[]){4, 2}, ids);
        in[2] = tensor_of(w.dev[0], WEIR_F32, 2, (int64_t[]){4, 2}, half);
        CHECK_OK(weir_plan_run(plan, weir_stream_default(w.dev[0]), in, 3, &y, 1));
        CHECK_OK(weir_tensor_read(y, got, sizeof got));
        CHECK_MEM_EQ(got, ones, sizeof got); /* half of each of its two rows */
        for (int i = 0; i < 3; i++)
            weir_tensor_release(in[i]);
        weir_tensor_release(y);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(loaded);
    weir_graph_destroy(g);
    free(text);
    free(again);
    for (int i = 0; i < n; i++)
        weir_tensor_release(out[i]);
    weir_tensor_release(x);
    weir_tensor_release(experts);
    weir_tensor_release(weights);
    world_close(&w);
}

/* The k-th Kernel of a name meets the k-th of the other ranks, whatever else differs. */
/* y of `root` alone, written down and read back. */
static weir_graph *reread_reduction(weir_rank *rank, int root)
{
    weir_device *dev = weir_rank_device(rank);
    weir_graph *g, *back;
    weir_tensor *x, *y;
    char *text, *again;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){N}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_reduce_to(rank, x, WEIR_REDUCE_SUM, root, &y));
    CHECK_OK(weir_graph_end(g));
    if (y)
        CHECK_OK(weir_graph_output(g, "y", y));
    text = weir_graph_dump(g);
    CHECK_STR(text, "reduced_for");
    CHECK_OK(weir_graph_load(dev, text, strlen(text), "text", &back));
    again = weir_graph_dump(back);
    CHECK_STR_EQ(again, text);
    free(text);
    free(again);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    return back;
}

TEST(graphs, a_reduction_for_one_rank_that_is_read_back_is_for_that_rank)
{
    struct world w;
    weir_plan *plans[2];
    weir_tensor *x[2], *out[2] = {NULL};

    world_open(&w, 2, "cpu:cores=2", &(weir_group_options){.name = "tp"});
    for (int r = 0; r < 2; r++) {
        weir_graph *g = reread_reduction(w.rank[r], r); /* each for itself */

        CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.ranks = &w.rank[r], .nranks = 1},
                                    &plans[r]));
        weir_graph_destroy(g);
        x[r] = ramp(w.dev[r], N, r, 0);
        CHECK_OK(weir_plan_run(plans[r], weir_stream_default(w.dev[r]), &x[r], 1, &out[r], 1));
    }
    CHECK_STATUS(weir_stream_sync(weir_stream_default(w.dev[1])), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "root");
    weir_stream_sync(weir_stream_default(w.dev[0]));
    for (int r = 0; r < 2; r++) {
        weir_tensor_release(x[r]);
        weir_tensor_release(out[r]);
        weir_plan_destroy(plans[r]);
    }
    world_close(&w);
}

TEST(graphs, kernel_nodes_meet_by_name)
{
    static const char *const text[2] = {
        "node { name: \"a\" op: \"Kernel\" attr { key: \"us_per_block\" value { f: 20 } }"
        " attr { key: \"blocks\" value { i: 2 } } attr { key: \"collective\" value { s: \"rs\" } } "
        "}"
        "node { name: \"b\" op: \"Kernel\" attr { key: \"us\" value { f: 10 } }"
        " attr { key: \"collective\" value { s: \"ag\" } }"
        " attr { key: \"_user_stream_label\" value { s: \"1\" } } }"
        "node { name: \"c\" op: \"Kernel\" attr { key: \"collective\" value { s: \"rs\" } } }",
        "node { name: \"b\" op: \"Kernel\" attr { key: \"us\" value { f: 10 } }"
        " attr { key: \"collective\" value { s: \"ag\" } }"
        " attr { key: \"_user_stream_label\" value { s: \"1\" } } }"
        "node { name: \"a\" op: \"Kernel\" attr { key: \"collective\" value { s: \"rs\" } } }"
        "node { name: \"c\" op: \"Kernel\" attr { key: \"collective\" value { s: \"rs\" } } }",
    };
    struct world w;
    weir_plan *plans[2];
    weir_graph *g;
    bool done;

    world_open(&w, 2, "cpu:cores=2,threads=1", NULL);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(weir_graph_load(w.dev[r], text[r], strlen(text[r]), "rank", &g));
        CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.ranks = &w.rank[r], .nranks = 1},
                                    &plans[r]));
        weir_graph_destroy(g);
    }
    for (int i = 0; i < 10; i++) {
        CHECK_OK(weir_plan_run(plans[0], weir_stream_default(w.dev[0]), NULL, 0, NULL, 0));
        if (i == 0) { /* alone it waits */
            let_others_pass(w.dev[0]);
            CHECK_OK(weir_stream_query(weir_stream_default(w.dev[0]), &done));
            CHECK(!done);
        }
        CHECK_OK(weir_plan_run(plans[1], weir_stream_default(w.dev[1]), NULL, 0, NULL, 0));
    }
    for (int r = 0; r < 2; r++) {
        CHECK_OK(weir_device_sync(w.dev[r]));
        weir_plan_destroy(plans[r]);
    }
    world_close(&w);
}

/* Without a rank such nodes run alone, as they do in a single file. */
TEST(graphs, kernel_nodes_run_alone_without_a_rank)
{
    static const char text[] =
        "node { name: \"a\" op: \"Kernel\" attr { key: \"collective\" value { s: \"rs\" } } }";
    weir_device *dev;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_device_open(spec_or_given("cpu:cores=1"), &dev));
    CHECK_OK(weir_graph_load(dev, text, strlen(text), "alone", &g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), NULL, 0, NULL, 0));
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(graphs, a_destroyed_group_is_named)
{
    struct world w;
    weir_graph *g;
    weir_plan *plan;

    world_open(&w, 1, "cpu:cores=1", &(weir_group_options){.name = "brief"});
    g = capture(w.rank[0], N);
    CHECK_OK(weir_group_destroy(w.group));
    CHECK_STATUS(weir_graph_compile(g, NULL, &plan), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "group 'brief' has been destroyed");
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(w.dev[0]));
}

/* A broken group refuses runs before anything is queued, and plans can go. */
TEST(graphs, a_broken_group_refuses_runs)
{
    struct world w;
    weir_graph *g;
    weir_plan *plan;
    weir_tensor *x, *out[2] = {NULL};

    world_open(&w, 2, "cpu:cores=1", NULL);
    g = capture(w.rank[0], N);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    x = ramp(w.dev[0], N, 1, 0);
    CHECK_OK(weir_plan_run(plan, weir_stream_default(w.dev[0]), &x, 1, out, 2));
    weir_group_abort(w.group, NULL);
    CHECK_STATUS(weir_stream_sync(weir_stream_default(w.dev[0])), WEIR_ESTATE);
    weir_tensor_release(out[0]);
    weir_tensor_release(out[1]);
    out[0] = out[1] = NULL;
    CHECK_STATUS(weir_plan_run(plan, weir_stream_default(w.dev[0]), &x, 1, out, 2), WEIR_ESTATE);
    CHECK(!out[0] && !out[1]);
    weir_tensor_release(x);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    world_close(&w);
}

/* Two groups, and ranks on which streams=auto has other reasons: the one has much to do beside
 * its collectives, the other nothing. Streams keep the program's order and syncs go forward in
 * it, so ranks with the same program never wait for each other crosswise. */
static weir_plan *auto_plan(weir_device *dev, weir_rank *a, weir_rank *b, int64_t work)
{
    const int64_t n = 64;
    weir_tensor *x, *y, *sums[8], *all, *busy;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_input(g, "work", WEIR_F32, 1, &work, &busy));
    CHECK_OK(weir_graph_begin(g));
    for (int i = 0; i < 8; i++) {
        weir_tensor *next;

        CHECK_OK(weir_tanh(busy, &next));
        weir_tensor_release(busy);
        busy = next;
        CHECK_OK(weir_mul_scalar(x, i + 1, &y));
        CHECK_OK(weir_all_reduce(i % 2 ? b : a, y, WEIR_REDUCE_SUM, &sums[i]));
        weir_tensor_release(y);
    }
    CHECK_OK(weir_concat(sums, 8, 0, &all));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", all));
    CHECK_OK(weir_graph_output(g, "busy", busy));
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.streams = WEIR_STREAMS_AUTO}, &plan));
    weir_tensor_release(busy);
    for (int i = 0; i < 8; i++)
        weir_tensor_release(sums[i]);
    weir_tensor_release(x);
    weir_tensor_release(all);
    weir_graph_destroy(g);
    return plan;
}

TEST(graphs, placed_streams_never_cross_two_groups)
{
    static const int64_t work[2] = {1 << 17, 8};
    struct world w;
    weir_group *other;
    weir_plan *plans[2];

    world_open(&w, 2, "cpu:cores=2,threads=2,op_timeout=20", NULL);
    CHECK_OK(weir_group_create(w.dev, 2, NULL, &other));
    for (int r = 0; r < 2; r++)
        plans[r] = auto_plan(w.dev[r], w.rank[r], weir_group_rank(other, r), work[r]);
    for (int i = 0; i < 20; i++) {
        weir_tensor *in[2][2], *out[2][2] = {{NULL}};

        for (int r = 0; r < 2; r++) {
            in[r][0] = ramp(w.dev[r], 64, r + 1, 0);
            in[r][1] = ramp(w.dev[r], work[r], 0, 0);
            CHECK_OK(weir_plan_run(plans[r], weir_stream_default(w.dev[r]), in[r], 2, out[r], 2));
        }
        for (int r = 0; r < 2; r++) {
            CHECK_NEAR(first_of(out[r][0]), 3, 0);
            for (int k = 0; k < 2; k++) {
                weir_tensor_release(in[r][k]);
                weir_tensor_release(out[r][k]);
            }
        }
    }
    for (int r = 0; r < 2; r++)
        weir_plan_destroy(plans[r]);
    CHECK_OK(weir_group_destroy(other));
    world_close(&w);
}
