/* Collectives of a group. They go to the current stream of the group's device. */
#include "weirpy.h"

#include <string.h>

static bool to_reduce(const char *name, weir_reduce *out)
{
    static const char *const names[] = {
        [WEIR_REDUCE_SUM] = "sum",   [WEIR_REDUCE_MAX] = "max",   [WEIR_REDUCE_MIN] = "min",
        [WEIR_REDUCE_MEAN] = "mean", [WEIR_REDUCE_PROD] = "prod",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) {
            *out = (weir_reduce)i;
            return true;
        }
    PyErr_Format(PyExc_ValueError, "there is no reduction '%s': sum, max, min, mean or prod", name);
    return false;
}

/* Reads a count for every rank. */
static bool to_counts(const weir_rank *rank, PyObject *list, const char *what, int64_t *out)
{
    int n, ranks = weir_group_size(weir_rank_group(rank));

    if (!to_dims(list, what, out, WEIR_MAX_RANKS, &n))
        return false;
    if (n == ranks)
        return true;
    PyErr_Format(PyExc_ValueError, "%s: %d counts for %d ranks", what, n, ranks);
    return false;
}

/* ---- collectives that return a new tensor; also usable in a graph ---- */

static PyObject *made(PyObject *self, weir_status st, weir_tensor *out)
{
    return st ? raise_status(st) : wrap_tensor(((GroupObject *)self)->device, out);
}

static PyObject *group_reduced(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    const char *op = "sum";
    weir_tensor *in, *out = NULL;
    weir_reduce reduce;
    int scatter = 0;
    PyObject *x;
    weir_status st;

    if (!rank || !PyArg_ParseTuple(args, "O|sp:reduced", &x, &op, &scatter) ||
        !to_tensor(x, "x", &in) || !to_reduce(op, &reduce))
        return NULL;
    st = scatter ? weir_reduce_scatter(rank, in, reduce, &out)
                 : weir_all_reduce(rank, in, reduce, &out);
    return made(self, st, out);
}

static PyObject *group_gathered(PyObject *self, PyObject *x)
{
    weir_rank *rank = group_rank(self);
    weir_tensor *in, *out = NULL;
    weir_status st;

    if (!rank || !to_tensor(x, "x", &in))
        return NULL;
    st = weir_all_gather(rank, in, &out);
    return made(self, st, out);
}

static PyObject *group_broadcasted(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    weir_tensor *in, *out = NULL;
    PyObject *x;
    weir_status st;
    int root;

    if (!rank || !PyArg_ParseTuple(args, "Oi:broadcasted", &x, &root) || !to_tensor(x, "x", &in))
        return NULL;
    st = weir_broadcast(rank, in, root, &out);
    return made(self, st, out);
}

static PyObject *group_exchanged(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    int64_t send[WEIR_MAX_RANKS], recv[WEIR_MAX_RANKS];
    PyObject *x, *sends, *recvs;
    weir_tensor *in, *out = NULL;
    weir_status st;

    if (!rank || !PyArg_ParseTuple(args, "OOO:exchanged", &x, &sends, &recvs) ||
        !to_tensor(x, "x", &in) || !to_counts(rank, sends, "send", send) ||
        !to_counts(rank, recvs, "recv", recv))
        return NULL;
    st = weir_all_to_all_counts(rank, in, send, recv, &out);
    return made(self, st, out);
}

static PyObject *group_reduced_to(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    weir_tensor *in, *out = NULL;
    const char *op = "sum";
    weir_reduce reduce;
    PyObject *x;
    weir_status st;
    int root;

    if (!rank || !PyArg_ParseTuple(args, "Oi|s:reduced_to", &x, &root, &op) ||
        !to_tensor(x, "x", &in) || !to_reduce(op, &reduce))
        return NULL;
    if ((st = weir_reduce_to(rank, in, reduce, root, &out)))
        return raise_status(st);
    return out ? made(self, WEIR_OK, out) : Py_NewRef(Py_None);
}

static PyObject *group_gathered_to(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    weir_tensor *in, *out = NULL;
    PyObject *x;
    weir_status st;
    int root;

    if (!rank || !PyArg_ParseTuple(args, "Oi:gathered_to", &x, &root) || !to_tensor(x, "x", &in))
        return NULL;
    st = weir_gather_to(rank, in, root, &out);
    return made(self, st, out);
}

static PyObject *group_gathered_counts(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    int64_t counts[WEIR_MAX_RANKS];
    weir_tensor *in, *out = NULL;
    PyObject *x, *list;
    weir_status st;

    if (!rank || !PyArg_ParseTuple(args, "OO:gathered_counts", &x, &list) ||
        !to_tensor(x, "x", &in) || !to_counts(rank, list, "counts", counts))
        return NULL;
    st = weir_all_gather_counts(rank, in, counts, &out);
    return made(self, st, out);
}

