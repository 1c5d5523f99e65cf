/* Elementwise chains in plans: one launch each, whatever shares memory with them, and as many as
 * it takes where one has no room. Their values: conformance. */
#include "gpu.h"
#include "graph/plan/plan.h"

enum { ROWS = 8, COLS = 64 };

static int launches(const weir_plan *plan)
{
    int n = 0;

    for (int v = 0; v < plan->graph->nnodes; v++)
        n += plan->c.live[v] && plan->c.leader[v] == v;
    return n;
}

/* A plan of what is built since weir_graph_begin, with one result. */
static weir_plan *plan_of(weir_graph *g, weir_tensor *out)
{
    weir_plan *plan;

    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "out", out));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(out);
    weir_graph_destroy(g);
    return plan;
}

static weir_tensor *input(weir_graph *g, const char *name, weir_dtype dtype, int64_t rows,
                          int64_t cols)
{
    weir_tensor *t;

    CHECK_OK(weir_graph_input(g, name, dtype, 2, (int64_t[]){rows, cols}, &t));
    return t;
}

static void take(weir_tensor **x, weir_tensor *next)
{
    weir_tensor_release(*x);
    *x = next;
}

/* What the product gives is over once swiglu has read it, and the result would fit there. */
TEST(cuda_chains, an_operand_read_in_another_order_is_not_overwritten_by_the_result)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_tensor *x, *w, *gates, *y, *next;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    x = input(g, "x", WEIR_BF16, ROWS, COLS);
    w = input(g, "w", WEIR_BF16, 2 * COLS, COLS);
    gates = input(g, "gates", WEIR_BF16, ROWS, 1);
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_linear(x, w, NULL, &y));
    CHECK_OK(weir_swiglu(y, -1, &next));
    take(&y, next);
    CHECK_OK(weir_mul(y, gates, &next));
    take(&y, next);
    CHECK_OK(weir_cast(y, WEIR_F32, &next));
    take(&y, next);
    CHECK_OK(weir_sum(y, (int[]){1}, 1, false, &next));
    take(&y, next);
    plan = plan_of(g, y);
    CHECK_EQ(launches(plan), 3);
    weir_tensor_release(x);
    weir_tensor_release(w);
    weir_tensor_release(gates);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* What a layer of a model begins with: the sum goes on, and its rows are normalised. */
TEST(cuda_chains, a_sum_and_the_norm_of_its_rows_are_one_launch)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *in[2], *given[2], *sum, *normed, *out[2] = {0}, *want[2], *next;
    uint16_t got[ROWS * COLS], expected[ROWS * COLS];
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < 2; i++) {
        given[i] = gpu_tensor(s, WEIR_F32, ROWS * COLS, i + 1);
        CHECK_OK(weir_tensor_reshape(given[i], 2, (int64_t[]){ROWS, COLS}, &next));
        take(&given[i], next);
        CHECK_OK(weir_cast(given[i], WEIR_BF16, &next));
        take(&given[i], next);
        in[i] = input(g, i ? "y" : "x", WEIR_BF16, ROWS, COLS);
    }
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(in[0], in[1], &sum));
    CHECK_OK(weir_rms_norm(sum, NULL, 1e-5, &normed));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "sum", sum));
    CHECK_OK(weir_graph_output(g, "normed", normed));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_EQ(launches(plan), 1);
    CHECK_OK(weir_plan_run(plan, s, given, 2, out, 2));
    CHECK_OK(weir_add(given[0], given[1], &want[0]));
    CHECK_OK(weir_rms_norm(want[0], NULL, 1e-5, &want[1]));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_tensor_read(out[i], got, sizeof got));
        CHECK_OK(weir_tensor_read(want[i], expected, sizeof expected));
        CHECK_MEM_EQ(got, expected, sizeof got);
        weir_tensor_release(in[i]);
        weir_tensor_release(given[i]);
        weir_tensor_release(out[i]);
        weir_tensor_release(want[i]);
    }
    weir_tensor_release(sum);
    weir_tensor_release(normed);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* More steps and operands than a launch has room for. */
