/* Messages to ranks that have not come to this hub yet.
 *
 * Ranks come to a hub that takes over one by one, and the first ones may have broken or closed a
 * group before the last one comes. So the hub keeps
 *
 *   ABORT              the first one of each group, for every rank that has not come
 *   CLOSES, RECEIVED   for the rank they are for
 *
 * and a rank gets them after its WELCOME and before it is told who is gone: what a rank has said
 * comes before its end, as without a move. They are forgotten when no rank is missing any more. If
 * they are too many, the oldest is forgotten. */
#include <string.h>

#include "comm/procs/hub/hub.h"

enum { MOST_ABORTS = 512 << 10, MOST_CLOSINGS = 4 << 20 /* bytes */ };

struct weir__hub_kept {
    struct weir__hub_kept *next;
    int to; /* a rank, or WEIR__HUB_EVERYBODY */
    enum weir__wire_type type;
    size_t size;
    _Alignas(8) unsigned char payload[];
};

static void forget(struct weir__hub_kept_list *l, struct weir__hub_kept **at)
{
    struct weir__hub_kept *k = *at;

    *at = k->next;
    if (l->end == &k->next)
        l->end = at;
    l->bytes -= sizeof *k + k->size;
    weir__free(k);
}

static bool has_abort(const struct weir__hub_kept_list *l, const char *key)
{
    for (const struct weir__hub_kept *k = l->first; k; k = k->next)
        if (!strcmp(((const struct weir__wire_text *)k->payload)->key, key))
            return true;
    return false;
}

void weir__hub_keep(struct weir__hub *h, int to, enum weir__wire_type type, const void *payload,
                    size_t size)
{
    bool is_abort = type == WEIR__WIRE_ABORT;
    bool is_missing = is_abort || (to < h->ranks && !h->came[to] && !h->gone[to]);
    struct weir__hub_kept_list *l = is_abort ? &h->aborts : &h->closings;
    struct weir__hub_kept *k;

    if (!is_missing || !weir__hub_misses_ranks(h) ||
        (is_abort && has_abort(l, ((const struct weir__wire_text *)payload)->key)) ||
        !(k = weir__calloc(1, sizeof *k + size)))
        return; /* out of memory: as if this hub had ended before */
    k->to = to;
    k->type = type;
    k->size = size;
    memcpy(k->payload, payload, size);
    l->end = l->end ? l->end : &l->first;
    *l->end = k;
    l->end = &k->next;
    l->bytes += sizeof *k + size;
    while (l->bytes > (is_abort ? MOST_ABORTS : MOST_CLOSINGS))
        forget(l, &l->first);
}

void weir__hub_send_kept(struct weir__hub *h, struct weir__hub_peer *peer)
{
    for (const struct weir__hub_kept *k = h->aborts.first; k; k = k->next)
        weir__conn_send(&peer->conn, k->type, k->payload, k->size);
    for (struct weir__hub_kept **at = &h->closings.first, *k; (k = *at);)
        if (k->to == peer->rank) {
            weir__conn_send(&peer->conn, k->type, k->payload, k->size);
            forget(&h->closings, at);
        } else {
            at = &k->next;
        }
}

void weir__hub_forget_kept(struct weir__hub *h)
{
    while (h->aborts.first)
        forget(&h->aborts, &h->aborts.first);
    while (h->closings.first)
        forget(&h->closings, &h->closings.first);
}
