/* Resolves names to nodes, and finds an order in which each node comes after the nodes it needs. */
#include <stdio.h>
#include <string.h>

#include "graph/file/pbtxt_load.h"

/* ---- names ---- */

struct slot {
    int node;     /* its number + 1; 0 is empty */
    uint32_t tag; /* hash of its name: names with different tags differ, so they need no
                   * comparison */
};

struct names {
    struct slot *slots;
    size_t mask;
    uint64_t seed;
};

static uint64_t hash(const struct names *t, const char *name)
{
    uint64_t h = t->seed;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
    return h;
}

/* The node's slot, or the empty slot where it belongs, with its tag set. */
static struct slot *find(const struct names *t, const struct weir__pb_file *f, const char *name)
{
    uint64_t h = hash(t, name);
    uint32_t tag = (uint32_t)(h >> 32);
    size_t i = (size_t)h & t->mask;

    while (t->slots[i].node &&
           (t->slots[i].tag != tag || strcmp(f->nodes[t->slots[i].node - 1].name, name)))
        i = (i + 1) & t->mask;
    if (!t->slots[i].node)
        t->slots[i].tag = tag;
    return &t->slots[i];
}

static weir_status add_names(struct names *t, const struct weir__pb_file *f)
{
    for (int i = 0; i < f->nnodes; i++) {
        struct slot *slot = find(t, f, f->nodes[i].name);
        size_t line, column;

        if (slot->node) {
            weir__pb_place(&f->text, f->nodes[slot->node - 1].at, &line, &column);
            return weir__pb_fail(&f->text, WEIR_EINVAL, f->nodes[i].at,
                                 "there is a node '%.80s' already, at %zu:%zu", f->nodes[i].name,
                                 line, column);
        }
        slot->node = i + 1;
    }
    return WEIR_OK;
}

static weir_status resolve_refs(const struct names *t, struct weir__pb_file *f, bool lenient)
{
    for (int i = 0; i < f->nnodes; i++)
        for (int j = 0; j < f->nodes[i].nrefs; j++) {
            struct weir__pb_ref *ref = &f->refs[f->nodes[i].refs + j];

            if (ref->kind == WEIR__PB_ABSENT)
                continue;
            ref->node = find(t, f, ref->name)->node;
            if (!ref->node && !(lenient && ref->kind == WEIR__PB_CONTROL))
                return weir__pb_fail(&f->text, WEIR_EINVAL, ref->at,
                                     "node '%.80s': no node is called '%.80s'", f->nodes[i].name,
                                     ref->name);
            ref->node--;
        }
    return WEIR_OK;
}

weir_status weir__pb_resolve(struct weir__pb_file *f, bool lenient)
{
    size_t size = 16;
    struct names t;
    weir_status st;

    while (size < 2 * (size_t)f->nnodes)
        size *= 2;
    /* The author of a file cannot know this seed, so names cannot be made to collide. */
    t = (struct names){.mask = size - 1, .seed = (uintptr_t)f->nodes ^ (uintptr_t)&t};
    if (!(t.slots = weir__calloc(size, sizeof *t.slots)))
        return weir__fail_nomem("%s: allocating the names of %d nodes", f->text.where, f->nnodes);
    if (!(st = add_names(&t, f)))
        st = resolve_refs(&t, f, lenient);
    if (!st)
        weir__pb_file_share_names(f);
    weir__free(t.slots);
    return st;
}

/* ---- order ---- */

struct walk {
    int *stack;  /* the path of the search: each node is needed by the one below it */
    int *cursor; /* by node: how many of its needs were visited; -1: not begun, nrefs + 2: done */
    int *before; /* by node: the previous node with the same stream label; -1: none */
    int depth;
};

static weir_status report_cycle(const struct weir__pb_file *f, const struct walk *w, int node)
{
    const int most = 8;
    char path[8 * 90 + 16];
    size_t at = 0;
    int first = w->depth - 1, n;

    while (w->stack[first] != node)
        first--;
    n = w->depth - first;
    for (int i = 0; i < n && i < most; i++)
        at += (size_t)snprintf(path + at, sizeof path - at, "'%.80s' needs ",
                               f->nodes[w->stack[first + i]].name);
    return weir__pb_fail(&f->text, WEIR_EINVAL, f->nodes[node].at,
                         "%d nodes form a cycle: %s%s'%.80s'", n, path,
                         n > most ? "... needs " : "", f->nodes[node].name);
}

static bool is_done(const struct weir__pb_file *f, const struct walk *w, int node)
{
    return w->cursor[node] > f->nodes[node].nrefs + 1;
}

/* The next need of the node: first the previous node on its stream, then the nodes it names. -1 if
 * this one is empty. */
static int next_need(const struct weir__pb_file *f, struct walk *w, int node)
{
    int at = w->cursor[node]++;

    return at ? f->refs[f->nodes[node].refs + at - 1].node : w->before[node];
}

