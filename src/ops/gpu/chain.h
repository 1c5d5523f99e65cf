/* A chain of elementwise calls as one launch. Each element is loaded into registers once and goes
 * through all operations. After each one it is rounded to the storage type, as if it went through
 * memory. Only results that are needed elsewhere are written. The source is generated for the chain
 * (chain_source.c); the generated source and the host both include this header. */
#ifndef WEIR_OPS_GPU_CHAIN_H
#define WEIR_OPS_GPU_CHAIN_H

#include "ops/host/math/elementwise.h"

#define WEIR__CHAIN_STEPS 16
#define WEIR__CHAIN_OPERANDS 24
#define WEIR__CHAIN_DIMS 24
#define WEIR__CHAIN_STRIDES 56

/* An operation's inputs: the number of an operand, or one of these. */
#define WEIR__CHAIN_CONSTANT (-1)        /* the step's constant */
#define WEIR__CHAIN_RESULT(s) (-2 - (s)) /* the result of step s */
#define WEIR__CHAIN_NOWHERE (-1)         /* no operand: the result is not written */

struct weir__chain_step {
    uint8_t code, nin;
    uint8_t out_type, in_type[WEIR__EW_MAX_IN];
    int8_t out, in[WEIR__EW_MAX_IN];
};

/* Elements in memory: packed if ndim is 0, else with dims dims[dim ..] and strides strides[stride
 * ..]. */
struct weir__chain_operand {
    char *data;
    uint8_t type, ndim, dim, stride;
};

struct weir__chain {
    int64_t numel;
    double constant[WEIR__CHAIN_STEPS][2];
    struct weir__chain_operand operand[WEIR__CHAIN_OPERANDS];
    int64_t stride[WEIR__CHAIN_STRIDES]; /* in elements */
    struct weir__chain_dim {
        uint32_t size;
        struct weir__divisor divisor;
    } dim[WEIR__CHAIN_DIMS];
    struct weir__chain_step step[WEIR__CHAIN_STEPS];
    const char *written[WEIR__CHAIN_STEPS]; /* by step: the address of its result, even if it is not
                                             * written */
    uint8_t nsteps, noperands, nstrides, ndims;
};

/* A chain whose last or an earlier step's result is normalised as in struct weir__norm. A block
 * keeps a row in registers from the first step to the end. */
struct weir__chain_norm {
    struct weir__chain chain; /* first: calls before the norm are joined to it */
    char *out;
    const char *weight, *bias; /* NULL if absent */
    int64_t weight_step, bias_step, count, n;
    double eps;
    uint8_t type, centred, step; /* step: the one whose result is normalised */
};

#ifndef __CUDACC_RTC__
struct weir__text;

/* See struct weir__code; `ew` is a struct weir__ew. */
bool weir__chain_join(void *chain, const void *ew, bool keep);

/* The properties, besides the steps, that a source is generated for. */
struct weir__chain_form {
    uint8_t pack;                         /* elements that a thread takes at once */
    uint8_t layout[WEIR__CHAIN_OPERANDS]; /* enum weir__layout */
};
void weir__chain_find_form(const struct weir__chain *chain, struct weir__chain_form *form);

/* Finds the layout of each operand for form->pack elements at once. */
void weir__chain_find_layouts(const struct weir__chain *chain, struct weir__chain_form *form);
/* A hash of everything that distinguishes the sources of chains. */
uint64_t weir__chain_hash(const struct weir__chain *chain, const struct weir__chain_form *form);
uint64_t weir__chain_mix(uint64_t hash, const void *bytes, size_t size);
/* The last step whose result is at the address; -1 if there is none. */
int weir__chain_find_result(const struct weir__chain *chain, const char *data, uint8_t type);

/* chain_source.c */
void weir__chain_write(const void *chain, struct weir__text *text);
/* Writes the body of a function that computes n elements from i on and stores the results. */
void weir__chain_write_steps(const struct weir__chain *chain, const struct weir__chain_form *form,
                             struct weir__text *text);

/* chain_norm.c: `norm` is a struct weir__norm. */
bool weir__chain_norm_join(void *joined, const void *norm, bool keep);
#endif

#endif
