/* Runs a plan without a graph. It is used for plans with host functions or with collectives that
 * cannot be in a graph, because the host must start those, and where a graph would be used only
 * once. The kernels are queued one by one on the lanes' own streams. */
#include "comm/comm.h"
#include "cuda/collective/meet.h"
#include "cuda/fault/faults.h"
#include "cuda/program/program.h"
#include "cuda/stream/trace_run.h"

#include <stdio.h>

/* Loads all kernels before this rank arrives at a collective. */
static weir_status load_all(struct weir__program *p)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < p->nlanes; i++)
        for (int k = 0; k < p->lanes[i].nitems && !st; k++)
            if (!p->lanes[i].items[k].is_wait)
                st = weir__cuda_load(weir__cuda_stream_of(p->lanes[i].stream),
                                     &p->lanes[i].items[k].kernel);
    return st;
}

static weir_status run_kernel(struct weir__program *p, int lane, const struct weir__kernel *k,
                              const uint64_t *tickets)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(p->lanes[lane].stream);
    uint64_t seq = weir__stream_submitted(&s->base) + 1;
    /* On the caller's own stream the failed command itself is in error. */
    struct weir__mark blamed = lane ? weir__cuda_blamed(p) : (struct weir__mark){&s->base, seq};
    struct weir__cuda_sink sink = {
        .dev = p->dev,
        .cores = k->cores,
        .context = weir__cuda_context(p->dev, blamed.stream, blamed.seq),
        .workspace = &p->lanes[lane].workspace,
        .counters = &p->lanes[lane].counters,
        .concurrent_set = p->concurrent_set,
    };
    struct weir__cuda_traced *traced;
    weir_status st;

    sink.context.stream = s->base.name;
    if ((k->fn && !weir__cuda_is_doomed(weir__cuda_stream_of(blamed.stream), blamed.seq + 1)) ||
        k->is_collective) {
        if ((st = weir__cuda_make_ready(s, k)) ||
            (st = weir__cuda_tail(s, k->engine <= WEIR_ENGINE_MIX ? k->cores : UINT32_MAX,
                                  &sink.stream)))
            return st;
        traced = weir__trace_on() ? weir__cuda_trace_begin(s, sink.stream, k, seq) : NULL;
        if (k->is_collective) {
            const struct weir__cuda_run run = {
                blamed, tickets[((const struct weir__meet *)k->args)->place]};

            st = weir__cuda_queue_meet(s, sink.stream, k, &run, traced);
        } else if (k->code->kind == WEIR__CODE_HOST) {
            st = weir__cuda_call_host(s, sink.stream, k, blamed);
        } else {
            st = weir__cuda_issue(&sink, k);
        }
        if (traced && k->is_collective)
            weir__cuda_trace_arrive(traced, !st);
        else if (traced)
            weir__cuda_trace_end(traced, sink.stream, !st);
        if (st)
            return st;
    }
    weir__cuda_count(s, 1, k->name);
    return WEIR_OK;
}

static weir_status run_wait(struct weir__program *p, int lane, const struct weir__cuda_item *item)
{
    const struct weir__cuda_lane *from = &p->lanes[item->lane];

    return weir__cuda_wait(p->lanes[lane].stream,
                           (struct weir__mark){from->stream, from->base + (uint64_t)item->item + 1},
                           WEIR__WAIT_ORDER);
}

/* ---- a run that could not be queued completely ---- */

static void fail_item(struct weir__program *p, struct weir__cuda_place at, weir_status status,
                      const char *why)
{
    const struct weir__cuda_item *item = weir__cuda_item_at(p, at);
    const weir_stream *s = p->lanes[at.lane].stream;
    struct weir__mark blamed = weir__cuda_blamed(p);
    char text[600];

    snprintf(text, sizeof text, "operator '%s' of a plan could not be queued on stream '%s': %s",
             item->is_wait ? "wait" : item->kernel.name, s->name, why);
    weir__cuda_may_fail(weir__cuda_stream_of(blamed.stream));
    weir__cuda_fail(weir__cuda_stream_of(blamed.stream), blamed.seq, status, text);
}

/* Breaks the group of a collective that this rank will not reach, so that its peers fail now and
 * not by their timeout. */
static void abort_group(const struct weir__meet *meet, weir_status status, const char *why)
{
    weir_group *group = meet->channel->group;
    char text[sizeof group->reason];

    snprintf(text, sizeof text, "the plan of rank %d on %s could not be queued: %s", meet->rank,
             group->ranks[meet->rank].device, why);
    group->transport->abort(group, status, text);
}

/* Counts an item without running it, so that the lanes are joined as usual. */
static void skip_item(struct weir__program *p, struct weir__cuda_place at, weir_status status,
                      const char *why)
{
    const struct weir__cuda_item *item = weir__cuda_item_at(p, at);
    struct weir__cuda_stream *s = weir__cuda_stream_of(p->lanes[at.lane].stream);

    if (item->is_wait) {
        const struct weir__cuda_lane *from = &p->lanes[item->lane];

        if (!run_wait(p, at.lane, item))
            return;
        (void)weir__cuda_sync(from->stream, from->base + (uint64_t)item->item + 1,
                              WEIR_TIMEOUT_DEVICE, false);
    } else if (item->kernel.is_collective) {
        abort_group(item->kernel.args, status, why);
    }
    weir__cuda_count(s, 1, item->is_wait ? "wait" : item->kernel.name);
}

weir_status weir__cuda_run_nodes(struct weir__program *p, const uint64_t *tickets)
{
    weir_status st = WEIR_OK;
    char why[400];

    if (!p->loaded && (p->has_collectives || p->on_host)) {
        weir__cuda_autotune(p);
        if ((st = load_all(p)))
            return st;
        p->loaded = true;
    }
    for (int i = 0; i < p->norder; i++) {
        const struct weir__cuda_item *item = weir__cuda_item_at(p, p->order[i]);
        int lane = p->order[i].lane;
        weir_stream *s = p->lanes[lane].stream;

        if (!st) {
            st = item->is_wait ? run_wait(p, lane, item)
                               : run_kernel(p, lane, &item->kernel, tickets);
            if (st && !i)
                return st; /* nothing is queued yet: the run fails and changes nothing */
            if (st) {
                snprintf(why, sizeof why, "%s", weir_last_error());
                fail_item(p, p->order[i], st, why);
                skip_item(p, p->order[i], st, why);
            }
        } else {
            skip_item(p, p->order[i], st, why);
        }
        s->clock.seq[s->slot]++;
    }
    return st ? weir__fail(st, "%s", why) : WEIR_OK;
}
