/* The second half of rows.h: indices, matrices, norms, losses, lists, random numbers, models. */
/* clang-format off */

/* ---- indices ---- */
ROW(Embedding, run_embedding, ALL, T(weight), T(indices), O(out))
ROW(EmbeddingDenseBackward, run_embedding_backward, FLOAT, T(grad), T(indices), I(num_weights),
    I(padding_idx), B(scale_by_freq), O(out))
ROW(Gather, run_gather, ALL, T(self), I(dim), T(index), O(out))
ROW(GatherV2, run_index_select, ALL, T(self), I(dim), T(index), O(out))
ROW(IndexSelect, run_index_select, ALL, T(self), I(dim), T(index), O(out))
ROW(Take, run_take, ALL, T(self), T(index), O(out))
ROW(Index, run_index, ALL, T(self), L(indices), O(out))
ROW(IndexPutImpl, run_index_put, ALL, X(self), L(indices), T(values), B(accumulate), B(unsafe))
ROW(InplacePut, run_put, ALL, X(self), T(index), T(source), B(accumulate))
ROW(IndexAdd, run_index_add, NUMBER, T(self), I(dim), T(index), T(source), S(alpha), O(out))
ROW(IndexAddV2, run_index_add, NUMBER, T(self), I(dim), T(index), T(source), S(alpha), I(mode),
    O(out))
ROW(ScatterReduce, run_scatter_reduce, NUMBER, T(self), I(dim), T(index), T(source), I(reduction),
    B(include_self), O(out))
ROW(InplaceScatterReduce, run_scatter_reduce, NUMBER, X(self), I(dim), T(index), T(source),
    I(reduction), B(include_self))
ROW(IndexCopy, run_index_copy, ALL, T(self), I(dim), T(index), T(source), O(out))
ROW(InplaceIndexCopy, run_index_copy, ALL, X(self), I(dim), T(index), T(source))
ROW(IndexFill, run_index_fill, ALL, T(self), I(dim), T(index), S(value), O(out))
ROW(InplaceIndexFill, run_index_fill, ALL, X(self), I(dim), T(index), S(value))
ROW(IndexFillTensor, run_index_fill, ALL, T(self), I(dim), N(index), S(value), O(out))
ROW(InplaceIndexFillTensor, run_index_fill, ALL, X(self), I(dim), N(index), S(value))
ROW(Scatter, run_scatter, ALL, T(self), I(dim), T(index), T(source), I(reduction), O(out))
ROW(ScatterValue, run_scatter, ALL, T(self), I(dim), T(index), S(value), I(reduction), O(out))
ROW(InplaceScatter, run_scatter, ALL, X(self), I(dim), T(index), T(source), I(reduction))
ROW(InplaceScatterValue, run_scatter, ALL, X(self), I(dim), T(index), S(value), I(reduction))
ROW(ScatterAdd, run_scatter_add, ALL, T(self), I(dim), T(index), T(source), O(out))
ROW(ScatterNdUpdate, run_scatter_nd_update, ALL, X(self), T(indices), T(updates))
ROW(Nonzero, run_nonzero, ALL, T(self), O(out))
ROW(NonzeroV2, run_nonzero_turned, ALL, T(self), O(out))
ROW(InplaceMaskedScatter, run_masked_scatter, ALL, X(self), T(mask), T(source))
ROW(MaskedSelect, run_masked_select, ALL, T(self), T(mask), O(out))

ROW(Unique, run_unique, ALL, T(self), B(sorted), B(return_inverse), O(y), OQ(inverse))
ROW(Unique2, run_unique2, ALL, T(self), B(sorted), B(return_inverse), B(return_counts), O(y),
    OQ(inverse), OQ(counts))
ROW(UniqueConsecutive, run_unique_consecutive, ALL, T(self), B(return_inverse), B(return_counts),
    I(dim), O(y), OQ(inverse), OQ(counts))
ROW(UniqueDim, run_unique_dim, ALL, T(self), B(sorted), B(return_inverse), I(dim), O(y),
    OQ(inverse), OQ(counts))
ROW(Histc, run_histc, NUMBER, T(self), I(bins), S(min), S(max), O(out))
ROW(Bincount, run_bincount, INT, T(self), TQ(weights), I(minlength), O(out))

