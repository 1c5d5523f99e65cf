/* Random numbers of weir's generator, by the caller's seed and offset. They differ from those of
 * the hardware, but the same seed and offset give the same numbers. */
#include "run.h"

/* The start of an operator's numbers. A captured operator reads seed and offset from tensors, so
 * that each replay gets other numbers; `more` is its offset within the graph. */
struct seed {
    uint64_t known;
    tensor *seed, *offset;
    uint64_t more;
};

static uint64_t mixed(uint64_t seed, uint64_t offset)
{
    return seed * 0x9e3779b97f4a7c15u ^ (offset + 0x632be59bd9b4e019u) * 0xbf58476d1ce4e5b9u;
}

static bool seed_in_tensor(const struct call *c, int i)
{
    return c->row->operands[i].kind == OPERAND_T;
}

/* seed, offset [, more], from operand i on */
static struct seed seed_of(struct call *c, int i)
{
    if (seed_in_tensor(c, i))
        return (struct seed){0, cast(c, in(c, i), WEIR_I64), cast(c, in(c, i + 1), WEIR_I64),
                             (uint64_t)integer(c, i + 2)};
    return (struct seed){.known = mixed((uint64_t)integer(c, i), (uint64_t)integer(c, i + 1))};
}

/* Returns the index of the operand after seed and offset. */
static int after_seed(const struct call *c, int i)
{
    return i + (seed_in_tensor(c, i) ? 3 : 2);
}

struct random_params {
    uint64_t more;
    int64_t count;
    bool wide, normal;
};

/* Philox-4x32-10 with the same counters as weir's operators, so that eager and replayed numbers are
 * equal. */
static void philox(uint32_t w[4], uint64_t seed, uint64_t counter)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

    w[0] = (uint32_t)counter;
    w[1] = (uint32_t)(counter >> 32);
    w[2] = w[3] = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)w[0] * 0xD2511F53u, p1 = (uint64_t)w[2] * 0xCD9E8D57u;

        w[0] = (uint32_t)(p1 >> 32) ^ w[1] ^ key0;
        w[1] = (uint32_t)p1;
        w[2] = (uint32_t)(p0 >> 32) ^ w[3] ^ key1;
        w[3] = (uint32_t)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* Converts two uniform numbers of [0, 1), whose spacing is `least`, to two normal ones. */
static void box_muller(double u[2], double least)
{
    double radius = sqrt(-2 * log(u[0] + least)), angle = 6.28318530717958647692 * u[1];

    u[0] = radius * cos(angle);
    u[1] = radius * sin(angle);
}

static weir_status random_host(const struct host *h)
{
    const struct random_params *p = h->params;
    uint64_t seed = mixed(*(const uint64_t *)h->in[0], *(const uint64_t *)h->in[1] + p->more);
    int each = p->wide ? 2 : 4;

    for (int64_t i = 0; i < p->count; i += each) {
        double u[4] = {0};
        uint32_t w[4];

        philox(w, seed, (uint64_t)(i / each));
        if (p->wide)
            for (int k = 0; k < 2; k++)
                u[k] = (double)((uint64_t)(w[2 * k] >> 5) << 26 | w[2 * k + 1] >> 6) * 0x1p-53;
        else
            for (int k = 0; k < 4; k++)
                u[k] = (double)(w[k] >> 8) * 0x1p-24;
        for (int k = 0; p->normal && k < each; k += 2)
            box_muller(u + k, p->wide ? 0x1p-53 : 0x1p-24);
        for (int k = 0; k < each && i + k < p->count; k++)
            if (p->wide)
                ((double *)h->out[0])[i + k] = u[k];
            else
                ((float *)h->out[0])[i + k] = (float)u[k];
    }
    return WEIR_OK;
}

/* Makes an f32 or f64 tensor of uniform or normal numbers, with the shape of another. In a capture
 * the tensor must be a result of the graph. */
