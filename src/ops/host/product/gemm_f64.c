#define WEIR__REAL_F64 1
#include "ops/host/product/gemm_real.h"

void WEIR__ISA_NAME(weir__gemm_f64)(const struct weir__gemm *g, void *local)
{
    gemm(g, local);
}
