/* Attention for one compute type; included by attention_f32.c and attention_f64.c. */
#include "ops/host/product/attention_few.h"
#include "ops/host/product/attention_many.h"

/* Where the results of one query row's parts lie: dv sums, their maximum and their total. */
static real *partial_of(const struct weir__attention *a, int64_t row, int64_t part)
{
    return (real *)a->partial + (row * a->splits + part) * (a->dv + 2);
}

static void store_rows(const struct unit *u, int64_t batch, int64_t part)
{
    const struct weir__attention *a = u->a;
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);

    for (int64_t r = 0; r < u->rows; r++) {
        const int64_t row = (batch * a->heads + head_of(u, r)) * a->lq + position_of(u, r);
        const real scale = u->total[r] == 0 ? 0 : 1 / u->total[r];
        real *sums = u->sums + r * u->ld_out;

        if (a->splits > 1) {
            real *to = partial_of(a, row, part);

            memcpy(to, sums, (size_t)a->dv * sizeof *to);
            to[a->dv] = u->top[r];
            to[a->dv + 1] = u->total[r];
            continue;
        }
        if (!a->few) {
            sums = u->scores; /* of no use any more */
            take_row(u, r, sums);
        }
        for (int64_t i = 0; i < a->dv; i++)
            sums[i] *= scale;
        store_row(a->out + row * a->dv * size, 1, a->dtype, sums, a->dv);
    }
}

static void attend(const struct weir__attention *a, int64_t index, void *local)
{
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);
    const int64_t lines = weir__div_up(a->row_block, NR) * NR;
    const int64_t part = index % a->splits, unit = index / a->splits;
    int64_t batch = unit / a->row_blocks / a->key_heads, rest = batch;
    int64_t q = 0, k = 0, v = 0, mask = 0, last = 0;
    struct unit u = {.a = a, .key_head = unit / a->row_blocks % a->key_heads};

    for (int d = a->ndims - 1; d >= 0; d--) {
        const int64_t at = rest % a->shape[d];

        rest /= a->shape[d];
        q += at * a->q.batch[d];
        k += at * a->k.batch[d];
        v += at * a->v.batch[d];
        mask += at * a->mask.batch[d];
    }
    u.k = a->k.data + (k + u.key_head * a->k.head) * size;
    u.v = a->v.data + (v + u.key_head * a->v.head) * size;
    if (a->mask.data)
        u.mask = a->mask.data + mask * (int64_t)weir_dtype_size(a->mask_dtype);
    u.row0 = unit % a->row_blocks * a->row_block;
    u.rows = weir__min(a->row_block, a->heads / a->key_heads * a->lq - u.row0);
    u.ld_out = weir__div_up(a->dv, a->few ? NR : MR) * (a->few ? NR : MR);
    u.queries = local;
    u.operand = u.queries + lines * padded(a->d);
    u.values = u.operand + weir__max(a->d, NR) * a->key_block;
    u.scores = u.values + (weir__div_up(a->dv, MR) * MR) * a->key_block;
    u.weights = u.scores + lines * a->key_block;
    u.sums = u.weights + weir__max(NR, a->few ? lines : 0) * a->key_block;
    u.top = u.sums + lines * u.ld_out;
    u.total = u.top + lines;

    memset(u.sums, 0, (size_t)(lines * u.ld_out) * sizeof *u.sums);
    for (int64_t r = 0; r < lines; r++) {
        u.top[r] = -(real)INFINITY;
        u.total[r] = 0;
    }
    for (int64_t r = 0; r < u.rows; r++)
        last = weir__max(last, visible_keys(&u, r));
    u.key0 = part * a->split_keys;
    u.end = weir__min(last, u.key0 + a->split_keys);
    (a->few ? attend_few : attend_many)(&u, a->q.data + q * size);
    store_rows(&u, batch, part);
}

/* The parts of one query row, in their order. */
static void combine(const struct weir__attention *a, int64_t row, void *local)
{
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);
    real *out = local, top = -(real)INFINITY, total = 0;

    for (int64_t p = 0; p < a->splits; p++)
        top = partial_of(a, row, p)[a->dv] > top ? partial_of(a, row, p)[a->dv] : top;
    memset(out, 0, (size_t)a->dv * sizeof *out);
    for (int64_t p = 0; p < a->splits; p++) {
        const real *from = partial_of(a, row, p), most = from[a->dv];
        /* a part without keys has no sums, but may have seen NaN */
        const real factor = most == -(real)INFINITY ? 1 : (real)exp((double)(most - top));

        total += from[a->dv + 1] * factor;
        for (int64_t i = 0; i < a->dv; i++)
            out[i] += from[i] * factor;
    }
    for (int64_t i = 0; i < a->dv; i++)
        out[i] *= total == 0 ? 0 : 1 / total;
    store_row(a->out + row * a->dv * size, 1, a->dtype, out, a->dv);
}
