/* Kernels that read and write by index. */
#include "ops/host/move/index.h"

#include <string.h>

#include "base/half.h"
#include "ops/host/row.h"
#include "ops/tile.h"

static inline int64_t read_index(const char *index, weir_dtype type, int64_t at)
{
    return type == WEIR_I64 ? ((const int64_t *)(const void *)index)[at]
                            : ((const int32_t *)(const void *)index)[at];
}

static weir_status out_of_range(const char *name, int64_t index, int64_t position, int64_t limit)
{
    return weir__fail(WEIR_ERANGE,
                      "%s: index %lld at position %lld is out of range: the dim has %lld entries",
                      name, (long long)index, (long long)position, (long long)limit);
}

/* Element offset of step i in tensor k. */
static inline int64_t offset(const struct weir__steps *s, int k, int64_t i)
{
    int64_t at = 0;

    for (int d = s->ndim - 1; d > 0; d--) {
        at += i % s->shape[d] * s->stride[k][d];
        i /= s->shape[d];
    }
    return at + i * s->stride[k][0];
}

/* The number of steps from i on along the last dim. */
static inline int64_t run_length(const struct weir__steps *s, int64_t i)
{
    return s->shape[s->ndim - 1] - i % s->shape[s->ndim - 1];
}

/* Copies n elements between two strides, as bytes. */
static void move(char *dst, int64_t dst_step, const char *src, int64_t src_step, size_t elem,
                 int64_t n)
{
    if (n == 1 || (dst_step == 1 && src_step == 1)) {
        memcpy(dst, src, (size_t)n * elem);
    } else if (dst_step == 1) {
        WEIR__ISA_NAME(weir__row_pack)(dst, src, src_step, elem, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * dst_step * (int64_t)elem, src + i * src_step * (int64_t)elem, elem);
    }
}

weir_status WEIR__ISA_NAME(weir__take_kernel)(const void *args, const weir_block *block)
{
    const struct weir__take *t = args;
    struct weir__range range = weir__tile_range(t->outer.count * t->place.count, 1, block);
    int64_t elem = (int64_t)t->elem, last = t->inner.ndim - 1, n;

    for (int64_t u = range.begin; u < range.end; u++) {
        int64_t o = u / t->place.count, p = u % t->place.count;
        int64_t i = read_index(t->index, t->index_type, offset(&t->place, 0, p));
        char *out = t->out + (offset(&t->outer, 1, o) + offset(&t->place, 1, p)) * elem;
        const char *in;

        if (i < 0 || i >= t->limit)
            return out_of_range(t->name, i, p, t->limit);
        in = t->in + (offset(&t->outer, 0, o) + i * t->in_row) * elem;
        for (int64_t j = 0; j < t->inner.count; j += n) {
            n = run_length(&t->inner, j);
            move(out + offset(&t->inner, 1, j) * elem, t->inner.stride[1][last],
                 in + offset(&t->inner, 0, j) * elem, t->inner.stride[0][last], t->elem, n);
        }
    }
    return WEIR_OK;
}

#define GATHER_RUN(bits)                                                                          \
    static int64_t gather_##bits(uint##bits##_t *out, int64_t out_step, const uint##bits##_t *in, \
                                 int64_t in_step, int64_t in_row, const char *index,              \
                                 weir_dtype type, int64_t index_step, int64_t limit, int64_t n)   \
    {                                                                                             \
        for (int64_t j = 0; j < n; j++) {                                                         \
            int64_t i = read_index(index, type, j * index_step);                                  \
            if (i < 0 || i >= limit)                                                              \
                return j;                                                                         \
            out[j * out_step] = in[j * in_step + i * in_row];                                     \
        }                                                                                         \
        return n;                                                                                 \
    }
GATHER_RUN(8)
GATHER_RUN(16)
GATHER_RUN(32)
GATHER_RUN(64)

weir_status WEIR__ISA_NAME(weir__gather_kernel)(const void *args, const weir_block *block)
{
    const struct weir__gather_args *g = args;
    const struct weir__steps *s = &g->steps;
    struct weir__range range = weir__tile_range(s->count, 64, block);
    int64_t elem = (int64_t)g->elem, last = s->ndim - 1, n, done;

    for (int64_t p = range.begin; p < range.end; p += n) {
        void *out = g->out + offset(s, 0, p) * elem;
        const char *index = g->index + offset(s, 1, p) * (int64_t)weir__elem_size(g->index_type);
        const void *in = g->in + offset(s, 2, p) * elem;

        n = weir__min(run_length(s, p), range.end - p);
#define RUN(bits)                                                                    \
    gather_##bits(out, s->stride[0][last], in, s->stride[2][last], g->in_row, index, \
                  g->index_type, s->stride[1][last], g->limit, n)
        done = elem == 1 ? RUN(8) : elem == 2 ? RUN(16) : elem == 4 ? RUN(32) : RUN(64);
#undef RUN
        if (done < n)
            return out_of_range("Gather",
                                read_index(index, g->index_type, done * s->stride[1][last]),
                                p + done, g->limit);
    }
    return WEIR_OK;
}

/* A run of updates along inner's last dim, for targets begin..end-1. */
struct scatter_run {
    char *x;
    const char *index, *source;
    int64_t x_step, index_step, source_step, n;
    struct weir__range target;
};

