/* Describes the changes in rows, and the gain of each row. */
#include "graph/predict/tune_state.h"

#include <stdlib.h>

#define MOST_ROWS 12 /* rows of one kind, before all nodes share one row */

const char *const weir__tune_kind_names[WEIR__TUNE_KINDS] = {"stream", "order", "priority",
                                                             "limit"};

/* Settings shown together: of one kind, one class (-1: any) and one new value. */
struct row {
    enum weir__tune_kind kind;
    int class, value; /* for PRIORITY: class is the stream */
    int unit;         /* the first unit of the row */
    uint32_t nnodes;
    uint64_t alone, then;
};

struct rows {
    struct row *rows;
    int n, cap;
};

static int at_of(const struct weir__tuner *t, enum weir__tune_kind kind, int unit)
{
    return kind == WEIR__TUNE_STREAM  ? weir__at_stream(t, unit)
           : kind == WEIR__TUNE_LIMIT ? weir__at_limit(t, unit)
                                      : weir__at_shift(t, unit);
}

/* Whether the row covers this setting of the unit. */
static bool covers(const struct weir__tuner *t, const struct row *r, int unit)
{
    int at = at_of(t, r->kind, unit);

    return t->best[at] != t->input[at] &&
           (r->kind == WEIR__TUNE_ORDER || t->best[at] == r->value) &&
           (r->class < 0 || t->units[unit].class == r->class);
}

static weir_status add_row(struct rows *rows, struct row row)
{
    if (!weir__grow(&rows->rows, rows->n, &rows->cap, sizeof *rows->rows))
        return WEIR_ENOMEM;
    rows->rows[rows->n++] = row;
    return WEIR_OK;
}

/* Adds the rows of one kind: one per class, unless those are too many. */
static weir_status add_kind(struct weir__tuner *t, struct rows *rows, enum weir__tune_kind kind)
{
    int first = rows->n;
    weir_status st = WEIR_OK;

    for (bool by_class = kind != WEIR__TUNE_ORDER;; by_class = false) {
        rows->n = first;
        for (int u = 0; u < t->nunits && !st; u++) {
            int at = at_of(t, kind, u), known = first;

            if (t->best[at] == t->input[at])
                continue;
            while (known < rows->n && !covers(t, &rows->rows[known], u))
                known++;
            if (known == rows->n)
                st = add_row(rows, (struct row){.kind = kind,
                                                .class = by_class ? t->units[u].class : -1,
                                                .value = t->best[at],
                                                .unit = u});
            if (!st)
                rows->rows[known].nnodes += (uint32_t)t->units[u].nmembers;
        }
        if (st || !by_class || rows->n - first <= MOST_ROWS)
            return st;
    }
}

static weir_status add_priorities(struct weir__tuner *t, struct rows *rows)
{
    weir_status st = WEIR_OK;

    for (int s = 1; s < t->nstreams && !st; s++) {
        uint32_t n = 0;

        for (int u = 0; u < t->nunits; u++)
            if (t->best[weir__at_stream(t, u)] == s)
                n += (uint32_t)t->units[u].nmembers;
        if (n && t->best[weir__at_priority(t, s)] != t->input[weir__at_priority(t, s)])
            st = add_row(rows, (struct row){.kind = WEIR__TUNE_PRIORITY,
                                            .class = s,
                                            .value = t->best[weir__at_priority(t, s)],
                                            .nnodes = n});
    }
    return st;
}

static void set_row(struct weir__tuner *t, const struct row *r, int *setting)
{
    if (r->kind == WEIR__TUNE_PRIORITY) {
        setting[weir__at_priority(t, r->class)] = r->value;
        return;
    }
    for (int u = 0; u < t->nunits; u++)
        if (covers(t, r, u))
            setting[at_of(t, r->kind, u)] = t->best[at_of(t, r->kind, u)];
}

/* ---- text ---- */