/* ---- matrices ---- */
ROW(Matmul, run_matmul, NUMBER, T(self), T(mat2), O(out), J(cube))
ROW(Mm, run_matmul, NUMBER, T(self), T(mat2), O(out), J(cube))
ROW(BatchMatMul, run_matmul, NUMBER, T(self), T(mat2), O(out), J(cube))
ROW(MatmulWeightNz, run_matmul, NUMBER, T(self), T(mat2), O(out), J(cube))
ROW(BatchMatMulWeightNz, run_matmul, NUMBER, T(self), T(mat2), O(out), J(cube))
/* These do not change the layout in memory: weir has only one. */
ROW(TransMatmulWeight, run_same_layout, ALL, X(mat2))
ROW(Mv, run_matmul, NUMBER, T(self), T(vec), O(out), J(cube))
ROW(Addmm, run_addmm, NUMBER, T(self), T(mat1), T(mat2), S(beta), S(alpha), O(out), J(cube))
ROW(AddmmWeightNz, run_addmm, NUMBER, T(self), T(mat1), T(mat2), S(beta), S(alpha), O(out), J(cube))
ROW(InplaceAddmm, run_addmm, NUMBER, X(self), T(mat1), T(mat2), S(beta), S(alpha), J(cube))
ROW(Baddbmm, run_addmm, NUMBER, T(self), T(batch1), T(batch2), S(beta), S(alpha), O(out), J(cube))
ROW(InplaceBaddbmm, run_addmm, NUMBER, X(self), T(batch1), T(batch2), S(beta), S(alpha), J(cube))
ROW(Addbmm, run_addbmm, FLOAT, T(self), T(batch1), T(batch2), S(beta), S(alpha), O(out), J(cube))
ROW(Addmv, run_addmv, NUMBER, T(self), T(mat), T(vec), S(alpha), S(beta), O(out), J(cube))
ROW(LinalgCross, run_cross, NUMBER, T(self), T(other), I(dim), O(out))
ROW(Addr, run_addr, NUMBER, T(self), T(vec1), T(vec2), S(beta), S(alpha), O(out))
ROW(InplaceAddr, run_addr, NUMBER, X(self), T(vec1), T(vec2), S(beta), S(alpha))
ROW(Dot, run_dot, NUMBER, T(self), T(other), O(out))
ROW(FusedMatmul, run_fused_matmul, FLOAT, T(x), T(x2), TQ(bias), TQ(x3), C(kind), J(cube), O(out))
ROW(TriangularSolve, run_triangular_solve, FLOAT, T(self), T(A), B(upper), B(transposed), B(unit),
    O(x), OQ(m))

/* ---- softmax and norms ---- */
ROW(Softmax, run_softmax, FLOAT, T(self), I(dim), O(out))
ROW(LogSoftmax, run_log_softmax, FLOAT, T(self), I(dim), O(out))
ROW(SoftmaxBackward, run_softmax_backward, FLOAT, T(grad), T(output), I(dim), O(out))
ROW(LogSoftmaxBackward, run_log_softmax_backward, FLOAT, T(grad), T(output), I(dim), O(out))
ROW(ScaledMaskedSoftmax, run_scaled_masked_softmax, FLOAT, T(x), T(mask), F(scale), B(fixed_triu),
    O(out))
ROW(ScaledMaskedSoftmaxBackward, run_scaled_masked_softmax_backward, FLOAT, T(grad), T(y), T(mask),
    F(scale), B(fixed_triu), O(out))
ROW(LayerNorm, run_layer_norm, FLOAT, T(input), N(normalized_shape), TQ(weight), TQ(bias), F(eps),
    O(out), OQ(mean), OQ(rstd))
ROW(FastLayerNorm, run_layer_norm, FLOAT, T(input), N(normalized_shape), TQ(weight), TQ(bias),
    F(eps), O(out), OQ(mean), OQ(rstd))
ROW(LayerNormBackward, run_layer_norm_backward, FLOAT, T(grad), T(input), N(normalized_shape),
    T(mean), T(rstd), TQ(weight), TQ(bias), A(mask), OQ(dx), OQ(dweight), OQ(dbias))
ROW(AddLayerNorm, run_add_layer_norm, FLOAT, T(x1), T(x2), T(gamma), T(beta), TQ(bias), F(eps),
    B(additional_out), O(y), OQ(mean), OQ(rstd), OQ(x))
ROW(RmsNorm, run_rms_norm, FLOAT, T(x), T(gamma), F(eps), O(y), OQ(rstd))
ROW(GemmaRmsNorm, run_gemma_rms_norm, FLOAT, T(x), T(gamma), F(eps), O(y), OQ(rstd))
ROW(AddRmsNorm, run_add_rms_norm, FLOAT, T(x1), T(x2), T(gamma), F(eps), O(y), OQ(rstd), O(x))
ROW(AddRmsNormCast, run_add_rms_norm_cast, FLOAT, T(x1), T(x2), T(gamma), F(eps), O(y1), O(y2),
    OQ(rstd), O(x))
ROW(InplaceAddRmsNorm, run_inplace_add_rms_norm, FLOAT, X(x1), X(x2), T(gamma), F(eps), OQ(rstd))
ROW(RmsNormGrad, run_rms_norm_grad, FLOAT, T(dy), T(x), T(rstd), T(gamma), O(dx), O(dgamma))
ROW(GroupNorm, run_group_norm, FLOAT, T(input), TQ(weight), TQ(bias), I(n), I(channels), I(hxw),
    I(group), F(eps), O(out), OQ(mean), OQ(rstd))
ROW(GroupNormSilu, run_group_norm_silu, FLOAT, T(input), TQ(weight), TQ(bias), I(group), F(eps),
    O(out), OQ(mean), OQ(rstd))
ROW(GroupNormBackward, run_group_norm_backward, FLOAT, T(grad), T(input), T(mean), T(rstd),
    TQ(gamma), I(n), I(channels), I(hxw), I(group), A(mask), OQ(dx), OQ(dgamma), OQ(dbeta))
