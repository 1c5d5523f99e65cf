/* The current stream of each thread: the one that it has set, or that of its stream scope's tag. */
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

/* Returns the stream of the open scope's tag. Entering the scope has checked tag and priority, so
 * only a lack of memory can make this fail; then it returns the default stream. */
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
        /* The table is full: drop the oldest entry. That device uses its default stream again. */
        memmove(c, c + 1, sizeof current.chosen - sizeof *c);
        i--;
    }
    c[i] = (struct weir__current){s->dev->id, s->id, s};
    return WEIR_OK;
}
