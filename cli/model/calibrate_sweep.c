/* Measures operators of one kind, from small to large, on one stream and on several: the share of
 * the device's rates that each size reaches alone, and beside others. */
#include <math.h>
#include <stdio.h>

#include "model/calibrate.h"
#include "progress.h"

/* If one operator takes longer than this, larger sizes are not measured. */
#define LONGEST_US 8e3
#define GELU_FLOPS 40 /* per element, as in its row in ops/unary.c */
enum { FEW_ROWS = 16, SOME_ROWS = 256, COLUMNS = 512, STREAMS = 4, HEADS = 16, HEAD_SIZE = 128 };
/* A model reads its weights from memory, not from a cache. So a chain cycles through several
 * weights: COLD_BYTES of others lie between two uses of one, unless that takes more than
 * MOST_WEIGHTS weights. */
enum { MOST_WEIGHTS = 32, COLD_BYTES = 160 << 20 };

static const struct {
    const char *name;
    weir_dtype dtype;
    int nodes;                         /* operators on each stream */
    int64_t sizes[WEIR__CURVE_POINTS]; /* ended by 0 */
} sweeps[CALIBRATION_SWEEPS] = {
    [SWEEP_MEMORY] = {"elementwise",
                      WEIR_F32,
                      12,
                      {1, 24, 48, 96, 192, 384, 768, 1152, 1536, 2304, 3072, 4608, 6144}},
    [SWEEP_ROWS] = {"rows",
                    WEIR_F16,
                    8,
                    {1, 24, 48, 96, 192, 384, 768, 1152, 1536, 3072, 4608, 6144}},
    [SWEEP_WEIGHTS] = {"products of a few rows",
                       WEIR_F16,
                       6,
                       {8, 96, 192, 384, 768, 1536, 2304, 3072, 4608, 6144, 8192}},
    [SWEEP_PRODUCTS] = {"products",
                        WEIR_F16,
                        6,
                        {8, 48, 96, 136, 192, 288, 384, 576, 768, 1152, 1536, 2304, 3072, 4608}},
    [SWEEP_DEPTH] = {"products of all depths", WEIR_F16, 6, {96, 384, 768, 1536, 3072, 6144}},
    [SWEEP_ATTENTION] = {"attention", WEIR_F16, 4, {48, 96, 192, 384, 576, 768, 1152, 1536, 3072}},
    [SWEEP_VECTOR] = {"gelu", WEIR_F32, 12, {1, 48, 96, 192, 384, 768, 1536, 3072, 6144}},
};

/* Returns calibration_sweep.waste for attention, which distributes stacks of 128 queries over the
 * cores in turn, as the model assumes. */
static double waste(double n, int cores)
{
    double units = HEADS * ceil(n / 128);

    return ceil(units / cores) * cores / units;
}

/* Returns the bytes or flops of one operator of the size, as its row counts them. */
static double amount(int sweep, double n, weir_dtype dtype)
{
    double size = (double)weir_dtype_size(dtype);

    switch (sweep) {
    case SWEEP_MEMORY:
        return 2 * n * n * size;
    case SWEEP_ROWS:
        return 2 * n * n * size;
    case SWEEP_WEIGHTS:
        return size * (n * n + 2 * FEW_ROWS * n);
    case SWEEP_PRODUCTS:
        return 2 * n * n * n;
    case SWEEP_VECTOR:
        return GELU_FLOPS * n * n;
    case SWEEP_DEPTH:
        return (n + COLUMNS) / 2; /* the chain alternates between depths n and COLUMNS */
    default:
        return 4.0 * HEADS * HEAD_SIZE * n * n;
    }
}

/* ---- graphs ---- */

/* Returns the number of inputs besides the chain's own. */
static int others(const struct calibration_graph *what)
{
    return what->nodes > sweeps[what->sweep].nodes ? what->nodes : 2;
}

/* Returns the number of operators in a chain: in SWEEP_WEIGHTS enough to make the weights cold. */
static int nodes_of(int sweep, int64_t n, weir_dtype dtype, int cores)
{
    int64_t bytes = n * n * (int64_t)weir_dtype_size(dtype);
    int64_t weights = (COLD_BYTES + bytes - 1) / bytes;

    if (sweep != SWEEP_WEIGHTS || cores < CALIBRATION_MANY_CORES)
        return sweeps[sweep].nodes;
    weights = weights > MOST_WEIGHTS ? MOST_WEIGHTS : weights;
    return weights > sweeps[sweep].nodes ? (int)weights : sweeps[sweep].nodes;
}

