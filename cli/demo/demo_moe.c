/* A mixture-of-experts layer: a shared expert computes every token; each routed expert computes the
 * tokens that a gate sends to it. The two halves are independent until the sum at the end, so the
 * shared expert may run on its own stream. */
#include "demo/demo.h"

#include <math.h>

enum { TOKENS = 64, HIDDEN = 256, EXPERTS = 8, CHOSEN = 2, INNER = 256, SHARED_INNER = 1024 };

/* down(swiglu(up(x))) */
struct expert {
    weir_tensor *up, *down;
};

struct layer {
    weir_tensor *x, *router;
    struct expert shared, routed[EXPERTS];
};

static weir_tensor *random_tensor(weir_stream *stream, int64_t rows, int64_t columns, uint64_t seed)
{
    weir_tensor *t;

    demo_must(weir_tensor_empty(stream, WEIR_F32, 2, (int64_t[]){rows, columns}, &t));
    demo_must(weir_random_normal(t, seed, 0, 1 / sqrt((double)columns)));
    return t;
}

static struct expert make_expert(weir_stream *stream, int64_t inner, uint64_t seed)
{
    return (struct expert){
        .up = random_tensor(stream, 2 * inner, HIDDEN, seed),
        .down = random_tensor(stream, HIDDEN, inner, seed + 1),
    };
}

static void free_expert(struct expert *e)
{
    weir_tensor_release(e->up);
    weir_tensor_release(e->down);
}

static weir_tensor *run_expert(const struct expert *e, weir_tensor *x)
{
    weir_tensor *inner, *gated, *y;

    demo_must(weir_linear(x, e->up, NULL, &inner));
    demo_must(weir_swiglu(inner, -1, &gated));
    demo_must(weir_linear(gated, e->down, NULL, &y));
    weir_tensor_release(inner);
    weir_tensor_release(gated);
    return y;
}

/* Computes on the host which experts each token chose. The caller owns *weights, of shape
 * [tokens * k, 1]. */
static void route(const struct layer *l, weir_stream *stream, struct demo_run *run,
                  weir_tensor **weights, int32_t chosen[static TOKENS * CHOSEN])
{
    struct demo_span *span = demo_span_begin(run, stream, "gate", 0);
    weir_tensor *logits, *experts, *by_token;

    demo_must(weir_linear(l->x, l->router, NULL, &logits));
    demo_must(weir_moe_gating(logits, CHOSEN, true, &by_token, &experts));
    demo_must(weir_tensor_reshape(by_token, 2, (int64_t[]){TOKENS * CHOSEN, 1}, weights));
    demo_span_end(span, stream);
    demo_must(weir_tensor_read(experts, chosen, TOKENS * CHOSEN * sizeof *chosen));
    weir_tensor_release(logits);
    weir_tensor_release(experts);
    weir_tensor_release(by_token);
}

static weir_tensor *index_tensor(weir_stream *stream, const int64_t *index, int64_t n)
{
    weir_tensor *t;

    demo_must(weir_tensor_from(stream, WEIR_I64, 1, &n, index, &t));
    return t;
}

/* out[tokens of this expert] += weight * expert(x[those tokens]) */
static void add_expert(const struct layer *l, weir_stream *stream, int e, const int32_t *chosen,
                       weir_tensor *weights, weir_tensor *out)
{
    int64_t tokens[TOKENS * CHOSEN], choices[TOKENS * CHOSEN], n = 0;
    weir_tensor *rows, *places, *x, *y, *weight, *weighted, *column, *target;

    for (int i = 0; i < TOKENS * CHOSEN; i++)
        if (chosen[i] == e) {
            tokens[n] = i / CHOSEN;
            choices[n++] = i;
        }
    if (!n)
        return;
    rows = index_tensor(stream, tokens, n);
    places = index_tensor(stream, choices, n);
    demo_must(weir_index_select(l->x, 0, rows, &x));
    y = run_expert(&l->routed[e], x);
    demo_must(weir_index_select(weights, 0, places, &weight));
    demo_must(weir_mul(y, weight, &weighted));
    demo_must(weir_tensor_reshape(rows, 2, (int64_t[]){n, 1}, &column));
    demo_must(weir_tensor_expand(column, 2, (int64_t[]){n, HIDDEN}, &target));
    demo_must(weir_scatter_add(out, 0, target, weighted));
    weir_tensor_release(rows);
    weir_tensor_release(places);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(weight);
    weir_tensor_release(weighted);
    weir_tensor_release(column);
    weir_tensor_release(target);
}

static void record(const void *data, weir_stream *main, weir_stream *side, struct demo_run *run,
                   float *values)
{
    static const char *const names[EXPERTS] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    const struct layer *l = data;
    int32_t chosen[TOKENS * CHOSEN];
    weir_tensor *shared, *weights, *out, *sum;
    struct demo_span *span;

    demo_must(weir_stream_set_current(main));
    demo_run_begin(run, main);
    demo_must(weir_stream_wait_stream(side, main)); /* x is ready */

    demo_must(weir_stream_set_current(side));
    span = demo_span_begin(run, side, "shared", 1);
    shared = run_expert(&l->shared, l->x);
    demo_span_end(span, side);

    demo_must(weir_stream_set_current(main));
    demo_must(weir_tensor_empty(main, WEIR_F32, 2, (int64_t[]){TOKENS, HIDDEN}, &out));
    demo_must(weir_fill(out, 0));
    route(l, main, run, &weights, chosen);
    for (int e = 0; e < EXPERTS; e++) {
        span = demo_span_begin(run, main, names[e], 0);
        add_expert(l, main, e, chosen, weights, out);
        demo_span_end(span, main);
    }
    demo_must(weir_stream_wait_stream(main, side));
    demo_must(weir_add(out, shared, &sum));
    demo_run_end(run);

    demo_must(weir_tensor_read(sum, values, TOKENS * HIDDEN * sizeof *values));
    weir_tensor_release(shared);
    weir_tensor_release(weights);
    weir_tensor_release(out);
    weir_tensor_release(sum);
}

static void make(struct layer *l, weir_device *dev)
{
    weir_stream *stream = weir_stream_default(dev);

    l->x = random_tensor(stream, TOKENS, HIDDEN, 1);
    l->router = random_tensor(stream, EXPERTS, HIDDEN, 2);
    l->shared = make_expert(stream, SHARED_INNER, 3);
    for (int e = 0; e < EXPERTS; e++)
        l->routed[e] = make_expert(stream, INNER, 10 + 2 * (uint64_t)e);
    demo_must(weir_device_sync(dev));
}

static void unmake(struct layer *l)
{
    weir_tensor_release(l->x);
    weir_tensor_release(l->router);
    free_expert(&l->shared);
    for (int e = 0; e < EXPERTS; e++)
        free_expert(&l->routed[e]);
}

bool demo_moe(weir_device *dev, struct json *j)
{
    struct demo_comparison c;
    struct layer l;

    make(&l, dev);
    demo_compare(dev, &(struct demo_program){record, &l, (size_t)TOKENS * HIDDEN}, &c);
    unmake(&l);
    if (j) {
        demo_comparison_json(&c, "moe", j);
        return c.same;
    }
    demo_headline(1, "A mixture-of-experts layer",
                  "A gate sends each of %d tokens to %d of %d experts. A shared expert gets all "
                  "tokens and can run on a second stream, while the host reads the gate's choice. "
                  "Every operator may use half of the cores; in the last row it may use all. The "
                  "best of %d runs:",
                  TOKENS, CHOSEN, EXPERTS, DEMO_REPEATS);
    demo_comparison_print(&c);
    return c.same;
}
