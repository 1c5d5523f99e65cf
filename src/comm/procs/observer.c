/* A rank's connections to and from observers (observer.h). Everything here runs on the link thread.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/procs/link.h"
#include "comm/procs/observer.h"

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

struct weir__watch_orders *weir__observer_orders(void)
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

/* Starts a connection to the hub. The HELLO is sent once it is established. */
static void open_connection(struct weir__world *w, enum weir__line line, struct weir__conn *c)
{
    struct weir__wire_hello hello = weir__link_hello(w, line, w->hub_rank);
    int fd;

    weir__mutex_lock(&w->conn_lock);
    fd = w->conn.fd < 0 ? -1 : weir__store_connect_again(w->conn.fd);
    weir__mutex_unlock(&w->conn_lock);
    if (fd >= 0 && weir__conn_open(c, fd, WEIR__WIRE_SHORT) &&
        !weir__conn_send(c, WEIR__WIRE_HELLO, &hello, sizeof hello))
        weir__conn_close(c);
}

/* True if no lower rank that is left is on this host. */
static bool is_lowest_here(const struct weir__world *w)
{
    for (int i = 0; i < w->rank; i++)
        if (w->peers[i].host == weir__host_id() && !atomic_load(&w->peers[i].gone))
            return false;
    return true;
}

/* With another hub, or if this rank has become the lowest of its host, begins again. */
static void begin(struct weir__world *w, bool lowest)
{
    struct weir__observers *o = &w->observers;

    if (!o->begun)
        o->reports.fd = o->to_hub.fd = o->control = -1;
    if (!o->begun || o->hub != w->hub_rank) {
        weir__conn_close(&o->reports);
        o->heard_ns = o->tried_ns = 0;
        o->tries = w->hub_host == weir__host_id() ? TRIES : 0;
    }
    o->begun = true;
    o->hub = w->hub_rank;
    o->lowest = lowest;
    weir__conn_close(&o->to_hub);
    if (lowest && w->hub_host != weir__host_id())
        open_connection(w, WEIR__LINE_TO_HUB, &o->to_hub);
}

void weir__observer_prepare_poll(struct weir__world *w, struct pollfd fds[WEIR__OBSERVER_LINES])
{
    struct weir__observers *o = &w->observers;
    uint64_t now = weir__clock_ns();
    bool lowest;

    for (int i = 0; i < WEIR__OBSERVER_LINES; i++)
        fds[i] = (struct pollfd){.fd = -1};
    if (!atomic_load(&w->met) || w->conn.fd < 0)
        return;
    lowest = is_lowest_here(w);
    if (!o->begun || o->hub != w->hub_rank || o->lowest != lowest)
        begin(w, lowest);
    if (o->reports.fd < 0 && o->tries < TRIES && now - o->tried_ns >= AGAIN_NS) {
        o->tries++;
        o->tried_ns = now;
        open_connection(w, WEIR__LINE_FROM_HUB_OBSERVER, &o->reports);
    }
    fds[0] = (struct pollfd){.fd = o->reports.fd,
                             .events = (short)(POLLIN | (o->reports.out_have ? POLLOUT : 0))};
    fds[1] = (struct pollfd){.fd = o->to_hub.fd, .events = POLLOUT};
}

/* Starts the observer of this host, unless it runs, and hands it the connection, on which HELLO has
 * been sent. */
static void hand_over(struct weir__world *w)
{
    struct weir__observers *o = &w->observers;
    struct weir__watch_orders *orders = o->control < 0 ? weir__observer_orders() : NULL;

    for (int i = 0; i < w->ranks && orders; i++)
        if (w->peers[i].host == weir__host_id() && !atomic_load(&w->peers[i].gone)) {
            orders->of[orders->n].pid = w->peers[i].pid;
            orders->of[orders->n++].rank = (uint32_t)i;
        }
    if (orders)
        o->control = weir__watch_start(orders);
    if (o->control >= 0)
        weir__watch_give(o->control, o->to_hub.fd);
    weir__free(orders);
    weir__conn_close(&o->to_hub);
}

/* Reads the reports of the hub's observer. True if the hub is stopped. */
static bool read_reports(struct weir__observers *o, char *payload)
{
    const struct weir__wire_gone *gone = (const void *)payload;
    enum weir__wire_type type;
    const char *wrong;
    bool open = weir__conn_fill(&o->reports), stopped = false;
    int n = 0;

    while (!stopped && (n = weir__conn_next(&o->reports, &type, payload, &wrong)) > 0) {
        o->heard_ns = weir__clock_ns();
        stopped =
            type == WEIR__WIRE_GONE && (int)gone->rank == o->hub && gone->how == WEIR__GONE_STOPPED;
        open &= stopped || type == WEIR__WIRE_PONG;
    }
    if (n < 0 || !open)
        weir__conn_close(&o->reports);
    return stopped;
}

bool weir__observer_serve(struct weir__world *w, const struct pollfd fds[WEIR__OBSERVER_LINES],
                          char *payload)
{
    struct weir__observers *o = &w->observers;

    if (fds[1].revents && o->to_hub.fd >= 0) {
        if (!weir__conn_flush(&o->to_hub))
            weir__conn_close(&o->to_hub);
        else if (!o->to_hub.out_have)
            hand_over(w);
    }
    if (fds[0].revents & POLLOUT && o->reports.fd >= 0)
        weir__conn_flush(&o->reports); /* a failure is noticed on reading */
    return fds[0].revents & ~POLLOUT && o->reports.fd >= 0 && read_reports(o, payload);
}

bool weir__observer_of_hub_is_alive(const struct weir__world *w)
{
    return w->observers.begun && w->observers.heard_ns && w->observers.reports.fd >= 0 &&
           weir__clock_ns() - w->observers.heard_ns < WEIR__OBSERVER_QUIET_NS;
}

void weir__observer_report(struct weir__world *w, int rank, enum weir__gone how)
{
    struct weir__wire_gone m = {.rank = (uint32_t)rank, .how = how};

    weir__mutex_lock(&w->conn_lock);
    if (w->conn.fd >= 0)
        weir__conn_send(&w->conn, WEIR__WIRE_GONE, &m, sizeof m);
    weir__mutex_unlock(&w->conn_lock);
}

void weir__observer_end(struct weir__world *w)
{
    struct weir__observers *o = &w->observers;

    if (!o->begun)
        return;
    weir__conn_close(&o->reports);
    weir__conn_close(&o->to_hub);
    weir__watch_end(o->control);
}
