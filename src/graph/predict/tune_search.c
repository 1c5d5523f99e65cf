/* The search: good starting points, then one class at a time, then random steps. Finally every
 * change without a gain is undone. */
#include "graph/predict/tune_state.h"

#include <math.h>

#define WORTH_IT 10000     /* changes that together gain less than 1/WORTH_IT are dropped */
#define CHECK_STATES 20000 /* limit of the checker's states, for each new best */
#define STEPS_LEAST 3000   /* random steps */
#define STEPS_MOST 40000
#define STEPS_PER_UNIT 40
#define ROUNDS 3          /* through all classes */
#define WARMTH 0.02       /* share of the makespan: how much worse a random step may be at first */
#define SEARCH_SHARE 0.85 /* share of the budget, before changes are undone */
#define RANDOM_SHARE 0.7  /* the same, until the random steps end */

uint64_t weir__tune_draw(struct weir__tuner *t, uint64_t n)
{
    uint64_t x = t->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % n;
}

/* Asks the checker about the present copies. *safe: they have no more errors than the best setting.
 * Returns true if the input deadlocks and they have fewer errors, which counts as an
 * improvement. */
static bool is_safer(struct weir__tuner *t, bool *safe)
{
    const char *method;
    size_t errors;
    bool safer;

    *safe = false;
    if ((t->status = weir__tune_check(t, CHECK_STATES, &errors, &method)))
        return false;
    *safe = errors <= t->best_errors;
    if (t->before != WEIR__TUNE_NEVER) {
        t->refused += !*safe;
        return false;
    }
    safer = errors < t->best_errors;
    t->best_errors = *safe ? errors : t->best_errors;
    return safer;
}

bool weir__tune_offer(struct weir__tuner *t, const int *setting, bool equal, uint64_t *ps)
{
    uint64_t took = weir__tune_try(t, setting);
    bool better = took < t->best_ps || (equal && took <= t->enough_ps), safe = true;

    if (ps)
        *ps = took;
    if (took == WEIR__TUNE_NEVER || (!better && t->before != WEIR__TUNE_NEVER))
        return false;
    if (t->risky)
        better |= is_safer(t, &safe);
    if (!better || !safe)
        return false;
    weir__tune_copy(t, t->best, setting);
    t->best_ps = took;
    return true;
}

static bool is_optimal(const struct weir__tuner *t)
{
    return t->best_ps <= t->bound.ps && !t->best_errors;
}

static bool goes_on(struct weir__tuner *t)
{
    return !is_optimal(t) && weir__tune_goes_on(t, SEARCH_SHARE);
}

/* The streams that a unit may go to: those of the files, the new ones in use, and one more. */
static int open_streams(const struct weir__tuner *t, const int *setting)
{
    int last = t->nfiled - 1;

    for (int u = 0; u < t->nunits; u++)
        if (setting[weir__at_stream(t, u)] > last)
            last = setting[weir__at_stream(t, u)];
    return last + 2 < t->nstreams ? last + 2 : t->nstreams;
}

/* The i-th count worth trying as a limit; 0 past the last. */
static int limit_at(const struct weir__tune_unit *u, int i)
{
    static const struct {
        int share, of;
    } parts[] = {{3, 4}, {2, 3}, {1, 2}, {1, 3}, {1, 4}, {1, 6}, {1, 8}};

    if (i >= (int)weir__countof(parts))
        return 0;
    return (int)weir__max(1, u->most * parts[i].share / parts[i].of);
}
enum { NLIMITS = 7 };

/* ---- one class at a time ---- */

static bool set_class(struct weir__tuner *t, int class, int stream, int limit)
{
    bool any = false;

    weir__tune_copy(t, t->now, t->best);
    for (int u = 0; u < t->nunits; u++) {
        const struct weir__tune_unit *unit = &t->units[u];

        if (unit->class != class)
            continue;
        if (stream >= 0 && unit->moves) {
            any |= t->now[weir__at_stream(t, u)] != stream;
            t->now[weir__at_stream(t, u)] = stream;
        }
        if (limit >= 0 && unit->limits) {
            t->now[weir__at_limit(t, u)] = limit_at(unit, limit);
            any = true;
        }
    }
    return any;
}

