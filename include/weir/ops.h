/* Operators. Each queues its work on the current stream of its inputs' device
 * and returns a new tensor, which later work on the same stream may use at once.
 *
 * Inputs broadcast as in NumPy and must agree in type and device. On an error
 * *out is NULL and nothing was queued; the message shows both operands.
 * `_into` forms write to an existing tensor of the right shape. For elementwise
 * operators it may be one of the inputs; otherwise it must not overlap any.
 *
 * Types: f16 and bf16 compute in f32. Integers wrap; their division truncates and x / 0
 * is 0; a negative integer power gives the quotient's integer part. bool has maximum,
 * minimum, bitwise and, or, xor and not, comparisons, where, copies and casts, sum, max, min,
 * argmax, sort, topk, nonzero and the index reads. A scalar for an integer tensor must be
 * representable in its type, else WEIR_ERANGE; clamp's bounds saturate. Comparisons round a scalar
 * to the tensor's type first. NaN: maximum, minimum, max and min return NaN if an operand is NaN;
 * sort, topk and argmax treat it as the largest value.
 * threads  any, for all of these. */
#ifndef WEIR_OPS_H
#define WEIR_OPS_H

#include "launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise ---- */
#define WEIR_UNARY_LIST(X) \
    X(neg)                 \
    X(abs) X(exp) X(log) X(sqrt) X(rsqrt) X(sigmoid) X(tanh) X(relu) X(gelu) X(silu) X(sin) X(cos)
#define WEIR_BINARY_LIST(X) X(add) X(sub) X(mul) X(div) X(pow) X(maximum) X(minimum)
/* give bool */
#define WEIR_COMPARE_LIST(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
/* Of integers; and, or, xor and not of bool as well, as truth values. A shift by the type's width
 * or more, or by a negative number, moves all bits out: 0 to the left, to the right the sign in
 * every bit. To the right the sign follows. */
#define WEIR_BITWISE_LIST(X) \
    X(bitwise_and) X(bitwise_or) X(bitwise_xor) X(bitwise_left_shift) X(bitwise_right_shift)

#define WEIR_DECLARE_UNARY(name)                                                       \
    WEIR_API WEIR_MUST_USE weir_status weir_##name(weir_tensor *x, weir_tensor **out); \
    WEIR_API WEIR_MUST_USE weir_status weir_##name##_into(weir_tensor *x, weir_tensor *out);
WEIR_UNARY_LIST(WEIR_DECLARE_UNARY)
#undef WEIR_DECLARE_UNARY

#define WEIR_DECLARE_BINARY(name)                                                          \
    WEIR_API WEIR_MUST_USE weir_status weir_##name(weir_tensor *a, weir_tensor *b,         \
                                                   weir_tensor **out);                     \
    WEIR_API WEIR_MUST_USE weir_status weir_##name##_into(weir_tensor *a, weir_tensor *b,  \
                                                          weir_tensor *out);               \
    WEIR_API WEIR_MUST_USE weir_status weir_##name##_scalar(weir_tensor *a, double b,      \
                                                            weir_tensor **out);            \
    WEIR_API WEIR_MUST_USE weir_status weir_##name##_scalar_into(weir_tensor *a, double b, \
                                                                 weir_tensor *out);
WEIR_BINARY_LIST(WEIR_DECLARE_BINARY)
WEIR_COMPARE_LIST(WEIR_DECLARE_BINARY)
WEIR_BITWISE_LIST(WEIR_DECLARE_BINARY)
#undef WEIR_DECLARE_BINARY

