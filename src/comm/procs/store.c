/* How ranks find the hub: an address, or a file with an address and a token. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "comm/procs/procs.h"

static const char *file_of(const struct weir__place_in_job *p)
{
    return strncmp(p->store, "file:", 5) ? NULL : p->store + 5;
}

/* Splits "HOST:PORT"; the host may be in brackets. */
static weir_status split(const char *store, char *host, size_t size, char *port, size_t port_size)
{
    const char *colon = strrchr(store, ':');
    size_t n = colon ? (size_t)(colon - store) : 0;
    char *end;
    long v = colon ? strtol(colon + 1, &end, 10) : -1;

    if (!n || n >= size || v < 0 || v > 65535 || *end || end == colon + 1)
        return weir__fail(WEIR_EINVAL, "'%s' is not an address: expected HOST:PORT or file:PATH",
                          store);
    if (store[0] == '[' && store[n - 1] == ']') {
        store++;
        n -= 2;
    }
    memcpy(host, store, n);
    host[n] = 0;
    snprintf(port, port_size, "%ld", v);
    return WEIR_OK;
}

static weir_status resolve(const char *store, bool listens, struct addrinfo **out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0)};
    char host[256], port[8];
    weir_status st = split(store, host, sizeof host, port, sizeof port);
    int e;

    if (st)
        return st;
    if ((e = getaddrinfo(host, port, &hints, out)))
        return weir__fail(WEIR_EUNAVAILABLE, "cannot resolve the host of %s: %s", store,
                          gai_strerror(e));
    return WEIR_OK;
}

static weir_status listen_at(const char *store, int *fd)
{
    struct addrinfo *list;
    weir_status st = resolve(store, true, &list);
    int error = 0;

    *fd = -1;
    if (st)
        return st;
    for (struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) {
        *fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*fd < 0)
            continue;
        setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
        if (!bind(*fd, a->ai_addr, a->ai_addrlen) && !listen(*fd, 128))
            break;
        error = errno;
        close(*fd);
        *fd = -1;
    }
    freeaddrinfo(list);
    if (*fd < 0)
        return weir__fail(WEIR_EUNAVAILABLE, "rank 0 cannot listen at %s: %s", store,
                          strerror(error));
    return WEIR_OK;
}

/* Writes a file beside it and renames that, so that no reader sees half a file. */
static weir_status write_file(struct weir__place_in_job *p, int fd)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    unsigned char random[16];
    char beside[300];
    FILE *f;
    int file;
    bool ok;

    if (!*p->token) {
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
            return weir__fail(WEIR_EUNAVAILABLE,
                              "cannot make a token: the system gave no random numbers");
        for (size_t i = 0; i < sizeof random; i++)
            snprintf(p->token + 2 * i, 3, "%02x", random[i]);
    }
    snprintf(beside, sizeof beside, "%s.%d", file_of(p), (int)getpid());
    unlink(beside);
    file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || !(f = fdopen(file, "w"))) {
        if (file >= 0)
            close(file);
        return weir__fail(WEIR_EIO, "rank 0 cannot write %s: %s", beside, strerror(errno));
    }
    ok = !getsockname(fd, (struct sockaddr *)&at, &size) &&
         fprintf(f, "weir 127.0.0.1:%d %s\n", ntohs(at.sin_port), p->token) > 0;
    ok &= !fclose(f);
    if (ok && !rename(beside, file_of(p)))
        return WEIR_OK;
    unlink(beside);
    return weir__fail(WEIR_EIO, "rank 0 cannot write %s: %s", file_of(p), strerror(errno));
}

weir_status weir__store_listen(struct weir__place_in_job *p, int *fd)
{
    weir_status st;

    if (p->listen_fd >= 0) {
        *fd = p->listen_fd;
        fcntl(*fd, F_SETFD, FD_CLOEXEC);
        unsetenv("WEIR_STORE_FD"); /* valid once only */
        return WEIR_OK;
    }
    if (!file_of(p))
        return listen_at(p->store, fd);
    if ((st = listen_at("127.0.0.1:0", fd)))
        return st;
    if ((st = write_file(p, *fd)))
        close(*fd);
    return st;
}

