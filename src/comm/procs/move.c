/* The way to the next hub, when the hub's rank is gone: hub/standby.c is its other end.
 *
 * Candidates are tried in the order of their numbers. Every rank comes to the same one: a lower
 * rank is passed over only if it is gone, or if it does not listen where all can reach it. This
 * rank is a candidate, too: then it takes over, and connects to itself. If the hub's rank has left
 * in order, its hub goes on for a moment, and ranks that leave soon need not move.
 *
 * A candidate may not know yet that the hub is gone; then it holds the connection. If the others go
 * on without this rank, it refuses it. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/procs/link.h"
#include "comm/procs/proof.h"

enum { PAUSE_MS = 10 };
#define SOON_NS UINT64_C(150000000)
#define AGAIN_NS UINT64_C(20000000)      /* between two attempts to reach a rank */
#define REACH_NS UINT64_C(700000000)     /* for a host to answer; as WEIR__CONN_REACH_MS */
#define PATIENCE_NS UINT64_C(1000000000) /* with a rank that closes the connection at once */

static bool is_near(const struct weir__world *w, int rank)
{
    return w->peers[rank].host == weir__host_id();
}

/* True if all ranks that are left can reach the rank. */
static bool is_candidate(const struct weir__world *w, int rank)
{
    const struct weir__address *a = rank == w->rank ? &w->standby : &w->peers[rank].standby;

    if (!a->family || atomic_load(&w->peers[rank].gone) || weir__ranks_has(&w->move.passed, rank))
        return false;
    for (int i = 0; i < w->ranks && weir__address_is_loopback(a); i++)
        if (w->peers[i].host != w->peers[rank].host && !atomic_load(&w->peers[i].gone))
            return false;
    return true;
}

static bool lead(struct weir__world *w)
{
    if (!w->hub) {
        int fd = w->standby_fd;

        w->standby_fd = -1;
        if (fd < 0 || weir__hub_start(fd, w->rank, w->ranks, w->token, w->peers, &w->hub))
            return false;
    }
    weir__hub_take_over(w->hub, w->move.orderly);
    return true;
}

static void stay_alone(struct weir__world *w, const char *text)
{
    weir__conn_close(&w->move.next);
    w->move.state = WEIR__MOVES_NOWHERE;
    weir__link_be_alone(w, text);
}

/* Starts a connection to rank `to`. The HELLO is sent once it is established. */
static void reach(struct weir__world *w)
{
    struct weir__move *m = &w->move;
    const struct weir__address *a = m->to == w->rank ? &w->standby : &w->peers[m->to].standby;
    struct weir__wire_hello hello = weir__link_hello(w, WEIR__LINE_RANK, m->to);
    int fd = weir__store_connect_to(a, w->standby.scope);

    memcpy(m->hello, hello.proof, sizeof m->hello);
    m->retry_ns = 0;
    m->refused = fd < 0 && errno == ECONNREFUSED;
    if (fd < 0 || !weir__conn_open(&m->next, fd, WEIR__WIRE_MOST) ||
        !weir__conn_send(&m->next, WEIR__WIRE_HELLO, &hello, sizeof hello)) {
        m->refused |= fd >= 0 && m->next.error == ECONNREFUSED;
        weir__conn_close(&m->next);
        m->retry_ns = weir__clock_ns() + AGAIN_NS;
    }
}

static void try_next(struct weir__world *w)
{
    struct weir__move *m = &w->move;

    weir__conn_close(&m->next);
    for (m->to = 0; m->to < w->ranks; m->to++) {
        if (!is_candidate(w, m->to))
            continue;
        if (m->to == w->rank && !lead(w)) {
            weir__ranks_add(&m->passed, m->to);
            continue;
        }
        m->since_ns = weir__clock_ns();
        m->stop.since_ns = m->dead_ns = 0;
        reach(w);
        return;
    }
    stay_alone(w, "no rank can be reached that joins the others");
}

