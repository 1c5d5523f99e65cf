/* Stable sorting by keys: unsigned integers in the order of the values.
 *
 * NaN is larger than any number; all NaN are equal, and so are -0 and 0. Keys encode this, so the
 * sort compares keys only. */
#include "ops/host/move/sort.h"

#include <string.h>

#include "base/half.h"
#include "ops/tile.h"

#define CHUNK WEIR__ROW_CHUNK
/* With fewer elements than this, insertion sort is faster than counting digits. */
#define SMALL 48

static inline uint64_t key_f32(float x)
{
    uint32_t bits = weir__f32_bits(x + 0.0f); /* -0 becomes 0 */

    if (x != x)
        return UINT32_MAX;
    return bits & 0x80000000u ? (uint32_t)~bits : bits | 0x80000000u;
}

static inline uint64_t key_f64(double x)
{
    double y = x + 0.0;
    uint64_t bits;

    memcpy(&bits, &y, sizeof bits);
    if (x != x)
        return UINT64_MAX;
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

/* Makes the keys of n elements, ascending in the requested order. */
static void make_keys(uint64_t *keys, const void *row, weir_dtype type, int64_t n, bool descending)
{
    uint64_t flip = descending ? UINT64_MAX : 0;

    if (type == WEIR_F32) {
        /* Flips only the low half, so that the digits of the high half need no pass. */
        flip &= UINT32_MAX;
        for (int64_t i = 0; i < n; i++)
            keys[i] = key_f32(((const float *)row)[i]) ^ flip;
    } else if (type == WEIR_F64) {
        for (int64_t i = 0; i < n; i++)
            keys[i] = key_f64(((const double *)row)[i]) ^ flip;
    } else {
        for (int64_t i = 0; i < n; i++)
            keys[i] = ((uint64_t)((const int64_t *)row)[i] ^ (uint64_t)1 << 63) ^ flip;
    }
}

static weir_dtype key_source(weir_dtype dtype)
{
    weir_dtype type = weir__compute_type(dtype);

    return type == WEIR_F32 || type == WEIR_F64 ? type : WEIR_I64;
}

static void sort_small(uint64_t *keys, uint32_t *places, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t key = keys[i];
        uint32_t place = places[i];
        int64_t j = i;

        for (; j > 0 && keys[j - 1] > key; j--) {
            keys[j] = keys[j - 1];
            places[j] = places[j - 1];
        }
        keys[j] = key;
        places[j] = place;
    }
}

/* Radix sort of `digits` bytes, least significant first. Returns the one of the two place arrays
 * that holds the result. A digit with the same value in all keys needs no pass. */
static uint32_t *sort_radix(uint64_t *keys, uint32_t *places, uint64_t *keys2, uint32_t *places2,
                            int64_t n, int digits)
{
    uint32_t count[8][256];

    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < digits; d++)
            count[d][keys[i] >> (8 * d) & 255]++;
    for (int d = 0; d < digits; d++) {
        uint32_t sum = 0, *next = count[d];
        uint64_t *keys_swap = keys2;
        uint32_t *places_swap = places2;

        if (next[keys[0] >> (8 * d) & 255] == (uint32_t)n)
            continue;
        for (int v = 0; v < 256; v++) {
            uint32_t here = next[v];

            next[v] = sum;
            sum += here;
        }
        for (int64_t i = 0; i < n; i++) {
            uint32_t to = next[keys[i] >> (8 * d) & 255]++;

            keys2[to] = keys[i];
            places2[to] = places[i];
        }
        keys2 = keys;
        places2 = places;
        keys = keys_swap;
        places = places_swap;
    }
    return places;
}

/* A row in memory and the buffers to sort it. */
struct sorter {
    const struct weir__sort *a;
    char *chunk; /* WEIR__ROW_BYTES */
    char *room;  /* WEIR__SORT_BYTES(n) */
};

