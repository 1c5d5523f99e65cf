/* Docstrings of the operators; their examples are run by the tests. Those that work element by
 * element are in ops_docs_elementwise.h. */
#ifndef WEIRPY_OPS_DOCS_H
#define WEIRPY_OPS_DOCS_H

#define DOC_argmax                                                                  \
    "argmax(x, dim=None, keepdim=False) -> Tensor\n"                                \
    "\n"                                                                            \
    "The index of the largest value (int64), along a dim or in the whole tensor.\n" \
    "\n"                                                                            \
    ">>> weir.argmax(weir.tensor([1.0, 3.0, 2.0])).item()\n"                        \
    "1"
#define DOC_argsort                                             \
    "argsort(x, dim=-1, descending=False) -> Tensor\n"          \
    "\n"                                                        \
    "The indices that sort x along dim; stable."                \
    "\n\n"                                                      \
    ">>> weir.argsort(weir.tensor([3.0, 1.0, 2.0])).tolist()\n" \
    "[1, 2, 0]\n"
#define DOC_attention                                                                       \
    "attention(q, k, v, mask=None, causal=False, scale=None, rows_first=False) -> Tensor\n" \
    "\n"                                                                                    \
    "softmax(q k' * scale + mask) v; k and v may have fewer heads: a divisor of\n"          \
    "q's number. With rows_first the result is [..., rows, heads, columns]."                \
    "\n\n"                                                                                  \
    ">>> q = weir.ones((1, 2, 4))\n"                                                        \
    ">>> weir.attention(q, q, q, causal=True).shape\n"                                      \
    "(1, 2, 4)\n"
#define DOC_clone                      \
    "clone(x) -> Tensor\n"             \
    "\n"                               \
    "A contiguous copy."               \
    "\n\n"                             \
    ">>> a = weir.ones((2,))\n"        \
    ">>> b = weir.clone(a).fill_(0)\n" \
    ">>> a.tolist()\n"                 \
    "[1.0, 1.0]\n"
#define DOC_concat                                                         \
    "concat(tensors, dim=0) -> Tensor\n"                                   \
    "\n"                                                                   \
    "Joins tensors along dim; at most 64.\n"                               \
    "\n"                                                                   \
    ">>> weir.concat([weir.tensor([1.0]), weir.tensor([2.0])]).tolist()\n" \
    "[1.0, 2.0]"
#define DOC_contiguous                                           \
    "contiguous(x) -> Tensor\n"                                  \
    "\n"                                                         \
    "The tensor if it is contiguous, else a copy."               \
    "\n\n"                                                       \
    ">>> weir.contiguous(weir.ones((2, 3)).T).is_contiguous()\n" \
    "True\n"
#define DOC_conv2d                                                                        \
    "conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1) -> Tensor\n" \
    "\n"                                                                                  \
    "x [n, c, h, w], weight [o, c/groups, kh, kw], bias [o]."                             \
    "\n\n"                                                                                \
    ">>> weir.conv2d(weir.ones((1, 1, 4, 4)), weir.ones((1, 1, 3, 3))).tolist()\n"        \
    "[[[[9.0, 9.0], [9.0, 9.0]]]]\n"
#define DOC_copy_                                                                         \
    "copy_(x, source) -> Tensor\n"                                                        \
    "\n"                                                                                  \
    "Writes the source's values, broadcast, into x; the source may be on another device." \
    "\n\n"                                                                                \
    ">>> weir.copy_(weir.zeros((2, 2)), weir.tensor([1.0, 2.0])).tolist()\n"              \
    "[[1.0, 2.0], [1.0, 2.0]]\n"
#define DOC_cummax                                                                               \
    "cummax(x, dim=-1) -> (Tensor, Tensor)\n"                                                    \
    "\n"                                                                                         \
    "The largest value along dim up to each element, and its index: the last of equal values.\n" \
    "\n"                                                                                         \
    ">>> [t.tolist() for t in weir.cummax(weir.tensor([1, 3, 2, 3]))]\n"                         \
    "[[1, 3, 3, 3], [0, 1, 1, 3]]"
