/* LSTM and GRU: layers, directions and steps as compositions, forward and backward.
 *
 * The cells are PyTorch's: gates lie in the order i f j o (j the candidate) and r z n. What the
 * forward pass keeps for the backward one has a tensor [steps, batch, hidden] for each layer and
 * direction. */
#include "run.h"

#include <stdlib.h>

enum { MAX_KEPT = 7, MAX_GATES = 4 };

/* One direction of one layer. */
struct side {
    struct call *c;
    bool reversed;
    int64_t steps, batch, hidden;
    tensor *w_ih, *w_hh, *b_ih, *b_hh; /* biases may be NULL */
    tensor *h0, *c0;                   /* of LSTM alone: c0 */
};

/* The step that comes k-th. */
static int64_t at_turn(const struct side *s, int64_t k)
{
    return s->reversed ? s->steps - 1 - k : k;
}

/* [steps, batch, n] -> [batch, n] */
static tensor *at_step(struct call *c, tensor *x, int64_t t)
{
    return squeeze(c, slice(c, x, 0, t, t + 1, 1), 0);
}

static tensor *gate(struct call *c, tensor *gates, int k, int64_t hidden)
{
    return slice(c, gates, 1, k * hidden, (k + 1) * hidden, 1);
}

/* x [.., n] times w [m, n], and a bias */
static tensor *linear(struct call *c, tensor *x, tensor *w, tensor *bias)
{
    x = op_matmul(c, x, transpose(c, w, 0, 1));
    return bias ? op_add(c, x, bias) : x;
}

/* [batch, n] each -> [steps, batch, n] */
static tensor *over_steps(struct call *c, tensor **xs, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        xs[i] = xs[i] ? unsqueeze(c, xs[i], 0) : NULL;
    return concat(c, xs, (int)n, 0);
}

static tensor *ones_minus(struct call *c, tensor *x)
{
    return op_rsubs(c, 1, x);
}

/* Gradients through a sigmoid and a tanh of which the results are there. */
static tensor *through_sigmoid(struct call *c, tensor *g, tensor *y)
{
    return op_mul(c, g, op_mul(c, y, ones_minus(c, y)));
}

static tensor *through_tanh(struct call *c, tensor *g, tensor *y)
{
    return op_mul(c, g, ones_minus(c, op_mul(c, y, y)));
}

/* ---- cells ---- */

/* What a cell keeps of a step, in the order of the operator's lists. */
enum { LSTM_I, LSTM_J, LSTM_F, LSTM_O, LSTM_H, LSTM_C, LSTM_TANHC };
enum { GRU_R, GRU_Z, GRU_N, GRU_HN, GRU_H };

struct cell {
    int gates, kept;
    int h; /* which of the kept is the output */
    /* From the gates of the input [batch, gates * hidden] and the state; the state moves on. */
    void (*forward)(const struct side *s, tensor *x, tensor **h, tensor **cell, tensor **kept);
    /* dh and dc are those of the step's output, and become those of the step before. Gives the
     * gradients of the gates, of the input's part and of the state's. */
    void (*backward)(const struct side *s, tensor *const *kept, tensor *h_before,
                     tensor *cell_before, tensor **dh, tensor **dc, tensor **dx, tensor **ds);
};

static void lstm_forward(const struct side *s, tensor *x, tensor **h, tensor **cell, tensor **kept)
{
    struct call *c = s->c;
    tensor *g = op_add(c, x, linear(c, *h, s->w_hh, s->b_hh));

    kept[LSTM_I] = op_sigmoid(c, gate(c, g, 0, s->hidden));
    kept[LSTM_F] = op_sigmoid(c, gate(c, g, 1, s->hidden));
    kept[LSTM_J] = op_tanh(c, gate(c, g, 2, s->hidden));
    kept[LSTM_O] = op_sigmoid(c, gate(c, g, 3, s->hidden));
    kept[LSTM_C] = *cell =
        op_add(c, op_mul(c, kept[LSTM_F], *cell), op_mul(c, kept[LSTM_I], kept[LSTM_J]));
    kept[LSTM_TANHC] = op_tanh(c, *cell);
    kept[LSTM_H] = *h = op_mul(c, kept[LSTM_O], kept[LSTM_TANHC]);
}

