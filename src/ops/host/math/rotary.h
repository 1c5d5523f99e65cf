/* Rotary position embedding. */
#ifndef WEIR_OPS_HOST_ROTARY_H
#define WEIR_OPS_HOST_ROTARY_H

#include "ops/host/row.h"
#include "weir/launch.h"

/* Rows are x's rows along its last dim. Row r is rotated by the angles of position r / heads %
 * length. */
struct weir__rotary {
    const char *in, *cosines, *sines;
    char *out;
    weir_dtype dtype, angle_type;
    bool interleaved;
    int64_t heads, length;
    int64_t cos_row, cos_step, sin_row, sin_step;
    struct weir__rows rows;
};

/* Several rotary embeddings of the same types, in one launch on a GPU. */
struct weir__rotaries {
    int n;
    struct weir__rotary of[2];
};

/* The largest last dim, so that rows fit local memory. */
#define WEIR__ROTARY_MAX ((int64_t)1 << 16)

/* The block function; its arguments are a struct weir__rotary. */
WEIR__ISA_DECLARE(weir_status, weir__rotary_kernel, (const void *args, const weir_block *block));

#endif
