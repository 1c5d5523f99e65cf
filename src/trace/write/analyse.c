/* Computes the critical path and the sums. */
#include "trace/write/analyse.h"
#include "base/sized.h"

#include <stdlib.h>

/* The end of an operator's use of a core. */
struct release {
    uint32_t device, core;
    int64_t at;
    uint32_t op;
};

struct finder {
    const weir_trace *t;
    struct release *releases; /* sorted */
    size_t n;
};

static int compare_releases(const void *x, const void *y)
{
    const struct release *a = x, *b = y;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->core != b->core)
        return a->core < b->core ? -1 : 1;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

static weir_status find_releases(struct finder *f)
{
    const weir_trace *t = f->t;
    size_t cap = 0;

    for (int i = 0; i < t->nparts; i++)
        cap += t->parts[i].ncores;
    if (!(f->releases = weir__malloc(cap * sizeof *f->releases)))
        return weir__fail_nomem("allocating the critical path of %d operators", t->nops);
    for (int i = 0; i < t->nparts; i++)
        for (uint32_t c = 0; c < t->parts[i].ncores; c++)
            f->releases[f->n++] =
                (struct release){t->ops[t->parts[i].op].device, t->parts[i].cores[c],
                                 t->parts[i].ended_ns, t->parts[i].op};
    qsort(f->releases, f->n, sizeof *f->releases, compare_releases);
    return WEIR_OK;
}

/* Returns the operator that released the cores of this operator's first block last before it
 * started, or WEIR_TRACE_NONE. */
static uint32_t core_giver(const struct finder *f, uint32_t index)
{
    const weir_trace_op *op = &f->t->ops[index];
    const weir_trace_part *p;
    uint32_t found = WEIR_TRACE_NONE;

    if (!op->nparts)
        return WEIR_TRACE_NONE;
    p = &f->t->parts[op->first_part];
    for (uint32_t c = 0; c < p->ncores; c++) {
        const struct release want = {op->device, p->cores[c], op->started_ns, UINT32_MAX};
        size_t low = 0, high = f->n;

        while (low < high) {
            size_t middle = (low + high) / 2;

            if (compare_releases(&f->releases[middle], &want) <= 0)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low > 0; low--) {
            const struct release *r = &f->releases[low - 1];

            if (r->device != op->device || r->core != p->cores[c] || r->at <= op->ready_ns)
                break;
            if (r->op == index)
                continue;
            if (found == WEIR_TRACE_NONE || f->t->ops[found].ended_ns < r->at)
                found = r->op;
            break;
        }
    }
    return found;
}

/* Returns the operator that this one had to wait for last, and the reason in *why. */
static uint32_t predecessor(const struct finder *f, uint32_t index, weir_trace_cause *why)
{
    const weir_trace_op *op = &f->t->ops[index], *best = NULL;
    uint32_t found = WEIR_TRACE_NONE;

    *why = WEIR_TRACE_CAUSE_HOST;
    if (op->started_ns > op->ready_ns && (found = core_giver(f, index)) != WEIR_TRACE_NONE) {
        *why = WEIR_TRACE_CAUSE_CORES;
        return found;
    }
    if (index && op[-1].stream == op->stream) {
        found = index - 1;
        best = op - 1;
        *why = WEIR_TRACE_CAUSE_STREAM;
    }
    for (uint32_t i = 0; i < op->nwaits; i++) {
        uint32_t source = f->t->waits[op->first_wait + i].source_op;

        if (source == WEIR_TRACE_NONE || source == index ||
            (best && f->t->ops[source].ended_ns <= best->ended_ns))
            continue;
        found = source;
        best = &f->t->ops[source];
        *why = WEIR_TRACE_CAUSE_SYNC;
    }
    /* It was queued after all of those had ended: it waited for the host. */
    if (!best || op->queued_ns > best->ended_ns)
        *why = WEIR_TRACE_CAUSE_HOST;
    return found;
}

static bool add(struct weir__trace_path *path, uint32_t op)
{
    if (!weir__grow(&path->ops, path->n, &path->cap, sizeof *path->ops) ||
        !weir__grow(&path->why, path->n, &path->cap_why, sizeof *path->why))
        return false;
    path->ops[path->n++] = op;
    return true;
}

static void reverse(struct weir__trace_path *path)
{
    for (int i = 0, k = path->n - 1; i < k; i++, k--) {
        uint32_t op = path->ops[i];
        uint8_t why = path->why[i];

        path->ops[i] = path->ops[k];
        path->why[i] = path->why[k];
        path->ops[k] = op;
        path->why[k] = why;
    }
}

