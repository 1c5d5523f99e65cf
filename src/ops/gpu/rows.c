/* Reductions and row operators on a GPU. */
#include "ops/gpu/chain.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"
#include "ops/host/math/norm.h"
#include "ops/host/math/reduce.h"
#include "ops/host/math/rotary.h"
#include "ops/host/math/scan.h"
#include "ops/host/move/sort.h"

/* One block per row, with a thread for about eight elements. */
static void spread_rows(const struct weir__rows *rows, unsigned cores, struct weir__code_launch *l)
{
    int64_t threads = weir__div_up(weir__div_up(rows->n, 8), 32) * 32;

    l->threads = (uint32_t)(threads < 64 ? 64 : threads > 512 ? 512 : threads);
    weir__gpu_spread(rows->count, cores, 2048 / l->threads, l);
}

/* Whether every row begins at a multiple of 16 bytes. */
static bool rows_begin_even(const char *data, const int64_t *stride, const struct weir__rows *rows,
                            int64_t pack)
{
    for (int d = 0; d < rows->ndim; d++)
        if (stride[d] % pack && rows->shape[d] > 1)
            return false;
    return !((uintptr_t)data & 15);
}

/* The same if rows fit into a block's registers as whole chunks of 16 bytes.
 * returns  the chunks per thread: 1, 2, 4 or 8. 0, with nothing changed, if rows are not aligned so
 *          or are too long. */
static uint8_t hold_rows(const struct weir__rows *rows, const char *in, const char *out,
                         weir_dtype dtype, unsigned cores, struct weir__code_launch *l)
{
    int64_t pack = 16 / (int64_t)weir__elem_size(dtype), chunks = rows->n / pack;
    int64_t threads = weir__min(weir__div_up(weir__max(chunks, 1), 64) * 32, 512);
    uint8_t held = 1;

    if (rows->n % pack || rows->in_step != 1 || rows->out_step != 1 || chunks > 8 * threads ||
        !rows_begin_even(in, rows->in_stride, rows, pack) ||
        !rows_begin_even(out, rows->out_stride, rows, pack))
        return 0;
    while (held * threads < chunks)
        held *= 2;
    l->threads = (uint32_t)threads;
    weir__gpu_spread(rows->count, cores, 2048 / l->threads, l);
    return held;
}

/* Elements that a thread of a reduction takes at once: 16 bytes of a row, or of neighbouring
 * columns, if they are aligned so; else 1. */
static int64_t reduce_pack(const struct weir__reduce *r)
{
    int64_t pack = 16 / (int64_t)weir__elem_size(r->in_type);
    int last = r->nkeep - 1;

    if ((uintptr_t)r->in & 15)
        return 1;
    for (int d = 0; d < r->nkeep - r->columns; d++)
        if (r->keep_in[d] % pack && r->keep_shape[d] > 1)
            return 1;
    if (!r->columns)
        return r->nred == 1 && r->red_in[0] == 1 && r->reduced % pack == 0 && r->chunk % pack == 0
                   ? pack
                   : 1;
    for (int d = 0; d < r->nred; d++)
        if (r->red_in[d] % pack && r->red_shape[d] > 1)
            return 1;
    /* Shared memory has room for 8 results per thread. */
    return r->keep_in[last] == 1 && r->keep_shape[last] % pack == 0 && pack <= 8 ? pack : 1;
}

static void reduce_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__reduce *r = args;
    bool combines = r->partial && phase == 1;
    int64_t pack = reduce_pack(r), longest = pack > 1 && r->units >= 1024 ? 1024 * pack : 1024;
    bool small = !r->columns && !r->partial && r->reduced <= longest;
    int64_t items = r->partial && phase == 0 ? r->units * r->chunks : r->units;

    l->variant[0] = (uint8_t)r->code;
    l->variant[1] = (uint8_t)r->in_type;
    l->variant[2] = (uint8_t)r->out_type;
    l->variant[3] = r->columns ? 1 : small ? 2 : 0;
    l->variant[4] = r->partial != NULL;
    l->variant[5] = (uint8_t)pack;
    l->threads = combines                  ? 64
                 : r->columns && pack == 1 ? (uint32_t)(weir__div_up(r->width, 32) * 32)
                                           : 256;
    if (combines)
        items = weir__div_up(r->units * r->width, l->threads);
    weir__gpu_spread(small ? weir__div_up(items, 8) : items, cores, combines ? 32 : 8, l);
}

