/* Conditional tasks of captured graphs: an inner graph runs if a word of memory is not 0 when the
 * stream reaches it.
 *
 * The stream waits at a gate. A thread reads the word. If it is not 0, the thread queues the inner
 * graph on the condition's own stream, ordered after the work before the gate; the gate opens when
 * the inner graph has completed. Only the stream waits, no thread. */
#include "runtime/graph/capture.h"

#include <stdlib.h>

struct condition {
    void *handle;
    struct condition *next; /* in its graph's list */
    void *word;             /* 8 bytes from aclrtMalloc */
    uint64_t first;
    bool assign;
    struct stream *side;
};

static int deciding;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t decided = PTHREAD_COND_INITIALIZER;

void condition_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&decided, NULL);
    deciding = 0;
}

void condition_stop(void)
{
    pthread_mutex_lock(&lock);
    while (deciding)
        pthread_cond_wait(&decided, &lock);
    pthread_mutex_unlock(&lock);
}

static void condition_free(struct condition *c)
{
    handle_take(c->handle, KIND_CONDITION);
    if (c->side)
        aclrtDestroyStream(c->side->handle);
    if (c->word)
        aclrtFree(c->word);
    free(c);
}

void condition_free_all(struct model *m)
{
    while (m->conditions) {
        struct condition *c = m->conditions;

        m->conditions = c->next;
        condition_free(c);
    }
}

EXPORT aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, unsigned int defaultLaunchValue,
                                         uint32_t flag, aclmdlRICondHandle *handle)
{
    struct model *m = handle_get(modelRI, KIND_MODEL);
    struct context *context;
    struct condition *c;
    aclrtStream side;
    aclError err;

    NEED(handle);
    *handle = NULL;
    if (!m)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not a graph, or a destroyed one", modelRI);
    if (flag > ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flag %#x is neither 0 nor 1", flag);
    if (!(m->device->props.features & WEIR_FEATURE_HOST_MEMORY))
        return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the host cannot read memory of %s",
                    m->device->props.name);
    if ((err = context_current(&context)))
        return err;
    if (context->device != m->device)
        return FAIL(ACL_ERROR_RT_MODEL_CONTEXT,
                    "graph %u is of device %d, this thread of device %d", m->id, m->device->id,
                    context->device->id);
    if (!(c = calloc(1, sizeof *c)))
        return FAIL(ACL_ERROR_BAD_ALLOC, "a condition");
    c->first = defaultLaunchValue;
    c->assign = flag;
    if ((err = aclrtMalloc(&c->word, sizeof(uint64_t), ACL_MEM_MALLOC_HUGE_FIRST)) ||
        (err = aclrtMemset(c->word, sizeof(uint64_t), 0, sizeof(uint64_t))) ||
        (err = aclrtCreateStream(&side)) || (err = stream_get(side, &c->side)))
        goto free_condition;
    if (!(c->handle = handle_new(KIND_CONDITION, c))) {
        err = FAIL(ACL_ERROR_BAD_ALLOC, "a condition");
        goto free_condition;
    }
    pthread_mutex_lock(&m->lock);
    c->next = m->conditions;
    m->conditions = c;
    pthread_mutex_unlock(&m->lock);
    *handle = c->handle;
    return ACL_SUCCESS;

free_condition:
    condition_free(c);
    return err;
}

EXPORT aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr)
{
    struct condition *c = handle_get(handle, KIND_CONDITION);

    NEED(ptr);
    if (!c)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not a condition, or its graph was destroyed",
                    handle);
    *ptr = c->word;
    return ACL_SUCCESS;
}

/* Adds a segment for the inner graph, and one for the work after it. */
static aclError add(struct model *m, struct condition *when, struct model **out)
{
    struct segment *s;
    struct model *child;
    aclError err;

    *out = NULL;
    if ((err = model_new(m->device, &child)))
        return err;
    for (int i = 0; i < 2 && !err; i++)
        err = model_cut(m);
    if (err) {
        model_free(child);
        return err;
    }
    s = &m->segments[m->nsegments - 2];
    s->when = when;
    s->child = child;
    child->parent = m;
    *out = child;
    return ACL_SUCCESS;
}

