/* Finds which module and which line of the program launched each operator. PyTorch's profiler has a
 * span around each call of a module ("nn.Module: Linear_3", with_modules) and of a Python function
 * ("model.py(40): forward", with_stack). Ascend's and older ones store a "Call stack" with each
 * operator of the host instead. Device work belongs to the callers that were open on the launching
 * thread at the time of the launch; work of the host belongs to the callers around it. Work of a
 * backward pass belongs to the callers of the forward operator with the same sequence number.
 *
 * The line shown is that of the innermost function outside PyTorch, or else of the innermost. */
#include <stdlib.h>
#include <string.h>

#include "trace/read/import.h"

static const char PREFIX[] = "nn.Module: ";

/* A call of a module, of a function or of an operator with a stack. */
struct caller {
    int track;
    int64_t from, to;
    const char *module; /* NULL if it is no module */
    const char *line;   /* "model.py(40): forward"; NULL if it has none */
    /* For a backward pass: its forward operator. The first sweep has set its module and line. */
    const struct weir__import_span *forward;
};
/* A time on a thread at which the callers of `span` are looked up. */
struct moment {
    int track;
    int64_t at;
    int span;
};

struct open {
    const struct caller *caller;
    const char *path, *source; /* NULL until needed; `path` includes the enclosing modules */
};

static int compare_callers(const void *x, const void *y)
{
    const struct caller *a = x, *b = y;

    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->to < b->to) - (a->to > b->to); /* outer before inner */
}

