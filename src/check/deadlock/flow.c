/* Runs a program as if cores were unlimited: Kahn's algorithm, with rendezvous. */
#include "check/deadlock/flow.h"

weir_status weir__deadlock_init(struct weir__deadlock *deadlock,
                                const struct weir__check_program *p)
{
    int n = 0;

    *deadlock =
        (struct weir__deadlock){weir__calloc((size_t)p->nranks + 1, sizeof *deadlock->first), NULL};
    for (int r = 0; deadlock->first && r < p->nranks; r++) {
        deadlock->first[r] = n;
        n += p->ranks[r].nstreams;
        deadlock->first[r + 1] = n;
    }
    if (!deadlock->first || !(deadlock->heads = weir__calloc((size_t)n, sizeof *deadlock->heads))) {
        weir__deadlock_fini(deadlock);
        return weir__fail_nomem("allocating the heads of %d streams", n);
    }
    return WEIR_OK;
}

void weir__deadlock_fini(struct weir__deadlock *deadlock)
{
    weir__free(deadlock->first);
    weir__free(deadlock->heads);
    *deadlock = (struct weir__deadlock){0};
}

/* base: see weir__check_rank_of */
struct flow {
    const struct weir__check_program *p;
    struct weir__deadlock *deadlock;
    int *base;
    int *missing; /* by operator: predecessors that have not finished */
    int *first;   /* users[first[v] .. first[v+1]-1] wait for v */
    int *users;
    int *arrived; /* by rendezvous */
    int *ready;   /* a stack */
    int nready;
    int **order;
    int *ended; /* by rank */
    int nended;
};

static void end_op(struct flow *f, int r, int op)
{
    const struct weir__check_op *o = &f->p->ranks[r].ops[op];
    int v = f->base[r] + op;

    f->order[r][f->ended[r]++] = op;
    f->nended++;
    f->deadlock->heads[f->deadlock->first[r] + o->stream] =
        (struct weir__deadlock_head){.position = o->position + 1};
    for (int i = f->first[v]; i < f->first[v + 1]; i++)
        if (!--f->missing[f->users[i]])
            f->ready[f->nready++] = f->users[i];
}

static void run_op(struct flow *f, int v)
{
    int r = weir__check_rank_of(f->base, f->p->nranks, v), op = v - f->base[r];
    const struct weir__check_op *o = &f->p->ranks[r].ops[op];

    if (o->rendezvous < 0) {
        end_op(f, r, op);
        return;
    }
    f->deadlock->heads[f->deadlock->first[r] + o->stream].started = true;
    if (++f->arrived[o->rendezvous] < f->p->rendezvous[o->rendezvous].needs)
        return;
    for (int i = 0; i < f->p->nranks; i++)
        if (f->p->rendezvous[o->rendezvous].op[i] >= 0)
            end_op(f, i, f->p->rendezvous[o->rendezvous].op[i]);
}

/* Counts edges in the first call (`place` false), stores them in the second. */
static void link_ops(struct flow *f, int nops, bool place)
{
    for (int r = 0; r < f->p->nranks; r++) {
        const struct weir__check_rank *rank = &f->p->ranks[r];

        for (int i = 0; i < rank->nops; i++) {
            const struct weir__check_op *o = &rank->ops[i];
            int v = f->base[r] + i;

            for (int j = -1; j < o->nafter; j++) {
                int before;

                if (j < 0 && !o->position)
                    continue;
                before = j < 0 ? rank->streams[o->stream].ops[o->position - 1] : o->after[j];
                before += f->base[r];
                if (place)
                    f->users[--f->first[before]] = v;
                else
                    f->first[before]++, f->missing[v]++;
            }
        }
    }
    for (int v = 0; !place && v < nops; v++)
        f->first[v + 1] += f->first[v];
}

static weir_status flow_alloc(struct flow *f, int nops)
{
    const struct weir__check_program *p = f->p;

    f->missing = weir__calloc((size_t)nops, sizeof *f->missing);
    f->first = weir__calloc((size_t)nops + 2, sizeof *f->first);
    f->arrived = weir__calloc((size_t)p->nrendezvous, sizeof *f->arrived);
    f->ready = weir__calloc((size_t)nops, sizeof *f->ready);
    f->ended = weir__calloc((size_t)p->nranks, sizeof *f->ended);
    f->order[0] = weir__calloc((size_t)nops, sizeof **f->order);
    if (!f->missing || !f->first || !f->arrived || !f->ready || !f->ended || !f->order[0])
        return weir__fail_nomem("allocating the order of %d operators", nops);
    for (int r = 1; r < p->nranks; r++)
        f->order[r] = f->order[0] + f->base[r];
    link_ops(f, nops, false);
    if (!(f->users = weir__calloc((size_t)f->first[nops] + 1, sizeof *f->users)))
        return weir__fail_nomem("allocating the edges of %d operators", nops);
    link_ops(f, nops, true);
    return WEIR_OK;
}

weir_status weir__check_flow(const struct weir__check_program *p, struct weir__deadlock *deadlock,
                             int **order, bool *over)
{
    struct flow f = {.p = p, .deadlock = deadlock, .order = order};
    int nops = 0;
    weir_status st;

    *over = false;
    order[0] = NULL;
    if (!(f.base = weir__calloc((size_t)p->nranks + 1, sizeof *f.base)))
        return weir__fail_nomem("allocating the order of %d ranks", p->nranks);
    for (int r = 0; r < p->nranks; r++) {
        f.base[r] = nops;
        nops += p->ranks[r].nops;
    }
    f.base[p->nranks] = nops;
    if (!(st = flow_alloc(&f, nops))) {
        for (int v = 0; v < nops; v++)
            if (!f.missing[v])
                f.ready[f.nready++] = v;
        while (f.nready)
            run_op(&f, f.ready[--f.nready]);
        *over = f.nended == nops;
    }
    weir__free(f.base);
    weir__free(f.missing);
    weir__free(f.first);
    weir__free(f.users);
    weir__free(f.arrived);
    weir__free(f.ready);
    weir__free(f.ended);
    if (st) {
        weir__free(order[0]);
        order[0] = NULL;
    }
    return st;
}
