/* Fuses elementwise chains into one pass over memory: a launch runs all its operators on one piece
 * of the tensor, then on the next piece. A value that only operators of the launch use is not
 * written to memory: it stays in slots of the block's own memory, one piece each. On devices that
 * compile their kernels a piece is what a thread holds in registers, and a launch is one generated
 * kernel source. On the host a piece may also be several rows that operators of different shapes
 * have in common (fuse_rows.c).
 *
 * No operator may write bytes that another operator of the launch still needs at another position
 * (fuse_sound.c). Operators that read by index, and rotary embeddings, share a launch only with
 * operators that do not depend on them: none touches what another writes.
 */
#include "graph/pass/fuse.h"

#include <string.h>

enum { MAX_MEMBERS = WEIR__FUSE_SLOTS, MAX_OPERANDS = WEIR__FUSE_OPERANDS };
/* An operand is read in tiles if it has at least this many rows, and more bytes than the caches
 * near a core hold. */
enum { TILE_ROWS = 16, LARGE_BYTES = 1 << 20 };

/* The value that the node makes; WEIR__NO_VALUE for an in-place operator. */
static int made_by(const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];

    return n->nout ? n->out[0].value : WEIR__NO_VALUE;
}

static int8_t slot_of(const struct weir__compile *c, int v)
{
    return made_by(c, v) == WEIR__NO_VALUE ? -1 : c->slot[made_by(c, v)];
}

static void set_slot(struct weir__compile *c, int v, int slot)
{
    if (made_by(c, v) != WEIR__NO_VALUE)
        c->slot[made_by(c, v)] = (int8_t)slot;
}

/* ---- values that only one launch uses ---- */

/* How often live nodes and outputs use each value. */
static void count_uses(const struct weir__compile *c, int *uses)
{
    const weir_graph *g = c->g;

    for (int v = 0; v < g->nnodes; v++)
        for (int i = 0; c->live[v] && i < g->nodes[v].nin; i++)
            if (g->nodes[v].in[i].value != WEIR__NO_VALUE)
                uses[g->nodes[v].in[i].value]++;
    for (int i = 0; i < g->noutputs; i++)
        uses[g->outputs[i].operand.value]++;
}

/* Whether each piece of the member reads only the same piece of the operand. */
static bool is_by_pieces(const struct weir__compile *c, const struct weir__launch *l,
                         const struct weir__node *n, const struct weir__operand *o)
{
    return l->rows ? weir__rows_hold(c, n, o, l->rows) : weir__operand_is_flat(o, n);
}

/* The last member that uses the value of member `maker`, if all its users are members of the launch
 * and read it piece by piece; -1 otherwise. */
static int last_private_use(const struct weir__compile *c, const int *uses,
                            const struct weir__launch *l, int maker)
{
    int value = made_by(c, l->nodes[maker]), found = 0, last = -1;

    if (value == WEIR__NO_VALUE || c->g->values[value].last_writer != l->nodes[maker] ||
        (l->rows && weir__row_bytes(c, value, l->rows) > WEIR__ROW_SLOT))
        return -1;
    for (int m = maker + 1; m < l->n; m++) {
        const struct weir__node *n = &c->g->nodes[l->nodes[m]];

        for (int i = 0; i < n->nin; i++)
            if (n->in[i].value == value) {
                if (!is_by_pieces(c, l, n, &n->in[i]))
                    return -1;
                found++;
                last = m;
            }
    }
    return found == uses[value] ? last : -1;
}

/* Gives each private value a slot that is free from the node that makes it to its last use. All
 * other values get none. */
static void give_slots(struct weir__compile *c, const int *uses, const struct weir__launch *l)
{
    int busy_until[MAX_MEMBERS];

    for (int i = 0; i < MAX_MEMBERS; i++)
        busy_until[i] = -1;
    for (int m = 0; m < l->n; m++) {
        int last = last_private_use(c, uses, l, m), slot = 0;

        set_slot(c, l->nodes[m], -1);
        if (last < 0)
            continue;
        while (busy_until[slot] >= m)
            slot++;
        busy_until[slot] = last;
        set_slot(c, l->nodes[m], slot);
    }
}

/* ---- launches ---- */

/* Whether a large operand is contiguous along another dim than the result, with rows so long that a
 * piece covers only a few. A launch of the operator alone reads such an operand in tiles; in pieces
 * it would fetch each cache line of the operand again and again. */
