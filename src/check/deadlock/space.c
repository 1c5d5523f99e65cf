#include "check/deadlock/space.h"

#include <stdlib.h>
#include <string.h>

#include "base/progress.h"

/* ---- tables ---- */

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 29;
}

static uint64_t hash_bytes(const void *data, size_t size)
{
    const unsigned char *at = data;
    uint64_t h = size;

    for (size_t i = 0; i < size; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return mix(h);
}

/* Makes room for one more entry. `hash_of` returns the hash of a number in the table. */
static bool index_reserve(struct weir__index *t, uint64_t (*hash_of)(const void *owner, int i),
                          const void *owner)
{
    struct weir__index bigger = {.n = t->n};

    if (t->slots && (size_t)t->n * 2 <= t->mask)
        return true;
    bigger.mask = t->slots ? 2 * t->mask + 1 : 255;
    if (!(bigger.slots = weir__calloc(bigger.mask + 1, sizeof *bigger.slots))) {
        weir__fail_nomem("allocating a table of %zu states", bigger.mask + 1);
        return false;
    }
    for (size_t i = 0; t->slots && i <= t->mask; i++)
        if (t->slots[i]) {
            size_t at = hash_of(owner, (int)t->slots[i] - 1) & bigger.mask;

            while (bigger.slots[at])
                at = (at + 1) & bigger.mask;
            bigger.slots[at] = t->slots[i];
        }
    weir__free(t->slots);
    *t = bigger;
    return true;
}

static void index_put(struct weir__index *t, uint64_t hash, int number)
{
    size_t at = hash & t->mask;

    while (t->slots[at])
        at = (at + 1) & t->mask;
    t->slots[at] = (uint32_t)number + 1;
    t->n++;
}

/* Iterates over the candidates for a hash; other hashes may be among them. */
#define INDEX_EACH(t, hash, at, number)                                                           \
    for (size_t at = (hash) & (t)->mask; (t)->slots && (t)->slots[at]; at = (at + 1) & (t)->mask) \
        for (int number = (int)(t)->slots[at] - 1, once_ = 1; once_; once_ = 0)

/* ---- states ---- */

static size_t state_bytes(const struct weir__space *s)
{
    return (size_t)s->machine.rank->nstreams * sizeof(struct weir__slot);
}

static uint64_t hash_state(const void *owner, int state)
{
    const struct weir__space *s = owner;

    return hash_bytes(weir__space_slots(s, state), state_bytes(s));
}

static bool spend(size_t *left, size_t amount, struct weir__budget *budget)
{
    if (*left < amount) {
        budget->spent = true;
        return false;
    }
    *left -= amount;
    return true;
}

/* Counts one visit, and reports the progress now and then. */
static bool spend_step(struct weir__budget *b)
{
    const size_t often = 1 << 12;

    if (!spend(&b->steps, 1, b))
        return false;
    if (b->steps % often == 0) {
        double states = 1 - (double)b->states / (double)b->all_states;
        double steps = 1 - (double)b->steps / (double)b->all_steps;

        weir__progress_report(b->doing, states > steps ? states : steps);
    }
    return true;
}

/* Returns the number of the state; adds the state if it is new. */
static int intern_state(struct weir__space *s, const struct weir__slot *slots)
{
    size_t bytes = state_bytes(s);
    uint64_t hash = hash_bytes(slots, bytes);

    INDEX_EACH(&s->by_state, hash, at, state)
    if (!memcmp(weir__space_slots(s, state), slots, bytes))
        return state;
    if (!spend(&s->budget->states, 1 + bytes / 256, s->budget) ||
        !index_reserve(&s->by_state, hash_state, s) ||
        !weir__grow(&s->states, s->nstates, &s->cap_states, bytes) ||
        !weir__grow(&s->info, s->nstates, &s->cap_info, sizeof *s->info))
        return -1;
    memcpy(s->states + (size_t)s->nstates * bytes, slots, bytes);
    s->info[s->nstates] = (struct weir__state_info){.nsucc = -1};
    index_put(&s->by_state, hash, s->nstates);
    return s->nstates++;
}

/* Finds the successors of the state, and the rendezvous that the rank waits for in it. */
static bool expand(struct weir__space *s, int state)
{
    const struct weir__machine *m = &s->machine;
    struct weir__slot slots[256];
    int first = s->nsucc, pend = s->npend;

    if (s->info[state].nsucc >= 0)
        return true;
    for (int i = 0; i < m->rank->nstreams; i++) {
        int to;

        memcpy(slots, weir__space_slots(s, state), state_bytes(s));
        if (slots[i].status == WEIR__SLOT_MEET) {
            if (!weir__grow(&s->pend, s->npend, &s->cap_pend, sizeof *s->pend))
                return false;
            s->pend[s->npend++] = m->rank->ops[weir__machine_head(m, slots, i)].rendezvous;
            continue;
        }
        if (!weir__machine_move(m, slots, i))
            continue;
        if ((to = intern_state(s, slots)) < 0 ||
            !weir__grow(&s->succ, s->nsucc, &s->cap_succ, sizeof *s->succ))
            return false;
        s->succ[s->nsucc++] = (struct weir__succ){to, i};
    }
    s->info[state].succ = first;
    s->info[state].nsucc = s->nsucc - first;
    s->info[state].pend = pend;
    s->info[state].npend = s->npend - pend;
    return true;
}

int weir__space_first(struct weir__space *s)
{
    struct weir__slot slots[256];

    weir__machine_start(&s->machine, slots);
    return intern_state(s, slots);
}

int weir__space_after(struct weir__space *s, int state, int rendezvous)
{
    struct weir__slot slots[256];
    int op = s->p->rendezvous[rendezvous].op[s->rank];

    memcpy(slots, weir__space_slots(s, state), state_bytes(s));
    weir__machine_meet(&s->machine, slots, s->machine.rank->ops[op].stream);
    return intern_state(s, slots);
}

/* ---- walks ---- */

static bool enqueue(struct weir__space *s, int state, int from, int *n, int **came, int *cap_came)
{
    if (s->info[state].visited == s->walks)
        return true;
    if (!spend_step(s->budget) || !weir__grow(&s->queue, *n, &s->cap_queue, sizeof *s->queue) ||
        (came && !weir__grow(came, *n, cap_came, sizeof **came)))
        return false;
    s->info[state].visited = s->walks;
    if (came)
        (*came)[*n] = from;
    s->queue[(*n)++] = state;
    return true;
}

int weir__space_walk(struct weir__space *s, const int *seeds, int nseeds, int **came, int *cap_came)
{
    int n = 0;

    s->walks++;
    for (int i = 0; i < nseeds; i++)
        if (!enqueue(s, seeds[i], -1, &n, came, cap_came))
            return -1;
    for (int i = 0; i < n; i++) {
        int state = s->queue[i];

        if (!expand(s, state))
            return -1;
        for (int j = 0; j < s->info[state].nsucc; j++)
            if (!enqueue(s, s->succ[s->info[state].succ + j].state, i, &n, came, cap_came))
                return -1;
    }
    return n;
}

/* ---- sets ---- */

static uint64_t hash_set(const void *owner, int set)
{
    const struct weir__space *s = owner;

    return hash_bytes(s->members + s->sets[set].first, (size_t)s->sets[set].n * sizeof *s->members);
}

static bool same_pend(const struct weir__space *s, int a, int b)
{
    const struct weir__state_info *x = &s->info[a], *y = &s->info[b];

    return x->npend == y->npend && (!x->npend || !memcmp(s->pend + x->pend, s->pend + y->pend,
                                                         (size_t)x->npend * sizeof *s->pend));
}

static bool is_finished(const struct weir__space *s, int state)
{
    const struct weir__slot *slots = weir__space_slots(s, state);

    for (int i = 0; i < s->machine.rank->nstreams; i++)
        if (slots[i].position < s->machine.rank->streams[i].nops)
            return false;
    return true;
}

static bool add_ending(struct weir__space *s, struct weir__set *set, int state)
{
    bool finished = is_finished(s, state);

    for (int i = 0; i < set->nendings; i++) {
        const struct weir__ending *e = &s->endings[set->endings + i];

        if (e->finished == finished && same_pend(s, e->state, state))
            return true;
    }
    if (!weir__grow(&s->endings, s->nendings, &s->cap_endings, sizeof *s->endings))
        return false;
    s->endings[s->nendings++] = (struct weir__ending){state, finished};
    set->nendings++;
    return true;
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* Returns the set of the n states in the queue; adds the set if it is new. */
static int intern_set(struct weir__space *s, int n)
{
    size_t bytes = (size_t)n * sizeof *s->queue;
    struct weir__set set = {.first = s->nmembers, .n = n, .endings = s->nendings};
    uint64_t hash;

    if (n)
        qsort(s->queue, (size_t)n, sizeof *s->queue, by_number);
    hash = hash_bytes(s->queue, bytes);
    INDEX_EACH(&s->by_set, hash, at, known)
    if (s->sets[known].n == n &&
        (!n || !memcmp(s->members + s->sets[known].first, s->queue, bytes)))
        return known;
    if (!index_reserve(&s->by_set, hash_set, s) ||
        !weir__grow(&s->sets, s->nsets, &s->cap_sets, sizeof *s->sets))
        return -1;
    for (int i = 0; i < n; i++) {
        if (!weir__grow(&s->members, s->nmembers, &s->cap_members, sizeof *s->members))
            return -1;
        s->members[s->nmembers++] = s->queue[i];
        if (!s->info[s->queue[i]].nsucc && !add_ending(s, &set, s->queue[i]))
            return -1;
    }
    s->sets[s->nsets] = set;
    index_put(&s->by_set, hash, s->nsets);
    return s->nsets++;
}

int weir__space_begin(struct weir__space *s)
{
    int first = weir__space_first(s), n;

    if (first < 0 || (n = weir__space_walk(s, &first, 1, NULL, NULL)) < 0)
        return -1;
    return intern_set(s, n);
}

static uint64_t hash_step(int from, int rendezvous)
{
    return mix((uint64_t)(unsigned)from << 32 | (unsigned)rendezvous);
}

static uint64_t hash_known_step(const void *owner, int step)
{
    const struct weir__space *s = owner;

    return hash_step(s->steps[step].from, s->steps[step].rendezvous);
}

/* Collects the states directly after the rendezvous: the seeds of the next walk. */
static int seed_rendezvous(struct weir__space *s, int set, int rendezvous, int **seeds)
{
    int n = 0, cap = 0;

    for (int i = 0; i < s->sets[set].n; i++) {
        int state = s->members[s->sets[set].first + i];

        if (!weir__space_waits_for(s, state, rendezvous))
            continue;
        if (!spend_step(s->budget) || !weir__grow(seeds, n, &cap, sizeof **seeds) ||
            ((*seeds)[n++] = weir__space_after(s, state, rendezvous)) < 0)
            return -1;
    }
    return n;
}

int weir__space_meet(struct weir__space *s, int set, int rendezvous)
{
    uint64_t hash = hash_step(set, rendezvous);
    int *seeds = NULL, n, to = -1;

    INDEX_EACH(&s->by_step, hash, at, step)
    if (s->steps[step].from == set && s->steps[step].rendezvous == rendezvous)
        return s->steps[step].to;
    if ((n = seed_rendezvous(s, set, rendezvous, &seeds)) >= 0 &&
        (n = weir__space_walk(s, seeds, n, NULL, NULL)) >= 0)
        to = intern_set(s, n);
    weir__free(seeds);
    if (to < 0 || !index_reserve(&s->by_step, hash_known_step, s) ||
        !weir__grow(&s->steps, s->nsteps, &s->cap_steps, sizeof *s->steps))
        return -1;
    s->steps[s->nsteps] = (struct weir__space_step){set, rendezvous, to};
    index_put(&s->by_step, hash, s->nsteps);
    s->nsteps++;
    return to;
}

weir_status weir__space_init(struct weir__space *s, const struct weir__check_program *p, int rank,
                             const struct weir__check_order *order, enum weir__policy policy,
                             struct weir__budget *budget, bool *fits)
{
    *s = (struct weir__space){.p = p, .rank = rank, .budget = budget};
    return weir__machine_init(&s->machine, &p->ranks[rank], order, policy, fits);
}

void weir__space_fini(struct weir__space *s)
{
    weir__machine_fini(&s->machine);
    weir__free(s->states);
    weir__free(s->info);
    weir__free(s->succ);
    weir__free(s->pend);
    weir__free(s->by_state.slots);
    weir__free(s->sets);
    weir__free(s->members);
    weir__free(s->endings);
    weir__free(s->by_set.slots);
    weir__free(s->steps);
    weir__free(s->by_step.slots);
    weir__free(s->queue);
}
