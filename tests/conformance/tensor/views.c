/* Views, transfers and text, against an index model that knows no strides. */
#include "conformance/conformance.h"

#include <math.h>
#include <stdlib.h>

/* A view as the model sees it: for each of its elements, which of the base's it is. */
struct model {
    int ndim;
    int64_t shape[WEIR_MAX_DIMS];
    int64_t *source;
};

static int64_t count(int ndim, const int64_t *shape)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    return n;
}

static int64_t flat(int ndim, const int64_t *shape, const int64_t *index)
{
    int64_t place = 0;

    for (int d = 0; d < ndim; d++)
        place = place * shape[d] + index[d];
    return place;
}

/* The model of `ndim` dims whose element at `index` is the old one at map(index). */
typedef void map_fn(const struct model *old, const int64_t *index, const int64_t *how,
                    int64_t *from);

static void remap(struct model *m, int ndim, const int64_t *shape, map_fn *map, const int64_t *how)
{
    int64_t n = count(ndim, shape), index[WEIR_MAX_DIMS] = {0}, from[WEIR_MAX_DIMS];
    int64_t *source = malloc((size_t)(n + 1) * sizeof *source);

    CHECK(source);
    for (int64_t i = 0; i < n; i++, step_index(ndim, shape, index)) {
        map(m, index, how, from);
        source[i] = m->source[flat(m->ndim, m->shape, from)];
    }
    free(m->source);
    m->source = source;
    m->ndim = ndim;
    if (ndim)
        memcpy(m->shape, shape, (size_t)ndim * sizeof *shape);
}

/* how: dim, start, step */
static void map_slice(const struct model *old, const int64_t *index, const int64_t *how,
                      int64_t *from)
{
    memcpy(from, index, (size_t)old->ndim * sizeof *from);
    from[how[0]] = how[1] + index[how[0]] * how[2];
}

/* how: the old dim of each new one */
static void map_permute(const struct model *old, const int64_t *index, const int64_t *how,
                        int64_t *from)
{
    for (int d = 0; d < old->ndim; d++)
        from[how[d]] = index[d];
}

/* how: how many dims are new */
static void map_expand(const struct model *old, const int64_t *index, const int64_t *how,
                       int64_t *from)
{
    for (int d = 0; d < old->ndim; d++)
        from[d] = old->shape[d] == 1 ? 0 : index[how[0] + d];
}

static void random_slice(struct rng *rng, struct model *m, weir_tensor *t, weir_tensor **out)
{
    int dim = (int)rng_int(rng, 0, m->ndim - 1);
    int64_t size = m->shape[dim], start = rng_int(rng, -size - 2, size + 2);
    int64_t stop = rng_int(rng, -size - 2, size + 2), step = rng_int(rng, 1, 3);
    int64_t first = start < 0 ? start + size : start, last = stop < 0 ? stop + size : stop;
    int64_t shape[WEIR_MAX_DIMS];

    CHECK_OK(
        weir_tensor_slice(t, rng_chance(rng, 50) ? dim : dim - m->ndim, start, stop, step, out));
    first = first < 0 ? 0 : first > size ? size : first;
    last = last < first ? first : last > size ? size : last;
    memcpy(shape, m->shape, sizeof shape);
    shape[dim] = 0;
    for (int64_t i = first; i < last; i += step)
        shape[dim]++;
    remap(m, m->ndim, shape, map_slice, (int64_t[]){dim, first, step});
}

static void random_permute(struct rng *rng, struct model *m, weir_tensor *t, weir_tensor **out)
{
    int64_t how[WEIR_MAX_DIMS], shape[WEIR_MAX_DIMS];
    int dims[WEIR_MAX_DIMS], a = 0, b = 0;

    for (int d = 0; d < m->ndim; d++)
        how[d] = d;
    if (m->ndim && rng_chance(rng, 50)) {
        a = (int)rng_int(rng, 0, m->ndim - 1);
        b = (int)rng_int(rng, 0, m->ndim - 1);
        how[a] = b;
        how[b] = a;
        CHECK_OK(weir_tensor_transpose(t, a - m->ndim, b, out));
    } else {
        for (int d = m->ndim - 1; d > 0; d--) {
            int64_t with = rng_int(rng, 0, d), held = how[d];

            how[d] = how[with];
            how[with] = held;
        }
        for (int d = 0; d < m->ndim; d++)
            dims[d] = (int)how[d] - (rng_chance(rng, 30) ? m->ndim : 0);
        CHECK_OK(weir_tensor_permute(t, dims, out));
    }
    for (int d = 0; d < m->ndim; d++)
        shape[d] = m->shape[how[d]];
    remap(m, m->ndim, shape, map_permute, how);
}

