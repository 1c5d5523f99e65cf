/* Your own kernels.
 *
 * A kernel is a function that is called once per block and phase. Blocks run on
 * the device's cores, at most as many at once as the limits in force allow. A block
 * must not depend on which other blocks run at the same time. All blocks of a phase
 * end before the next phase begins: a phase boundary is a barrier over all blocks.
 */
#ifndef WEIR_LAUNCH_H
#define WEIR_LAUNCH_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch memory every block finds in weir_block.local. */
#define WEIR_LOCAL_BYTES ((size_t)4 << 20)
/* The largest argument block a launch copies. */
#define WEIR_ARGS_MAX 2048

typedef struct weir_block {
    unsigned index; /* 0 .. count-1 */
    unsigned count; /* blocks of the operator */
    unsigned phase; /* 0 .. phases-1 */
    unsigned core;  /* the core it runs on */
    void *local;    /* WEIR_LOCAL_BYTES, 64-byte aligned, uninitialised, private to this block */
    const void *const *peers; /* for a collective: the arguments of every rank; else NULL */
} weir_block;

/* Returns WEIR_OK, or a status that puts the stream in error. On devices with
 * threads it runs on one of them and must not wait for weir work. */
typedef weir_status (*weir_kernel_fn)(const void *args, const weir_block *block);

typedef struct weir_launch {
    size_t size;       /* sizeof, or 0 for the fields of version 0.1 */
    const char *name;  /* a string that outlives the work; NULL is "kernel" */
    weir_kernel_fn fn; /* NULL: no work, but the launch keeps its place in the stream's order */
    const void *args;  /* args_size bytes, copied; 16-byte aligned for the kernel */
    size_t args_size;
    weir_engine engine;          /* cube by default */
    unsigned blocks;             /* 0 means 1 */
    unsigned phases;             /* 0 means 1 */
    bool gang;                   /* all its cores are granted at once and held until it ends */
    uint64_t work_ns;            /* rough time of one block; 0: unknown, treated as long */
    weir_tensor *const *tensors; /* everything it reads or writes: kept alive until it ends */
    size_t ntensors;
    size_t nreads; /* for the race checker: the first `nreads` tensors are only read */
    weir_buffer *const *buffers;
    size_t nbuffers;
} weir_launch;

/* Queues the kernel. Core limits and never-timeout of the open scopes apply to it.
 * returns  WEIR_EINVAL for args over WEIR_ARGS_MAX or more blocks in a gang than
 *          the engine has cores; WEIR_EDEVICE for tensors of another device.
 * threads  any. */
WEIR_API weir_status weir_launch_submit(weir_stream *stream, const weir_launch *launch);

/* ---- host functions as operators, run at once or captured ---- */

/* For kernels and host functions that fail: `reason`, if not NULL, goes into the stream's error.
 * returns  `status`, so that a kernel can `return weir_kernel_fail(...)`.
 * threads  any. */
WEIR_API weir_status weir_kernel_fail(weir_status status, const char *reason);

#define WEIR_HOST_MAX_OUT 4

/* `in` and `out` are the addresses of the operands' first elements. Inputs have the shape and
 * strides they had when weir_host_run was called; outputs are contiguous. The rules of
 * weir_kernel_fn apply. */
typedef weir_status (*weir_host_fn)(void *user, void *const *in, void *const *out);

typedef struct weir_host_call {
    size_t size;      /* sizeof, or 0 for the fields of version 0.1 */
    const char *name; /* copied, cut to 63 bytes */
    weir_host_fn fn;
    void *user; /* must outlive the work, and the graphs and plans that hold the call */
    int nout;   /* 1..WEIR_HOST_MAX_OUT */
    struct {
        weir_dtype dtype;
        int ndim;
        int64_t shape[WEIR_MAX_DIMS];
    } out[WEIR_HOST_MAX_OUT];
} weir_host_call;

/* Queues a call of the function on the current stream of the inputs' device, for the host engine;
 * or adds it as a node to the graph that this thread captures. Where the host cannot read the
 * device's memory, `in` and `out` are copies, made in stream order. A graph file shows such a node,
 * but a graph loaded from it cannot run it.
 * returns  WEIR_EINVAL for no inputs, more than 64, or a bad count of outputs.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_host_run(const weir_host_call *call, weir_tensor *const *in,
                                                 int nin, weir_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
