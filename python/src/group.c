/* Groups whose ranks are processes. Collectives go to the current stream of the group's device. */
#include "weirpy.h"

#include <string.h>

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_group *group; /* NULL once closed */
} GroupObject;

static PyTypeObject *GroupType;

static weir_rank *self_of(PyObject *self)
{
    GroupObject *g = (GroupObject *)self;

    if (!g->group) {
        PyErr_SetString(PyExc_ValueError, "the group was closed");
        return NULL;
    }
    return device_check(g->device) ? weir_group_self(g->group) : NULL;
}

static PyObject *wrap(DeviceObject *device, weir_group *group)
{
    GroupObject *g = object_new(GroupType);

    if (!g) {
        weir_group_destroy(group);
        return NULL;
    }
    Py_INCREF((PyObject *)device);
    g->device = device;
    g->group = group;
    return (PyObject *)g;
}

static PyObject *group_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "rank",    "ranks",        "store",  "token",
                            "name",   "timeout", "join_timeout", "engine", NULL};
    weir_join_options o = {.size = sizeof o};
    double timeout = 0, join_timeout = 0;
    PyObject *device = NULL, *made;
    weir_group *group;
    DeviceObject *d;
    weir_status st;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Oiizzzddz:Group", names, &device, &o.rank,
                                     &o.ranks, &o.store, &o.token, &o.name, &timeout, &join_timeout,
                                     &o.engine) ||
        !(d = to_device(device)))
        return NULL;
    o.timeout_ns = (int64_t)(timeout * 1e9);
    o.join_timeout_ns = (int64_t)(join_timeout * 1e9);
    BLOCKING(st, weir_group_join(d->dev, &o, &group));
    made = st ? raise_status(st) : wrap(d, group);
    DROP(d);
    return made;
}

static PyObject *group_split(PyObject *self, PyObject *args)
{
    int64_t ranks[WEIR_MAX_RANKS];
    int of[WEIR_MAX_RANKS], n;
    PyObject *list;
    weir_group *made;
    weir_status st;
    const char *name = NULL;

    if (!PyArg_ParseTuple(args, "O|z:split", &list, &name) || !self_of(self) ||
        !to_dims(list, "ranks", ranks, WEIR_MAX_RANKS, &n))
        return NULL;
    for (int i = 0; i < n; i++)
        of[i] = (int)ranks[i];
    BLOCKING(st, weir_group_split(((GroupObject *)self)->group, of, n,
                                  &(weir_group_options){.name = name}, &made));
    return st ? raise_status(st) : wrap(((GroupObject *)self)->device, made);
}

static weir_status let_go(GroupObject *g)
{
    weir_group *group = g->group;
    weir_status st;

    if (!group)
        return WEIR_OK;
    BLOCKING(st, weir_group_destroy(group));
    if (!st)
        g->group = NULL;
    return st;
}

static PyObject *group_close(PyObject *self, PyObject *none)
{
    (void)none;
    return none_or(let_go((GroupObject *)self));
}

static void group_dealloc(PyObject *self)
{
    GroupObject *g = (GroupObject *)self;

    if (g->group && device_alive(g->device)) {
        weir_group_abort(g->group, "a rank dropped the group");
        weir_device_sync(g->device->dev);
        (void)!weir_group_destroy(g->group);
    }
    DROP(g->device);
    object_free(self);
}

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

/* ---- collectives that return a new tensor; also usable in a graph ---- */

static PyObject *made(PyObject *self, weir_status st, weir_tensor *out)
{
    return st ? raise_status(st) : wrap_tensor(((GroupObject *)self)->device, out);
}

static PyObject *group_reduced(PyObject *self, PyObject *args)
{
    weir_rank *rank = self_of(self);
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
    weir_rank *rank = self_of(self);
    weir_tensor *in, *out = NULL;
    weir_status st;

    if (!rank || !to_tensor(x, "x", &in))
        return NULL;
    st = weir_all_gather(rank, in, &out);
    return made(self, st, out);
}

