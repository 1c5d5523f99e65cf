/* Finds the cycle of waits in a deadlock. */
#include "check/deadlock/story.h"

/* base: see weir__check_rank_of */
struct search {
    const struct weir__check_program *p;
    const struct weir__deadlock *deadlock;
    int *base;
    struct visit {
        int search, from; /* the last search that visited it, and its predecessor there */
        int why;
    } * visits;
    int *queue;
    int n;
    int search, root;
};

static const struct weir__deadlock_head *head_of(const struct search *s, int rank, int stream)
{
    return &s->deadlock->heads[s->deadlock->first[rank] + stream];
}

static bool is_over(const struct weir__check_program *p, const struct weir__deadlock *deadlock,
                    int rank, int op)
{
    const struct weir__check_op *o = &p->ranks[rank].ops[op];

    return deadlock->heads[deadlock->first[rank] + o->stream].position > o->position;
}

bool weir__deadlock_is_ready(const struct weir__check_program *p,
                             const struct weir__deadlock *deadlock, int rank, int op)
{
    const struct weir__check_op *o = &p->ranks[rank].ops[op];

    for (int i = 0; i < o->nafter; i++)
        if (!is_over(p, deadlock, rank, o->after[i]))
            return false;
    return deadlock->heads[deadlock->first[rank] + o->stream].position == o->position;
}

/* True if the search has returned to its root. */
static bool reach(struct search *s, int from, int rank, int op, int why)
{
    int v = s->base[rank] + op;

    if (s->visits[v].search == s->search && v != s->root)
        return false;
    if (v == s->root) {
        s->visits[v].from = from;
        s->visits[v].why = why;
        return true;
    }
    s->visits[v] = (struct visit){s->search, from, why};
    s->queue[s->n++] = v;
    return false;
}

static bool reach_others(struct search *s, int v, int rank, const struct weir__check_op *o)
{
    const struct weir__check_rendezvous *m = &s->p->rendezvous[o->rendezvous];

    for (int r = 0; r < s->p->nranks; r++) {
        int other = m->op[r];

        if (r == rank || other < 0)
            continue;
        if (weir__deadlock_head_op(s->p, s->deadlock, r, s->p->ranks[r].ops[other].stream) ==
                other &&
            head_of(s, r, s->p->ranks[r].ops[other].stream)->started)
            continue;
        if (reach(s, v, r, other, WEIR__WAIT_RENDEZVOUS))
            return true;
    }
    return false;
}

/* Counts the cores that streams other than `a` and `b` hold. */
static int held_by_others(const struct search *s, int rank, int a, int b, bool cube)
{
    int n = 0;

    for (int t = 0; t < s->p->ranks[rank].nstreams; t++)
        if (t != a && t != b)
            n += cube ? head_of(s, rank, t)->cube : head_of(s, rank, t)->vector;
    return n;
}

static bool reach_holders(struct search *s, int v, int rank, const struct weir__check_op *o)
{
    const struct weir__check_rank *r = &s->p->ranks[rank];
    const struct weir__deadlock_head *own = head_of(s, rank, o->stream);
    int blocks = o->take == WEIR__TAKE_ANY ? 1 : o->blocks;
    int cube = r->cube - blocks * o->cube + own->cube;
    int vector = r->vector - blocks * o->vector + own->vector;

    /* Free cores minus the cores it still needs: a negative kind is short. */
    for (int t = 0; t < r->nstreams; t++) {
        cube -= head_of(s, rank, t)->cube;
        vector -= head_of(s, rank, t)->vector;
    }
    /* First pass: only holders without whose cores the operator cannot start. */
    for (int must = 1; must >= 0; must--) {
        bool any = false;

        for (int t = 0; t < r->nstreams; t++) {
            const struct weir__deadlock_head *head = head_of(s, rank, t);
            int others_cube = held_by_others(s, rank, t, o->stream, true);
            int others_vector = held_by_others(s, rank, t, o->stream, false);

            if (t == o->stream ||
                !((cube < 0 && head->cube && (!must || cube + others_cube < 0)) ||
                  (vector < 0 && head->vector && (!must || vector + others_vector < 0))))
                continue;
            any = true;
            if (reach(s, v, rank, weir__deadlock_head_op(s->p, s->deadlock, rank, t),
                      WEIR__WAIT_CORES))
                return true;
        }
        if (any)
            return false;
    }
    return false;
}

