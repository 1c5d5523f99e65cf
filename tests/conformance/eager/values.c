/* Whole numbers as the types have them. */
#include "conformance/eager/eager.h"

#include <stdlib.h>

int64_t wrap_value(weir_dtype type, int64_t value)
{
    return type == WEIR_I64   ? value
           : type == WEIR_I32 ? (int32_t)(uint32_t)(uint64_t)value
           : type == WEIR_I8  ? (int8_t)(uint8_t)(uint64_t)value
                              : (uint8_t)(uint64_t)value;
}

int64_t some_value(struct machine *m)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, -128, 127, 255, 0};

    if (rng_chance(&m->rng, 10))
        return wrap_value(m->type, ends[rng_int(&m->rng, 0, countof(ends) - 1)]);
    return wrap_value(m->type, rng_int(&m->rng, -9, 70));
}

void *to_bytes(weir_dtype type, const int64_t *values, int64_t n)
{
    char *bytes = malloc((size_t)n * weir_dtype_size(type) + 1);

    for (int64_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)values[i]; /* little-endian: the low bytes come first */

        memcpy(bytes + (size_t)i * weir_dtype_size(type), &v, weir_dtype_size(type));
    }
    return bytes;
}

int64_t from_bytes(weir_dtype type, const void *bytes, int64_t i)
{
    uint64_t v = 0;

    memcpy(&v, (const char *)bytes + (size_t)i * weir_dtype_size(type), weir_dtype_size(type));
    return wrap_value(type, (int64_t)v);
}

int64_t value_at(const struct machine *m, const struct picked *p, int64_t i)
{
    return m->slots[p->slot].want[p->cells[i]];
}

void put_new(struct machine *m, weir_tensor *t, const int64_t *values)
{
    int to = (int)rng_int(&m->rng, 0, SLOTS - 1);
    struct slot *s = &m->slots[to];

    CHECK(weir_tensor_ndim(t) <= DIMS && weir_tensor_numel(t) <= MOST);
    weir_tensor_release(s->t); /* queued work may still use it */
    s->t = t;
    s->ndim = weir_tensor_ndim(t);
    memcpy(s->shape, weir_tensor_shape(t), (size_t)s->ndim * sizeof *s->shape);
    s->n = weir_tensor_numel(t);
    memcpy(s->want, values, (size_t)s->n * sizeof *values);
    after_write(m, to);
}

void put_cast(struct machine *m, weir_tensor *t, int64_t *values)
{
    weir_tensor *cast;

    for (int64_t i = 0; i < weir_tensor_numel(t); i++)
        values[i] = wrap_value(m->type, values[i]);
    CHECK_OK(weir_cast(t, m->type, &cast));
    weir_tensor_release(t);
    put_new(m, cast, values);
}
