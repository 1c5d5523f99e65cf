/* The control channel refuses strangers and invalid messages. */
#define _GNU_SOURCE
#include "procs/channel/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "comm/procs/proof.h"

TEST(procs, mutated_control_messages_are_taken_or_refused_within_their_bytes)
{
    static char bytes[WEIR__WIRE_MOST], payload[WEIR__WIRE_MOST];
    uint64_t seed = 7;
    int taken = 0, refused = 0;

    for (int i = 0; i < 20000 / TEST_SLOWDOWN; i++) {
        size_t size = control_random(bytes, &seed);
        size_t have = draw(&seed) % 3 ? size : draw(&seed) % (size + 1);
        char *copy = malloc(have + 1); /* so that a byte too many is seen */
        enum weir__wire_type type;
        const char *wrong;
        int n;

        memcpy(copy, bytes, have);
        n = weir__wire_take(copy, have, &type, payload, &wrong);
        CHECK(n <= (int)have);
        CHECK((n < 0) == (wrong != NULL));
        taken += n > 0;
        refused += n < 0;
        free(copy);
    }
    CHECK(taken > 100);
    CHECK(refused > 100);
}

/* What the hub answers until it closes. */
static size_t drain(int fd, char *to, size_t size)
{
    size_t have = 0;
    ssize_t n;

    while (have < size && (n = read(fd, to + have, size - have)) > 0)
        have += (size_t)n;
    close(fd);
    return have;
}

/* Works until somebody says that it is enough: the parent makes the file. */
SCENARIO(besieged)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    int64_t go = 1;

    say("ready\n");
    while (go) {
        weir_tensor *x, *y;

        go = access(getenv("KID_STOP"), F_OK) ? 1 : 0; /* all ranks stop together */
        CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_I64, 1, (int64_t[]){1}, &go, &x));
        CHECK_OK(weir_all_reduce(weir_group_self(g), x, WEIR_REDUCE_MIN, &y));
        CHECK_OK(weir_tensor_read(y, &go, sizeof go));
        weir_tensor_release(x);
        weir_tensor_release(y);
    }
    leave(g, dev);
}

static void start_besieged(struct kids *k, int *port, char *stop)
{
    char store[64], fd_text[64], stop_text[100];
    const char *const extra[] = {store, fd_text, "WEIR_TOKEN=" TALK_TOKEN, stop_text, NULL};
    int fd = listen_on_loopback(port);

    snprintf(stop, 80, "/tmp/weir-test-stop-%d", (int)getpid());
    snprintf(stop_text, sizeof stop_text, "KID_STOP=%s", stop);
    snprintf(store, sizeof store, "WEIR_STORE=127.0.0.1:%d", *port);
    snprintf(fd_text, sizeof fd_text, "WEIR_STORE_FD=%d", fd);
    kids_start(k, 2, "besieged", extra);
    close(fd);
    kids_await(k, 0, "ready");
    kids_await(k, 1, "ready");
}

