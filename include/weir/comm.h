/* Groups of ranks, and the collectives between them.
 *
 * A group joins N ranks, each on a device; several ranks may be on one device. A collective is
 * an operator: the program calls it once per rank. The call is queued on the current stream of
 * the rank's device (or captured into the graph that the thread captures there) and returns
 * at once. The k-th call of a rank on its group meets the k-th call of every other rank. Calls are
 * numbered when they are made, so a rank may use several streams. Calls of one rank must come from
 * one thread at a time.
 *
 * On `cpu` a rank that waits for the others holds no core and no thread. When the last rank has
 * arrived, every rank's part asks for its cores and runs; the operator completes on every rank once
 * all parts have run. So collectives in different orders on different devices cannot hold cores
 * that the others need. A rank that uses one stream for two groups, in another order than its
 * peers, still deadlocks with them: the timeout ends that. Two ranks of one device need a stream
 * each: weir refuses a call that would be queued on the same stream behind the call it must meet.
 *
 * On `npu` a collective behaves as on the hardware. In vector mode it first takes its cores, all
 * at once or piecemeal by the device's policy, and holds them until every rank has arrived; in
 * sdma mode it holds none. Then it takes the time that the model gives for its kind, size and
 * ranks. The devices of a group share one clock. A deadlock over cores ends with WEIR_EDEADLOCK
 * as soon as nothing can move; the message says who holds what and who waits for whom. If a rank's
 * call is missing because no host thread has made it yet, weir waits for it in the host's time.
 *
 * On `cuda` it is as on `cpu`; the parts are kernels that read and write their peers' memory.
 *
 * Reductions add in the order of the ranks, f16 and bf16 in f32, so results depend neither
 * on timing nor on cores, and are the same bits on every rank.
 *
 * Errors. Five things break a group: calls that do not fit together, a rank whose stream is in
 * error, a part that fails, a rank that does not arrive in time, and weir_group_abort. Every
 * rank that waits then gets the error on its stream; it names the call, the ranks and what is
 * wrong. Parts that already run finish. A broken group stays broken: later calls return
 * WEIR_ESTATE with the reason, and queued calls fail when their turn comes. Destroy the group and
 * create another; replace streams in error as usual.
 */
#ifndef WEIR_COMM_H
#define WEIR_COMM_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_MAX_RANKS 1024
#define WEIR_MAX_COUNTED_RANKS 100 /* most ranks whose counts fit into one call */

typedef struct weir_group weir_group;
typedef struct weir_rank weir_rank;

typedef enum weir_reduce {
    WEIR_REDUCE_SUM, /* integers wrap */
    WEIR_REDUCE_MAX,
    WEIR_REDUCE_MIN,
    WEIR_REDUCE_MEAN, /* integers round toward zero */
    WEIR_REDUCE_PROD, /* integers wrap */
} weir_reduce;

/* What moves the bytes. */
typedef enum weir_comm_mode {
    WEIR_COMM_VECTOR, /* vector cores, as many as the limit in force allows */
    WEIR_COMM_SDMA,   /* the copy engine: no core */
} weir_comm_mode;

typedef struct weir_group_options {
    size_t size;        /* sizeof, or 0 for the fields of version 0.1 */
    const char *name;   /* for messages and graph files, at most 47 bytes; NULL: generated */
    int64_t timeout_ns; /* from the first rank's arrival at a call to the last's; negative: none;
                         * 0: three quarters of the smallest op_timeout of the devices, so that
                         * this error, which names the missing rank, comes before the device's. On
                         * `npu` it counts the host's time, and only while every rank waits for a
                         * call that the host has not made; 0: 10 s at most */
    weir_comm_mode mode;
} weir_group_options;

/* A group of `nranks` ranks, 1..WEIR_MAX_RANKS, on `cuda` 1..64; rank i is on devices[i]. While it
 * exists its devices cannot be closed. `options` may be NULL.
 * returns  WEIR_ERANGE for a bad count; WEIR_EINVAL for a long name; WEIR_EUNSUPPORTED for
 *          devices of different kinds.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_group_create(weir_device *const *devices, int nranks,
                                                     const weir_group_options *options,
                                                     weir_group **out);
/* NULL is fine.
 * returns  WEIR_EBUSY while collectives of the group are queued or plans that contain them exist.
 *          The message counts both, and nothing changes.
 * threads  any, with no other call on the group in progress. */
