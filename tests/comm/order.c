/* Which calls may overlap, and that results depend only on the order of the ranks. */
#include "helpers.h"

/* Values whose sum depends on the order of additions. */
static weir_tensor *uneven(weir_device *dev, int rank, int64_t n)
{
    static const double scale[] = {1e8, 1, -1e8, 1e-3};
    float *data = malloc((size_t)n * sizeof *data);
    weir_tensor *t;

    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(scale[(rank + i) % 4] * (1 + (double)(i % 97) / 97));
    t = tensor_of(dev, WEIR_F32, 1, &n, data);
    free(data);
    return t;
}

/* The same bits on every rank, with jitter, for any cores. */
TEST(order, reductions_follow_the_ranks)
{
    enum { ROUNDS = 12 };
    const int64_t n = 20000;
    size_t bytes = (size_t)n * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);

    for (int64_t i = 0; i < n; i++) {
        static const double scale[] = {1e8, 1, -1e8, 1e-3};
        float x[4];

        for (int r = 0; r < 4; r++)
            x[r] = (float)(scale[(r + i) % 4] * (1 + (double)(i % 97) / 97));
        want[i] = ((x[0] + x[1]) + x[2]) + x[3];
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct world w;
        weir_tensor *x[4], *y[4];
        char spec[64];

        snprintf(spec, sizeof spec, "cpu:cores=%d,threads=2,jitter=%d", 1 + round % 5, round + 1);
        world_open(&w, 4, spec, NULL);
        for (int i = 0; i < 4; i++) {
            int r = (i + round) % 4;

            x[r] = uneven(w.dev[r], r, n);
            CHECK_OK(weir_all_reduce(w.rank[r], x[r], WEIR_REDUCE_SUM, &y[r]));
        }
        for (int r = 0; r < 4; r++) {
            CHECK_OK(weir_tensor_read(y[r], got, bytes));
            CHECK_MEM_EQ(got, want, bytes);
            weir_tensor_release(x[r]);
            weir_tensor_release(y[r]);
        }
        world_close(&w);
    }
    free(want);
    free(got);
}

/* A rank that waits holds no core and no thread: with one of each, compute goes on. */
TEST(order, a_waiting_rank_holds_no_cores)
{
    struct world w;
    weir_tensor *x[2], *y[2], *z;
    weir_stream *comm;

    world_open(&w, 2, "cpu:cores=1,threads=1", NULL);
    x[0] = ramp(w.dev[0], 1000, 1, 0);
    CHECK_OK(weir_stream_communication(w.dev[0], &comm));
    CHECK_OK(weir_stream_wait_stream(comm, weir_stream_default(w.dev[0])));
    CHECK_OK(weir_stream_set_current(comm));
    CHECK_OK(weir_all_reduce(w.rank[0], x[0], WEIR_REDUCE_SUM, &y[0]));
    CHECK_OK(weir_stream_set_current(weir_stream_default(w.dev[0])));
    CHECK_OK(weir_add(x[0], x[0], &z));
    CHECK_NEAR(first_of(z), 2, 0); /* rank 1 has not even been called */
    x[1] = ramp(w.dev[1], 1000, 2, 0);
    CHECK_OK(weir_all_reduce(w.rank[1], x[1], WEIR_REDUCE_SUM, &y[1]));
    CHECK_OK(weir_stream_sync(comm));
    for (int r = 0; r < 2; r++) {
        CHECK_NEAR(first_of(y[r]), 3, 0);
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
    }
    weir_tensor_release(z);
    world_close(&w);
}

/* The copy engine moves bytes while every core is taken. */
TEST(order, sdma_needs_no_core)
{
    struct world w;
    struct gate gates[2] = {{0, 0}, {0, 0}};
    weir_stream *busy[2];
    weir_tensor *x[2], *y[2];

    needs_threads();
    world_open(&w, 2, "cpu:cores=1,threads=2", &(weir_group_options){.mode = WEIR_COMM_SDMA});
    for (int r = 0; r < 2; r++) {
        x[r] = ramp(w.dev[r], 5000, r, 0);
        CHECK_OK(weir_stream_sync(weir_stream_default(w.dev[r])));
        CHECK_OK(weir_stream_create(w.dev[r], NULL, &busy[r]));
        submit_gate(busy[r], WEIR_ENGINE_VECTOR, &gates[r]);
        wait_gate(&gates[r], 1);
        CHECK_OK(weir_all_reduce(w.rank[r], x[r], WEIR_REDUCE_MAX, &y[r]));
    }
    for (int r = 0; r < 2; r++)
        CHECK_OK(weir_stream_sync(weir_stream_default(w.dev[r])));
    for (int r = 0; r < 2; r++) {
        open_gate(&gates[r]);
        CHECK_OK(weir_stream_sync(busy[r]));
        CHECK_NEAR(first_of(y[r]), 1, 0);
        CHECK_OK(weir_stream_destroy(busy[r]));
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
    }
    world_close(&w);
}

/* Without a free core a vector-mode part waits for one, and gets it. */
TEST(order, vector_mode_waits_for_a_core)
{
    struct world w;
    struct gate gate = {0, 0};
    weir_stream *busy;
    weir_tensor *x[2], *y[2];
    bool done;

    needs_threads();
    world_open(&w, 2, "cpu:cores=1,threads=2", NULL);
    CHECK_OK(weir_stream_create(w.dev[0], NULL, &busy));
    for (int r = 0; r < 2; r++)
        x[r] = ramp(w.dev[r], 50000, r, 0);
    submit_gate(busy, WEIR_ENGINE_VECTOR, &gate);
    wait_gate(&gate, 1);
    for (int r = 0; r < 2; r++)
        CHECK_OK(weir_all_reduce(w.rank[r], x[r], WEIR_REDUCE_MAX, &y[r]));
    let_others_pass(w.dev[1]);    /* device 0 has no core for it */
    for (int r = 0; r < 2; r++) { /* rank 1's part may have run, but is not over */
        CHECK_OK(weir_stream_query(weir_stream_default(w.dev[r]), &done));
        CHECK(!done);
    }
    open_gate(&gate);
    for (int r = 0; r < 2; r++) {
        CHECK_NEAR(first_of(y[r]), 1, 0);
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
    }
    CHECK_OK(weir_stream_destroy(busy));
    world_close(&w);
}

