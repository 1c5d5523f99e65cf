/* The random graph that weir and every peer replay: each node after two earlier ones. */
#ifndef WEIR_BENCH_DAG_GEN_H
#define WEIR_BENCH_DAG_GEN_H

#include <stdlib.h>

enum { DAG_NODES = 1000 };

/* Node i, from 1 on, comes after deps[i][0] and deps[i][1]. Node 0 starts the graph. */
static inline void dag_generate(int deps[DAG_NODES][2])
{
    srand(1);
    deps[0][0] = deps[0][1] = 0;
    for (int i = 1; i < DAG_NODES; i++)
        for (int k = 0; k < 2; k++)
            deps[i][k] = rand() % i;
}

#endif
