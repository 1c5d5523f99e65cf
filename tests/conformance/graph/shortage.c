/* Random programs on a host that is short of memory now and then: a call that is refused leaves
 * everything as it was, so that the same call made again gives the same graph, the same plan and
 * the same bits as on a host that is not; and nothing is left when all is released. */
#include "conformance/graph/programs_run.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The n-th allocation of this thread from now on fails, once. */
static _Thread_local long countdown;
static atomic_long live;
static long refusals;

static void *scarce_alloc(void *user, size_t size, size_t align)
{
    void *p = NULL;

    (void)user;
    if (countdown > 0 && --countdown == 0)
        return NULL;
    if (posix_memalign(&p, align < sizeof p ? sizeof p : align, size))
        return NULL;
    memset(p, 0xa5, size); /* nobody may count on zeros */
    atomic_fetch_add(&live, 1);
    return p;
}

static void scarce_free(void *user, void *ptr)
{
    (void)user;
    atomic_fetch_sub(&live, 1);
    free(ptr);
}

/* Up to `most`, small numbers more often. */
static void arm(struct rng *rng, int64_t most)
{
    int64_t high = rng_int(rng, 1, most);

    countdown = (long)rng_int(rng, 1, rng_int(rng, 1, high));
}

/* Whether the call must be made again. */
static bool disarm(weir_status st, const char *what)
{
    bool refused = countdown == 0;

    countdown = 0;
    if (!st)
        return false;
    if (!refused || (st != WEIR_ENOMEM && st != WEIR_EOOM))
        FAIL("%s, %s: %s", what, refused ? "refused memory" : "with all the memory it wants",
             weir_last_error());
    refusals++;
    return true;
}

/* ---- steps ---- */

static void push_scopes(const struct step *s)
{
    static const char *const tags[] = {NULL, "1", "2", "3", "4"};

    if (s->limit.cube)
        CHECK_OK(weir_scope_push_cores(s->limit));
    if (s->stream)
        CHECK_OK(weir_scope_push_stream(tags[s->stream], s->stream - 2));
}

static void pop_scopes(const struct step *s)
{
    if (s->stream)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    if (s->limit.cube)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
}

/* Several calls, of which the first may have been captured when a later one is refused. */
static bool is_several(const struct step *s)
{
    return s->kind == EMBEDDING || s->kind == GATHER || s->kind == SCATTER || s->kind == INDICES ||
           s->kind == EXPERTS || s->kind == GROUPED || s->kind == EXPERT_SUM;
}

/* Runs all steps, eagerly or captured; refused ones again. Steps that cannot be, which those of
 * open sizes may, are switched off. */
static void run_scarce(struct program *p, weir_device *dev, const struct sizes *sizes,
                       weir_tensor **values, bool scopes, struct rng *rng)
{
    for (int i = 0; i < p->nsteps; i++) {
        struct step bare = p->steps[i];
        weir_status st = WEIR_OK;

        bare.limit = (weir_cores){0, 0};
        if (!step_can_run(&p->steps[i], values))
            continue;
        test_note("seed %llu, step %d %s", (unsigned long long)p->seed, i, step_text(&bare));
        if (scopes)
            push_scopes(&p->steps[i]);
        for (int tries = 0; tries < 2; tries++) {
            if (rng && !tries && !(scopes && is_several(&bare)))
                arm(rng, 8);
            st = step_run(&bare, dev, sizes, values, false);
            if (!rng || !disarm(st && p->open && countdown ? WEIR_OK : st, "a step"))
                break;
            for (int k = 0; k < bare.nout; k++)
                CHECK(!values[bare.out[k]]);
        }
        if (scopes)
            pop_scopes(&p->steps[i]);
        if (st && p->open)
            p->steps[i].off = true;
        else
            CHECK_OK(st);
    }
}

static weir_graph *capture(struct program *p, weir_device *dev, weir_tensor *const *constants,
                           struct rng *rng)
{
    weir_tensor *values[MAX_VALUES] = {NULL};
    int nin = p->ninputs - p->nconstants;
    struct sizes sizes;
    weir_graph *g;
    char name[16];

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
    run_scarce(p, dev, &sizes, values, true, rng);
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < p->nresults; i++)
        if (program_has_result(p, values, i)) {
            weir_status st;

            snprintf(name, sizeof name, "y%d", i);
            if (rng)
                arm(rng, 3);
            st = weir_graph_output(g, name, values[p->results[i]]);
            if (rng && disarm(st, "an output"))
                st = weir_graph_output(g, name, values[p->results[i]]);
            CHECK_OK(st);
        }
    program_release(values, p->nvalues);
    return g;
}

/* ---- graphs ---- */

/* The text, whichever allocation fails at first. */
static char *dump(const weir_graph *g, struct rng *rng)
{
    char *text;

    if (rng)
        arm(rng, 60);
    if (!(text = weir_graph_dump(g)) && rng && disarm(WEIR_ENOMEM, "a dump"))
        text = weir_graph_dump(g);
    countdown = 0;
    CHECK(text != NULL);
    return text;
}

static void check_same_dump(weir_graph *want, weir_graph *got, struct rng *rng)
{
    char *a = dump(want, NULL), *b = dump(got, rng);

    CHECK_STR_EQ(a, b);
    free(a);
    free(b);
}

static void check_load(weir_device *dev, weir_graph *g, struct rng *rng)
{
    char *text = dump(g, NULL);
    weir_graph *loaded;
    weir_status st;

    arm(rng, 2000);
    st = weir_graph_load(dev, text, strlen(text), "dump", &loaded);
    if (disarm(st, "a load")) {
        CHECK(!loaded);
        st = weir_graph_load(dev, text, strlen(text), "dump", &loaded);
    }
    CHECK_OK(st);
    check_same_dump(g, loaded, rng);
    weir_graph_destroy(loaded);
    free(text);
}