void weir__move_begin(struct weir__world *w)
{
    struct weir__move *m = &w->move;

    if (m->state == WEIR__MOVES || m->state == WEIR__MOVES_NOWHERE)
        return;
    m->orderly = atomic_load(&w->peers[w->hub_rank].gone) == WEIR__GONE_LEFT;
    if (w->conn.fd >= 0) {
        if (m->state == WEIR__MOVES_NOT)
            m->since_ns = weir__clock_ns();
        m->state = WEIR__MOVES_SOON;
        return;
    }
    m->state = WEIR__MOVES;
    atomic_store(&w->moves, true);
    try_next(w);
}

void weir__move_end(struct weir__world *w, const char *text)
{
    weir__mutex_lock(&w->conn_lock);
    weir__conn_close(&w->conn);
    weir__mutex_unlock(&w->conn_lock);
    if (!atomic_load(&w->stop))
        weir__link_lose_all(w, 0, text); /* first: calls would say that they do not know why */
    stay_alone(w, text);
}

/* The candidate has welcomed this rank. */
static void arrive(struct weir__world *w, const struct weir__wire_welcome *welcome)
{
    struct weir__move *m = &w->move;

    weir__conn_close(&m->old);
    weir__mutex_lock(&w->conn_lock);
    weir__conn_send(&w->conn, WEIR__WIRE_MOVED, NULL, 0);
    m->old = w->conn;
    w->conn = m->next;
    m->next = (struct weir__conn){.fd = -1};
    weir__link_tell_again(w);
    weir__mutex_unlock(&w->conn_lock);
    m->state = WEIR__MOVES_NOT;
    m->passed = (struct weir__ranks){{0}};
    w->hub_rank = m->to;
    w->hub_pid = welcome->pid;
    w->hub_host = welcome->host;
    w->last_ns = weir__clock_ns();
    w->quickest_ns = 0;
    weir__procs_tell_again(w);
    atomic_store(&w->moves, false);
}

/* The candidate has closed the connection, or could not be reached. */
static void fail(struct weir__world *w)
{
    struct weir__move *m = &w->move;
    bool near = is_near(w, m->to), refused = m->refused || m->next.error == ECONNREFUSED;
    uint64_t now = weir__clock_ns();
    char text[60];

    weir__conn_close(&m->next);
    if (near && weir__process_state(w->peers[m->to].pid) == 'Z') {
        snprintf(text, sizeof text, "rank %d died", m->to);
        weir__link_lose(w, m->to, WEIR__GONE_DIED, text);
    } else if (!refused && now - m->since_ns < PATIENCE_NS) {
        m->retry_ns = now + AGAIN_NS; /* too many came at once */
        return;
    } else if (near && m->to != w->rank) { /* it listens until it leaves */
        snprintf(text, sizeof text, "rank %d has left", m->to);
        weir__link_lose(w, m->to, WEIR__GONE_LEFT, text);
    } else {
        weir__ranks_add(&m->passed, m->to);
    }
    try_next(w);
}

/* A candidate that does not answer: it may be stopped, or get no processor time. */
static void watch_candidate(struct weir__world *w)
{
    struct weir__move *m = &w->move;
    uint64_t now = weir__clock_ns(), waited = now - m->since_ns;
    bool near = is_near(w, m->to);
    char text[100], state = near ? weir__process_state(w->peers[m->to].pid) : 0;

    m->dead_ns = state != 'Z' ? 0 : m->dead_ns ? m->dead_ns : now;
    if (atomic_load(&w->peers[m->to].gone)) {
        try_next(w);
    } else if (m->refused) {
        fail(w);
    } else if (m->to != w->rank && weir__stop_lasts(&m->stop, w->peers[m->to].pid, state)) {
        snprintf(text, sizeof text, "rank %d %s", m->to, WEIR__LINK_STOPPED);
        weir__link_lose(w, m->to, WEIR__GONE_STOPPED, text);
        try_next(w);
    } else if (m->dead_ns && now - m->dead_ns >= WEIR__STOPPED_NS) {
        /* A process that it started may have its socket, which then still accepts connections. The
         * old hub had time to say that it has left. */
        snprintf(text, sizeof text, "rank %d died", m->to);
        weir__link_lose(w, m->to, WEIR__GONE_DIED, text);
        try_next(w);
    } else if (!near && m->next.out_have && waited > REACH_NS) {
        weir__ranks_add(&m->passed, m->to);
        try_next(w);
    } else if (waited > (near ? WEIR__LINK_SILENT_NS : WEIR__LINK_SILENT_FAR_NS)) {
        snprintf(text, sizeof text, "rank %d has been silent for too long", m->to);
        weir__link_lose(w, m->to, WEIR__GONE_DIED, text);
        try_next(w);
    } else if (m->retry_ns && now >= m->retry_ns) {
        reach(w);
    }
}