static bool reads_across(const struct weir__node *n)
{
    const struct weir__view *out = &n->out[0].view;

    for (int i = 0; i < n->nin; i++) {
        const struct weir__view *v = &n->in[i].view;
        int64_t inner = 1;

        if (n->in[i].value == WEIR__NO_VALUE || v->ndim < 2 || v->stride[v->ndim - 1] < TILE_ROWS ||
            weir__view_numel(v) * (int64_t)weir_dtype_size(v->dtype) < LARGE_BYTES)
            continue;
        for (int d = v->ndim - 2; d >= 0; d--) {
            inner *= out->shape[out->ndim - v->ndim + d + 1];
            if (v->stride[d] == 1 && v->shape[d] >= TILE_ROWS && inner * TILE_ROWS > WEIR__PIECE)
                return true;
        }
    }
    return false;
}

static bool has_pieces(const struct weir__node *n, bool joins)
{
    if (joins)
        return n->op->flags & (WEIR__OP_ELEMENTWISE | WEIR__OP_JOINS);
    if (n->op->flags & WEIR__OP_ELEMENTWISE)
        return !reads_across(n);
    return n->op->flags & WEIR__OP_JOINS && weir__view_is_contiguous(&n->in[0].view);
}

/* Whether v belongs to a launch whose last node computes the other nodes' results: the memory pass
 * has planned for that already. */
static bool is_absorbed(const struct weir__compile *c, int v)
{
    return c->absorbs && c->absorbs[c->leader[v]];
}

/* Whether the node can be fused at all. A device fuses operators into one kernel source or into one
 * function of the host; where it is one source, a super kernel is not one launch. A device with
 * neither launches each operator by itself. */
static bool is_candidate(const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];
    bool joins = weir__device_can(c->g->dev, WEIR__RUNS_SOURCE);

    if (is_absorbed(c, v) || (!joins && !weir__device_can(c->g->dev, WEIR__RUNS_HOST_FUNCTIONS)))
        return false;
    if (joins && n->op->flags & WEIR__OP_BESIDE)
        return n->nin < MAX_OPERANDS && (n->nout == 0 || c->g->values[n->out[0].value].node == v);
    if (n->nout == 0) /* an in-place operator writes its first input */
        return joins && n->op->flags & WEIR__OP_JOINS && n->nin < MAX_OPERANDS &&
               weir__view_is_contiguous(&n->in[0].view);
    return has_pieces(n, joins) && (joins || n->marks.super_kernel < 0) && n->nout == 1 &&
           n->nin < MAX_OPERANDS && c->g->values[n->out[0].value].node == v &&
           weir__view_is_contiguous(&n->out[0].view);
}

/* Whether v matches the first node of a launch in everything that all members must have in
 * common. */
static bool goes_with(const struct weir__compile *c, int first, int v)
{
    const struct weir__node *a = &c->g->nodes[first], *b = &c->g->nodes[v];

    return c->sync_first[v] == c->sync_first[v + 1] &&
           b->marks.super_kernel == a->marks.super_kernel &&
           (a->op->flags & WEIR__OP_BESIDE || weir__view_numel(&weir__node_result(b)->view) ==
                                                  weir__view_numel(&weir__node_result(a)->view)) &&
           !memcmp(&c->limit[v], &c->limit[first], sizeof *c->limit);
}

static bool may_follow(const struct weir__compile *c, int first, int v)
{
    const struct weir__op *a = c->g->nodes[first].op, *b = c->g->nodes[v].op;

    return is_candidate(c, v) && goes_with(c, first, v) &&
           (a == b || !((a->flags | b->flags) & WEIR__OP_BESIDE));
}

/* Whether v may be the last node of a launch that is one source: it reads whole rows of what the
 * others compute element by element. */
static bool may_end(const struct weir__compile *c, int first, int v)
{
    const struct weir__node *n = &c->g->nodes[v];

    return n->op->flags & WEIR__OP_ENDS_CHAIN && weir__device_can(c->g->dev, WEIR__RUNS_SOURCE) &&
           n->nout == 1 && n->nin < MAX_OPERANDS && c->g->values[n->out[0].value].node == v &&
           weir__view_is_contiguous(&n->out[0].view) && weir__operand_is_flat(&n->in[0], n) &&
           goes_with(c, first, v);
}

/* The number of nodes from position p of a stream on that could be one launch. */
static int run_length(const struct weir__compile *c, int stream, int p)
{
    int first = weir__node_at(c, stream, p), n = 1, left = c->streams[stream].nnodes - p;

    if (!is_candidate(c, first))
        return 1;
    while (n < MAX_MEMBERS && n < left && may_follow(c, first, weir__node_at(c, stream, p + n)))
        n++;
    if (n < MAX_MEMBERS && n < left && may_end(c, first, weir__node_at(c, stream, p + n)))
        n++;
    return n;
}

