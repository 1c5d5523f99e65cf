/* Random programs in plans give the bits of the same calls one by one; so do plans of their files,
 * runs of several threads, and calls on several streams that the race checker orders.
 *
 * PROGRAM_SEED and PROGRAM_COUNT say which programs, PROGRAM_SHOW shows them, and PROGRAM_OFF=3,5
 * leaves steps out. */
#include "conformance/graph/programs_run.h"

#include <pthread.h>
#include <stdlib.h>

weir_status program_run(struct program *p, weir_device *dev, const struct sizes *sizes,
                        weir_tensor **values, bool scopes, bool let_go, bool skip, int *failed)
{
    int last[MAX_VALUES];
    weir_status st;

    for (int v = 0; v < MAX_VALUES; v++)
        last[v] = -1;
    for (int i = 0; i < p->nsteps; i++)
        for (int k = 0; k < p->steps[i].nin; k++)
            last[p->steps[i].in[k]] = i;
    for (int i = 0; i < p->nresults; i++)
        last[p->results[i]] = p->nsteps;
    *failed = -1;
    for (int i = 0; i < p->nsteps; i++) {
        struct step *s = &p->steps[i];

        if (!step_can_run(s, values))
            continue;
        if ((st = step_run(s, dev, sizes, values, scopes))) {
            *failed = i;
            if (!skip || step_reads_nothing(s, values))
                return st;
        }
        for (int v = p->ninputs; v < p->nvalues && let_go; v++)
            if (values[v] && last[v] <= i) {
                weir_tensor_release(values[v]);
                values[v] = NULL;
            }
    }
    return WEIR_OK;
}

void program_release(weir_tensor **values, int n)
{
    for (int i = 0; i < n; i++) {
        weir_tensor_release(values[i]);
        values[i] = NULL;
    }
}

bool program_has_result(const struct program *p, weir_tensor *const *values, int i)
{
    int v = p->results[i];

    return values[v] && (v < p->ninputs - p->nconstants || v >= p->ninputs) &&
           (p->base[v] < p->ninputs - p->nconstants || p->base[v] >= p->ninputs);
}

struct sizes program_name_sizes(const struct program *p, weir_graph *g)
{
    struct sizes s;

    if (p->anonymous || !p->open)
        return (struct sizes){{0, -1, -1, -1, -1}};
    CHECK_OK(weir_graph_size(g, p->example, &s.at[1]));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_ADD, s.at[1], 1, &s.at[2]));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_MUL, 2, s.at[1], &s.at[3]));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_FLOOR_DIV, s.at[1], 2, &s.at[4]));
    return s;
}

/* The program as a graph; steps that a graph of open sizes cannot have are switched off. */
weir_graph *program_capture(struct program *p, weir_device *dev, weir_tensor *const *constants,
                            bool let_go)
{
    weir_tensor *values[MAX_VALUES] = {NULL};
    int nin = p->ninputs - p->nconstants, failed = -1;
    struct sizes sizes;
    weir_status st;
    weir_graph *g;
    char name[16];

    for (;;) {
        CHECK_OK(weir_graph_create(dev, &g));
        sizes = program_name_sizes(p, g);
        for (int i = 0; i < p->ninputs; i++) {
            int64_t shape[4];

            for (int d = 0; d < p->ndim[i]; d++)
                shape[d] = p->follows[i][d] ? sizes.at[1] : p->shape[i][d];
            snprintf(name, sizeof name, "x%d", i);
            if (i < nin)
                CHECK_OK(weir_graph_input(g, name, p->type[i], p->ndim[i], shape, &values[i]));
            else
                values[i] = weir_tensor_retain(constants[i]);
        }
        CHECK_OK(weir_graph_begin(g));
        st = program_run(p, dev, &sizes, values, true, let_go, false, &failed);
        CHECK_OK(weir_graph_end(g));
        if (!st)
            break;
        if (!p->open)
            FAIL("step %d %s: %s", failed, step_text(&p->steps[failed]), weir_last_error());
        if (getenv("PROGRAM_SHOW"))
            fprintf(stderr, "off: %d %s: %s\n", failed, step_text(&p->steps[failed]),
                    weir_last_error());
        p->steps[failed].off = true;
        program_release(values, p->nvalues);
        weir_graph_destroy(g);
    }
    for (int i = 0; i < p->nresults; i++)
        if (program_has_result(p, values, i)) {
            snprintf(name, sizeof name, "y%d", i);
            CHECK_OK(weir_graph_output(g, name, values[p->results[i]]));
        }
    program_release(values, p->nvalues);
    return g;
}