#define DOC_cummin                                                                                \
    "cummin(x, dim=-1) -> (Tensor, Tensor)\n"                                                     \
    "\n"                                                                                          \
    "The smallest value along dim up to each element, and its index: the last of equal values.\n" \
    "\n"                                                                                          \
    ">>> [t.tolist() for t in weir.cummin(weir.tensor([2, 1, 3, 1]))]\n"                          \
    "[[2, 1, 1, 1], [0, 1, 1, 3]]"
#define DOC_cumprod                                                       \
    "cumprod(x, dim=-1) -> Tensor\n"                                      \
    "\n"                                                                  \
    "Products along dim up to each element; i64 for integers and bool.\n" \
    "\n"                                                                  \
    ">>> weir.cumprod(weir.tensor([1, 2, 3])).tolist()\n"                 \
    "[1, 2, 6]"
#define DOC_cumsum                                                    \
    "cumsum(x, dim=-1) -> Tensor\n"                                   \
    "\n"                                                              \
    "Sums along dim up to each element; i64 for integers and bool.\n" \
    "\n"                                                              \
    ">>> weir.cumsum(weir.tensor([1, 2, 3])).tolist()\n"              \
    "[1, 3, 6]"
#define DOC_embedding                                           \
    "embedding(table, indices) -> Tensor\n"                     \
    "\n"                                                        \
    "Selects rows of the table by index."                       \
    "\n\n"                                                      \
    ">>> table = weir.tensor([[1.0, 2.0], [3.0, 4.0]])\n"       \
    ">>> weir.embedding(table, weir.tensor([1, 0])).tolist()\n" \
    "[[3.0, 4.0], [1.0, 2.0]]\n"
#define DOC_expert_choice                                                                         \
    "expert_choice(logits, k, bias=None, groups=1, group_k=None, sigmoid=False,\n"                \
    "              best_two=False, renormalise=False, outside=0.0, eps=0.0, scale=1.0)\n"         \
    "    -> (weights, experts)\n"                                                                 \
    "\n"                                                                                          \
    "The k experts of each token. Scores are the softmax of its logits or, with sigmoid, the\n"   \
    "sigmoid of each; bias is added for the choice only. With groups, the best group_k groups\n"  \
    "are chosen first: a group is ranked by its best expert or, with best_two, by the sum of "    \
    "its\n"                                                                                       \
    "two best. Experts of the other groups get the score outside. Weights are float32 (float64\n" \
    "for float64), experts int64.\n"                                                              \
    "\n"                                                                                          \
    ">>> weights, experts = weir.expert_choice(weir.tensor([[0.0, 2.0, 1.0]]), 1, "               \
    "renormalise=True)\n"                                                                         \
    ">>> weights.tolist(), experts.tolist()\n"                                                    \
    "([[1.0]], [[1]])"
#define DOC_expert_order                                                                        \
    "expert_order(experts, n, k=1) -> (order, places, ends)\n"                                  \
    "\n"                                                                                        \
    "order: the numbers of the entries, divided by k, sorted by expert (stable). places: the\n" \
    "position of each entry in order. ends: where each of the n experts ends in order.\n"       \
    "\n"                                                                                        \
    ">>> order, places, ends = weir.expert_order(weir.tensor([2, 0, 2]), 3)\n"                  \
    ">>> order.tolist(), places.tolist(), ends.tolist()\n"                                      \
    "([1, 0, 2], [1, 0, 2], [1, 1, 3])"
#define DOC_expert_sum                                                                        \
    "expert_sum(rows, places, weights=None) -> Tensor\n"                                      \
    "\n"                                                                                      \
    "For each token the sum of its rows, which lie at places [tokens, k], times weights.\n"   \
    "\n"                                                                                      \
    ">>> rows = weir.tensor([[1.0], [2.0], [4.0]])\n"                                         \
    ">>> weir.expert_sum(rows, weir.tensor([[0, 2]]), weir.tensor([[10.0, 1.0]])).tolist()\n" \
    "[[14.0]]"
#define DOC_expand                                                    \
    "expand(x, shape) -> Tensor\n"                                    \
    "\n"                                                              \
    "Expands sizes of 1 and adds new dims in front; a view."          \
    "\n\n"                                                            \
    ">>> weir.expand(weir.tensor([[1.0], [2.0]]), (2, 3)).tolist()\n" \
    "[[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]\n"
