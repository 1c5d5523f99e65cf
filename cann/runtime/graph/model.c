/* Captured graphs as plans, and their runs. */
#include "runtime/graph/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t segment_ids;

aclError model_cut(struct model *m)
{
    struct segment *grown = realloc(m->segments, (size_t)(m->nsegments + 1) * sizeof *grown);
    weir_status st;

    if (!grown)
        return fail(ACL_ERROR_BAD_ALLOC, "a captured graph");
    m->segments = grown;
    grown[m->nsegments] = (struct segment){.id = ++segment_ids};
    if ((st = weir_graph_create(m->device->dev, &grown[m->nsegments].graph)))
        return fail_status(st, "a captured graph");
    m->nsegments++;
    return ACL_SUCCESS;
}

aclError model_new(struct device *device, struct model **out)
{
    struct model *m = calloc(1, sizeof *m);
    aclError err;

    *out = NULL;
    if (!m || !(m->handle = handle_new(KIND_MODEL, m))) {
        free(m);
        return fail(ACL_ERROR_BAD_ALLOC, "a captured graph");
    }
    m->refs = 1;
    m->id = next_id();
    m->device = device;
    pthread_mutex_init(&m->lock, NULL);
    snprintf(m->name, sizeof m->name, "graph %u", m->id);
    if ((err = model_cut(m))) {
        model_free(m);
        return err;
    }
    *out = m;
    return ACL_SUCCESS;
}

static void segment_fini(struct segment *s)
{
    weir_plan_destroy(s->plan);
    weir_graph_destroy(s->graph);
    if (s->child) {
        s->child->parent = NULL;
        model_free(s->child);
    }
}

void model_release(struct model *m)
{
    if (atomic_fetch_sub(&m->refs, 1) > 1)
        return;
    for (int i = 0; i < m->ngroups; i++)
        free(m->groups[i]);
    for (int i = 0; i < m->nsegments; i++)
        segment_fini(&m->segments[i]);
    while (m->host_calls) {
        struct host_call *call = m->host_calls;

        m->host_calls = call->next;
        if (call->release)
            call->release(call->user);
        free(call);
    }
    condition_free_all(m);
    pthread_mutex_destroy(&m->lock);
    free(m->groups);
    free(m->segments);
    free(m);
}

void model_free(struct model *m)
{
    handle_take(m->handle, KIND_MODEL);
    for (int i = 0; i < m->ngroups; i++)
        handle_take(m->groups[i]->handle, KIND_TASK_GROUP);
    if (m->parent) /* its capture failed: remove it from the graph that contains it */
        for (int i = 0; i < m->parent->nsegments; i++)
            if (m->parent->segments[i].child == m)
                m->parent->segments[i].child = NULL;
    model_release(m);
}

aclError model_group(struct model *m, struct task_group **out)
{
    struct task_group **grown = realloc(m->groups, (size_t)(m->ngroups + 1) * sizeof *grown);
    struct task_group *g = calloc(1, sizeof *g);

    *out = NULL;
    if (grown)
        m->groups = grown;
    if (!grown || !g || !(g->handle = handle_new(KIND_TASK_GROUP, g))) {
        free(g);
        return fail(ACL_ERROR_BAD_ALLOC, "a task group");
    }
    g->model = m;
    g->segment = m->nsegments - 1;
    m->groups[m->ngroups++] = g;
    *out = g;
    return ACL_SUCCESS;
}

struct host_call *model_host_call(struct model *m)
{
    struct host_call *call = calloc(1, sizeof *call);

    if (call) {
        call->next = m->host_calls;
        m->host_calls = call;
    }
    return call;
}

/* Compiles a segment, in the mode reduce-overhead unless WEIR_CANN_GRAPH_MODE says otherwise. An
 * empty segment has no plan. */
static aclError compile(struct segment *s)
{
    const char *mode = getenv("WEIR_CANN_GRAPH_MODE");
    weir_compile_options options = {.size = sizeof options, .mode = WEIR_COMPILE_REDUCE_OVERHEAD};
    weir_status st = WEIR_OK;

    if (s->when && !(s->child && s->child->compiled))
        return fail(ACL_ERROR_API_NOT_SUPPORT,
                    "aclmdlRICaptureEnd: the graph of a conditional task has not been captured");
    if (!weir_graph_node_count(s->graph))
        return ACL_SUCCESS;
    if (mode && *mode && (st = weir_compile_mode_parse(mode, &options.mode)))
        return fail_status(st, "aclmdlRICaptureEnd");
    return fail_status(weir_graph_compile(s->graph, &options, &s->plan), "aclmdlRICaptureEnd");
}

aclError model_compile(struct model *m)
{
    aclError err = ACL_SUCCESS;

    for (int i = 0; i < m->nsegments && !err; i++)
        err = compile(&m->segments[i]);
    m->compiled = !err;
    return err;
}

