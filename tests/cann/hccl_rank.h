/* One of three ranks that make all calls of libhccl, over any connection. */
#ifndef TESTS_CANN_HCCL_RANK_H
#define TESTS_CANN_HCCL_RANK_H

#include "hccl/hccl.h"

enum { T_HCCL_RANKS = 3 };

/* returns  0, or which of its steps went wrong. */
int t_hccl_rank(uint32_t rank, const HcclRootInfo *root);

#endif