static void end_besieged(struct kids *k, const char *stop)
{
    int fd = open(stop, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    close(fd);
    for (int i = 0; i < k->n; i++) {
        kids_end(k, i);
        CHECK_EQ(k->status[i], 0);
    }
    unlink(stop);
}

TEST(procs, a_stranger_with_the_wrong_token_is_told_and_disconnected)
{
    struct weir__wire_hello hello = hello_of(1, 2, 0);
    static char bytes[WEIR__WIRE_MOST], payload[WEIR__WIRE_MOST];
    const struct weir__wire_refused *answer = (const void *)payload;
    enum weir__wire_type type;
    const char *wrong;
    char stop[100];
    struct kids k;
    int port, fd;
    size_t n;

    start_besieged(&k, &port, stop);
    weir__proof_of_hello("everybody knows", &hello);
    fd = reach_port(port);
    n = control_message(bytes, WEIR__WIRE_HELLO, &hello, sizeof hello);
    CHECK_EQ(write(fd, bytes, n), (ssize_t)n);
    n = drain(fd, bytes, sizeof bytes);
    CHECK(weir__wire_take(bytes, n, &type, payload, &wrong) > 0);
    CHECK_EQ(type, WEIR__WIRE_REFUSED);
    CHECK_STR(answer->text, "token");
    /* With the token, but a rank that is there. */
    CHECK(!weir__proves_answer(TALK_TOKEN, hello.proof, answer, sizeof *answer));
    weir__proof_of_hello(TALK_TOKEN, &hello);
    fd = reach_port(port);
    n = control_message(bytes, WEIR__WIRE_HELLO, &hello, sizeof hello);
    CHECK_EQ(write(fd, bytes, n), (ssize_t)n);
    n = drain(fd, bytes, sizeof bytes);
    CHECK(weir__wire_take(bytes, n, &type, payload, &wrong) > 0);
    CHECK_STR(answer->text, "rank 1 is here already");
    CHECK(weir__proves_answer(TALK_TOKEN, hello.proof, answer, sizeof *answer));
    end_besieged(&k, stop);
}

TEST(procs, strangers_who_send_garbage_do_not_disturb_the_ranks)
{
    static char bytes[WEIR__WIRE_MOST];
    uint64_t seed = 11;
    int silent[40], port;
    char stop[100];
    struct kids k;

    start_besieged(&k, &port, stop);
    for (int i = 0; i < 40; i++) /* more than the hub has room for */
        silent[i] = reach_port(port);
    for (int i = 0; i < 60; i++) {
        int fd = reach_port(port);
        size_t n = control_random(bytes, &seed);

        send(fd, bytes, draw(&seed) % 2 ? n : draw(&seed) % (n + 1), MSG_NOSIGNAL);
        close(fd);
    }
    end_besieged(&k, stop);
    for (int i = 0; i < 40; i++)
        close(silent[i]);
}

TEST(procs, a_count_for_no_rank_or_out_of_range_is_refused)
{
    static const struct {
        struct weir__wire_close m;
        const char *wrong;
    } rows[] = {
        {{.from = 1, .to = 0, .messages = 7}, NULL},
        {{.from = 1, .to = 0, .messages = WEIR__WIRE_MESSAGES}, NULL},
        {{.from = 1, .to = 0, .messages = WEIR__WIRE_MESSAGES + 1}, "a count that is out of range"},
        {{.from = 1, .to = 0, .messages = UINT64_MAX}, "a count that is out of range"},
        {{.from = 1, .to = 1}, "a rank that is out of range"},
        {{.from = WEIR_MAX_RANKS, .to = 0}, "a rank that is out of range"},
        {{.from = 1, .to = UINT32_MAX}, "a rank that is out of range"},
    };
    static char bytes[WEIR__WIRE_MOST], payload[WEIR__WIRE_MOST];
    struct weir__wire_close endless = {.from = 1, .to = 0};
    enum weir__wire_type type;
    const char *wrong;
    size_t n;

    for (size_t i = 0; i < weir__countof(rows); i++) {
        n = control_message(bytes, i % 2 ? WEIR__WIRE_CLOSES : WEIR__WIRE_RECEIVED, &rows[i].m,
                            sizeof rows[i].m);
        test_note("row %zu", i);
        CHECK_EQ(weir__wire_take(bytes, n, &type, payload, &wrong), rows[i].wrong ? -1 : (int)n);
        CHECK(rows[i].wrong ? wrong && !strcmp(wrong, rows[i].wrong) : !wrong);
    }
    memset(endless.key, 'k', sizeof endless.key);
    n = control_message(bytes, WEIR__WIRE_CLOSES, &endless, sizeof endless);
    CHECK_EQ(weir__wire_take(bytes, n, &type, payload, &wrong), -1);
}

TEST(procs, a_rank_that_counts_for_another_is_disconnected)
{
    struct weir__wire_close m = {.from = 0, .to = 1, .key = "world"};
    struct weir__hub *hub;
    struct weir__conn c;
    int port, fd = listen_on_loopback(&port);

    CHECK_OK(weir__hub_start(fd, 0, 2, TALK_TOKEN, NULL, &hub));
    greet_as(&c, port, 1, 2, 0);
    CHECK(weir__conn_send(&c, WEIR__WIRE_CLOSES, &m, sizeof m));
    do
        poll(&(struct pollfd){.fd = c.fd, .events = POLLIN}, 1, -1);
    while (weir__conn_fill(&c)); /* until it is closed */
    weir__hub_stop(hub);
    weir__conn_close(&c);
}

/* Connections that know the token send anything, in any order, to a hub that stands by and then
 * takes over: it disconnects them, and goes on. */
TEST(procs, a_hub_that_takes_over_survives_ranks_that_send_anything)
{
    enum { N = 4, CONNECTIONS = 6, STEPS = 4000 / TEST_SLOWDOWN };
    struct weir__peer *known = calloc(N, sizeof *known);
    static char bytes[WEIR__WIRE_MOST];
    static _Alignas(8) char drained[4096];
    const struct weir__wire_header *answer = (const void *)drained;
    struct weir__wire_hello hello = hello_of(0, N, 1);
    int port, fd = listen_on_loopback(&port), lines[CONNECTIONS];
    struct weir__hub *hub;
    uint64_t seed = 21;
    int welcomed = 0;

    CHECK(known);
    for (int i = 0; i < N; i++) {
        known[i].pid = (uint32_t)getpid();
        known[i].host = weir__host_id() ^ (uint64_t)(i & 2);
    }
    strcpy(known[0].text, "rank 0 died");
    atomic_store(&known[0].gone, WEIR__GONE_DIED);
    CHECK_OK(weir__hub_start(fd, 1, N, TALK_TOKEN, known, &hub));
    for (int i = 0; i < CONNECTIONS; i++)
        lines[i] = reach_port(port);
    for (int i = 0; i < STEPS; i++) {
        int *line = &lines[draw(&seed) % CONNECTIONS];
        size_t n;

        if (i == STEPS / 4)
            weir__hub_take_over(hub, false);
        if (draw(&seed) % 8) {
            n = control_random(bytes, &seed);
        } else { /* the connection's next life */
            close(*line);
            *line = reach_port(port);
            hello.rank = (uint32_t)(draw(&seed) % N);
            hello.line = (uint32_t)(draw(&seed) % 4 ? WEIR__LINE_RANK : draw(&seed) % 3);
            hello.host = known[hello.rank].host;
            weir__proof_of_hello(TALK_TOKEN, &hello);
            n = control_message(bytes, WEIR__WIRE_HELLO, &hello, sizeof hello);
        }
        send(*line, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (recv(*line, drained, sizeof drained, MSG_DONTWAIT) > (ssize_t)sizeof *answer)
            welcomed += answer->type == WEIR__WIRE_WELCOME;
    }
    for (int i = 0; i < CONNECTIONS; i++)
        close(lines[i]);
    CHECK(welcomed);       /* they came past the token */
    fd = reach_port(port); /* it still answers */
    hello.line = WEIR__LINE_RANK;
    weir__proof_of_hello("everybody knows", &hello);
    CHECK(send(fd, bytes, control_message(bytes, WEIR__WIRE_HELLO, &hello, sizeof hello), 0) > 0);
    CHECK(drain(fd, bytes, sizeof bytes) > 0);
    weir__hub_stop(hub);
    free(known);
}

/* A process that gets no processor says nothing for a while, and its system answers for it. */
TEST(procs, a_silent_rank_of_another_host_lives_while_its_host_answers)
{
    struct weir__wire_hello hello = hello_of(1, 2, 0);
    enum { PROBES = 15 }; /* of 100 ms: longer than a host may be out of reach */
    static char bytes[WEIR__WIRE_MOST], payload[WEIR__WIRE_MOST];
    enum weir__wire_type type;
    struct weir__hub *hub;
    struct weir__conn c;
    const char *wrong;
    int port, probes = 0, fd = listen_on_loopback(&port);
    size_t n;

    hello.host ^= 2;
    weir__proof_of_hello(TALK_TOKEN, &hello);
    n = control_message(bytes, WEIR__WIRE_HELLO, &hello, sizeof hello);
    CHECK_OK(weir__hub_start(fd, 0, 2, TALK_TOKEN, NULL, &hub));
    CHECK(weir__conn_open(&c, reach_port(port), WEIR__WIRE_MOST));
    CHECK_EQ(write(c.fd, bytes, n), (ssize_t)n);
    while (probes < PROBES) {
        poll(&(struct pollfd){.fd = c.fd, .events = POLLIN}, 1, -1);
        CHECK(weir__conn_fill(&c));
        while (weir__conn_next(&c, &type, payload, &wrong) > 0) {
            CHECK(type == WEIR__WIRE_WELCOME || type == WEIR__WIRE_PONG);
            probes += type == WEIR__WIRE_PONG;
        }
    }
    CHECK(weir__conn_send(&c, WEIR__WIRE_BYE, NULL, 0));
    weir__hub_stop(hub);
    weir__conn_close(&c);
}
