/* Where the bytes of a device are. */
#include "weirpy.h"

#include "results/memory.h"

#include <stdlib.h>
#include <string.h>

/* The library resets both peaks at once; here each can be reset alone. */
static void get_stats(const DeviceObject *d, weir_memory_stats *s)
{
    weir_memory_get_stats(d->dev, s, sizeof *s);
    if (s->peak_reserved < d->kept_reserved)
        s->peak_reserved = d->kept_reserved;
    if (s->peak_allocated < d->kept_allocated)
        s->peak_allocated = d->kept_allocated;
}

static PyObject *stats(PyObject *self, PyObject *o)
{
    DeviceObject *d = to_device(o);
    weir_memory_stats s;

    (void)self;
    if (!d)
        return NULL;
    get_stats(d, &s);
    DROP(d);
#define SIZE(name) #name, (unsigned long long)s.name
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsK}", SIZE(reserved),
                         SIZE(allocated), SIZE(pending), SIZE(idle), SIZE(peak_reserved),
                         SIZE(peak_allocated), SIZE(limit), SIZE(segments), SIZE(blocks),
                         SIZE(allocations), SIZE(frees), SIZE(reuse_order), SIZE(reuse_completed),
                         SIZE(grown), SIZE(reuse_stolen), SIZE(device_waits), SIZE(host_syncs),
                         SIZE(failed), SIZE(events_live));
#undef SIZE
}

static PyObject *blocks(PyObject *self, PyObject *o)
{
    static const char *const states[] = {"allocated", "pending", "idle"};
    DeviceObject *d = to_device(o);
    weir_block_info *rows = NULL;
    PyObject *list = NULL;
    size_t n, max;

    (void)self;
    if (!d)
        return NULL;
    max = weir_memory_get_blocks(d->dev, NULL, 0, 0) + 16;
    if (!(rows = calloc(max, sizeof *rows))) {
        PyErr_NoMemory();
        goto done;
    }
    n = weir_memory_get_blocks(d->dev, rows, sizeof *rows, max);
    n = n < max ? n : max;
    list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *row = Py_BuildValue(
            "{sKsKsnsssK}", "segment", (unsigned long long)rows[i].segment, "address",
            (unsigned long long)rows[i].address, "size", (Py_ssize_t)rows[i].size, "state",
            states[rows[i].state], "stream_id", (unsigned long long)rows[i].stream_id);

        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
done:
    free(rows);
    DROP(d);
    return list;
}

static PyObject *summary(PyObject *self, PyObject *o)
{
    DeviceObject *d = to_device(o);
    PyObject *text;
    char *table;

    (void)self;
    if (!d)
        return NULL;
    table = weir_memory_summary(d->dev);
    text = table ? PyUnicode_FromString(table) : PyErr_NoMemory();
    free(table);
    DROP(d);
    return text;
}

static PyObject *reset_peaks(PyObject *self, PyObject *args)
{
    PyObject *device;
    const char *which = NULL;
    weir_memory_stats s;
    DeviceObject *d;

    (void)self;
    if (!PyArg_ParseTuple(args, "O|z:memory_reset_peaks", &device, &which) ||
        !(d = to_device(device)))
        return NULL;
    get_stats(d, &s);
    d->kept_reserved = which && !strcmp(which, "allocated") ? s.peak_reserved : 0;
    d->kept_allocated = which && !strcmp(which, "reserved") ? s.peak_allocated : 0;
    weir_memory_reset_peaks(d->dev);
    DROP(d);
    Py_RETURN_NONE;
}

static PyObject *empty_cache(PyObject *self, PyObject *o)
{
    DeviceObject *d = to_device(o);
    PyObject *done;
    weir_status st;

    (void)self;
    if (!d)
        return NULL;
    result_memory_trim();
    BLOCKING(st, weir_memory_empty_cache(d->dev));
    done = none_or(st);
    DROP(d);
    return done;
}

static PyObject *set_limit(PyObject *self, PyObject *args)
{
    PyObject *device, *done;
    unsigned long long bytes;
    DeviceObject *d;
    weir_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "OK:memory_set_limit", &device, &bytes) || !(d = to_device(device)))
        return NULL;
    st = weir_memory_set_limit(d->dev, bytes);
    done = none_or(st);
    DROP(d);
    return done;
}

PyMethodDef memory_methods[] = {
    {"memory_stats", stats, METH_O, "memory_stats(device) -> dict"},
    {"memory_blocks", blocks, METH_O, "memory_blocks(device) -> list[dict]"},
    {"memory_summary", summary, METH_O, "memory_summary(device) -> str"},
    {"memory_reset_peaks", reset_peaks, METH_VARARGS,
     "memory_reset_peaks(device, which=None)\n\nBoth peaks, or the one of 'reserved' or "
     "'allocated'."},
    {"memory_empty_cache", empty_cache, METH_O, "memory_empty_cache(device)"},
    {"memory_set_limit", set_limit, METH_VARARGS, "memory_set_limit(device, bytes)"},
    {NULL, NULL, 0, NULL},
};
