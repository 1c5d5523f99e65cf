/* Between the files that check graphs: what they are for the checker (check/), and what
 * can be said of them without it. */
#ifndef WEIR_GRAPH_CHECK_CHECK_GRAPH_H
#define WEIR_GRAPH_CHECK_CHECK_GRAPH_H

#include "check/deadlock/report.h"
#include "graph/pass/compile.h"

/* A graph with what every check of it needs. */
struct weir__checked {
    weir_graph *g;          /* a copy; stream-fusion is done */
    struct weir__compile c; /* its edges and what is live */
    const char *where;      /* "rank 1: ", or "" where there is only one graph */
};

/* check_translate.c: adds the graph's live nodes as that rank of the program. */
weir_status weir__check_translate(const struct weir__checked *x, struct weir__check_program *p,
                                  int rank);
/* check_groups.c: the rendezvous that a group's operator belongs to on that rank; false if it is
 * none, or one that is not explored. */
bool weir__check_rendezvous_name(const struct weir__node *node, int rank, int nranks, char *name,
                                 size_t size);
/* Ranks that meet and do not fit together: other operators, shapes, types or counts. */
void weir__check_misfits(const struct weir__check_program *p, struct weir__report *report);
/* Warns of groups of another size than the program, and of pairs among more than two ranks. */
void weir__check_groups(const struct weir__checked *x, int rank, int nranks,
                        struct weir__report *report);
/* check_settings.c: conflicts, limits that cannot take effect, too many streams. */
weir_status weir__check_settings(struct weir__checked *x, const weir_check_options *options,
                                 struct weir__report *report);
/* check_races.c: accesses of different streams that nothing in the program orders. */
weir_status weir__check_races(const struct weir__checked *x, struct weir__report *report);

/* check_entry.c: both entries, with a report that is already begun. */
weir_status weir__check_ranks(weir_graph *const *graphs, size_t nranks,
                              const weir_check_options *options, struct weir__report *report);

#endif