TEST(cuda_chains, a_long_chain_is_split_where_a_launch_has_no_room)
{
    enum { SUMS = 40 };
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *in[SUMS], *given[SUMS], *y = NULL, *next, *out = NULL;
    float got[ROWS * COLS];
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < SUMS; i++) {
        given[i] = gpu_tensor(s, WEIR_F32, ROWS * COLS, i);
        CHECK_OK(weir_tensor_reshape(given[i], 2, (int64_t[]){ROWS, COLS}, &next));
        take(&given[i], next);
        in[i] =
            input(g, (char[]){(char)('A' + i / 26), (char)('a' + i % 26), 0}, WEIR_F32, ROWS, COLS);
    }
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_neg(in[0], &y));
    for (int i = 1; i < SUMS; i++) {
        CHECK_OK(weir_add(y, in[i], &next));
        take(&y, next);
    }
    plan = plan_of(g, y);
    CHECK_EQ(launches(plan), 3); /* of 16 steps at most */
    CHECK_OK(weir_plan_run(plan, s, given, SUMS, &out, 1));
    CHECK_OK(weir_tensor_read(out, got, sizeof got));
    for (int i = 0; i < ROWS * COLS; i++)
        CHECK(got[i] == SUMS * (SUMS - 1) / 2);
    for (int i = 0; i < SUMS; i++) {
        weir_tensor_release(in[i]);
        weir_tensor_release(given[i]);
    }
    weir_tensor_release(out);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* A chain does not cross the end of a super kernel. */
TEST(cuda_chains, a_chain_never_leaves_its_super_kernel)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_tensor *x, *y, *next;
    weir_graph *g;
    weir_plan *plan;
    char *list;

    CHECK_OK(weir_graph_create(dev, &g));
    x = input(g, "x", WEIR_F32, ROWS, COLS);
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_super_kernel("both", NULL));
    CHECK_OK(weir_exp(x, &y));
    CHECK_OK(weir_tanh(y, &next));
    take(&y, next);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_SUPER_KERNEL));
    CHECK_OK(weir_neg(y, &next));
    take(&y, next);
    CHECK_OK(weir_abs(y, &next));
    take(&y, next);
    plan = plan_of(g, y);
    CHECK_EQ(launches(plan), 2);
    list = weir_plan_list(plan);
    CHECK_STR(list, "in registers");
    free(list);
    weir_tensor_release(x);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* A copy that turns its input is another kernel; in the mode that tunes nothing there are no
 * chains. */
TEST(cuda_chains, operators_that_form_no_chain_are_launched_apart)
{
    weir_device *dev = open_gpu("cuda:0");

    for (int tuned = 0; tuned < 2; tuned++) {
        weir_tensor *x, *turned, *y, *next;
        weir_graph *g;
        weir_plan *plan;

        CHECK_OK(weir_graph_create(dev, &g));
        x = input(g, "x", WEIR_F32, COLS, COLS);
        CHECK_OK(weir_graph_begin(g));
        CHECK_OK(weir_exp(x, &y));
        CHECK_OK(weir_tanh(y, &next));
        take(&y, next);
        CHECK_OK(weir_tensor_transpose(y, 0, 1, &turned));
        CHECK_OK(weir_copy(turned, &next));
        take(&y, next);
        CHECK_OK(weir_neg(y, &next));
        take(&y, next);
        CHECK_OK(weir_graph_end(g));
        CHECK_OK(weir_graph_output(g, "y", y));
        CHECK_OK(weir_graph_compile(
            g,
            &(weir_compile_options){.mode = tuned ? WEIR_COMPILE_MAX_AUTOTUNE
                                                  : WEIR_COMPILE_REDUCE_OVERHEAD},
            &plan));
        CHECK_EQ(launches(plan), tuned ? 3 : 4);
        weir_tensor_release(x);
        weir_tensor_release(y);
        weir_tensor_release(turned);
        weir_graph_destroy(g);
        weir_plan_destroy(plan);
    }
    CHECK_OK(weir_device_close(dev));
}

