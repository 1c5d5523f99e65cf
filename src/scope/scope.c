#include "scope/scope.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_NAME = 63 };

struct frame {
    weir_scope_kind kind;
    char name[MAX_NAME + 1]; /* tag or super kernel; "": no super kernel */
    char options[WEIR__SUPER_OPTIONS_MAX + 1];
    int priority;
    struct weir__current_set before; /* the settings that leaving restores, as far as they are of
                                      * this kind */
};

static _Thread_local struct {
    int depth;
    struct frame frames[MAX_DEPTH];
} stack;

static const char *const kind_names[] = {
    [WEIR_SCOPE_STREAM] = "stream",
    [WEIR_SCOPE_CORES] = "core limit",
    [WEIR_SCOPE_SUPER_KERNEL] = "super kernel",
    [WEIR_SCOPE_NEVER_TIMEOUT] = "never-timeout",
};

int weir_scope_depth(void)
{
    return stack.depth;
}

/* ---- entering and leaving ---- */

static struct frame *push(weir_scope_kind kind)
{
    struct frame *f = &stack.frames[stack.depth];

    if (stack.depth == MAX_DEPTH) {
        weir__fail(WEIR_ESTATE, "more than %d scopes are open on this thread", MAX_DEPTH);
        return NULL;
    }
    f->kind = kind;
    f->before = *weir__current_get_set();
    stack.depth++;
    return f;
}

static weir_status check_name(const char *what, const char *name)
{
    if (!name || !*name)
        return weir__fail(WEIR_EINVAL, "a %s must not be empty", what);
    if (strlen(name) > MAX_NAME)
        return weir__fail(WEIR_EINVAL, "a %s has at most %d characters: '%.32s...'", what, MAX_NAME,
                          name);
    return WEIR_OK;
}

weir_status weir_scope_push_stream(const char *tag, int priority)
{
    WEIR__NEED(tag, "tag");

    struct weir__current_set *now = weir__current_get_set();
    struct frame *f;
    weir_status st = check_name("stream tag", tag);

    if (st)
        return st;
    if (priority < WEIR__PRIORITY_MOST || priority > WEIR__PRIORITY_LEAST)
        return weir__fail(WEIR_ERANGE, "stream priority %d is out of range: %d (most urgent) to %d",
                          priority, WEIR__PRIORITY_MOST, WEIR__PRIORITY_LEAST);
    if (!(f = push(WEIR_SCOPE_STREAM)))
        return WEIR_ESTATE;
    strcpy(f->name, tag);
    f->priority = priority;
    *now = (struct weir__current_set){.tag = f->name,
                                      .priority = priority,
                                      .limit = now->limit,
                                      .never_timeout = now->never_timeout};
    return WEIR_OK;
}

weir_status weir_scope_push_cores(weir_cores limit)
{
    struct weir__current_set *now = weir__current_get_set();

    if (limit.cube < -1 || limit.cube == 0 || limit.vector < -1 || limit.vector == 0)
        return weir__fail(
            WEIR_ERANGE, "core limit %d cube, %d vector is out of range: at least 1, or -1 to keep",
            limit.cube, limit.vector);
    if (!push(WEIR_SCOPE_CORES))
        return WEIR_ESTATE;
    if (limit.cube > 0) /* -1 keeps the limit of the next outer scope */
        now->limit.cube = limit.cube;
    if (limit.vector > 0)
        now->limit.vector = limit.vector;
    return WEIR_OK;
}

weir_status weir_scope_push_super_kernel(const char *name, const char *options)
{
    struct frame *f;
    weir_status st;

    if ((name && (st = check_name("super kernel name", name))) ||
        (st = weir__super_options_check(options ? options : "")))
        return st;
    if (!(f = push(WEIR_SCOPE_SUPER_KERNEL)))
        return WEIR_ESTATE;
    strcpy(f->name, name ? name : "");
    strcpy(f->options, name && options ? options : "");
    return WEIR_OK;
}

