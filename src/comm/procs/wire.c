#define _GNU_SOURCE
#include "comm/procs/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"

enum {
    MOST_QUEUED = 2 << 20, /* the most bytes that may be queued for a peer: all that a hub tells a
                            * rank that comes late has room (hub/kept.c) */
    GATHERED_LEAST = offsetof(struct weir__wire_gathered, blobs),
};
_Static_assert(sizeof(struct weir__wire_header) + sizeof(struct weir__wire_text) <=
                       WEIR__WIRE_SHORT &&
                   sizeof(struct weir__wire_header) + sizeof(struct weir__wire_gather) <=
                       WEIR__WIRE_SHORT,
               "what is sent to the hub is short");

static bool ends(const char *text, size_t size)
{
    return memchr(text, 0, size);
}

static bool is_rank(uint32_t rank)
{
    return rank < WEIR_MAX_RANKS;
}

static const char *check_hello(const void *payload)
{
    const struct weir__wire_hello *m = payload;

    if (m->ranks < 1 || m->ranks > WEIR_MAX_RANKS || m->rank >= m->ranks)
        return "a rank that is out of range";
    return m->line < WEIR__LINES ? NULL : "a connection of unknown kind";
}

static bool is_status(int32_t status)
{
    return status > 0 && status < WEIR_STATUS_COUNT;
}

static const char *check_refused(const void *payload)
{
    const struct weir__wire_refused *m = payload;

    if (!is_status(m->status))
        return "an unknown status";
    return ends(m->text, sizeof m->text) ? NULL : "a text without terminating 0";
}

static const char *check_text(const void *payload)
{
    const struct weir__wire_text *m = payload;

    if (!is_status(m->status))
        return "an unknown status";
    return ends(m->key, sizeof m->key) && ends(m->text, sizeof m->text)
               ? NULL
               : "a text without terminating 0";
}

static const char *check_gather(const void *payload)
{
    const struct weir__wire_gather *m = payload;

    if (weir__ranks_next(&m->members, 0) < 0 || m->timeout_ns < 0)
        return "no members or a negative timeout";
    return ends(m->key, sizeof m->key) ? NULL : "a key without terminating 0";
}

static const char *check_gathered(const void *payload)
{
    const struct weir__wire_gathered *m = payload;

    return ends(m->key, sizeof m->key) ? NULL : "a key without terminating 0";
}

size_t weir__wire_gathered_size(const struct weir__ranks *members)
{
    int last = WEIR_MAX_RANKS;

    while (last && !weir__ranks_has(members, last - 1))
        last--;
    return offsetof(struct weir__wire_gathered, blobs) + (size_t)last * WEIR__WIRE_BLOB;
}

static const char *check_gone(const void *payload)
{
    const struct weir__wire_gone *m = payload;

    if (!is_rank(m->rank) || m->how == WEIR__GONE_NOT || m->how > WEIR__GONE_STOPPED)
        return "a rank that is out of range";
    return ends(m->text, sizeof m->text) ? NULL : "a text without terminating 0";
}

static const char *check_close(const void *payload)
{
    const struct weir__wire_close *m = payload;

    if (!is_rank(m->from) || !is_rank(m->to) || m->from == m->to)
        return "a rank that is out of range";
    if (m->messages > WEIR__WIRE_MESSAGES)
        return "a count that is out of range";
    return ends(m->key, sizeof m->key) ? NULL : "a key without terminating 0";
}

static const struct {
    bool there;
    size_t size;
    const char *(*check)(const void *payload);
} kinds[] = {
    [WEIR__WIRE_HELLO] = {true, sizeof(struct weir__wire_hello), check_hello},
    [WEIR__WIRE_WELCOME] = {true, sizeof(struct weir__wire_welcome), NULL},
    [WEIR__WIRE_REFUSED] = {true, sizeof(struct weir__wire_refused), check_refused},
    [WEIR__WIRE_GATHER] = {true, sizeof(struct weir__wire_gather), check_gather},
    [WEIR__WIRE_GATHERED] = {true, sizeof(struct weir__wire_gathered), check_gathered},
    [WEIR__WIRE_FAILED] = {true, sizeof(struct weir__wire_text), check_text},
    [WEIR__WIRE_PING] = {true, sizeof(struct weir__wire_ping), NULL},
    [WEIR__WIRE_PONG] = {true, sizeof(struct weir__wire_ping), NULL},
    [WEIR__WIRE_ABORT] = {true, sizeof(struct weir__wire_text), check_text},
    [WEIR__WIRE_GONE] = {true, sizeof(struct weir__wire_gone), check_gone},
    [WEIR__WIRE_BYE] = {true, 0, NULL},
    [WEIR__WIRE_CLOSES] = {true, sizeof(struct weir__wire_close), check_close},
    [WEIR__WIRE_RECEIVED] = {true, sizeof(struct weir__wire_close), check_close},
    [WEIR__WIRE_MOVED] = {true, 0, NULL},
};

