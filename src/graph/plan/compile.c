/* The passes, in order, and the plan that they produce. */
#include "base/sized.h"
#include "graph/plan/dynamic.h"
#include "graph/predict/place.h"

#include <stdlib.h>
#include <string.h>

/* The node's time on one core, by its row's cost. */
static double node_ns(const weir_graph *g, int v)
{
    const struct weir__node *n = &g->nodes[v];
    const struct weir__view *in[WEIR__OP_MAX_IN];
    struct weir__view out[WEIR__OP_MAX_OUT];
    struct weir__call call = {.op = n->op,
                              .nin = n->nin,
                              .nout = n->nout,
                              .in = in,
                              .out = out,
                              .params = n->params,
                              .cores = 1};
    struct weir__cost cost = {0};

    for (int i = 0; i < n->nin; i++)
        in[i] = n->in[i].value == WEIR__NO_VALUE ? NULL : &n->in[i].view;
    for (int i = 0; i < n->nout; i++)
        out[i] = n->out[i].view;
    n->op->cost(&call, &cost);
    return weir__cost_ns(&cost);
}

weir_status weir_compile_mode_parse(const char *name, weir_compile_mode *out)
{
    static const char *const modes[] = {"max-autotune", "reduce-overhead", "eager"};

    WEIR__NEED(out, "out");
    for (size_t i = 0; i < weir__countof(modes); i++)
        if (!name || !strcmp(name, modes[i])) {
            *out = (weir_compile_mode)i;
            return WEIR_OK;
        }
    return weir__fail(
        WEIR_EINVAL, "unknown mode '%s'; the modes are max-autotune, reduce-overhead, eager", name);
}

weir_status weir_stream_placement_parse(const char *name, weir_stream_placement *out)
{
    WEIR__NEED(out, "out");
    static const char *const names[] = {"explicit", "auto", "siblings"};

    for (size_t i = 0; i < weir__countof(names); i++)
        if (!strcmp(name ? name : names[0], names[i])) {
            *out = (weir_stream_placement)i;
            return WEIR_OK;
        }
    return weir__fail(WEIR_EINVAL, "unknown streams '%s'; they are explicit, auto, siblings", name);
}

static weir_status check_options(const weir_graph *g, const weir_compile_options *o)
{
    weir_cores cores;

    if (o->mode > WEIR_COMPILE_EAGER)
        return weir__fail(WEIR_EINVAL, "compile mode %d is out of range: 0..%d", (int)o->mode,
                          WEIR_COMPILE_EAGER);
    if (o->streams > WEIR_STREAMS_SIBLINGS)
        return weir__fail(WEIR_EINVAL, "stream placement %d is out of range: 0..%d",
                          (int)o->streams, WEIR_STREAMS_SIBLINGS);
    if (o->nranks && !o->ranks)
        return weir__fail(WEIR_EINVAL, "the array of %zu ranks is NULL", o->nranks);
    return weir__graph_cores(g, o->cores, &cores);
}

void weir__compile_fini(struct weir__compile *c)
{
    weir__edges_fini(&c->edges);
    weir__free(c->live);
    weir__free(c->streams);
    weir__free(c->stream);
    weir__free(c->position);
    weir__free(c->order);
    weir__text_free(&c->notes);
    weir__free(c->sync_first);
    weir__free(c->syncs);
    weir__free(c->joins);
    weir__free(c->leader);
    weir__free(c->chunked);
    weir__free(c->rows);
    weir__free(c->absorbs);
    weir__free(c->slot);
    weir__free(c->limit);
    weir__free(c->offset);
    weir__free(c->scratch_offset);
    weir__free(c->scratch_size);
}

static weir_status find_edges(struct weir__compile *c)
{
    return weir__graph_edges(c->g, &c->edges);
}

static weir_status check_plan(struct weir__compile *c)
{
    return weir__pass_check(c);
}