void program_check_equal(const struct program *p, const char *what, int v, weir_tensor *want,
                         weir_tensor *got)
{
    size_t size, size2;
    unsigned char *a = read_bytes(want, &size), *b = read_bytes(got, &size2);
    weir_dtype type = weir_tensor_dtype(want);
    double x, y;

    CHECK_EQ(weir_tensor_dtype(got), type);
    CHECK_EQ(size, size2);
    CHECK_EQ(weir_tensor_ndim(want), weir_tensor_ndim(got));
    for (int d = 0; d < weir_tensor_ndim(want); d++)
        CHECK_EQ(weir_tensor_shape(want)[d], weir_tensor_shape(got)[d]);
    for (size_t k = 0, n = weir_dtype_size(type); k < size; k += n) {
        if (!memcmp(a + k, b + k, n))
            continue;
        decode(type, a + k, 1, &x);
        decode(type, b + k, 1, &y);
        if (x != x && y != y)
            continue;
        FAIL("seed %llu, %s: v%d %s[%zu] is %g instead of %g", (unsigned long long)p->seed, what, v,
             weir_dtype_name(type), k / n, y, x);
    }
    free(a);
    free(b);
}

/* The tensor at another place: some elements into a larger one. Takes its place. Not on a GPU,
 * where the order of sums follows how rows are aligned. */
static weir_tensor *within(weir_tensor *t, int64_t at)
{
    int64_t n = weir_tensor_numel(t);
    weir_tensor *larger, *part, *shaped;
    weir_device_props props;

    weir_device_get_props(weir_tensor_device(t), &props, sizeof props);
    if (!at || !(props.features & WEIR_FEATURE_HOST_MEMORY))
        return t;
    CHECK_OK(weir_tensor_empty(weir_stream_current(weir_tensor_device(t)), weir_tensor_dtype(t), 1,
                               (int64_t[]){n + 5}, &larger));
    CHECK_OK(weir_tensor_slice(larger, 0, at, at + n, 1, &part));
    CHECK_OK(weir_tensor_reshape(part, weir_tensor_ndim(t), weir_tensor_shape(t), &shaped));
    CHECK_OK(weir_copy_into(t, shaped));
    weir_tensor_release(larger);
    weir_tensor_release(part);
    weir_tensor_release(t);
    return shaped;
}

/* The plan's run on the stream against the calls one by one. */
void program_compare(struct program *p, weir_device *dev, weir_plan *plan, weir_stream *stream,
                     weir_tensor *const *constants, int64_t open, uint64_t round, const char *what)
{
    weir_tensor *values[MAX_VALUES] = {NULL}, *in[MAX_INPUTS], *out[MAX_RESULTS] = {NULL};
    int nin = p->ninputs - p->nconstants, nout = 0, failed = -1;
    struct sizes sizes = sizes_of(open);
    weir_status st;

    for (int i = 0; i < p->ninputs; i++) {
        int64_t at = (int64_t)(p->seed + round + (uint64_t)i) % 4;

        values[i] = i < nin ? within(program_input(p, dev, i, open, round), at)
                            : weir_tensor_retain(constants[i]);
        if (i < nin)
            in[i] = within(program_input(p, dev, i, open, round), at);
    }
    if (program_run(p, dev, &sizes, values, false, false, p->open, &failed)) {
        if (step_reads_nothing(&p->steps[failed], values)) { /* nor can the plan run at this size */
            program_release(values, p->nvalues);
            program_release(in, nin);
            return;
        }
        FAIL("eager step %d %s: %s", failed, step_text(&p->steps[failed]), weir_last_error());
    }
    for (int i = 0; i < p->nresults; i++) {
        weir_tensor *y = values[p->results[i]];

        if (failed < 0 ? !program_has_result(p, values, i) : false)
            continue;
        if (round & 1 && y) {
            CHECK_OK(weir_tensor_empty(stream, weir_tensor_dtype(y), weir_tensor_ndim(y),
                                       weir_tensor_shape(y), &out[nout]));
            out[nout] = within(out[nout], (p->seed + (uint64_t)i) % 3);
        }
        nout++;
    }
    if (failed >= 0) { /* what is not needed may fit or not */
        program_release(out, nout);
        nout = p->nouts;
    }
    p->nouts = nout;
    if (stream != weir_stream_current(dev))
        CHECK_OK(weir_stream_wait_stream(stream, weir_stream_current(dev)));
    st = (round & 2 ? weir_plan_call : weir_plan_run)(plan, stream, in, (size_t)nin, out,
                                                      (size_t)nout);
    if (st && failed < 0)
        FAIL("seed %llu, %s: run: %s", (unsigned long long)p->seed, what, weir_last_error());
    if (!st && failed < 0) {
        nout = 0;
        for (int i = 0; i < p->nresults; i++)
            if (program_has_result(p, values, i))
                program_check_equal(p, what, p->results[i], values[p->results[i]], out[nout++]);
        for (int i = 0; i < nin; i++)
            program_check_equal(p, what, i, values[i], in[i]);
    }
    if (!st && failed >= 0 && getenv("PROGRAM_SHOW"))
        fprintf(stderr, "ran though %d does not\n", failed);
    program_release(values, p->nvalues);
    program_release(out, MAX_RESULTS);
    program_release(in, nin);
}

