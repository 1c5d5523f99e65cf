/* A rank whose hub sends anything: its groups end with an error that names the hub's rank. */
#define _GNU_SOURCE
#include "procs/channel/control.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "comm/procs/engine.h"
#include "comm/procs/link.h"
#include "comm/procs/observer.h"
#include "comm/procs/proof.h"

/* ---- real ranks, one of them behind a relay ---- */

/* Rank 1 reaches rank 0 at KID_RELAY. */
SCENARIO(fed)
{
    bool fed = atoi(getenv("WEIR_RANK"));
    weir_device *dev;
    weir_group *g = join(&dev, &(weir_join_options){.store = fed ? getenv("KID_RELAY") : NULL});

    call_until_error(g, dev, 5);
    leave(g, dev);
}

static void start_fed(struct kids *k, struct relay *r, bool elsewhere)
{
    char store[64], fd_text[64], relay[64];
    const char *const extra[] = {store, fd_text, relay, "WEIR_TOKEN=" TALK_TOKEN, NULL};
    int port, fd = listen_on_loopback(&port);

    relay_open(r, port, elsewhere, 0);
    snprintf(store, sizeof store, "WEIR_STORE=127.0.0.1:%d", port);
    snprintf(fd_text, sizeof fd_text, "WEIR_STORE_FD=%d", fd);
    snprintf(relay, sizeof relay, "KID_RELAY=127.0.0.1:%d", r->port);
    kids_start(k, 2, "fed", extra);
    close(fd);
    kids_await(k, 0, "ready");
    kids_await(k, 1, "ready");
}

/* Both ranks end well: rank 1 says `text`, and rank 0 names rank 1. */
static void end_fed(struct kids *k, struct relay *r, const char *text)
{
    kids_end(k, 1);
    CHECK_EQ(k->status[1], 0);
    CHECK_STR(k->text[1], text);
    kids_end(k, 0);
    CHECK_EQ(k->status[0], 0);
    CHECK_STR(k->text[0], "rank 1");
    relay_close(r);
}