/* dc is the output's, and becomes that of the cell before; gives the gates'. */
static tensor *lstm_gates(struct call *c, tensor *const *kept, tensor *before, tensor *dh,
                          tensor **dc)
{
    tensor *parts[MAX_GATES];

    *dc = op_add(c, *dc, through_tanh(c, op_mul(c, dh, kept[LSTM_O]), kept[LSTM_TANHC]));
    parts[0] = through_sigmoid(c, op_mul(c, *dc, kept[LSTM_J]), kept[LSTM_I]);
    parts[1] = through_sigmoid(c, op_mul(c, *dc, before), kept[LSTM_F]);
    parts[2] = through_tanh(c, op_mul(c, *dc, kept[LSTM_I]), kept[LSTM_J]);
    parts[3] = through_sigmoid(c, op_mul(c, dh, kept[LSTM_TANHC]), kept[LSTM_O]);
    *dc = op_mul(c, *dc, kept[LSTM_F]);
    return concat(c, parts, 4, 1);
}

static void lstm_backward(const struct side *s, tensor *const *kept, tensor *h_before,
                          tensor *cell_before, tensor **dh, tensor **dc, tensor **dx, tensor **ds)
{
    (void)h_before;
    *dx = *ds = lstm_gates(s->c, kept, cell_before, *dh, dc);
    *dh = op_matmul(s->c, *ds, s->w_hh);
}

static void gru_forward(const struct side *s, tensor *x, tensor **h, tensor **cell, tensor **kept)
{
    struct call *c = s->c;
    tensor *g = linear(c, *h, s->w_hh, s->b_hh);

    (void)cell;
    kept[GRU_R] = op_sigmoid(c, op_add(c, gate(c, x, 0, s->hidden), gate(c, g, 0, s->hidden)));
    kept[GRU_Z] = op_sigmoid(c, op_add(c, gate(c, x, 1, s->hidden), gate(c, g, 1, s->hidden)));
    kept[GRU_HN] = gate(c, g, 2, s->hidden);
    kept[GRU_N] =
        op_tanh(c, op_add(c, gate(c, x, 2, s->hidden), op_mul(c, kept[GRU_R], kept[GRU_HN])));
    kept[GRU_H] = *h =
        op_add(c, op_mul(c, ones_minus(c, kept[GRU_Z]), kept[GRU_N]), op_mul(c, kept[GRU_Z], *h));
}

static void gru_backward(const struct side *s, tensor *const *kept, tensor *h_before,
                         tensor *cell_before, tensor **dh, tensor **dc, tensor **dx, tensor **ds)
{
    struct call *c = s->c;
    tensor *parts[MAX_GATES];

    (void)cell_before, (void)dc;
    parts[2] = through_tanh(c, op_mul(c, *dh, ones_minus(c, kept[GRU_Z])), kept[GRU_N]);
    parts[0] = through_sigmoid(c, op_mul(c, parts[2], kept[GRU_HN]), kept[GRU_R]);
    parts[1] = through_sigmoid(c, op_mul(c, *dh, op_sub(c, h_before, kept[GRU_N])), kept[GRU_Z]);
    *dx = concat(c, parts, 3, 1);
    parts[2] = op_mul(c, parts[2], kept[GRU_R]);
    *ds = concat(c, parts, 3, 1);
    *dh = op_add(c, op_matmul(c, *ds, s->w_hh), op_mul(c, *dh, kept[GRU_Z]));
}

static const struct cell lstm = {4, 7, LSTM_H, lstm_forward, lstm_backward},
                         gru = {3, 5, GRU_H, gru_forward, gru_backward};

/* ---- what both passes are given ---- */

/* Places of the operands. */
struct places {
    const struct cell *cell;
    int params, hx, batch_sizes, has_bias, layers, dropout, train, bidirectional, batch_first, kept;
    bool states_in_list; /* hx is a list of h and c */
};

struct net {
    struct call *c;
    const struct places *at;
    int layers, sides;
    int64_t steps, batch, hidden;
    bool biased, batch_first;
};

static bool net_begin(struct call *c, const struct places *at, struct net *n, tensor **x)
{
    int64_t layers = integer(c, at->layers), each;
    tensor *w;

    *n = (struct net){.c = c, .at = at};
    n->sides = integer(c, at->bidirectional) ? 2 : 1;
    n->biased = integer(c, at->has_bias);
    n->batch_first = integer(c, at->batch_first);
    each = n->biased ? 4 : 2;
    if (given(c, at->batch_sizes) && numel(in(c, at->batch_sizes)))
        (void)call_fail(c, "sequences of different lengths (batchSizes) are not supported");
    if (at->dropout >= 0 && at->train >= 0 && real(c, at->dropout) > 0 && integer(c, at->train) &&
        layers > 1)
        (void)call_fail(c, "dropout between layers is not supported");
    if (layers < 1 || layers > 1024 || items(c, at->params) != layers * n->sides * each)
        (void)call_fail(c, "%d params for %lld layers of %d directions: each has %lld",
                        items(c, at->params), (long long)layers, n->sides, (long long)each);
    else
        n->layers = (int)layers;
    *x = c->err ? NULL : wide(c, in(c, 0));
    w = c->err ? NULL : item(c, at->params, 1);
    if (*x && w && (rank(*x) != 3 || rank(w) != 2))
        (void)call_fail(c, "input has %d dims and weights %d: 3 and 2 are needed", rank(*x),
                        rank(w));
    if (c->err)
        return false;
    if (n->batch_first)
        *x = transpose(c, *x, 0, 1);
    n->steps = size(*x, 0);
    n->batch = size(*x, 1);
    n->hidden = size(w, 1);
    return true;
}