static PyObject *group_reduced_counts(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    int64_t counts[WEIR_MAX_RANKS];
    weir_tensor *in, *out = NULL;
    PyObject *x, *list;
    const char *op = "sum";
    weir_reduce reduce;
    weir_status st;

    if (!rank || !PyArg_ParseTuple(args, "OO|s:reduced_counts", &x, &list, &op) ||
        !to_tensor(x, "x", &in) || !to_counts(rank, list, "counts", counts) ||
        !to_reduce(op, &reduce))
        return NULL;
    st = weir_reduce_scatter_counts(rank, in, reduce, counts, &out);
    return made(self, st, out);
}

/* ---- mixture of experts ---- */

static PyObject *group_dispatched(PyObject *self, PyObject *args)
{
    enum { PARTS = 3 };
    weir_rank *rank = group_rank(self);
    weir_tensor *in, *of, *out[PARTS] = {NULL};
    PyObject *x, *experts, *parts[PARTS];
    long long nexperts, capacity;
    weir_status st;

    if (!rank || !PyArg_ParseTuple(args, "OOLL:dispatched", &x, &experts, &nexperts, &capacity) ||
        !to_tensor(x, "x", &in) || !to_tensor(experts, "experts", &of))
        return NULL;
    if ((st = weir_moe_dispatch(rank, in, of, nexperts, capacity, &out[0], &out[1], &out[2])))
        return raise_status(st);
    for (int i = 0; i < PARTS; i++) /* each takes its tensor, also when it fails */
        parts[i] = made(self, WEIR_OK, out[i]);
    if (parts[0] && parts[1] && parts[2])
        return Py_BuildValue("NNN", parts[0], parts[1], parts[2]);
    for (int i = 0; i < PARTS; i++)
        Py_XDECREF(parts[i]);
    return NULL;
}

static PyObject *group_combined(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    PyObject *rows, *experts, *positions, *weights;
    weir_tensor *in, *of, *at, *by, *out = NULL;
    long long nexperts;
    weir_status st;

    if (!rank ||
        !PyArg_ParseTuple(args, "OOLOO:combined", &rows, &experts, &nexperts, &positions,
                          &weights) ||
        !to_tensor(rows, "rows", &in) || !to_tensor(experts, "experts", &of) ||
        !to_tensor(positions, "positions", &at) || !to_tensor(weights, "weights", &by))
        return NULL;
    st = weir_moe_combine(rank, in, of, nexperts, at, by, &out);
    return made(self, st, out);
}

/* ---- collectives that write to a given tensor ---- */

static PyObject *group_all_reduce(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    PyObject *x, *out;
    weir_tensor *in, *into;
    const char *op = "sum";
    weir_reduce reduce;

    if (!rank || !PyArg_ParseTuple(args, "OO|s:all_reduce", &x, &out, &op) ||
        !to_tensor(x, "x", &in) || !to_tensor(out, "out", &into) || !to_reduce(op, &reduce))
        return NULL;
    return none_or(weir_all_reduce_into(rank, in, reduce, into));
}

static PyObject *group_reduce_scatter(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    PyObject *x, *out;
    weir_tensor *in, *into;
    const char *op = "sum";
    weir_reduce reduce;

    if (!rank || !PyArg_ParseTuple(args, "OO|s:reduce_scatter", &x, &out, &op) ||
        !to_tensor(x, "x", &in) || !to_tensor(out, "out", &into) || !to_reduce(op, &reduce))
        return NULL;
    return none_or(weir_reduce_scatter_into(rank, in, reduce, into));
}

static PyObject *group_all_gather(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    PyObject *x, *out;
    weir_tensor *in, *into;

    if (!rank || !PyArg_ParseTuple(args, "OO:all_gather", &x, &out) || !to_tensor(x, "x", &in) ||
        !to_tensor(out, "out", &into))
        return NULL;
    return none_or(weir_all_gather_into(rank, in, into));
}

static PyObject *group_broadcast(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    PyObject *x;
    weir_tensor *t;
    int root;

    if (!rank || !PyArg_ParseTuple(args, "Oi:broadcast", &x, &root) || !to_tensor(x, "x", &t))
        return NULL;
    return none_or(weir_broadcast_into(rank, t, root, t));
}

static PyObject *group_all_to_all(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    int64_t send[WEIR_MAX_RANKS], recv[WEIR_MAX_RANKS];
    PyObject *x, *out, *sends, *recvs;
    weir_tensor *in, *into;

    if (!rank || !PyArg_ParseTuple(args, "OOOO:all_to_all", &x, &out, &sends, &recvs) ||
        !to_tensor(x, "x", &in) || !to_tensor(out, "out", &into) ||
        !to_counts(rank, sends, "send", send) || !to_counts(rank, recvs, "recv", recv))
        return NULL;
    return none_or(weir_all_to_all_counts_into(rank, in, send, recv, into));
}

static PyObject *group_send(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    PyObject *x;
    weir_tensor *t;
    int peer;

    if (!rank || !PyArg_ParseTuple(args, "Oi:send", &x, &peer) || !to_tensor(x, "x", &t))
        return NULL;
    return none_or(weir_send(rank, t, peer));
}

