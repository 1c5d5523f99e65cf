/* What the threads of the soak share (soak.c), and its work on tensors (soak_tensors.c). */
#ifndef TESTS_DEVICE_SOAK_H
#define TESTS_DEVICE_SOAK_H

#include "helpers.h"

#include <pthread.h>

enum { STREAMS = 64, SUBMITTERS = 8, OWN = STREAMS / SUBMITTERS };

/* What the operators of one stream do: each notes its number, so a stream that two workers ran at
 * once, or out of order, has wrong values, and a data race. */
struct line {
    _Alignas(64) uint64_t next;
    uint64_t value;
    _Atomic uint64_t over;
    atomic_int blocks;
    atomic_int wrong;
};

/* A tensor, all elements of which have one value, and the stream that computes it. */
struct held {
    weir_tensor *tensor;
    int stream;
    int64_t value; /* computed by the thread that queues, one step after the other */
};

struct soak {
    weir_device *dev;
    int cores;
    weir_stream *streams[STREAMS];
    struct line lines[STREAMS];
    _Atomic uint64_t queued[STREAMS];
    uint64_t steps; /* of each submitter, in all */
    uint64_t steps_between_syncs;
    bool per_stream; /* launches take the lock of their stream every so often */
    bool tensors;    /* also tensors, plans and limits */
    pthread_mutex_t lock;
    struct held shown[SUBMITTERS]; /* for other threads to read and to release; by `lock` */
};

struct submitter {
    struct soak *soak;
    int index;
    uint64_t random;
    uint64_t from, to; /* the steps of this round */
    int blocks[OWN];
    struct held held[OWN];
    struct held planned; /* what the plan has computed, on the first stream */
    weir_plan *plan;
    pthread_t thread;
};

static inline uint64_t draw(struct submitter *me)
{
    me->random ^= me->random << 13;
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return me->random;
}

/* Makes the plan and the first tensors. */
void soak_tensors_begin(struct submitter *me);
/* Queues some work on tensors on stream `own` of the submitter. */
void soak_tensors_step(struct submitter *me, int own);
/* Compares the tensors of stream `own` with the values computed by this thread. */
void soak_tensors_check(const struct submitter *me, int own);
/* The pool's bytes for what the submitter holds: tensors and the plan; and for those shown. */
size_t soak_tensors_bytes(const struct submitter *me);
size_t soak_tensors_shown(const struct soak *soak);
void soak_tensors_end(struct submitter *me);

#endif