const struct weir__code weir__gpu_reduce = {.text = "reduce", .shape = reduce_shape};

static void softmax_shape(const void *args, unsigned phase, unsigned cores,
                          struct weir__code_launch *l)
{
    const struct weir__softmax *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = hold_rows(&a->rows, a->in, a->out, a->dtype, cores, l);
    if (!l->variant[1])
        spread_rows(&a->rows, cores, l);
}

const struct weir__code weir__gpu_softmax = {.text = "softmax", .shape = softmax_shape};

static void norm_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__norm *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = a->centred;
    l->variant[2] = hold_rows(&a->rows, a->in, a->out, a->dtype, cores, l);
    l->variant[3] = !(((uintptr_t)a->weight | (uintptr_t)a->bias) & 15) &&
                    (!a->weight || a->weight_step == 1) && (!a->bias || a->bias_step == 1);
    if (!l->variant[2])
        spread_rows(&a->rows, cores, l);
}

const struct weir__code weir__gpu_norm = {
    .text = "row_norm",
    .shape = norm_shape,
    .after = &weir__gpu_chain,
    .joined = &weir__gpu_chain_norm,
    .joined_size = sizeof(struct weir__chain_norm),
    .join = weir__chain_norm_join,
};

/* One thread per row if rows are short, or interleaved and many; else one block per row. */
static void scan_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    enum { SHORT = 16, MANY = 8192, EACH = 4 };
    const struct weir__scan *a = args;
    const struct weir__rows *r = &a->rows;
    bool beside = r->ndim && r->in_stride[r->ndim - 1] == 1 && r->count >= MANY;
    int64_t threads = weir__div_up(weir__div_up(r->n, EACH), 32) * 32;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = (uint8_t)a->out_type;
    l->variant[2] = (uint8_t)a->kind;
    l->variant[3] = r->n <= SHORT || beside;
    if (l->variant[3]) {
        weir__gpu_spread_threads(r->count, cores, l);
        return;
    }
    l->threads = (uint32_t)weir__min(weir__max(threads, 32), 512);
    weir__gpu_spread(r->count, cores, 2048 / l->threads, l);
}

const struct weir__code weir__gpu_scan = {.text = "scan", .shape = scan_shape};

static void gating_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__gating *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = a->renormalise;
    if (a->rows.n > 256) {
        spread_rows(&a->rows, cores, l);
        return;
    }
    while (32 * l->variant[2] < a->rows.n)
        l->variant[2] = (uint8_t)(l->variant[2] ? 2 * l->variant[2] : 1);
    l->threads = 32;
    weir__gpu_spread(a->rows.count, cores, 32, l);
}

const struct weir__code weir__gpu_gating = {.text = "gating", .shape = gating_shape};

/* The pairs that a thread may move at once if the halves of rows are contiguous; 0: one by one. */
static uint8_t rotary_pairs(const struct weir__rotary *a)
{
    size_t elem = weir__elem_size(a->dtype), angle = weir__elem_size(a->angle_type);
    int64_t n = 16 / (int64_t)elem, half = a->rows.n / 2;
    uintptr_t bits = (uintptr_t)a->in | (uintptr_t)a->out;

    if (a->interleaved || a->rows.in_step != 1 || a->rows.out_step != 1 || a->cos_step != 1 ||
        a->sin_step != 1 || half % n || a->rows.count * a->rows.n > INT32_MAX)
        return 0;
    for (int d = 0; d < a->rows.ndim; d++)
        bits |= (uintptr_t)(a->rows.in_stride[d] | a->rows.out_stride[d]) * elem;
    bits |= (uintptr_t)a->cosines | (uintptr_t)a->sines;
    bits |= (uintptr_t)(a->cos_row | a->sin_row) * angle;
    return bits & 15 ? 0 : (uint8_t)n;
}

