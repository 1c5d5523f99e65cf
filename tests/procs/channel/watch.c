/* The observer process (src/comm/procs/watch), and how the hub handles its reports. */
#define _GNU_SOURCE
#include "procs/kids.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "comm/procs/observer.h"
#include "comm/procs/proof.h"

enum { RANK = 7, BEATS = 2 }; /* of a second, in which it looks ten times */

/* ---- the process itself ---- */

/* The next message of the process on `fd`: what it is, 0 at the end. */
static enum weir__wire_type hear(struct weir__conn *c, struct weir__wire_gone *gone)
{
    static char payload[WEIR__WIRE_MOST];
    enum weir__wire_type type;
    const char *wrong;
    int n;

    while (!(n = weir__conn_next(c, &type, payload, &wrong))) {
        poll(&(struct pollfd){.fd = c->fd, .events = POLLIN}, 1, -1);
        if (!weir__conn_fill(c) && !c->have)
            return 0;
    }
    CHECK_EQ(n, 1);
    CHECK(type == WEIR__WIRE_PONG || type == WEIR__WIRE_GONE);
    if (type == WEIR__WIRE_GONE)
        memcpy(gone, payload, sizeof *gone);
    return type;
}

static void expect_stopped(struct weir__conn *c)
{
    struct weir__wire_gone gone;

    while (hear(c, &gone) != WEIR__WIRE_GONE)
        ;
    CHECK_EQ(gone.rank, RANK);
    CHECK_EQ(gone.how, WEIR__GONE_STOPPED);
}

static void expect_beats(struct weir__conn *c)
{
    struct weir__wire_gone gone;

    for (int i = 0; i < BEATS; i++)
        CHECK_EQ(hear(c, &gone), WEIR__WIRE_PONG);
}

static void expect_end(struct weir__conn *c)
{
    struct weir__wire_gone gone;
    enum weir__wire_type type;

    while ((type = hear(c, &gone)))
        CHECK_EQ(type, WEIR__WIRE_PONG);
    weir__conn_close(c);
}

/* Beside that process, with a connection to here. */
static int start_observer(pid_t pid, int *line)
{
    struct weir__watch_orders *orders = weir__observer_orders();
    int ends[2], control;

    CHECK(orders);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    orders->n = 1;
    orders->of[0].pid = (uint32_t)pid;
    orders->of[0].rank = RANK;
    CHECK((control = weir__watch_start(orders)) >= 0);
    CHECK(weir__watch_give(control, ends[1]));
    close(ends[1]);
    weir__free(orders);
    *line = ends[0];
    return control;
}

static int watch(pid_t pid, struct weir__conn *c)
{
    int line, control = start_observer(pid, &line);

    CHECK(weir__conn_open(c, line, WEIR__WIRE_SHORT));
    return control;
}

static pid_t start_pausing(void)
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    while (!pid)
        pause();
    return pid;
}

static void end_child(pid_t pid)
{
    CHECK(!kill(pid, SIGKILL));
    CHECK(waitpid(pid, NULL, 0) == pid);
}

TEST(procs, a_stopped_process_is_reported_and_a_waiting_one_is_not)
{
    pid_t pid = start_pausing();
    struct weir__conn c;
    int control = watch(pid, &c);

    expect_beats(&c); /* and nothing else */
    for (int i = 0; i < 2; i++) {
        CHECK(!kill(pid, SIGSTOP));
        expect_stopped(&c);
        CHECK(!kill(pid, SIGCONT));
        expect_beats(&c); /* it is told once, and again when it is stopped again */
    }
    weir__watch_end(control);
    expect_end(&c);
    end_child(pid);
}

/* It gets no processor while others of its class have something to do. */
TEST(procs, a_process_with_little_processor_time_is_not_reported)
{
    pid_t pid = fork();
    struct weir__conn c;
    int control;

    CHECK(pid >= 0);
    if (!pid) {
        CHECK(!sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}));
        for (volatile unsigned i = 0;; i++)
            ;
    }
    control = watch(pid, &c);
    expect_beats(&c);
    weir__watch_end(control);
    expect_end(&c);
    end_child(pid);
}

/* Whenever somebody looks it is stopped, and in between it runs: so does a process that is traced.
 */
TEST(procs, a_process_that_is_stopped_and_continued_all_the_time_is_not_reported)
{
    pid_t pid = fork(), stopper;
    struct weir__conn c;
    int control;

    CHECK(pid >= 0);
    while (!pid)
        ;
    CHECK((stopper = fork()) >= 0);
    while (!stopper) {
        kill(pid, SIGCONT);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        kill(pid, SIGSTOP);
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    }
    control = watch(pid, &c);
    expect_beats(&c);
    end_child(stopper);
    weir__watch_end(control);
    expect_end(&c);
    end_child(pid);
}

static volatile sig_atomic_t children_ended;

static void count_child(int signal_)
{
    (void)signal_;
    children_ended++;
}

