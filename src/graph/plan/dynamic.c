/* A plan for each set of input shapes. */
#include "graph/plan/dynamic.h"

#include <stdlib.h>
#include <string.h>

/* A size that every graph is tried with when it is compiled: what does not fit it follows
 * no size but the one that stood in. */
#define TRIAL_SIZE (2 * WEIR__DYNAMIC_SIZE)

struct shape_plan {
    weir_plan *plan;
    uint64_t hash;      /* of the inputs' sizes */
    uint64_t last_used; /* counts runs */
    int pins;           /* runs that are queueing it just now */
    bool evicted;       /* out of the table: the last pin destroys it */
};

struct weir__dynamic {
    weir_compile_options options; /* with strings of its own */
    char *cores, *dump_dir;
    weir_rank **ranks;       /* of options, a use of each group counted */
    struct weir__mutex lock; /* of all that follows; nothing else is taken inside */
    struct shape_plan *table[WEIR_PLAN_SHAPE_SETS];
    int n;
    uint64_t runs, hits, misses, evictions;
};

/* ---- options ---- */

static char *keep(const char *text, bool *failed)
{
    char *copy = text ? weir__strdup(text) : NULL;

    *failed |= text && !copy;
    return copy;
}

static weir_status keep_options(struct weir__dynamic *d, const weir_compile_options *options)
{
    const char *multi = getenv("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM");
    bool failed = false;

    d->options = *options;
    d->options.nranks = 0;
    d->options.cores = d->cores = keep(options->cores, &failed);
    d->options.dump_dir = d->dump_dir = keep(options->dump_dir, &failed);
    d->ranks = weir__calloc(options->nranks + 1, sizeof *d->ranks);
    if (failed || !d->ranks)
        return weir__fail_nomem("the options of a plan");
    d->options.ranks = d->ranks;
    for (; d->options.nranks < options->nranks; d->options.nranks++) {
        d->ranks[d->options.nranks] = options->ranks[d->options.nranks];
        weir__group_hold(d->ranks[d->options.nranks]->group);
    }
    if (options->streams == WEIR_STREAMS_AUTO && (!multi || strcmp(multi, "1"))) {
        d->options.streams = WEIR_STREAMS_EXPLICIT;
        weir__log(WEIR_LOG_WARN, "a graph of dynamic shapes gets no automatic streams unless "
                                 "ENABLE_DYNAMIC_SHAPE_MULTI_STREAM is 1; its stream labels stay");
    }
    return WEIR_OK;
}

/* ---- one set of shapes ---- */

static uint64_t hash_sizes(weir_tensor *const *inputs, int n)
{
    uint64_t h = 1;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < inputs[i]->view.ndim; k++) {
            h = (h ^ (uint64_t)inputs[i]->view.shape[k]) * UINT64_C(0x9e3779b97f4a7c15);
            h ^= h >> 29;
        }
    return h;
}

static bool has_sizes(const struct shape_plan *s, weir_tensor *const *inputs)
{
    const weir_graph *g = s->plan->graph;

    for (int i = 0; i < g->ninputs; i++) {
        const struct weir__view *v = &g->values[g->inputs[i]].view;

        if (memcmp(v->shape, inputs[i]->view.shape, (size_t)v->ndim * sizeof *v->shape))
            return false;
    }
    return true;
}

static void destroy_shape_plan(struct shape_plan *s)
{
    weir_plan_destroy(s->plan);
    weir__free(s);
}

static weir_status make_shape_plan(const weir_plan *plan, weir_tensor *const *inputs, uint64_t hash,
                                   struct shape_plan **out)
{
    size_t n = (size_t)plan->graph->ninputs;
    const int64_t **sizes = weir__malloc(n * sizeof *sizes);
    struct shape_plan *s = weir__calloc(1, sizeof *s);
    weir_graph *g;
    weir_status st;

    *out = NULL;
    if (!sizes || !s) {
        st = weir__fail_nomem("making a plan for new shapes");
        goto free_all;
    }
    for (size_t i = 0; i < n; i++)
        sizes[i] = inputs[i]->view.shape;
    if ((st = weir__graph_specialise(plan->graph, sizes, &g)) ||
        (st = weir__plan_make(g, &plan->dynamic->options, &s->plan)))
        goto free_all;
    weir__free(sizes);
    s->hash = hash;
    *out = s;
    return WEIR_OK;

free_all:
    weir__free(sizes);
    weir__free(s);
    return st;
}

/* ---- the cache ---- */

/* Pins the plan of these shapes; NULL if there is none. The lock is held. */
static struct shape_plan *find(struct weir__dynamic *d, weir_tensor *const *inputs, uint64_t hash)
{
    for (int i = 0; i < d->n; i++) {
        struct shape_plan *s = d->table[i];

        if (s->hash == hash && has_sizes(s, inputs)) {
            s->pins++;
            s->last_used = ++d->runs;
            return s;
        }
    }
    return NULL;
}

/* Puts a new plan in, pinned. Gives what went out for it and nobody has pinned, to be
 * destroyed outside the lock, which is held. */
static struct shape_plan *insert(struct weir__dynamic *d, struct shape_plan *s)
{
    struct shape_plan *out;
    int oldest = 0;

    s->pins = 1;
    s->last_used = ++d->runs;
    if (d->n < WEIR_PLAN_SHAPE_SETS) {
        d->table[d->n++] = s;
        return NULL;
    }
    for (int i = 1; i < d->n; i++)
        if (d->table[i]->last_used < d->table[oldest]->last_used)
            oldest = i;
    out = d->table[oldest];
    d->table[oldest] = s;
    d->evictions++;
    out->evicted = true;
    return out->pins ? NULL : out;
}

