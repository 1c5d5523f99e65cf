/* Finds the line of Python that queued an operator, for reports of races. Python's functions are
 * looked up in the process by name. Without Python, or on a thread that does not run it, the line
 * is unknown. */
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Python's functions. Its objects are opaque pointers here. */
static struct {
    int (*initialized)(void);
    void *(*this_thread)(void);
    int (*ensure)(void);
    void (*release)(int);
    void *(*frame)(void);
    void *(*back)(void *);
    void *(*code)(void *);
    int (*line)(void *);
    void *(*attribute)(void *, const char *);
    const char *(*text)(void *);
    void (*drop)(void *);
    void (*forget_error)(void);
} python;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
    {"Py_IsInitialized", &python.initialized},
    {"PyGILState_GetThisThreadState", &python.this_thread},
    {"PyGILState_Ensure", &python.ensure},
    {"PyGILState_Release", &python.release},
    {"PyEval_GetFrame", &python.frame},
    {"PyFrame_GetBack", &python.back},
    {"PyFrame_GetCode", &python.code},
    {"PyFrame_GetLineNumber", &python.line},
    {"PyObject_GetAttrString", &python.attribute},
    {"PyUnicode_AsUTF8", &python.text},
    {"Py_DecRef", &python.drop},
    {"PyErr_Clear", &python.forget_error},
};

static atomic_bool wanted;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Names of files. They are kept, as weir may report them after the work has ended. */
static struct name {
    struct name *next;
    char text[];
} * names;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void source_want(void)
{
    wanted = true;
}

static void find_python(void)
{
    found = true;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, symbols[i].name);

        memcpy(symbols[i].slot, &symbol, sizeof symbol);
        found = found && symbol;
    }
}

static const char *kept(const char *file)
{
    struct name *n;

    pthread_mutex_lock(&lock);
    for (n = names; n && strcmp(n->text, file) != 0; n = n->next)
        ;
    if (!n && (n = malloc(sizeof *n + strlen(file) + 1))) {
        strcpy(n->text, file);
        n->next = names;
        names = n;
    }
    pthread_mutex_unlock(&lock);
    return n ? n->text : NULL;
}

/* Returns the file of a frame, or NULL. */
static const char *file_of(void *frame)
{
    void *code = python.code(frame);
    void *name = code ? python.attribute(code, "co_filename") : NULL;
    const char *text = name ? python.text(name) : NULL, *file = text ? kept(text) : NULL;

    if (!text)
        python.forget_error();
    if (name)
        python.drop(name);
    if (code)
        python.drop(code);
    return file;
}

/* Notes the innermost line outside installed packages, or else the innermost. PyEval_GetFrame
 * returns a borrowed reference, PyFrame_GetBack a new one. */
static void note_frame(void)
{
    void *frame = python.frame(), *given = NULL;
    const char *file = NULL;
    int line = 0;

    while (frame) {
        const char *here = file_of(frame);
        bool own = here && *here != '<' && !strstr(here, "/site-packages/") &&
                   !strstr(here, "/dist-packages/");
        void *next;

        if (here && (own || !file)) {
            file = here;
            line = python.line(frame);
        }
        next = own ? NULL : python.back(frame);
        if (given)
            python.drop(given);
        frame = given = next;
    }
    if (file) {
        const char *slash = strrchr(file, '/');

        weir_source_set(slash ? slash + 1 : file, line);
    }
}

void source_note(void)
{
    int state;

    if (!atomic_load_explicit(&wanted, memory_order_relaxed))
        return;
    pthread_once(&once, find_python);
    weir_source_set(NULL, 0);
    if (!found || !python.initialized() || !python.this_thread())
        return;
    state = python.ensure(); /* PyTorch releases the GIL while it queues an operator */
    note_frame();
    python.release(state);
}
