/* What an operator is: one row with its engine, shape rule, cost and kernels. Eager calls (ops/),
 * graphs (graph/) and drivers work from the same row.
 *
 * A driver gets a row with its tensors and parameters as a struct weir__call. op->name and
 * op->fields say what the operator and its parameters are called.
 */
#ifndef WEIR_DEVICE_OP_H
#define WEIR_DEVICE_OP_H

#include "base/base.h"
#include "comm/comm.h"
#include "device/view.h"
#include "weir/launch.h"

#define WEIR__OP_MAX_OUT 4
#define WEIR__OP_MAX_IN 64 /* concat takes this many */

enum weir__op_flags {
    WEIR__OP_GANG = 1 << 0, /* barrier over all blocks: phases > 1 and cores granted together */
    WEIR__OP_DATA_DEPENDENT = 1 << 1, /* the actual output size is known only after the run */
    WEIR__OP_IN_PLACE = 1 << 2,       /* the first input is also the output: nout is 0 */
    WEIR__OP_IGNORES_LIMIT = 1 << 3,  /* host engine */
    WEIR__OP_ALWAYS_RUNS = 1 << 4,    /* a graph keeps it even if its result is not used */
    WEIR__OP_ELEMENTWISE = 1 << 5,    /* output element i needs only element i of each broadcast
                                       * input; blocks cut a contiguous output in row-major order,
                                       * at multiples of 64 elements */
    WEIR__OP_OVERWRITES = 1 << 6,     /* in place, and does not read the old contents */
    WEIR__OP_COLLECTIVE = 1 << 7,     /* meets its peers on other ranks: see `member` */
    WEIR__OP_JOINS = 1 << 8,          /* calls may be joined into one launch (device/code.h, join);
                                       * if its one input is contiguous, blocks cut the output as
                                       * those of elementwise operators do */
    WEIR__OP_ENDS_CHAIN = 1 << 9,     /* it may be the last call of a joined launch: output row i
                                       * needs only row i of the first input */
    WEIR__OP_BESIDE = 1 << 10,        /* it may be joined with calls of the same operator that do
                                       * not access memory that it writes */
};

/* A block of a launch that runs its operators a few rows at a time (graph/pass/fuse.c).
 * `block.count` is 0; each operator computes rows begin..end-1 of `rows`. */
struct weir__rows_block {
    weir_block block;
    int64_t rows, begin, end;
};

/* A parameter of an operator, for writing and reading graph files. A field "nX" beside an array "X"
 * is the number of entries of X that are used. */
struct weir__op_field {
    const char *name;
    enum {
        WEIR__FIELD_INT,
        WEIR__FIELD_FLOAT,
        WEIR__FIELD_BOOL,
        WEIR__FIELD_DTYPE,
        WEIR__FIELD_STRING, /* a zero-terminated string in an array of `count` bytes */
    } kind;
    size_t offset; /* of an int64_t, double, bool, weir_dtype or char in the params struct */
    size_t count;  /* 1, or the length of an array */
};

/* One application of an operator to operands. */
struct weir__call {
    const struct weir__op *op;
    int nin, nout;
    const struct weir__view *const *in; /* an optional input that is absent is NULL */
    struct weir__view *out;             /* infer fills type and shape; data is set before prepare */
    const void *params;
    unsigned cores; /* the core limit of the operator's engine, at least 1: decides the tiling */
    bool for_gpu;   /* the device runs source: choose tiling and scratch for it */
    const struct weir__model *model; /* of a device in virtual time; else NULL */
    void *scratch;                   /* op->scratch(call) bytes, 64-byte aligned */
    const weir_rank *rank;           /* of a collective: set from prepare on */
};

/* The cost of a call, independent of the device. */
struct weir__cost {
    double flops;
    double bytes;     /* read + written */
    double m, n, k;   /* of a matrix product, 0 for anything else */
    bool rows;        /* of a vector operator: it reduces rows */
    double units;     /* of attention: the number of stacks, each of m queries and k keys */
    bool causal;      /* of attention: each query sees only keys up to its own */
    const char *type; /* in which it computes, if not the first input's type: "i8", "f8" */
};

/* A rough time on one core, good enough to tell short operators from long ones. */
static inline double weir__cost_ns(const struct weir__cost *cost)
{
    return cost->flops / 32 + cost->bytes / 8;
}

/* Which ranks a collective meets. */
struct weir__member {
    bool is_collective; /* false: the call needs no other rank */
    uint64_t rank;      /* id of the rank it was made with; 0: find a rank of `group` */
    const char *group;  /* the group's name; "" matches any group */
    int64_t ranks;      /* the number of ranks that the group must have; 0: any number */
    int64_t of_some;    /* > 0: if `group` is "", prefer a group called `name` of so many ranks */
    const char *name; /* calls of one name are counted together; "": with the whole group's calls */
    int to, from;     /* of a pair: the other rank in `to` or `from`, and -1 in the other */
};