static tensor *numbers(struct call *c, tensor *shaped, weir_dtype dtype, const struct seed *s,
                       bool is_normal)
{
    struct random_params p = {s->more, numel(shaped), dtype == WEIR_F64, is_normal};
    tensor *x, *seeds[2] = {s->seed, s->offset};

    if (!shaped || c->err)
        return NULL;
    if (s->seed)
        return host_like(c, "Random", random_host, &p, sizeof p, seeds, 2, shaped, dtype);
    x = full(c, dtype, rank(shaped), shape(shaped), 0);
    if (x && numel(x))
        (void)call_ok(c, is_normal ? weir_random_normal(x, s->known, 0, 1)
                                   : weir_random_uniform(x, s->known, 0, 1));
    return x;
}

static tensor *uniform(struct call *c, tensor *shaped, weir_dtype dtype, struct seed s)
{
    tensor *x = numbers(c, shaped, dtype, &s, false);

    /* rounding may give 1, which is outside of [0, 1) */
    return x ? op_minimums(c, x, dtype == WEIR_F64 ? 0x1.fffffffffffffp-1 : 0x1.fffffep-1) : NULL;
}

static tensor *normal(struct call *c, tensor *shaped, weir_dtype dtype, struct seed s)
{
    return numbers(c, shaped, dtype, &s, true);
}

static weir_dtype made_in(struct call *c, int i)
{
    return out_type(c, i) == WEIR_F64 ? WEIR_F64 : WEIR_F32;
}

/* self, from, to, seed, offset */
void run_uniform(struct call *c)
{
    double low = real(c, 1), high = real(c, 2);
    tensor *u = uniform(c, in(c, 0), made_in(c, 0), seed_of(c, 3));

    put(c, 0, op_adds(c, op_muls(c, u, high - low), low));
}

/* self, mean, std, seed, offset */
void run_normal(struct call *c)
{
    tensor *z = normal(c, in(c, 0), made_in(c, 0), seed_of(c, 3));

    put(c, 0, op_adds(c, op_muls(c, z, real(c, 2)), real(c, 1)));
}

/* mean, std, seed, offset, out: each a number or a tensor */
void run_normal_out(struct call *c)
{
    tensor *z = normal(c, in(c, 4), made_in(c, 4), seed_of(c, 2));

    z = c->row->operands[1].kind == OPERAND_T ? op_mul(c, z, in(c, 1)) : op_muls(c, z, real(c, 1));
    z = c->row->operands[0].kind == OPERAND_T ? op_add(c, z, in(c, 0)) : op_adds(c, z, real(c, 0));
    put(c, 4, z);
}

/* self, p (a number or a tensor), seed, offset */
void run_bernoulli(struct call *c)
{
    tensor *x = in(c, 0), *u = uniform(c, x, WEIR_F32, seed_of(c, 2));

    put(c, 0,
        c->row->operands[1].kind == OPERAND_T ? op_lt(c, u, in(c, 1))
                                              : op_lts(c, u, number(c, 1, 0.5)));
}

/* self, from, to, seed, offset: integers of from..to-1 */
static void integers(struct call *c, double low, double high, struct seed seed)
{
    tensor *x = in(c, 0), *u = uniform(c, x, WEIR_F64, seed);

    u = math1(c, MATH_FLOOR, op_adds(c, op_muls(c, u, high - low), low));
    put(c, 0, cast(c, u, WEIR_I64));
}

void run_random(struct call *c)
{
    integers(c, (double)integer(c, 1), (double)integer(c, 2), seed_of(c, 3));
}

/* self, seed, offset: integers that the type represents exactly */
void run_random_all(struct call *c)
{
    static const double most[WEIR_DTYPE_COUNT] = {
        [WEIR_F32] = 16777217,
        [WEIR_F16] = 2049,
        [WEIR_BF16] = 257,
        [WEIR_F64] = 9007199254740992.0,
        [WEIR_I64] = 9007199254740992.0,
        [WEIR_I32] = 2147483648.0,
        [WEIR_I8] = 128,
        [WEIR_U8] = 256,
        [WEIR_BOOL] = 2,
    };

    integers(c, 0, most[out_type(c, 0)], seed_of(c, 1));
}

/* n, seed, offset, out: a permutation that sorts random numbers */
void run_randperm(struct call *c)
{
    tensor *out = in(c, 3), *values, *indices;

    if (!numel(out))
        return;
    op_sort(c, uniform(c, out, WEIR_F64, seed_of(c, 1)), 0, false, &values, &indices);
    put(c, 3, indices);
}

