/* The interface between the cells of LSTM and GRU (recurrent_cells.c) and their layers
 * (recurrent.c). */
#ifndef WEIR_OPAPI_RECURRENT_H
#define WEIR_OPAPI_RECURRENT_H

#include "run.h"

enum { MAX_KEPT = 7, MAX_GATES = 4 };

/* One direction of one layer. */
struct side {
    struct call *c;
    bool reversed;
    int64_t steps, batch, hidden;
    tensor *w_ih, *w_hh, *b_ih, *b_hh; /* biases may be NULL */
    tensor *h0, *c0;                   /* c0 for LSTM only */
};

/* The values that a cell keeps of a step, in the order of the operator's lists. */
enum { LSTM_I, LSTM_J, LSTM_F, LSTM_O, LSTM_H, LSTM_C, LSTM_TANHC };
enum { GRU_R, GRU_Z, GRU_N, GRU_HN, GRU_H };

struct cell {
    int gates, kept;
    int h; /* index of the output among the kept values */
    /* Computes a step from the gates of the input [batch, gates * hidden] and the state; replaces
     * the state by the next one. */
    void (*forward)(const struct side *s, tensor *x, tensor **h, tensor **cell, tensor **kept);
    /* dh and dc are the gradients of the step's output; they are replaced by those of the step
     * before. Sets dx and ds to the gradients of the gates, for the input and for the state. */
    void (*backward)(const struct side *s, tensor *const *kept, tensor *h_before,
                     tensor *cell_before, tensor **dh, tensor **dc, tensor **dx, tensor **ds);
};

extern const struct cell cell_of_lstm, cell_of_gru;

/* x [.., n] times w [m, n], and a bias */
tensor *linear(struct call *c, tensor *x, tensor *w, tensor *bias);

#endif
