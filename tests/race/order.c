/* The checker's core against happens-before written down plainly: a matrix of all pairs of
 * commands, closed transitively. */
#include "check/race/race.h"

#include <stdlib.h>

#include "harness/test.h"

enum { STREAMS = 4, STEPS = 60, PLACES = 6 };

/* One operator of the program: it touches one byte range. */
struct op {
    int stream, first, size;
    uint64_t seq;
    bool writes;
    bool before[STEPS]; /* operators that happen before it */
    bool seen;          /* a host sync before later operators covers it */
};

struct model {
    struct op ops[STEPS];
    int n;
    bool knows[STREAMS][STEPS]; /* what work queued on the stream now comes after */
    bool host[STEPS];
};

static void queue(struct model *m, int stream, uint64_t seq, int first, int size, bool writes)
{
    struct op *o = &m->ops[m->n];

    *o = (struct op){.stream = stream, .first = first, .size = size, .seq = seq, .writes = writes};
    for (int i = 0; i < m->n; i++)
        o->before[i] = m->knows[stream][i] || m->host[i];
    m->knows[stream][m->n++] = true;
    for (int i = 0; i < m->n - 1; i++)
        m->knows[stream][i] |= o->before[i];
}

static bool races(const struct model *m, int a, int b)
{
    const struct op *x = &m->ops[a], *y = &m->ops[b];

    return (x->writes || y->writes) && x->first < y->first + y->size &&
           y->first < x->first + x->size && !y->before[a];
}

/* What everybody knew when an event was recorded. */
struct event {
    bool recorded, knows[STEPS];
    int stream;
    uint64_t seq;
};

static void random_program(unsigned seed, int *racy)
{
    struct model m = {0};
    struct weir__race_order order = {0};
    struct weir__race_region region = {0};
    struct event events[3] = {{0}};
    uint64_t seq[STREAMS] = {0};

    for (int s = 0; s < STREAMS; s++)
        CHECK_EQ(weir__race_add_stream(&order, 0), s);
    while (m.n < STEPS) {
        int s = rand_r(&seed) % STREAMS;
        struct event *e = &events[rand_r(&seed) % 3];

        switch (rand_r(&seed) % 8) {
        case 0:
            *e = (struct event){.recorded = true, .stream = s, .seq = seq[s]};
            memcpy(e->knows, m.knows[s], sizeof e->knows);
            break;
        case 1:
            if (!e->recorded)
                break;
            for (int i = 0; i < m.n; i++)
                m.knows[s][i] |= e->knows[i];
            if (e->stream != s) {
                CHECK_OK(weir__race_wait(&order, s, seq[s] + 1, e->stream, e->seq));
                seq[s]++; /* the wait is a command too */
            }
            break;
        case 2:
            if (rand_r(&seed) % 4)
                break;
            for (int i = 0; i < m.n; i++)
                m.host[i] |= m.knows[s][i];
            weir__race_host_saw(&order, s, seq[s]);
            break;
        default: {
            struct weir__race_record r = {.stream = s, .shape.type = "u8"}, *slot;
            int first = rand_r(&seed) % PLACES, size = 1 + rand_r(&seed) % 3, at = 0;
            const struct weir__race_record *found;
            bool any = false;

            r.writes = rand_r(&seed) % 2;
            r.seq = ++seq[s];
            weir__footprint_init(&r.bytes, 4096 + (uintptr_t)first, 1, 1, (int64_t[]){size},
                                 (int64_t[]){1});
            queue(&m, s, r.seq, first, size, r.writes);
            while ((found = weir__race_find(&order, &region, s, &r.bytes, r.writes, &at))) {
                int a = 0;

                while (m.ops[a].stream != found->stream || m.ops[a].seq != found->seq)
                    a++;
                CHECK(races(&m, a, m.n - 1)); /* no false alarm */
                any = true;
            }
            for (int a = 0; a < m.n - 1 && !any; a++)
                CHECK(!races(&m, a, m.n - 1)); /* no miss */
            *racy += any;
            CHECK_OK(weir__race_reserve(&order, &region, s, &r.bytes, r.writes, &slot));
            *slot = r;
        }
        }
    }
    weir__race_region_fini(&region);
    weir__race_order_fini(&order);
}

TEST(race_order, agrees_with_happens_before_on_random_programs)
{
    int racy = 0;

    for (unsigned seed = 0; seed < 20000 / TEST_SLOWDOWN; seed++) {
        test_note("seed %u", seed);
        random_program(seed, &racy);
    }
    CHECK_GT(racy, 1000);
}