/* The bits that x has not; of bool, whether it is false. */
WEIR_API WEIR_MUST_USE weir_status weir_bitwise_not(weir_tensor *x, weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_bitwise_not_into(weir_tensor *x, weir_tensor *out);

WEIR_API WEIR_MUST_USE weir_status weir_clamp(weir_tensor *x, double low, double high,
                                              weir_tensor **out);
/* condition is bool; a and b share a type. */
WEIR_API WEIR_MUST_USE weir_status weir_where(weir_tensor *condition, weir_tensor *a,
                                              weir_tensor *b, weir_tensor **out);
/* silu(x[..., :n]) * x[..., n:] along `dim`, whose size is even. */
WEIR_API WEIR_MUST_USE weir_status weir_swiglu(weir_tensor *x, int dim, weir_tensor **out);

/* ---- making and moving ---- */
/* From float it truncates and saturates, NaN gives 0; integers wrap when narrowed. */
WEIR_API WEIR_MUST_USE weir_status weir_cast(weir_tensor *x, weir_dtype dtype, weir_tensor **out);
/* Every element of an existing tensor. */
WEIR_API WEIR_MUST_USE weir_status weir_fill(weir_tensor *x, double value);
/* start, start+step, ... n elements, on `stream` (NULL: current of the default device), ready for
 * every stream. Captured, the result is a tensor of the graph. */
WEIR_API WEIR_MUST_USE weir_status weir_arange(weir_stream *stream, weir_dtype dtype, int64_t n,
                                               double start, double step, weir_tensor **out);
/* A contiguous copy; always new bytes. */
WEIR_API WEIR_MUST_USE weir_status weir_copy(weir_tensor *x, weir_tensor **out);
/* The same tensor (one more handle) if it is contiguous, else a copy. */
WEIR_API WEIR_MUST_USE weir_status weir_contiguous(weir_tensor *x, weir_tensor **out);
/* Copies src, broadcast, to dst of the same type. dst must not be an expanded view, and must not
 * overlap src unless it is the same view. */
WEIR_API WEIR_MUST_USE weir_status weir_copy_into(weir_tensor *src, weir_tensor *dst);
/* At most 64 of them. */
WEIR_API WEIR_MUST_USE weir_status weir_concat(weir_tensor *const *xs, int n, int dim,
                                               weir_tensor **out);

/* ---- matrix ---- */
/* [..., m, k] x [..., k, n], leading dims broadcast; views by transpose cost nothing.
 * f16 and bf16 compute in f32; i8 gives i32, and its bias is i32. */
WEIR_API WEIR_MUST_USE weir_status weir_matmul(weir_tensor *a, weir_tensor *b, weir_tensor **out);
/* out must not overlap a or b: WEIR_EINVAL. */
WEIR_API WEIR_MUST_USE weir_status weir_matmul_into(weir_tensor *a, weir_tensor *b,
                                                    weir_tensor *out);
/* a x b + bias, bias of [n] or NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_matmul_bias(weir_tensor *a, weir_tensor *b,
                                                    weir_tensor *bias, weir_tensor **out);
/* x [..., k] x weight [n, k] transposed + bias [n] or NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_linear(weir_tensor *x, weir_tensor *weight,
                                               weir_tensor *bias, weir_tensor **out);

/* One matrix product per group, such as the experts of a layer. `ends`, [groups] of i64 or i32, has
 * the end of each group along the size that is divided. It stays on the device and is read when the
 * operator runs. By the shapes of a and b, groups divide:
 *   rows     a [m, k],         b [groups, k, n]  gives [m, n]
 *   columns  a [groups, m, k], b [k, n]          gives [m, n]
 *   depth    a [m, k],         b [k, n]          gives [groups, m, n]
 * A group may be empty. Results behind the last end are 0. bias is NULL or, for groups of rows,
 * [groups, n]. Ends that decrease or exceed the size put the stream in error, WEIR_ERANGE. */
WEIR_API WEIR_MUST_USE weir_status weir_grouped_matmul(weir_tensor *a, weir_tensor *b,
                                                       weir_tensor *ends, weir_tensor *bias,
                                                       weir_tensor **out);

typedef struct weir_conv2d_options {
    int64_t stride[2]; /* 0 means 1 */
    int64_t padding[2];
    int64_t dilation[2]; /* 0 means 1 */
    int64_t groups;      /* 0 means 1 */
} weir_conv2d_options;
/* x [n, c, h, w], weight [o, c/groups, kh, kw], bias [o] or NULL; options may be NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_conv2d(weir_tensor *x, weir_tensor *weight,
                                               weir_tensor *bias,
                                               const weir_conv2d_options *options,
                                               weir_tensor **out);

/* q [..., lq, d], k [..., lk, d], v [..., lk, dv]; softmax(q k' * scale + mask) v.
 * scale 0 means 1/sqrt(d). mask: NULL, bool (true takes part) or the type of q,
 * broadcast to [..., lq, lk]. Fewer heads in k and v (dim -3) that divide q's
 * are shared (GQA). The result is [..., lq, dv].
 * returns  WEIR_ESHAPE also for rows_first where q has no heads (dim -3). */
typedef struct weir_attention_options {
    double scale;
    bool causal;     /* key j takes part for query i iff j <= i + lk - lq */
    bool rows_first; /* the result is [..., lq, heads, dv], as a product with the heads side by side
                        wants it */
} weir_attention_options;
WEIR_API WEIR_MUST_USE weir_status weir_attention(weir_tensor *q, weir_tensor *k, weir_tensor *v,
                                                  weir_tensor *mask,
                                                  const weir_attention_options *options,
                                                  weir_tensor **out);

/* ---- reductions: dims may be negative; ndims 0 means all of them ----
 * The sum of integers or bool is i64; mean takes floats; max and min of nothing are
 * WEIR_ESHAPE. Results do not depend on the number of cores. */
#define WEIR_REDUCE_LIST(X) X(sum) X(mean) X(max) X(min)
#define WEIR_DECLARE_REDUCE(name)                                                              \
    WEIR_API WEIR_MUST_USE weir_status weir_##name(weir_tensor *x, const int *dims, int ndims, \
                                                   bool keepdim, weir_tensor **out);
