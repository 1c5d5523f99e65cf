/* Initialisation and finalisation of the library, and its state after a fork. */
#include "runtime/graph/capture.h"

#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised, finalised;
static _Atomic uint32_t ids;

uint32_t next_id(void)
{
    return atomic_fetch_add(&ids, 1);
}

static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    handle_forget_all();
    context_forget();
    device_forget_all();
    allocation_forget_all();
    callback_forget_all();
    watch_forget();
    condition_forget();
    ipc_forget();
    bridge_forget();
    report_forget();
    launch_forget();
}

__attribute__((constructor)) static void loaded(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

bool is_initialised(void)
{
    bool is;

    pthread_mutex_lock(&lock);
    is = initialised;
    pthread_mutex_unlock(&lock);
    return is;
}

EXPORT aclError aclInit(const char *configPath)
{
    aclError err = ACL_SUCCESS;

    (void)configPath; /* settings for dumps and profiling: not used */
    pthread_mutex_lock(&lock);
    if (initialised)
        err = FAIL(ACL_ERROR_REPEAT_INITIALIZE, "it has been called already");
    initialised = true;
    finalised = false;
    pthread_mutex_unlock(&lock);
    return err;
}

static void drop_model(void *object, void *user)
{
    struct model *m = object;

    (void)user;
    if (!m->parent) /* inner graphs are freed with the graph that contains them */
        model_free(m);
}

static void drop_context(void *object, void *user)
{
    struct context *c = object;

    (void)user;
    if (handle_take(c->handle, KIND_CONTEXT))
        context_destroy(c);
}

EXPORT aclError aclFinalize(void)
{
    aclError err = ACL_SUCCESS;

    pthread_mutex_lock(&lock);
    if (finalised)
        err = FAIL(ACL_ERROR_REPEAT_FINALIZE, "it has been called already");
    else if (!initialised)
        err = FAIL(ACL_ERROR_UNINITIALIZE, "call aclInit first");
    initialised = false;
    finalised = true;
    pthread_mutex_unlock(&lock);
    if (err)
        return err;
    report_end();
    callback_stop();
    watch_stop();
    condition_stop();
    handle_each(KIND_MODEL, drop_model, NULL);
    event_free_all();
    notify_free_all();
    bridge_free_all();
    handle_each(KIND_CONTEXT, drop_context, NULL);
    ipc_close_all();
    allocation_drop_all(-1);
    device_close_all();
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch)
{
    NEED(major);
    NEED(minor);
    NEED(patch);
    *major = 1;
    *minor = 16;
    *patch = 0;
    return ACL_SUCCESS;
}

EXPORT aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num)
{
    static const aclCannAttr all[] = {ACL_CANN_ATTR_INF_NAN};

    NEED(cannAttrList);
    NEED(num);
    *cannAttrList = all;
    *num = sizeof all / sizeof *all;
    return ACL_SUCCESS;
}

EXPORT aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value)
{
    NEED(value);
    if (cannAttr != ACL_CANN_ATTR_INF_NAN)
        return FAIL(ACL_ERROR_INVALID_PARAM, "attribute %d is not known", (int)cannAttr);
    *value = 1;
    return ACL_SUCCESS;
}
