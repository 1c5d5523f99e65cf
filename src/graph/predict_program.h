/* Between predict.c and predict_program.c. */
#ifndef WEIR_GRAPH_PREDICT_PROGRAM_H
#define WEIR_GRAPH_PREDICT_PROGRAM_H

#include "graph/predict.h"

/* Which meeting the k-th node of a collective's name is, over all graphs. */
struct weir__meetings {
    struct weir__meeting_name {
        const char *name;
        uint32_t *ids; /* by k, from 1 */
        int n, cap;
        int used;       /* by the graph numbered last, */
        uint32_t graph; /* which is 1 + this */
    } * names;
    int n, cap;
    uint32_t count;
};
void weir__meetings_fini(struct weir__meetings *m);

/* Translates graph number `index`. */
weir_status weir__predict_graph_init(struct weir__predict_graph *pg, const weir_graph *g,
                                     const struct weir__predict_options *options, uint32_t nranks,
                                     uint32_t index, struct weir__meetings *meetings);
void weir__predict_graph_fini(struct weir__predict_graph *pg);

#endif
