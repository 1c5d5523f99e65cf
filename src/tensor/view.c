/* Shape arithmetic: broadcast, collapse, text. */
#include "tensor/view.h"

#include <stdio.h>

void weir__view_set_contiguous(struct weir__view *v)
{
    int64_t stride = 1;

    for (int d = v->ndim - 1; d >= 0; d--) {
        v->stride[d] = stride;
        stride *= weir__max(v->shape[d], 1);
    }
}

struct weir__view weir__view_broadcast(const struct weir__view *v, int ndim, const int64_t *shape)
{
    struct weir__view out = {.data = v->data, .dtype = v->dtype, .ndim = ndim};
    int lead = ndim - v->ndim;

    for (int d = 0; d < ndim; d++) {
        bool own = d >= lead && v->shape[d - lead] == shape[d];

        out.shape[d] = shape[d];
        out.stride[d] = own ? v->stride[d - lead] : 0;
    }
    return out;
}

weir_status weir__shape_broadcast(const char *what, const struct weir__view *a,
                                  const struct weir__view *b, struct weir__view *out)
{
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;

    for (int d = 0; d < ndim; d++) {
        int da = d - (ndim - a->ndim), db = d - (ndim - b->ndim);
        int64_t sa = da >= 0 ? a->shape[da] : 1, sb = db >= 0 ? b->shape[db] : 1;

        if (sa != sb && sa != 1 && sb != 1)
            return weir__fail(
                WEIR_ESHAPE, "%s: %s and %s do not broadcast: dim %d is %lld and %lld", what,
                weir__view_text(a).text, weir__view_text(b).text, d, (long long)sa, (long long)sb);
        out->shape[d] = sa == 1 ? sb : sa;
    }
    out->ndim = ndim;
    return WEIR_OK;
}

static bool merges_with_next(struct weir__view *const *views, int n, int d, int next)
{
    for (int i = 0; i < n; i++)
        if (views[i]->stride[d] != views[i]->stride[next] * views[i]->shape[next])
            return false;
    return true;
}

static void move_dim(struct weir__view *const *views, int n, int to, int from)
{
    for (int i = 0; i < n; i++) {
        views[i]->shape[to] = views[i]->shape[from];
        views[i]->stride[to] = views[i]->stride[from];
    }
}

void weir__view_collapse(struct weir__view *const *views, int n)
{
    int ndim = views[0]->ndim, last = -1;

    for (int d = 0; d < ndim; d++) {
        if (views[0]->shape[d] == 1)
            continue;
        if (last >= 0 && merges_with_next(views, n, last, d)) {
            int64_t outer = views[0]->shape[last];

            move_dim(views, n, last, d);
            for (int i = 0; i < n; i++)
                views[i]->shape[last] *= outer;
        } else {
            move_dim(views, n, ++last, d);
        }
    }
    if (last < 0) {
        last = 0;
        for (int i = 0; i < n; i++) {
            views[i]->shape[0] = 1;
            views[i]->stride[0] = 1;
        }
    }
    for (int i = 0; i < n; i++)
        views[i]->ndim = last + 1;
}

int weir__dim_wrap(int dim, int ndim)
{
    if (dim < -ndim || dim >= ndim)
        return -1;
    return dim < 0 ? dim + ndim : dim;
}

struct weir__shape_text weir__dims_text(int ndim, const int64_t *shape)
{
    struct weir__shape_text out = {"["};
    size_t at = 1;

    for (int d = 0; d < ndim; d++)
        at += (size_t)snprintf(out.text + at, sizeof out.text - at, d ? ", %lld" : "%lld",
                               (long long)shape[d]);
    snprintf(out.text + at, sizeof out.text - at, "]");
    return out;
}

struct weir__shape_text weir__view_text(const struct weir__view *v)
{
    struct weir__shape_text dims = weir__dims_text(v->ndim, v->shape), out;

    snprintf(out.text, sizeof out.text, "%s%.190s", weir_dtype_name(v->dtype), dims.text);
    return out;
}
