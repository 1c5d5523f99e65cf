/* Kernels of devices that compile them from source.
 *
 * Such a device (WEIR__RUNS_SOURCE) has no use for a function of the host. It takes the same
 * argument bytes and a description of the source that reads them: kernels/NAME.cu has one entry,
 * NAME, with two parameters, the argument struct by value and a struct weir__code_context. Its
 * first statement is await_earlier(), or one that is marked to be of the arguments alone, and that
 * behind it: it may be started while the kernels before it end.
 *
 * One source serves many types: it is compiled once for each variant that is asked for. A
 * variant is eight bytes that the source finds as the macros V0 .. V7.
 */
#ifndef WEIR_DEVICE_CODE_H
#define WEIR_DEVICE_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/shown.h"
#include "weir/tensor.h"

/* How a call is spread over the device. */
struct weir__code_launch {
    uint8_t variant[8];
    uint32_t grid;     /* blocks; 0 launches nothing */
    uint32_t threads;  /* of a block */
    uint32_t shared;   /* bytes beyond what the source declares */
    uint32_t arch;     /* told, not asked: the GPU's compute capability, 90 for 9.0, */
    uint32_t counters; /* and how many there are in the context */
};

/* A stack of matrix products that a library may do: c = a b + bias. Strides in elements. */
struct weir__product {
    weir_dtype dtype;
    int64_t m, n, k;
    const char *a, *b, *bias; /* bias is NULL or n elements */
    char *c;
    int64_t a_row, a_col, b_row, b_col, c_row, c_col, bias_step;
    int ndims; /* of the stack */
    int64_t shape[WEIR_MAX_DIMS];
    int64_t a_step[WEIR_MAX_DIMS], b_step[WEIR_MAX_DIMS], c_step[WEIR_MAX_DIMS];
};

/* Elements moved between two places of any strides, in elements. */
struct weir__copy {
    char *dst;
    const char *src; /* NULL: the elements follow the struct, packed */
    enum { WEIR__COPY_DEVICE, WEIR__COPY_FROM_HOST, WEIR__COPY_TO_HOST } direction;
    uint32_t elem; /* bytes: 1, 2, 4 or 8 */
    int ndim;      /* at least 1 */
    int64_t shape[WEIR_MAX_DIMS], dst_stride[WEIR_MAX_DIMS], src_stride[WEIR_MAX_DIMS];
};

/* Bytes of one value. */
struct weir__fill {
    char *address;
    size_t size;
    unsigned char value;
};

/* What an entry is told beside its arguments. */
struct weir__code_context {
    /* For a kernel that may fail (report.h): */
    struct weir__code_failures *failures;
    uint64_t *claims;    /* by slot, in the device's own memory */
    uint64_t where;      /* WEIR__CODE_WHERE of the command that fails with it, */
    const uint64_t *run; /* or a place that has it when the kernel runs; else NULL */
    const char *name;    /* what the host calls the operator, */
    const char *stream;  /* and the stream it is on, if that is not the command's; else NULL */
    uint32_t phase;
    uint32_t cores; /* that it may use */
    /* For code that counts its blocks: words of its own that are 0 when it begins, and when it
     * ends; NULL if the launch was told of none. */
    uint32_t *counters;
};
enum { WEIR__CODE_COUNTERS = 2048 };

/* A command: the slot of its stream, and its number there. */
enum { WEIR__CODE_SEQ_BITS = 47, WEIR__CODE_STREAMS = 4096 };
#define WEIR__CODE_WHERE(slot, seq) ((uint64_t)(slot) << WEIR__CODE_SEQ_BITS | (seq))

/* The first failure of a stream. */
struct weir__code_failure {
    uint64_t seq;   /* of the command, once the rest is there; 0: none */
    uint64_t stale; /* the host's: failures up to this one are of streams that are gone */
    const char *name, *stream;
    int64_t index, limit; /* an index and the first one that is out of range */
    int64_t at;           /* where, for weir__code.explain; without it, the first in range */
    int64_t reserved;
};

