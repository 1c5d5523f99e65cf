/* Tensors as text for people. */
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"

enum { EDGE = 3, LONG = 1000 }; /* elements shown at each end of a dim of a long tensor */

static double element(const struct weir__view *v, size_t i)
{
    switch (v->dtype) {
    case WEIR_F32:
        return ((const float *)v->data)[i];
    case WEIR_F16:
        return weir__f16_to_f32(((const uint16_t *)v->data)[i]);
    case WEIR_BF16:
        return weir__bf16_to_f32(((const uint16_t *)v->data)[i]);
    case WEIR_F64:
        return ((const double *)v->data)[i];
    default:
        return 0;
    }
}

static void add_element(struct weir__text *text, const struct weir__view *v, size_t i)
{
    switch (v->dtype) {
    case WEIR_I64:
        weir__text_add(text, "%lld", (long long)((const int64_t *)v->data)[i]);
        break;
    case WEIR_I32:
        weir__text_add(text, "%d", ((const int32_t *)v->data)[i]);
        break;
    case WEIR_I8:
        weir__text_add(text, "%d", ((const int8_t *)v->data)[i]);
        break;
    case WEIR_U8:
        weir__text_add(text, "%d", ((const uint8_t *)v->data)[i]);
        break;
    case WEIR_BOOL:
        weir__text_add(text, "%s", ((const uint8_t *)v->data)[i] ? "true" : "false");
        break;
    default:
        weir__text_add(text, "%.5g", element(v, i));
    }
}

/* One dim of a contiguous view, from element `at` on. */
static void add_dim(struct weir__text *text, const struct weir__view *v, int dim, size_t at,
                    bool shorten)
{
    int64_t n = v->shape[dim];
    bool last = dim == v->ndim - 1;

    weir__text_add(text, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i)
            weir__text_add(text, last ? ", " : ",\n%*s", dim + 1, "");
        if (shorten && n > 2 * EDGE && i == EDGE) {
            weir__text_add(text, "...");
            i = n - EDGE - 1;
            continue;
        }
        if (last)
            add_element(text, v, at + (size_t)i);
        else
            add_dim(text, v, dim + 1, at + (size_t)(i * v->stride[dim]), shorten);
    }
    weir__text_add(text, "]");
}

char *weir_tensor_format(weir_tensor *t)
{
    if (!t)
        return NULL;

    int64_t numel = weir_tensor_numel(t);
    size_t bytes = (size_t)numel * weir_dtype_size(t->view.dtype);
    struct weir__view v = t->view;
    struct weir__text text = {0};

    if (!(v.data = malloc(bytes ? bytes : 1))) {
        weir__fail_nomem("printing a tensor takes %zu bytes", bytes);
        return NULL;
    }
    if (weir_tensor_read(t, v.data, bytes))
        goto free_data;
    weir__view_set_contiguous(&v);
    weir__text_add(&text, "%s on %s\n", weir__view_text(&v).text, t->dev->props.name);
    if (!numel)
        weir__text_add(&text, "[]");
    else if (v.ndim)
        add_dim(&text, &v, 0, 0, numel > LONG);
    else
        add_element(&text, &v, 0);
    if (text.failed) {
        weir__text_free(&text);
        weir__fail_nomem("writing the text of a tensor");
    }
free_data:
    free(v.data);
    return text.data;
}