aclError model_replace(struct task_group *g, struct model *from)
{
    struct segment *new = &from->segments[0], old;
    aclError err = compile(new);

    if (err)
        return err;
    pthread_mutex_lock(&g->model->lock);
    old = g->model->segments[g->segment];
    g->model->segments[g->segment] = *new;
    *new = old; /* freed with `from`, after its last run */
    for (struct host_call **link = &g->model->host_calls;; link = &(*link)->next)
        if (!*link) {
            *link = from->host_calls; /* the new segment's nodes reference them */
            from->host_calls = NULL;
            break;
        }
    pthread_mutex_unlock(&g->model->lock);
    return ACL_SUCCESS;
}

static aclError model_get(const char *function, aclmdlRI handle, struct model **out)
{
    if ((*out = handle_get(handle, KIND_MODEL)))
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                             "%p is not a captured graph, or a destroyed one", handle);
}

/* Queues the segments one after the other. */
aclError model_run(struct model *m, struct stream *s)
{
    weir_status st = WEIR_OK;
    aclError err;

    pthread_mutex_lock(&m->lock);
    err = condition_reset(m, s);
    for (int i = 0; i < m->nsegments && !st && !err; i++)
        if (m->segments[i].when)
            err = condition_run(m, &m->segments[i], s);
        else if (m->segments[i].plan)
            st = weir_plan_run(m->segments[i].plan, s->weir, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&m->lock);
    return err ? err : fail_status(st, "aclmdlRIExecuteAsync");
}

/* Running a graph cannot be captured into another graph. */
EXPORT aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream)
{
    struct stream *s;
    struct model *m;
    aclError err;

    if ((err = model_get(__func__, modelRI, &m)) || (err = stream_get(stream, &s)))
        return err;
    if (!m->compiled || m->parent)
        return FAIL(ACL_ERROR_API_NOT_SUPPORT, "graph %u is being captured, or a part of another",
                    m->id);
    if (capture_active(s->capture))
        return FAIL(ACL_ERROR_API_NOT_SUPPORT,
                    "graph %u cannot run on stream %d, which is being captured", m->id, s->id);
    if (s->context->device != m->device)
        return FAIL(ACL_ERROR_RT_MODEL_CONTEXT, "graph %u is of device %d, stream %d of device %d",
                    m->id, m->device->id, s->id, s->context->device->id);
    return model_run(m, s);
}

EXPORT aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout)
{
    aclError err = aclmdlRIExecuteAsync(modelRI, NULL);

    return err ? err : aclrtSynchronizeStreamWithTimeout(NULL, timeout);
}

EXPORT aclError aclmdlRIDestroy(aclmdlRI modelRI)
{
    struct model *m;
    aclError err = model_get(__func__, modelRI, &m);

    if (!err && (!m->compiled || m->parent))
        err = FAIL(ACL_ERROR_API_NOT_SUPPORT, "graph %u is being captured, or a part of another",
                   m->id);
    if (!err)
        model_free(m);
    return err;
}

EXPORT aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId)
{
    struct model *m;
    aclError err;

    NEED(modelRIId);
    if (!(err = model_get(__func__, modelRI, &m)))
        *modelRIId = m->id;
    return err;
}

EXPORT aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name)
{
    struct model *m;
    aclError err;

    NEED(name);
    if ((err = model_get(__func__, modelRI, &m)))
        return err;
    if (strlen(m->name) >= maxLen)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "the name has %zu bytes, there is room for %u",
                    strlen(m->name) + 1, maxLen);
    strcpy(name, m->name);
    return ACL_SUCCESS;
}

EXPORT aclError aclmdlRISetName(aclmdlRI modelRI, const char *name)
{
    struct model *m;
    aclError err;

    NEED(name);
    if (!(err = model_get(__func__, modelRI, &m)))
        snprintf(m->name, sizeof m->name, "%s", name);
    return err;
}

static aclError print(const char *function, struct model *m, FILE *file)
{
    for (int i = 0; i < m->nsegments; i++) {
        char *text = weir_graph_dump(m->segments[i].graph);

        if (!text)
            return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "the text of graph %u", m->id);
        fputs(text, file);
        free(text);
    }
    return ACL_SUCCESS;
}

EXPORT aclError aclmdlRIDebugPrint(aclmdlRI modelRI)
{
    struct model *m;
    aclError err = model_get(__func__, modelRI, &m);

    return err ? err : print(__func__, m, stdout);
}

EXPORT aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags)
{
    struct model *m;
    FILE *file;
    aclError err;

    (void)flags;
    NEED(path);
    if ((err = model_get(__func__, modelRI, &m)))
        return err;
    if (!(file = fopen(path, "w")))
        return FAIL(ACL_ERROR_INVALID_FILE, "%s cannot be written", path);
    err = print(__func__, m, file);
    fclose(file);
    return err;
}
