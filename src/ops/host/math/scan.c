/* Scans of rows: one row after another in chunks, or many adjacent rows at once. */
#include "ops/host/math/scan.h"

#include <string.h>

#include "ops/tile.h"

enum {
    CHUNK = WEIR__ROW_CHUNK,
    SIDE_LEAST = 16, /* adjacent rows needed for scanning them together */
};

/* The accumulated values of each row that is being scanned. */
struct state {
    double real[CHUNK];
    float narrow[CHUNK];
    int64_t whole[CHUNK];
    int64_t place[CHUNK];
};

/* Functions for m elements. `along`: of one row, from place `first` on. `beside`: of one place in m
 * rows. They read and write compute types. */
struct steps {
    void (*start)(struct state *s, int64_t m);
    void (*along)(struct state *s, void *out, int64_t *places, const void *in, int64_t first,
                  int64_t m);
    void (*beside)(struct state *s, void *out, int64_t *places, const void *in, int64_t first,
                   int64_t m);
};

/* T: type of input and output; A: type of the accumulator. */
#define TOTALS(name, T, A, held, first_value, combined)                                    \
    static void start_##name(struct state *s, int64_t m)                                   \
    {                                                                                      \
        A *held_ = (A *)s->held;                                                           \
        for (int64_t i = 0; i < m; i++)                                                    \
            held_[i] = first_value;                                                        \
    }                                                                                      \
    static void along_##name(struct state *s, void *out, int64_t *places, const void *in,  \
                             int64_t first, int64_t m)                                     \
    {                                                                                      \
        const T *p = in;                                                                   \
        T *po = out;                                                                       \
        A a = *(A *)s->held;                                                               \
        (void)places;                                                                      \
        (void)first;                                                                       \
        for (int64_t i = 0; i < m; i++) {                                                  \
            A x = (A)p[i];                                                                 \
            a = combined;                                                                  \
            po[i] = (T)a;                                                                  \
        }                                                                                  \
        *(A *)s->held = a;                                                                 \
    }                                                                                      \
    static void beside_##name(struct state *s, void *out, int64_t *places, const void *in, \
                              int64_t first, int64_t m)                                    \
    {                                                                                      \
        const T *p = in;                                                                   \
        T *po = out;                                                                       \
        A *held_ = (A *)s->held;                                                           \
        (void)places;                                                                      \
        (void)first;                                                                       \
        for (int64_t i = 0; i < m; i++) {                                                  \
            A x = (A)p[i], a = held_[i];                                                   \
            held_[i] = combined;                                                           \
            po[i] = (T)held_[i];                                                           \
        }                                                                                  \
    }

TOTALS(sum_f32, float, double, real, 0, a + x)
TOTALS(sum_half, float, float, narrow, 0, a + x)
TOTALS(sum_f64, double, double, real, 0, a + x)
TOTALS(sum_i64, int64_t, uint64_t, whole, 0, a + x)
TOTALS(product_f32, float, double, real, 1, a *x)
TOTALS(product_half, float, float, narrow, 1, a *x)
TOTALS(product_f64, double, double, real, 1, a *x)
TOTALS(product_i64, int64_t, uint64_t, whole, 1, a *x)

/* Of equal values keeps the last. A NaN stays; each later NaN updates the place. */
#define EXTREMES(name, T, held, op)                                                        \
    static inline void step_##name(T *best, int64_t *at, T x, int64_t place)               \
    {                                                                                      \
        if (place == 0 || x != x || (*best == *best && x op * best)) {                     \
            *best = x;                                                                     \
            *at = place;                                                                   \
        }                                                                                  \
    }                                                                                      \
    static void along_##name(struct state *s, void *out, int64_t *places, const void *in,  \
                             int64_t first, int64_t m)                                     \
    {                                                                                      \
        const T *p = in;                                                                   \
        T *po = out, best = s->held[0];                                                    \
        int64_t at = s->place[0];                                                          \
        for (int64_t i = 0; i < m; i++) {                                                  \
            step_##name(&best, &at, p[i], first + i);                                      \
            po[i] = best;                                                                  \
            places[i] = at;                                                                \
        }                                                                                  \
        s->held[0] = best;                                                                 \
        s->place[0] = at;                                                                  \
    }                                                                                      \
    static void beside_##name(struct state *s, void *out, int64_t *places, const void *in, \
                              int64_t first, int64_t m)                                    \
    {                                                                                      \
        const T *p = in;                                                                   \
        T *po = out;                                                                       \
        for (int64_t i = 0; i < m; i++) {                                                  \
            step_##name(&s->held[i], &s->place[i], p[i], first);                           \
            po[i] = s->held[i];                                                            \
            places[i] = s->place[i];                                                       \
        }                                                                                  \
    }

EXTREMES(max_f32, float, narrow, >=)
EXTREMES(max_f64, double, real, >=)
EXTREMES(max_i64, int64_t, whole, >=)
EXTREMES(min_f32, float, narrow, <=)
EXTREMES(min_f64, double, real, <=)
EXTREMES(min_i64, int64_t, whole, <=)

