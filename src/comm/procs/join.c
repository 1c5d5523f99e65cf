/* Joining and leaving a world. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "comm/procs/link.h"
#include "comm/procs/observer.h"
#include "comm/procs/proof.h"
#include "trace/record/trace.h"

#define MOVED_NS UINT64_C(1000000000) /* a rank that leaves waits so long for its move to end */

static bool wait_readable(int fd, uint64_t deadline_ns)
{
    uint64_t now = weir__clock_ns();

    return now < deadline_ns &&
           poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1,
                (int)weir__min((int64_t)((deadline_ns - now) / 1000000) + 1, 60000)) == 1;
}

struct weir__wire_hello weir__link_hello(const struct weir__world *w, enum weir__line line, int to)
{
    struct weir__wire_hello hello = {.rank = (uint32_t)w->rank,
                                     .ranks = (uint32_t)w->ranks,
                                     .pid = (uint32_t)getpid(),
                                     .line = line,
                                     .host = weir__host_id(),
                                     .to = (uint32_t)to};

    weir__proof_of_hello(w->token, &hello);
    return hello;
}

/* Sends HELLO and waits for the answer. Sets *again if the hub may be that of an earlier job: then
 * the caller should try again. */
static weir_status say_hello(struct weir__world *w, const struct weir__place_in_job *p,
                             uint64_t deadline_ns, bool *again)
{
    struct weir__wire_hello hello;
    char *payload = weir__malloc(WEIR__WIRE_MOST);
    const struct weir__wire_welcome *welcome = (const void *)payload;
    const struct weir__wire_refused *refused = (const void *)payload;
    enum weir__wire_type type = WEIR__WIRE_HELLO;
    const char *wrong;
    weir_status st = WEIR_OK;
    int n = 0;
    bool open = true;

    *again = false;
    if (!payload)
        return weir__fail_nomem("joining rank 0");
    memset(w->token, 0, sizeof w->token);
    memcpy(w->token, p->token, strlen(p->token));
    hello = weir__link_hello(w, WEIR__LINE_RANK, 0);
    open = weir__conn_send(&w->conn, WEIR__WIRE_HELLO, &hello, sizeof hello);
    while (open && !(n = weir__conn_next(&w->conn, &type, payload, &wrong)) &&
           wait_readable(w->conn.fd, deadline_ns))
        open = weir__conn_fill(&w->conn) || w->conn.have;
    if (n == 1 && type == WEIR__WIRE_WELCOME &&
        weir__proves_answer(w->token, hello.proof, welcome, sizeof *welcome)) {
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

/* WEIR_STANDBY=0: this rank does not listen, so it never takes over from the hub. */
static bool stands_by(void)
{
    const char *text = getenv("WEIR_STANDBY");

    return !text || strcmp(text, "0");
}

static weir_status open_world(struct weir__world *w, struct weir__place_in_job *p,
                              int64_t timeout_ns)
{
    uint64_t deadline_ns = weir__clock_ns() + (uint64_t)timeout_ns;
    weir_status st;
    int fd;

    if (!p->rank) {
        if ((st = weir__store_listen(p, &fd)) ||
            (st = weir__hub_start(fd, 0, p->ranks, p->token, NULL, &w->hub)))
            return st;
    }
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake_fd < 0)
        return weir__fail(WEIR_EUNAVAILABLE, "cannot create an eventfd to join the ranks");
    if ((st = reach_hub(w, p, deadline_ns)))
        return st;
    if (p->rank && stands_by())
        weir__store_stand_by(w->conn.fd, p->ranks, &w->standby_fd, &w->standby);
    if (!weir__thread_start(&w->link, weir__link_main, w))
        return weir__fail(WEIR_EUNAVAILABLE, "cannot start a thread to join the ranks");
    w->links = true;
    return weir__world_begin(
        w, (int64_t)weir__max((int64_t)(deadline_ns - weir__clock_ns()), INT64_C(100000000)));
}

static void close_world(struct weir__world *w)
{
    if (w->links) {
        uint64_t until = weir__clock_ns() + MOVED_NS;

        atomic_store(&w->leaves, true);
        while (atomic_load(&w->moves) && weir__clock_ns() < until)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        /* Set before BYE is sent: the hub closes the connection then, which must not count as its
         * death. */
        atomic_store(&w->stop, true);
        /* Sent here, not by the link: the kernel sends it even if the link ends at once. */
        weir__mutex_lock(&w->conn_lock);
        weir__conn_send(&w->conn, WEIR__WIRE_BYE, NULL, 0);
        weir__mutex_unlock(&w->conn_lock);
        weir__link_poke(w);
        pthread_join(w->link, NULL);
    }
    weir__observer_end(w);
    weir__world_end(w);
    weir__conn_close(&w->conn);
    weir__conn_close(&w->move.next);
    weir__conn_close(&w->move.old);
    weir__hub_stop(w->hub);
    weir__free(w->told);
    if (w->standby_fd >= 0)
        close(w->standby_fd);
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
    w->conn.fd = w->wake_fd = w->standby_fd = w->move.next.fd = w->move.old.fd = -1;
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
