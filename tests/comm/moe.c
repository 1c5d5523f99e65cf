/* Dispatch and combine against a reference that walks tokens one by one. */
#include "helpers.h"

#include "base/half.h"

enum { MAX_TOKENS = 40, K = 3, HIDDEN = 70 };

static int64_t tokens_of(int rank)
{
    static const int64_t tokens[] = {17, 0, 40, 5};

    return tokens[rank];
}

static int expert_of(int rank, int64_t token, int slot, int experts)
{
    return (int)((rank * 5 + token * 3 + slot * slot * 7) % experts);
}

static float x_of(int rank, int64_t token, int64_t h)
{
    return (float)(rank * 64 + token + (double)(h % 8) / 8);
}

static double weight_of(int rank, int64_t token, int slot)
{
    return (double)((rank + token + slot) % 4 + 1) / 4;
}

struct moe {
    weir_tensor *x, *experts, *weights, *rows, *counts, *positions, *out;
};

static void make_inputs(struct moe *m, weir_device *dev, int rank, int experts, bool wide)
{
    static float x[MAX_TOKENS * HIDDEN], weights[MAX_TOKENS * K];
    static int64_t wide_ids[MAX_TOKENS * K];
    static int32_t ids[MAX_TOKENS * K];
    int64_t tokens = tokens_of(rank);

    for (int64_t t = 0; t < tokens; t++) {
        for (int64_t h = 0; h < HIDDEN; h++)
            x[t * HIDDEN + h] = x_of(rank, t, h);
        for (int k = 0; k < K; k++) {
            wide_ids[t * K + k] = ids[t * K + k] = expert_of(rank, t, k, experts);
            weights[t * K + k] = (float)weight_of(rank, t, k);
        }
    }
    m->x = tensor_of(dev, WEIR_F32, 2, (int64_t[]){tokens, HIDDEN}, x);
    m->experts = tensor_of(dev, wide ? WEIR_I64 : WEIR_I32, 2, (int64_t[]){tokens, K},
                           wide ? (void *)wide_ids : ids);
    m->weights = tensor_of(dev, WEIR_F32, 2, (int64_t[]){tokens, K}, weights);
}

/* Rows by expert, then source rank, token and slot. */
static void check_rows(const struct moe *m, int ranks, int rank, int experts, int64_t capacity)
{
    int per = experts / ranks;
    float *rows = malloc((size_t)(capacity * HIDDEN) * sizeof *rows + 1);
    int64_t counts[64], at = 0;

    CHECK_OK(weir_tensor_read(m->rows, rows, (size_t)(capacity * HIDDEN) * sizeof *rows));
    CHECK_OK(weir_tensor_read(m->counts, counts, (size_t)per * sizeof *counts));
    for (int e = 0; e < per; e++) {
        int64_t before = at;

        for (int r = 0; r < ranks; r++)
            for (int64_t t = 0; t < tokens_of(r); t++)
                for (int k = 0; k < K; k++) {
                    if (expert_of(r, t, k, experts) != rank * per + e)
                        continue;
                    for (int64_t h = 0; h < HIDDEN; h++)
                        CHECK_NEAR(rows[at * HIDDEN + h], x_of(r, t, h), 0);
                    at++;
                }
        CHECK_EQ(counts[e], at - before);
    }
    free(rows);
}

/* Experts double their rows. */
static void check_out(const struct moe *m, int rank)
{
    int64_t tokens = tokens_of(rank);
    float *out = malloc((size_t)(tokens * HIDDEN) * sizeof *out + 1);

    CHECK_OK(weir_tensor_read(m->out, out, (size_t)(tokens * HIDDEN) * sizeof *out));
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < HIDDEN; h++) {
            double want = 0;

            for (int k = 0; k < K; k++)
                want += weight_of(rank, t, k) * 2 * x_of(rank, t, h);
            CHECK_NEAR(out[t * HIDDEN + h], want, 1e-6 * want);
        }
    free(out);
}