static weir_status run_passes(struct weir__compile *c, struct weir__stages *stages)
{
    static const struct {
        const char *name;
        weir_status (*run)(struct weir__compile *c);
    } passes[] = {
        {"edges", find_edges},         {"live", weir__pass_live},   {"streams", weir__pass_streams},
        {"sync", weir__pass_sync},     {"super", weir__pass_super}, {"cores", weir__pass_cores},
        {"memory", weir__pass_memory}, {"check", check_plan},       {"fuse", weir__pass_fuse},
    };
    weir_status st;

    for (size_t i = 0; i < weir__countof(passes); i++)
        if ((st = passes[i].run(c)) || (st = weir__stage_compile(stages, passes[i].name, c)))
            return st;
    return WEIR_OK;
}

/* Whether several lanes pay. The gain is at most the work outside the longest lane; the cost is
 * waking another thread, and a cache line for each sync. */
static bool crossing_pays(const struct weir__compile *c)
{
    const double start_ns = 2000, sync_ns = 100;
    double all = 0, longest = 0;

    if (c->g->dev->driver->plans->one_launch)
        return true;
    for (int s = 0; s < c->nstreams; s++) {
        double lane = 0;

        for (int p = 0; p < c->streams[s].nnodes; p++)
            lane += node_ns(c->g, weir__node_at(c, s, p));
        all += lane;
        longest = lane > longest ? lane : longest;
    }
    return all - longest > start_ns + sync_ns * c->nsyncs;
}

/* Counts the launch of node v for each bound value that it accesses. With `list`, also writes it
 * there, from next[slot] on. */
static void note_touches(const weir_plan *plan, int v, int *next, int *list)
{
    const struct weir__node *n = &plan->graph->nodes[v];

    for (int i = 0; i < n->nin + n->nout; i++) {
        int value = i < n->nin ? n->in[i].value : n->out[i - n->nin].value;
        int slot = value == WEIR__NO_VALUE ? -1 : plan->slot_of[value];

        if (slot < 0)
            continue;
        if (list)
            list[next[slot]] = plan->c.leader[v];
        next[slot]++;
    }
}

/* Lists which launches access each bound value. */
static weir_status find_touches(weir_plan *plan)
{
    const weir_graph *g = plan->graph;
    int nslots = g->ninputs + g->noutputs, total = 0;
    int *next = weir__calloc((size_t)nslots + 1, sizeof *next);

    plan->touch_first = weir__calloc((size_t)nslots + 1, sizeof *plan->touch_first);
    if (!next || !plan->touch_first) {
        weir__free(next);
        return weir__fail_nomem("making a plan of %d nodes", g->nnodes);
    }
    for (int v = 0; v < g->nnodes; v++)
        if (plan->c.live[v])
            note_touches(plan, v, next, NULL);
    for (int i = 0; i <= nslots; i++) {
        plan->touch_first[i] = total;
        total += i < nslots ? next[i] : 0;
    }
    memcpy(next, plan->touch_first, (size_t)nslots * sizeof *next);
    plan->touch_launches = weir__malloc(((size_t)total + 1) * sizeof *plan->touch_launches);
    for (int v = 0; plan->touch_launches && v < g->nnodes; v++)
        if (plan->c.live[v])
            note_touches(plan, v, next, plan->touch_launches);
    weir__free(next);
    return plan->touch_launches ? WEIR_OK
                                : weir__fail_nomem("making a plan of %d nodes", g->nnodes);
}

/* Finds the values that are bound at each run, and the launches that access them. */
static weir_status find_external(weir_plan *plan)
{
    const weir_graph *g = plan->graph;

    plan->slot_of = weir__malloc(((size_t)g->nvalues + 1) * sizeof *plan->slot_of);
    plan->item = weir__calloc((size_t)g->nnodes + 1, sizeof *plan->item);
    if (!plan->slot_of || !plan->item)
        return weir__fail_nomem("making a plan of %d nodes", g->nnodes);
    for (int i = 0; i < g->nvalues; i++)
        plan->slot_of[i] = -1;
    for (int i = 0; i < g->ninputs; i++)
        plan->slot_of[g->inputs[i]] = i;
    for (int i = 0; i < g->noutputs; i++)
        plan->slot_of[g->outputs[i].operand.value] = g->ninputs + i;
    weir__plan_number_items(plan);
    return find_touches(plan);
}

