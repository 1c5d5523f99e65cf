/* Reductions: loops over the reduced positions, chunk by chunk. */
#include "ops/host/math/reduce.h"

#include <string.h>

#include "ops/host/box.h"
#include "ops/host/math/reduce_row.h"
#include "ops/host/row.h"
#include "ops/tile.h"

typedef union weir__reduce_value value;

static bool is_float(const struct weir__reduce *r)
{
    return r->in_type <= WEIR_F64;
}

/* The type that rows are loaded as. Small integers are loaded as i64. */
static weir_dtype load_type(const struct weir__reduce *r)
{
    weir_dtype type = weir__compute_type(r->in_type);

    return is_float(r) || type == WEIR_I32 ? type : WEIR_I64;
}

static value start_value(const struct weir__reduce *r)
{
    bool max = r->code == WEIR__REDUCE_MAX || r->code == WEIR__REDUCE_ARGMAX;

    if (r->code == WEIR__REDUCE_SUM)
        return is_float(r) ? (value){.f = 0} : (value){.i = 0};
    if (is_float(r))
        return (value){.f = max ? -INFINITY : INFINITY};
    return (value){.i = max ? INT64_MIN : INT64_MAX};
}

/* Whether v is preferred to the best value so far; index -1: there is none yet. */
static bool beats(const struct weir__reduce *r, value v, value best, int64_t index)
{
    if (index < 0)
        return true;
    if (is_float(r))
        return v.f > best.f || (v.f != v.f && best.f == best.f);
    return v.i > best.i;
}

static void merge(const struct weir__reduce *r, value *acc, int64_t *acc_index, value v,
                  int64_t index)
{
    switch (r->code) {
    case WEIR__REDUCE_SUM:
        if (is_float(r))
            acc->f += v.f;
        else
            acc->i = (int64_t)((uint64_t)acc->i + (uint64_t)v.i);
        break;
    case WEIR__REDUCE_MAX:
        if (is_float(r))
            acc->f = v.f > acc->f || v.f != v.f ? v.f : acc->f;
        else
            acc->i = v.i > acc->i ? v.i : acc->i;
        break;
    case WEIR__REDUCE_MIN:
        if (is_float(r))
            acc->f = v.f < acc->f || v.f != v.f ? v.f : acc->f;
        else
            acc->i = v.i < acc->i ? v.i : acc->i;
        break;
    case WEIR__REDUCE_ARGMAX:
        if (index >= 0 && beats(r, v, *acc, *acc_index)) {
            *acc = v;
            *acc_index = index;
        }
        break;
    }
}

