/* Finds a remedy for a deadlock: tries changes, and reports only a change that is proved to help.
 *
 * The order: a lower core limit for one operator, gangs before collectives; one priority for all
 * streams; an order between two operators; one limit for all operators that block each other.
 */
#include <string.h>

#include "check/deadlock/trial.h"

weir_status weir__prepare(struct weir__trial *out, const struct weir__check_program *p)
{
    int **order = weir__calloc((size_t)p->nranks, sizeof *order);
    weir_status st;

    *out = (struct weir__trial){.over = false};
    if (!order)
        return weir__fail_nomem("allocating the order of %d ranks", p->nranks);
    if (!(st = weir__deadlock_init(&out->deadlock, p)))
        st = weir__check_flow(p, &out->deadlock, order, &out->over);
    if (!st && out->over && !(out->orders = weir__calloc((size_t)p->nranks, sizeof *out->orders)))
        st = weir__fail_nomem("allocating the order of %d ranks", p->nranks);
    for (int r = 0; r < p->nranks && out->orders && !st; r++)
        st = weir__check_order_init(&out->orders[r], &p->ranks[r], order[r]);
    weir__free(order[0]);
    weir__free(order);
    if (st)
        weir__trial_fini(out, p);
    return st;
}

void weir__trial_fini(struct weir__trial *x, const struct weir__check_program *p)
{
    for (int r = 0; x->orders && r < p->nranks; r++)
        weir__check_order_fini(&x->orders[r]);
    weir__free(x->orders);
    weir__deadlock_fini(&x->deadlock);
    *x = (struct weir__trial){.over = false};
}

/* Sets *clean if the program, with the current change, is proved free of deadlock. */
static weir_status is_clean(struct weir__trials *t, bool *clean)
{
    struct weir__trial x;
    weir_status st = weir__prepare(&x, t->p);

    *clean = !st && x.over;
    for (int policy = 0; policy < WEIR__POLICY_COUNT && *clean; policy++) {
        struct weir__budget budget = weir__budget_of(t->max_states, t->steps, "remedies");
        struct weir__exploration e;

        if (!(t->policies >> policy & 1))
            continue;
        st = weir__explore(t->p, x.orders, policy, &budget, false, &e);
        *clean = !st && e.verdict == WEIR__SAFE;
        t->report->public.nstates += t->max_states - budget.states;
        t->steps = budget.steps;
        if (!st)
            weir__exploration_fini(&e);
    }
    weir__trial_fini(&x, t->p);
    return st;
}

/* ---- limits ---- */

static bool is_limited(const struct weir__check_op *op, const char *name)
{
    return op->take != WEIR__TAKE_NONE && op->obeys && !strcmp(op->name, name);
}

/* Limits the operator on every rank to that many blocks. `saved` has room for the limits of all
 * operators. */
static void set_limit(struct weir__check_program *p, const char *name, int blocks, int *saved)
{
    int n = 0;

    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->ranks[r].nops; i++, n++) {
            struct weir__check_op *op = &p->ranks[r].ops[i];

            saved[n] = op->blocks;
            if (is_limited(op, name) && op->blocks > blocks)
                op->blocks = blocks;
        }
}

static void restore_limits(struct weir__check_program *p, const int *saved)
{
    int n = 0;

    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->ranks[r].nops; i++)
            p->ranks[r].ops[i].blocks = saved[n++];
}

/* Returns the most blocks that an operator of this name has; 0 if core limits do not apply. */
static int blocks_of(const struct weir__check_program *p, const char *name)
{
    int most = 0;

    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->ranks[r].nops; i++)
            if (is_limited(&p->ranks[r].ops[i], name) && p->ranks[r].ops[i].blocks > most)
                most = p->ranks[r].ops[i].blocks;
    return most;
}

static weir_status try_limit(struct weir__trials *t, const char *name, int blocks, int *saved,
                             bool *clean)
{
    weir_status st;

    set_limit(t->p, name, blocks, saved);
    st = is_clean(t, clean);
    restore_limits(t->p, saved);
    return st;
}

/* Returns how many blocks fit beside the largest demands of all operators that may hold cores at
 * the same time; the least over all ranks. */
static int safe_blocks(const struct weir__trials *t, const struct weir__trial *x, const char *name)
{
    enum weir__policy policy =
        t->policies & 1u << WEIR__POLICY_HOLD ? WEIR__POLICY_HOLD : WEIR__POLICY_BATCH;
    int least = INT32_MAX;

    for (int r = 0; r < t->p->nranks; r++) {
        const struct weir__check_rank *rank = &t->p->ranks[r];

        for (int a = 0; a < rank->nops; a++) {
            const struct weir__check_op *op = &rank->ops[a];
            struct weir__demand left = {rank->cube, rank->vector};

            if (!is_limited(op, name))
                continue;
            for (int s = 0; s < rank->nstreams; s++) {
                struct weir__demand most = {0, 0};

                for (int i = 0; i < rank->streams[s].nops; i++) {
                    int b = rank->streams[s].ops[i];
                    struct weir__demand d = weir__check_demand(&rank->ops[b]);

                    if (!weir__check_holds(&rank->ops[b], policy) ||
                        !weir__check_beside(&x->orders[r], rank, a, b))
                        continue;
                    most.cube = d.cube > most.cube ? d.cube : most.cube;
                    most.vector = d.vector > most.vector ? d.vector : most.vector;
                }
                left.cube -= most.cube;
                left.vector -= most.vector;
            }
            if (op->cube && left.cube / op->cube < least)
                least = left.cube / op->cube;
            if (op->vector && left.vector / op->vector < least)
                least = left.vector / op->vector;
        }
    }
    return least < 0 ? 0 : least;
}

