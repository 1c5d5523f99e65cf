#include "graph/estimate/overlap.h"

#include <math.h>
#include <stdio.h>

/* The program's time if operators have the flows of `whole` to themselves. */
static weir_status replay_apart(const struct weir__replay_program *program,
                                const struct weir__model *model, unsigned whole, double *us)
{
    struct weir__replay_options options = {
        .record_ps = weir__model_overhead(model, model->profile.event_record_us),
        .wait_ps = weir__model_overhead(model, model->profile.event_wait_us),
    };
    struct weir__replay_result result;
    struct weir__sim_limits limits;
    uint32_t count = 0, *sizes;
    weir_status st;

    for (uint32_t s = 0; s < program->nstreams; s++)
        for (uint32_t i = 0; i < program->streams[s].nnodes; i++) {
            uint32_t v = program->streams[s].nodes[i];
            uint32_t rendezvous = program->ops[program->nodes[v].op].rendezvous;

            count = rendezvous > count ? rendezvous : count;
        }
    if (!(sizes = weir__malloc((count + 1) * sizeof *sizes)))
        return weir__fail_nomem("replaying a stage");
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = 1; /* one rank stands for all */
    weir__model_limits(model, &limits);
    limits.whole_flows = whole;
    st = weir__replay(&limits, &program, 1, sizes, count, &options, &result);
    weir__free(sizes);
    if (st)
        return st;
    *us = (double)result.makespan / 1e6;
    weir__replay_fini(&result);
    return WEIR_OK;
}

static weir_status replay_all_apart(const struct weir__replay_program *program,
                                    const struct weir__model *model, struct weir__stage_time *out)
{
    weir_status st = replay_apart(program, model, (1U << WEIR__FLOWS) - 1, &out->apart_us);

    for (int f = 0; f < WEIR__FLOWS && !st; f++)
        st = replay_apart(program, model, 1U << f, &out->flow_apart_us[f]);
    return st;
}

weir_status weir__stage_time_read(const struct weir__prediction *p, const struct weir__model *model,
                                  bool replays, struct weir__stage_time *out)
{
    const struct weir__predict_graph *pg = &p->graphs[0];
    double record = (double)weir__model_overhead(model, model->profile.event_record_us) / 1e6;
    double wait = (double)weir__model_overhead(model, model->profile.event_wait_us) / 1e6;
    struct weir__sim_limits limits;

    weir__model_limits(model, &limits);
    *out = (struct weir__stage_time){.us = (double)p->makespan / 1e6,
                                     .nstreams = pg->program.nstreams};
    for (uint32_t s = 0; s < pg->program.nstreams; s++) {
        double us = 0;

        for (uint32_t i = 0; i < pg->streams[s].nnodes; i++) {
            uint32_t v = pg->streams[s].nodes[i];
            const struct weir__sim_op *op = weir__predict_op(pg, v);
            double work = op->blocks * (double)op->block_ps / 1e6;

            us += (double)(op->launch_ps + weir__sim_alone(&limits, op)) / 1e6;
            if (!pg->nodes[v].measured)
                us += pg->nodes[v].nwaits * wait + (pg->nodes[v].recorded ? record : 0);
            for (int f = 0; f < WEIR__FLOWS; f++)
                if (limits.flow[f])
                    out->flow_us[f] += (double)op->draws[f] / (double)limits.flow[f] * work;
            for (int k = 0; k < WEIR__POOLS; k++)
                out->pool_us[k] += op->per_block[k] * work / limits.cores[k];
        }
        out->all += us;
        if (s < WEIR__OVERLAP_STREAMS)
            out->streams[s] = us;
    }
    return replays ? replay_all_apart(&pg->program, model, out) : WEIR_OK;
}

static double extend(double one, double other, double times)
{
    return other + (other - one) * times;
}

