/* The rules of the modelled device (docs/deadlocks.md), with nothing left out: no
 * reduction, no shortcut, all ranks in one state, every block that ends is a step. */
#include "brute.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_OPS = 40, MAX_RENDEZVOUS = 16 };

enum phase { NOT_ARRIVED, WAITING, STARTED, ENDED };

struct state {
    unsigned char phase[MAX_OPS];
    unsigned char cube[MAX_OPS], vector[MAX_OPS]; /* cores it holds */
    unsigned char queue[MAX_OPS]; /* place in the queue of its rank, from 1; 0 if not in it */
    unsigned char met[MAX_RENDEZVOUS];
};

struct brute_run {
    const struct weir__check_program *p;
    enum weir__policy policy;
    int first[MAX_OPS]; /* of each rank's operators */
    struct state *seen; /* hashed, open addressing */
    char *used;
    int mask, nseen, most;
    struct state *stack;
    int nstack, cap_stack;
    enum brute result;
};

static const struct weir__check_op *op_at(const struct brute_run *b, int rank, int op)
{
    return &b->p->ranks[rank].ops[op];
}

static void queue_join(const struct brute_run *b, struct state *s, int rank, int op)
{
    int last = 0, first = b->first[rank];

    for (int i = 0; i < b->p->ranks[rank].nops; i++)
        if (s->queue[first + i] > last)
            last = s->queue[first + i];
    s->queue[first + op] = (unsigned char)(last + 1);
}

static void queue_leave(const struct brute_run *b, struct state *s, int rank, int op)
{
    int first = b->first[rank], place = s->queue[first + op];

    s->queue[first + op] = 0;
    for (int i = 0; place && i < b->p->ranks[rank].nops; i++)
        if (s->queue[first + i] > place)
            s->queue[first + i]--;
}

static void count_free(const struct brute_run *b, const struct state *s, int rank, int *cube,
                       int *vector)
{
    const struct weir__check_rank *r = &b->p->ranks[rank];

    *cube = r->cube;
    *vector = r->vector;
    for (int i = 0; i < r->nops; i++) {
        *cube -= s->cube[b->first[rank] + i];
        *vector -= s->vector[b->first[rank] + i];
    }
}

/* Gives one operator what its kind takes of the free cores. */
static void serve_one(const struct brute_run *b, struct state *s, int rank, int o)
{
    const struct weir__check_op *op = &b->p->ranks[rank].ops[o];
    int v = b->first[rank] + o, cube, vector;
    int all_cube = op->blocks * op->cube, all_vector = op->blocks * op->vector;
    bool has_all;

    count_free(b, s, rank, &cube, &vector);
    if (op->take == WEIR__TAKE_ANY) {
        while (s->cube[v] + s->vector[v] < all_cube + all_vector && cube >= op->cube &&
               vector >= op->vector) {
            s->cube[v] = (unsigned char)(s->cube[v] + op->cube);
            s->vector[v] = (unsigned char)(s->vector[v] + op->vector);
            cube -= op->cube;
            vector -= op->vector;
        }
    } else if (op->take == WEIR__TAKE_GANG && b->policy == WEIR__POLICY_HOLD) {
        for (; s->cube[v] < all_cube && cube > 0; cube--)
            s->cube[v]++;
        for (; s->vector[v] < all_vector && vector > 0; vector--)
            s->vector[v]++;
    } else if (cube >= all_cube && vector >= all_vector) {
        s->cube[v] = (unsigned char)all_cube;
        s->vector[v] = (unsigned char)all_vector;
    }
    has_all = s->cube[v] == all_cube && s->vector[v] == all_vector;
    if (has_all || (op->take == WEIR__TAKE_ANY && s->cube[v] + s->vector[v] > 0))
        s->phase[v] = STARTED;
    if (has_all && op->asked <= op->blocks)
        queue_leave(b, s, rank, o);
}

/* Gives free cores to the queue, most urgent first, then oldest first. */
static void serve(const struct brute_run *b, struct state *s, int rank)
{
    const struct weir__check_rank *r = &b->p->ranks[rank];
    int order[MAX_OPS], n = 0, first = b->first[rank];

    for (int i = 0; i < r->nops; i++)
        if (s->queue[first + i])
            order[n++] = i;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            int a = order[i], c = order[j];
            int pa = r->streams[r->ops[a].stream].priority;
            int pc = r->streams[r->ops[c].stream].priority;

            if (pc < pa || (pc == pa && s->queue[first + c] < s->queue[first + a])) {
                order[i] = c;
                order[j] = a;
            }
        }
    for (int i = 0; i < n; i++)
        serve_one(b, s, rank, order[i]);
}

static bool may_arrive(const struct brute_run *b, const struct state *s, int rank, int op)
{
    const struct weir__check_rank *r = &b->p->ranks[rank];
    const struct weir__check_op *o = &r->ops[op];

    for (int i = 0; i < r->nops; i++)
        if (r->ops[i].stream == o->stream && r->ops[i].position < o->position &&
            s->phase[b->first[rank] + i] != ENDED)
            return false;
    for (int i = 0; i < o->nafter; i++)
        if (s->phase[b->first[rank] + o->after[i]] != ENDED)
            return false;
    return true;
}

