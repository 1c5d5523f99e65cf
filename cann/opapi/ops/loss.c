/* Losses. reduction: 0 none, 1 mean, 2 sum. */
#include "run.h"

enum { NONE = 0, MEAN = 1, SUM = 2 };

static tensor *x_of(struct call *c, int i)
{
    return given(c, i) ? wide(c, in(c, i)) : NULL;
}

static tensor *reduced(struct call *c, tensor *x, int64_t reduction)
{
    return reduction == NONE   ? x
           : reduction == MEAN ? op_mean(c, x, NULL, 0, false)
                               : op_sum(c, x, NULL, 0, false);
}

/* Converts the gradient of a reduced loss to that of each element. */
static tensor *spread(struct call *c, tensor *g, const tensor *x, int64_t reduction)
{
    return reduction == MEAN && numel(x) ? op_divs(c, g, (double)numel(x)) : g;
}

void run_mse_loss(struct call *c)
{
    tensor *d = op_sub(c, x_of(c, 0), x_of(c, 1));

    give(c, reduced(c, op_mul(c, d, d), integer(c, 2)));
}

void run_mse_loss_backward(struct call *c)
{
    tensor *d = op_sub(c, x_of(c, 1), x_of(c, 2));

    give(c, op_mul(c, spread(c, x_of(c, 0), d, integer(c, 3)), op_muls(c, d, 2)));
}

void run_l1_loss(struct call *c)
{
    give(c, reduced(c, op_abs(c, op_sub(c, x_of(c, 0), x_of(c, 1))), integer(c, 2)));
}

void run_l1_loss_backward(struct call *c)
{
    tensor *d = op_sub(c, x_of(c, 1), x_of(c, 2));

    give(c, op_mul(c, spread(c, x_of(c, 0), d, integer(c, 3)), op_sign(c, d)));
}

/* self, target, reduction, beta */
void run_smooth_l1(struct call *c)
{
    double beta = real(c, 3);
    tensor *d = op_abs(c, op_sub(c, x_of(c, 0), x_of(c, 1))), *near;

    if (beta > 0) {
        near = op_muls(c, op_mul(c, d, d), 0.5 / beta);
        d = op_where(c, op_lts(c, d, beta), near, op_subs(c, d, 0.5 * beta));
    }
    give(c, reduced(c, d, integer(c, 2)));
}

/* grad, self, target, reduction, beta */
void run_smooth_l1_backward(struct call *c)
{
    double beta = real(c, 4);
    tensor *d = op_sub(c, x_of(c, 1), x_of(c, 2)), *slope;

    slope = beta > 0 ? op_clamp(c, op_divs(c, d, beta), -1, 1) : op_sign(c, d);
    give(c, op_mul(c, spread(c, x_of(c, 0), d, integer(c, 3)), slope));
}

/* self, target, reduction, log_target */
void run_kl_div(struct call *c)
{
    tensor *x = x_of(c, 0), *t = x_of(c, 1), *l;

    if (integer(c, 3))
        l = op_mul(c, op_exp(c, t), op_sub(c, t, x));
    else
        l = op_where(c, op_eqs(c, t, 0), full(c, type(x), 0, NULL, 0),
                     op_mul(c, t, op_sub(c, op_log(c, t), x)));
    give(c, reduced(c, l, integer(c, 2)));
}

/* grad, self, target, reduction, log_target */
void run_kl_div_backward(struct call *c)
{
    tensor *t = x_of(c, 2);

    if (integer(c, 4))
        t = op_exp(c, t);
    give(c, op_mul(c, spread(c, x_of(c, 0), t, integer(c, 3)), op_neg(c, t)));
}

/* self, target, weight, reduction */
void run_bce(struct call *c)
{
    tensor *x = x_of(c, 0), *t = x_of(c, 1), *l;

    /* logarithms are at least -100, as in PyTorch */
    l = op_neg(c, op_add(c, op_mul(c, t, op_maximums(c, op_log(c, x), -100)),
                         op_mul(c, op_rsubs(c, 1, t),
                                op_maximums(c, op_log(c, op_rsubs(c, 1, x)), -100))));
    if (given(c, 2))
        l = op_mul(c, l, x_of(c, 2));
    give(c, reduced(c, l, integer(c, 3)));
}

