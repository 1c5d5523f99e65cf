/* Kernels for rows of a mixture of experts. */
#include "ops/host/move/experts.h"

#include <string.h>

#include "base/base.h"
#include "ops/host/row.h"
#include "ops/tile.h"

static inline int64_t read_index(const char *index, weir_dtype type, int64_t at)
{
    return type == WEIR_I64 ? ((const int64_t *)(const void *)index)[at]
                            : ((const int32_t *)(const void *)index)[at];
}

/* Counting sort: counts entries by expert, then computes each expert's next place. */
weir_status WEIR__ISA_NAME(weir__expert_order_kernel)(const void *args, const weir_block *block)
{
    const struct weir__expert_order *a = args;
    int64_t *next = block->local, before = 0;

    memset(next, 0, (size_t)a->n * sizeof *next);
    for (int64_t i = 0; i < a->m; i++) {
        int64_t e = read_index(a->experts, a->index_type, i * a->experts_step);

        if (e < 0 || e >= a->n)
            return weir__fail(WEIR_ERANGE,
                              "ExpertOrder: index %lld at position %lld is out of range: there are "
                              "%lld experts",
                              (long long)e, (long long)i, (long long)a->n);
        next[e]++;
    }
    for (int64_t e = 0; e < a->n; e++) {
        int64_t count = next[e];

        next[e] = before;
        before += count;
        a->ends[e * a->ends_step] = (int32_t)before;
    }
    for (int64_t i = 0; i < a->m; i++) {
        int64_t at = next[read_index(a->experts, a->index_type, i * a->experts_step)]++;

        a->order[at * a->order_step] = i / a->k;
        a->places[i * a->places_step] = at;
    }
    return WEIR_OK;
}

#define ADD_ROW(T, type)                                                  \
    static void add_##T(type *sum, const type *x, type weight, int64_t n) \
    {                                                                     \
        for (int64_t i = 0; i < n; i++)                                   \
            sum[i] += weight * x[i];                                      \
    }
ADD_ROW(f32, float)
ADD_ROW(f64, double)

static weir_status place_of(const struct weir__expert_sum *a, int64_t token, int64_t j,
                            int64_t *place)
{
    *place = read_index(a->places, a->index_type, token * a->places_row + j * a->places_step);
    if (*place >= 0 && *place < a->limit)
        return WEIR_OK;
    return weir__fail(WEIR_ERANGE,
                      "ExpertSum: index %lld at position %lld is out of range: there are %lld rows",
                      (long long)*place, (long long)(token * a->k + j), (long long)a->limit);
}

/* Sums columns from..from+n-1 of a token. */
static weir_status sum_chunk(const struct weir__expert_sum *a, int64_t token, int64_t from,
                             int64_t n, char *local)
{
    weir_dtype type = weir__compute_type(a->dtype);
    int64_t elem = (int64_t)weir__elem_size(a->dtype);
    char *sum = local, *buffer = local + WEIR__ROW_BYTES;
    _Alignas(8) char weight[8];
    double one = 1;
    float one_f32 = 1;

    memset(sum, 0, (size_t)n * weir__elem_size(type));
    memcpy(weight, type == WEIR_F64 ? (void *)&one : (void *)&one_f32, weir__elem_size(type));
    for (int64_t j = 0; j < a->k; j++) {
        int64_t place;
        const void *x;
        weir_status st = place_of(a, token, j, &place);

        if (st)
            return st;
        x = WEIR__ISA_NAME(weir__row_load)(
            buffer, type, a->rows + (place * a->rows_row + from * a->rows_step) * elem, a->dtype,
            a->rows_step, n);
        if (a->weights)
            WEIR__ISA_NAME(weir__row_load_all)
        (weight, type,
         a->weights + (token * a->weights_row + j * a->weights_step) *
                          (int64_t)weir__elem_size(a->weight_type),
         a->weight_type, 1, 1);
        if (type == WEIR_F64)
            add_f64((void *)sum, x, *(double *)(void *)weight, n);
        else
            add_f32((void *)sum, x, *(float *)(void *)weight, n);
    }
    WEIR__ISA_NAME(weir__row_store)
    (a->out + (token * a->out_row + from * a->out_step) * elem, a->dtype, a->out_step, sum, type,
     n);
    return WEIR_OK;
}

weir_status WEIR__ISA_NAME(weir__expert_sum_kernel)(const void *args, const weir_block *block)
{
    const struct weir__expert_sum *a = args;
    int64_t chunks = weir__div_up(a->width, WEIR__ROW_CHUNK);
    struct weir__range range = weir__tile_range(a->tokens * chunks, 1, block);
    weir_status st;

    for (int64_t u = range.begin; u < range.end; u++) {
        int64_t from = u % chunks * WEIR__ROW_CHUNK;

        if ((st = sum_chunk(a, u / chunks, from, weir__min(a->width - from, WEIR__ROW_CHUNK),
                            block->local)))
            return st;
    }
    return WEIR_OK;
}