WEIR_API weir_status weir_group_destroy(weir_group *group);

/* A rank's handle, which the group owns; NULL if there is no such rank. */
WEIR_API weir_rank *weir_group_rank(weir_group *group, int index);
WEIR_API int weir_group_size(const weir_group *group);
WEIR_API const char *weir_group_name(const weir_group *group);
WEIR_API weir_group *weir_rank_group(const weir_rank *rank);
WEIR_API weir_device *weir_rank_device(const weir_rank *rank);
WEIR_API int weir_rank_index(const weir_rank *rank);

/* WEIR_OK, or the error that broke the group.
 * threads  any. */
WEIR_API weir_status weir_group_state(weir_group *group);

/* Breaks the group: ranks that wait in it get WEIR_ESTATE with the reason. The first reason is
 * kept.
 * threads  any. */
WEIR_API void weir_group_abort(weir_group *group, const char *reason);

/* ---- collectives ----
 * Tensors must be on the rank's device; one that is not contiguous is copied first. `_into` forms
 * write to a contiguous tensor of the right shape. It may be the input itself only where the
 * comment says so.
 * returns  WEIR_EDEVICE for a tensor of another device; WEIR_ESHAPE, WEIR_EDTYPE;
 *          WEIR_ESTATE if the group is broken. */