void program_switch_off(struct program *p)
{
    const char *off = getenv("PROGRAM_OFF");

    while (off && *off) {
        p->steps[strtol(off, (char **)&off, 10)].off = true;
        off += *off == ',';
    }
}

void program_show(const struct program *p)
{
    if (!getenv("PROGRAM_SHOW"))
        return;
    for (int i = 0; i < p->ninputs; i++) {
        fprintf(stderr, "v%d %s", i, weir_dtype_name(p->type[i]));
        for (int d = 0; d < p->ndim[i]; d++)
            fprintf(stderr, " %lld%s", (long long)p->shape[i][d], p->follows[i][d] ? "*" : "");
        fprintf(stderr, "%s\n", i >= p->ninputs - p->nconstants ? " constant" : "");
    }
    for (int i = 0; i < p->nsteps; i++)
        if (!p->steps[i].off)
            fprintf(stderr, "%d: %s\n", i, step_text(&p->steps[i]));
    for (int i = 0; i < p->nresults; i++)
        fprintf(stderr, "result v%d\n", p->results[i]);
    fprintf(stderr, "open %d anonymous %d streams %d\n", p->open, p->anonymous, p->nstreams);
}

weir_plan *program_compile(weir_graph *g, uint64_t seed, int way, const char *what)
{
    weir_compile_options o = {.size = sizeof o};
    weir_plan *plan;

    o.mode = way ? WEIR_COMPILE_MAX_AUTOTUNE : WEIR_COMPILE_REDUCE_OVERHEAD;
    o.streams =
        way == 2 ? (seed & 2 ? WEIR_STREAMS_AUTO : WEIR_STREAMS_SIBLINGS) : WEIR_STREAMS_EXPLICIT;
    o.static_kernels = way == 2 && seed & 4;
    if (weir_graph_compile(g, &o, &plan))
        FAIL("seed %llu, %s: compile: %s", (unsigned long long)seed, what, weir_last_error());
    return plan;
}

static void compare_program(weir_device *dev, uint64_t seed, bool open)
{
    static const int64_t others[] = {1, 3, 8, 5, 2, 16, 8, 7, 0, 30};
    struct program *p = malloc(sizeof *p);
    weir_tensor *constants[MAX_INPUTS] = {NULL};
    weir_graph *g;
    char what[96];

    program_make(p, dev, seed, open);
    program_switch_off(p);
    program_show(p);
    for (int i = p->ninputs - p->nconstants; i < p->ninputs; i++)
        constants[i] = program_input(p, dev, i, 0, 0);
    g = program_capture(p, dev, constants, seed & 1);
    for (int way = 0; way < 3; way++) {
        weir_stream *stream = way == 2 ? new_stream(dev) : weir_stream_default(dev);
        weir_plan *plan;
        uint64_t rounds = open ? 3 + seed % 8 : 3;

        snprintf(what, sizeof what, "way %d", way);
        test_note("seed %llu, %s", (unsigned long long)seed, what);
        plan = program_compile(g, seed, way, what);
        for (uint64_t round = 0; round < rounds; round++) {
            int64_t size = round ? others[(seed + round) % countof(others)] : p->example;

            size += !size && p->has_index;
            snprintf(what, sizeof what, "way %d, round %d, size %lld", way, (int)round,
                     (long long)size);
            program_compare(p, dev, plan, stream, constants, size, round, what);
        }
        CHECK_OK(weir_device_sync(dev));
        weir_plan_destroy(plan);
        if (way == 2)
            CHECK_OK(weir_stream_destroy(stream));
    }
    weir_graph_destroy(g);
    program_release(constants, MAX_INPUTS);
    free(p);
}