static void round_trip(int ranks, int experts, int64_t capacity, weir_comm_mode mode)
{
    struct moe m[MAX_WORLD];
    struct world w;

    test_note("%d ranks, %d experts", ranks, experts);
    world_open(&w, ranks, "cpu:cores=3,threads=2", &(weir_group_options){.mode = mode});
    for (int r = 0; r < ranks; r++) {
        make_inputs(&m[r], w.dev[r], r, experts, r % 2);
        CHECK_OK(weir_moe_dispatch(w.rank[r], m[r].x, m[r].experts, experts, capacity, &m[r].rows,
                                   &m[r].counts, &m[r].positions));
    }
    for (int r = 0; r < ranks; r++)
        check_rows(&m[r], ranks, r, experts, capacity);
    for (int r = 0; r < ranks; r++) {
        CHECK_OK(weir_add_into(m[r].rows, m[r].rows, m[r].rows));
        CHECK_OK(weir_moe_combine(w.rank[r], m[r].rows, m[r].experts, experts, m[r].positions,
                                  m[r].weights, &m[r].out));
    }
    for (int r = 0; r < ranks; r++) {
        check_out(&m[r], r);
        weir_tensor_release(m[r].x);
        weir_tensor_release(m[r].experts);
        weir_tensor_release(m[r].weights);
        weir_tensor_release(m[r].rows);
        weir_tensor_release(m[r].counts);
        weir_tensor_release(m[r].positions);
        weir_tensor_release(m[r].out);
    }
    world_close(&w);
}

TEST(moe, rows_go_to_their_experts_and_come_back)
{
    for (int ranks = 1; ranks <= MAX_WORLD; ranks++) {
        round_trip(ranks, ranks, 300, WEIR_COMM_VECTOR);
        round_trip(ranks, 4 * ranks, 250, ranks % 2 ? WEIR_COMM_SDMA : WEIR_COMM_VECTOR);
    }
}

/* Every rank hears of rank 0's trouble. */
static void expect_error(int32_t expert, int64_t capacity, const char *text)
{
    struct world w;

    world_open(&w, 2, "cpu:cores=2", NULL);
    for (int r = 0; r < 2; r++) {
        weir_tensor *x = ramp(w.dev[r], 8, 0, 1), *table, *experts, *rows, *counts, *positions;

        CHECK_OK(weir_tensor_reshape(x, 2, (int64_t[]){4, 2}, &table));
        experts = tensor_of(w.dev[r], WEIR_I32, 2, (int64_t[]){4, 1},
                            (int32_t[]){0, 0, r ? 1 : expert, 0});
        CHECK_OK(
            weir_moe_dispatch(w.rank[r], table, experts, 2, capacity, &rows, &counts, &positions));
        weir_tensor_release(x);
        weir_tensor_release(table);
        weir_tensor_release(experts);
        weir_tensor_release(rows);
        weir_tensor_release(counts);
        weir_tensor_release(positions);
    }
    for (int r = 0; r < 2; r++) {
        CHECK_STATUS(weir_stream_sync(weir_stream_default(w.dev[r])), WEIR_ERANGE);
        CHECK_STR(weir_last_error(), text);
    }
    CHECK_STATUS(weir_group_state(w.group), WEIR_ERANGE);
    world_close(&w);
}

TEST(moe, an_expert_out_of_range_is_an_error_on_every_rank)
{
    expect_error(2, 8, "expert 2 of token 2 on rank 0 is out of range: 0..1");
    expect_error(-1, 8, "expert -1 of token 2 on rank 0 is out of range: 0..1");
}

TEST(moe, too_small_a_capacity_is_an_error_on_every_rank)
{
    expect_error(0, 6, "the experts of rank 0 get 7 rows, its capacity is 6");
}

TEST(moe, invalid_shapes_are_refused)
{
    struct world w;
    weir_tensor *x, *experts, *out[3];

    world_open(&w, 2, "cpu:cores=2", NULL);
    x = ramp(w.dev[0], 8, 0, 1);
    experts = tensor_of(w.dev[0], WEIR_I32, 2, (int64_t[]){4, 1}, (int32_t[4]){0});
    CHECK_STATUS(weir_moe_dispatch(w.rank[0], x, experts, 2, 8, &out[0], &out[1], &out[2]),
                 WEIR_ESHAPE);
    CHECK_STATUS(weir_moe_dispatch(w.rank[0], x, experts, 3, 8, &out[0], &out[1], &out[2]),
                 WEIR_ESHAPE);
    CHECK_STR(weir_last_error(), "3 experts are not shared evenly by 2 ranks");
    CHECK_STATUS(weir_moe_dispatch(w.rank[0], x, x, 2, 8, &out[0], &out[1], &out[2]), WEIR_EDTYPE);
    weir_tensor_release(x);
    weir_tensor_release(experts);
    world_close(&w);
}
