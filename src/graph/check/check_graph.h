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

/* The ranks of the program that have operators of a group, or of several groups of one name. A
 * group that was made in this process is told by its number. Of files only the name is known: ranks
 * of one group are in the order of the program, and of several of one name it is not known who is
 * with whom (check_partings.c). */
struct weir__check_group {
    const char *name; /* of a graph, or the collective of a Kernel with `ranks` */
    bool kernel;
    uint64_t id;   /* its number; 0: of a file */
    int64_t ranks; /* that one of them has; 0: it is not said */
    int into;      /* the group that stands for it: files have its name too; -1: none */
    bool several;  /* the name is that of several groups */
    bool parted;   /* of files: `part` is one way to tell them apart */
    struct weir__check_has {
        int rank;
        int part, index; /* which of the groups, and its rank there */
    } * has;             /* by rank of the program */
    int nhas, cap;
};
struct weir__check_members {
    struct weir__check_group *groups;
    int n, cap;
};

/* check_translate.c: adds the graph's live nodes as that rank of the program. */
weir_status weir__check_translate(const struct weir__checked *x, struct weir__check_program *p,
                                  int rank);
/* check_members.c: adds the groups of a rank's graph; then, once, says who is which of their ranks.
 */
weir_status weir__check_count_groups(const weir_graph *g, int rank,
                                     struct weir__check_members *members);
weir_status weir__check_settle_groups(struct weir__check_members *members, int nranks);
void weir__check_members_fini(struct weir__check_members *members);
/* The group of that operator, or of that Kernel; NULL if it has none. */
const struct weir__check_group *weir__check_group_of(const struct weir__check_members *members,
                                                     const struct weir__member *member);
const struct weir__check_group *weir__check_kernel_group(const struct weir__check_members *members,
                                                         const struct weir__kernel_params *k);
/* That rank among them; NULL if it has none of it. */
const struct weir__check_has *weir__check_find_has(const struct weir__check_group *group, int rank);
/* The operator's membership; false if it meets nobody. */
bool weir__check_find_member(const struct weir__node *node, struct weir__member *member);

/* check_partings.c: in how many ways the ranks of groups of one name can be parted; 0: too many.
 * `alike`: all ranks run the same. */
int weir__check_count_partings(const struct weir__check_members *members, bool alike);
void weir__check_set_parting(struct weir__check_members *members, int number, bool alike);
/* Warns that `bad` of the ways fail. */
void weir__check_add_partings(const struct weir__check_members *members, int ways, int bad,
                              struct weir__report *report);
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
