/* Random eager programs on a device against happens-before written down plainly: what the
 * checker learns from the library's calls must be what the program said, no more (waits that
 * the pool or a plan queues for itself) and no less. */
#include "helpers.h"

enum { STREAMS = 4, TENSORS = 3, VIEWS = 4, OPS = 80, EVENTS = 3 };

struct op {
    int tensor, view;
    bool writes, before[OPS];
};

struct model {
    struct op ops[OPS];
    int n;
    bool knows[STREAMS][OPS], host[OPS];
};

/* Views of 32 elements: all, the first half, the second half, every second one. */
static bool view_has(int view, int element)
{
    return view == 0 || (view == 1 && element < 16) || (view == 2 && element >= 16) ||
           (view == 3 && element % 2 == 1);
}

static bool share(int a, int b)
{
    for (int i = 0; i < 32; i++)
        if (view_has(a, i) && view_has(b, i))
            return true;
    return false;
}

static bool queue(struct model *m, int stream, int tensor, int view, bool writes)
{
    struct op *o = &m->ops[m->n];
    bool racy = false;

    *o = (struct op){.tensor = tensor, .view = view, .writes = writes};
    for (int i = 0; i < m->n; i++) {
        const struct op *p = &m->ops[i];

        o->before[i] = m->knows[stream][i] || m->host[i];
        racy |=
            p->tensor == tensor && (p->writes || writes) && share(p->view, view) && !o->before[i];
        m->knows[stream][i] |= o->before[i];
    }
    m->knows[stream][m->n++] = true;
    return racy;
}

static void merge(bool *into, const bool *from)
{
    for (int i = 0; i < OPS; i++)
        into[i] |= from[i];
}

static int run_program(unsigned seed)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    struct model m = {0};
    weir_stream *s[STREAMS] = {f.a, f.b, f.c, weir_stream_default(f.dev)};
    weir_tensor *t[TENSORS][VIEWS];
    weir_event *e[EVENTS];
    bool recorded[EVENTS][OPS] = {{false}};
    int racy = 0;

    for (int i = 0; i < EVENTS; i++)
        CHECK_OK(weir_event_create(f.dev, NULL, &e[i]));
    for (int i = 0; i < TENSORS; i++) {
        t[i][0] = new_tensor(s[0], 32);
        CHECK_OK(weir_tensor_slice(t[i][0], 0, 0, 16, 1, &t[i][1]));
        CHECK_OK(weir_tensor_slice(t[i][0], 0, 16, 32, 1, &t[i][2]));
        CHECK_OK(weir_tensor_slice(t[i][0], 0, 1, 32, 2, &t[i][3]));
    }
    while (m.n < OPS) {
        int a = rand_r(&seed) % STREAMS, b = rand_r(&seed) % STREAMS, k = rand_r(&seed) % EVENTS;

        switch (rand_r(&seed) % 10) {
        case 0:
            CHECK_OK(weir_event_record(e[k], s[a]));
            memcpy(recorded[k], m.knows[a], sizeof recorded[k]);
            merge(recorded[k], m.host);
            break;
        case 1:
            CHECK_OK(weir_stream_wait(s[a], e[k]));
            merge(m.knows[a], recorded[k]);
            break;
        case 2:
            CHECK_OK(weir_stream_wait_stream(s[a], s[b]));
            merge(m.knows[a], m.knows[b]);
            break;
        case 3:
            if (rand_r(&seed) % 8)
                break;
            CHECK_OK(weir_stream_sync(s[a]));
            merge(m.host, m.knows[a]);
            break;
        case 4: { /* memory that comes and goes queues waits of its own */
            weir_tensor *gone = new_tensor(s[a], 1 + rand_r(&seed) % 4096);

            CHECK_OK(touch(s[a], "passing", gone, true));
            weir_tensor_release(gone);
            break;
        }
        default: {
            int x = rand_r(&seed) % TENSORS, v = rand_r(&seed) % VIEWS;
            bool writes = rand_r(&seed) % 2, want = queue(&m, a, x, v, writes);
            uint64_t had = races();

            CHECK_OK(touch(s[a], writes ? "write" : "read", t[x][v], writes));
            CHECK_EQ(races() > had, want);
            racy += want;
        }
        }
    }
    for (int i = 0; i < EVENTS; i++)
        weir_event_destroy(e[i]);
    for (int i = 0; i < TENSORS; i++)
        for (int v = 0; v < VIEWS; v++)
            weir_tensor_release(t[i][v]);
    close_fixture(&f);
    return racy;
}

TEST_TIMEOUT(race_programs, findings_of_random_programs_agree_with_happens_before, 120)
{
    int racy = 0;

    setenv("WEIR_DEVICE", "cpu:threads=2", 1);
    for (unsigned seed = 0; seed < 1500 / TEST_SLOWDOWN; seed++) {
        test_note("seed %u", seed);
        racy += run_program(seed);
    }
    CHECK_GT(racy, 300);
}
