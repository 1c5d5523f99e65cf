#define WEIR__REAL_F64 0
#include "ops/host/product/gemm_real.h"

void WEIR__ISA_NAME(weir__gemm_f32)(const struct weir__gemm *g, void *local)
{
    gemm(g, local);
}
