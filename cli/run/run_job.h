/* A run whose ranks are processes, which `weir launch` or another launcher started: this one's part
 * of it. All processes have the same files. */
#ifndef WEIR_CLI_RUN_JOB_H
#define WEIR_CLI_RUN_JOB_H

#include <weir/weir.h>

#include "ranks.h"

struct run_job {
    weir_group *world; /* NULL: all ranks are of this process */
    weir_device *dev;
    int self, n;
};

/* Whether the environment says that this process is one of several: what `weir launch` sets. */
bool run_job_is_set(void);
/* Meets the other processes, gives each rank its file and sees that all have the same ones.
 * returns  -1, or the exit status after a complaint. */
int run_job_join(struct run_job *job, weir_device *dev, struct cli_ranks *ranks);
void run_job_leave(struct run_job *job);

/* What each rank has, by rank. A job of one process: its own. */
weir_status run_job_gather(const struct run_job *job, double mine, double *all);
/* The traces of all ranks as one, on the clock of rank 0; *trace is this one's, and on rank 0 that
 * of all afterwards. */
weir_status run_job_merge(const struct run_job *job, weir_trace **trace);
/* All ranks go on together. */
weir_status run_job_meet(const struct run_job *job);
/* A group of those ranks, this one among them. */
weir_status run_job_group(const struct run_job *job, const char *name, const int *ranks, int n,
                          weir_group **out);

#endif
