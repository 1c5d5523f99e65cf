/* Relays: a handshake between the thread that signals and the thread that waits. Each acts once. */
#include "device/relay.h"

#include <stdio.h>

enum { FRESH, PARKED, SIGNALLED, DROPPED };

weir_status weir__relay_send(weir_stream *from, struct weir__relay **out, struct weir__mark *mark)
{
    struct weir__relay *relay = weir__calloc(1, sizeof *relay);
    weir_device *dev = from->dev;
    weir_status st;

    if (!relay)
        return weir__fail_nomem("signalling from stream '%s'", from->name);
    relay->device = dev->id;
    weir__device_lock(dev);
    if (!(st = weir__stream_queue_deferred(from)) &&
        !(st = dev->driver->cross->signal_relay(from, relay)))
        from->clock.seq[from->slot]++;
    *mark = (struct weir__mark){from, weir__stream_submitted(from)};
    weir__device_unlock(dev);
    dev->driver->kick(dev);
    if (st)
        weir__free(relay);
    else
        *out = relay;
    return st;
}

void weir__relay_signal(void *user, weir_status status)
{
    struct weir__relay *relay = user;
    int before;

    relay->status = status;
    if (status)
        snprintf(relay->text, sizeof relay->text, "%s", weir_last_error());
    before = atomic_exchange(&relay->state, SIGNALLED);
    if (before == PARKED)
        relay->wake(relay->user);
    else if (before == DROPPED)
        weir__free(relay);
}

bool weir__relay_park(struct weir__relay *relay, void (*wake)(void *user), void *user)
{
    int fresh = FRESH;

    relay->wake = wake;
    relay->user = user;
    return atomic_compare_exchange_strong(&relay->state, &fresh, PARKED);
}

void weir__relay_drop(struct weir__relay *relay)
{
    if (atomic_exchange(&relay->state, DROPPED) != FRESH)
        weir__free(relay);
}
