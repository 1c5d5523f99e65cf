/* Shared by predict.c, predict_alike.c, predict_kinds.c and predict_program.c. */
#ifndef WEIR_GRAPH_PREDICT_PREDICT_PROGRAM_H
#define WEIR_GRAPH_PREDICT_PREDICT_PROGRAM_H

#include "graph/predict/predict.h"

/* Maps the k-th node with a collective's name to its rendezvous, over all graphs. */
struct weir__rendezvous_table {
    struct weir__rendezvous_name {
        const char *name;
        bool group;    /* the name is a group's */
        int from, to;  /* for the group's point-to-point pairs; -1 for the whole group */
        uint32_t *ids; /* by k, counted from 1 */
        int n, cap;
        int used;       /* how many of `ids` the graph translated last has used */
        uint32_t graph; /* number of that graph + 1 */
        uint32_t ranks; /* ranks that have a Kernel of this name with `ranks` */
        uint32_t seen;  /* graphs counted so far: up to this graph + 1 */
    } * names;
    int n, cap;
    uint32_t count;
    uint32_t *sizes; /* number of ranks that meet, by id - 1 */
    int cap_sizes;
};
void weir__rendezvous_table_fini(struct weir__rendezvous_table *m);
/* Counts the ranks that have collectives of only some ranks: `g` is graph number `index`, run by
 * `copies` ranks. */
weir_status weir__rendezvous_count(struct weir__rendezvous_table *m, const weir_graph *g,
                                   uint32_t index, uint32_t copies);

/* ---- predict_alike.c ---- */

/* Whether all ranks do the same at the same time. */
bool weir__predict_is_alike(const struct weir__prediction *p,
                            const struct weir__rendezvous_table *rendezvous, uint64_t seed);
/* Replays one rank for all. Its deadlock report shows one rank only: replay all ranks for a full
 * one. */
weir_status weir__predict_alike(const struct weir__sim_limits *limits,
                                const struct weir__replay_program *program, uint32_t nranks,
                                uint32_t nrendezvous, const struct weir__replay_options *how,
                                struct weir__replay_result *out);

/* ---- predict_kinds.c ---- */

/* The operators of a graph, each kept once in pg->ops. Free `slots` afterwards. */
struct weir__op_kinds {
    uint32_t *slots; /* by hash: an index into pg->ops; 0 means free */
    uint32_t nslots; /* a power of two, more than twice the number of kinds */
    int n, cap;      /* of pg->ops */
};
/* The index of an operator like `op` in pg->ops; it is added if there is none. */
weir_status weir__op_kinds_keep(struct weir__predict_graph *pg, struct weir__op_kinds *kinds,
                                const struct weir__sim_op *op, uint32_t *index);

/* ---- predict_program.c ---- */

/* The place of a graph in a prediction: its number `index`, its first `rank` of `nranks`, and
 * whether other ranks share it. */
struct weir__predict_place {
    uint32_t index, rank, nranks;
    bool shared;
};
weir_status weir__predict_graph_init(struct weir__predict_graph *pg, const weir_graph *g,
                                     const struct weir__predict_options *options,
                                     const struct weir__predict_place *place,
                                     struct weir__rendezvous_table *rendezvous);
void weir__predict_graph_fini(struct weir__predict_graph *pg);

#endif