/* Starts before the first element: place 0 always sets the state. */
static void start_extreme(struct state *s, int64_t m)
{
    (void)s;
    (void)m;
}

enum { F32, HALF, F64, WHOLE, FORMS };

#define TOTAL(name)                               \
    {                                             \
        start_##name, along_##name, beside_##name \
    }
#define EXTREME(name)                              \
    {                                              \
        start_extreme, along_##name, beside_##name \
    }
static const struct steps table[][FORMS] = {
    [WEIR__SCAN_SUM] = {TOTAL(sum_f32), TOTAL(sum_half), TOTAL(sum_f64), TOTAL(sum_i64)},
    [WEIR__SCAN_PRODUCT] = {TOTAL(product_f32), TOTAL(product_half), TOTAL(product_f64),
                            TOTAL(product_i64)},
    [WEIR__SCAN_MAX] = {EXTREME(max_f32), EXTREME(max_f32), EXTREME(max_f64), EXTREME(max_i64)},
    [WEIR__SCAN_MIN] = {EXTREME(min_f32), EXTREME(min_f32), EXTREME(min_f64), EXTREME(min_i64)},
};

/* The state of a block's walk, in its local memory. */
struct walk {
    const struct weir__scan *a;
    const struct steps *steps;
    weir_dtype type; /* the compute type */
    _Alignas(64) char in[WEIR__ROW_BYTES];
    _Alignas(64) char out[WEIR__ROW_BYTES];
    int64_t places[CHUNK];
    struct state state;
};

/* Scans m elements that are in_step and out_step apart, from these offsets on. */
static void step(struct walk *w,
                 void (*fn)(struct state *, void *, int64_t *, const void *, int64_t, int64_t),
                 int64_t in, int64_t in_step, int64_t out, int64_t out_step, int64_t first,
                 int64_t m)
{
    const struct weir__scan *a = w->a;
    const void *from = WEIR__ISA_NAME(weir__row_load)(
        w->in, w->type, a->in + in * (int64_t)weir__elem_size(a->dtype), a->dtype, in_step, m);

    fn(&w->state, w->out, w->places, from, first, m);
    WEIR__ISA_NAME(weir__row_store)
    (a->out + out * (int64_t)weir__elem_size(a->out_type), a->out_type, out_step, w->out, w->type,
     m);
    if (a->places)
        WEIR__ISA_NAME(weir__row_unpack)
    (a->places + out, out_step, w->places, sizeof *w->places, m);
}

static void one_row(struct walk *w, int64_t in, int64_t out)
{
    const struct weir__rows *r = &w->a->rows;

    w->steps->start(&w->state, 1);
    for (int64_t j = 0; j < r->n; j += CHUNK)
        step(w, w->steps->along, in + j * r->in_step, r->in_step, out + j * r->out_step,
             r->out_step, j, weir__min(CHUNK, r->n - j));
}

static void side_by_side(struct walk *w, int64_t in, int64_t out, int64_t m)
{
    const struct weir__rows *r = &w->a->rows;
    int64_t in_next = r->in_stride[r->ndim - 1], out_next = r->out_stride[r->ndim - 1];

    w->steps->start(&w->state, m);
    for (int64_t j = 0; j < r->n; j++)
        step(w, w->steps->beside, in + j * r->in_step, in_next, out + j * r->out_step, out_next, j,
             m);
}

/* Whether neighbouring rows are closer in memory than the elements of one row. */
static bool lie_beside(const struct weir__rows *r)
{
    int last = r->ndim - 1;
    int64_t next = last < 0 ? 0 : r->in_stride[last] < 0 ? -r->in_stride[last] : r->in_stride[last];
    int64_t step = r->in_step < 0 ? -r->in_step : r->in_step;

    return last >= 0 && r->shape[last] >= SIDE_LEAST && next < step;
}

weir_status WEIR__ISA_NAME(weir__scan_kernel)(const void *args, const weir_block *block)
{
    const struct weir__scan *a = args;
    const struct weir__rows *r = &a->rows;
    bool beside = lie_beside(r);
    /* Neighbouring rows share cache lines, which two cores should not both write. */
    struct weir__range range =
        weir__tile_range(r->count, beside ? 64 / (int64_t)weir__elem_size(a->out_type) : 1, block);
    struct walk *w = block->local;
    int form = a->dtype == WEIR_F64             ? F64
               : a->dtype == WEIR_F32           ? F32
               : !weir_dtype_is_float(a->dtype) ? WHOLE
                                                : HALF;

    _Static_assert(sizeof *w <= WEIR_LOCAL_BYTES, "a walk fits a block's memory");
    w->a = a;
    w->steps = &table[a->kind][form];
    w->type = form == WHOLE ? WEIR_I64 : weir__compute_type(a->dtype);
    for (int64_t i = range.begin; i < range.end;) {
        int64_t in, out, m = 1;

        weir__rows_at(r, i, &in, &out);
        if (beside) {
            int64_t width = r->shape[r->ndim - 1];

            m = weir__min(weir__min(width - i % width, range.end - i), CHUNK);
            side_by_side(w, in, out, m);
        } else {
            one_row(w, in, out);
        }
        i += m;
    }
    return WEIR_OK;
}
