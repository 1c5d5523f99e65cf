/* The current stream of each thread, and what scopes say of it. */
#include "device/device.h"

#include <string.h>

static _Thread_local struct weir__current_set current;

struct weir__current_set *weir__current_get_set(void)
{
    return &current;
}

bool weir__scope_has_cores(weir_engine engine)
{
    return (engine != WEIR_ENGINE_VECTOR && current.limit.cube) ||
           (engine != WEIR_ENGINE_CUBE && current.limit.vector);
}

static weir_stream *still_there(const struct weir__current *c, const weir_device *dev)
{
    return c->device_id == dev->id && c->stream->id == c->stream_id ? c->stream : NULL;
}

/* The stream of the open scope's tag; the default one if it cannot be made, which the
 * scope's entry has made sure of before (only memory can be short). */
static weir_stream *tagged_stream(weir_device *dev)
{
    weir_stream *s = still_there(&current.tagged, dev);

    if (!s && !weir_stream_tagged(dev, current.tag, current.priority, &s))
        current.tagged = (struct weir__current){dev->id, s->id, s};
    return s ? s : dev->default_stream;
}

weir_stream *weir_stream_default(weir_device *dev)
{
    return dev ? dev->default_stream : NULL;
}

weir_stream *weir_stream_current(weir_device *dev)
{
    weir_stream *s;

    if (!dev)
        return NULL;
    for (int i = 0; i < WEIR__CURRENT_DEVICES && current.chosen[i].device_id; i++)
        if ((s = still_there(&current.chosen[i], dev)))
            return s;
    return current.tag ? tagged_stream(dev) : dev->default_stream;
}

weir_status weir_stream_set_current(weir_stream *s)
{
    struct weir__current *c = current.chosen;
    int i = 0;

    WEIR__NEED(s, "stream");
    while (i < WEIR__CURRENT_DEVICES && c[i].device_id && c[i].device_id != s->dev->id)
        i++;
    if (i == WEIR__CURRENT_DEVICES) {
        /* More devices than entries: the oldest falls back to its default stream. */
        memmove(c, c + 1, sizeof current.chosen - sizeof *c);
        i--;
    }
    c[i] = (struct weir__current){s->dev->id, s->id, s};
    return WEIR_OK;
}
