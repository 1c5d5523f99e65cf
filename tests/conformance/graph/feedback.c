/* Runs of a plan one behind the other, whose results become the inputs of the next run and whose
 * inputs become its results, queued on two streams in turn without waiting, with tensors let go
 * early and limits that change, leave the bits that the calls one by one leave. */
#include "conformance/graph/programs_run.h"

#include <stdlib.h>

enum { MAX_ROUNDS = 9 };

struct feedback {
    weir_device *dev;
    struct program *p;
    struct rng rng;
    int nin, nout, rounds;
    int to[MAX_RESULTS];     /* the input that a result becomes; -1: none */
    int result[MAX_RESULTS]; /* by output: its place in the program's list */
    weir_tensor *in[MAX_INPUTS], *constants[MAX_INPUTS], *want[MAX_INPUTS];
    weir_tensor *last[MAX_RESULTS], *last_want[MAX_RESULTS]; /* results of the last round */
};

static bool alike(const weir_tensor *a, const weir_tensor *b)
{
    return weir_tensor_dtype(a) == weir_tensor_dtype(b) &&
           weir_tensor_ndim(a) == weir_tensor_ndim(b) &&
           !memcmp(weir_tensor_shape(a), weir_tensor_shape(b),
                   sizeof(int64_t) * (size_t)weir_tensor_ndim(a));
}

/* The calls one by one on f->want, and where results go if `find`. */
static void run_calls(struct feedback *f, bool find, bool last)
{
    weir_tensor *values[MAX_VALUES] = {NULL};
    struct sizes sizes = sizes_of(0);
    bool taken[MAX_INPUTS] = {false};
    int failed, k = 0;

    for (int i = 0; i < f->p->ninputs; i++)
        values[i] = weir_tensor_retain(f->want[i]);
    if (program_run(f->p, f->dev, &sizes, values, false, false, false, &failed))
        FAIL("eager step %d %s: %s", failed, step_text(&f->p->steps[failed]), weir_last_error());
    for (int i = 0; i < f->p->nresults; i++) {
        weir_tensor *y = values[f->p->results[i]];

        if (!program_has_result(f->p, values, i))
            continue;
        if (find) {
            f->to[k] = -1;
            f->result[k] = i;
            for (int x = 0; x < f->nin && f->to[k] < 0; x++)
                if (!taken[x] && alike(y, f->want[x]))
                    taken[f->to[k] = x] = true;
        }
        if (last)
            CHECK_OK(weir_copy(y, &f->last_want[k]));
        k++;
    }
    f->nout = k;
    for (int i = 0; i < k && !find; i++)
        if (f->to[i] >= 0) { /* a result has memory of its own */
            weir_tensor *copy;

            CHECK_OK(weir_copy(values[f->p->results[f->result[i]]], &copy));
            weir_tensor_release(f->want[f->to[i]]);
            f->want[f->to[i]] = copy;
        }
    program_release(values, MAX_VALUES);
}

static void run_round(struct feedback *f, weir_plan *plan, weir_stream *stream, weir_tensor **spare,
                      bool last)
{
    weir_tensor *out[MAX_RESULTS] = {NULL};

    for (int k = 0; k < f->nout; k++)
        if (f->to[k] >= 0 && rng_chance(&f->rng, 70)) {
            out[k] = spare[f->to[k]];
            spare[f->to[k]] = NULL;
        }
    if (rng_chance(&f->rng, 30)) {
        weir_cores most = weir_device_get_limit(f->dev);

        CHECK_OK(
            weir_stream_set_limit(stream, (weir_cores){(int)rng_int(&f->rng, 1, most.cube),
                                                       (int)rng_int(&f->rng, 1, most.vector)}));
    }
    CHECK_OK((rng_chance(&f->rng, 20) ? weir_plan_call : weir_plan_run)(
        plan, stream, f->in, (size_t)f->nin, out, (size_t)f->nout));
    for (int k = 0; k < f->nout; k++) {
        if (last)
            f->last[k] = weir_tensor_retain(out[k]);
        if (f->to[k] >= 0) {
            weir_tensor_release(spare[f->to[k]]);
            spare[f->to[k]] = f->in[f->to[k]];
            f->in[f->to[k]] = out[k];
        } else {
            weir_tensor_release(out[k]);
        }
    }
}

static void run_rounds(struct feedback *f, weir_plan *plan)
{
    weir_stream *streams[] = {new_stream(f->dev), new_stream(f->dev)};
    weir_tensor *spare[MAX_INPUTS] = {NULL};
    int at = 0;

    order(weir_stream_default(f->dev), streams[at]);
    for (int round = 0; round < f->rounds; round++) {
        if (rng_chance(&f->rng, 40)) {
            order(streams[at], streams[1 - at]);
            at = 1 - at;
        }
        run_round(f, plan, streams[at], spare, round + 1 == f->rounds);
    }
    program_release(spare, MAX_INPUTS);
    order(streams[at], weir_stream_default(f->dev));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
}

static void compare_feedback(weir_device *dev, uint64_t seed, bool open)
{
    struct feedback *f = calloc(1, sizeof *f);
    struct program *p = f->p = malloc(sizeof *p);
    weir_graph *g;
    weir_plan *plan;

    (void)open;
    f->dev = dev;
    f->rng = rng_make("feedback", seed);
    f->rounds = (int)rng_int(&f->rng, 2, MAX_ROUNDS);
    program_make_writing(p, dev, seed);
    program_switch_off(p);
    program_show(p);
    f->nin = p->ninputs - p->nconstants;
    for (int i = 0; i < p->ninputs; i++) {
        if (i < f->nin)
            f->in[i] = program_input(p, dev, i, 0, 0);
        else
            f->constants[i] = program_input(p, dev, i, 0, 0);
        f->want[i] = program_input(p, dev, i, 0, 0);
    }
    run_calls(f, true, false);
    for (int i = 0; i < p->ninputs; i++) { /* which steps may have written to */
        weir_tensor_release(f->want[i]);
        f->want[i] = program_input(p, dev, i, 0, 0);
    }
    g = program_capture(p, dev, f->constants, seed & 1);
    plan = program_compile(g, seed, (int)(seed % 3), "feedback");
    weir_graph_destroy(g);
    run_rounds(f, plan);
    for (int round = 0; round < f->rounds; round++)
        run_calls(f, false, round + 1 == f->rounds);
    for (int k = 0; k < f->nout; k++)
        program_check_equal(p, "last result", p->results[f->result[k]], f->last_want[k],
                            f->last[k]);
    for (int i = 0; i < p->ninputs; i++)
        program_check_equal(p, "input", i, f->want[i], i < f->nin ? f->in[i] : f->constants[i]);
    program_release(f->in, MAX_INPUTS);
    program_release(f->constants, MAX_INPUTS);
    program_release(f->want, MAX_INPUTS);
    program_release(f->last, MAX_RESULTS);
    program_release(f->last_want, MAX_RESULTS);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    free(p);
    free(f);
}

CONFORMANCE(mixed_programs, in_runs_that_feed_each_other_give_the_bits_of_the_calls_one_by_one)
{
    each_program(dev, 12, false, compare_feedback);
}
