/* Work of the host within a stream: callbacks, relays, and what collectives need. */
#ifndef WEIR_CUDA_STREAM_JOBS_H
#define WEIR_CUDA_STREAM_JOBS_H

#include "cuda/cuda.h"

/* What the helper thread does when a stream gets there, one of three: it calls `fn` and opens the
 * gate behind the job; it calls `serve`, which sees to the gate; or it waits for the relay. */
struct weir__cuda_job {
    struct weir__cuda_job *next;
    struct weir__cuda_stream *stream;
    struct weir__cuda_helper *helper;
    uint64_t seq;
    const _Atomic uint64_t *word; /* the stream is there when it has `mark`; NULL: only CUDA says */
    uint64_t mark;
    weir_callback_fn fn;
    void (*serve)(void *user);
    void (*drop)(void *user); /* with `serve`: it is given up */
    void *user;
    struct weir__relay *relay; /* the stream goes on when it is signalled */
    bool beside;               /* it is no command of the stream and has no gate */
    bool ours;                 /* fn is the library's, and waits for nobody */
    bool whole;                /* else it could not be queued, and nothing is done */
    bool queued, reached;      /* it is done when it is both, or its word says so */
    bool served;               /* before CUDA has called */
};

weir_status weir__cuda_callback(weir_stream *s, weir_callback_fn fn, void *user);
weir_status weir__cuda_signal_relay(weir_stream *s, struct weir__relay *relay);
weir_status weir__cuda_wait_relay(weir_stream *s, struct weir__relay *relay);
/* Queues what `draft` has to do, at `tail`; nothing goes on behind it until its gate is open. Its
 * `user` is served or dropped, come what may. (L) */
weir_status weir__cuda_queue_job(struct weir__cuda_stream *s, weir__cu_stream tail,
                                 const struct weir__cuda_job *draft);
/* The command that waits for the host is over. From any thread. */
void weir__cuda_open_gate(struct weir__cuda_stream *s, uint64_t seq);
/* On the helper thread: it calls `serve` when `side` gets there, which is none of the stream's
 * order. */
weir_status weir__cuda_queue_look(struct weir__cuda_stream *s, weir__cu_stream side,
                                  void (*serve)(void *user), void *user);
void weir__cuda_jobs_open(struct weir__cuda *dev);
void weir__cuda_jobs_close(struct weir__cuda *dev);

#endif