/* Its program waits for children of its own, for the end of pipes, and is told of its children. */
TEST(procs, the_observer_is_not_a_child_of_its_rank_and_inherits_no_files)
{
    struct sigaction count = {.sa_handler = count_child}, before;
    pid_t pid = start_pausing();
    int held[2], control, line;
    struct weir__conn c;
    char byte;

    CHECK(!sigaction(SIGCHLD, &count, &before));
    CHECK(!pipe(held)); /* not closed by exec */
    control = start_observer(pid, &line);
    close(held[1]);
    CHECK_EQ(read(held[0], &byte, 1), 0);
    CHECK(weir__conn_open(&c, line, WEIR__WIRE_SHORT));
    expect_beats(&c);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), 0); /* `pid`, which lives, and no other */
    CHECK_EQ(children_ended, 0);
    weir__watch_end(control);
    expect_end(&c);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG | __WALL), 0);
    CHECK_EQ(children_ended, 0);
    CHECK(!sigaction(SIGCHLD, &before, NULL));
    close(held[0]);
    end_child(pid);
}

/* A rank that stops with its process group, and then dies; a child of it lives, and has its files.
 */
TEST(procs, the_observer_is_not_stopped_with_its_rank_and_ends_with_it)
{
    int to_here[2], line;
    struct weir__conn c;
    pid_t rank, child = 0;

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, to_here));
    CHECK((rank = fork()) >= 0);
    if (!rank) {
        setpgid(0, 0);
        CHECK(weir__watch_give(to_here[1], (start_observer(getpid(), &line), line)));
        child = start_pausing();
        CHECK_EQ(write(to_here[1], &child, sizeof child), sizeof child);
        for (;;)
            pause();
    }
    setpgid(rank, rank);
    close(to_here[1]);
    {
        char room[CMSG_SPACE(sizeof(int))], byte;
        struct iovec bytes = {&byte, 1};
        struct msghdr m = {
            .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};

        CHECK_EQ(recvmsg(to_here[0], &m, 0), 1);
        memcpy(&line, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof line);
    }
    CHECK_EQ(read(to_here[0], &child, sizeof child), sizeof child);
    CHECK(weir__conn_open(&c, line, WEIR__WIRE_SHORT));
    CHECK(!kill(-rank, SIGSTOP));
    expect_stopped(&c);
    CHECK(!kill(rank, SIGKILL));
    CHECK(waitpid(rank, NULL, 0) == rank);
    expect_end(&c);
    kill(child, SIGKILL);
}

/* ---- the hub ---- */

static const char secret[] = "only friends know";

static int listen_here(struct sockaddr_in *at)
{
    socklen_t size = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)at, size) && !listen(fd, 16));
    CHECK(!getsockname(fd, (struct sockaddr *)at, &size));
    return fd;
}

/* A connection that says hello as that rank, of host `host`. */
static void greet(struct weir__conn *c, const struct sockaddr_in *at, enum weir__line line,
                  uint64_t host, const char *token)
{
    struct weir__wire_hello hello = {
        .rank = 1, .ranks = 3, .line = line, .host = host, .pid = (uint32_t)getpid()};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    weir__proof_of_hello(token, &hello);
    CHECK(fd >= 0 && !connect(fd, (const struct sockaddr *)at, sizeof *at));
    CHECK(weir__conn_open(c, fd, WEIR__WIRE_MOST));
    CHECK(weir__conn_send(c, WEIR__WIRE_HELLO, &hello, sizeof hello));
}

/* Reads until that comes, or the hub closes: 0. */
static enum weir__wire_type await(struct weir__conn *c, enum weir__wire_type wanted, char *payload)
{
    enum weir__wire_type type;
    const char *wrong;

    for (;;) {
        while (weir__conn_next(c, &type, payload, &wrong) > 0)
            if (type == wanted)
                return type;
        poll(&(struct pollfd){.fd = c->fd, .events = POLLIN}, 1, -1);
        if (!weir__conn_fill(c) && !c->have)
            return 0;
    }
}

static void send_gone(struct weir__conn *c, uint32_t rank, enum weir__gone how)
{
    struct weir__wire_gone gone = {.rank = rank, .how = how};

    CHECK(weir__conn_send(c, WEIR__WIRE_GONE, &gone, sizeof gone));
}