/* The same shape on every rank; every rank gets the result. `out` may be x. */
WEIR_API WEIR_MUST_USE weir_status weir_all_reduce(weir_rank *rank, weir_tensor *x, weir_reduce op,
                                                   weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_all_reduce_into(weir_rank *rank, weir_tensor *x,
                                                        weir_reduce op, weir_tensor *out);
/* x [n * k, ...] -> [k, ...]: rank i gets the i-th of n equal parts of the result. */
WEIR_API WEIR_MUST_USE weir_status weir_reduce_scatter(weir_rank *rank, weir_tensor *x,
                                                       weir_reduce op, weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_reduce_scatter_into(weir_rank *rank, weir_tensor *x,
                                                            weir_reduce op, weir_tensor *out);
/* x [k, ...] -> [n * k, ...]: the parts of all ranks in their order. */
WEIR_API WEIR_MUST_USE weir_status weir_all_gather(weir_rank *rank, weir_tensor *x,
                                                   weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_all_gather_into(weir_rank *rank, weir_tensor *x,
                                                        weir_tensor *out);
/* Every rank gets the values of rank `root`; on other ranks x gives shape and type. `out` may be
 * x. */
WEIR_API WEIR_MUST_USE weir_status weir_broadcast(weir_rank *rank, weir_tensor *x, int root,
                                                  weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_broadcast_into(weir_rank *rank, weir_tensor *x, int root,
                                                       weir_tensor *out);
/* x [n * k, ...]: part i goes to rank i, and part i of the result comes from rank i. */
WEIR_API WEIR_MUST_USE weir_status weir_all_to_all(weir_rank *rank, weir_tensor *x,
                                                   weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_all_to_all_into(weir_rank *rank, weir_tensor *x,
                                                        weir_tensor *out);
/* The same with send[i] rows of x for rank i and recv[i] rows of the result from rank i; both
 * have an entry for every rank. x has as many rows as `send` adds up to. send[j] of rank i must
 * equal recv[i] of rank j.
 * With more than WEIR_MAX_COUNTED_RANKS ranks, ranks of one process keep the counts in memory
 * (AllToAllTable); ranks that are processes exchange messages, up to 64 at once. */
WEIR_API WEIR_MUST_USE weir_status weir_all_to_all_counts(weir_rank *rank, weir_tensor *x,
                                                          const int64_t *send, const int64_t *recv,
                                                          weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_all_to_all_counts_into(weir_rank *rank, weir_tensor *x,
                                                               const int64_t *send,
                                                               const int64_t *recv,
                                                               weir_tensor *out);
/* As weir_all_reduce, but only rank `root` gets the result: on others *out is NULL.
 * returns  WEIR_ERANGE if `root` is not a rank of the group. */
WEIR_API WEIR_MUST_USE weir_status weir_reduce_to(weir_rank *rank, weir_tensor *x, weir_reduce op,
                                                  int root, weir_tensor **out);
/* As weir_all_gather, but only rank `root` gets the result: on others *out has no rows. */
WEIR_API WEIR_MUST_USE weir_status weir_gather_to(weir_rank *rank, weir_tensor *x, int root,
                                                  weir_tensor **out);
/* Part i of x [n * k, ...] on rank `root` goes to `out` [k, ...] of rank i. On other ranks x may
 * be NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_scatter_from(weir_rank *rank, weir_tensor *x, int root,
                                                     weir_tensor *out);
/* As weir_all_gather with counts[i] rows from rank i: the same counts on every rank. */
WEIR_API WEIR_MUST_USE weir_status weir_all_gather_counts(weir_rank *rank, weir_tensor *x,
                                                          const int64_t *counts, weir_tensor **out);
/* As weir_reduce_scatter with counts[i] rows for rank i: the same counts on every rank. */
WEIR_API WEIR_MUST_USE weir_status weir_reduce_scatter_counts(weir_rank *rank, weir_tensor *x,
                                                              weir_reduce op, const int64_t *counts,
                                                              weir_tensor **out);
/* One rank to another: the k-th send of a rank to a peer meets the peer's k-th receive from it.
 * Both complete together, so two ranks that both send first on their only stream deadlock: use two
 * streams, weir_batch_send_recv or weir_all_to_all. Receive writes all of x.
 * returns  WEIR_ERANGE if the peer is this rank or not a rank of the group. */
WEIR_API WEIR_MUST_USE weir_status weir_send(weir_rank *rank, weir_tensor *x, int to);
WEIR_API WEIR_MUST_USE weir_status weir_recv(weir_rank *rank, weir_tensor *x, int from);
/* Up to 64 sends and receives at once, so that their order does not matter. Each runs on a stream
 * of its own after the current stream, which continues when all have completed. Messages with the
 * same peer in the same direction are matched in the order of the array. */
typedef struct weir_message {
    weir_tensor *tensor;
    int peer;
    bool receives;
} weir_message;
WEIR_API WEIR_MUST_USE weir_status weir_batch_send_recv(weir_rank *rank,
                                                        const weir_message *messages, int count);
/* The current stream of the rank's device continues when all ranks have arrived. */
WEIR_API WEIR_MUST_USE weir_status weir_barrier(weir_rank *rank);

/* Mixture of experts: expert e lives on rank e / (experts / n). The row of token t goes to the
 * ranks of experts[t][0..k-1]; x is [tokens, hidden], `experts` [tokens, k] i32 or i64, and ranks
 * may have different numbers of tokens. Results: rows [capacity, hidden], sorted by expert, source
 * rank, token and slot; rows past the last one are not written; counts [experts / n] i64, the rows
 * of each expert of this rank; positions [tokens, k] i32, the row of each slot on its rank.
 *
 * returns  WEIR_ESHAPE if nexperts is not a multiple of n. More rows than capacity, or an
 *          expert out of range, puts the streams in error, WEIR_ERANGE. */
WEIR_API WEIR_MUST_USE weir_status weir_moe_dispatch(weir_rank *rank, weir_tensor *x,
                                                     weir_tensor *experts, int64_t nexperts,
                                                     int64_t capacity, weir_tensor **rows,
                                                     weir_tensor **counts, weir_tensor **positions);
/* The inverse of dispatch: out[t] = sum over slots of weights[t][slot] times the slot's row on its
 * rank, in the order of the slots, in f32 (f64 for f64). rows [capacity, hidden] hold the results
 * of the rank's experts; weights [tokens, k] of rows' type or f32. */
WEIR_API WEIR_MUST_USE weir_status weir_moe_combine(weir_rank *rank, weir_tensor *rows,
                                                    weir_tensor *experts, int64_t nexperts,
                                                    weir_tensor *positions, weir_tensor *weights,
                                                    weir_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