WEIR_REDUCE_LIST(WEIR_DECLARE_REDUCE)
#undef WEIR_DECLARE_REDUCE
/* i64; the first of equal values; NaN is the largest, as in NumPy. */
WEIR_API WEIR_MUST_USE weir_status weir_argmax(weir_tensor *x, int dim, bool keepdim,
                                               weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_softmax(weir_tensor *x, int dim, weir_tensor **out);
/* Over the last dim; weight and bias of its size or NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_layer_norm(weir_tensor *x, weir_tensor *weight,
                                                   weir_tensor *bias, double eps,
                                                   weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_rms_norm(weir_tensor *x, weir_tensor *weight, double eps,
                                                 weir_tensor **out);

/* ---- scans: what the elements along dim come to up to each of them ----
 * Sums and products of integers and bool are i64 and wrap; those of f32 run in f64. */
WEIR_API WEIR_MUST_USE weir_status weir_cumsum(weir_tensor *x, int dim, weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_cumprod(weir_tensor *x, int dim, weir_tensor **out);
/* The largest so far and, i64, where it was: the last of equal values. After a NaN all are NaN,
 * each later one with its own place. Either output pointer may be NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_cummax(weir_tensor *x, int dim, weir_tensor **values,
                                               weir_tensor **indices);
/* The same with the smallest. */
WEIR_API WEIR_MUST_USE weir_status weir_cummin(weir_tensor *x, int dim, weir_tensor **values,
                                               weir_tensor **indices);

/* ---- indices: i64 or i32; one out of range (or negative) puts the stream in error,
 * WEIR_ERANGE ---- */
/* rows of table [n, ...]: indices.shape + table.shape[1:] */
WEIR_API WEIR_MUST_USE weir_status weir_embedding(weir_tensor *table, weir_tensor *indices,
                                                  weir_tensor **out);
/* out[i][j] = x[index[i][j]][j] for dim 0, and so on; index has x's rank. */
WEIR_API WEIR_MUST_USE weir_status weir_gather(weir_tensor *x, int dim, weir_tensor *index,
                                               weir_tensor **out);
/* Slices of x along dim by a 1-d index. */
WEIR_API WEIR_MUST_USE weir_status weir_index_select(weir_tensor *x, int dim, weir_tensor *index,
                                                     weir_tensor **out);
/* x[index[i][j]][j] += source[i][j] for dim 0, in place, in a fixed order; source has
 * index's shape; f16 and bf16 round at each addition. x must not overlap index or source:
 * WEIR_EINVAL. */
WEIR_API WEIR_MUST_USE weir_status weir_scatter_add(weir_tensor *x, int dim, weir_tensor *index,
                                                    weir_tensor *source);
/* x[index[i][j]][j] = source[i][j] for dim 0, in place. If several sources have the same place, the
 * last one along dim is kept. x must not overlap index or source: WEIR_EINVAL. */
WEIR_API WEIR_MUST_USE weir_status weir_scatter(weir_tensor *x, int dim, weir_tensor *index,
                                                weir_tensor *source);
/* The k largest (or smallest) along dim, sorted, with i64 indices; equal values
 * keep their order. Either output pointer may be NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_topk(weir_tensor *x, int64_t k, int dim, bool largest,
                                             weir_tensor **values, weir_tensor **indices);
/* Stable. Either output pointer may be NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_sort(weir_tensor *x, int dim, bool descending,
                                             weir_tensor **values, weir_tensor **indices);
WEIR_API WEIR_MUST_USE weir_status weir_argsort(weir_tensor *x, int dim, bool descending,
                                                weir_tensor **indices);
/* [count, ndim] i64 coordinates in row-major order. The shape depends on the
 * values, so this waits for the stream. While a graph is captured no values exist: the result is
 * that of weir_nonzero_padded. */
WEIR_API WEIR_MUST_USE weir_status weir_nonzero(weir_tensor *x, weir_tensor **out);
/* The same without waiting, eagerly and captured: [numel, ndim] coordinates, with -1 in the rows
 * past `count`, an i64 [1]. The pointer `count` may be NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_nonzero_padded(weir_tensor *x, weir_tensor **out,
                                                       weir_tensor **count);
/* logits [tokens, experts] -> weights [tokens, k] (softmax over all experts, top k,
 * renormalised to 1 if asked) and experts [tokens, k] i32. */
WEIR_API WEIR_MUST_USE weir_status weir_moe_gating(weir_tensor *logits, int64_t k, bool renormalise,
                                                   weir_tensor **weights, weir_tensor **experts);
/* The same for gates with more to say. Scores are the softmax of a token's logits or the sigmoid of
 * each; bias [experts], of any float type or NULL, is added to them for the choice alone.
 * Where experts are in groups of neighbours, those of the best group_k groups are chosen from.
 * Weights are f32, f64 for f64; experts i64; of equal scores the first is the better. */
typedef struct weir_expert_choice_options {
    int64_t k;
    int64_t groups;   /* 0 means 1 */
    int64_t group_k;  /* 0 means all */
    bool sigmoid;     /* else softmax */
    bool best_two;    /* a group counts as the sum of its two best experts, else as its best */
    bool renormalise; /* weights are scores over their sum plus eps */
    double outside;   /* what experts of other groups count as */
    double eps;
    double scale; /* times the weights; 0 means 1 */
} weir_expert_choice_options;
WEIR_API WEIR_MUST_USE weir_status weir_expert_choice(weir_tensor *logits, weir_tensor *bias,
                                                      const weir_expert_choice_options *options,
                                                      weir_tensor **weights, weir_tensor **experts);
/* experts [m], each in 0..n-1. order [m], i64: the entries by expert, those of one expert as they
 * stand, as their numbers over k: with k entries a token, which token each is of. places [m], i64:
 * where each entry is in that order; ends [n], i32: where each expert's entries end. */
WEIR_API WEIR_MUST_USE weir_status weir_expert_order(weir_tensor *experts, int64_t n, int64_t k,
                                                     weir_tensor **order, weir_tensor **places,
                                                     weir_tensor **ends);
/* rows [m, width], places [tokens, k], weights [tokens, k] of rows' type or f32, or NULL:
 * out[t] = sum over j of weights[t][j] * rows[places[t][j]], in the order of j, rounded once. */
WEIR_API WEIR_MUST_USE weir_status weir_expert_sum(weir_tensor *rows, weir_tensor *places,
                                                   weir_tensor *weights, weir_tensor **out);
/* x [..., length, heads, d], cos and sin [length, d/2], f32 or of x's type; interleaved
 * pairs (2i, 2i+1) or halves (i, i + d/2). */
WEIR_API WEIR_MUST_USE weir_status weir_rotary(weir_tensor *x, weir_tensor *cosines,
                                               weir_tensor *sines, bool interleaved,
                                               weir_tensor **out);

/* ---- random: the same seed and shape give the same numbers on any core count ----
 * Integers are uniform in low..high-1; floats may reach `high` by rounding. */
WEIR_API WEIR_MUST_USE weir_status weir_random_uniform(weir_tensor *x, uint64_t seed, double low,
                                                       double high);
WEIR_API WEIR_MUST_USE weir_status weir_random_normal(weir_tensor *x, uint64_t seed, double mean,
                                                      double stddev);

/* ---- the table behind them ---- */
typedef struct weir_op_info {
    const char *name;
    weir_engine engine;
    bool gang;           /* needs all its blocks resident at once */
    bool data_dependent; /* its output shape depends on values */
    bool obeys_limit;    /* a core limit reaches its tiling */
    const char *summary;
} weir_op_info;
/* Fills at most `max` rows, returns how many there are. */
WEIR_API size_t weir_op_list(weir_op_info *out, size_t size, size_t max);

#ifdef __cplusplus
}
#endif
#endif
