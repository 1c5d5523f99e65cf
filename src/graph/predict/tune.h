/* Tuning: searches for another placement, order, priority or core limit of the same operators that
 * is faster on the model, and reports the gain of each change.
 *
 *     weir__tune(graphs, nranks, &(struct weir__tune_options){.budget_s = 10}, &t);
 *     ... t.before, t.after, t.changes[i].text, t.graphs[t.graph_of[rank]] ...
 *     weir__tuned_fini(&t);
 *
 * What may change. A node with a label stays on its stream and keeps its order there, since that
 * may be the only order its author gave. The priorities and core limits of the file stay too. Nodes
 * without a label are ordered by data and control edges alone and move freely. With `relabel` all
 * nodes move freely, and every priority and limit may change. Collectives of one name keep their
 * order, because the k-th meets the k-th of other ranks. Nodes of one name on several ranks, and
 * those of one super kernel, change together.
 *
 * The result is never slower than the input. The deadlock checker finds nothing in it, under either
 * policy, that it does not find in the input. The same seed gives the same result unless the budget
 * or poll() ends the search.
 */
#ifndef WEIR_GRAPH_PREDICT_TUNE_H
#define WEIR_GRAPH_PREDICT_TUNE_H

#include "graph/predict/predict.h"

#define WEIR__TUNE_NEVER UINT64_MAX /* makespan of a deadlock */

struct weir__tune_progress {
    double elapsed_s;
    double share; /* of the search so far, 0..1 */
    uint64_t before, best;
    size_t tried;
};

struct weir__tune_options {
    bool relabel;
    double budget_s; /* 0: no limit */
    size_t trials;   /* 0: no limit */
    uint64_t seed;
    bool fused;         /* predict plans of mode max-autotune */
    const char *cores;  /* core limits of the whole graph, as in compile options; or NULL */
    bool placement;     /* only the graphs, `before` and `after`: no bound, no changes */
    bool keep_order;    /* do not reorder nodes */
    bool keep_limits;   /* do not set core limits */
    const char *prefix; /* of new streams' names; NULL: "tuned" */
    /* Called after every trial; false ends the search with the best result so far. May be NULL. */
    bool (*poll)(void *user, const struct weir__tune_progress *p);
    void *user;
};

enum weir__tune_kind {
    WEIR__TUNE_STREAM,
    WEIR__TUNE_ORDER,
    WEIR__TUNE_PRIORITY,
    WEIR__TUNE_LIMIT,
    WEIR__TUNE_KINDS
};
extern const char *const weir__tune_kind_names[WEIR__TUNE_KINDS];

/* Makespans are picoseconds. */
struct weir__tune_change {
    enum weir__tune_kind kind;
    char *text;
    uint32_t nnodes; /* nodes that change */
    uint64_t alone;  /* makespan of the input with this change only */
    uint64_t then;   /* makespan with this change and those before it in the list */
};

/* A lower bound for any placement, and its cause. */
struct weir__tune_bound {
    uint64_t ps;
    enum { WEIR__BOUND_CHAIN, WEIR__BOUND_ENGINE, WEIR__BOUND_MEMORY } why;
    int pool; /* for ENGINE */
};

struct weir__tuned {
    weir_graph **graphs; /* the tuned copies, without repetition */
    uint32_t ngraphs;
    uint32_t *graph_of; /* by rank */
    uint64_t before, after;
    struct weir__tune_bound bound;
    struct weir__tune_change *changes; /* by the gain of each one alone, largest first */
    int nchanges;
    char *verdict;  /* a sentence: the gain, or why streams do not pay here */
    size_t tried;   /* placements */
    size_t refused; /* faster ones that the checker rejected */
    enum { WEIR__TUNE_DONE, WEIR__TUNE_BUDGET, WEIR__TUNE_STOPPED } ended;
    const char *check_method; /* of the winner: "exhaustive" or "rule" */
    size_t check_errors;      /* of the winner; at most as many as the input has */
    size_t nmeasured; /* nodes of profiles, of which only times and order are known: their core
                       * limits and order are not changed */
};

/* graphs[r] is rank r's; ranks may share one; they are only read.
 * returns  what weir__predict does for the input.
 * threads  any, while nobody changes the graphs. */
weir_status weir__tune(weir_graph *const *graphs, uint32_t nranks,
                       const struct weir__tune_options *options, struct weir__tuned *out);
void weir__tuned_fini(struct weir__tuned *t);

#endif