TEST(procs, a_rank_that_gets_bytes_that_are_not_a_message_names_the_hubs_rank)
{
    static const char web[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    struct relay r;
    struct kids k;

    start_fed(&k, &r, false);
    relay_say(&r, web, sizeof web);
    end_fed(&k, &r, "rank 0 sent bytes that are not a message");
}

/* It waits for no byte that the header promises. */
TEST(procs, a_rank_refuses_a_message_that_is_too_large_by_its_header)
{
    struct weir__wire_header h = {WEIR__WIRE_MAGIC, WEIR__WIRE_GATHERED, WEIR__WIRE_VERSION,
                                  UINT32_MAX};
    struct relay r;
    struct kids k;

    start_fed(&k, &r, false);
    relay_say(&r, &h, sizeof h);
    end_fed(&k, &r, "rank 0 sent bytes that are not a message");
}

TEST(procs, a_rank_whose_hub_ends_within_a_message_says_that_the_connection_was_cut)
{
    static char bytes[WEIR__WIRE_MOST];
    struct weir__wire_text m = {.key = "world", .status = WEIR_EIO, .text = "half of it"};
    size_t n = control_message(bytes, WEIR__WIRE_ABORT, &m, sizeof m);
    struct relay r;
    struct kids k;

    start_fed(&k, &r, false);
    relay_say(&r, bytes, n / 2);
    relay_cut(&r);
    end_fed(&k, &r, "the connection to rank 0, which joins the ranks, was cut");
}

TEST(procs, a_rank_names_a_hub_that_sends_what_only_ranks_send)
{
    static char bytes[WEIR__WIRE_MOST];
    struct weir__wire_gather m = {.key = "world"};
    struct relay r;
    struct kids k;

    weir__ranks_add(&m.members, 1);
    start_fed(&k, &r, false);
    relay_say(&r, bytes, control_message(bytes, WEIR__WIRE_GATHER, &m, sizeof m));
    end_fed(&k, &r, "rank 0 sent a message out of turn");
}

/* Messages about ranks and groups that do not exist, and then random ones until it has enough.
 * WEIR_SOAK=200 for as many ranks, and other messages. */
TEST_TIMEOUT(procs, a_rank_whose_hub_sends_random_messages_ends_with_an_error_that_names_a_rank,
             600)
{
    static char bytes[WEIR__WIRE_MOST];
    const char *soak = getenv("WEIR_SOAK");
    int runs = soak ? atoi(soak) : TEST_SANITIZED ? 2 : 4;
    uint64_t seed = soak ? (uint64_t)time(NULL) : 30;

    for (int i = 0; i < runs; i++) {
        struct weir__wire_text abort = {.key = "nobody's", .status = WEIR_EIO, .text = "?"};
        struct weir__wire_gone gone = {.rank = WEIR_MAX_RANKS - 1, .how = WEIR__GONE_DIED};
        struct weir__wire_close close = {.from = WEIR_MAX_RANKS - 1, .to = 1, .messages = 3};
        struct relay r;
        struct kids k;

        test_note("run %d", i);
        start_fed(&k, &r, i % 2);
        relay_say(&r, bytes, control_message(bytes, WEIR__WIRE_ABORT, &abort, sizeof abort));
        relay_say(&r, bytes, control_message(bytes, WEIR__WIRE_FAILED, &abort, sizeof abort));
        relay_say(&r, bytes, control_message(bytes, WEIR__WIRE_GONE, &gone, sizeof gone));
        relay_say(&r, bytes, control_message(bytes, WEIR__WIRE_CLOSES, &close, sizeof close));
        if (i % 2) /* it takes rank 0 to be on another host, and listens to its observer */
            for (int n = 0; n < 4; n++)
                relay_report(&r, bytes, control_random(bytes, &seed));
        for (bool open = true; open;)
            open = relay_say(&r, bytes,
                             draw(&seed) % 30 ? control_plausible(bytes, &seed, 2)
                                              : control_random(bytes, &seed));
        end_fed(&k, &r, "rank ");
    }
}

/* ---- a link alone, which all hubs that it finds lie to ---- */

/* Rank 2 of 6: rank 0 is the hub; the others listen at `port`. With `elsewhere` they are on another
 * host, and this rank thinks so of itself, too. */
static struct weir__world *world_of(int port, bool elsewhere)
{
    enum { RANK = 2, RANKS = 6 };
    struct weir__world *w = calloc(1, sizeof *w);

    CHECK(w);
    w->rank = RANK;
    w->ranks = RANKS;
    w->standby_fd = w->move.next.fd = w->move.old.fd = -1;
    w->quickest_ns = UINT64_MAX;
    w->last_ns = weir__clock_ns();
    w->hub_pid = (uint32_t)getpid();
    w->hub_host = weir__host_id() ^ (elsewhere ? 2 : 0);
    strcpy(w->token, TALK_TOKEN);
    CHECK((w->home = calloc(1, sizeof *w->home)));
    CHECK((w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0);
    CHECK(weir__conn_open(&w->conn, reach_port(port), WEIR__WIRE_MOST));
    for (int i = 0; i < RANKS; i++) {
        struct weir__peer *p = &w->peers[i];

        p->pid = (uint32_t)getpid();
        p->host = w->hub_host; /* they can reach each other there */
        if (i != RANK) {
            p->standby.family = AF_INET;
            p->standby.port = htons((uint16_t)port);
            p->standby.ip[0] = 127;
            p->standby.ip[3] = 1;
        }
    }
    atomic_store(&w->met, true);
    return w;
}

static void free_world(struct weir__world *w)
{
    weir__observer_end(w);
    weir__conn_close(&w->conn);
    weir__conn_close(&w->move.next);
    weir__conn_close(&w->move.old);
    weir__hub_stop(w->hub);
    close(w->wake_fd);
    weir__free(w->told);
    free(w->home);
    free(w);
}

/* A connection that the rank has opened, and its HELLO as far as it has come. */
struct line {
    int fd;
    size_t have;
    char first[sizeof(struct weir__wire_header) + sizeof(struct weir__wire_hello)];
};

/* The HELLO of a connection, when it has come; the first one of a world begins with a PING. */
static bool read_hello(struct line *l, struct weir__wire_hello *hello)
{
    static char drained[4096];
    struct weir__wire_header h;
    ssize_t n;

    while (l->have < sizeof l->first &&
           (n = recv(l->fd, l->first + l->have, sizeof l->first - l->have, MSG_DONTWAIT)) > 0)
        l->have += (size_t)n;
    while (l->have == sizeof l->first && recv(l->fd, drained, sizeof drained, MSG_DONTWAIT) > 0)
        ;
    memcpy(&h, l->first, sizeof h);
    memcpy(hello, l->first + sizeof h, sizeof *hello);
    return l->have == sizeof l->first && h.type == WEIR__WIRE_HELLO;
}

/* Welcomes a rank, or says anything, on one of the connections that it has opened. */
static void lie(struct line *l, const struct weir__world *w, uint64_t *seed)
{
    static char bytes[WEIR__WIRE_MOST];
    struct weir__wire_welcome welcome = {.pid = (uint32_t)getpid(), .host = w->peers[0].host};
    struct weir__wire_hello hello;
    bool greets = read_hello(l, &hello);
    size_t n = control_plausible(bytes, seed, w->ranks);

    if (!(draw(seed) % 16))
        n = control_random(bytes, seed);
    if (greets && !(draw(seed) % 4)) {
        weir__proof_of_answer(TALK_TOKEN, hello.proof, &welcome, sizeof welcome);
        n = control_message(bytes, WEIR__WIRE_WELCOME, &welcome, sizeof welcome);
    }
    if (!(draw(seed) % 32))
        n = draw(seed) % (n + 1);
    send(l->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (!(draw(seed) % 64))
        shutdown(l->fd, SHUT_WR);
}

/* With luck it is welcomed and goes on; in the end all have lied, and it is alone, and knows why.
 * WEIR_SOAK=200 for as many links, and other messages. */
TEST_TIMEOUT(procs, a_link_survives_hubs_that_send_anything_on_the_way_to_the_next_one, 600)
{
    enum { CONNECTIONS = 64 };
    const char *soak = getenv("WEIR_SOAK");
    int worlds = soak ? atoi(soak) : TEST_SANITIZED ? 6 : 12, welcomed[2] = {0, 0};
    uint64_t seed = soak ? (uint64_t)time(NULL) : 77;
    static struct line lines[CONNECTIONS];

    for (int i = 0; i < worlds; i++) {
        int port, listener = listen_on_loopback(&port), n = 0;
        struct weir__world *w;
        pthread_t link;
        bool elsewhere; /* then the link starts an observer, by a clone that misleads TSan */

        test_note("world %d", i);
        elsewhere = i % 2 && !TEST_THREADS_WATCHED;
        w = world_of(port, elsewhere);
        CHECK(!pthread_create(&link, NULL, weir__link_main, w));
        while (!atomic_load(&w->alone)) {
            struct pollfd p = {.fd = listener, .events = POLLIN};

            if (n < CONNECTIONS && poll(&p, 1, n ? 1 : -1) == 1)
                lines[n++] = (struct line){.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)};
            for (int k = 0; k < n; k++)
                lie(&lines[k], w, &seed);
            if (n == CONNECTIONS) { /* enough: nobody is there any more */
                close(listener);
                listener = -1;
                while (n)
                    close(lines[--n].fd);
            }
        }
        atomic_store(&w->stop, true);
        weir__link_poke(w);
        CHECK(!pthread_join(link, NULL));
        welcomed[elsewhere] += w->hub_rank != 0;
        CHECK(w->alone_text[0]);
        CHECK(!atomic_load(&w->peers[w->rank].gone));
        CHECK_EQ(w->conn.fd, -1);
        free_world(w);
        while (n)
            close(lines[--n].fd);
        if (listener >= 0)
            close(listener);
    }
    CHECK(welcomed[0] > 0);
    CHECK(welcomed[1] > 0 || TEST_THREADS_WATCHED);
}
