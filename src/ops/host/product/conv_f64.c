#include "ops/host/isa.h"
#define WEIR__REAL_F64 1
#define GEMM WEIR__ISA_NAME(weir__gemm_f64)
#include "ops/host/product/conv_real.h"

void WEIR__ISA_NAME(weir__conv_f64)(const struct weir__conv *c, int64_t image, int64_t group,
                                    int64_t o0, int64_t o1, int64_t y0, int64_t y1, void *local)
{
    conv(c, image, group, o0, o1, y0, y1, local);
}
