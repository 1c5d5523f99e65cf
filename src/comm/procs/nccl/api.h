/* The NCCL functions that weir calls, loaded at run time without NCCL's headers. Layouts and
 * numbers are those of NCCL 2.18 and later. */
#ifndef WEIR_COMM_PROCS_NCCL_API_H
#define WEIR_COMM_PROCS_NCCL_API_H

#include <stddef.h>

#define WEIR__NCCL_ID 128
struct weir__nccl_id {
    char bytes[WEIR__NCCL_ID];
};

/* Later versions have more fields; `size` tells them which fields are present. */
struct weir__nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster, min_ctas, max_ctas;
    const char *net;
    int split_share;
};
enum { WEIR__NCCL_VERSION = 21800 };
#define WEIR__NCCL_MAGIC 0xcafebeefu

enum weir__nccl_type {
    WEIR__NCCL_I8 = 0,
    WEIR__NCCL_U8 = 1,
    WEIR__NCCL_I32 = 2,
    WEIR__NCCL_I64 = 4,
    WEIR__NCCL_F16 = 6,
    WEIR__NCCL_F32 = 7,
    WEIR__NCCL_F64 = 8,
    WEIR__NCCL_BF16 = 9,
};

/* symbol, name here, arguments; all return an int, 0 for success */
#define WEIR__NCCL_SYMBOLS(X)                                                                   \
    X(ncclGetVersion, version, (int *version))                                                  \
    X(ncclGetUniqueId, unique_id, (struct weir__nccl_id * id))                                  \
    X(ncclCommInitRankConfig, init,                                                             \
      (void **comm, int ranks, struct weir__nccl_id id, int rank,                               \
       struct weir__nccl_config *config))                                                       \
    X(ncclCommDestroy, destroy, (void *comm))                                                   \
    X(ncclCommAbort, abort, (void *comm))                                                       \
    X(ncclCommGetAsyncError, async_error, (void *comm, int *code))                              \
    X(ncclAllReduce, all_reduce,                                                                \
      (const void *in, void *out, size_t n, int type, int reduce, void *comm, void *stream))    \
    X(ncclReduceScatter, reduce_scatter,                                                        \
      (const void *in, void *out, size_t n, int type, int reduce, void *comm, void *stream))    \
    X(ncclAllGather, all_gather,                                                                \
      (const void *in, void *out, size_t n, int type, void *comm, void *stream))                \
    X(ncclBroadcast, broadcast,                                                                 \
      (const void *in, void *out, size_t n, int type, int root, void *comm, void *stream))      \
    X(ncclSend, send, (const void *in, size_t n, int type, int peer, void *comm, void *stream)) \
    X(ncclRecv, recv, (void *out, size_t n, int type, int peer, void *comm, void *stream))      \
    X(ncclGroupStart, group_start, (void))                                                      \
    X(ncclGroupEnd, group_end, (void))

struct weir__nccl_api {
#define X(symbol, name, args) int(*name) args;
    WEIR__NCCL_SYMBOLS(X)
#undef X
    const char *(*error_string)(int code);
    const char *(*last_error)(void *comm); /* NULL before 2.13 */
    int (*finalize)(void *comm);           /* NULL before 2.14 */
};

/* Loads the file that WEIR_LIBNCCL names, or libnccl.so.2. It stays loaded. NULL with the thread's
 * error set. threads: any. */
const struct weir__nccl_api *weir__nccl_load(void);

#endif
