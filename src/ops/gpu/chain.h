/* A chain of elementwise calls as one launch: each element is brought into registers once, goes
 * through all operations there, rounded to the storage type after each as memory would have it,
 * and what others need of it is written. The source is made for the chain (chain_source.c); it and
 * the host both read this header. */
#ifndef WEIR_OPS_GPU_CHAIN_H
#define WEIR_OPS_GPU_CHAIN_H

#include "ops/host/math/elementwise.h"

#define WEIR__CHAIN_STEPS 16
#define WEIR__CHAIN_OPERANDS 24
#define WEIR__CHAIN_DIMS 24
#define WEIR__CHAIN_STRIDES 56

/* An operation's inputs: operands by their number, and */
#define WEIR__CHAIN_CONSTANT (-1)        /* the step's constant, */
#define WEIR__CHAIN_RESULT(s) (-2 - (s)) /* what step s has given */
#define WEIR__CHAIN_NOWHERE (-1)         /* no operand: nobody else needs the result */

struct weir__chain_step {
    uint8_t code, nin;
    uint8_t out_type, in_type[WEIR__EW_MAX_IN];
    int8_t out, in[WEIR__EW_MAX_IN];
};

/* Elements in memory: packed if ndim is 0, else rows of dims[dim ..], strides[stride ..] apart. */
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
    const char *written[WEIR__CHAIN_STEPS]; /* by step: where its result is, or would be */
    uint8_t nsteps, noperands, nstrides, ndims;
};

/* A chain of which the last step's rows, or an earlier one's, are normalised as struct weir__norm
 * says: a block has a row of the elements in registers from its first step to the end. */
struct weir__chain_norm {
    struct weir__chain chain; /* first: calls before the norm are joined to it alone */
    char *out;
    const char *weight, *bias; /* or NULL */
    int64_t weight_step, bias_step, count, n;
    double eps;
    uint8_t type, centred, step; /* what is normalised: the result of that step */
};

#ifndef __CUDACC_RTC__
struct weir__text;

/* See struct weir__code: calls are struct weir__ew. */
bool weir__chain_join(void *chain, const void *ew, bool keep);

/* What a source is made for, beside the steps. */
struct weir__chain_form {
    uint8_t pack;                         /* elements a thread takes at once */
    uint8_t layout[WEIR__CHAIN_OPERANDS]; /* enum weir__layout */
};
void weir__chain_find_form(const struct weir__chain *chain, struct weir__chain_form *form);

/* How operands lie for form->pack elements at once. */
void weir__chain_find_layouts(const struct weir__chain *chain, struct weir__chain_form *form);
/* Adds what tells sources of chains apart. */
uint64_t weir__chain_hash(const struct weir__chain *chain, const struct weir__chain_form *form);
uint64_t weir__chain_mix(uint64_t hash, const void *bytes, size_t size);
/* The last step that wrote at the address; -1 if none did. */
int weir__chain_find_result(const struct weir__chain *chain, const char *data, uint8_t type);

/* chain_source.c */
void weir__chain_write(const void *chain, struct weir__text *text);
/* The body of a function of n elements from i on, up to what is written. */
void weir__chain_write_steps(const struct weir__chain *chain, const struct weir__chain_form *form,
                             struct weir__text *text);

/* chain_norm.c: calls are struct weir__norm */
bool weir__chain_norm_join(void *joined, const void *norm, bool keep);
#endif

#endif
