#include "run/run_job.h"

#include "commands.h"

#include <stdio.h>
#include <stdlib.h>

bool run_job_is_set(void)
{
    const char *ranks = getenv("WEIR_RANKS");

    return ranks && strtol(ranks, NULL, 10) > 1;
}

weir_status run_job_gather(const struct run_job *job, double mine, double *all)
{
    weir_tensor *x = NULL, *out = NULL;
    weir_status st;

    if (!job->world) {
        *all = mine;
        return WEIR_OK;
    }
    if (!(st = weir_tensor_from(weir_stream_default(job->dev), WEIR_F64, 1, (int64_t[]){1}, &mine,
                                &x)) &&
        !(st = weir_all_gather(weir_group_self(job->world), x, &out)))
        st = weir_tensor_read(out, all, (size_t)job->n * sizeof *all);
    weir_tensor_release(x);
    weir_tensor_release(out);
    return st;
}

weir_status run_job_meet(const struct run_job *job)
{
    weir_status st;

    if (!job->world)
        return WEIR_OK;
    st = weir_barrier(weir_group_self(job->world));
    return st ? st : weir_stream_sync(weir_stream_default(job->dev));
}

weir_status run_job_group(const struct run_job *job, const char *name, weir_group **out)
{
    int all[WEIR_MAX_RANKS];

    for (int i = 0; i < job->n; i++)
        all[i] = i;
    return weir_group_split(job->world, all, job->n, &(weir_group_options){.name = name}, out);
}

/* Of the bytes of all files, by rank; it has room in a double. False if one cannot be read. */
static bool digest(const struct cli_ranks *ranks, double *out)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (unsigned r = 0; r < ranks->nranks; r++) {
        FILE *f = fopen(ranks->paths[ranks->file_of[r]], "rb");
        int c;

        if (!f)
            return false;
        while ((c = getc(f)) != EOF)
            hash = (hash ^ (uint64_t)c) * UINT64_C(1099511628211);
        fclose(f);
        hash = (hash ^ 256) * UINT64_C(1099511628211);
    }
    *out = (double)(hash >> 12);
    return true;
}

static int check_files(const struct run_job *job, const struct cli_ranks *ranks)
{
    double mine = -1, all[WEIR_MAX_RANKS];
    weir_status st;

    for (unsigned i = 0; i < ranks->nfiles; i++)
        if (cli_is_standard(ranks->paths[i])) {
            fputs("weir run: ranks are processes: each reads its graph from a file, not from "
                  "standard input\n",
                  stderr);
            return EXIT_USAGE;
        }
    if (!digest(ranks, &mine))
        mine = -1; /* loading it says why */
    if ((st = run_job_gather(job, mine, all)))
        return cli_complain("run", st);
    for (int r = 0; r < job->n; r++)
        if (mine >= 0 && all[r] >= 0 && all[r] != mine) {
            fprintf(stderr,
                    "weir run: rank %d has other graphs than rank %d: name the same files for all, "
                    "with --rank R=FILE for each rank\n",
                    r, job->self);
            return EXIT_USAGE;
        }
    return -1;
}

int run_job_join(struct run_job *job, weir_device *dev, struct cli_ranks *ranks)
{
    weir_device_props props;
    weir_status st;
    int status;

    weir_device_get_props(dev, &props, sizeof props);
    if (!(props.features & WEIR_FEATURE_REAL_TIME)) {
        fprintf(stderr,
                "weir run: %s has a clock of its own, which processes do not share: run all ranks "
                "in one process, with --ranks N and without weir launch\n",
                props.name);
        return EXIT_USAGE;
    }
    if ((st = weir_group_join(dev, NULL, &job->world)))
        return cli_complain("run", st);
    job->dev = dev;
    job->n = weir_group_size(job->world);
    job->self = weir_rank_index(weir_group_self(job->world));
    if ((status = cli_ranks_expect(ranks, "run", (unsigned)job->n)) < 0)
        status = check_files(job, ranks);
    return status;
}

void run_job_leave(struct run_job *job)
{
    if (job->world) {
        weir_device_sync(job->dev);
        weir_group_destroy(job->world);
    }
}
