/* Starts the observer (watch.h) from a process that may have many threads and much memory: no
 * memory is copied, and no signal handler of the program runs. Two processes are made with
 * vfork-like clones, which borrow this process's memory until they execute another program or end.
 * The first one sends no signal, is not reported by wait(), and ends at once; so the second one,
 * which becomes the observer, is adopted by init. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "comm/procs/watch/watch.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* since Linux 6.3 */
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#if defined(__clang__)
#define UNWATCHED __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define UNWATCHED \
    __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")))
#endif

enum { PROGRAM = 2, HIGH = 10, STACK = 64 << 10, BORROWS = CLONE_VM | CLONE_VFORK };

struct start {
    int control, owner, program; /* files */
    char *stack;                 /* of the second */
};

/* Returns a memfd with the program. The memory is freed when the last process that runs it ends. */
static int write_program(void)
{
    size_t done = 0;
    int fd = memfd_create("weir-watch", MFD_CLOEXEC | MFD_EXEC);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("weir-watch", MFD_CLOEXEC);
    while (fd >= 0 && done < weir__watch_program_size) {
        ssize_t n = write(fd, weir__watch_program + done, weir__watch_program_size - done);

        if (n <= 0) {
            close(fd);
            return -1;
        }
        done += (size_t)n;
    }
    return fd;
}

/* All other files are the rank's: pipes that somebody waits for the end of. */
UNWATCHED static void close_others(void)
{
    if (!syscall(SYS_close_range, PROGRAM + 1, ~0U, 0))
        return;
    for (int fd = PROGRAM + 1; fd < 65536; fd++)
        syscall(SYS_close, fd);
}

UNWATCHED static int become_program(void *user)
{
    static char *const args[] = {(char *)"weir-watch", NULL}, *const environment[] = {NULL};
    const struct start *s = user;
    long control = syscall(SYS_fcntl, s->control, F_DUPFD, HIGH);
    long owner = s->owner < 0 ? -1 : syscall(SYS_fcntl, s->owner, F_DUPFD, HIGH);
    long program = syscall(SYS_fcntl, s->program, F_DUPFD, HIGH);

    if (control < 0 || program < 0)
        syscall(SYS_exit, 1);
    syscall(SYS_setsid); /* neither a terminal nor who stops a job means it */
    syscall(SYS_dup3, control, WEIR__WATCH_CONTROL, 0);
    if (owner < 0 || syscall(SYS_dup3, owner, WEIR__WATCH_OWNER, 0) < 0)
        syscall(SYS_close, WEIR__WATCH_OWNER);
    syscall(SYS_dup3, program, PROGRAM, O_CLOEXEC);
    close_others();
    syscall(SYS_execveat, PROGRAM, "", args, environment, AT_EMPTY_PATH);
    syscall(SYS_exit, 1);
    return 1;
}

UNWATCHED static int end_at_once(void *user)
{
    const struct start *s = user;

    syscall(SYS_exit, clone(become_program, s->stack + STACK, BORROWS, user) < 0);
    return 1;
}

static bool run(struct start *s)
{
    uint64_t all = ~UINT64_C(0), before;
    char *stacks =
        mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status = 1, pid;

    if (stacks == MAP_FAILED)
        return false;
    s->stack = stacks;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    pid = clone(end_at_once, stacks + 2 * STACK, BORROWS, s);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    while (pid > 0 && waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR)
        ;
    munmap(stacks, 2 * STACK);
    return pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

int weir__watch_start(const struct weir__watch_orders *orders)
{
    struct start s = {.owner = -1, .program = -1};
    int ends[2];
    bool started;

    if (!weir__watch_program_size || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return -1;
    s.control = ends[1];
    s.owner = (int)syscall(SYS_pidfd_open, getpid(), 0);
    s.program = write_program();
    started = s.program >= 0 &&
              send(ends[0], orders, sizeof *orders, MSG_NOSIGNAL) == (ssize_t)sizeof *orders &&
              run(&s);
    if (s.program >= 0)
        close(s.program);
    if (s.owner >= 0)
        close(s.owner);
    close(ends[1]);
    if (started)
        return ends[0];
    close(ends[0]);
    return -1;
}

bool weir__watch_give(int control, int fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } extra = {.room = {0}};
    char byte = 0;
    struct iovec bytes = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra};

    extra.head.cmsg_level = SOL_SOCKET;
    extra.head.cmsg_type = SCM_RIGHTS;
    extra.head.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&extra.head), &fd, sizeof fd);
    return sendmsg(control, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* Also where a child of this process, made by fork, has the socket too. */
void weir__watch_end(int control)
{
    if (control < 0)
        return;
    shutdown(control, SHUT_RDWR);
    close(control);
}
