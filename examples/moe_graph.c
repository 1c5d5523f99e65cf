/* A mixture-of-experts layer as a graph, its shared expert on a stream of its own.
 *
 *        ┌── "shared": shared expert ─────────────────────────────────────┐
 *   x ───┤                                                                ├── sum
 *        └── caller: gate ── dispatch, expert, combine, for each expert ──┘
 *
 * Shapes are fixed: an expert takes the tokens that weigh most for it, up to its capacity;
 * a token that did not choose it weighs nothing. The graph is captured twice, once without
 * the stream, compiled, and run side by side: the numbers must be the same.
 *
 *   cc moe_graph.c $(pkg-config --cflags --libs weir) -lm && ./a.out
 */
#include <weir/weir.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                     \
    do {                                                \
        if ((call) != WEIR_OK) {                        \
            fprintf(stderr, "%s\n", weir_last_error()); \
            exit(1);                                    \
        }                                               \
    } while (0)

enum { TOKENS = 16, HIDDEN = 256, EXPERTS = 8, CHOSEN = 2, INNER = 256, SHARED_INNER = 1024 };
enum { CAPACITY = 2 * TOKENS * CHOSEN / EXPERTS, ROUNDS = 200 };

struct expert {
    weir_tensor *up, *down;
};

struct layer {
    weir_tensor *router, *nothing; /* zeros, as many as there are choices */
    struct expert shared, routed[EXPERTS];
};

static weir_tensor *random_matrix(weir_stream *stream, int64_t rows, int64_t columns, uint64_t seed)
{
    weir_tensor *t;

    CHECK(weir_tensor_empty(stream, WEIR_F32, 2, (int64_t[]){rows, columns}, &t));
    CHECK(weir_random_normal(t, seed, 0, 1 / sqrt((double)columns)));
    return t;
}

static struct layer make_layer(weir_stream *s)
{
    struct layer l = {.router = random_matrix(s, EXPERTS, HIDDEN, 2)};

    CHECK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){TOKENS, CHOSEN}, &l.nothing));
    CHECK(weir_fill(l.nothing, 0));
    for (int e = -1; e < EXPERTS; e++) {
        struct expert *expert = e < 0 ? &l.shared : &l.routed[e];
        int64_t inner = e < 0 ? SHARED_INNER : INNER;
        uint64_t seed = 10 + 2 * (uint64_t)(e + 1);

        expert->up = random_matrix(s, 2 * inner, HIDDEN, seed);
        expert->down = random_matrix(s, HIDDEN, inner, seed + 1);
    }
    return l;
}

static void free_layer(struct layer *l)
{
    weir_tensor_release(l->router);
    weir_tensor_release(l->nothing);
    weir_tensor_release(l->shared.up);
    weir_tensor_release(l->shared.down);
    for (int e = 0; e < EXPERTS; e++) {
        weir_tensor_release(l->routed[e].up);
        weir_tensor_release(l->routed[e].down);
    }
}

/* ---- the layer: without a graph the same calls would run at once ---- */

static weir_tensor *run_expert(const struct expert *e, weir_tensor *x)
{
    weir_tensor *inner, *gated, *y;

    CHECK(weir_linear(x, e->up, NULL, &inner));
    CHECK(weir_swiglu(inner, -1, &gated));
    CHECK(weir_linear(gated, e->down, NULL, &y));
    weir_tensor_release(inner);
    weir_tensor_release(gated);
    return y;
}

/* Dispatch: the tokens that the expert takes, and their weights. */
static void dispatch(const struct layer *l, int number, weir_tensor *weights, weir_tensor *experts,
                     weir_tensor **weight, weir_tensor **rows)
{
    weir_tensor *mine, *of_choice, *of_token;

    CHECK(weir_eq_scalar(experts, number, &mine));
    CHECK(weir_where(mine, weights, l->nothing, &of_choice));
    CHECK(weir_sum(of_choice, (int[]){1}, 1, false, &of_token));
    CHECK(weir_topk(of_token, CAPACITY, 0, true, weight, rows));
    weir_tensor_release(mine);
    weir_tensor_release(of_choice);
    weir_tensor_release(of_token);
}