static bool climb_class(struct weir__tuner *t, int class)
{
    bool better = false;
    int n = open_streams(t, t->best);

    for (int s = 0; s < n && goes_on(t); s++)
        if (set_class(t, class, s, -1))
            better |= weir__tune_offer(t, t->now, false, NULL);
    for (int i = 0; i < NLIMITS && goes_on(t); i++)
        if (set_class(t, class, -1, i))
            better |= weir__tune_offer(t, t->now, false, NULL);
    return better;
}

static bool climb_priorities(struct weir__tuner *t)
{
    bool better = false;

    for (int s = 1; s < t->nstreams; s++)
        for (int p = -2; p <= 2 && t->priority_open[s] && goes_on(t); p++) {
            weir__tune_copy(t, t->now, t->best);
            t->now[weir__at_priority(t, s)] = p;
            better |= weir__tune_offer(t, t->now, false, NULL);
        }
    return better;
}

static void climb(struct weir__tuner *t)
{
    bool better = true;

    for (int round = 0; round < ROUNDS && better && goes_on(t); round++) {
        better = climb_priorities(t);
        for (int class = 0; class < t->nclasses && goes_on(t); class ++) {
            better |= climb_class(t, class);
            t->share = 0.05 + 0.3 * (round + (double)(class + 1) / t->nclasses) / ROUNDS;
        }
    }
}

/* ---- random steps ---- */

static void move_unit(struct weir__tuner *t, int *s, int u)
{
    if (t->units[u].moves)
        s[weir__at_stream(t, u)] = (int)weir__tune_draw(t, (uint64_t)open_streams(t, s));
}

static void move_class(struct weir__tuner *t, int *s, int like)
{
    int to = (int)weir__tune_draw(t, (uint64_t)open_streams(t, s));

    for (int u = 0; u < t->nunits; u++)
        if (t->units[u].class == t->units[like].class && t->units[u].moves)
            s[weir__at_stream(t, u)] = to;
}

/* Moves the unit to directly before or behind another node. */
static void shift_unit(struct weir__tuner *t, int *s, int u)
{
    const struct weir__tune_member *m = &t->members[t->units[u].first];
    int n = t->graphs[m->graph].from->nnodes;
    int far = n < 64 || !weir__tune_draw(t, 4) ? n : 16;
    int shift = (int)weir__tune_draw(t, 2 * (uint64_t)far + 1) - far;

    if (m->node + shift >= -1 && m->node + shift <= n)
        s[weir__at_shift(t, u)] = shift;
}

static void limit_units(struct weir__tuner *t, int *s, int like)
{
    bool all = weir__tune_draw(t, 2), keep = !weir__tune_draw(t, 3);
    int which = (int)weir__tune_draw(t, NLIMITS);

    for (int u = 0; u < t->nunits; u++)
        if (t->units[u].limits && (u == like || (all && t->units[u].class == t->units[like].class)))
            s[weir__at_limit(t, u)] = keep ? WEIR__TUNE_KEEP : limit_at(&t->units[u], which);
}

static void step(struct weir__tuner *t, int *s)
{
    int u = (int)weir__tune_draw(t, (uint64_t)t->nunits);
    int stream = (int)weir__tune_draw(t, (uint64_t)t->nstreams);
    uint64_t which = weir__tune_draw(t, 100);

    if (which < 40)
        move_unit(t, s, u);
    else if (which < 50)
        move_class(t, s, u);
    else if (which < 80 && !t->options->keep_order)
        shift_unit(t, s, u);
    else if (which < 90 && t->priority_open[stream])
        s[weir__at_priority(t, stream)] = (int)weir__tune_draw(t, 5) - 2;
    else
        limit_units(t, s, u);
}

