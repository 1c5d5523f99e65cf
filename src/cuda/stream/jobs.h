/* Work of the host within a stream: callbacks, relays, and what collectives need. */
#ifndef WEIR_CUDA_STREAM_JOBS_H
#define WEIR_CUDA_STREAM_JOBS_H

#include "cuda/cuda.h"

/* What the helper thread does when a stream reaches the job, one of three: it calls `fn` and opens
 * the job's gate; it calls `serve`, which must have the gate opened; or it waits for the relay. */
struct weir__cuda_job {
    struct weir__cuda_job *next;
    struct weir__cuda_stream *stream;
    struct weir__cuda_helper *helper;
    uint64_t seq;
    const _Atomic uint64_t *word; /* the stream is at the job when *word >= mark; NULL: only CUDA's
                                   * call tells */
    uint64_t mark;
    weir_callback_fn fn;
    void (*serve)(void *user);
    void (*drop)(void *user); /* with `serve`: called instead if the job is given up */
    void *user;
    struct weir__relay *relay; /* the stream continues when it is signalled */
    bool beside;               /* it is not a command of the stream and has no gate */
    bool ours;                 /* fn belongs to the library and does not wait */
    bool whole;                /* all of it was queued; otherwise the job does nothing */
    bool queued, reached;      /* it may run when it is both, or when its word says so */
    bool served;               /* it has run before CUDA's call */
};

weir_status weir__cuda_callback(weir_stream *s, weir_callback_fn fn, void *user);
weir_status weir__cuda_signal_relay(weir_stream *s, struct weir__relay *relay);
weir_status weir__cuda_wait_relay(weir_stream *s, struct weir__relay *relay);
/* Queues a copy of `draft` at `tail`, with a gate after it. Its `user` is always either served or
 * dropped, also on an error. (L) */
weir_status weir__cuda_queue_job(struct weir__cuda_stream *s, weir__cu_stream tail,
                                 const struct weir__cuda_job *draft);
/* Completes the command `seq`, which waits for the host, and opens its gate. From any thread. */
void weir__cuda_open_gate(struct weir__cuda_stream *s, uint64_t seq);
/* Makes the helper thread call `serve` when `side` has done its work so far. The side stream is not
 * part of the stream's order. Called on the helper thread. */
weir_status weir__cuda_queue_look(struct weir__cuda_stream *s, weir__cu_stream side,
                                  void (*serve)(void *user), void *user);
void weir__cuda_jobs_open(struct weir__cuda *dev);
void weir__cuda_jobs_close(struct weir__cuda *dev);

#endif
