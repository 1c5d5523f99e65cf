/* A run of a plan as the race checker is told of it: one operator of the caller's stream
 * that reads the inputs and what its nodes use of constants, and writes the outputs. What runs
 * inside is ordered by the plan itself. Collectives in it make all of it one collective: what is
 * queued after it comes after what its peers queued before theirs. */
#include "graph/plan/plan.h"

static bool is_written(const weir_graph *g, int value)
{
    return g->values[value].last_writer >= 0;
}

/* A constant's operand as a tensor: of a larger buffer, a plan may use a part. */
static weir_tensor part_of(const weir_plan *plan, const struct weir__constant_use *u)
{
    const weir_tensor *whole = plan->graph->values[u->operand->value].constant;
    weir_tensor part = {.dev = whole->dev, .buffer = whole->buffer, .view = u->operand->view};

    part.view.data = (char *)(uintptr_t)u->first;
    return part;
}

weir_status weir__plan_race(const weir_plan *plan, weir_stream *caller, weir_tensor *const *inputs,
                            weir_tensor *const *outputs, bool queued)
{
    const weir_graph *g = plan->graph;
    size_t most =
        (size_t)g->ninputs + (size_t)g->noutputs + (size_t)g->nconstants + (size_t)plan->nuses + 1;
    struct weir__access *accesses = weir__calloc(most, sizeof *accesses);
    weir_tensor *parts = weir__calloc((size_t)plan->nuses + 1, sizeof *parts);
    weir_status st = WEIR_OK;
    int n = 0;

    if (!accesses || !parts) {
        weir__free(accesses);
        weir__free(parts);
        return queued ? WEIR_OK : weir__fail_nomem("allocating the accesses of a plan");
    }
    for (int i = 0; i < g->ninputs; i++)
        accesses[n++] = (struct weir__access){inputs[i], is_written(g, g->inputs[i])};
    for (int i = 0; i < g->nconstants; i++) /* which only runs of plans can reach */
        if (g->values[g->constants[i]].literal && plan->literal_at[g->constants[i]] < 0)
            accesses[n++] = (struct weir__access){g->values[g->constants[i]].constant,
                                                  is_written(g, g->constants[i])};
    for (int i = 0; i < plan->nuses; i++) {
        parts[i] = part_of(plan, &plan->uses[i]);
        accesses[n++] = (struct weir__access){&parts[i], plan->uses[i].writes};
    }
    for (int i = 0; i < g->noutputs; i++)
        accesses[n++] = (struct weir__access){outputs[i], true};
    if (queued)
        weir__race_note(caller, "plan", accesses, n);
    else
        st = weir__race_check(caller, "plan", accesses, n);
    weir__free(accesses);
    weir__free(parts);
    return st;
}

void weir__plan_race_calls(const weir_plan *plan, weir_stream *caller, const uint64_t *tickets)
{
    for (int i = 0; i < plan->nchannels; i++) {
        const struct weir__plan_channel *c = &plan->channels[i];

        for (uint64_t k = 0; k < c->calls; k++)
            weir__race_see_call(weir__stream_race(caller), c->channel, tickets[i] + k,
                                c->channel->nmembers);
    }
}
