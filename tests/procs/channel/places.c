/* Who a process is, and where ranks meet, in the environments of launchers. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/procs/procs.h"
#include "harness/test.h"

/* Everything that is read. */
static const char *const names[] = {
    "WEIR_RANK",
    "WEIR_RANKS",
    "WEIR_JOB",
    "WEIR_STORE",
    "WEIR_TOKEN",
    "WEIR_STORE_FD",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_NNODES",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "TMPDIR",
};

/* `env` is "NAME=value NAME=value ...". */
static void set_environment(const char *env)
{
    char text[1000], *at = text, *word, *is;

    for (size_t i = 0; i < weir__countof(names); i++)
        unsetenv(names[i]);
    snprintf(text, sizeof text, "%s", env);
    while ((word = strsep(&at, " "))) {
        if (!*word)
            continue;
        is = strchr(word, '=');
        CHECK(is);
        *is = 0;
        CHECK(!setenv(word, is + 1, 1));
    }
}

/* In a store, %u is the user and %p the parent process. */
static void expand(const char *store, char *to, size_t size)
{
    size_t n = 0;

    for (; *store && n < size - 20; store++)
        if (store[0] == '%' && store[1])
            n += (size_t)snprintf(to + n, size - n, "%u",
                                  *++store == 'u' ? (unsigned)geteuid() : (unsigned)getppid());
        else
            to[n++] = *store;
    to[n] = 0;
}

#define OMPI "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 "
#define TORCHRUN                                                         \
    "RANK=2 WORLD_SIZE=4 MASTER_ADDR=node7 MASTER_PORT=29500 TMPDIR=/t " \
    "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 "
#define BY_HAND "RANK=2 WORLD_SIZE=4 "
#define PMI "PMI_RANK=3 PMI_SIZE=4 TMPDIR=/t "
#define SLURM "SLURM_PROCID=5 SLURM_NTASKS=6 SLURM_JOB_ID=771 SLURM_STEP_ID=2 TMPDIR=/t "
#define TOKEN "WEIR_TOKEN=only-friends "

