/* What prevents overlap in a graph, from its modelled timeline: pairs of operators that could run
 * side by side but do not, streams that wait for each other's cores, the cost of core limits, and
 * communication that no computation hides. */
#ifndef WEIR_GRAPH_PREDICT_ADVISE_H
#define WEIR_GRAPH_PREDICT_ADVISE_H

#include "graph/predict/predict.h"

/* Why two operators of one rank did not overlap. */
enum weir__apart {
    WEIR__APART_DATA,   /* one needs the other's result */
    WEIR__APART_STREAM, /* both are on one stream, and nothing else orders them */
    WEIR__APART_ENGINE, /* one waited for cores that the other held */
    WEIR__APART_ORDER,  /* other operators of their streams came between */
    WEIR__APARTS
};
extern const char *const weir__apart_names[WEIR__APARTS];

/* Times are picoseconds. */
struct weir__advice_pair {
    uint32_t rank, first, second; /* nodes */
    enum weir__apart why;
    uint64_t most; /* time that overlap could hide at most: the shorter of the two */
    int64_t gain;  /* change of the makespan with the second on a stream of its own; 0 unless `why`
                    * is STREAM; negative if that is slower */
};

/* `loser` was ready for this long while `winner` held the cores it needed. */
struct weir__advice_fight {
    uint32_t rank, loser, winner; /* streams */
    int pool;                     /* enum weir__sim_pool */
    uint64_t waited;
    uint32_t times;
};

struct weir__advice_limit {
    uint32_t rank, node;
    int cores;               /* of its engine, half of all */
    uint64_t alone, limited; /* the operator's time without and with the limit */
    uint64_t makespan;       /* with the limit; UINT64_MAX for a deadlock */
};

struct weir__advice_comm {
    uint32_t rank, node;
    uint64_t took, exposed; /* exposed: while nothing computed on its rank */
};

struct weir__advice {
    struct weir__prediction prediction; /* of copies of the graphs, which live as long as it */
    weir_graph **copies;
    uint32_t nranks;
    struct weir__advice_pair *pairs; /* largest possible gain first, as in the other lists */
    size_t npairs;
    struct weir__advice_fight *fights;
    size_t nfights;
    struct weir__advice_limit *limits;
    size_t nlimits;
    struct weir__advice_comm *comms;
    size_t ncomms;
};

/* Ranks that share a graph are reported once, under the first of them.
 * returns  as weir__predict.
 * threads  as weir__predict. */
weir_status weir__advise(weir_graph *const *graphs, uint32_t nranks, struct weir__advice *out);
void weir__advice_fini(struct weir__advice *a);

#endif
