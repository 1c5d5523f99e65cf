/* A call of an operator: its operands, its errors, and writing its results. */
#include "acl/acl.h"
#include "narrow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

aclnnStatus call_run(const struct row *row, run_fn *run, const union arg *args, aclrtStream stream)
{
    struct weir_cann_launch launch;
    aclError err = weir_cann_enter(stream, &launch);
    struct call c; /* not initialised as a whole: `few` need not be cleared */

    if (err)
        return err;
    c.row = row;
    c.args = args;
    c.err = 0;
    c.nmade = 0;
    c.made = c.few;
    c.cap = (int)(sizeof c.few / sizeof *c.few);
    c.narrows = NULL;
    c.stream = launch.stream;
    c.handle = stream;
    c.launch = &launch;
    c.dev = weir_stream_device(launch.stream);
    c.capturing = weir_graph_current() != NULL;
    run(&c);
    if (c.narrows)
        narrow_end(&c);
    for (int i = c.nmade - 1; i >= 0; i--)
        weir_tensor_release(c.made[i]);
    if (c.made != c.few)
        free(c.made);
    if (c.launch)
        weir_cann_leave(&launch);
    return c.err;
}

void call_outside(struct call *c)
{
    if (c->capturing && c->launch)
        weir_cann_leave(c->launch);
}

void call_inside(struct call *c)
{
    aclError err;

    if (!c->capturing || !c->launch || !(err = weir_cann_enter(c->handle, c->launch)))
        return;
    c->launch = NULL;
    c->err = c->err ? c->err : err;
}

tensor *call_fail(struct call *c, const char *format, ...)
{
    char text[512];
    va_list ap;

    if (c->err)
        return NULL;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    c->err = weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "aclnn%s: %s", c->row->name, text);
    return NULL;
}

bool call_ok(struct call *c, weir_status status)
{
    char name[96];

    if (!status)
        return !c->err;
    if (!c->err) {
        (void)snprintf(name, sizeof name, "aclnn%s", c->row->name);
        (void)weir_cann_fail_status(status, name);
        c->err = status == WEIR_ESHAPE || status == WEIR_EDTYPE || status == WEIR_EINVAL ||
                         status == WEIR_ERANGE
                     ? ACLNN_ERR_PARAM_INVALID
                     : ACLNN_ERR_RUNTIME_ERROR;
    }
    return false;
}

/* Makes room for more tensors than `few` holds. */
static bool grow(struct call *c)
{
    tensor **more = malloc((size_t)c->cap * 2 * sizeof *more);

    if (!more)
        return false;
    memcpy(more, c->made, (size_t)c->nmade * sizeof *more);
    if (c->made != c->few)
        free(c->made);
    c->made = more;
    c->cap *= 2;
    return true;
}

tensor *own(struct call *c, tensor *t)
{
    if (!t)
        return NULL;
    if (__builtin_expect(c->nmade == c->cap, 0) && !grow(c)) {
        weir_tensor_release(t);
        return call_fail(c, "out of host memory");
    }
    return c->made[c->nmade++] = t;
}

/* True if the operator only moves data and all its tensors have this type: then it may move the
 * bits of a type that weir lacks. */
static bool is_moved(const struct call *c, aclDataType type)
{
    if (!(c->row->types & TYPES_CARRIED))
        return false;
    for (int i = 0; i < c->row->count; i++) {
        char kind = c->row->operands[i].kind;

        if (kind == OPERAND_T || kind == OPERAND_O || kind == OPERAND_X) {
            if (c->args[i].tensor && c->args[i].tensor->type != type)
                return false;
        } else if (kind == OPERAND_L || kind == OPERAND_M) {
            for (int k = 0; k < items(c, i); k++)
                if (c->args[i].tensors->value[k] && c->args[i].tensors->value[k]->type != type)
                    return false;
        }
    }
    return true;
}