EXPORT aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream,
                                    uint32_t flags)
{
    struct condition *when = handle_get(params.handle, KIND_CONDITION);
    struct condition *own;
    struct model *child;
    struct capture *c;
    struct stream *s;
    aclError err;

    if (flags)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flags %#x are not 0", flags);
    if (!when)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not a condition", params.handle);
    if (params.type != ACL_MODEL_RI_COND_TYPE_IF || params.size != 1)
        return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "type %d with %u graphs: there is ACL_MODEL_RI_COND_TYPE_IF with one",
                    (int)params.type, params.size);
    if (!params.modelRIArray)
        return FAIL(ACL_ERROR_INVALID_PARAM, "modelRIArray is NULL");
    if ((err = stream_get(stream, &s)))
        return err;
    if (!(c = s->capture))
        return FAIL(ACL_ERROR_API_NOT_SUPPORT, "stream %d is not being captured", s->id);
    pthread_mutex_lock(&c->lock);
    for (own = c->model->conditions; own && own != when; own = own->next)
        ;
    if (!own)
        err = FAIL(ACL_ERROR_RT_PARAM_INVALID, "the condition is of another graph than stream %d's",
                   s->id);
    else if (c->group)
        err = FAIL(ACL_ERROR_API_NOT_SUPPORT, "a task group is open");
    else if (!(err = add(c->model, when, &child)))
        params.modelRIArray[0] = child->handle;
    pthread_mutex_unlock(&c->lock);
    return err;
}

/* ---- runs ---- */

aclError condition_reset(struct model *m, struct stream *s)
{
    aclError err = ACL_SUCCESS;

    for (struct condition *c = m->conditions; c && !err; c = c->next)
        if (c->assign)
            err = aclrtValueWrite(c->word, c->first, 0, s->handle);
    return err;
}

/* One run of a conditional segment. */
struct branch {
    struct model *model; /* the outer graph; the reference keeps the others alive */
    struct model *child;
    const _Atomic uint64_t *word;
    struct stream *side;
    weir_event *before; /* the inner graph runs after this event */
    struct weir_cann_deferred *deferred;
};

static void branch_free(void *user)
{
    struct branch *b = user;

    weir_event_destroy(b->before);
    model_release(b->model);
    free(b);
}

static void *decide(void *user)
{
    struct branch *b = user;
    weir_stream *side = b->side->weir;
    const char *failure = NULL;

    if (atomic_load(b->word) && (weir_stream_wait(side, b->before) || model_run(b->child, b->side)))
        failure = "the graph of a conditional task could not be run";
    if (failure)
        weir_cann_resume(b->deferred, failure);
    else
        resume_after(b->deferred, side);
    pthread_mutex_lock(&lock);
    deciding--;
    pthread_cond_broadcast(&decided);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void begin(void *user, struct weir_cann_deferred *deferred)
{
    struct branch *b = user;
    pthread_attr_t detached;
    pthread_t thread;
    int e;

    b->deferred = deferred;
    pthread_mutex_lock(&lock);
    deciding++;
    pthread_mutex_unlock(&lock);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    e = pthread_create(&thread, &detached, decide, b);
    pthread_attr_destroy(&detached);
    if (!e)
        return;
    weir_cann_resume(deferred, "no thread for a conditional task");
    pthread_mutex_lock(&lock);
    deciding--;
    pthread_cond_broadcast(&decided);
    pthread_mutex_unlock(&lock);
}

aclError condition_run(struct model *model, const struct segment *segment, struct stream *s)
{
    struct branch *b = calloc(1, sizeof *b);
    weir_status st;

    if (!b)
        return fail(ACL_ERROR_BAD_ALLOC, "a conditional task");
    b->model = model;
    b->child = segment->child;
    b->word = segment->when->word;
    b->side = segment->when->side;
    atomic_fetch_add(&model->refs, 1);
    if ((st = weir_event_create(s->context->device->dev, NULL, &b->before)) ||
        (st = weir_event_record(b->before, s->weir))) {
        branch_free(b);
        return fail_status(st, "a conditional task");
    }
    return weir_cann_defer(s->handle, begin, b, branch_free);
}
