/* The hub's part of what tells other hosts who is stopped: beside.h. */
#include <string.h>
#include <unistd.h>

#include "comm/procs/beside.h"
#include "comm/procs/hub.h"

/* The process beside this one is started for the first rank of another host. */
static void start_watch(struct weir__hub *h)
{
    struct weir__watch_orders *orders;

    if (h->watch_tried)
        return;
    h->watch_tried = true;
    if (!(orders = weir__beside_orders()))
        return;
    orders->n = 1; /* rank 0 */
    orders->of[0].pid = orders->owner;
    h->watch = weir__watch_start(orders);
    weir__free(orders);
}

void weir__hub_greet_line(struct weir__hub *h, struct weir__hub_peer *peer,
                          const struct weir__wire_hello *m)
{
    const struct weir__hub_peer *rank = weir__hub_peer_of(h, (int)m->rank);
    bool known = rank && rank->host == m->host && m->host != weir__host_id();

    if (known && m->line == WEIR__LINE_TELLS && !weir__hub_is_told(h, m->host)) {
        peer->tells = true;
        peer->host = m->host;
        return;
    }
    if (known && m->line == WEIR__LINE_HEARS) {
        start_watch(h);
        if (h->watch >= 0)
            weir__watch_give(h->watch, peer->conn.fd);
    }
    weir__conn_close(&peer->conn); /* the process has it, or nobody */
}

void weir__hub_hear_line(struct weir__hub *h, struct weir__hub_peer *peer,
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

bool weir__hub_is_told(const struct weir__hub *h, uint64_t host)
{
    for (int i = 0; i < h->slots; i++) {
        const struct weir__hub_peer *g = &h->peers[i];

        if (g->conn.fd >= 0 && g->tells && g->host == host)
            return weir__clock_ns() - g->last_ns < WEIR__BESIDE_QUIET_NS;
    }
    return false;
}
