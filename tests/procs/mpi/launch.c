#define _GNU_SOURCE
#include "procs/mpi/launch.h"
#include "procs/loss/left.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

extern char **environ;

const struct family open_mpi = {.launcher = "mpirun.openmpi",
                                .variable = "TEST_OPEN_MPI",
                                .library = "libmpi.so.40",
                                .options = {"--allow-run-as-root", "--oversubscribe"}};
const struct family mpich = {.launcher = "mpiexec.hydra",
                             .variable = "TEST_MPICH",
                             .library = "libmpi_abi.so.1",
                             .settings = MPICH_SETTINGS};

const struct family open_mpi_far = {.launcher = "mpirun.openmpi",
                                    .variable = "TEST_OPEN_MPI",
                                    .library = "libmpi.so.40",
                                    .hosts = "open-mpi"};
const struct family mpich_far = {.launcher = "mpiexec.hydra",
                                 .variable = "TEST_MPICH",
                                 .library = "libmpi_abi.so.1",
                                 .settings = MPICH_SETTINGS,
                                 .hosts = "mpich"};

static bool is_in_path(const char *name)
{
    char path[600], *dirs = strdup(getenv("PATH") ? getenv("PATH") : ""), *rest = dirs;
    bool found = false;

    for (const char *dir; !found && (dir = strsep(&rest, ":"));) {
        snprintf(path, sizeof path, "%s/%s", dir, name);
        found = !access(path, X_OK);
    }
    free(dirs);
    return found;
}

static void need_two_hosts(void)
{
    char why[200] = "";
    FILE *out = popen(TWO_HOSTS " try 2>&1", "r");
    int status;

    CHECK(out);
    if (!fgets(why, sizeof why, out))
        why[0] = 0;
    why[strcspn(why, "\n")] = 0;
    status = pclose(out);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("%s", why);
    test_note("%s", why);
    CHECK_EQ(status, 0);
}

/* The library that the ranks load, in `path` if it is beside the launcher that was named. */
static const char *library_of(const struct family *f, char *path, size_t size)
{
    const char *launcher = getenv(f->variable), *slash = launcher ? strrchr(launcher, '/') : NULL;

    if (getenv("WEIR_MPI"))
        return getenv("WEIR_MPI");
    snprintf(path, size, "%.*s/../lib/%s", slash ? (int)(slash - launcher) : 0, launcher,
             f->library);
    return slash && !access(path, R_OK) ? path : f->library;
}

const char *mpi_need(const struct family *f)
{
    const char *given = getenv(f->variable);
    char path[600];
    const char *library = library_of(f, path, sizeof path);

    if (TEST_SANITIZED && !getenv("TEST_MPI_SANITIZED"))
        SKIP("MPI libraries are not built for sanitizers");
    if (!given && !is_in_path(f->launcher))
        SKIP("%s is not in PATH, and %s does not name it", f->launcher, f->variable);
    if (!dlopen(library, RTLD_NOW | RTLD_LOCAL))
        SKIP("%s: it is not installed", library);
    if (f->hosts)
        need_two_hosts();
    return given ? given : f->launcher;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void remove_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int mpi_launch(const struct family *f, int n, const char *scenario, char *text, size_t size)
{
    char self[300] = "", ranks[8], *env[300], name[80], path[600], library[620];
    /* Open MPI's processes that start at once stumble over each other's folder. */
    char folder[] = "/tmp/weir-mpi-XXXXXX", folder_env[60];
    const char *launcher, *args[16],
        *own[] = {f->hosts ? "KID_FAR=1" : "WEIR_ENGINE=mpi", "KID_FEWER=1", name, folder_env,
                  library};
    posix_spawn_file_actions_t files;
    int nargs = 0, nenv = 0, out[2], status;
    size_t have = 0;
    ssize_t got;
    pid_t pid;

    launcher = mpi_need(f); /* before there is anything to remove */
    CHECK(mkdtemp(folder));
    snprintf(folder_env, sizeof folder_env, "TMPDIR=%s", folder);
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(ranks, sizeof ranks, "%d", n);
    snprintf(name, sizeof name, "KID_SCENARIO=%s", scenario);
    snprintf(library, sizeof library, "WEIR_MPI=%s", library_of(f, path, sizeof path));
    if (f->hosts) {
        args[nargs++] = TWO_HOSTS;
        args[nargs++] = f->hosts;
    }
    args[nargs++] = launcher;
    for (int i = 0; f->options[i]; i++)
        args[nargs++] = f->options[i];
    if (!f->hosts)
        args[nargs++] = "-n";
    args[nargs++] = ranks;
    args[nargs++] = self;
    args[nargs] = NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        env[nenv++] = (char *)own[i];
    for (int i = 0; f->settings[i]; i++)
        env[nenv++] = (char *)f->settings[i];
    for (char **e = environ; *e && nenv < 298; e++)
        env[nenv++] = *e;
    env[nenv] = NULL;
    CHECK(!pipe2(out, O_CLOEXEC));
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, out[1], 2);
    CHECK_EQ(posix_spawnp(&pid, args[0], &files, NULL, (char *const *)args, env), 0);
    posix_spawn_file_actions_destroy(&files);
    close(out[1]);
    while ((got = read(out[0], text + have, size - 1 - have)) > 0)
        have += (size_t)got;
    text[have] = 0;
    close(out[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    remove_folder(folder);
    return status;
}

/* All that may tell why: MPI has messages in /dev/shm, and its ranks do not yield. */
static void print_all(const char *scenario, const char *launcher, int status, const char *text)
{
    struct statvfs shm;
    double load = 0;

    printf("%s by %s: wait status %x\n%s\n", scenario, launcher, (unsigned)status, text);
    if (!statvfs("/dev/shm", &shm))
        printf("/dev/shm: %llu of %llu MiB are free\n",
               (unsigned long long)(shm.f_bavail * shm.f_frsize >> 20),
               (unsigned long long)(shm.f_blocks * shm.f_frsize >> 20));
    if (getloadavg(&load, 1) == 1)
        printf("load %.1f on %ld processors\n", load, sysconf(_SC_NPROCESSORS_ONLN));
}

void mpi_run_well(const struct family *f, int n, const char *scenario)
{
    char text[8000];
    int status;

    left_begin();
    status = mpi_launch(f, n, scenario, text, sizeof text);

    if (status)
        print_all(scenario, f->launcher, status, text);
    test_note("%s by %s: %.400s", scenario, f->launcher, text);
    CHECK_EQ(status, 0);
    expect_nothing_left();
}