/* Fills in a view if weir can view the tensor's memory directly. */
static bool is_plain_view(const struct call *c, const aclTensor *t, struct weir_cann_view *v)
{
    int64_t n = 1;

    if (!t || (type_is_narrow(t->type) && !is_moved(c, t->type)))
        return false;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    v->dtype = (weir_dtype)carrier_of_acl(t->type);
    v->address = t->offset ? t->data + t->offset * (int64_t)weir_dtype_size(v->dtype) : t->data;
    v->ndim = t->ndim;
    v->shape = t->shape;
    v->strides = t->stride;
    return n;
}

tensor *view_of(struct call *c, const aclTensor *t)
{
    struct weir_cann_view v;
    tensor *x = NULL;

    if (c->err)
        return NULL;
    if (type_is_narrow(t->type) && !is_moved(c, t->type))
        return narrow_view(c, t);
    if (!is_plain_view(c, t, &v)) /* an empty tensor has no memory */
        return call_ok(c, weir_tensor_empty(c->stream, v.dtype, t->ndim, t->shape, &x)) ? own(c, x)
                                                                                        : NULL;
    return weir_cann_tensors(&v, 1, &x) ? call_fail(c, "%s", aclGetRecentErrMsg()) : own(c, x);
}

bool ins(struct call *c, const int *which, int n, tensor **out)
{
    enum { AT_ONCE = 4 };
    struct weir_cann_view views[AT_ONCE];
    int plain = 0;

    while (plain < n && n <= AT_ONCE &&
           is_plain_view(c, c->args[which[plain]].tensor, &views[plain]))
        plain++;
    if (plain < n || c->nmade + n > c->cap || c->err) {
        for (int i = 0; i < n; i++)
            out[i] = in(c, which[i]);
        return !c->err;
    }
    if (weir_cann_tensors(views, n, out)) {
        (void)call_fail(c, "%s", aclGetRecentErrMsg());
        return false;
    }
    for (int i = 0; i < n; i++)
        c->made[c->nmade++] = out[i];
    return true;
}

tensor *in(struct call *c, int i)
{
    return c->args[i].tensor ? view_of(c, c->args[i].tensor) : NULL;
}

tensor *item(struct call *c, int i, int k)
{
    const aclTensor *t = c->args[i].tensors->value[k];

    return t ? view_of(c, t) : NULL;
}

int64_t nth(const struct call *c, int i, int k, int64_t otherwise)
{
    const aclIntArray *a = c->args[i].ints;

    if (a && a->size == 1)
        return a->value[0];
    return a && k >= 0 && (uint64_t)k < a->size ? a->value[k] : otherwise;
}

weir_dtype type_arg(struct call *c, int i)
{
    int t = computed_of_acl((aclDataType)c->args[i].i);

    if (t < 0)
        (void)call_fail(c, "%s: weir has no type %s", c->row->operands[i].name,
                        acl_type_name((aclDataType)c->args[i].i));
    return t < 0 ? WEIR_F32 : (weir_dtype)t;
}

weir_dtype out_type(struct call *c, int i)
{
    aclDataType t = c->args[i].tensor ? c->args[i].tensor->type : ACL_FLOAT;

    return (weir_dtype)(type_is_narrow(t) && !is_moved(c, t) ? computed_of_acl(t)
                                                             : carrier_of_acl(t));
}

static void shape_text(const tensor *x, char *to, size_t bytes)
{
    int n = snprintf(to, bytes, "[");

    for (int i = 0; i < rank(x) && (size_t)n < bytes; i++)
        n += snprintf(to + n, bytes - (size_t)n, "%s%lld", i ? ", " : "",
                      (long long)weir_tensor_shape(x)[i]);
    if ((size_t)n < bytes)
        (void)snprintf(to + n, bytes - (size_t)n, "]");
}

/* True if x broadcasts to out's shape. */
static bool fits(const tensor *x, const tensor *out)
{
    int extra = rank(out) - rank(x);

    if (extra < 0)
        return false;
    for (int i = 0; i < rank(x); i++)
        if (shape(x)[i] != 1 && shape(x)[i] != shape(out)[i + extra])
            return false;
    return true;
}

