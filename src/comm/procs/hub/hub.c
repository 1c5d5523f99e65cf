/* The hub: a thread of one rank that detects which ranks are alive. The first one is rank 0's; see
 * standby.c for those that follow.
 *
 * A connection must begin with a HELLO that proves the token. A connection that does not send it
 * within HELLO_NS is closed. If too many connections have not sent it yet, the oldest of them is
 * closed. A rank whose connection closes without a BYE is dead.
 *
 * If a rank of this host is silent for WEIR__HUB_DOUBT_NS, the hub reads its process state: stopped
 * or dead. To a silent rank of another host the hub sends a message, which that host's kernel must
 * acknowledge (wire.h); other ranks on that host report a stopped rank. Otherwise a silent rank is
 * not disconnected before SILENT_NS or WEIR__HUB_SILENT_FAR_NS: over the network, a rank that gets
 * no CPU cannot be distinguished from a stopped one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "comm/procs/hub/hub.h"
#include "comm/procs/observer.h"
#include "comm/procs/proof.h"

enum { STRANGERS = 16, LOOK_MS = 100 };
#define CUT "is gone: its connection was cut"
#define LINGER_NS UINT64_C(1000000000)
#define HELLO_NS UINT64_C(2000000000)
/* PROBE_NS + LOOK_MS + WEIR__CONN_REACH_MS is less than a second. */
#define PROBE_NS UINT64_C(150000000)
#define SILENT_NS UINT64_C(20000000000) /* ranks on this host, whose state can be read */

struct weir__hub_peer *weir__hub_peer_of(struct weir__hub *h, int rank)
{
    struct weir__hub_peer *peer = &h->peers[h->slot_of[rank]];

    return peer->conn.fd >= 0 && peer->rank == rank ? peer : NULL;
}

static void tell_all(struct weir__hub *h, int except, enum weir__wire_type type,
                     const void *payload, size_t size)
{
    for (struct weir__hub_peer *g = h->peers; g < h->peers + h->slots; g++)
        if (g->conn.fd >= 0 && g->rank >= 0 && g->rank != except)
            weir__conn_send(&g->conn, type, payload, size); /* a failure is noticed on reading */
}

/* ---- ranks come and go ---- */

void weir__hub_lose(struct weir__hub *h, struct weir__hub_peer *peer, enum weir__gone how,
                    const char *text)
{
    struct weir__wire_gone m = {.rank = (uint32_t)peer->rank, .how = how};
    bool is_lost = peer->rank >= 0 && !peer->moved;

    if (is_lost && how != WEIR__GONE_LEFT) { /* or it may take its disconnection for our end */
        snprintf(m.text, sizeof m.text, "rank %d %s", peer->rank, text);
        weir__conn_send(&peer->conn, WEIR__WIRE_GONE, &m, sizeof m);
    }
    weir__conn_close(&peer->conn);
    if (is_lost)
        weir__hub_lose_rank(h, peer->rank, how, text);
}

void weir__hub_lose_rank(struct weir__hub *h, int rank, enum weir__gone how, const char *text)
{
    struct weir__wire_gone m = {.rank = (uint32_t)rank, .how = how};

    h->gone[rank] = how;
    snprintf(h->gone_text[rank], sizeof h->gone_text[rank], "rank %d %s", rank, text);
    snprintf(m.text, sizeof m.text, "rank %d %s", rank, text);
    tell_all(h, rank, WEIR__WIRE_GONE, &m, sizeof m);
    weir__hub_gather_without(h, rank, m.text);
}

static void refuse(struct weir__hub_peer *peer, const char *text, const char *token)
{
    struct weir__wire_refused m = {.status = WEIR_EINVAL};

    snprintf(m.text, sizeof m.text, "%s", text);
    if (token)
        weir__proof_of_answer(token, peer->hello, &m, sizeof m);
    weir__conn_send(&peer->conn, WEIR__WIRE_REFUSED, &m, sizeof m);
    weir__conn_close(&peer->conn);
}

void weir__hub_refuse(const struct weir__hub *h, struct weir__hub_peer *peer, const char *text)
{
    refuse(peer, text, h->token);
}

void weir__hub_admit(struct weir__hub *h, struct weir__hub_peer *peer, int rank)
{
    struct weir__wire_welcome answer = {.pid = (uint32_t)getpid(), .host = weir__host_id()};

    h->came[rank] = true;
    h->slot_of[rank] = (int)(peer - h->peers);
    peer->rank = rank;
    peer->held = false;
    peer->last_ns = weir__clock_ns();
    weir__proof_of_answer(h->token, peer->hello, &answer, sizeof answer);
    weir__conn_send(&peer->conn, WEIR__WIRE_WELCOME, &answer, sizeof answer);
    weir__hub_send_kept(h, peer);
    for (int i = 0; i < h->ranks; i++)
        if (h->gone[i]) {
            struct weir__wire_gone gone = {.rank = (uint32_t)i, .how = h->gone[i]};

            snprintf(gone.text, sizeof gone.text, "%s", h->gone_text[i]);
            weir__conn_send(&peer->conn, WEIR__WIRE_GONE, &gone, sizeof gone);
        }
}

