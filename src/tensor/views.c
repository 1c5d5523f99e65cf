/* Views: other shapes and strides over the same bytes. */
#include "tensor/tensor.h"

#include <string.h>

static weir_status share(weir_tensor *from, const struct weir__view *view, weir_tensor **out)
{
    weir_tensor *t;

    weir__mutex_lock(&from->dev->lock);
    if ((t = weir__tensor_new(from->dev))) {
        if (from->buffer)
            atomic_fetch_add_explicit(&from->buffer->refs, 1, memory_order_relaxed);
        t->buffer = from->buffer;
        t->graph = from->graph;
        t->value = from->value;
        t->view = *view;
    }
    weir__mutex_unlock(&from->dev->lock);
    *out = t;
    return t ? WEIR_OK : weir__fail(WEIR_ENOMEM, "a view on %s", from->dev->props.name);
}

static weir_status wrap_dim(const char *what, const weir_tensor *t, int dim, int *out)
{
    *out = weir__dim_wrap(dim, t->view.ndim);
    if (*out < 0)
        return weir__fail(WEIR_ERANGE, "%s: dim %d is out of range: the tensor is %s", what, dim,
                          weir__view_text(&t->view).text);
    return WEIR_OK;
}

weir_status weir_tensor_slice(weir_tensor *t, int dim, int64_t start, int64_t stop, int64_t step,
                              weir_tensor **out)
{
    struct weir__view v = t->view;
    weir_status st;
    int64_t size;

    *out = NULL;
    if ((st = wrap_dim("slice", t, dim, &dim)))
        return st;
    if (step < 1)
        return weir__fail(WEIR_EINVAL, "slice: step %lld is not positive", (long long)step);
    size = v.shape[dim];
    start = weir__min(weir__max(start < 0 ? start + size : start, 0), size);
    stop = weir__min(weir__max(stop < 0 ? stop + size : stop, start), size);
    if (start < stop)
        v.data += (size_t)(start * v.stride[dim]) * weir_dtype_size(v.dtype);
    v.shape[dim] = (stop - start) / step + ((stop - start) % step != 0);
    if (v.shape[dim] > 1) /* else the stride is never used, and might overflow */
        v.stride[dim] *= step;
    return share(t, &v, out);
}

weir_status weir_tensor_transpose(weir_tensor *t, int dim0, int dim1, weir_tensor **out)
{
    int dims[WEIR_MAX_DIMS];
    weir_status st;

    *out = NULL;
    if ((st = wrap_dim("transpose", t, dim0, &dim0)) ||
        (st = wrap_dim("transpose", t, dim1, &dim1)))
        return st;
    for (int i = 0; i < t->view.ndim; i++)
        dims[i] = i == dim0 ? dim1 : i == dim1 ? dim0 : i;
    return weir_tensor_permute(t, dims, out);
}

weir_status weir_tensor_permute(weir_tensor *t, const int *dims, weir_tensor **out)
{
    struct weir__view v = t->view;
    unsigned seen = 0;

    *out = NULL;
    for (int i = 0; i < v.ndim; i++) {
        int dim;
        weir_status st = wrap_dim("permute", t, dims[i], &dim);

        if (st)
            return st;
        if (seen & 1u << dim)
            return weir__fail(WEIR_EINVAL, "permute: dim %d is named twice", dim);
        seen |= 1u << dim;
        v.shape[i] = t->view.shape[dim];
        v.stride[i] = t->view.stride[dim];
    }
    return share(t, &v, out);
}

