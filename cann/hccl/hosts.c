/* Ranks on several hosts. Ranks on the root's host meet in shared memory. A rank on another host
 * connects to the root's socket, and the root tells all ranks. Then all of them join by
 * weir_group_join, and one of weir's engines connects them. */
#include "comm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The request of a rank on another host. The answer is 0, or the reason why it is refused. */
struct knock {
    char token[36];
    uint32_t rank, nranks;
};
enum { WELCOME, COUNTS_DIFFER, HERE_ALREADY };

/* ---- hosts ---- */

static void this_host(struct root *r)
{
    struct stat st;
    ssize_t n = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        n = read(fd, r->boot, sizeof r->boot - 1);
        close(fd);
    }
    r->boot[n > 0 ? n : 0] = 0;
    r->processes = stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

bool hosts_is_here(const struct root *root)
{
    struct root here = {.pid = 0};

    this_host(&here);
    return root->processes == here.processes && !strncmp(root->boot, here.boot, sizeof here.boot);
}

/* Finds the local address that is used towards another host. */
static bool towards(const char *other, struct sockaddr_storage *out, socklen_t *size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list;
    bool found = false;

    if (!other || !*other || getaddrinfo(other, "9", &hints, &list))
        return false;
    for (const struct addrinfo *a = list; a && !found; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        *size = sizeof *out; /* connecting a datagram socket sends nothing */
        found = fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen) &&
                !getsockname(fd, (struct sockaddr *)out, size);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    return found;
}

static bool first_interface(struct sockaddr_storage *out, socklen_t *size)
{
    struct ifaddrs *list;
    bool found = false;

    if (getifaddrs(&list))
        return false;
    for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_flags & IFF_UP &&
            !(i->ifa_flags & IFF_LOOPBACK)) {
            *size = sizeof(struct sockaddr_in);
            memcpy(out, i->ifa_addr, *size);
            found = true;
        }
    freeifaddrs(list);
    return found;
}

/* Finds this host's address: HCCL_IF_IP, or else the address used towards the job's master. */
static bool find_address(struct sockaddr_storage *out, socklen_t *size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *list;
    const char *given = getenv("HCCL_IF_IP");

    if (given && *given && !getaddrinfo(given, NULL, &hints, &list)) {
        *size = list->ai_addrlen;
        memcpy(out, list->ai_addr, *size);
        freeaddrinfo(list);
        return true;
    }
    return towards(getenv("MASTER_ADDR"), out, size) ||
           towards(getenv("MS_SCHED_HOST"), out, size) || first_interface(out, size) ||
           towards("127.0.0.1", out, size);
}

/* ---- the root ---- */

/* Opens a socket at a free port of the address. A socket that does not listen only reserves the
 * port for a later listener. */
static int bind_free(const struct sockaddr_storage *at, socklen_t size, bool listens,
                     uint16_t *port)
{
    struct sockaddr_storage got = *at;
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    if (at->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&got)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&got)->sin_port = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&got, size) || (listens && listen(fd, MAX_RANKS)) ||
        getsockname(fd, (struct sockaddr *)&got, &size)) {
        close(fd);
        return -1;
    }
    *port = ntohs(at->ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                            : ((struct sockaddr_in *)&got)->sin_port);
    return fd;
}

void hosts_offer(struct root *r)
{
    const char *engine = getenv("WEIR_ENGINE");
    unsigned char random[16];
    struct sockaddr_storage at;
    socklen_t size;

    r->store_fd = r->door_fd = -1;
    snprintf(r->engine, sizeof r->engine, "%s", engine ? engine : "");
    this_host(r);
    if (!find_address(&at, &size) || getrandom(random, sizeof random, 0) != sizeof random ||
        getnameinfo((struct sockaddr *)&at, size, r->address, sizeof r->address, NULL, 0,
                    NI_NUMERICHOST))
        return;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(r->token + 2 * i, 3, "%02x", random[i]);
    r->store_fd = bind_free(&at, size, false, &r->store);
    r->door_fd = bind_free(&at, size, true, &r->door);
    if (r->store_fd < 0 || r->door_fd < 0) {
        hosts_close(r);
        r->store_fd = r->door_fd = -1;
        r->address[0] = 0;
    }
}

void hosts_close(const struct root *r)
{
    if (r->store_fd >= 0)
        close(r->store_fd);
    if (r->door_fd >= 0)
        close(r->door_fd);
}

