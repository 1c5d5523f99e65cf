/* Which instance of a plan a run uses. */
#include <string.h>

#include "graph/plan/dynamic.h"
#include "graph/plan/run.h"

/* On a device with slow_update: how many instances are kept for the bindings of earlier runs
 * although one is idle, and the limit on the total size of their arenas. */
enum { KEPT = 4, KEPT_BYTES = 32 << 20 };

static bool is_over(const weir_plan *plan, const struct weir__instance *inst)
{
    return !inst->last.stream || plan->dev->driver->done(inst->last.stream) >= inst->last.seq;
}

/* Whether its kernels may be replaced although it runs. */
static bool may_update(const weir_plan *plan, const struct weir__instance *inst)
{
    const struct weir__driver_plans *plans = plan->dev->driver->plans;

    return plans->may_update && plans->may_update(inst->program);
}

bool weir__plan_may_change(weir_plan *plan)
{
    bool may = true;

    weir__device_lock(plan->dev);
    for (int i = 0; i < plan->ninstances && may; i++)
        may = may_update(plan, plan->instances[i]) || is_over(plan, plan->instances[i]);
    weir__device_unlock(plan->dev);
    return may;
}

static bool same_bindings(const struct weir__run *r, const struct weir__instance *inst)
{
    const weir_graph *g = r->plan->graph;

    return !inst->is_half_bound && !inst->is_stale &&
           !memcmp(inst->bound, r->bound, (size_t)(g->ninputs + g->noutputs) * sizeof *r->bound);
}

static bool same_limits(const struct weir__run *r, const struct weir__instance *inst)
{
    return !memcmp(inst->limits, r->limits, (size_t)r->plan->c.nstreams * sizeof *r->limits);
}

/* Whether the error means that memory ran out. */
static bool is_short(weir_status st)
{
    return st == WEIR_EOOM || st == WEIR_ENOMEM;
}

/* Whether new bindings get an instance of their own although this one is idle: callers often use
 * the same few addresses for their tensors. Not if the sizes have changed, because then the kernels
 * of all instances are out of date. Nor if products of several lanes are timed together,
 * because each instance would time them again. */
static bool may_keep(const weir_plan *plan, const struct weir__instance *idle)
{
    bool times = plan->nlanes > 1 && weir__is_autotuned(&plan->c.options);

    return plan->dev->driver->plans->slow_update && idle->has_run && !idle->is_stale &&
           plan->ninstances < KEPT && !times && !plan->frugal &&
           plan->c.arena_bytes * (size_t)(plan->ninstances + 1) <= KEPT_BYTES;
}

/* Moves the instance to the end of the list: instances at the front are reused first. */
static struct weir__instance *use(weir_plan *plan, int at)
{
    struct weir__instance *inst = plan->instances[at];

    memmove(&plan->instances[at], &plan->instances[at + 1],
            (size_t)(plan->ninstances - at - 1) * sizeof inst);
    plan->instances[plan->ninstances - 1] = inst;
    return inst;
}

/* An instance with the bindings of the run, in this order: one that has them and is idle or last
 * ran on the same stream; one that can be patched, idle or last run on the same stream; a new one.
 * NULL if it must wait for r->busy. */
static struct weir__instance *choose(struct weir__run *r, weir_status *st)
{
    weir_plan *plan = r->plan;
    struct weir__instance *inst;
    int idle = -1;

    for (int i = plan->ninstances - 1; i >= 0; i--) {
        inst = plan->instances[i];
        if (same_bindings(r, inst) && same_limits(r, inst) &&
            (inst->last.stream == r->caller || is_over(plan, inst)))
            return use(plan, i);
    }
    if ((*st = weir__plan_check_overlap(plan, r->bound)))
        return NULL;
    for (int i = 0; i < plan->ninstances && idle < 0; i++) {
        inst = plan->instances[i];
        if ((inst->last.stream == r->caller && may_update(plan, inst)) || is_over(plan, inst))
            idle = i;
    }
    if (idle >= 0 && !may_keep(plan, plan->instances[idle])) {
        inst = use(plan, idle);
        *st = weir__instance_rebind(plan, inst, r->bound, r->limits, !same_limits(r, inst));
        if (*st != WEIR_ERANGE || !plan->elastic)
            return inst;
        /* With other sizes its kernels may have more arguments, which do not fit into its
         * program. */
        *st = WEIR_OK;
        if (!is_over(plan, inst)) { /* its program cannot be freed yet */
            r->busy = inst->last;
            return NULL;
        }
        weir__instance_free(plan, inst);
        plan->ninstances--;
    }
    if (plan->ninstances == WEIR__MAX_INSTANCES) {
        r->busy = plan->instances[0]->last; /* the one that was used longest ago */
        return NULL;
    }
    if (!(inst = weir__instance_make(plan, r->bound, r->limits))) {
        *st = weir__last_status();
        if (idle >= 0 && !plan->frugal && is_short(*st)) {
            plan->frugal = true;
            *st = WEIR_OK;
            return choose(r, st);
        }
    } else if (plan->ninstances == WEIR__MAX_INSTANCES) {
        /* Allocating released the lock, and another thread has made the last instance. */
        weir__instance_free(plan, inst);
        inst = NULL;
        r->busy = plan->instances[0]->last;
    } else {
        plan->instances[plan->ninstances++] = inst;
    }
    return inst;
}

weir_status weir__run_acquire(struct weir__run *r, struct weir__instance **out)
{
    weir_device *dev = r->plan->dev;
    weir_status st = WEIR_OK;

    while (!(*out = choose(r, &st)) && !st) {
        struct weir__mark busy = r->busy;

        if (!busy.stream) /* it has never run: it can be used now */
            continue;
        weir__device_unlock(dev);
        st = weir__stream_await(busy.stream, busy.seq, WEIR_TIMEOUT_DEVICE, true);
        weir__device_lock(dev);
        if (dev->driver->done(busy.stream) >= busy.seq)
            st = WEIR_OK;
    }
    return st;
}

bool weir__run_give_up(weir_plan *plan, struct weir__instance *inst, weir_status st)
{
    int at = -1;
    bool idle = false;

    if (!is_short(st) || inst->has_run)
        return false;
    for (int i = 0; i < plan->ninstances; i++)
        if (plan->instances[i] == inst)
            at = i;
        else
            idle |= is_over(plan, plan->instances[i]);
    if (!idle)
        return false;
    use(plan, at);
    plan->ninstances--;
    plan->frugal = true;
    weir__instance_free(plan, inst);
    return true;
}
