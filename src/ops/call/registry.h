/* The rows of all operators. A new operator is one more line here. */
#ifndef WEIR_OPS_CALL_REGISTRY_H
#define WEIR_OPS_CALL_REGISTRY_H

#include "ops/op.h"

#define WEIR__OP_ROWS(X)   \
    X(neg)                 \
    X(abs)                 \
    X(exp)                 \
    X(log)                 \
    X(sqrt)                \
    X(rsqrt)               \
    X(sigmoid)             \
    X(tanh)                \
    X(relu)                \
    X(gelu)                \
    X(silu)                \
    X(sin)                 \
    X(cos)                 \
    X(bitwise_not)         \
    X(clamp)               \
    X(add)                 \
    X(sub)                 \
    X(mul)                 \
    X(div)                 \
    X(pow)                 \
    X(maximum)             \
    X(minimum)             \
    X(bitwise_and)         \
    X(bitwise_or)          \
    X(bitwise_xor)         \
    X(bitwise_left_shift)  \
    X(bitwise_right_shift) \
    X(eq)                  \
    X(ne)                  \
    X(lt)                  \
    X(le)                  \
    X(gt)                  \
    X(ge)                  \
    X(where)               \
    X(swiglu)              \
    X(cast)                \
    X(copy)                \
    X(copy_into)           \
    X(fill)                \
    X(arange)              \
    X(concat)              \
    X(matmul)              \
    X(linear)              \
    X(grouped_matmul)      \
    X(conv2d)              \
    X(attention)           \
    X(sum)                 \
    X(mean)                \
    X(max)                 \
    X(min)                 \
    X(argmax)              \
    X(softmax)             \
    X(cumsum)              \
    X(cumprod)             \
    X(cummax)              \
    X(cummin)              \
    X(layer_norm)          \
    X(rms_norm)            \
    X(embedding)           \
    X(gather)              \
    X(index_select)        \
    X(scatter_add)         \
    X(scatter)             \
    X(topk)                \
    X(sort)                \
    X(nonzero)             \
    X(moe_gating)          \
    X(expert_choice)       \
    X(expert_order)        \
    X(expert_sum)          \
    X(rotary)              \
    X(random_uniform)      \
    X(random_normal)       \
    X(all_reduce)          \
    X(reduce_scatter)      \
    X(all_gather)          \
    X(broadcast)           \
    X(all_to_all)          \
    X(all_to_all_counts)   \
    X(all_to_all_table)    \
    X(send)                \
    X(recv)                \
    X(barrier)             \
    X(moe_dispatch)        \
    X(moe_combine)         \
    X(kernel)              \
    X(host_call)           \
    X(host_call2)          \
    X(host_call3)          \
    X(host_call4)          \
    X(record)              \
    X(wait)

#define WEIR__OP_EXTERN(name) extern const struct weir__op weir__op_##name;
WEIR__OP_ROWS(WEIR__OP_EXTERN)
#undef WEIR__OP_EXTERN

#endif
