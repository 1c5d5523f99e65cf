/* Copies of host arrays to the device and back. */
#include "conformance/conformance.h"

#include <math.h>
#include <stdlib.h>

void array_init(struct array *a, weir_dtype dtype, int ndim, const int64_t *dims)
{
    *a = (struct array){.dtype = dtype, .ndim = ndim};
    if (ndim)
        memcpy(a->shape, dims, (size_t)ndim * sizeof *dims);
    CHECK((a->at = calloc((size_t)array_numel(a) + 1, sizeof *a->at)));
}

void array_free(struct array *a)
{
    free(a->at);
    free(a->reach);
    *a = (struct array){.dtype = WEIR_F32};
}

int64_t array_numel(const struct array *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndim; d++)
        n *= a->shape[d];
    return n;
}

int64_t array_place(const struct array *a, int ndim, const int64_t *index)
{
    int64_t place = 0;

    for (int d = 0; d < a->ndim; d++)
        place = place * a->shape[d] + (a->shape[d] == 1 ? 0 : index[ndim - a->ndim + d]);
    return place;
}

bool step_index(int ndim, const int64_t *shape, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d])
            return true;
        index[d] = 0;
    }
    return false;
}

bool same_shape(const struct array *a, const struct array *b)
{
    return a->ndim == b->ndim && !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape);
}

/* ---- types ---- */

/* To `bits` bits of significand, with exponents from `low` and values below `limit`. */
static double round_float(double value, int bits, int low, double limit)
{
    double unit, rounded;
    int exponent;

    if (value == 0 || !isfinite(value))
        return value;
    frexp(value, &exponent);
    unit = ldexp(1, (exponent > low ? exponent : low) - bits);
    rounded = nearbyint(value / unit) * unit;
    return fabs(rounded) >= limit ? copysign(INFINITY, value) : rounded;
}

static double wrap(double value, double count, double low)
{
    double rest = fmod(trunc(value) - low, count);

    return low + (rest < 0 ? rest + count : rest);
}

double round_to(weir_dtype dtype, double value)
{
    switch (dtype) {
    case WEIR_F32:
        return (float)value;
    case WEIR_F16:
        return round_float(value, 11, -13, 65536);
    case WEIR_BF16:
        return round_float(value, 8, -125, 0x1p128);
    case WEIR_I32:
        return wrap(value, 0x1p32, -0x1p31);
    case WEIR_I8:
        return wrap(value, 256, -128);
    case WEIR_U8:
        return wrap(value, 256, 0);
    case WEIR_BOOL:
        return value != 0;
    default:
        return value;
    }
}

static uint16_t half_bits(double value, int significand, int bias)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int fraction_bits = significand - 1, exponent;
    double f = frexp(fabs(value), &exponent);

    if (isnan(value))
        return 0x7fff;
    if (value == 0)
        return sign;
    if (isinf(value))
        return (uint16_t)(sign | (2 * bias + 1) << fraction_bits);
    if (exponent - 1 < 1 - bias) /* below the normal numbers */
        return (uint16_t)(sign | (unsigned)ldexp(fabs(value), bias - 1 + fraction_bits));
    return (uint16_t)(sign | (unsigned)(exponent - 1 + bias) << fraction_bits |
                      ((unsigned)ldexp(f, significand) & ((1u << fraction_bits) - 1)));
}

static double half_value(uint16_t bits, int significand, int bias)
{
    int fraction_bits = significand - 1, exponent = (bits & 0x7fff) >> fraction_bits;
    double fraction = bits & ((1 << fraction_bits) - 1), value;

    if (exponent == 2 * bias + 1)
        value = fraction != 0 ? NAN : INFINITY;
    else if (!exponent)
        value = ldexp(fraction, 1 - bias - fraction_bits);
    else
        value = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits & 0x8000 ? -value : value;
}

