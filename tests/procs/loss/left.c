#define _GNU_SOURCE
#include "procs/loss/left.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "procs/kids.h"

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void add(char *text, size_t size, const char *part)
{
    size_t have = strlen(text);

    snprintf(text + have, size - have, "%s%s", have ? ", " : "", part);
}

/* ---- processes ---- */

/* Calls `each` with every process; false ends it. */
static void each_process(bool (*each)(int pid, void *user), void *user)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;

    CHECK(folder);
    while ((entry = readdir(folder)))
        if (atoi(entry->d_name) > 0 && !each(atoi(entry->d_name), user))
            break;
    closedir(folder);
}

struct found {
    char *text;
    size_t size;
};

/* A child of this process is named and killed. */
static bool end_child(int pid, void *user)
{
    const struct found *f = user;
    char path[40], line[300] = "", part[400], name[60] = "";
    int parent = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!(file = fopen(path, "r")))
        return true;
    if (fgets(line, sizeof line, file) && strrchr(line, ')') &&
        sscanf(strrchr(line, ')'), ") %*c %d", &parent) == 1 && parent == getpid()) {
        sscanf(line, "%*d (%59[^)]", name);
        snprintf(part, sizeof part, "process %d (%s)", pid, name);
        add(f->text, f->size, part);
        kill(pid, SIGKILL);
    }
    fclose(file);
    return true;
}

/* They end by themselves, though perhaps not at once. */
static void find_processes(int looks, char *text, size_t size)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0 || (!pid && looks-- > 0))
        if (!pid)
            pause_ms(5);
    if (pid < 0) {
        CHECK_EQ(errno, ECHILD);
        return;
    }
    each_process(end_child, &(struct found){text, size});
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

/* ---- names of shared memory ---- */

enum { MOST_NAMES = 500, NAME = 256 };
static char known[MOST_NAMES][NAME];
static int nknown;

struct holder {
    const char *path;
    bool found;
};

/* If the process has that file mapped or open. */
static bool see_holder(int pid, void *user)
{
    struct holder *h = user;
    char path[300], line[4500];
    const struct dirent *entry;
    DIR *folder;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    if ((folder = opendir(path))) {
        while (!h->found && (entry = readdir(folder))) {
            char link[600], to[300] = "";

            snprintf(link, sizeof link, "%s/%s", path, entry->d_name);
            if (readlink(link, to, sizeof to - 1) > 0)
                h->found = !strcmp(to, h->path);
        }
        closedir(folder);
    }
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    if (!h->found && (file = fopen(path, "r"))) {
        while (!h->found && fgets(line, sizeof line, file))
            h->found = strstr(line, h->path) != NULL;
        fclose(file);
    }
    return !h->found;
}

/* Other programs have names, too, while they run: one is left if it is there and nobody has it,
 * whenever one looks. */
static bool is_left(const char *name)
{
    enum { LOOKS = 4 };
    char path[NAME + 16];
    struct stat st;

    snprintf(path, sizeof path, "/dev/shm/%s", name);
    for (int i = 0; i < LOOKS; i++) {
        struct holder h = {.path = path};

        if (i)
            pause_ms(50);
        if (lstat(path, &st) || st.st_uid != geteuid())
            return false;
        each_process(see_holder, &h);
        if (h.found)
            return false;
    }
    return true;
}

