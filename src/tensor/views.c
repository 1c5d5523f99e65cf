/* Views: other shapes and strides over the same bytes. */
#include "tensor/infer.h"
#include "tensor/recipe.h"
#include "tensor/size.h"
#include "tensor/tensor.h"

#include <string.h>

static weir_status wrap_dim(const char *what, const struct weir__view *v, int64_t dim, int *out)
{
    *out = dim < INT32_MIN || dim > INT32_MAX ? -1 : weir__dim_wrap((int)dim, v->ndim);
    if (*out < 0)
        return weir__fail(WEIR_ERANGE, "%s: dim %lld is out of range: the tensor is %s", what,
                          (long long)dim, weir__view_text(v).text);
    return WEIR_OK;
}

static weir_status slice(struct weir__view *v, int64_t along, int64_t start, int64_t stop,
                         int64_t step)
{
    weir_status st;
    int64_t size;
    int dim;

    if ((st = wrap_dim("slice", v, along, &dim)))
        return st;
    if (step < 1)
        return weir__fail(WEIR_EINVAL, "slice: step %lld is not positive", (long long)step);
    size = v->shape[dim];
    start = weir__min(weir__max(start < 0 ? start + size : start, 0), size);
    stop = weir__min(weir__max(stop < 0 ? stop + size : stop, start), size);
    /* In a graph, data is an offset, so it must not be used in pointer arithmetic. A view without
     * elements keeps it. */
    if (start < stop && weir__view_numel(v))
        v->data = (char *)((uintptr_t)v->data +
                           (size_t)(start * v->stride[dim]) * weir_dtype_size(v->dtype));
    v->shape[dim] = (stop - start) / step + ((stop - start) % step != 0);
    if (v->shape[dim] > 1) /* with size 1 the stride is never used, and could overflow */
        v->stride[dim] *= step;
    return WEIR_OK;
}

static weir_status permute(struct weir__view *v, int n, const int64_t *dims)
{
    const struct weir__view from = *v;
    unsigned seen = 0;

    if (n > v->ndim)
        return weir__fail(WEIR_EINVAL, "permute: %d dims are named, %s has %d", n,
                          weir__view_text(v).text, v->ndim);
    for (int i = 0; i < n; i++) {
        int dim;
        weir_status st = wrap_dim("permute", &from, dims[i], &dim);

        if (st)
            return st;
        if (seen & 1u << dim)
            return weir__fail(WEIR_EINVAL, "permute: dim %d is named twice", dim);
        seen |= 1u << dim;
        v->shape[i] = from.shape[dim];
        v->stride[i] = from.stride[dim];
    }
    for (int dim = 0; dim < from.ndim; dim++)
        if (!(seen & 1u << dim) && from.shape[dim] != 1)
            return weir__fail(WEIR_ESHAPE, "%s cannot drop dim %d: its size is not 1",
                              weir__view_text(&from).text, dim);
    v->ndim = n;
    return WEIR_OK;
}

