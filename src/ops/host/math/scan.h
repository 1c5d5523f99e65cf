/* Scans: each result combines the elements of a row up to its own place. */
#ifndef WEIR_OPS_HOST_SCAN_H
#define WEIR_OPS_HOST_SCAN_H

#include "ops/host/row.h"
#include "weir/launch.h"

enum weir__scan_kind { WEIR__SCAN_SUM, WEIR__SCAN_PRODUCT, WEIR__SCAN_MAX, WEIR__SCAN_MIN };

/* f32 is accumulated in f64, f16 and bf16 in f32, integers and bool in i64. */
struct weir__scan {
    const char *in;
    char *out;
    int64_t *places; /* places of the maxima or minima; NULL for sums and products */
    weir_dtype dtype, out_type;
    unsigned kind;          /* enum weir__scan_kind */
    struct weir__rows rows; /* `places` has the strides of `out` */
};

/* The block function; its arguments are the struct above. */
WEIR__ISA_DECLARE(weir_status, weir__scan_kernel, (const void *args, const weir_block *block));

#endif