void put_tensor(struct call *c, tensor *out, tensor *x)
{
    if (c->err || !out || !x || !numel(out))
        return;
    if (!fits(x, out)) {
        char from[96], to[96];

        shape_text(x, from, sizeof from);
        shape_text(out, to, sizeof to);
        if (numel(x) != numel(out)) {
            (void)call_fail(c, "the result has shape %s, the output tensor %s", from, to);
            return;
        }
        x = reshape(c, x, rank(out), shape(out));
    }
    if (c->narrows)
        narrow_note_put(c, out);
    x = cast(c, x, type(out));
    if (x)
        (void)call_ok(c, weir_copy_into(x, out));
}

void put(struct call *c, int i, tensor *x)
{
    if (c->args[i].tensor && !c->err)
        put_tensor(c, in(c, i), x);
}

void put_item(struct call *c, int i, int k, tensor *x)
{
    if (!c->err)
        put_tensor(c, item(c, i, k), x);
}

int wrap_dim(struct call *c, const tensor *x, int64_t dim)
{
    int n = rank(x) ? rank(x) : 1;

    if (dim < -n || dim >= n) {
        (void)call_fail(c, "dim %lld is out of range: -%d..%d", (long long)dim, n, n - 1);
        return 0;
    }
    return (int)(dim < 0 ? dim + n : dim);
}

/* ---- functions on the host engine ---- */

/* The first input of weir_host_run: the function, then its parameters. */
struct host_params {
    host_fn fn;
    _Alignas(16) char params[1024];
};

static weir_status host_entry(void *user, void *const *inputs, void *const *out)
{
    const struct host_params *p = inputs[0];
    struct host h = {p->params, inputs + 1, out};

    (void)user;
    return p->fn(&h);
}

struct host_out out_like(const tensor *x, weir_dtype dtype)
{
    struct host_out o = {dtype, rank(x), {0}};

    memcpy(o.shape, shape(x), (size_t)o.ndim * sizeof *o.shape);
    return o;
}

void host_run(struct call *c, const char *name, host_fn fn, const void *params, size_t bytes,
              tensor **inputs, int nin, const struct host_out *outs, int nout, tensor **out)
{
    weir_host_call h = {.name = name, .fn = host_entry, .nout = nout};
    struct host_params p = {.fn = fn};
    int64_t count = (int64_t)(offsetof(struct host_params, params) + bytes);
    tensor *all[64] = {0};

    if (bytes > sizeof p.params || nin > 62) {
        (void)call_fail(c, "%zu bytes of parameters and %d inputs are too many", bytes, nin);
        return;
    }
    if (bytes)
        memcpy(p.params, params, bytes);

    for (int i = 0; i < nout; i++) {
        out[i] = NULL;
        h.out[i].dtype = outs[i].dtype;
        h.out[i].ndim = outs[i].ndim;
        memcpy(h.out[i].shape, outs[i].shape, sizeof outs[i].shape);
    }
    all[0] = from_host(c, WEIR_U8, 1, &count, &p);
    for (int i = 0; i < nin; i++)
        all[1 + i] = inputs[i] ? contiguous(c, inputs[i]) : all[0]; /* a placeholder, not read */
    if (c->err || !call_ok(c, weir_host_run(&h, all, nin + 1, out)))
        return;
    for (int i = 0; i < nout; i++)
        out[i] = own(c, out[i]);
}

tensor *host_like(struct call *c, const char *name, host_fn fn, const void *params, size_t bytes,
                  tensor **inputs, int nin, tensor *x, weir_dtype dtype)
{
    struct host_out o = out_like(x, dtype);
    tensor *out = NULL;

    if (!c->err)
        host_run(c, name, fn, params, bytes, inputs, nin, &o, 1, &out);
    return out;
}