void weir__store_forget(const struct weir__place_in_job *p)
{
    if (file_of(p))
        unlink(file_of(p));
}

/* False if there is no valid file yet. The file must belong to this user, and no other user may
 * have access to it. */
static bool read_file(struct weir__place_in_job *p, char *address, size_t size)
{
    char text[400], host[200], token[WEIR__WIRE_TOKEN];
    int fd = open(file_of(p), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return false;
    n = fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077)
            ? -1
            : read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    if (sscanf(text, "weir %199s %63s", host, token) != 2)
        return false;
    snprintf(address, size, "%s", host);
    snprintf(p->token, sizeof p->token, "%s", token);
    return true;
}

int weir__store_connect_again(int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    int again = -1;

    if (getpeername(fd, (struct sockaddr *)&at, &size) ||
        (again = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        return -1;
    setsockopt(again, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (!connect(again, (struct sockaddr *)&at, size) || errno == EINPROGRESS)
        return again;
    close(again);
    return -1;
}

bool weir__store_stand_by(int beside, int ranks, int *fd, struct weir__address *out)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t size = sizeof at;
    bool v6;

    *fd = -1;
    memset(out, 0, sizeof *out);
    memset(&at, 0, sizeof at);
    if (getsockname(beside, &at.any, &size) ||
        (at.any.sa_family != AF_INET && at.any.sa_family != AF_INET6))
        return false;
    v6 = at.any.sa_family == AF_INET6;
    *(v6 ? &at.v6.sin6_port : &at.v4.sin_port) = 0;
    *fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 || bind(*fd, &at.any, size) || listen(*fd, ranks + 16) ||
        getsockname(*fd, &at.any, &size)) {
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        return false;
    }
    out->family = at.any.sa_family;
    out->port = v6 ? at.v6.sin6_port : at.v4.sin_port;
    out->scope = v6 ? at.v6.sin6_scope_id : 0;
    memcpy(out->ip, v6 ? (const void *)&at.v6.sin6_addr : (const void *)&at.v4.sin_addr,
           v6 ? sizeof at.v6.sin6_addr : sizeof at.v4.sin_addr);
    return true;
}

bool weir__address_is_loopback(const struct weir__address *a)
{
    static const unsigned char v6[16] = {[15] = 1};

    return a->family == AF_INET6 ? !memcmp(a->ip, v6, sizeof v6) : a->ip[0] == 127;
}

int weir__store_connect_to(const struct weir__address *a, uint32_t scope)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = a->port};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = a->port, .sin6_scope_id = scope};
    bool is_v6 = a->family == AF_INET6;
    int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(&v4.sin_addr, a->ip, sizeof v4.sin_addr);
    memcpy(&v6.sin6_addr, a->ip, sizeof v6.sin6_addr);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (!connect(fd, is_v6 ? (const void *)&v6 : (const void *)&v4,
                 is_v6 ? sizeof v6 : sizeof v4) ||
        errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static int connect_once(const struct addrinfo *a, int patience_ms)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof error;

    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) &&
        (errno != EINPROGRESS ||
         poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, patience_ms) != 1 ||
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) || error)) {
        if (error)
            errno = error;
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

/* Retries until the deadline: the hub may not listen yet, or the file may be of an earlier job. */
weir_status weir__store_connect(struct weir__place_in_job *p, uint64_t deadline_ns, int *fd)
{
    char address[256];
    const char *why = "it does not exist yet";

    *fd = -1;
    for (;;) {
        struct addrinfo *list = NULL;
        bool known = true;
        weir_status st;

        snprintf(address, sizeof address, "%s", p->store);
        if (file_of(p))
            known = read_file(p, address, sizeof address);
        if (known && (st = resolve(address, false, &list)))
            return st;
        for (struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) {
            *fd = connect_once(a, 1000);
            why = *fd < 0 ? strerror(errno) : NULL;
        }
        if (list)
            freeaddrinfo(list);
        if (*fd >= 0)
            return WEIR_OK;
        if (weir__clock_ns() >= deadline_ns)
            return weir__fail(WEIR_ETIMEDOUT, "rank %d did not find rank 0 at %s in time: %s",
                              p->rank, p->store, why);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}
