/* What has failed, and whom it concerns. */
#ifndef WEIR_CUDA_FAULT_FAULTS_H
#define WEIR_CUDA_FAULT_FAULTS_H

#include "cuda/cuda.h"

/* Guards what is known of failures, on all devices: errors cross from one to another. */
extern struct weir__mutex weir__cuda_faults;

/* ---- log.c: what kernels say ---- */

/* What a kernel that fails is told to say: a command of a stream, or an item of a program. */
uint64_t weir__cuda_where(const weir_stream *s, uint64_t seq);
#define WEIR__CUDA_PROGRAM_IDS 0x1fffffff
uint64_t weir__cuda_where_item(uint32_t program, int lane, int item);
weir_status weir__cuda_log_open(struct weir__cuda *dev);
void weir__cuda_log_close(struct weir__cuda *dev);
/* Whether a kernel has failed, ever: `failed` is set before news are taken. */
static inline bool weir__cuda_has_failed(const struct weir__cuda *dev)
{
    return __atomic_load_n(&dev->log->news, __ATOMIC_ACQUIRE) ||
           atomic_load_explicit(&dev->failed, memory_order_relaxed);
}
/* Takes down what kernels have said so far. Under the faults lock. */
void weir__cuda_read_log(struct weir__cuda *dev);
/* What an operator on the stream has failed of. */
#define WEIR__CUDA_FAILURE_TEXT 400
void weir__cuda_failure_text(const struct weir__cuda_stream *s,
                             const struct weir__code_failure *failure, char *text);

/* ---- runs.c ---- */

/* An item has failed, in whichever run: all that may have been it. Under the faults lock. */
void weir__cuda_program_blame(struct weir__cuda *dev, uint32_t program, int lane, int item,
                              const struct weir__code_failure *failure);

/* ---- faults.c ---- */

/* The command, which is not queued yet, may fail, or waits for what may: whoever waits for the
 * stream must ask. (L) */
static inline void weir__cuda_may_fail(struct weir__cuda_stream *s, uint64_t seq)
{
    atomic_store_explicit(&s->fallible, seq, memory_order_release);
}
/* Whether it is known by now that command `seq` must not run: an error is before it. (L) */
bool weir__cuda_is_doomed(const struct weir__cuda_stream *s, uint64_t seq);
/* Errors of the mark's stream reach `s` when its command `at` is over. (L) */
weir_status weir__cuda_take(struct weir__cuda_stream *s, uint64_t at, struct weir__mark from,
                            enum weir__wait how);
/* Passes on what has failed so far. */
void weir__cuda_poll(struct weir__cuda *dev);
/* The device closes, and everything on it is over: others that have waited for it get to know. */
void weir__cuda_faults_close(struct weir__cuda *dev);
/* One of the n commands, none of which is over for others, fails; or one after the last of them, up
 * to `last`. Under the faults lock. */
void weir__cuda_add_failure_among(struct weir__cuda_stream *s, const uint64_t *seq, int n,
                                  uint64_t last, weir_status status, const char *text);
static inline void weir__cuda_add_failure(struct weir__cuda_stream *s, uint64_t seq,
                                          weir_status status, const char *text)
{
    weir__cuda_add_failure_among(s, &seq, 1, seq, status, text);
}
/* Whether an error stops the command, when everything before it is over. From any thread. */
bool weir__cuda_failed_before(struct weir__cuda_stream *s, uint64_t seq);
/* How such a command has failed so far; WEIR_OK if it has not. */
weir_status weir__cuda_failed_at(struct weir__cuda_stream *s, uint64_t seq, char *text,
                                 size_t size);

#endif
