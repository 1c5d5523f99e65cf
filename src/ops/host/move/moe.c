/* Mixture of experts between ranks that share memory. */
#include "ops/host/move/moe.h"

#include <string.h>

#include "ops/host/row.h"
#include "ops/tile.h"

static const struct weir__moe *peer(const weir_block *block, int rank)
{
    return block->peers[rank];
}

static int64_t expert_at(const struct weir__moe *a, int64_t slot)
{
    return a->wide_experts ? ((const int64_t *)a->experts)[slot]
                           : ((const int32_t *)a->experts)[slot];
}

static weir_status bad_expert(const struct weir__moe *a, int64_t slot)
{
    return weir__fail(WEIR_ERANGE, WEIR__MOE_BAD_EXPERT_TEXT, (long long)expert_at(a, slot),
                      (long long)(slot / a->k), a->meet.rank, (long long)a->nexperts - 1);
}

static bool is_expert(const struct weir__moe *a, int64_t e)
{
    return e >= 0 && e < a->nexperts;
}

/* ---- dispatch ---- */

/* Counts the rows for each expert by source rank, into starts. */
static weir_status count_rows(const struct weir__moe *a, const weir_block *block)
{
    memset(a->starts, 0, (size_t)(a->ranks * a->nexperts) * sizeof *a->starts);
    for (int r = 0; r < a->ranks; r++) {
        const struct weir__moe *p = peer(block, r);

        for (int64_t i = 0; i < p->tokens * p->k; i++) {
            int64_t e = expert_at(p, i);

            if (!is_expert(a, e))
                return bad_expert(p, i);
            a->starts[r * a->nexperts + e]++;
        }
    }
    return WEIR_OK;
}

/* Turns counts into the first row of each (rank, expert) on the expert's rank. Returns the number
 * of rows of this rank's experts. */
static int64_t place_rows(const struct weir__moe *a)
{
    int64_t per = a->nexperts / a->ranks, mine = 0;

    for (int owner = 0; owner < a->ranks; owner++) {
        int64_t row = 0;

        for (int64_t e = owner * per; e < (owner + 1) * per; e++) {
            int64_t before = row;

            for (int r = 0; r < a->ranks; r++) {
                int64_t *start = &a->starts[r * a->nexperts + e], n = *start;

                *start = row;
                row += n;
            }
            if (owner == a->meet.rank)
                a->counts[e - owner * per] = row - before;
        }
        if (owner == a->meet.rank)
            mine = row;
    }
    return mine;
}

/* Computes the destinations of this rank's tokens, and the sources of its rows. */
static void route_rows(const struct weir__moe *a, const weir_block *block)
{
    int64_t per = a->nexperts / a->ranks;

    for (int r = 0; r < a->ranks; r++) {
        const struct weir__moe *p = peer(block, r);
        bool here = r == a->meet.rank;

        for (int64_t i = 0; i < p->tokens * p->k; i++) {
            int64_t e = expert_at(p, i), row;
            bool mine = e / per == a->meet.rank;

            if (!here && !mine)
                continue;
            row = a->starts[r * a->nexperts + e]++;
            if (here)
                a->positions[i] = (int32_t)row;
            if (mine)
                a->routes[row] = (struct weir__moe_route){r, i / p->k};
        }
    }
}

weir_status WEIR__ISA_NAME(weir__moe_dispatch_kernel)(const void *args, const weir_block *block)
{
    const struct weir__moe *a = args;
    int64_t *nrows = &a->routes[a->capacity].token; /* the last entry is the count, not a route */
    size_t row = (size_t)a->hidden * weir__elem_size(a->dtype);
    struct weir__range range;
    weir_status st;

    if (block->phase == 0) {
        if (block->index)
            return WEIR_OK;
        if ((st = count_rows(a, block)))
            return st;
        *nrows = place_rows(a);
        if (*nrows > a->capacity)
            return weir__fail(WEIR_ERANGE, WEIR__MOE_NO_ROOM_TEXT, a->meet.rank, (long long)*nrows,
                              (long long)a->capacity);
        route_rows(a, block);
        return WEIR_OK;
    }
    range = weir__tile_range(*nrows, 1, block);
    for (int64_t i = range.begin; i < range.end; i++) {
        const struct weir__moe_route *from = &a->routes[i];

        memcpy(a->out + (size_t)i * row,
               peer(block, (int)from->rank)->x + (size_t)from->token * row, row);
    }
    return WEIR_OK;
}

/* ---- combine ---- */

static double weight_at(const struct weir__moe *a, int64_t slot)
{
    const char *at = (const char *)a->weights + slot * (int64_t)weir__elem_size(a->weight_type);
    double w;

    WEIR__ISA_NAME(weir__row_load_all)(&w, WEIR_F64, at, a->weight_type, 1, 1);
    return w;
}

static void add_scaled(void *sum, const void *row, weir_dtype compute, double weight, int64_t n)
{
    float w = (float)weight;

    if (compute == WEIR_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)sum)[i] += weight * ((const double *)row)[i];
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)sum)[i] += w * ((const float *)row)[i];
}

/* The slot's row on its rank; NULL with the error set. */
static const char *find_row(const struct weir__moe *a, const weir_block *block, int64_t slot)
{
    int64_t e = expert_at(a, slot), row = a->positions[slot];
    const struct weir__moe *p;

    if (!is_expert(a, e)) {
        bad_expert(a, slot);
        return NULL;
    }
    p = peer(block, (int)(e / (a->nexperts / a->ranks)));
    if (row < 0 || row >= p->capacity) {
        weir__fail(WEIR_ERANGE, WEIR__MOE_BAD_POSITION_TEXT, (long long)row,
                   (long long)(slot / a->k), a->meet.rank, p->meet.rank, (long long)p->capacity);
        return NULL;
    }
    return p->x + (size_t)(row * a->hidden) * weir__elem_size(a->dtype);
}

static weir_status combine_token(const struct weir__moe *a, const weir_block *block, int64_t t)
{
    weir_dtype compute = weir__compute_type(a->dtype);
    int64_t elem = (int64_t)weir__elem_size(a->dtype), n;
    char *sum = block->local, *buffer = sum + WEIR__ROW_BYTES;

    for (int64_t at = 0; at < a->hidden; at += n) {
        n = weir__min(WEIR__ROW_CHUNK, a->hidden - at);
        memset(sum, 0, WEIR__ROW_BYTES);
        for (int64_t slot = t * a->k; slot < (t + 1) * a->k; slot++) {
            const char *from = find_row(a, block, slot);

            if (!from)
                return WEIR_ERANGE;
            add_scaled(
                sum,
                WEIR__ISA_NAME(weir__row_load)(buffer, compute, from + at * elem, a->dtype, 1, n),
                compute, weight_at(a, slot), n);
        }
        WEIR__ISA_NAME(weir__row_store)
        (a->out + (t * a->hidden + at) * elem, a->dtype, 1, sum, compute, n);
    }
    return WEIR_OK;
}

weir_status WEIR__ISA_NAME(weir__moe_combine_kernel)(const void *args, const weir_block *block)
{
    const struct weir__moe *a = args;
    struct weir__range range = weir__tile_range(a->tokens, 1, block);
    weir_status st = WEIR_OK;

    for (int64_t t = range.begin; t < range.end && !st; t++)
        st = combine_token(a, block, t);
    return st;
}