#define DOC_fill_                                    \
    "fill_(x, value) -> Tensor\n"                    \
    "\n"                                             \
    "Sets every element to the value, in place."     \
    "\n\n"                                           \
    ">>> weir.fill_(weir.empty((2,)), 3).tolist()\n" \
    "[3.0, 3.0]\n"
#define DOC_gather                                              \
    "gather(x, dim, index) -> Tensor\n"                         \
    "\n"                                                        \
    "out[i][j] = x[index[i][j]][j] for dim 0, and so on."       \
    "\n\n"                                                      \
    ">>> x = weir.tensor([[1.0, 2.0], [3.0, 4.0]])\n"           \
    ">>> weir.gather(x, 1, weir.tensor([[1], [0]])).tolist()\n" \
    "[[2.0], [3.0]]\n"
#define DOC_grouped_matmul                                                                        \
    "grouped_matmul(a, b, ends, bias=None) -> Tensor\n"                                           \
    "\n"                                                                                          \
    "Products of groups, such as the experts of a layer. ends says where each group ends: it\n"   \
    "stays on the device and is read when the operator runs. a [m, k] by b [groups, k, n] cuts\n" \
    "rows, [groups, m, k] by [k, n] columns, and [m, k] by [k, n] depth, which gives\n"           \
    "[groups, m, n]. Groups may be empty; rows or columns after the last end are 0. A bias,\n"    \
    "[groups, n], is for groups of rows.\n"                                                       \
    "\n"                                                                                          \
    ">>> a, b = weir.ones((3, 2)), weir.tensor([[[1.0], [1.0]], [[5.0], [5.0]]])\n"               \
    ">>> weir.grouped_matmul(a, b, weir.tensor([1, 3])).tolist()\n"                               \
    "[[2.0], [10.0], [10.0]]"
#define DOC_index_select                                                                     \
    "index_select(x, dim, index) -> Tensor\n"                                                \
    "\n"                                                                                     \
    "Slices of x along dim by a 1-d index.\n"                                                \
    "\n"                                                                                     \
    ">>> weir.index_select(weir.tensor([5.0, 6.0, 7.0]), 0, weir.tensor([2, 0])).tolist()\n" \
    "[7.0, 5.0]"
#define DOC_layer_norm                                                 \
    "layer_norm(x, weight=None, bias=None, eps=1e-5) -> Tensor\n"      \
    "\n"                                                               \
    "Normalises over the last dim."                                    \
    "\n\n"                                                             \
    ">>> weir.layer_norm(weir.tensor([[1.0, 3.0]]), eps=0).tolist()\n" \
    "[[-1.0, 1.0]]\n"
#define DOC_linear                                                                     \
    "linear(x, weight, bias=None) -> Tensor\n"                                         \
    "\n"                                                                               \
    "x [..., k] x weight [n, k] transposed, + bias [n]."                               \
    "\n\n"                                                                             \
    ">>> weir.linear(weir.tensor([[1.0, 2.0]]), weir.tensor([[3.0, 4.0]])).tolist()\n" \
    "[[11.0]]\n"
#define DOC_matmul                                                                       \
    "matmul(a, b, out=None) -> Tensor\n"                                                 \
    "\n"                                                                                 \
    "[..., m, k] x [..., k, n]; leading dims broadcast.\n"                               \
    "\n"                                                                                 \
    ">>> weir.matmul(weir.tensor([[1.0, 2.0]]), weir.tensor([[3.0], [4.0]])).tolist()\n" \
    "[[11.0]]"
#define DOC_matmul_bias                                                      \
    "matmul_bias(a, b, bias) -> Tensor\n"                                    \
    "\n"                                                                     \
    "a x b + bias, bias of [n] or None."                                     \
    "\n\n"                                                                   \
    ">>> a = weir.ones((1, 2))\n"                                            \
    ">>> weir.matmul_bias(a, weir.ones((2, 1)), weir.ones((1,))).tolist()\n" \
    "[[3.0]]\n"
#define DOC_max                                           \
    "max(x, dim=None, keepdim=False) -> Tensor\n"         \
    "\n"                                                  \
    "The maximum over a dim, several, or all.\n"          \
    "\n"                                                  \
    ">>> weir.max(weir.tensor([1.0, 2.0, 3.0])).item()\n" \
    "3.0"
