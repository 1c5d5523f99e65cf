/* Views by random chains of calls, and by strides. */
#include "conformance/eager/eager.h"

static int64_t count(int ndim, const int64_t *shape)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    return n;
}

static void replace(struct picked *p, weir_tensor *next)
{
    weir_tensor_release(p->t);
    p->t = next;
}

/* Rows of p's cells by the new shape, where element i of the new view is `from[i]` of the old. */
static void take_cells(struct picked *p, const int64_t *from, int64_t n)
{
    int cells[MOST];

    for (int64_t i = 0; i < n; i++)
        cells[i] = p->cells[from[i]];
    memcpy(p->cells, cells, (size_t)n * sizeof *cells);
    p->n = n;
}

static void do_slice(struct machine *m, struct picked *p)
{
    int d = (int)rng_int(&m->rng, 0, p->ndim - 1);
    int64_t size = p->shape[d], start = rng_int(&m->rng, 0, size), stop, step, from[MOST], n = 0;
    int64_t outer = count(d, p->shape), inner = count(p->ndim - d - 1, p->shape + d + 1);
    weir_tensor *next;

    stop = rng_int(&m->rng, start, size);
    if (stop == start && rng_chance(&m->rng, 90))
        return;
    step = rng_chance(&m->rng, 50) ? 1 : rng_int(&m->rng, 1, 3);
    if (rng_chance(&m->rng, 30) && start < size && stop > 0 && stop < size) /* from the end */
        CHECK_OK(weir_tensor_slice(p->t, d, start - size, stop - size, step, &next));
    else
        CHECK_OK(weir_tensor_slice(p->t, d, start, stop, step, &next));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = start; k < stop; k += step)
            for (int64_t i = 0; i < inner; i++)
                from[n++] = (o * size + k) * inner + i;
    p->shape[d] = (stop - start + step - 1) / step;
    take_cells(p, from, n);
    replace(p, next);
}

static void do_transpose(struct machine *m, struct picked *p)
{
    int a = (int)rng_int(&m->rng, 0, p->ndim - 1), b = (int)rng_int(&m->rng, 0, p->ndim - 1);
    int64_t index[DIMS] = {0}, from[MOST], old[DIMS], n = 0, keep;
    weir_tensor *next;

    CHECK_OK(weir_tensor_transpose(p->t, a, b - (rng_chance(&m->rng, 30) ? p->ndim : 0), &next));
    memcpy(old, p->shape, sizeof old);
    keep = p->shape[a];
    p->shape[a] = p->shape[b];
    p->shape[b] = keep;
    for (bool more = p->n > 0; more; more = step_index(p->ndim, p->shape, index)) {
        int64_t at = 0;

        for (int d = 0; d < p->ndim; d++)
            at = at * old[d] + index[d == a ? b : d == b ? a : d];
        from[n++] = at;
    }
    take_cells(p, from, n);
    replace(p, next);
}

static void do_reshape(struct machine *m, struct picked *p)
{
    int64_t shape[DIMS], left = p->n;
    int ndim = (int)rng_int(&m->rng, 1, 3);
    weir_tensor *next;

    if (!p->n)
        return;
    for (int d = 0; d < ndim - 1; d++) {
        do
            shape[d] = rng_int(&m->rng, 1, left < 8 ? left : 8);
        while (left % shape[d]);
        left /= shape[d];
    }
    shape[ndim - 1] = left;
    if (weir_tensor_reshape(p->t, ndim, shape, &next))
        return; /* strides cannot say it */
    p->ndim = ndim;
    memcpy(p->shape, shape, sizeof shape);
    replace(p, next);
}

static void do_expand(struct machine *m, struct picked *p)
{
    bool front = p->ndim < DIMS && rng_chance(&m->rng, 40);
    int ndim = p->ndim + front, cells[MOST];
    int64_t shape[DIMS], n;
    weir_tensor *next;

    if (front)
        shape[0] = rng_int(&m->rng, 1, 3);
    for (int d = front; d < ndim; d++)
        shape[d] = p->shape[d - front] == 1 ? rng_int(&m->rng, 1, 4) : p->shape[d - front];
    if ((n = count(ndim, shape)) > MOST)
        return;
    CHECK_OK(weir_tensor_expand(p->t, ndim, shape, &next));
    for (int64_t i = 0; i < n; i++)
        cells[i] = broadcast_cell(p, ndim, shape, i);
    memcpy(p->cells, cells, (size_t)n * sizeof *cells);
    p->n = n;
    p->ndim = ndim;
    memcpy(p->shape, shape, sizeof shape);
    replace(p, next);
}

static void do_unsqueeze(struct machine *m, struct picked *p)
{
    int d = (int)rng_int(&m->rng, 0, p->ndim);
    weir_tensor *next;

    if (p->ndim == DIMS)
        return;
    CHECK_OK(weir_tensor_unsqueeze(p->t, d, &next));
    for (int k = p->ndim; k > d; k--)
        p->shape[k] = p->shape[k - 1];
    p->shape[d] = 1;
    p->ndim++;
    replace(p, next);
}

