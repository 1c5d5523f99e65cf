/* Random programs of operators in place, in plans, where devices join those that stand side by
 * side, leave the bits in their arguments that the operators leave one by one: rows that go into
 * caches at positions that are counted up, caches that read each other, copies back into arguments.
 */
#include "conformance/conformance.h"

#include <stdlib.h>

enum { CACHES = 3, COUNTS = 3, FLATS = 2, INPUTS = CACHES + COUNTS + FLATS + 1, HEADS = 2 };

/* Caches are batch x HEADS x room x width, tokens batch x 3 * HEADS * width. */
struct program {
    uint64_t salt;
    weir_dtype dtype;
    int64_t batch, room, width, flat;
    bool own_places; /* each sequence counts for itself */
    int nsteps;
};

struct state {
    weir_tensor *at[INPUTS]; /* caches, counts, flat values, tokens */
};

static void replace(weir_tensor **x, weir_tensor *next)
{
    weir_tensor_release(*x);
    *x = next;
}

/* Elements of row `part` of the tokens, as the cache's rows are: batch x HEADS x 1 x width. */
static weir_tensor *token(const struct program *p, weir_tensor *tokens, int64_t part)
{
    weir_tensor *x, *next;
    int64_t size = HEADS * p->width;

    CHECK_OK(weir_tensor_slice(tokens, 1, part * size, (part + 1) * size, 1, &x));
    CHECK_OK(weir_tensor_reshape(x, 4, (int64_t[]){p->batch, 1, HEADS, p->width}, &next));
    replace(&x, next);
    CHECK_OK(weir_tensor_permute(x, (int[]){0, 2, 1, 3}, &next));
    replace(&x, next);
    return x;
}

/* A cache's row at `place`, as a source. */
static weir_tensor *row_of(weir_tensor *cache, int64_t place)
{
    weir_tensor *x;

    CHECK_OK(weir_tensor_slice(cache, 2, place, place + 1, 1, &x));
    return x;
}

static void put(const struct program *p, struct state *s, struct rng *rng)
{
    int to = (int)rng_int(rng, 0, CACHES - 1), count = (int)rng_int(rng, 0, COUNTS - 1);
    weir_tensor *index, *next, *source;

    CHECK_OK(weir_tensor_reshape(s->at[CACHES + count], 4,
                                 (int64_t[]){p->own_places ? p->batch : 1, 1, 1, 1}, &index));
    CHECK_OK(weir_tensor_expand(index, 4, (int64_t[]){p->batch, HEADS, 1, p->width}, &next));
    replace(&index, next);
    source = rng_chance(rng, 75) ? token(p, s->at[INPUTS - 1], rng_int(rng, 0, 2))
                                 : row_of(s->at[(to + 2) % CACHES], p->room - 1);
    CHECK_OK(weir_scatter(s->at[to], 2, index, source));
    if (rng_chance(rng, 60)) { /* another cache at the same places */
        CHECK_OK(weir_scatter(s->at[(to + 1) % CACHES], 2, index, source));
    }
    weir_tensor_release(index);
    weir_tensor_release(source);
}

/* x = f(y, z), x written back, all of one kind. */
static void compute(struct state *s, int first, int n, bool counts, struct rng *rng)
{
    weir_tensor **x = &s->at[first + rng_int(rng, 0, n - 1)];
    weir_tensor *y = s->at[first + rng_int(rng, 0, n - 1)];
    weir_tensor *z = s->at[first + rng_int(rng, 0, n - 1)], *made;

    if (counts || rng_chance(rng, 40))
        CHECK_OK(weir_add_scalar(y, 1, &made));
    else
        CHECK_OK(weir_add(y, z, &made));
    if (counts) { /* to stay within the caches */
        CHECK_OK(weir_clamp(made, 0, 5, &z));
        replace(&made, z);
    }
    CHECK_OK(weir_copy_into(made, *x));
    weir_tensor_release(made);
}

/* The same for the same program, eager or captured. */
static void run(const struct program *p, struct state *s)
{
    struct rng rng = rng_make("in place", p->salt);

    for (int i = 0; i < p->nsteps; i++) {
        if (rng_chance(&rng, 50))
            put(p, s, &rng);
        else if (rng_chance(&rng, 60))
            compute(s, CACHES, COUNTS, true, &rng);
        else
            compute(s, CACHES + COUNTS, FLATS, false, &rng);
    }
}

static struct program random_program(struct rng *rng)
{
    static const weir_dtype types[] = {WEIR_BF16, WEIR_F32, WEIR_I8, WEIR_F64};
    static const int64_t widths[] = {1, 4, 7, 8, 64, 72};

    return (struct program){
        .salt = rng_next(rng),
        .dtype = types[rng_int(rng, 0, countof(types) - 1)],
        .batch = rng_int(rng, 1, 5),
        .room = rng_int(rng, 6, 9),
        .width = widths[rng_int(rng, 0, countof(widths) - 1)],
        .flat = rng_chance(rng, 50) ? 1 : rng_int(rng, 1, 700),
        .own_places = rng_chance(rng, 50),
        .nsteps = (int)rng_int(rng, 3, 20),
    };
}