/* A block ends and its cores are free. If blocks are left to start, which being in the
 * queue says, the operator competes for them; if it gets them back the block that starts
 * with them may be its last. */
static bool end_block(const struct brute_run *b, struct state *s, int rank, int op)
{
    const struct weir__check_op *o = op_at(b, rank, op);
    struct state before = *s;
    int v = b->first[rank] + op;

    if (!s->cube[v] && !s->vector[v])
        return false;
    s->cube[v] = (unsigned char)(s->cube[v] - o->cube);
    s->vector[v] = (unsigned char)(s->vector[v] - o->vector);
    if (!s->queue[v] && !s->cube[v] && !s->vector[v])
        s->phase[v] = ENDED;
    serve(b, s, rank);
    if (!memcmp(&before, s, sizeof before))
        queue_leave(b, s, rank, op);
    return true;
}

/* The next thing that this operator can do, done to *s. */
static bool advance(const struct brute_run *b, struct state *s, int rank, int op)
{
    const struct weir__check_op *o = op_at(b, rank, op);
    int v = b->first[rank] + op;

    if (s->phase[v] == NOT_ARRIVED && may_arrive(b, s, rank, op)) {
        if (o->take == WEIR__TAKE_NONE) {
            s->phase[v] = STARTED;
            return true;
        }
        s->phase[v] = WAITING;
        queue_join(b, s, rank, op);
        serve(b, s, rank);
        return true;
    }
    if (s->phase[v] != STARTED || (o->rendezvous >= 0 && !s->met[o->rendezvous]))
        return false;
    if (o->take == WEIR__TAKE_ANY)
        return end_block(b, s, rank, op);
    s->cube[v] = s->vector[v] = 0;
    s->phase[v] = ENDED;
    serve(b, s, rank);
    return true;
}

static bool meets(const struct brute_run *b, struct state *s, int rendezvous)
{
    if (s->met[rendezvous])
        return false;
    for (int r = 0; r < b->p->nranks; r++) {
        int op = b->p->rendezvous[rendezvous].op[r];

        if (op < 0 || s->phase[b->first[r] + op] != STARTED)
            return false;
    }
    s->met[rendezvous] = 1;
    return true;
}

static void push(struct brute_run *b, const struct state *s)
{
    unsigned long h = 1469598103934665603ul;
    const unsigned char *bytes = (const unsigned char *)s;
    int at;

    for (size_t i = 0; i < sizeof *s; i++)
        h = (h ^ bytes[i]) * 1099511628211ul;
    for (at = (int)(h >> 20 & (unsigned long)b->mask); b->used[at]; at = (at + 1) & b->mask)
        if (!memcmp(&b->seen[at], s, sizeof *s))
            return;
    if (b->nseen == b->most) {
        b->result = BRUTE_TOO_LARGE;
        return;
    }
    b->used[at] = 1;
    b->seen[at] = *s;
    b->nseen++;
    b->stack[b->nstack++] = *s;
}

static bool is_over(const struct brute_run *b, const struct state *s)
{
    for (int r = 0; r < b->p->nranks; r++)
        for (int i = 0; i < b->p->ranks[r].nops; i++)
            if (s->phase[b->first[r] + i] != ENDED)
                return false;
    return true;
}

static void visit(struct brute_run *b, const struct state *s)
{
    bool moved = false;

    for (int r = 0; r < b->p->nranks; r++)
        for (int i = 0; i < b->p->ranks[r].nops; i++) {
            struct state next = *s;

            if (advance(b, &next, r, i)) {
                moved = true;
                push(b, &next);
            }
        }
    for (int i = 0; i < b->p->nrendezvous; i++) {
        struct state next = *s;

        if (meets(b, &next, i)) {
            moved = true;
            push(b, &next);
        }
    }
    if (!moved && !is_over(b, s))
        b->result = BRUTE_DEADLOCKS;
}

enum brute brute_force(const struct weir__check_program *p, enum weir__policy policy, int most)
{
    struct brute_run b = {.p = p, .policy = policy, .most = most, .mask = 1};
    struct state start = {0};
    int n = 0;

    for (int r = 0; r < p->nranks; r++) {
        b.first[r] = n;
        n += p->ranks[r].nops;
    }
    if (n > MAX_OPS || p->nrendezvous > MAX_RENDEZVOUS)
        return BRUTE_TOO_LARGE;
    while (b.mask < 2 * most)
        b.mask = 2 * b.mask + 1;
    b.seen = malloc((size_t)(b.mask + 1) * sizeof *b.seen);
    b.used = calloc((size_t)b.mask + 1, 1);
    b.stack = malloc((size_t)most * sizeof *b.stack);
    if (!b.seen || !b.used || !b.stack)
        abort();
    push(&b, &start);
    while (b.nstack && b.result == BRUTE_SAFE) {
        struct state s = b.stack[--b.nstack];

        visit(&b, &s);
    }
    free(b.seen);
    free(b.used);
    free(b.stack);
    return b.result;
}
