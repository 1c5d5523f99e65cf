/* libhccl between hosts: ranks that Open MPI has started. What makes hosts differ here is a set of
 * process numbers of its own. */
#define _GNU_SOURCE
#include "helpers.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hccl_rank.h"

extern char **environ;

#define FOLDER "TEST_HCCL_FOLDER" /* where rank 0 leaves the root information */
#define APART "TEST_HCCL_APART"   /* the rank that is on another host */

/* ---- a rank ---- */

static bool leave(const char *path, const HcclRootInfo *root)
{
    char beside[200];
    FILE *f;

    snprintf(beside, sizeof beside, "%s.new", path);
    f = fopen(beside, "w");
    return f && fwrite(root, sizeof *root, 1, f) == 1 && !fclose(f) && !rename(beside, path);
}

static bool take(const char *path, HcclRootInfo *root)
{
    FILE *f = NULL;
    bool whole;

    for (int i = 0; i < 20000 && !(f = fopen(path, "r")); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    whole = f && fread(root, sizeof *root, 1, f) == 1;
    if (f)
        fclose(f);
    return whole;
}

static void go_to_another_host(void)
{
    int status = 0;
    pid_t child;

    if (unshare(CLONE_NEWPID) || (child = fork()) < 0)
        _exit(101);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return;
    }
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 102);
}

/* The test's own program, started by mpirun. */
__attribute__((constructor)) static void be_a_rank(void)
{
    const char *folder = getenv(FOLDER), *apart = getenv(APART),
               *number = getenv("OMPI_COMM_WORLD_RANK");
    HcclRootInfo root;
    uint32_t rank;
    char path[100];
    int status;

    if (!folder || !number)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives the case */
    rank = (uint32_t)strtoul(number, NULL, 10);
    if (apart && strtoul(apart, NULL, 10) == rank)
        go_to_another_host();
    snprintf(path, sizeof path, "%.80s/root", folder);
    if (rank ? !take(path, &root) : HcclGetRootInfo(&root) || !leave(path, &root))
        _exit(103);
    if ((status = t_hccl_rank(rank, &root)))
        fprintf(stderr, "rank %u: step %d: %s\n", rank, status, aclGetRecentErrMsg());
    else if (!dlopen("libmpi.so.40", RTLD_NOW | RTLD_NOLOAD))
        status = 104; /* something else connected them */
    exit(status);
}

/* ---- the cases ---- */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static bool can_be_another_host(void)
{
    int status = 1;
    pid_t child = fork();

    if (!child)
        _exit(unshare(CLONE_NEWPID) != 0);
    waitpid(child, &status, 0);
    return !status;
}

/* Three ranks to their end. */
static void three_ranks_of_mpirun(void)
{
    char *args[] = {"mpirun.openmpi",
                    "--allow-run-as-root",
                    "--oversubscribe",
                    "--mca",
                    "btl",
                    "tcp,self",
                    "-n",
                    "3",
                    NULL,
                    NULL};
    char folder[] = "/tmp/weir-hccl-XXXXXX", self[300] = "", text[4000];
    posix_spawn_file_actions_t files;
    int out[2], status = -1, e;
    size_t have = 0;
    ssize_t got;
    pid_t pid;

    if (TEST_SANITIZED)
        SKIP("MPI libraries are not built for sanitizers");
    NOT_ON_CUDA("engine mpi joins ranks on cpu");
    if (!dlopen("libmpi.so.40", RTLD_NOW | RTLD_LOCAL))
        SKIP("Open MPI is not installed");
    CHECK(mkdtemp(folder));
    setenv(FOLDER, folder, 1);
    setenv("TMPDIR", folder, 1); /* Open MPI's processes stumble over each other's folder */
    setenv("HCCL_IF_IP", "127.0.0.1", 1);
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    args[8] = self;
    CHECK(!pipe2(out, O_CLOEXEC));
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, out[1], 2);
    e = posix_spawnp(&pid, args[0], &files, NULL, args, environ);
    posix_spawn_file_actions_destroy(&files);
    close(out[1]);
    while (!e && have < sizeof text - 1 &&
           (got = read(out[0], text + have, sizeof text - 1 - have)) > 0)
        have += (size_t)got;
    text[have] = 0;
    close(out[0]);
    if (!e)
        CHECK_EQ(waitpid(pid, &status, 0), pid);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (e)
        SKIP("mpirun.openmpi: it is not in PATH");
    test_note("mpirun says: %.1500s", text);
    CHECK_EQ(status, 0);
}

TEST(hccl_hosts, a_rank_of_another_host_makes_all_meet_by_mpi)
{
    if (!can_be_another_host())
        SKIP("this user may not have a set of process numbers of its own");
    setenv(APART, "2", 1);
    three_ranks_of_mpirun();
}

TEST(hccl_hosts, ranks_meet_by_mpi_where_a_variable_says_so)
{
    setenv("WEIR_ENGINE", "mpi", 1);
    three_ranks_of_mpirun();
}