static void random_expand(struct rng *rng, struct model *m, weir_tensor *t, weir_tensor **out)
{
    int lead = m->ndim < 6 ? (int)rng_int(rng, 0, 1) : 0, ndim = m->ndim + lead;
    int64_t shape[WEIR_MAX_DIMS], asked[WEIR_MAX_DIMS];

    for (int d = 0; d < ndim; d++) {
        bool grows = d < lead || m->shape[d - lead] == 1;

        shape[d] = grows ? rng_int(rng, 0, 3) : m->shape[d - lead];
        asked[d] = !grows && rng_chance(rng, 50) ? -1 : shape[d];
    }
    CHECK_OK(weir_tensor_expand(t, ndim, asked, out));
    remap(m, ndim, shape, map_expand, (int64_t[]){lead});
}

/* Into two factors or with two dims merged: fine, or refused with the way out named. */
static void random_reshape(struct rng *rng, struct model *m, weir_tensor *t, weir_tensor **out)
{
    int64_t shape[WEIR_MAX_DIMS], asked[WEIR_MAX_DIMS], n = count(m->ndim, m->shape);
    int ndim = 0;
    weir_status st;

    for (int d = 0; d < m->ndim; d++) {
        if (ndim + m->ndim - d < WEIR_MAX_DIMS && m->shape[d] % 2 == 0 && rng_chance(rng, 40)) {
            shape[ndim++] = 2;
            shape[ndim++] = m->shape[d] / 2;
        } else if (ndim && rng_chance(rng, 40)) {
            shape[ndim - 1] *= m->shape[d];
        } else {
            shape[ndim++] = m->shape[d];
        }
    }
    for (int d = 0; d < ndim; d++)
        asked[d] = shape[d];
    if (ndim && n)
        asked[rng_int(rng, 0, ndim - 1)] = -1;
    st = weir_tensor_reshape(t, ndim, asked, out);
    if (st) {
        CHECK_STATUS(st, WEIR_ESHAPE);
        CHECK(!weir_tensor_is_contiguous(t));
        CHECK_STR(weir_last_error(), "weir_contiguous");
        CHECK(!*out);
        *out = weir_tensor_retain(t);
    } else {
        m->ndim = ndim;
        memcpy(m->shape, shape, (size_t)ndim * sizeof *shape);
    }
}

static void check_model(const struct model *m, weir_tensor *t)
{
    struct array got;

    CHECK_EQ(weir_tensor_ndim(t), m->ndim);
    for (int d = 0; d < m->ndim; d++)
        CHECK_EQ(weir_tensor_shape(t)[d], m->shape[d]);
    CHECK_EQ(weir_tensor_numel(t), count(m->ndim, m->shape));
    download(t, &got);
    for (int64_t i = 0; i < array_numel(&got); i++)
        CHECK_EQ((int64_t)got.at[i], m->source[i]);
    array_free(&got);
}

/* Several elements of the view are one of the base. */
static bool overlaps_itself(const struct model *m)
{
    int64_t n = count(m->ndim, m->shape);

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            if (m->source[i] == m->source[j])
                return true;
    return false;
}

/* What is written through the view is in the base, and nothing else changes there. */
static void check_write(const struct model *m, weir_tensor *base, weir_tensor *view)
{
    int64_t n = count(m->ndim, m->shape);
    int32_t *values = malloc((size_t)(n + 1) * sizeof *values);
    struct array got;

    CHECK(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = (int32_t)(-1 - m->source[i]);
    CHECK_OK(weir_tensor_write(view, values, (size_t)n * sizeof *values));
    download(base, &got);
    for (int64_t i = 0; i < n; i++) {
        CHECK_EQ((int64_t)got.at[m->source[i]], -1 - m->source[i]);
        got.at[m->source[i]] = (double)m->source[i];
    }
    for (int64_t i = 0; i < array_numel(&got); i++)
        CHECK_EQ((int64_t)got.at[i], i);
    array_free(&got);
    free(values);
}

CONFORMANCE(views, chains_of_views_agree_with_the_index_model)
{
    static void (*const steps[])(struct rng *, struct model *, weir_tensor *, weir_tensor **) = {
        random_slice, random_permute, random_expand, random_reshape};

    for (uint64_t seed = 0; seed < 400 / TEST_SLOWDOWN; seed++) {
        struct rng rng = rng_make("views", seed);
        int64_t shape[4], n = 1;
        int ndim = (int)rng_int(&rng, 0, 4);
        struct model m = {.ndim = ndim};
        weir_tensor *base, *t;

        test_note("seed %llu", (unsigned long long)seed);
        for (int d = 0; d < ndim; d++)
            n *= shape[d] = m.shape[d] = rng_int(&rng, rng_chance(&rng, 3) ? 0 : 1, 6);
        CHECK_OK(weir_arange(weir_stream_default(dev), WEIR_I32, n, 0, 1, &t));
        CHECK_OK(weir_tensor_reshape(t, ndim, shape, &base));
        weir_tensor_release(t);
        t = weir_tensor_retain(base);
        CHECK((m.source = malloc((size_t)(n + 1) * sizeof *m.source)));
        for (int64_t i = 0; i < n; i++)
            m.source[i] = i;
        for (int step = 0; step < 5; step++) {
            int kind = (int)rng_int(&rng, m.ndim ? 0 : 1, 3);
            weir_tensor *next;

            steps[kind](&rng, &m, t, &next);
            weir_tensor_release(t);
            t = next;
            check_model(&m, t);
        }
        if (!overlaps_itself(&m))
            check_write(&m, base, t);
        free(m.source);
        weir_tensor_release(t);
        weir_tensor_release(base);
    }
}

CONFORMANCE(views, a_dim_of_size_one_is_added_and_dropped)
{
    int64_t shape[] = {2, 3};
    weir_tensor *t, *more, *back;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &t));
    for (int dim = 0; dim <= 2; dim++) {
        CHECK_OK(weir_tensor_unsqueeze(t, dim, &more));
        CHECK_EQ(weir_tensor_ndim(more), 3);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(weir_tensor_shape(more)[i], i == dim ? 1 : shape[i - (i > dim)]);
        CHECK_OK(weir_tensor_squeeze(more, dim - 3, &back));
        CHECK_EQ(weir_tensor_ndim(back), 2);
        CHECK(!memcmp(weir_tensor_shape(back), shape, sizeof shape));
        CHECK(weir_tensor_is_contiguous(back));
        weir_tensor_release(back);
        weir_tensor_release(more);
    }
    weir_tensor_release(t);
}