static weir_status find_streams(weir_plan *plan)
{
    const struct weir__compile *c = &plan->c;
    weir_status st;

    if (!(plan->streams = weir__calloc((size_t)c->nstreams, sizeof *plan->streams)))
        return weir__fail_nomem("allocating the streams of a plan");
    for (int i = 1; i < c->nstreams; i++)
        if ((st = weir_stream_tagged(plan->dev, c->streams[i].tag, c->streams[i].priority,
                                     &plan->streams[i])))
            return st;
    if (c->nstreams == 1)
        return WEIR_OK;
    return weir_stream_create(plan->dev, &(weir_stream_options){.name = "plan"}, &plan->stand_in);
}

/* Makes the first instance, which shows at once whether all kernels can be prepared. Its inputs and
 * outputs are bound when it first runs; until then it has made-up addresses that nothing shares. */
static weir_status first_instance(weir_plan *plan)
{
    size_t n = (size_t)(plan->graph->ninputs + plan->graph->noutputs);
    char **bound = weir__calloc(n + 1, sizeof *bound);
    weir_cores *limits = weir__calloc((size_t)plan->c.nstreams, sizeof *limits);
    weir_status st = WEIR_OK;

    if (!bound || !limits) {
        weir__free(bound);
        weir__free(limits);
        return weir__fail_nomem("making an instance of a plan");
    }
    for (size_t i = 0; i < n; i++)
        bound[i] = (char *)((uintptr_t)(i + 1) << 42);
    weir__device_lock(plan->dev);
    for (int i = 0; i < plan->c.nstreams; i++)
        limits[i] = weir_stream_get_limit(i ? plan->streams[i] : plan->dev->default_stream);
    plan->frozen = limits;
    if ((plan->instances[0] = weir__instance_make(plan, bound, limits)))
        plan->ninstances = 1;
    else
        st = weir__last_status();
    weir__device_unlock(plan->dev);
    weir__free(bound);
    return st;
}

/* Makes a plan that owns the graph. Without memory for a plan, destroys the graph. */
static weir_plan *new_plan(weir_graph *own)
{
    weir_plan *plan = weir__calloc(1, sizeof *plan);

    if (!plan) {
        weir_graph_destroy(own);
        weir__fail_nomem("making a plan");
        return NULL;
    }
    plan->dev = own->dev;
    plan->graph = own;
    return plan;
}

weir_status weir__plan_make(weir_graph *own, const weir_compile_options *options, weir_plan **out)
{
    struct weir__stages stages = weir__stages_of(options);
    weir_status st;

    *out = NULL;
    if ((st = weir__stage_graph(&stages, "graph", own)) ||
        (weir__is_autotuned(options) && (st = weir__graph_fold(own))) ||
        (st = weir__stage_graph(&stages, "fold", own))) {
        weir_graph_destroy(own);
        return st;
    }
    return weir__plan_build(own, options, &stages, out);
}

static weir_status list_plan(const weir_plan *plan, struct weir__stages *stages)
{
    weir_status st;
    char *text;

    if (!stages->dir)
        return WEIR_OK;
    if (!(text = weir_plan_list(plan)))
        return WEIR_ENOMEM;
    st = weir__stage_text(stages, "plan", text);
    free(text);
    return st;
}

/* Clears the pointers to the caller's strings and ranks: they are valid only while compiling. */
static void forget_texts(weir_compile_options *o)
{
    o->cores = o->dump_dir = NULL;
    o->ranks = NULL;
    o->nranks = 0;
}

/* Lets the model place nodes where that is wanted. The result is labels, which the passes then
 * follow. */
static weir_status place(weir_plan *plan, struct weir__stages *stages)
{
    weir_status st = weir__place(&plan->graph, &plan->c.options, &plan->c.notes);

    plan->c.g = plan->graph;
    plan->c.options.streams = WEIR_STREAMS_EXPLICIT;
    return st ? st : weir__stage_graph(stages, "place", plan->graph);
}

weir_status weir__plan_build(weir_graph *own, const weir_compile_options *options,
                             struct weir__stages *stages, weir_plan **out)
{
    weir_plan *plan = new_plan(own);
    weir_status st;
    bool placed;

