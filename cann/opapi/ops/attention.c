/* Attention. All forms first convert their operands to [batch, heads, length, size]. */
#include "attention.h"

bool layout_is(const char *layout, const char *what)
{
    return strcmp(layout, what) == 0;
}

/* Converts a layout to [b, n, s, d]. */
tensor *to_heads(struct call *c, tensor *x, const char *layout, int64_t heads)
{
    static const int middle[] = {0, 2, 1, 3}, from_sb[] = {1, 2, 0, 3};
    int64_t to[4];

    if (c->err || !x)
        return NULL;
    if (layout_is(layout, "BSH") || layout_is(layout, "SBH")) {
        if (rank(x) != 3 || !heads || size(x, 2) % heads)
            return call_fail(c, "a tensor of %d dims is not %s with %lld heads", rank(x), layout,
                             (long long)heads);
        to[0] = size(x, 0);
        to[1] = size(x, 1);
        to[2] = heads;
        to[3] = size(x, 2) / heads;
        return permute(c, reshape(c, x, 4, to), layout_is(layout, "BSH") ? middle : from_sb);
    }
    if (rank(x) == 3 && layout_is(layout, "TND"))
        return permute(c, unsqueeze(c, x, 0), middle);
    if (rank(x) != 4)
        return call_fail(c, "a tensor of %d dims is not %s", rank(x), layout);
    if (layout_is(layout, "BSND"))
        return permute(c, x, middle);
    if (layout_is(layout, "BNSD") || layout_is(layout, "BNSD_BSND"))
        return x;
    return call_fail(c, "the layout '%s' is not supported", layout);
}

/* Converts a result to the order of the layout's dims; `put` reshapes it. */
tensor *from_heads(struct call *c, tensor *x, const char *layout)
{
    static const int middle[] = {0, 2, 1, 3}, to_sb[] = {2, 0, 1, 3};
    int64_t to[3];

    if (c->err || !x || layout_is(layout, "BNSD"))
        return x;
    x = permute(c, x, layout_is(layout, "SBH") ? to_sb : middle);
    if (layout_is(layout, "TND"))
        return squeeze(c, x, 0);
    if (layout_is(layout, "BSND") || layout_is(layout, "BNSD_BSND"))
        return x;
    to[0] = size(x, 0);
    to[1] = size(x, 1);
    to[2] = size(x, 2) * size(x, 3);
    return reshape(c, x, 3, to);
}

/* Repeats the heads of k or v, each of which neighbouring heads of q share. */
static tensor *shared(struct call *c, tensor *x, int64_t heads)
{
    int64_t to[5], n = size(x, 1);

    if (c->err || !x || n == heads)
        return x;
    if (!n || heads % n)
        return call_fail(c, "%lld heads of k do not divide %lld of q", (long long)n,
                         (long long)heads);
    to[0] = size(x, 0);
    to[1] = n;
    to[2] = heads / n;
    to[3] = size(x, 2);
    to[4] = size(x, 3);
    x = expand(c, unsqueeze(c, x, 2), 5, to);
    to[1] = heads;
    to[2] = to[3];
    to[3] = to[4];
    return reshape(c, x, 4, to);
}

/* The gradient of `shared`: the sum over the heads that share one. */
static tensor *unshared(struct call *c, tensor *x, int64_t n)
{
    int64_t to[5] = {size(x, 0), n, n ? size(x, 1) / n : 0, size(x, 2), size(x, 3)};
    const int dim = 2;

    return !x || size(x, 1) == n ? x : op_sum(c, reshape(c, x, 5, to), &dim, 1, false);
}

/* Column - row, [sq, sk]: by how many tokens the key is later than the query. */
static tensor *distance(struct call *c, int64_t sq, int64_t sk)
{
    return op_sub(c, arange(c, WEIR_I64, sk, 0, 1), unsqueeze(c, arange(c, WEIR_I64, sq, 0, 1), 1));
}

