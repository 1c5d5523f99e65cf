/* Finds deadlocks and other mistakes in a program before it runs.
 *
 *     weir_check_files(dev, paths, 2, NULL, &report);      a file per rank
 *     for (size_t i = 0; i < report->nfindings; i++)
 *         puts(report->findings[i].text);
 *     weir_check_free(report);
 *
 * Each rank runs on a device like `dev`. Operators get cores by the rules of the modelled
 * device: a plain operator starts with any free core and takes more, a gang needs all of its
 * cores, a collective keeps its cores until every rank has arrived. The checker assumes nothing
 * about time: an operator may take any time and start arbitrarily late. A program can deadlock
 * if at least one such timing does. docs/deadlocks.md has the model, the method and what is
 * not covered.
 */
#ifndef WEIR_CHECK_H
#define WEIR_CHECK_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* code, name in reports, meaning */
#define WEIR_FINDING_LIST(X)                                                                   \
    X(CORE_DEADLOCK, "core_deadlock", "operators hold cores that others wait for, in a cycle") \
    X(COLLECTIVE_ORDER, "collective_order", "collectives that never meet")                     \
    X(EVENT_CYCLE, "event_cycle", "operators that wait for each other")                        \
    X(UNRECORDED_EVENT, "unrecorded_event", "a wait for something that never happens")         \
    X(RACE, "race", "accesses that only their place in the file orders")                       \
    X(CONFLICT, "conflict", "settings that exclude each other")                                \
    X(LIMIT, "limit", "a core limit or demand that cannot be met")                             \
    X(STREAM_COUNT, "stream_count", "more streams than there are")

typedef enum weir_finding_kind {
#define WEIR_FINDING_ENUM(code, name, text) WEIR_FINDING_##code,
    WEIR_FINDING_LIST(WEIR_FINDING_ENUM)
#undef WEIR_FINDING_ENUM
        WEIR_FINDING_COUNT
} weir_finding_kind;

/* "core_deadlock". Never NULL.
 * threads  any. */
WEIR_API const char *weir_finding_name(weir_finding_kind kind);

/* How gangs get their cores. */
enum {
    WEIR_POLICY_HOLD = 1 << 0,  /* a gang keeps the cores it has while it waits for the rest */
    WEIR_POLICY_BATCH = 1 << 1, /* a gang gets all its cores at once, or none */
};

/* A change that removes a finding. If it is a core limit for `node`: `cube` and `vector` are the
 * largest limits for which this program is proved free of deadlock; `safe_cube` and `safe_vector`
 * are limits with which the operator fits beside every operator it may block, in any order. 0
 * means that there is no such limit. */
typedef struct weir_remedy {
    const char *node; /* on every rank that contains it; NULL if no node needs a change */
    int cube, vector;
    int safe_cube, safe_vector;
    const char *text; /* NULL if there is no remedy */
} weir_remedy;

typedef struct weir_finding {
    weir_finding_kind kind;
    bool is_error;    /* else a warning */
    unsigned policy;  /* WEIR_POLICY_HOLD or _BATCH; 0 where it does not matter */
    const char *text; /* a sentence */
    /* For deadlocks: the steps of one timing that leads to it; the cycle of operators that then
     * wait for each other, ending with the first again; and the operators concerned. Each may
     * be empty. */
    const char *const *steps;
    size_t nsteps;
    const char *const *cycle;
    size_t ncycle;
    const char *const *nodes;
    size_t nnodes;
    weir_remedy remedy;
} weir_finding;

typedef struct weir_check_report {
    bool exhaustive; /* true: every timing was explored. false: there were too many, and the checker
                      * instead added up the cores of operators that may block each other */
    size_t nerrors;  /* findings that are errors; the others are warnings */
    size_t nfindings;
    const weir_finding *findings; /* errors first */
    size_t nranks, noperators;
    size_t nstates; /* states of ranks that were explored */
} weir_check_report;

typedef struct weir_check_options {
    size_t size;        /* sizeof, or 0 for the fields of version 0.1 */
    unsigned policies;  /* WEIR_POLICY_*; 0 means both */
    bool single_stream; /* as in weir_compile_options: labels conflict with it */
    size_t max_states;  /* beyond this the checker adds up cores instead; 0 means 200000 */
} weir_check_options;

/* Checks a program of one rank per graph; a graph may stand for several ranks. The graphs
 * are only read. NULL options are all 0.
 * returns  WEIR_EINVAL without a graph; WEIR_ENOMEM. A report with findings is WEIR_OK.
 * threads  any; the graphs must not change meanwhile. */
WEIR_API WEIR_MUST_USE weir_status weir_check_graphs(weir_graph *const *graphs, size_t nranks,
                                                     const weir_check_options *options,
                                                     weir_check_report **out);

/* The same for graph files, where cycles and waits for nodes that do not exist are
 * findings too.
 * returns  as weir_graph_load_file for a file that cannot be read.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_check_files(weir_device *dev, const char *const *paths,
                                                    size_t nranks,
                                                    const weir_check_options *options,
                                                    weir_check_report **out);

/* NULL is fine. */
WEIR_API void weir_check_free(weir_check_report *report);

#ifdef __cplusplus
}
#endif
#endif
