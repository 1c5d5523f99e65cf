/* Inputs and constants: nodes that compute nothing but have a type and a shape.
 *
 * weir writes them as attributes dtype, shape and, in hexadecimal, data. Other tools describe the
 * output in an attribute "[o]..." or put a tensor message into `value`; their fields are recognised
 * by name. */
#include <string.h>

#include "base/half.h"
#include "graph/file/pbtxt_load.h"

weir_status weir__pb_at_node(const struct weir__pb_file *f, const struct weir__pb_node *n,
                             weir_status status)
{
    /* Errors of the machine rather than of the file keep their status and message. */
    if (!status || status == WEIR_ENOMEM || status == WEIR_EOOM || status == WEIR_EIO)
        return status;
    return weir__pb_fail_node(f, WEIR_EINVAL, n, "%s", weir_last_error());
}

/* ---- type and shape ---- */

struct type {
    bool has_dtype, has_shape;
    weir_dtype dtype;
    int ndim;
    int64_t shape[WEIR_MAX_DIMS];
};

static bool is_named_any(const struct weir__pb_event *e, const char *const *names)
{
    for (; *names; names++)
        if (weir__pb_is_named(e, *names))
            return true;
    return false;
}

/* Reads a description: `dtype`, and the sizes of `shape { dim }` in any notation. */
static weir_status read_description(struct weir__pb_value *v, struct type *t)
{
    static const char *const dtypes[] = {"dtype", "dt", "type", NULL};
    static const char *const sizes[] = {"dim", "size", NULL};
    struct weir__pb_event e;
    weir_status st;

    while (!(st = weir__pb_value_next(v, &e)) && e.kind != WEIR__PB_END) {
        if (is_named_any(&e, dtypes)) {
            st = weir__pb_to_dtype(v, &e, &t->dtype);
            t->has_dtype = true;
        } else if (is_named_any(&e, sizes)) {
            if (t->ndim == WEIR_MAX_DIMS)
                return weir__pb_value_fail(v, WEIR_EINVAL, "has more than %d dims", WEIR_MAX_DIMS);
            st = weir__pb_to_int(v, &e, &t->shape[t->ndim++]);
        }
        if (st)
            return st;
    }
    t->has_shape = true;
    return st;
}

static const struct weir__pb_attr *find_description(const struct weir__pb_file *f,
                                                    const struct weir__pb_node *n)
{
    for (int i = n->attrs; i < n->attrs + n->nattrs; i++)
        if (!strncmp(f->attrs[i].key, "[o]", 3))
            return &f->attrs[i];
    return weir__pb_attr_find(f, n, "value");
}

static weir_status read_own(struct weir__pb_file *f, const struct weir__pb_node *n, struct type *t)
{
    const struct weir__pb_attr *a = weir__pb_attr_find(f, n, "dtype");
    struct weir__pb_value v;
    struct weir__pb_event e;
    weir_status st;
    int count;

    if (a) {
        if ((st = weir__pb_value_open(&v, f, n, a)))
            return st;
        if (!(st = weir__pb_value_next(&v, &e)))
            st = weir__pb_to_dtype(&v, &e, &t->dtype);
        weir__pb_value_close(&v);
        if (st)
            return st;
        t->has_dtype = true;
    }
    if ((st = weir__pb_attr_ints(f, n, "shape", t->shape, WEIR_MAX_DIMS, &count)))
        return st;
    t->has_shape = count >= 0;
    t->ndim = count >= 0 ? count : 0;
    return WEIR_OK;
}

static weir_status read_type(struct weir__pb_file *f, const struct weir__pb_node *n, struct type *t)
{
    const struct weir__pb_attr *described = find_description(f, n);
    struct type own = {.ndim = 0}, other = {.ndim = 0};
    struct weir__pb_value v;
    weir_status st;

    if ((st = read_own(f, n, &own)))
        return st;
    if (described && !(own.has_dtype && own.has_shape)) {
        if ((st = weir__pb_value_open(&v, f, n, described)))
            return st;
        st = read_description(&v, &other);
        weir__pb_value_close(&v);
        if (st)
            return st;
    }
    *t = own.has_shape ? own : other;
    t->dtype = own.has_dtype ? own.dtype : other.dtype;
    if (!own.has_dtype && !other.has_dtype)
        return weir__pb_fail_node(f, WEIR_EINVAL, n, "%s has no attribute 'dtype'", n->op);
    if (!t->has_shape)
        return weir__pb_fail_node(f, WEIR_EINVAL, n, "%s has no attribute 'shape'", n->op);
    return WEIR_OK;
}

/* ---- inputs ---- */