/* self, num_samples, replacement, seed, offset, out: the indices of the largest p / -log(u) */
void run_multinomial(struct call *c)
{
    tensor *p = wide(c, in(c, 0)), *row, *u, *values = NULL, *indices = NULL;
    int out = after_seed(c, 3);
    int64_t samples = integer(c, 1), n = size(p, -1), rows = n ? numel(p) / n : 0;
    int64_t each[3] = {rows, samples, n}, to[3] = {rows, 1, n};

    if (c->err || !numel(in(c, out)))
        return;
    row = reshape(c, p, 3, to);
    if (integer(c, 2)) { /* with replacement: new random numbers for each sample */
        u = uniform(c, full(c, type(p), 3, each, 0), type(p), seed_of(c, 3));
        row = op_div(c, row, op_neg(c, op_log(c, op_maximums(c, u, 1e-37))));
        put(c, out, op_argmax(c, row, 2, false));
        return;
    }
    u = uniform(c, row, type(p), seed_of(c, 3));
    row = op_div(c, row, op_neg(c, op_log(c, op_maximums(c, u, 1e-37))));
    if (!c->err && call_ok(c, weir_topk(row, samples, 2, true, &values, &indices))) {
        (void)own(c, values);
        put(c, out, own(c, indices));
    }
}

/* ---- dropout: masks are bits, eight to a byte ---- */

static weir_status pack_bits(const struct host *h)
{
    const int64_t *n = h->params;
    const uint8_t *keep = h->in[0];
    uint8_t *bits = h->out[0];

    memset(bits, 0, (size_t)n[1]);
    for (int64_t i = 0; i < n[0] && i < n[1] * 8; i++)
        bits[i / 8] |= (uint8_t)((keep[i] != 0) << (i % 8));
    return WEIR_OK;
}

static weir_status unpack_bits(const struct host *h)
{
    const int64_t *n = h->params;
    const uint8_t *bits = h->in[0];
    uint8_t *keep = h->out[0];

    for (int64_t i = 0; i < n[0]; i++)
        keep[i] = i / 8 < n[1] ? bits[i / 8] >> (i % 8) & 1 : 0;
    return WEIR_OK;
}

static tensor *packed(struct call *c, tensor *keep, tensor *mask)
{
    int64_t n[2] = {numel(keep), numel(mask)};

    return host_like(c, "PackBits", pack_bits, n, sizeof n, &keep, 1, mask, WEIR_U8);
}

static tensor *unpacked(struct call *c, tensor *mask, tensor *x)
{
    int64_t n[2] = {numel(x), numel(mask)};

    return host_like(c, "UnpackBits", unpack_bits, n, sizeof n, &mask, 1, x, WEIR_BOOL);
}

static tensor *kept(struct call *c, tensor *x, tensor *keep, double p)
{
    tensor *y = op_muls(c, wide(c, x), p < 1 ? 1 / (1 - p) : 0);

    return op_where(c, keep, y, full(c, type(y), 0, NULL, 0));
}

/* shape, p, seed, offset [, dtype], mask */
void run_dropout_gen_mask(struct call *c)
{
    int at = c->row->count - 1;
    const aclIntArray *a = c->args[0].ints;
    int64_t n = 1;
    tensor *u;

    for (uint64_t i = 0; i < a->size; i++)
        n *= a->value[i];
    u = uniform(c, full(c, WEIR_F32, 1, &n, 0), WEIR_F32, seed_of(c, 2));
    put(c, at, packed(c, op_ges(c, u, real(c, 1)), in(c, at)));
}

/* self, mask, p, out */
void run_dropout_do_mask(struct call *c)
{
    tensor *x = in(c, 0), *mask = in(c, 1);

    if (!numel(x))
        return;
    give(c, kept(c, x, unpacked(c, cast(c, mask, WEIR_U8), x), real(c, 2)));
}

/* self, noise_shape, p, seed, offset, out, mask */
void run_dropout(struct call *c)
{
    tensor *x = in(c, 0), *keep;

    if (!numel(x))
        return;
    keep = op_ges(c, uniform(c, x, WEIR_F32, seed_of(c, 3)), real(c, 2));
    put(c, 5, kept(c, x, keep, real(c, 2)));
    put(c, 6, packed(c, keep, in(c, 6)));
}
