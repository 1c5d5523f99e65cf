/* Parts of collectives between ranks that share memory. */
#include "ops/host/move/collective.h"

#include <string.h>

#include "ops/host/math/elementwise.h"
#include "ops/tile.h"

static const struct weir__collective_args *peer(const weir_block *block, int rank)
{
    return block->peers[rank];
}

/* ---- reducing ---- */

/* Short pieces let reads and non-temporal writes overlap. */
enum { NONTEMPORAL_PIECE = 512 };

struct reducer {
    const struct weir__collective_args *a;
    const weir_block *block;
    weir__ew_fn fn;
    weir_dtype compute; /* rows are converted to this type */
    char *sum, *rows[2], *packed;
};

static struct reducer make_reducer(const struct weir__collective_args *a, const weir_block *block)
{
    static const enum weir__binary_code codes[] = {
        [WEIR_REDUCE_SUM] = WEIR__BINARY_ADD,     [WEIR_REDUCE_MAX] = WEIR__BINARY_MAXIMUM,
        [WEIR_REDUCE_MIN] = WEIR__BINARY_MINIMUM, [WEIR_REDUCE_MEAN] = WEIR__BINARY_ADD,
        [WEIR_REDUCE_PROD] = WEIR__BINARY_MUL,
    };
    weir_dtype compute = weir__compute_type(a->dtype);
    struct reducer r = {.a = a, .block = block, .sum = block->local};

    /* The sum of narrow integers may not fit their type; their mean does. */
    if (a->reduce == WEIR_REDUCE_MEAN && compute != WEIR_F32 && compute != WEIR_F64)
        compute = WEIR_I64;
    r.compute = compute;
    r.fn = WEIR__ISA_NAME(weir__binary).fn[codes[a->reduce]][compute];
    r.rows[0] = r.sum + WEIR__ROW_BYTES;
    r.rows[1] = r.rows[0] + WEIR__ROW_BYTES;
    r.packed = r.rows[1] + WEIR__ROW_BYTES;
    return r;
}

static const void *load(const struct reducer *r, int rank, char *buffer, int64_t at, int64_t n)
{
    const char *in = peer(r->block, rank)->in + at * (int64_t)weir__elem_size(r->a->dtype);

    return WEIR__ISA_NAME(weir__row_load)(buffer, r->compute, in, r->a->dtype, 1, n);
}

static void divide(void *sum, weir_dtype type, int ranks, int64_t n)
{
    if (type == WEIR_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)sum)[i] /= (float)ranks;
    else if (type == WEIR_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)sum)[i] /= ranks;
    else
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)sum)[i] /= ranks;
}

/* Reduces elements at..at+n-1. Returns them in the tensors' type. */
static const void *reduce_piece(const struct reducer *r, int64_t at, int64_t n)
{
    int ranks = r->a->ranks;
    const void *in[2] = {load(r, 0, r->rows[0], at, n), NULL};

    for (int i = 1; i < ranks; i++) {
        in[1] = load(r, i, r->rows[1], at, n);
        r->fn(r->sum, in, n, NULL);
        in[0] = r->sum;
    }
    if (r->a->reduce == WEIR_REDUCE_MEAN && ranks > 1)
        divide(r->sum, r->compute, ranks, n);
    if (r->compute == r->a->dtype)
        return in[0];
    WEIR__ISA_NAME(weir__row_convert)(r->packed, r->a->dtype, in[0], r->compute, n);
    return r->packed;
}

static void store(const struct weir__collective_args *a, char *out, const void *piece,
                  int64_t bytes)
{
    if (out == piece) /* one rank, in place */
        return;
    if (a->nontemporal)
        WEIR__ISA_NAME(weir__row_stream)(out, piece, (size_t)bytes);
    else
        memcpy(out, piece, (size_t)bytes);
}

/* The rank's slice of the n elements. */
static struct weir__range slice_of(const struct weir__collective_args *a)
{
    int64_t n = a->numel;

    if (a->scatter)
        return (struct weir__range){n / a->ranks * a->meet.rank, n / a->ranks * (a->meet.rank + 1)};
    if (a->part)
        return (struct weir__range){a->first, a->first + a->count};
    if (a->meet.pulls && !weir__reduces_in_rounds(a))
        return (struct weir__range){0, n};
    return weir__reduce_slice(a, a->meet.rank);
}