void encode(weir_dtype dtype, const double *from, int64_t n, void *to)
{
    for (int64_t i = 0; i < n; i++) {
        double v = round_to(dtype, from[i]);

        switch (dtype) {
        case WEIR_F32:
            ((float *)to)[i] = (float)v;
            break;
        case WEIR_F16:
            ((uint16_t *)to)[i] = half_bits(v, 11, 15);
            break;
        case WEIR_BF16:
            ((uint16_t *)to)[i] = half_bits(v, 8, 127);
            break;
        case WEIR_F64:
            ((double *)to)[i] = v;
            break;
        case WEIR_I64:
            ((int64_t *)to)[i] = (int64_t)v;
            break;
        case WEIR_I32:
            ((int32_t *)to)[i] = (int32_t)v;
            break;
        case WEIR_I8:
            ((int8_t *)to)[i] = (int8_t)v;
            break;
        default:
            ((uint8_t *)to)[i] = (uint8_t)v;
        }
    }
}

void decode(weir_dtype dtype, const void *from, int64_t n, double *to)
{
    for (int64_t i = 0; i < n; i++)
        switch (dtype) {
        case WEIR_F32:
            to[i] = ((const float *)from)[i];
            break;
        case WEIR_F16:
            to[i] = half_value(((const uint16_t *)from)[i], 11, 15);
            break;
        case WEIR_BF16:
            to[i] = half_value(((const uint16_t *)from)[i], 8, 127);
            break;
        case WEIR_F64:
            to[i] = ((const double *)from)[i];
            break;
        case WEIR_I64:
            to[i] = (double)((const int64_t *)from)[i];
            break;
        case WEIR_I32:
            to[i] = ((const int32_t *)from)[i];
            break;
        case WEIR_I8:
            to[i] = ((const int8_t *)from)[i];
            break;
        default:
            to[i] = ((const uint8_t *)from)[i];
        }
}

/* ---- the device ---- */

static void replace(weir_tensor **t, weir_tensor *by)
{
    weir_tensor_release(*t);
    *t = by;
}

/* Dims are each step-th element of a longer one: three at most, or the whole grows too large. */
static weir_tensor *make_sliced(weir_stream *stream, weir_dtype dtype, int ndim,
                                const int64_t *shape, struct rng *rng, weir_tensor **base)
{
    int64_t whole[WEIR_MAX_DIMS] = {0}, start[WEIR_MAX_DIMS], step[WEIR_MAX_DIMS];
    weir_tensor *t, *cut;
    int left = 3;

    for (int d = 0; d < ndim; d++) {
        bool longer = rng_chance(rng, 60) && left-- > 0;

        start[d] = longer ? rng_int(rng, 0, 2) : 0;
        step[d] = longer && rng_chance(rng, 40) ? rng_int(rng, 2, 3) : 1;
        whole[d] = start[d] + shape[d] * step[d] + (longer ? rng_int(rng, 0, 2) : 0);
    }
    CHECK_OK(weir_tensor_empty(stream, dtype, ndim, whole, &t));
    *base = weir_tensor_retain(t);
    for (int d = 0; d < ndim; d++) {
        CHECK_OK(weir_tensor_slice(t, d, start[d], start[d] + shape[d] * step[d], step[d], &cut));
        replace(&t, cut);
    }
    return t;
}

weir_tensor *make_view(weir_stream *stream, weir_dtype dtype, int ndim, const int64_t *shape,
                       enum layout layout, struct rng *rng, weir_tensor **base)
{
    int64_t turned[WEIR_MAX_DIMS] = {0};
    int dims[WEIR_MAX_DIMS];
    weir_tensor *t, *whole, *view;