/* Replaces a size of -1 by the size that is left. */
static weir_status complete_shape(const struct weir__view *v, int ndim, int64_t *shape)
{
    int64_t numel = weir__view_numel(v), known = 1;
    int open = -1;

    for (int i = 0; i < ndim; i++) {
        if (shape[i] == -1) {
            if (open >= 0)
                return weir__fail(WEIR_ESHAPE, "reshape: %s has more than one size of -1",
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
                          weir__view_text(v).text, (long long)numel,
                          weir__dims_text(ndim, shape).text);
    return WEIR_OK;
}

/* Strides for `shape` over the same elements in the same order; false if none exist.
 * Old dims that are contiguous with each other form runs; the new dims must divide each run
 * exactly. */
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

static weir_status reshape(struct weir__view *v, int ndim, const int64_t *shape)
{
    struct weir__view to;
    int64_t sizes[WEIR_MAX_DIMS];
    weir_status st;

    memcpy(sizes, shape, sizeof sizes);
    if ((st = complete_shape(v, ndim, sizes)) || (st = weir__view_init(&to, v->dtype, ndim, sizes)))
        return st;
    to.data = v->data;
    if (weir__view_numel(&to) && !weir__view_is_contiguous(v) && !restride(v, &to))
        return weir__fail(WEIR_ESHAPE,
                          "reshape: %s with its strides cannot be seen as %s without a copy: call "
                          "weir_contiguous first",
                          weir__view_text(v).text, weir__dims_text(ndim, sizes).text);
    *v = to;
    return WEIR_OK;
}

static weir_status expand(struct weir__view *v, int ndim, const int64_t *shape)
{
    int64_t sizes[WEIR_MAX_DIMS];
    int lead = ndim - v->ndim;
    weir_status st;

    if (lead < 0)
        return weir__fail(WEIR_ESHAPE, "expand: %s cannot become %d-dimensional",
                          weir__view_text(v).text, ndim);
    for (int i = 0; i < ndim; i++) {
        int64_t old = i < lead ? 1 : v->shape[i - lead];

        sizes[i] = shape[i] == -1 && i >= lead ? old : shape[i];
        if (sizes[i] < 0 || (old != 1 && old != sizes[i]))
            return weir__fail(WEIR_ESHAPE, "expand: %s cannot become %s", weir__view_text(v).text,
                              weir__dims_text(ndim, shape).text);
    }
    if ((st = weir__shape_check("expand", v->dtype, ndim, sizes)))
        return st;
    *v = weir__view_broadcast(v, ndim, sizes);
    return WEIR_OK;
}

static bool is_named(const struct weir__view_step *step)
{
    bool found = false;

    for (int i = 0; i < step->n; i++)
        found |= weir__size_is_named(step->args[i]);
    return found;
}

weir_status weir__view_apply_step(struct weir__view *v, const struct weir__view_step *step,
                                  const int64_t *sizes)
{
    int64_t args[WEIR_MAX_DIMS];

    for (int i = 0; i < WEIR_MAX_DIMS; i++)
        args[i] = i < step->n ? weir__size_value(step->args[i], sizes) : 0;
    switch (step->kind) {
    case WEIR__VIEW_SLICE:
        return slice(v, args[0], args[1], args[2], args[3]);
    case WEIR__VIEW_PERMUTE:
        return permute(v, step->n, args);
    case WEIR__VIEW_RESHAPE:
        return reshape(v, step->n, args);
    case WEIR__VIEW_EXPAND:
        return expand(v, step->n, args);
    }
    return WEIR_EINTERNAL;
}

/* ---- recipes ---- */

weir_status weir__recipe_make(struct weir__recipe *before, const struct weir__view_step *step,
                              struct weir__recipe **out)
{
    struct weir__recipe *r;

    *out = NULL;
    if (before && before->length == WEIR__RECIPE_MAX)
        return weir__fail(WEIR_ERANGE, "too many views of views: at most %d", WEIR__RECIPE_MAX);
    if (!(r = weir__malloc(sizeof *r)))
        return weir__fail_nomem("allocating a view of a graph's tensor");
    atomic_init(&r->refs, 1);
    r->length = before ? before->length + 1 : 1;
    r->is_named = (before && before->is_named) || is_named(step);
    r->before = before ? weir__recipe_retain(before) : NULL;
    r->step = *step;
    *out = r;
    return WEIR_OK;
}

struct weir__recipe *weir__recipe_retain(struct weir__recipe *r)
{
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void weir__recipe_release(struct weir__recipe *r)
{
    while (r && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) {
        struct weir__recipe *before = r->before;

        weir__free(r);
        r = before;
    }
}

weir_status weir__recipe_apply(const struct weir__recipe *r, struct weir__view *v,
                               const int64_t *sizes)
{
    weir_status st;

    if (!r)
        return WEIR_OK;
    if ((st = weir__recipe_apply(r->before, v, sizes)))
        return st;
    return weir__view_apply_step(v, &r->step, sizes);
}

/* ---- tensors ---- */

static weir_status derive(weir_tensor *from, const struct weir__view_step *step, weir_tensor **out)
{
    struct weir__recipe *recipe = NULL;
    struct weir__view view;
    weir_tensor *t;
    weir_status st;

    *out = NULL;
    if ((st = weir__need(from, "the tensor of a view")))
        return st;
    if (!from->dynamic && is_named(step))
        return weir__fail(WEIR_EINVAL,
                          "a named size cannot be used in a view of %s: it is not a tensor of a "
                          "graph with named sizes",
                          weir__view_text(&from->view).text);
    view = from->view;
    if ((st = weir__view_apply_step(&view, step, NULL)))
        return st;
    if (from->dynamic && (st = weir__recipe_make(from->recipe, step, &recipe)))
        return st;
    if (!(t = weir__tensor_new_view(from))) {
        weir__recipe_release(recipe);
        return weir__fail_nomem("making a view on %s", from->dev->props.name);
    }
    t->graph = from->graph;
    t->value = from->value;
    t->dynamic = from->dynamic;
    t->recipe = recipe;
    t->view = view;
    *out = t;
    return WEIR_OK;
}

weir_status weir_tensor_slice(weir_tensor *t, int dim, int64_t start, int64_t stop, int64_t step,
                              weir_tensor **out)
{
    WEIR__NEED(t, "tensor");
    WEIR__NEED(out, "out");
    return derive(t, &(struct weir__view_step){WEIR__VIEW_SLICE, 4, {dim, start, stop, step}}, out);
}

weir_status weir_tensor_transpose(weir_tensor *t, int dim0, int dim1, weir_tensor **out)
{
    struct weir__view_step step = {.kind = WEIR__VIEW_PERMUTE};
    weir_status st;

    WEIR__NEED(t, "tensor");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = weir__need(t, "the tensor of a view")) ||
        (st = wrap_dim("transpose", &t->view, dim0, &dim0)) ||
        (st = wrap_dim("transpose", &t->view, dim1, &dim1)))
        return st;
    step.n = t->view.ndim;
    for (int i = 0; i < step.n; i++)
        step.args[i] = i == dim0 ? dim1 : i == dim1 ? dim0 : i;
    return derive(t, &step, out);
}

weir_status weir_tensor_squeeze(weir_tensor *t, int dim, weir_tensor **out)
{
    struct weir__view_step step = {.kind = WEIR__VIEW_PERMUTE};
    weir_status st;

    WEIR__NEED(t, "tensor");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = wrap_dim("squeeze", &t->view, dim, &dim)))
        return st;
    for (int i = 0; i < t->view.ndim; i++)
        if (i != dim)
            step.args[step.n++] = i;
    return derive(t, &step, out);
}

