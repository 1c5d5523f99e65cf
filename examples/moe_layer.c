/* A mixture-of-experts layer, its shared expert on a stream of its own.
 *
 *        ┌── second: shared expert ────────────────────────┐
 *   x ───┤                                                 ├── sum
 *        └── default: gate, then expert by expert ─────────┘
 *
 *   cc moe_layer.c $(pkg-config --cflags --libs weir) -lm && ./a.out
 */
#include <weir/weir.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                     \
    do {                                                \
        if ((call) != WEIR_OK) {                        \
            fprintf(stderr, "%s\n", weir_last_error()); \
            exit(1);                                    \
        }                                               \
    } while (0)

enum { TOKENS = 32, HIDDEN = 128, EXPERTS = 4, CHOSEN = 2, INNER = 256 };

struct expert {
    weir_tensor *up, *down;
};

struct layer {
    weir_tensor *router;
    struct expert shared, routed[EXPERTS];
};

static weir_tensor *random_matrix(weir_stream *stream, int64_t rows, int64_t columns, uint64_t seed)
{
    weir_tensor *t;

    CHECK(weir_tensor_empty(stream, WEIR_F32, 2, (int64_t[]){rows, columns}, &t));
    CHECK(weir_random_normal(t, seed, 0, 1 / sqrt((double)columns)));
    return t;
}

static struct expert make_expert(weir_stream *stream, uint64_t seed)
{
    return (struct expert){random_matrix(stream, 2 * INNER, HIDDEN, seed),
                           random_matrix(stream, HIDDEN, INNER, seed + 1)};
}

static void free_expert(struct expert *e)
{
    weir_tensor_release(e->up);
    weir_tensor_release(e->down);
}

/* Tensors in between are released at once: queued work keeps their bytes. */
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

/* out[tokens] += weights * expert(x[tokens]), for the tokens that chose this expert. */
static void add_expert(const struct expert *e, int number, weir_stream *stream, weir_tensor *x,
                       weir_tensor *weights, const int32_t *chosen, weir_tensor *out)
{
    int64_t tokens[TOKENS * CHOSEN], choices[TOKENS * CHOSEN], n = 0;
    weir_tensor *rows, *places, *mine, *y, *weight, *weighted, *column, *target;

    for (int i = 0; i < TOKENS * CHOSEN; i++)
        if (chosen[i] == number) {
            tokens[n] = i / CHOSEN;
            choices[n++] = i;
        }
    if (!n)
        return;
    CHECK(weir_tensor_from(stream, WEIR_I64, 1, &n, tokens, &rows));
    CHECK(weir_tensor_from(stream, WEIR_I64, 1, &n, choices, &places));
    CHECK(weir_index_select(x, 0, rows, &mine));
    y = run_expert(e, mine);
    CHECK(weir_index_select(weights, 0, places, &weight));
    CHECK(weir_mul(y, weight, &weighted));
    CHECK(weir_tensor_reshape(rows, 2, (int64_t[]){n, 1}, &column));
    CHECK(weir_tensor_expand(column, 2, (int64_t[]){n, HIDDEN}, &target));
    CHECK(weir_scatter_add(out, 0, target, weighted));

    weir_tensor *done[] = {rows, places, mine, y, weight, weighted, column, target};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
}

/* `second` may be `first` itself: then everything runs one after the other. */
static void forward(const struct layer *l, weir_stream *first, weir_stream *second, weir_tensor *x,
                    float *values)
{
    weir_tensor *shared, *logits, *by_token, *experts, *weights, *out, *sum;
    int32_t chosen[TOKENS * CHOSEN];

    CHECK(weir_stream_wait_stream(second, first)); /* x is made there */
    CHECK(weir_stream_set_current(second));
    shared = run_expert(&l->shared, x);

    CHECK(weir_stream_set_current(first));
    CHECK(weir_linear(x, l->router, NULL, &logits));
    CHECK(weir_moe_gating(logits, CHOSEN, true, &by_token, &experts));
    CHECK(weir_tensor_reshape(by_token, 2, (int64_t[]){TOKENS * CHOSEN, 1}, &weights));
    CHECK(weir_tensor_read(experts, chosen, sizeof chosen)); /* the shared expert runs meanwhile */
    CHECK(weir_tensor_empty(first, WEIR_F32, 2, (int64_t[]){TOKENS, HIDDEN}, &out));
    CHECK(weir_fill(out, 0));
    for (int e = 0; e < EXPERTS; e++)
        add_expert(&l->routed[e], e, first, x, weights, chosen, out);

    CHECK(weir_stream_wait_stream(first, second));
    CHECK(weir_add(out, shared, &sum));
    CHECK(weir_tensor_read(sum, values, TOKENS * HIDDEN * sizeof *values));

    weir_tensor *done[] = {shared, logits, by_token, experts, weights, out, sum};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        weir_tensor_release(done[i]);
}

int main(void)
{
    static float one[TOKENS * HIDDEN], two[TOKENS * HIDDEN];
    weir_device *dev;
    weir_stream *first, *second;
    struct layer l;
    weir_tensor *x;
    bool same;

    CHECK(weir_device_open(NULL, &dev));
    first = weir_stream_default(dev);
    CHECK(weir_stream_tagged(dev, "second", 0, &second));
    x = random_matrix(first, TOKENS, HIDDEN, 1);
    l.router = random_matrix(first, EXPERTS, HIDDEN, 2);
    l.shared = make_expert(first, 3);
    for (int e = 0; e < EXPERTS; e++)
        l.routed[e] = make_expert(first, 10 + 2 * (uint64_t)e);

    forward(&l, first, first, x, one);
    forward(&l, first, second, x, two);
    same = !memcmp(one, two, sizeof one);
    printf("one stream and two give %s numbers; the first is %g\n", same ? "the same" : "different",
           (double)one[0]);

    weir_tensor_release(x);
    weir_tensor_release(l.router);
    free_expert(&l.shared);
    for (int e = 0; e < EXPERTS; e++)
        free_expert(&l.routed[e]);
    CHECK(weir_device_close(dev));
    return !same;
}