static tensor *state(const struct net *n, int k, int which)
{
    struct call *c = n->c;
    tensor *all = n->at->states_in_list ? k < items(c, n->at->hx) ? item(c, n->at->hx, k) : NULL
                  : k                   ? NULL
                                        : in(c, n->at->hx);

    return all ? at_step(c, wide(c, all), which) : NULL;
}

static struct side side_of(const struct net *n, int layer, int direction)
{
    struct call *c = n->c;
    int which = layer * n->sides + direction, first = which * (n->biased ? 4 : 2);
    struct side s = {.c = c,
                     .reversed = direction == 1,
                     .steps = n->steps,
                     .batch = n->batch,
                     .hidden = n->hidden,
                     .w_ih = wide(c, item(c, n->at->params, first)),
                     .w_hh = wide(c, item(c, n->at->params, first + 1))};

    if (n->biased) {
        s.b_ih = wide(c, item(c, n->at->params, first + 2));
        s.b_hh = wide(c, item(c, n->at->params, first + 3));
    }
    s.h0 = state(n, 0, which);
    s.c0 = state(n, 1, which);
    return s;
}

/* ---- forward ---- */

/* x [steps, batch, n]; kept[k] gets [steps, batch, hidden], h and cell the last states. */
static void run_side(const struct side *s, const struct cell *cell, tensor *x, tensor **kept,
                     tensor **h, tensor **last)
{
    struct call *c = s->c;
    tensor **all = calloc((size_t)(s->steps * cell->kept) + 1, sizeof *all);
    tensor *gates = linear(c, x, s->w_ih, s->b_ih), *step[MAX_KEPT];

    *h = s->h0;
    *last = s->c0;
    if (!all)
        (void)call_fail(c, "out of host memory");
    for (int64_t k = 0; k < s->steps && !c->err; k++) {
        int64_t t = at_turn(s, k);

        cell->forward(s, at_step(c, gates, t), h, last, step);
        for (int i = 0; i < cell->kept; i++)
            all[i * s->steps + t] = step[i];
    }
    for (int i = 0; i < cell->kept; i++)
        kept[i] = c->err ? NULL : over_steps(c, all + i * s->steps, s->steps);
    free(all);
}

/* Results: y, then the last states; then lists of what is kept. */
static void forward(struct call *c, const struct places *at, int y_at)
{
    int states = at->states_in_list ? 2 : 1;
    bool train = integer(c, at->train);
    tensor **last[2] = {NULL, NULL}, *x;
    struct net n;

    if (!net_begin(c, at, &n, &x))
        return;
    for (int k = 0; k < 2; k++)
        if (!(last[k] = calloc((size_t)(n.layers * n.sides), sizeof *last[k])))
            (void)call_fail(c, "out of host memory");
    for (int l = 0; l < n.layers && !c->err; l++) {
        tensor *outs[2] = {NULL, NULL}, *kept[MAX_KEPT];

        for (int d = 0; d < n.sides && !c->err; d++) {
            struct side s = side_of(&n, l, d);
            int which = l * n.sides + d;

            run_side(&s, at->cell, x, kept, &last[0][which], &last[1][which]);
            outs[d] = kept[at->cell->h];
            for (int k = 0; train && k < at->cell->kept; k++)
                if (which < items(c, at->kept + k))
                    put_item(c, at->kept + k, which, kept[k]);
        }
        x = n.sides == 2 ? concat(c, outs, 2, 2) : outs[0];
    }
    put(c, y_at, n.batch_first && x ? transpose(c, x, 0, 1) : x);
    for (int k = 0; k < states && !c->err; k++)
        put(c, y_at + 1 + k, over_steps(c, last[k], n.layers * n.sides));
    free(last[0]);
    free(last[1]);
}

/* ---- backward ---- */

struct grads {
    tensor *x, *h, *cell, *w_ih, *w_hh, *b_ih, *b_hh;
};

