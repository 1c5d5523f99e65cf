/* The hub's connections with observers (observer.h). */
#include <string.h>
#include <unistd.h>

#include "comm/procs/hub/hub.h"
#include "comm/procs/observer.h"

/* Starts the observer of the hub's own rank, when the first rank of another host asks for its
 * reports. */
static void start_observer(struct weir__hub *h)
{
    struct weir__watch_orders *orders;

    if (h->watch_tried)
        return;
    h->watch_tried = true;
    if (!(orders = weir__observer_orders()))
        return;
    orders->n = 1; /* the hub's rank */
    orders->of[0].pid = orders->owner;
    orders->of[0].rank = (uint32_t)h->rank;
    h->watch = weir__watch_start(orders);
    weir__free(orders);
}

void weir__hub_accept_observer(struct weir__hub *h, struct weir__hub_peer *peer,
                               const struct weir__wire_hello *m)
{
    const struct weir__hub_peer *rank = weir__hub_peer_of(h, (int)m->rank);
    bool known = rank && rank->host == m->host && m->host != weir__host_id();

    if (known && m->line == WEIR__LINE_TO_HUB) {
        for (int i = 0; i < h->slots; i++) /* the rank that started the earlier one may be gone */
            if (h->peers[i].conn.fd >= 0 && h->peers[i].observes && h->peers[i].host == m->host)
                weir__conn_close(&h->peers[i].conn);
        peer->observes = true;
        peer->host = m->host;
        return;
    }
    if (known && m->line == WEIR__LINE_FROM_HUB_OBSERVER) {
        start_observer(h);
        if (h->watch >= 0)
            weir__watch_give(h->watch, peer->conn.fd);
    }
    weir__conn_close(
        &peer->conn); /* the observer has its own descriptor now, or the connection is refused */
}

void weir__hub_take_report(struct weir__hub *h, struct weir__hub_peer *peer,
                           enum weir__wire_type type, const void *payload)
{
    const struct weir__wire_gone *gone = payload;
    struct weir__hub_peer *rank;

    peer->last_ns = weir__clock_ns();
    if (type == WEIR__WIRE_PONG)
        return;
    if (type != WEIR__WIRE_GONE || gone->how != WEIR__GONE_STOPPED) {
        weir__conn_close(&peer->conn);
        return;
    }
    rank = weir__hub_peer_of(h, (int)gone->rank);
    if (rank && rank->host == peer->host)
        weir__hub_lose(h, rank, WEIR__GONE_STOPPED, WEIR__HUB_STOPPED);
}

bool weir__hub_has_observer(const struct weir__hub *h, uint64_t host)
{
    for (int i = 0; i < h->slots; i++) {
        const struct weir__hub_peer *g = &h->peers[i];

        if (g->conn.fd >= 0 && g->observes && g->host == host)
            return weir__clock_ns() - g->last_ns < WEIR__OBSERVER_QUIET_NS;
    }
    return false;
}