/* grad, self, target, weight, reduction */
void run_bce_backward(struct call *c)
{
    tensor *x = x_of(c, 1), *t = x_of(c, 2), *d;

    d = op_div(c, op_sub(c, x, t), op_maximums(c, op_mul(c, op_rsubs(c, 1, x), x), 1e-12));
    d = op_mul(c, spread(c, x_of(c, 0), x, integer(c, 4)), d);
    give(c, given(c, 3) ? op_mul(c, d, x_of(c, 3)) : d);
}

/* log(1 + e^-|x|) + max(-x, 0) */
static tensor *minus_log_sigmoid(struct call *c, tensor *x)
{
    return op_add(c, math1(c, MATH_LOG1P, op_exp(c, op_neg(c, op_abs(c, x)))),
                  op_relu(c, op_neg(c, x)));
}

/* self, target, weight, pos_weight, reduction */
void run_bce_logits(struct call *c)
{
    tensor *x = x_of(c, 0), *t = x_of(c, 1), *l = minus_log_sigmoid(c, x);

    if (given(c, 3)) /* (1 - t) x + (1 + (p - 1) t) * l */
        l = op_mul(c, op_adds(c, op_mul(c, op_subs(c, x_of(c, 3), 1), t), 1), l);
    l = op_add(c, op_mul(c, op_rsubs(c, 1, t), x), l);
    if (given(c, 2))
        l = op_mul(c, l, x_of(c, 2));
    give(c, reduced(c, l, integer(c, 4)));
}

/* grad, self, target, weight, pos_weight, reduction */
void run_bce_logits_backward(struct call *c)
{
    tensor *x = x_of(c, 1), *t = x_of(c, 2), *s = op_sigmoid(c, x), *d;

    if (given(c, 4)) {
        tensor *pt = op_mul(c, x_of(c, 4), t);

        d = op_sub(c, op_mul(c, op_sub(c, op_adds(c, pt, 1), t), s), pt);
    } else {
        d = op_sub(c, s, t);
    }
    d = op_mul(c, spread(c, x_of(c, 0), x, integer(c, 5)), d);
    give(c, given(c, 3) ? op_mul(c, d, x_of(c, 3)) : d);
}

void run_soft_margin(struct call *c)
{
    tensor *z = op_mul(c, x_of(c, 0), x_of(c, 1));

    give(c, reduced(c, minus_log_sigmoid(c, z), integer(c, 2)));
}

void run_soft_margin_backward(struct call *c)
{
    tensor *x = x_of(c, 1), *t = x_of(c, 2);
    tensor *d = op_neg(c, op_mul(c, t, op_sigmoid(c, op_neg(c, op_mul(c, x, t)))));

    give(c, op_mul(c, spread(c, x_of(c, 0), x, integer(c, 3)), d));
}

/* ---- negative log likelihood ----
 * self [n, classes] or [classes], for the 2d forms [n, classes, h, w]; target [n], [] or [n, h, w].
 */

/* The class index of each row (0 if the target is ignored), the weight of each row, and whether it
 * is used. */
struct nll {
    tensor *index, *weight, *used;
};

static struct nll nll_of(struct call *c, tensor *x, int target, int weight, int64_t ignore)
{
    struct nll n = {0};
    tensor *t = in(c, target);

    if (!x || !t)
        return n;
    t = cast(c, t, WEIR_I64);
    n.used = op_nes(c, t, (double)ignore);
    n.index = op_where(c, n.used, t, full(c, WEIR_I64, 0, NULL, 0));
    n.weight = cast(c, n.used, type(x));
    if (given(c, weight))
        n.weight =
            op_mul(c, n.weight, like(c, op_embedding(c, wide(c, in(c, weight)), n.index), n.index));
    return n;
}