CONFORMANCE(views, wrong_ones_are_refused_with_both_sides)
{
    int64_t shape[] = {2, 3};
    weir_tensor *t, *out;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &t));
#define REFUSED(call, code, part)           \
    do {                                    \
        out = t;                            \
        CHECK_STATUS(call, code);           \
        CHECK(!out);                        \
        CHECK_STR(weir_last_error(), part); \
    } while (0)
    REFUSED(weir_tensor_slice(t, 2, 0, 1, 1, &out), WEIR_ERANGE, "[2, 3]");
    REFUSED(weir_tensor_slice(t, 0, 0, 1, 0, &out), WEIR_EINVAL, "0");
    REFUSED(weir_tensor_transpose(t, 0, -3, &out), WEIR_ERANGE, "-3");
    REFUSED(weir_tensor_permute(t, (int[]){0, 0}, &out), WEIR_EINVAL, "0");
    REFUSED(weir_tensor_squeeze(t, 1, &out), WEIR_ESHAPE, "[2, 3]");
    REFUSED(weir_tensor_squeeze(t, 2, &out), WEIR_ERANGE, "[2, 3]");
    REFUSED(weir_tensor_unsqueeze(t, 3, &out), WEIR_ERANGE, "[2, 3]");
    REFUSED(weir_tensor_reshape(t, 1, (int64_t[]){7}, &out), WEIR_ESHAPE, "[7]");
    REFUSED(weir_tensor_reshape(t, 2, (int64_t[]){-1, -1}, &out), WEIR_ESHAPE, "-1");
    REFUSED(weir_tensor_reshape(t, 2, (int64_t[]){-1, 4}, &out), WEIR_ESHAPE, "[2, 3]");
    REFUSED(weir_tensor_expand(t, 2, (int64_t[]){2, 4}, &out), WEIR_ESHAPE, "[2, 4]");
    REFUSED(weir_tensor_expand(t, 1, (int64_t[]){3}, &out), WEIR_ESHAPE, "[2, 3]");
    REFUSED(weir_tensor_empty(NULL, WEIR_F32, 1, (int64_t[]){-2}, &out), WEIR_ESHAPE, "-2");
    REFUSED(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 9, (int64_t[9]){1}, &out),
            WEIR_ESHAPE, "9");
    REFUSED(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){INT64_MAX / 2, 8},
                              &out),
            WEIR_ESHAPE, "");
#undef REFUSED
    CHECK_STATUS(weir_tensor_write(t, shape, 5), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "24");
    CHECK_STR(weir_last_error(), "5");
    weir_tensor_release(t);
}

CONFORMANCE(views, types_have_their_names_and_sizes)
{
    (void)dev;
#define ROW(name, bytes, text)                        \
    CHECK_STR_EQ(weir_dtype_name(WEIR_##name), text); \
    CHECK_EQ(weir_dtype_size(WEIR_##name), bytes);
    WEIR_DTYPE_LIST(ROW)
#undef ROW
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        CHECK_EQ(weir_dtype_is_float((weir_dtype)t), t <= WEIR_F64);
}