static void greet(struct weir__hub *h, struct weir__hub_peer *peer,
                  const struct weir__wire_hello *m)
{
    char text[200] = "";

    if (!weir__proves_hello(h->token, m)) { /* nothing is proved to a stranger */
        refuse(peer, "the token is not that of this job", NULL);
        return;
    }
    memcpy(peer->hello, m->proof, sizeof peer->hello);
    if ((int)m->to != h->rank)
        snprintf(text, sizeof text, "this is rank %d, not rank %u", h->rank, m->to);
    else if ((int)m->ranks != h->ranks)
        snprintf(text, sizeof text, "rank %u says there are %u ranks, rank 0 says %d", m->rank,
                 m->ranks, h->ranks);
    else if (m->line == WEIR__LINE_RANK && h->came[m->rank])
        snprintf(text, sizeof text, "rank %u is here already: two processes have its number",
                 m->rank);
    else if (m->line == WEIR__LINE_RANK && h->gone[m->rank])
        snprintf(text, sizeof text, "the others go on without it: %s", h->gone_text[m->rank]);
    if (*text) {
        weir__hub_refuse(h, peer, text);
        return;
    }
    if (m->line != WEIR__LINE_RANK) {
        weir__hub_accept_observer(h, peer, m);
        return;
    }
    peer->pid = m->pid;
    peer->host = m->host;
    if (!weir__hub_hold(h, peer, (int)m->rank))
        weir__hub_admit(h, peer, (int)m->rank);
}

/* A rank of another host reports that a rank on its host is stopped, which the hub cannot see
 * itself, or that one is dead, which the hub does not see if that rank has no connection. */
static void take_report(struct weir__hub *h, const struct weir__hub_peer *from, int rank,
                        enum weir__gone how)
{
    struct weir__hub_peer *peer = weir__hub_peer_of(h, rank);

    if (rank >= h->ranks || rank == from->rank || weir__hub_host_of(h, rank) != from->host ||
        from->host == weir__host_id() || h->gone[rank])
        return;
    if (!peer && !h->came[rank] && h->led)
        weir__hub_lose_rank(h, rank, how, how == WEIR__GONE_STOPPED ? WEIR__HUB_STOPPED : "died");
    else if (peer && !peer->moved && how == WEIR__GONE_STOPPED &&
             peer->last_ns + WEIR__HUB_DOUBT_NS <= weir__clock_ns())
        weir__hub_lose(h, peer, how, WEIR__HUB_STOPPED);
}

/* Forwards the message to rank m->to, after checking that its sender is m->from. */
static void pass_on(struct weir__hub *h, struct weir__hub_peer *from, enum weir__wire_type type,
                    const struct weir__wire_close *m)
{
    struct weir__hub_peer *to = (int)m->to < h->ranks ? weir__hub_peer_of(h, (int)m->to) : NULL;

    if ((int)m->from != from->rank)
        weir__hub_lose(h, from, WEIR__GONE_DIED, "spoke for another rank and was disconnected");
    else if (to)
        weir__conn_send(&to->conn, type, m, sizeof *m);
    else
        weir__hub_keep(h, (int)m->to, type, m, sizeof *m);
}

static void take_message(struct weir__hub *h, struct weir__hub_peer *peer,
                         enum weir__wire_type type, const void *payload)
{
    const struct weir__wire_gone *gone = payload;
    struct weir__wire_ping ping;