/* Whether v may join a launch by rows: it waits for no other stream and has the same core limit as
 * the first node. */
static bool goes_with_rows(const struct weir__compile *c, int first, int v)
{
    return c->sync_first[v] == c->sync_first[v + 1] &&
           !memcmp(&c->limit[v], &c->limit[first], sizeof *c->limit);
}

static bool may_have_rows(const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];

    return !is_absorbed(c, v) &&
           (!(n->op->flags & WEIR__OP_ELEMENTWISE) || (n->nout && !reads_across(n)));
}

/* Whether a launch by rows from position p on could have a member that is not elementwise. Asked
 * first, because preparing its nodes takes time. */
static bool may_be_by_rows(const struct weir__compile *c, int stream, int p, int most)
{
    for (int n = 0; n < most; n++) {
        const struct weir__op *op = c->g->nodes[weir__node_at(c, stream, p + n)].op;

        if (op->parts)
            return true;
        if (!(op->flags & WEIR__OP_ELEMENTWISE))
            return false;
    }
    return false;
}

/* The number of nodes, at most `most`, from position p of a stream on that could be one launch by
 * rows, and the rows. 0 if all of them are elementwise. */
static int row_run_length(const struct weir__compile *c, int stream, int p, int most, int64_t *rows)
{
    int first = weir__node_at(c, stream, p), left = c->streams[stream].nnodes - p;
    struct weir__row_run run = {0};
    int n = 0;

    if (weir__device_can(c->g->dev, WEIR__RUNS_SOURCE) ||
        !weir__device_can(c->g->dev, WEIR__RUNS_HOST_FUNCTIONS))
        return 0;
    most = most < left ? most : left;
    if (!may_be_by_rows(c, stream, p, most))
        return 0;
    while (n < most) {
        int v = weir__node_at(c, stream, p + n);

        if ((n && !goes_with_rows(c, first, v)) || !may_have_rows(c, v) ||
            !weir__rows_add(c, &run, v))
            break;
        n++;
    }
    *rows = run.rows;
    return run.members ? n : 0;
}

static bool has_parts(const weir_graph *g)
{
    for (int v = 0; v < g->nnodes; v++)
        if (g->nodes[v].op->parts)
            return true;
    return false;
}

void weir__fuse_runs(const struct weir__compile *c, int *before)
{
    int64_t rows;

    if (!weir__device_can(c->g->dev, WEIR__RUNS_SOURCE) && !has_parts(c->g))
        return;
    for (int s = 0; s < c->nstreams; s++)
        for (int p = 0, n, r; p < c->streams[s].nnodes; p += n) {
            n = run_length(c, s, p);
            r = row_run_length(c, s, p, MAX_MEMBERS, &rows);
            if (r > n)
                before[weir__node_at(c, s, p + r - 1)] = 1 - r;
            else if (weir__device_can(c->g->dev, WEIR__RUNS_SOURCE))
                before[weir__node_at(c, s, p + n - 1)] = n - 1;
            n = r > n ? r : n;
        }
}

static bool can_be_one(const struct weir__compile *c, const struct weir__launch *l)
{
    return !weir__device_can(c->g->dev, WEIR__RUNS_SOURCE) || weir__nodes_join(c, l->nodes, l->n);
}

/* The longest possible launch of at most `n` nodes from position p of a stream on. The memory plan
 * may make it shorter. Assigns slots. */
static struct weir__launch longest_of(struct weir__compile *c, const int *uses, int stream, int p,
                                      int n, bool by_rows)
{
    struct weir__launch l = {.n = n};

    for (int m = 0; m < l.n; m++)
        l.nodes[m] = weir__node_at(c, stream, p + m);
    for (; l.n > 1; l.n--) {
        if (by_rows && row_run_length(c, stream, p, l.n, &l.rows) < l.n)
            break;
        give_slots(c, uses, &l);
        if (weir__launch_is_sound(c, &l) && can_be_one(c, &l))
            return l;
        set_slot(c, l.nodes[l.n - 1], -1);
    }
    for (int m = 0; m < l.n; m++)
        set_slot(c, l.nodes[m], -1);
    l.n = 1;
    return l;
}

/* The longest launch, by rows if that is longer. */
static struct weir__launch longest(struct weir__compile *c, const int *uses, int stream, int p)
{
    int n = run_length(c, stream, p);
    int64_t rows;
    int r = row_run_length(c, stream, p, MAX_MEMBERS, &rows);
    struct weir__launch l = {.n = 1};

    if (r > n)
        l = longest_of(c, uses, stream, p, r, true);
    if (l.n <= n) {
        for (int m = 0; m < l.n && l.n > 1; m++)
            set_slot(c, l.nodes[m], -1);
        l = longest_of(c, uses, stream, p, n, false);
    }
    return l;
}