static void spread_rotaries(const struct weir__rotary *of, int n, unsigned cores,
                            struct weir__code_launch *l)
{
    uint8_t pairs = rotary_pairs(of);
    int64_t all = 0;

    for (int i = 0; i < n; i++) {
        pairs = rotary_pairs(&of[i]) == pairs ? pairs : 0;
        all += of[i].rows.count * (of[i].rows.n / 2);
    }
    l->variant[0] = (uint8_t)of->dtype;
    l->variant[1] = (uint8_t)of->angle_type;
    l->variant[2] = of->interleaved;
    l->variant[3] = pairs;
    weir__gpu_spread_threads(all / weir__max(pairs, 1), cores, l);
}

static void rotary_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    (void)phase;
    spread_rotaries(args, 1, cores, l);
}

static void rotaries_shape(const void *args, unsigned phase, unsigned cores,
                           struct weir__code_launch *l)
{
    const struct weir__rotaries *a = args;

    (void)phase;
    spread_rotaries(a->of, a->n, cores, l);
}

static bool rotaries_join(void *joined, const void *rotary, bool keep)
{
    struct weir__rotaries *s = joined;
    const struct weir__rotary *a = rotary;

    if (!keep || s->n == (int)weir__countof(s->of) ||
        (s->n && (s->of[0].dtype != a->dtype || s->of[0].angle_type != a->angle_type ||
                  s->of[0].interleaved != a->interleaved)))
        return false;
    s->of[s->n++] = *a;
    return true;
}

_Static_assert(sizeof(struct weir__rotaries) <= WEIR_ARGS_MAX, "a launch's arguments hold them");

static const struct weir__code rotaries = {.text = "rotaries", .shape = rotaries_shape};

const struct weir__code weir__gpu_rotary = {
    .text = "rotary",
    .shape = rotary_shape,
    .joined = &rotaries,
    .joined_size = sizeof(struct weir__rotaries),
    .join = rotaries_join,
};

static int64_t sort_tiles(weir_dtype dtype, const struct weir__rows *rows)
{
    return weir__div_up(rows->n, WEIR__SORT_TILE(weir__elem_size(dtype)));
}

unsigned weir__gpu_sort_phases(weir_dtype dtype, const struct weir__rows *rows)
{
    if (rows->n <= WEIR__GPU_SORT_SHARED)
        return 1;
    return (unsigned)(3 * (int64_t)weir__elem_size(dtype) *
                      weir__div_up(rows->count, weir__sort_rows_at_once(rows)));
}

size_t weir__gpu_sort_scratch(weir_dtype dtype, const struct weir__rows *rows)
{
    size_t key = weir__max(weir__elem_size(dtype), (size_t)4);

    if (rows->n <= WEIR__GPU_SORT_SHARED || !rows->count)
        return 0;
    return (size_t)weir__sort_rows_at_once(rows) *
           ((size_t)rows->n * 2 * (key + 4) + (size_t)sort_tiles(dtype, rows) * 1024);
}

static void sort_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__sort *a = args;
    unsigned log2 = 5;

    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = a->descending;
    if (!a->k)
        return;
    if (a->rows.n > WEIR__GPU_SORT_SHARED) {
        int64_t rows = weir__sort_rows_at_once(&a->rows);

        weir__gpu_spread(phase % 3 == 1 ? rows : rows * sort_tiles(a->dtype, &a->rows), cores, 8,
                         l);
        return;
    }
    while ((int64_t)1 << log2 < a->rows.n)
        log2++;
    l->variant[2] = (uint8_t)log2;
    weir__gpu_spread(log2 > WEIR__GPU_SORT_WARP
                         ? a->rows.count
                         : weir__div_up(a->rows.count, WEIR__GPU_THREADS / 32),
                     cores, 8, l);
}

const struct weir__code weir__gpu_sort = {.text = "sort", .shape = sort_shape};
