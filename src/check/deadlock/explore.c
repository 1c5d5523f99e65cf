/* Explores the orders in which rendezvous can complete, and looks for a deadlock after each.
 *
 * A node holds, for each rank, the set of states that the rank can be in after some sequence of
 * rendezvous. The node has a deadlock if one ending (a state without successors) can be chosen per
 * rank such that some rank is unfinished and no rendezvous has all its ranks waiting for it. */
#include "check/deadlock/explore.h"

#include <string.h>

/* The rendezvous that ranks wait for at a node are bits of one word; choices are bounded. */
enum { MAX_PENDING = 64, MAX_CHOICES = 4096 };

struct node {
    int parent, rendezvous; /* how it was reached */
};

/* One ending for each of the ranks 0..r. */
struct choice {
    uint64_t waiting; /* rendezvous for which all their members among these ranks wait */
    bool unfinished;  /* some of these ranks have not finished */
    int parent, ending;
};

struct explorer {
    const struct weir__check_program *p;
    struct weir__budget *budget;
    struct weir__space *kinds; /* one for all ranks that run the same program */
    int nkinds;
    int *kind_of; /* by rank */
    struct node *nodes;
    int nnodes, cap_nodes;
    int *sets; /* by node, then kind */
    int cap_sets;
    struct weir__index by_node;
    int pending[MAX_PENDING];
    int npending;
    /* choices[first[r] .. first[r+1]-1] are the choices for ranks 0..r */
    struct choice *choices;
    int nchoices, cap_choices;
    int *first;
};

/* ---- nodes ---- */

static bool same_sets(const struct explorer *e, int node, const int *sets)
{
    return !memcmp(e->sets + (size_t)node * (size_t)e->nkinds, sets,
                   (size_t)e->nkinds * sizeof *sets);
}