weir_status weir_tensor_unsqueeze(weir_tensor *t, int dim, weir_tensor **out)
{
    struct weir__view_step step = {.kind = WEIR__VIEW_RESHAPE};
    weir_tensor *front;
    weir_status st;

    WEIR__NEED(t, "tensor");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (t->view.ndim == WEIR_MAX_DIMS)
        return weir__fail(WEIR_ESHAPE, "unsqueeze: %s has %d dims already, the maximum",
                          weir__view_text(&t->view).text, WEIR_MAX_DIMS);
    if (dim < 0 || dim > t->view.ndim)
        return weir__fail(WEIR_ERANGE, "unsqueeze: dim %d is out of range: the tensor is %s", dim,
                          weir__view_text(&t->view).text);
    step.n = t->view.ndim + 1;
    if (!t->dynamic) {
        for (int i = 0; i < step.n; i++)
            step.args[i] = i == dim ? 1 : t->view.shape[i - (i > dim)];
        return derive(t, &step, out);
    }
    /* First a dim in front, then a permutation to its place: these steps do not name a size. */
    step.kind = WEIR__VIEW_EXPAND;
    for (int i = 0; i < step.n; i++)
        step.args[i] = i ? -1 : 1;
    if ((st = derive(t, &step, &front)))
        return st;
    step.kind = WEIR__VIEW_PERMUTE;
    for (int i = 0; i < step.n; i++)
        step.args[i] = i == dim ? 0 : i + (i < dim);
    st = derive(front, &step, out);
    weir_tensor_release(front);
    return st;
}

weir_status weir_tensor_permute(weir_tensor *t, const int *dims, weir_tensor **out)
{
    WEIR__NEED(t, "tensor");
    WEIR__NEED(dims, "dims");
    WEIR__NEED(out, "out");

    struct weir__view_step step = {.kind = WEIR__VIEW_PERMUTE, .n = t ? t->view.ndim : 0};

    for (int i = 0; i < step.n; i++)
        step.args[i] = dims[i];
    return derive(t, &step, out);
}

weir_status weir_tensor_reshape(weir_tensor *t, int ndim, const int64_t *shape, weir_tensor **out)
{
    struct weir__view_step step = {.kind = WEIR__VIEW_RESHAPE, .n = ndim};

    WEIR__NEED(t, "tensor");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (ndim < 0 || ndim > WEIR_MAX_DIMS)
        return weir__fail(WEIR_ESHAPE, "reshape: a tensor has 0..%d dims, not %d", WEIR_MAX_DIMS,
                          ndim);
    WEIR__NEED(shape || !ndim, "shape");
    if (ndim)
        memcpy(step.args, shape, (size_t)ndim * sizeof *shape);
    return derive(t, &step, out);
}

weir_status weir_tensor_expand(weir_tensor *t, int ndim, const int64_t *shape, weir_tensor **out)
{
    struct weir__view_step step = {.kind = WEIR__VIEW_EXPAND, .n = ndim};

    WEIR__NEED(t, "tensor");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (t && ndim > WEIR_MAX_DIMS)
        return weir__fail(WEIR_ESHAPE, "expand: %s cannot become %d-dimensional",
                          weir__view_text(&t->view).text, ndim);
    WEIR__NEED(shape || ndim < 1, "shape");
    if (t && ndim > 0)
        memcpy(step.args, shape, (size_t)ndim * sizeof *shape);
    return derive(t, &step, out);
}
