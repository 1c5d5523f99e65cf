#define _GNU_SOURCE
#include "procs/channel/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "comm/procs/proof.h"

size_t control_message(char *to, enum weir__wire_type type, const void *payload, size_t size)
{
    struct weir__wire_header h = {WEIR__WIRE_MAGIC, (uint16_t)type, WEIR__WIRE_VERSION,
                                  (uint32_t)size};

    memcpy(to, &h, sizeof h);
    if (size)
        memcpy(to + sizeof h, payload, size);
    return sizeof h + size;
}

size_t control_random(char *to, uint64_t *seed)
{
    static const size_t sizes[] = {
        0,
        sizeof(struct weir__wire_hello),
        sizeof(struct weir__wire_welcome),
        sizeof(struct weir__wire_refused),
        sizeof(struct weir__wire_gather),
        sizeof(struct weir__wire_gathered),
        sizeof(struct weir__wire_text),
        sizeof(struct weir__wire_ping),
        sizeof(struct weir__wire_ping),
        sizeof(struct weir__wire_text),
        sizeof(struct weir__wire_gone),
        0,
        sizeof(struct weir__wire_close),
        sizeof(struct weir__wire_close),
        0,
    };
    static char payload[WEIR__WIRE_MOST];
    unsigned type = draw(seed) % weir__countof(sizes);
    size_t size;

    for (size_t i = 0; i < sizes[type]; i++)
        payload[i] = draw(seed) % 4 ? 0 : (char)draw(seed);
    size = control_message(to, (enum weir__wire_type)type, payload, sizes[type]);
    for (unsigned n = draw(seed) % 4; n; n--)
        to[draw(seed) % size] = (char)draw(seed);
    return size;
}

static const char *pick_text(uint64_t *seed)
{
    static const char *const texts[] = {"", "world", "split:1:2:0", "rank 1 died", "%s%n", "\n"};

    return texts[draw(seed) % weir__countof(texts)];
}

/* One of the ranks, a rank of no job so small, or a number of no rank. */
static uint32_t pick_rank(uint64_t *seed, int ranks)
{
    static const uint32_t none[] = {WEIR_MAX_RANKS, INT32_MAX, UINT32_C(1) << 31, UINT32_MAX - 3};
    uint64_t any = draw(seed) % 8;

    if (any == 0)
        return none[draw(seed) % weir__countof(none)];
    return (uint32_t)(draw(seed) % (uint64_t)(any < 5 ? WEIR_MAX_RANKS : ranks));
}

size_t control_plausible(char *to, uint64_t *seed, int ranks)
{
    static const enum weir__wire_type types[] = {
        WEIR__WIRE_GATHERED, WEIR__WIRE_FAILED, WEIR__WIRE_PONG,    WEIR__WIRE_ABORT,
        WEIR__WIRE_GONE,     WEIR__WIRE_CLOSES, WEIR__WIRE_RECEIVED};
    enum weir__wire_type type = types[draw(seed) % weir__countof(types)];
    static struct weir__wire_gathered all;
    struct weir__wire_text text = {.status = 1 + (int32_t)(draw(seed) % 5)};
    struct weir__wire_gone gone = {.rank = pick_rank(seed, ranks),
                                   .how = 1 + (uint32_t)(draw(seed) % 3)};
    struct weir__wire_ping pong = {draw(seed), draw(seed)};
    struct weir__wire_close close = {.from = pick_rank(seed, ranks), .to = pick_rank(seed, ranks)};

    snprintf(text.key, sizeof text.key, "%s", pick_text(seed));
    snprintf(text.text, sizeof text.text, "rank %u: %s", gone.rank, pick_text(seed));
    switch (type) {
    case WEIR__WIRE_GATHERED:
        memset(&all, (int)draw(seed), sizeof all);
        memcpy(all.key, text.key, sizeof all.key);
        all.members = weir__ranks_all(1 + (int)(draw(seed) % 8));
        return control_message(to, type, &all, weir__wire_gathered_size(&all.members));
    case WEIR__WIRE_PONG:
        return control_message(to, type, &pong, sizeof pong);
    case WEIR__WIRE_GONE:
        memcpy(gone.text, text.text, sizeof gone.text);
        return control_message(to, type, &gone, sizeof gone);
    case WEIR__WIRE_CLOSES:
    case WEIR__WIRE_RECEIVED:
        memcpy(close.key, text.key, sizeof close.key);
        close.messages = draw(seed) % 2 ? draw(seed) : 0;
        return control_message(to, type, &close, sizeof close);
    default:
        return control_message(to, type, &text, sizeof text);
    }
}

/* ---- the relay ---- */

enum { LINES = 16 };

