/* A rank's link, with a case as the hub. */
#define _GNU_SOURCE
#include "comm/procs/link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/procs/proof.h"
#include "harness/test.h"
#include "procs/channel/talk.h"

static _Alignas(8) char payload[WEIR__WIRE_MOST];

/* Rank 1 of three, and the hub's end of its connection. */
struct lone_rank {
    struct weir__world *w;
    struct weir__conn hub;
    pthread_t thread;
    bool links;
};

static void make_rank(struct lone_rank *r, bool links)
{
    struct weir__world *w = calloc(1, sizeof *w);
    int ends[2];

    CHECK(w);
    *r = (struct lone_rank){.w = w, .links = links};
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    CHECK(weir__conn_open(&w->conn, ends[0], WEIR__WIRE_MOST));
    CHECK(weir__conn_open(&r->hub, ends[1], WEIR__WIRE_SHORT));
    w->rank = 1;
    w->ranks = 3;
    w->hub_pid = (uint32_t)getpid();
    w->hub_host = weir__host_id();
    w->last_ns = weir__clock_ns();
    w->quickest_ns = UINT64_MAX;
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->standby_fd = w->move.next.fd = w->move.old.fd = -1;
    CHECK(w->wake_fd >= 0);
}

static void start_link(struct lone_rank *r)
{
    CHECK(!pthread_create(&r->thread, NULL, weir__link_main, r->w));
}

static void end_rank(struct lone_rank *r)
{
    if (r->links) {
        atomic_store(&r->w->stop, true);
        weir__link_poke(r->w);
        CHECK(!pthread_join(r->thread, NULL));
    }
    weir__conn_close(&r->hub);
    weir__conn_close(&r->w->conn);
    close(r->w->wake_fd);
    free(r->w);
}

static weir_status gather(struct lone_rank *r)
{
    static struct weir__wire_gathered all;
    static const unsigned char blob[WEIR__WIRE_BLOB] = {7};
    struct weir__ranks members = weir__ranks_all(3);

    return weir__world_gather(r->w, "later", &members, INT64_C(3600000000000), blob, &all);
}

static void *gather_in_thread(void *user)
{
    return (void *)(intptr_t)gather(user);
}

static weir_status end_of(pthread_t thread)
{
    void *st;

    CHECK(!pthread_join(thread, &st));
    return (weir_status)(intptr_t)st;
}

static void tell_again(struct lone_rank *r)
{
    weir__mutex_lock(&r->w->conn_lock);
    weir__link_tell_again(r->w);
    weir__mutex_unlock(&r->w->conn_lock);
}

TEST(procs, a_gather_that_waits_is_sent_to_the_next_hub_with_the_time_that_is_left)
{
    const struct weir__wire_gather *m = (const void *)payload;
    struct lone_rank r;
    pthread_t thread;
    int64_t first;

    make_rank(&r, false);
    CHECK(!pthread_create(&thread, NULL, gather_in_thread, &r));
    CHECK_EQ(next_message(&r.hub, payload), WEIR__WIRE_GATHER);
    first = m->timeout_ns;
    for (int i = 0; i < 2; i++) {
        tell_again(&r);
        CHECK_EQ(next_message(&r.hub, payload), WEIR__WIRE_GATHER);
        CHECK(m->timeout_ns > 0 && m->timeout_ns < first);
        first = m->timeout_ns;
    }
    weir__link_be_alone(r.w, "it is over");
    CHECK_EQ(end_of(thread), WEIR_EUNAVAILABLE);
    end_rank(&r);
}

/* Another member may not have got the answer of the hub that has died. */
TEST(procs, a_gather_that_has_succeeded_is_sent_to_the_next_hub_for_members_that_still_wait)
{
    const struct weir__wire_gather *m = (const void *)payload;
    static struct weir__wire_gathered all = {.key = "later"};
    struct lone_rank r;
    pthread_t thread;

    make_rank(&r, true);
    start_link(&r);
    CHECK(!pthread_create(&thread, NULL, gather_in_thread, &r));
    CHECK_EQ(next_message(&r.hub, payload), WEIR__WIRE_GATHER);
    all.members = m->members;
    CHECK(
        weir__conn_send(&r.hub, WEIR__WIRE_GATHERED, &all, weir__wire_gathered_size(&all.members)));
    CHECK_EQ(end_of(thread), WEIR_OK);
    tell_again(&r);
    CHECK_EQ(next_message(&r.hub, payload), WEIR__WIRE_GATHER);
    CHECK(!strcmp(m->key, "later"));
    CHECK_EQ(m->blob[0], 7);
    CHECK(m->timeout_ns > 0);
    end_rank(&r);
}