static weir_status next(int sweep, int i, weir_tensor *const *w, weir_tensor *y, weir_tensor **out)
{
    const weir_attention_options options = {.scale = 1};

    switch (sweep) {
    case SWEEP_MEMORY:
        return weir_neg(y, out);
    case SWEEP_ROWS:
        return weir_softmax(y, 1, out);
    case SWEEP_WEIGHTS:
    case SWEEP_PRODUCTS:
    case SWEEP_DEPTH:
        return weir_matmul(y, w[i], out);
    case SWEEP_VECTOR:
        return weir_gelu(y, out);
    default:
        return weir_attention(y, w[0], w[1], NULL, &options, out);
    }
}

/* Makes the inputs of one stream: the chain's own, then the others. */
static weir_status inputs(const struct calibration_graph *what, weir_graph *g, int stream,
                          weir_tensor **in)
{
    const int64_t square[] = {what->n, what->n}, few[] = {FEW_ROWS, what->n};
    const int64_t heads[] = {1, HEADS, what->n, HEAD_SIZE};
    const int64_t deep[] = {SOME_ROWS, what->n}, wide[] = {what->n, COLUMNS};
    const int64_t back[] = {COLUMNS, what->n};
    bool four = what->sweep == SWEEP_ATTENTION;
    weir_status st = WEIR_OK;

    for (int i = 0; i < 1 + others(what) && !st; i++) {
        const int64_t *shape = four                                 ? heads
                               : what->sweep == SWEEP_DEPTH         ? (!i       ? deep
                                                                       : i == 1 ? wide
                                                                                : back)
                               : !i && what->sweep == SWEEP_WEIGHTS ? few
                                                                    : square;
        char name[32];

        snprintf(name, sizeof name, "in%d_%d", stream, i);
        st = weir_graph_input(g, name, what->dtype, four ? 4 : 2, shape, &in[i]);
    }
    return st;
}

static weir_status chain(const struct calibration_graph *what, int stream, weir_tensor *const *in,
                         weir_tensor **y)
{
    weir_status st = WEIR_OK;
    char tag[32];

    snprintf(tag, sizeof tag, "calibrate:%d", stream);
    *y = weir_tensor_retain(in[0]);
    if (stream && (st = weir_scope_push_stream(tag, 0)))
        return st;
    for (int i = 0; i < what->nodes && !st; i++) {
        weir_tensor *made = NULL;

        st = next(what->sweep, i % others(what), in + 1, *y, &made);
        weir_tensor_release(*y);
        *y = made;
    }
    if (stream && weir_scope_pop(WEIR_SCOPE_STREAM) && !st)
        st = WEIR_ESTATE;
    return st;
}

weir_status calibration_build_sweep(const struct calibration_graph *what, weir_graph *g)
{
    weir_tensor *in[STREAMS][1 + MOST_WEIGHTS] = {{NULL}}, *y[STREAMS] = {NULL};
    weir_status st = WEIR_OK, ended;

    for (int s = 0; s < what->streams && !st; s++)
        st = inputs(what, g, s, in[s]);
    if (!st && !(st = weir_graph_begin(g))) {
        for (int s = 0; s < what->streams && !st; s++)
            st = chain(what, s, in[s], &y[s]);
        ended = weir_graph_end(g);
        st = st ? st : ended;
    }
    for (int s = 0; s < what->streams; s++) {
        char name[32];

        snprintf(name, sizeof name, "y%d", s);
        if (!st)
            st = weir_graph_output(g, name, y[s]);
        if (y[s])
            weir_tensor_release(y[s]);
        for (int i = 0; i < 1 + others(what); i++)
            if (in[s][i])
                weir_tensor_release(in[s][i]);
    }
    return st;
}

/* ---- measuring ---- */

/* Returns the shorter of two measurements, as disturbances on the machine are temporary. */
static weir_status time_twice(const struct calibration_graph *g, weir_device *dev,
                              struct calibration_runs *runs, double *us)
{
    const double short_us = 500; /* longer graphs are measured only once */
    double again;
    weir_status st = calibration_time(g, dev, runs, us);

    if (*us < short_us && !st && !(st = calibration_time(g, dev, runs, &again)))
        *us = fmin(*us, again);
    return st;
}

static weir_status measure(int sweep, weir_device *dev, weir_dtype dtype, int cores,
                           struct calibration_runs *runs, struct calibration_sweep *out)
{
    weir_status st = WEIR_OK;