/* dy [steps, batch, hidden] and those of the last states; x is the layer's input. */
static struct grads run_side_back(const struct side *s, const struct cell *cell, tensor *x,
                                  tensor *const *kept, tensor *dy, tensor *dh, tensor *dc)
{
    struct call *c = s->c;
    tensor **dgx = calloc((size_t)s->steps * 3 + 1, sizeof *dgx), **dgs = dgx + s->steps,
           **before = dgx + 2 * s->steps;
    int64_t rows = s->steps * s->batch, wide_shape[2] = {rows, cell->gates * s->hidden},
            x_shape[2] = {rows, size(x, 2)}, h_shape[2] = {rows, s->hidden};
    struct grads g = {.x = NULL};
    tensor *all, *states;
    int zero = 0;

    if (!dgx)
        (void)call_fail(c, "out of host memory");
    for (int64_t k = s->steps - 1; k >= 0 && !c->err; k--) {
        int64_t t = at_turn(s, k), p = k ? at_turn(s, k - 1) : 0;
        tensor *step[MAX_KEPT], *cell_before = s->c0;

        for (int i = 0; i < cell->kept; i++)
            step[i] = at_step(c, kept[i], t);
        before[t] = k ? at_step(c, kept[cell->h], p) : s->h0;
        if (k && s->c0)
            cell_before = at_step(c, kept[LSTM_C], p);
        if (dy)
            dh = op_add(c, dh, at_step(c, dy, t));
        cell->backward(s, step, before[t], cell_before, &dh, &dc, &dgx[t], &dgs[t]);
    }
    if (c->err) {
        free(dgx);
        return g;
    }
    g.h = dh;
    g.cell = dc;
    all = reshape(c, over_steps(c, dgx, s->steps), 2, wide_shape);
    g.x = op_matmul(c, all, s->w_ih);
    g.w_ih = op_matmul(c, transpose(c, all, 0, 1), reshape(c, contiguous(c, x), 2, x_shape));
    g.b_ih = op_sum(c, all, &zero, 1, false);
    if (cell == &gru)
        all = reshape(c, over_steps(c, dgs, s->steps), 2, wide_shape);
    states = reshape(c, over_steps(c, before, s->steps), 2, h_shape);
    g.w_hh = op_matmul(c, transpose(c, all, 0, 1), states);
    g.b_hh = op_sum(c, all, &zero, 1, false);
    free(dgx);
    return g;
}

/* The kept tensor k of a layer's direction. */
static tensor *kept_of(const struct net *n, int k, int which)
{
    struct call *c = n->c;

    if (which >= items(c, n->at->kept + k))
        return call_fail(c, "%s has %d tensors: one for each of %d layers and %d directions",
                         c->row->operands[n->at->kept + k].name, items(c, n->at->kept + k),
                         n->layers, n->sides);
    return wide(c, item(c, n->at->kept + k, which));
}

static tensor *given_or_zero(const struct net *n, int at, int which, tensor *shaped)
{
    struct call *c = n->c;
    tensor *all = given(c, at) ? in(c, at) : NULL;

    return all && numel(all) ? at_step(c, wide(c, all), which)
                             : full_like(c, shaped, type(shaped), 0);
}

