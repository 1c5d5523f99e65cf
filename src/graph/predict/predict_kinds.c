/* Keeps operators with equal demands once: even a million nodes have only a few kinds of
 * operators. */
#include "graph/predict/predict_program.h"

#include <string.h>

static uint32_t hash_op(const struct weir__sim_op *op)
{
    uint64_t h = op->block_ps;

    h = (h ^ op->blocks) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 29 ^ op->rendezvous) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 29 ^ op->launch_ps ^ op->cores) * UINT64_C(0x9e3779b97f4a7c15);
    for (int f = 0; f < WEIR__FLOWS; f++)
        h = (h ^ h >> 29 ^ op->draws[f]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

static bool is_same(const struct weir__sim_op *a, const struct weir__sim_op *b)
{
    return a->block_ps == b->block_ps && a->blocks == b->blocks && a->cores == b->cores &&
           a->rendezvous == b->rendezvous && a->launch_ps == b->launch_ps && a->grant == b->grant &&
           a->comm == b->comm && !memcmp(a->per_block, b->per_block, sizeof a->per_block) &&
           !memcmp(a->draws, b->draws, sizeof a->draws);
}

/* The slot of the operator, or the free slot where it belongs. */
static uint32_t *find_slot(const struct weir__op_kinds *k, const struct weir__sim_op *ops,
                           const struct weir__sim_op *op)
{
    uint32_t at = hash_op(op) & (k->nslots - 1);

    while (k->slots[at] && !is_same(&ops[k->slots[at]], op))
        at = (at + 1) & (k->nslots - 1);
    return &k->slots[at];
}

static bool more_slots(struct weir__op_kinds *k, const struct weir__sim_op *ops)
{
    struct weir__op_kinds more = {.nslots = k->nslots ? 2 * k->nslots : 256};

    if (!(more.slots = weir__calloc(more.nslots, sizeof *more.slots)))
        return false;
    for (int i = 1; i < k->n; i++)
        *find_slot(&more, ops, &ops[i]) = (uint32_t)i;
    weir__free(k->slots);
    k->slots = more.slots;
    k->nslots = more.nslots;
    return true;
}

weir_status weir__op_kinds_keep(struct weir__predict_graph *pg, struct weir__op_kinds *k,
                                const struct weir__sim_op *op, uint32_t *index)
{
    uint32_t *slot;

    if (((uint32_t)k->n * 2 >= k->nslots && !more_slots(k, pg->ops)) ||
        !weir__grow(&pg->ops, k->n, &k->cap, sizeof *pg->ops))
        return weir__fail_nomem("predicting %d nodes", pg->g->nnodes);
    slot = find_slot(k, pg->ops, op);
    if (!*slot) {
        *slot = (uint32_t)k->n;
        pg->ops[k->n++] = *op;
    }
    *index = *slot;
    return WEIR_OK;
}
