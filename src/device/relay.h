/* Order between streams of two kinds of devices, whose drivers know nothing of each other.
 *
 * One stream signals a relay when it reaches the signal. The next command of the other stream
 * completes when the relay is signalled. A relay is signalled once and waited for once, and carries
 * the signalling stream's error. The signal is always queued before the wait, so threads that relay
 * in both directions never make a cycle. */
#ifndef WEIR_DEVICE_RELAY_H
#define WEIR_DEVICE_RELAY_H

#include "device/device.h"

struct weir__relay {
    _Atomic int state;
    uint64_t device;    /* id of the signalling device, for reports */
    weir_status status; /* the signalling stream's error; set by the signal, as is `text` */
    char text[1024];
    void (*wake)(void *user);
    void *user;
};

/* The stream's next command signals *out; mark->seq is its number.
 * returns  WEIR_ENOMEM, or the error of queueing; nothing is queued then. */
weir_status weir__relay_send(weir_stream *from, struct weir__relay **out, struct weir__mark *mark);
/* For drivers: signals the relay. A weir_callback_fn. */
void weir__relay_signal(void *relay, weir_status status);
/* True if the relay is not signalled yet: `wake` will be called by the signalling thread. */
bool weir__relay_park(struct weir__relay *relay, void (*wake)(void *user), void *user);
/* Ends the waiter's use of the relay. The relay is freed once it is also signalled. */
void weir__relay_drop(struct weir__relay *relay);

#endif