    if (peer->observes) {
        weir__hub_take_report(h, peer, type, payload);
        return;
    }
    if (peer->held || peer->moved) { /* these say nothing more */
        weir__conn_close(&peer->conn);
        return;
    }
    if ((type == WEIR__WIRE_HELLO) != (peer->rank < 0)) {
        weir__hub_lose(h, peer, WEIR__GONE_DIED, "sent a message out of turn and was disconnected");
        return;
    }
    peer->last_ns = weir__clock_ns();
    switch (type) {
    case WEIR__WIRE_HELLO:
        greet(h, peer, payload);
        break;
    case WEIR__WIRE_PING:
        memcpy(&ping, payload, sizeof ping);
        ping.hub_ns = weir__clock_ns();
        weir__conn_send(&peer->conn, WEIR__WIRE_PONG, &ping, sizeof ping);
        break;
    case WEIR__WIRE_GATHER:
        if (!weir__ranks_has(&((const struct weir__wire_gather *)payload)->members, peer->rank))
            weir__hub_lose(h, peer, WEIR__GONE_DIED, "gathers where it is no member: disconnected");
        else
            weir__hub_gather(h, peer->rank, payload);
        break;
    case WEIR__WIRE_ABORT:
        tell_all(h, peer->rank, WEIR__WIRE_ABORT, payload, sizeof(struct weir__wire_text));
        weir__hub_keep(h, WEIR__HUB_EVERYBODY, type, payload, sizeof(struct weir__wire_text));
        break;
    case WEIR__WIRE_GONE:
        take_report(h, peer, (int)gone->rank, (enum weir__gone)gone->how);
        break;
    case WEIR__WIRE_MOVED:
        peer->moved = true;
        break;
    case WEIR__WIRE_CLOSES:
    case WEIR__WIRE_RECEIVED:
        pass_on(h, peer, type, payload);
        break;
    case WEIR__WIRE_BYE:
        peer->left = true;
        weir__hub_lose(h, peer, WEIR__GONE_LEFT, "has left");
        break;
    default:
        weir__hub_lose(h, peer, WEIR__GONE_DIED, "sent a message out of turn and was disconnected");
    }
}

static const char *why_gone(const struct weir__hub_peer *peer)
{
    bool near = peer->rank >= 0 && peer->host == weir__host_id();

    if (weir__conn_is_out_of_reach(&peer->conn))
        return "is out of reach: its host does not answer";
    return near && weir__process_state(peer->pid) == 'R' ? CUT : "died";
}

static void serve(struct weir__hub *h, struct weir__hub_peer *peer, char *payload)
{
    bool open = weir__conn_fill(&peer->conn);
    enum weir__wire_type type;
    const char *wrong;
    int n = 0;

    while (peer->conn.fd >= 0 && (n = weir__conn_next(&peer->conn, &type, payload, &wrong)) > 0)
        take_message(h, peer, type, payload);
    if (peer->conn.fd < 0)
        return;
    if (n < 0) {
        char text[120];

        snprintf(text, sizeof text, "sent %s and was disconnected", wrong);
        weir__hub_lose(h, peer, WEIR__GONE_DIED, text);
    } else if (!open) {
        weir__hub_lose(h, peer, WEIR__GONE_DIED, why_gone(peer));
    }
}

static void let_in(struct weir__hub *h)
{
    struct weir__hub_peer *room = NULL, *oldest = NULL;
    int fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), strangers = 0;

    if (fd < 0)
        return;
    for (int i = 0; i < h->slots; i++) {
        struct weir__hub_peer *g = &h->peers[i];

        if (g->conn.fd < 0) {
            room = room ? room : g;
        } else if (g->rank < 0 && !g->observes && !g->held) {
            strangers++;
            oldest = !oldest || g->last_ns < oldest->last_ns ? g : oldest;
        }
    }
    if (strangers >= STRANGERS || !room) {
        if (!oldest) {
            close(fd);
            return;
        }
        weir__conn_close(&oldest->conn);
        room = oldest;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (!weir__conn_open(&room->conn, fd, WEIR__WIRE_SHORT))
        return;
    room->rank = -1;
    room->left = room->observes = room->moved = room->held = false;
    room->stop.since_ns = 0;
    room->last_ns = weir__clock_ns();
}

/* Its process is gone, and somebody else may have its connection. */
static void end_dead(struct weir__hub *h, struct weir__hub_peer *peer, char *payload)
{
    serve(h, peer, payload);
    if (peer->conn.fd >= 0)
        weir__hub_lose(h, peer, WEIR__GONE_DIED, "died");
}

static void look_at_silent(struct weir__hub *h, uint64_t now, char *payload)
{
    for (int i = 0; i < h->slots; i++) {
        struct weir__hub_peer *g = &h->peers[i];
        uint64_t silent = now > g->last_ns ? now - g->last_ns : 0;
        bool near, stopped;
        char state;

        if (g->conn.fd < 0 || g->moved || g->held)
            continue;
        if (g->rank < 0) {
            if (silent > HELLO_NS && !g->observes)
                weir__conn_close(&g->conn);
            continue;
        }
        near = g->host == weir__host_id();
        if (!near && silent > PROBE_NS)
            weir__conn_send(&g->conn, WEIR__WIRE_PONG, &(struct weir__wire_ping){0},
                            sizeof(struct weir__wire_ping)); /* a failure is noticed on reading */
        state = near && silent > PROBE_NS ? weir__process_state(g->pid) : 0;
        stopped = weir__stop_lasts(&g->stop, g->pid, state);
        if (silent < WEIR__HUB_DOUBT_NS)
            continue;
        if (stopped)
            weir__hub_lose(h, g, WEIR__GONE_STOPPED, WEIR__HUB_STOPPED);
        else if (state == 'Z') /* its last words, which may have come just now, come first */
            end_dead(h, g, payload);
        else if (silent > (near ? SILENT_NS : WEIR__HUB_SILENT_FAR_NS) &&
                 (silent > SILENT_NS || !weir__hub_has_observer(h, g->host)))
            weir__hub_lose(h, g, WEIR__GONE_DIED, "has been silent for too long");
    }
}

