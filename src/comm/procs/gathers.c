/* A rank's end of gathers: hub/gather.c is the other end.
 *
 * A gather that waits is sent again to the next hub, with the time that is left. The last ones that
 * have succeeded are sent again too: the old hub may have ended after it answered this rank and
 * before it answered another, which then asks the next hub and needs this rank's blob there. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/link.h"

/* A thread waits so much longer than the hub, whose answer says which ranks did not come. */
#define ANSWER_NS UINT64_C(2000000000)

/* A gather that a thread waits for; `state` is its futex. */
struct weir__gather {
    struct weir__gather *next;
    const struct weir__wire_gather *message;
    struct weir__wire_gathered *all;
    uint64_t deadline_ns;   /* of the hub's answer */
    _Atomic uint32_t state; /* 0: waits, 1: gathered, 2: failed */
    weir_status status;
    char text[WEIR__WIRE_TEXT];
};

void weir__link_end_gathers(struct weir__world *w, const char *key,
                            const struct weir__wire_gathered *all, weir_status status,
                            const char *text)
{
    weir__mutex_lock(&w->conn_lock);
    for (struct weir__gather *g = w->gathers; g; g = g->next) {
        bool fits = all && weir__ranks_equal(&all->members, &g->message->members);

        if ((key && strcmp(g->message->key, key)) || atomic_load(&g->state))
            continue;
        if (fits) {
            memcpy(g->all, all, weir__wire_gathered_size(&all->members));
            w->done[w->ndone].message = *g->message;
            w->done[w->ndone].deadline_ns = g->deadline_ns;
            w->ndone = (w->ndone + 1) % WEIR__DONE;
        } else {
            g->status = all ? WEIR_EINVAL : status;
            snprintf(g->text, sizeof g->text, "%s",
                     all ? "the rank that joins the ranks gathered other members" : text);
        }
        atomic_store(&g->state, fits ? 1 : 2);
        weir__futex_wake(&g->state, 1);
    }
    weir__mutex_unlock(&w->conn_lock);
}

weir_status weir__world_gather(struct weir__world *w, const char *key,
                               const struct weir__ranks *members, int64_t timeout_ns,
                               const void *blob, struct weir__wire_gathered *all)
{
    struct weir__wire_gather m = {.members = *members, .timeout_ns = timeout_ns};
    struct weir__gather wait = {.message = &m, .all = all}, **at;
    bool sent;

    wait.deadline_ns = weir__clock_ns() + (uint64_t)timeout_ns + ANSWER_NS;
    snprintf(m.key, sizeof m.key, "%s", key);
    memcpy(m.blob, blob, sizeof m.blob);
    weir__mutex_lock(&w->conn_lock);
    wait.next = w->gathers;
    w->gathers = &wait;
    /* If the connection has failed, the next hub gets it, or the link says why there is none. A
     * rank that is alone may have a connection still, to a hub that is about to end. */
    if ((sent = !atomic_load(&w->alone)))
        weir__conn_send(&w->conn, WEIR__WIRE_GATHER, &m, sizeof m);
    weir__mutex_unlock(&w->conn_lock);
    weir__link_poke(w);
    while (sent && !atomic_load(&wait.state) && weir__clock_ns() < wait.deadline_ns)
        weir__futex_wait(&wait.state, 0, INT64_C(100000000));
    weir__mutex_lock(&w->conn_lock);
    for (at = &w->gathers; *at != &wait; at = &(*at)->next)
        ;
    *at = wait.next;
    weir__mutex_unlock(&w->conn_lock);
    if (atomic_load(&wait.state) == 1)
        return WEIR_OK;
    if (atomic_load(&wait.state) == 2)
        return weir__fail(wait.status, "%s", wait.text);
    return weir__fail(sent ? WEIR_ETIMEDOUT : WEIR_EUNAVAILABLE, "group '%s' did not form: %s", key,
                      sent ? "the rank that joins the others did not answer" : w->alone_text);
}

/* The hub gets what is left of the time. The thread that waits keeps at least half of its time
 * for the answer. */
static void send_again(struct weir__world *w, const struct weir__wire_gather *message,
                       uint64_t deadline_ns)
{
    struct weir__wire_gather m = *message;
    uint64_t now = weir__clock_ns(), left = now < deadline_ns ? deadline_ns - now : 0;

    m.timeout_ns = (int64_t)(left > 2 * ANSWER_NS ? left - ANSWER_NS : left / 2);
    if (left)
        weir__conn_send(&w->conn, WEIR__WIRE_GATHER, &m, sizeof m);
}

void weir__link_tell_again(struct weir__world *w)
{
    for (uint64_t i = 0; i < w->ntold && i < WEIR__TOLD; i++)
        weir__conn_send(&w->conn, WEIR__WIRE_ABORT, &w->told[i], sizeof w->told[i]);
    for (int i = 0; i < WEIR__DONE; i++)
        send_again(w, &w->done[i].message, w->done[i].deadline_ns);
    for (struct weir__gather *g = w->gathers; g; g = g->next)
        if (!atomic_load(&g->state))
            send_again(w, g->message, g->deadline_ns);
}
