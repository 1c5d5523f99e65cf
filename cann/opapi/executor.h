/* Shared by the two phases of an operator: its row in the table, and its operands. */
#ifndef WEIR_OPAPI_EXECUTOR_H
#define WEIR_OPAPI_EXECUTOR_H

#include "object.h"

struct call;

/* One operand of any kind; 8 bytes. */
union arg {
    const void *object;
    const aclTensor *tensor;
    const aclTensorList *tensors;
    const aclScalar *scalar;
    const aclScalarList *scalars;
    const aclIntArray *ints;
    const aclFloatArray *floats;
    const aclBoolArray *bools;
    const char *text;
    int64_t i;
    double f;
};

/* The letters of aclnn_ops.h. */
enum operand_kind {
    OPERAND_T = 'T',
    OPERAND_O = 'O',
    OPERAND_X = 'X',
    OPERAND_L = 'L',
    OPERAND_M = 'M',
    OPERAND_S = 'S',
    OPERAND_Z = 'Z',
    OPERAND_N = 'N',
    OPERAND_D = 'D',
    OPERAND_A = 'A',
    OPERAND_C = 'C',
    OPERAND_VALUE = 'v', /* a plain number, not an object */
};

struct operand {
    const char *name;
    char kind;
    bool optional;
};

/* Sets of types, for the first tensor of an operator. */
enum {
    TYPES_FLOAT = 1 << WEIR_F32 | 1 << WEIR_F16 | 1 << WEIR_BF16 | 1 << WEIR_F64,
    TYPES_TOKEN = 1 << WEIR_F32 | 1 << WEIR_F16 | 1 << WEIR_BF16,
    TYPES_INT = 1 << WEIR_I64 | 1 << WEIR_I32 | 1 << WEIR_I8 | 1 << WEIR_U8,
    TYPES_NUMBER = TYPES_FLOAT | TYPES_INT,
    TYPES_BITS = TYPES_INT | 1 << WEIR_BOOL,
    TYPES_ALL = TYPES_NUMBER | 1 << WEIR_BOOL,
    TYPES_INDEX = 1 << WEIR_I64 | 1 << WEIR_I32,
    TYPES_I8 = 1 << WEIR_I8,
    TYPES_CARRIED = 1 << 30, /* also types that weir lacks, if all tensors have the same type */
    TYPES_MOVE = TYPES_ALL | TYPES_CARRIED,
    TYPES_INT4 = 1 << 29, /* tensors other than the first may be int4; `unpacked` reads them */
    TYPES_FLOAT_INT4 = TYPES_FLOAT | TYPES_INT4,
};

typedef void run_fn(struct call *c);

struct row {
    const char *name; /* without aclnn */
    run_fn *run;
    unsigned types;
    int count;
    const struct operand *operands;
};

enum { ARGS_INLINE = 24 };

struct aclOpExecutor {
    struct object object;
    const struct row *row;
    run_fn *run; /* the row's, or its complex form */
    bool repeatable;
    int count;
    union arg *args;
    union arg few[ARGS_INLINE];
};

void executor_free_contents(aclOpExecutor *executor);

/* Queues the operator's work by calling `run` (call.c). */
aclnnStatus call_run(const struct row *row, run_fn *run, const union arg *args, aclrtStream stream);
/* Returns the row's function for complex numbers, or NULL (ops/complex.c). */
run_fn *complex_run(const struct row *row);

/* The two phases. */
aclnnStatus executor_make(const struct row *row, const union arg *args, uint64_t *workspace,
                          aclOpExecutor **out);
aclnnStatus executor_run(const struct row *row, aclOpExecutor *executor, aclrtStream stream);

#endif
