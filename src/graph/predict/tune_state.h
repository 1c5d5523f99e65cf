/* Shared by the files of tuning: the variables of the search, and the evaluation of a setting. */
#ifndef WEIR_GRAPH_PREDICT_TUNE_STATE_H
#define WEIR_GRAPH_PREDICT_TUNE_STATE_H

#include "graph/predict/tune.h"

#define WEIR__TUNE_NEW_STREAMS 4 /* added streams, at most */
#define WEIR__TUNE_KEEP (-1)     /* for a limit: keep the file's */

/* Nodes that change together. */
struct weir__tune_unit {
    const char *name;
    char *pattern; /* the name with # for numbers: units of one pattern form a class */
    int class;
    int first, nmembers; /* members[first ..] */
    int stream;          /* in the input */
    weir_engine engine;
    int most;           /* most cores a limit may give; 0: limits do not apply */
    bool moves, limits; /* may change */
    /* tune_bound.c: */
    uint64_t alone;  /* time with the machine to itself, launch included */
    bool comm, wide; /* wide: uses more than half of its engine */
    int pool;
};

struct weir__tune_member {
    int graph, node; /* by its index in the input */
};

/* One graph: the input, the copy that trials change, and the edges of its order. */
struct weir__tune_graph {
    const weir_graph *from;
    weir_graph *work;
    int *unit;         /* by node of the input */
    int *label;        /* by stream: its label in `work` */
    int *at;           /* by node of the input: its present index in `work` */
    int *nbefore;      /* by node: number of its predecessors */
    int *first, *next; /* successors of v: next[first[v] .. first[v+1]-1] */
};

/* A setting is one array of ints, so that it can be copied and compared at once: stream, shift and
 * limit of each unit, then the priority of each stream. */
struct weir__tuner {
    const struct weir__tune_options *options;
    struct weir__tune_graph *graphs;
    int ngraphs;
    uint32_t nranks, *graph_of;
    weir_graph **by_rank; /* the copies */
    struct weir__tune_unit *units;
    int nunits, nclasses;
    struct weir__tune_member *members;
    int nmembers;
    char **streams;       /* names; [0] is "default", the last ones are new */
    int nstreams, nfiled; /* nfiled: number of streams of the files */
    bool *priority_open;  /* by stream */
    int *input, *best, *now;
    size_t nsettings;
    uint64_t before, best_ps;
    uint64_t enough_ps; /* makespan that the result may have after changes are undone */
    size_t best_errors; /* errors that the checker finds in the best setting, initially in the
                         * input */
    bool risky;         /* some operators can block each other */
    struct weir__tune_bound bound;
    /* scratch */
    int *degree, *heap, *order;
    int64_t *key;
    /* the search */
    uint64_t random;
    double began, share;
    size_t tried, refused;
    int ended;
    weir_status status; /* the first failure; it ends the search */
};

/* Indices of a unit's or stream's entries in a setting. */
static inline int weir__at_stream(const struct weir__tuner *t, int unit)
{
    (void)t;
    return unit;
}
static inline int weir__at_shift(const struct weir__tuner *t, int unit)
{
    return t->nunits + unit;
}
static inline int weir__at_limit(const struct weir__tuner *t, int unit)
{
    return 2 * t->nunits + unit;
}
static inline int weir__at_priority(const struct weir__tuner *t, int stream)
{
    return 3 * t->nunits + stream;
}
static inline void weir__tune_copy(const struct weir__tuner *t, int *to, const int *from)
{
    memcpy(to, from, t->nsettings * sizeof *to);
}

/* ---- tune_state.c ---- */

weir_status weir__tuner_init(struct weir__tuner *t, weir_graph *const *graphs, uint32_t nranks,
                             const struct weir__tune_options *options);
void weir__tuner_fini(struct weir__tuner *t);

/* ---- tune_trial.c ---- */

/* Applies the setting to the copies. */
weir_status weir__tune_apply(struct weir__tuner *t, const int *setting);
/* The makespan with a setting plus the host's cost of its streams. WEIR__TUNE_NEVER after a
 * failure, which is in t->status. */
uint64_t weir__tune_try(struct weir__tuner *t, const int *setting);
/* Whether the search should go on: false after a failure, if poll() says so, or past this share of
 * the budget. */
bool weir__tune_goes_on(struct weir__tuner *t, double share);
/* Counts the errors that the checker finds in the present copies. */
weir_status weir__tune_check(struct weir__tuner *t, size_t max_states, size_t *errors,
                             const char **method);

/* ---- tune_search.c ---- */

/* Leaves the best setting in t->best, without changes that gain nothing. */
void weir__tune_search(struct weir__tuner *t);
/* Tries a setting and keeps it if it is the best so far (with `equal`: takes no more than
 * t->enough_ps) and the checker accepts it. */
bool weir__tune_offer(struct weir__tuner *t, const int *setting, bool equal, uint64_t *ps);
uint64_t weir__tune_draw(struct weir__tuner *t, uint64_t n); /* 0 .. n-1 */

/* ---- tune_seeds.c ---- */

/* Starting points: communication apart, engines apart, list scheduling, and for few nodes all
 * placements. */
void weir__tune_seeds(struct weir__tuner *t);

/* ---- tune_bound.c ---- */

/* Computes a lower bound for all settings, and the time of each unit alone. */
weir_status weir__tune_find_bound(struct weir__tuner *t);

/* ---- tune_explain.c ---- */

/* Fills changes and verdict. */
weir_status weir__tune_explain(struct weir__tuner *t, struct weir__tuned *out);

#endif