/* Plans are made outside the lock, so that runs of known shapes go on. Of two threads that
 * make the same one, the second uses the first's. */
static weir_status acquire(weir_plan *plan, weir_tensor *const *inputs, struct shape_plan **out)
{
    struct weir__dynamic *d = plan->dynamic;
    uint64_t hash = hash_sizes(inputs, plan->graph->ninputs);
    struct shape_plan *made, *surplus;
    weir_status st;

    weir__mutex_lock(&d->lock);
    if ((*out = find(d, inputs, hash)))
        d->hits++;
    else
        d->misses++;
    weir__mutex_unlock(&d->lock);
    if (*out)
        return WEIR_OK;
    if ((st = make_shape_plan(plan, inputs, hash, &made)))
        return st;
    weir__mutex_lock(&d->lock);
    surplus = (*out = find(d, inputs, hash)) ? made : insert(d, *out = made);
    weir__mutex_unlock(&d->lock);
    if (surplus)
        destroy_shape_plan(surplus);
    return WEIR_OK;
}

static void release(struct weir__dynamic *d, struct shape_plan *s)
{
    bool last;

    weir__mutex_lock(&d->lock);
    last = --s->pins == 0 && s->evicted;
    weir__mutex_unlock(&d->lock);
    if (last)
        destroy_shape_plan(s);
}

weir_status weir__dynamic_run(weir_plan *plan, weir_stream *stream, weir_tensor *const *inputs,
                              size_t ninputs, weir_tensor **outputs, size_t noutputs, bool help)
{
    struct shape_plan *s;
    weir_status st;

    if ((st = weir__plan_check_inputs(plan, stream, inputs, ninputs, outputs, noutputs)) ||
        (st = acquire(plan, inputs, &s)))
        return st;
    st = weir__plan_run(s->plan, stream, inputs, ninputs, outputs, noutputs, help);
    release(plan->dynamic, s);
    return st;
}

/* ---- making and looking ---- */

/* Shows what no size would fit. */
static weir_status try_sizes(const weir_graph *g)
{
    size_t n = (size_t)g->ninputs;
    int64_t(*shapes)[WEIR_MAX_DIMS] = weir__calloc(n, sizeof *shapes);
    const int64_t **sizes = weir__calloc(n, sizeof *sizes);
    weir_graph *tried = NULL;
    weir_status st;

    if (!shapes || !sizes) {
        st = weir__fail_nomem("the inputs of a graph");
    } else {
        for (size_t i = 0; i < n; i++) {
            struct weir__view v = weir__input_view(&g->values[g->inputs[i]]);

            for (int k = 0; k < v.ndim; k++)
                shapes[i][k] = v.shape[k] < 0 ? TRIAL_SIZE : v.shape[k];
            sizes[i] = shapes[i];
        }
        st = weir__graph_specialise(g, sizes, &tried);
    }
    weir_graph_destroy(tried);
    weir__free(shapes);
    weir__free(sizes);
    return st ? weir__fail(st, "the graph does not follow its dynamic sizes: %s", weir_last_error())
              : WEIR_OK;
}

weir_status weir__dynamic_open(weir_plan *plan, const weir_compile_options *options)
{
    weir_status st;

    if ((st = try_sizes(plan->graph)))
        return st;
    if (!(plan->dynamic = weir__calloc(1, sizeof *plan->dynamic)))
        return weir__fail_nomem("making a plan");
    return keep_options(plan->dynamic, options);
}

void weir__dynamic_close(weir_plan *plan)
{
    struct weir__dynamic *d = plan->dynamic;

    if (!d)
        return;
    for (int i = 0; i < d->n; i++)
        destroy_shape_plan(d->table[i]);
    for (size_t i = 0; i < d->options.nranks; i++)
        weir__group_drop(d->ranks[i]->group);
    weir__free(d->ranks);
    weir__free(d->cores);
    weir__free(d->dump_dir);
    weir__free(d);
}

void weir__dynamic_stats(const weir_plan *plan, weir_plan_stats *out)
{
    struct weir__dynamic *d = plan->dynamic;
    const struct shape_plan *last = NULL;

    *out = (weir_plan_stats){0};
    weir__mutex_lock(&d->lock);
    for (int i = 0; i < d->n; i++)
        if (!last || d->table[i]->last_used > last->last_used)
            last = d->table[i];
    if (last)
        weir_plan_get_stats(last->plan, out, sizeof *out);
    out->shape_sets = (size_t)d->n;
    out->shape_hits = d->hits;
    out->shape_misses = d->misses;
    out->shape_evictions = d->evictions;
    weir__mutex_unlock(&d->lock);
}

static void list_inputs(struct weir__text *text, const weir_graph *g, const char *before)
{
    weir__text_add(text, "%s", before);
    for (int i = 0; i < g->ninputs; i++) {
        struct weir__view v = weir__input_view(&g->values[g->inputs[i]]);

        weir__text_add(text, "%s%s %s", i ? ", " : " ", g->values[g->inputs[i]].name,
                       weir__view_text(&v).text);
    }
    weir__text_add(text, "\n");
}

void weir__dynamic_list(const weir_plan *plan, struct weir__text *text)
{
    struct weir__dynamic *d = plan->dynamic;

    weir__mutex_lock(&d->lock);
    weir__text_add(text, "dynamic plan on %s: %d of at most %d shape set(s)", plan->dev->props.name,
                   d->n, WEIR_PLAN_SHAPE_SETS);
    list_inputs(text, plan->graph, ", inputs");
    for (int i = 0; i < d->n; i++) {
        list_inputs(text, d->table[i]->plan->graph, "inputs");
        weir__plan_list(d->table[i]->plan, text);
    }
    weir__mutex_unlock(&d->lock);
}
