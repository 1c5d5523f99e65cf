/* Elementwise kernels: one walker over strided operands, one function per
 * operation and type on packed rows. */
#ifndef WEIR_OPS_HOST_ELEMENTWISE_H
#define WEIR_OPS_HOST_ELEMENTWISE_H

#include "ops/host/isa.h"
#include "weir/launch.h"

#define WEIR__EW_MAX_IN 3

/* Computes n packed elements of the compute type; `out` may be one of the inputs. `constant` points
 * to the two constants of the call (clamp's bounds). */
typedef void (*weir__ew_fn)(void *out, const void *const *in, int64_t n, const void *constant);

/* Divides numbers below 2^31 by a multiplication. */
struct weir__divisor {
    uint32_t magic, shift;
};

#ifndef __CUDACC_RTC__
/* For numbers n below 2^31: n / size is (n * magic / 2^32 + n) / 2^shift. `size` is not 0. */
static inline struct weir__divisor weir__divisor_of(int64_t size)
{
    uint32_t shift = 0;

    while ((int64_t)1 << shift < size)
        shift++;
    return (struct weir__divisor){
        (uint32_t)(((((uint64_t)1 << shift) - (uint64_t)size) << 32) / (uint64_t)size + 1), shift};
}
#endif

/* The arguments of a call's blocks. If all operands are packed in the same order, ndim is 0, and
 * the arrays after it are not copied. */
struct weir__ew {
    weir__ew_fn fn;     /* NULL: the input itself, converted */
    unsigned char code; /* the same for devices that compile: see WEIR__EW_UNARY */
    int64_t numel;
    char *out;
    const char *in[WEIR__EW_MAX_IN]; /* NULL: the first constant */
    double constant[2];              /* their first bytes hold values of the compute type */
    unsigned char nin;
    unsigned char out_type, out_compute;
    unsigned char in_type[WEIR__EW_MAX_IN], in_compute[WEIR__EW_MAX_IN];
    bool direct;      /* flat; every operand has its compute type, none is a constant */
    bool nontemporal; /* flat, written past the caches; operands have their compute types */
    int ndim;
    int64_t shape[WEIR_MAX_DIMS];
    int64_t out_stride[WEIR_MAX_DIMS];
    int64_t in_stride[WEIR__EW_MAX_IN][WEIR_MAX_DIMS];
    struct weir__divisor divisor[WEIR_MAX_DIMS]; /* for shape[d], if numel is below 2^31 */
};

enum weir__binary_code {
    WEIR__BINARY_ADD,
    WEIR__BINARY_SUB,
    WEIR__BINARY_MUL,
    WEIR__BINARY_DIV,
    WEIR__BINARY_POW,
    WEIR__BINARY_MAXIMUM,
    WEIR__BINARY_MINIMUM,
    WEIR__BINARY_BITWISE_AND,
    WEIR__BINARY_BITWISE_OR,
    WEIR__BINARY_BITWISE_XOR,
    WEIR__BINARY_LEFT_SHIFT,
    WEIR__BINARY_RIGHT_SHIFT,
    WEIR__BINARY_EQ, /* operators from here on give bool */
    WEIR__BINARY_NE,
    WEIR__BINARY_LT,
    WEIR__BINARY_LE,
    WEIR__BINARY_GT,
    WEIR__BINARY_GE,
    WEIR__BINARY_COUNT
};

enum weir__unary_code {
    WEIR__UNARY_NEG,
    WEIR__UNARY_ABS,
    WEIR__UNARY_EXP,
    WEIR__UNARY_LOG,
    WEIR__UNARY_SQRT,
    WEIR__UNARY_RSQRT,
    WEIR__UNARY_SIGMOID,
    WEIR__UNARY_TANH,
    WEIR__UNARY_RELU,
    WEIR__UNARY_GELU,
    WEIR__UNARY_SILU,
    WEIR__UNARY_CLAMP,
    WEIR__UNARY_SIN,
    WEIR__UNARY_COS,
    WEIR__UNARY_BITWISE_NOT,
    WEIR__UNARY_COUNT
};

/* Codes of all elementwise operations; binary ones use enum weir__binary_code. */
enum {
    WEIR__EW_UNARY = 32, /* + enum weir__unary_code */
    WEIR__EW_WHERE = 64,
    WEIR__EW_SWIGLU,
    WEIR__EW_CONVERT,
    WEIR__EW_CUBE, /* on a GPU: a floating-point power with the constant 3 */
};

/* By operation and type of the operands; NULL: not defined. */
struct weir__binary_table {
    weir__ew_fn fn[WEIR__BINARY_COUNT][WEIR_DTYPE_COUNT];
};
struct weir__unary_table {
    weir__ew_fn fn[WEIR__UNARY_COUNT][WEIR_DTYPE_COUNT];
};
WEIR__ISA_DECLARE_TABLE(const struct weir__binary_table, weir__binary);
WEIR__ISA_DECLARE_TABLE(const struct weir__unary_table, weir__unary);
/* condition (bool), a, b. One function per element size, since values are only copied. */
WEIR__ISA_DECLARE(weir__ew_fn, weir__where, (size_t elem));
/* silu(a) * b */
WEIR__ISA_DECLARE(void, weir__swiglu_f32,
                  (void *out, const void *const *in, int64_t n, const void *constant));
WEIR__ISA_DECLARE(void, weir__swiglu_f64,
                  (void *out, const void *const *in, int64_t n, const void *constant));

/* Computes elements begin..end-1 of the call in row-major order; `local` is a block's memory. */
WEIR__ISA_DECLARE(void, weir__ew_range,
                  (const struct weir__ew *e, int64_t begin, int64_t end, void *local));
/* The block function; its arguments are a struct weir__ew. */
WEIR__ISA_DECLARE(weir_status, weir__ew_kernel, (const void *args, const weir_block *block));

#endif
