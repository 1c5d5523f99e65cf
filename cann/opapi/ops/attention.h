/* What training's and inference's attention share. */
#ifndef WEIR_OPAPI_ATTENTION_H
#define WEIR_OPAPI_ATTENTION_H

#include "run.h"

struct attention {
    tensor *q, *k, *v;   /* as given */
    tensor *bias, *mask; /* added; true takes no part; or NULL */
    bool bias_scaled;    /* scale * (q k' + bias) */
    const aclIntArray *q_lengths, *kv_lengths;
    bool cumulative; /* lengths are ends in a row of all tokens */
    const char *layout;
    int64_t heads, kv_heads; /* kv_heads 0: as many */
    double scale;
    int64_t before, after, sparse;
};

/* What a group of queries comes to. */
struct scores {
    tensor *e;          /* exp(score - most), 0 where masked; [b, n, sq, sk] */
    tensor *most, *sum; /* [b, n, sq, 1] */
};

bool layout_is(const char *layout, const char *what);
/* To [batch, heads, length, size], and back. */
tensor *to_heads(struct call *c, tensor *x, const char *layout, int64_t heads);
tensor *from_heads(struct call *c, tensor *x, const char *layout);
/* One group of queries; `stats` may be NULL. */
tensor *attend(struct call *c, const struct attention *a, tensor *q, tensor *k, tensor *v,
               struct scores *stats);
/* All of it, into the operands of these numbers; those after `out` may be -1. */
void attention_run(struct call *c, struct attention *a, int out, int most, int sum, int lse);
/* Operands that must be absent. */
void attention_refuse(struct call *c, int from, int to);

#endif
