/* Assigns core numbers to blocks of devices that only count their cores. Blocks are taken in the
 * order of their starts; each gets the first free core of its kind. No more blocks run at once than
 * the device has cores, so a core is always free. */
#include "trace/record/store.h"

#include <stdlib.h>

struct todo {
    uint32_t device;
    int64_t at;
    int part;
};

static int compare(const void *x, const void *y)
{
    const struct todo *a = x, *b = y;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->part > b->part) - (a->part < b->part);
}

static bool is_unnamed(const weir_trace_part *p)
{
    for (uint32_t i = 0; i < p->ncores; i++)
        if (p->cores[i] == WEIR__TRACE_ANY_CORE)
            return true;
    return false;
}

/* Takes the first core of free_at[low .. high-1] that is free, else the one that is free
 * soonest. */
static int take(int64_t *free_at, int low, int high, const weir_trace_part *p)
{
    int best = low;

    for (int i = low; i < high; i++) {
        if (free_at[i] <= p->started_ns) {
            best = i;
            break;
        }
        if (free_at[i] < free_at[best])
            best = i;
    }
    free_at[best] = p->ended_ns;
    return best;
}

static void name_part(const weir_trace_device *d, int64_t *free_at, weir_trace_part *p,
                      weir_engine engine)
{
    int cube = d->cores.cube, all = cube + (d->split_cores ? d->cores.vector : 0);
    /* The first core of a cube or mix block is a cube core, all others are vector cores. */
    uint32_t first_vector = engine == WEIR_ENGINE_VECTOR ? 0 : 1;

    for (uint32_t i = 0; i < p->ncores; i++) {
        bool vector = d->split_cores && i >= first_vector;

        if (p->cores[i] == WEIR__TRACE_ANY_CORE)
            p->cores[i] = (uint16_t)take(free_at, vector ? cube : 0, vector ? all : cube, p);
    }
}

static int most_cores(const weir_trace *t)
{
    int most = 1;

    for (int i = 0; i < t->ndevices; i++) {
        int n = t->devices[i].cores.cube + t->devices[i].cores.vector;

        most = n > most ? n : most;
    }
    return most;
}

bool weir__trace_name_cores(weir_trace *t)
{
    int n = 0, cores = most_cores(t);
    struct todo *todo = weir__malloc((size_t)t->nparts * sizeof *todo);
    int64_t *free_at = weir__malloc((size_t)cores * sizeof *free_at);
    bool ok = todo && free_at;

    for (int i = 0; ok && i < t->nparts; i++)
        if (is_unnamed(&t->parts[i]))
            todo[n++] = (struct todo){t->ops[t->parts[i].op].device, t->parts[i].started_ns, i};
    if (ok)
        qsort(todo, (size_t)n, sizeof *todo, compare);
    for (int i = 0; ok && i < n; i++) {
        weir_trace_part *p = &t->parts[todo[i].part];

        for (int c = 0; (!i || todo[i].device != todo[i - 1].device) && c < cores; c++)
            free_at[c] = INT64_MIN;
        name_part(&t->devices[todo[i].device], free_at, p, t->ops[p->op].engine);
    }
    weir__free(todo);
    weir__free(free_at);
    return ok;
}
