/* A rank's connection to the hub; joining and leaving a world. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "comm/procs/observer.h"
#include "trace/record/trace.h"

enum { BEAT_MS = 100, WATCHED = 64 /* peers whose state is checked per beat */ };
#define HUB_STOPPED "rank 0 is stopped (by a signal or a debugger)"
#define PROBE_NS UINT64_C(150000000)
#define DOUBT_NS UINT64_C(400000000)
#define SILENT_NS UINT64_C(20000000000)
#define SILENT_FAR_NS UINT64_C(5000000000)

/* A gather that a thread waits for; `state` is its futex. */
struct weir__gather {
    struct weir__gather *next;
    const char *key;
    struct weir__wire_gathered *all;
    _Atomic uint32_t state; /* 0: waits, 1: gathered, 2: failed */
    weir_status status;
    char text[WEIR__WIRE_TEXT];
};

static void poke(struct weir__world *w)
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
    poke(w);
}

void weir__world_send_abort(struct weir__world *w, const char *key, weir_status status,
                            const char *text)
{
    struct weir__wire_text m = {.status = (int32_t)status};

    snprintf(m.key, sizeof m.key, "%s", key);
    snprintf(m.text, sizeof m.text, "%s", text);
    send_to_hub(w, WEIR__WIRE_ABORT, &m, sizeof m);
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

/* Ends the gathers of that key, or all gathers if `key` is NULL. */
static void end_gathers(struct weir__world *w, const char *key,
                        const struct weir__wire_gathered *all, weir_status status, const char *text)
{
    weir__mutex_lock(&w->conn_lock);
    for (struct weir__gather *g = w->gathers; g; g = g->next) {
        if ((key && strcmp(g->key, key)) || atomic_load(&g->state))
            continue;
        if (all) {
            memcpy(g->all, all, weir__wire_gathered_size(&all->members));
        } else {
            g->status = status;
            snprintf(g->text, sizeof g->text, "%s", text);
        }
        atomic_store(&g->state, all ? 1 : 2);
        weir__futex_wake(&g->state, 1);
    }
    weir__mutex_unlock(&w->conn_lock);
}

static void lose(struct weir__world *w, int rank, enum weir__gone how, const char *text)
{
    struct weir__peer *p = &w->peers[rank];

    if (atomic_load(&p->gone))
        return;
    snprintf(p->text, sizeof p->text, "%s", text);
    atomic_store(&p->gone, (int)how);
    atomic_store(&w->lost, true);
    weir__procs_see_gone(w, rank);
}

static void lose_hub(struct weir__world *w, enum weir__gone how, const char *text)
{
    weir__mutex_lock(&w->conn_lock);
    weir__conn_close(&w->conn);
    weir__mutex_unlock(&w->conn_lock);
    if (!atomic_load(&w->stop))
        lose(w, 0, how, text);
    end_gathers(w, NULL, NULL, WEIR_EUNAVAILABLE, text);
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

static void take_message(struct weir__world *w, enum weir__wire_type type, const void *payload)
{
    const struct weir__wire_text *text = payload;
    const struct weir__wire_gathered *all = payload;
    const struct weir__wire_gone *gone = payload;
    const struct weir__wire_close *close = payload;

    w->last_ns = weir__clock_ns();
    switch (type) {
    case WEIR__WIRE_GATHERED:
        end_gathers(w, all->key, all, WEIR_OK, NULL);
        break;
    case WEIR__WIRE_FAILED:
        end_gathers(w, text->key, NULL, (weir_status)text->status, text->text);
        break;
    case WEIR__WIRE_PONG:
        take_pong(w, payload);
        break;
    case WEIR__WIRE_ABORT:
        weir__procs_see_abort(w, text->key, (weir_status)text->status, text->text);
        break;
    case WEIR__WIRE_GONE:
        if ((int)gone->rank < w->ranks && (int)gone->rank != w->rank)
            lose(w, (int)gone->rank, (enum weir__gone)gone->how, gone->text);
        break;
    case WEIR__WIRE_CLOSES:
    case WEIR__WIRE_RECEIVED:
        if ((int)close->to == w->rank && (int)close->from < w->ranks)
            weir__procs_see_close(w, close, type == WEIR__WIRE_CLOSES);
        break;
    default:
        lose_hub(w, WEIR__GONE_DIED, "rank 0 sent a message out of turn");
    }
}

static bool hub_lives(const struct weir__world *w)
{
    return w->hub_host == weir__host_id() && weir__process_state(w->hub_pid) == 'R';
}

static void serve(struct weir__world *w, char *payload)
{
    enum weir__wire_type type;
    const char *wrong = NULL;
    bool open, reached;
    int n = 0;

    weir__mutex_lock(&w->conn_lock);
    open = w->conn.fd >= 0 && weir__conn_fill(&w->conn);
    reached = !weir__conn_is_out_of_reach(&w->conn);
    weir__mutex_unlock(&w->conn_lock);
    for (;;) {
        weir__mutex_lock(&w->conn_lock);
        n = w->conn.fd < 0 ? 0 : weir__conn_next(&w->conn, &type, payload, &wrong);
        weir__mutex_unlock(&w->conn_lock);
        if (n <= 0)
            break;
        take_message(w, type, payload);
    }
    if (w->conn.fd < 0)
        return;
    if (n < 0)
        lose_hub(w, WEIR__GONE_DIED, "rank 0 sent bytes that are not a message");
    else if (!open)
        lose_hub(w, WEIR__GONE_DIED,
                 !reached       ? "rank 0 is out of reach: its host does not answer"
                 : hub_lives(w) ? "the connection to rank 0, which joins the ranks, was cut"
                                : "rank 0 died");
}

static void watch_hub(struct weir__world *w, char *payload)
{
    uint64_t silent = weir__clock_ns() - w->last_ns;
    bool near = w->hub_host == weir__host_id();
    bool stopped;
    char state;

    if (w->conn.fd < 0 || !w->rank || silent < PROBE_NS || silent > UINT64_MAX / 2)
        return;
    state = near ? weir__process_state(w->hub_pid) : 0;
    stopped = weir__stop_lasts(&w->peers[0].stop, w->hub_pid, state);
    if (silent < DOUBT_NS)
        return;
    if (stopped)
        lose_hub(w, WEIR__GONE_STOPPED, HUB_STOPPED);
    else if (state == 'Z' && (serve(w, payload), w->conn.fd >= 0)) /* its last words come first */
        lose_hub(w, WEIR__GONE_DIED, "rank 0 died");
    else if (silent > (near || weir__observer_of_hub_is_alive(w) ? SILENT_NS : SILENT_FAR_NS))
        lose_hub(w, WEIR__GONE_DIED, "rank 0 has been silent for too long");
}

bool weir__world_is_left(const struct weir__world *w)
{
    return w->rank && atomic_load(&w->peers[0].gone) == WEIR__GONE_LEFT;
}

/* Rank 0 watches the ranks of its host. If it has left or is on another host, each rank checks the
 * ranks on its own host, some per beat. */
static void watch_peers(struct weir__world *w)
{
    bool left = weir__world_is_left(w);
    char text[60], state;

    if (!atomic_load(&w->met) || (!left && w->hub_host == weir__host_id()))
        return;
    for (int i = 0; i < weir__min(w->ranks, WATCHED); i++) {
        int rank = w->watched = (w->watched + 1) % w->ranks;
        struct weir__peer *peer = &w->peers[rank];
        bool stopped;

        if (rank == w->rank || peer->host != weir__host_id() || atomic_load(&peer->gone))
            continue;
        state = weir__process_state(peer->pid);
        stopped = weir__stop_lasts(&peer->stop, peer->pid, state);
        if (!left) {
            if (stopped)
                weir__observer_report(w, rank);
            continue;
        }
        snprintf(text, sizeof text, "rank %d %s", rank,
                 stopped ? "is stopped (by a signal or a debugger)" : "died");
        if (stopped || state == 'Z')
            lose(w, rank, stopped ? WEIR__GONE_STOPPED : WEIR__GONE_DIED, text);
    }
}

static void *link_main(void *user)
{
    struct weir__world *w = user;
    char *payload = weir__malloc(WEIR__WIRE_MOST);
    uint64_t beat_ns = 0;

    while (payload && !atomic_load(&w->stop)) {
        struct pollfd fds[2 + WEIR__OBSERVER_LINES] = {{.fd = w->wake_fd, .events = POLLIN}};
        uint64_t now = weir__clock_ns();

        weir__observer_prepare_poll(w, fds + 2);
        weir__mutex_lock(&w->conn_lock);
        if (now - beat_ns >= BEAT_MS * UINT64_C(1000000) && w->conn.fd >= 0) {
            struct weir__wire_ping ping = {.sent_ns = now};

            beat_ns = now;
            weir__conn_send(&w->conn, WEIR__WIRE_PING, &ping, sizeof ping);
        }
        fds[1] = (struct pollfd){.fd = w->conn.fd,
                                 .events = (short)(POLLIN | (w->conn.out_have ? POLLOUT : 0))};
        weir__mutex_unlock(&w->conn_lock);
        poll(fds, 2 + WEIR__OBSERVER_LINES, BEAT_MS);
        if (fds[0].revents & POLLIN)
            (void)!read(w->wake_fd, &(uint64_t){0}, sizeof(uint64_t));
        if (fds[1].revents & POLLOUT) {
            weir__mutex_lock(&w->conn_lock);
            weir__conn_flush(&w->conn);
            weir__mutex_unlock(&w->conn_lock);
        }
        if (fds[1].revents & ~POLLOUT)
            serve(w, payload);
        if (weir__observer_serve(w, fds + 2, payload))
            lose_hub(w, WEIR__GONE_STOPPED, HUB_STOPPED);
        watch_hub(w, payload);
        watch_peers(w);
    }
    weir__free(payload);
    return NULL;
}

/* ---- gathering ---- */

weir_status weir__world_gather(struct weir__world *w, const char *key,
                               const struct weir__ranks *members, int64_t timeout_ns,
                               const void *blob, struct weir__wire_gathered *all)
{
    struct weir__wire_gather m = {.members = *members, .timeout_ns = timeout_ns};
    struct weir__gather wait = {.key = key, .all = all}, **at;
    uint64_t deadline = weir__clock_ns() + (uint64_t)timeout_ns + UINT64_C(2000000000);
    bool sent;

    snprintf(m.key, sizeof m.key, "%s", key);
    memcpy(m.blob, blob, sizeof m.blob);
    weir__mutex_lock(&w->conn_lock);
    wait.next = w->gathers;
    w->gathers = &wait;
    sent = weir__conn_send(&w->conn, WEIR__WIRE_GATHER, &m, sizeof m);
    weir__mutex_unlock(&w->conn_lock);
    poke(w);
    while (sent && !atomic_load(&wait.state) && weir__clock_ns() < deadline)
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
    return weir__fail(sent ? WEIR_ETIMEDOUT : WEIR_EUNAVAILABLE,
                      "group '%s' did not form: rank 0, which joins the ranks, %s", key,
                      sent ? "did not answer in time" : "is gone");
}

/* ---- joining and leaving ---- */

static bool wait_readable(int fd, uint64_t deadline_ns)
{
    uint64_t now = weir__clock_ns();

    return now < deadline_ns &&
           poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1,
                (int)weir__min((int64_t)((deadline_ns - now) / 1000000) + 1, 60000)) == 1;
}

/* Sends HELLO and waits for the answer. Sets *again if the hub may be that of an earlier job: then
 * the caller should try again. */
static weir_status say_hello(struct weir__world *w, const struct weir__place_in_job *p,
                             uint64_t deadline_ns, bool *again)
{
    struct weir__wire_hello hello = {.rank = (uint32_t)p->rank,
                                     .ranks = (uint32_t)p->ranks,
                                     .pid = (uint32_t)getpid(),
                                     .host = weir__host_id()};
    char *payload = weir__malloc(WEIR__WIRE_MOST);
    const struct weir__wire_welcome *welcome = (const void *)payload;
    const struct weir__wire_text *refused = (const void *)payload;
    enum weir__wire_type type = WEIR__WIRE_HELLO;
    const char *wrong;
    weir_status st = WEIR_OK;
    int n = 0;
    bool open = true;

    *again = false;
    if (!payload)
        return weir__fail_nomem("joining rank 0");
    snprintf(hello.token, sizeof hello.token, "%s", p->token);
    open = weir__conn_send(&w->conn, WEIR__WIRE_HELLO, &hello, sizeof hello);
    while (open && !(n = weir__conn_next(&w->conn, &type, payload, &wrong)) &&
           wait_readable(w->conn.fd, deadline_ns))
        open = weir__conn_fill(&w->conn) || w->conn.have;
    if (n == 1 && type == WEIR__WIRE_WELCOME) {
        w->hub_pid = welcome->pid;
        w->hub_host = welcome->host;
        w->last_ns = weir__clock_ns();
    } else if (n == 1 && type == WEIR__WIRE_REFUSED) {
        *again = !strncmp(p->store, "file:", 5) && strstr(refused->text, "token");
        st = weir__fail((weir_status)refused->status, "rank 0 at %s refused rank %d: %s", p->store,
                        p->rank, refused->text);
    } else if (n == 1 || n < 0) {
        st =
            weir__fail(WEIR_EUNAVAILABLE, "the server at %s is not rank 0 of a weir job", p->store);
    } else {
        *again = !open;
        st = weir__fail(open ? WEIR_ETIMEDOUT : WEIR_EUNAVAILABLE, "rank 0 at %s %s", p->store,
                        open ? "did not answer in time" : "closed the connection");
    }
    weir__free(payload);
    return st;
}

static weir_status reach_hub(struct weir__world *w, struct weir__place_in_job *p,
                             uint64_t deadline_ns)
{
    bool again;

    for (;;) {
        int fd;
        weir_status st = weir__store_connect(p, deadline_ns, &fd);

        if (st)
            return st;
        if (!weir__conn_open(&w->conn, fd, WEIR__WIRE_MOST))
            return weir__fail_nomem("joining rank 0");
        st = say_hello(w, p, deadline_ns, &again);
        if (!st)
            return WEIR_OK;
        weir__conn_close(&w->conn);
        if (!again || weir__clock_ns() >= deadline_ns)
            return st;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static weir_status open_world(struct weir__world *w, struct weir__place_in_job *p,
                              int64_t timeout_ns)
{
    uint64_t deadline_ns = weir__clock_ns() + (uint64_t)timeout_ns;
    weir_status st;
    int fd;

    if (!p->rank) {
        if ((st = weir__store_listen(p, &fd)) ||
            (st = weir__hub_start(fd, p->ranks, p->token, &w->hub)))
            return st;
    }
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake_fd < 0)
        return weir__fail(WEIR_EUNAVAILABLE, "cannot create an eventfd to join the ranks");
    if ((st = reach_hub(w, p, deadline_ns)))
        return st;
    memcpy(w->observers.token, p->token, sizeof p->token);
    if (!weir__thread_start(&w->link, link_main, w))
        return weir__fail(WEIR_EUNAVAILABLE, "cannot start a thread to join the ranks");
    w->links = true;
    return weir__world_begin(
        w, (int64_t)weir__max((int64_t)(deadline_ns - weir__clock_ns()), INT64_C(100000000)));
}

static void close_world(struct weir__world *w)
{
    if (w->links) {
        /* Set before BYE is sent: the hub closes the connection then, which must not count as its
         * death. */
        atomic_store(&w->stop, true);
        /* Sent here, not by the link: the kernel sends it even if the link ends at once. */
        weir__mutex_lock(&w->conn_lock);
        weir__conn_send(&w->conn, WEIR__WIRE_BYE, NULL, 0);
        weir__mutex_unlock(&w->conn_lock);
        poke(w);
        pthread_join(w->link, NULL);
    }
    weir__observer_end(w);
    weir__world_end(w);
    weir__conn_close(&w->conn);
    weir__hub_stop(w->hub);
    if (w->wake_fd >= 0)
        close(w->wake_fd);
    weir__free(w);
}

weir_status weir__world_join(const struct weir__place_in_job *place,
                             const struct weir__engine *engine, const struct weir__sharing *sharing,
                             void *device, int64_t timeout_ns, struct weir__world **out)
{
    struct weir__place_in_job p = *place;
    struct weir__world *w = weir__calloc(1, sizeof *w);
    weir_status st;

    *out = NULL;
    if (!w)
        return weir__fail_nomem("joining %d ranks", p.ranks);
    w->rank = p.rank;
    w->ranks = p.ranks;
    w->engine = engine;
    w->sharing = sharing;
    w->device = device;
    w->uses = 1;
    w->conn.fd = w->wake_fd = -1;
    w->quickest_ns = UINT64_MAX;
    w->patience = 16;
    st = open_world(w, &p, timeout_ns);
    if (!p.rank)
        weir__store_forget(&p);
    if (st) {
        close_world(w);
        return st;
    }
    weir__trace_set_rank(w->rank, atomic_load(&w->offset_ns));
    *out = w;
    return WEIR_OK;
}

void weir__world_drop(struct weir__world *w)
{
    bool last;

    weir__mutex_lock(&w->lock);
    last = !--w->uses;
    weir__mutex_unlock(&w->lock);
    if (last)
        close_world(w);
}
