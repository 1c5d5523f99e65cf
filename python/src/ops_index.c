/* Operators with indices, and operators with several results. */
#include "ops.h"

static PyObject *pair(weir_status st, PyObject *like, weir_tensor *a, weir_tensor *b)
{
    PyObject *first, *second, *tuple;

    if (st)
        return raise_status(st);
    first = wrap_tensor(DEVICE(like), a);
    second = wrap_tensor(DEVICE(like), b);
    tuple = first && second ? PyTuple_Pack(2, first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return tuple;
}

OP(embedding, 2, "table", "indices")
{
    weir_tensor *table, *indices, *out;
    weir_status st;

    if (!to_tensor(a[0], "table", &table) || !to_tensor(a[1], "indices", &indices))
        return NULL;
    QUEUE(st, weir_embedding(table, indices, &out));
    return result(st, a[0], out);
}

static PyObject *by_index(PyObject **a,
                          weir_status (*fn)(weir_tensor *, int, weir_tensor *, weir_tensor **))
{
    weir_tensor *x, *index, *out;
    weir_status st;
    int dim;

    if (!to_tensor(a[0], "x", &x) || !to_int(a[1], "dim", &dim) ||
        !to_tensor(a[2], "index", &index))
        return NULL;
    QUEUE(st, fn(x, dim, index, &out));
    return result(st, a[0], out);
}

OP(gather, 3, "x", "dim", "index")
{
    return by_index(a, weir_gather);
}

OP(index_select, 3, "x", "dim", "index")
{
    return by_index(a, weir_index_select);
}

static PyObject *scatter(PyObject *const *a,
                         weir_status (*put)(weir_tensor *x, int dim, weir_tensor *index,
                                            weir_tensor *source))
{
    weir_tensor *x, *index, *source;
    weir_status st;
    int dim;

    if (!to_tensor(a[0], "x", &x) || !to_int(a[1], "dim", &dim) ||
        !to_tensor(a[2], "index", &index) || !to_tensor(a[3], "source", &source))
        return NULL;
    QUEUE(st, put(x, dim, index, source));
    return same(st, a[0]);
}

OP(scatter_add_, 4, "x", "dim", "index", "source")
{
    return scatter(a, weir_scatter_add);
}

OP(scatter_, 4, "x", "dim", "index", "source")
{
    return scatter(a, weir_scatter);
}

OP(topk, 2, "x", "k", "dim", "largest")
{
    weir_tensor *x, *values, *indices;
    bool largest = true;
    weir_status st;
    int dim = -1;
    int64_t k;

    if (!to_tensor(a[0], "x", &x) || !to_int64(a[1], "k", &k) || !optional_int(a[2], "dim", &dim) ||
        !optional_bool(a[3], &largest))
        return NULL;
    QUEUE(st, weir_topk(x, k, dim, largest, &values, &indices));
    return pair(st, a[0], values, indices);
}

OP(sort, 1, "x", "dim", "descending")
{
    weir_tensor *x, *values, *indices;
    bool descending = false;
    weir_status st;
    int dim = -1;

    if (!to_tensor(a[0], "x", &x) || !optional_int(a[1], "dim", &dim) ||
        !optional_bool(a[2], &descending))
        return NULL;
    QUEUE(st, weir_sort(x, dim, descending, &values, &indices));
    return pair(st, a[0], values, indices);
}

/* Running sums and products; one result. */
static PyObject *total(PyObject **a, weir_status (*fn)(weir_tensor *, int, weir_tensor **))
{
    weir_tensor *x, *out;
    weir_status st;
    int dim = -1;

    if (!to_tensor(a[0], "x", &x) || !optional_int(a[1], "dim", &dim))
        return NULL;
    QUEUE(st, fn(x, dim, &out));
    return result(st, a[0], out);
}

OP(cumsum, 1, "x", "dim")
{
    return total(a, weir_cumsum);
}

OP(cumprod, 1, "x", "dim")
{
    return total(a, weir_cumprod);
}

/* Running maxima and minima, with their indices. */
static PyObject *so_far(PyObject **a,
                        weir_status (*fn)(weir_tensor *, int, weir_tensor **, weir_tensor **))
{
    weir_tensor *x, *values, *indices;
    weir_status st;
    int dim = -1;

    if (!to_tensor(a[0], "x", &x) || !optional_int(a[1], "dim", &dim))
        return NULL;
    QUEUE(st, fn(x, dim, &values, &indices));
    return pair(st, a[0], values, indices);
}

OP(cummax, 1, "x", "dim")
{
    return so_far(a, weir_cummax);
}

OP(cummin, 1, "x", "dim")
{
    return so_far(a, weir_cummin);
}

OP(argsort, 1, "x", "dim", "descending")
{
    weir_tensor *x, *indices;
    bool descending = false;
    weir_status st;
    int dim = -1;

    if (!to_tensor(a[0], "x", &x) || !optional_int(a[1], "dim", &dim) ||
        !optional_bool(a[2], &descending))
        return NULL;
    QUEUE(st, weir_argsort(x, dim, descending, &indices));
    return result(st, a[0], indices);
}

OP(nonzero, 1, "x")
{
    weir_tensor *x, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x))
        return NULL;
    BLOCKING(st, weir_nonzero(x, &out));
    return result(st, a[0], out);
}

