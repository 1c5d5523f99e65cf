/* This process's share of a run whose ranks are processes that `weir launch` or another launcher
 * started. All processes name the same files. */
#ifndef WEIR_CLI_RUN_JOB_H
#define WEIR_CLI_RUN_JOB_H

#include <weir/weir.h>

#include "ranks.h"

struct run_job {
    weir_group *world; /* NULL: all ranks are in this process */
    weir_device *dev;
    int self, n;
};

/* True if the environment, as set by `weir launch`, says that this process is one of several. */
bool run_job_is_set(void);
/* Joins the other processes, assigns each rank its file and checks that all have the same files.
 * returns  -1, or the exit status after printing an error. */
int run_job_join(struct run_job *job, weir_device *dev, struct cli_ranks *ranks);
void run_job_leave(struct run_job *job);

/* Gathers one number per rank; in a job of one process, only its own. */
weir_status run_job_gather(const struct run_job *job, double mine, double *all);
/* Merges the traces of all ranks on the clock of rank 0. *trace is this rank's trace; on rank 0 it
 * is replaced by the merged one. */
weir_status run_job_merge(const struct run_job *job, weir_trace **trace);
/* Waits for all ranks. */
weir_status run_job_meet(const struct run_job *job);
/* Makes a group of those ranks; this one must be among them. */
weir_status run_job_group(const struct run_job *job, const char *name, const int *ranks, int n,
                          weir_group **out);

#endif