static void serve_next(struct weir__world *w, char *payload)
{
    struct weir__move *m = &w->move;
    const struct weir__wire_welcome *welcome = (const void *)payload;
    const struct weir__wire_refused *refused = (const void *)payload;
    enum weir__wire_type type;
    const char *wrong;
    bool open = weir__conn_fill(&m->next);
    int n = weir__conn_next(&m->next, &type, payload, &wrong);
    char text[WEIR__WIRE_TEXT + 100];

    if (n > 0 && type == WEIR__WIRE_WELCOME &&
        weir__proves_answer(w->token, m->hello, welcome, sizeof *welcome)) {
        arrive(w, welcome);
    } else if (n > 0 && type == WEIR__WIRE_REFUSED &&
               weir__proves_answer(w->token, m->hello, refused, sizeof *refused)) {
        snprintf(text, sizeof text, "rank %d, which joins the ranks now, refused rank %d: %s",
                 m->to, w->rank, refused->text);
        weir__move_end(w, text);
    } else if (n || !open) {
        fail(w);
    }
}

/* ---- the link's rounds ---- */

void weir__move_prepare_poll(struct weir__world *w, struct pollfd fds[WEIR__MOVE_FDS])
{
    const struct weir__conn *next = &w->move.next;

    /* Another rank has lost the hub before this one. */
    fds[WEIR__MOVE_LISTENER] =
        (struct pollfd){.fd = atomic_load(&w->met) ? w->standby_fd : -1, .events = POLLIN};
    fds[WEIR__MOVE_NEXT] =
        (struct pollfd){.fd = next->fd, .events = (short)(POLLIN | (next->out_have ? POLLOUT : 0))};
    fds[WEIR__MOVE_OLD] = (struct pollfd){.fd = w->move.old.fd, .events = POLLIN};
}

int weir__move_pause_ms(const struct weir__world *w, int most)
{
    return w->move.state == WEIR__MOVES ? PAUSE_MS : most;
}

void weir__move_serve(struct weir__world *w, const struct pollfd fds[WEIR__MOVE_FDS], char *payload)
{
    struct weir__move *m = &w->move;

    if (fds[WEIR__MOVE_LISTENER].revents && w->standby_fd >= 0) {
        int fd = w->standby_fd;

        w->standby_fd = -1;
        weir__hub_start(fd, w->rank, w->ranks, w->token, w->peers, &w->hub);
    }
    if (m->state == WEIR__MOVES_SOON && weir__clock_ns() - m->since_ns >= SOON_NS &&
        !atomic_load(&w->leaves)) {
        m->state = WEIR__MOVES;
        atomic_store(&w->moves, true);
        try_next(w);
        return;
    }
    if (m->state != WEIR__MOVES)
        return;
    if (fds[WEIR__MOVE_NEXT].revents && m->next.fd == fds[WEIR__MOVE_NEXT].fd && m->next.fd >= 0) {
        if (fds[WEIR__MOVE_NEXT].revents & POLLOUT && !weir__conn_flush(&m->next)) {
            fail(w);
            return;
        }
        if (fds[WEIR__MOVE_NEXT].revents & ~POLLOUT)
            serve_next(w, payload);
    }
    if (m->state == WEIR__MOVES)
        watch_candidate(w);
}
