/* What a program is made with. */
#ifndef TESTS_CONFORMANCE_GRAPH_PROGRAMS_MAKER_H
#define TESTS_CONFORMANCE_GRAPH_PROGRAMS_MAKER_H

#include "conformance/graph/programs.h"

static const weir_dtype types[] = {WEIR_F32, WEIR_F16, WEIR_BF16, WEIR_F64, WEIR_I64,
                                   WEIR_I32, WEIR_I8,  WEIR_U8,   WEIR_BOOL};

struct maker {
    struct program *p;
    struct rng rng;
    weir_device *dev;
    weir_tensor *values[MAX_VALUES];
    int64_t sizes[4];
    struct sizes at;
    weir_cores cores;
};

static inline int below(struct maker *m, int n)
{
    return (int)rng_int(&m->rng, 0, n - 1);
}

/* Fills in operands and numbers for a step of a kind, as a guess: the device says whether they go
 * together. */
void maker_guess(struct maker *m, struct step *s);

#endif
