/* Plans for sets of input shapes.
 *
 * A plan has room for larger sizes and serves them after a resize (resize.c), which takes a
 * fraction of the time of a compile. So one plan serves sizes that change with every run, such as
 * those of a growing text. Sizes that occur again get a plan of their own, which is never resized:
 * a plan is *settled* once its sizes have occurred twice. The cache remembers sizes that a resize
 * replaced (`ghosts`) for a while, so that alternating sizes settle too.
 */
#include "graph/plan/dynamic.h"

#include <stdlib.h>
#include <string.h>

enum { GHOSTS = 8 };

struct shape_plan {
    weir_plan *plan;
    uint64_t hash;      /* of the inputs' sizes */
    uint64_t last_used; /* number of the run that used it last */
    int pins;           /* runs that are queueing it now */
    bool evicted;       /* no longer in the table: the thread that drops the last pin destroys it */
    bool resizing;      /* its sizes are changing: do not find it */
    bool settled;       /* its sizes occurred again: do not resize it */
};

struct weir__dynamic {
    weir_compile_options options; /* with copies of the strings */
    char *cores, *dump_dir;
    weir_rank **ranks;       /* of options; holds one use of each rank's group */
    struct weir__mutex lock; /* protects all fields below; no lock is taken inside */
    struct shape_plan *table[WEIR_PLAN_SHAPE_SETS];
    int n;
    uint64_t runs, hits, misses, evictions, resizes;
    uint64_t ghosts[GHOSTS]; /* hashes of sizes that a plan had before */
    unsigned nghosts;        /* how many were ever added */
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
        return weir__fail_nomem("allocating the options of a plan");
    d->options.ranks = d->ranks;
    for (; d->options.nranks < options->nranks; d->options.nranks++) {
        d->ranks[d->options.nranks] = options->ranks[d->options.nranks];
        weir__group_hold(d->ranks[d->options.nranks]->group);
    }
    if (options->streams != WEIR_STREAMS_EXPLICIT && (!multi || strcmp(multi, "1"))) {
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

/* Makes a plan with room for larger sizes and resizes it to these. *out is NULL without an error if
 * that fails: larger sizes, which nobody asked for, are no reason to fail the run. */
static weir_status make_with_room(const weir_plan *plan, const int64_t *const *sizes,
                                  weir_plan **out)
{
    size_t n = (size_t)plan->graph->ninputs + 1;
    int64_t(*larger)[WEIR_MAX_DIMS] = weir__calloc(n, sizeof *larger);
    const int64_t **all = weir__malloc(n * sizeof *all);
    weir_graph *g = NULL;
    bool fits = false;

    *out = NULL;
    if (!larger || !all) {
        weir__free(larger);
        weir__free(all);
        return weir__fail_nomem("making a plan for new shapes");
    }
    for (size_t i = 0; i + 1 < n; i++)
        all[i] = larger[i];
    if (!weir__sizes_with_room(plan->graph, sizes, larger) &&
        !weir__graph_specialise(plan->graph, all, &g) &&
        !weir__plan_make(g, &plan->dynamic->options, out) &&
        (weir__plan_make_elastic(*out) || weir__plan_resize(*out, sizes, &fits) || !fits)) {
        weir_plan_destroy(*out);
        *out = NULL;
    }
    weir__free(larger);
    weir__free(all);
    return WEIR_OK;
}

static weir_status make_exactly(const weir_plan *plan, const int64_t *const *sizes, weir_plan **out)
{
    weir_graph *g;
    weir_status st;

    if ((st = weir__graph_specialise(plan->graph, sizes, &g)) ||
        (st = weir__plan_make(g, &plan->dynamic->options, out)))
        return st;
    if ((st = weir__plan_make_elastic(*out))) {
        weir_plan_destroy(*out);
        *out = NULL;
    }
    return st;
}

static weir_status make_shape_plan(const weir_plan *plan, const int64_t *const *sizes,
                                   uint64_t hash, bool with_room, struct shape_plan **out)
{
    struct shape_plan *s = weir__calloc(1, sizeof *s);
    weir_status st = s ? WEIR_OK : weir__fail_nomem("making a plan for new shapes");

    *out = NULL;
    if (!st && with_room)
        st = make_with_room(plan, sizes, &s->plan);
    if (!st && !s->plan)
        st = make_exactly(plan, sizes, &s->plan);
    if (st) {
        weir__free(s);
        return st;
    }
    s->hash = hash;
    s->settled = !with_room;
    *out = s;
    return WEIR_OK;
}

/* ---- the cache ---- */

/* Pins the plan of these shapes; NULL if there is none. The lock is held. */
static struct shape_plan *find(struct weir__dynamic *d, weir_tensor *const *inputs, uint64_t hash)
{
    for (int i = 0; i < d->n; i++) {
        struct shape_plan *s = d->table[i];

        if (!s->resizing && s->hash == hash && has_sizes(s, inputs)) {
            s->pins++;
            s->last_used = ++d->runs;
            return s;
        }
    }
    return NULL;
}

/* Adds a new plan, pinned. Returns the plan evicted for it if nobody has pinned that one; destroy
 * it outside the lock. The lock is held. */
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

/* ---- other sizes for a plan ---- */

static bool was_there(const struct weir__dynamic *d, uint64_t hash)
{
    for (unsigned i = 0; i < GHOSTS && i < d->nghosts; i++)
        if (d->ghosts[i] == hash)
            return true;
    return false;
}

/* Pins a plan that can be resized to these sizes; NULL if there is none. The lock is held. */
static struct shape_plan *find_elastic(struct weir__dynamic *d, const int64_t *const *sizes)
{
    struct shape_plan *best = NULL;

    for (int i = 0; i < d->n; i++) {
        struct shape_plan *s = d->table[i];

        if (!s->pins && !s->settled && s->plan->elastic && weir__plan_has_room(s->plan, sizes) &&
            (!best || s->last_used > best->last_used))
            best = s;
    }
    if (best) {
        best->pins = 1;
        best->resizing = true;
        d->ghosts[d->nghosts++ % GHOSTS] = best->hash;
    }
    return best;
}

/* Removes a plan from the table. The lock is held. */
static void take_out(struct weir__dynamic *d, struct shape_plan *s)
{
    for (int i = 0; i < d->n; i++)
        if (d->table[i] == s) {
            d->table[i] = d->table[--d->n];
            break;
        }
    d->evictions++;
}

/* Resizes a plan from find_elastic. Destroys the plan if that fails. False if the plan was still
 * running or did not fit. */
static bool resize(struct weir__dynamic *d, struct shape_plan *s, const int64_t *const *sizes,
                   uint64_t hash)
{
    bool fits = false, ready = weir__plan_may_change(s->plan), gone = ready;

    if (ready && weir__plan_resize(s->plan, sizes, &fits))
        fits = false;
    weir__mutex_lock(&d->lock);
    s->resizing = false;
    if (fits) {
        s->hash = hash;
        s->last_used = ++d->runs;
        d->resizes++;
    } else if (ready) {
        take_out(d, s);
    } else {
        gone = --s->pins == 0 && s->evicted; /* another thread may have evicted it meanwhile */
        d->nghosts--;                        /* it keeps its sizes: remove them from ghosts */
    }
    weir__mutex_unlock(&d->lock);
    if (gone && !fits)
        destroy_shape_plan(s);
    return fits;
}

/* A larger plan makes smaller plans that have not settled superfluous. Removes and returns one, to
 * be destroyed outside the lock. The lock is held. */
static struct shape_plan *take_superseded(struct weir__dynamic *d, const struct shape_plan *by,
                                          const int64_t *const *sizes)
{
    for (int i = 0; i < d->n; i++) {
        struct shape_plan *s = d->table[i];

        if (s != by && !s->pins && !s->settled && s->plan->elastic &&
            !weir__plan_has_room(s->plan, sizes)) {
            take_out(d, s);
            d->ghosts[d->nghosts++ % GHOSTS] = s->hash;
            return s;
        }
    }
    return NULL;
}

/* Plans are made outside the lock, so that runs of known shapes can proceed. If two threads make
 * the same plan, the second uses the first's. */
static weir_status make_anew(weir_plan *plan, weir_tensor *const *inputs,
                             const int64_t *const *sizes, uint64_t hash, bool with_room,
                             struct shape_plan **out)
{
    struct weir__dynamic *d = plan->dynamic;
    struct shape_plan *made, *surplus, *superseded = NULL;
    weir_status st;

    if ((st = make_shape_plan(plan, sizes, hash, with_room, &made)))
        return st;
    weir__mutex_lock(&d->lock);
    surplus = (*out = find(d, inputs, hash)) ? made : insert(d, *out = made);
    if (with_room && *out == made)
        superseded = take_superseded(d, made, sizes);
    weir__mutex_unlock(&d->lock);
    if (surplus)
        destroy_shape_plan(surplus);
    if (superseded)
        destroy_shape_plan(superseded);
    return WEIR_OK;
}

/* Gets a plan for sizes that no plan has; `again` if one had them before. */
static weir_status acquire_new(weir_plan *plan, weir_tensor *const *inputs, uint64_t hash,
                               bool again, struct shape_plan **out)
{
    struct shape_plan *elastic = NULL;
    size_t n = (size_t)plan->graph->ninputs + 1;
    const int64_t *few[16], **sizes = n <= 16 ? few : weir__malloc(n * sizeof *sizes);
    weir_status st = WEIR_OK;

    if (!sizes)
        return weir__fail_nomem("making a plan for new shapes");
    for (size_t i = 0; i + 1 < n; i++)
        sizes[i] = inputs[i]->view.shape;
    if (!again) {
        weir__mutex_lock(&plan->dynamic->lock);
        elastic = find_elastic(plan->dynamic, sizes);
        weir__mutex_unlock(&plan->dynamic->lock);
    }
    if (elastic && resize(plan->dynamic, elastic, sizes, hash))
        *out = elastic;
    else
        st = make_anew(plan, inputs, sizes, hash, !again, out);
    if (sizes != few)
        weir__free(sizes);
    return st;
}

static weir_status acquire(weir_plan *plan, weir_tensor *const *inputs, struct shape_plan **out)
{
    struct weir__dynamic *d = plan->dynamic;
    uint64_t hash = hash_sizes(inputs, plan->graph->ninputs);
    bool again;

    weir__mutex_lock(&d->lock);
    if ((*out = find(d, inputs, hash))) {
        d->hits++;
        (*out)->settled = true;
    } else {
        d->misses++;
    }
    again = was_there(d, hash);
    weir__mutex_unlock(&d->lock);
    return *out ? WEIR_OK : acquire_new(plan, inputs, hash, again, out);
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

weir_status weir__dynamic_open(weir_plan *plan, const weir_compile_options *options)
{
    weir_status st;

    if (!plan->graph->nsizes && (st = weir__graph_try_sizes(plan->graph)))
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
    out->shape_resizes = d->resizes;
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
