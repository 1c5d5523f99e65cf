/* Docstrings of the operators that work element by element (see ops_docs.h). */
#ifndef WEIRPY_OPS_DOCS_ELEMENTWISE_H
#define WEIRPY_OPS_DOCS_ELEMENTWISE_H

#define DOC_abs                                         \
    "abs(x, out=None) -> Tensor\n"                      \
    "\n"                                                \
    "|x|, elementwise.\n"                               \
    "\n"                                                \
    ">>> weir.abs(weir.tensor([1.0, -2.0])).tolist()\n" \
    "[1.0, 2.0]"
#define DOC_add                                                                 \
    "add(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                        \
    "A + b, broadcast. A number may stand for one of the two.\n"                \
    "\n"                                                                        \
    ">>> weir.add(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[4.0, 6.0]"
#define DOC_bitwise_and                                                                        \
    "bitwise_and(a, b, out=None) -> Tensor\n"                                                  \
    "\n"                                                                                       \
    "A & b, bitwise and, broadcast; for bool logical and. A number may stand for one of the\n" \
    "two.\n"                                                                                   \
    "\n"                                                                                       \
    ">>> weir.bitwise_and(weir.tensor([12, 10]), 6).tolist()\n"                                \
    "[4, 2]"
#define DOC_bitwise_left_shift                                                             \
    "bitwise_left_shift(a, b, out=None) -> Tensor\n"                                       \
    "\n"                                                                                   \
    "A << b, wrapping, broadcast; 0 where b is negative or at least the type's width. A\n" \
    "number may stand for one of the two.\n"                                               \
    "\n"                                                                                   \
    ">>> weir.bitwise_left_shift(weir.tensor([1, -3]), 2).tolist()\n"                      \
    "[4, -12]"
#define DOC_bitwise_not                                           \
    "bitwise_not(x, out=None) -> Tensor\n"                        \
    "\n"                                                          \
    "~x, all bits inverted, elementwise; for bool logical not.\n" \
    "\n"                                                          \
    ">>> weir.bitwise_not(weir.tensor([0, 5])).tolist()\n"        \
    "[-1, -6]"
#define DOC_bitwise_or                                                                       \
    "bitwise_or(a, b, out=None) -> Tensor\n"                                                 \
    "\n"                                                                                     \
    "A | b, bitwise or, broadcast; for bool logical or. A number may stand for one of the\n" \
    "two.\n"                                                                                 \
    "\n"                                                                                     \
    ">>> weir.bitwise_or(weir.tensor([12, 10]), 6).tolist()\n"                               \
    "[14, 14]"
#define DOC_bitwise_right_shift                                                                    \
    "bitwise_right_shift(a, b, out=None) -> Tensor\n"                                              \
    "\n"                                                                                           \
    "A >> b, arithmetic (fills with the sign bit), broadcast; every bit is the sign bit where b\n" \
    "is negative or at least the type's width. A number may stand for one of the two.\n"           \
    "\n"                                                                                           \
    ">>> weir.bitwise_right_shift(weir.tensor([9, -9]), 2).tolist()\n"                             \
    "[2, -3]"
#define DOC_bitwise_xor                                                                         \
    "bitwise_xor(a, b, out=None) -> Tensor\n"                                                   \
    "\n"                                                                                        \
    "A ^ b, bitwise exclusive or, broadcast; for bool logical. A number may stand for one of\n" \
    "the two.\n"                                                                                \
    "\n"                                                                                        \
    ">>> weir.bitwise_xor(weir.tensor([12, 10]), 6).tolist()\n"                                 \
    "[10, 12]"
#define DOC_cast                                                                            \
    "cast(x, dtype) -> Tensor\n"                                                            \
    "\n"                                                                                    \
    "Converts the values to another type; returns the tensor itself if it has that type.\n" \
    "\n"                                                                                    \
    ">>> weir.cast(weir.tensor([1.7]), weir.int32).tolist()\n"                              \
    "[1]"
#define DOC_clamp                                               \
    "clamp(x, low=None, high=None) -> Tensor\n"                 \
    "\n"                                                        \
    "Limits values to the range between two bounds.\n"          \
    "\n"                                                        \
    ">>> weir.clamp(weir.tensor([-1.0, 5.0]), 0, 2).tolist()\n" \
    "[0.0, 2.0]"
#define DOC_cos                                     \
    "cos(x, out=None) -> Tensor\n"                  \
    "\n"                                            \
    "The cosine, elementwise; angles in radians.\n" \
    "\n"                                            \
    ">>> weir.cos(weir.tensor([0.0])).tolist()\n"   \
    "[1.0]"
#define DOC_div                                                                           \
    "div(a, b, out=None) -> Tensor\n"                                                     \
    "\n"                                                                                  \
    "A / b; integers truncate, x / 0 is 0, broadcast. A number may stand for one of the " \
    "two.\n"                                                                              \
    "\n"                                                                                  \
    ">>> weir.div(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n"           \
    "[0.3333333432674408, 0.5]"
#define DOC_eq                                                                 \
    "eq(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                       \
    "A == b, broadcast. A number may stand for one of the two.\n"              \
    "\n"                                                                       \
    ">>> weir.eq(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[False, False]"
#define DOC_exp                                   \
    "exp(x, out=None) -> Tensor\n"                \
    "\n"                                          \
    "E to the x, elementwise.\n"                  \
    "\n"                                          \
    ">>> weir.exp(weir.tensor([0.0])).tolist()\n" \
    "[1.0]"
#define DOC_ge                                                                 \
    "ge(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                       \
    "A >= b, broadcast. A number may stand for one of the two.\n"              \
    "\n"                                                                       \
    ">>> weir.ge(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[False, False]"
#define DOC_gelu                                        \
    "gelu(x, out=None) -> Tensor\n"                     \
    "\n"                                                \
    "X * Phi(x), by the error function, elementwise.\n" \
    "\n"                                                \
    ">>> weir.gelu(weir.tensor([0.0])).tolist()\n"      \
    "[0.0]"
#define DOC_gt                                                                 \
    "gt(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                       \
    "A > b, broadcast. A number may stand for one of the two.\n"               \
    "\n"                                                                       \
    ">>> weir.gt(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[False, False]"
#define DOC_le                                                                 \
    "le(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                       \
    "A <= b, broadcast. A number may stand for one of the two.\n"              \
    "\n"                                                                       \
    ">>> weir.le(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[True, True]"
#define DOC_log                                   \
    "log(x, out=None) -> Tensor\n"                \
    "\n"                                          \
    "Natural logarithm, elementwise.\n"           \
    "\n"                                          \
    ">>> weir.log(weir.tensor([1.0])).tolist()\n" \
    "[0.0]"
#define DOC_lt                                                                 \
    "lt(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                       \
    "A < b, broadcast. A number may stand for one of the two.\n"               \
    "\n"                                                                       \
    ">>> weir.lt(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[True, True]"
#define DOC_maximum                                                                                \
    "maximum(a, b, out=None) -> Tensor\n"                                                          \
    "\n"                                                                                           \
    "The larger of a and b; NaN if either is, broadcast. A number may stand for one of the two.\n" \
    "\n"                                                                                           \
    ">>> weir.maximum(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n"                \
    "[3.0, 4.0]"
#define DOC_minimum                                                                           \
    "minimum(a, b, out=None) -> Tensor\n"                                                     \
    "\n"                                                                                      \
    "The smaller of a and b; NaN if either is, broadcast. A number may stand for one of the " \
    "two.\n"                                                                                  \
    "\n"                                                                                      \
    ">>> weir.minimum(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n"           \
    "[1.0, 2.0]"
#define DOC_mul                                                                 \
    "mul(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                        \
    "A * b, broadcast. A number may stand for one of the two.\n"                \
    "\n"                                                                        \
    ">>> weir.mul(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[3.0, 8.0]"
#define DOC_ne                                                                 \
    "ne(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                       \
    "A != b, broadcast. A number may stand for one of the two.\n"              \
    "\n"                                                                       \
    ">>> weir.ne(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[True, True]"
#define DOC_neg                                         \
    "neg(x, out=None) -> Tensor\n"                      \
    "\n"                                                \
    "-x, elementwise.\n"                                \
    "\n"                                                \
    ">>> weir.neg(weir.tensor([1.0, -2.0])).tolist()\n" \
    "[-1.0, 2.0]"
#define DOC_pow                                                                 \
    "pow(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                        \
    "A to the b, broadcast. A number may stand for one of the two.\n"           \
    "\n"                                                                        \
    ">>> weir.pow(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[1.0, 16.0]"
#define DOC_relu                                         \
    "relu(x, out=None) -> Tensor\n"                      \
    "\n"                                                 \
    "Max(x, 0), elementwise.\n"                          \
    "\n"                                                 \
    ">>> weir.relu(weir.tensor([-1.0, 2.0])).tolist()\n" \
    "[0.0, 2.0]"
#define DOC_rsqrt                                   \
    "rsqrt(x, out=None) -> Tensor\n"                \
    "\n"                                            \
    "1/sqrt(x), elementwise.\n"                     \
    "\n"                                            \
    ">>> weir.rsqrt(weir.tensor([4.0])).tolist()\n" \
    "[0.5]"
#define DOC_sigmoid                                   \
    "sigmoid(x, out=None) -> Tensor\n"                \
    "\n"                                              \
    "1/(1+exp(-x)), elementwise.\n"                   \
    "\n"                                              \
    ">>> weir.sigmoid(weir.tensor([0.0])).tolist()\n" \
    "[0.5]"
#define DOC_silu                                   \
    "silu(x, out=None) -> Tensor\n"                \
    "\n"                                           \
    "X * sigmoid(x), elementwise.\n"               \
    "\n"                                           \
    ">>> weir.silu(weir.tensor([0.0])).tolist()\n" \
    "[0.0]"
#define DOC_sin                                   \
    "sin(x, out=None) -> Tensor\n"                \
    "\n"                                          \
    "The sine, elementwise; angles in radians.\n" \
    "\n"                                          \
    ">>> weir.sin(weir.tensor([0.0])).tolist()\n" \
    "[0.0]"
#define DOC_sqrt                                   \
    "sqrt(x, out=None) -> Tensor\n"                \
    "\n"                                           \
    "Square root, elementwise.\n"                  \
    "\n"                                           \
    ">>> weir.sqrt(weir.tensor([4.0])).tolist()\n" \
    "[2.0]"
#define DOC_sub                                                                 \
    "sub(a, b, out=None) -> Tensor\n"                                           \
    "\n"                                                                        \
    "A - b, broadcast. A number may stand for one of the two.\n"                \
    "\n"                                                                        \
    ">>> weir.sub(weir.tensor([1.0, 2.0]), weir.tensor([3.0, 4.0])).tolist()\n" \
    "[-2.0, -2.0]"
#define DOC_swiglu                                               \
    "swiglu(x, dim=-1) -> Tensor\n"                              \
    "\n"                                                         \
    "silu of the first half along dim, times the second half.\n" \
    "\n"                                                         \
    ">>> weir.swiglu(weir.tensor([0.0, 2.0])).tolist()\n"        \
    "[0.0]"
#define DOC_tanh                                   \
    "tanh(x, out=None) -> Tensor\n"                \
    "\n"                                           \
    "Hyperbolic tangent, elementwise.\n"           \
    "\n"                                           \
    ">>> weir.tanh(weir.tensor([0.0])).tolist()\n" \
    "[0.0]"
#define DOC_where                                                                       \
    "where(condition, a, b) -> Tensor\n"                                                \
    "\n"                                                                                \
    "a where the condition holds, else b. One of a and b may be a number.\n"            \
    "\n"                                                                                \
    ">>> weir.where(weir.tensor([True, False]), weir.tensor([1.0, 2.0]), 0).tolist()\n" \
    "[1.0, 0.0]"

#endif
