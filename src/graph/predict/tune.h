/* Tuning: another placement, order, priority or core limit of the same operators that is
 * faster on the model, and what each change brings.
 *
 *     weir__tune(graphs, nranks, &(struct weir__tune_options){.budget_s = 10}, &t);
 *     ... t.before, t.after, t.changes[i].text, t.graphs[t.graph_of[rank]] ...
 *     weir__tuned_fini(&t);
 *
 * What may change. A node with a label stays on its stream, and in its order there, since
 * that may be the only order its author gave; so do the priorities and core limits of the
 * file. Nodes without a label are ordered by data and control edges alone: they move freely.
 * With `relabel` all nodes are like that, and every priority and limit is open.
 * Collectives of one name keep their order, because the k-th meets the k-th of other ranks.
 * Nodes of one name on several ranks, and those of one super kernel, change together.
 *
 * What comes out is never slower than what went in, has no finding of the deadlock checker,
 * under either policy, that the input did not have, and is the same for the same seed as
 * long as neither the budget nor poll() ends the search.
 */
#ifndef WEIR_GRAPH_PREDICT_TUNE_H
#define WEIR_GRAPH_PREDICT_TUNE_H

#include "graph/predict/predict.h"

#define WEIR__TUNE_NEVER UINT64_MAX /* the makespan of a deadlock */

struct weir__tune_progress {
    double elapsed_s;
    double share; /* of the search that is over, 0..1 */
    uint64_t before, best;
    size_t tried;
};

struct weir__tune_options {
    bool relabel;
    double budget_s; /* 0: as long as it takes */
    size_t trials;   /* 0: as many as it takes */
    uint64_t seed;
    bool fused;         /* plans are of mode max-autotune */
    const char *cores;  /* limits of the whole graph, as of a plan's options; or NULL */
    bool placement;     /* nothing but the graphs, `before` and `after`: no bound, no changes */
    bool keep_order;    /* no node passes another, */
    bool keep_limits;   /* and none gets a core limit */
    const char *prefix; /* of new streams' names; NULL: "tuned" */
    /* Asked after every trial; false ends the search with the best so far. May be NULL. */
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
    uint32_t nnodes; /* that change */
    uint64_t alone;  /* the input with this change only */
    uint64_t then;   /* with this one and those before it in the list */
};

/* The least that any placement takes, and what decides it. */
struct weir__tune_bound {
    uint64_t ps;
    enum { WEIR__BOUND_CHAIN, WEIR__BOUND_ENGINE, WEIR__BOUND_MEMORY } why;
    int pool; /* of ENGINE */
};

struct weir__tuned {
    weir_graph **graphs; /* the tuned copies, without repetition */
    uint32_t ngraphs;
    uint32_t *graph_of; /* by rank */
    uint64_t before, after;
    struct weir__tune_bound bound;
    struct weir__tune_change *changes; /* the one that gains most alone first */
    int nchanges;
    char *verdict;  /* a sentence: what was gained, or why streams do not pay here */
    size_t tried;   /* placements */
    size_t refused; /* faster ones that the checker found fault with */
    enum { WEIR__TUNE_DONE, WEIR__TUNE_BUDGET, WEIR__TUNE_STOPPED } ended;
    const char *check_method; /* of the winner: "exhaustive" or "rule" */
    size_t check_errors;      /* of the winner; the input has as many at least */
    size_t nmeasured; /* nodes of profiles, whose times and orders alone are known: no core limit
                       * and no order of theirs is tried */
};

/* graphs[r] is rank r's; ranks may share one; they are only read.
 * returns  what weir__predict does for the input.
 * threads  any, with no change of the graphs under way. */
weir_status weir__tune(weir_graph *const *graphs, uint32_t nranks,
                       const struct weir__tune_options *options, struct weir__tuned *out);
void weir__tuned_fini(struct weir__tuned *t);

#endif
