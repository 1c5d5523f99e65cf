/* Builds the walker's arguments from views. */
#include "ops/elementwise.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "ops/gpu/gpu.h"
#include "ops/host/row.h"
#include "ops/tile.h"

enum { BLOCKS_PER_CORE = 4 };

/* A quarter of the last-level cache: a larger result would evict other data in use. The next
 * operator gains more by finding a smaller one in the cache. */
int64_t weir__nontemporal_bytes(void)
{
    static _Atomic int64_t cached;
    int64_t bytes = atomic_load_explicit(&cached, memory_order_relaxed);

    if (!bytes) {
        bytes = (int64_t)16 << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE
        bytes = weir__max(bytes, sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
        bytes /= 4;
        /* Threads that race here all store the same value. */
        atomic_store_explicit(&cached, bytes, memory_order_relaxed);
    }
    return bytes;
}

weir_status weir__check_type(const char *op, const struct weir__view *x, enum weir__types types)
{
    static const char *const text[] = {
        [WEIR__TYPES_FLOAT] = "f32, f16, bf16 or f64",
        [WEIR__TYPES_NUMBER] = "floats and integers",
        [WEIR__TYPES_INTEGER] = "i64, i32, i8 or u8",
        [WEIR__TYPES_BITS] = "integers and bool",
    };
    enum { FLOAT = 1, INTEGER = 2, BOOL = 4 };
    static const unsigned char takes[] = {
        [WEIR__TYPES_FLOAT] = FLOAT,
        [WEIR__TYPES_NUMBER] = FLOAT | INTEGER,
        [WEIR__TYPES_INTEGER] = INTEGER,
        [WEIR__TYPES_BITS] = INTEGER | BOOL,
        [WEIR__TYPES_ALL] = FLOAT | INTEGER | BOOL,
    };
    unsigned is = weir_dtype_is_float(x->dtype) ? FLOAT : x->dtype == WEIR_BOOL ? BOOL : INTEGER;

    if (takes[types] & is)
        return WEIR_OK;
    return weir__fail(WEIR_EDTYPE, "%s takes %s, not %s", op, text[types], weir__view_text(x).text);
}

weir_status weir__check_same_type(const char *op, const struct weir__view *a,
                                  const struct weir__view *b)
{
    if (a->dtype == b->dtype)
        return WEIR_OK;
    return weir__fail(WEIR_EDTYPE, "%s: the types of %s and %s differ; weir_cast one of them", op,
                      weir__view_text(a).text, weir__view_text(b).text);
}

weir_status weir__check_dim(const char *op, int64_t dim, const struct weir__view *x, int *out)
{
    if (dim < -x->ndim || dim >= x->ndim)
        return weir__fail(WEIR_ERANGE, "%s: dim %lld is out of range: %s has %d dims", op,
                          (long long)dim, weir__view_text(x).text, x->ndim);
    *out = (int)(dim < 0 ? dim + x->ndim : dim);
    return WEIR_OK;
}

void weir__constant_saturated(double value, weir_dtype dtype, void *out)
{
    WEIR__ISA_PICK(weir__row_convert)(out, weir__compute_type(dtype), &value, WEIR_F64, 1);
}

double weir__rounded(double value, weir_dtype dtype)
{
    double bytes;

    WEIR__ISA_PICK(weir__row_convert)(&bytes, dtype, &value, WEIR_F64, 1);
    WEIR__ISA_PICK(weir__row_convert)(&value, WEIR_F64, &bytes, dtype, 1);
    return value;
}

weir_status weir__constant(const char *op, double value, weir_dtype dtype, void *out)
{
    weir_dtype type = weir__compute_type(dtype);
    double back;

    weir__constant_saturated(value, dtype, out);
    if (weir_dtype_is_float(dtype))
        return WEIR_OK;
    WEIR__ISA_PICK(weir__row_convert)(&back, WEIR_F64, out, type, 1);
    /* INT64_MAX rounds up to 2^63 in a double, which is out of range. */
    if (back != value || (dtype == WEIR_I64 && value >= 9223372036854775808.0))
        return weir__fail(WEIR_ERANGE, "%s: %g is not representable in %s", op, value,
                          weir_dtype_name(dtype));
    return WEIR_OK;
}

bool weir__same_shape(const struct weir__view *a, const struct weir__view *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

void weir__infer_like(struct weir__call *call)
{
    const struct weir__view *x = call->in[0];

    call->out[0].dtype = x->dtype;
    call->out[0].ndim = x->ndim;
    memcpy(call->out[0].shape, x->shape, sizeof x->shape);
}

/* Whether the input is packed in row-major order and has the output's shape: it needs no
 * strides. */
static bool is_flat(const struct weir__ew_call *c)
{
    const struct weir__view *out = c->out;

    if (!weir__view_is_contiguous(out))
        return false;
    for (int i = 0; i < c->nin; i++) {
        const struct weir__view *in = c->in[i];

        if (!in)
            continue;
        if (!weir__same_shape(in, out) || !weir__view_is_contiguous(in))
            return false;
    }
    return true;
}

void weir__views_order(struct weir__view *const *views, int n)
{
    struct weir__view *out = views[0];

    for (int d = 1; d < out->ndim; d++)
        for (int k = d; k > 0 && out->stride[k] > out->stride[k - 1]; k--)
            for (int i = 0; i < n; i++) {
                int64_t shape = views[i]->shape[k], stride = views[i]->stride[k];

                views[i]->shape[k] = views[i]->shape[k - 1];
                views[i]->stride[k] = views[i]->stride[k - 1];
                views[i]->shape[k - 1] = shape;
                views[i]->stride[k - 1] = stride;
            }
    weir__view_collapse(views, n);
}

static void set_strides(const struct weir__ew_call *c, struct weir__ew *e)
{
    struct weir__view views[1 + WEIR__EW_MAX_IN], *list[1 + WEIR__EW_MAX_IN];
    int n = 0;

    views[0] = *c->out;
    list[n++] = &views[0];
    for (int i = 0; i < c->nin; i++)
        if (c->in[i]) {
            views[n] = weir__view_broadcast(c->in[i], c->out->ndim, c->out->shape);
            list[n] = &views[n];
            n++;
        }
    weir__views_order(list, n);
    e->ndim = views[0].ndim;
    memcpy(e->shape, views[0].shape, sizeof e->shape);
    memcpy(e->out_stride, views[0].stride, sizeof e->out_stride);
    for (int i = 0, k = 1; i < c->nin; i++)
        if (c->in[i])
            memcpy(e->in_stride[i], views[k++].stride, sizeof e->in_stride[i]);
        else
            memset(e->in_stride[i], 0, sizeof e->in_stride[i]);
    for (int d = 0; d < e->ndim && e->numel && e->numel <= INT32_MAX; d++)
        e->divisor[d] = weir__divisor_of(e->shape[d]);
}

int64_t weir__parts_before(const struct weir__view *v, int dim)
{
    int64_t n = 1;

    for (int d = 0; d < dim; d++)
        n *= v->shape[d];
    return n;
}

void weir__ew_place(void *args, int operand, char *data)
{
    struct weir__ew *e = args;

    if (operand < 0) {
        e->out = data;
        e->nontemporal = false;
    } else {
        const char *was = e->in[operand];

        /* A row may read an operand twice: x^2 is x * x. */
        for (int i = 0; i < e->nin; i++)
            if (e->in[i] == was)
                e->in[i] = data;
    }
}

weir_status weir__ew_prepare(const struct weir__ew_call *c, unsigned cores, struct weir__work *work)
{
    struct weir__ew *e = (void *)work->args;
    int64_t bytes, ns;
    bool plain; /* no conversion */

    e->fn = c->fn;
    e->code = (unsigned char)(c->fn ? c->code : WEIR__EW_CONVERT);
    e->numel = weir__view_numel(c->out);
    e->out = c->out->data;
    e->out_type = (unsigned char)c->out->dtype;
    e->out_compute = c->raw ? e->out_type : (unsigned char)weir__compute_type(c->out->dtype);
    e->nin = (unsigned char)c->nin;
    plain = e->direct = e->out_type == e->out_compute;
    bytes = (int64_t)weir__elem_size(c->out->dtype);
    memcpy(e->constant, c->constant, sizeof e->constant);
    for (int i = 0; i < c->nin && i < WEIR__EW_MAX_IN; i++) {
        const struct weir__view *in = c->in[i];
        weir_dtype type = in ? in->dtype : c->in[0] ? c->in[0]->dtype : c->out->dtype;

        e->in[i] = in ? in->data : NULL;
        e->in_type[i] = (unsigned char)type;
        /* Without a function the row is loaded in the output's type. */
        e->in_compute[i] = !c->fn   ? e->out_compute
                           : c->raw ? e->in_type[i]
                                    : (unsigned char)weir__compute_type(type);
        plain = plain && e->in_type[i] == e->in_compute[i];
        e->direct = e->direct && in;
        bytes += in ? (int64_t)weir__elem_size(type) : 0;
    }
    if (is_flat(c)) {
        e->ndim = 0;
        e->direct = e->direct && plain;
        e->nontemporal = plain && e->numel * (int64_t)weir__elem_size(c->out->dtype) >=
                                      weir__nontemporal_bytes();
        work->args_size = offsetof(struct weir__ew, shape);
    } else {
        set_strides(c, e);
        e->direct = e->nontemporal = false;
        work->args_size = sizeof *e;
    }
    ns = e->numel * bytes / WEIR__TILE_BYTES_PER_NS + e->numel * c->ns_per_kilo / 1024;
    work->fn = WEIR__ISA_PICK(weir__ew_kernel);
    work->code = &weir__gpu_ew;
    /* Several blocks per core, so that one that starts late or runs slowly does not delay the rest;
     * at most `cores` run at once. */
    work->blocks =
        weir__tile_blocks(ns, weir__div_up(e->numel, 64), cores > 1 ? BLOCKS_PER_CORE * cores : 1);
    work->phases = 1;
    return WEIR_OK;
}

void weir__ew_cost(const struct weir__call *call, double flops, struct weir__cost *cost)
{
    const struct weir__view *out = call->nout ? &call->out[0] : call->in[0];
    double n = (double)weir__view_numel(out);

    cost->flops = n * flops;
    cost->bytes = n * (double)weir__dtype_size(out->dtype);
    for (int i = call->nout ? 0 : 1; i < call->nin; i++)
        if (call->in[i])
            cost->bytes += (double)weir__view_numel(call->in[i]) *
                           (double)weir__dtype_size(call->in[i]->dtype);
}
