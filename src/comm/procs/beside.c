/* A rank's part of what tells other hosts who is stopped: beside.h. The link does all of it. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/procs/beside.h"

enum { TRIES = 20 };
#define AGAIN_NS UINT64_C(1000000000)

static uint32_t put_message(unsigned char *to, enum weir__wire_type type, const void *payload,
                            size_t size)
{
    struct weir__wire_header h = {WEIR__WIRE_MAGIC, (uint16_t)type, WEIR__WIRE_VERSION,
                                  (uint32_t)size};

    memcpy(to, &h, sizeof h);
    memcpy(to + sizeof h, payload, size);
    return (uint32_t)(sizeof h + size);
}

struct weir__watch_orders *weir__beside_orders(void)
{
    struct weir__watch_orders *orders = weir__calloc(1, sizeof *orders);
    struct weir__wire_gone gone = {.how = WEIR__GONE_STOPPED};
    struct weir__wire_ping beat = {0};

    _Static_assert(sizeof(struct weir__wire_header) + sizeof gone <= WEIR__WATCH_MESSAGE &&
                       (int)WEIR_MAX_RANKS <= (int)WEIR__WATCH_MOST,
                   "orders have room");
    if (!orders)
        return NULL;
    orders->owner = (uint32_t)getpid();
    orders->beat_size = put_message(orders->beat, WEIR__WIRE_PONG, &beat, sizeof beat);
    orders->stop_size = put_message(orders->stop, WEIR__WIRE_GONE, &gone, sizeof gone);
    orders->rank_at = sizeof(struct weir__wire_header) + offsetof(struct weir__wire_gone, rank);
    return orders;
}

/* The hello is sent when the connection is there. */
static void open_line(struct weir__world *w, enum weir__line line, struct weir__conn *c)
{
    struct weir__wire_hello hello = {.rank = (uint32_t)w->rank,
                                     .ranks = (uint32_t)w->ranks,
                                     .pid = (uint32_t)getpid(),
                                     .line = line,
                                     .host = weir__host_id()};
    int fd;

    weir__mutex_lock(&w->conn_lock);
    fd = w->conn.fd < 0 ? -1 : weir__store_connect_beside(w->conn.fd);
    weir__mutex_unlock(&w->conn_lock);
    snprintf(hello.token, sizeof hello.token, "%s", w->beside.token);
    if (fd >= 0 && weir__conn_open(c, fd, WEIR__WIRE_SHORT) &&
        !weir__conn_send(c, WEIR__WIRE_HELLO, &hello, sizeof hello))
        weir__conn_close(c);
}

/* Whether this rank is the lowest of its host. */
static bool is_lowest_here(const struct weir__world *w)
{
    for (int i = 0; i < w->rank; i++)
        if (w->peers[i].host == weir__host_id())
            return false;
    return true;
}

static void begin(struct weir__world *w)
{
    struct weir__beside *b = &w->beside;

    b->begun = true;
    b->hears.fd = b->tells.fd = b->control = -1;
    b->tries = TRIES;
    if (w->hub_host == weir__host_id())
        return;
    b->tries = 0;
    if (is_lowest_here(w))
        open_line(w, WEIR__LINE_TELLS, &b->tells);
}

void weir__beside_look(struct weir__world *w, struct pollfd fds[WEIR__BESIDE_LINES])
{
    struct weir__beside *b = &w->beside;
    uint64_t now = weir__clock_ns();

    for (int i = 0; i < WEIR__BESIDE_LINES; i++)
        fds[i] = (struct pollfd){.fd = -1};
    if (!b->begun && !atomic_load(&w->met))
        return;
    if (!b->begun)
        begin(w);
    if (b->hears.fd < 0 && b->tries < TRIES && now - b->tried_ns >= AGAIN_NS) {
        b->tries++;
        b->tried_ns = now;
        open_line(w, WEIR__LINE_HEARS, &b->hears);
    }
    fds[0] = (struct pollfd){.fd = b->hears.fd,
                             .events = (short)(POLLIN | (b->hears.out_have ? POLLOUT : 0))};
    fds[1] = (struct pollfd){.fd = b->tells.fd, .events = POLLOUT};
}

/* The hello is on its way: what follows the process says. */
static void hand_over(struct weir__world *w)
{
    struct weir__beside *b = &w->beside;
    struct weir__watch_orders *orders = weir__beside_orders();

    for (int i = 0; i < w->ranks && orders; i++)
        if (w->peers[i].host == weir__host_id()) {
            orders->of[orders->n].pid = w->peers[i].pid;
            orders->of[orders->n++].rank = (uint32_t)i;
        }
    if (orders && (b->control = weir__watch_start(orders)) >= 0)
        weir__watch_give(b->control, b->tells.fd);
    weir__free(orders);
    weir__conn_close(&b->tells);
}

/* Nothing else than what the process beside rank 0 says comes here. */
static bool hear(struct weir__beside *b, char *payload)
{
    const struct weir__wire_gone *gone = (const void *)payload;
    enum weir__wire_type type;
    const char *wrong;
    bool open = weir__conn_fill(&b->hears), stopped = false;
    int n = 0;

    while (!stopped && (n = weir__conn_next(&b->hears, &type, payload, &wrong)) > 0) {
        b->heard_ns = weir__clock_ns();
        stopped = type == WEIR__WIRE_GONE && !gone->rank && gone->how == WEIR__GONE_STOPPED;
        open &= stopped || type == WEIR__WIRE_PONG;
    }
    if (n < 0 || !open)
        weir__conn_close(&b->hears);
    return stopped;
}

bool weir__beside_serve(struct weir__world *w, const struct pollfd fds[WEIR__BESIDE_LINES],
                        char *payload)
{
    struct weir__beside *b = &w->beside;

    if (fds[1].revents && b->tells.fd >= 0) {
        if (!weir__conn_flush(&b->tells))
            weir__conn_close(&b->tells);
        else if (!b->tells.out_have)
            hand_over(w);
    }
    if (fds[0].revents & POLLOUT && b->hears.fd >= 0)
        weir__conn_flush(&b->hears); /* reading says why not */
    return fds[0].revents & ~POLLOUT && b->hears.fd >= 0 && hear(b, payload);
}

bool weir__beside_hears(const struct weir__world *w)
{
    return w->beside.heard_ns && w->beside.hears.fd >= 0 &&
           weir__clock_ns() - w->beside.heard_ns < WEIR__BESIDE_QUIET_NS;
}

void weir__beside_tell(struct weir__world *w, int rank)
{
    struct weir__wire_gone m = {.rank = (uint32_t)rank, .how = WEIR__GONE_STOPPED};

    weir__mutex_lock(&w->conn_lock);
    if (w->conn.fd >= 0)
        weir__conn_send(&w->conn, WEIR__WIRE_GONE, &m, sizeof m);
    weir__mutex_unlock(&w->conn_lock);
}

void weir__beside_end(struct weir__world *w)
{
    struct weir__beside *b = &w->beside;

    if (!b->begun)
        return;
    weir__conn_close(&b->hears);
    weir__conn_close(&b->tells);
    weir__watch_end(b->control);
}