static void add_nodes(struct weir__tuner *t, const struct row *r, struct weir__text *text)
{
    const struct weir__tune_unit *u = &t->units[r->unit];
    int named = 0;

    if (r->nnodes == 1 || (r->nnodes == (uint32_t)u->nmembers && r->class >= 0)) {
        weir__text_add(text, "'%s'", u->name);
        if (u->nmembers > 1)
            weir__text_add(text, " (%d nodes)", u->nmembers);
    } else if (r->class >= 0) {
        weir__text_add(text, "%u nodes like '%s'", r->nnodes, u->pattern);
    } else {
        weir__text_add(text, "%u nodes", r->nnodes);
        for (int i = r->unit; i < t->nunits && named < 3; i++)
            if (covers(t, r, i))
                weir__text_add(text, "%s'%s'", named++ ? ", " : ": ", t->units[i].name);
        if (r->nnodes > 3)
            weir__text_add(text, ", ...");
    }
}

/* Describes the new places of some of the moved nodes: the copies are in the new order. */
static void add_order(struct weir__tuner *t, const struct row *r, struct weir__text *text)
{
    int named = 0, moved = 0;

    for (int u = 0; u < t->nunits; u++) {
        const struct weir__tune_member *m = &t->members[t->units[u].first];
        const weir_graph *g = t->graphs[m->graph].work;
        int shift = t->best[weir__at_shift(t, u)], at = t->graphs[m->graph].at[m->node];

        if (!covers(t, r, u))
            continue;
        moved++;
        if (named == 3)
            continue;
        weir__text_add(text, "%s", named++ ? ", " : "run ");
        if (shift < 0 && at + 1 < g->nnodes)
            weir__text_add(text, "'%s' before '%s'", t->units[u].name, g->nodes[at + 1].name);
        else if (shift > 0 && at)
            weir__text_add(text, "'%s' behind '%s'", t->units[u].name, g->nodes[at - 1].name);
        else
            weir__text_add(text, "'%s' %s", t->units[u].name, shift < 0 ? "last" : "first");
    }
    if (moved > named)
        weir__text_add(text, " and %d more", moved - named);
}

static void describe(struct weir__tuner *t, const struct row *r, struct weir__text *text)
{
    const struct weir__tune_unit *u = &t->units[r->unit];

    switch (r->kind) {
    case WEIR__TUNE_STREAM:
        weir__text_add(text, "move ");
        add_nodes(t, r, text);
        if (r->class >= 0)
            weir__text_add(text, " from '%s'", t->streams[u->stream]);
        weir__text_add(text, " to stream '%s'", t->streams[r->value]);
        break;
    case WEIR__TUNE_ORDER:
        add_order(t, r, text);
        break;
    case WEIR__TUNE_PRIORITY:
        weir__text_add(text, "give stream '%s' priority %d instead of %d", t->streams[r->class],
                       r->value, t->input[weir__at_priority(t, r->class)]);
        break;
    default:
        weir__text_add(text, r->value ? "limit " : "lift the limit of ");
        add_nodes(t, r, text);
        if (r->value)
            weir__text_add(text, " to %d %s cores", r->value, weir_engine_name(u->engine));
        break;
    }
}

static void add_share(struct weir__text *text, uint64_t part, uint64_t whole)
{
    weir__text_add(text, "%.1f %%", 100.0 * (double)part / (double)whole);
}

/* Explains why nothing can be faster than the bound. */
static void add_bound(const struct weir__tuner *t, uint64_t makespan, struct weir__text *text)
{
    if (t->bound.why == WEIR__BOUND_CHAIN)
        weir__text_add(text, "one chain of operators, each needing the one before, takes ");
    else if (t->bound.why == WEIR__BOUND_MEMORY)
        weir__text_add(text, "the memory bandwidth is already full: moving the bytes takes ");
    else
        weir__text_add(text, "the %s is already full: its work alone takes ",
                       t->bound.pool == WEIR__POOL_CUBE     ? "cube"
                       : t->bound.pool == WEIR__POOL_VECTOR ? "vector engine"
                       : t->bound.pool == WEIR__POOL_SDMA   ? "copy engine"
                                                            : "host engine");
    weir__text_add(text, "%.3f us, ", (double)t->bound.ps / 1e6);
    add_share(text, t->bound.ps, makespan);
    weir__text_add(text, " of the makespan");
}

