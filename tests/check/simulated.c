/* Every program that deadlocks on the modelled device was reported by the checker. */
#include "graph/predict/predict.h"
#include "helpers.h"

static unsigned next(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 11) % n;
}

/* Up to three streams of Kernel nodes; every rank meets at "a" and "b". `times` decides how
 * long they take, and nothing else. */
static void write_rank(char *text, size_t size, unsigned seed, unsigned times)
{
    static const char *const engines[] = {"vector", "vector", "vector", "cube", "mix"};
    bool met[2] = {false, false};
    unsigned state = seed * 7919u + 17, *random = &state;
    size_t at = 0;

    times += seed;

    for (int i = 0; i < 6; i++) {
        unsigned kind = next(random, 4);
        const char *collective = kind == 0 && !met[0] ? "a" : kind == 1 && !met[1] ? "b" : "";

        if (i >= 4)
            collective = !met[i - 4] ? (i == 4 ? "a" : "b") : "";
        if (*collective)
            met[*collective - 'a'] = true;
        at += (size_t)snprintf(text + at, size - at, "node { name: 'n%d' op: 'Kernel' ", i);
        if (i && next(random, 3) == 0)
            at +=
                (size_t)snprintf(text + at, size - at, "input: '^n%u' ", next(random, (unsigned)i));
        at += (size_t)snprintf(
            text + at, size - at,
            "attr { key: 'engine' value { s: '%s' } } attr { key: 'blocks' value { i: %u } } "
            "attr { key: '%s' value { f: %u } } attr { key: 'gang' value { b: %s } } "
            "attr { key: 'collective' value { s: '%s' } } "
            "attr { key: '_user_stream_label' value { s: 's%u' } } "
            "attr { key: '_user_stream_priority' value { i: 0 } } }\n",
            *collective ? "vector" : engines[next(random, 5)], 4 + 4 * next(random, 6),
            next(random, 4) ? "us_per_block" : "us", 1 + next(&times, 40),
            next(random, 2) ? "true" : "false", collective, next(random, 3));
    }
}

static void add_ranks(struct ranks *r, const char *spec, unsigned seed, unsigned times)
{
    char text[8192];

    ranks_open(r, spec);
    for (unsigned rank = 0; rank < 2; rank++) {
        write_rank(text, sizeof text, 2 * seed + rank, times);
        ranks_add(r, text);
    }
}

/* Every other timing has its ties drawn by lot. */
static bool simulate(const char *policy, unsigned seed, unsigned times)
{
    struct weir__predict_options options = {.makespan_only = true};
    struct weir__prediction prediction;
    struct ranks r;
    char spec[80];
    bool deadlock;

    snprintf(spec, sizeof spec, "npu:a2,overhead=off,policy=%s,seed=%u", policy,
             times % 2 ? 1 + seed + times : 0);
    add_ranks(&r, spec, seed, times);
    CHECK_OK(weir__predict(r.graphs, 2, &options, &prediction));
    deadlock = prediction.run.deadlock;
    weir__prediction_fini(&prediction);
    ranks_close(&r);
    return deadlock;
}

static void compare(const char *policy, unsigned count)
{
    const weir_check_options options = {.policies = !strcmp(policy, "hold") ? WEIR_POLICY_HOLD
                                                                            : WEIR_POLICY_BATCH};
    unsigned deadlocks = 0, said = 0;

    count /= TEST_SLOWDOWN;
    for (unsigned seed = 0; seed < count; seed++) {
        weir_check_report *report;
        struct ranks r;

        add_ranks(&r, "npu:a2", seed, 0);
        report = ranks_check(&r, &options);
        ranks_close(&r);
        said += report->nerrors > 0;
        for (unsigned times = 0; times < 8; times++)
            if (simulate(policy, seed, times)) {
                deadlocks++;
                test_note("program %u, times %u", seed, times);
                CHECK_GT(report->nerrors, 0);
            }
        weir_check_free(report);
    }
    printf("%u deadlocks ran, %u programs of %u can\n", deadlocks, said, count);
    CHECK_GT(deadlocks, 0);
    CHECK_LT(said, count);
}

TEST(simulated, deadlocks_under_hold_were_predicted)
{
    compare("hold", 200);
}

TEST(simulated, deadlocks_under_batch_were_predicted)
{
    compare("batch", 200);
}
