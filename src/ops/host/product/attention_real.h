/* Attention for one compute type; included by attention_f32.c and attention_f64.c. */
#include "ops/host/product/attention_few.h"
#include "ops/host/product/attention_many.h"

/* The results of one part of a query row: dv sums, their maximum and their total. */
static real *partial_of(const struct weir__attention *a, int64_t row, int64_t part)
{
    return (real *)a->partial + (row * a->splits + part) * (a->dv + 2);
}

static void store_rows(const struct unit *u)
{
    const struct weir__attention *a = u->a;
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);

    for (int64_t r = 0; r < u->rows; r++) {
        const int64_t row = row_of_output(u, r);
        const real scale = u->total[r] == 0 ? 0 : 1 / u->total[r];
        real *sums = u->sums + r * u->ld_out;

        if (a->splits > 1) {
            real *to = partial_of(a, row, u->part);

            memcpy(to, sums, (size_t)a->dv * sizeof *to);
            to[a->dv] = u->top[r];
            to[a->dv + 1] = u->total[r];
            continue;
        }
        if (!a->few) {
            sums = u->scores; /* no longer needed */
            take_row(u, r, sums);
        }
        for (int64_t i = 0; i < a->dv; i++)
            sums[i] *= scale;
        store_row(a->out + weir__attention_place(a, row) * size, 1, a->dtype, sums, a->dv);
    }
}

static void attend(const struct weir__attention *a, int64_t index, void *local)
{
    const int64_t lines = a->few ? WEIR__ATTENTION_FEW : weir__div_up(a->row_block, NR) * NR;
    struct unit u = find_unit(a, index);

    u.ld_out = weir__div_up(a->dv, a->few ? NR : MR) * (a->few ? NR : MR);
    u.queries = local;
    u.operand = u.queries + lines * (padded(a->d) + LANES);
    u.values = u.operand + weir__max(a->d, NR) * a->key_block;
    u.scores = u.values + (weir__div_up(a->dv, MR) * MR) * a->key_block;
    u.weights = u.scores + lines * a->key_block;
    u.sums = u.weights + NR * a->key_block;
    u.top = u.sums + lines * u.ld_out;
    u.total = u.top + lines;

    memset(u.sums, 0, (size_t)(lines * u.ld_out) * sizeof *u.sums);
    for (int64_t r = 0; r < lines; r++) {
        u.top[r] = -(real)INFINITY;
        u.total[r] = 0;
    }
    (a->few ? attend_few : attend_many)(&u);
    store_rows(&u);
}

/* Combines the parts of one query row, in their order. */
static void combine(const struct weir__attention *a, int64_t row, void *local)
{
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);
    real *out = local, top = -(real)INFINITY, total = 0;

    for (int64_t p = 0; p < a->splits; p++)
        top = partial_of(a, row, p)[a->dv] > top ? partial_of(a, row, p)[a->dv] : top;
    memset(out, 0, (size_t)a->dv * sizeof *out);
    for (int64_t p = 0; p < a->splits; p++) {
        const real *from = partial_of(a, row, p), most = from[a->dv];
        /* a part whose keys are all masked has no sums, but may have seen NaN */
        const real factor = most == -(real)INFINITY ? 1 : (real)exp((double)(most - top));

        total += from[a->dv + 1] * factor;
        for (int64_t i = 0; i < a->dv; i++)
            out[i] += from[i] * factor;
    }
    for (int64_t i = 0; i < a->dv; i++)
        out[i] *= total == 0 ? 0 : 1 / total;
    store_row(a->out + weir__attention_place(a, row) * size, 1, a->dtype, out, a->dv);
}
