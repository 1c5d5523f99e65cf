/* Groups whose ranks are processes. Their collectives are in group_calls.c. */
#include "weirpy.h"

static PyTypeObject *GroupType;

weir_rank *group_rank(PyObject *self)
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

    if (!PyArg_ParseTuple(args, "O|z:split", &list, &name) || !group_rank(self) ||
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

static PyObject *group_ready(PyObject *self, PyObject *args)
{
    weir_rank *rank = group_rank(self);
    bool ready = false;
    weir_status st;
    int peer;

    if (!rank || !PyArg_ParseTuple(args, "i:ready", &peer))
        return NULL;
    st = weir_recv_ready(rank, peer, &ready);
    return st ? raise_status(st) : PyBool_FromLong(ready);
}

static PyObject *group_abort(PyObject *self, PyObject *args)
{
    const char *reason = NULL;

    if (!PyArg_ParseTuple(args, "|z:abort", &reason) || !group_rank(self))
        return NULL;
    weir_group_abort(((GroupObject *)self)->group, reason);
    Py_RETURN_NONE;
}

static PyObject *group_check(PyObject *self, PyObject *none)
{
    (void)none;
    return group_rank(self) ? none_or(weir_group_state(((GroupObject *)self)->group)) : NULL;
}

static PyObject *get_rank(PyObject *self, void *unused)
{
    weir_rank *rank = group_rank(self);

    (void)unused;
    return rank ? PyLong_FromLong(weir_rank_index(rank)) : NULL;
}

static PyObject *get_size(PyObject *self, void *unused)
{
    (void)unused;
    return group_rank(self) ? PyLong_FromLong(weir_group_size(((GroupObject *)self)->group)) : NULL;
}

static PyObject *get_engine(PyObject *self, void *unused)
{
    (void)unused;
    return group_rank(self) ? PyUnicode_FromString(weir_group_engine(((GroupObject *)self)->group))
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
    {"ready", group_ready, METH_VARARGS,
     "ready(source) -> bool\n\nWhether a message from that rank has arrived and not been "
     "received."},
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
    static PyMethodDef all[40];
    PyMethodDef *const tables[] = {methods, group_calls, NULL};
    PyMethodDef *joined = join_methods(all, sizeof all / sizeof *all, tables);
    PyType_Slot slots[] = {
        {Py_tp_doc,
         "Group(device=None, rank=0, ranks=0, store=None, token=None, name=None, timeout=0, "
         "join_timeout=0, engine=None)\n\nThis process as a rank among others (weir_group_join)."},
        {Py_tp_new, group_new},
        {Py_tp_dealloc, group_dealloc},
        {Py_tp_methods, joined},
        {Py_tp_getset, getset},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "weir.Group",
        .basicsize = sizeof(GroupObject),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };

    GroupType = joined ? (PyTypeObject *)PyType_FromSpec(&spec) : NULL;
    return GroupType && !PyModule_AddObjectRef(module, "Group", (PyObject *)GroupType);
}
