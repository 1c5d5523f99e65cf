/* Records of tensors: made and freed under the device lock, or under the lock of the stream that
 * owns the tensor's buffer (rules: device/device.h). */
#include "tensor/recipe.h"
#include "tensor/tensor.h"

/* Records that are kept. Those made under one lock may be freed under the other, so both lists have
 * a limit. */
enum { MOST_SPARE = 256, MOST_SPARE_OF_STREAM = 8 };

static void init(weir_tensor *t, weir_device *dev)
{
    atomic_init(&t->refs, 1);
    t->dev = dev;
    t->buffer = NULL;
    t->graph = 0;
    t->dynamic = false;
    t->recipe = NULL;
}

/* Gives the record the whole of a new buffer. */
static void set_buffer(weir_tensor *t, weir_buffer *buffer, const struct weir__view *view)
{
    atomic_init(&buffer->refs, 1);
    t->buffer = buffer;
    t->view = *view;
    t->view.data = buffer->address;
}

/* ---- under the device lock ---- */

weir_tensor *weir__tensor_new(weir_device *dev)
{
    weir_tensor *t = dev->spare_tensors;

    if (t) {
        dev->spare_tensors = t->next_spare;
        dev->nspare_tensors--;
    } else if (!(t = weir__malloc(sizeof *t))) {
        return NULL;
    }
    init(t, dev);
    dev->tensors_live++;
    return t;
}

/* Drops the record's reference to its buffer; returns the buffer if that was the last one. */
static weir_buffer *drop_buffer(const weir_tensor *t)
{
    return t->buffer && atomic_fetch_sub(&t->buffer->refs, 1) == 1 ? t->buffer : NULL;
}

/* Frees the record, and its buffer if `last` is the buffer. (L) */
static void drop_record(weir_tensor *t, weir_buffer *last)
{
    weir_device *dev = t->dev;

    if (last)
        weir__pool_free(&dev->pool, last);
    weir__recipe_release(t->recipe);
    dev->tensors_live--;
    if (dev->nspare_tensors == MOST_SPARE) {
        weir__free(t);
        return;
    }
    t->next_spare = dev->spare_tensors;
    dev->spare_tensors = t;
    dev->nspare_tensors++;
}

void weir__tensor_drop(weir_tensor *t)
{
    drop_record(t, drop_buffer(t));
}

weir_status weir__tensor_alloc(weir_stream *s, const struct weir__view *view, weir_tensor **out)
{
    size_t bytes = (size_t)weir__view_numel(view) * weir_dtype_size(view->dtype);
    weir_tensor *t = weir__tensor_new(s->dev);
    weir_buffer *buffer;
    weir_status st;

    *out = NULL;
    if (!t)
        return weir__fail_nomem("making a tensor on %s", s->dev->props.name);
    if ((st = weir__pool_alloc(&s->dev->pool, s->slot, bytes, &buffer))) {
        weir__tensor_drop(t);
        return st;
    }
    set_buffer(t, buffer, view);
    *out = t;
    return WEIR_OK;
}

/* ---- under the lock of a stream alone ---- */

static weir_tensor *take_record(weir_stream *s)
{
    weir_tensor *t = s->spare_tensors;

    if (t) {
        s->spare_tensors = t->next_spare;
        s->nspare_tensors--;
    } else if (!(t = weir__malloc(sizeof *t))) {
        return NULL;
    }
    init(t, s->dev);
    s->tensors_more++;
    return t;
}

static void give_record(weir_stream *s, weir_tensor *t)
{
    s->tensors_more--;
    if (s->nspare_tensors == MOST_SPARE_OF_STREAM) {
        weir__free(t);
        return;
    }
    t->next_spare = s->spare_tensors;
    s->spare_tensors = t;
    s->nspare_tensors++;
}

weir_tensor *weir__tensor_alloc_alone(weir_stream *s, const struct weir__view *view)
{
    size_t bytes = (size_t)weir__view_numel(view) * weir_dtype_size(view->dtype);
    weir_buffer *b = weir__stream_alloc(s, bytes);
    weir_tensor *t;

    if (!b)
        return NULL;
    if (!(t = take_record(s))) {
        (void)weir__pool_give_recent(&s->dev->pool, b); /* it has just been recent: there is room */
        return NULL;
    }
    set_buffer(t, b, view);
    return t;
}

void weir__tensor_drop_alone(weir_stream *s, weir_tensor *t)
{
    (void)weir__pool_give_recent(&s->dev->pool, drop_buffer(t)); /* the same */
    give_record(s, t);
}

/* As drop_record. False if that needs the device lock; nothing has changed then. */
static bool drop_alone(weir_stream *owner, weir_tensor *t, weir_buffer *last)
{
    if (t->recipe || (last && !weir__stream_free(owner, last)))
        return false;
    give_record(owner, t);
    return true;
}

/* ---- the caller holds no lock ---- */

/* The stream whose lock is enough for the record: the owner of its buffer. Records of graphs have
 * no buffer, and any stream will do. */
static weir_stream *owner_of(const weir_tensor *t)
{
    return t->buffer ? weir__device_owner(t->dev, t->buffer) : t->dev->default_stream;
}

weir_tensor *weir__tensor_new_view(const weir_tensor *from)
{
    weir_stream *owner = owner_of(from);
    bool alone = weir__stream_lock(owner);
    weir_tensor *t = weir__unlikely(alone) ? take_record(owner) : weir__tensor_new(from->dev);

    if (t && from->buffer)
        atomic_fetch_add_explicit(&from->buffer->refs, 1, memory_order_relaxed);
    if (t)
        t->buffer = from->buffer;
    weir__stream_unlock(owner, alone);
    return t;
}

weir_tensor *weir_tensor_retain(weir_tensor *t)
{
    if (!t)
        return NULL;
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void weir_tensor_release(weir_tensor *t)
{
    weir_stream *owner;
    weir_buffer *last;
    weir_device *dev;
    bool external, alone;

    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    dev = t->dev;
    owner = owner_of(t); /* before another handle of the buffer can be the last one */
    last = drop_buffer(t);
    alone = weir__stream_lock(owner);
    if (weir__unlikely(alone) && !drop_alone(owner, t, last))
        weir__stream_lock_device(owner, &alone);
    if (weir__likely(!alone))
        drop_record(t, last);
    external = dev->pool.deferred;
    weir__stream_unlock(owner, alone);
    if (external)
        weir__device_reap(dev, false);
    if (dev->pool.poison)
        dev->driver->kick(dev);
}
