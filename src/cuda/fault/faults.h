/* What has failed, and whom it concerns. */
#ifndef WEIR_CUDA_FAULT_FAULTS_H
#define WEIR_CUDA_FAULT_FAULTS_H

#include "cuda/cuda.h"

weir_status weir__cuda_faults_open(struct weir__cuda *dev);
/* The device closes, and everything on it is over: others that have waited for it get to know. */
void weir__cuda_faults_close(struct weir__cuda *dev);
void weir__cuda_faults_free(struct weir__cuda *dev);

/* ---- before something is queued, (L) ---- */

/* What a kernel of the stream's command `seq` is told for weir__code_report. */
struct weir__code_context weir__cuda_context(struct weir__cuda *dev, const weir_stream *s,
                                             uint64_t seq);
/* A command that may fail, or waits for what may, is queued next: whoever waits for the stream must
 * ask. */
void weir__cuda_may_fail(struct weir__cuda_stream *s);
/* Whether it is known by now that command `seq` must not run: an error is before it. */
static inline bool weir__cuda_is_doomed(const struct weir__cuda_stream *s, uint64_t seq)
{
    return atomic_load_explicit(&s->base.failed_at, memory_order_relaxed) < seq;
}
/* Command `at` waits: errors of the mark's stream are its own. */
weir_status weir__cuda_take(struct weir__cuda_stream *s, uint64_t at, struct weir__mark from);

/* ---- afterwards, from any thread ---- */

/* The command fails, which is not over for others yet. */
void weir__cuda_fail(struct weir__cuda_stream *s, uint64_t seq, weir_status status,
                     const char *text);
/* Gives streams the errors of kernels and of what they wait for, as far as these are known. A
 * stream that is seen to be over before has all of them then. */
void weir__cuda_poll(struct weir__cuda *dev);
/* Whether an error stops the command, when everything before it is over. */
bool weir__cuda_failed_before(struct weir__cuda_stream *s, uint64_t seq);

#endif