int weir__wire_take(const void *bytes, size_t size, enum weir__wire_type *type, void *payload,
                    const char **wrong)
{
    struct weir__wire_header h;

    *wrong = NULL;
    if (size < sizeof h)
        return 0;
    memcpy(&h, bytes, sizeof h);
    if (h.magic != WEIR__WIRE_MAGIC)
        *wrong = "bytes that are not a message";
    else if (h.version != WEIR__WIRE_VERSION)
        *wrong = "a message of another version";
    else if (h.type >= weir__countof(kinds) || !kinds[h.type].there)
        *wrong = "a message of no known kind";
    else if (h.type == WEIR__WIRE_GATHERED ? h.size > kinds[h.type].size || h.size < GATHERED_LEAST
                                           : h.size != kinds[h.type].size)
        *wrong = "a message of the wrong size";
    if (*wrong)
        return -1;
    if (size < sizeof h + h.size)
        return 0;
    *type = (enum weir__wire_type)h.type;
    memcpy(payload, (const char *)bytes + sizeof h, h.size);
    if (h.type == WEIR__WIRE_GATHERED &&
        h.size != weir__wire_gathered_size(&((struct weir__wire_gathered *)payload)->members)) {
        *wrong = "a message of the wrong size";
        return -1;
    }
    if (kinds[h.type].check && (*wrong = kinds[h.type].check(payload)))
        return -1;
    return (int)(sizeof h + h.size);
}

/* ---- connections ---- */

bool weir__conn_open(struct weir__conn *c, int fd, size_t most)
{
    *c = (struct weir__conn){.fd = fd, .in_cap = most, .in = weir__malloc(most)};
    if (!c->in) {
        weir__conn_close(c);
        return false;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &(unsigned){WEIR__CONN_REACH_MS},
               sizeof(unsigned));
    return true;
}

void weir__conn_close(struct weir__conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    weir__free(c->out);
    weir__free(c->in);
    c->out = c->in = NULL;
    c->have = c->in_cap = c->out_have = c->out_cap = 0;
    c->fd = -1;
}

/* The kernel reports the cause of a failure only once, to a send or to a read: keep it. */
static bool may_go_on(struct weir__conn *c)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return true;
    c->error = c->error ? c->error : errno;
    return false;
}

bool weir__conn_flush(struct weir__conn *c)
{
    while (c->out_have) {
        ssize_t n = send(c->fd, c->out, c->out_have, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return may_go_on(c);
        memmove(c->out, c->out + n, c->out_have - (size_t)n);
        c->out_have -= (size_t)n;
    }
    return true;
}

bool weir__conn_send(struct weir__conn *c, enum weir__wire_type type, const void *payload,
                     size_t size)
{
    struct weir__wire_header h = {WEIR__WIRE_MAGIC, (uint16_t)type, WEIR__WIRE_VERSION,
                                  (uint32_t)size};
    size_t need = c->out_have + sizeof h + size;

    if (c->fd < 0 || need > MOST_QUEUED)
        return false;
    if (need > c->out_cap) {
        char *out = weir__malloc(2 * need);

        if (!out)
            return false;
        if (c->out_have)
            memcpy(out, c->out, c->out_have);
        weir__free(c->out);
        c->out = out;
        c->out_cap = 2 * need;
    }
    memcpy(c->out + c->out_have, &h, sizeof h);
    if (size)
        memcpy(c->out + c->out_have + sizeof h, payload, size);
    c->out_have = need;
    return weir__conn_flush(c);
}

bool weir__conn_fill(struct weir__conn *c)
{
    for (;;) {
        ssize_t n;

        if (c->have == c->in_cap)
            return true; /* full: a complete message, or one that is too large */
        n = recv(c->fd, c->in + c->have, c->in_cap - c->have, MSG_DONTWAIT);
        if (n > 0) {
            c->have += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        return n < 0 && may_go_on(c);
    }
}

bool weir__conn_is_out_of_reach(const struct weir__conn *c)
{
    return c->error == ETIMEDOUT || c->error == EHOSTUNREACH || c->error == ENETUNREACH;
}

int weir__conn_next(struct weir__conn *c, enum weir__wire_type *type, void *payload,
                    const char **wrong)
{
    int n = weir__wire_take(c->in, c->have, type, payload, wrong);

    if (!n && c->in_cap && c->have == c->in_cap) {
        *wrong = "a message of the wrong size";
        return -1;
    }
    if (n <= 0)
        return n;
    memmove(c->in, c->in + n, c->have - (size_t)n);
    c->have -= (size_t)n;
    return 1;
}