static PyObject *group_broadcasted(PyObject *self, PyObject *args)
{
    weir_rank *rank = self_of(self);
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
    weir_rank *rank = self_of(self);
    int64_t send[WEIR_MAX_RANKS], recv[WEIR_MAX_RANKS];
    PyObject *x, *sends, *recvs;
    weir_tensor *in, *out = NULL;
    int nsend, nrecv;
    weir_status st;

    if (!rank || !PyArg_ParseTuple(args, "OOO:exchanged", &x, &sends, &recvs) ||
        !to_tensor(x, "x", &in) || !to_dims(sends, "send", send, WEIR_MAX_RANKS, &nsend) ||
        !to_dims(recvs, "recv", recv, WEIR_MAX_RANKS, &nrecv))
        return NULL;
    if (nsend != weir_group_size(weir_rank_group(rank)) || nrecv != nsend) {
        PyErr_Format(PyExc_ValueError, "%d and %d counts for %d ranks", nsend, nrecv,
                     weir_group_size(weir_rank_group(rank)));
        return NULL;
    }
    st = weir_all_to_all_counts(rank, in, send, recv, &out);
    return made(self, st, out);
}

/* ---- collectives that write to a given tensor ---- */

static PyObject *group_all_reduce(PyObject *self, PyObject *args)
{
    weir_rank *rank = self_of(self);
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
    weir_rank *rank = self_of(self);
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
    weir_rank *rank = self_of(self);
    PyObject *x, *out;
    weir_tensor *in, *into;

    if (!rank || !PyArg_ParseTuple(args, "OO:all_gather", &x, &out) || !to_tensor(x, "x", &in) ||
        !to_tensor(out, "out", &into))
        return NULL;
    return none_or(weir_all_gather_into(rank, in, into));
}

static PyObject *group_broadcast(PyObject *self, PyObject *args)
{
    weir_rank *rank = self_of(self);
    PyObject *x;
    weir_tensor *t;
    int root;

    if (!rank || !PyArg_ParseTuple(args, "Oi:broadcast", &x, &root) || !to_tensor(x, "x", &t))
        return NULL;
    return none_or(weir_broadcast_into(rank, t, root, t));
}

static PyObject *group_all_to_all(PyObject *self, PyObject *args)
{
    weir_rank *rank = self_of(self);
    int64_t send[WEIR_MAX_RANKS], recv[WEIR_MAX_RANKS];
    PyObject *x, *out, *sends, *recvs;
    weir_tensor *in, *into;
    int nsend, nrecv;

    if (!rank || !PyArg_ParseTuple(args, "OOOO:all_to_all", &x, &out, &sends, &recvs) ||
        !to_tensor(x, "x", &in) || !to_tensor(out, "out", &into) ||
        !to_dims(sends, "send", send, WEIR_MAX_RANKS, &nsend) ||
        !to_dims(recvs, "recv", recv, WEIR_MAX_RANKS, &nrecv))
        return NULL;
    if (nsend != weir_group_size(weir_rank_group(rank)) || nrecv != nsend) {
        PyErr_Format(PyExc_ValueError, "%d and %d counts for %d ranks", nsend, nrecv,
                     weir_group_size(weir_rank_group(rank)));
        return NULL;
    }
    return none_or(weir_all_to_all_counts_into(rank, in, send, recv, into));
}

static PyObject *group_send(PyObject *self, PyObject *args)
{
    weir_rank *rank = self_of(self);
    PyObject *x;
    weir_tensor *t;
    int peer;

    if (!rank || !PyArg_ParseTuple(args, "Oi:send", &x, &peer) || !to_tensor(x, "x", &t))
        return NULL;
    return none_or(weir_send(rank, t, peer));
}

static PyObject *group_recv(PyObject *self, PyObject *args)
{
    weir_rank *rank = self_of(self);
    PyObject *x;
    weir_tensor *t;
    int peer;

    if (!rank || !PyArg_ParseTuple(args, "Oi:recv", &x, &peer) || !to_tensor(x, "x", &t))
        return NULL;
    return none_or(weir_recv(rank, t, peer));
}

static PyObject *group_ready(PyObject *self, PyObject *args)
{
    weir_rank *rank = self_of(self);
    bool ready = false;
    weir_status st;
    int peer;

    if (!rank || !PyArg_ParseTuple(args, "i:ready", &peer))
        return NULL;
    st = weir_recv_ready(rank, peer, &ready);
    return st ? raise_status(st) : PyBool_FromLong(ready);
}

