/* Captures: a stream's work is recorded in a graph of weir instead of running.
 *
 * AscendCL captures by stream, whichever thread queues; weir captures by thread. So each launch
 * enters the graph while it lasts, and the capture's lock serialises launches. The stream that
 * began the capture is lane 0, which runs on the caller's stream when the graph runs. Every other
 * stream that takes part has its own lane, a stream of weir with a tag.
 *
 * A task group cuts the graph into segments: the work before it, the group, and the work after it.
 * Segments run one after the other, and the group's segment can be captured again.
 */
#include "runtime/graph/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t last_id;
static struct capture *active; /* list of all active captures */
static pthread_mutex_t active_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local aclmdlRICaptureMode thread_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

bool capture_active(const struct capture *c)
{
    return c;
}

static aclError broken(const char *function, struct capture *c)
{
    return weir_cann_fail_in(function, ACL_ERROR_API_NOT_SUPPORT, "the capture is broken: %s",
                             c->reason);
}

struct segment *capture_segment(struct capture *c)
{
    return c->update ? c->update : &c->model->segments[c->model->nsegments - 1];
}

/* Makes the calling thread record operators for the stream. Precondition: it holds the capture's
 * lock. */
static aclError enter_lane(struct capture *c, struct stream *s, struct weir_cann_launch *l)
{
    struct segment *segment = capture_segment(c);
    weir_cores limit = limit_in_use(s);
    char tag[24];
    weir_status st;

    if (s->lane) {
        snprintf(tag, sizeof tag, "graph lane %d", s->lane);
        if ((st = weir_scope_push_stream(tag, weir_stream_priority(s->weir))))
            goto fail;
        l->kinds[l->scopes++] = WEIR_SCOPE_STREAM;
    }
    if (limit.cube < 0 && limit.vector < 0) { /* the limit becomes part of the graph, as on NPUs */
        pthread_mutex_lock(&s->lock);
        limit = s->limit;
        pthread_mutex_unlock(&s->lock);
    }
    if (limit.cube > 0 || limit.vector > 0) {
        if ((st = weir_scope_push_cores(limit)))
            goto pop;
        l->kinds[l->scopes++] = WEIR_SCOPE_CORES;
    }
    if ((st = weir_graph_begin(segment->graph)))
        goto pop;
    l->capture = c;
    return ACL_SUCCESS;

pop:
    while (l->scopes)
        weir_scope_pop(l->kinds[--l->scopes]);
fail:
    return fail_status(st, "a captured operator");
}

aclError capture_enter(struct stream *s, struct weir_cann_launch *l)
{
    struct capture *c = s->capture;
    aclError err;

    if (!c)
        return fail(ACL_ERROR_API_NOT_SUPPORT, "the capture of stream %d has ended", s->id);
    pthread_mutex_lock(&c->lock);
    err = c->broken ? broken("a captured operator", c) : enter_lane(c, s, l);
    if (err)
        pthread_mutex_unlock(&c->lock);
    return err;
}

