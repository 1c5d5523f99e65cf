/* Hubs that follow the first one. Every rank but rank 0 has a socket that listens, on the network
 * by which it reached rank 0 (store.c), and knows the address of every other's. When the hub's rank
 * has left, died or stopped, the lowest rank that is not gone takes over, and the others connect to
 * it (move.c).
 *
 *   stands by   started when the first rank connects, which may have noticed before this rank that
 *               the old hub is gone. A HELLO that proves the token is held. If this rank learns
 * that its sender is gone, by the old hub, that rank was cut off alone, and is refused leads this
 * rank has noticed too, and chosen itself. The ranks held are welcomed. A rank that does not come
 * is looked after: on this host by the state of its process; on another host by the ranks there
 * that have come; by time if nobody has come from there and the old hub did not leave in order. (If
 * it did, an address that cannot be reached from there must not break a group.) */
#include <stdio.h>
#include <unistd.h>

#include "comm/procs/hub/hub.h"

#define LOOK_NS UINT64_C(100000000)

void weir__hub_take_over(struct weir__hub *h, bool orderly)
{
    atomic_store(&h->leads, orderly ? WEIR__LEAD_ORDERLY : WEIR__LEAD_AFTER_LOSS);
    (void)!write(h->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

bool weir__hub_hold(struct weir__hub *h, struct weir__hub_peer *peer, int rank)
{
    if (!h->known || h->led)
        return false;
    peer->held = true;
    peer->wants = rank;
    return true;
}

uint64_t weir__hub_host_of(const struct weir__hub *h, int rank)
{
    const struct weir__hub_peer *peer = &h->peers[h->slot_of[rank]];

    if (h->known)
        return h->known[rank].host;
    return h->came[rank] && peer->rank == rank ? peer->host : 0;
}

bool weir__hub_misses_ranks(const struct weir__hub *h)
{
    for (int i = 0; i < h->ranks && h->led; i++)
        if (!h->came[i] && !h->gone[i])
            return true;
    return false;
}

/* Learns from its rank who is gone. That rank may have learned it from the old hub. */
static void learn_gone(struct weir__hub *h)
{
    for (int i = 0; i < h->ranks; i++) {
        enum weir__gone how = (enum weir__gone)atomic_load(&h->known[i].gone);
        const char *text = h->known[i].text;
        char prefix[20];
        int n;

        if (!how || h->gone[i] || (h->led && h->came[i]))
            continue;
        n = snprintf(prefix, sizeof prefix, "rank %d ", i);
        weir__hub_lose_rank(h, i, how, strncmp(text, prefix, (size_t)n) ? text : text + n);
    }
}

static bool anybody_came_from(const struct weir__hub *h, uint64_t host)
{
    for (int i = 0; i < h->ranks; i++)
        if (h->came[i] && !h->gone[i] && h->known[i].host == host)
            return true;
    return false;
}

static void look_for_absent(struct weir__hub *h, int rank, uint64_t now)
{
    struct weir__hub_absent *a = &h->absent[rank];
    const struct weir__peer *peer = &h->known[rank];
    char text[80], state;

    if (peer->host == weir__host_id()) {
        state = weir__process_state(peer->pid);
        a->dead_ns = state != 'Z' ? 0 : a->dead_ns ? a->dead_ns : now;
        if (weir__stop_lasts(&a->stop, peer->pid, state))
            weir__hub_lose_rank(h, rank, WEIR__GONE_STOPPED, WEIR__HUB_STOPPED);
        else if (a->dead_ns && now - a->dead_ns >= WEIR__STOPPED_NS)
            weir__hub_lose_rank(h, rank, WEIR__GONE_DIED, "died");
        return;
    }
    if (now - h->led_ns < WEIR__HUB_SILENT_FAR_NS ||
        (atomic_load(&h->leads) == WEIR__LEAD_ORDERLY && !anybody_came_from(h, peer->host)))
        return;
    snprintf(text, sizeof text, "did not come to rank %d, which joins the ranks now", h->rank);
    weir__hub_lose_rank(h, rank, WEIR__GONE_DIED, text);
}

void weir__hub_standby_look(struct weir__hub *h, uint64_t now)
{
    if (!h->known)
        return;
    learn_gone(h);
    if (atomic_load(&h->leads) && !h->led) {
        h->led = true;
        h->led_ns = now;
    }
    for (int i = 0; i < h->slots; i++) {
        struct weir__hub_peer *peer = &h->peers[i];

        if (peer->conn.fd < 0 || !peer->held)
            continue;
        if (h->gone[peer->wants])
            weir__hub_refuse(h, peer, h->gone_text[peer->wants]);
        else if (h->led && h->came[peer->wants])
            weir__hub_refuse(h, peer, "two processes have its number");
        else if (h->led)
            weir__hub_admit(h, peer, peer->wants);
    }
    if (h->led && now - h->looked_ns >= LOOK_NS) { /* it reads /proc for each of them */
        h->looked_ns = now;
        for (int i = 0; i < h->ranks; i++)
            if (!h->came[i] && !h->gone[i])
                look_for_absent(h, i, now);
    }
    if ((h->aborts.first || h->closings.first) && !weir__hub_misses_ranks(h))
        weir__hub_forget_kept(h);
}
