#ifndef TESTS_ESTIMATE_HELPERS_H
#define TESTS_ESTIMATE_HELPERS_H

#include "graph/estimate/estimate.h"
#include "harness/test.h"

/* DeepSeek-V3 and R1. */
static inline struct weir__llm deepseek(void)
{
    return (struct weir__llm){.family = "deepseek_v3",
                              .hidden = 7168,
                              .layers = 61,
                              .heads = 128,
                              .kv_heads = 128,
                              .head_dim = 56,
                              .vocab = 129280,
                              .dense_dim = 18432,
                              .dense_layers = 3,
                              .experts = 256,
                              .top = 8,
                              .groups = 8,
                              .top_groups = 4,
                              .expert_dim = 2048,
                              .shared_dim = 2048,
                              .q_rank = 1536,
                              .kv_rank = 512,
                              .rope = 64,
                              .nope = 128,
                              .v_dim = 128,
                              .mtp = 1};
}

static inline struct weir__deploy deploy(uint32_t ranks, double batch,
                                         enum weir__placement placement)
{
    struct weir__deploy d;

    weir__deploy_init(&d);
    d.ranks = ranks;
    d.batch = batch;
    d.quant = WEIR__QUANT_W8A8;
    d.placement = placement;
    return d;
}

#endif
