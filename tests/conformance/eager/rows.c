/* Operators along dims: reductions, scans, sorting, and moving by indices. */
#include "conformance/eager/eager.h"

#include <stdlib.h>

/* A view with at least one dim, and how it is cut along one of them. */
struct rows {
    struct picked p;
    int dim;
    int64_t outer, size, inner;
};

static bool pick_rows(struct machine *m, struct rows *r)
{
    pick_any(m, (int)rng_int(&m->rng, 0, SLOTS - 1), DIMS, &r->p);
    if (!r->p.ndim) {
        picked_free(&r->p);
        return false;
    }
    r->dim = (int)rng_int(&m->rng, 0, r->p.ndim - 1);
    r->outer = r->inner = 1;
    r->size = r->p.shape[r->dim];
    for (int d = 0; d < r->p.ndim; d++)
        if (d < r->dim)
            r->outer *= r->p.shape[d];
        else if (d > r->dim)
            r->inner *= r->p.shape[d];
    if (r->outer * r->inner > MOST) { /* of an empty view, whose other sizes may be large */
        picked_free(&r->p);
        return false;
    }
    before_read(m, r->p.slot);
    return true;
}

static int64_t place(const struct rows *r, int64_t row, int64_t k)
{
    return (row / r->inner * r->size + k) * r->inner + row % r->inner;
}

static int64_t at(const struct machine *m, const struct rows *r, int64_t row, int64_t k)
{
    return value_at(m, &r->p, place(r, row, k));
}

/* As the dim, or counted from the end. */
static int spelled(struct machine *m, const struct rows *r)
{
    return r->dim - (rng_chance(&m->rng, 30) ? r->p.ndim : 0);
}

void do_reduce(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    int which = (int)rng_int(&m->rng, 0, 3), dim;
    struct rows r;
    weir_tensor *out;
    bool keep = rng_chance(&m->rng, 50);

    if (!pick_rows(m, &r))
        return;
    dim = spelled(m, &r);
    if (!r.size)
        which = 0;
    if (which == 3)
        CHECK_OK(weir_argmax(r.p.t, dim, keep, &out));
    else
        CHECK_OK((which == 0   ? weir_sum
                  : which == 1 ? weir_max
                               : weir_min)(r.p.t, &dim, 1, keep, &out));
    after_read(m, r.p.slot);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t best = r.size && which ? at(m, &r, row, 0) : 0, where = 0;

        for (int64_t k = 0; k < r.size; k++) {
            int64_t x = at(m, &r, row, k);

            if (which == 0)
                best = (int64_t)((uint64_t)best + (uint64_t)x);
            else if (which == 2 ? x < best : x > best)
                best = x, where = k;
        }
        made[row] = which == 3 ? where : best;
    }
    picked_free(&r.p);
    put_cast(m, out, made);
}

void do_scan(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    int which = (int)rng_int(&m->rng, 0, 3), dim;
    struct rows r;
    weir_tensor *out, *places = NULL;

    if (!pick_rows(m, &r))
        return;
    dim = spelled(m, &r);
    CHECK_OK(which == 0   ? weir_cumsum(r.p.t, dim, &out)
             : which == 1 ? weir_cumprod(r.p.t, dim, &out)
             : which == 2 ? weir_cummax(r.p.t, dim, &out, &places)
                          : weir_cummin(r.p.t, dim, &places, &out));
    after_read(m, r.p.slot);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        uint64_t all = which == 1;
        int64_t best = 0, where = 0;

        for (int64_t k = 0; k < r.size; k++) {
            int64_t x = at(m, &r, row, k);

            all = which == 1 ? all * (uint64_t)x : all + (uint64_t)x;
            if (!k || (which == 2 ? x >= best : x <= best))
                best = x, where = k;
            made[place(&r, row, k)] = which < 2 ? (int64_t)all : which == 2 ? best : where;
        }
    }
    weir_tensor_release(places);
    picked_free(&r.p);
    put_cast(m, out, made);
}

static _Thread_local const int64_t *sorted_values;

static int rising(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;

    if (sorted_values[i] != sorted_values[k])
        return sorted_values[i] < sorted_values[k] ? -1 : 1;
    return i < k ? -1 : 1;
}

static int falling(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;

    if (sorted_values[i] != sorted_values[k])
        return sorted_values[i] > sorted_values[k] ? -1 : 1;
    return i < k ? -1 : 1;
}

void do_sort(struct machine *m)
{
    static _Thread_local int64_t made[MOST], values[MOST], order[MOST];
    bool down = rng_chance(&m->rng, 50), places = rng_chance(&m->rng, 50);
    bool top = rng_chance(&m->rng, 30);
    weir_tensor *out, *other = NULL;
    struct rows r;
    int64_t keep;
    int dim;

    if (!pick_rows(m, &r))
        return;
    dim = spelled(m, &r);
    keep = top ? rng_int(&m->rng, 0, r.size) : r.size;
    if (top)
        CHECK_OK(weir_topk(r.p.t, keep, dim, down, places ? &other : &out, places ? &out : NULL));
    else if (places)
        CHECK_OK(weir_argsort(r.p.t, dim, down, &out));
    else
        CHECK_OK(weir_sort(r.p.t, dim, down, &out, rng_chance(&m->rng, 50) ? &other : NULL));
    after_read(m, r.p.slot);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        for (int64_t k = 0; k < r.size; k++) {
            values[k] = at(m, &r, row, k);
            order[k] = k;
        }
        sorted_values = values;
        qsort(order, (size_t)r.size, sizeof *order, down ? falling : rising);
        for (int64_t k = 0; k < keep; k++)
            made[(row / r.inner * keep + k) * r.inner + row % r.inner] =
                places ? order[k] : values[order[k]];
    }
    weir_tensor_release(other);
    picked_free(&r.p);
    put_cast(m, out, made);
}