/* Fills in a -1. */
static weir_status complete_shape(const weir_tensor *t, int ndim, int64_t *shape)
{
    int64_t numel = weir__view_numel(&t->view), known = 1;
    int open = -1;

    for (int i = 0; i < ndim; i++) {
        if (shape[i] == -1) {
            if (open >= 0)
                return weir__fail(WEIR_ESHAPE, "reshape: %s leaves two sizes open",
                                  weir__dims_text(ndim, shape).text);
            open = i;
        } else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known)) {
            return weir__fail(WEIR_ESHAPE, "reshape: %s is not a shape",
                              weir__dims_text(ndim, shape).text);
        }
    }
    if (open >= 0 && known && numel % known == 0)
        shape[open] = numel / known;
    else if (open >= 0 || known != numel)
        return weir__fail(WEIR_ESHAPE, "reshape: %s has %lld elements and cannot become %s",
                          weir__view_text(&t->view).text, (long long)numel,
                          weir__dims_text(ndim, shape).text);
    return WEIR_OK;
}

/* Strides for `shape` over the same elements in the same order; false if none exist.
 * Old dims that lie one behind the other in memory form runs; each run must be
 * divided up by new dims exactly. */
static bool restride(const struct weir__view *old, struct weir__view *v)
{
    int o = old->ndim - 1, n = v->ndim - 1;

    while (n >= 0 || o >= 0) {
        while (o >= 0 && old->shape[o] == 1)
            o--;
        while (n >= 0 && v->shape[n] == 1)
            v->stride[n--] = 1;
        if (o < 0 || n < 0)
            return o < 0 && n < 0;

        int64_t stride = old->stride[o], have = old->shape[o], want = v->shape[n];

        v->stride[n] = stride;
        while (have != want) {
            if (have < want) {
                if (--o < 0)
                    return false;
                if (old->shape[o] == 1)
                    continue;
                if (old->stride[o] != stride * have)
                    return false;
                have *= old->shape[o];
            } else {
                if (--n < 0)
                    return false;
                v->stride[n] = stride * want;
                want *= v->shape[n];
            }
        }
        o--;
        n--;
    }
    return true;
}

weir_status weir_tensor_reshape(weir_tensor *t, int ndim, const int64_t *shape, weir_tensor **out)
{
    struct weir__view v;
    int64_t sizes[WEIR_MAX_DIMS];
    weir_status st;

    *out = NULL;
    if (ndim < 0 || ndim > WEIR_MAX_DIMS)
        return weir__fail(WEIR_ESHAPE, "reshape: a tensor has 0..%d dims, not %d", WEIR_MAX_DIMS,
                          ndim);
    if (ndim)
        memcpy(sizes, shape, (size_t)ndim * sizeof *sizes);
    if ((st = complete_shape(t, ndim, sizes)) ||
        (st = weir__view_init(&v, t->view.dtype, ndim, sizes)))
        return st;
    v.data = t->view.data;
    if (weir__view_numel(&v) && !weir__view_is_contiguous(&t->view) && !restride(&t->view, &v))
        return weir__fail(WEIR_ESHAPE,
                          "reshape: %s with its strides cannot be seen as %s without a copy: call "
                          "weir_contiguous first",
                          weir__view_text(&t->view).text, weir__dims_text(ndim, sizes).text);
    return share(t, &v, out);
}

weir_status weir_tensor_expand(weir_tensor *t, int ndim, const int64_t *shape, weir_tensor **out)
{
    struct weir__view v = t->view;
    int64_t sizes[WEIR_MAX_DIMS];
    int lead = ndim - v.ndim;

    *out = NULL;
    if (lead < 0 || ndim > WEIR_MAX_DIMS)
        return weir__fail(WEIR_ESHAPE, "expand: %s cannot become %d-dimensional",
                          weir__view_text(&v).text, ndim);
    for (int i = 0; i < ndim; i++) {
        int64_t old = i < lead ? 1 : v.shape[i - lead];

        sizes[i] = shape[i] == -1 && i >= lead ? old : shape[i];
        if (sizes[i] < 0 || (old != 1 && old != sizes[i]))
            return weir__fail(WEIR_ESHAPE, "expand: %s cannot become %s", weir__view_text(&v).text,
                              weir__dims_text(ndim, shape).text);
    }
    v = weir__view_broadcast(&t->view, ndim, sizes);
    return share(t, &v, out);
}
