/* Plans whose inputs, outputs and constants lie in the same memory, at random: a run that would
 * write what is bound elsewhere is refused and writes nothing; any other leaves every byte as the
 * calls one by one leave it. The same where results become the inputs of the next run, and inputs
 * its results, while earlier runs are still going on. */
#include "conformance/graph/programs_run.h"

#include <stdlib.h>

/* Memory for tensors of one type. */
struct arena {
    char *bytes, *want;
    size_t size, used; /* `used` from the start is for constants */
};

struct bound {
    weir_dtype type;
    int ndim;
    const int64_t *shape;
    char *at; /* NULL: a new tensor of the run */
    size_t bytes;
    bool written;
};

struct bindings {
    weir_device *dev;
    struct program *p;
    struct rng rng;
    struct arena arenas[WEIR_DTYPE_COUNT];
    struct bound at[MAX_INPUTS + MAX_RESULTS]; /* inputs, constants, results */
    int nin, n;
    weir_tensor *constants[MAX_INPUTS];
};

static size_t bytes_of(weir_dtype type, int ndim, const int64_t *shape)
{
    size_t n = weir_dtype_size(type);

    for (int d = 0; d < ndim; d++)
        n *= (size_t)shape[d];
    return n;
}

static bool writes_to(const struct program *p, int v)
{
    for (int i = 0; i < p->nsteps; i++) {
        const struct step *s = &p->steps[i];

        if (!s->off && !s->nout && s->kind != WAIT && p->base[s->in[0]] == v)
            return true;
    }
    return false;
}

static weir_tensor *wrap(struct bindings *b, const struct bound *a)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_wrap(weir_stream_default(b->dev), a->type, a->ndim, a->shape, NULL, a->at,
                              NULL, NULL, &t));
    return t;
}

/* Somewhere in the memory behind `from`. */
static char *place(struct bindings *b, const struct bound *a, size_t from)
{
    struct arena *r = &b->arenas[a->type];
    size_t size = weir_dtype_size(a->type), room = (r->size - from - a->bytes) / size;

    return r->bytes + from + size * (size_t)rng_int(&b->rng, 0, (int64_t)room);
}

static void put_input(struct bindings *b, int i, uint64_t round)
{
    weir_tensor *t = program_input(b->p, b->dev, i, 0, round);
    char *bytes = read_bytes(t, NULL);

    if (b->at[i].bytes)
        memcpy(b->at[i].at, bytes, b->at[i].bytes);
    free(bytes);
    weir_tensor_release(t);
}

static void make_arenas(struct bindings *b)
{
    struct program *p = b->p;

    b->n = p->ninputs;
    for (int i = 0; i < p->ninputs; i++) {
        size_t bytes = bytes_of(p->type[i], p->ndim[i], p->shape[i]);

        b->at[i] =
            (struct bound){p->type[i], p->ndim[i], p->shape[i], NULL, bytes, writes_to(p, i)};
        b->arenas[p->type[i]].size += 2 * bytes;
    }
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        struct arena *r = &b->arenas[t];

        r->size += 1 << 17; /* results, too */
        r->bytes = calloc(1, r->size);
        r->want = malloc(r->size);
        CHECK(r->bytes && r->want);
    }
    for (int i = b->nin; i < p->ninputs; i++) { /* constants have memory of their own */
        struct arena *r = &b->arenas[p->type[i]];

        r->used += weir_dtype_size(p->type[i]) * (size_t)rng_int(&b->rng, 0, 9);
        b->at[i].at = r->bytes + r->used;
        r->used += b->at[i].bytes;
        put_input(b, i, 0);
        b->constants[i] = wrap(b, &b->at[i]);
    }
}

static bool overlap(const struct bound *a, const struct bound *b)
{
    return a->at && b->at && a->bytes && b->bytes && a->at < b->at + b->bytes &&
           b->at < a->at + a->bytes;
}

/* What a run is to do: constants count if something that is needed uses them. */
enum refusal { NOT_REFUSED, MAYBE_REFUSED, REFUSED };

static enum refusal refusal_of(const struct bindings *b)
{
    enum refusal r = NOT_REFUSED;

    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->n; k++) {
            bool constant =
                (i >= b->nin && i < b->p->ninputs) || (k >= b->nin && k < b->p->ninputs);

            if (i != k && b->at[i].written && overlap(&b->at[i], &b->at[k]) && r != REFUSED)
                r = constant ? MAYBE_REFUSED : REFUSED;
        }
    return r;
}

