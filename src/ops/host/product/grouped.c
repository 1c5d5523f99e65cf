/* Products of groups: calls the gemm for each group, in parts of equal cost per block. */
#include "ops/host/product/grouped.h"

#include "base/base.h"
#include "ops/tile.h"

/* Parts of a group consist of whole stretches of this many columns (or rows, if columns are
 * cut). */
enum { UNIT = 48 };

static int64_t end_of(const struct weir__grouped *a, int64_t group)
{
    const int64_t at = group * a->end_step;

    return a->end_type == WEIR_I64 ? ((const int64_t *)(const void *)a->ends)[at]
                                   : ((const int32_t *)(const void *)a->ends)[at];
}

/* The approximate cost of a unit of a group: its rows, and loading its matrix. */
static int64_t unit_cost(const struct weir__grouped *a, int64_t group, int64_t length)
{
    if (group == a->groups)
        return weir__div_up(length, 16); /* only zeros are written */
    return length ? length + 8 : a->along == WEIR__GROUPED_DEPTH;
}

/* Computes the cost of all groups. Fails if the ends are not valid. */
static weir_status check_ends(const struct weir__grouped *a, int64_t units, int64_t *total)
{
    const int64_t length = weir__grouped_length(a);
    int64_t begin = 0;

    *total = 0;
    for (int64_t g = 0; g < a->groups; g++) {
        const int64_t end = end_of(a, g);

        if (end < begin || end > length)
            return weir__fail(WEIR_ERANGE,
                              "GroupedMatMul: end %lld of group %lld is out of range: %lld..%lld",
                              (long long)end, (long long)g, (long long)begin, (long long)length);
        *total += units * unit_cost(a, g, end - begin);
        begin = end;
    }
    *total += units * unit_cost(a, a->groups, length - begin);
    return WEIR_OK;
}

static void run(const struct weir__grouped *a, const struct weir__gemm *whole, struct weir__gemm *g,
                void *local)
{
    if (a->gemm.dtype == WEIR_F64)
        WEIR__ISA_NAME(weir__gemm_f64)(g, local);
    else if (weir__gemm_takes_pairs(whole))
        WEIR__ISA_NAME(weir__gemm_bf16)(g, local);
    else
        WEIR__ISA_NAME(weir__gemm_f32)(g, local);
}

/* Computes units first .. last - 1 of the group begin .. end. */
static void run_part(const struct weir__grouped *a, int64_t group, int64_t begin, int64_t end,
                     int64_t first, int64_t last, void *local)
{
    const int64_t size = (int64_t)weir_dtype_size(a->gemm.dtype);
    struct weir__gemm whole = a->gemm, g;

    if (a->along == WEIR__GROUPED_ROWS) {
        whole.m = end - begin;
        whole.a += begin * whole.a_row * size;
        whole.c += begin * whole.c_row * size;
    } else if (a->along == WEIR__GROUPED_COLUMNS) {
        whole.n = end - begin;
        whole.b += begin * whole.b_col * size;
        whole.c += begin * whole.c_col * size;
    } else {
        whole.k = end - begin;
        whole.a += begin * whole.a_col * size;
        whole.b += begin * whole.b_row * size;
    }
    if (group == a->groups) {
        whole.k = 0;
        whole.bias = NULL;
    } else {
        whole.a += group * a->a_group * size;
        whole.b += group * a->b_group * size;
        whole.c += group * a->c_group * size;
        if (whole.bias)
            whole.bias += group * a->bias_group * size;
    }
    whole.dot = whole.k > 0 && weir__gemm_is_dot(&whole);
    whole.thin = weir__gemm_is_thin(&whole);
    g = whole;
    if (a->along == WEIR__GROUPED_COLUMNS) {
        g.m = weir__min(whole.m, last * UNIT) - first * UNIT;
        g.a += first * UNIT * g.a_row * size;
        g.c += first * UNIT * g.c_row * size;
    } else {
        g.n = weir__min(whole.n, last * UNIT) - first * UNIT;
        g.b += first * UNIT * g.b_col * size;
        g.c += first * UNIT * g.c_col * size;
        if (g.bias)
            g.bias += first * UNIT * g.bias_col * size;
    }
    if (g.m > 0 && g.n > 0)
        run(a, &whole, &g, local);
}

weir_status WEIR__ISA_NAME(weir__grouped_kernel)(const void *args, const weir_block *block)
{
    const struct weir__grouped *a = args;
    const int64_t across = a->along == WEIR__GROUPED_COLUMNS ? a->gemm.m : a->gemm.n;
    const int64_t units = weir__div_up(across, UNIT);
    const bool has_rest = a->along != WEIR__GROUPED_DEPTH;
    int64_t total, low, high, begin = 0, at = 0;
    weir_status st;

    if ((st = check_ends(a, units, &total)))
        return st;
    /* Each block takes a range of the total cost, and computes the units that begin in it. */
    low = total * block->index / block->count;
    high = total * (block->index + 1) / block->count;
    for (int64_t g = 0; g < a->groups + has_rest && at < high; g++) {
        const int64_t end = g < a->groups ? end_of(a, g) : weir__grouped_length(a);
        const int64_t cost = unit_cost(a, g, end - begin);

        if (cost && at + units * cost > low) {
            const int64_t first = low > at ? weir__div_up(low - at, cost) : 0;
            const int64_t last = weir__min(units, weir__div_up(high - at, cost));

            if (first < last)
                run_part(a, g, begin, end, first, last, block->local);
        }
        at += units * cost;
        begin = end;
    }
    return WEIR_OK;
}
