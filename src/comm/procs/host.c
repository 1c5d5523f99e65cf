/* The identity of this host, and the state of its processes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "comm/procs/procs.h"

enum { EXITING = 4 }; /* PF_EXITING in the kernel's flags */
enum { FIELDS = 6 };  /* the flags are the sixth field of /proc/PID/stat after the state */

char weir__process_state(uint32_t pid)
{
    char path[40], text[300], *close_paren, *end;
    long flags = 0;
    ssize_t n;
    int fd, error;

    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return errno == ENOENT ? 'Z' : 0;
    n = read(fd, text, sizeof text - 1);
    error = errno;
    close(fd);
    if (n <= 0)
        return n < 0 && error != ESRCH ? 0 : 'Z';
    text[n] = 0;
    close_paren = strrchr(text, ')');
    if (!close_paren || close_paren[1] != ' ' || !close_paren[2] || close_paren[3] != ' ')
        return 0;
    /* An exiting process closes its connections while its state is still R: count it as dead. */
    for (int i = 0, at = 4; i < FIELDS; i++, at = (int)(end - close_paren))
        flags = strtol(close_paren + at, &end, 10);
    if (flags & EXITING)
        return 'Z';
    switch (close_paren[2]) {
    case 'T':
    case 't':
        return 'T';
    case 'Z':
    case 'X':
    case 'x':
        return 'Z';
    }
    return 'R';
}

/* Returns a hash of the run time and switches of the main thread; 0 if the system does not count
 * them. */
static uint64_t ran(uint32_t pid)
{
    char path[40], text[100] = "";
    int fd;

    snprintf(path, sizeof path, "/proc/%u/schedstat", pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    close(fd);
    return *text ? weir__hash_text(text) : 0;
}

bool weir__stop_lasts(struct weir__stop *s, uint32_t pid, char state)
{
    uint64_t now = weir__clock_ns(), was = s->ran;

    if (state != 'T') {
        s->since_ns = 0;
        return false;
    }
    s->ran = ran(pid);
    if (!s->since_ns || s->ran != was)
        s->since_ns = now;
    return now - s->since_ns >= WEIR__STOPPED_NS;
}

/* Combines the kernel's boot id with the PID namespace. */
uint64_t weir__host_id(void)
{
    static _Atomic uint64_t known;
    uint64_t id = atomic_load_explicit(&known, memory_order_relaxed);
    char text[64] = "";
    struct stat st;
    int fd;

    if (id)
        return id;
    if ((fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)) >= 0) {
        if (read(fd, text, sizeof text - 1) < 0)
            text[0] = 0;
        close(fd);
    }
    id = weir__hash_text(text);
    if (!stat("/proc/self/ns/pid", &st))
        id = (id ^ st.st_ino) * UINT64_C(1099511628211);
    id |= 1;
    atomic_store_explicit(&known, id, memory_order_relaxed);
    return id;
}

int weir__host_threads(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set))
        return (int)sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t has */
    return CPU_COUNT(&set);
}
