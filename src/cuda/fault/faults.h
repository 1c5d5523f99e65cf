/* Failures on the GPU, and the streams that they put in error. */
#ifndef WEIR_CUDA_FAULT_FAULTS_H
#define WEIR_CUDA_FAULT_FAULTS_H

#include "cuda/cuda.h"

weir_status weir__cuda_faults_open(struct weir__cuda *dev);
/* Called when the device closes and all its work has completed: streams of other devices that
 * waited for it take over its errors now. */
void weir__cuda_faults_close(struct weir__cuda *dev);
void weir__cuda_faults_free(struct weir__cuda *dev);

/* ---- before something is queued, (L) ---- */

/* Returns the context that a kernel of command `seq` needs to report a failure
 * (device/report.h). */
struct weir__code_context weir__cuda_context(struct weir__cuda *dev, const weir_stream *s,
                                             uint64_t seq);
/* Call before queueing a command that may fail or waits for one that may: from then on streams that
 * wait for this one take over its errors. */
void weir__cuda_may_fail(struct weir__cuda_stream *s);
/* True if the host already knows of an error before command `seq`, which must then not run. */
static inline bool weir__cuda_is_doomed(const struct weir__cuda_stream *s, uint64_t seq)
{
    return atomic_load_explicit(&s->base.failed_at, memory_order_relaxed) < seq;
}
/* Records that command `at` of `s` is a wait for `from` that takes over errors: an error of that
 * stream up to the mark becomes an error of `s` at `at`. */
weir_status weir__cuda_take(struct weir__cuda_stream *s, uint64_t at, struct weir__mark from);

/* ---- afterwards, from any thread ---- */

/* Puts the stream in error at command `seq`, which must not be published as completed yet. */
void weir__cuda_fail(struct weir__cuda_stream *s, uint64_t seq, weir_status status,
                     const char *text);
/* Reads the failures that kernels have reported and passes them on along waits. A stream whose
 * command q was seen completed before the call has every error up to q afterwards. */
void weir__cuda_poll(struct weir__cuda *dev);
/* True if an error stops command `seq`. Call it when everything before `seq` has completed. */
bool weir__cuda_failed_before(struct weir__cuda_stream *s, uint64_t seq);

#endif