weir_status weir__pb_load_input(struct weir__pb_file *f, const struct weir__pb_node *n,
                                weir_graph *g, struct weir__operand *out)
{
    const char *name = n->name;
    weir_tensor *tensor;
    struct type t;
    weir_status st;

    if (g->ninputs >= WEIR__PB_MAX_ENDS)
        return weir__pb_fail_node(f, WEIR_EINVAL, n, "a graph has at most %d inputs",
                                  WEIR__PB_MAX_ENDS);
    if ((st = read_type(f, n, &t)) || (st = weir__pb_attr_string(f, n, "name", &name)))
        return st;
    if ((st = weir_graph_input(g, name, t.dtype, t.ndim, t.shape, &tensor)))
        return weir__pb_at_node(f, n, st);
    *out = (struct weir__operand){.value = tensor->value, .view = tensor->view};
    weir_tensor_release(tensor);
    return WEIR_OK;
}

/* ---- constants ---- */

static weir_status store(const struct weir__pb_value *v, const struct weir__pb_event *e,
                         weir_dtype dtype, char *at)
{
    static const int64_t most[] = {
        [WEIR_I32] = INT32_MAX, [WEIR_I8] = INT8_MAX, [WEIR_U8] = UINT8_MAX};
    weir_status st;
    int64_t i = 0;
    double d = 0;
    bool b = false;

    if (dtype == WEIR_BOOL)
        st = weir__pb_to_bool(v, e, &b);
    else
        st = weir_dtype_is_float(dtype) ? weir__pb_to_float(v, e, &d) : weir__pb_to_int(v, e, &i);
    if (st)
        return st;
    if (!weir_dtype_is_float(dtype) && dtype != WEIR_I64 && dtype != WEIR_BOOL &&
        (i > most[dtype] || i < (dtype == WEIR_U8 ? 0 : -most[dtype] - 1)))
        return weir__pb_value_fail(v, WEIR_EINVAL, "has %lld, which does not fit %s", (long long)i,
                                   weir_dtype_name(dtype));
    switch (dtype) {
    case WEIR_F32:
        memcpy(at, &(float){(float)d}, 4);
        break;
    case WEIR_F16:
        memcpy(at, &(uint16_t){weir__f32_to_f16((float)d)}, 2);
        break;
    case WEIR_BF16:
        memcpy(at, &(uint16_t){weir__f32_to_bf16((float)d)}, 2);
        break;
    case WEIR_F64:
        memcpy(at, &d, 8);
        break;
    case WEIR_I64:
        memcpy(at, &i, 8);
        break;
    case WEIR_I32:
        memcpy(at, &(int32_t){(int32_t)i}, 4);
        break;
    case WEIR_BOOL:
        *at = b;
        break;
    default:
        *at = (char)i;
    }
    return WEIR_OK;
}

/* Stores the raw bytes of a tensor message. */
static weir_status store_raw(const struct weir__pb_value *v, const struct weir__pb_event *e,
                             char *data, size_t bytes)
{
    char *raw = weir__malloc(e->raw_size);
    size_t size = 0;
    weir_status st;

    if (!raw)
        return weir__fail_nomem("%s: allocating a constant", v->file->text.where);
    if (!(st = weir__pb_unquote(v->reader.text, e, raw, &size))) {
        if (size == bytes)
            memcpy(data, raw, bytes);
        else
            st = weir__pb_value_fail(v, WEIR_EINVAL, "has %zu bytes of data, the shape needs %zu",
                                     size, bytes);
    }
    weir__free(raw);
    return st;
}