/* Makes a tensor [b, 1, 1, 1] of the batch's lengths. */
static tensor *lengths(struct call *c, const aclIntArray *a, int64_t batch)
{
    int64_t to[4] = {(int64_t)a->size, 1, 1, 1};

    if (a->size == 1 || (int64_t)a->size == batch)
        return from_host(c, WEIR_I64, 4, to, a->value);
    return call_fail(c, "%llu lengths for %lld rows", (unsigned long long)a->size,
                     (long long)batch);
}

/* Combines everything that masks keys; true means masked. NULL if nothing is masked. */
static tensor *masked(struct call *c, const struct attention *a, int64_t batch, int64_t sq,
                      int64_t sk)
{
    tensor *m = NULL, *d, *more = NULL;

    if (a->mask) {
        switch (a->sparse) {
        case 0:
        case 1:
            m = op_truth(c, a->mask);
            while (rank(m) < 4 && !c->err)
                m = unsqueeze(c, m, rank(m) == 3 ? 1 : 0);
            /* the mask may be larger than the scores */
            if (size(m, -1) > sk)
                m = slice(c, m, 3, 0, sk, 1);
            if (size(m, -2) > sq)
                m = slice(c, m, 2, 0, sq, 1);
            break;
        case 2:
            m = op_gts(c, distance(c, sq, sk), 0);
            break;
        case 3:
            m = op_gts(c, distance(c, sq, sk), (double)(sk - sq));
            break;
        case 4:
            d = op_adds(c, distance(c, sq, sk), (double)(sq - sk));
            m = op_maximum(c, op_gts(c, d, (double)a->after), op_lts(c, d, -(double)a->before));
            break;
        default:
            return call_fail(c, "sparse mode %lld is not supported", (long long)a->sparse);
        }
    }
    if (a->kv_lengths && !a->cumulative)
        more = op_ge(c, arange(c, WEIR_I64, sk, 0, 1), lengths(c, a->kv_lengths, batch));
    return m && more ? op_maximum(c, m, more) : m ? m : more;
}

static struct scores score(struct call *c, const struct attention *a, tensor *q, tensor *k,
                           tensor *mask)
{
    struct scores s = {0};
    const int dim = 3;
    tensor *x = op_matmul(c, wide(c, q), transpose(c, wide(c, k), 2, 3)), *zero;

    if (a->bias && a->bias_scaled)
        x = op_add(c, x, wide(c, a->bias));
    x = op_muls(c, x, a->scale);
    if (a->bias && !a->bias_scaled)
        x = op_add(c, x, wide(c, a->bias));
    if (c->err)
        return s;
    zero = full(c, type(x), 0, NULL, 0);
    if (mask)
        x = op_where(c, mask, full(c, type(x), 0, NULL, -INFINITY), x);
    s.most = op_max(c, x, &dim, 1, true);
    /* a row that is masked completely */
    s.most = op_where(c, op_eqs(c, s.most, -INFINITY), zero, s.most);
    s.e = op_exp(c, op_sub(c, x, s.most));
    s.sum = op_sum(c, s.e, &dim, 1, true);
    return s;
}

/* e / sum; 0 for a row that is masked completely */
static tensor *probabilities(struct call *c, tensor *e, tensor *sum)
{
    tensor *one = full(c, type(sum), 0, NULL, 1);

    return op_div(c, e, op_where(c, op_eqs(c, sum, 0), one, sum));
}

/* Computes one batch of equal lengths; the result is [b, n, s, d]. */
tensor *attend(struct call *c, const struct attention *a, tensor *q, tensor *k, tensor *v,
               struct scores *stats)
{
    tensor *mask = masked(c, a, size(q, 0), size(q, 2), size(k, 2)), *y = NULL;
    struct scores s;

