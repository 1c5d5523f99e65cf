/* The rank of this process and the store: from options, weir launch, torchrun, Open MPI, PMI or
 * Slurm. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
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
    for (size_t i = 0; i < weir__countof(launchers) && !*found; i++) {
        bool has_rank = getenv(launchers[i].rank);

        if (has_rank || getenv(launchers[i].ranks))
            return weir__fail(WEIR_EINVAL,
                              "the rank of this process is not given: %s is set, but %s is not",
                              has_rank ? launchers[i].rank : launchers[i].ranks,
                              has_rank ? launchers[i].ranks : launchers[i].rank);
    }
    if (!*found)
        return weir__fail(
            WEIR_EINVAL,
            "the rank of this process is not given: start it with weir launch, torchrun, mpirun or "
            "srun, set RANK and WORLD_SIZE, or give rank and ranks in the options");
    return WEIR_OK;
}

/* Finds out whether all ranks are on one host, according to the launcher. */
static weir_status find_hosts(const struct launcher *l, int ranks, bool *one_host)
{
    const char *address = getenv("MASTER_ADDR");
    weir_status st = WEIR_OK;
    int n = 1;

    *one_host = true;
    if (ranks == 1)
        return WEIR_OK;
    if (l->local_ranks && getenv(l->local_ranks)) {
        st = read_number(l->local_ranks, 1, ranks, &n);
        *one_host = n == ranks;
    } else if (getenv("SLURM_NNODES")) {
        st = read_number("SLURM_NNODES", 1, INT_MAX, &n);
        *one_host = n == 1;
    } else if (address) {
        *one_host = !strcmp(address, "localhost") || !strncmp(address, "127.", 4) ||
                    !strcmp(address, "::1");
    }
    return st;
}

/* Makes a file name that is the same for all processes of one job and user. Characters other than
 * letters and digits become _. */
static weir_status name_file(const struct launcher *l, struct weir__place_in_job *p)
{
    const char *parts[] = {l->job ? getenv(l->job) : NULL, l->again ? getenv(l->again) : NULL,
                           getenv("MASTER_PORT")};
    const char *dir = getenv("TMPDIR");
    size_t n, most = sizeof p->store - 1;

    dir = dir && *dir ? dir : "/tmp";
    n = (size_t)snprintf(p->store, sizeof p->store, "file:%s/weir-%u", dir, (unsigned)geteuid());
    for (size_t i = 0; i < weir__countof(parts); i++)
        for (const char *c = parts[i] ? parts[i] : ""; *c; c++) {
            if (c == parts[i] && n < most)
                p->store[n++] = '-';
            if (n < most)
                p->store[n] =
                    (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')
                        ? *c
                        : '_';
            n++;
        }
    if (n < most)
        p->store[n] = 0;
    if (!parts[0] && !parts[2] && n < most) /* no job id: one launcher is the parent of all ranks */
        n += (size_t)snprintf(p->store + n, sizeof p->store - n, "-%d", (int)getppid());
    if (n >= most) /* a name that is cut may be that of another job */
        return weir__fail(
            WEIR_EINVAL,
            "the name of the file in %.60s%s where ranks find each other is too long: "
            "set WEIR_STORE to file:PATH of at most %zu bytes",
            dir, strlen(dir) > 60 ? "..." : "", most);
    return WEIR_OK;
}

/* torchrun's own store listens on MASTER_PORT: ranks use the next port. */
static weir_status name_address(const char *host, struct weir__place_in_job *p)
{
    bool torchrun = getenv("TORCHELASTIC_RUN_ID");
    weir_status st;
    int port;

    if ((st = read_number("MASTER_PORT", 1, torchrun ? 65534 : 65535, &port)))
        return st;
    if (snprintf(p->store, sizeof p->store, "%s:%d", host, port + torchrun) >= (int)sizeof p->store)
        return weir__fail(WEIR_EINVAL, "MASTER_ADDR has %zu bytes, at most %zu fit", strlen(host),
                          sizeof p->store - sizeof ":65535");
    return WEIR_OK;
}

static weir_status find_store(const char *given, const struct launcher *l,
                              struct weir__place_in_job *p)
{
    const char *store = given ? given : getenv("WEIR_STORE");
    const char *address = getenv("MASTER_ADDR");
    bool one_host = false;
    weir_status st;

    if (store) {
        if (strlen(store) >= sizeof p->store)
            return weir__fail(WEIR_EINVAL, "the store's address has %zu bytes, at most %zu fit",
                              strlen(store), sizeof p->store - 1);
        strcpy(p->store, store);
        return WEIR_OK;
    }
    if (l && (st = find_hosts(l, p->ranks, &one_host)))
        return st;
    if (one_host)
        return name_file(l, p);
    if (address && getenv("MASTER_PORT"))
        return name_address(address, p);
    return weir__fail(WEIR_EINVAL,
                      "the store, where ranks find each other, is not given: set WEIR_STORE to "
                      "HOST:PORT of rank 0, or to file:PATH on one host");
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