/* Reads one value per element, or one for all elements, or raw bytes. */
static weir_status read_values(struct weir__pb_value *v, weir_dtype dtype, int64_t numel,
                               char *data)
{
    static const char *const one_by_one[] = {"f",        "i",         "b",        "float_val",
                                             "int_val",  "int64_val", "bool_val", "double_val",
                                             "half_val", NULL};
    static const char *const raw[] = {"tensor_content", "data", NULL};
    size_t size = weir_dtype_size(dtype);
    struct weir__pb_event e;
    int64_t n = 0;
    weir_status st;

    while (!(st = weir__pb_value_next(v, &e)) && e.kind != WEIR__PB_END) {
        if (is_named_any(&e, raw) && e.kind == WEIR__PB_STRING && e.raw_size > 2)
            return store_raw(v, &e, data, (size_t)numel * size);
        if (!is_named_any(&e, one_by_one))
            continue;
        if (n == numel)
            return weir__pb_value_fail(v, WEIR_EINVAL, "has more than the %lld values of the shape",
                                       (long long)numel);
        if ((st = store(v, &e, dtype, data + (size_t)n++ * size)))
            return st;
    }
    if (st)
        return st;
    for (int64_t i = 1; n == 1 && i < numel; i++)
        memcpy(data + (size_t)i * size, data, size);
    if (n > 1 && n < numel)
        return weir__pb_value_fail(v, WEIR_EINVAL, "has %lld values, the shape needs %lld",
                                   (long long)n, (long long)numel);
    return WEIR_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads "00ff..": must be one literal without escapes, so that a large one is read in place. */
static weir_status read_hex(struct weir__pb_value *v, char *data, size_t bytes)
{
    struct weir__pb_event e;
    weir_status st = weir__pb_value_next(v, &e);

    if (st)
        return st;
    if (e.kind != WEIR__PB_STRING || e.raw_size != 2 * bytes + 2)
        return weir__pb_value_fail(v, WEIR_EINVAL, "is not a string of %zu hexadecimal digits",
                                   2 * bytes);
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_digit(e.raw[2 * i + 1]), low = hex_digit(e.raw[2 * i + 2]);

        if (high < 0 || low < 0)
            return weir__pb_value_fail(v, WEIR_EINVAL, "has '%s' among its hexadecimal digits",
                                       weir__pb_make_excerpt(e.raw + 2 * i + 1, 2).text);
        data[i] = (char)(high << 4 | low);
    }
    return WEIR_OK;
}

/* Reads the bytes of a constant from its attribute. */
static weir_status read_bytes(struct weir__pb_file *f, const struct weir__pb_node *n,
                              const struct weir__pb_attr *a, const struct weir__view *view,
                              char *data, size_t bytes)
{
    struct weir__pb_value v;
    weir_status st = weir__pb_value_open(&v, f, n, a);

    if (st)
        return st;
    st = !strcmp(a->key, "data") ? read_hex(&v, data, bytes)
                                 : read_values(&v, view->dtype, weir__view_numel(view), data);
    weir__pb_value_close(&v);
    return st;
}

static weir_status make_constant(struct weir__pb_file *f, const struct weir__pb_node *n,
                                 weir_graph *g, const struct weir__view *view, const char *data,
                                 struct weir__operand *out)
{
    weir_tensor *t;
    weir_status st;

    if ((st = weir_tensor_from(weir_stream_default(g->dev), view->dtype, view->ndim, view->shape,
                               data, &t)))
        return weir__pb_at_node(f, n, st);
    st = weir__graph_operand(g, t, out);
    weir_tensor_release(t);
    if (st)
        return weir__pb_at_node(f, n, st);
    g->values[out->value].literal = true;
    if (!(g->values[out->value].name = weir__strdup(n->name)))
        return weir__fail_nomem("adding constant '%s'", n->name);
    return WEIR_OK;
}

weir_status weir__pb_load_constant(struct weir__pb_file *f, const struct weir__pb_node *n,
                                   weir_graph *g, int64_t *zeros, struct weir__operand *out)
{
    const struct weir__pb_attr *a = weir__pb_attr_find(f, n, "data");
    struct weir__view view;
    struct type t;
    weir_status st;
    int64_t bytes;
    char *data;

    if (!a)
        a = weir__pb_attr_find(f, n, "value");
    if (g->nconstants >= WEIR__PB_MAX_ENDS)
        return weir__pb_fail_node(f, WEIR_EINVAL, n, "a graph file has at most %d constants",
                                  WEIR__PB_MAX_ENDS);
    if ((st = read_type(f, n, &t)))
        return st;
    if ((st = weir__view_init(&view, t.dtype, t.ndim, t.shape)))
        return weir__pb_at_node(f, n, st);
    bytes = weir__view_numel(&view) * (int64_t)weir_dtype_size(t.dtype);
    /* Bounds constants whose bytes are not in the file, so that a short file cannot take all
     * memory. Other constants are at most as long as their text. */
    if (!a || (size_t)bytes > a->end - a->begin) {
        if (bytes > WEIR__PB_MAX_ZEROS - *zeros)
            return weir__pb_fail_node(f, WEIR_EINVAL, n,
                                      "constants that are not spelt out may have %s together",
                                      weir__size((size_t)WEIR__PB_MAX_ZEROS).text);
        *zeros += bytes;
    }
    if (!(data = weir__calloc(1, (size_t)bytes)))
        return weir__fail_nomem("allocating constant '%s' of %s", n->name,
                                weir__size((size_t)bytes).text);
    if (!a || !(st = read_bytes(f, n, a, &view, data, (size_t)bytes)))
        st = make_constant(f, n, g, &view, data, out);
    weir__free(data);
    return st;
}
