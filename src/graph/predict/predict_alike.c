/* Ranks that all run one program: each does the same at the same time. */
#include <string.h>

#include "graph/predict/predict_program.h"

/* True if each rank has dies and links of its own and meets all others, so that all ranks arrive at
 * the same time. With a seed, ties are broken at random, and ranks differ. */
bool weir__predict_is_alike(const struct weir__prediction *p,
                            const struct weir__rendezvous_table *rendezvous, uint64_t seed)
{
    if (p->nranks < 2 || p->ngraphs != 1 || seed)
        return false;
    for (uint32_t i = 0; i < rendezvous->count; i++)
        if (rendezvous->sizes[i] != p->nranks)
            return false;
    return true;
}

static void *copy_of(const void *from, size_t size)
{
    void *to = weir__malloc(size ? size : 1);

    return to && size ? memcpy(to, from, size) : to;
}

/* Copies the result of one rank for `nranks` ranks. */
static weir_status multiply(struct weir__replay_result *r, uint32_t nranks,
                            const struct weir__replay_program *program)
{
    struct weir__sim_span **spans = weir__calloc(nranks, sizeof *spans);
    struct weir__replay_stats **streams = weir__calloc(nranks, sizeof *streams);
    struct weir__sim_rank *ranks = weir__calloc(nranks, sizeof *ranks);
    size_t nparts = (size_t)r->nparts * nranks;
    struct weir__replay_part *parts = r->parts ? weir__calloc(nparts + 1, sizeof *parts) : NULL;

    if (!spans || !streams || !ranks || (r->parts && !parts) || nparts > INT32_MAX) {
        weir__free(spans);
        weir__free(streams);
        weir__free(ranks);
        weir__free(parts);
        return weir__fail_nomem("building the programs of %u ranks", nranks);
    }
    streams[0] = r->streams[0];
    spans[0] = r->spans[0];               /* NULL if no spans were requested */
    for (size_t i = 0; i < nparts; i++) { /* keeps the order, by end */
        parts[i] = r->parts[i / nranks];
        parts[i].rank = (uint32_t)(i % nranks);
    }
    weir__free(r->spans);
    weir__free(r->streams);
    weir__free(r->parts);
    for (uint32_t i = 0; i < nranks; i++)
        ranks[i] = r->ranks[0];
    weir__free(r->ranks);
    r->spans = spans;
    r->streams = streams;
    r->ranks = ranks;
    r->parts = parts;
    r->nparts = r->cap_parts = (int)nparts;
    r->nranks = nranks;
    for (uint32_t i = 1; i < nranks; i++) {
        streams[i] = copy_of(streams[0], program->nstreams * sizeof **streams);
        if (spans[0])
            spans[i] = copy_of(spans[0], program->nnodes * sizeof **spans);
        if (!streams[i] || (spans[0] && !spans[i]))
            return weir__fail_nomem("building the programs of %u ranks", nranks);
        for (uint32_t v = 0; spans[0] && v < program->nnodes; v++)
            spans[i][v].cause_rank = i;
    }
    return WEIR_OK;
}

weir_status weir__predict_alike(const struct weir__sim_limits *limits,
                                const struct weir__replay_program *program, uint32_t nranks,
                                uint32_t nrendezvous, const struct weir__replay_options *how,
                                struct weir__replay_result *out)
{
    uint32_t *alone = weir__calloc((size_t)nrendezvous + 1, sizeof *alone);
    weir_status st;

    if (!alone)
        return weir__fail_nomem("predicting %u ranks", nranks);
    for (uint32_t i = 0; i < nrendezvous; i++)
        alone[i] = 1;
    st = weir__replay(limits, &program, 1, alone, nrendezvous, how, out);
    weir__free(alone);
    if (!st && !out->deadlock && (st = multiply(out, nranks, program)))
        weir__replay_fini(out);
    return st;
}
