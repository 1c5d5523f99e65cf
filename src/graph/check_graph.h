/* Between the files that check graphs: what they are for the checker (check/), and what
 * can be said of them without it. */
#ifndef WEIR_GRAPH_CHECK_GRAPH_H
#define WEIR_GRAPH_CHECK_GRAPH_H

#include "check/report.h"
#include "graph/compile.h"

/* A graph with what every check of it needs. */
struct weir__checked {
    weir_graph *g;          /* a copy; stream-fusion is done */
    struct weir__compile c; /* its edges and what is live */
    const char *where;      /* "rank 1: ", or "" where there is only one graph */
};

/* check_translate.c: adds the graph's live nodes as that rank of the program. */
weir_status weir__check_translate(const struct weir__checked *x, struct weir__check_program *p,
                                  int rank);
/* check_settings.c: conflicts, limits that cannot take effect, too many streams. */
weir_status weir__check_settings(struct weir__checked *x, const weir_check_options *options,
                                 struct weir__report *report);
/* check_races.c: accesses of different streams that nothing in the program orders. */
weir_status weir__check_races(const struct weir__checked *x, struct weir__report *report);

/* check_entry.c: both entries, with a report that is already begun. */
weir_status weir__check_ranks(weir_graph *const *graphs, size_t nranks,
                              const weir_check_options *options, struct weir__report *report);

#endif
