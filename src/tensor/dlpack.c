/* DLPack import and export. The structs restate the public ABI (DLPack 1.0 and the unversioned form
 * before it). */
#include "tensor/tensor.h"

#include <string.h>

struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
};
struct dl_tensor {
    void *data;
    struct weir__dlpack_device device;
    int32_t ndim;
    struct dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
};
struct dl_managed_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };
enum { DL_READ_ONLY = 1 };

static const struct dl_dtype dl_dtypes[WEIR_DTYPE_COUNT] = {
    [WEIR_F32] = {DL_FLOAT, 32, 1},   [WEIR_F16] = {DL_FLOAT, 16, 1},
    [WEIR_BF16] = {DL_BFLOAT, 16, 1}, [WEIR_F64] = {DL_FLOAT, 64, 1},
    [WEIR_I64] = {DL_INT, 64, 1},     [WEIR_I32] = {DL_INT, 32, 1},
    [WEIR_I8] = {DL_INT, 8, 1},       [WEIR_U8] = {DL_UINT, 8, 1},
    [WEIR_BOOL] = {DL_BOOL, 8, 1},
};

/* ---- import ---- */

static bool can_read(const weir_device *dev, struct weir__dlpack_device on)
{
    if (dev->props.features & WEIR_FEATURE_HOST_MEMORY)
        return on.type == WEIR__DLPACK_CPU || on.type == WEIR__DLPACK_CUDA_HOST;
    if (dev->dlpack.type == WEIR__DLPACK_CUDA && on.type == WEIR__DLPACK_CUDA_HOST)
        return true;
    return on.type == dev->dlpack.type && on.id == dev->dlpack.id;
}

static weir_status import(weir_stream *s, const struct dl_tensor *d, void (*release)(void *),
                          void *managed, weir_tensor **out)
{
    int dtype = 0;
    weir_status st;

    *out = NULL;
    while (dtype < WEIR_DTYPE_COUNT && memcmp(&dl_dtypes[dtype], &d->dtype, sizeof d->dtype))
        dtype++;
    if (dtype == WEIR_DTYPE_COUNT)
        return weir__fail(WEIR_EDTYPE,
                          "DLPack type (code %d, %d bits, %d lanes) is not a type of weir",
                          d->dtype.code, d->dtype.bits, d->dtype.lanes);
    if ((st = weir__tensor_resolve(&s)))
        return st;
    if (!can_read(s->dev, d->device))
        return weir__fail(WEIR_EDEVICE,
                          "DLPack tensor is on device type %d, number %d, which %s cannot read",
                          (int)d->device.type, (int)d->device.id, s->dev->props.name);
    return weir_tensor_wrap(s, (weir_dtype)dtype, d->ndim, d->shape, d->strides,
                            d->data ? (char *)d->data + d->byte_offset : NULL, release, managed,
                            out);
}

static void release_legacy(void *managed)
{
    struct dl_managed *m = managed;

    if (m->deleter)
        m->deleter(m);
}

static void release_versioned(void *managed)
{
    struct dl_managed_versioned *m = managed;

    if (m->deleter)
        m->deleter(m);
}

weir_status weir_tensor_from_dlpack(weir_stream *s, void *managed, weir_tensor **out)
{
    WEIR__NEED(managed, "managed");
    WEIR__NEED(out, "out");
    return import(s, &((struct dl_managed *)managed)->tensor, release_legacy, managed, out);
}

weir_status weir_tensor_from_dlpack_versioned(weir_stream *s, void *managed, weir_tensor **out)
{
    WEIR__NEED(managed, "managed");
    WEIR__NEED(out, "out");

    struct dl_managed_versioned *m = managed;

    *out = NULL;
    if (m->version.major != 1)
        return weir__fail(WEIR_EUNSUPPORTED, "DLPack version %u.%u is not supported; version 1 is",
                          m->version.major, m->version.minor);
    if (m->flags & DL_READ_ONLY)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "DLPack tensor is read-only, and weir tensors can be written: copy it");
    return import(s, &m->tensor, release_versioned, managed, out);
}

/* ---- export ---- */

/* Both forms of the struct and the arrays they point to, in one allocation. */
struct exported {
    union {
        struct dl_managed legacy;
        struct dl_managed_versioned versioned;
    } u;
    weir_tensor *tensor;
    int64_t shape[WEIR_MAX_DIMS], strides[WEIR_MAX_DIMS];
};

static void delete_export(struct exported *e)
{
    /* If the use cannot be recorded, the tensor is leaked: its bytes are never reused, which is
     * safe. */
    if (!weir__device_used_by_others(e->tensor->dev, e->tensor->buffer))
        weir_tensor_release(e->tensor);
    weir__free(e);
}

static void delete_legacy(struct dl_managed *self)
{
    delete_export((struct exported *)self);
}

static void delete_versioned(struct dl_managed_versioned *self)
{
    delete_export((struct exported *)self);
}

/* Queues on the current stream the waits that wait_tensor or a write from the host asked for,
 * because the consumer only orders itself after that stream. */
static weir_status order_export(weir_tensor *t)
{
    weir_status st = weir__tensor_check_bytes(t, "DLPack export");
    weir_stream *s;

    if (st)
        return st;
    s = weir_stream_current(t->dev);
    weir__device_lock(t->dev);
    st = weir__buffer_await(t->buffer, s);
    weir__device_unlock(t->dev);
    t->dev->driver->kick(t->dev);
    return st;
}

static struct exported *export(weir_tensor *t, struct dl_tensor *out)
{
    struct exported *e = weir__calloc(1, sizeof *e);

    if (!e) {
        weir__fail_nomem("exporting a tensor by DLPack");
        return NULL;
    }
    e->tensor = weir_tensor_retain(t);
    memcpy(e->shape, t->view.shape, sizeof e->shape);
    memcpy(e->strides, t->view.stride, sizeof e->strides);
    *out = (struct dl_tensor){
        .data = t->view.data,
        .device = t->dev->dlpack,
        .ndim = t->view.ndim,
        .dtype = dl_dtypes[t->view.dtype],
        .shape = e->shape,
        .strides = e->strides,
    };
    return e;
}

weir_status weir_tensor_to_dlpack(weir_tensor *t, void **managed)
{
    WEIR__NEED(t, "tensor");
    WEIR__NEED(managed, "managed");

    struct dl_tensor d;
    struct exported *e;
    weir_status st = order_export(t);

    *managed = NULL;
    if (st || !(e = export(t, &d)))
        return st ? st : WEIR_ENOMEM;
    e->u.legacy = (struct dl_managed){.tensor = d, .deleter = delete_legacy};
    *managed = e;
    return WEIR_OK;
}

weir_status weir_tensor_to_dlpack_versioned(weir_tensor *t, void **managed)
{
    WEIR__NEED(t, "tensor");
    WEIR__NEED(managed, "managed");

    struct dl_tensor d;
    struct exported *e;
    weir_status st = order_export(t);

    *managed = NULL;
    if (st || !(e = export(t, &d)))
        return st ? st : WEIR_ENOMEM;
    e->u.versioned = (struct dl_managed_versioned){
        .version = {1, 0},
        .deleter = delete_versioned,
        .tensor = d,
    };
    *managed = e;
    return WEIR_OK;
}

void weir_device_dlpack(const weir_device *dev, int32_t *type, int32_t *id)
{
    if (!dev || !type || !id)
        return;
    *type = dev->dlpack.type;
    *id = dev->dlpack.id;
}