/* In memory that both sides see, 0 at first. */
struct weir__code_failures {
    uint64_t any; /* 1: some stream has failed, ever */
    struct weir__code_failure of[WEIR__CODE_STREAMS];
};

/* A stack of matrices of two-byte elements that a kernel has whole tiles fetched of: panels of 64
 * columns by tile_rows rows, each row 128 bytes whose chunks of 16 are exchanged by row number.
 * Elements beyond `rows` and `columns` are 0. */
struct weir__code_tiled {
    const char *data; /* a multiple of 16, as the two below */
    int64_t row_bytes;
    int64_t reach; /* bytes from the first matrix to the last: one may begin at every 16 */
    int64_t rows, columns;
    uint32_t tile_rows; /* 256 at most */
};
#define WEIR__CODE_TILED 3
#define WEIR__CODE_RANKS 64 /* whose memory a part of a collective names in its arguments */

struct weir__text;

/* Memory that a function of the host reads or writes: `address` is where its arguments have it. */
struct weir__code_operand {
    void **address;
    size_t bytes;
    bool written;
};
#define WEIR__CODE_OPERANDS 72

struct weir__code {
    /* HOST: weir__kernel.fn itself, of one block. */
    enum { WEIR__CODE_KERNEL, WEIR__CODE_COPY, WEIR__CODE_FILL, WEIR__CODE_HOST } kind;
    /* Of HOST: the operands in a copy of the arguments, WEIR__CODE_OPERANDS at most, and how many.
     * A device whose memory the host cannot read shows copies of them to the function. */
    int (*operands)(void *args, struct weir__code_operand *operands);
    /* The rest is for kernels. */
    const char *text;   /* the file and the entry */
    const char *source; /* the source itself, where it is none of kernels/; it need not wait */
    bool fails;         /* it may report an index that is out of range */
    bool contract;      /* a product and a sum may be rounded once */
    bool counts;        /* it can use counters */
    /* The spread of one phase over at most `cores` cores. */
    void (*shape)(const void *args, unsigned phase, unsigned cores,
                  struct weir__code_launch *launch);
    /* NULL, or writes the source where each variant has its own. The variant that `shape` gives
     * must then tell any two such sources apart. */
    void (*write)(const void *args, struct weir__text *text);
    /* NULL, or how calls that each give `numel` packed elements, one after the other on the same
     * stream, become one launch of `joined`: adds a call to that launch's arguments, of
     * `joined_size` bytes that are 0 before the first. An input that has the address of an earlier
     * call's output is that output; `keep` says whether memory needs the call's own. False if
     * there is no room for it, with nothing changed. */
    const struct weir__code *joined;
    uint32_t joined_size;
    /* NULL, or what the launch is that this call ends: nothing is added to it any more. */
    const struct weir__code *after;
    bool (*join)(void *joined, const void *args, bool keep);
    unsigned phases; /* if they are not the host's: how many; 0 otherwise */
    /* For collectives. The entry takes, in the place of the arguments, what `gather` makes of them
     * and of all ranks' once the ranks have met, of WEIR_ARGS_MAX bytes at most. With `pull` it
     * writes nothing of its peers'. `shown` tells what they read of its own, and how many. */
    void (*gather)(const void *args, const void *const *peers, bool pull, void *part);
    int (*shown)(const void *args, struct weir__code_shown *shown);
    /* NULL, or what the launch fetches tiles of; returns how many, up to WEIR__CODE_TILED. The
     * entry has as many maps of theirs as its third parameter, one behind the other. */
    int (*tiled)(const void *args, const struct weir__code_launch *launch,
                 struct weir__code_tiled *tiled);
    /* NULL, or the sentence for a failure that is no index out of range. */
    void (*explain)(const void *args, const struct weir__code_failure *failure, char *text,
                    size_t size);
    /* NULL, or what the call is as a product; false if no library can be expected to do it. */
    bool (*product)(const void *args, struct weir__product *product);
};

#endif
