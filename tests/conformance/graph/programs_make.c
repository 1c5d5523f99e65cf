/* Making programs: what the device refuses is left out. */
#include "conformance/graph/programs_maker.h"

#include <math.h>
#include <stdlib.h>

enum { MANY_TRIES = 40 * MAX_STEPS };

/* How often each kind is tried. */
static const int weights[KINDS] = {
    [UNARY] = 10,     [BINARY] = 14,   [SCALAR] = 6,    [INTO] = 5,       [COMPARE] = 3,
    [CLAMP] = 2,      [WHERE] = 3,     [SWIGLU] = 2,    [CAST] = 6,       [FILL] = 2,
    [ARANGE] = 1,     [COPY] = 4,      [COPY_INTO] = 6, [CONCAT] = 5,     [MATMUL] = 8,
    [LINEAR] = 4,     [ATTENTION] = 4, [REDUCE] = 7,    [ARGMAX] = 1,     [SOFTMAX] = 5,
    [NORM] = 6,       [EMBEDDING] = 3, [GATHER] = 3,    [SCATTER] = 4,    [SORT] = 2,
    [NONZERO] = 1,    [GATING] = 1,    [ROTARY] = 4,    [RANDOM] = 1,     [SLICE] = 12,
    [PERMUTE] = 8,    [RESHAPE] = 6,   [EXPAND] = 5,    [SQUEEZE] = 3,    [INDICES] = 3,
    [WAIT] = 1,       [EXPERTS] = 1,   [CONV] = 2,      [GROUPED] = 2,    [BITWISE] = 5,
    [TRUTH_INTO] = 2, [SCAN] = 3,      [CHOICE] = 1,    [EXPERT_SUM] = 2,
};

static bool is_alias(const struct step *s)
{
    return (s->kind >= SLICE && s->kind <= SQUEEZE) || (s->kind == COPY && s->which);
}

/* Numbers of views that are the open size, or made from it, follow it sometimes. */
static void name_sizes(struct maker *m, struct step *s)
{
    int first = s->kind == SLICE ? 1 : 0, n = s->kind == SLICE ? 3 : s->which;

    if (!m->p->open || m->p->anonymous ||
        (s->kind != SLICE && s->kind != RESHAPE && s->kind != EXPAND))
        return;
    for (int i = first; i < n; i++)
        for (int k = 1; k < 5; k++)
            if (s->size[i] == m->at.at[k] && s->size[i] > 0 && rng_chance(&m->rng, 70)) {
                s->named[i] = k;
                break;
            }
}

/* Whether the step may stand in the program, and its results are of a good size. */
static bool keep(struct maker *m, const struct step *s)
{
    bool good = true;

    for (int i = 0; i < s->nout; i++)
        good = good && weir_tensor_numel(m->values[s->out[i]]) <= 1 << 13 &&
               weir_tensor_ndim(m->values[s->out[i]]) <= 4;
    for (int i = 0; i < s->nout && !good; i++) {
        weir_tensor_release(m->values[s->out[i]]);
        m->values[s->out[i]] = NULL;
    }
    return good;
}

static bool writes(const struct step *s)
{
    return s->nout == 0 && s->kind != WAIT;
}

static void try_step(struct maker *m)
{
    struct program *p = m->p;
    struct step s = {.kind = 0};
    int total = 0, pick;

    for (int i = 0; i < KINDS; i++)
        total += weights[i];
    pick = below(m, total);
    while (pick >= weights[s.kind])
        pick -= weights[s.kind++];
    maker_guess(m, &s);
    for (int i = 0; i < s.nout; i++)
        s.out[i] = p->nvalues + i;
    if (s.size[4] < 0)
        return; /* no index is in range */
    p->has_index |=
        s.kind == EMBEDDING || s.kind == GATHER || s.kind == SCATTER || s.kind == EXPERT_SUM;
    if (writes(&s) && !p->writes_constants && p->base[s.in[0]] >= p->ninputs - p->nconstants &&
        p->base[s.in[0]] < p->ninputs)
        return; /* constants stay */
    if (rng_chance(&m->rng, 10))
        s.limit = (weir_cores){1 + below(m, m->cores.cube), 1 + below(m, m->cores.vector)};
    name_sizes(m, &s);
    if (step_run(&s, m->dev, &m->at, m->values, false) || !keep(m, &s))
        return;
    if (p->nstreams > 1)
        s.stream = below(m, p->nstreams);
    if (p->super_kernels && rng_chance(&m->rng, 40))
        s.super_kernel = 1 + below(m, 2);
    for (int i = 0; i < s.nout; i++)
        p->base[s.out[i]] = is_alias(&s) ? p->base[s.in[0]] : s.out[i];
    p->nvalues += s.nout;
    p->steps[p->nsteps++] = s;
}