void capture_leave(struct weir_cann_launch *l)
{
    struct capture *c = l->capture;

    if (weir_graph_end(capture_segment(c)->graph) && !c->broken) {
        snprintf(c->reason, sizeof c->reason, "%s", weir_last_error());
        c->broken = true;
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- events ---- */

void capture_mark_clear(struct capture_mark *mark)
{
    weir_tensor_release(mark->token);
    *mark = (struct capture_mark){0};
}

aclError capture_record(struct stream *s, struct capture_mark *mark)
{
    struct weir_cann_launch l = {0};
    struct capture *c = s->capture;
    weir_status st;
    aclError err;

    capture_mark_clear(mark);
    if ((err = capture_enter(s, &l)))
        return err;
    st = weir_token_record(s->context->device->dev, &mark->token);
    if (!st) {
        mark->capture = c->id;
        mark->segment = capture_segment(c)->id;
    }
    weir_cann_leave(&l);
    return fail_status(st, "aclrtRecordEvent");
}

/* Adds a stream to the capture. The caller holds the capture's lock. */
static aclError join(struct capture *c, struct stream *s)
{
    struct stream **grown;

    if (s->capture)
        return ACL_SUCCESS;
    if (!(grown = realloc(c->members, (size_t)(c->nmembers + 1) * sizeof *grown)))
        return fail(ACL_ERROR_BAD_ALLOC, "stream %d in a capture", s->id);
    c->members = grown;
    s->lane = c->nmembers;
    c->members[c->nmembers++] = s;
    s->capture = c;
    return ACL_SUCCESS;
}

aclError capture_wait(struct stream *s, struct capture *c, const struct capture_mark *mark)
{
    struct weir_cann_launch l = {0};
    weir_status st = WEIR_OK;
    aclError err;

    pthread_mutex_lock(&c->lock);
    err = c->broken ? broken("aclrtStreamWaitEvent", c) : join(c, s);
    pthread_mutex_unlock(&c->lock);
    if (err || (err = capture_enter(s, &l)))
        return err;
    /* Marks of earlier segments need no wait: those have completed when this one begins. */
    if (mark->token && mark->segment == capture_segment(c)->id)
        st = weir_token_wait(&mark->token, 1);
    weir_cann_leave(&l);
    return fail_status(st, "aclrtStreamWaitEvent");
}

/* ---- functions of the host ---- */

static weir_status call_host(void *user, void *const *in, void *const *out)
{
    const struct host_call *call = user;

    (void)in;
    (void)out;
    call->fn(call->user);
    return WEIR_OK;
}

aclError capture_host(const char *function, struct stream *s, aclrtCallback fn, void *user)
{
    return capture_host_owned(function, s, fn, user, NULL);
}

aclError capture_host_owned(const char *function, struct stream *s, aclrtCallback fn, void *user,
                            void (*release)(void *user))
{
    struct capture *c = s->capture;
    struct weir_cann_launch l = {0};
    weir_tensor *after = NULL, *out[WEIR_HOST_MAX_OUT] = {NULL};
    struct host_call *call;
    weir_status st;
    aclError err;

    if ((err = capture_enter(s, &l)))
        return err;
    if (!(call = model_host_call(c->model))) {
        weir_cann_leave(&l);
        return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "a captured function");
    }
    *call = (struct host_call){fn, user, NULL, call->next};
    /* The token orders the call after the stream's earlier work; the wait orders later work after
     * the call. */
    if (!(st = weir_token_record(s->context->device->dev, &after)) &&
        !(st = weir_host_run(&(weir_host_call){.name = "host function",
                                               .fn = call_host,
                                               .user = call,
                                               .nout = 1,
                                               .out = {{WEIR_U8, 1, {1}}}},
                             &after, 1, out)))
        call->release = release;
    weir_tensor_release(after);
    weir_tensor_release(out[0]);
    weir_cann_leave(&l);
    return fail_status(st, function);
}

/* ---- begin and end ---- */

static void leave_all(struct capture *c)
{
    for (int i = 0; i < c->nmembers; i++) {
        c->members[i]->capture = NULL;
        c->members[i]->lane = 0;
    }
}

struct capture *capture_find(uint64_t id)
{
    struct capture *c;

    pthread_mutex_lock(&active_lock);
    for (c = active; c && c->id != id; c = c->next)
        ;
    pthread_mutex_unlock(&active_lock);
    return c;
}

static void capture_free(struct capture *c)
{
    struct capture **link = &active;

    pthread_mutex_lock(&active_lock);
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    pthread_mutex_unlock(&active_lock);
    pthread_mutex_destroy(&c->lock);
    free(c->members);
    free(c);
}

/* Breaks the capture if the destroyed stream began it; else removes the stream from the capture. */
void capture_abandon(struct stream *s)
{
    struct capture *c = s->capture;

    if (!c)
        return;
    if (c->members[0] != s) {
        pthread_mutex_lock(&c->lock);
        for (int i = 1; i < c->nmembers; i++)
            if (c->members[i] == s) { /* the other streams' lanes keep their numbers */
                memmove(&c->members[i], &c->members[i + 1],
                        (size_t)(c->nmembers - i - 1) * sizeof *c->members);
                c->nmembers--;
                break;
            }
        s->capture = NULL;
        pthread_mutex_unlock(&c->lock);
        return;
    }
    leave_all(c);
    model_free(c->model);
    capture_free(c);
}

/* Begins a capture into `model`, or into a new graph if it is NULL. */
static aclError capture_new(struct stream *s, struct model *model, struct capture **out)
{
    struct capture *c = calloc(1, sizeof *c);
    aclError err;

    *out = NULL;
    if (!c || !(c->members = malloc(sizeof *c->members))) {
        free(c);
        return fail(ACL_ERROR_BAD_ALLOC, "a capture");
    }
    pthread_mutex_init(&c->lock, NULL);
    c->members[0] = s;
    c->nmembers = 1;
    c->model = model;
    if (!model && (err = model_new(s->context->device, &c->model))) {
        pthread_mutex_destroy(&c->lock);
        free(c->members);
        free(c);
        return err;
    }
    pthread_mutex_lock(&active_lock);
    c->id = ++last_id;
    c->next = active;
    active = c;
    pthread_mutex_unlock(&active_lock);
    *out = c;
    return ACL_SUCCESS;
}

static aclError begin(const char *function, aclrtStream stream, aclmdlRICaptureMode mode,
                      struct model *model)
{
    struct capture *c, *none = NULL;
    struct stream *s;
    aclError err;

    if ((unsigned)mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                                 "mode %d is not one of 0, 1, 2", (int)mode);
    if (!stream) /* a default stream cannot be captured */
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    if ((err = stream_get(stream, &s)))
        return err;
    if (s->is_default)
        return weir_cann_fail_in(function, ACL_ERROR_API_NOT_SUPPORT,
                                 "a default stream cannot be captured");
    if (model && model->device != s->context->device)
        return weir_cann_fail_in(function, ACL_ERROR_RT_STREAM_CONTEXT,
                                 "graph %u is of another device than stream %d", model->id, s->id);
    if ((err = capture_new(s, model, &c)))
        return err;
    s->lane = 0;
    if (atomic_compare_exchange_strong(&s->capture, &none, c))
        return ACL_SUCCESS;
    if (!model)
        model_free(c->model);
    capture_free(c);
    return weir_cann_fail_in(function, ACL_ERROR_API_NOT_SUPPORT,
                             "stream %d is being captured already", s->id);
}

EXPORT aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode)
{
    return begin(__func__, stream, mode, NULL);
}

