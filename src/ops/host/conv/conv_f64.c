#include "ops/host/isa.h"
#define WEIR__REAL_F64 1
#define GEMM WEIR__ISA_NAME(weir__gemm_f64)
#include "ops/host/conv/conv_real.h"

void WEIR__ISA_NAME(weir__conv_f64)(const struct weir__conv *c, const struct weir__conv_part *part,
                                    void *local)
{
    conv(c, part, local);
}