weir_status weir__trace_find_path(const weir_trace *t, struct weir__trace_path *out)
{
    struct finder f = {.t = t};
    uint32_t at = WEIR_TRACE_NONE, next;
    weir_status st = find_releases(&f);

    *out = (struct weir__trace_path){0};
    for (int i = 0; i < t->nops && !st; i++)
        if (at == WEIR_TRACE_NONE || t->ops[i].ended_ns > t->ops[at].ended_ns)
            at = (uint32_t)i;
    /* A file may contain cycles: stop when the path has as many steps as there are operators. */
    while (!st && at != WEIR_TRACE_NONE && out->n < t->nops) {
        weir_trace_cause why;

        next = predecessor(&f, at, &why);
        if (!add(out, at))
            st = WEIR_ENOMEM;
        else
            out->why[out->n - 1] = (uint8_t)why;
        out->busy_ns += (double)(t->ops[at].ended_ns - t->ops[at].started_ns);
        at = next;
    }
    reverse(out);
    weir__free(f.releases);
    if (st)
        weir__trace_path_fini(out);
    return st;
}

void weir__trace_path_fini(struct weir__trace_path *path)
{
    weir__free(path->ops);
    weir__free(path->why);
    *path = (struct weir__trace_path){0};
}

/* ---- the public form ---- */

weir_status weir_trace_critical_path(const weir_trace *t, weir_trace_step **steps, size_t *nsteps)
{
    WEIR__NEED(t, "trace");
    WEIR__NEED(steps, "steps");
    WEIR__NEED(nsteps, "nsteps");

    struct weir__trace_path path;
    weir_status st = weir__trace_find_path(t, &path);

    *steps = NULL;
    *nsteps = 0;
    if (st)
        return st;
    if (!(*steps = malloc(((size_t)path.n + 1) * sizeof **steps)))
        st = weir__fail_nomem("allocating a critical path of %d operators", path.n);
    for (int i = 0; i < path.n && *steps; i++)
        (*steps)[(*nsteps)++] = (weir_trace_step){path.ops[i], (weir_trace_cause)path.why[i]};
    weir__trace_path_fini(&path);
    return st;
}

static double share(double busy, int64_t cores, int64_t ns)
{
    return cores > 0 && ns > 0 ? busy / (double)cores / (double)ns : 0;
}

static weir_status summarise(const weir_trace *t, weir_trace_summary *out)
{
    int64_t cube = 0, vector = 0;
    double cube_busy = 0, vector_busy = 0;
    struct weir__trace_path path;
    weir_status st;

    WEIR__NEED(t, "trace");
    WEIR__NEED(out, "out");
    *out = (weir_trace_summary){.first_ns = INT64_MAX, .last_ns = INT64_MIN};
    if (!t->nops)
        out->first_ns = out->last_ns = 0;
    for (int i = 0; i < t->nops; i++) {
        const weir_trace_op *op = &t->ops[i];

        out->first_ns = op->started_ns < out->first_ns ? op->started_ns : out->first_ns;
        out->last_ns = op->ended_ns > out->last_ns ? op->ended_ns : out->last_ns;
        out->serial_ns += (double)(op->ended_ns - op->started_ns);
    }
    for (int i = 0; i < t->nparts; i++) {
        const weir_trace_part *p = &t->parts[i];
        const weir_trace_device *d = &t->devices[t->ops[p->op].device];

        for (uint32_t c = 0; c < p->ncores; c++)
            *(d->split_cores && p->cores[c] >= d->cores.cube ? &vector_busy : &cube_busy) +=
                (double)(p->ended_ns - p->started_ns);
    }
    for (int i = 0; i < t->ndevices; i++) {
        cube += t->devices[i].cores.cube;
        vector += t->devices[i].split_cores ? t->devices[i].cores.vector : 0;
    }
    out->cube_use = share(cube_busy, cube, out->last_ns - out->first_ns);
    out->vector_use = share(vector_busy, vector, out->last_ns - out->first_ns);
    if ((st = weir__trace_find_path(t, &path)))
        return st;
    out->critical_ns = path.busy_ns;
    weir__trace_path_fini(&path);
    return WEIR_OK;
}

weir_status weir_trace_summarise(const weir_trace *t, weir_trace_summary *out, size_t size)
{
    weir_trace_summary summary;
    weir_status st;

    WEIR__NEED(out, "out");
    st = summarise(t, &summary);
    weir__sized_give(out, size, &summary, sizeof summary);
    return st;
}
