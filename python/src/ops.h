/* Common code of the operators' files: the definition of an operator, and its operands. */
#ifndef WEIRPY_OPS_H
#define WEIRPY_OPS_H

#include "weirpy.h"

/* The operators that are also methods of Tensor. */
/* clang-format off */
#define NAMED_OPS(X)                                                                           \
    WEIR_UNARY_LIST(X) WEIR_BINARY_LIST(X) WEIR_COMPARE_LIST(X) WEIR_REDUCE_LIST(X)             \
    WEIR_BITWISE_LIST(X) X(bitwise_not) X(cumsum) X(cumprod) X(cummax) X(cummin)                \
    X(clamp) X(swiglu) X(cast) X(fill_) X(clone) X(contiguous) X(copy_) X(matmul) X(argmax)     \
    X(softmax) X(gather) X(index_select) X(scatter_add_) X(scatter_) X(topk) X(sort) X(argsort) X(nonzero)  \
    X(uniform_) X(normal_) X(transpose) X(permute) X(reshape) X(expand) X(wait_tensor)
#define FUNCTIONS_ONLY(X)                                                                      \
    X(where) X(concat) X(matmul_bias) X(linear) X(grouped_matmul) X(conv2d) X(attention)        \
    X(layer_norm) X(rms_norm) X(embedding) X(moe_gating) X(expert_choice)             \
    X(expert_order) X(expert_sum) X(rotary) X(slice_dim)
/* clang-format on */

#define DECLARE_OP(name)                                                                   \
    PyObject *op_##name##_function(PyObject *, PyObject *const *, Py_ssize_t, PyObject *); \
    PyObject *op_##name##_method(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
NAMED_OPS(DECLARE_OP)
FUNCTIONS_ONLY(DECLARE_OP)
#undef DECLARE_OP

/* An operator. It runs on parsed arguments: one slot per name, NULL for absent ones. */
struct op {
    const char *name;
    const char *const *names;
    int required;
    PyObject *(*body)(PyObject **a);
};
PyObject *op_call_function(const struct op *op, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames);
PyObject *op_call_method(const struct op *op, PyObject *self, PyObject *const *args,
                         Py_ssize_t nargs, PyObject *kwnames);

/* Defines an operator: the number of required arguments, the arguments' names, and a body that gets
 * them in a[]. ops.c lists all operators. */
#define OP(name, required, ...)                                                         \
    static PyObject *name##_body(PyObject **a);                                         \
    static const char *const name##_names[] = {__VA_ARGS__, NULL};                      \
    static const struct op name##_op = {#name, name##_names, required, name##_body};    \
    PyObject *op_##name##_function(PyObject *self, PyObject *const *args, Py_ssize_t n, \
                                   PyObject *kw)                                        \
    {                                                                                   \
        (void)self;                                                                     \
        return op_call_function(&name##_op, args, n, kw);                               \
    }                                                                                   \
    PyObject *op_##name##_method(PyObject *self, PyObject *const *args, Py_ssize_t n,   \
                                 PyObject *kw)                                          \
    {                                                                                   \
        return op_call_method(&name##_op, self, args, n, kw);                           \
    }                                                                                   \
    static PyObject *name##_body(PyObject **a)

/* Queues an operator without the GIL. Queueing blocks only when memory runs out, but then a Python
 * function that was queued earlier may need the GIL to finish. */
#define QUEUE(st, call)                     \
    do {                                    \
        PyThreadState *queue_saved_;        \
        if (weirpy_checking)                \
            note_source();                  \
        queue_saved_ = PyEval_SaveThread(); \
        st = (call);                        \
        PyEval_RestoreThread(queue_saved_); \
    } while (0)

#define DEVICE(o) (((TensorObject *)(o))->device)

/* Returns the new tensor, on the device of `like`; or NULL with an exception. */
static inline PyObject *result(weir_status st, PyObject *like, weir_tensor *out)
{
    return st ? raise_status(st) : wrap_tensor(DEVICE(like), out);
}

/* In-place operators return their tensor. */
static inline PyObject *same(weir_status st, PyObject *self)
{
    return st ? raise_status(st) : Py_NewRef(self);
}

static inline bool is_tensor(PyObject *o)
{
    return Py_IS_TYPE(o, TensorType);
}

/* ---- optional arguments: an absent one leaves *out or *value at its default ---- */

static inline bool optional_tensor(PyObject *o, const char *what, weir_tensor **out)
{
    *out = NULL;
    return is_absent(o) || to_tensor(o, what, out);
}

static inline bool optional_int(PyObject *o, const char *what, int *value)
{
    return !o || to_int(o, what, value);
}

static inline bool optional_double(PyObject *o, const char *what, double *value)
{
    return is_absent(o) || to_double(o, what, value);
}

/* The same for a number of a tensor's type: fails if a large integer would lose bits. */
static inline bool optional_value(PyObject *o, const char *what, weir_dtype dtype, double *value)
{
    return is_absent(o) || to_value(o, what, dtype, value);
}

static inline bool optional_bool(PyObject *o, bool *value)
{
    int truth = o ? PyObject_IsTrue(o) : *value;

    *value = truth == 1;
    return truth >= 0;
}

#endif