static bool send_all(int fd, const void *bytes, size_t size)
{
    for (const char *at = bytes; size;) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* The first message of a connection says what it is for. Only that of the rank goes to the hub. */
static bool begin_line(struct relay *r, int fd, struct weir__conn *hub)
{
    char bytes[sizeof(struct weir__wire_header) + sizeof(struct weir__wire_hello)];
    struct weir__wire_hello hello;

    if (recv(fd, bytes, sizeof bytes, MSG_WAITALL) != (ssize_t)sizeof bytes)
        return false;
    memcpy(&hello, bytes + sizeof(struct weir__wire_header), sizeof hello);
    pthread_mutex_lock(&r->lock);
    if (hello.line == WEIR__LINE_RANK) {
        r->rank_fd = fd;
        memcpy(r->hello, hello.proof, sizeof r->hello);
    }
    if (hello.line == WEIR__LINE_FROM_HUB_OBSERVER)
        r->report_fd = fd;
    pthread_cond_signal(&r->reported);
    pthread_mutex_unlock(&r->lock);
    if (hello.line != WEIR__LINE_RANK)
        return true;
    CHECK(weir__conn_open(hub, reach_port(r->hub_port), WEIR__WIRE_MOST));
    return send_all(hub->fd, bytes, sizeof bytes);
}

static bool forward_to_hub(const struct relay *r, int fd, const struct weir__conn *hub)
{
    char bytes[4096];
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);

    return n > 0 && (fd != r->rank_fd || send_all(hub->fd, bytes, (size_t)n));
}

static bool forward_to_rank(struct relay *r, struct weir__conn *hub)
{
    static _Alignas(8) char payload[WEIR__WIRE_MOST];
    static char bytes[WEIR__WIRE_MOST];
    bool open = weir__conn_fill(hub);
    struct weir__wire_header h;
    enum weir__wire_type type;
    const char *wrong;

    for (;;) {
        memcpy(&h, hub->in, sizeof h);
        if (weir__conn_next(hub, &type, payload, &wrong) <= 0)
            return open;
        if (type == WEIR__WIRE_WELCOME && r->elsewhere) {
            ((struct weir__wire_welcome *)(void *)payload)->host ^= 2;
            weir__proof_of_answer(TALK_TOKEN, r->hello, payload, h.size);
        }
        if (type == WEIR__WIRE_PONG)
            ((struct weir__wire_ping *)(void *)payload)->hub_ns += (uint64_t)r->shift_ns;
        relay_say(r, bytes, control_message(bytes, type, payload, h.size));
    }
}

static void *relay_main(void *user)
{
    struct relay *r = user;
    struct weir__conn hub = {.fd = -1};
    int line[LINES], n = 0;
    bool begun[LINES] = {false}, over[LINES] = {false};

    for (;;) {
        struct pollfd fds[LINES + 3] = {{.fd = r->ends[0], .events = POLLIN},
                                        {.fd = n < LINES ? r->listen_fd : -1, .events = POLLIN},
                                        {.fd = hub.fd, .events = POLLIN}};

        for (int i = 0; i < n; i++)
            fds[3 + i] = (struct pollfd){.fd = over[i] ? -1 : line[i], .events = POLLIN};
        poll(fds, (nfds_t)n + 3, -1);
        if (fds[0].revents)
            break;
        if (fds[2].revents && !forward_to_rank(r, &hub)) {
            relay_cut(r);
            weir__conn_close(&hub);
        }
        for (int i = 0; i < n; i++)
            if (fds[3 + i].revents) {
                over[i] =
                    begun[i] ? !forward_to_hub(r, line[i], &hub) : !begin_line(r, line[i], &hub);
                begun[i] = true;
            }
        if (fds[1].revents && (line[n] = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
            n++;
    }
    weir__conn_close(&hub);
    while (n)
        close(line[--n]);
    return NULL;
}

void relay_open(struct relay *r, int hub_port, bool elsewhere, int64_t shift_ns)
{
    *r = (struct relay){.hub_port = hub_port,
                        .elsewhere = elsewhere,
                        .shift_ns = shift_ns,
                        .rank_fd = -1,
                        .report_fd = -1};
    r->listen_fd = listen_on_loopback(&r->port);
    fcntl(r->listen_fd, F_SETFD, FD_CLOEXEC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->reported, NULL);
    CHECK(!pipe2(r->ends, O_CLOEXEC));
    CHECK(!pthread_create(&r->thread, NULL, relay_main, r));
}

bool relay_say(struct relay *r, const void *bytes, size_t size)
{
    bool sent;

    pthread_mutex_lock(&r->lock);
    sent = r->rank_fd >= 0 && send_all(r->rank_fd, bytes, size);
    pthread_mutex_unlock(&r->lock);
    return sent;
}

void relay_report(struct relay *r, const void *bytes, size_t size)
{
    pthread_mutex_lock(&r->lock);
    while (r->report_fd < 0)
        pthread_cond_wait(&r->reported, &r->lock);
    send_all(r->report_fd, bytes, size); /* or the rank has closed it */
    pthread_mutex_unlock(&r->lock);
}

void relay_cut(struct relay *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->rank_fd >= 0)
        shutdown(r->rank_fd, SHUT_RDWR);
    pthread_mutex_unlock(&r->lock);
}

void relay_close(struct relay *r)
{
    CHECK(write(r->ends[1], "", 1) == 1);
    pthread_join(r->thread, NULL);
    close(r->ends[0]);
    close(r->ends[1]);
    close(r->listen_fd);
    pthread_cond_destroy(&r->reported);
    pthread_mutex_destroy(&r->lock);
}
