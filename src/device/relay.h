/* Order between streams of two kinds of devices, whose drivers know nothing of each other.
 *
 * The one stream signals a relay when it gets there, the other one's next command is over when
 * the relay is signalled. A relay is signalled once and waited for once, and carries the
 * signalling stream's error. What a relay waits for is queued before its wait is, so that
 * threads which relay both ways never make a cycle. */
#ifndef WEIR_DEVICE_RELAY_H
#define WEIR_DEVICE_RELAY_H

#include "device/device.h"

struct weir__relay {
    _Atomic int state;
    uint64_t device;    /* id of the one that signals, for reports */
    weir_status status; /* of its stream, once it has: with a text unless it is WEIR_OK */
    char text[1024];
    void (*wake)(void *user);
    void *user;
};

/* The stream's next command signals *out; mark->seq is its number.
 * returns  WEIR_ENOMEM, or what queueing says; nothing is queued then. */
weir_status weir__relay_send(weir_stream *from, struct weir__relay **out, struct weir__mark *mark);
/* For drivers: the stream is there. A weir_callback_fn. */
void weir__relay_signal(void *relay, weir_status status);
/* True if it is not signalled yet: then `wake` is called once it is, from any thread. */
bool weir__relay_park(struct weir__relay *relay, void (*wake)(void *user), void *user);
/* Nobody waits for it any more. */
void weir__relay_drop(struct weir__relay *relay);

#endif
