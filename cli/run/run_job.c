#define _GNU_SOURCE /* mkstemp */
#include "run/run_job.h"

#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- traces ---- */

/* Creates a temporary file of this process, for functions that take a path. -1 on failure. */
static int make_file(char *path, size_t size)
{
    const char *folder = getenv("TMPDIR");

    snprintf(path, size, "%s/weir-run-XXXXXX", folder && *folder ? folder : "/tmp");
    return mkstemp(path);
}

static weir_status write_trace(const weir_trace *trace, char **bytes, size_t *size)
{
    char path[300];
    int fd = make_file(path, sizeof path);
    weir_status st = fd < 0 ? WEIR_ENOMEM : weir_trace_write_chrome(trace, path);
    FILE *f = st ? NULL : fopen(path, "rb"); /* the writer may have replaced the file */
    long end;

    *bytes = NULL;
    *size = 0;
    if (!st &&
        (!f || fseek(f, 0, SEEK_END) || (end = ftell(f)) < 0 || fseek(f, 0, SEEK_SET) ||
         !(*bytes = malloc((size_t)end + 1)) || fread(*bytes, 1, (size_t)end, f) != (size_t)end))
        st = WEIR_ENOMEM;
    else if (!st)
        *size = (size_t)end;
    if (f)
        fclose(f);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return st;
}

static weir_status read_trace(const char *bytes, size_t size, weir_trace **out)
{
    char path[300];
    int fd = make_file(path, sizeof path);
    weir_status st = WEIR_ENOMEM;

    if (fd < 0)
        return st;
    if (write(fd, bytes, size) == (ssize_t)size)
        st = weir_trace_load(path, out);
    close(fd);
    unlink(path);
    return st;
}

static weir_status merge_texts(const char *texts, size_t most, const double *sizes, int n,
                               weir_trace **trace)
{
    weir_trace **all = calloc((size_t)n, sizeof(weir_trace *)), *merged = NULL;
    weir_status st = all ? WEIR_OK : WEIR_ENOMEM;

    for (int r = 0; r < n && !st; r++)
        st = read_trace(texts + (size_t)r * most, (size_t)sizes[r], &all[r]);
    if (!st)
        st = weir_trace_merge((const weir_trace *const *)all, (size_t)n, &merged);
    for (int r = 0; r < n && all; r++)
        weir_trace_free(all[r]);
    free(all);
    if (!st) {
        weir_trace_free(*trace);
        *trace = merged;
    }
    return st;
}

/* Gathers the texts of all ranks; each has room for `most` bytes. */
static weir_status gather_texts(const struct run_job *job, const char *mine, size_t most,
                                char *texts)
{
    weir_tensor *x = NULL, *out = NULL;
    weir_status st = weir_tensor_from(weir_stream_default(job->dev), WEIR_U8, 1,
                                      (int64_t[]){(int64_t)most}, mine, &x);

    if (!st && !(st = weir_all_gather(weir_group_self(job->world), x, &out)))
        st = weir_tensor_read(out, texts, (size_t)job->n * most);
    weir_tensor_release(x);
    weir_tensor_release(out);
    return st;
}

weir_status run_job_merge(const struct run_job *job, weir_trace **trace)
{
    double sizes[WEIR_MAX_RANKS], most = 1;
    char *mine = NULL, *padded, *texts = NULL;
    size_t size;
    weir_status st, written;

    if (!job->world)
        return WEIR_OK;
    written = write_trace(*trace, &mine, &size);
    if ((st = run_job_gather(job, (double)size, sizes))) {
        free(mine);
        return st;
    }
    for (int r = 0; r < job->n; r++)
        most = sizes[r] > most ? sizes[r] : most;
    padded = calloc(1, (size_t)most);
    texts = malloc((size_t)job->n * (size_t)most);
    if (!padded || !texts)
        st = WEIR_ENOMEM;
    if (!st && mine)
        memcpy(padded, mine, size);
    if (!st)
        st = gather_texts(job, padded, (size_t)most, texts);
    st = st ? st : written;
    if (!st && !job->self)
        st = merge_texts(texts, (size_t)most, sizes, job->n, trace);
    free(mine);
    free(padded);
    free(texts);
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

weir_status run_job_group(const struct run_job *job, const char *name, const int *ranks, int n,
                          weir_group **out)
{
    return weir_group_split(job->world, ranks, n, &(weir_group_options){.name = name}, out);
}

/* Computes a hash of the bytes of all files, in the order of ranks, that a double can hold. False
 * if a file cannot be read. */
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
        mine = -1; /* loading the file will report the error */
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
        fprintf(
            stderr,
            "weir run: %s has its own clock, which processes cannot share: run all ranks in one "
            "process, with --ranks N and without weir launch\n",
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
