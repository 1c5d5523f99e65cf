/* Sorts rows, or selects their first k elements. */
#ifndef WEIR_OPS_HOST_SORT_H
#define WEIR_OPS_HOST_SORT_H

#include "ops/host/row.h"
#include "weir/launch.h"

struct weir__sort {
    const char *in;
    char *values;
    int64_t *indices;
    weir_dtype dtype;
    bool descending;
    int64_t k;       /* requested elements of each row */
    char *wide_rows; /* WEIR__SORT_BYTES(n) per block, if local memory is too small; else NULL */
    struct weir__rows rows; /* of in and values; indices have the strides of values */
};

/* Up to this many elements are selected in one pass over the row. For more, the whole row is
 * sorted. */
#define WEIR__SORT_SELECT 64
/* Memory to sort a row of n: keys and places, twice. */
#define WEIR__SORT_BYTES(n) ((size_t)(n)*24)
/* Places are 32 bits wide. */
#define WEIR__SORT_MAX ((int64_t)UINT32_MAX)
/* The part of local memory for rows. */
#define WEIR__SORT_LOCAL (WEIR_LOCAL_BYTES / 2)

/* GPUs sort rows of up to 2^WEIR__GPU_SORT_WARP elements with one warp each. */
#define WEIR__GPU_SORT_WARP 7
/* GPUs sort rows longer than WEIR__GPU_SORT_SHARED with many blocks, several rows at once: in three
 * phases for each byte of a key; a key has as many bytes as an element. A block takes a tile of
 * elements. Scratch memory holds keys (of at least 4 bytes) and places for each element, both
 * twice, and 256 counts for each tile. */
#define WEIR__GPU_SORT_SHARED 2048
#define WEIR__SORT_TILE(key_bytes) ((key_bytes) > 4 ? 2048 : 4096)

static inline int64_t weir__sort_rows_at_once(const struct weir__rows *rows)
{
    int64_t fit = ((int64_t)1 << 26) / rows->n;

    return fit < 1 ? 1 : fit < rows->count ? fit : rows->count;
}

/* The block function; its arguments are a struct weir__sort. */
WEIR__ISA_DECLARE(weir_status, weir__sort_kernel, (const void *args, const weir_block *block));

#endif
