/* Lets a stream wait, without holding a core or a thread, for something that another stream or the
 * host does later. The wait is one half of a barrier of two ranks; relay_signal queues the other
 * half. */
#include "runtime/runtime.h"

weir_status relay_open(struct relay *r, weir_device *to, weir_device *from)
{
    weir_device *both[2] = {to, from};
    weir_status st;

    *r = (struct relay){0};
    if ((st = weir_stream_create(from, NULL, &r->stream)))
        return st;
    if ((st = weir_group_create(
             both, 2, &(weir_group_options){.timeout_ns = -1, .mode = WEIR_COMM_SDMA}, &r->group)))
        weir_stream_destroy(r->stream);
    if (st)
        *r = (struct relay){0};
    return st;
}

weir_status relay_signal(struct relay *r)
{
    weir_stream *previous = weir_stream_current(weir_stream_device(r->stream));
    weir_status st = weir_stream_set_current(r->stream);

    if (!st) {
        st = weir_barrier(weir_group_rank(r->group, 1));
        weir_stream_set_current(previous);
    }
    return st;
}

bool relay_close(struct relay *r, const char *reason)
{
    if (r->group && weir_group_destroy(r->group)) {
        weir_group_abort(r->group, reason);
        weir_stream_sync(r->stream);
        if (weir_group_destroy(r->group))
            return false; /* the device still uses the group and the stream */
    }
    weir_stream_destroy(r->stream);
    return true;
}