static bool is_known(const char *name)
{
    for (int i = 0; i < nknown; i++)
        if (!strcmp(known[i], name))
            return true;
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Notes the names that are not known yet, and with a text those that are left. */
static void see_names(const char *not_ours, char *text, size_t size)
{
    DIR *folder = opendir("/dev/shm");
    const struct dirent *entry;
    char part[NAME + 16];

    while (folder && (entry = readdir(folder)))
        if (!is_known(entry->d_name) && (!text || is_left(entry->d_name)) && nknown < MOST_NAMES) {
            snprintf(known[nknown++], NAME, "%s", entry->d_name);
            snprintf(part, sizeof part, "/dev/shm/%s", entry->d_name);
            if (text && not_ours && !strncmp(entry->d_name, not_ours, strlen(not_ours)))
                unlink(part);
            else if (text)
                add(text, size, part);
        }
    if (folder)
        closedir(folder);
}

/* An own /dev/shm, where root may have one: nobody else makes names in it. */
static void own_names(void)
{
    static bool asked;

    if (!asked && !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        (void)!mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
    asked = true;
}

void left_begin(void)
{
    own_names();
    CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
    see_names(NULL, NULL, 0);
}

/* `looks`: so often it looks, every 5 ms, whether processes have ended. */
static bool find_left(int looks, const char *not_ours, char *text, size_t size)
{
    text[0] = 0;
    find_processes(looks, text, size);
    see_names(not_ours, text, size);
    return text[0];
}

void expect_nothing_left(void)
{
    expect_nothing_left_but(NULL);
}

void expect_nothing_left_but(const char *prefix)
{
    enum { LOOKS = 2000 };
    char text[2000];

    if (find_left((int)(LOOKS * test_patience()) * TEST_SLOWDOWN, prefix, text, sizeof text))
        FAIL("left behind: %s", text);
}

/* ---- in a rank ---- */

enum { MOST_KINDS = 64 };
struct owned {
    char kind[MOST_KINDS][80];
    int count[MOST_KINDS], n;
};
static struct owned at_first;

static void count_one(struct owned *o, const char *kind)
{
    int i = 0;

    while (i < o->n && strcmp(o->kind[i], kind))
        i++;
    if (i == MOST_KINDS)
        return;
    if (i == o->n)
        snprintf(o->kind[o->n++], sizeof o->kind[0], "%s", kind);
    o->count[i]++;
}

/* Kinds of open files, "a file: socket", and mapped files that have no name, "mapped: memfd:weir",
 * and how many there are. */
static void count_owned(struct owned *o)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    char line[4500], kind[80];
    FILE *maps;

    memset(o, 0, sizeof *o);
    CHECK(folder);
    while ((entry = readdir(folder))) {
        char to[300] = "";
        int n;

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(folder) ||
            readlinkat(dirfd(folder), entry->d_name, to, sizeof to - 1) < 0)
            continue;
        n = (int)(to[0] == '/' ? strlen(to) : strcspn(to, "["));
        snprintf(kind, sizeof kind, "a file: %.*s", n > 60 ? 60 : n, to);
        count_one(o, kind);
    }
    closedir(folder);
    CHECK((maps = fopen("/proc/self/maps", "r")));
    while (fgets(line, sizeof line, maps)) {
        const char *name = strstr(line, "/memfd:");

        name = name ? name : strstr(line, "/dev/shm/");
        if (!name)
            continue;
        snprintf(kind, sizeof kind, "mapped: %.*s", (int)strcspn(name, "\n"), name);
        count_one(o, kind);
    }
    fclose(maps);
}

void own_begin(void)
{
    count_owned(&at_first);
}

bool own_find(bool mine, char *text, size_t size)
{
    static struct owned now;

    text[0] = 0;
    count_owned(&now);
    for (int i = 0; i < now.n; i++) {
        char part[200];
        int was = 0;

        for (int j = 0; j < at_first.n; j++)
            if (!strcmp(at_first.kind[j], now.kind[i]))
                was = at_first.count[j];
        if (now.count[i] <= was || (mine && !strstr(now.kind[i], "memfd:weir")))
            continue;
        snprintf(part, sizeof part, "%d times %s", now.count[i] - was, now.kind[i]);
        add(text, size, part);
    }
    return text[0];
}

/* ---- the checks themselves can fail ---- */

static void name_to_leave(int parent, char *path, size_t size)
{
    snprintf(path, size, "/dev/shm/test-left-%d", parent);
}

/* Leaves one thing behind. */
SCENARIO(leaves_behind)
{
    const char *what = getenv("KID_LEFT");
    char text[1000], path[60];
    int fd;

    own_begin();
    if (!strcmp(what, "process") && !fork()) { /* as an observer would be */
        if (fork())
            _exit(0);
        setsid();
        close(1);
        pause();
    }
    name_to_leave(getppid(), path, sizeof path);
    if (!strcmp(what, "name"))
        CHECK((fd = open(path, O_CREAT | O_RDWR, 0600)) >= 0);
    if (!strcmp(what, "file"))
        CHECK(memfd_create("weir", 0) >= 0);
    if (!strcmp(what, "memory")) {
        CHECK((fd = memfd_create("weir", 0)) >= 0 && !ftruncate(fd, 4096));
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
        close(fd);
    }
    if (!strcmp(what, "socket"))
        CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0);
    own_find(!strcmp(what, "file"), text, sizeof text);
    say("left: %s\n", text);
}

TEST(procs, a_process_a_name_a_file_and_memory_that_are_left_behind_are_found)
{
    static const struct {
        const char *what, *own, *all;
    } rows[] = {{"KID_LEFT=process", "left: \n", "process "},
                {"KID_LEFT=name", "1 times a file: /dev/shm/test-left", "/dev/shm/test-left-"},
                {"KID_LEFT=file", "1 times a file: /memfd:weir", ""},
                {"KID_LEFT=memory", "1 times mapped: /memfd:weir", ""},
                {"KID_LEFT=socket", "1 times a file: socket:", ""},
                {"KID_LEFT=nothing", "left: \n", ""}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1000], path[60];
        struct kids k;

        test_note("%s", rows[i].what);
        left_begin();
        kids_start(&k, 1, "leaves_behind", (const char *[]){rows[i].what, NULL});
        kids_end(&k, 0);
        CHECK_EQ(k.status[0], 0);
        CHECK_STR(k.text[0], rows[i].own);
        find_left(20, NULL, text, sizeof text);
        name_to_leave(getpid(), path, sizeof path);
        unlink(path);
        if (*rows[i].all)
            CHECK_STR(text, rows[i].all);
        else
            CHECK_STR_EQ(text, "");
    }
}
