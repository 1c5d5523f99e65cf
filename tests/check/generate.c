#include "generate.h"

#include <stdio.h>

#include "harness/test.h"

static unsigned pick(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 10) % n;
}

static void add_demand(unsigned *random, const struct shape *shape, struct weir__check_rank *rank,
                       struct weir__check_op *op)
{
    static const enum weir__check_take takes[] = {WEIR__TAKE_NONE,     WEIR__TAKE_ANY,
                                                  WEIR__TAKE_ANY,      WEIR__TAKE_GANG,
                                                  WEIR__TAKE_TOGETHER, WEIR__TAKE_GANG};
    int most;

    op->take = takes[pick(random, 6)];
    op->obeys = pick(random, 5) > 0;
    if (op->take == WEIR__TAKE_NONE)
        return;
    op->cube = !rank->split || pick(random, 3) == 0;
    op->vector = !op->cube;
    if (shape->mixed && rank->split && rank->vector >= 2 && pick(random, 3) == 0) {
        op->cube = 1;
        op->vector = 2;
    }
    most = op->cube ? rank->cube : rank->vector;
    if (op->vector && rank->vector / op->vector < most)
        most = rank->vector / op->vector;
    op->blocks = 1 + (int)pick(random, (unsigned)most);
    if (pick(random, 4) == 0)
        op->blocks = most;
    op->asked = op->blocks + (op->take == WEIR__TAKE_ANY ? (int)pick(random, 2) : 0);
    op->limit_cube = op->cube;
    op->limit_vector = op->vector;
}

static void add_rank(struct weir__check_program *p, int r, const struct shape *shape,
                     unsigned *random)
{
    struct weir__check_rank *rank = &p->ranks[r];
    int nstreams = 1 + (int)pick(random, (unsigned)shape->streams);
    int nops = 1 + (int)pick(random, (unsigned)shape->ops);

    rank->split = pick(random, 3) > 0;
    rank->cube = 1 + (int)pick(random, (unsigned)shape->cores);
    rank->vector = rank->split ? 1 + (int)pick(random, (unsigned)shape->cores) : rank->cube;
    for (int s = 0; s < nstreams; s++) {
        char name[40];

        snprintf(name, sizeof name, "s%d", s);
        CHECK_GE(
            weir__check_add_stream(rank, name, shape->priorities ? (int)pick(random, 3) - 1 : 0),
            0);
    }
    for (int i = 0; i < nops; i++) {
        static const char *const names[] = {"", "", "", "a", "b", "c"};
        const char *collective = p->nranks > 1 ? names[pick(random, 6)] : "";
        char name[40];
        int op;

        snprintf(name, sizeof name, "op%d", i); /* the same on every rank */
        op = weir__check_add_op(p, r, (int)pick(random, (unsigned)nstreams), name, collective);
        CHECK_EQ(op, i);
        add_demand(random, shape, rank, &rank->ops[op]);
        for (int j = 0; j < i; j++)
            if (pick(random, 6) == 0)
                CHECK_OK(weir__check_add_after(rank, op, j));
    }
}

/* Ranks that lack a collective get one at their end, or most programs would never meet. */
static void even_out(struct weir__check_program *p, const struct shape *shape, unsigned *random)
{
    for (int m = 0; m < p->nrendezvous; m++)
        for (int r = 0; r < p->nranks; r++) {
            struct weir__check_rank *rank = &p->ranks[r];
            char name[40];
            int op;

            if (p->rendezvous[m].op[r] >= 0)
                continue;
            snprintf(name, sizeof name, "late%d", m);
            op = weir__check_add_op(p, r, (int)pick(random, (unsigned)rank->nstreams), name,
                                    p->rendezvous[m].name);
            CHECK_GE(op, 0);
            add_demand(random, shape, rank, &rank->ops[op]);
        }
}

void generate(struct weir__check_program *p, const struct shape *shape, unsigned seed)
{
    unsigned random = seed * 2654435761u + 12345;

    CHECK_OK(weir__check_program_init(p, 1 + (int)pick(&random, (unsigned)shape->ranks)));
    for (int r = 0; r < p->nranks; r++)
        add_rank(p, r, shape, &random);
    if (pick(&random, 10))
        even_out(p, shape, &random);
}

void print_program(const struct weir__check_program *p)
{
    static const char *const takes[] = {"none", "any", "together", "gang"};

    for (int r = 0; r < p->nranks; r++) {
        const struct weir__check_rank *rank = &p->ranks[r];

        printf("rank %d: %d cube, %d vector%s\n", r, rank->cube, rank->vector,
               rank->split ? "" : " (shared)");
        for (int s = 0; s < rank->nstreams; s++)
            printf("  stream %s: priority %d\n", rank->streams[s].name, rank->streams[s].priority);
        for (int i = 0; i < rank->nops; i++) {
            const struct weir__check_op *op = &rank->ops[i];

            printf("  %s on %s: %s, %d blocks of %d+%d%s", op->name, rank->streams[op->stream].name,
                   takes[op->take], op->blocks, op->cube, op->vector,
                   op->asked > op->blocks ? ", in waves" : "");
            if (op->rendezvous >= 0)
                printf(", meets %s[%d]", p->rendezvous[op->rendezvous].name,
                       p->rendezvous[op->rendezvous].k);
            for (int j = 0; j < op->nafter; j++)
                printf("%s%s", j ? ", " : ", after ", rank->ops[op->after[j]].name);
            printf("\n");
        }
    }
}