static uint64_t hash_sets(const struct explorer *e, const int *sets)
{
    uint64_t h = 1;

    for (int k = 0; k < e->nkinds; k++)
        h = (h ^ (unsigned)sets[k]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 31;
    return h;
}

static bool rehash_nodes(struct explorer *e)
{
    struct weir__index *t = &e->by_node;
    size_t mask = t->slots ? 2 * t->mask + 1 : 255;
    uint32_t *slots;

    if (t->slots && (size_t)e->nnodes * 2 <= t->mask)
        return true;
    if (!(slots = weir__calloc(mask + 1, sizeof *slots))) {
        weir__fail_nomem("allocating a table of %zu nodes", mask + 1);
        return false;
    }
    for (int i = 0; i < e->nnodes; i++) {
        size_t at = hash_sets(e, e->sets + (size_t)i * (size_t)e->nkinds) & mask;

        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = (uint32_t)i + 1;
    }
    weir__free(t->slots);
    t->slots = slots;
    t->mask = mask;
    return true;
}

static bool add_node(struct explorer *e, const int *sets, int parent, int rendezvous)
{
    size_t at;

    if (!rehash_nodes(e))
        return false;
    at = hash_sets(e, sets) & e->by_node.mask;
    for (; e->by_node.slots[at]; at = (at + 1) & e->by_node.mask)
        if (same_sets(e, (int)e->by_node.slots[at] - 1, sets))
            return true;
    if (!weir__grow(&e->nodes, e->nnodes, &e->cap_nodes, sizeof *e->nodes) ||
        !weir__grow(&e->sets, e->nnodes, &e->cap_sets, (size_t)e->nkinds * sizeof *e->sets))
        return false;
    e->nodes[e->nnodes] = (struct node){parent, rendezvous};
    memcpy(e->sets + (size_t)e->nnodes * (size_t)e->nkinds, sets, (size_t)e->nkinds * sizeof *sets);
    e->by_node.slots[at] = (uint32_t)++e->nnodes;
    return true;
}

/* True if the rank is a member of the rendezvous. Ranks of one kind have the same memberships. */
static bool belongs(const struct explorer *e, int rank, int rendezvous)
{
    return e->p->rendezvous[rendezvous].op[rank] >= 0;
}

/* Adds the node after the rendezvous, if all its ranks can be waiting for it. */
static bool meet(struct explorer *e, int node, int rendezvous, int *sets)
{
    for (int k = 0; k < e->nkinds; k++) {
        struct weir__space *s = &e->kinds[k];

        sets[k] = e->sets[(size_t)node * (size_t)e->nkinds + (size_t)k];
        if (!belongs(e, s->rank, rendezvous))
            continue;
        sets[k] = weir__space_meet(s, sets[k], rendezvous);
        if (sets[k] < 0)
            return false;
        if (!s->sets[sets[k]].n)
            return true;
    }
    return add_node(e, sets, node, rendezvous);
}

/* ---- endings ---- */

static bool pending_bit(struct explorer *e, int rendezvous, uint64_t *bit)
{
    int i = 0;

    while (i < e->npending && e->pending[i] != rendezvous)
        i++;
    if (i == MAX_PENDING) {
        e->budget->spent = true;
        return false;
    }
    if (i == e->npending)
        e->pending[e->npending++] = rendezvous;
    *bit = UINT64_C(1) << i;
    return true;
}

static bool add_choice(struct explorer *e, int from, struct choice c)
{
    for (int i = from; i < e->nchoices; i++) {
        const struct choice *old = &e->choices[i];

        if (!(old->waiting & ~c.waiting) && old->unfinished >= c.unfinished)
            return true; /* the old choice deadlocks wherever the new one would */
    }
    if (e->nchoices - from >= MAX_CHOICES) {
        e->budget->spent = true;
        return false;
    }
    if (!weir__grow(&e->choices, e->nchoices, &e->cap_choices, sizeof *e->choices))
        return false;
    e->choices[e->nchoices++] = c;
    return true;
}

static const struct weir__set *set_of(const struct explorer *e, int node, int kind)
{
    return &e->kinds[kind].sets[e->sets[(size_t)node * (size_t)e->nkinds + (size_t)kind]];
}

/* Collects every rendezvous that some rank waits for in one of its endings. */
static bool find_pending(struct explorer *e, int node)
{
    for (int k = 0; k < e->nkinds; k++) {
        const struct weir__space *s = &e->kinds[k];
        const struct weir__set *set = set_of(e, node, k);

        for (int i = 0; i < set->nendings; i++) {
            const struct weir__state_info *info = &s->info[s->endings[set->endings + i].state];
            uint64_t bit;

            for (int j = 0; j < info->npend; j++)
                if (!pending_bit(e, s->pend[info->pend + j], &bit))
                    return false;
        }
    }
    return true;
}

/* The pending rendezvous of which the rank is no member; it cannot prevent them. */
static uint64_t foreign_bits(const struct explorer *e, int rank)
{
    uint64_t bits = 0;

    for (int i = 0; i < e->npending; i++)
        if (!belongs(e, rank, e->pending[i]))
            bits |= UINT64_C(1) << i;
    return bits;
}

/* Extends each choice for the ranks before this one by each ending of this rank. */
static bool choose_for(struct explorer *e, int node, int rank)
{
    const int kind = e->kind_of[rank];
    const struct weir__space *s = &e->kinds[kind];
    const struct weir__set *set = set_of(e, node, kind);
    uint64_t foreign = foreign_bits(e, rank);
    int begin = rank ? e->first[rank - 1] : 0, end = rank ? e->first[rank] : 0;

    e->first[rank] = end;
    for (int i = 0; i < set->nendings; i++) {
        const struct weir__ending *ending = &s->endings[set->endings + i];
        const struct weir__state_info *info = &s->info[ending->state];
        struct choice c = {.waiting = foreign,
                           .unfinished = !ending->finished,
                           .parent = -1,
                           .ending = ending->state};

        for (int j = 0; j < info->npend; j++) {
            uint64_t bit;

            if (!pending_bit(e, s->pend[info->pend + j], &bit))
                return false;
            c.waiting |= bit;
        }
        if (!rank && !add_choice(e, end, c))
            return false;
        for (int j = begin; j < end; j++) {
            struct choice both = c;

            both.waiting &= e->choices[j].waiting;
            both.unfinished |= e->choices[j].unfinished;
            both.parent = j;
            if (!add_choice(e, end, both))
                return false;
        }
    }
    e->first[rank + 1] = e->nchoices;
    return true;
}

/* Returns a choice for all ranks that is a deadlock, or -1; -2 on failure. */
static int find_rest(struct explorer *e, int node)
{
    e->npending = e->nchoices = 0;
    if (!find_pending(e, node))
        return -2;
    for (int r = 0; r < e->p->nranks; r++)
        if (!choose_for(e, node, r))
            return -2;
    for (int i = e->first[e->p->nranks - 1]; i < e->nchoices; i++)
        if (!e->choices[i].waiting && e->choices[i].unfinished)
            return i;
    return -1;
}

/* ---- results ---- */

static void fill_deadlock(struct weir__deadlock *deadlock, int rank, const struct weir__slot *slots,
                          int nstreams)
{
    for (int s = 0; s < nstreams; s++)
        deadlock->heads[deadlock->first[rank] + s] = (struct weir__deadlock_head){
            slots[s].position, slots[s].status == WEIR__SLOT_MEET, slots[s].cube, slots[s].vector};
}

static weir_status join_segments(struct weir__trace *all, struct weir__trace *of, int nranks,
                                 int nsegments, const int *rendezvous)
{
    for (int i = 0; i < nsegments; i++) {
        if (i) {
            if (!weir__grow(&all->events, all->nevents, &all->cap_events, sizeof *all->events))
                return WEIR_ENOMEM;
            all->events[all->nevents++] =
                (struct weir__check_event){-1, -1, rendezvous[i - 1], NULL, NULL};
        }
        for (int r = 0; r < nranks; r++) {
            struct weir__trace *part = &of[r * nsegments + i];

            for (int j = 0; j < part->nevents; j++) {
                if (!weir__grow(&all->events, all->nevents, &all->cap_events, sizeof *all->events))
                    return WEIR_ENOMEM;
                all->events[all->nevents++] = part->events[j];
                part->events[j].before = NULL; /* the whole trace owns the slots now */
            }
        }
    }
    return WEIR_OK;
}

/* Replays the rank through the rendezvous of which it is a member, and places the resulting events
 * in the segments of the whole sequence. */
static weir_status replay_rank(struct explorer *e, int rank, const int *rendezvous, int n,
                               int ending, struct weir__trace *segments)
{
    int *own = weir__calloc((size_t)n + 1, sizeof *own), nown = 0;
    int *place = weir__calloc((size_t)n + 1, sizeof *place); /* by part: its segment */
    struct weir__trace *parts = weir__calloc((size_t)n + 1, sizeof *parts);
    weir_status st = WEIR_OK;

    if (!own || !place || !parts)
        st = weir__fail_nomem("allocating the steps of a rank to a deadlock");
    for (int i = 0; i < n && !st; i++)
        if (belongs(e, rank, rendezvous[i])) {
            own[nown++] = rendezvous[i];
            place[nown] = i + 1;
        }
    if (!st)
        st = weir__check_replay(&e->kinds[e->kind_of[rank]], rank, own, nown, ending, parts);
    for (int i = 0; parts && place && i <= nown; i++)
        segments[place[i]] = parts[i];
    weir__free(own);
    weir__free(place);
    weir__free(parts);
    return st;
}

/* Records the timing that leads to the choice at the node. */
static weir_status write_trace(struct explorer *e, int node, int choice,
                               struct weir__exploration *out)
{
    int n = 0, nranks = e->p->nranks, *rendezvous, *ending;
    struct weir__trace *segments = NULL;
    weir_status st = WEIR_OK;

    for (int i = node; e->nodes[i].parent >= 0; i = e->nodes[i].parent)
        n++;
    rendezvous = weir__calloc((size_t)n + 1, sizeof *rendezvous);
    ending = weir__calloc((size_t)nranks, sizeof *ending);
    segments = weir__calloc((size_t)nranks * ((size_t)n + 1), sizeof *segments);
    if (!rendezvous || !ending || !segments)
        st = weir__fail_nomem("allocating the steps of %d ranks to a deadlock", nranks);
    for (int i = node, at = n; !st && at; i = e->nodes[i].parent)
        rendezvous[--at] = e->nodes[i].rendezvous;
    for (int r = nranks - 1; !st && r >= 0; r--, choice = e->choices[choice].parent)
        ending[r] = e->choices[choice].ending;
    if (!st)
        st = weir__deadlock_init(&out->deadlock, e->p);
    for (int r = 0; r < nranks && !st; r++) {
        struct weir__space *s = &e->kinds[e->kind_of[r]];

        fill_deadlock(&out->deadlock, r, weir__space_slots(s, ending[r]), e->p->ranks[r].nstreams);
        st = replay_rank(e, r, rendezvous, n, ending[r], segments + r * (n + 1));
    }
    if (!st)
        st = join_segments(&out->trace, segments, nranks, n + 1, rendezvous);
    for (int i = 0; segments && i < nranks * (n + 1); i++)
        weir__trace_fini(&segments[i]);
    weir__free(segments);
    weir__free(ending);
    weir__free(rendezvous);
    return st;
}

void weir__trace_fini(struct weir__trace *trace)
{
    for (int i = 0; i < trace->nevents; i++)
        weir__free(trace->events[i].before); /* frees `after` too: one allocation holds both */
    weir__free(trace->events);
    *trace = (struct weir__trace){0};
}

void weir__exploration_fini(struct weir__exploration *x)
{
    weir__trace_fini(&x->trace);
    weir__deadlock_fini(&x->deadlock);
}

/* ---- the search ---- */

/* Makes one space per kind of rank. Sets *fits if every kind fits, and *short_of if some rank can
 * be short of cores; if none can, no timing deadlocks. */
static weir_status find_kinds(struct explorer *e, const struct weir__check_order *orders,
                              enum weir__policy policy, bool *fits, bool *short_of)
{
    const struct weir__check_program *p = e->p;

    for (int r = 0; r < p->nranks; r++) {
        bool one_fits;
        int k = 0;

        while (k < e->nkinds && !weir__check_same_rank(p, e->kinds[k].rank, r))
            k++;
        if (k == e->nkinds) {
            struct weir__space *s = &e->kinds[e->nkinds++];
            weir_status st = weir__space_init(s, p, r, &orders[r], policy, e->budget, &one_fits);

            if (st)
                return st;
            *fits &= one_fits;
            *short_of |= s->machine.contended.cube || s->machine.contended.vector;
        }
        e->kind_of[r] = k;
    }
    return WEIR_OK;
}

/* Returns false if memory or the budget ran out. */
static bool search(struct explorer *e, bool trace, struct weir__exploration *out)
{
    int *sets = weir__calloc((size_t)e->nkinds, sizeof *sets), pending[MAX_PENDING];
    bool ok = sets != NULL;

    if (!sets)
        weir__fail_nomem("exploring %d ranks", e->p->nranks);
    for (int k = 0; k < e->nkinds && ok; k++)
        ok = (sets[k] = weir__space_begin(&e->kinds[k])) >= 0;
    ok = ok && add_node(e, sets, -1, -1);
    for (int i = 0; i < e->nnodes && ok; i++) {
        int choice = find_rest(e, i);

        if (choice >= 0) {
            out->verdict = WEIR__DEADLOCKS;
            ok = !trace || !write_trace(e, i, choice, out);
            break;
        }
        ok = choice == -1;
        /* A rank that waits for a rendezvous also waits for it in its ending: the endings name
         * every rendezvous that can complete next. */
        memcpy(pending, e->pending, sizeof pending);
        for (int j = 0, n = e->npending; j < n && ok; j++)
            ok = meet(e, i, pending[j], sets);
    }
    weir__free(sets);
    return ok;
}

weir_status weir__explore(const struct weir__check_program *p,
                          const struct weir__check_order *orders, enum weir__policy policy,
                          struct weir__budget *budget, bool trace, struct weir__exploration *out)
{
    struct explorer e = {.p = p, .budget = budget};
    bool fits = true, short_of = false;
    weir_status st;

    *out = (struct weir__exploration){.verdict = WEIR__SAFE};
    e.kinds = weir__calloc((size_t)p->nranks, sizeof *e.kinds);
    e.kind_of = weir__calloc((size_t)p->nranks, sizeof *e.kind_of);
    e.first = weir__calloc((size_t)p->nranks + 1, sizeof *e.first);
    if (!e.kinds || !e.kind_of || !e.first)
        st = weir__fail_nomem("exploring %d ranks", p->nranks);
    else
        st = find_kinds(&e, orders, policy, &fits, &short_of);
    if (!st && short_of && !fits)
        out->verdict = WEIR__TOO_LARGE;
    else if (!st && short_of && !search(&e, trace, out)) {
        if (budget->spent)
            out->verdict = WEIR__TOO_LARGE;
        else
            st = WEIR_ENOMEM;
    }
    for (int k = 0; k < e.nkinds; k++)
        weir__space_fini(&e.kinds[k]);
    weir__free(e.kinds);
    weir__free(e.kind_of);
    weir__free(e.first);
    weir__free(e.nodes);
    weir__free(e.sets);
    weir__free(e.by_node.slots);
    weir__free(e.choices);
    if (st || out->verdict == WEIR__TOO_LARGE)
        weir__exploration_fini(out);
    return st;
}