ROW(BatchNorm, run_batch_norm, FLOAT, T(input), TQ(weight), TQ(bias), XQ(running_mean),
    XQ(running_var), B(training), F(momentum), F(eps), O(out), OQ(mean), OQ(invstd))
ROW(BatchNormBackward, run_batch_norm_backward, FLOAT, T(grad), T(input), TQ(weight),
    TQ(running_mean), TQ(running_var), TQ(mean), TQ(invstd), B(training), F(eps), A(mask), OQ(dx),
    OQ(dweight), OQ(dbias))

/* ---- losses ---- */
ROW(MseLoss, run_mse_loss, FLOAT, T(self), T(target), I(reduction), O(out))
ROW(MseLossBackward, run_mse_loss_backward, FLOAT, T(grad), T(self), T(target), I(reduction),
    O(out))
ROW(L1Loss, run_l1_loss, FLOAT, T(self), T(target), I(reduction), O(out))
ROW(L1LossBackward, run_l1_loss_backward, FLOAT, T(grad), T(self), T(target), I(reduction), O(out))
ROW(SmoothL1Loss, run_smooth_l1, FLOAT, T(self), T(target), I(reduction), G(beta), O(out))
ROW(SmoothL1LossBackward, run_smooth_l1_backward, FLOAT, T(grad), T(self), T(target), I(reduction),
    G(beta), O(out))
ROW(KlDiv, run_kl_div, FLOAT, T(self), T(target), I(reduction), B(log_target), O(out))
ROW(KlDivBackward, run_kl_div_backward, FLOAT, T(grad), T(self), T(target), I(reduction),
    B(log_target), O(out))
ROW(KlDivTargetBackward, run_kl_div_target_backward, FLOAT, T(grad), T(self), T(target), I(reduction),
    B(log_target), O(out))
ROW(BinaryCrossEntropy, run_bce, FLOAT, T(self), T(target), TQ(weight), I(reduction), O(out))
ROW(BinaryCrossEntropyBackward, run_bce_backward, FLOAT, T(grad), T(self), T(target), TQ(weight),
    I(reduction), O(out))
ROW(BinaryCrossEntropyWithLogits, run_bce_logits, FLOAT, T(self), T(target), TQ(weight),
    TQ(pos_weight), I(reduction), O(out))
ROW(BinaryCrossEntropyWithLogitsBackward, run_bce_logits_backward, FLOAT, T(grad), T(self),
    T(target), TQ(weight), TQ(pos_weight), I(reduction), O(out))
ROW(SoftMarginLoss, run_soft_margin, FLOAT, T(self), T(target), I(reduction), O(out))
ROW(SoftMarginLossBackward, run_soft_margin_backward, FLOAT, T(grad), T(self), T(target),
    I(reduction), O(out))
ROW(NLLLoss, run_nll_loss, FLOAT, T(self), T(target), TQ(weight), I(reduction), I(ignore_index),
    O(out), O(total_weight))
ROW(NLLLossBackward, run_nll_loss_backward, FLOAT, T(grad), T(self), T(target), TQ(weight),
    I(reduction), I(ignore_index), T(total_weight), O(out))
ROW(NLLLoss2d, run_nll_loss, FLOAT, T(self), T(target), TQ(weight), I(reduction), I(ignore_index),
    O(out), O(total_weight))
ROW(NLLLoss2dBackward, run_nll_loss_backward, FLOAT, T(grad), T(self), T(target), TQ(weight),
    I(reduction), I(ignore_index), T(total_weight), O(out))
ROW(SoftmaxCrossEntropyWithLogits, run_softmax_cross_entropy, FLOAT, T(logits), T(labels), O(loss),
    O(gradient))
ROW(CrossEntropyLoss, run_cross_entropy, FLOAT, T(input), T(target), TQ(weight), C(reduction),
    I(ignore_index), F(label_smoothing), F(lse_scale), B(return_zloss), O(loss), OQ(log_prob),
    OQ(zloss), OQ(lse))

/* ---- random numbers ---- */
ROW(InplaceUniform, run_uniform, FLOAT, X(self), F(from), F(to), I(seed), I(offset))
ROW(InplaceNormal, run_normal, FLOAT, X(self), G(mean), G(std), I(seed), I(offset))
ROW(InplaceUniformTensor, run_uniform, FLOAT, X(self), F(from), F(to), T(seed), T(offset), I(more))
ROW(InplaceNormalTensor, run_normal, FLOAT, X(self), G(mean), G(std), T(seed), T(offset), I(more))
ROW(NormalFloatFloat, run_normal_out, FLOAT, G(mean), G(std), I(seed), I(offset), O(out))
ROW(NormalFloatTensor, run_normal_out, FLOAT, G(mean), T(std), I(seed), I(offset), O(out))
ROW(NormalTensorFloat, run_normal_out, FLOAT, T(mean), G(std), I(seed), I(offset), O(out))
ROW(NormalTensorTensor, run_normal_out, FLOAT, T(mean), T(std), I(seed), I(offset), O(out))
ROW(InplaceBernoulli, run_bernoulli, ALL, X(self), S(p), I(seed), I(offset))
ROW(InplaceBernoulliTensor, run_bernoulli, ALL, X(self), T(p), I(seed), I(offset))
ROW(InplaceRandom, run_random, ALL, X(self), I(from), I(to), I(seed), I(offset))
ROW(InplaceRandomWithoutFromTo, run_random_all, ALL, X(self), I(seed), I(offset))
ROW(InplaceRandomTensor, run_random, ALL, X(self), I(from), I(to), T(seed), T(offset), I(more))
ROW(InplaceRandomWithoutFromToTensor, run_random_all, ALL, X(self), T(seed), T(offset), I(more))
ROW(Randperm, run_randperm, NUMBER, I(n), I(seed), I(offset), O(out))
ROW(Multinomial, run_multinomial, FLOAT, T(self), I(samples), B(replacement), I(seed), I(offset),
    O(out))