static PyObject *group_recv(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    PyObject *x;
    weir_tensor *t;
    int peer;

    if (!rank || !PyArg_ParseTuple(args, "Oi:recv", &x, &peer) || !to_tensor(x, "x", &t))
        return NULL;
    return none_or(weir_recv(rank, t, peer));
}

static PyObject *group_scatter(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    weir_tensor *in = NULL, *into;
    PyObject *x, *out;
    int root;

    if (!rank || !PyArg_ParseTuple(args, "OiO:scatter", &x, &root, &out) ||
        (!is_absent(x) && !to_tensor(x, "x", &in)) || !to_tensor(out, "out", &into))
        return NULL;
    return none_or(weir_scatter_from(rank, in, root, into));
}

/* The tensors of the messages are the list's: it keeps them until the calls are queued. */
static PyObject *group_batch(PyObject *self, PyObject *list)
{
    enum { MOST = 64 };
    weir_rank *rank = group_rank(self);
    weir_message messages[MOST];
    PyObject *items;
    Py_ssize_t n;
    weir_status st;

    if (!rank || !(items = PySequence_Tuple(list)))
        return NULL;
    if ((n = PyTuple_Size(items)) > MOST) {
        PyErr_Format(PyExc_ValueError, "batch: %zd messages; at most %d are sent at once", n, MOST);
        goto drop;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x, *item = PyTuple_GetItem(items, i);
        int receives;

        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "batch: a message is (tensor, peer, receives)");
            goto drop;
        }
        if (!PyArg_ParseTuple(item, "Oip:batch", &x, &messages[i].peer, &receives) ||
            !to_tensor(x, "the tensor of a message", &messages[i].tensor))
            goto drop;
        messages[i].receives = receives;
    }
    st = weir_batch_send_recv(rank, messages, (int)n);
    DROP(items);
    return none_or(st);

drop:
    DROP(items);
    return NULL;
}

static PyObject *group_barrier(PyObject *self, PyObject *none)
{
    weir_rank *rank = group_rank(self);

    (void)none;
    return rank ? none_or(weir_barrier(rank)) : NULL;
}

PyMethodDef group_calls[] = {
    {"reduced", group_reduced, METH_VARARGS,
     "reduced(x, op='sum', scatter=False) -> Tensor\n\nThe reduction, or the own part of it."},
    {"gathered", group_gathered, METH_O, "gathered(x) -> Tensor\n\nAll ranks' tensors in a row."},
    {"broadcasted", group_broadcasted, METH_VARARGS,
     "broadcasted(x, root) -> Tensor\n\nThe tensor of one rank."},
    {"exchanged", group_exchanged, METH_VARARGS,
     "exchanged(x, send, recv) -> Tensor\n\nWith so many rows for and from each rank."},
    {"reduced_to", group_reduced_to, METH_VARARGS,
     "reduced_to(x, root, op='sum') -> Tensor\n\nThe reduction on rank root; None on others."},
    {"gathered_to", group_gathered_to, METH_VARARGS,
     "gathered_to(x, root) -> Tensor\n\nAll ranks' tensors in a row on rank root; no rows on "
     "others."},
    {"gathered_counts", group_gathered_counts, METH_VARARGS,
     "gathered_counts(x, counts) -> Tensor\n\nAll ranks' tensors in a row, counts[i] rows from "
     "rank i."},
    {"reduced_counts", group_reduced_counts, METH_VARARGS,
     "reduced_counts(x, counts, op='sum') -> Tensor\n\nThe own rows of the reduction, counts[i] "
     "for rank i."},
    {"dispatched", group_dispatched, METH_VARARGS,
     "dispatched(x, experts, nexperts, capacity) -> (rows, counts, positions)\n\nEach token's row "
     "on the ranks of its experts (weir_moe_dispatch)."},
    {"combined", group_combined, METH_VARARGS,
     "combined(rows, experts, nexperts, positions, weights) -> Tensor\n\nThe weighted sum of each "
     "token's rows (weir_moe_combine)."},
    {"all_reduce", group_all_reduce, METH_VARARGS, "all_reduce(x, out, op='sum')"},
    {"reduce_scatter", group_reduce_scatter, METH_VARARGS, "reduce_scatter(x, out, op='sum')"},
    {"all_gather", group_all_gather, METH_VARARGS, "all_gather(x, out)"},
    {"broadcast", group_broadcast, METH_VARARGS, "broadcast(x, root)"},
    {"all_to_all", group_all_to_all, METH_VARARGS,
     "all_to_all(x, out, send, recv)\n\nWith so many rows for and from each rank."},
    {"scatter", group_scatter, METH_VARARGS,
     "scatter(x, root, out)\n\nPart i of rank root's x goes to out of rank i; x may be None on "
     "others."},
    {"send", group_send, METH_VARARGS, "send(x, to)"},
    {"recv", group_recv, METH_VARARGS, "recv(x, source)"},
    {"batch", group_batch, METH_O,
     "batch(messages)\n\nSends and receives at once, (tensor, peer, receives) each, whose order "
     "does not matter."},
    {"barrier", group_barrier, METH_NOARGS, "barrier()"},
    {NULL, NULL, 0, NULL},
};