OP(moe_gating, 2, "logits", "k", "renormalise")
{
    weir_tensor *logits, *weights, *experts;
    bool renormalise = true;
    weir_status st;
    int64_t k;

    if (!to_tensor(a[0], "logits", &logits) || !to_int64(a[1], "k", &k) ||
        !optional_bool(a[2], &renormalise))
        return NULL;
    QUEUE(st, weir_moe_gating(logits, k, renormalise, &weights, &experts));
    return pair(st, a[0], weights, experts);
}

static bool optional_count(PyObject *o, const char *what, int64_t *value)
{
    return is_absent(o) || to_int64(o, what, value);
}

OP(expert_choice, 2, "logits", "k", "bias", "groups", "group_k", "sigmoid", "best_two",
   "renormalise", "outside", "eps", "scale")
{
    weir_tensor *logits, *bias, *weights, *experts;
    weir_expert_choice_options o = {0};
    weir_status st;

    if (!to_tensor(a[0], "logits", &logits) || !to_int64(a[1], "k", &o.k) ||
        !optional_tensor(a[2], "bias", &bias) || !optional_count(a[3], "groups", &o.groups) ||
        !optional_count(a[4], "group_k", &o.group_k) || !optional_bool(a[5], &o.sigmoid) ||
        !optional_bool(a[6], &o.best_two) || !optional_bool(a[7], &o.renormalise) ||
        !optional_double(a[8], "outside", &o.outside) || !optional_double(a[9], "eps", &o.eps) ||
        !optional_double(a[10], "scale", &o.scale))
        return NULL;
    QUEUE(st, weir_expert_choice(logits, bias, &o, &weights, &experts));
    return pair(st, a[0], weights, experts);
}

OP(expert_order, 2, "experts", "n", "k")
{
    weir_tensor *experts, *out[3];
    PyObject *made[3], *tuple;
    weir_status st;
    int64_t n, k = 1;

    if (!to_tensor(a[0], "experts", &experts) || !to_int64(a[1], "n", &n) ||
        !optional_count(a[2], "k", &k))
        return NULL;
    QUEUE(st, weir_expert_order(experts, n, k, &out[0], &out[1], &out[2]));
    if (st)
        return raise_status(st);
    for (int i = 0; i < 3; i++)
        made[i] = wrap_tensor(DEVICE(a[0]), out[i]);
    tuple = made[0] && made[1] && made[2] ? PyTuple_Pack(3, made[0], made[1], made[2]) : NULL;
    for (int i = 0; i < 3; i++)
        Py_XDECREF(made[i]);
    return tuple;
}

OP(expert_sum, 2, "rows", "places", "weights")
{
    weir_tensor *rows, *places, *weights, *out;
    weir_status st;

    if (!to_tensor(a[0], "rows", &rows) || !to_tensor(a[1], "places", &places) ||
        !optional_tensor(a[2], "weights", &weights))
        return NULL;
    QUEUE(st, weir_expert_sum(rows, places, weights, &out));
    return result(st, a[0], out);
}

OP(rotary, 3, "x", "cosines", "sines", "interleaved")
{
    weir_tensor *x, *cosines, *sines, *out;
    bool interleaved = false;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !to_tensor(a[1], "cosines", &cosines) ||
        !to_tensor(a[2], "sines", &sines) || !optional_bool(a[3], &interleaved))
        return NULL;
    QUEUE(st, weir_rotary(x, cosines, sines, interleaved, &out));
    return result(st, a[0], out);
}
