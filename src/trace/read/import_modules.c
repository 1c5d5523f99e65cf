/* Which module of the program launched what. PyTorch's profiler (with_modules, with_stack) has a
 * span "nn.Module: Linear_3" around each call of a module. Work belongs to the modules that were
 * open on the thread that launched it, when it did; work of the host, to those open around it. */
#include <stdlib.h>
#include <string.h>

#include "trace/read/import.h"

static const char PREFIX[] = "nn.Module: ";

/* A module's call, or a moment of a thread for which modules are asked. */
struct module {
    int track;
    int64_t from, to;
    const char *name;
};
struct moment {
    int track;
    int64_t at;
    int span;
};

struct open {
    int64_t to;
    const char *name, *path; /* path: with those around it; NULL until somebody asks */
};

static int compare_modules(const void *x, const void *y)
{
    const struct module *a = x, *b = y;

    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->to < b->to) - (a->to > b->to); /* the outer one first */
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

/* The path of the innermost one; NULL when out of memory. */
static const char *path_of(struct weir__import *im, struct open *stack, int depth)
{
    for (int i = 0; i < depth; i++) {
        struct weir__text text = {0};

        if (stack[i].path)
            continue;
        weir__text_add(&text, "%s%s%s", i ? stack[i - 1].path : "", i ? "." : "", stack[i].name);
        stack[i].path = text.failed ? NULL : weir__trace_keep(&im->t->texts, text.data, text.size);
        weir__text_free(&text);
        if (!stack[i].path)
            return NULL;
    }
    return stack[depth - 1].path;
}

static bool sweep(struct weir__import *im, const struct module *modules, int nmodules,
                  const struct moment *moments, int nmoments, struct open *stack)
{
    int at = 0, depth = 0, track = -1;

    for (int i = 0; i < nmoments; i++) {
        const struct moment *m = &moments[i];

        if (m->track != track) {
            track = m->track;
            depth = 0;
            while (at < nmodules && modules[at].track < track)
                at++;
        }
        for (; at < nmodules && modules[at].track == track && modules[at].from <= m->at; at++) {
            while (depth && stack[depth - 1].to <= modules[at].from)
                depth--;
            stack[depth++] = (struct open){modules[at].to, modules[at].name, NULL};
        }
        while (depth && stack[depth - 1].to <= m->at)
            depth--;
        if (depth && !(im->spans[m->span].scope = path_of(im, stack, depth)))
            return false;
    }
    return true;
}

static int find_modules(const struct weir__import *im, struct module *modules)
{
    int n = 0;

    for (int i = 0; i < im->nspans; i++) {
        const struct weir__import_span *s = &im->spans[i];

        if (s->caller && !strncmp(s->name, PREFIX, sizeof PREFIX - 1)) {
            if (modules)
                modules[n] = (struct module){s->track, s->from, s->to, s->name + sizeof PREFIX - 1};
            n++;
        }
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

weir_status weir__import_modules(struct weir__import *im)
{
    int nmodules = find_modules(im, NULL), nmoments;
    struct module *modules;
    struct moment *moments;
    struct open *stack;
    bool fine = false;

    if (!nmodules)
        return WEIR_OK;
    modules = weir__malloc((size_t)nmodules * sizeof *modules);
    stack = weir__malloc((size_t)nmodules * sizeof *stack);
    moments = weir__malloc((size_t)im->nspans * sizeof *moments);
    if (modules && moments && stack) {
        find_modules(im, modules);
        nmoments = find_moments(im, moments);
        qsort(modules, (size_t)nmodules, sizeof *modules, compare_modules);
        qsort(moments, (size_t)nmoments, sizeof *moments, compare_moments);
        fine = sweep(im, modules, nmodules, moments, nmoments, stack);
    }
    weir__free(modules);
    weir__free(moments);
    weir__free(stack);
    return fine ? WEIR_OK : weir__fail_nomem("the %d modules of a trace", nmodules);
}
