/* The checker's core with collectives, against happens-before written down plainly: the whole
 * program first, as a matrix of all pairs of commands closed transitively, then what the checker
 * makes of it told command by command. */
#include "check/race/race.h"

#include <stdlib.h>

#include "harness/test.h"

enum { STREAMS = 4, STEPS = 70, CHANNELS = 3, PLACES = 5, NODES = STEPS + 8 };

/* Streams that stand for the ranks of each channel. */
static const unsigned members[CHANNELS] = {0x3, 0xc, 0xf};

enum kind { ACCESS, WAIT, CALL, HOST };

struct command {
    enum kind kind;
    int stream;
    uint64_t seq;
    int first, size; /* of an access */
    bool writes;
    int source; /* of a wait */
    uint64_t mark;
    int channel; /* of a call */
    uint64_t call;
};

struct program {
    struct command at[NODES]; /* in the order they are told */
    int n;
    bool before[NODES][NODES]; /* i is over before j starts */
};

/* The commands of a program that does not hang, in an order in which they could run. */
struct plan {
    struct command at[NODES];
    int n;
    uint64_t seq[STREAMS], calls[CHANNELS];
};

static void add(struct plan *p, struct command c)
{
    if (c.kind != HOST)
        c.seq = ++p->seq[c.stream];
    p->at[p->n++] = c;
}

static void make_plan(struct plan *p, unsigned *seed)
{
    *p = (struct plan){.n = 0};
    while (p->n < STEPS) {
        int s = rand_r(seed) % STREAMS, other = rand_r(seed) % STREAMS;
        int channel = rand_r(seed) % CHANNELS;

        switch (rand_r(seed) % 9) {
        case 0:
            if (other != s)
                add(p, (struct command){
                           .kind = WAIT, .stream = s, .source = other, .mark = p->seq[other]});
            break;
        case 1:
            for (int m = 0; m < STREAMS; m++)
                if (members[channel] >> m & 1)
                    add(p, (struct command){.kind = CALL,
                                            .stream = m,
                                            .channel = channel,
                                            .call = p->calls[channel]});
            p->calls[channel]++;
            break;
        case 2:
            if (rand_r(seed) % 6 == 0)
                add(p, (struct command){.kind = HOST, .stream = s, .seq = p->seq[s]});
            break;
        default:
            add(p, (struct command){.kind = ACCESS,
                                    .stream = s,
                                    .first = rand_r(seed) % PLACES,
                                    .size = 1 + rand_r(seed) % 2,
                                    .writes = rand_r(seed) % 2});
        }
    }
}

/* Whether it may be told now: its stream has come there, the command it waits for has been
 * queued, and a host sync comes when all before it has been. */
static bool may_tell(const struct plan *p, int i, const bool *told, const uint64_t *seq)
{
    const struct command *c = &p->at[i];

    for (int k = 0; k < i; k++)
        if (!told[k] && (c->kind == HOST || p->at[k].kind == HOST))
            return false;
    return c->kind == HOST ||
           (seq[c->stream] + 1 == c->seq && (c->kind != WAIT || seq[c->source] >= c->mark));
}

/* Tells the streams' commands in a random order: ranks run ahead of each other. */
static void make_program(struct program *p, unsigned seed)
{
    static struct plan plan;
    bool told[NODES] = {false};
    uint64_t seq[STREAMS] = {0};

    make_plan(&plan, &seed);
    p->n = 0;
    while (p->n < plan.n) {
        int i = rand_r(&seed) % plan.n;

        while (told[i] || !may_tell(&plan, i, told, seq))
            i = (i + 1) % plan.n;
        told[i] = true;
        if (plan.at[i].kind != HOST)
            seq[plan.at[i].stream]++;
        p->at[p->n++] = plan.at[i];
    }
}

/* What orders command j after command i at once. */
static bool follows(const struct program *p, int i, int j)
{
    const struct command *a = &p->at[i], *b = &p->at[j];

    if (a->kind == HOST)
        return i < j; /* what is queued later */
    if (b->kind == HOST)
        return i < j && a->stream == b->stream && a->seq <= b->seq;
    if (a->stream == b->stream)
        return a->seq < b->seq;
    return b->kind == WAIT && b->source == a->stream && a->seq <= b->mark;
}

/* All ranks' calls are over before what follows any of them. */
static void close_order(struct program *p)
{
    for (int j = 0; j < p->n; j++)
        for (int i = 0; i < p->n; i++) {
            p->before[i][j] = i != j && follows(p, i, j);
            for (int k = 0; k < p->n && !p->before[i][j]; k++)
                p->before[i][j] = p->at[i].kind == CALL && p->at[k].kind == CALL && k != i &&
                                  p->at[k].channel == p->at[i].channel &&
                                  p->at[k].call == p->at[i].call && j != k && follows(p, k, j);
        }
    for (int k = 0; k < p->n; k++)
        for (int i = 0; i < p->n; i++)
            for (int j = 0; p->before[i][k] && j < p->n; j++)
                p->before[i][j] |= p->before[k][j];
    for (int i = 0; i < p->n; i++)
        CHECK(!p->before[i][i]);
}

static bool is_race(const struct program *p, int i, int j)
{
    const struct command *a = &p->at[i], *b = &p->at[j];

    return a->kind == ACCESS && b->kind == ACCESS && (a->writes || b->writes) &&
           a->first < b->first + b->size && b->first < a->first + a->size && !p->before[i][j] &&
           !p->before[j][i];
}

