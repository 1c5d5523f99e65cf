/* The ranks of a run in real time: a device each, and the groups that their graphs name. */
#ifndef WEIR_CLI_RUN_RANKS_H
#define WEIR_CLI_RUN_RANKS_H

#include <weir/weir.h>

#include "comm/ranks.h"
#include "ranks.h"
#include "run/run_job.h"

enum { RUN_GROUPS = 16 };

struct run_member {
    weir_device *dev;
    weir_graph *graph; /* loaded for that device */
    weir_plan *plan;
    weir_tensor **inputs, **outputs;
    weir_rank *as[RUN_GROUPS]; /* of its groups */
    size_t ngroups;
};

struct run_group {
    const char *name;
    bool kernel;            /* the collective of Kernels that say how many ranks it has */
    int64_t ranks;          /* 0: as many as the run has */
    struct weir__ranks has; /* whose graphs have it */
    weir_group *made;       /* NULL: this process is none of its ranks */
};

struct run_members {
    unsigned n;            /* of this process */
    struct run_member *at; /* by rank, or this process's; the first has the caller's device */
    const struct run_job *job;
    weir_graph **graphs; /* by rank: to be checked */
    unsigned nranks;
    struct run_group groups[RUN_GROUPS];
    size_t ngroups;
};

/* Opens a device like `dev`, whose spec is given, for every further rank of this process, loads
 * their graphs, makes the groups and fills the inputs with zeros. Close it also after an error. */
weir_status run_members_open(struct run_members *members, const struct cli_ranks *ranks,
                             weir_device *dev, const char *spec, const struct run_job *job);
void run_members_close(struct run_members *members);

/* Plans as issued, for all ranks; those before are gone. */
weir_status run_members_compile(struct run_members *members);
/* One run of all ranks, from idle devices to idle devices. */
weir_status run_members_run(struct run_members *members);

#endif