void weir__stage_time_extend(const struct weir__stage_time *one,
                             const struct weir__stage_time *other, double times,
                             struct weir__stage_time *out)
{
    *out = (struct weir__stage_time){
        .us = extend(one->us, other->us, times),
        .apart_us = extend(one->apart_us, other->apart_us, times),
        .all = extend(one->all, other->all, times),
        .nstreams = other->nstreams,
    };
    for (int f = 0; f < WEIR__FLOWS; f++) {
        out->flow_us[f] = extend(one->flow_us[f], other->flow_us[f], times);
        out->flow_apart_us[f] = extend(one->flow_apart_us[f], other->flow_apart_us[f], times);
    }
    for (int k = 0; k < WEIR__POOLS; k++)
        out->pool_us[k] = extend(one->pool_us[k], other->pool_us[k], times);
    for (int s = 0; s < WEIR__OVERLAP_STREAMS; s++)
        out->streams[s] = extend(one->streams[s], other->streams[s], times);
}

/* The time of the busiest stream or kind of core. */
static double longest(const struct weir__stage_time *t)
{
    double most = 0;

    for (int k = 0; k < WEIR__POOLS; k++)
        most = fmax(most, t->pool_us[k]);
    for (int s = 0; s < WEIR__OVERLAP_STREAMS; s++)
        most = fmax(most, t->streams[s]);
    return most;
}

/* The time of a machine's streams, if those of `known` together take `us`. */
static double overlapped(const struct weir__stage_time *time, const struct weir__stage_time *known,
                         double us)
{
    double least = longest(known), share;

    if (us >= known->all)
        return time->all * us / known->all;
    if (us <= least)
        return longest(time) * us / least;
    share = (us - least) / (known->all - least);
    return (1 - share) * longest(time) + share * time->all;
}

/* All factors are at least 0 and depend on `known` alone, so the result falls with each time of the
 * machine. */
double weir__overlap(const struct weir__stage_time *time, const struct weir__stage_time *known)
{
    double more = fmax(0, known->us - known->apart_us), gains[WEIR__FLOWS], all = 0, us;

    for (int f = 0; f < WEIR__FLOWS; f++) {
        gains[f] = known->flow_us[f] > 0 ? fmax(0, known->us - known->flow_apart_us[f]) : 0;
        all += gains[f];
    }
    if (!(all > 0))
        more = 0;
    us = overlapped(time, known, known->us - more);
    for (int f = 0; f < WEIR__FLOWS; f++)
        if (more > 0 && gains[f] > 0)
            us += more * gains[f] / all * time->flow_us[f] / known->flow_us[f];
    if (known->us <= known->all)
        us = fmin(us, time->all);
    for (int f = 0; f < WEIR__FLOWS; f++)
        us = fmax(us, time->flow_us[f]);
    return fmax(us, longest(time));
}

weir_status weir__overlap_open(const weir_device *dev, weir_device **out)
{
    const struct weir__model *model = dev->model;
    char spec[160];

    *out = NULL;
    if (!model || !model->profile.base.name[0])
        return WEIR_OK;
    snprintf(spec, sizeof spec, "npu:%s,policy=%s,overhead=%s,hf32=%s,algorithm=%s,seed=%llu",
             model->profile.base.name, model->hold ? "hold" : "batch",
             model->overhead ? "on" : "off", model->hf32 ? "on" : "off",
             weir__algorithm_names[model->algorithm], (unsigned long long)model->seed);
    return weir_device_open(spec, out);
}

void weir__overlap_close(weir_device *ref)
{
    if (ref)
        (void)weir_device_close(ref);
}

void weir__overlap_cores(struct weir__deploy *d, const struct weir__profile *p)
{
    if (d->share) {
        weir__deploy_share_cores(d, p, (int)d->share - 1);
    } else if (d->cube) { /* as many as given, but the rest needs one */
        d->cube = (uint32_t)fmax(1, fmin(d->cube, p->cube_cores - 1));
        d->vector = (uint32_t)fmax(1, fmin(d->vector, p->vector_cores - 1));
    }
}