static weir_tensor *cache(weir_graph *g, const char *name, int64_t width)
{
    weir_tensor *t;

    CHECK_OK(weir_graph_input(g, name, WEIR_BF16, 4, (int64_t[]){2, 4, 16, width}, &t));
    return t;
}

/* One row of `width` elements for each of the cache's, at the place that `index` names. */
static void put_row(weir_tensor *cache, weir_tensor *index, weir_tensor *row, int64_t width)
{
    weir_tensor *at, *x, *part;

    CHECK_OK(weir_tensor_slice(row, 3, 0, width, 1, &part));
    CHECK_OK(weir_tensor_reshape(index, 4, (int64_t[]){1, 1, 1, 1}, &x));
    CHECK_OK(weir_tensor_expand(x, 4, (int64_t[]){2, 4, 1, width}, &at));
    CHECK_OK(weir_scatter(cache, 2, at, part));
    weir_tensor_release(at);
    weir_tensor_release(x);
    weir_tensor_release(part);
}

/* Caches of one layer get a token's keys and values: rows of different lengths, too. */
TEST(cuda_chains, rows_for_several_caches_at_one_place_are_one_launch)
{
    weir_device *dev = open_gpu("cuda:0");

    for (int k = 0; k < 3; k++) {
        weir_tensor *keys, *values, *index, *row, *counted;
        weir_graph *g;
        weir_plan *plan;

        CHECK_OK(weir_graph_create(dev, &g));
        keys = cache(g, "keys", 72);
        values = k == 1 ? weir_tensor_retain(keys) : cache(g, "values", 64);
        CHECK_OK(weir_graph_input(g, "row", WEIR_BF16, 4, (int64_t[]){2, 4, 1, 72}, &row));
        CHECK_OK(weir_graph_input(g, "index", WEIR_I64, 1, (int64_t[]){1}, &index));
        CHECK_OK(weir_graph_begin(g));
        put_row(keys, index, row, 72);
        CHECK_OK(weir_add_scalar(index, 1, &counted));
        if (k == 2) { /* the other place is another one */
            put_row(values, counted, row, 64);
        } else {
            weir_tensor_release(counted);
            put_row(values, index, row, 64);
            CHECK_OK(weir_add_scalar(index, 1, &counted));
        }
        plan = plan_of(g, counted);
        /* Into one cache they go one after the other. */
        CHECK_EQ(launches(plan), k == 0 ? 2 : 3);
        weir_tensor_release(keys);
        weir_tensor_release(values);
        weir_tensor_release(index);
        weir_tensor_release(row);
        weir_plan_destroy(plan);
    }
    CHECK_OK(weir_device_close(dev));
}

/* What a step of a model counts: each sum goes back to where it came from. */
TEST(cuda_chains, sums_that_are_written_back_are_one_launch)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *given[3], *in[3], *sum, *out = NULL;
    float got[COLS];
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < 3; i++) {
        given[i] = gpu_tensor(s, WEIR_F32, COLS, i + 1); /* 1, 2, 3 */
        CHECK_OK(weir_graph_input(g, (char[]){(char)('x' + i), 0}, WEIR_F32, 1, (int64_t[]){COLS},
                                  &in[i]));
    }
    CHECK_OK(weir_graph_begin(g));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_add(in[i], in[(i + 1) % 3], &sum));
        CHECK_OK(weir_copy_into(sum, in[i]));
        if (i < 2)
            weir_tensor_release(sum);
    }
    plan = plan_of(g, sum);
    CHECK_EQ(launches(plan), 1);
    CHECK_OK(weir_plan_run(plan, s, given, 3, &out, 1));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_tensor_read(given[i], got, sizeof got));
        CHECK_EQ((int)got[COLS - 1], ((int[]){3, 5, 6})[i]); /* the last sum has the first */
        weir_tensor_release(given[i]);
        weir_tensor_release(in[i]);
    }
    weir_tensor_release(out);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