static weir_dtype type_of(const struct program *p, int i)
{
    return i < CACHES || i == INPUTS - 1 ? p->dtype : i < CACHES + COUNTS ? WEIR_I64 : WEIR_F32;
}

static weir_tensor *make_input(weir_stream *s, const struct program *p, int i)
{
    struct rng rng = rng_make("in place, values", p->salt + (uint64_t)i);
    int64_t counts = p->own_places ? p->batch : 1;
    weir_tensor *made;
    struct array a;

    if (i < CACHES)
        array_init(&a, p->dtype, 4, (int64_t[]){p->batch, HEADS, p->room, p->width});
    else if (i == INPUTS - 1)
        array_init(&a, p->dtype, 2, (int64_t[]){p->batch, 3 * HEADS * p->width});
    else
        array_init(&a, type_of(p, i), 1, (int64_t[]){i < CACHES + COUNTS ? counts : p->flat});
    for (int64_t k = 0; k < array_numel(&a); k++)
        a.at[k] = (double)rng_int(&rng, 0, 5);
    made = upload(s, &a, LAYOUT_PLAIN, &rng);
    array_free(&a);
    return made;
}

static weir_plan *plan_of(weir_device *dev, const struct program *p, const struct state *given)
{
    struct state in;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < INPUTS; i++)
        CHECK_OK(weir_graph_input(g, (char[]){(char)('a' + i), 0}, type_of(p, i),
                                  weir_tensor_ndim(given->at[i]), weir_tensor_shape(given->at[i]),
                                  &in.at[i]));
    CHECK_OK(weir_graph_begin(g));
    run(p, &in);
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int i = 0; i < INPUTS; i++)
        weir_tensor_release(in.at[i]);
    weir_graph_destroy(g);
    return plan;
}

CONFORMANCE(chains, operators_in_place_leave_the_bits_that_they_leave_one_by_one)
{
    struct rng rng = rng_make("programs in place", 0);
    weir_stream *s = weir_stream_default(dev);

    for (unsigned trial = 0; trial < 8 + repeats(dev, 60); trial++) {
        struct program p = random_program(&rng);
        struct state want, got;
        weir_plan *plan;

        test_note("program %u: %d steps, %s, width %lld", trial, p.nsteps, weir_dtype_name(p.dtype),
                  (long long)p.width);
        for (int i = 0; i < INPUTS; i++) {
            want.at[i] = make_input(s, &p, i);
            got.at[i] = make_input(s, &p, i);
        }
        run(&p, &want);
        plan = plan_of(dev, &p, &got);
        CHECK_OK(weir_plan_run(plan, s, got.at, INPUTS, NULL, 0));
        for (int i = 0; i < INPUTS; i++) {
            check_same(want.at[i], got.at[i]);
            weir_tensor_release(want.at[i]);
            weir_tensor_release(got.at[i]);
        }
        CHECK_OK(weir_device_sync(dev));
        weir_plan_destroy(plan);
    }
}

/* Two rows at one place that is out of range: an error, and neither tensor is written to. */
CONFORMANCE(errors, rows_side_by_side_are_not_put_out_of_range)
{
    const struct program p = {
        .dtype = WEIR_BF16, .batch = 2, .room = 6, .width = 8, .flat = 1, .nsteps = 1};
    weir_stream *s = weir_stream_default(dev), *other = new_stream(dev);
    weir_tensor *given[4], *in[4], *index, *source, *next;
    weir_status st;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < 4; i++) {
        given[i] = make_input(s, &p, (int[]){0, 1, CACHES, INPUTS - 1}[i]);
        CHECK_OK(weir_graph_input(g, (char[]){(char)('a' + i), 0}, weir_tensor_dtype(given[i]),
                                  weir_tensor_ndim(given[i]), weir_tensor_shape(given[i]), &in[i]));
    }
    CHECK_OK(weir_fill(given[2], 6));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_tensor_reshape(in[2], 4, (int64_t[]){1, 1, 1, 1}, &index));
    CHECK_OK(weir_tensor_expand(index, 4, (int64_t[]){2, HEADS, 1, 8}, &next));
    replace(&index, next);
    source = token(&p, in[3], 0);
    CHECK_OK(weir_scatter(in[0], 2, index, source));
    CHECK_OK(weir_scatter(in[1], 2, index, source));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    if (!(st = weir_plan_run(plan, other, given, 4, NULL, 0)))
        st = weir_stream_sync(other);
    CHECK_EQ(st, WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "6");
    CHECK_OK(weir_stream_destroy(other));
    for (int i = 0; i < 4; i++) {
        weir_tensor_release(given[i]);
        weir_tensor_release(in[i]);
    }
    weir_tensor_release(index);
    weir_tensor_release(source);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
}