/* ---- plans ---- */

static weir_plan *compile(weir_graph *g, uint64_t seed, struct rng *rng)
{
    weir_compile_options o = {.size = sizeof o,
                              .mode = seed % 3 ? WEIR_COMPILE_MAX_AUTOTUNE
                                               : WEIR_COMPILE_REDUCE_OVERHEAD,
                              .streams = seed % 3 == 2 ? WEIR_STREAMS_AUTO : WEIR_STREAMS_EXPLICIT,
                              .static_kernels = seed & 4};
    weir_plan *plan;
    weir_status st = WEIR_OK;

    for (int tries = 0; tries < 4; tries++) {
        if (tries < 3)
            arm(rng, 3000);
        st = weir_graph_compile(g, &o, &plan);
        if (!disarm(st, "compiling"))
            break;
        CHECK(!plan);
    }
    CHECK_OK(st);
    return plan;
}

static void check_run(struct program *p, weir_device *dev, weir_plan *plan,
                      weir_tensor *const *constants, int64_t open, uint64_t round, struct rng *rng)
{
    weir_tensor *values[MAX_VALUES] = {NULL}, *in[MAX_INPUTS], *out[MAX_RESULTS] = {NULL};
    int nin = p->ninputs - p->nconstants, nout = 0, failed;
    struct sizes sizes = sizes_of(open);
    weir_status st = WEIR_OK;

    for (int i = 0; i < p->ninputs; i++) {
        values[i] =
            i < nin ? program_input(p, dev, i, open, round) : weir_tensor_retain(constants[i]);
        if (i < nin)
            in[i] = program_input(p, dev, i, open, round);
    }
    if (program_run(p, dev, &sizes, values, false, false, false, &failed)) {
        program_release(values, p->nvalues); /* nothing of that size */
        program_release(in, nin);
        return;
    }
    for (int i = 0; i < p->nresults; i++)
        nout += program_has_result(p, values, i);
    for (int tries = 0; tries < 4; tries++) {
        if (tries < 3)
            arm(rng, tries ? 40 : 600);
        st = weir_plan_run(plan, weir_stream_default(dev), in, (size_t)nin, out, (size_t)nout);
        if (!disarm(st, "a run"))
            break;
        for (int i = 0; i < nout; i++)
            CHECK(!out[i]);
    }
    CHECK_OK(st);
    nout = 0;
    for (int i = 0; i < p->nresults; i++)
        if (program_has_result(p, values, i))
            program_check_equal(p, "run", p->results[i], values[p->results[i]], out[nout++]);
    for (int i = 0; i < nin; i++)
        program_check_equal(p, "input after a run", i, values[i], in[i]);
    program_release(values, p->nvalues);
    program_release(out, MAX_RESULTS);
    program_release(in, nin);
}

static void check_eager(struct program *p, weir_device *dev, struct rng *rng)
{
    weir_tensor *values[2][MAX_VALUES] = {{NULL}};
    struct sizes sizes = sizes_of(p->example);

    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < p->ninputs; i++)
            values[way][i] = program_input(p, dev, i, p->example, 0);
        run_scarce(p, dev, &sizes, values[way], false, way ? rng : NULL);
    }
    for (int v = 0; v < p->nvalues; v++)
        if (values[0][v] && values[1][v])
            program_check_equal(p, "eager", v, values[0][v], values[1][v]);
    program_release(values[0], p->nvalues);
    program_release(values[1], p->nvalues);
}

static void compare_scarce(weir_device *dev, uint64_t seed, bool open)
{
    static const int64_t others[] = {1, 3, 8, 5, 2, 16, 7, 30};
    struct program *p = malloc(sizeof *p);
    weir_tensor *constants[MAX_INPUTS] = {NULL};
    struct rng rng = rng_make("shortage", seed);
    weir_graph *want, *g;
    weir_plan *plan;

    program_make(p, dev, seed, open);
    program_switch_off(p);
    program_show(p);
    if (!open)
        check_eager(p, dev, &rng);
    for (int i = p->ninputs - p->nconstants; i < p->ninputs; i++)
        constants[i] = program_input(p, dev, i, 0, 0);
    want = capture(p, dev, constants, NULL);
    weir_graph_destroy(want); /* some steps are off from now on */
    want = capture(p, dev, constants, NULL);
    g = capture(p, dev, constants, &rng);
    test_note("seed %llu", (unsigned long long)seed);
    check_same_dump(want, g, &rng);
    check_load(dev, g, &rng);
    plan = compile(g, seed, &rng);
    weir_graph_destroy(want);
    weir_graph_destroy(g);
    for (uint64_t round = 0; round < 4; round++)
        check_run(p, dev, plan, constants,
                  round && open ? others[(seed + round) % countof(others)] : p->example, round,
                  &rng);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    program_release(constants, MAX_INPUTS);
    free(p);
}

static void each_scarce(weir_device *dev)
{
    each_program(dev, 8, false, compare_scarce);
    each_program(dev, 6, true, compare_scarce);
    if (getenv("PROGRAM_SHOW"))
        fprintf(stderr, "%ld calls refused\n", refusals);
}

TEST(mixed_programs, on_a_host_that_is_short_of_memory_change_nothing_when_refused)
{
    CHECK_OK(weir_allocator_set(&(weir_allocator){scarce_alloc, scarce_free, NULL}));
    run_case("mixed_programs.on_a_host_that_is_short_of_memory", each_scarce);
    CHECK_EQ(atomic_load(&live), 0);
}
