/* What a hub tells its ranks. */
#define _GNU_SOURCE
#include "procs/channel/talk.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/procs/proof.h"
#include "harness/test.h"

static _Alignas(8) char payload[WEIR__WIRE_MOST];
static const struct weir__wire_text *const text = (const void *)payload;
static const struct weir__wire_gone *const gone = (const void *)payload;
static const struct weir__wire_close *const closes = (const void *)payload;

static void send_abort(struct weir__conn *c, const char *key, const char *why)
{
    struct weir__wire_text m = {.status = WEIR_EINTERNAL};

    snprintf(m.key, sizeof m.key, "%s", key);
    snprintf(m.text, sizeof m.text, "%s", why);
    CHECK(weir__conn_send(c, WEIR__WIRE_ABORT, &m, sizeof m));
}

static void send_close(struct weir__conn *c, enum weir__wire_type type, uint32_t from, uint32_t to,
                       uint64_t messages)
{
    struct weir__wire_close m = {.key = "g", .from = from, .to = to, .messages = messages};

    CHECK(weir__conn_send(c, type, &m, sizeof m));
}

/* Rank 0 has left; rank 1 has taken over, and rank 2 has come, said what it had to and left when
 * rank 3 comes. */
TEST(procs, a_rank_that_comes_late_to_the_next_hub_is_told_what_others_have_said_there)
{
    enum { N = 4 };
    struct weir__peer *known = calloc(N, sizeof *known);
    int port, fd = listen_on_loopback(&port);
    struct weir__conn ranks[N];
    struct weir__hub *hub;

    CHECK(known);
    for (int i = 0; i < N; i++) {
        known[i].pid = (uint32_t)getpid();
        known[i].host = weir__host_id();
    }
    strcpy(known[0].text, "rank 0 has left");
    atomic_store(&known[0].gone, WEIR__GONE_LEFT);
    CHECK_OK(weir__hub_start(fd, 1, N, TALK_TOKEN, known, &hub));
    weir__hub_take_over(hub, true);
    greet_as(&ranks[1], port, 1, N, 1);
    CHECK_EQ(next_message(&ranks[1], payload), WEIR__WIRE_GONE);
    greet_as(&ranks[2], port, 2, N, 1);
    send_abort(&ranks[2], "g", "the first reason");
    send_abort(&ranks[2], "g", "the same group again");
    send_abort(&ranks[2], "h", "another group");
    send_close(&ranks[2], WEIR__WIRE_CLOSES, 2, 3, 5);
    send_close(&ranks[2], WEIR__WIRE_CLOSES, 2, 1, 6);
    send_close(&ranks[2], WEIR__WIRE_RECEIVED, 2, 3, 7);
    CHECK(weir__conn_send(&ranks[2], WEIR__WIRE_BYE, NULL, 0));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(next_message(&ranks[1], payload), WEIR__WIRE_ABORT);
    CHECK_EQ(next_message(&ranks[1], payload), WEIR__WIRE_CLOSES);
    CHECK_EQ(closes->messages, 6);
    CHECK_EQ(next_message(&ranks[1], payload), WEIR__WIRE_GONE);
    CHECK_EQ(gone->rank, 2);

    greet_as(&ranks[3], port, 3, N, 1);
    CHECK_EQ(next_message(&ranks[3], payload), WEIR__WIRE_ABORT);
    CHECK(!strcmp(text->key, "g"));
    CHECK_STR(text->text, "the first reason");
    CHECK_EQ(next_message(&ranks[3], payload), WEIR__WIRE_ABORT);
    CHECK_STR(text->text, "another group");
    CHECK_EQ(next_message(&ranks[3], payload), WEIR__WIRE_CLOSES);
    CHECK_EQ(closes->messages, 5);
    CHECK_EQ(next_message(&ranks[3], payload), WEIR__WIRE_RECEIVED);
    CHECK_EQ(closes->messages, 7);
    CHECK_EQ(next_message(&ranks[3], payload), WEIR__WIRE_GONE);
    CHECK_EQ(gone->rank, 0);
    CHECK_EQ(next_message(&ranks[3], payload), WEIR__WIRE_GONE);
    CHECK_EQ(gone->rank, 2);
    send_abort(&ranks[1], "g", "now that all have come"); /* nothing is said twice */
    CHECK_EQ(next_message(&ranks[3], payload), WEIR__WIRE_ABORT);
    CHECK_STR(text->text, "now that all have come");
    for (int i = 1; i < N; i++)
        weir__conn_close(&ranks[i]);
    weir__hub_stop(hub);
    free(known);
}