/* Combine: out[rows] += weight * expert(x[rows]). */
static void combine(const struct expert *e, weir_tensor *x, weir_tensor *weight, weir_tensor *rows,
                    weir_tensor *out)
{
    weir_tensor *taken, *y, *by_row, *weighted, *column, *target;

    CHECK(weir_index_select(x, 0, rows, &taken));
    y = run_expert(e, taken);
    CHECK(weir_tensor_reshape(weight, 2, (int64_t[]){CAPACITY, 1}, &by_row));
    CHECK(weir_mul(y, by_row, &weighted));
    CHECK(weir_tensor_reshape(rows, 2, (int64_t[]){CAPACITY, 1}, &column));
    CHECK(weir_tensor_expand(column, 2, (int64_t[]){CAPACITY, HIDDEN}, &target));
    CHECK(weir_scatter_add(out, 0, target, weighted));

    weir_tensor *done[] = {taken, y, by_row, weighted, column, target};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
}

static weir_tensor *forward(const struct layer *l, weir_tensor *x, const char *shared_stream)
{
    weir_tensor *shared = NULL, *logits, *weights, *experts, *out, *sum;

    WEIR_STREAM_SCOPE(shared_stream, 0)
    shared = run_expert(&l->shared, x);

    CHECK(weir_linear(x, l->router, NULL, &logits));
    CHECK(weir_moe_gating(logits, CHOSEN, true, &weights, &experts));
    CHECK(weir_mul_scalar(x, 0, &out));
    for (int e = 0; e < EXPERTS; e++) {
        weir_tensor *weight, *rows;

        dispatch(l, e, weights, experts, &weight, &rows);
        combine(&l->routed[e], x, weight, rows, out);
        weir_tensor_release(weight);
        weir_tensor_release(rows);
    }
    CHECK(weir_add(out, shared, &sum)); /* waits for the other stream: weir sees the edge */

    weir_tensor *done[] = {shared, logits, weights, experts, out};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
    return sum;
}

/* ---- capturing and running ---- */

static weir_plan *compile(weir_device *dev, const struct layer *l, const char *shared_stream)
{
    weir_graph *graph;
    weir_plan *plan;
    weir_tensor *x, *y;

    CHECK(weir_graph_create(dev, &graph));
    CHECK(weir_graph_input(graph, "x", WEIR_F32, 2, (int64_t[]){TOKENS, HIDDEN}, &x));
    CHECK(weir_graph_begin(graph));
    y = forward(l, x, shared_stream);
    CHECK(weir_graph_end(graph));
    CHECK(weir_graph_output(graph, "y", y));
    CHECK(weir_graph_compile(graph, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_graph_destroy(graph);
    return plan;
}

static double run(weir_plan *plan, weir_stream *s, weir_tensor *x, weir_tensor *y)
{
    struct timespec from, to;

    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK(weir_plan_run(plan, s, &x, 1, &y, 1));
    CHECK(weir_stream_sync(s));
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(void)
{
    static const char *const shared_streams[2] = {"default", "shared"};
    static float values[2][TOKENS * HIDDEN];
    static double us[2][ROUNDS];
    weir_tensor *x, *y[2];
    weir_plan *plans[2];
    weir_device *dev;
    struct layer l;
    char *list;
    int same;

    CHECK(weir_device_open(NULL, &dev));
    weir_stream *s = weir_stream_default(dev);

    l = make_layer(s);
    x = random_matrix(s, TOKENS, HIDDEN, 1);
    for (int i = 0; i < 2; i++) {
        plans[i] = compile(dev, &l, shared_streams[i]);
        CHECK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){TOKENS, HIDDEN}, &y[i]));
    }
    if ((list = weir_plan_list(plans[1])))
        fputs(list, stdout);
    free(list);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++)
            us[i][round] = run(plans[i], s, x, y[i]);
    for (int i = 0; i < 2; i++) {
        CHECK(weir_tensor_read(y[i], values[i], sizeof values[i]));
        qsort(us[i], ROUNDS, sizeof us[i][0], ascending);
    }
    same = !memcmp(values[0], values[1], sizeof values[0]);
    printf("one stream and two give %s numbers\n", same ? "the same" : "DIFFERENT");
    printf("one stream %.0f us, two %.0f us: %.2fx\n", us[0][ROUNDS / 2], us[1][ROUNDS / 2],
           us[0][ROUNDS / 2] / us[1][ROUNDS / 2]);

    for (int i = 0; i < 2; i++) {
        weir_plan_destroy(plans[i]);
        weir_tensor_release(y[i]);
    }
    weir_tensor_release(x);
    free_layer(&l);
    CHECK(weir_device_close(dev));
    return !same;
}