    out->n = 0;
    for (int i = 0; i < WEIR__CURVE_POINTS && sweeps[sweep].sizes[i] && !st; i++) {
        struct calibration_graph g = {.name = sweeps[sweep].name,
                                      .body = BODY_SWEEP,
                                      .sweep = sweep,
                                      .nodes =
                                          nodes_of(sweep, sweeps[sweep].sizes[i], dtype, cores),
                                      .streams = 1,
                                      .n = sweeps[sweep].sizes[i],
                                      .dtype = dtype};

        if ((st = time_twice(&g, dev, runs, &out->us[i])))
            return st;
        g.streams = STREAMS;
        if ((st = time_twice(&g, dev, runs, &out->beside_us[i])))
            return st;
        out->nodes[i] = g.nodes;
        out->amount[i] = amount(sweep, (double)g.n, dtype);
        out->waste[i] = sweep == SWEEP_ATTENTION ? waste((double)g.n, cores) : 1;
        out->n++;
        if (out->us[i] > LONGEST_US)
            break;
    }
    return st;
}

weir_status calibration_measure_sweeps(struct calibration *c, weir_device *dev,
                                       struct calibration_runs *runs, struct progress *progress)
{
    c->base = c->cores < CALIBRATION_MANY_CORES ? 1 : 0;
    for (int s = 0; s < CALIBRATION_SWEEPS; s++) {
        weir_status st;

        /* A few cores are busy at any depth, so their time depends on the flops alone. */
        if (s == SWEEP_DEPTH && c->cores < CALIBRATION_MANY_CORES)
            continue;
        progress_show(progress, (double)s / (4 * CALIBRATION_SWEEPS), "%s of all sizes",
                      sweeps[s].name);
        /* A host's cores compute in f32 whatever type they read. */
        st = measure(s, dev, c->cores < CALIBRATION_MANY_CORES ? WEIR_F32 : sweeps[s].dtype,
                     c->cores, runs, &c->sweeps[s]);
        if (st)
            return st;
    }
    return WEIR_OK;
}

/* ---- curves ---- */

/* Returns the time of one operator including its launch: alone, or its share on several streams. */
static double one_us(const struct calibration *c, int sweep, int i, bool beside)
{
    const struct calibration_sweep *s = &c->sweeps[sweep];
    double all = beside ? s->beside_us[i] : s->us[i];
    double start = c->dispatch_us + (beside ? (STREAMS - 1) * c->stream_us : 0);

    return fmax(all - start, 0.1 * all) / s->nodes[i] / (beside ? STREAMS : 1);
}

double calibration_stream_us(const struct calibration *c)
{
    double least = INFINITY;

    if (c->cores < CALIBRATION_MANY_CORES)
        return 0; /* on so few cores even small operators wait for each other */
    for (int s = 0; s < CALIBRATION_SWEEPS; s++)
        if (c->sweeps[s].n)
            least = fmin(least, (c->sweeps[s].beside_us[0] - c->sweeps[s].us[0]) / (STREAMS - 1));
    return isinf(least) ? 0 : fmax(0, least);
}

double calibration_peak(const struct calibration *c, int sweep)
{
    const struct calibration_sweep *s = &c->sweeps[sweep];
    double best = 0;

    for (int i = 0; i < s->n; i++) {
        double rate = fmax(s->amount[i] * s->waste[i] / one_us(c, sweep, i, false),
                           s->amount[i] / one_us(c, sweep, i, true));

        /* for memory, the rate of the largest size: smaller ones may be read from a cache */
        best = sweep == SWEEP_MEMORY ? rate : fmax(best, rate);
    }
    return best;
}

void calibration_curve(const struct calibration *c, int sweep, double peak, bool beside,
                       struct weir__curve *out)
{
    const struct calibration_sweep *s = &c->sweeps[sweep];
    double least = 0;

    *out = (struct weir__curve){0};
    for (int i = 0; i < s->n; i++) {
        double us = fmax(one_us(c, sweep, i, beside), least); /* times must not decrease */
        double all = s->amount[i] * (beside ? 1 : s->waste[i]);

        if (out->n && all <= out->x[out->n - 1])
            continue;
        least = us;
        out->x[out->n] = all;
        out->y[out->n++] = all / us / peak;
    }
}

/* Interpolates linearly in logarithms between measured sizes; beyond the last, uses its rate. */
double calibration_amount_in(const struct calibration *c, int sweep, double us)
{
    const struct calibration_sweep *s = &c->sweeps[sweep];
    int i = 0;
    double t0, t1;

    if (s->n < 2)
        return 0;
    while (i + 2 < s->n && one_us(c, sweep, i + 1, false) < us)
        i++;
    t0 = one_us(c, sweep, i, false);
    t1 = fmax(one_us(c, sweep, i + 1, false), 1.001 * t0);
    if (us >= t1)
        return s->amount[i + 1] * us / t1;
    if (us <= t0)
        return s->amount[i];
    return s->amount[i] * pow(s->amount[i + 1] / s->amount[i], log(us / t0) / log(t1 / t0));
}