static int64_t count_steps(const struct weir__tuner *t)
{
    int64_t n = weir__min(STEPS_MOST, weir__max(STEPS_LEAST, STEPS_PER_UNIT * (int64_t)t->nunits));
    double left = RANDOM_SHARE * (double)t->options->trials - (double)t->tried;

    return t->options->trials ? weir__max(8, weir__min(n, (int64_t)left)) : n;
}

/* Simulated annealing: also takes steps that make it worse, ever more seldom, and returns to the
 * best from time to time. */
static void wander(struct weir__tuner *t)
{
    int64_t n = count_steps(t);
    int *next = weir__malloc(t->nsettings * sizeof *next);
    uint64_t now_ps = t->best_ps, ps;

    if (!next) {
        t->status = weir__fail_nomem("searching over %d nodes", t->nunits);
        return;
    }
    weir__tune_copy(t, t->now, t->best);
    for (int64_t i = 0; i < n && goes_on(t); i++) {
        double left = 1 - (double)i / (double)n;
        double warmth = WARMTH * (double)t->best_ps * left * left;

        t->share = 0.35 + 0.5 * (1 - left);
        if (i % (n / 8) == 0) {
            weir__tune_copy(t, t->now, t->best);
            now_ps = t->best_ps;
        }
        weir__tune_copy(t, next, t->now);
        for (uint64_t k = 1 + weir__tune_draw(t, 2); k; k--)
            step(t, next);
        if (!memcmp(next, t->now, t->nsettings * sizeof *next))
            continue;
        weir__tune_offer(t, next, false, &ps);
        if (ps != WEIR__TUNE_NEVER &&
            (ps <= now_ps || (double)weir__tune_draw(t, 1 << 20) / (1 << 20) <
                                 exp(-(double)(ps - now_ps) / (warmth + 1)))) {
            weir__tune_copy(t, t->now, next);
            now_ps = ps;
        }
    }
    weir__free(next);
}

/* ---- undoing ---- */

/* Undoes settings [from, to) of the class (-1: any) if that costs nothing. */
static void take_back(struct weir__tuner *t, int from, int to, int class)
{
    bool any = false;

    weir__tune_copy(t, t->now, t->best);
    for (int i = from; i < to; i++) {
        int unit = i % t->nunits;

        if (class >= 0 && t->units[unit].class != class)
            continue;
        any |= t->now[i] != t->input[i];
        t->now[i] = t->input[i];
    }
    if (any && weir__tune_goes_on(t, 1))
        weir__tune_offer(t, t->now, true, NULL);
}

static void take_back_all(struct weir__tuner *t)
{
    int n = t->nunits;

    t->enough_ps = t->best_ps;
    if (t->before != WEIR__TUNE_NEVER) /* never slower than the input */
        t->enough_ps =
            (uint64_t)weir__min((int64_t)(t->best_ps + t->best_ps / WORTH_IT), (int64_t)t->before);
    take_back(t, 2 * n, 3 * n, -1); /* limits first: they slow their operator down wherever it
                                     * runs */
    take_back(t, n, 2 * n, -1);
    take_back(t, 0, n, -1);
    for (int s = 0; s < t->nstreams; s++) {
        int at = weir__at_priority(t, s);

        weir__tune_copy(t, t->now, t->best);
        t->now[at] = t->input[at];
        if (t->best[at] != t->input[at] && weir__tune_goes_on(t, 1))
            weir__tune_offer(t, t->now, true, NULL);
    }
    for (int kind = 2; kind >= 0; kind--) {
        for (int class = 0; class < t->nclasses && weir__tune_goes_on(t, 1); class ++)
            take_back(t, kind * n, (kind + 1) * n, class);
        for (int u = 0; u < n && weir__tune_goes_on(t, 1); u++)
            take_back(t, kind * n + u, kind * n + u + 1, -1);
        t->share = 0.85 + 0.05 * (3 - kind);
    }
}

void weir__tune_search(struct weir__tuner *t)
{
    t->random = t->options->seed;
    if (!t->nunits)
        return;
    if (goes_on(t))
        weir__tune_seeds(t);
    t->share = 0.05;
    climb(t);
    wander(t);
    climb(t); /* what random steps have not tried around the best */
    take_back_all(t);
}