#define DOC_mean                                           \
    "mean(x, dim=None, keepdim=False) -> Tensor\n"         \
    "\n"                                                   \
    "The mean over a dim, several, or all.\n"              \
    "\n"                                                   \
    ">>> weir.mean(weir.tensor([1.0, 2.0, 3.0])).item()\n" \
    "2.0"
#define DOC_min                                           \
    "min(x, dim=None, keepdim=False) -> Tensor\n"         \
    "\n"                                                  \
    "The minimum over a dim, several, or all.\n"          \
    "\n"                                                  \
    ">>> weir.min(weir.tensor([1.0, 2.0, 3.0])).item()\n" \
    "1.0"
#define DOC_moe_gating                                                                \
    "moe_gating(logits, k, renormalise=True) -> (weights, experts)\n"                 \
    "\n"                                                                              \
    "softmax over all experts, top k, renormalised to 1 if asked; experts are int32." \
    "\n\n"                                                                            \
    ">>> weights, experts = weir.moe_gating(weir.tensor([[0.0, 2.0, 1.0]]), 1)\n"     \
    ">>> weights.tolist(), experts.tolist()\n"                                        \
    "([[1.0]], [[1]])\n"
#define DOC_nonzero                                                              \
    "nonzero(x) -> Tensor\n"                                                     \
    "\n"                                                                         \
    "[count, ndim] int64 coordinates. Waits: the shape depends on the values.\n" \
    "\n"                                                                         \
    ">>> weir.nonzero(weir.tensor([0.0, 5.0])).tolist()\n"                       \
    "[[1]]"
#define DOC_normal_                                                          \
    "normal_(x, seed, mean=0, stddev=1) -> Tensor\n"                         \
    "\n"                                                                     \
    "Normal random numbers in place; the same seed and shape give the same." \
    "\n\n"                                                                   \
    ">>> a, b = (weir.empty((3,)).normal_(7) for _ in range(2))\n"           \
    ">>> a.tolist() == b.tolist()\n"                                         \
    "True\n"
#define DOC_permute                                             \
    "permute(x, dims) -> Tensor\n"                              \
    "\n"                                                        \
    "A view with the dims in another order."                    \
    "\n\n"                                                      \
    ">>> weir.permute(weir.ones((2, 3, 4)), (2, 0, 1)).shape\n" \
    "(4, 2, 3)\n"
#define DOC_reshape                                                                       \
    "reshape(x, shape) -> Tensor\n"                                                       \
    "\n"                                                                                  \
    "The same elements in another shape; one size may be -1. A view where strides allow " \
    "it.\n"                                                                               \
    "\n"                                                                                  \
    ">>> weir.arange(4).reshape((2, -1)).tolist()\n"                                      \
    "[[0, 1], [2, 3]]"
#define DOC_rms_norm                                                 \
    "rms_norm(x, weight=None, eps=1e-6) -> Tensor\n"                 \
    "\n"                                                             \
    "Divides by the root mean square over the last dim."             \
    "\n\n"                                                           \
    ">>> weir.rms_norm(weir.tensor([[3.0, 3.0]]), eps=0).tolist()\n" \
    "[[1.0, 1.0]]\n"
#define DOC_rotary                                                                     \
    "rotary(x, cosines, sines, interleaved=False) -> Tensor\n"                         \
    "\n"                                                                               \
    "Rotary embedding of x [..., length, heads, d]; cosines and sines [length, d/2]."  \
    "\n\n"                                                                             \
    ">>> x, one, zero = weir.ones((3, 1, 4)), weir.ones((3, 2)), weir.zeros((3, 2))\n" \
    ">>> weir.rotary(x, one, zero).tolist() == x.tolist()\n"                           \
    "True\n"
#define DOC_scatter_                                                             \
    "scatter_(x, dim, index, source) -> Tensor\n"                                \
    "\n"                                                                         \
    "x[index[i][j]][j] = source[i][j] for dim 0, in place; the last write wins." \
    "\n\n"                                                                       \
    ">>> x = weir.zeros((3,))\n"                                                 \
    ">>> weir.scatter_(x, 0, weir.tensor([2, 0]), weir.ones((2,))).tolist()\n"   \
    "[1.0, 0.0, 1.0]\n"