/* Visits every operator that v waits for. */
static bool reach_from(struct search *s, int v)
{
    int rank = weir__check_rank_of(s->base, s->p->nranks, v), op = v - s->base[rank];
    const struct weir__check_op *o = &s->p->ranks[rank].ops[op];
    const struct weir__deadlock_head *head = head_of(s, rank, o->stream);

    if (head->position < o->position)
        return reach(s, v, rank, weir__deadlock_head_op(s->p, s->deadlock, rank, o->stream),
                     WEIR__WAIT_BEHIND);
    if (weir__deadlock_is_ready(s->p, s->deadlock, rank, op))
        return head->started ? reach_others(s, v, rank, o) : reach_holders(s, v, rank, o);
    for (int i = 0; i < o->nafter; i++)
        if (!is_over(s->p, s->deadlock, rank, o->after[i]) &&
            reach(s, v, rank, o->after[i], WEIR__WAIT_AFTER))
            return true;
    return false;
}

/* Returns the length of the shortest cycle through v, 0 if there is none. */
static int search_from(struct search *s, int v)
{
    int length = 0;

    s->root = v;
    s->search++;
    s->n = 0;
    s->visits[v].search = s->search;
    s->queue[s->n++] = v;
    for (int i = 0; i < s->n; i++)
        if (reach_from(s, s->queue[i])) {
            int at = v;

            do {
                at = s->visits[at].from;
                length++;
            } while (at != v);
            return length;
        }
    return 0;
}

/* Copies the cycle through v that the last search found, starting at v. */
static weir_status keep_cycle(struct search *s, int v, int length, struct weir__cycle *out)
{
    int at = v;

    if (!(out->waits = weir__calloc((size_t)length, sizeof *out->waits)))
        return weir__fail_nomem("allocating a cycle of %d waits", length);
    out->n = length;
    for (int i = length - 1; i >= 0; i--) {
        int why = s->visits[at].why, rank;

        at = s->visits[at].from;
        rank = weir__check_rank_of(s->base, s->p->nranks, at);
        out->waits[i] = (struct weir__check_wait){rank, at - s->base[rank], why};
    }
    return WEIR_OK;
}

weir_status weir__deadlock_cycle(const struct weir__check_program *p,
                                 const struct weir__deadlock *deadlock, struct weir__cycle *out)
{
    const int plenty = 512; /* searches; after that, any cycle found so far is short enough */
    struct search s = {.p = p, .deadlock = deadlock};
    int n = 0, best = 0, best_at = -1, tried = 0;
    weir_status st = WEIR_OK;

    *out = (struct weir__cycle){NULL, 0};
    if ((s.base = weir__calloc((size_t)p->nranks + 1, sizeof *s.base)))
        for (int r = 0; r < p->nranks; r++)
            s.base[r + 1] = n += p->ranks[r].nops;
    s.visits = weir__calloc((size_t)n, sizeof *s.visits);
    s.queue = weir__calloc((size_t)n, sizeof *s.queue);
    if (!s.base || !s.visits || !s.queue)
        st = weir__fail_nomem("allocating a cycle among %d operators", n);
    for (int r = 0; r < p->nranks && !st; r++)
        for (int t = 0; t < p->ranks[r].nstreams && (tried < plenty || !best); t++) {
            int op = weir__deadlock_head_op(p, deadlock, r, t), length;

            if (op < 0)
                continue;
            tried++;
            length = search_from(&s, s.base[r] + op);
            if (length && (!best || length < best)) {
                best = length;
                best_at = s.base[r] + op;
            }
        }
    if (!st && best) {
        search_from(&s, best_at);
        st = keep_cycle(&s, best_at, best, out);
    }
    weir__free(s.base);
    weir__free(s.visits);
    weir__free(s.queue);
    return st;
}
