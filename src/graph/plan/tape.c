/* Runs of plans in CUDA graphs that others capture. Each run has an instance that belongs to the
 * tape, so its addresses in the graph stay valid. */
#include "graph/plan/plan.h"

enum { MAX_LANES = 128 };

struct part {
    weir_plan *plan;
    struct weir__instance *inst;
};

struct weir_tape {
    weir_device *dev;
    struct weir__reel *reel;
    struct part *parts;
    int nparts, cap_parts;
    struct weir__mark last; /* mark after the last launch; stream NULL before the first launch */
    void *native;           /* the native stream of the last launch */
};

weir_status weir_tape_create(weir_device *dev, weir_tape **out)
{
    WEIR__NEED(dev, "dev");
    WEIR__NEED(out, "out");

    weir_tape *tape;
    weir_status st;

    *out = NULL;
    if (!dev->driver->tapes)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "%s cannot put plans into graphs of other libraries; only cuda can",
                          dev->props.name);
    if (!(tape = weir__calloc(1, sizeof *tape)))
        return weir__fail_nomem("making a tape");
    tape->dev = dev;
    if ((st = dev->driver->tapes->open(dev, &tape->reel))) {
        weir__free(tape);
        return st;
    }
    *out = tape;
    return WEIR_OK;
}

/* ---- adding; under the device lock ---- */

static weir_status add_part(weir_tape *tape, weir_plan *plan, weir_stream *s, char *const *bound,
                            void *native)
{
    weir_stream *streams[MAX_LANES] = {s};
    weir_cores limits[MAX_LANES];
    struct weir__instance *inst;
    weir_status st;

    if (!plan->ninstances)
        return weir__fail(WEIR_ESTATE, "a plan must run before it is put on a tape");
    for (int i = 1; i < plan->c.nstreams; i++)
        streams[i] = plan->streams[i] == s ? plan->stand_in : plan->streams[i];
    for (int i = 0; i < plan->c.nstreams; i++)
        limits[i] = weir_stream_get_limit(streams[i]);
    if ((st = weir__plan_check_overlap(plan, bound)))
        return st;
    if (!weir__grow(&tape->parts, tape->nparts, &tape->cap_parts, sizeof *tape->parts))
        return WEIR_ENOMEM;
    if (!(inst = weir__instance_make(plan, bound, limits)))
        return weir__last_status();
    /* The tape owns the instance from here on: even after an error the capture may contain part of
     * it. */
    tape->parts[tape->nparts++] = (struct part){plan, inst};
    return tape->dev->driver->tapes->add(
        tape->reel, inst->program, plan->instances[plan->ninstances - 1]->program, streams, native);
}

weir_status weir_tape_add(weir_tape *tape, weir_plan *plan, weir_stream *s,
                          weir_tensor *const *inputs, size_t ninputs, weir_tensor *const *outputs,
                          size_t noutputs, void *native)
{
    WEIR__NEED(tape, "tape");
    WEIR__NEED(plan, "plan");
    WEIR__NEED(s, "stream");

    char **bound;
    weir_status st;

    if (plan->dynamic)
        return weir__fail(WEIR_EUNSUPPORTED, "a plan of dynamic sizes cannot be on a tape");
    if ((st = weir__plan_check_inputs(plan, s, inputs, ninputs, outputs, noutputs)))
        return st;
    for (size_t i = 0; i < noutputs; i++)
        if ((st = weir__need(outputs[i], "an output of a plan on a tape")))
            return st;
    if ((st = weir__plan_check_outputs(plan, outputs)))
        return st;
    if (plan->dev != tape->dev || plan->c.nstreams > MAX_LANES)
        return weir__fail(WEIR_EINVAL,
                          "a tape of %s takes plans of that device on at most %d streams",
                          tape->dev->label, MAX_LANES);
    if (!(bound = weir__malloc((ninputs + noutputs + 1) * sizeof *bound)))
        return weir__fail_nomem("allocating the bindings of %zu inputs and outputs",
                                ninputs + noutputs);
    for (size_t i = 0; i < ninputs; i++)
        bound[i] = inputs[i]->view.data;
    for (size_t i = 0; i < noutputs; i++)
        bound[ninputs + i] = outputs[i]->view.data;
    weir__device_lock(tape->dev);
    st = add_part(tape, plan, s, bound, native);
    weir__device_unlock(tape->dev);
    weir__free(bound);
    return st;
}

/* ---- launches ---- */

/* Before the first launch: memory of an arena is valid once the stream that it was allocated on has
 * reached that point. */
static weir_status wait_arenas(const weir_tape *tape, void *native)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < tape->nparts && !st; i++)
        if (tape->parts[i].inst->last.stream)
            st = tape->dev->driver->native->signal(tape->parts[i].inst->last, native);
    return st;
}

static weir_status begin(weir_tape *tape, weir_stream *s, void *native)
{
    weir_status st = weir__stream_queue_deferred(s);

    if (!st && !tape->last.stream)
        st = wait_arenas(tape, native);
    else if (!st && tape->native != native)
        st = tape->dev->driver->native->signal(tape->last, native);
    return st ? st : tape->dev->driver->tapes->begin(tape->reel, s, native);
}

weir_status weir_tape_begin(weir_tape *tape, weir_stream *s, void *native)
{
    WEIR__NEED(tape, "tape");
    WEIR__NEED(s, "stream");

    weir_status st;

    if (s->dev != tape->dev)
        return weir__fail(WEIR_EDEVICE, "a tape of %s cannot run on stream '%s' of %s",
                          tape->dev->label, s->name, s->dev->label);
    weir__device_lock(tape->dev);
    st = begin(tape, s, native);
    weir__device_unlock(tape->dev);
    return st;
}

weir_status weir_tape_end(weir_tape *tape, weir_stream *s, void *native)
{
    WEIR__NEED(tape, "tape");

    weir_status st = weir_stream_wait_native(s, native);

    if (st)
        return st;
    tape->last = (struct weir__mark){s, weir__stream_submitted(s)};
    tape->native = native;
    return WEIR_OK;
}

void weir_tape_destroy(weir_tape *tape)
{
    if (!tape)
        return;
    if (tape->last.stream) {
        weir__wait_shield(1);
        (void)weir__stream_sync_seq(tape->last.stream, tape->last.seq, WEIR_TIMEOUT_DEVICE, true);
        weir__wait_shield(-1);
    }
    weir__device_lock(tape->dev);
    for (int i = 0; i < tape->nparts; i++)
        weir__instance_free(tape->parts[i].plan, tape->parts[i].inst);
    tape->dev->driver->tapes->close(tape->reel);
    weir__device_unlock(tape->dev);
    weir__free(tape->parts);
    weir__free(tape);
}
