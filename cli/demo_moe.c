/* A mixture-of-experts layer: a shared expert that sees every token beside routed
 * experts that each see the tokens a gate sends them. The two halves meet only in
 * the sum at the end, so the shared expert may have a stream of its own. */
#include "demo.h"

#include <math.h>

enum { TOKENS = 64, HIDDEN = 512, EXPERTS = 8, CHOSEN = 2, INNER = 768, SHARED_INNER = 2048 };

/* down(swiglu(up(x))) */
struct expert {
    weir_tensor *up, *down;
};

struct layer {
    weir_stream *main, *side;
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

/* Which expert each token chose, on the host; `weights` is the caller's, [tokens * k, 1]. */
static void route(const struct layer *l, struct demo_run *run, weir_tensor **weights,
                  int32_t chosen[static TOKENS * CHOSEN])
{
    struct demo_span *span = demo_span_begin(run, l->main, "gate", 0);
    weir_tensor *logits, *experts, *by_token;

    demo_must(weir_linear(l->x, l->router, NULL, &logits));
    demo_must(weir_moe_gating(logits, CHOSEN, true, &by_token, &experts));
    demo_must(weir_tensor_reshape(by_token, 2, (int64_t[]){TOKENS * CHOSEN, 1}, weights));
    demo_span_end(span, l->main);
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
static void add_expert(const struct layer *l, int e, const int32_t *chosen, weir_tensor *weights,
                       weir_tensor *out)
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
    rows = index_tensor(l->main, tokens, n);
    places = index_tensor(l->main, choices, n);
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

static void record(const struct layer *l, weir_stream *side, struct demo_run *run, float *values)
{
    static const char *const names[EXPERTS] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    int32_t chosen[TOKENS * CHOSEN];
    weir_tensor *shared, *weights, *out, *sum;
    struct demo_span *span;

    demo_must(weir_stream_set_current(l->main));
    demo_run_begin(run, l->main);
    demo_must(weir_stream_wait_stream(side, l->main)); /* x is ready */

    demo_must(weir_stream_set_current(side));
    span = demo_span_begin(run, side, "shared", 1);
    shared = run_expert(&l->shared, l->x);
    demo_span_end(span, side);

    demo_must(weir_stream_set_current(l->main));
    demo_must(weir_tensor_empty(l->main, WEIR_F32, 2, (int64_t[]){TOKENS, HIDDEN}, &out));
    demo_must(weir_fill(out, 0));
    route(l, run, &weights, chosen);
    for (int e = 0; e < EXPERTS; e++) {
        span = demo_span_begin(run, l->main, names[e], 0);
        add_expert(l, e, chosen, weights, out);
        demo_span_end(span, l->main);
    }
    demo_must(weir_stream_wait_stream(l->main, side));
    demo_must(weir_add(out, shared, &sum));
    demo_run_end(run);

    demo_must(weir_tensor_read(sum, values, TOKENS * HIDDEN * sizeof *values));
    weir_tensor_release(shared);
    weir_tensor_release(weights);
    weir_tensor_release(out);
    weir_tensor_release(sum);
}

static void record_one(void *program, struct demo_run *run, float *values)
{
    const struct layer *l = program;

    record(l, l->main, run, values);
}

static void record_two(void *program, struct demo_run *run, float *values)
{
    const struct layer *l = program;

    record(l, l->side, run, values);
}

static void make(struct layer *l, weir_device *dev)
{
    l->main = weir_stream_default(dev);
    demo_must(weir_stream_tagged(dev, "expert", 0, &l->side));
    demo_must(weir_stream_set_current(l->main));
    l->x = random_tensor(l->main, TOKENS, HIDDEN, 1);
    l->router = random_tensor(l->main, EXPERTS, HIDDEN, 2);
    l->shared = make_expert(l->main, SHARED_INNER, 3);
    for (int e = 0; e < EXPERTS; e++)
        l->routed[e] = make_expert(l->main, INNER, 10 + 2 * (uint64_t)e);
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
    static const struct demo_form forms[] = {{"1 stream", record_one}, {"2 streams", record_two}};
    struct demo_comparison c;
    struct layer l;
    bool same;

    make(&l, dev);
    demo_compare(dev, forms, 2, &l, (size_t)TOKENS * HIDDEN, &c);
    if (j) {
        json_object(j, "moe");
        demo_comparison_json(&c, j);
        json_object_end(j);
    } else {
        demo_headline(3, "A mixture-of-experts layer",
                      "64 tokens, 8 experts of which each token takes 2, and a shared expert.");
        demo_comparison_print(&c);
    }
    same = c.same;
    demo_comparison_free(&c);
    unmake(&l);
    return same;
}