void each_program(weir_device *dev, unsigned often, bool open,
                  void (*fn)(weir_device *dev, uint64_t seed, bool open))
{
    const char *first = getenv("PROGRAM_SEED"), *count = getenv("PROGRAM_COUNT");
    uint64_t seed =
        first ? strtoull(first, NULL, 0) : rng_make(weir_device_name(dev), 0).state >> 40;
    uint64_t n = count ? strtoull(count, NULL, 0) : 2 + repeats(dev, often);

    for (uint64_t end = seed + n; seed < end; seed++) {
        test_note("seed %llu", (unsigned long long)seed);
        fn(dev, seed, open);
    }
}

CONFORMANCE(mixed_programs, in_plans_give_the_bits_of_the_calls_one_by_one)
{
    each_program(dev, 12, false, compare_program);
}

CONFORMANCE(mixed_programs, of_open_sizes_give_the_bits_of_the_calls_one_by_one)
{
    each_program(dev, 8, true, compare_program);
}

/* ---- eager, on several streams ---- */

static void compare_streams(weir_device *dev, uint64_t seed, bool open)
{
    struct program *p = malloc(sizeof *p);
    weir_tensor *values[2][MAX_VALUES] = {{NULL}};
    struct sizes sizes;
    int failed;

    program_make(p, dev, seed, open);
    program_switch_off(p);
    program_show(p);
    sizes = sizes_of(p->example);
    CHECK_OK(weir_race_set_mode(WEIR_RACE_AUTOSYNC));
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < p->ninputs; i++)
            values[way][i] = program_input(p, dev, i, p->example, 0);
        if (program_run(p, dev, &sizes, values[way], way, way, false, &failed))
            FAIL("step %d %s: %s", failed, step_text(&p->steps[failed]), weir_last_error());
    }
    CHECK_OK(weir_race_set_mode(WEIR_RACE_OFF));
    CHECK_OK(weir_device_sync(dev));
    for (int v = 0; v < p->nvalues; v++)
        if (values[0][v] && values[1][v])
            program_check_equal(p, "streams", v, values[0][v], values[1][v]);
    program_release(values[0], p->nvalues);
    program_release(values[1], p->nvalues);
    free(p);
}

CONFORMANCE(mixed_programs, on_streams_that_autosync_orders_give_the_bits_of_one_stream)
{
    each_program(dev, 12, false, compare_streams);
}

/* ---- threads ---- */

struct worker {
    struct program *p;
    weir_device *dev;
    weir_plan *plan;
    weir_stream *stream;
    weir_tensor *const *constants;
    uint64_t round;
};

static void *work(void *user)
{
    struct worker *w = user;

    CHECK_OK(weir_stream_set_current(w->stream));
    for (uint64_t k = 0; k < 4; k++)
        program_compare(w->p, w->dev, w->plan, w->stream, w->constants,
                        w->p->example + (w->p->open ? (int64_t)((w->round + k) % 3) : 0),
                        w->round + k, "threads");
    return NULL;
}

static void compare_threads(weir_device *dev, uint64_t seed, bool open)
{
    struct program *p = malloc(sizeof *p), copies[3];
    weir_tensor *constants[MAX_INPUTS] = {NULL};
    struct worker w[3];
    pthread_t threads[3];
    weir_graph *g;
    weir_plan *plan;

    program_make(p, dev, seed, open);
    program_switch_off(p);
    program_show(p);
    for (int i = p->ninputs - p->nconstants; i < p->ninputs; i++)
        constants[i] = program_input(p, dev, i, 0, 0);
    g = program_capture(p, dev, constants, seed & 1);
    plan = program_compile(g, seed, 1 + (int)(seed & 1), "threads");
    weir_graph_destroy(g);
    for (int i = 0; i < 3; i++) {
        copies[i] = *p;
        w[i] = (struct worker){&copies[i], dev, plan, new_stream(dev), constants, (uint64_t)i * 5};
        CHECK(!pthread_create(&threads[i], NULL, work, &w[i]));
    }
    for (int i = 0; i < 3; i++) {
        CHECK(!pthread_join(threads[i], NULL));
        CHECK_OK(weir_stream_destroy(w[i].stream));
    }
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    program_release(constants, MAX_INPUTS);
    free(p);
}

CONFORMANCE(mixed_programs, run_by_threads_at_once_give_the_bits_of_the_calls_one_by_one)
{
    each_program(dev, 4, false, compare_threads);
    each_program(dev, 4, true, compare_threads);
}
