#define WEIR__REAL_F64 1
#include "ops/host/product/gemm_real.h"

void WEIR__ISA_NAME(weir__gemm_f64)(const struct weir__gemm *g, void *local)
{
    gemm(g, local);
}

void WEIR__ISA_NAME(weir__gemm_part_f64)(const struct weir__gemm *g, int64_t part, void *sums,
                                         int64_t step, void *local)
{
    thin(g, local, (struct thin_target){part, sums, step});
}

void WEIR__ISA_NAME(weir__gemm_join_f64)(const struct weir__gemm *g, const void *sums,
                                         int64_t parts, int64_t step, int64_t next, void *local)
{
    thin_join(g, sums, parts, step, next, local);
}