TEST(procs, an_answer_about_other_members_than_those_of_the_gather_is_an_error)
{
    static struct weir__wire_gathered all = {.key = "later"};
    struct lone_rank r;
    pthread_t thread;

    make_rank(&r, true);
    start_link(&r);
    CHECK(!pthread_create(&thread, NULL, gather_in_thread, &r));
    CHECK_EQ(next_message(&r.hub, payload), WEIR__WIRE_GATHER);
    all.members = weir__ranks_one(1);
    CHECK(
        weir__conn_send(&r.hub, WEIR__WIRE_GATHERED, &all, weir__wire_gathered_size(&all.members)));
    CHECK_EQ(end_of(thread), WEIR_EINVAL);
    end_rank(&r);
}

static void say_gone(struct lone_rank *r, int rank, enum weir__gone how, const char *text)
{
    struct weir__wire_gone m = {.rank = (uint32_t)rank, .how = how};

    snprintf(m.text, sizeof m.text, "%s", text);
    CHECK(weir__conn_send(&r->hub, WEIR__WIRE_GONE, &m, sizeof m));
    weir__conn_close(&r->hub);
}

TEST(procs, a_gather_says_that_rank_0_has_left_when_its_hub_has_ended)
{
    struct lone_rank r;

    make_rank(&r, true);
    start_link(&r);
    say_gone(&r, 0, WEIR__GONE_LEFT, "rank 0 has left");
    CHECK_EQ(gather(&r), WEIR_EUNAVAILABLE);
    CHECK_STR(weir_last_error(), "rank 0 has left");
    end_rank(&r);
}

/* It is the lowest rank that is left, and cannot look at the hub's process. */
TEST(procs, a_rank_that_a_hub_on_another_host_has_disconnected_does_not_take_over)
{
    struct lone_rank r;

    make_rank(&r, true);
    r.w->hub_host ^= 2;
    atomic_store(&r.w->met, true);
    start_link(&r);
    say_gone(&r, 1, WEIR__GONE_DIED, "rank 1 sent a message out of turn and was disconnected");
    CHECK_EQ(gather(&r), WEIR_EUNAVAILABLE);
    CHECK_STR(weir_last_error(), "rank 0, which joins the ranks, has disconnected rank 1: rank 1 "
                                 "sent a message out of turn and was disconnected");
    CHECK(atomic_load(&r.w->peers[2].gone)); /* which nobody watches any more */
    end_rank(&r);
}

/* A process that has the port of a rank that is gone, or that the system gave it, answers anything.
 */
TEST(procs, a_stranger_at_the_address_of_a_rank_neither_learns_the_token_nor_becomes_its_hub)
{
    const struct weir__wire_hello *hello = (const void *)payload;
    struct weir__wire_welcome welcome = {.pid = (uint32_t)getpid(), .host = weir__host_id()};
    struct lone_rank r;
    struct weir__conn c;
    pthread_t thread;
    int port, listener = listen_on_loopback(&port);

    make_rank(&r, true);
    strcpy(r.w->token, TALK_TOKEN);
    r.w->peers[2].pid = (uint32_t)getpid();
    r.w->peers[2].host = weir__host_id();
    r.w->peers[2].standby = (struct weir__address){
        .family = AF_INET, .port = htons((uint16_t)port), .ip = {127, 0, 0, 1}};
    for (int i = 0; i < 2; i++)
        r.w->peers[i].host = weir__host_id();
    atomic_store(&r.w->met, true);
    start_link(&r);
    CHECK(!pthread_create(&thread, NULL, gather_in_thread, &r));
    CHECK_EQ(next_message(&r.hub, payload), WEIR__WIRE_GATHER);
    say_gone(&r, 0, WEIR__GONE_LEFT, "rank 0 has left");
    CHECK(weir__conn_open(&c, accept(listener, NULL, NULL), WEIR__WIRE_SHORT));
    CHECK_EQ(next_message(&c, payload), WEIR__WIRE_HELLO);
    CHECK(!memmem(payload, sizeof *hello, TALK_TOKEN, strlen(TALK_TOKEN)));
    CHECK(weir__proves_hello(TALK_TOKEN, hello));
    CHECK_EQ(hello->to, 2);
    weir__proof_of_answer("everybody knows", hello->proof, &welcome, sizeof welcome);
    CHECK(weir__conn_send(&c, WEIR__WIRE_WELCOME, &welcome, sizeof welcome));
    CHECK_EQ(next_message(&c, payload), 0); /* and not the gather */
    weir__conn_close(&c);
    close(listener);
    CHECK_EQ(end_of(thread), WEIR_EUNAVAILABLE);
    end_rank(&r);
}