/* Two groups over the same devices, used in opposite orders on two streams each. */
TEST(order, two_groups_do_not_wait_for_each_other)
{
    struct world w;
    weir_group *second;
    weir_stream *side[2];
    weir_tensor *x[2], *y[2], *z[2];

    world_open(&w, 2, "cpu:cores=1,threads=1", NULL);
    CHECK_OK(weir_group_create(w.dev, 2, NULL, &second));
    for (int round = 0; round < 50; round++) {
        for (int r = 0; r < 2; r++) {
            x[r] = ramp(w.dev[r], 3000, r + 1, 0);
            CHECK_OK(weir_stream_create(w.dev[r], NULL, &side[r]));
            CHECK_OK(weir_stream_wait_stream(side[r], weir_stream_default(w.dev[r])));
            for (int k = 0; k < 2; k++) {
                bool main_one = k == r;

                CHECK_OK(
                    weir_stream_set_current(main_one ? weir_stream_default(w.dev[r]) : side[r]));
                CHECK_OK(weir_all_reduce(main_one ? w.rank[r] : weir_group_rank(second, r), x[r],
                                         WEIR_REDUCE_SUM, main_one ? &y[r] : &z[r]));
            }
            CHECK_OK(weir_stream_set_current(weir_stream_default(w.dev[r])));
        }
        for (int r = 0; r < 2; r++) {
            CHECK_OK(weir_stream_sync(side[r]));
            CHECK_NEAR(first_of(y[r]), 3, 0);
            CHECK_NEAR(first_of(z[r]), 3, 0);
            CHECK_OK(weir_stream_destroy(side[r]));
            weir_tensor_release(x[r]);
            weir_tensor_release(y[r]);
            weir_tensor_release(z[r]);
        }
    }
    CHECK_OK(weir_group_destroy(second));
    world_close(&w);
}

/* Numbers are given by the calls: ranks may use their streams in any order. */
TEST(order, calls_on_several_streams_meet_by_number)
{
    struct world w;
    weir_stream *side[2];
    weir_tensor *x[2], *ten[2], *y[2], *z[2];
    struct gate gate = {0, 0};

    needs_threads();
    world_open(&w, 2, "cpu:cores=2,threads=2", NULL);
    for (int r = 0; r < 2; r++) {
        x[r] = ramp(w.dev[r], 10, 1, 0);
        ten[r] = ramp(w.dev[r], 10, 10, 0);
        CHECK_OK(weir_stream_create(w.dev[r], NULL, &side[r]));
        CHECK_OK(weir_stream_wait_stream(side[r], weir_stream_default(w.dev[r])));
    }
    /* On rank 0 the first call comes to its stream's head after the second. */
    submit_gate(weir_stream_default(w.dev[0]), WEIR_ENGINE_VECTOR, &gate);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(weir_all_reduce(w.rank[r], x[r], WEIR_REDUCE_SUM, &y[r]));
        CHECK_OK(weir_stream_set_current(side[r]));
        CHECK_OK(weir_all_reduce(w.rank[r], ten[r], WEIR_REDUCE_SUM, &z[r]));
        CHECK_OK(weir_stream_set_current(weir_stream_default(w.dev[r])));
    }
    for (int r = 0; r < 2; r++)
        CHECK_OK(weir_stream_sync(side[r]));
    open_gate(&gate);
    for (int r = 0; r < 2; r++) {
        CHECK_NEAR(first_of(y[r]), 2, 0);
        CHECK_NEAR(first_of(z[r]), 20, 0);
        CHECK_OK(weir_stream_destroy(side[r]));
        weir_tensor_release(x[r]);
        weir_tensor_release(ten[r]);
        weir_tensor_release(y[r]);
        weir_tensor_release(z[r]);
    }
    world_close(&w);
}

/* One device may be several ranks, each on a stream of its own. */
TEST(order, one_device_is_several_ranks)
{
    weir_device *dev;
    weir_group *group;
    weir_stream *s[4];
    weir_tensor *x[4], *y[4];

    CHECK_OK(weir_device_open(spec_or_given("cpu:cores=1,threads=1"), &dev));
    CHECK_OK(weir_group_create((weir_device *[]){dev, dev, dev, dev}, 4, NULL, &group));
    for (int r = 0; r < 4; r++) {
        s[r] = fresh_stream(dev);
        CHECK_OK(weir_stream_set_current(s[r]));
        CHECK_OK(weir_tensor_empty(s[r], WEIR_F32, 1, (int64_t[]){100}, &x[r]));
        CHECK_OK(weir_fill(x[r], r));
        CHECK_OK(weir_all_reduce(weir_group_rank(group, r), x[r], WEIR_REDUCE_SUM, &y[r]));
    }
    for (int r = 0; r < 4; r++) {
        CHECK_OK(weir_stream_set_current(s[r]));
        CHECK_NEAR(first_of(y[r]), 6, 0);
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
    }
    CHECK_OK(weir_device_sync(dev));
    for (int r = 0; r < 4; r++)
        CHECK_OK(weir_stream_destroy(s[r]));
    CHECK_OK(weir_group_destroy(group));
    CHECK_OK(weir_device_close(dev));
}
