/* Selects the experts of each token by their scores. If experts form groups, only those of the best
 * groups are selected. */
#ifndef WEIR_OPS_HOST_CHOICE_H
#define WEIR_OPS_HOST_CHOICE_H

#include "ops/host/isa.h"
#include "weir/launch.h"

struct weir__choice {
    const char *in;
    const char *bias; /* added to scores for comparison only; NULL: none */
    char *weights;    /* f32, or f64 for f64 logits */
    int64_t *experts;
    weir_dtype dtype, bias_type;
    int64_t tokens, n, k;
    int64_t groups, group_k; /* group_k == groups: all groups */
    bool sigmoid, best_two, renormalise;
    double outside, eps, scale;
    int64_t in_row, in_step, bias_step;
    int64_t weights_row, weights_step, experts_row, experts_step;
};

/* The largest number of experts. The scores of a token must fit the shared memory of a GPU
 * block. */
#define WEIR__CHOICE_MAX 1024

/* The block function; its arguments are the struct above. */
WEIR__ISA_DECLARE(weir_status, weir__choice_kernel, (const void *args, const weir_block *block));

#endif