ROW(MultinomialTensor, run_multinomial, FLOAT, T(self), I(samples), B(replacement), T(seed),
    T(offset), I(more), O(out))
ROW(DropoutGenMask, run_dropout_gen_mask, ALL, N(shape), F(p), I(seed), I(offset), O(mask))
ROW(DropoutGenMaskV2, run_dropout_gen_mask, ALL, N(shape), F(p), I(seed), I(offset), Y(dtype),
    O(mask))
ROW(DropoutGenMaskV2Tensor, run_dropout_gen_mask, ALL, N(shape), F(p), T(seed), T(offset), I(more),
    Y(dtype), O(mask))
ROW(DropoutDoMask, run_dropout_do_mask, FLOAT, T(self), T(mask), F(p), O(out))
ROW(DropoutV3, run_dropout, FLOAT, T(self), NQ(noise_shape), F(p), I(seed), I(offset), O(out),
    O(mask))

/* ---- lists of tensors ---- */
#define EACH(name, run) ROW(Foreach##name, run, NUMBER, L(x), M(out))
EACH(Abs, each_abs)
EACH(Neg, each_neg)
EACH(Exp, each_exp)
EACH(Log, each_log)
EACH(Sqrt, each_sqrt)
EACH(Rsqrt, each_rsqrt)
EACH(Sigmoid, each_sigmoid)
EACH(Tanh, each_tanh)
EACH(Sign, each_sign)
EACH(Reciprocal, each_reciprocal)
EACH(Sin, each_sin)
EACH(Cos, each_cos)
EACH(Tan, each_tan)
EACH(Asin, each_asin)
EACH(Acos, each_acos)
EACH(Atan, each_atan)
EACH(Sinh, each_sinh)
EACH(Cosh, each_cosh)
EACH(Erf, each_erf)
EACH(Erfc, each_erfc)
EACH(Expm1, each_expm1)
EACH(Log1p, each_log1p)
EACH(Log2, each_log2)
EACH(Log10, each_log10)
EACH(Copy, each_copy)
#undef EACH
#define EACH(name, run)                                           \
    ROW(Foreach##name##List, run, NUMBER, L(x), L(y), M(out))     \
    ROW(Foreach##name##Scalar, run, NUMBER, L(x), T(y), M(out))   \
    ROW(Foreach##name##ScalarV2, run, NUMBER, L(x), S(y), M(out)) \
    ROW(Foreach##name##ScalarList, run, NUMBER, L(x), Z(y), M(out))
EACH(Mul, each_mul)
EACH(Div, each_div)
EACH(Pow, each_pow)
EACH(Maximum, each_maximum)
EACH(Minimum, each_minimum)
#undef EACH
#define EACH(name, run)                                                   \
    ROW(Foreach##name##List, run, NUMBER, L(x), L(y), T(alpha), M(out))   \
    ROW(Foreach##name##ListV2, run, NUMBER, L(x), L(y), S(alpha), M(out)) \
    ROW(Foreach##name##Scalar, run, NUMBER, L(x), T(y), M(out))           \
    ROW(Foreach##name##ScalarV2, run, NUMBER, L(x), S(y), M(out))         \
    ROW(Foreach##name##ScalarList, run, NUMBER, L(x), Z(y), M(out))
EACH(Add, each_add)
EACH(Sub, each_sub)
#undef EACH
#define EACH(name, run)                                                          \
    ROW(Foreach##name##Scalar, run, FLOAT, L(x), L(y), L(z), T(value), M(out))   \
    ROW(Foreach##name##ScalarV2, run, FLOAT, L(x), L(y), L(z), S(value), M(out)) \
    ROW(Foreach##name##ScalarList, run, FLOAT, L(x), L(y), L(z), T(values), M(out))
EACH(Addcmul, each_addcmul)
EACH(Addcdiv, each_addcdiv)
#undef EACH
ROW(ForeachLerpList, each_lerp, FLOAT, L(x), L(y), L(weight), M(out))
ROW(ForeachLerpScalar, each_lerp, FLOAT, L(x), L(y), S(weight), M(out))
ROW(ForeachNorm, each_norm, FLOAT, L(x), S(p), M(out))
ROW(ForeachPowScalarAndTensor, each_pow_scalar, NUMBER, S(base), L(exponent), M(out))
ROW(ForeachRoundOffNumberV2, each_round, FLOAT, L(x), S(mode), M(out))
ROW(AmpUpdateScale, run_amp_update_scale, FLOAT, T(scale), T(tracker), T(found_inf), F(growth),
    F(backoff), I(interval), X(new_scale), X(new_tracker))
ROW(ForeachZeroInplace, each_zero, ALL, M(x))
ROW(ForeachNonFiniteCheckAndUnscale, each_unscale, FLOAT, M(grads), X(found_inf), T(inverse_scale))
ROW(ApplyAdamWV2, run_adamw, FLOAT, X(var), X(m), X(v), XQ(max_v), T(grad), T(step), G(lr),
    G(beta1), G(beta2), G(weight_decay), G(eps), B(amsgrad), B(maximize))

/* ---- attention and rotary positions ---- */
ROW(FlashAttentionScore, run_flash_attention, FLOAT, T(query), T(key), T(value), TQ(pse),
    TQ(drop_mask), TQ(padding_mask), TQ(atten_mask), NQ(prefix), F(scale), F(keep_prob),
    I(pre_tokens), I(next_tokens), I(heads), C(layout), I(inner_precise), I(sparse_mode),
    OQ(softmax_max), OQ(softmax_sum), OQ(softmax_out), O(out))
ROW(FlashAttentionVarLenScore, run_flash_attention_packed, FLOAT, T(query), T(key), T(value),
    TQ(pse), TQ(drop_mask), TQ(padding_mask), TQ(atten_mask), NQ(prefix), NQ(q_lengths),
    NQ(kv_lengths), F(scale), F(keep_prob), I(pre_tokens), I(next_tokens), I(heads), C(layout),
    I(inner_precise), I(sparse_mode), OQ(softmax_max), OQ(softmax_sum), OQ(softmax_out), O(out))
ROW(FlashAttentionScoreGrad, run_flash_attention_grad, FLOAT, T(query), T(key), T(value), T(dy),
    TQ(pse), TQ(drop_mask), TQ(padding_mask), TQ(atten_mask), TQ(softmax_max), TQ(softmax_sum),
    TQ(softmax), TQ(attention), NQ(prefix), F(scale), F(keep_prob), I(pre_tokens), I(next_tokens),
    I(heads), C(layout), I(inner_precise), I(sparse_mode), O(dq), O(dk), O(dv), OQ(dpse))
ROW(PromptFlashAttentionV3, run_prompt_flash_attention, FLOAT, T(query), T(key), T(value),
    TQ(pse_shift), TQ(atten_mask), NQ(q_lengths), NQ(kv_lengths), TQ(deq_scale1), TQ(quant_scale1),
    TQ(deq_scale2), TQ(quant_scale2), TQ(quant_offset2), I(heads), F(scale), I(pre_tokens),
    I(next_tokens), C(layout), I(kv_heads), I(sparse_mode), I(inner_precise), O(out))
ROW(IncreFlashAttentionV4, run_incre_flash_attention, FLOAT, T(query), L(key), L(value),
    TQ(pse_shift), TQ(atten_mask), NQ(kv_lengths), TQ(deq_scale1), TQ(quant_scale1), TQ(deq_scale2),
    TQ(quant_scale2), TQ(quant_offset2), TQ(antiquant_scale), TQ(antiquant_offset), TQ(block_table),
    TQ(kv_padding), I(heads), F(scale), C(layout), I(kv_heads), I(block_size), I(inner_precise),
    O(out))
#define FUSED_TENSORS                                                                            \
    T(query), L(key), L(value), TQ(pse_shift), TQ(atten_mask), NQ(q_lengths), NQ(kv_lengths),    \
        TQ(deq_scale1), TQ(quant_scale1), TQ(deq_scale2), TQ(quant_scale2), TQ(quant_offset2),   \
        TQ(antiquant_scale), TQ(antiquant_offset), TQ(block_table), TQ(query_padding),           \
        TQ(kv_padding), TQ(key_antiquant_scale), TQ(key_antiquant_offset),                       \
        TQ(value_antiquant_scale), TQ(value_antiquant_offset), TQ(key_prefix), TQ(value_prefix), \
        NQ(prefix_length)
#define FUSED_NUMBERS                                                                           \
    I(heads), F(scale), I(pre_tokens), I(next_tokens), C(layout), I(kv_heads), I(sparse_mode),  \
        I(inner_precise), I(block_size), I(antiquant_mode), B(lse_flag), I(key_antiquant_mode), \
        I(value_antiquant_mode)
ROW(FusedInferAttentionScoreV2, run_fused_infer_attention_v2, FLOAT, FUSED_TENSORS, FUSED_NUMBERS,
    O(out), OQ(lse))
ROW(FusedInferAttentionScoreV3, run_fused_infer_attention_v3, FLOAT, FUSED_TENSORS, TQ(query_rope),
    TQ(key_rope), TQ(rope_scale), FUSED_NUMBERS, O(out), OQ(lse))
ROW(FusedInferAttentionScoreV4, run_fused_infer_attention_v4, FLOAT, FUSED_TENSORS, TQ(query_rope),
    TQ(key_rope), TQ(rope_scale), TQ(query_scale), TQ(sink), FUSED_NUMBERS, I(query_mode), O(out),
    OQ(lse))
ROW(FusedInferAttentionScoreV5, run_fused_infer_attention_v5, FLOAT, FUSED_TENSORS, TQ(query_rope),
    TQ(key_rope), TQ(rope_scale), TQ(query_scale), TQ(sink), TQ(query_start), TQ(kv_start),
    FUSED_NUMBERS, I(query_mode), I(pse_type), O(out), OQ(lse))
#undef FUSED_TENSORS
#undef FUSED_NUMBERS
ROW(RotaryPositionEmbedding, run_rotary, FLOAT, T(x), T(cos), T(sin), I(mode), O(out))
ROW(RotaryPositionEmbeddingGrad, run_rotary_grad, FLOAT, T(grad), T(cos), T(sin), TQ(x), I(mode),
    O(dx), OQ(dcos), OQ(dsin))
ROW(RotaryPositionEmbeddingV2, run_rotary, FLOAT, T(x), T(cos), T(sin), I(mode), TQ(rotate), O(out))
ROW(InterleaveRope, run_interleave_rope, FLOAT, T(x), T(cos), T(sin), O(out))
ROW(ApplyRotaryPosEmb, run_apply_rotary, FLOAT, X(query), X(key), T(cos), T(sin), I(layout))
ROW(ApplyRotaryPosEmbV2, run_apply_rotary_mode, FLOAT, X(query), X(key), T(cos), T(sin), I(layout),
    C(mode))

/* ---- mixtures of experts ---- */
ROW(MoeGatingTopKSoftmax, run_moe_gating_softmax, FLOAT, T(x), TQ(finished), I(k), O(y),
    O(expert_idx), O(row_idx))
ROW(MoeGatingTopKSoftmaxV2, run_moe_gating_softmax_v2, FLOAT, T(x), TQ(finished), I(k), I(renorm),
    B(softmax_flag), O(y), O(expert_idx), OQ(softmax))
ROW(MoeGatingTopK, run_moe_gating, FLOAT, T(x), TQ(bias), I(k), I(k_group), I(group_count),
    I(group_select_mode), I(renorm), I(norm_type), B(out_flag), F(scaling), F(eps), O(y),
    O(expert_idx), OQ(out))
ROW(MoeComputeExpertTokens, run_moe_compute_expert_tokens, INDEX, T(sorted), I(experts), O(out))
ROW(MoeInitRouting, run_moe_init_routing, FLOAT, T(x), T(row_idx), T(expert_idx), I(active_num),
    O(expanded_x), O(expanded_row_idx), O(expanded_expert_idx))
ROW(MoeInitRoutingV2, run_moe_init_routing_v2, FLOAT, T(x), T(expert_idx), I(active_num),
    I(capacity), I(experts), I(drop_pad_mode), I(count_flag), B(before_capacity_flag),
    O(expanded_x), O(expanded_row_idx), OQ(counts), OQ(before_capacity))
ROW(MoeFinalizeRouting, run_moe_finalize_routing, FLOAT, T(rows), TQ(skip1), TQ(skip2), TQ(bias),
    TQ(scales), T(source_to_row), TQ(experts), O(out))
ROW(MoeFinalizeRoutingV2, run_moe_finalize_routing_v2, FLOAT, T(rows), T(source_to_row), TQ(skip1),
    TQ(skip2), TQ(bias), TQ(scales), TQ(experts), I(mode), O(out))
ROW(MoeDistributeDispatch, run_moe_dispatch, TOKEN, T(x), T(expert_ids), TQ(scales),
    TQ(x_active_mask), TQ(expert_scales), C(group_ep), I(ep_world_size), I(ep_rank_id),
    I(moe_expert_num), CQ(group_tp), I(tp_world_size), I(tp_rank_id), I(expert_shard_type),
    I(shared_expert_num), I(shared_expert_rank_num), I(quant_mode), I(global_bs),
    I(expert_token_nums_type), O(expand_x), OQ(dynamic_scales), O(expand_idx),
    O(expert_token_nums), O(ep_recv_counts), OQ(tp_recv_counts), OQ(expand_scales))
ROW(MoeDistributeDispatchV2, run_moe_dispatch_v2, TOKEN, T(x), T(expert_ids), TQ(scales),
    TQ(x_active_mask), TQ(expert_scales), C(group_ep), I(ep_world_size), I(ep_rank_id),
    I(moe_expert_num), CQ(group_tp), I(tp_world_size), I(tp_rank_id), I(expert_shard_type),
    I(shared_expert_num), I(shared_expert_rank_num), I(quant_mode), I(global_bs),
    I(expert_token_nums_type), CQ(comm_alg), O(expand_x), OQ(dynamic_scales), O(expand_idx),
    O(expert_token_nums), O(ep_recv_counts), OQ(tp_recv_counts), OQ(expand_scales))
ROW(MoeDistributeCombine, run_moe_combine, TOKEN, T(expand_x), T(expert_ids), T(expand_idx),
    T(ep_send_counts), T(expert_scales), TQ(tp_send_counts), TQ(x_active_mask),
    TQ(activation_scale), TQ(weight_scale), TQ(group_list), TQ(expand_scales), C(group_ep),
    I(ep_world_size), I(ep_rank_id), I(moe_expert_num), CQ(group_tp), I(tp_world_size),
    I(tp_rank_id), I(expert_shard_type), I(shared_expert_num), I(shared_expert_rank_num),
    I(global_bs), I(out_dtype), I(comm_quant_mode), I(group_list_type), O(out))
ROW(MoeDistributeCombineV2, run_moe_combine_v2, TOKEN, T(expand_x), T(expert_ids), T(expand_idx),
    T(ep_send_counts), T(expert_scales), TQ(tp_send_counts), TQ(x_active_mask),
    TQ(activation_scale), TQ(weight_scale), TQ(group_list), TQ(expand_scales),
    TQ(shared_expert_x), C(group_ep), I(ep_world_size), I(ep_rank_id), I(moe_expert_num),
    CQ(group_tp), I(tp_world_size), I(tp_rank_id), I(expert_shard_type), I(shared_expert_num),
    I(shared_expert_rank_num), I(global_bs), I(out_dtype), I(comm_quant_mode), I(group_list_type),
    CQ(comm_alg), O(out))
ROW(MoeTokenPermute, run_moe_token_permute, FLOAT, T(tokens), T(indices), I(num_out), B(padded),
    O(permuted), O(sorted_indices))
ROW(MoeTokenPermuteGrad, run_moe_token_permute_grad, FLOAT, T(grad), T(sorted_indices), I(k),
    B(padded), O(out))
ROW(MoeTokenUnpermute, run_moe_token_unpermute, FLOAT, T(permuted), T(sorted_indices), TQ(probs),
    B(padded), NQ(restore_shape), O(out))
ROW(GroupedMatmul, run_grouped_matmul, NUMBER, L(x), L(weight), LQ(bias), LQ(scale), LQ(offset),
    LQ(antiquant_scale), LQ(antiquant_offset), NQ(group_list), I(split_item), M(out))
ROW(GroupedMatmulV4, run_grouped_matmul_v4, NUMBER, L(x), L(weight), LQ(bias), LQ(scale),
    LQ(offset), LQ(antiquant_scale), LQ(antiquant_offset), LQ(per_token_scale), TQ(group_list),
    LQ(activation), LQ(activation_scale), LQ(activation_offset), I(split_item), I(group_type),
    I(group_list_type), I(act_type), M(out), MQ(activated), MQ(dynamic_scale))
ROW(GroupedMatmulV5, run_grouped_matmul_v4, NUMBER, L(x), L(weight), LQ(bias), LQ(scale),
    LQ(offset), LQ(antiquant_scale), LQ(antiquant_offset), LQ(per_token_scale), TQ(group_list),
    LQ(activation), LQ(activation_scale), LQ(activation_offset), I(split_item), I(group_type),
    I(group_list_type), I(act_type), NQ(tuning), M(out), MQ(activated), MQ(dynamic_scale))

/* ---- quantised ---- */
ROW(DynamicQuant, run_dynamic_quant, FLOAT, T(x), TQ(smooth_scales), O(y), O(scale))
ROW(AscendQuant, run_ascend_quant, FLOAT, T(x), T(scale), TQ(offset), B(sqrt_mode), C(round_mode),
    K(dtype), O(y))
ROW(AscendQuantV3, run_ascend_quant, FLOAT, T(x), T(scale), TQ(offset), B(sqrt_mode), C(round_mode),
    K(dtype), K(axis), O(y))
ROW(AscendAntiQuant, run_ascend_anti_quant, INT, T(x), T(scale), TQ(offset), I(dtype), B(sqrt_mode),
    O(y))
ROW(Quantize, run_quantize, FLOAT, T(x), T(scales), TQ(zero_points), Y(dtype), K(axis), O(out))
ROW(TransQuantParamV2, run_trans_quant_param, FLOAT, T(scale), TQ(offset), O(out))
ROW(QuantMatmulV3, run_quant_matmul_v3, I8, T(x1), T(x2), T(scale), TQ(offset), TQ(bias), B(turn1),
    B(turn2), O(out))
ROW(QuantMatmulV4, run_quant_matmul_v4, I8, T(x1), T(x2), T(scale), TQ(offset), TQ(per_token),
    TQ(bias), B(turn1), B(turn2), O(out))
ROW(QuantMatmulV5, run_quant_matmul_v5, I8, T(x1), T(x2), TQ(x1_scale), T(x2_scale), TQ(y_scale),
    TQ(x1_offset), TQ(x2_offset), TQ(y_offset), TQ(bias), B(turn1), B(turn2), I(group_size), O(out))
ROW(WeightQuantBatchMatmulV2, run_weight_quant_matmul, FLOAT_INT4, T(x), T(weight), T(antiquant_scale),
    TQ(antiquant_offset), TQ(quant_scale), TQ(quant_offset), TQ(bias), K(group_size), O(out))

/* ---- images ---- */
ROW(Convolution, run_convolution, FLOAT, T(input), T(weight), TQ(bias), N(stride), N(padding),
    N(dilation), B(transposed), NQ(output_padding), I(groups), O(out), J(cube))
ROW(ConvolutionBackward, run_convolution_backward, FLOAT, T(grad), T(input), T(weight),
    NQ(bias_sizes), N(stride), N(padding), N(dilation), B(transposed), NQ(output_padding),
    I(groups), A(mask), J(cube), OQ(dx), OQ(dw), OQ(db))
ROW(AvgPool2d, run_avg_pool, FLOAT, T(self), N(kernel), N(stride), N(padding), B(ceil),
    B(count_padding), I(divisor), J(cube), O(out))
ROW(MaxPool, run_max_pool, FLOAT, T(self), N(kernel), N(stride), I(auto_pads), N(padding),
    N(dilation), I(ceil), O(out))
ROW(MaxPool2dWithIndices, run_max_pool_indices, FLOAT, T(self), N(kernel), N(stride), N(padding),
    N(dilation), B(ceil), O(out), O(indices))
ROW(MaxPool2dWithIndicesBackward, run_max_pool_indices_backward, FLOAT, T(grad), T(self),
    T(indices), N(kernel), N(stride), N(padding), N(dilation), B(ceil), O(out))
ROW(AdaptiveAvgPool2d, run_adaptive_avg_pool, FLOAT, T(self), N(output_size), O(out))
ROW(AdaptiveAvgPool2dBackward, run_adaptive_avg_pool_backward, FLOAT, T(grad), T(self), O(out))
ROW(Im2col, run_im2col, FLOAT, T(self), N(kernel), N(dilation), N(padding), N(stride), O(out))
ROW(UpsampleNearest1d, run_upsample_nearest, FLOAT, T(self), N(output_size), O(out))
ROW(UpsampleNearest2d, run_upsample_nearest, FLOAT, T(self), N(output_size), O(out))
ROW(UpsampleNearest2dV2, run_upsample_nearest, FLOAT, T(self), N(output_size), G(scale_h),
    G(scale_w), O(out))
ROW(UpsampleBilinear2d, run_upsample_bilinear, FLOAT, T(self), N(output_size), B(align_corners),
    F(scale_h), F(scale_w), O(out))
ROW(UpsampleBilinear2dBackward, run_upsample_bilinear_backward, FLOAT, T(grad), N(output_size),
    N(input_size), B(align_corners), F(scale_h), F(scale_w), O(out))
ROW(UpsampleBilinear2dBackwardV2, run_upsample_bilinear_backward, FLOAT, T(grad), N(output_size),
    N(input_size), B(align_corners), F(scale_h), F(scale_w), O(out))

/* ---- complex numbers: other rows have complex forms as well (ops/complex.c) ---- */
ROW(Polar, run_polar, FLOAT, T(length), T(angle), O(out))
ROW(Complex, run_complex, FLOAT, T(real), T(imag), O(out))

/* ---- recurrent networks ---- */
ROW(LSTM, run_lstm, FLOAT, T(input), L(params), L(hx), TQ(batch_sizes), B(has_biases), I(num_layers),
    F(dropout), B(train), B(bidirectional), B(batch_first), O(out), O(hy), O(cy), MQ(i), MQ(j), MQ(f),
    MQ(o), MQ(h), MQ(c), MQ(tanhc))
ROW(LstmBackward, run_lstm_backward, FLOAT, T(input), L(hx), L(params), TQ(grad_y), TQ(grad_hy),
    TQ(grad_cy), L(i), L(j), L(f), L(o), L(h), L(c), L(tanhc), TQ(batch_sizes), B(has_biases),
    I(num_layers), F(dropout), B(train), B(bidirectional), B(batch_first), AQ(mask), O(out),
    O(grad_hx), O(grad_cx), M(grad_params))
ROW(GRU, run_gru, FLOAT, T(input), L(params), T(hx), TQ(batch_sizes), B(has_biases), I(num_layers),
    F(dropout), B(train), B(bidirectional), B(batch_first), O(out), O(hy), MQ(r), MQ(z), MQ(n),
    MQ(hn), MQ(h))
ROW(GRUBackward, run_gru_backward, FLOAT, T(input), L(params), T(hx), TQ(grad_y), TQ(grad_hy), L(r),
    L(z), L(n), L(hn), L(h), TQ(batch_sizes), B(has_biases), I(num_layers), B(bidirectional),
    B(batch_first), O(out), O(grad_hx), M(grad_params))
ROW(ThnnFusedLstmCell, run_lstm_cell, FLOAT, T(input_gates), T(hidden_gates), T(cx), TQ(input_bias),
    TQ(hidden_bias), O(hy), O(cy), O(storage))
ROW(ThnnFusedLstmCellBackward, run_lstm_cell_backward, FLOAT, TQ(grad_hy), TQ(grad_cy), T(cx), T(cy),
    T(storage), B(has_bias), O(grad_gates), O(grad_cx), OQ(grad_bias))