    *out = NULL;
    if (!plan)
        return WEIR_ENOMEM;
    weir__super_fuse_streams(plan->graph);
    plan->c.g = plan->graph;
    plan->c.options = *options;
    if ((placed = weir__place_wanted(plan->graph, options)) && (st = place(plan, stages)))
        goto destroy;
    if ((st = run_passes(&plan->c, stages)))
        goto destroy;
    if ((st = weir__plan_find_slots(plan, options->ranks, options->nranks)))
        goto destroy;
    /* Other ranks may issue collectives of several streams in another order: merged into one stream
     * they would wait for each other. */
    plan->merged = plan->c.nstreams > 1 && !plan->nchannels && weir__is_autotuned(options) &&
                   !placed && !crossing_pays(&plan->c);
    plan->nlanes = plan->merged ? 1 : plan->c.nstreams;
    if ((st = find_external(plan)) || (st = find_streams(plan)) ||
        (st = weir__plan_find_literals(plan)) || (st = weir__plan_find_constants(plan)) ||
        (st = first_instance(plan)) || (st = list_plan(plan, stages)))
        goto destroy;
    forget_texts(&plan->c.options);
    *out = plan;
    return WEIR_OK;

destroy:
    weir_plan_destroy(plan);
    return st;
}

static weir_status make_dynamic(weir_graph *own, const weir_compile_options *options,
                                weir_plan **out)
{
    weir_plan *plan = new_plan(own);
    weir_status st;

    if (!plan)
        return WEIR_ENOMEM;
    if ((st = weir__streams_check(own, options)) || (st = weir__dynamic_open(plan, options)))
        weir_plan_destroy(plan);
    else
        *out = plan;
    return st;
}

weir_status weir_graph_compile(weir_graph *g, const weir_compile_options *options, weir_plan **out)
{
    weir_compile_options o;
    weir_graph *own;
    weir_status st;

    WEIR__NEED(g, "graph");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = WEIR__TAKE(&o, options, "compile options")))
        return st;
    if (g->capturing)
        return weir__fail(WEIR_ESTATE,
                          "the graph is still being captured: call weir_graph_end first");
    if (!g->dev->driver->plans)
        return weir__fail(WEIR_EUNSUPPORTED, "device %s cannot run plans", g->dev->props.name);
    if ((st = check_options(g, &o)) || (st = weir__graph_clone(g, &own)))
        return st;
    return own->dynamic ? make_dynamic(own, &o, out) : weir__plan_make(own, &o, out);
}

/* Waits for the last runs, because workers read the programs while they run. A hook of the thread
 * cannot interrupt this. False if a run is stuck. */
static bool wait_runs(const weir_plan *plan)
{
    bool over = true;

    weir__wait_shield(1);
    for (int i = 0; i < plan->ninstances && over; i++) {
        struct weir__mark last = plan->instances[i]->last;

        if (!last.stream)
            continue;
        (void)weir__stream_sync_seq(last.stream, last.seq, WEIR_TIMEOUT_DEVICE, true);
        over = plan->dev->driver->done(last.stream) >= last.seq;
    }
    weir__wait_shield(-1);
    return over;
}

static void free_plan(struct weir__leftover *leftover)
{
    weir_plan *plan = weir__containerof(leftover, weir_plan, leftover);

    weir__device_lock(plan->dev);
    for (int i = 0; i < plan->ninstances; i++)
        weir__instance_free(plan, plan->instances[i]);
    weir__device_unlock(plan->dev);
    weir__plan_free_elastic(plan);
    weir__plan_drop_slots(plan);
    weir_stream_destroy(plan->stand_in);
    weir__compile_fini(&plan->c);
    weir__free(plan->streams);
    weir__free(plan->frozen);
    weir__free(plan->literal_at);
    weir__free(plan->item);
    weir__free(plan->slot_of);
    weir__free(plan->touch_first);
    weir__free(plan->touch_launches);
    weir__free(plan->uses);
    weir_graph_destroy(plan->graph);
    weir__free(plan);
}

void weir_plan_destroy(weir_plan *plan)
{
    if (!plan)
        return;
    weir__dynamic_close(plan);
    if (wait_runs(plan)) {
        free_plan(&plan->leftover);
        return;
    }
    weir__log(WEIR_LOG_WARN, "a plan on %s still runs; it is freed when the device closes: %s",
              plan->dev->props.name, weir_last_error());
    plan->leftover.free = free_plan;
    weir__device_leave(plan->dev, &plan->leftover);
}
