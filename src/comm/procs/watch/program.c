/* The program of the observer (watch.h). It is linked without libraries: it takes some kilobytes
 * and runs wherever the library runs. */
#include <fcntl.h>
#include <linux/prctl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "comm/procs/watch/watch.h"

/* ---- the system ---- */

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n and $-16, %rsp\n call watch_main\n ud2\n");

static long call(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;
    long out;

    __asm__ volatile("syscall"
                     : "=a"(out)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return out;
}
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n mov x29, xzr\n bl watch_main\n brk #1\n");

static long call(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = 0;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#endif

static uint64_t now_ns(void)
{
    struct timespec t = {0};

    call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&t, 0, 0, 0);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

_Noreturn static void end(void)
{
    for (;;)
        call(SYS_exit_group, 0, 0, 0, 0, 0);
}

/* ---- states ---- */

/* "/proc/PID" and what follows */
static void name_file(uint32_t pid, const char *after, char *path)
{
    static const char before[] = "/proc/";
    char digits[10];
    int n = 0, at = 0;

    for (; before[at]; at++)
        path[at] = before[at];
    do
        digits[n++] = (char)('0' + pid % 10);
    while (pid /= 10);
    while (n)
        path[at++] = digits[--n];
    while ((path[at++] = *after++))
        ;
}

/* How many bytes were read of it. */
static long read_file(uint32_t pid, const char *after, char *text, long size)
{
    char path[40];
    long fd, n;

    name_file(pid, after, path);
    fd = call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return 0;
    n = call(SYS_read, fd, (long)text, size, 0, 0);
    call(SYS_close, fd, 0, 0, 0, 0);
    return n;
}

/* The letter in /proc/PID/stat, which follows a name in parentheses; 0 if there is none. */
static char state_of(uint32_t pid)
{
    char text[128];
    long n = read_file(pid, "/stat", text, sizeof text);

    for (long i = n - 3; i >= 0; i--) /* the last: a name may have parentheses, too */
        if (text[i] == ')' && text[i + 1] == ' ')
            return text[i + 2];
    return 0;
}

/* What the system counts of its main thread: the same while it does not run. As weir__stop_lasts.
 */
static uint64_t ran(uint32_t pid)
{
    uint64_t sum = 0;
    char text[100];
    long n = read_file(pid, "/schedstat", text, sizeof text);

    for (long i = 0; i < n; i++)
        sum = sum * 31 + (unsigned char)text[i];
    return sum;
}

/* ---- connections ---- */

static struct weir__watch_orders orders;
static struct {
    uint64_t since_ns, ran; /* stopped; 0: it runs */
    bool told;
} stops[WEIR__WATCH_MOST];
static int lines[WEIR__WATCH_MOST], nlines;

/* Whoever is gone, or has not read for long, is left. */
static void tell_all(const unsigned char *message, uint32_t size)
{
    for (int i = 0; i < nlines; i++)
        if (call(SYS_sendto, lines[i], (long)message, size, MSG_DONTWAIT | MSG_NOSIGNAL, 0) !=
            (long)size) {
            call(SYS_close, lines[i], 0, 0, 0, 0);
            lines[i--] = lines[--nlines];
        }
}

/* A byte with a connection. It ends when there is nobody any more who would send one. */
static void take_line(void)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } extra;
    char byte;
    struct iovec bytes = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra};
    long n =
        call(SYS_recvmsg, WEIR__WATCH_CONTROL, (long)&m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, 0, 0);
    int fd;

    if (n == 0)
        end();
    if (n < 0 || m.msg_controllen < CMSG_LEN(sizeof fd) || extra.head.cmsg_type != SCM_RIGHTS)
        return;
    fd = *(const int *)CMSG_DATA(&extra.head);
    if (nlines < WEIR__WATCH_MOST)
        lines[nlines++] = fd;
    else
        call(SYS_close, fd, 0, 0, 0, 0);
}

/* ---- its life ---- */

static void look_at(uint32_t i, uint64_t now)
{
    char state = state_of(orders.of[i].pid);
    uint64_t was = stops[i].ran;

    if (state != 'T' && state != 't') {
        stops[i].since_ns = 0;
        stops[i].told = false;
        return;
    }
    stops[i].ran = ran(orders.of[i].pid);
    if (!stops[i].since_ns || stops[i].ran != was) {
        stops[i].since_ns = now;
        stops[i].told = false;
    }
    if (stops[i].told || now - stops[i].since_ns < WEIR__WATCH_DOUBT_NS)
        return;
    stops[i].told = true;
    *(uint32_t *)(void *)(orders.stop + orders.rank_at) = orders.of[i].rank;
    tell_all(orders.stop, orders.stop_size);
}

static bool take_orders(void)
{
    long n = 0, have = 0;

    for (; have < (long)sizeof orders && (!have || n > 0); have += n)
        n = call(SYS_read, WEIR__WATCH_CONTROL, (long)&orders + have, (long)sizeof orders - have, 0,
                 0);
    return have == sizeof orders && orders.n <= WEIR__WATCH_MOST &&
           orders.beat_size <= sizeof orders.beat && orders.stop_size <= sizeof orders.stop &&
           orders.rank_at % sizeof(uint32_t) == 0 &&
           orders.rank_at + sizeof(uint32_t) <= orders.stop_size;
}

/* As many files as the system lets it have. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit, 0))
        return;
    limit.rlim_cur = limit.rlim_max;
    call(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)&limit, 0, 0);
}

_Noreturn void watch_main(void);
_Noreturn void watch_main(void)
{
    struct timespec pause;
    uint64_t beat_ns = 0;

    call(SYS_prctl, PR_SET_NAME, (long)"weir-watch", 0, 0, 0);
    call(SYS_chdir, (long)"/", 0, 0, 0, 0);
    raise_limit();
    if (!take_orders())
        end();
    for (;;) {
        struct pollfd fds[2] = {{.fd = WEIR__WATCH_CONTROL, .events = POLLIN},
                                {.fd = WEIR__WATCH_OWNER, .events = POLLIN}};
        uint64_t now;
        char owner;

        pause = (struct timespec){.tv_nsec = WEIR__WATCH_LOOK_NS};
        call(SYS_ppoll, (long)fds, 2, (long)&pause, 0, 0);
        if (fds[1].revents & POLLNVAL) { /* no pidfd */
            owner = state_of(orders.owner);
            fds[1].revents = !owner || owner == 'Z' || owner == 'X' ? POLLIN : 0;
        }
        if (fds[1].revents)
            end();
        if (fds[0].revents)
            take_line();
        now = now_ns();
        for (uint32_t i = 0; i < orders.n; i++)
            look_at(i, now);
        if (now - beat_ns >= WEIR__WATCH_BEAT_NS) {
            beat_ns = now;
            tell_all(orders.beat, orders.beat_size);
        }
    }
}
