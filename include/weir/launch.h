/* Your own kernels.
 *
 * A kernel is a function called once per block (and per phase). Blocks run on
 * the device's cores, at most as many at once as the limits in force allow, and
 * must not depend on which other blocks run beside them. All blocks of a phase
 * end before the next phase begins: that is the barrier over all blocks.
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
    void *local;    /* WEIR_LOCAL_BYTES, 64-byte aligned, uninitialised, this block's alone */
    const void *const *peers; /* of a collective: the arguments of every rank; else NULL */
} weir_block;

/* Returns WEIR_OK, or a status that puts the stream in error. On devices with
 * threads it runs on one of them and must not wait for weir work. */
typedef weir_status (*weir_kernel_fn)(const void *args, const weir_block *block);

typedef struct weir_launch {
    size_t size;       /* sizeof, or 0 for the fields of version 0.1 */
    const char *name;  /* a string that outlives the work; NULL is "kernel" */
    weir_kernel_fn fn; /* NULL does nothing, in order */
    const void *args;  /* args_size bytes, copied; 16-byte aligned for the kernel */
    size_t args_size;
    weir_engine engine;          /* cube by default */
    unsigned blocks;             /* 0 means 1 */
    unsigned phases;             /* 0 means 1 */
    bool gang;                   /* all its cores are granted at once and held to the end */
    uint64_t work_ns;            /* what one block takes, roughly; 0 means unknown, so long */
    weir_tensor *const *tensors; /* what it reads or writes, for memory safety */
    size_t ntensors;
    size_t nreads; /* the first of them are only read, as far as the race checker cares */
    weir_buffer *const *buffers;
    size_t nbuffers;
} weir_launch;

/* Queues the kernel. Core limits and never-timeout of the open scopes apply to it.
 * returns  WEIR_EINVAL for args over WEIR_ARGS_MAX or more blocks in a gang than
 *          the engine has cores; WEIR_EDEVICE for tensors of another device.
 * threads  any. */
WEIR_API weir_status weir_launch_submit(weir_stream *stream, const weir_launch *launch);

/* ---- a function of the program as an operator, run at once or captured ---- */

/* For kernels and host functions that fail: `reason` becomes part of the error of their stream.
 * returns  `status`. NULL: no reason.
 * threads  any. */
WEIR_API weir_status weir_kernel_fail(weir_status status, const char *reason);

#define WEIR_HOST_MAX_OUT 4

/* `in` and `out` are the addresses of the operands' first elements: inputs with the shape and
 * strides they had when the call was made, outputs contiguous. The rules of weir_kernel_fn
 * hold. */
typedef weir_status (*weir_host_fn)(void *user, void *const *in, void *const *out);

typedef struct weir_host_call {
    size_t size;      /* sizeof, or 0 for the fields of version 0.1 */
    const char *name; /* at most 63 bytes count; copied */
    weir_host_fn fn;
    void *user; /* must outlive the work, and the graphs and plans that hold the call */
    int nout;   /* 1..WEIR_HOST_MAX_OUT */
    struct {
        weir_dtype dtype;
        int ndim;
        int64_t shape[WEIR_MAX_DIMS];
    } out[WEIR_HOST_MAX_OUT];
} weir_host_call;

/* Calls the function on the host engine, in order with the current stream of the inputs'
 * device, or makes it a node of the graph that this thread captures. Where the host cannot read
 * the device's memory, `in` and `out` are copies, made in order with the stream. Graph files show
 * such a node, but what loads them cannot run it.
 * returns  WEIR_EINVAL for no inputs, more than 64, or a bad count of outputs.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_host_run(const weir_host_call *call, weir_tensor *const *in,
                                                 int nin, weir_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
