/* Forwards the library's messages to Python's logging.
 *
 * Messages come from any thread, which may hold locks of the library, so this code must not wait
 * for the GIL. It puts a message on a list, and Python fetches the list in a pending call. */
#include "weirpy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct message {
    struct message *next;
    weir_log_level level;
    char text[];
};

static _Atomic(struct message *) waiting; /* the newest first */
static atomic_bool delivery_is_pending;

static struct message *take_in_order(void)
{
    struct message *m = atomic_exchange(&waiting, NULL), *first = NULL;

    while (m) {
        struct message *next = m->next;

        m->next = first;
        first = m;
        m = next;
    }
    return first;
}

int log_deliver(void *user)
{
    struct message *m;
    PyObject *module;

    (void)user;
    /* Clear the flag before taking the list: a message added later then requests another call. */
    atomic_store(&delivery_is_pending, false);
    if (!(m = take_in_order()))
        return 0;
    module = PyImport_ImportModule("weir._log");
    while (m) {
        struct message *next = m->next;
        PyObject *done =
            module ? PyObject_CallMethod(module, "receive", "is", (int)m->level, m->text) : NULL;

        if (!done) /* an error in a handler must not affect the code that is running */
            PyErr_WriteUnraisable(module);
        Py_XDECREF(done);
        free(m);
        m = next;
    }
    Py_XDECREF(module);
    return 0;
}

static void listen(void *user, weir_log_level level, const char *text)
{
    size_t size = strlen(text) + 1;
    struct message *m = malloc(sizeof *m + size), *head = atomic_load(&waiting);

    (void)user;
    if (!m)
        return;
    m->level = level;
    memcpy(m->text, text, size);
    do
        m->next = head;
    while (!atomic_compare_exchange_weak(&waiting, &head, m));
    if (weirpy_ending || atomic_exchange(&delivery_is_pending, true))
        return;
    if (Py_AddPendingCall(log_deliver, NULL)) /* the queue is full: the next message retries */
        atomic_store(&delivery_is_pending, false);
}

static PyObject *set_level(PyObject *self, PyObject *o)
{
    int level;

    (void)self;
    if (!to_int(o, "level", &level))
        return NULL;
    weir_log_set(level < 0 ? NULL : listen, NULL,
                 level < 0 ? WEIR_LOG_ERROR : (weir_log_level)level);
    Py_RETURN_NONE;
}

PyMethodDef log_functions[] = {
    {"log_set_level", set_level, METH_O,
     "log_set_level(level)\n\nMessages up to 0 (errors) .. 3 (debug) go to weir.logger; -1: none."},
    {NULL, NULL, 0, NULL},
};