    for (int d = 0; d < ndim; d++)
        dims[d] = d;
    if (layout == LAYOUT_TURNED || layout == LAYOUT_BOTH)
        for (int d = ndim - 1; d > 0; d--) {
            int with = (int)rng_int(rng, 0, d), held = dims[d];

            dims[d] = dims[with];
            dims[with] = held;
        }
    for (int d = 0; d < ndim; d++)
        turned[dims[d]] = shape[d];
    if (layout == LAYOUT_SLICED || layout == LAYOUT_BOTH) {
        t = make_sliced(stream, dtype, ndim, turned, rng, &whole);
    } else {
        CHECK_OK(weir_tensor_empty(stream, dtype, ndim, turned, &t));
        whole = weir_tensor_retain(t);
    }
    CHECK_OK(weir_tensor_permute(t, dims, &view));
    replace(&t, view);
    if (base)
        *base = whole;
    else
        weir_tensor_release(whole);
    return t;
}

/* A dim along which all values repeat, or -1. */
static int repeated_dim(const struct array *a)
{
    for (int d = 0; d < a->ndim; d++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        bool repeats = a->shape[d] > 1 && array_numel(a) > 0;

        for (bool more = repeats; more && repeats; more = step_index(a->ndim, a->shape, index)) {
            int64_t first[WEIR_MAX_DIMS];

            memcpy(first, index, sizeof first);
            first[d] = 0;
            repeats = !memcmp(&a->at[array_place(a, a->ndim, index)],
                              &a->at[array_place(a, a->ndim, first)], sizeof *a->at);
        }
        if (repeats)
            return d;
    }
    return -1;
}

static void write_array(weir_tensor *t, const struct array *a)
{
    size_t size = (size_t)array_numel(a) * weir_dtype_size(a->dtype);
    void *bytes = malloc(size + 1);

    CHECK(bytes);
    encode(a->dtype, a->at, array_numel(a), bytes);
    CHECK_OK(weir_tensor_write(t, bytes, size));
    free(bytes);
}

weir_tensor *upload(weir_stream *stream, const struct array *a, enum layout layout, struct rng *rng)
{
    int repeats = layout == LAYOUT_EXPANDED ? repeated_dim(a) : -1;
    int64_t shape[WEIR_MAX_DIMS], index[WEIR_MAX_DIMS] = {0};
    struct array narrow;
    weir_tensor *t, *wide;

    if (repeats < 0) {
        t = make_view(stream, a->dtype, a->ndim, a->shape,
                      layout == LAYOUT_EXPANDED ? LAYOUT_SLICED : layout, rng, NULL);
        write_array(t, a);
        return t;
    }
    memcpy(shape, a->shape, sizeof shape);
    shape[repeats] = 1;
    array_init(&narrow, a->dtype, a->ndim, shape);
    do {
        narrow.at[array_place(&narrow, a->ndim, index)] = a->at[array_place(a, a->ndim, index)];
    } while (step_index(a->ndim, shape, index));
    t = make_view(stream, a->dtype, a->ndim, shape, LAYOUT_BOTH, rng, NULL);
    write_array(t, &narrow);
    array_free(&narrow);
    CHECK_OK(weir_tensor_expand(t, a->ndim, a->shape, &wide));
    replace(&t, wide);
    return t;
}

void *read_bytes(weir_tensor *t, size_t *size)
{
    size_t bytes = (size_t)weir_tensor_numel(t) * weir_dtype_size(weir_tensor_dtype(t));
    void *data = malloc(bytes + 1);

    CHECK(data);
    CHECK_OK(weir_tensor_read(t, data, bytes));
    if (size)
        *size = bytes;
    return data;
}

void check_same(weir_tensor *want, weir_tensor *got)
{
    size_t want_size, got_size;
    void *a = read_bytes(want, &want_size), *b = read_bytes(got, &got_size);

    CHECK_EQ(want_size, got_size);
    CHECK_MEM_EQ(b, a, want_size);
    free(a);
    free(b);
}

void download(weir_tensor *t, struct array *out)
{
    void *bytes = read_bytes(t, NULL);

    array_init(out, weir_tensor_dtype(t), weir_tensor_ndim(t), weir_tensor_shape(t));
    decode(out->dtype, bytes, array_numel(out), out->at);
    free(bytes);
}
