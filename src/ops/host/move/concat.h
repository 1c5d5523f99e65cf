/* Concatenation: copies pieces into one tensor, along one dim. */
#ifndef WEIR_OPS_HOST_CONCAT_H
#define WEIR_OPS_HOST_CONCAT_H

#include "ops/host/isa.h"
#include "weir/launch.h"

/* Followed, npieces times, by: address, size along dim, and if `strided` one stride per dim; each
 * an int64_t. */
struct weir__concat {
    char *out;
    weir_dtype dtype;
    int ndim, dim, npieces;
    bool strided;                                        /* else all pieces are contiguous */
    int64_t shape[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS]; /* of out */
#ifndef __cplusplus /* C++ has no flexible array members: GPU kernels compute the address behind \
                     * the struct */
    int64_t pieces[];
#endif
};

/* The block function; its arguments are a struct weir__concat. */
WEIR__ISA_DECLARE(weir_status, weir__concat_kernel, (const void *args, const weir_block *block));

#endif
