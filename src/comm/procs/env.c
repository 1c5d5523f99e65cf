/* The rank of this process and the store: from options, weir launch, torchrun, Open MPI, PMI or
 * Slurm. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/procs/procs.h"

/* Launchers and their environment variables. `job` and `again` identify the job, so that ranks of
 * two jobs on one host do not meet. */
static const struct launcher {
    const char *name, *rank, *ranks, *local_ranks, *job, *again;
} launchers[] = {
    {"weir launch", "WEIR_RANK", "WEIR_RANKS", NULL, "WEIR_JOB", NULL},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID",
     "TORCHELASTIC_RESTART_COUNT"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, NULL},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", NULL, "SLURM_JOB_ID", "SLURM_STEP_ID"},
};

static weir_status read_number(const char *name, int least, int most, int *out)
{
    const char *text = getenv(name);
    char *end;
    long v;

    errno = 0;
    v = strtol(text, &end, 10);
    if (end == text || *end || errno || v < least || v > most)
        return weir__fail(WEIR_ERANGE, "%s is '%s': a number in %d..%d is needed", name, text,
                          least, most);
    *out = (int)v;
    return WEIR_OK;
}

static weir_status read_launcher(const struct launcher **found, struct weir__place_in_job *p)
{
    *found = NULL;
    for (size_t i = 0; i < weir__countof(launchers) && !*found; i++)
        if (getenv(launchers[i].rank) && getenv(launchers[i].ranks)) {
            weir_status st = read_number(launchers[i].ranks, 1, WEIR_MAX_RANKS, &p->ranks);

            if (!st)
                st = read_number(launchers[i].rank, 0, p->ranks - 1, &p->rank);
            if (st)
                return st;
            *found = &launchers[i];
        }
    if (!*found)
        return weir__fail(
            WEIR_EINVAL,
            "the rank of this process is not given: start it with weir launch, torchrun, mpirun or "
            "srun, set RANK and WORLD_SIZE, or give rank and ranks in the options");
    return WEIR_OK;
}

/* True if all ranks are on one host, according to the launcher. */
static bool is_one_host(const struct launcher *l, int ranks)
{
    const char *local = l->local_ranks ? getenv(l->local_ranks) : NULL;
    const char *nodes = getenv("SLURM_NNODES"), *address = getenv("MASTER_ADDR");

    if (local)
        return strtol(local, NULL, 10) == ranks;
    if (nodes)
        return strtol(nodes, NULL, 10) == 1;
    return !address || !strcmp(address, "localhost") || !strncmp(address, "127.", 4);
}

/* Makes a file name that is the same for all processes of one job and user. Characters other than
 * letters and digits become _. */
static void name_file(const struct launcher *l, struct weir__place_in_job *p)
{
    const char *parts[] = {l->job ? getenv(l->job) : NULL, l->again ? getenv(l->again) : NULL,
                           getenv("MASTER_PORT")};
    const char *dir = getenv("TMPDIR");
    int n = snprintf(p->store, sizeof p->store, "file:%.100s/weir-%u", dir && *dir ? dir : "/tmp",
                     (unsigned)geteuid());

    for (size_t i = 0; i < weir__countof(parts); i++)
        for (const char *c = parts[i] ? parts[i] : ""; *c && n < (int)sizeof p->store - 2; c++) {
            if (c == parts[i])
                p->store[n++] = '-';
            p->store[n++] =
                (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')
                    ? *c
                    : '_';
        }
    p->store[n] = 0;
    if (!parts[0] && !parts[2]) /* no job id: ranks of one launcher have the same parent process */
        snprintf(p->store + n, sizeof p->store - (size_t)n, "-%d", (int)getppid());
}

static weir_status find_store(const char *given, const struct launcher *l,
                              struct weir__place_in_job *p)
{
    const char *store = given ? given : getenv("WEIR_STORE");
    const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");

    if (store) {
        if (strlen(store) >= sizeof p->store)
            return weir__fail(WEIR_EINVAL, "the store's address has %zu bytes, at most %zu fit",
                              strlen(store), sizeof p->store - 1);
        strcpy(p->store, store);
    } else if (l && is_one_host(l, p->ranks)) {
        name_file(l, p);
    } else if (address && port) { /* torchrun's own store uses that port: use the next one */
        snprintf(p->store, sizeof p->store, "%.200s:%ld", address,
                 strtol(port, NULL, 10) + (getenv("TORCHELASTIC_RUN_ID") ? 1 : 0));
    } else {
        return weir__fail(WEIR_EINVAL,
                          "the store, where ranks find each other, is not given: set WEIR_STORE to "
                          "HOST:PORT of rank 0, or to file:PATH on one host");
    }
    return WEIR_OK;
}

static weir_status find_token(const char *given, struct weir__place_in_job *p)
{
    const char *token = given ? given : getenv("WEIR_TOKEN");

    if (!token) {
        if (!strncmp(p->store, "file:", 5))
            return WEIR_OK; /* rank 0 makes one and writes it there */
        return weir__fail(
            WEIR_EINVAL,
            "the store %s needs a secret token: set WEIR_TOKEN to the same text for every rank",
            p->store);
    }
    if (strlen(token) < 8 || strlen(token) >= sizeof p->token)
        return weir__fail(WEIR_EINVAL, "a token of %zu bytes is out of range: 8..%zu",
                          strlen(token), sizeof p->token - 1);
    strcpy(p->token, token);
    return WEIR_OK;
}

weir_status weir__procs_find_place(const weir_join_options *o, struct weir__place_in_job *p)
{
    const struct launcher *l = NULL;
    weir_status st;

    memset(p, 0, sizeof *p);
    p->listen_fd = -1;
    p->rank = o->rank;
    p->ranks = o->ranks;
    if (o->ranks < 0 || o->ranks > WEIR_MAX_RANKS ||
        (o->ranks && (o->rank < 0 || o->rank >= o->ranks)))
        return weir__fail(WEIR_ERANGE,
                          "rank %d of %d is out of range: a group has 1..%d ranks, counted from 0",
                          o->rank, o->ranks, WEIR_MAX_RANKS);
    if (!o->ranks && (st = read_launcher(&l, p)))
        return st;
    if ((st = find_store(o->store, l, p)) || (st = find_token(o->token, p)))
        return st;
    /* weir launch has opened the listening socket and passes it to rank 0. */
    if (!o->store && !p->rank && getenv("WEIR_STORE_FD") &&
        (st = read_number("WEIR_STORE_FD", 3, 1 << 20, &p->listen_fd)))
        return st;
    return WEIR_OK;
}
