#include "check/race/footprint.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 20000 };

static void insert_dim(struct weir__footprint *f, int64_t count, int64_t step)
{
    int at = f->ndim++;

    for (; at > 0 && f->step[at - 1] < step; at--) {
        f->step[at] = f->step[at - 1];
        f->count[at] = f->count[at - 1];
    }
    f->step[at] = step;
    f->count[at] = count;
}

/* Merges dims that are contiguous with each other, and the innermost dim with the run. */
static void merge_dims(struct weir__footprint *f)
{
    while (f->ndim && f->step[f->ndim - 1] <= f->run &&
           f->step[f->ndim - 1] * (f->count[f->ndim - 1] - 1) + f->run <= UINT32_MAX) {
        f->ndim--;
        f->run += (uint32_t)(f->step[f->ndim] * (f->count[f->ndim] - 1));
    }
    for (int d = f->ndim - 1; d > 0; d--)
        if (f->step[d - 1] == f->step[d] * f->count[d]) {
            f->count[d - 1] *= f->count[d];
            f->step[d - 1] = f->step[d];
            f->ndim--;
            memmove(&f->count[d], &f->count[d + 1], (size_t)(f->ndim - d) * sizeof *f->count);
            memmove(&f->step[d], &f->step[d + 1], (size_t)(f->ndim - d) * sizeof *f->step);
        }
}

/* Fast path: most operands are dense and in row-major order, so they are one run. */
static bool is_dense(uint32_t elem, int ndim, const int64_t *shape, const int64_t *stride,
                     uint64_t *bytes)
{
    int64_t n = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 1)
            continue;
        if (stride[d] != n || !shape[d])
            return false;
        n *= shape[d];
    }
    *bytes = (uint64_t)n * elem;
    return *bytes <= UINT32_MAX;
}

void weir__footprint_init(struct weir__footprint *f, uintptr_t at, uint32_t elem, int ndim,
                          const int64_t *shape, const int64_t *stride)
{
    uint64_t dense;

    f->first = f->end = at;
    f->ndim = 0;
    if (is_dense(elem, ndim, shape, stride, &dense)) {
        f->run = (uint32_t)dense;
        f->end += dense;
        return;
    }
    f->run = elem;
    for (int d = 0; d < ndim; d++)
        if (!shape[d])
            return;
    f->end += elem;
    for (int d = 0; d < ndim; d++)
        if (shape[d] > 1 && stride[d]) {
            insert_dim(f, shape[d], stride[d] * elem);
            f->end += (uintptr_t)((shape[d] - 1) * stride[d] * elem);
        }
    merge_dims(f);
    /* A dense box is one run, even if its size does not fit `run`. */
    if (f->ndim == 1 && f->step[0] <= f->run)
        f->ndim = 0;
}

/* Both boxes as one sum of signed steps: they share a byte if and only if some choice of indices
 * makes b's run overlap a's. */
struct search {
    int ndim;
    int64_t count[2 * WEIR__FOOTPRINT_DIMS], step[2 * WEIR__FOOTPRINT_DIMS];
    int64_t up[2 * WEIR__FOOTPRINT_DIMS + 1], down[2 * WEIR__FOOTPRINT_DIMS + 1];
    int64_t run_a, run_b, distance; /* from a's first byte to b's */
    int steps;
};

/* Adds the dims of a box: a's with sign -1, b's with sign 1. */
static void add_dims(struct search *s, const struct weir__footprint *f, int sign)
{
    for (int d = 0; d < f->ndim; d++) {
        int at = 0;

        while (at < s->ndim && llabs(s->step[at]) > f->step[d])
            at++;
        if (at < s->ndim && s->step[at] == -sign * f->step[d]) {
            /* The same step in both: only the difference of the two indices counts. */
            s->distance += s->step[at] * (s->count[at] - 1);
            s->step[at] = f->step[d];
            s->count[at] += f->count[d] - 1;
            continue;
        }
        for (int i = s->ndim++; i > at; i--) {
            s->step[i] = s->step[i - 1];
            s->count[i] = s->count[i - 1];
        }
        s->step[at] = sign * f->step[d];
        s->count[at] = f->count[d];
    }
}

/* True if some indices of the dims from `dim` on make the runs overlap:
 * -run_b < distance < run_a. */
static bool meet(struct search *s, int dim, int64_t distance)
{
    int64_t low, high, step = s->step[dim], i = 0;

    if (dim == s->ndim)
        return distance > -s->run_b && distance < s->run_a;
    if (++s->steps > MOST_STEPS)
        return true;
    /* The other dims can bring a distance in (low, high) to an overlap. */
    low = -s->run_b - s->up[dim + 1];
    high = s->run_a + s->down[dim + 1];
    if (step > 0 && distance <= low)
        i = (low - distance) / step + 1;
    else if (step < 0 && distance >= high)
        i = (distance - high) / -step + 1;
    for (; i < s->count[dim]; i++) {
        int64_t next = distance + i * step;

        if (next <= low || next >= high)
            return false;
        if (meet(s, dim + 1, next))
            return true;
    }
    return false;
}

bool weir__footprint_overlaps(const struct weir__footprint *a, const struct weir__footprint *b)
{
    struct search s = {
        .run_a = a->run, .run_b = b->run, .distance = (int64_t)(b->first - a->first)};

    if (a->end <= b->first || b->end <= a->first || a->first == a->end || b->first == b->end)
        return false;
    if (!a->ndim && !b->ndim)
        return true;
    if (!a->ndim)
        s.run_a = (int64_t)(a->end - a->first);
    if (!b->ndim)
        s.run_b = (int64_t)(b->end - b->first);
    add_dims(&s, a, -1);
    add_dims(&s, b, 1);
    for (int d = s.ndim - 1; d >= 0; d--) {
        int64_t reach = (s.count[d] - 1) * s.step[d];

        s.up[d] = s.up[d + 1] + (reach > 0 ? reach : 0);
        s.down[d] = s.down[d + 1] + (reach < 0 ? -reach : 0);
    }
    return meet(&s, 0, s.distance);
}

bool weir__footprint_covers(const struct weir__footprint *a, const struct weir__footprint *b)
{
    if (!a->ndim)
        return a->first <= b->first && b->end <= a->end;
    return a->first == b->first && a->end == b->end && a->run == b->run && a->ndim == b->ndim &&
           !memcmp(a->count, b->count, (size_t)a->ndim * sizeof *a->count) &&
           !memcmp(a->step, b->step, (size_t)a->ndim * sizeof *a->step);
}
