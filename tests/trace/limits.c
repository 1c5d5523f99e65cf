/* That a core limit holds, read from the trace and not from the request: no operator is ever
 * on more cores at once, its values stay the same, and on the modelled device its time grows
 * as its cores shrink. */
#include <stdlib.h>

#include "harness/test.h"
#include "weir/weir.h"

/* The most cores of one kind that the operator had at any time. */
static unsigned most_at_once(const weir_trace_data *d, const weir_trace_op *op, bool vector)
{
    const weir_trace_device *dev = &d->devices[op->device];
    unsigned most = 0;

    for (uint32_t i = 0; i < op->nparts; i++) {
        const weir_trace_part *now = &d->parts[op->first_part + i];
        bool busy[2048] = {false};
        unsigned n = 0;

        for (uint32_t k = 0; k < op->nparts; k++) {
            const weir_trace_part *p = &d->parts[op->first_part + k];

            if (p->started_ns > now->started_ns || p->ended_ns <= now->started_ns)
                continue;
            for (uint32_t c = 0; c < p->ncores; c++) {
                unsigned core = p->cores[c];
                bool is_vector = dev->split_cores && core >= (unsigned)dev->cores.cube;

                CHECK_LT(core, 2048);
                CHECK(!busy[core]); /* a core does one thing at a time */
                busy[core] = true;
                n += !dev->split_cores || is_vector == vector;
            }
        }
        most = n > most ? n : most;
    }
    return most;
}

enum { ROWS = 384, COLS = 512 };

struct work {
    const char *name;
    bool vector; /* the kind of core that is limited */
    weir_status (*run)(weir_tensor *x, weir_tensor **out);
};

static weir_status run_matmul(weir_tensor *x, weir_tensor **out)
{
    weir_tensor *t;
    weir_status st = weir_tensor_transpose(x, 0, 1, &t);

    if (st)
        return st;
    st = weir_matmul(x, t, out);
    weir_tensor_release(t);
    return st;
}
static weir_status run_exp(weir_tensor *x, weir_tensor **out)
{
    return weir_exp(x, out);
}
static weir_status run_softmax(weir_tensor *x, weir_tensor **out)
{
    return weir_softmax(x, 1, out);
}
static weir_status run_sum(weir_tensor *x, weir_tensor **out)
{
    return weir_sum(x, (const int[]){1}, 1, false, out);
}

static const struct work works[] = {
    {"matmul", false, run_matmul},
    {"exp", true, run_exp},
    {"softmax", true, run_softmax},
    {"sum", true, run_sum},
};

static void check_on(const char *spec, bool timed)
{
    static float first[ROWS * COLS], got[ROWS * COLS];
    weir_device *dev;
    weir_stream *s;
    weir_tensor *x;
    weir_device_props props;

    CHECK_OK(weir_device_open(spec, &dev));
    weir_device_get_props(dev, &props, sizeof props);
    CHECK_OK(weir_stream_create(dev, NULL, &s));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){ROWS, COLS}, &x));
    CHECK_OK(weir_random_normal(x, 7, 0, 1));
    for (size_t w = 0; w < sizeof works / sizeof *works; w++) {
        const struct work *work = &works[w];
        int all = work->vector ? props.cores.vector : props.cores.cube;
        int64_t before_ns = 0;

        for (int k = 1; k <= all; k = k < 4 ? k + 1 : 2 * k) {
            weir_trace *trace;
            weir_trace_data d;
            const weir_trace_op *op = NULL;
            weir_tensor *out;
            size_t bytes;

            test_note("%s: %s on %d of %d cores", spec, work->name, k, all);
            CHECK_OK(
                weir_stream_set_limit(s, work->vector ? (weir_cores){-1, k} : (weir_cores){k, -1}));
            CHECK_OK(weir_stream_sync(s));
            CHECK_OK(weir_trace_start(NULL));
            CHECK_OK(work->run(x, &out));
            CHECK_OK(weir_stream_sync(s));
            CHECK_OK(weir_trace_stop(&trace));
            weir_trace_get(trace, &d, sizeof d);
            for (size_t i = 0; i < d.nops; i++)
                if (d.ops[i].nparts)
                    op = &d.ops[i];
            CHECK(op);
            CHECK_LE(most_at_once(&d, op, work->vector), k);
            CHECK_GE(most_at_once(&d, op, work->vector), 1);
            if (timed && k > 1) /* fewer cores never help, and the first few always do */
                CHECK_LE(op->ended_ns - op->started_ns, before_ns);
            if (timed && k == 2)
                CHECK_LT(op->ended_ns - op->started_ns, before_ns * 3 / 4);
            before_ns = op->ended_ns - op->started_ns;
            weir_trace_free(trace);
            bytes = (size_t)weir_tensor_numel(out) * sizeof(float);
            CHECK_LE(bytes, sizeof got);
            CHECK_OK(weir_tensor_read(out, k == 1 ? first : got, bytes));
            if (k > 1)
                CHECK_MEM_EQ(got, first, bytes);
            weir_tensor_release(out);
            weir_stream_reset_limit(s);
        }
    }
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

TEST(limits, core_limits_hold_on_real_threads)
{
    check_on("cpu:cores=8,threads=8", false);
    check_on("cpu:cube=24,vector=48,threads=6", false);
}

TEST(limits, core_limits_hold_and_scale_on_the_modelled_device)
{
    check_on("npu:a3", true);
}