static void make_inputs(struct maker *m)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 8, 16, 17, 24, 32, 40, 64};
    struct program *p = m->p;

    for (int i = 0; i < 4; i++)
        m->sizes[i] = sizes[below(m, countof(sizes))];
    if (rng_chance(&m->rng, 3))
        m->sizes[3] = 0;
    p->example = m->sizes[0] += p->open && m->sizes[0] < 4 ? 4 : 0;
    m->at = sizes_of(p->example);
    p->ninputs = 3 + below(m, MAX_INPUTS - 2);
    p->nconstants = below(m, 3);
    for (int i = 0; i < p->ninputs; i++) {
        p->type[i] = rng_chance(&m->rng, 60) ? p->type[0] : types[below(m, countof(types))];
        if (!i)
            p->type[0] = types[rng_chance(&m->rng, 60) ? 0 : below(m, 4)];
        p->ndim[i] = 1 + below(m, 3) + rng_chance(&m->rng, 15);
        for (int d = 0; d < p->ndim[i]; d++)
            p->shape[i][d] = p->ndim[i] > 3 && d < 2 ? 1 + below(m, 3) : m->sizes[below(m, 4)];
        for (int d = 0; d < p->ndim[i]; d++)
            p->follows[i][d] = p->open && i < p->ninputs - p->nconstants &&
                               p->shape[i][d] == p->example && rng_chance(&m->rng, 90);
        p->base[i] = i;
        m->values[i] = program_input(p, m->dev, i, p->example, 0);
    }
    p->nvalues = p->ninputs;
}

/* Numbers where types end, or arithmetic does something else than elsewhere. */
static double extreme(weir_dtype type, struct rng *rng)
{
    static const double reals[] = {0.0,     -0.0,   INFINITY, -INFINITY, NAN,   0x1p-149, -0x1p-140,
                                   0x1p-24, 65504,  65520,    3.4e38,    -3e38, 1e308,    5e-324,
                                   88.8,    -103.9, 0.5,      -1,        1,     16777217, 1e-3};
    static const double wholes[] = {0,    -1,         1,           127,        128,   -128, 255,
                                    -129, 2147483647, -2147483648, 4294967295, 32768, 64,   0x1p52};

    if (weir_dtype_is_float(type))
        return reals[rng_int(rng, 0, countof(reals) - 1)];
    return wholes[rng_int(rng, 0, countof(wholes) - 1)];
}

weir_tensor *program_input(const struct program *p, weir_device *dev, int i, int64_t open,
                           uint64_t round)
{
    struct rng rng = rng_make("program input", p->seed * 64 + (uint64_t)i + round * 8);
    int64_t shape[4];
    struct array a;
    weir_tensor *t;

    for (int d = 0; d < p->ndim[i]; d++)
        shape[d] = p->follows[i][d] ? open : p->shape[i][d];
    array_init(&a, p->type[i], p->ndim[i], shape);
    for (int64_t k = 0; k < array_numel(&a); k++)
        a.at[k] = p->extreme && a.dtype != WEIR_BOOL && rng_chance(&rng, 25)
                      ? extreme(a.dtype, &rng)
                  : a.dtype == WEIR_BOOL         ? (double)rng_int(&rng, 0, 1)
                  : weir_dtype_is_float(a.dtype) ? rng_real(&rng, -3, 3)
                                                 : (double)rng_int(&rng, 0, 20);
    t = upload(weir_stream_current(dev), &a, LAYOUT_PLAIN, &rng);
    array_free(&a);
    return t;
}

static void pick_results(struct maker *m)
{
    struct program *p = m->p;
    int n = 2 + below(m, MAX_RESULTS - 2);

    for (int v = p->nvalues - 1; v >= 0 && p->nresults < n; v--)
        if (v >= p->ninputs ? rng_chance(&m->rng, 40) : rng_chance(&m->rng, 10))
            p->results[p->nresults++] = v;
}

static void make(struct program *p, weir_device *dev)
{
    struct maker m = {.p = p, .rng = rng_make("program", p->seed), .dev = dev};
    int nsteps;

    p->anonymous = rng_chance(&m.rng, 30);
    m.cores = weir_device_get_limit(dev);
    nsteps = 3 + below(&m, rng_chance(&m.rng, 60) ? 15 : MAX_STEPS - 3);
    p->nstreams = rng_chance(&m.rng, 50) ? 1 : 2 + below(&m, 4);
    p->super_kernels = rng_chance(&m.rng, 15);
    p->extreme = rng_chance(&m.rng, 25);
    make_inputs(&m);
    for (int tries = 0; p->nsteps < nsteps && tries < MANY_TRIES; tries++)
        try_step(&m);
    pick_results(&m);
    for (int i = 0; i < p->nvalues; i++)
        weir_tensor_release(m.values[i]);
}

void program_make(struct program *p, weir_device *dev, uint64_t seed, bool open)
{
    *p = (struct program){.seed = seed, .open = open};
    make(p, dev);
}

void program_make_writing(struct program *p, weir_device *dev, uint64_t seed)
{
    *p = (struct program){.seed = seed, .writes_constants = true};
    make(p, dev);
}