weir_status weir_scope_push_never_timeout(bool enable)
{
    if (!push(WEIR_SCOPE_NEVER_TIMEOUT))
        return WEIR_ESTATE;
    weir__current_get_set()->never_timeout = enable;
    return WEIR_OK;
}

static void restore(const struct frame *f)
{
    struct weir__current_set *now = weir__current_get_set();

    if (f->kind == WEIR_SCOPE_STREAM)
        *now = f->before;
    else if (f->kind == WEIR_SCOPE_CORES)
        now->limit = f->before.limit;
    else if (f->kind == WEIR_SCOPE_NEVER_TIMEOUT)
        now->never_timeout = f->before.never_timeout;
}

weir_status weir_scope_pop(weir_scope_kind kind)
{
    struct frame *f;

    if ((unsigned)kind >= weir__countof(kind_names))
        return weir__fail(WEIR_EINVAL, "%d is not a kind of scope", (int)kind);
    if (!stack.depth)
        return weir__fail(WEIR_ESTATE, "a %s scope is left that was never entered",
                          kind_names[kind]);
    f = &stack.frames[stack.depth - 1];
    if (f->kind != kind)
        return weir__fail(WEIR_ESTATE,
                          "a %s scope is left, but the innermost open one is a %s scope",
                          kind_names[kind], kind_names[f->kind]);
    restore(f);
    stack.depth--;
    return WEIR_OK;
}

/* ---- block forms ---- */

static weir_scope_guard guard(weir_scope_kind kind, weir_status st)
{
    return (weir_scope_guard){kind, st, st == WEIR_OK};
}

weir_scope_guard weir_scope_enter_stream(const char *tag, int priority)
{
    return guard(WEIR_SCOPE_STREAM, weir_scope_push_stream(tag, priority));
}

weir_scope_guard weir_scope_enter_cores(int cube, int vector)
{
    return guard(WEIR_SCOPE_CORES, weir_scope_push_cores((weir_cores){cube, vector}));
}

weir_scope_guard weir_scope_enter_super_kernel(const char *name, const char *options)
{
    return guard(WEIR_SCOPE_SUPER_KERNEL, weir_scope_push_super_kernel(name, options));
}

weir_scope_guard weir_scope_enter_never_timeout(bool enable)
{
    return guard(WEIR_SCOPE_NEVER_TIMEOUT, weir_scope_push_never_timeout(enable));
}

void weir_scope_leave(weir_scope_guard *g)
{
    if (!g)
        return;
    if (g->open)
        weir_scope_pop(g->kind);
    g->open = false;
}

/* ---- settings in force ---- */

static const struct frame *innermost(weir_scope_kind kind)
{
    for (int i = stack.depth - 1; i >= 0; i--)
        if (stack.frames[i].kind == kind)
            return &stack.frames[i];
    return NULL;
}

uint16_t weir__scope_traced(void)
{
    const struct frame *f = innermost(WEIR_SCOPE_SUPER_KERNEL);

    return f ? weir__trace_scope(f->name) : 0;
}

weir_status weir__scope_marks(weir_graph *g, struct weir__marks *out)
{
    const struct frame *stream = innermost(WEIR_SCOPE_STREAM);
    const struct frame *super = innermost(WEIR_SCOPE_SUPER_KERNEL);
    weir_status st;

    *out = (struct weir__marks){.super_kernel = -1, .limit = weir__current_get_set()->limit};
    if ((st = weir__device_check_limit(g->dev, out->limit)))
        return st;
    if (stream) {
        out->priority = stream->priority;
        if ((out->stream = weir__graph_label(g, stream->name)) < 0)
            return WEIR_ENOMEM;
    }
    if (super && *super->name &&
        (out->super_kernel = weir__graph_super_kernel(g, super->name, super->options)) < 0)
        return WEIR_ENOMEM;
    out->never_timeout = weir__current_get_set()->never_timeout;
    return WEIR_OK;
}