static int index_of(const struct program *p, const struct weir__race_record *r)
{
    int i = 0;

    while (p->at[i].kind != ACCESS || p->at[i].stream != r->stream || p->at[i].seq != r->seq)
        i++;
    return i;
}

struct checker {
    struct weir__race_order order;
    struct weir__race_region region;
    struct weir__race_pairs pairs;
    bool reported[NODES]; /* the later of the two */
};

static void report(struct checker *k, const struct program *p, const struct weir__race_record *a,
                   const struct weir__race_record *b)
{
    CHECK(is_race(p, index_of(p, a), index_of(p, b))); /* no false alarm */
    k->reported[index_of(p, b)] = true;
}

static void judge(struct checker *k, const struct program *p)
{
    struct weir__race_pair pair;

    while (weir__race_judge(&k->order, &k->pairs, &pair))
        report(k, p, &pair.first, &pair.second);
}

static void tell_access(struct checker *k, const struct program *p, const struct command *c)
{
    struct weir__race_record r = {
        .stream = c->stream, .seq = c->seq, .writes = c->writes, .shape.type = "u8"};
    struct weir__race_record *slot;
    const struct weir__race_record *found;
    int at = 0;

    weir__footprint_init(&r.bytes, 4096 + (uintptr_t)c->first, 1, 1, (int64_t[]){c->size},
                         (int64_t[]){1});
    while ((found = weir__race_find(&k->order, &k->region, r.stream, &r.bytes, r.writes, &at)))
        if (weir__race_is_decided(&k->order, found, r.stream, r.seq))
            report(k, p, found, &r);
        else
            CHECK_OK(weir__race_suspect(&k->pairs, found, &r));
    CHECK_OK(weir__race_reserve(&k->order, &k->region, r.stream, &r.bytes, r.writes, &slot));
    *slot = r;
}

static void tell(struct checker *k, const struct program *p, const struct command *c)
{
    switch (c->kind) {
    case ACCESS:
        tell_access(k, p, c);
        break;
    case WAIT:
        CHECK_OK(weir__race_wait(&k->order, c->stream, c->seq, c->source, c->mark));
        break;
    case CALL:
        if (weir__race_meet(&k->order, c->stream, c->seq, &members[c->channel], c->call,
                            __builtin_popcount(members[c->channel])))
            judge(k, p);
        break;
    case HOST:
        weir__race_host_saw(&k->order, c->stream, c->seq);
        judge(k, p);
        break;
    }
}

static int check_program(const struct program *p)
{
    struct checker k = {.pairs.n = 0};
    int racy = 0;

    for (int s = 0; s < STREAMS; s++)
        CHECK_EQ(weir__race_add_stream(&k.order, 0), s);
    for (int i = 0; i < p->n; i++)
        tell(&k, p, &p->at[i]);
    CHECK(!k.order.open);
    CHECK_EQ(k.pairs.n, 0);
    for (int j = 0; j < p->n; j++) {
        bool races = false;

        for (int i = 0; i < j; i++)
            races |= is_race(p, i, j);
        CHECK_EQ(k.reported[j], races); /* no miss */
        racy += races;
    }
    weir__race_pairs_fini(&k.pairs);
    weir__race_region_fini(&k.region);
    weir__race_order_fini(&k.order);
    return racy;
}

TEST(race_rendezvous, collectives_agree_with_happens_before_on_random_programs)
{
    static struct program p;
    int racy = 0;

    for (unsigned seed = 0; seed < 240 / TEST_SLOWDOWN; seed++) {
        test_note("seed %u", seed);
        make_program(&p, seed);
        close_order(&p);
        racy += check_program(&p);
    }
    CHECK_GT(racy, 1000 / TEST_SLOWDOWN);
}

/* Ranks far apart, and calls that never come, cost memory but nothing else. */
TEST(race_rendezvous, a_rank_may_be_far_ahead)
{
    enum { FAR = 1000 };
    struct weir__race_order o = {0};

    for (int s = 0; s < 2; s++)
        CHECK_EQ(weir__race_add_stream(&o, 0), s);
    for (uint64_t k = 0; k < FAR; k++)
        CHECK(!weir__race_meet(&o, 0, k + 1, &members[0], k, 2));
    CHECK(!weir__race_is_settled(&o, 0, FAR + 1));
    for (uint64_t k = 0; k < FAR / 2; k++)
        CHECK(weir__race_meet(&o, 1, k + 1, &members[0], k, 2));
    CHECK_EQ(weir__race_ordered(&o, 0, 1), FAR / 2);
    weir__race_leave(&o, &members[0]);
    CHECK(weir__race_is_settled(&o, 0, FAR + 1));
    CHECK_EQ(weir__race_ordered(&o, 1, 0), FAR / 2);
    weir__race_order_fini(&o);
}

/* Two streams that call two groups in different orders: neither ever goes on. */
TEST(race_rendezvous, memory_of_calls_that_never_meet_is_freed)
{
    struct weir__race_order o = {0};

    for (int s = 0; s < 2; s++)
        CHECK_EQ(weir__race_add_stream(&o, 0), s);
    CHECK(!weir__race_meet(&o, 0, 1, &members[0], 0, 2));
    CHECK(!weir__race_meet(&o, 1, 1, &members[1], 0, 2));
    CHECK(!weir__race_meet(&o, 0, 2, &members[1], 0, 2));
    CHECK(!weir__race_meet(&o, 1, 2, &members[0], 0, 2));
    CHECK(!weir__race_is_settled(&o, 0, 3));
    weir__race_order_fini(&o); /* the leak checker of the sanitizer builds looks here */
}