static const struct weir__check_op *find_limited(const struct weir__check_program *p,
                                                 const char *name)
{
    for (int r = 0; r < p->nranks; r++)
        for (int i = 0; i < p->ranks[r].nops; i++)
            if (is_limited(&p->ranks[r].ops[i], name))
                return &p->ranks[r].ops[i];
    return NULL;
}

static const char *limit_words(struct weir__report *r, const struct weir__check_op *op, int blocks)
{
    int cube = blocks * op->limit_cube, vector = blocks * op->limit_vector;

    if (cube && vector)
        return weir__report_text(r,
                                 "%d cube and %d vector cores (_op_aicore_num, "
                                 "_op_vectorcore_num)",
                                 cube, vector);
    return weir__report_text(r, "%d %s core%s (%s)", cube + vector, cube ? "cube" : "vector",
                             cube + vector == 1 ? "" : "s",
                             cube ? "_op_aicore_num" : "_op_vectorcore_num");
}

static void describe_limit(struct weir__trials *t, const char *name, int blocks, int safe,
                           bool proved, weir_remedy *out)
{
    const struct weir__check_op *op = find_limited(t->p, name);
    const char *next = proved
                           ? weir__report_text(t->report, "; with %d it still can deadlock",
                                               (blocks + 1) * (op->limit_vector ? op->limit_vector
                                                                                : op->limit_cube))
                           : "";
    const char *fits =
        !safe ? ""
              : weir__report_text(t->report,
                                  ". At %s it fits beside all operators that may hold cores "
                                  "meanwhile, whatever the order",
                                  limit_words(t->report, op, safe));

    *out = (weir_remedy){
        .node = weir__report_text(t->report, "%s", name),
        .cube = blocks * op->limit_cube,
        .vector = blocks * op->limit_vector,
        .safe_cube = safe * op->limit_cube,
        .safe_vector = safe * op->limit_vector,
        .text = weir__report_text(t->report, "limit %s to %s%s: proved free of deadlock%s%s", name,
                                  limit_words(t->report, op, blocks),
                                  t->p->nranks > 1 ? " on every rank" : "", next, fits),
    };
}

weir_status weir__find_limit(struct weir__trials *t, const char *name, int most, weir_remedy *out)
{
    struct weir__trial x;
    int n = 0, *saved, safe = 0, blocks;
    bool clean = false, safe_clean = false, skipped = false;
    weir_status st;

    *out = (weir_remedy){.node = NULL};
    for (int r = 0; r < t->p->nranks; r++)
        n += t->p->ranks[r].nops;
    if (!(saved = weir__calloc((size_t)n, sizeof *saved)))
        return weir__fail_nomem("allocating remedies for %d operators", n);
    if (!(st = weir__prepare(&x, t->p))) {
        safe = x.over ? safe_blocks(t, &x, name) : 0;
        weir__trial_fini(&x, t->p);
    }
    if (!st && safe >= 1 && safe <= most)
        st = try_limit(t, name, safe, saved, &safe_clean);
    for (blocks = most; !st && blocks >= 1; blocks--) {
        if (!t->steps) { /* the budget is spent: fall back to the safe value */
            blocks = safe_clean ? safe : 0;
            clean = safe_clean;
            skipped = true;
            break;
        }
        if ((st = try_limit(t, name, blocks, saved, &clean)) || clean)
            break;
    }
    weir__free(saved);
    if (!st && clean)
        describe_limit(t, name, blocks, safe_clean ? safe : 0, !skipped && blocks < most, out);
    return st;
}

/* Tries one limit for all operators together. */
static weir_status limit_all(struct weir__trials *t, const struct weir__lines *names,
                             weir_remedy *out)
{
    struct weir__check_program *p = t->p;
    const char *all = "";
    int n = 0, most = 0, blocks, *saved;
    bool clean = false;
    weir_status st = WEIR_OK;

    for (int r = 0; r < p->nranks; r++)
        n += p->ranks[r].nops;
    if (!(saved = weir__calloc((size_t)n * 2, sizeof *saved)))
        return weir__fail_nomem("allocating remedies for %d operators", n);
    for (int i = 0; i < names->n; i++) {
        all = weir__report_text(t->report, "%s%s%s", all, i ? ", " : "", names->at[i]);
        most = (int)weir__max(most, blocks_of(p, names->at[i]));
    }
    for (blocks = most - 1; blocks >= 1 && t->steps && !st; blocks--) {
        set_limit(p, "", 0, saved); /* no operator is named "": this only saves the limits */
        for (int i = 0; i < names->n; i++)
            set_limit(p, names->at[i], blocks, saved + n);
        st = is_clean(t, &clean);
        restore_limits(p, saved);
        if (clean)
            break;
    }
    weir__free(saved);
    if (!st && clean)
        *out = (weir_remedy){
            .text = weir__report_text(t->report,
                                      "no single change was found that helps; limit each of %s to "
                                      "%d blocks%s: proved free of deadlock",
                                      all, blocks, p->nranks > 1 ? " on every rank" : ""),
        };
    return st;
}