/* Makes v and what it absorbs one launch. */
static void absorb(struct weir__compile *c, int v)
{
    int n = weir__absorbed_before(c, v), first = weir__node_at(c, c->stream[v], c->position[v] - n);

    for (int k = 0; k < n; k++)
        c->leader[weir__node_at(c, c->stream[v], c->position[v] - k)] = first;
    c->absorbs[first] |= n > 0;
}

weir_status weir__pass_fuse(struct weir__compile *c)
{
    const weir_graph *g = c->g;
    int *uses;

    c->chunked = weir__calloc((size_t)g->nnodes + 1, sizeof *c->chunked);
    c->rows = weir__calloc((size_t)g->nnodes + 1, sizeof *c->rows);
    c->absorbs = weir__calloc((size_t)g->nnodes + 1, sizeof *c->absorbs);
    c->slot = weir__malloc((size_t)g->nvalues + 1);
    if (!c->chunked || !c->rows || !c->absorbs || !c->slot ||
        !(uses = weir__calloc((size_t)g->nvalues + 1, sizeof *uses)))
        return weir__fail_nomem("fusing %d nodes", g->nnodes);
    memset(c->slot, -1, (size_t)g->nvalues + 1);
    count_uses(c, uses);
    for (int v = 0; v < g->nnodes; v++)
        if (c->live[v])
            absorb(c, v);
    for (int s = 0; s < c->nstreams && weir__is_autotuned(&c->options); s++)
        for (int p = 0; p < c->streams[s].nnodes;) {
            struct weir__launch l;

            l = longest(c, uses, s, p);
            if (l.n == 1 && !is_candidate(c, weir__node_at(c, s, p))) {
                p++;
                continue;
            }
            for (int m = 0; m < l.n; m++)
                c->leader[l.nodes[m]] = l.nodes[0];
            c->chunked[l.nodes[0]] = l.n > 1;
            c->rows[l.nodes[0]] = l.n > 1 ? l.rows : 0;
            p += l.n;
        }
    weir__free(uses);
    return WEIR_OK;
}

/* The launch that begins at a leader. */
static struct weir__launch launch_of(const struct weir__compile *c, int leader)
{
    struct weir__launch l = {.n = 0, .rows = c->rows[leader]};
    int s = c->stream[leader];

    for (int p = c->position[leader]; p < c->streams[s].nnodes; p++) {
        int v = weir__node_at(c, s, p);

        if (c->leader[v] != leader)
            break;
        l.nodes[l.n++] = v;
    }
    return l;
}

static bool launch_holds(struct weir__compile *c, const int *uses, struct weir__launch *l)
{
    int8_t slots[MAX_MEMBERS];
    bool holds;

    if (l->rows)
        holds = row_run_length(c, c->stream[l->nodes[0]], c->position[l->nodes[0]], l->n,
                               &l->rows) == l->n;
    else
        holds = is_candidate(c, l->nodes[0]);
    for (int m = 1; m < l->n && holds && !l->rows; m++)
        holds = may_follow(c, l->nodes[0], l->nodes[m]) ||
                (m == l->n - 1 && may_end(c, l->nodes[0], l->nodes[m]));
    for (int m = 0; m < l->n; m++)
        slots[m] = slot_of(c, l->nodes[m]);
    give_slots(c, uses, l);
    for (int m = 0; m < l->n && holds; m++)
        holds = slots[m] == slot_of(c, l->nodes[m]);
    return holds && weir__launch_is_sound(c, l) && can_be_one(c, l);
}

weir_status weir__fuse_holds(struct weir__compile *c, const bool *changed, bool *holds)
{
    const weir_graph *g = c->g;
    int *uses = weir__calloc((size_t)g->nvalues + 1, sizeof *uses);

    *holds = true;
    if (!uses)
        return weir__fail_nomem("fusing %d nodes", g->nnodes);
    count_uses(c, uses);
    for (int v = 0; v < g->nnodes && *holds; v++) {
        struct weir__launch l;
        bool touched = false;

        if (!c->live[v] || c->leader[v] != v || !(c->chunked[v] || c->absorbs[v]))
            continue;
        l = launch_of(c, v);
        for (int m = 0; m < l.n; m++)
            touched |= changed[l.nodes[m]];
        *holds = !touched || (c->absorbs[v] ? weir__absorbed_before(c, l.nodes[l.n - 1]) == l.n - 1
                                            : launch_holds(c, uses, &l));
        c->rows[v] = *holds ? l.rows : c->rows[v];
    }
    weir__free(uses);
    return WEIR_OK;
}
