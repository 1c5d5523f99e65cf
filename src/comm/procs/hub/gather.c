/* Gathers: the hub collects a blob from each member of a group, then sends all blobs to all. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/hub/hub.h"

static void list_ranks(const struct weir__ranks *ranks, char *text, size_t size)
{
    int n = snprintf(text, size, "rank%s", weir__ranks_count(ranks) > 1 ? "s" : "");
    const char *comma = "";

    WEIR__EACH_RANK(rank, ranks)
    {
        if ((size_t)n >= size)
            break;
        n += snprintf(text + n, size - (size_t)n, "%s %d", comma, rank);
        comma = ",";
    }
}

static void end_gathering(struct weir__hub *h, struct weir__gathering *g)
{
    struct weir__gathering **at = &h->gatherings;

    for (; *at != g; at = &(*at)->next)
        ;
    *at = g->next;
    weir__free(g);
}

static void fail_gathering(struct weir__hub *h, struct weir__gathering *g, weir_status status,
                           const char *text)
{
    struct weir__wire_text m = {.status = (int32_t)status};

    memcpy(m.key, g->all.key, sizeof m.key);
    snprintf(m.text, sizeof m.text, "%s", text);
    WEIR__EACH_RANK(rank, &g->here)
    {
        struct weir__hub_peer *peer = weir__hub_peer_of(h, rank);

        if (peer)
            weir__conn_send(&peer->conn, WEIR__WIRE_FAILED, &m, sizeof m);
    }
    end_gathering(h, g);
}

/* Returns a member that is gone and has sent nothing; -1 if there is none. If one died, others may
 * have left because of that. */
static int find_gone(const struct weir__hub *h, const struct weir__gathering *g)
{
    int found = -1;

    WEIR__EACH_RANK(rank, &g->all.members)
    if (h->gone[rank] && !weir__ranks_has(&g->here, rank) &&
        (found < 0 || (h->gone[found] == WEIR__GONE_LEFT && h->gone[rank] != WEIR__GONE_LEFT)))
        found = rank;
    return found;
}

void weir__hub_gather(struct weir__hub *h, int rank, const struct weir__wire_gather *m)
{
    struct weir__gathering *g = h->gatherings;
    char text[WEIR__WIRE_TEXT], one[300], other[300];
    int gone;
    size_t size = weir__wire_gathered_size(&m->members);
    uint64_t deadline_ns;

    while (g && strcmp(g->all.key, m->key))
        g = g->next;
    if (!g && (g = weir__calloc(1, sizeof *g))) {
        memcpy(g->all.key, m->key, sizeof g->all.key);
        g->all.members = m->members;
        g->nmembers = weir__ranks_count(&m->members);
        g->deadline_ns = UINT64_MAX;
        g->next = h->gatherings;
        h->gatherings = g;
    }
    if (!g)
        return; /* out of memory: the members' own timeouts will report it */
    /* Of the member that waits for the shortest time: it could not be told later who is missing. */
    deadline_ns = weir__clock_ns() + (uint64_t)m->timeout_ns;
    g->deadline_ns = deadline_ns < g->deadline_ns ? deadline_ns : g->deadline_ns;
    g->nhere += !weir__ranks_has(&g->here, rank);
    weir__ranks_add(&g->here, rank);
    memcpy(g->all.blobs[rank], m->blob, sizeof m->blob);
    if (!weir__ranks_equal(&g->all.members, &m->members)) {
        list_ranks(&g->all.members, one, sizeof one);
        list_ranks(&m->members, other, sizeof other);
        snprintf(text, sizeof text,
                 "the members of group '%.60s' differ: others say %s, rank %d says %s", m->key, one,
                 rank, other);
        fail_gathering(h, g, WEIR_EINVAL, text);
        return;
    }
    if ((gone = find_gone(h, g)) >= 0) {
        fail_gathering(h, g, WEIR_EUNAVAILABLE, h->gone_text[gone]);
        return;
    }
    if (g->nhere < g->nmembers)
        return;
    WEIR__EACH_RANK(member, &g->here)
    {
        struct weir__hub_peer *peer = weir__hub_peer_of(h, member);

        if (peer)
            weir__conn_send(&peer->conn, WEIR__WIRE_GATHERED, &g->all, size);
    }
    end_gathering(h, g);
}

void weir__hub_gather_look(struct weir__hub *h, uint64_t now)
{
    for (struct weir__gathering *g = h->gatherings, *next; g; g = next) {
        struct weir__ranks absent;
        char missing[300], text[WEIR__WIRE_TEXT];

        next = g->next;
        if (now < g->deadline_ns)
            continue;
        absent = weir__ranks_without(&g->all.members, &g->here);
        list_ranks(&absent, missing, sizeof missing);
        snprintf(text, sizeof text, "group '%.60s' did not form in time: %s did not come",
                 g->all.key, missing);
        fail_gathering(h, g, WEIR_ETIMEDOUT, text);
    }
}

void weir__hub_gather_without(struct weir__hub *h, int rank, const char *text)
{
    for (struct weir__gathering *g = h->gatherings, *next; g; g = next) {
        next = g->next;
        if (weir__ranks_has(&g->all.members, rank)) {
            weir__ranks_remove(&g->here, rank);
            fail_gathering(h, g, WEIR_EUNAVAILABLE, text);
        }
    }
}

void weir__hub_gather_end(struct weir__hub *h)
{
    while (h->gatherings)
        end_gathering(h, h->gatherings);
}
