/* A rank's connection to the hub: the thread that serves it. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/procs/link.h"
#include "comm/procs/observer.h"
#include "trace/record/trace.h"

enum { BEAT_MS = 100, WATCHED = 64 /* peers whose state is checked per beat */ };
enum { OBSERVERS = 2, MOVES = OBSERVERS + WEIR__OBSERVER_LINES }; /* places in what is polled */
#define PROBE_NS UINT64_C(150000000)
#define DOUBT_NS UINT64_C(400000000)

void weir__link_poke(struct weir__world *w)
{
    (void)!write(w->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

/* Any thread may queue a message for the hub; the link sends what could not be sent at once. */
static void send_to_hub(struct weir__world *w, enum weir__wire_type type, const void *payload,
                        size_t size)
{
    weir__mutex_lock(&w->conn_lock);
    weir__conn_send(&w->conn, type, payload, size);
    weir__mutex_unlock(&w->conn_lock);
    weir__link_poke(w);
}

void weir__world_send_abort(struct weir__world *w, const char *key, weir_status status,
                            const char *text)
{
    struct weir__wire_text m = {.status = (int32_t)status};

    snprintf(m.key, sizeof m.key, "%s", key);
    snprintf(m.text, sizeof m.text, "%s", text);
    weir__mutex_lock(&w->conn_lock);
    if (w->told || (w->told = weir__calloc(WEIR__TOLD, sizeof *w->told)))
        w->told[w->ntold++ % WEIR__TOLD] = m;
    weir__conn_send(&w->conn, WEIR__WIRE_ABORT, &m, sizeof m);
    weir__mutex_unlock(&w->conn_lock);
    weir__link_poke(w);
}

void weir__world_send_close(struct weir__world *w, const char *key, int to, bool closes,
                            uint64_t messages)
{
    struct weir__wire_close m = {
        .from = (uint32_t)w->rank, .to = (uint32_t)to, .messages = messages};

    snprintf(m.key, sizeof m.key, "%s", key);
    send_to_hub(w, closes ? WEIR__WIRE_CLOSES : WEIR__WIRE_RECEIVED, &m, sizeof m);
}

/* ---- messages ---- */

void weir__link_be_alone(struct weir__world *w, const char *text)
{
    weir__mutex_lock(&w->conn_lock); /* a gather is ended here, or sees it */
    if (!atomic_load(&w->alone))
        snprintf(w->alone_text, sizeof w->alone_text, "%s", text);
    atomic_store(&w->alone, true);
    atomic_store(&w->moves, false);
    weir__mutex_unlock(&w->conn_lock);
    weir__link_end_gathers(w, NULL, NULL, WEIR_EUNAVAILABLE, text);
}

void weir__link_lose(struct weir__world *w, int rank, enum weir__gone how, const char *text)
{
    struct weir__peer *p = &w->peers[rank];

    if (atomic_load(&p->gone))
        return;
    snprintf(p->text, sizeof p->text, "%s", text);
    atomic_store(&p->gone, (int)how);
    atomic_store(&w->lost, true);
    weir__procs_see_gone(w, rank);
}

void weir__link_lose_all(struct weir__world *w, uint64_t host, const char *what)
{
    char text[300];

    for (int i = 0; i < w->ranks; i++)
        if (i != w->rank && (!host || w->peers[i].host == host)) {
            if (host)
                snprintf(text, sizeof text, "rank %d %s", i, what);
            weir__link_lose(w, i, WEIR__GONE_DIED, host ? text : what);
        }
}

void weir__link_lose_hub(struct weir__world *w, enum weir__gone how, const char *text)
{
    if (how != WEIR__GONE_LEFT) {
        weir__mutex_lock(&w->conn_lock);
        weir__conn_close(&w->conn);
        weir__mutex_unlock(&w->conn_lock);
    }
    if (atomic_load(&w->stop))
        return;
    weir__link_lose(w, w->hub_rank, how, text);
    if (atomic_load(&w->met)) {
        weir__move_begin(w);
        return;
    }
    if (w->conn.fd >= 0)
        return; /* it has left, and its hub still says why gathers fail */
    weir__link_be_alone(w, text);
}

static void take_pong(struct weir__world *w, const struct weir__wire_ping *m)
{
    uint64_t now = weir__clock_ns(), took = now - m->sent_ns;

    if (!m->sent_ns)
        return; /* a probe of the hub, not an answer: it checks that this host acknowledges */
    if (took < w->quickest_ns) {
        w->quickest_ns = took;
        /* Processes of one host share a clock. */
        w->offset_ns =
            w->hub_host == weir__host_id() ? 0 : (int64_t)(m->hub_ns - (m->sent_ns + took / 2));
        weir__trace_set_rank(w->rank, w->offset_ns);
    }
}

/* The hub goes on without this rank. Of a hub on another host, whose process this rank cannot look
 * at, the end of the connection alone would mean that the hub has died. */
static void see_own_end(struct weir__world *w, const struct weir__wire_gone *m, bool from_hub)
{
    char text[WEIR__WIRE_TEXT + 100];

    if (!from_hub)
        return;
    snprintf(text, sizeof text, "rank %d, which joins the ranks, has disconnected rank %d%s%s",
             w->hub_rank, w->rank, m->how == WEIR__GONE_STOPPED ? ", which was stopped" : ": ",
             m->how == WEIR__GONE_STOPPED ? "" : m->text); /* it runs again */
    weir__move_end(w, text);
}

/* From the hub, or with `from_hub` false from the one before it. False if the message is out of
 * turn.
 */
static bool take_message(struct weir__world *w, enum weir__wire_type type, const void *payload,
                         bool from_hub)
{
    const struct weir__wire_text *text = payload;
    const struct weir__wire_gathered *all = payload;
    const struct weir__wire_gone *gone = payload;
    const struct weir__wire_close *close = payload;

    if (from_hub)
        w->last_ns = weir__clock_ns();
    switch (type) {
    case WEIR__WIRE_GATHERED:
        weir__link_end_gathers(w, all->key, all, WEIR_OK, NULL);
        break;
    case WEIR__WIRE_FAILED:
        weir__link_end_gathers(w, text->key, NULL, (weir_status)text->status, text->text);
        break;
    case WEIR__WIRE_PONG:
        if (from_hub)
            take_pong(w, payload);
        break;
    case WEIR__WIRE_ABORT:
        weir__procs_see_abort(w, text->key, (weir_status)text->status, text->text);
        break;
    case WEIR__WIRE_GONE:
        if ((int)gone->rank >= w->ranks)
            break;
        if ((int)gone->rank == w->rank)
            see_own_end(w, gone, from_hub);
        else if ((int)gone->rank == w->hub_rank)
            weir__link_lose_hub(w, (enum weir__gone)gone->how, gone->text);
        else
            weir__link_lose(w, (int)gone->rank, (enum weir__gone)gone->how, gone->text);
        break;
    case WEIR__WIRE_CLOSES:
    case WEIR__WIRE_RECEIVED:
        if ((int)close->to == w->rank && (int)close->from < w->ranks)
            weir__procs_see_close(w, close, type == WEIR__WIRE_CLOSES);
        break;
    default:
        return false;
    }
    return true;
}

static bool hub_lives(const struct weir__world *w)
{
    return w->hub_host == weir__host_id() && weir__process_state(w->hub_pid) == 'R';
}

/* Writes "rank N" and what happened to the hub. */
static void lose_hub_for(struct weir__world *w, enum weir__gone how, const char *what)
{
    char text[200];

    snprintf(text, sizeof text, "rank %d %s", w->hub_rank, what);
    weir__link_lose_hub(w, how, text);
}

/* The connection to the hub has ended. */
static void see_hub_end(struct weir__world *w, bool reached)
{
    char text[200];

    if (atomic_load(&w->peers[w->hub_rank].gone)) { /* it has left, and its hub has ended now */
        weir__link_lose_hub(w, WEIR__GONE_DIED, w->peers[w->hub_rank].text);
    } else if (!reached) {
        uint64_t host = w->hub_host;

        lose_hub_for(w, WEIR__GONE_DIED, "is out of reach: its host does not answer");
        if (atomic_load(&w->met) && !atomic_load(&w->stop))
            weir__link_lose_all(w, host, "is out of reach: its host does not answer");
    } else if (!hub_lives(w)) {
        lose_hub_for(w, WEIR__GONE_DIED, "died");
    } else { /* only this rank has lost it: the others go on without this rank */
        snprintf(text, sizeof text, "the connection to rank %d, which joins the ranks, was cut",
                 w->hub_rank);
        weir__move_end(w, text);
    }
}

static void serve(struct weir__world *w, char *payload)
{
    enum weir__wire_type type;
    const char *wrong = NULL;
    bool open, reached, in_turn = true;
    int n = 0;

    weir__mutex_lock(&w->conn_lock);
    open = w->conn.fd >= 0 && weir__conn_fill(&w->conn);
    reached = !weir__conn_is_out_of_reach(&w->conn);
    weir__mutex_unlock(&w->conn_lock);
    for (;;) {
        weir__mutex_lock(&w->conn_lock);
        n = w->conn.fd < 0 ? 0 : weir__conn_next(&w->conn, &type, payload, &wrong);
        weir__mutex_unlock(&w->conn_lock);
        if (n <= 0 || !(in_turn = take_message(w, type, payload, true)))
            break;
    }
    if (w->conn.fd < 0)
        return;
    if (!in_turn)
        lose_hub_for(w, WEIR__GONE_DIED, "sent a message out of turn");
    else if (n < 0)
        lose_hub_for(w, WEIR__GONE_DIED, "sent bytes that are not a message");
    else if (!open)
        see_hub_end(w, reached);
}

/* The hub before this one still tells who leaves or dies, until all ranks have moved. */
static void serve_old(struct weir__world *w, char *payload)
{
    struct weir__conn *old = &w->move.old;
    enum weir__wire_type type;
    const char *wrong;
    bool open = weir__conn_fill(old);
    int n = 0;

    while (old->fd >= 0 && (n = weir__conn_next(old, &type, payload, &wrong)) > 0)
        if (!take_message(w, type, payload, false))
            open = false;
    if (!open || n < 0)
        weir__conn_close(old);
}

static void watch_hub(struct weir__world *w, char *payload)
{
    uint64_t silent = weir__clock_ns() - w->last_ns;
    bool near = w->hub_host == weir__host_id();
    bool stopped;
    char state;

    if (w->conn.fd < 0 || w->hub_rank == w->rank || silent < PROBE_NS || silent > UINT64_MAX / 2)
        return;
    state = near ? weir__process_state(w->hub_pid) : 0;
    stopped = weir__stop_lasts(&w->peers[w->hub_rank].stop, w->hub_pid, state);
    if (silent < DOUBT_NS)
        return;
    if (stopped)
        lose_hub_for(w, WEIR__GONE_STOPPED, WEIR__LINK_STOPPED);
    else if (state == 'Z' && (serve(w, payload), w->conn.fd >= 0)) /* its last words come first */
        lose_hub_for(w, WEIR__GONE_DIED, "died");
    else if (silent > (near || weir__observer_of_hub_is_alive(w) ? WEIR__LINK_SILENT_NS
                                                                 : WEIR__LINK_SILENT_FAR_NS))
        lose_hub_for(w, WEIR__GONE_DIED, "has been silent for too long");
}

/* The hub watches the ranks of its host. If it is on another host, each rank checks the ranks on
 * its own host, some per beat, and reports; if there is no hub that can be reached, for itself. */
static void watch_peers(struct weir__world *w)
{
    bool alone = w->move.state == WEIR__MOVES_NOWHERE;
    char text[60], state;

    if (!atomic_load(&w->met) || (!alone && (w->conn.fd < 0 || w->hub_host == weir__host_id())))
        return;
    for (int i = 0; i < weir__min(w->ranks, WATCHED); i++) {
        int rank = w->watched = (w->watched + 1) % w->ranks;
        struct weir__peer *peer = &w->peers[rank];
        enum weir__gone how;

        if (rank == w->rank || peer->host != weir__host_id() || atomic_load(&peer->gone))
            continue;
        state = weir__process_state(peer->pid);
        how = weir__stop_lasts(&peer->stop, peer->pid, state) ? WEIR__GONE_STOPPED
              : state == 'Z'                                  ? WEIR__GONE_DIED
                                                              : WEIR__GONE_NOT;
        if (!how)
            continue;
        snprintf(text, sizeof text, "rank %d %s", rank,
                 how == WEIR__GONE_STOPPED ? WEIR__LINK_STOPPED : "died");
        if (alone)
            weir__link_lose(w, rank, how, text);
        else
            weir__observer_report(w, rank, how);
    }
}

void *weir__link_main(void *user)
{
    struct weir__world *w = user;
    char *payload = weir__malloc(WEIR__WIRE_MOST);
    uint64_t beat_ns = 0;

    while (payload && !atomic_load(&w->stop)) {
        struct pollfd fds[MOVES + WEIR__MOVE_FDS] = {{.fd = w->wake_fd, .events = POLLIN}};
        uint64_t now = weir__clock_ns();

        weir__observer_prepare_poll(w, fds + OBSERVERS);
        weir__move_prepare_poll(w, fds + MOVES);
        weir__mutex_lock(&w->conn_lock);
        if (now - beat_ns >= BEAT_MS * UINT64_C(1000000) && w->conn.fd >= 0) {
            struct weir__wire_ping ping = {.sent_ns = now};

            beat_ns = now;
            weir__conn_send(&w->conn, WEIR__WIRE_PING, &ping, sizeof ping);
        }
        fds[1] = (struct pollfd){.fd = w->conn.fd,
                                 .events = (short)(POLLIN | (w->conn.out_have ? POLLOUT : 0))};
        weir__mutex_unlock(&w->conn_lock);
        poll(fds, MOVES + WEIR__MOVE_FDS, weir__move_pause_ms(w, BEAT_MS));
        if (fds[0].revents & POLLIN)
            (void)!read(w->wake_fd, &(uint64_t){0}, sizeof(uint64_t));
        if (fds[1].revents & POLLOUT) {
            weir__mutex_lock(&w->conn_lock);
            weir__conn_flush(&w->conn);
            weir__mutex_unlock(&w->conn_lock);
        }
        if (fds[1].revents & ~POLLOUT)
            serve(w, payload);
        if (weir__observer_serve(w, fds + OBSERVERS, payload))
            lose_hub_for(w, WEIR__GONE_STOPPED, WEIR__LINK_STOPPED);
        if (fds[MOVES + WEIR__MOVE_OLD].revents && w->move.old.fd >= 0)
            serve_old(w, payload);
        weir__move_serve(w, fds + MOVES, payload);
        watch_hub(w, payload);
        watch_peers(w);
    }
    weir__free(payload);
    return NULL;
}