void do_concat(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    int64_t shape[DIMS], all;
    struct picked other;
    weir_tensor *out;
    struct rows r;

    if (!pick_rows(m, &r))
        return;
    memcpy(shape, r.p.shape, sizeof shape);
    shape[r.dim] = rng_int(&m->rng, 0, 5);
    all = r.size + shape[r.dim];
    if (r.outer * r.inner * all > MOST || !pick_shape(m, r.p.ndim, shape, false, &other)) {
        picked_free(&r.p);
        return;
    }
    before_read(m, other.slot);
    CHECK_OK(weir_concat((weir_tensor *[]){r.p.t, other.t}, 2, spelled(m, &r), &out));
    after_read(m, r.p.slot);
    after_read(m, other.slot);
    for (int64_t row = 0; row < r.outer * r.inner; row++)
        for (int64_t k = 0; k < all; k++)
            made[(row / r.inner * all + k) * r.inner + row % r.inner] =
                k < r.size ? at(m, &r, row, k)
                           : value_at(m, &other,
                                      (row / r.inner * shape[r.dim] + k - r.size) * r.inner +
                                          row % r.inner);
    picked_free(&r.p);
    picked_free(&other);
    put_new(m, out, made);
}

/* Indices of the rows' shape, but `n` along the dim. */
static weir_tensor *make_index(struct machine *m, const struct rows *r, int64_t n, int64_t *values)
{
    weir_dtype type = rng_chance(&m->rng, 50) ? WEIR_I64 : WEIR_I32;
    int64_t shape[DIMS], all = r->outer * r->inner * n;
    weir_tensor *t;
    void *bytes;

    memcpy(shape, r->p.shape, sizeof shape);
    shape[r->dim] = n;
    for (int64_t i = 0; i < all; i++)
        values[i] = rng_int(&m->rng, 0, r->size - 1);
    bytes = to_bytes(type, values, all);
    CHECK_OK(weir_tensor_from(m->streams[m->at], type, r->p.ndim, shape, bytes, &t));
    free(bytes);
    return t;
}

void do_gather(struct machine *m)
{
    static _Thread_local int64_t made[MOST], index[MOST];
    int64_t n = rng_int(&m->rng, 0, 6);
    weir_tensor *t, *out;
    struct rows r;

    if (!pick_rows(m, &r))
        return;
    if (!r.size || r.outer * r.inner * n > MOST) {
        picked_free(&r.p);
        return;
    }
    t = make_index(m, &r, n, index);
    CHECK_OK(weir_gather(r.p.t, spelled(m, &r), t, &out));
    weir_tensor_release(t);
    after_read(m, r.p.slot);
    for (int64_t row = 0; row < r.outer * r.inner; row++)
        for (int64_t k = 0; k < n; k++) {
            int64_t i = (row / r.inner * n + k) * r.inner + row % r.inner;

            made[i] = at(m, &r, row, index[i]);
        }
    picked_free(&r.p);
    put_new(m, out, made);
}

void do_scatter(struct machine *m)
{
    static _Thread_local int64_t index[MOST];
    int64_t n = rng_int(&m->rng, 0, 6), shape[DIMS];
    bool add = rng_chance(&m->rng, 50);
    struct picked source;
    weir_tensor *t;
    weir_status st;
    struct rows r;

    if (!pick_rows(m, &r))
        return;
    memcpy(shape, r.p.shape, sizeof shape);
    shape[r.dim] = n;
    if (!r.size || r.outer * r.inner * n > MOST || !is_plain(&r.p) ||
        !pick_shape(m, r.p.ndim, shape, false, &source)) {
        picked_free(&r.p);
        return;
    }
    t = make_index(m, &r, n, index);
    before_write(m, r.p.slot);
    before_read(m, source.slot);
    st = (add ? weir_scatter_add : weir_scatter)(r.p.t, spelled(m, &r), t, source.t);
    weir_tensor_release(t);
    if (share(&r.p, &source)) {
        CHECK_EQ(st, WEIR_EINVAL);
    } else {

        CHECK_OK(st);
        for (int64_t row = 0; row < r.outer * r.inner; row++)
            for (int64_t k = 0; k < n; k++) {
                int64_t i = (row / r.inner * n + k) * r.inner + row % r.inner;
                int64_t *to = &m->slots[r.p.slot].want[r.p.cells[place(&r, row, index[i])]];

                *to = add ? wrap_value(m->type,
                                       (int64_t)((uint64_t)*to + (uint64_t)value_at(m, &source, i)))
                          : value_at(m, &source, i);
            }
    }
    after_read(m, source.slot);
    after_write(m, r.p.slot);
    picked_free(&r.p);
    picked_free(&source);
}
