/* The cells of LSTM and GRU: one step, forward and backward. As in PyTorch, the gates are in the
 * order i f j o (j is the candidate) and r z n. */
#include "recurrent.h"

static tensor *gate(struct call *c, tensor *gates, int k, int64_t hidden)
{
    return slice(c, gates, 1, k * hidden, (k + 1) * hidden, 1);
}

tensor *linear(struct call *c, tensor *x, tensor *w, tensor *bias)
{
    x = op_matmul(c, x, transpose(c, w, 0, 1));
    return bias ? op_add(c, x, bias) : x;
}

static tensor *ones_minus(struct call *c, tensor *x)
{
    return op_rsubs(c, 1, x);
}

/* Gradients of a sigmoid and a tanh, computed from their results y. */
static tensor *through_sigmoid(struct call *c, tensor *g, tensor *y)
{
    return op_mul(c, g, op_mul(c, y, ones_minus(c, y)));
}

static tensor *through_tanh(struct call *c, tensor *g, tensor *y)
{
    return op_mul(c, g, ones_minus(c, op_mul(c, y, y)));
}

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

/* Returns the gradients of the gates. *dc is the gradient of the cell's output; it is replaced by
 * that of the cell before. */
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

const struct cell cell_of_lstm = {4, 7, LSTM_H, lstm_forward, lstm_backward};
const struct cell cell_of_gru = {3, 5, GRU_H, gru_forward, gru_backward};

/* ---- one step as an operator ---- */

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

/* dh, dc, c before, c after, the gates, has_bias; gradients of the gates, of c, of the bias */
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