/* f16 and bf16 add in f32 and round at each addition; integers wrap. */
#define SCATTER_RUN(T, type, sum)                                                          \
    static int64_t scatter_##T(const struct weir__scatter *a, const struct scatter_run *r) \
    {                                                                                      \
        type *px = (void *)r->x;                                                           \
        const type *ps = (const void *)r->source;                                          \
        for (int64_t j = 0; j < r->n; j++) {                                               \
            int64_t i = read_index(r->index, a->index_type, j * r->index_step);            \
            type *t, x, y;                                                                 \
            if (i < 0 || i >= a->limit)                                                    \
                return j;                                                                  \
            if (i < r->target.begin || i >= r->target.end)                                 \
                continue;                                                                  \
            t = px + j * r->x_step + i * a->x_row;                                         \
            x = *t;                                                                        \
            y = ps[j * r->source_step];                                                    \
            *t = (type)(sum);                                                              \
        }                                                                                  \
        return r->n;                                                                       \
    }
SCATTER_RUN(f32, float, x + y)
SCATTER_RUN(f64, double, x + y)
SCATTER_RUN(f16, uint16_t, weir__f32_to_f16(weir__f16_to_f32(x) + weir__f16_to_f32(y)))
SCATTER_RUN(bf16, uint16_t, weir__f32_to_bf16(weir__bf16_to_f32(x) + weir__bf16_to_f32(y)))
SCATTER_RUN(i64, int64_t, (uint64_t)x + (uint64_t)y)
SCATTER_RUN(i32, int32_t, (uint32_t)x + (uint32_t)y)
SCATTER_RUN(i8, int8_t, x + y)
SCATTER_RUN(u8, uint8_t, x + y)

typedef int64_t (*scatter_fn)(const struct weir__scatter *a, const struct scatter_run *r);
static const scatter_fn scatter_fns[WEIR_DTYPE_COUNT] = {
    [WEIR_F32] = scatter_f32,   [WEIR_F64] = scatter_f64, [WEIR_F16] = scatter_f16,
    [WEIR_BF16] = scatter_bf16, [WEIR_I64] = scatter_i64, [WEIR_I32] = scatter_i32,
    [WEIR_I8] = scatter_i8,     [WEIR_U8] = scatter_u8,
};

/* The same without addition: one function per element size. */
SCATTER_RUN(bytes1, uint8_t, ((void)x, y))
SCATTER_RUN(bytes2, uint16_t, ((void)x, y))
SCATTER_RUN(bytes4, uint32_t, ((void)x, y))
SCATTER_RUN(bytes8, uint64_t, ((void)x, y))

static scatter_fn scatter_fn_of(const struct weir__scatter *a)
{
    if (!a->replaces)
        return scatter_fns[a->dtype];
    switch (weir__elem_size(a->dtype)) {
    case 1:
        return scatter_bytes1;
    case 2:
        return scatter_bytes2;
    case 4:
        return scatter_bytes4;
    default:
        return scatter_bytes8;
    }
}

/* Processes all entries along the dim, for inner positions begin..end-1 of one outer position. */
static weir_status scatter_slab(const struct weir__scatter *a, int64_t o, struct weir__range inner,
                                struct weir__range target)
{
    int64_t elem = (int64_t)weir__elem_size(a->dtype), last = a->inner.ndim - 1, n, done;
    int64_t index_elem = (int64_t)weir__elem_size(a->index_type);
    scatter_fn run = scatter_fn_of(a);

    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = inner.begin; j < inner.end; j += n) {
            struct scatter_run r = {
                .x = a->x + (offset(&a->outer, 0, o) + offset(&a->inner, 0, j)) * elem,
                .index = a->index +
                         (offset(&a->outer, 1, o) + i * a->index_row + offset(&a->inner, 1, j)) *
                             index_elem,
                .source =
                    a->source +
                    (offset(&a->outer, 2, o) + i * a->source_row + offset(&a->inner, 2, j)) * elem,
                .x_step = a->inner.stride[0][last],
                .index_step = a->inner.stride[1][last],
                .source_step = a->inner.stride[2][last],
                .n = n = weir__min(run_length(&a->inner, j), inner.end - j),
                .target = target,
            };

            if ((done = run(a, &r)) < n)
                return out_of_range(a->replaces ? "Scatter" : "ScatterAdd",
                                    read_index(r.index, a->index_type, done * r.index_step),
                                    (o * a->n + i) * a->inner.count + j + done, a->limit);
        }
    return WEIR_OK;
}

weir_status WEIR__ISA_NAME(weir__scatter_kernel)(const void *args, const weir_block *block)
{
    const struct weir__scatter *a = args;
    int64_t across = a->outer.count * a->inner.count;
    struct weir__range all = {0, across}, target = {0, a->limit};
    weir_status st;

    if (a->by_target)
        target = weir__tile_range(a->limit, 16, block);
    else
        all = weir__tile_range(across, 16, block);
    for (int64_t p = all.begin; p < all.end;) {
        int64_t o = p / a->inner.count, begin = p % a->inner.count;
        struct weir__range inner = {begin, weir__min(a->inner.count, begin + all.end - p)};

        if ((st = scatter_slab(a, o, inner, target)))
            return st;
        p += inner.end - inner.begin;
    }
    return WEIR_OK;
}