/* True if the hub may stop. After its own rank has left, it waits up to LINGER_NS for the other
 * ranks to leave or to have another hub, so that a rank that dies meanwhile is still reported. */
static bool is_over(const struct weir__hub *h)
{
    uint64_t stop = atomic_load(&h->stop_ns);
    bool needed = stop && weir__hub_misses_ranks(h);

    for (int i = 0; i < h->slots && stop && !needed; i++)
        needed = h->peers[i].conn.fd >= 0 && h->peers[i].rank >= 0 && !h->peers[i].moved;
    return stop && (!needed || weir__clock_ns() > stop);
}

static void *hub_main(void *user)
{
    struct weir__hub *h = user;
    static _Thread_local _Alignas(8) char payload[WEIR__WIRE_SHORT];
    struct pollfd fds[2 * WEIR_MAX_RANKS + STRANGERS + 2];

    while (!is_over(h)) {
        uint64_t now;

        fds[0] = (struct pollfd){.fd = h->listen_fd, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = h->wake_fd, .events = POLLIN};
        for (int i = 0; i < h->slots; i++) {
            const struct weir__conn *c = &h->peers[i].conn;

            fds[i + 2] = (struct pollfd){.fd = c->fd,
                                         .events = (short)(POLLIN | (c->out_have ? POLLOUT : 0))};
        }
        poll(fds, (nfds_t)h->slots + 2, LOOK_MS);
        if (fds[1].revents & POLLIN)
            (void)!read(h->wake_fd, &(uint64_t){0}, sizeof(uint64_t));
        for (int i = 0; i < h->slots; i++) {
            struct weir__hub_peer *g = &h->peers[i];

            if (g->conn.fd < 0 || g->conn.fd != fds[i + 2].fd)
                continue;
            if (fds[i + 2].revents & POLLOUT && !weir__conn_flush(&g->conn))
                fds[i + 2].revents |= POLLIN; /* reading will report the failure */
            if (fds[i + 2].revents & ~POLLOUT)
                serve(h, g, payload);
        }
        if (fds[0].revents & POLLIN)
            let_in(h);
        now = weir__clock_ns();
        weir__hub_standby_look(h, now);
        look_at_silent(h, now, payload);
        weir__hub_gather_look(h, now);
    }
    return NULL;
}

weir_status weir__hub_start(int listen_fd, int rank, int ranks, const char *token,
                            const struct weir__peer *known, struct weir__hub **out)
{
    int slots = 2 * ranks + STRANGERS;
    struct weir__hub *h = weir__calloc(1, sizeof *h + (size_t)slots * sizeof *h->peers);

    *out = NULL;
    if (!h) {
        close(listen_fd);
        return weir__fail_nomem("joining %d ranks", ranks);
    }
    h->listen_fd = listen_fd;
    h->watch = -1;
    fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK);
    h->rank = rank;
    h->ranks = ranks;
    h->known = known;
    h->slots = slots;
    snprintf(h->token, sizeof h->token, "%s", token);
    for (int i = 0; i < h->slots; i++)
        h->peers[i].conn.fd = -1;
    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->absent = known ? weir__calloc((size_t)ranks, sizeof *h->absent) : NULL;
    if (h->wake_fd < 0 || (known && !h->absent) || !weir__thread_start(&h->thread, hub_main, h)) {
        close(listen_fd);
        if (h->wake_fd >= 0)
            close(h->wake_fd);
        weir__free(h->absent);
        weir__free(h);
        return weir__fail(WEIR_EUNAVAILABLE, "cannot start a thread to join the ranks");
    }
    *out = h;
    return WEIR_OK;
}

void weir__hub_stop(struct weir__hub *h)
{
    if (!h)
        return;
    atomic_store(&h->stop_ns, weir__clock_ns() + LINGER_NS);
    (void)!write(h->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
    pthread_join(h->thread, NULL);
    for (int i = 0; i < h->slots; i++)
        weir__conn_close(&h->peers[i].conn);
    weir__hub_gather_end(h);
    weir__hub_forget_kept(h);
    weir__watch_end(h->watch);
    close(h->listen_fd);
    close(h->wake_fd);
    weir__free(h->absent);
    weir__free(h);
}