/* dy_at: of y, then of the states. dx_at: of x, then of the states, then the list of params'. */
static void backward(struct call *c, const struct places *at, int dy_at, int dx_at)
{
    int states = at->states_in_list ? 2 : 1, sides_in_all;
    tensor *x, *dy, **first[2] = {NULL, NULL}, **inputs;
    struct net n;

    if (!net_begin(c, at, &n, &x))
        return;
    sides_in_all = n.layers * n.sides;
    dy = given(c, dy_at) && numel(in(c, dy_at)) ? wide(c, in(c, dy_at)) : NULL;
    if (dy && n.batch_first)
        dy = transpose(c, dy, 0, 1);
    inputs = calloc((size_t)n.layers, sizeof *inputs);
    first[0] = calloc((size_t)sides_in_all, sizeof *first[0]);
    first[1] = calloc((size_t)sides_in_all, sizeof *first[1]);
    if (!inputs || !first[0] || !first[1]) {
        (void)call_fail(c, "out of host memory");
        goto free_all;
    }
    inputs[0] = x;
    for (int l = 1; l < n.layers && !c->err; l++) {
        tensor *outs[2];

        for (int d = 0; d < n.sides; d++)
            outs[d] = kept_of(&n, at->cell->h, (l - 1) * n.sides + d);
        inputs[l] = n.sides == 2 ? concat(c, outs, 2, 2) : outs[0];
    }
    for (int l = n.layers - 1; l >= 0 && !c->err; l--) {
        tensor *below = NULL;

        for (int d = 0; d < n.sides && !c->err; d++) {
            int which = l * n.sides + d, p = which * (n.biased ? 4 : 2);
            struct side s = side_of(&n, l, d);
            tensor *kept[MAX_KEPT], *mine = dy;
            struct grads g;

            for (int k = 0; k < at->cell->kept; k++)
                kept[k] = kept_of(&n, k, which);
            if (dy && n.sides == 2)
                mine = slice(c, dy, 2, d * n.hidden, (d + 1) * n.hidden, 1);
            if (c->err)
                break;
            g = run_side_back(&s, at->cell, inputs[l], kept, mine,
                              given_or_zero(&n, dy_at + 1, which, s.h0),
                              states == 2 ? given_or_zero(&n, dy_at + 2, which, s.c0) : NULL);
            first[0][which] = g.h;
            first[1][which] = g.cell;
            put_item(c, dx_at + 1 + states, p, g.w_ih);
            put_item(c, dx_at + 1 + states, p + 1, g.w_hh);
            if (n.biased) {
                put_item(c, dx_at + 1 + states, p + 2, g.b_ih);
                put_item(c, dx_at + 1 + states, p + 3, g.b_hh);
            }
            below = below ? op_add(c, below, g.x) : g.x;
        }
        dy = below ? reshape(c, below, 3, (int64_t[]){n.steps, n.batch, size(inputs[l], 2)}) : NULL;
    }
    put(c, dx_at, dy && n.batch_first ? transpose(c, dy, 0, 1) : dy);
    for (int k = 0; k < states && !c->err; k++)
        put(c, dx_at + 1 + k, over_steps(c, first[k], sides_in_all));
free_all:
    free(inputs);
    free(first[0]);
    free(first[1]);
}

/* ---- the operators ---- */

void run_lstm(struct call *c)
{
    static const struct places at = {&lstm, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, true};

    forward(c, &at, 10);
}

void run_lstm_backward(struct call *c)
{
    static const struct places at = {&lstm, 2, 1, 13, 14, 15, 16, 17, 18, 19, 6, true};

    backward(c, &at, 3, 21);
}

void run_gru(struct call *c)
{
    static const struct places at = {&gru, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, false};

    forward(c, &at, 10);
}

void run_gru_backward(struct call *c)
{
    static const struct places at = {&gru, 1, 2, 10, 11, 12, -1, -1, 13, 14, 5, false};

    backward(c, &at, 3, 15);
}

/* gates of the input, gates of the state, c, biases of both; h, c, the gates */
void run_lstm_cell(struct call *c)
{
    tensor *g = op_add(c, wide(c, in(c, 0)), wide(c, in(c, 1))), *state = wide(c, in(c, 2));
    int64_t n = size(state, 1);
    tensor *parts[4];

    for (int k = 3; k < 5; k++)
        if (given(c, k))
            g = op_add(c, g, wide(c, in(c, k)));
    for (int k = 0; k < 4; k++)
        parts[k] = k == 2 ? op_tanh(c, gate(c, g, k, n)) : op_sigmoid(c, gate(c, g, k, n));
    state = op_add(c, op_mul(c, parts[1], state), op_mul(c, parts[0], parts[2]));
    put(c, 5, op_mul(c, parts[3], op_tanh(c, state)));
    put(c, 6, state);
    put(c, 7, concat(c, parts, 4, 1));
}

/* dh, dc, c before, c after, the gates, has_bias; of the gates, of c, of the bias */
void run_lstm_cell_backward(struct call *c)
{
    tensor *before = wide(c, in(c, 2)), *tc = op_tanh(c, wide(c, in(c, 3))), *g = wide(c, in(c, 4)),
           *dh, *dc, *dx, *kept[MAX_KEPT] = {NULL};
    int64_t n = size(before, 1);
    int zero = 0;

    dh = given(c, 0) ? wide(c, in(c, 0)) : full_like(c, before, type(before), 0);
    dc = given(c, 1) ? wide(c, in(c, 1)) : full_like(c, before, type(before), 0);
    kept[LSTM_I] = gate(c, g, 0, n);
    kept[LSTM_F] = gate(c, g, 1, n);
    kept[LSTM_J] = gate(c, g, 2, n);
    kept[LSTM_O] = gate(c, g, 3, n);
    kept[LSTM_TANHC] = tc;
    dx = lstm_gates(c, kept, before, dh, &dc);
    put(c, 6, dx);
    put(c, 7, dc);
    if (integer(c, 5))
        put(c, 8, op_sum(c, dx, &zero, 1, false));
}