/* ---- other remedies ---- */

static weir_status try_one_priority(struct weir__trials *t, weir_remedy *out)
{
    struct weir__check_program *p = t->p;
    int n = 0, at = 0, *saved;
    bool clean = false, differ = false;
    weir_status st = WEIR_OK;

    for (int r = 0; r < p->nranks; r++)
        n += p->ranks[r].nstreams;
    if (!(saved = weir__calloc((size_t)n, sizeof *saved)))
        return weir__fail_nomem("allocating remedies for %d streams", n);
    for (int r = 0; r < p->nranks; r++)
        for (int s = 0; s < p->ranks[r].nstreams; s++) {
            saved[at++] = p->ranks[r].streams[s].priority;
            differ |= saved[at - 1] != saved[0];
            p->ranks[r].streams[s].priority = 0;
        }
    if (differ)
        st = is_clean(t, &clean);
    for (int r = p->nranks - 1; r >= 0; r--)
        for (int s = p->ranks[r].nstreams - 1; s >= 0; s--)
            p->ranks[r].streams[s].priority = saved[--at];
    weir__free(saved);
    if (!st && clean)
        *out = (weir_remedy){.text = "give all streams the same priority: cores that come free "
                                     "then go to whoever waited longest, and it is proved free of "
                                     "deadlock"};
    return st;
}

static int find_op(const struct weir__check_rank *rank, const char *name)
{
    for (int i = 0; i < rank->nops; i++)
        if (!strcmp(rank->ops[i].name, name))
            return i;
    return -1;
}

/* Tries to run `later` after `first` on every rank that has both. */
static weir_status try_order(struct weir__trials *t, const char *first, const char *later,
                             weir_remedy *out)
{
    struct weir__check_program *p = t->p;
    bool *added = weir__calloc((size_t)p->nranks, sizeof *added), clean = false, any = false;
    weir_status st = WEIR_OK;

    if (!added)
        return weir__fail_nomem("allocating remedies for %d ranks", p->nranks);
    for (int r = 0; r < p->nranks && !st; r++) {
        int a = find_op(&p->ranks[r], first), b = find_op(&p->ranks[r], later);

        if (a < 0 || b < 0 || a == b || p->ranks[r].ops[a].stream == p->ranks[r].ops[b].stream)
            continue;
        if (!(st = weir__check_add_after(&p->ranks[r], b, a)))
            any = added[r] = true;
    }
    if (!st && any)
        st = is_clean(t, &clean);
    for (int r = 0; r < p->nranks; r++)
        if (added[r])
            p->ranks[r].ops[find_op(&p->ranks[r], later)].nafter--;
    weir__free(added);
    if (!st && clean)
        *out = (weir_remedy){
            .node = weir__report_text(t->report, "%s", later),
            .text = weir__report_text(t->report,
                                      "let %s run after %s%s (input: \"^%s\"): proved free of "
                                      "deadlock",
                                      later, first, p->nranks > 1 ? " on every rank" : "", first),
        };
    return st;
}

/* True for a gang that is no collective. Remedies change such gangs first: they cause the block. */
static bool is_gang(const struct weir__check_program *p, const char *name)
{
    for (int r = 0; r < p->nranks; r++) {
        int op = find_op(&p->ranks[r], name);

        if (op >= 0)
            return p->ranks[r].ops[op].rendezvous < 0 &&
                   p->ranks[r].ops[op].take == WEIR__TAKE_GANG;
    }
    return false;
}

weir_status weir__find_remedy(struct weir__trials *t, const struct weir__lines *names,
                              weir_remedy *out)
{
    weir_status st = WEIR_OK;

    *out = (weir_remedy){.node = NULL};
    for (int gang = 1; gang >= 0; gang--)
        for (int i = 0; i < names->n && !st && !out->text; i++) {
            int most = blocks_of(t->p, names->at[i]);

            if (is_gang(t->p, names->at[i]) == gang && most > 1)
                st = weir__find_limit(t, names->at[i], most - 1, out);
        }
    if (!st && !out->text)
        st = try_one_priority(t, out);
    for (int gang = 1; gang >= 0; gang--)
        for (int i = 0; i < names->n; i++)
            for (int j = 0; j < names->n && !st && !out->text; j++)
                if (i != j && is_gang(t->p, names->at[j]) == gang)
                    st = try_order(t, names->at[i], names->at[j], out);
    return st || out->text ? st : limit_all(t, names, out);
}