#define DOC_scatter_add_                                                           \
    "scatter_add_(x, dim, index, source) -> Tensor\n"                              \
    "\n"                                                                           \
    "x[index[i][j]][j] += source[i][j] for dim 0, in place, in a fixed order."     \
    "\n\n"                                                                         \
    ">>> x = weir.zeros((3,))\n"                                                   \
    ">>> weir.scatter_add_(x, 0, weir.tensor([2, 2]), weir.ones((2,))).tolist()\n" \
    "[0.0, 0.0, 2.0]\n"
#define DOC_slice_dim                                                                   \
    "slice_dim(x, dim, start, stop, step=1) -> Tensor\n"                                \
    "\n"                                                                                \
    "A view of every step-th place of one dim from start to stop; negative ones count " \
    "from the end, None is the end. In a graph whose sizes are open the view is made "  \
    "again for each run's sizes by these numbers, which may be sizes of the graph.\n"   \
    "\n"                                                                                \
    ">>> weir.slice_dim(weir.arange(6), 0, 1, None, 2).tolist()\n"                      \
    "[1, 3, 5]\n"
#define DOC_softmax                                        \
    "softmax(x, dim=-1) -> Tensor\n"                       \
    "\n"                                                   \
    "exp(x) over its sum along dim.\n"                     \
    "\n"                                                   \
    ">>> weir.softmax(weir.tensor([0.0, 0.0])).tolist()\n" \
    "[0.5, 0.5]"
#define DOC_sort                                               \
    "sort(x, dim=-1, descending=False) -> (values, indices)\n" \
    "\n"                                                       \
    "Sorts along dim; stable.\n"                               \
    "\n"                                                       \
    ">>> weir.sort(weir.tensor([2.0, 1.0]))[0].tolist()\n"     \
    "[1.0, 2.0]"
#define DOC_sum                                           \
    "sum(x, dim=None, keepdim=False) -> Tensor\n"         \
    "\n"                                                  \
    "The sum over a dim, several, or all.\n"              \
    "\n"                                                  \
    ">>> weir.sum(weir.tensor([1.0, 2.0, 3.0])).item()\n" \
    "6.0"
#define DOC_topk                                              \
    "topk(x, k, dim=-1, largest=True) -> (values, indices)\n" \
    "\n"                                                      \
    "The k largest (or smallest) along dim, sorted.\n"        \
    "\n"                                                      \
    ">>> v, i = weir.topk(weir.tensor([1.0, 3.0, 2.0]), 2)\n" \
    ">>> v.tolist(), i.tolist()\n"                            \
    "([3.0, 2.0], [1, 2])"
#define DOC_transpose                                              \
    "transpose(x, dim0, dim1) -> Tensor\n"                         \
    "\n"                                                           \
    "A view with two dims swapped.\n"                              \
    "\n"                                                           \
    ">>> weir.tensor([[1, 2], [3, 4]]).transpose(0, 1).tolist()\n" \
    "[[1, 3], [2, 4]]"
#define DOC_uniform_                                                          \
    "uniform_(x, seed, low=0, high=1) -> Tensor\n"                            \
    "\n"                                                                      \
    "Uniform random numbers in place; the same seed and shape give the same." \
    "\n\n"                                                                    \
    ">>> x = weir.empty((100,)).uniform_(1, 2, 3)\n"                          \
    ">>> 2 <= x.min().item() <= x.max().item() < 3\n"                         \
    "True\n"
#define DOC_wait_tensor                                                                     \
    "wait_tensor(self, dependency) -> Tensor\n"                                             \
    "\n"                                                                                    \
    "Every later use of self, on any stream, runs after the work that produced dependency." \
    "\n\n"                                                                                  \
    ">>> a = weir.ones((2, 2))\n"                                                           \
    ">>> with weir.scope.npu_stream_switch('side'):\n"                                      \
    "...     b = a @ a\n"                                                                   \
    ">>> weir.wait_tensor(a, b) is a\n"                                                     \
    "True\n"

#endif
