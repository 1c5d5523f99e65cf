/* Quantisation, and products of quantised matrices. */
#include "run.h"

/* Rounds to even and saturates to the range of an integer type. */
static tensor *rounded(struct call *c, tensor *x, weir_dtype to)
{
    double low = to == WEIR_U8 ? 0 : to == WEIR_I8 ? -128 : -2147483648.0;
    double high = to == WEIR_U8 ? 255 : to == WEIR_I8 ? 127 : 2147483647.0;

    return cast(c, op_clamp(c, math1(c, MATH_ROUND, x), low, high), to);
}

/* x, smooth_scales, y, scale: scales each row by its largest value */
void run_dynamic_quant(struct call *c)
{
    tensor *x = wide(c, in(c, 0)), *s, *safe;
    int dim = rank(x) - 1;

    if (c->err || out_type(c, 2) != WEIR_I8) {
        (void)call_fail(c, "only int8 is supported for y");
        return;
    }
    if (given(c, 1))
        x = op_mul(c, x, wide(c, in(c, 1)));
    s = op_divs(c, op_max(c, op_abs(c, x), &dim, 1, true), 127);
    safe = op_where(c, op_eqs(c, s, 0), full(c, type(s), 0, NULL, 1), s);
    put(c, 2, rounded(c, op_div(c, x, safe), WEIR_I8));
    put(c, 3, squeeze(c, s, dim));
}

/* Reshapes a value per channel so that it broadcasts with x along `axis`. */
static tensor *along(struct call *c, tensor *s, const tensor *x, int axis)
{
    int64_t to[MAX_DIMS];

    if (numel(s) <= 1 || rank(s) == rank(x))
        return numel(s) == 1 ? reshape(c, s, 0, NULL) : s;
    for (int i = 0; i < rank(x); i++)
        to[i] = i == axis ? numel(s) : 1;
    return reshape(c, s, rank(x), to);
}

/* x, scale, offset, sqrt_mode, round_mode, dtype [, axis], y: x * scale + offset */
void run_ascend_quant(struct call *c)
{
    int at = c->row->count - 1;
    tensor *x = wide(c, in(c, 0)), *s;
    int axis = c->row->count > 7 ? wrap_dim(c, x, integer(c, 6)) : rank(x) - 1;

    if (!text_is(c, 4, "round") && text(c, 4)[0]) {
        (void)call_fail(c, "round mode '%s' is not supported", text(c, 4));
        return;
    }
    s = along(c, wide(c, in(c, 1)), x, axis);
    x = op_mul(c, x, s);
    if (integer(c, 3))
        x = op_mul(c, x, s);
    if (given(c, 2))
        x = op_add(c, x, along(c, wide(c, in(c, 2)), x, axis));
    put(c, at, rounded(c, x, out_type(c, at)));
}

/* x, scale, offset, dtype, sqrt_mode, y: (x + offset) * scale */
void run_ascend_anti_quant(struct call *c)
{
    tensor *x = wide(c, in(c, 0)), *s = wide(c, in(c, 1));

    if (given(c, 2))
        x = op_add(c, x, wide(c, in(c, 2)));
    x = op_mul(c, x, s);
    put(c, 5, integer(c, 4) ? op_mul(c, x, s) : x);
}

/* x, scales, zero_points, dtype, axis, out: x / scale + zero */
void run_quantize(struct call *c)
{
    tensor *x = wide(c, in(c, 0));
    int axis = wrap_dim(c, x, integer(c, 4));

    x = math1(c, MATH_ROUND, op_div(c, x, along(c, wide(c, in(c, 1)), x, axis)));
    if (given(c, 2))
        x = op_add(c, x, along(c, wide(c, in(c, 2)), x, axis));
    put(c, 5, rounded(c, x, out_type(c, 5)));
}

/* ---- scales packed into 64 bits: the low ones are those of an f32 ---- */