    if (c->err)
        return NULL;
    if (!mask && !a->bias && !stats && numel(q) && numel(k) && type(q) == type(k) &&
        type(q) == type(v)) {
        weir_attention_options o = {.scale = a->scale};

        return call_ok(c, weir_attention(q, k, v, NULL, &o, &y)) ? own(c, y) : NULL;
    }
    s = score(c, a, q, shared(c, k, size(q, 1)), mask);
    y = op_matmul(c, probabilities(c, s.e, s.sum), wide(c, shared(c, v, size(q, 1))));
    if (a->q_lengths && !a->cumulative) {
        tensor *row = unsqueeze(c, arange(c, WEIR_I64, size(q, 2), 0, 1), 1);

        y = op_where(c, op_ge(c, row, lengths(c, a->q_lengths, size(q, 0))),
                     full(c, type(y), 0, NULL, 0), y);
    }
    if (stats)
        *stats = s;
    return y;
}

/* Returns where the tokens of row b of a packed batch begin. */
static int64_t begin_of(const aclIntArray *ends, uint64_t b)
{
    return b ? ends->value[b - 1] : 0;
}

/* Runs the attention. The last arguments are the indices of the output operands: the result, and
 * optionally the maxima and sums, or the log-sum-exp; -1 for none. */
void attention_run(struct call *c, struct attention *a, int out, int most, int sum, int lse)
{
    bool stats = (most >= 0 && given(c, most)) || (lse >= 0 && given(c, lse));
    int64_t kv_heads = a->kv_heads ? a->kv_heads : a->heads;
    tensor *q, *k, *v, *y;
    struct scores s = {0};

    if (c->err)
        return;
    if (layout_is(a->layout, "TND")) {
        if (!a->q_lengths || !a->kv_lengths || a->q_lengths->size != a->kv_lengths->size) {
            (void)call_fail(c, "TND needs the lengths of q and of k, of the same count");
            return;
        }
        for (uint64_t b = 0; b < a->q_lengths->size && !c->err; b++) {
            int64_t q0 = begin_of(a->q_lengths, b), q1 = a->q_lengths->value[b];
            int64_t k0 = begin_of(a->kv_lengths, b), k1 = a->kv_lengths->value[b];

            if (q1 <= q0)
                continue;
            y = attend(c, a, to_heads(c, slice(c, a->q, 0, q0, q1, 1), "TND", 0),
                       to_heads(c, slice(c, a->k, 0, k0, k1, 1), "TND", 0),
                       to_heads(c, slice(c, a->v, 0, k0, k1, 1), "TND", 0), stats ? &s : NULL);
            put_tensor(c, slice(c, in(c, out), 0, q0, q1, 1), from_heads(c, y, "TND"));
            if (stats && most >= 0) {
                put_tensor(c, slice(c, in(c, most), 0, q0, q1, 1), from_heads(c, s.most, "TND"));
                put_tensor(c, slice(c, in(c, sum), 0, q0, q1, 1), from_heads(c, s.sum, "TND"));
            } else if (stats) {
                put_tensor(c, slice(c, in(c, lse), 0, q0, q1, 1),
                           from_heads(c, op_add(c, s.most, op_log(c, s.sum)), "TND"));
            }
        }
        return;
    }
    q = to_heads(c, a->q, a->layout, a->heads);
    k = to_heads(c, a->k, a->layout, kv_heads);
    v = to_heads(c, a->v, a->layout, kv_heads);
    y = attend(c, a, q, k, v, stats ? &s : NULL);
    put(c, out, from_heads(c, y, a->layout));
    if (stats && most >= 0) {
        put(c, most, s.most);
        put(c, sum, s.sum);
    } else if (stats) {
        put(c, lse, op_add(c, s.most, op_log(c, s.sum)));
    }
}

void attention_refuse(struct call *c, int from, int to)
{
    for (int i = from; i <= to; i++)
        if (c->row->operands[i].kind != OPERAND_VALUE && given(c, i) &&
            (c->row->operands[i].kind != OPERAND_T || numel(in(c, i))))
            (void)call_fail(c, "%s is not supported", c->row->operands[i].name);
}

/* ---- training ---- */

/* q, k, v, pse, drop_mask, padding_mask, atten_mask, prefix, scale, keep_prob, pre, next, heads,
 * layout, inner, sparse, most, sum, softmax, out; the packed form has lengths after prefix */