/* The second round: gathers the reduced slices of all ranks. */
static void gather_slices(const struct weir__collective_args *a, const weir_block *block)
{
    struct weir__range mine = weir__tile_range(a->numel, 64, block);
    int64_t elem = (int64_t)weir__elem_size(a->dtype);

    for (int i = 0; i < a->ranks; i++) {
        struct weir__range slice = weir__reduce_slice(a, i);
        int64_t begin = weir__max(slice.begin, mine.begin), end = weir__min(slice.end, mine.end);

        if (begin < end)
            store(a, a->out + begin * elem, peer(block, i)->reduced + (begin - slice.begin) * elem,
                  (end - begin) * elem);
    }
    if (a->nontemporal)
        WEIR__ISA_NAME(weir__row_stream_end)();
}

/* The first round. Writes the slice with ordinary stores, so that the ranks that read it next find
 * it in the caches. */
static void reduce_slice(const struct reducer *r, struct weir__range slice, char *to)
{
    struct weir__range mine = weir__tile_range(slice.end - slice.begin, 64, r->block);
    int64_t elem = (int64_t)weir__elem_size(r->a->dtype), n;

    for (int64_t i = mine.begin; i < mine.end; i += n) {
        n = weir__min((int64_t)WEIR__ROW_CHUNK, mine.end - i);
        memcpy(to + i * elem, reduce_piece(r, slice.begin + i, n), (size_t)(n * elem));
    }
}

weir_status WEIR__ISA_NAME(weir__reduce_part_kernel)(const void *args, const weir_block *block)
{
    const struct weir__collective_args *a = args;
    struct reducer r = make_reducer(a, block);
    struct weir__range slice = slice_of(a);
    struct weir__range mine = weir__tile_range(slice.end - slice.begin, 64, block);
    int64_t elem = (int64_t)weir__elem_size(a->dtype), n;
    int64_t piece = a->nontemporal ? NONTEMPORAL_PIECE / elem : WEIR__ROW_CHUNK;
    bool own = a->scatter || a->meet.pulls;

    if (weir__reduces_in_rounds(a)) {
        if (block->phase)
            gather_slices(a, block);
        else
            reduce_slice(&r, slice, peer(block, a->meet.rank)->reduced);
        return WEIR_OK;
    }
    for (int64_t i = mine.begin; i < mine.end; i += n) {
        int64_t at = slice.begin + i;
        const void *result;

        n = weir__min(piece, mine.end - i);
        result = reduce_piece(&r, at, n);
        if (own)
            store(a, a->out + i * elem, result, n * elem);
        for (int to = 0; to < a->ranks && !own; to++)
            store(a, peer(block, to)->out + at * elem, result, n * elem);
    }
    if (a->nontemporal)
        WEIR__ISA_NAME(weir__row_stream_end)();
    return WEIR_OK;
}

/* ---- moving ---- */

/* The bytes that the rank receives, as one row of pieces. */
static int64_t bytes_of(const struct weir__collective_args *a)
{
    int64_t bytes = a->numel * (int64_t)weir__elem_size(a->dtype);

    if (a->move == WEIR__MOVE_COUNTS)
        return weir__rows_before(a->counts + a->ranks, a->ranks) * a->row;
    return a->move == WEIR__MOVE_GATHER ? bytes * a->ranks : bytes;
}

weir_status WEIR__ISA_NAME(weir__move_part_kernel)(const void *args, const weir_block *block)
{
    const struct weir__collective_args *a = args;
    bool one = a->move == WEIR__MOVE_BROADCAST || a->move == WEIR__MOVE_RECEIVE;
    struct weir__range r = weir__tile_range(bytes_of(a), 4096, block);
    int64_t first = 0;

    for (int i = one ? a->peer : 0; i < (one ? a->peer + 1 : a->ranks); i++) {
        struct weir__piece p = weir__move_piece(a, peer(block, i), i);
        int64_t begin = weir__max(r.begin - first, 0), end = weir__min(r.end - first, p.bytes);

        if (begin < end && p.from != p.to)
            store(a, p.to + begin, p.from + begin, end - begin);
        first += p.bytes;
    }
    if (a->nontemporal)
        WEIR__ISA_NAME(weir__row_stream_end)();
    return WEIR_OK;
}