static weir_status pack_scale(const struct host *h)
{
    const int64_t *n = h->params;
    const float *s = h->in[0];
    int64_t *out = h->out[0];

    for (int64_t i = 0; i < *n; i++) {
        uint32_t bits;

        memcpy(&bits, s + i, sizeof bits);
        out[i] = (int64_t)(bits & 0xffffe000u); /* the hardware keeps 19 bits */
    }
    return WEIR_OK;
}

static weir_status unpack_scale(const struct host *h)
{
    const int64_t *n = h->params, *x = h->in[0];
    float *out = h->out[0];

    for (int64_t i = 0; i < *n; i++) {
        uint32_t bits = (uint32_t)x[i];

        memcpy(out + i, &bits, sizeof bits);
    }
    return WEIR_OK;
}

/* scale, offset, out */
void run_trans_quant_param(struct call *c)
{
    tensor *s = cast(c, in(c, 0), WEIR_F32);
    int64_t n = numel(s);

    if (given(c, 1) && numel(in(c, 1))) {
        (void)call_fail(c, "an offset is not supported");
        return;
    }
    put(c, 2, host_like(c, "PackScale", pack_scale, &n, sizeof n, &s, 1, s, WEIR_I64));
}

static tensor *scale_of(struct call *c, int i)
{
    tensor *s = in(c, i);
    int64_t n = numel(s);

    if (s && type(s) == WEIR_I64)
        return host_like(c, "UnpackScale", unpack_scale, &n, sizeof n, &s, 1, s, WEIR_F32);
    return wide(c, s);
}

/* ---- products of int8 ---- */

struct product {
    int x1, x2, scale, per_token, offset, bias;
    int turn1, turn2; /* indices of the transpose flags; -1: never */
    int out;
};

static void quant_product(struct call *c, const struct product *p)
{
    tensor *a = in(c, p->x1), *b = in(c, p->x2), *y, *bias = NULL;

    if (c->err)
        return;
    if (p->turn1 >= 0 && integer(c, p->turn1))
        a = transpose(c, a, rank(a) - 2, rank(a) - 1);
    if (p->turn2 >= 0 && integer(c, p->turn2))
        b = transpose(c, b, rank(b) - 2, rank(b) - 1);
    y = op_matmul(c, a, b);
    if (p->bias >= 0 && given(c, p->bias))
        bias = in(c, p->bias);
    if (bias && type(bias) == WEIR_I32) {
        y = op_add(c, y, bias);
        bias = NULL;
    }
    y = wide(c, y);
    if (p->scale >= 0 && given(c, p->scale))
        y = op_mul(c, y, scale_of(c, p->scale));
    if (p->per_token >= 0 && given(c, p->per_token))
        y = op_mul(c, y, unsqueeze(c, flat(c, wide(c, in(c, p->per_token))), 1));
    if (bias)
        y = op_add(c, y, bias);
    if (p->offset >= 0 && given(c, p->offset))
        y = op_add(c, y, wide(c, in(c, p->offset)));
    if (out_type(c, p->out) == WEIR_I8)
        y = rounded(c, y, WEIR_I8);
    put(c, p->out, y);
}

/* x1, x2, scale, offset, bias, turn1, turn2, out */
void run_quant_matmul_v3(struct call *c)
{
    quant_product(c, &(struct product){0, 1, 2, -1, 3, 4, 5, 6, 7});
}

/* x1, x2, scale, offset, per_token, bias, turn1, turn2, out */
void run_quant_matmul_v4(struct call *c)
{
    quant_product(c, &(struct product){0, 1, 2, 4, 3, 5, 6, 7, 8});
}

/* x1, x2, x1_scale, x2_scale, y_scale, x1_offset, x2_offset, y_offset, bias, turn1, turn2,
 * group_size, out */
void run_quant_matmul_v5(struct call *c)
{
    for (int i = 4; i <= 7; i++)
        if (given(c, i) && numel(in(c, i)))
            (void)call_fail(c, "%s is not supported", c->row->operands[i].name);
    if (integer(c, 11))
        (void)call_fail(c, "group_size %lld is not supported", (long long)integer(c, 11));
    quant_product(c, &(struct product){0, 1, 3, 2, -1, 8, 9, 10, 12});
}