static uint32_t let_in(const struct knock *k, struct shared *shared)
{
    uint32_t none = 0;

    if (!atomic_compare_exchange_strong(&shared->nranks, &none, k->nranks) && none != k->nranks)
        return COUNTS_DIFFER;
    none = 0;
    return atomic_compare_exchange_strong(&shared->joined[k->rank], &none, ELSEWHERE)
               ? WELCOME
               : HERE_ALREADY;
}

void hosts_answer(const struct root *r, struct shared *shared)
{
    struct timeval second = {.tv_sec = 1};
    struct knock k;
    int fd;

    if (r->door_fd < 0 || (fd = accept4(r->door_fd, NULL, NULL, SOCK_CLOEXEC)) < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    if (recv(fd, &k, sizeof k, MSG_WAITALL) == sizeof k &&
        !memcmp(k.token, r->token, sizeof k.token) && k.nranks && k.nranks <= MAX_RANKS &&
        k.rank < k.nranks) {
        uint32_t answer = let_in(&k, shared);

        send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
    }
    close(fd);
}

/* ---- other ranks ---- */

static int dial(const struct root *r)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV},
                    *list;
    char port[8];
    int fd;

    snprintf(port, sizeof port, "%u", r->door);
    if (getaddrinfo(r->address, port, &hints, &list))
        return -1;
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen)) {
        int error = errno;

        close(fd);
        errno = error;
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

HcclResult hosts_knock(const char *function, const struct root *r, const struct comm *c)
{
    int64_t patience = seconds_of("HCCL_CONNECT_TIMEOUT", 120);
    struct timeval wait = {.tv_sec = patience / 1000000000};
    struct knock k = {.rank = c->rank, .nranks = c->nranks};
    uint32_t answer = WELCOME;
    ssize_t n;
    int fd;

    if (!r->address[0])
        return hccl_fail(function, HCCL_E_NETWORK,
                         "the root is process %d of another host, which has no network", r->pid);
    if ((fd = dial(r)) < 0)
        return hccl_fail(function, HCCL_E_NETWORK,
                         "the root's host cannot be reached at %s, port %u: %s; HCCL_IF_IP of the "
                         "root says another address",
                         r->address, r->door, strerror(errno));
    memcpy(k.token, r->token, sizeof k.token);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    n = send(fd, &k, sizeof k, MSG_NOSIGNAL);
    if (n == sizeof k)
        n = recv(fd, &answer, sizeof answer, MSG_WAITALL);
    close(fd);
    if (!n)
        return hccl_fail(function, HCCL_E_NETWORK, "the root at %s, port %u, has ended", r->address,
                         r->door);
    if (n != sizeof answer)
        return hccl_fail(function, HCCL_E_TIMEOUT,
                         "the root at %s, port %u, did not answer rank %u within %lld s",
                         r->address, r->door, c->rank, (long long)(patience / 1000000000));
    if (answer == WELCOME)
        return HCCL_SUCCESS;
    return hccl_fail(function, HCCL_E_PARA,
                     answer == COUNTS_DIFFER ? "rank %u says %u ranks, another rank says otherwise"
                                             : "rank %u of %u has already joined",
                     c->rank, c->nranks);
}

/* ---- all ranks ---- */

HcclResult hosts_join(const char *function, const struct root *r, struct comm *c)
{
    bool v6 = strchr(r->address, ':');
    char store[96], name[40];
    weir_status st;

    if (!r->address[0])
        return hccl_fail(function, HCCL_E_NETWORK, "the root's host has no network");
    if (weir_cann_device(&c->device))
        return HCCL_E_PARA;
    snprintf(store, sizeof store, "%s%s%s:%u", v6 ? "[" : "", r->address, v6 ? "]" : "", r->store);
    snprintf(name, sizeof name, "hccl %llx", (unsigned long long)r->id);
    st = weir_group_join(
        c->device,
        &(weir_join_options){.size = sizeof(weir_join_options),
                             .rank = (int)c->rank,
                             .ranks = (int)c->nranks,
                             .store = store,
                             .token = r->token,
                             .engine = r->engine[0] ? r->engine : NULL,
                             .name = name,
                             .timeout_ns = c->timeout_ns,
                             .join_timeout_ns = seconds_of("HCCL_CONNECT_TIMEOUT", 120)},
        &c->group);
    if (st)
        return hccl_fail(function,
                         st == WEIR_ETIMEDOUT      ? HCCL_E_TIMEOUT
                         : st == WEIR_EUNSUPPORTED ? HCCL_E_NOT_SUPPORT
                                                   : HCCL_E_NETWORK,
                         "%s", weir_last_error());
    return HCCL_SUCCESS;
}
