/* LSTM and GRU: composes layers, directions and steps, forward and backward.
 *
 * Each value that the forward pass keeps for the backward pass is a tensor [steps, batch, hidden]
 * per layer and direction. */
#include "recurrent.h"

#include <stdlib.h>

/* Returns the k-th step in the order of computation. */
static int64_t at_turn(const struct side *s, int64_t k)
{
    return s->reversed ? s->steps - 1 - k : k;
}

/* [steps, batch, n] -> [batch, n] */
static tensor *at_step(struct call *c, tensor *x, int64_t t)
{
    return squeeze(c, slice(c, x, 0, t, t + 1, 1), 0);
}

/* [batch, n] each -> [steps, batch, n] */
static tensor *over_steps(struct call *c, tensor **xs, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        xs[i] = xs[i] ? unsqueeze(c, xs[i], 0) : NULL;
    return concat(c, xs, (int)n, 0);
}

/* ---- operands of both passes ---- */

/* Indices of the operands. */
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

/* Runs the forward pass. The results are y, the last states, and lists of the kept values. */
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

/* Runs one direction backward. dy is [steps, batch, hidden]; dh and dc are the gradients of the
 * last states; x is the layer's input. */
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
    if (cell == &cell_of_gru)
        all = reshape(c, over_steps(c, dgs, s->steps), 2, wide_shape);
    states = reshape(c, over_steps(c, before, s->steps), 2, h_shape);
    g.w_hh = op_matmul(c, transpose(c, all, 0, 1), states);
    g.b_hh = op_sum(c, all, &zero, 1, false);
    free(dgx);
    return g;
}

/* Returns the kept value k of one layer and direction. */
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

/* Runs the backward pass. dy_at: index of the gradient of y, then of the states. dx_at: index of
 * the gradient of x, then of the states, then of the list of params. */
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
    static const struct places at = {&cell_of_lstm, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, true};

    forward(c, &at, 10);
}

void run_lstm_backward(struct call *c)
{
    static const struct places at = {&cell_of_lstm, 2, 1, 13, 14, 15, 16, 17, 18, 19, 6, true};

    backward(c, &at, 3, 21);
}

void run_gru(struct call *c)
{
    static const struct places at = {&cell_of_gru, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, false};

    forward(c, &at, 10);
}

void run_gru_backward(struct call *c)
{
    static const struct places at = {&cell_of_gru, 1, 2, 10, 11, 12, -1, -1, 13, 14, 5, false};

    backward(c, &at, 3, 15);
}