struct nibbles {
    int ndim;
    int64_t shape[MAX_DIMS], stride[MAX_DIMS];
};

/* Unpacks int4, of which a byte holds two, the first in its lower half. */
static weir_status unpack(const struct host *h)
{
    const struct nibbles *n = h->params;
    const uint8_t *in = h->in[0];
    int8_t *out = h->out[0];
    int64_t at[MAX_DIMS] = {0}, place = 0;
    int d;

    do {
        int half = in[place / 2] >> place % 2 * 4 & 15;

        *out++ = (int8_t)(half >= 8 ? half - 16 : half);
        for (d = n->ndim - 1; d >= 0; d--) {
            place += n->stride[d];
            if (++at[d] < n->shape[d])
                break;
            place -= n->stride[d] * n->shape[d];
            at[d] = 0;
        }
    } while (d >= 0);
    return WEIR_OK;
}

/* Returns an operand that may be int4; int4 is converted to int8. */
static tensor *unpacked(struct call *c, int i)
{
    const aclTensor *t = c->args[i].tensor;
    struct host_out as = {.dtype = WEIR_I8};
    struct nibbles n = {0};
    int64_t bytes = 1, count = 1;
    tensor *packed = NULL, *x = NULL;

    if (t->type != ACL_INT4)
        return in(c, i);
    n.ndim = as.ndim = t->ndim;
    for (int d = 0; d < t->ndim; d++) {
        int64_t span;

        n.shape[d] = as.shape[d] = t->shape[d];
        n.stride[d] = t->stride[d];
        count = count && t->shape[d];
        if (t->stride[d] < 0 || __builtin_mul_overflow(t->shape[d] - 1, t->stride[d], &span) ||
            __builtin_add_overflow(bytes, span, &bytes))
            return call_fail(c, "stride %lld of an int4 tensor", (long long)t->stride[d]);
    }
    if (!count)
        return empty(c, WEIR_I8, t->ndim, t->shape);
    if (t->offset % 2)
        return call_fail(c, "an int4 tensor begins within a byte");
    bytes = (bytes + 1) / 2;
    if (weir_cann_tensor(t->data + t->offset / 2, WEIR_U8, 1, &bytes, NULL, &packed)) {
        c->err = ACLNN_ERR_PARAM_INVALID;
        return NULL;
    }
    packed = own(c, packed);
    host_run(c, "UnpackInt4", unpack, &n, sizeof n, &packed, 1, &as, 1, &x);
    return x;
}

/* x, weight [k, n], antiquant_scale, antiquant_offset, quant_scale, quant_offset, bias, group_size,
 * out: x times (weight + offset) * scale, a scale for each of `group_size` rows */
void run_weight_quant_matmul(struct call *c)
{
    tensor *x = in(c, 0), *w = wide(c, unpacked(c, 1)), *s = wide(c, in(c, 2)), *o = NULL;
    int64_t group = integer(c, 7), k = size(w, 0), n = size(w, 1);

    if (given(c, 4) || given(c, 5))
        (void)call_fail(c, "quantised results are not supported");
    if (c->err)
        return;
    if (given(c, 3))
        o = wide(c, in(c, 3));
    if (group > 0) { /* [k / group, group, n] */
        int64_t to[3] = {group ? k / group : 0, group, n}, scales[3] = {to[0], 1, n};

        w = reshape(c, w, 3, to);
        s = reshape(c, s, 3, scales);
        o = o ? reshape(c, o, 3, scales) : NULL;
    }
    if (o)
        w = op_add(c, w, o);
    w = op_mul(c, w, s);
    if (group > 0)
        w = reshape(c, w, 2, (const int64_t[]){k, n});
    w = op_matmul(c, wide(c, x), w);
    if (given(c, 6))
        w = op_add(c, w, wide(c, in(c, 6)));
    put(c, 8, w);
}