/* A place that shares memory seldom, often, or not, as chance has it. */
static void choose_places(struct bindings *b, uint64_t round)
{
    int tries = (int)rng_int(&b->rng, 0, 30);

    for (int i = 0; i < b->n; i++) {
        bool result = i >= b->p->ninputs;

        if (i >= b->nin && !result)
            continue;
        b->at[i].at = NULL;
        if (result && rng_chance(&b->rng, 30))
            continue;
        for (int k = 0; k <= tries; k++) {
            bool from_start = rng_chance(&b->rng, 30);

            b->at[i].at = place(b, &b->at[i], from_start ? 0 : b->arenas[b->at[i].type].used);
            if (refusal_of(b) == NOT_REFUSED)
                break;
        }
    }
    for (int i = 0; i < b->nin; i++)
        if (b->at[i].at)
            put_input(b, i, round);
}

/* The bytes that the calls one by one leave, from the memory as it is. */
static void run_calls(struct bindings *b, weir_tensor **values)
{
    struct program *p = b->p;
    struct sizes sizes = sizes_of(0);
    int failed;

    for (int i = 0; i < p->ninputs; i++)
        CHECK_OK(weir_tensor_from(weir_stream_default(b->dev), b->at[i].type, b->at[i].ndim,
                                  b->at[i].shape, b->at[i].at, &values[i]));
    if (program_run(p, b->dev, &sizes, values, false, false, false, &failed))
        FAIL("eager step %d %s: %s", failed, step_text(&p->steps[failed]), weir_last_error());
}

static void expect_no_change(struct bindings *b)
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        memcpy(b->arenas[t].want, b->arenas[t].bytes, b->arenas[t].size);
}

static void expect_values(struct bindings *b, weir_tensor *const *values)
{
    for (int i = 0, k = b->p->ninputs; i < b->p->ninputs + b->p->nresults; i++) {
        int v = i < b->p->ninputs ? i : b->p->results[i - b->p->ninputs];
        const struct bound *a;
        char *bytes;

        if (i >= b->p->ninputs && !program_has_result(b->p, values, i - b->p->ninputs))
            continue;
        a = &b->at[i < b->p->ninputs ? i : k++];
        if (!a->at || !a->bytes || (i < b->p->ninputs && !a->written))
            continue;
        bytes = read_bytes(values[v], NULL);
        memcpy(b->arenas[a->type].want + (a->at - b->arenas[a->type].bytes), bytes, a->bytes);
        free(bytes);
    }
}

static void check_bytes(const struct bindings *b)
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        const struct arena *r = &b->arenas[t];
        size_t n = weir_dtype_size((weir_dtype)t);

        for (size_t k = 0; memcmp(r->bytes, r->want, r->size) && k + n <= r->size; k += n) {
            double got, want;

            if (!memcmp(r->bytes + k, r->want + k, n))
                continue;
            decode((weir_dtype)t, r->bytes + k, 1, &got);
            decode((weir_dtype)t, r->want + k, 1, &want);
            if (got != got && want != want)
                continue;
            for (int i = 0; i < b->n; i++)
                if (b->at[i].type == (weir_dtype)t && b->at[i].at && b->at[i].at <= r->bytes + k &&
                    r->bytes + k < b->at[i].at + b->at[i].bytes)
                    FAIL("%s %zu, element %zu of binding %d of %d+%d: %g instead of %g",
                         weir_dtype_name((weir_dtype)t), k / n,
                         (size_t)(r->bytes + k - b->at[i].at) / n, i, b->nin, b->p->nconstants, got,
                         want);
            FAIL("%s %zu, which nothing is bound to: %g instead of %g",
                 weir_dtype_name((weir_dtype)t), k / n, got, want);
        }
    }
}

/* What the graph's results look like; false if it has none. */
static void find_results(struct bindings *b, weir_tensor **values)
{
    for (int i = 0; i < b->p->nresults; i++) {
        weir_tensor *y = values[b->p->results[i]];

        if (!program_has_result(b->p, values, i))
            continue;
        b->at[b->n++] = (struct bound){
            weir_tensor_dtype(y),
            weir_tensor_ndim(y),
            memcpy(malloc(sizeof(int64_t) * WEIR_MAX_DIMS), weir_tensor_shape(y),
                   sizeof(int64_t) * (size_t)weir_tensor_ndim(y)),
            NULL,
            bytes_of(weir_tensor_dtype(y), weir_tensor_ndim(y), weir_tensor_shape(y)),
            true,
        };
    }
}