/* Adds `root` and what it needs to the order. */
static weir_status visit(const struct weir__pb_file *f, struct walk *w, int root, int *order,
                         int *count)
{
    w->stack[w->depth++] = root;
    w->cursor[root] = 0;
    while (w->depth) {
        int node = w->stack[w->depth - 1];
        int next;

        if (w->cursor[node] == f->nodes[node].nrefs + 1) {
            w->cursor[node]++;
            order[(*count)++] = node;
            w->depth--;
            continue;
        }
        next = next_need(f, w, node);
        if (next < 0 || is_done(f, w, next))
            continue;
        if (w->cursor[next] >= 0)
            return report_cycle(f, w, next);
        w->cursor[next] = 0;
        w->stack[w->depth++] = next;
    }
    return WEIR_OK;
}

/* GIVEN: inputs, whose order callers rely on, and constants. RUNS: operators. NAMES: nodes that
 * only refer to results of other nodes. */
enum role { GIVEN, RUNS, NAMES, ROLES };

static enum role role_of(const struct weir__pb_node *n)
{
    static const struct {
        const char *op;
        enum role role;
    } known[] = {{"Placeholder", GIVEN}, {"Data", GIVEN},     {"Arg", GIVEN},
                 {"Const", GIVEN},       {"Constant", GIVEN}, {"ConstPlaceHolder", GIVEN},
                 {"View", NAMES},        {"Identity", NAMES}, {"NetOutput", NAMES}};

    for (size_t i = 0; i < weir__countof(known); i++)
        if (!strcmp(n->op, known[i].op))
            return known[i].role;
    return RUNS;
}

/* Visits nodes role by role. Otherwise a NAMES node early in the file would pull an operator ahead
 * of in-place updates that the file has before it. */
static weir_status visit_all(const struct weir__pb_file *f, struct walk *w, int *order)
{
    weir_status st = WEIR_OK;
    int count = 0;

    w->depth = 0;
    for (int i = 0; i < f->nnodes; i++)
        w->cursor[i] = -1;
    for (int role = 0; role < ROLES; role++)
        for (int i = 0; i < f->nnodes && !st; i++)
            if (w->cursor[i] < 0 && (int)role_of(&f->nodes[i]) == role)
                st = visit(f, w, i, order, &count);
    return st;
}

weir_status weir__pb_labels(struct weir__pb_file *f, int *same)
{
    struct names t = {.mask = 15};
    const char **label = weir__calloc((size_t)f->nnodes + 1, sizeof *label);
    weir_status st = WEIR_OK;

    while (t.mask < 2 * (size_t)f->nnodes)
        t.mask = 2 * t.mask + 1;
    t.seed = (uintptr_t)label ^ (uintptr_t)&t;
    if (!label || !(t.slots = weir__calloc(t.mask + 1, sizeof *t.slots)))
        st = weir__fail_nomem("%s: allocating the streams of %d nodes", f->text.where, f->nnodes);
    for (int i = 0; i < f->nnodes && !st; i++) {
        size_t at;

        same[i] = -1;
        weir__pb_source_keep(f->text.source, f->nodes[i].at, f->nodes[i].at + 1);
        st = weir__pb_attr_string(f, &f->nodes[i], "_user_stream_label", &label[i]);
        if (st || !label[i] || !strcmp(label[i], "default"))
            continue;
        at = (size_t)hash(&t, label[i]) & t.mask;
        while (t.slots[at].node && strcmp(label[t.slots[at].node - 1], label[i]) != 0)
            at = (at + 1) & t.mask;
        if (!t.slots[at].node)
            t.slots[at].node = i + 1;
        same[i] = t.slots[at].node - 1;
    }
    weir__free(label);
    weir__free(t.slots);
    return st;
}

/* Finds for each node the previous node with the same stream label. */
static weir_status find_before(struct weir__pb_file *f, int *before)
{
    int *last = weir__calloc((size_t)f->nnodes + 1, sizeof *last);
    weir_status st;

    if (!last)
        return weir__fail_nomem("%s: allocating the order of %d nodes", f->text.where, f->nnodes);
    if (!(st = weir__pb_labels(f, before)))
        for (int i = 0; i < f->nnodes; i++) {
            int label = before[i];

            if (label < 0)
                continue;
            before[i] = label == i ? -1 : last[label];
            last[label] = i;
        }
    weir__free(last);
    return st;
}

weir_status weir__pb_sort(struct weir__pb_file *f, int **order)
{
    size_t n = (size_t)f->nnodes + 1;
    struct walk w = {weir__malloc(n * sizeof(int)), weir__malloc(n * sizeof(int)),
                     weir__malloc(n * sizeof(int)), 0};
    weir_status st = WEIR_OK;

    *order = weir__malloc(n * sizeof **order);
    if (!w.stack || !w.cursor || !w.before || !*order)
        st = weir__fail_nomem("%s: allocating the order of %d nodes", f->text.where, f->nnodes);
    else
        st = find_before(f, w.before);
    if (!st && visit_all(f, &w, *order)) {
        /* Inputs and stream order contradict each other: only inputs count. */
        memset(w.before, -1, n * sizeof *w.before);
        st = visit_all(f, &w, *order);
    }
    weir__free(w.stack);
    weir__free(w.cursor);
    weir__free(w.before);
    if (st) {
        weir__free(*order);
        *order = NULL;
    }
    return st;
}
