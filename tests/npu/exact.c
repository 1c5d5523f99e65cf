/* Thousands of random programs: the model and the reference agree on every start and end,
 * and on who is stuck. Programs go the whole way, from a graph file. */
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/predict/predict.h"
#include "harness/test.h"

struct rng {
    uint64_t state;
};

static int below(struct rng *r, int n)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

static bool percent(struct rng *r, int p)
{
    return below(r, 100) < p;
}

/* ---- programs ---- */

static void random_node(struct rng *r, const struct ref_program *p, struct ref_node *n, int v,
                        int nstreams, bool overhead)
{
    static const int sizes[] = {1, 2, 3, 6, 8, 12, 16, 20, 24, 30, 40, 48};
    int most;

    *n = (struct ref_node){.kind = (enum kind)below(r, KINDS), .us = -1, .collective = -1};
    most = n->kind == VECTOR ? p->vector : p->cube;
    n->blocks = sizes[below(r, 12)];
    n->stream = below(r, nstreams);
    if (percent(r, 40))
        n->us = 1 + below(r, 6);
    else
        n->us_per_block = below(r, 6);
    n->gang = percent(r, 25);
    if ((n->gang || n->us > 0) && n->blocks > most)
        n->blocks = most;
    if (percent(r, 25))
        n->limit = 1 + below(r, n->kind == VECTOR ? p->vector : p->cube);
    if (p->nranks > 1 && percent(r, 25))
        n->collective = below(r, 2);
    for (int i = 0; i < (overhead ? 1 : MAX_DEPS) && v; i++)
        if (percent(r, 30))
            n->deps[n->ndeps++] = below(r, v);
}

static void random_program(struct rng *r, struct ref_program *p)
{
    int nstreams = 1 + below(r, MAX_STREAMS), nodes = 1 + below(r, MAX_NODES - 1);
    bool overhead = percent(r, 30);

    memset(p, 0, sizeof *p);
    p->cube = 24;
    p->vector = 48;
    p->nranks = percent(r, 50) ? 1 : 2 + below(r, MAX_RANKS - 1);
    p->hold = percent(r, 50);
    if (overhead) {
        p->launch = 1;
        p->record = p->wait = percent(r, 50);
    }
    for (int s = 1; s < MAX_STREAMS; s++)
        p->priority[s] = percent(r, 40) ? below(r, 16) - 8 : 0;
    for (int i = 0; i < p->nranks; i++) {
        p->ranks[i].nnodes = nodes;
        for (int v = 0; v < nodes; v++)
            random_node(r, p, &p->ranks[i].nodes[v], v, nstreams, overhead);
    }
    /* Mostly collectives have a counterpart everywhere. */
    for (int v = 0; v < nodes && percent(r, 90); v++)
        for (int i = 1; i < p->nranks; i++)
            p->ranks[i].nodes[v].collective = p->ranks[0].nodes[v].collective;
}

/* ---- as graph files ---- */

static void attr(struct weir__text *t, const char *key, const char *kind, int value)
{
    weir__text_add(t, "  attr { key: \"%s\" value { %s: %d } }\n", key, kind, value);
}

static void write_node(struct weir__text *t, const struct ref_program *p, const struct ref_node *n,
                       int v)
{
    static const char *const kinds[] = {"cube", "vector", "mix"};

    weir__text_add(t, "node {\n  name: \"n%d\"\n  op: \"Kernel\"\n", v);
    for (int i = 0; i < n->ndeps; i++)
        weir__text_add(t, "  input: \"^n%d\"\n", n->deps[i]);
    weir__text_add(t, "  attr { key: \"engine\" value { s: \"%s\" } }\n", kinds[n->kind]);
    attr(t, "blocks", "i", n->blocks);
    if (n->us > 0)
        attr(t, "us", "f", n->us);
    else
        attr(t, "us_per_block", "f", n->us_per_block);
    if (n->gang)
        weir__text_add(t, "  attr { key: \"gang\" value { b: true } }\n");
    if (n->limit) {
        /* A mix block takes two vector cores: the limit is in blocks. */
        attr(t, "_op_aicore_num", "i", n->kind == VECTOR ? p->cube : n->limit);
        attr(t, "_op_vectorcore_num", "i", n->kind == VECTOR ? n->limit : p->vector);
    }
    if (n->collective >= 0)
        weir__text_add(t, "  attr { key: \"collective\" value { s: \"c%d\" } }\n", n->collective);
    if (n->stream) {
        weir__text_add(t, "  attr { key: \"_user_stream_label\" value { s: \"s%d\" } }\n",
                       n->stream);
        attr(t, "_user_stream_priority", "i", p->priority[n->stream]);
    }
    weir__text_add(t, "}\n");
}