/* The hub tells both before the one with less time gives up, which then knows who is missing. */
TEST(procs, a_gather_fails_when_the_shortest_of_its_members_timeouts_is_over)
{
    struct weir__wire_gather m = {.key = "g", .timeout_ns = INT64_C(3600000000000)};
    int port, fd = listen_on_loopback(&port);
    struct weir__conn ranks[2];
    struct weir__hub *hub;

    m.members = weir__ranks_all(3);
    CHECK_OK(weir__hub_start(fd, 0, 3, TALK_TOKEN, NULL, &hub));
    for (int i = 0; i < 2; i++)
        greet_as(&ranks[i], port, i + 1, 3, 0);
    CHECK(weir__conn_send(&ranks[0], WEIR__WIRE_GATHER, &m, sizeof m));
    send_abort(&ranks[0], "h", "");
    CHECK_EQ(next_message(&ranks[1], payload), WEIR__WIRE_ABORT); /* the hub has the gather */
    m.timeout_ns = 0;
    CHECK(weir__conn_send(&ranks[1], WEIR__WIRE_GATHER, &m, sizeof m));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(next_message(&ranks[i], payload), WEIR__WIRE_FAILED);
        CHECK_STR(text->text, "rank 0 did not come");
    }
    for (int i = 0; i < 2; i++)
        weir__conn_close(&ranks[i]);
    weir__hub_stop(hub);
}

TEST(procs, a_rank_that_the_hub_disconnects_is_told_why)
{
    int port, fd = listen_on_loopback(&port);
    struct weir__wire_ping pong = {0};
    struct weir__conn c;
    struct weir__hub *hub;

    CHECK_OK(weir__hub_start(fd, 0, 2, TALK_TOKEN, NULL, &hub));
    greet_as(&c, port, 1, 2, 0);
    CHECK(weir__conn_send(&c, WEIR__WIRE_PONG, &pong, sizeof pong));
    CHECK_EQ(next_message(&c, payload), WEIR__WIRE_GONE);
    CHECK_EQ(gone->rank, 1);
    CHECK_STR(gone->text, "rank 1 sent a message out of turn");
    CHECK_EQ(next_message(&c, payload), 0);
    weir__hub_stop(hub);
    weir__conn_close(&c);
}

TEST(procs, a_hub_refuses_a_hello_for_the_hub_of_another_rank)
{
    const struct weir__wire_refused *refused = (const void *)payload;
    struct weir__wire_hello hello = hello_of(1, 3, 2);
    int port, fd = listen_on_loopback(&port);
    struct weir__hub *hub;
    struct weir__conn c;

    CHECK_OK(weir__hub_start(fd, 0, 3, TALK_TOKEN, NULL, &hub));
    CHECK(weir__conn_open(&c, reach_port(port), WEIR__WIRE_MOST));
    CHECK(weir__conn_send(&c, WEIR__WIRE_HELLO, &hello, sizeof hello));
    CHECK_EQ(next_message(&c, payload), WEIR__WIRE_REFUSED);
    CHECK_STR(refused->text, "this is rank 0, not rank 2");
    weir__conn_close(&c);
    weir__hub_stop(hub);
}

/* RFC 4231, cases 1 and 2 (the first with its 20 bytes of 0x0b). */
TEST(procs, proofs_are_hmac_sha_256)
{
    static const struct {
        const char *key, *data;
        unsigned char begins[8];
    } rows[] = {
        {"\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b",
         "Hi There",
         {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53}},
        {"Jefe", "what do ya want for nothing?", {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e}},
    };

    for (size_t i = 0; i < weir__countof(rows); i++) {
        unsigned char proof[WEIR__WIRE_PROOF];

        weir__proof(rows[i].key, rows[i].data, strlen(rows[i].data), proof);
        CHECK(!memcmp(proof, rows[i].begins, sizeof rows[i].begins));
    }
}