static PyObject *group_barrier(PyObject *self, PyObject *none)
{
    weir_rank *rank = self_of(self);

    (void)none;
    return rank ? none_or(weir_barrier(rank)) : NULL;
}

static PyObject *group_abort(PyObject *self, PyObject *args)
{
    const char *reason = NULL;

    if (!PyArg_ParseTuple(args, "|z:abort", &reason) || !self_of(self))
        return NULL;
    weir_group_abort(((GroupObject *)self)->group, reason);
    Py_RETURN_NONE;
}

static PyObject *group_check(PyObject *self, PyObject *none)
{
    (void)none;
    return self_of(self) ? none_or(weir_group_state(((GroupObject *)self)->group)) : NULL;
}

static PyObject *get_rank(PyObject *self, void *unused)
{
    weir_rank *rank = self_of(self);

    (void)unused;
    return rank ? PyLong_FromLong(weir_rank_index(rank)) : NULL;
}

static PyObject *get_size(PyObject *self, void *unused)
{
    (void)unused;
    return self_of(self) ? PyLong_FromLong(weir_group_size(((GroupObject *)self)->group)) : NULL;
}

static PyObject *get_engine(PyObject *self, void *unused)
{
    (void)unused;
    return self_of(self) ? PyUnicode_FromString(weir_group_engine(((GroupObject *)self)->group))
                         : NULL;
}

static PyObject *get_device_of(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((GroupObject *)self)->device);
}

static PyMethodDef methods[] = {
    {"split", group_split, METH_VARARGS,
     "split(ranks, name=None) -> Group\n\nA group of some of the ranks; all of them call it."},
    {"reduced", group_reduced, METH_VARARGS,
     "the reduction, or with a third argument the own part"},
    {"gathered", group_gathered, METH_O, "all ranks' tensors in a row"},
    {"broadcasted", group_broadcasted, METH_VARARGS, "the tensor of one rank"},
    {"exchanged", group_exchanged, METH_VARARGS, "rows for and from each rank"},
    {"all_reduce", group_all_reduce, METH_VARARGS, "all_reduce(x, out, op='sum')"},
    {"reduce_scatter", group_reduce_scatter, METH_VARARGS, "reduce_scatter(x, out, op='sum')"},
    {"all_gather", group_all_gather, METH_VARARGS, "all_gather(x, out)"},
    {"broadcast", group_broadcast, METH_VARARGS, "broadcast(x, root)"},
    {"all_to_all", group_all_to_all, METH_VARARGS,
     "all_to_all(x, out, send, recv)\n\nWith so many rows for and from each rank."},
    {"send", group_send, METH_VARARGS, "send(x, to)"},
    {"recv", group_recv, METH_VARARGS, "recv(x, source)"},
    {"ready", group_ready, METH_VARARGS,
     "ready(source) -> bool\n\nWhether a message from that rank has arrived and not been "
     "received."},
    {"barrier", group_barrier, METH_NOARGS, "barrier()"},
    {"abort", group_abort, METH_VARARGS,
     "abort(reason=None)\n\nBreaks the group: every rank that waits gets an error."},
    {"check", group_check, METH_NOARGS, "check()\n\nRaises the error that broke the group."},
    {"close", group_close, METH_NOARGS, "close()\n\nLeaves the group."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"rank", get_rank, NULL, "This process's rank.", NULL},
    {"size", get_size, NULL, "How many ranks there are.", NULL},
    {"engine", get_engine, NULL, "What connects the ranks.", NULL},
    {"device", get_device_of, NULL, "Its Device.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

bool add_group_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_doc,
         "Group(device=None, rank=0, ranks=0, store=None, token=None, name=None, timeout=0, "
         "join_timeout=0, engine=None)\n\nThis process as a rank among others (weir_group_join)."},
        {Py_tp_new, group_new},
        {Py_tp_dealloc, group_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_getset, getset},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "weir.Group",
        .basicsize = sizeof(GroupObject),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };

    GroupType = (PyTypeObject *)PyType_FromSpec(&spec);
    return GroupType && !PyModule_AddObjectRef(module, "Group", (PyObject *)GroupType);
}
