/* What the questions of isa.h and gemm_i8.h answer on the machine that `x` describes, with `wish`
 * in WEIR_ISA (NULL: not set). */
#ifndef WEIR_OPS_HOST_ISA_OF_H
#define WEIR_OPS_HOST_ISA_OF_H

#include "base/x86.h"
#include "ops/host/isa.h"

int weir__isa_of(const struct weir__x86 *x, const char *wish);
enum weir__isa_pairs weir__isa_pairs_of(const struct weir__x86 *x, const char *wish);
bool weir__isa_bytes_of(const struct weir__x86 *x, const char *wish);

#endif
