/* What stands in the way of overlap in a graph, by its modelled timeline: pairs of operators
 * that could run side by side and do not, streams that wait for each other's cores, what a
 * core limit would cost, and communication that nothing hides. */
#ifndef WEIR_GRAPH_PREDICT_ADVISE_H
#define WEIR_GRAPH_PREDICT_ADVISE_H

#include "graph/predict/predict.h"

/* Why two operators of one rank did not overlap. */
enum weir__apart {
    WEIR__APART_DATA,   /* one needs the other's result */
    WEIR__APART_STREAM, /* both are on one stream, and nothing else orders them */
    WEIR__APART_ENGINE, /* one waited for cores that the other had */
    WEIR__APART_ORDER,  /* other operators of their streams came between */
    WEIR__APARTS
};
extern const char *const weir__apart_names[WEIR__APARTS];

/* Times are picoseconds. */
struct weir__advice_pair {
    uint32_t rank, first, second; /* nodes */
    enum weir__apart why;
    uint64_t most; /* that overlap could hide: the shorter of the two */
    int64_t gain;  /* of the makespan, with the second on a stream of its own; 0 unless
                    * `why` is STREAM; less than 0 where that makes it slower */
};

/* `loser` was ready for that long while `winner` had the cores it needed. */
struct weir__advice_fight {
    uint32_t rank, loser, winner; /* streams */
    int pool;                     /* enum weir__sim_pool */
    uint64_t waited;
    uint32_t times;
};

struct weir__advice_limit {
    uint32_t rank, node;
    int cores;               /* of its engine, half of all */
    uint64_t alone, limited; /* what the operator takes */
    uint64_t makespan;       /* with it; UINT64_MAX for a deadlock */
};

struct weir__advice_comm {
    uint32_t rank, node;
    uint64_t took, exposed; /* exposed: while nothing computed on its rank */
};

struct weir__advice {
    struct weir__prediction prediction; /* of copies of the graphs, which are kept for it */
    weir_graph **copies;
    uint32_t nranks;
    struct weir__advice_pair *pairs; /* what is to gain most first, as the others */
    size_t npairs;
    struct weir__advice_fight *fights;
    size_t nfights;
    struct weir__advice_limit *limits;
    size_t nlimits;
    struct weir__advice_comm *comms;
    size_t ncomms;
};

/* Ranks that share a graph are told about once, by the first of them.
 * returns  what weir__predict does.
 * threads  as weir__predict. */
weir_status weir__advise(weir_graph *const *graphs, uint32_t nranks, struct weir__advice *out);
void weir__advice_fini(struct weir__advice *a);

#endif