static void training(struct call *c, bool packed)
{
    int i = packed ? 10 : 8; /* scale */
    struct attention a = {
        .q = in(c, 0),
        .k = in(c, 1),
        .v = in(c, 2),
        .bias = in(c, 3),
        .mask = in(c, 6),
        .bias_scaled = true,
        .cumulative = packed,
        .scale = real(c, i),
        .before = integer(c, i + 2),
        .after = integer(c, i + 3),
        .heads = integer(c, i + 4),
        .layout = text(c, i + 5),
        .sparse = integer(c, i + 7),
    };

    attention_refuse(c, 4, 5);
    if (real(c, i + 1) != 1)
        (void)call_fail(c, "dropout (keep_prob %g) is not supported", real(c, i + 1));
    if (packed) {
        a.q_lengths = c->args[8].ints;
        a.kv_lengths = c->args[9].ints;
    }
    if (!c->err && !layout_is(a.layout, "TND"))
        a.kv_heads = layout_is(a.layout, "BNSD")   ? size(a.k, 1)
                     : layout_is(a.layout, "BSND") ? size(a.k, 2)
                     : size(a.q, 2)                ? a.heads * size(a.k, 2) / size(a.q, 2)
                                                   : a.heads;
    attention_run(c, &a, i + 11, i + 8, i + 9, -1);
}

void run_flash_attention(struct call *c)
{
    training(c, false);
}

void run_flash_attention_packed(struct call *c)
{
    training(c, true);
}

/* q, k, v, dy, pse, drop_mask, padding_mask, atten_mask, most, sum, softmax, attention, prefix,
 * scale, keep_prob, pre, next, heads, layout, inner, sparse, dq, dk, dv, dpse */
void run_flash_attention_grad(struct call *c)
{
    struct attention a = {
        .q = in(c, 0),
        .k = in(c, 1),
        .v = in(c, 2),
        .bias = in(c, 4),
        .mask = in(c, 7),
        .bias_scaled = true,
        .scale = real(c, 13),
        .before = integer(c, 15),
        .after = integer(c, 16),
        .heads = integer(c, 17),
        .layout = text(c, 18),
        .sparse = integer(c, 20),
    };
    tensor *q, *k, *v, *g, *p, *dp, *ds;
    int64_t kv_heads;
    struct scores s;
    const int dim = 3;

    attention_refuse(c, 5, 6);
    if (real(c, 14) != 1)
        (void)call_fail(c, "dropout (keep_prob %g) is not supported", real(c, 14));
    if (c->err)
        return;
    kv_heads = layout_is(a.layout, "BNSD")   ? size(a.k, 1)
               : layout_is(a.layout, "BSND") ? size(a.k, 2)
               : size(a.q, 2)                ? a.heads * size(a.k, 2) / size(a.q, 2)
                                             : a.heads;
    q = wide(c, to_heads(c, a.q, a.layout, a.heads));
    k = wide(c, shared(c, to_heads(c, a.k, a.layout, kv_heads), a.heads));
    v = wide(c, shared(c, to_heads(c, a.v, a.layout, kv_heads), a.heads));
    g = wide(c, to_heads(c, in(c, 3), a.layout, a.heads));
    if (c->err)
        return;
    s = score(c, &a, q, k, masked(c, &a, size(q, 0), size(q, 2), size(k, 2)));
    p = probabilities(c, s.e, s.sum);
    dp = op_matmul(c, g, transpose(c, v, 2, 3));
    ds = op_mul(c, p, op_sub(c, dp, op_sum(c, op_mul(c, dp, p), &dim, 1, true)));
    put(c, 23,
        from_heads(c, unshared(c, op_matmul(c, transpose(c, p, 2, 3), g), kv_heads), a.layout));
    ds = op_muls(c, ds, a.scale);
    put(c, 21, from_heads(c, op_matmul(c, ds, k), a.layout));
    put(c, 22,
        from_heads(c, unshared(c, op_matmul(c, transpose(c, ds, 2, 3), q), kv_heads), a.layout));
    if (a.bias && given(c, 24) && numel(in(c, 24)) == numel(ds))
        put(c, 24, ds);
}