static void start(struct machine *m, int slot, struct picked *p)
{
    const struct slot *s = &m->slots[slot];

    p->t = weir_tensor_retain(s->t);
    p->slot = slot;
    p->ndim = s->ndim;
    memcpy(p->shape, s->shape, sizeof p->shape);
    p->n = s->n;
    for (int64_t i = 0; i < s->n; i++)
        p->cells[i] = (int)i;
}

void pick_any(struct machine *m, int slot, int ndim, struct picked *p)
{
    static void (*const ways[])(struct machine *, struct picked *) = {
        do_slice, do_slice, do_transpose, do_reshape, do_expand, do_unsqueeze};
    int64_t steps = rng_int(&m->rng, 0, 5);

    start(m, slot, p);
    while (steps-- > 0)
        if (p->ndim)
            ways[rng_int(&m->rng, 0, countof(ways) - 1)](m, p);
    if (p->ndim > ndim) {
        picked_free(p);
        start(m, slot, p);
    }
    CHECK_EQ(weir_tensor_ndim(p->t), p->ndim);
    for (int d = 0; d < p->ndim; d++)
        CHECK_EQ(weir_tensor_shape(p->t)[d], p->shape[d]);
}

/* Strides by chance: steps over the tensor, windows that share elements, dims that repeat. */
static bool by_strides(struct machine *m, int slot, int ndim, const int64_t *shape, bool plain,
                       struct picked *p)
{
    const struct slot *s = &m->slots[slot];
    int64_t stride[DIMS] = {0}, reach = 0, offset, index[DIMS] = {0}, room = s->n - 1;
    size_t size = weir_dtype_size(m->type);

    if (!s->n || count(ndim, shape) > MOST)
        return false;
    for (int d = 0; d < ndim; d++) {
        int64_t most = shape[d] > 1 ? (room - reach) / (shape[d] - 1) : 9;

        stride[d] = rng_int(&m->rng, plain && most ? 1 : 0, most < 9 ? most : 9);
        reach += shape[d] ? (shape[d] - 1) * stride[d] : 0;
    }
    for (int k = 0; k < ndim && plain; k++) /* mostly rows of rows */
        for (int d = ndim - 1; d > 0 && rng_chance(&m->rng, 80); d--)
            if (stride[d - 1] < stride[d] * shape[d])
                stride[d - 1] = stride[d] * shape[d];
    reach = 0;
    for (int d = 0; d < ndim; d++)
        reach += shape[d] ? (shape[d] - 1) * stride[d] : 0;
    if (reach > room)
        return false;
    offset = rng_int(&m->rng, 0, room - reach);
    if (weir_tensor_view(s->t, (size_t)offset * size, m->type, ndim, shape, stride, &p->t))
        FAIL("a view of %lld elements from %lld on: %s", (long long)reach, (long long)offset,
             weir_last_error());
    p->slot = slot;
    p->ndim = ndim;
    memcpy(p->shape, shape, (size_t)ndim * sizeof *shape);
    p->n = 0;
    for (bool more = count(ndim, shape) > 0; more; more = step_index(ndim, shape, index)) {
        int64_t at = offset;

        for (int d = 0; d < ndim; d++)
            at += index[d] * stride[d];
        p->cells[p->n++] = (int)at;
    }
    return true;
}

bool pick_shape(struct machine *m, int ndim, const int64_t *shape, bool broadcast,
                struct picked *out)
{
    int64_t some[DIMS];
    int drop = broadcast && rng_chance(&m->rng, 30) ? (int)rng_int(&m->rng, 0, ndim) : 0;

    for (int d = drop; d < ndim; d++)
        some[d - drop] = broadcast && rng_chance(&m->rng, 15) ? 1 : shape[d];
    for (int tries = 0; tries < 6; tries++)
        if (by_strides(m, (int)rng_int(&m->rng, 0, SLOTS - 1), ndim - drop, some,
                       rng_chance(&m->rng, 60), out))
            return true;
    return false;
}

void picked_free(struct picked *p)
{
    weir_tensor_release(p->t);
    p->t = NULL;
}

bool is_plain(const struct picked *p)
{
    bool seen[MOST] = {false};

    for (int64_t i = 0; i < p->n; i++) {
        if (seen[p->cells[i]])
            return false;
        seen[p->cells[i]] = true;
    }
    return true;
}

int broadcast_cell(const struct picked *p, int ndim, const int64_t *shape, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int d = ndim - 1, k = p->ndim - 1; k >= 0; d--, k--) {
        at += p->shape[k] == 1 ? 0 : i % shape[d] * step;
        step *= p->shape[k];
        i /= shape[d];
    }
    return p->cells[at];
}

bool share(const struct picked *a, const struct picked *b)
{
    bool used[MOST] = {false}, shared = false;

    if (a->slot != b->slot)
        return false;
    for (int64_t i = 0; i < a->n; i++)
        used[a->cells[i]] = true;
    for (int64_t i = 0; i < b->n; i++)
        shared |= used[b->cells[i]];
    return shared;
}

bool clash(const struct picked *a, const struct picked *b)
{
    const int64_t *x = weir_tensor_strides(a->t), *y = weir_tensor_strides(b->t);
    bool same = a->ndim == b->ndim && a->n && a->cells[0] == b->cells[0];

    for (int d = 0; d < a->ndim && same; d++)
        same = a->shape[d] == b->shape[d] && (a->shape[d] == 1 || x[d] == y[d]);
    return !same && share(a, b);
}
