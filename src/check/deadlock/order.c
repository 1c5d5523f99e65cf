/* Finds which operators can overlap, and which kinds of cores can be short. */
#include "check/deadlock/flow.h"

/* Above these sizes the result is coarser: operators of different streams count as unordered. */
#define MAX_CLOCKS ((size_t)1 << 25)
#define MAX_PAIRS ((int64_t)1 << 26)

weir_status weir__check_order_init(struct weir__check_order *o, const struct weir__check_rank *rank,
                                   const int *order)
{
    size_t n = (size_t)rank->nops, s = (size_t)rank->nstreams;

    *o = (struct weir__check_order){.nstreams = rank->nstreams};
    if (!n || n > MAX_CLOCKS / s)
        return WEIR_OK;
    if (!(o->clock = weir__calloc(n * s, sizeof *o->clock)))
        return weir__fail_nomem("allocating the order of %d operators", rank->nops);
    for (int i = 0; i < rank->nops; i++) {
        const struct weir__check_op *op = &rank->ops[order[i]];
        int *clock = o->clock + (size_t)order[i] * s;

        for (int j = -1; j < op->nafter; j++) {
            const struct weir__check_op *b;
            const int *other;
            int before;

            if (j < 0 && !op->position)
                continue;
            before = j < 0 ? rank->streams[op->stream].ops[op->position - 1] : op->after[j];
            b = &rank->ops[before];
            other = o->clock + (size_t)before * s;
            for (size_t k = 0; k < s; k++)
                clock[k] = other[k] > clock[k] ? other[k] : clock[k];
            if (clock[b->stream] < b->position + 1)
                clock[b->stream] = b->position + 1;
        }
    }
    return WEIR_OK;
}

void weir__check_order_fini(struct weir__check_order *o)
{
    weir__free(o->clock);
    *o = (struct weir__check_order){0};
}

struct weir__demand weir__check_demand(const struct weir__check_op *op)
{
    int blocks = op->take == WEIR__TAKE_NONE                        ? 0
                 : op->take == WEIR__TAKE_ANY && op->rendezvous < 0 ? 1
                                                                    : op->blocks;

    return (struct weir__demand){blocks * op->cube, blocks * op->vector};
}

/* Sums the demand of operator a and, for each other stream, the largest demand that can overlap
 * with it, per kind of core. For any set of operators that are active together, the sum of each
 * member covers the whole set. So if no sum exceeds the device, no set does. */
static struct weir__demand sum_beside(const struct weir__check_rank *rank,
                                      const struct weir__check_order *order, int a)
{
    struct weir__demand sum = weir__check_demand(&rank->ops[a]);

    for (int s = 0; s < rank->nstreams; s++) {
        struct weir__demand most = {0, 0};

        for (int i = 0; i < rank->streams[s].nops; i++) {
            int b = rank->streams[s].ops[i];
            struct weir__demand d = weir__check_demand(&rank->ops[b]);

            if ((d.cube <= most.cube && d.vector <= most.vector) ||
                !weir__check_beside(order, rank, a, b))
                continue;
            most.cube = d.cube > most.cube ? d.cube : most.cube;
            most.vector = d.vector > most.vector ? d.vector : most.vector;
        }
        sum.cube += most.cube;
        sum.vector += most.vector;
    }
    return sum;
}

/* Sums the largest demand of each stream and ignores the order. `all` counts every core that an
 * operator may take, also those that it can run without. */
static struct weir__demand sum_streams(const struct weir__check_rank *rank, bool all)
{
    struct weir__demand sum = {0, 0};

    for (int s = 0; s < rank->nstreams; s++) {
        struct weir__demand most = {0, 0};

        for (int i = 0; i < rank->streams[s].nops; i++) {
            const struct weir__check_op *op = &rank->ops[rank->streams[s].ops[i]];
            struct weir__demand d = weir__check_demand(op);

            if (all)
                d = (struct weir__demand){op->blocks * op->cube, op->blocks * op->vector};
            most.cube = d.cube > most.cube ? d.cube : most.cube;
            most.vector = d.vector > most.vector ? d.vector : most.vector;
        }
        sum.cube += most.cube;
        sum.vector += most.vector;
    }
    return sum;
}

/* An operator that waits for ever waits for cores that another operator holds for ever. So only the
 * sums of operators that hold cores while they wait count. */
static struct weir__contended find_contended(const struct weir__check_rank *rank,
                                             const struct weir__check_order *order,
                                             enum weir__policy policy)
{
    struct weir__demand sum = sum_streams(rank, false);
    struct weir__contended c = {sum.cube > rank->cube, sum.vector > rank->vector}, found = {0};

    if ((int64_t)rank->nops * rank->nops > MAX_PAIRS)
        return c;
    for (int a = 0; a < rank->nops && (c.cube || c.vector); a++) {
        const struct weir__check_op *op = &rank->ops[a];

        if (!weir__check_holds(op, policy))
            continue;
        sum = sum_beside(rank, order, a);
        found.cube |= op->cube && sum.cube > rank->cube;
        found.vector |= op->vector && sum.vector > rank->vector;
    }
    return found;
}

/* An operator that takes both kinds of cores holds fewer of one kind while the other is short, even
 * if only for a moment, and that decides which other operators get cores. So in a program with such
 * operators a kind counts as contended even if it can be short only for a moment. */
struct weir__contended weir__check_contended(const struct weir__check_rank *rank,
                                             const struct weir__check_order *order,
                                             enum weir__policy policy)
{
    struct weir__contended c = find_contended(rank, order, policy);
    struct weir__demand all = sum_streams(rank, true);
    bool both = false;

    for (int i = 0; i < rank->nops && !both; i++)
        both = rank->ops[i].take != WEIR__TAKE_NONE && rank->ops[i].cube && rank->ops[i].vector;
    if (both && (c.cube || c.vector)) {
        c.cube |= all.cube > rank->cube;
        c.vector |= all.vector > rank->vector;
    }
    return c;
}