static void add_verdict(const struct weir__tuner *t, struct weir__text *text)
{
    bool tight = (double)t->bound.ps >= 0.95 * (double)t->best_ps;

    if (t->best_ps == WEIR__TUNE_NEVER) {
        weir__text_add(text, "the graph deadlocks, and so does every variant that was tried: "
                             "`weir check` says which limit avoids it");
        return;
    }
    if (t->before == WEIR__TUNE_NEVER) {
        weir__text_add(text, "the graph deadlocked; the tuned one takes %.3f us",
                       (double)t->best_ps / 1e6);
        return;
    }
    if (t->best_ps < t->before) {
        weir__text_add(text, "%.3f us instead of %.3f us: ", (double)t->best_ps / 1e6,
                       (double)t->before / 1e6);
        add_share(text, t->before - t->best_ps, t->before);
        weir__text_add(text, " less");
        if (tight) {
            weir__text_add(text, "; little is left, since ");
            add_bound(t, t->best_ps, text);
        }
        return;
    }
    weir__text_add(text, "streams do not pay here: ");
    if (tight) {
        add_bound(t, t->best_ps, text);
    } else {
        weir__text_add(text, "no variant that was tried is faster than %.3f us",
                       (double)t->before / 1e6);
        if (t->refused)
            weir__text_add(text, ", but for %zu settings that can deadlock", t->refused);
    }
}

/* ---- all rows ---- */

static int by_gain(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->alone != y->alone)
        return x->alone < y->alone ? -1 : 1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind
                              : (x->unit > y->unit) - (x->unit < y->unit);
}

static void measure(struct weir__tuner *t, struct rows *rows)
{
    for (int i = 0; i < rows->n; i++) {
        weir__tune_copy(t, t->now, t->input);
        set_row(t, &rows->rows[i], t->now);
        rows->rows[i].alone = weir__tune_try(t, t->now);
    }
    if (rows->n)
        qsort(rows->rows, (size_t)rows->n, sizeof *rows->rows, by_gain);
    weir__tune_copy(t, t->now, t->input);
    for (int i = 0; i < rows->n; i++) {
        set_row(t, &rows->rows[i], t->now);
        rows->rows[i].then = weir__tune_try(t, t->now);
    }
}

static weir_status write_down(struct weir__tuner *t, const struct rows *rows,
                              struct weir__tuned *out)
{
    struct weir__text text = {0};

    out->changes = weir__calloc((size_t)rows->n + 1, sizeof *out->changes);
    if (!out->changes)
        return weir__fail_nomem("listing the changes of a tuning");
    for (int i = 0; i < rows->n; i++) {
        const struct row *r = &rows->rows[i];

        text = (struct weir__text){0};
        describe(t, r, &text);
        out->changes[out->nchanges++] =
            (struct weir__tune_change){r->kind, text.data, r->nnodes, r->alone, r->then};
        if (text.failed)
            return weir__fail_nomem("listing the changes of a tuning");
    }
    text = (struct weir__text){0};
    add_verdict(t, &text);
    out->verdict = text.data;
    return text.failed ? weir__fail_nomem("listing the results of a tuning") : WEIR_OK;
}

weir_status weir__tune_explain(struct weir__tuner *t, struct weir__tuned *out)
{
    struct rows rows = {0};
    weir_status st;

    if (!(st = add_kind(t, &rows, WEIR__TUNE_STREAM)) &&
        !(st = add_kind(t, &rows, WEIR__TUNE_ORDER)) && !(st = add_priorities(t, &rows)) &&
        !(st = add_kind(t, &rows, WEIR__TUNE_LIMIT))) {
        measure(t, &rows);
        if (!(st = t->status) && !(st = weir__tune_apply(t, t->best)))
            st = write_down(t, &rows, out);
    }
    weir__free(rows.rows);
    return st;
}
