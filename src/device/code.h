/* Kernels of devices that compile them from source.
 *
 * Such a device (WEIR__RUNS_SOURCE) cannot call host functions. It takes the same argument bytes
 * and a description of the source that reads them: kernels/NAME.cu has one entry, NAME, with two
 * parameters, the argument struct by value and a struct weir__code_context. The hardware may start
 * a kernel before earlier kernels have completed. So the entry calls await_earlier() first. Only
 * statements with the comment "of the arguments alone" may stand before that call.
 *
 * One source serves many types: it is compiled once for each variant in use. A variant is eight
 * bytes that the source sees as the macros V0 .. V7.
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
    uint32_t arch;     /* input: the GPU's compute capability, 90 for 9.0 */
    uint32_t counters; /* input: the number of counters in the context */
    uint32_t clusters; /* input: the most blocks of a cluster; 0 if there are no clusters */
    uint32_t cluster;  /* blocks of a cluster, which divide the grid; 0: there are none */
};

/* A stack of matrix products that a library may compute: c = a b + bias. Strides in elements. */
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

/* A copy between two strided tensors. Strides in elements. */
struct weir__copy {
    char *dst;
    const char *src; /* NULL: the packed elements follow the struct */
    enum { WEIR__COPY_DEVICE, WEIR__COPY_FROM_HOST, WEIR__COPY_TO_HOST } direction;
    uint32_t elem; /* bytes: 1, 2, 4 or 8 */
    int ndim;      /* at least 1 */
    int64_t shape[WEIR_MAX_DIMS], dst_stride[WEIR_MAX_DIMS], src_stride[WEIR_MAX_DIMS];
};

/* Sets all bytes to one value. */
struct weir__fill {
    char *address;
    size_t size;
    unsigned char value;
};

/* The second parameter of an entry. */
struct weir__code_context {
    /* For a kernel that may fail (report.h): */
    struct weir__code_failures *failures;
    uint64_t *claims;    /* by slot, in the device's own memory */
    uint64_t where;      /* WEIR__CODE_WHERE of the command that a failure belongs to */
    const uint64_t *run; /* if not NULL: read that value from here when the kernel runs */
    const char *name;    /* the operator's name on the host */
    const char *stream;  /* the name of its stream, if not the command's stream; else NULL */
    uint32_t phase;
    uint32_t cores; /* that it may use */
    /* For code that counts its blocks: words that only this launch uses. They are 0 when it begins,
     * and it must leave them 0. NULL if weir__code_launch.counters was 0. */
    uint32_t *counters;
};
enum { WEIR__CODE_COUNTERS = 2048 };

/* A command: the slot of its stream, and its number there. */
enum { WEIR__CODE_SEQ_BITS = 47, WEIR__CODE_STREAMS = 4096 };
#define WEIR__CODE_WHERE(slot, seq) ((uint64_t)(slot) << WEIR__CODE_SEQ_BITS | (seq))

/* The first failure of a stream. */
struct weir__code_failure {
    uint64_t seq;   /* of the command; written after the other fields; 0: no failure */
    uint64_t stale; /* written by the host: failures up to this number are of destroyed streams */
    const char *name, *stream;
    int64_t index, limit; /* the index, and the first index beyond the range */
    int64_t at; /* where, for weir__code.explain; without explain: the first valid index */
    int64_t reserved;
};

/* In memory that host and device can access; zeroed at first. */
struct weir__code_failures {
    uint64_t any; /* 1: a stream has failed since the device was opened */
    struct weir__code_failure of[WEIR__CODE_STREAMS];
};

/* A stack of matrices of two-byte elements from which a kernel fetches whole tiles: panels of 64
 * columns by tile_rows rows. Each row of a tile is 128 bytes; its 16-byte chunks are swizzled by
 * row number. Elements beyond `rows` and `columns` are 0. */
struct weir__code_tiled {
    const char *data; /* `data`, `row_bytes` and `reach` are multiples of 16 */
    int64_t row_bytes;
    int64_t reach; /* bytes from the first matrix to the last; one may begin at every 16th byte */
    int64_t rows, columns;
    uint32_t tile_rows; /* 256 at most */
};
#define WEIR__CODE_TILED 3
#define WEIR__CODE_RANKS 64 /* the most ranks whose memory a collective's arguments can name */

struct weir__text;

/* Memory that a host function reads or writes. `address` points into the function's arguments. */
struct weir__code_operand {
    void **address;
    size_t bytes;
    bool written;
};
#define WEIR__CODE_OPERANDS 72

struct weir__code {
    /* HOST: the host function weir__kernel.fn, of one block. */
    enum { WEIR__CODE_KERNEL, WEIR__CODE_COPY, WEIR__CODE_FILL, WEIR__CODE_HOST } kind;
    /* Of HOST: writes the operands in `args`, a copy of the arguments, and returns their number, at
     * most WEIR__CODE_OPERANDS. A device whose memory the host cannot read passes host copies of
     * the operands to the function. */
    int (*operands)(void *args, struct weir__code_operand *operands);
    /* The rest is for kernels. */
    const char *text;   /* the file and the entry */
    const char *source; /* the source itself, if it is not in kernels/; it need not call
                         * await_earlier */
    bool fails;         /* it may report an index that is out of range */
    bool contract;      /* a product and a sum may be contracted into one rounding */
    bool counts;        /* it can use counters */
    /* Writes the launch of one phase over at most `cores` cores. */
    void (*shape)(const void *args, unsigned phase, unsigned cores,
                  struct weir__code_launch *launch);
    /* NULL, or generates the source for these arguments. The variant that `shape` writes must then
     * differ between any two different sources. */
    void (*write)(const void *args, struct weir__text *text);
    /* NULL, or the code of one launch that runs several such calls. The calls follow each other on
     * the same stream and each produces `numel` packed elements. `join` adds a call to the
     * arguments of that launch: `joined_size` bytes, zeroed before the first call. An input that
     * has the address of an earlier call's output is that output. `keep` is false if the call's
     * output need not be written to memory. `join` returns false, with nothing changed, if there is
     * no room for the call. */
    const struct weir__code *joined;
    uint32_t joined_size;
    /* NULL, or the code of a joined launch that this call ends: no call is added after it. */
    const struct weir__code *after;
    bool (*join)(void *joined, const void *args, bool keep);
    unsigned phases; /* 0: as many as on the host */
    /* For collectives. Once all ranks have met, `gather` makes the entry's arguments, at most
     * WEIR_ARGS_MAX bytes, from this rank's and all peers' arguments. With `pull` the entry writes
     * no memory of its peers. `shown` writes which of this rank's memory the peers read, and
     * returns the number of entries. */
    void (*gather)(const void *args, const void *const *peers, bool pull, void *part);
    int (*shown)(const void *args, struct weir__code_shown *shown);
    /* NULL, or writes the stacks of matrices from which the launch fetches tiles and returns their
     * number, at most WEIR__CODE_TILED. The entry's third parameter is an array of their tensor
     * maps. */
    int (*tiled)(const void *args, const struct weir__code_launch *launch,
                 struct weir__code_tiled *tiled);
    /* NULL, or writes the error text of a failure that is not an index out of range. */
    void (*explain)(const void *args, const struct weir__code_failure *failure, char *text,
                    size_t size);
    /* NULL, or describes the call as a matrix product; false if libraries do not support it. */
    bool (*product)(const void *args, struct weir__product *product);
};

#endif