/* self, target, weight, reduction, ignore_index, out, total_weight */
void run_nll_loss(struct call *c)
{
    tensor *x = x_of(c, 0), *l, *total;
    struct nll n = nll_of(c, x, 1, 2, integer(c, 4));
    int classes = rank(x) > 1 ? 1 : 0;

    l = squeeze(c, op_gather(c, x, classes, unsqueeze(c, n.index, classes)), classes);
    l = op_neg(c, op_mul(c, l, n.weight));
    /* an ignored row has no loss: 0 times infinity would be NaN */
    l = op_where(c, n.used, l, full(c, type(x), 0, NULL, 0));
    total = op_sum(c, n.weight, NULL, 0, false);
    if (integer(c, 3) == NONE)
        put(c, 5, l);
    else if (integer(c, 3) == SUM)
        put(c, 5, op_sum(c, l, NULL, 0, false));
    else
        put(c, 5, op_div(c, op_sum(c, l, NULL, 0, false), total));
    put(c, 6, integer(c, 3) == NONE ? full(c, type(x), 0, NULL, 0) : total);
}

/* grad, self, target, weight, reduction, ignore_index, total_weight, out */
void run_nll_loss_backward(struct call *c)
{
    tensor *g = x_of(c, 0), *x = x_of(c, 1), *d, *full_x;
    struct nll n = nll_of(c, x, 2, 3, integer(c, 5));
    int classes = rank(x) > 1 ? 1 : 0;

    d = op_mul(c, g, op_neg(c, n.weight));
    if (integer(c, 4) == MEAN)
        d = op_div(c, d, x_of(c, 6));
    d = op_where(c, n.used, d, full(c, type(x), 0, NULL, 0));
    full_x = full_like(c, x, type(x), 0);
    op_scatter_add(c, full_x, classes, unsqueeze(c, n.index, classes),
                   contiguous(c, unsqueeze(c, d, classes)));
    give(c, full_x);
}

/* logits, labels (probabilities), loss per row, gradient */
void run_softmax_cross_entropy(struct call *c)
{
    tensor *x = x_of(c, 0), *t = x_of(c, 1), *p = op_log_softmax(c, x, 1);
    const int last = 1;

    put(c, 2, op_neg(c, op_sum(c, op_mul(c, t, p), &last, 1, false)));
    put(c, 3, op_sub(c, op_exp(c, p), t));
}

/* input [n, classes], target, weight, reduction, ignore_index, label_smoothing, lse_scale,
 * return_zloss, loss, log_prob, zloss, lse */
void run_cross_entropy(struct call *c)
{
    tensor *x = x_of(c, 0), *logp = op_log_softmax(c, x, 1), *l, *total, *smooth;
    struct nll n = nll_of(c, x, 1, 2, integer(c, 4));
    double s = real(c, 5);
    const int last = 1;

    if (integer(c, 7) || real(c, 6) != 0) {
        (void)call_fail(c, "a z-loss is not supported");
        return;
    }
    l = squeeze(c, op_gather(c, logp, 1, unsqueeze(c, n.index, 1)), 1);
    l = op_neg(c, op_mul(c, l, n.weight));
    if (s != 0) {
        smooth = given(c, 2) ? op_mul(c, logp, wide(c, in(c, 2))) : logp;
        smooth = op_neg(c, op_sum(c, smooth, &last, 1, false));
        smooth = op_where(c, n.used, smooth, full(c, type(x), 0, NULL, 0));
        l = op_add(c, op_muls(c, l, 1 - s), op_muls(c, smooth, s / (double)size(x, 1)));
    }
    total = op_sum(c, n.weight, NULL, 0, false);
    if (text_is(c, 3, "none"))
        put(c, 8, l);
    else if (text_is(c, 3, "sum"))
        put(c, 8, op_sum(c, l, NULL, 0, false));
    else
        put(c, 8, op_div(c, op_sum(c, l, NULL, 0, false), total));
    put(c, 9, logp);
}