static value row_value(const struct weir__reduce *r, const void *row, weir_dtype type, int64_t n)
{
#define BY_CODE(T, member)                                                       \
    r->code == WEIR__REDUCE_SUM   ? (value){.member = weir__row_sum_##T(row, n)} \
    : r->code == WEIR__REDUCE_MIN ? (value){.member = weir__row_min_##T(row, n)} \
                                  : (value)                                      \
    {                                                                            \
        .member = weir__row_max_##T(row, n)                                      \
    }
    switch (type) {
    case WEIR_F32:
        return BY_CODE(f32, f);
    case WEIR_F64:
        return BY_CODE(f64, f);
    case WEIR_I32:
        return BY_CODE(i32, i);
    default:
        return BY_CODE(i64, i);
    }
#undef BY_CODE
}

/* The index of the first element of the row that equals v; if v is NaN, of the first NaN. */
static int64_t find(const void *row, weir_dtype type, value v, int64_t n)
{
#define SCAN(ctype, member)                                                                    \
    do {                                                                                       \
        const ctype *x = row;                                                                  \
        int64_t i = 0;                                                                         \
        /* Vector compares skip blocks without the value. */                                   \
        for (int any = 0; i + 64 <= n; i += 64) {                                              \
            for (int j = 0; j < 64; j++)                                                       \
                any |= (x[i + j] == (ctype)v.member) | (x[i + j] != x[i + j]);                 \
            if (any)                                                                           \
                break;                                                                         \
        }                                                                                      \
        while (i < n - 1 && x[i] != (ctype)v.member && (x[i] == x[i] || v.member == v.member)) \
            i++;                                                                               \
        return i;                                                                              \
    } while (0)
    switch (type) {
    case WEIR_F32:
        SCAN(float, f);
    case WEIR_F64:
        SCAN(double, f);
    case WEIR_I32:
        SCAN(int32_t, i);
    default:
        SCAN(int64_t, i);
    }
#undef SCAN
}

/* Element offset of reduced position p, and the number of positions that follow it along the last
 * dim. */
static int64_t position_offset(const struct weir__reduce *r, int64_t p, int64_t *run)
{
    int last = r->nred - 1;
    int64_t at = p % r->red_shape[last] * r->red_in[last];

    *run = r->red_shape[last] - p % r->red_shape[last];
    p /= r->red_shape[last];
    for (int d = last - 1; d >= 0; d--) {
        at += p % r->red_shape[d] * r->red_in[d];
        p /= r->red_shape[d];
    }
    return at;
}

static void chunk_of_row(const struct weir__reduce *r, const char *in, int64_t begin, int64_t end,
                         char *buffer, value *acc, int64_t *acc_index)
{
    int64_t elem = (int64_t)weir__elem_size(r->in_type), stride = r->red_in[r->nred - 1], n, run;
    weir_dtype type = load_type(r);

    for (int64_t p = begin; p < end; p += n) {
        const char *src = in + position_offset(r, p, &run) * elem;
        const void *row;
        value v;

        n = weir__min(weir__min(run, end - p), WEIR__ROW_CHUNK);
        row = WEIR__ISA_NAME(weir__row_load)(buffer, type, src, r->in_type, stride, n);
        v = row_value(r, row, type, n);
        if (r->code != WEIR__REDUCE_ARGMAX)
            merge(r, acc, acc_index, v, 0);
        else if (beats(r, v, *acc, *acc_index))
            merge(r, acc, acc_index, v, p + find(row, type, v, n));
    }
}

/* Accumulates one more row of n columns. */
#define INTO_COLUMNS(name, type, member, lift)                                            \
    static void name(const struct weir__reduce *r, const type *row, int64_t n, int64_t p, \
                     value *acc, int64_t *index)                                          \
    {                                                                                     \
        switch (r->code) {                                                                \
        case WEIR__REDUCE_SUM:                                                            \
            for (int64_t j = 0; j < n; j++)                                               \
                acc[j].member = lift(acc[j].member, row[j]);                              \
            break;                                                                        \
        case WEIR__REDUCE_MAX:                                                            \
            for (int64_t j = 0; j < n; j++)                                               \
                acc[j].member =                                                           \
                    row[j] > acc[j].member || row[j] != row[j] ? row[j] : acc[j].member;  \
            break;                                                                        \
        case WEIR__REDUCE_MIN:                                                            \
            for (int64_t j = 0; j < n; j++)                                               \
                acc[j].member =                                                           \
                    row[j] < acc[j].member || row[j] != row[j] ? row[j] : acc[j].member;  \
            break;                                                                        \
        case WEIR__REDUCE_ARGMAX:                                                         \
            for (int64_t j = 0; j < n; j++) {                                             \
                bool wins = (index[j] < 0) | (row[j] > acc[j].member) |                   \
                            ((row[j] != row[j]) & (acc[j].member == acc[j].member));      \
                acc[j].member = wins ? row[j] : acc[j].member;                            \
                index[j] = wins ? p : index[j];                                           \
            }                                                                             \
            break;                                                                        \
        }                                                                                 \
    }
#define ADD_FLOAT(a, b) ((a) + (b))
#define ADD_INT(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(int64_t)(b)))
INTO_COLUMNS(into_columns_f32, float, f, ADD_FLOAT)
INTO_COLUMNS(into_columns_f64, double, f, ADD_FLOAT)
INTO_COLUMNS(into_columns_i32, int32_t, i, ADD_INT)
INTO_COLUMNS(into_columns_i64, int64_t, i, ADD_INT)

/* Adds eight rows, `step` apart, at once: sums them in f32, then adds that sum in f64. */
static void add_eight_rows(const float *x, int64_t step, int64_t n, value *acc)
{
    for (int64_t j = 0; j < n; j++) {
        const float *c = x + j;
        float low = (c[0] + c[step]) + (c[2 * step] + c[3 * step]);
        float high = (c[4 * step] + c[5 * step]) + (c[6 * step] + c[7 * step]);

        acc[j].f += low + high;
    }
}

/* Transposes a few rows that are contiguous along the reduced dim. Returns packed rows of the
 * columns' first, second, ... elements, in the load type. */
static const void *turn_rows(const struct weir__reduce *r, const char *in, int64_t rows, int64_t n,
                             char *buffer)
{
    weir_dtype type = load_type(r);
    char *raw = type == r->in_type ? buffer : buffer + WEIR__REDUCE_SHORT_ROW * WEIR__ROW_BYTES;
    struct weir__box box;

    WEIR__ISA_NAME(weir__box_init)
    (&box, 2, (int64_t[]){rows, n}, (int64_t[]){1, r->keep_in[r->nkeep - 1]});
    WEIR__ISA_NAME(weir__box_pack)(raw, in, &box, weir__elem_size(r->in_type));
    if (type != r->in_type)
        WEIR__ISA_NAME(weir__row_convert)(buffer, type, raw, r->in_type, box.numel);
    return buffer;
}

static void into_columns(const struct weir__reduce *r, const void *row, int64_t n, int64_t p,
                         value *acc, int64_t *index)
{
    switch (load_type(r)) {
    case WEIR_F32:
        into_columns_f32(r, row, n, p, acc, index);
        break;
    case WEIR_F64:
        into_columns_f64(r, row, n, p, acc, index);
        break;
    case WEIR_I32:
        into_columns_i32(r, row, n, p, acc, index);
        break;
    default:
        into_columns_i64(r, row, n, p, acc, index);
        break;
    }
}

static void chunk_of_columns(const struct weir__reduce *r, const char *in, int64_t n, int64_t begin,
                             int64_t end, char *buffer, value *acc, int64_t *index)
{
    int64_t elem = (int64_t)weir__elem_size(r->in_type), stride = r->keep_in[r->nkeep - 1];
    int64_t step = r->red_in[r->nred - 1] * elem, run = 0;
    bool eight = r->code == WEIR__REDUCE_SUM && r->in_type == WEIR_F32 && stride == 1;
    weir_dtype type = load_type(r);
    const char *src = in;

    if (r->nred == 1 && r->red_in[0] == 1 && stride != 1 && r->reduced <= WEIR__REDUCE_SHORT_ROW) {
        const char *rows = turn_rows(r, in, r->reduced, n, buffer);

        for (int64_t p = 0; p < r->reduced; p++)
            into_columns(r, rows + (size_t)(p * n) * weir__elem_size(type), n, p, acc, index);
        return;
    }
    for (int64_t p = begin; p < end; p++, run--, src += step) {
        const void *row;

        if (run == 0)
            src = in + position_offset(r, p, &run) * elem;
        if (eight && weir__min(run, end - p) >= 8) {
            add_eight_rows((const void *)src, r->red_in[r->nred - 1], n, acc);
            p += 7;
            run -= 7;
            src += 7 * step;
            continue;
        }
        row = WEIR__ISA_NAME(weir__row_load)(buffer, type, src, r->in_type, stride, n);
        into_columns(r, row, n, p, acc, index);
    }
}

/* The place of a unit: element offsets of its first input and output, and its width. */
struct unit {
    int64_t in, out, width;
};

static struct unit find_unit(const struct weir__reduce *r, int64_t i)
{
    int d = r->nkeep - 1;
    struct unit u = {0, 0, 1};

    if (r->columns) {
        int64_t tiles = weir__div_up(r->keep_shape[d], r->width), first = i % tiles * r->width;

        u.in = first * r->keep_in[d];
        u.out = first * r->keep_out[d];
        u.width = weir__min(r->width, r->keep_shape[d] - first);
        i /= tiles;
        d--;
    }
    for (; d >= 0; d--) {
        u.in += i % r->keep_shape[d] * r->keep_in[d];
        u.out += i % r->keep_shape[d] * r->keep_out[d];
        i /= r->keep_shape[d];
    }
    return u;
}

/* Accumulators of one unit. */
struct accumulators {
    value v[WEIR__REDUCE_WIDTH];
    int64_t index[WEIR__REDUCE_WIDTH];
};

static void reset(const struct weir__reduce *r, struct accumulators *a, int64_t width)
{
    value start = start_value(r);

    for (int64_t j = 0; j < width; j++) {
        a->v[j] = start;
        a->index[j] = -1;
    }
}

static void run_chunk(const struct weir__reduce *r, const struct unit *u, int64_t chunk,
                      char *buffer, struct accumulators *a)
{
    int64_t begin = chunk * r->chunk, end = weir__min(begin + r->chunk, r->reduced);
    const char *in = r->in + u->in * (int64_t)weir__elem_size(r->in_type);

    reset(r, a, u->width);
    if (r->columns)
        chunk_of_columns(r, in, u->width, begin, end, buffer, a->v, a->index);
    else
        chunk_of_row(r, in, begin, end, buffer, &a->v[0], &a->index[0]);
}

static void store_unit(const struct weir__reduce *r, const struct unit *u, struct accumulators *a)
{
    char *out = r->out + u->out * (int64_t)weir__elem_size(r->out_type);
    int64_t stride = r->columns ? r->keep_out[r->nkeep - 1] : 1;
    bool index = r->code == WEIR__REDUCE_ARGMAX;

    if (is_float(r) && r->divisor != 1)
        for (int64_t j = 0; j < u->width; j++)
            a->v[j].f /= r->divisor;
    WEIR__ISA_NAME(weir__row_store)
    (out, r->out_type, stride, index ? (void *)a->index : a->v,
     is_float(r) && !index ? WEIR_F64 : WEIR_I64, u->width);
}

static void merge_all(const struct weir__reduce *r, struct accumulators *total, const value *v,
                      const int64_t *index, int64_t width)
{
    for (int64_t j = 0; j < width; j++)
        merge(r, &total->v[j], &total->index[j], v[j], index ? index[j] : 0);
}

static void partial_at(const struct weir__reduce *r, int64_t item, value **v, int64_t **index)
{
    int64_t all = r->units * r->chunks * r->width;

    *v = (value *)r->partial + item * r->width;
    *index = (int64_t *)r->partial + all + item * r->width;
}

static struct weir__reduce as_columns(const struct weir__reduce *r)
{
    struct weir__reduce c = *r;
    int64_t last = r->keep_shape[r->nkeep - 1];

    c.columns = true;
    c.width = WEIR__REDUCE_WIDTH;
    c.units = r->units / last * weir__div_up(last, c.width);
    return c;
}

weir_status WEIR__ISA_NAME(weir__reduce_kernel)(const void *args, const weir_block *block)
{
    const struct weir__reduce *r = args;
    struct accumulators *part = block->local, *total = part + 1;
    char *buffer = (char *)(total + 1);
    bool split = r->partial && block->phase == 0, indexed = r->code == WEIR__REDUCE_ARGMAX;
    struct weir__reduce columns;
    struct weir__range range;
    int64_t *index;
    value *v;

    if (weir__reduce_is_short(r)) {
        columns = as_columns(r);
        r = &columns;
    }
    range = weir__tile_rows(split ? r->units * r->chunks : r->units, 1, block);
    for (int64_t i = range.begin; i < range.end; i++) {
        struct unit u = find_unit(r, split ? i / r->chunks : i);

        if (split) {
            run_chunk(r, &u, i % r->chunks, buffer, part);
            partial_at(r, i, &v, &index);
            memcpy(v, part->v, (size_t)u.width * sizeof *v);
            if (indexed)
                memcpy(index, part->index, (size_t)u.width * sizeof *index);
            continue;
        }
        reset(r, total, u.width);
        for (int64_t c = 0; c < r->chunks; c++) {
            if (r->partial) {
                partial_at(r, i * r->chunks + c, &v, &index);
            } else {
                run_chunk(r, &u, c, buffer, part);
                v = part->v;
                index = part->index;
            }
            merge_all(r, total, v, indexed ? index : NULL, u.width);
        }
        store_unit(r, &u, total);
    }
    return WEIR_OK;
}