TEST(procs, the_hub_accepts_reports_of_stopped_ranks_only_from_their_own_host)
{
    uint64_t far = weir__host_id() ^ 2, other = weir__host_id() ^ 4;
    static char payload[WEIR__WIRE_MOST];
    struct weir__conn rank, lines[5];
    struct sockaddr_in at;
    struct weir__hub *hub;

    CHECK_OK(weir__hub_start(listen_here(&at), 0, 3, secret, NULL, &hub));
    greet(&lines[0], &at, WEIR__LINE_TO_HUB, far, secret); /* rank 1 has not come */
    CHECK_EQ(await(&lines[0], WEIR__WIRE_PONG, payload), 0);
    greet(&rank, &at, WEIR__LINE_RANK, far, secret);
    CHECK_EQ(await(&rank, WEIR__WIRE_WELCOME, payload), WEIR__WIRE_WELCOME);
    greet(&lines[1], &at, WEIR__LINE_TO_HUB, far, "everybody knows");
    CHECK_EQ(await(&lines[1], WEIR__WIRE_REFUSED, payload), WEIR__WIRE_REFUSED);
    greet(&lines[2], &at, WEIR__LINE_TO_HUB, other, secret); /* it is of another host */
    CHECK_EQ(await(&lines[2], WEIR__WIRE_PONG, payload), 0);
    greet(&lines[3], &at, WEIR__LINE_TO_HUB, far, secret);
    send_gone(&lines[3], 2, WEIR__GONE_STOPPED); /* which is not of its host, or not there */
    send_gone(&lines[3], 0, WEIR__GONE_STOPPED);
    send_gone(&lines[3], 1, WEIR__GONE_DIED); /* it cannot know */
    CHECK_EQ(await(&lines[3], WEIR__WIRE_PONG, payload), 0);
    greet(&lines[4], &at, WEIR__LINE_TO_HUB, far, secret);
    CHECK(weir__conn_send(&rank, WEIR__WIRE_PING, &(struct weir__wire_ping){.sent_ns = 5},
                          sizeof(struct weir__wire_ping)));
    CHECK_EQ(await(&rank, WEIR__WIRE_PONG, payload), WEIR__WIRE_PONG); /* rank 1 is still there */
    send_gone(&lines[4], 1, WEIR__GONE_STOPPED);
    CHECK_EQ(await(&rank, WEIR__WIRE_BYE, payload), 0);
    weir__hub_stop(hub);
    weir__conn_close(&rank);
    for (int i = 0; i < 5; i++)
        weir__conn_close(&lines[i]);
}

/* From afar a process that gets no processor looks like one that is stopped: for 5 s it is let be,
 * and for longer if its host has an observer that sends heartbeats. */
TEST(procs, a_silent_rank_is_kept_while_its_observer_does_not_report_it)
{
    enum { PROBES = 65 }; /* every 100 ms */
    uint64_t far = weir__host_id() ^ 2;
    static char payload[WEIR__WIRE_MOST];
    struct weir__conn rank, line;
    struct sockaddr_in at;
    struct weir__hub *hub;

    CHECK_OK(weir__hub_start(listen_here(&at), 0, 3, secret, NULL, &hub));
    greet(&rank, &at, WEIR__LINE_RANK, far, secret);
    CHECK_EQ(await(&rank, WEIR__WIRE_WELCOME, payload), WEIR__WIRE_WELCOME);
    greet(&line, &at, WEIR__LINE_TO_HUB, far, secret);
    for (int i = 0; i < PROBES; i++) {
        CHECK_EQ(await(&rank, WEIR__WIRE_PONG, payload), WEIR__WIRE_PONG);
        if (i % 10 == 0)
            CHECK(weir__conn_send(&line, WEIR__WIRE_PONG, &(struct weir__wire_ping){0},
                                  sizeof(struct weir__wire_ping)));
    }
    CHECK_EQ(await(&rank, WEIR__WIRE_BYE, payload), 0); /* nobody says that any more */
    weir__hub_stop(hub);
    weir__conn_close(&rank);
    weir__conn_close(&line);
}

/* This process is rank 0; its observer reports that it is stopped. */
SCENARIO(stopped_hub)
{
    uint64_t far = weir__host_id() ^ 2;
    static char payload[WEIR__WIRE_MOST];
    struct weir__conn rank;
    struct sockaddr_in at;
    struct weir__hub *hub;

    CHECK_OK(weir__hub_start(listen_here(&at), 0, 3, secret, NULL, &hub));
    greet(&rank, &at, WEIR__LINE_RANK, far, secret);
    CHECK_EQ(await(&rank, WEIR__WIRE_WELCOME, payload), WEIR__WIRE_WELCOME);
    say("%d\n", ntohs(at.sin_port));
    for (;;)
        pause();
}

TEST(procs, ranks_that_wait_for_a_stopped_rank_0_are_told_by_its_observer)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint64_t far = weir__host_id() ^ 2;
    struct weir__conn lines[2];
    struct weir__wire_gone gone;
    struct kids k;

    kids_start(&k, 1, "stopped_hub", NULL);
    kids_await(&k, 0, "\n");
    at.sin_port = htons((uint16_t)atoi(k.text[0]));
    for (int i = 0; i < 2; i++)
        greet(&lines[i], &at, WEIR__LINE_FROM_HUB_OBSERVER, far, secret);
    for (int i = 0; i < 2; i++)
        expect_beats(&lines[i]);
    CHECK(!kill(k.pid[0], SIGSTOP));
    for (int i = 0; i < 2; i++) {
        while (hear(&lines[i], &gone) != WEIR__WIRE_GONE)
            ;
        CHECK_EQ(gone.rank, 0);
        CHECK_EQ(gone.how, WEIR__GONE_STOPPED);
    }
    CHECK(!kill(k.pid[0], SIGKILL));
    kids_end(&k, 0);
    for (int i = 0; i < 2; i++)
        expect_end(&lines[i]);
}
