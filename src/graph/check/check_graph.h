/* For the files of this folder: graphs as programs of the checker (check/), and what can be said of
 * graphs without it. */
#ifndef WEIR_GRAPH_CHECK_CHECK_GRAPH_H
#define WEIR_GRAPH_CHECK_CHECK_GRAPH_H

#include "check/deadlock/report.h"
#include "graph/pass/compile.h"
#include "tensor/kernel_params.h"

/* A graph with what every check of it needs. */
struct weir__checked {
    weir_graph *g;          /* a copy; stream-fusion is done */
    struct weir__compile c; /* its edges and what is live */
    const char *where;      /* "rank 1: ", or "" where there is only one graph */
    const struct weir__check_members *members;
};

/* How many ranks of the program have operators of a group. */
struct weir__check_members {
    struct {
        const char *group; /* of a graph, or the collective of a Kernel with `ranks` */
        bool kernel;
        int ranks, last; /* the last rank that was counted */
    } * groups;
    int n, cap;
};

/* check_translate.c: adds the graph's live nodes as that rank of the program. */
weir_status weir__check_translate(const struct weir__checked *x, struct weir__check_program *p,
                                  int rank);
/* check_groups.c: counts the groups of a rank's graph. */
weir_status weir__check_count_groups(const weir_graph *g, int rank,
                                     struct weir__check_members *members);
/* The ranks that the collective of such a Kernel meets, of all. */
int weir__check_kernel_needs(const struct weir__checked *x, const struct weir__kernel_params *k,
                             int nranks);
/* The rendezvous that a group's operator belongs to on that rank; false if it is none, or one that
 * is not explored, because it is not known who its ranks are. */
struct weir__check_membership {
    char name[WEIR__GROUP_NAME + 40];
    int needs;    /* ranks */
    int from, to; /* of a pair; else -1 */
};
bool weir__check_find_rendezvous(const struct weir__checked *x, const struct weir__node *node,
                                 int rank, int nranks, struct weir__check_membership *out);
/* Ranks that meet and do not fit together: other operators, shapes, types or counts. */
void weir__check_misfits(const struct weir__check_program *p, struct weir__report *report);
/* Warns of groups whose ranks are not known. */
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
