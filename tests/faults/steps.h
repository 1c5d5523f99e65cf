/* The graph that faults are tried on: operators on three streams, order by every means, a
 * super kernel, an in-place update, a view as a result, and a constant that counts runs. */
#ifndef TESTS_FAULTS_STEPS_H
#define TESTS_FAULTS_STEPS_H

#include "base/base.h"
#include "inject.h"

/* Tensors of world.extra; the rest are the test's own. */
enum { X, SUM, TURNED, PRODUCT, SCALED, TOKEN, LAST, FREE };
/* Outputs of the graph: "last", "turned", "product". */
enum { STEPS_OUT = 3 };
/* The tensor of the world to whose elements every run adds 1. */
enum { COUNTED = 1 };

/* Makes world.graph; nothing fails. */
void steps_make_graph(struct world *w);

/* The graph ran that often. */
static inline void steps_check_count(struct world *w, int runs)
{
    float values[24];

    CHECK_OK(weir_tensor_read(w->tensors[COUNTED], values, sizeof values));
    CHECK_EQ((int)values[0], 1 + runs);
    CHECK_EQ((int)values[23], runs);
}

#endif