/* What a device must run: filled by prepare. */
struct weir__work {
    weir_kernel_fn fn;
    const struct weir__code *code; /* the same for devices that compile their kernels */
    unsigned blocks;    /* depends on shapes and call->cores only, never on which cores are free */
    unsigned phases;    /* more than 1 if the blocks need barriers */
    weir_engine engine; /* the row's, unless prepare changes it */
    bool gang;          /* likewise */
    bool together;      /* its cores are granted at once although it is not a gang */
    double block_us;    /* time of one block; 0: estimated from its cost */
    bool is_collective; /* args begin with a struct weir__meet; prepare fills its `offer` */
    size_t args_size;
    _Alignas(64) unsigned char args[WEIR_ARGS_MAX];
};

struct weir__op {
    const char *name; /* as in graph files */
    const char *summary;
    weir_engine engine;
    unsigned flags;
    int nin_min, nin_max, nout;
    size_t params_size;
    const struct weir__op_field *fields;
    size_t nfields;
    /* Checks the inputs against each other and fills out[i].dtype, ndim and shape. The caller fills
     * the strides. An error names both operands that do not fit. */
    weir_status (*infer)(struct weir__call *call);
    /* Replaces named sizes (tensor/size.h) in the parameters by their values in `sizes`. True if a
     * parameter has changed. NULL: the parameters cannot contain named sizes. */
    bool (*follow)(void *params, const int64_t *sizes);
    void (*cost)(const struct weir__call *call, struct weir__cost *cost);
    /* Returns the bytes of temporary memory needed beyond weir_block.local; NULL means none. Called
     * with shapes and strides of the outputs set. */
    size_t (*scratch)(const struct weir__call *call);
    /* Collectives: says which ranks meet; NULL for other operators. If call->rank is set, prepare
     * must produce a collective kernel of at least one block. */
    void (*member)(const void *params, struct weir__member *member);
    /* Chooses kernel, tiling and arguments. All pointers that it needs are in the call. */
    weir_status (*prepare)(const struct weir__call *call, struct weir__work *work);
    /* Elementwise rows and rows with parts: changes the address of one operand (-1: the output,
     * else an input) in prepared arguments. Its first element is now at `data`. */
    void (*place)(void *args, int operand, char *data);
    /* Returns the greatest number of equal parts into which the contiguous output can be cut in
     * row-major order, so that each part needs only the same part of the inputs in by_parts, and
     * the other inputs whole. For every divisor of that number taken as the number of rows, the
     * host kernel computes the rows of a struct weir__rows_block. It has one phase. 0: the output
     * cannot be cut. NULL: elementwise rows can be cut at every element, other rows not at all. */
    int64_t (*parts)(const struct weir__call *call);
    unsigned by_parts; /* bit i stands for input i; elementwise rows: all inputs */
    /* True if the blocks of this call can compute input i themselves as they read it. Input i is
     * the whole result of the call `maker`, which then needs no launch of its own. NULL: never.
     * The answer depends on sizes, not on data. */
    bool (*absorbs)(const struct weir__call *call, int i, const struct weir__call *maker);
    /* The kernel of prepare for calls that absorb n makers. `makers` are their prepared arguments;
     * each block also computes the elements of the makers' results that it reads. */
    weir_status (*run_absorbing)(const void *args, const void *const *makers, int n,
                                 const weir_block *block);
};

/* Whether an operator may write the very view that it reads: it then reads each element before it
 * writes that element, or packs the data that it sends. */
static inline bool weir__op_takes_same(const struct weir__op *op)
{
    return op->flags & (WEIR__OP_ELEMENTWISE | WEIR__OP_JOINS | WEIR__OP_COLLECTIVE);
}

/* Sets the defaults that prepare starts from. */
static inline void weir__work_init(struct weir__work *work, const struct weir__op *op)
{
    work->fn = NULL;
    work->code = NULL;
    work->blocks = work->phases = 1;
    work->engine = op->engine;
    work->gang = op->flags & WEIR__OP_GANG;
    work->together = false;
    work->block_us = 0;
    work->is_collective = false;
    work->args_size = 0;
}

/* Copies the call with its operands' views and its parameters into one allocation, which the caller
 * frees with weir__free; NULL when out of memory. For drivers that run the call later. */
struct weir__call *weir__call_copy(const struct weir__call *call);

#endif