static weir_tensor *random_rows(weir_stream *s, int64_t length, int64_t heads, int64_t d,
                                uint64_t seed)
{
    weir_tensor *t;

    CHECK_OK(heads ? weir_tensor_empty(s, WEIR_BF16, 3, (int64_t[]){length, heads, d}, &t)
                   : weir_tensor_empty(s, WEIR_BF16, 2, (int64_t[]){length, d}, &t));
    CHECK_OK(weir_random_uniform(t, seed, -1, 1));
    return t;
}

/* A layer's queries and keys, of which there are fewer heads; `k` 1: the keys' rows are of another
 * length; 2: what was turned is turned again. */
static int turn_two(weir_device *dev, int k)
{
    enum { LENGTH = 5, HEADS = 4, D = 32 };
    weir_stream *s = weir_stream_default(dev);
    int64_t own = k == 1 ? 18 : D;
    weir_tensor *q = random_rows(s, LENGTH, HEADS, D, 1),
                *keys = random_rows(s, LENGTH, k == 2 ? HEADS : 2, own, 2);
    weir_tensor *cosines = random_rows(s, LENGTH, 0, D / 2, 3),
                *sines = random_rows(s, LENGTH, 0, D / 2, 4);
    weir_tensor *c, *n, *want[2], *got[2] = {NULL, NULL}, *made[2], *in[4],
                                  *given[] = {q, keys, cosines, sines};
    uint16_t a[LENGTH * HEADS * D], b[LENGTH * HEADS * D];
    weir_graph *g;
    weir_plan *plan;
    int count;

    CHECK_OK(weir_tensor_slice(cosines, 1, 0, own / 2, 1, &c));
    CHECK_OK(weir_tensor_slice(sines, 1, 0, own / 2, 1, &n));
    CHECK_OK(weir_rotary(q, cosines, sines, false, &want[0]));
    CHECK_OK(weir_rotary(k == 2 ? want[0] : keys, c, n, false, &want[1]));
    weir_tensor_release(c);
    weir_tensor_release(n);
    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < 4; i++) {
        int64_t shape[3] = {LENGTH, i == 0 ? HEADS : k == 2 ? HEADS : 2, i == 0 ? D : own};
        char name[2] = {(char)('a' + i), 0};

        if (i < 2)
            CHECK_OK(weir_graph_input(g, name, WEIR_BF16, 3, shape, &in[i]));
        else
            CHECK_OK(weir_graph_input(g, name, WEIR_BF16, 2, (int64_t[]){LENGTH, D / 2}, &in[i]));
    }
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_tensor_slice(in[2], 1, 0, own / 2, 1, &c));
    CHECK_OK(weir_tensor_slice(in[3], 1, 0, own / 2, 1, &n));
    CHECK_OK(weir_rotary(in[0], in[2], in[3], false, &made[0]));
    CHECK_OK(weir_rotary(k == 2 ? made[0] : in[1], c, n, false, &made[1]));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "q", made[0]));
    CHECK_OK(weir_graph_output(g, "k", made[1]));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_plan_run(plan, s, given, 4, got, 2));
    for (int i = 0; i < 2; i++) {
        size_t size = (size_t)(i && k != 2 ? LENGTH * 2 * own : LENGTH * HEADS * D) * sizeof *a;

        CHECK_OK(weir_tensor_read(want[i], a, size));
        CHECK_OK(weir_tensor_read(got[i], b, size));
        CHECK_MEM_EQ(a, b, size);
        weir_tensor_release(want[i]);
        weir_tensor_release(got[i]);
        weir_tensor_release(made[i]);
    }
    count = launches(plan);
    for (int i = 0; i < 4; i++) {
        weir_tensor_release(in[i]);
        weir_tensor_release(given[i]);
    }
    weir_tensor_release(c);
    weir_tensor_release(n);
    weir_graph_destroy(g);
    weir_plan_destroy(plan);
    return count;
}

TEST(cuda_chains, rotary_embeddings_of_queries_and_keys_are_one_launch)
{
    weir_device *dev = open_gpu("cuda:0");

    for (int k = 0; k < 3; k++) {
        test_note("kind %d", k);
        CHECK_EQ(turn_two(dev, k), k == 2 ? 2 : 1);
    }
    CHECK_OK(weir_device_close(dev));
}
