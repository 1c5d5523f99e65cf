/* The speed at which the modelled machine replays kernels. */
#include "bench/weir/works.h"

#include <stdlib.h>

#include "sim/replay.h"

struct model {
    const struct bench *b;
    struct weir__replay_program program;
};

static double replay_once(void *ctx)
{
    const struct model *m = ctx;
    const struct weir__replay_program *program = &m->program;
    const struct weir__sim_limits limits = {.cores = {24, 48, 8, 4}, .hold = true};
    const struct weir__replay_options options = {.spans = true};
    struct weir__replay_result result;
    double start = bench_now_ns(), took;

    weir__bench_must(m->b, weir__replay(&limits, &program, 1, NULL, 0, &options, &result));
    took = bench_now_ns() - start;
    weir__replay_fini(&result);
    return took / program->nnodes;
}

/* Two streams of cube and vector kernels that take turns; every eighth waits for the other
 * stream. */
static void sample(struct bench *b, uint32_t n)
{
    static const struct weir__sim_op ops[] = {
        {.per_block = {1}, .blocks = 24, .cores = 24, .block_ps = 3000000},
        {.per_block = {0, 1}, .blocks = 96, .cores = 48, .block_ps = 1000000},
    };
    struct weir__replay_node *nodes = calloc(n, sizeof *nodes);
    struct weir__replay_wait *waits = calloc(n, sizeof *waits);
    uint32_t *order = calloc(n, sizeof *order), nwaits = 0;
    struct weir__replay_stream streams[2];
    struct model m = {.b = b};

    if (!nodes || !waits || !order)
        exit(1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t stream = i % 2, position = i / 2;

        order[stream * (n / 2) + position] = i;
        nodes[i] = (struct weir__replay_node){.op = i / 3 % 2, .waits = nwaits};
        if (i % 8 == 5) {
            waits[nwaits++] = (struct weir__replay_wait){1 - stream, position - 1};
            nodes[i].nwaits = 1;
        }
    }
    for (uint32_t s = 0; s < 2; s++)
        streams[s] = (struct weir__replay_stream){"stream", 0, order + s * (n / 2), n / 2};
    m.program = (struct weir__replay_program){nodes, n, waits, ops, streams, 2};
    bench_sample(b, "weir", "ns", 1, replay_once, &m);
    free(nodes);
    free(waits);
    free(order);
}

void weir__bench_model_1m(struct bench *b)
{
    sample(b, 1000000);
}

void weir__bench_model_10m(struct bench *b)
{
    sample(b, b->quick ? 2000000 : 10000000);
}
