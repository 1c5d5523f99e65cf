#define WEIR__REAL_F64 0
#include "ops/host/product/attention_real.h"

void WEIR__ISA_NAME(weir__attention_f32)(const struct weir__attention *a, int64_t unit, void *local)
{
    attend(a, unit, local);
}

void WEIR__ISA_NAME(weir__attention_combine_f32)(const struct weir__attention *a, int64_t row,
                                                 void *local)
{
    combine(a, row, local);
}
