#define _GNU_SOURCE
#include "procs/channel/talk.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/procs/proof.h"
#include "harness/test.h"

int listen_on_loopback(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0);
    CHECK(!bind(fd, (struct sockaddr *)&at, size) && !listen(fd, 64));
    CHECK(!getsockname(fd, (struct sockaddr *)&at, &size));
    *port = ntohs(at.sin_port);
    return fd;
}

int reach_port(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK(!connect(fd, (struct sockaddr *)&at, sizeof at));
    return fd;
}

enum weir__wire_type next_message(struct weir__conn *c, void *payload)
{
    enum weir__wire_type type;
    const char *wrong;
    bool open = true;
    int n;

    while ((n = weir__conn_next(c, &type, payload, &wrong)) >= 0) {
        if (n && type != WEIR__WIRE_PING && type != WEIR__WIRE_PONG)
            return type;
        if (n)
            continue;
        if (!open)
            return 0;
        poll(&(struct pollfd){.fd = c->fd, .events = POLLIN}, 1, -1);
        open = weir__conn_fill(c);
    }
    FAIL("a message is %s", wrong);
}

struct weir__wire_hello hello_of(int rank, int ranks, int to)
{
    struct weir__wire_hello hello = {.rank = (uint32_t)rank,
                                     .ranks = (uint32_t)ranks,
                                     .pid = (uint32_t)getpid(),
                                     .host = weir__host_id(),
                                     .to = (uint32_t)to};

    weir__proof_of_hello(TALK_TOKEN, &hello);
    return hello;
}

void greet_as(struct weir__conn *c, int port, int rank, int ranks, int to)
{
    struct weir__wire_hello hello = hello_of(rank, ranks, to);
    static _Alignas(8) char payload[WEIR__WIRE_MOST];

    CHECK(weir__conn_open(c, reach_port(port), WEIR__WIRE_MOST));
    CHECK(weir__conn_send(c, WEIR__WIRE_HELLO, &hello, sizeof hello));
    CHECK_EQ(next_message(c, payload), WEIR__WIRE_WELCOME);
    CHECK(weir__proves_answer(TALK_TOKEN, hello.proof, payload, sizeof(struct weir__wire_welcome)));
}