TEST(procs, each_launcher_says_who_a_process_is_and_where_ranks_meet)
{
    static const struct {
        const char *env;
        int rank, ranks;
        const char *store;
    } rows[] = {
        {"WEIR_RANK=0 WEIR_RANKS=1 WEIR_JOB=j.1", 0, 1, "file:/tmp/weir-%u-j_1"},
        {"WEIR_RANK=2 WEIR_RANKS=3 WEIR_STORE=file:/x/y", 2, 3, "file:/x/y"},
        {"WEIR_RANK=2 WEIR_RANKS=3 WEIR_STORE=h:1 " TOKEN, 2, 3, "h:1"},
        {OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=prte-h@1", 1, 4,
         "file:/tmp/weir-%u-prte_h_1"},
        {OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_MCA_ess_base_jobid=99", 1, 4,
         "file:/tmp/weir-%u-99-%p"},
        {OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=node7 MASTER_PORT=29500 " TOKEN, 1, 4,
         "node7:29500"},
        /* torchrun's own store listens on the port. */
        {TORCHRUN "LOCAL_WORLD_SIZE=4", 2, 4, "file:/t/weir-%u-none-0-29500"},
        {TORCHRUN "LOCAL_WORLD_SIZE=2 " TOKEN, 2, 4, "node7:29501"},
        {BY_HAND "MASTER_ADDR=node7 MASTER_PORT=29500 " TOKEN, 2, 4, "node7:29500"},
        {BY_HAND "MASTER_ADDR=fd00::7 MASTER_PORT=29500 " TOKEN, 2, 4, "fd00::7:29500"},
        {BY_HAND "MASTER_ADDR=localhost MASTER_PORT=29500", 2, 4, "file:/tmp/weir-%u-29500"},
        {BY_HAND "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500", 2, 4, "file:/tmp/weir-%u-29500"},
        {BY_HAND "MASTER_ADDR=::1 MASTER_PORT=29500", 2, 4, "file:/tmp/weir-%u-29500"},
        {BY_HAND, 2, 4, "file:/tmp/weir-%u-%p"},
        {"RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=8 MASTER_ADDR=node7 MASTER_PORT=1 TMPDIR=", 0, 1,
         "file:/tmp/weir-%u-1"}, /* one rank is on one host */
        {PMI "MPI_LOCALNRANKS=4", 3, 4, "file:/t/weir-%u-%p"},
        {PMI "MPI_LOCALNRANKS=2 WEIR_STORE=node7:29400 " TOKEN, 3, 4, "node7:29400"},
        {PMI "SLURM_NNODES=1", 3, 4, "file:/t/weir-%u-%p"}, /* srun --mpi=pmi2 */
        {SLURM "SLURM_NNODES=1", 5, 6, "file:/t/weir-%u-771-2"},
        {SLURM "SLURM_NNODES=2 MASTER_ADDR=node7 MASTER_PORT=30400 " TOKEN, 5, 6, "node7:30400"},
        /* Several launchers: those that name the ranks of weir, then of MPI, then of torchrun. */
        {SLURM PMI TORCHRUN OMPI "WEIR_RANK=0 WEIR_RANKS=2 WEIR_STORE=file:/x", 0, 2, "file:/x"},
        {SLURM PMI TORCHRUN OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=4", 1, 4, "file:/t/weir-%u-29500"},
        {SLURM PMI TORCHRUN "LOCAL_WORLD_SIZE=4", 2, 4, "file:/t/weir-%u-none-0-29500"},
        {SLURM PMI "SLURM_NNODES=1", 3, 4, "file:/t/weir-%u-%p"},
        {SLURM "RANK=1 SLURM_NNODES=1", 5, 6, "file:/t/weir-%u-771-2"}, /* half of torchrun's */
    };

    for (size_t i = 0; i < weir__countof(rows); i++) {
        struct weir__place_in_job p;
        char store[300];

        test_note("%s", rows[i].env);
        set_environment(rows[i].env);
        expand(rows[i].store, store, sizeof store);
        CHECK_OK(weir__procs_find_place(&(weir_join_options){0}, &p));
        CHECK_EQ(p.rank, rows[i].rank);
        CHECK_EQ(p.ranks, rows[i].ranks);
        CHECK_STR_EQ(p.store, store);
        CHECK_STR_EQ(p.token, getenv("WEIR_TOKEN") ? getenv("WEIR_TOKEN") : "");
        CHECK_EQ(p.listen_fd, -1);
    }
}

TEST(procs, a_wrong_or_missing_variable_of_a_launcher_is_named_with_its_value)
{
    static const struct {
        const char *env;
        weir_status status;
        const char *text;
    } rows[] = {
        {"", WEIR_EINVAL, "start it with weir launch, torchrun, mpirun or srun"},
        {"RANK=0", WEIR_EINVAL, "RANK is set, but WORLD_SIZE is not"},
        {"WORLD_SIZE=2", WEIR_EINVAL, "WORLD_SIZE is set, but RANK is not"},
        {"SLURM_PROCID=0", WEIR_EINVAL, "SLURM_PROCID is set, but SLURM_NTASKS is not"},
        {"RANK=2 WORLD_SIZE=2", WEIR_ERANGE, "RANK is '2': a number in 0..1 is needed"},
        {"RANK=-1 WORLD_SIZE=2", WEIR_ERANGE, "RANK is '-1': a number in 0..1"},
        {"RANK=one WORLD_SIZE=2", WEIR_ERANGE, "RANK is 'one'"},
        {"RANK= WORLD_SIZE=2", WEIR_ERANGE, "RANK is ''"},
        {"RANK=0x1 WORLD_SIZE=2", WEIR_ERANGE, "RANK is '0x1'"},
        {"RANK=99999999999999999999 WORLD_SIZE=2", WEIR_ERANGE, "RANK is '99999999999999999999'"},
        {"RANK=0 WORLD_SIZE=0", WEIR_ERANGE, "WORLD_SIZE is '0': a number in 1..1024 is needed"},
        {"RANK=0 WORLD_SIZE=1025", WEIR_ERANGE, "WORLD_SIZE is '1025'"},
        {"PMI_RANK=4 PMI_SIZE=4", WEIR_ERANGE, "PMI_RANK is '4': a number in 0..3"},
        {"SLURM_PROCID=0 SLURM_NTASKS=many", WEIR_ERANGE, "SLURM_NTASKS is 'many'"},
        /* The first launcher counts, not the next one whose variables are right. */
        {"WEIR_RANK=4 WEIR_RANKS=4 RANK=0 WORLD_SIZE=2", WEIR_ERANGE, "WEIR_RANK is '4'"},
        {TORCHRUN "LOCAL_WORLD_SIZE=8", WEIR_ERANGE, "LOCAL_WORLD_SIZE is '8': a number in 1..4"},
        {TORCHRUN "LOCAL_WORLD_SIZE=two", WEIR_ERANGE, "LOCAL_WORLD_SIZE is 'two'"},
        {SLURM "SLURM_NNODES=0", WEIR_ERANGE, "SLURM_NNODES is '0'"},
        {BY_HAND "MASTER_ADDR=node7 MASTER_PORT=http", WEIR_ERANGE,
         "MASTER_PORT is 'http': a number in 1..65535 is needed"},
        {BY_HAND "MASTER_ADDR=node7 MASTER_PORT=0", WEIR_ERANGE, "MASTER_PORT is '0'"},
        {TORCHRUN "LOCAL_WORLD_SIZE=2 MASTER_PORT=65535", WEIR_ERANGE,
         "MASTER_PORT is '65535': a number in 1..65534"},
        {TORCHRUN "LOCAL_WORLD_SIZE=2", WEIR_EINVAL, "node7:29501 needs a secret token"},
        {TORCHRUN "LOCAL_WORLD_SIZE=2 WEIR_TOKEN=short", WEIR_EINVAL,
         "a token of 5 bytes is out of range: 8..63"},
        {SLURM "SLURM_NNODES=2", WEIR_EINVAL, "set WEIR_STORE to HOST:PORT of rank 0"},
        {SLURM "SLURM_NNODES=2 MASTER_ADDR=node7", WEIR_EINVAL, "set WEIR_STORE"},
        {OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2", WEIR_EINVAL, "set WEIR_STORE"},
        {"WEIR_RANK=0 WEIR_RANKS=1 WEIR_STORE_FD=1", WEIR_ERANGE, "WEIR_STORE_FD is '1'"},
    };

    for (size_t i = 0; i < weir__countof(rows); i++) {
        struct weir__place_in_job p;

        test_note("%s", rows[i].env);
        set_environment(rows[i].env);
        CHECK_STATUS(weir__procs_find_place(&(weir_join_options){0}, &p), rows[i].status);
        CHECK_STR(weir_last_error(), rows[i].text);
    }
}

TEST(procs, an_address_that_does_not_fit_is_refused_and_never_cut)
{
    struct weir__place_in_job p;
    char long_text[400];

    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    set_environment(BY_HAND "MASTER_PORT=29500 " TOKEN);
    setenv("MASTER_ADDR", long_text, 1);
    CHECK_STATUS(weir__procs_find_place(&(weir_join_options){0}, &p), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "MASTER_ADDR has 399 bytes, at most 249 fit");
    long_text[249] = 0;
    setenv("MASTER_ADDR", long_text, 1);
    CHECK_OK(weir__procs_find_place(&(weir_join_options){0}, &p));
    CHECK_EQ(strlen(p.store), 255);
    /* Two jobs whose names differ at the end only must not meet. */
    memset(long_text, 'x', sizeof long_text - 1);
    set_environment(BY_HAND "LOCAL_WORLD_SIZE=4");
    setenv("TORCHELASTIC_RUN_ID", long_text, 1);
    CHECK_STATUS(weir__procs_find_place(&(weir_join_options){0}, &p), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "set WEIR_STORE to file:PATH");
    set_environment(BY_HAND "LOCAL_WORLD_SIZE=4 MASTER_PORT=29500");
    for (size_t n = 220; n < 260; n++) { /* a folder of each length around what fits */
        memset(long_text, 'x', n);
        long_text[n] = 0;
        setenv("TMPDIR", long_text, 1);
        if (weir__procs_find_place(&(weir_join_options){0}, &p))
            CHECK_STR(weir_last_error(), "is too long");
        else
            CHECK(!strcmp(p.store + strlen(p.store) - 6, "-29500"));
    }
    setenv("WEIR_STORE", long_text, 1);
    CHECK_STATUS(weir__procs_find_place(&(weir_join_options){0}, &p), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "the store's address has 259 bytes, at most 255 fit");
}

TEST(procs, options_are_over_the_environment)
{
    weir_join_options o = {.rank = 1, .ranks = 2, .store = "file:/x", .token = "a b c d e"};
    struct weir__place_in_job p;

    set_environment(TORCHRUN "LOCAL_WORLD_SIZE=4 WEIR_STORE=file:/y " TOKEN);
    CHECK_OK(weir__procs_find_place(&o, &p));
    CHECK_EQ(p.rank, 1);
    CHECK_EQ(p.ranks, 2);
    CHECK_STR_EQ(p.store, "file:/x");
    CHECK_STR_EQ(p.token, "a b c d e");
    /* A launcher that counts other ranks does not say where these are. */
    o.store = NULL;
    unsetenv("WEIR_STORE");
    CHECK_OK(weir__procs_find_place(&o, &p));
    CHECK_STR_EQ(p.store, "node7:29501");
    set_environment("");
    CHECK_STATUS(weir__procs_find_place(&o, &p), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "set WEIR_STORE");
    for (int i = 0; i < 4; i++) {
        static const int wrong[][2] = {{2, 2}, {-1, 2}, {0, -1}, {0, 1025}};

        o.rank = wrong[i][0];
        o.ranks = wrong[i][1];
        CHECK_STATUS(weir__procs_find_place(&o, &p), WEIR_ERANGE);
        CHECK_STR(weir_last_error(), "is out of range: a group has 1..1024 ranks");
    }
}