static weir_graph *load(weir_device *dev, const struct ref_program *p, int rank)
{
    struct weir__text t = {0};
    weir_graph *g;

    for (int v = 0; v < p->ranks[rank].nnodes; v++)
        write_node(&t, p, &p->ranks[rank].nodes[v], v);
    CHECK(!t.failed);
    CHECK_OK(weir_graph_load(dev, t.data, t.size, "random", &g));
    weir__text_free(&t);
    return g;
}

/* ---- agreement ---- */

static void check_spans(const struct ref_program *p, const struct ref_result *want,
                        const struct weir__prediction *got)
{
    CHECK_EQ(got->run.deadlock, want->deadlock);
    for (int r = 0; r < p->nranks; r++)
        for (int v = 0; v < p->ranks[r].nnodes; v++) {
            const struct weir__sim_span *s = &got->run.spans[r][v];
            int64_t end = s->end == UINT64_MAX ? -1 : (int64_t)(s->end / WEIR__PS_PER_US);

            CHECK_EQ(want->end[r][v], end);
            if (end >= 0) {
                CHECK_EQ(s->start % WEIR__PS_PER_US, 0);
                CHECK_EQ(want->start[r][v], s->start / WEIR__PS_PER_US);
            }
        }
    CHECK_EQ((uint64_t)want->makespan * WEIR__PS_PER_US, got->makespan);
    if (!want->deadlock)
        CHECK_LE(got->critical, got->makespan);
}

/* Everybody who is stuck is named, and somebody waits in a circle or for what will never be. */
static void check_report(const struct weir__prediction *got)
{
    struct weir__text text = {0};
    bool cycle = false;

    weir__prediction_report(got, &text);
    if (!got->run.deadlock) {
        CHECK(!text.size);
        return;
    }
    for (uint32_t i = 0; i < got->run.nstuck; i++) {
        cycle |= got->run.stuck[i].in_cycle;
        CHECK_LT(got->run.stuck[i].next, got->run.nstuck);
    }
    CHECK(cycle);
    CHECK_STR(text.data, "cycle: ");
    weir__text_free(&text);
}

static void compare(const struct ref_program *p, const char *profile)
{
    char spec[128];
    weir_graph *graphs[MAX_RANKS];
    struct weir__prediction got;
    struct ref_result want;
    weir_device *dev;

    snprintf(spec, sizeof spec, "npu:%s,policy=%s,overhead=%s", profile, p->hold ? "hold" : "batch",
             p->launch ? "on" : "off");
    CHECK_OK(weir_device_open(spec, &dev));
    for (int r = 0; r < p->nranks; r++)
        graphs[r] = load(dev, p, r);
    CHECK_OK(weir__predict(graphs, (uint32_t)p->nranks, &(struct weir__predict_options){0}, &got));
    reference_run(p, &want);
    check_spans(p, &want, &got);
    check_report(&got);
    weir__prediction_fini(&got);
    for (int r = 0; r < p->nranks; r++)
        weir_graph_destroy(graphs[r]);
    CHECK_OK(weir_device_close(dev));
}

/* The overheads of the reference are whole microseconds. */
static const char *write_profile(const struct ref_program *p, char *path)
{
    FILE *f;

    if (!p->launch)
        return "a3";
    snprintf(path, 64, "/tmp/weir-exact-%d-XXXXXX.profile", p->record);
    CHECK((f = fdopen(mkstemps(path, 8), "w")));
    fprintf(f,
            "inherits a3\nname test\ngraph_launch_us %d # test\nevent_record_us %d # test\n"
            "event_wait_us %d # test\n",
            p->launch, p->record, p->wait);
    fclose(f);
    return path;
}

static void agree(uint64_t from, int count)
{
    for (int i = 0; i < count / TEST_SLOWDOWN; i++) {
        struct rng r = {from + (uint64_t)i};
        struct ref_program p;
        char path[64] = "";

        random_program(&r, &p);
        test_note("seed %llu: %d ranks of %d nodes, policy %s", (unsigned long long)(from + i),
                  p.nranks, p.ranks[0].nnodes, p.hold ? "hold" : "batch");
        compare(&p, write_profile(&p, path));
        if (path[0])
            remove(path);
    }
}

TEST(exact, random_programs_match_the_reference)
{
    agree(1, 2000);
}

TEST(exact, random_programs_match_the_reference_2)
{
    agree(1000000, 2000);
}

/* The comparison would notice: deadlocks, collectives and both policies all occur. */
TEST(exact, random_programs_include_deadlocks_under_both_policies)
{
    int deadlocks[2] = {0, 0}, ended = 0;

    for (int i = 0; i < 400; i++) {
        struct rng r = {(uint64_t)i + 1};
        struct ref_result out;
        struct ref_program p;

        random_program(&r, &p);
        reference_run(&p, &out);
        ended += !out.deadlock;
        deadlocks[p.hold] += out.deadlock;
    }
    CHECK_GT(ended, 100);
    CHECK_GT(deadlocks[false], 5);
    CHECK_GT(deadlocks[true], 20);
}