static void check_fresh(struct bindings *b, weir_tensor *const *values, weir_tensor **out)
{
    for (int i = 0, k = 0; i < b->p->nresults; i++) {
        if (!program_has_result(b->p, values, i))
            continue;
        if (!b->at[b->p->ninputs + k].at)
            program_check_equal(b->p, "new result", b->p->results[i], values[b->p->results[i]],
                                out[k]);
        k++;
    }
}

/* Whether the run was taken. */
static bool run_bound(struct bindings *b, weir_plan *plan, weir_stream *stream, uint64_t round)
{
    weir_tensor *values[MAX_VALUES] = {NULL}, *in[MAX_INPUTS] = {NULL}, *out[MAX_RESULTS] = {NULL};
    int nout = b->n - b->p->ninputs;
    enum refusal refusal;
    weir_status st;

    choose_places(b, round);
    refusal = refusal_of(b);
    run_calls(b, values);
    CHECK_OK(weir_device_sync(b->dev));
    for (int i = 0; i < b->nin; i++) {
        in[i] = wrap(b, &b->at[i]);
        if (b->at[i].bytes)
            CHECK_EQ(weir_plan_writes_input(plan, (size_t)i), b->at[i].written);
    }
    for (int i = 0; i < nout; i++)
        out[i] = b->at[b->p->ninputs + i].at ? wrap(b, &b->at[b->p->ninputs + i]) : NULL;
    expect_no_change(b);
    st = (round & 1 ? weir_plan_call : weir_plan_run)(plan, stream, in, (size_t)b->nin, out,
                                                      (size_t)nout);
    if (refusal == REFUSED || (refusal == MAYBE_REFUSED && st))
        CHECK_STATUS(st, WEIR_EINVAL);
    else
        CHECK_OK(st);
    CHECK_OK(weir_device_sync(b->dev));
    if (!st)
        expect_values(b, values);
    check_bytes(b);
    if (!st)
        check_fresh(b, values, out);
    program_release(values, MAX_VALUES);
    program_release(in, MAX_INPUTS);
    program_release(out, MAX_RESULTS);
    return !st;
}

static void bindings_free(struct bindings *b)
{
    for (int i = b->p->ninputs; i < b->n; i++)
        free((void *)b->at[i].shape);
    program_release(b->constants, MAX_INPUTS);
    CHECK_OK(weir_device_sync(b->dev));
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        free(b->arenas[t].bytes);
        free(b->arenas[t].want);
    }
    free(b->p);
    free(b);
}

static int taken, refusals;

static void compare_bindings(weir_device *dev, uint64_t seed, bool open)
{
    struct bindings *b = calloc(1, sizeof *b);
    struct program *p = b->p = malloc(sizeof *p);
    weir_tensor *values[MAX_VALUES] = {NULL};
    weir_stream *stream;
    weir_graph *g;
    weir_plan *plan;
    char what[32];

    (void)open;
    b->dev = dev;
    b->rng = rng_make("bindings", seed);
    program_make_writing(p, dev, seed);
    program_switch_off(p);
    program_show(p);
    b->nin = p->ninputs - p->nconstants;
    make_arenas(b);
    choose_places(b, 0);
    run_calls(b, values);
    find_results(b, values);
    program_release(values, MAX_VALUES);
    g = program_capture(p, dev, b->constants, seed & 1);
    snprintf(what, sizeof what, "way %d", (int)(seed % 3));
    plan = program_compile(g, seed, (int)(seed % 3), what);
    weir_graph_destroy(g);
    stream = seed & 8 ? new_stream(dev) : weir_stream_default(dev);
    for (uint64_t round = 0; round < 6; round++) {
        bool good;

        test_note("seed %llu, round %d", (unsigned long long)seed, (int)round);
        good = run_bound(b, plan, stream, round);
        taken += good;
        refusals += !good;
    }
    weir_plan_destroy(plan);
    if (stream != weir_stream_default(dev))
        CHECK_OK(weir_stream_destroy(stream));
    bindings_free(b);
}

CONFORMANCE(mixed_programs, bound_to_memory_that_they_share_are_refused_or_right)
{
    need(dev, WEIR_FEATURE_HOST_MEMORY);
    each_program(dev, 16, false, compare_bindings);
    if (getenv("PROGRAM_SHOW"))
        fprintf(stderr, "%d runs taken, %d refused\n", taken, refusals);
}
