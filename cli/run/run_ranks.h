/* The ranks of a run in real time, each with a device, and the groups that their graphs name. */
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
    weir_rank *as[RUN_GROUPS]; /* its rank in each of its groups */
    size_t ngroups;
};

struct run_group {
    const char *name;
    bool kernel;            /* the collective of Kernels that say how many ranks it has */
    int64_t ranks;          /* 0: all ranks of the run */
    struct weir__ranks has; /* the ranks whose graphs name it */
    weir_group *made;       /* NULL if this process is no member */
};

struct run_members {
    unsigned n;            /* ranks of this process */
    struct run_member *at; /* this process's ranks; the first uses the caller's device */
    const struct run_job *job;
    weir_graph **graphs; /* by rank, for the checks */
    unsigned nranks;
    struct run_group groups[RUN_GROUPS];
    size_t ngroups;
};

/* Opens a device by `spec`, the spec of `dev`, for every further rank of this process, loads their
 * graphs, makes the groups and fills the inputs with zeros. Call run_members_close even after an
 * error. */
weir_status run_members_open(struct run_members *members, const struct cli_ranks *ranks,
                             weir_device *dev, const char *spec, const struct run_job *job);
void run_members_close(struct run_members *members);

/* Compiles the graphs of all ranks, and destroys their earlier plans. */
weir_status run_members_compile(struct run_members *members);
/* Runs all ranks once; the devices are idle before and after. */
weir_status run_members_run(struct run_members *members);

#endif