static int compare_moments(const void *x, const void *y)
{
    const struct moment *a = x, *b = y;

    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static int compare_calls(const void *x, const void *y)
{
    const struct weir__import_call *a = x, *b = y;

    return (a->id > b->id) - (a->id < b->id);
}

/* ---- lines ---- */

/* Returns the length of the file's name in "file(line): function"; 0 if the `size` bytes of text
 * have another form. */
static size_t file_size(const char *text, size_t size)
{
    for (size_t i = 1; i < size; i++) {
        size_t k = i + 1;

        if (text[i] != '(')
            continue;
        while (k < size && text[k] >= '0' && text[k] <= '9')
            k++;
        if (k > i + 1 && k + 1 < size && text[k] == ')' && text[k + 1] == ':')
            return i;
    }
    return 0;
}

static bool has(const char *text, size_t size, const char *word)
{
    return memmem(text, size, word, strlen(word)) != NULL;
}

/* True for PyTorch's own files. Profiles name files relative to a folder of sys.path. */
static bool is_library(const char *file, size_t size)
{
    return !strncmp(file, "torch/", 6) || !strncmp(file, "torch_npu/", 10) ||
           has(file, size, "-packages/torch/") || has(file, size, "-packages/torch_npu/") ||
           *file == '<';
}

const char *weir__import_frame(const char *stack, size_t *size)
{
    const char *best = NULL;

    for (const char *at = stack; *at;) {
        size_t length = strcspn(at, ";\r\n"), file = file_size(at, length);
        bool own = file && !is_library(at, file);

        if (file && (!best || own)) {
            best = at;
            *size = length;
        }
        if (own)
            break;
        at += length;
        at += strspn(at, "; \r\n");
    }
    return best;
}

/* Converts "file(line): function" to "file:line (function)"; NULL when out of memory. */
static const char *keep_source(struct weir__import *im, const char *frame)
{
    size_t file = file_size(frame, strlen(frame)), number = strspn(frame + file + 1, "0123456789");
    const char *function = frame + file + 1 + number + 2, *kept;
    struct weir__text text = {0};

    function += strspn(function, " ");
    weir__text_add(&text, "%.*s:%.*s", (int)file, frame, (int)number, frame + file + 1);
    if (*function)
        weir__text_add(&text, " (%s)", function);
    kept = text.failed ? NULL : weir__trace_keep(&im->t->texts, text.data, text.size);
    weir__text_free(&text);
    return kept;
}

/* ---- open callers ---- */

/* Returns the open modules, outermost first; "" for none, NULL when out of memory. */
static const char *path_of(struct weir__import *im, struct open *stack, int depth)
{
    const char *path = NULL;

    for (int i = 0; i < depth; i++) {
        struct weir__text text = {0};

        if (!stack[i].caller->module)
            continue;
        if (!stack[i].path) {
            weir__text_add(&text, "%s%s%s", path ? path : "", path ? "." : "",
                           stack[i].caller->module);
            stack[i].path =
                text.failed ? NULL : weir__trace_keep(&im->t->texts, text.data, text.size);
            weir__text_free(&text);
        }
        if (!(path = stack[i].path))
            return NULL;
    }
    return path ? path : "";
}

/* Returns the line to show; "" for none, NULL when out of memory. */
static const char *source_of(struct weir__import *im, struct open *stack, int depth)
{
    struct open *best = NULL;

    for (int i = depth; i-- > 0;) {
        const char *line = stack[i].caller->line;
        bool own = line && !is_library(line, file_size(line, strlen(line)));

        if (line && (!best || own))
            best = &stack[i];
        if (own)
            break;
    }
    if (best && !best->source)
        best->source = keep_source(im, best->caller->line);
    return best ? best->source : "";
}

static bool give(struct weir__import *im, struct weir__import_span *to, struct open *stack,
                 int depth)
{
    const struct weir__import_span *forward = stack[depth - 1].caller->forward;

    to->scope = forward ? forward->scope : path_of(im, stack, depth);
    to->source_line = forward ? forward->source_line : source_of(im, stack, depth);
    return forward || (to->scope && to->source_line);
}

static bool sweep(struct weir__import *im, const struct caller *callers, int ncallers,
                  const struct moment *moments, int nmoments, struct open *stack)
{
    int at = 0, depth = 0, track = -1;

    for (int i = 0; i < nmoments; i++) {
        const struct moment *m = &moments[i];
        struct weir__import_span *s = &im->spans[m->span];

        if (m->track != track) {
            track = m->track;
            depth = 0;
            while (at < ncallers && callers[at].track < track)
                at++;
        }
        for (; at < ncallers && callers[at].track == track && callers[at].from <= m->at; at++) {
            while (depth && stack[depth - 1].caller->to <= callers[at].from)
                depth--;
            stack[depth++] = (struct open){.caller = &callers[at]};
        }
        while (depth && stack[depth - 1].caller->to <= m->at)
            depth--;
        if (depth && !give(im, s, stack, depth))
            return false;
    }
    return true;
}

/* ---- callers, and the moments at which they are looked up ---- */

static int find_callers(const struct weir__import *im, struct caller *callers)
{
    int n = 0;

    for (int i = 0; i < im->nspans; i++) {
        const struct weir__import_span *s = &im->spans[i];
        struct caller c = {.track = s->track, .from = s->from, .to = s->to, .line = s->frame};

        if (s->caller && !strncmp(s->name, PREFIX, sizeof PREFIX - 1))
            c.module = s->name + sizeof PREFIX - 1;
        else if (s->caller && file_size(s->name, strlen(s->name)))
            c.line = s->name;
        if (!c.module && !c.line)
            continue;
        if (callers)
            callers[n] = c;
        n++;
    }
    return n;
}

static int find_moments(struct weir__import *im, struct moment *moments)
{
    int n = 0;

    if (im->ncalls)
        qsort(im->calls, (size_t)im->ncalls, sizeof *im->calls, compare_calls);
    for (int i = 0; i < im->nspans; i++) {
        const struct weir__import_span *s = &im->spans[i];
        const struct weir__import_call *call = NULL;

        if (s->caller || s->kind != WEIR__SPAN_WORK)
            continue;
        if (s->launch && im->ncalls)
            call = bsearch(&(struct weir__import_call){.id = s->launch}, im->calls,
                           (size_t)im->ncalls, sizeof *im->calls, compare_calls);
        if (call)
            moments[n++] = (struct moment){call->track, call->at, i};
        else if (!s->marked)
            moments[n++] = (struct moment){s->track, s->from, i};
    }
    return n;
}

static int compare_numbers(const void *x, const void *y)
{
    const struct weir__import_span *a = *(const struct weir__import_span *const *)x;
    const struct weir__import_span *b = *(const struct weir__import_span *const *)y;

    return (a->autograd > b->autograd) - (a->autograd < b->autograd);
}

/* Collects the backward passes whose forward operator is known. Each thread numbers its operators
 * itself, so a number that occurs on two threads is ambiguous and is ignored.
 * returns  how many; -1 when out of memory. */
static int find_backward(const struct weir__import *im, struct caller *callers)
{
    const struct weir__import_span **forward =
        weir__malloc(((size_t)im->nspans + 1) * sizeof *forward);
    int nforward = 0, n = 0;

    if (!forward)
        return -1;
    for (int i = 0; i < im->nspans; i++)
        if (im->spans[i].autograd && !im->spans[i].backward)
            forward[nforward++] = &im->spans[i];
    qsort(forward, (size_t)nforward, sizeof(struct weir__import_span *), compare_numbers);
    for (int i = 0; i < im->nspans && nforward; i++) {
        const struct weir__import_span *s = &im->spans[i], **found;
        bool one = true;

        if (!s->autograd || !s->backward ||
            !(found = bsearch(&s, forward, (size_t)nforward, sizeof(struct weir__import_span *),
                              compare_numbers)))
            continue;
        while (found > forward && found[-1]->autograd == s->autograd)
            found--;
        for (int k = 1; found + k < forward + nforward && found[k]->autograd == s->autograd; k++)
            one &= found[k]->track == found[0]->track;
        if (one)
            callers[n++] =
                (struct caller){.track = s->track, .from = s->from, .to = s->to, .forward = *found};
    }
    weir__free(forward);
    return n;
}

weir_status weir__import_callers(struct weir__import *im)
{
    int ncallers = find_callers(im, NULL), nmoments;
    struct caller *callers;
    struct moment *moments;
    struct open *stack;
    bool fine = false;

    if (!ncallers)
        return WEIR_OK;
    callers = weir__malloc((size_t)im->nspans * sizeof *callers);
    stack = weir__malloc((size_t)im->nspans * sizeof *stack);
    moments = weir__malloc((size_t)im->nspans * sizeof *moments);
    if (callers && moments && stack) {
        find_callers(im, callers);
        nmoments = find_moments(im, moments);
        qsort(callers, (size_t)ncallers, sizeof *callers, compare_callers);
        qsort(moments, (size_t)nmoments, sizeof *moments, compare_moments);
        fine = sweep(im, callers, ncallers, moments, nmoments, stack);
        if (fine && (fine = (ncallers = find_backward(im, callers)) >= 0)) {
            qsort(callers, (size_t)ncallers, sizeof *callers, compare_callers);
            fine = sweep(im, callers, ncallers, moments, nmoments, stack);
        }
    }
    weir__free(callers);
    weir__free(moments);
    weir__free(stack);
    return fine ? WEIR_OK
                : weir__fail_nomem("finding the callers of %d spans of a trace", im->nspans);
}
