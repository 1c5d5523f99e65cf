/* For the files of this folder: graphs as programs of the checker (check/), and the findings that
 * need no program. */
#ifndef WEIR_GRAPH_CHECK_CHECK_GRAPH_H
#define WEIR_GRAPH_CHECK_CHECK_GRAPH_H

#include "check/deadlock/report.h"
#include "graph/pass/compile.h"
#include "tensor/kernel_params.h"

/* A graph with the data that every check needs. */
struct weir__checked {
    weir_graph *g;          /* a copy, with stream-fusion applied */
    struct weir__compile c; /* its edges and live nodes */
    const char *where;      /* "rank 1: ", or "" where there is only one graph */
    const struct weir__check_members *members;
};

/* The ranks of the program that have operators of a group, or of several groups of one name. A
 * group made in this process is identified by its number. A file gives only the name. The ranks of
 * one such group are numbered in the order of the program; for several groups of one name it is
 * unknown which ranks belong together (check_partings.c). */
struct weir__check_group {
    const char *name; /* the group's name, or the collective of a Kernel with `ranks` */
    bool kernel;
    uint64_t id;   /* the group's number; 0: from a file */
    int64_t ranks; /* ranks of one group; 0: unknown */
    int into;      /* the group that this one is merged into, because a file uses its name too; -1:
                    * none */
    bool several;  /* several groups have this name */
    bool parted;   /* from files: `part` holds one possible split into groups */
    struct weir__check_has {
        int rank;
        int part, index; /* number of the group in that split, and its rank there */
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
/* check_members.c: adds the groups of a rank's graph. After all ranks, the second function decides
 * each rank's number in its groups.
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
/* The entry of that rank; NULL if it has no operator of the group. */
const struct weir__check_has *weir__check_find_has(const struct weir__check_group *group, int rank);
/* The operator's membership; false if it is not a collective. */
bool weir__check_find_member(const struct weir__node *node, struct weir__member *member);

/* check_partings.c: the number of ways to split ranks into groups of one name; 0: too many.
 * `alike`: all ranks run the same graph. */
int weir__check_count_partings(const struct weir__check_members *members, bool alike);
void weir__check_set_parting(struct weir__check_members *members, int number, bool alike);
/* Adds a warning that `bad` of the `ways` splits fail. */
void weir__check_add_partings(const struct weir__check_members *members, int ways, int bad,
                              struct weir__report *report);
/* The number of ranks that the collective of such a Kernel meets, out of all ranks. */
int weir__check_kernel_needs(const struct weir__checked *x, const struct weir__kernel_params *k,
                             int nranks);
/* The rendezvous that a group's operator belongs to on that rank. False if it belongs to none, or
 * to one that is not explored because its ranks are unknown. */
struct weir__check_membership {
    char name[WEIR__GROUP_NAME + 40];
    int needs;    /* ranks */
    int from, to; /* of a pair; else -1 */
};
bool weir__check_find_rendezvous(const struct weir__checked *x, const struct weir__node *node,
                                 int rank, int nranks, struct weir__check_membership *out);
/* Reports ranks that meet with calls that do not match: other operators, shapes, types or
 * counts. */
void weir__check_misfits(const struct weir__check_program *p, struct weir__report *report);
/* Warns of groups whose ranks are unknown. */
void weir__check_groups(const struct weir__checked *x, int rank, int nranks,
                        struct weir__report *report);
/* check_settings.c: conflicts, limits that cannot take effect, too many streams. */
weir_status weir__check_settings(struct weir__checked *x, const weir_check_options *options,
                                 struct weir__report *report);
/* check_races.c: accesses of different streams that nothing in the program orders. */
weir_status weir__check_races(const struct weir__checked *x, struct weir__report *report);

/* check_entry.c: both entry points, with a report that already exists. */
weir_status weir__check_ranks(weir_graph *const *graphs, size_t nranks,
                              const weir_check_options *options, struct weir__report *report);

#endif
