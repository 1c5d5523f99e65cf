/* Common code of attention for training and for inference. */
#ifndef WEIR_OPAPI_ATTENTION_H
#define WEIR_OPAPI_ATTENTION_H

#include "run.h"

struct attention {
    tensor *q, *k, *v;   /* in `layout` */
    tensor *bias, *mask; /* bias is added; true in mask means masked; both may be NULL */
    bool bias_scaled;    /* scale * (q k' + bias) instead of scale * q k' + bias */
    const aclIntArray *q_lengths, *kv_lengths;
    bool cumulative; /* the lengths are ends in a packed batch */
    const char *layout;
    int64_t heads, kv_heads; /* kv_heads 0: the same as heads */
    double scale;
    int64_t before, after, sparse;
};

/* The scores of a group of queries. */
struct scores {
    tensor *e;          /* exp(score - most), 0 where masked; [b, n, sq, sk] */
    tensor *most, *sum; /* [b, n, sq, 1] */
};

bool layout_is(const char *layout, const char *what);
/* Convert to [batch, heads, length, size], and back. */
tensor *to_heads(struct call *c, tensor *x, const char *layout, int64_t heads);
tensor *from_heads(struct call *c, tensor *x, const char *layout);
/* Computes one group of queries; `stats` may be NULL. */
tensor *attend(struct call *c, const struct attention *a, tensor *q, tensor *k, tensor *v,
               struct scores *stats);
/* Computes everything and writes it to the operands with these indices; those after `out` may be
 * -1. */
void attention_run(struct call *c, struct attention *a, int out, int most, int sum, int lse);
/* Fails if one of the operands from..to is given. */
void attention_refuse(struct call *c, int from, int to);

#endif