static const uint32_t *sort_row(const struct sorter *s, const char *in)
{
    const struct weir__sort *a = s->a;
    int64_t n = a->rows.n, elem = (int64_t)weir__elem_size(a->dtype);
    uint64_t *keys = (void *)s->room, *keys2 = keys + n;
    uint32_t *places = (uint32_t *)(keys2 + n), *places2 = places + n;
    weir_dtype type = key_source(a->dtype);

    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = weir__min(CHUNK, n - i);
        const void *row = WEIR__ISA_NAME(weir__row_load)(
            s->chunk, type, in + i * a->rows.in_step * elem, a->dtype, a->rows.in_step, m);

        make_keys(keys + i, row, type, m, a->descending);
        for (int64_t j = 0; j < m; j++)
            places[i + j] = (uint32_t)(i + j);
    }
    if (n >= SMALL)
        return sort_radix(keys, places, keys2, places2, n, type == WEIR_F32 ? 4 : 8);
    sort_small(keys, places, n);
    return places;
}

/* Keeps the first k elements sorted in one pass over the row. */
static const uint32_t *select_row(const struct sorter *s, const char *in)
{
    const struct weir__sort *a = s->a;
    int64_t n = a->rows.n, k = a->k, held = 0, elem = (int64_t)weir__elem_size(a->dtype);
    uint64_t *best = (void *)s->room, *keys = best + WEIR__SORT_SELECT;
    uint32_t *places = (uint32_t *)(keys + CHUNK);
    weir_dtype type = key_source(a->dtype);

    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = weir__min(CHUNK, n - i);
        const void *row = WEIR__ISA_NAME(weir__row_load)(
            s->chunk, type, in + i * a->rows.in_step * elem, a->dtype, a->rows.in_step, m);

        make_keys(keys, row, type, m, a->descending);
        for (int64_t j = 0; j < m; j++) {
            int64_t at = held;

            if (held == k && keys[j] >= best[k - 1])
                continue;
            if (held < k)
                held++;
            else
                at = k - 1;
            for (; at > 0 && best[at - 1] > keys[j]; at--) {
                best[at] = best[at - 1];
                places[at] = places[at - 1];
            }
            best[at] = keys[j];
            places[at] = (uint32_t)(i + j);
        }
    }
    return places;
}

static void put_row(const struct weir__sort *a, const char *in, char *values, int64_t *indices,
                    const uint32_t *places)
{
    size_t elem = weir__elem_size(a->dtype);
    int64_t in_step = a->rows.in_step * (int64_t)elem, out_step = a->rows.out_step * (int64_t)elem;

#define PUT(type)                              \
    for (int64_t j = 0; j < a->k; j++)         \
    *(type *)(void *)(values + j * out_step) = \
        *(const type *)(const void *)(in + places[j] * in_step)
    switch (elem) {
    case 1:
        PUT(uint8_t);
        break;
    case 2:
        PUT(uint16_t);
        break;
    case 4:
        PUT(uint32_t);
        break;
    default:
        PUT(uint64_t);
        break;
    }
#undef PUT
    for (int64_t j = 0; j < a->k; j++)
        indices[j * a->rows.out_step] = places[j];
}

weir_status WEIR__ISA_NAME(weir__sort_kernel)(const void *args, const weir_block *block)
{
    const struct weir__sort *a = args;
    struct weir__range range = weir__tile_range(a->rows.count, 1, block);
    int64_t elem = (int64_t)weir__elem_size(a->dtype);
    bool select = a->k < a->rows.n && a->k <= WEIR__SORT_SELECT;
    struct sorter s = {.a = a, .chunk = block->local};

    if (a->k == 0)
        return WEIR_OK;
    s.room = s.chunk + WEIR__ROW_BYTES;
    if (a->wide_rows && !select)
        s.room = a->wide_rows + (size_t)block->index * WEIR__SORT_BYTES(a->rows.n);
    for (int64_t r = range.begin; r < range.end; r++) {
        int64_t in, out;
        const char *row;

        weir__rows_at(&a->rows, r, &in, &out);
        row = a->in + in * elem;
        put_row(a, row, a->values + out * elem, a->indices + out,
                select ? select_row(&s, row) : sort_row(&s, row));
    }
    return WEIR_OK;
}
