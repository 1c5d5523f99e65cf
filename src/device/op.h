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
    WEIR__OP_DATA_DEPENDENT = 1 << 1, /* the true output size is known only after the run */
    WEIR__OP_IN_PLACE = 1 << 2,       /* the first input is also the output: nout is 0 */
    WEIR__OP_IGNORES_LIMIT = 1 << 3,  /* host engine */
    WEIR__OP_ALWAYS_RUNS = 1 << 4,    /* in a graph also if nobody uses its result */
    WEIR__OP_ELEMENTWISE = 1 << 5,    /* output element i needs only element i of what is
                                       * broadcast to it; blocks cut a contiguous output in
                                       * row-major order, at multiples of 64 elements */
    WEIR__OP_OVERWRITES = 1 << 6,     /* in place, and what was there does not matter */
    WEIR__OP_COLLECTIVE = 1 << 7,     /* meets its peers on other ranks: `member` says whom */
    WEIR__OP_JOINS = 1 << 8,          /* its code may be one that joins others (device/code.h);
                                       * blocks cut the output as those of elementwise operators
                                       * do if its one input is contiguous */
    WEIR__OP_ENDS_CHAIN = 1 << 9,     /* its code may end a launch of joined ones: output row i
                                       * needs only row i of the first input */
    WEIR__OP_BESIDE = 1 << 10,        /* its code may be one that joins others of the same
                                       * operator, which touch nothing that it writes */
};

/* A block of a launch that runs its operators a few rows at a time (graph/pass/fuse.c): `count` is
 * 0 in it, and an operator does rows begin..end-1 of `rows`. */
struct weir__rows_block {
    weir_block block;
    int64_t rows, begin, end;
};

/* A parameter of an operator, so that graphs can be written down and read back. A field
 * "nX" beside an array "X" says how many entries of it count. */
struct weir__op_field {
    const char *name;
    enum {
        WEIR__FIELD_INT,
        WEIR__FIELD_FLOAT,
        WEIR__FIELD_BOOL,
        WEIR__FIELD_DTYPE,
        WEIR__FIELD_STRING, /* one string, with its 0 in an array of `count` bytes */
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
    unsigned cores; /* cores in force for the operator's engine, at least 1: decides the tiling */
    bool for_gpu;   /* the device runs source: tiling and scratch are for that */
    const struct weir__model *model; /* of a device in virtual time; else NULL */
    void *scratch;                   /* as many bytes as op->scratch asked for, 64-byte aligned */
    const weir_rank *rank;           /* of a collective, once it is known: from prepare on */
};

/* What the call costs, whatever it runs on. */
struct weir__cost {
    double flops;
    double bytes;     /* read + written */
    double m, n, k;   /* of a matrix product, 0 for anything else */
    bool rows;        /* of a vector operator: it reduces rows */
    double units;     /* of attention: stacks of queries; m queries and k keys each, and */
    bool causal;      /* each query sees only keys up to its own */
    const char *type; /* it computes in, where that is not the first input's: "i8", "f8" */
};

/* What one core takes for it, roughly: enough to tell short from long. */
static inline double weir__cost_ns(const struct weir__cost *cost)
{
    return cost->flops / 32 + cost->bytes / 8;
}

/* Who a collective meets. */
struct weir__member {
    bool meets;        /* false: it runs alone after all */
    uint64_t rank;     /* id of the rank it was made with; 0: one of `group` is to be found */
    const char *group; /* by name; "" is any */
    int64_t ranks;     /* that the group must have; 0: any number */
    int64_t of_some;   /* of any group: that of its name with so many ranks, if it is given */
    const char *name;  /* calls of one name count together; "" with those of the whole group */
    int to, from;      /* of a pair: the other rank in `to` or `from`, and -1 in the other */
};

/* What a device is asked to run: filled by prepare. */
struct weir__work {
    weir_kernel_fn fn;
    const struct weir__code *code; /* the same for devices that compile their kernels */
    unsigned blocks;               /* from shapes and call->cores only, never from what is free */
    unsigned phases;               /* 1 unless blocks must meet */
    weir_engine engine;            /* the row's, unless prepare says otherwise */
    bool gang;                     /* likewise */
    bool together;                 /* its cores are granted at once, though it is no gang */
    double block_us;               /* what a block takes, where the row knows; 0: by cost */
    bool meets; /* args begin with a struct weir__meet, of which prepare fills `offer` */
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
    /* Checks the inputs against each other and fills out[i].dtype, ndim, shape
     * (strides are filled by the caller). Says both sides on a mismatch. */
    weir_status (*infer)(struct weir__call *call);
    /* Of rows whose parameters may have named sizes (tensor/size.h): puts in what they are now, by
     * their values. Says whether that is something else than before. NULL: none has. */
    bool (*follow)(void *params, const int64_t *sizes);
    void (*cost)(const struct weir__call *call, struct weir__cost *cost);
    /* Bytes of temporary memory beyond weir_block.local; NULL means none. Shapes and
     * strides of the outputs are set. */
    size_t (*scratch)(const struct weir__call *call);
    /* Collectives: what the rendezvous is; NULL for other operators. With call->rank set, prepare
     * must then leave a kernel that meets, of at least one block. */
    void (*member)(const void *params, struct weir__member *member);
    /* Picks kernel, tiling and arguments. All pointers it needs are in the call. */
    weir_status (*prepare)(const struct weir__call *call, struct weir__work *work);
    /* Of elementwise rows and of those with parts: prepared arguments find one operand (-1: the
     * output, else an input) elsewhere, its first element at `data`. */
    void (*place)(void *args, int operand, char *data);
    /* Into how many equal parts the output, which is contiguous, can be cut in row-major order so
     * that each needs but the same part of the inputs in by_parts, and the others as they are. The
     * host's kernel does the rows' share of a struct weir__rows_block for every number of rows that
     * divides it, and has one phase. 0: it cannot. NULL: as many as there are elements, of
     * elementwise rows; none, of others. */
    int64_t (*parts)(const struct weir__call *call);
    unsigned by_parts; /* bit i is input i; of elementwise rows all are */
    /* Of rows whose blocks can make inputs as they read them: whether this call can do so with its
     * input i, which is all that `maker` gives. NULL: none. Asked of sizes, not of data. */
    bool (*absorbs)(const struct weir__call *call, int i, const struct weir__call *maker);
    /* The kernel of prepare, which makes what n calls were prepared for, with these arguments,
     * as well: each of its blocks what it reads of that. */
    weir_status (*run_absorbing)(const void *args, const void *const *makers, int n,
                                 const weir_block *block);
};

/* Whether a view that it writes may be the very view that it reads: then it reads each element
 * before it writes that one, or packs what it sends. */
static inline bool weir__op_takes_same(const struct weir__op *op)
{
    return op->flags & (WEIR__OP_ELEMENTWISE | WEIR__OP_JOINS | WEIR__OP_COLLECTIVE);
}

/* What prepare starts from. */
static inline void weir__work_init(struct weir__work *work, const struct weir__op *op)
{
    work->fn = NULL;
    work->code = NULL;
    work->blocks = work->phases = 1;
    work->engine = op->engine;
    work->gang = op->flags & WEIR__OP_GANG;
    work->together = false;
    work->block_us = 0;
    work->meets = false;
    work->args_size = 0;
}

/* A copy of its own, operands' descriptions and parameters included, in one piece that weir__free
 * frees; NULL when out of memory. For drivers that run the call later. */
struct weir__call *weir__call_copy(const struct weir__call *call);

#endif