EXPORT aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                              aclmdlRICaptureMode mode)
{
    struct model *m = handle_get(modelRI, KIND_MODEL);

    NEED(modelRI);
    if (!m)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph, or a destroyed one", modelRI);
    if (!m->parent || m->compiled)
        return FAIL(ACL_ERROR_API_NOT_SUPPORT,
                    "graph %u is not one that aclmdlRIAddCondTask gave, or has been captured",
                    m->id);
    return begin(__func__, stream, mode, m);
}

EXPORT aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI)
{
    struct capture *c;
    struct stream *s;
    aclError err;

    NEED(modelRI);
    *modelRI = NULL;
    if ((err = stream_get(stream, &s)))
        return err;
    if (!(c = s->capture))
        return FAIL(ACL_ERROR_API_NOT_SUPPORT, "stream %d is not being captured", s->id);
    if (c->members[0] != s)
        return FAIL(ACL_ERROR_API_NOT_SUPPORT,
                    "stream %d takes part in the capture that stream %d began", s->id,
                    c->members[0]->id);
    pthread_mutex_lock(&c->lock); /* waits for launches of other threads */
    leave_all(c);
    pthread_mutex_unlock(&c->lock);
    err = c->broken  ? broken(__func__, c)
          : c->group ? FAIL(ACL_ERROR_API_NOT_SUPPORT, "a task group is open")
                     : model_compile(c->model);
    if (err)
        model_free(c->model);
    else
        *modelRI = c->model->handle;
    capture_free(c);
    return err;
}

EXPORT aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
                                       aclmdlRI *modelRI)
{
    struct capture *c;
    struct stream *s;
    aclError err;

    NEED(status);
    if ((err = stream_get(stream, &s)))
        return err;
    c = s->capture;
    *status = !c          ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
              : c->broken ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
                          : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    if (modelRI)
        *modelRI = c ? c->model->handle : NULL;
    return ACL_SUCCESS;
}

EXPORT aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode)
{
    aclmdlRICaptureMode old = thread_mode;

    NEED(mode);
    if ((unsigned)*mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "mode %d is not one of 0, 1, 2", (int)*mode);
    thread_mode = *mode;
    *mode = old;
    return ACL_SUCCESS;
}

/* ---- task groups ---- */

EXPORT aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream)
{
    struct capture *c;
    struct stream *s;
    aclError err;

    if ((err = stream_get(stream, &s)))
        return err;
    if (!(c = s->capture))
        return FAIL(ACL_ERROR_API_NOT_SUPPORT, "stream %d is not being captured", s->id);
    pthread_mutex_lock(&c->lock);
    if (c->group)
        err = FAIL(ACL_ERROR_API_NOT_SUPPORT, "a task group is open already");
    else if (!(err = model_cut(c->model)))
        c->group = true;
    pthread_mutex_unlock(&c->lock);
    return err;
}

EXPORT aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle)
{
    struct task_group *g;
    struct capture *c;
    struct stream *s;
    aclError err;

    NEED(handle);
    *handle = NULL;
    if ((err = stream_get(stream, &s)))
        return err;
    if (!(c = s->capture) || !c->group)
        return FAIL(ACL_ERROR_API_NOT_SUPPORT, "no task group is open on stream %d", s->id);
    pthread_mutex_lock(&c->lock);
    if (!(err = model_group(c->model, &g)) && !(err = model_cut(c->model))) {
        c->group = false;
        *handle = g->handle;
    }
    pthread_mutex_unlock(&c->lock);
    return err;
}

EXPORT aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle)
{
    struct task_group *g = handle_get(handle, KIND_TASK_GROUP);
    struct capture *c, *none = NULL;
    struct stream *s;
    aclError err;

    NEED(stream);
    if (!g)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not a task group", handle);
    if ((err = stream_get(stream, &s)) || (err = capture_new(s, NULL, &c)))
        return err;
    c->group = true;
    c->update = &c->model->segments[0];
    c->updates = g;
    if (atomic_compare_exchange_strong(&s->capture, &none, c))
        return ACL_SUCCESS;
    model_free(c->model);
    capture_free(c);
    return FAIL(ACL_ERROR_API_NOT_SUPPORT, "stream %d is being captured", s->id);
}

EXPORT aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream)
{
    struct capture *c;
    struct stream *s;
    aclError err;

    if ((err = stream_get(stream, &s)))
        return err;
    if (!(c = s->capture) || !c->update)
        return FAIL(ACL_ERROR_API_NOT_SUPPORT, "no task group is updated on stream %d", s->id);
    pthread_mutex_lock(&c->lock);
    leave_all(c);
    pthread_mutex_unlock(&c->lock);
    err = c->broken ? broken(__func__, c) : model_replace(c->updates, c->model);
    model_free(c->model);
    capture_free(c);
    return err;
}
