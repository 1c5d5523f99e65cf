/* What the files of operators share: how an operator is defined, and its operands. */
#ifndef WEIRPY_OPS_H
#define WEIRPY_OPS_H

#include "weirpy.h"

/* Those that are methods of Tensor as well. */
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

/* One operator on parsed arguments: slots as its names say, absent ones NULL. */
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

/* Defines an operator: its arguments' names, how many must be there, and a body that gets
 * them in a[]. The list of all is in ops.c. */
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

/* Queueing waits only where memory runs out. The GIL is let go all the same: a function of
 * Python that is queued before would need it. */
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

/* The new tensor, on the device of `like`; or the exception. */
static inline PyObject *result(weir_status st, PyObject *like, weir_tensor *out)
{
    return st ? raise_status(st) : wrap_tensor(DEVICE(like), out);
}

/* In-place operators give their tensor back. */
static inline PyObject *same(weir_status st, PyObject *self)
{
    return st ? raise_status(st) : Py_NewRef(self);
}

static inline bool is_tensor(PyObject *o)
{
    return Py_IS_TYPE(o, TensorType);
}

/* ---- arguments that may be absent: they keep what is there ---- */

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

/* As it, where the number is one of a tensor's type: no bits of a large whole number are lost. */
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
