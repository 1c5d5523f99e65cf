/* Tokens and tagged events. A token is an empty tensor. Captured, it is the result of a Record
 * node. Eagerly, its users are ordered after its stream's last command, by the mechanism of
 * wait_tensor. A tagged event is a token under a name. */
#include "weir/token.h"

#include <string.h>

#include "scope/scope.h"

static weir_status record_captured(weir_graph *g, weir_tensor **token)
{
    struct weir__marks marks;
    weir_status st = weir__scope_marks(g, &marks);

    return st ? st
              : weir__graph_add_call(g, weir__op_find("Record"), NULL, NULL, NULL, 0, NULL, &marks,
                                     token);
}

weir_status weir_token_record(weir_device *dev, weir_tensor **token)
{
    WEIR__NEED(dev, "dev");
    WEIR__NEED(token, "token");

    weir_graph *g = weir__capture_on(dev);
    weir_stream *s = weir_stream_current(dev);
    const int64_t none = 0;
    weir_status st;

    *token = NULL;
    if (g)
        return record_captured(g, token);
    if ((st = weir_tensor_empty(s, WEIR_U8, 1, &none, token)))
        return st;
    weir__device_lock(dev);
    if (!(st = weir__stream_queue_deferred(s)))
        weir__buffer_publish((*token)->buffer, s);
    weir__device_unlock(dev);
    dev->driver->kick(dev);
    if (st) {
        weir_tensor_release(*token);
        *token = NULL;
    }
    return st;
}

static bool is_token(const weir_tensor *t)
{
    return t->view.dtype == WEIR_U8 && t->view.ndim == 1 && !t->view.shape[0];
}

weir_status weir_token_wait(weir_tensor *const *tokens, int ntokens)
{
    struct weir__marks marks;
    weir_device *dev;
    weir_graph *g;
    weir_stream *s;
    weir_status st;

    WEIR__NEED(tokens, "tokens");
    if (ntokens < 1)
        return weir__fail(WEIR_EINVAL, "wait takes at least one token");
    for (int i = 0; i < ntokens; i++)
        if (!tokens[i])
            return weir__fail(WEIR_EINVAL, "wait: number %d of the tokens is NULL", i);
    dev = tokens[0]->dev;
    if ((g = weir__capture_on(dev))) {
        if ((st = weir__scope_marks(g, &marks)))
            return st;
        return weir__graph_add_call(g, weir__op_find("Wait"), NULL, NULL, tokens, ntokens, NULL,
                                    &marks, NULL);
    }
    for (int i = 0; i < ntokens; i++) {
        if ((st = weir__tensor_check_bytes(tokens[i], "wait")))
            return st;
        if (tokens[i]->dev != dev)
            return weir__fail(WEIR_EDEVICE, "wait: token 0 is of %s, token %d of %s", dev->label, i,
                              tokens[i]->dev->label);
    }
    s = weir_stream_current(dev);
    weir__device_lock(dev);
    for (int i = 0; i < ntokens && !st; i++)
        if (!(st = weir__buffer_await(tokens[i]->buffer, s)) && !is_token(tokens[i]) &&
            !(st = weir__stream_queue_deferred(s)))
            st = weir__wait_uses(s, tokens[i]->buffer);
    weir__device_unlock(dev);
    dev->driver->kick(dev);
    return st;
}

/* ---- tagged events ---- */

/* The events of all devices; few, so a list. */
struct tagged {
    struct tagged *next;
    uint64_t device_id;
    weir_tensor *token; /* token of the last record; NULL before */
    char tag[];
};

static struct weir__mutex lock;
static struct tagged *events;

/* The link that points to the event, or the end of the list. */
static struct tagged **find(const weir_device *dev, const char *tag)
{
    struct tagged **link = &events;

    while (*link && (!tag || (*link)->device_id != dev->id || strcmp((*link)->tag, tag)))
        link = &(*link)->next;
    return link;
}

static weir_status unknown(const char *tag)
{
    return weir__fail(WEIR_EINVAL, "there is no tagged event '%s': create it first",
                      tag ? tag : "");
}

weir_status weir_tagged_event_create(weir_device *dev, const char *tag)
{
    struct tagged *e;
    weir_status st = WEIR_OK;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(tag, "tag");
    if (!tag || !*tag)
        return weir__fail(WEIR_EINVAL, "a tagged event needs a tag");
    weir__mutex_lock(&lock);
    if (*find(dev, tag)) {
        st = weir__fail(WEIR_EINVAL, "tagged event tag %s is already in use", tag);
    } else if (!(e = weir__calloc(1, sizeof *e + strlen(tag) + 1))) {
        st = weir__fail_nomem("making tagged event '%s'", tag);
    } else {
        e->device_id = dev->id;
        strcpy(e->tag, tag);
        e->next = events;
        events = e;
    }
    weir__mutex_unlock(&lock);
    return st;
}

weir_status weir_tagged_event_record(weir_device *dev, const char *tag)
{
    weir_tensor *token = NULL, *old = NULL;
    struct tagged *e;
    weir_status st = WEIR_OK;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(tag, "tag");
    weir__mutex_lock(&lock);
    if (!(e = *find(dev, tag))) {
        st = unknown(tag); /* before a node is added to a graph */
    } else if (!(st = weir_token_record(dev, &token))) {
        old = e->token;
        e->token = token;
        if (!old)
            atomic_fetch_add(&dev->tagged_live, 1);
    }
    weir__mutex_unlock(&lock);
    weir_tensor_release(old);
    return st;
}

weir_status weir_tagged_event_wait(weir_device *dev, const char *tag)
{
    weir_tensor *token = NULL;
    struct tagged *e;
    weir_status st;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(tag, "tag");
    weir__mutex_lock(&lock);
    if ((e = *find(dev, tag)) && e->token)
        token = weir_tensor_retain(e->token);
    weir__mutex_unlock(&lock);
    if (!e)
        return unknown(tag);
    if (!token)
        return WEIR_OK;
    st = token->graph && !weir__capture_on(dev)
             ? weir__fail(WEIR_ESTATE,
                          "tagged event '%s' was recorded in a graph last: only operators of that "
                          "graph can wait for it",
                          tag)
             : weir_token_wait(&token, 1);
    weir_tensor_release(token);
    return st;
}

weir_status weir_tagged_event_destroy(weir_device *dev, const char *tag)
{
    struct tagged **link, *e;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(tag, "tag");
    weir__mutex_lock(&lock);
    link = find(dev, tag);
    if ((e = *link))
        *link = e->next;
    weir__mutex_unlock(&lock);
    if (!e)
        return unknown(tag);
    if (e->token)
        atomic_fetch_sub(&dev->tagged_live, 1);
    weir_tensor_release(e->token);
    weir__free(e);
    return WEIR_OK;
}

weir_status weir_tensor_record_tagged_stream(weir_tensor *t, const char *tag)
{
    WEIR__NEED(t, "tensor");
    WEIR__NEED(tag, "tag");

    weir_stream *s;
    weir_status st = weir_stream_tagged(t->dev, tag, 0, &s);

    if (st || t->graph)
        return st;
    return weir_tensor_used_on(t, s);
}
