/* Every operator against its reference, on random shapes, layouts and types. */
#include "conformance/ops/opcases.h"

#include <math.h>
#include <stdlib.h>

/* How far a result may be off: `relative` to its value for rounding it into its
 * type, and `unit` for each rounding on the way, times what was added up. Half
 * types compute in f32. Integers are exact. */
static const struct {
    double relative, unit, least;
} tolerances[WEIR_DTYPE_COUNT] = {
    [WEIR_F32] = {1e-6, 0x1p-23, 1e-37},
    [WEIR_F16] = {1e-3, 0x1p-23, 1e-7},
    [WEIR_BF16] = {8e-3, 0x1p-23, 1e-37},
    [WEIR_F64] = {1e-14, 0x1p-52, 1e-300},
};

/* Errors of independent roundings grow with the root of their number; 4 roots of
 * it are never seen by chance. */
static double tolerance(const struct call *c, const struct array *want, int64_t i)
{
    double reach = want->reach ? want->reach[i] : fabs(want->at[i]);
    double unit =
        c->op->flags & OP_ROUNDS ? tolerances[want->dtype].relative : tolerances[want->dtype].unit;

    if (!weir_dtype_is_float(want->dtype) || c->op->flags & OP_EXACT)
        return 0;
    return tolerances[want->dtype].relative * fabs(want->at[i]) +
           unit * reach * 4 * sqrt(c->terms + 1) + tolerances[want->dtype].least;
}

static void check_result(const struct call *c, const struct array *want, weir_tensor *t)
{
    struct array got;

    CHECK_EQ(weir_tensor_dtype(t), want->dtype);
    CHECK_EQ(weir_tensor_ndim(t), want->ndim);
    for (int d = 0; d < want->ndim; d++)
        CHECK_EQ(weir_tensor_shape(t)[d], want->shape[d]);
    download(t, &got);
    for (int64_t i = 0; i < array_numel(want); i++) {
        double y = got.at[i], x = round_to(want->dtype, want->at[i]);

        if (isnan(x) ? !isnan(y) : isinf(x) ? y != x : !(fabs(y - x) <= tolerance(c, want, i)))
            FAIL("element %lld of %lld is %.17g, not %.17g (within %.3g)", (long long)i,
                 (long long)array_numel(want), y, x, tolerance(c, want, i));
    }
    array_free(&got);
}

static void check_unchanged(const struct call *c, weir_tensor *const *in)
{
    for (int i = c->op->flags & OP_IN_PLACE ? 1 : 0; i < c->nin; i++) {
        struct array now;

        if (!in[i])
            continue;
        download(in[i], &now);
        for (int64_t j = 0; j < array_numel(&now); j++)
            if (isnan(now.at[j]) ? !isnan(c->in[i].at[j]) : now.at[j] != c->in[i].at[j])
                FAIL("element %lld of input %d was %g and is now %g", (long long)j, i,
                     c->in[i].at[j], now.at[j]);
        array_free(&now);
    }
}

/* Into a view of a larger tensor: nothing beside the view may change. */
static void check_into(struct call *c, weir_stream *stream, weir_tensor *const *in)
{
    const struct array *want = &c->out[0];
    enum layout layout = (enum layout)rng_int(&c->rng, LAYOUT_PLAIN, LAYOUT_BOTH);
    weir_tensor *base,
        *out = make_view(stream, want->dtype, want->ndim, want->shape, layout, &c->rng, &base);
    size_t size, view_size;
    void *before, *view, *after;

    CHECK_OK(weir_fill(base, 1));
    before = read_bytes(base, &size);
    view = read_bytes(out, &view_size);
    CHECK_OK(c->op->run_into(c, in, out));
    check_result(c, want, out);
    CHECK_OK(weir_tensor_write(out, view, view_size));
    after = read_bytes(base, NULL);
    CHECK_MEM_EQ(after, before, size);
    free(before);
    free(view);
    free(after);
    weir_tensor_release(out);
    weir_tensor_release(base);
}

static bool is_expanded(const weir_tensor *t)
{
    for (int d = 0; d < weir_tensor_ndim(t); d++)
        if (weir_tensor_strides(t)[d] == 0 && weir_tensor_shape(t)[d] > 1)
            return true;
    return false;
}

/* Onto each input that has the output's shape and type. Matrix products cannot. */
static void check_in_place(struct call *c, weir_stream *stream)
{
    for (int i = 0; i < c->nin; i++) {
        weir_tensor *in[CALL_INPUTS];

        if (!c->in[i].at || c->in[i].dtype != c->out[0].dtype || !same_shape(&c->in[i], &c->out[0]))
            continue;
        call_upload(c, stream, in);
        if (!is_expanded(in[i])) {
            CHECK_OK(c->op->run_into(c, in, in[i]));
            check_result(c, &c->out[0], in[i]);
        }
        call_release(c->nin, in);
    }
}

static void check_call(struct call *c, weir_stream *stream)
{
    weir_tensor *in[CALL_INPUTS], *out[CALL_OUTPUTS] = {NULL};

    c->op->reference(c);
    call_upload(c, stream, in);
    CHECK_OK(c->op->run(c, in, out));
    for (int i = 0; i < c->nout; i++)
        check_result(c, &c->out[i], c->op->flags & OP_IN_PLACE ? in[0] : out[i]);
    check_unchanged(c, in);
    if (c->op->run_into) {
        check_into(c, stream, in);
        if (c->op->unary || c->op->binary || c->op->scalar)
            check_in_place(c, stream);
    }
    call_release(c->nin, in);
    call_release(CALL_OUTPUTS, out);
}

static void describe(const struct call *c, weir_dtype dtype, uint64_t salt)
{
    char text[400];
    size_t n = 0;

    for (int i = 0; i < c->nin; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, " %s[",
                              c->in[i].at ? weir_dtype_name(c->in[i].dtype) : "none");
        for (int d = 0; d < c->in[i].ndim && n < sizeof text - 40; d++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", d ? ", " : "",
                                  (long long)c->in[i].shape[d]);
        n += (size_t)snprintf(text + n, sizeof text - n, "]");
    }
    test_note("%s %s, salt %llu:%s; whole %lld %lld %lld, real %g %g, flag %d", c->op->name,
              weir_dtype_name(dtype), (unsigned long long)salt, text, (long long)c->whole[0],
              (long long)c->whole[1], (long long)c->whole[2], c->real[0], c->real[1], c->flag[0]);
}

/* On the fake GPU an operator has a quarter of its types, one at least, and not each the same. */
static bool is_left_out(weir_device *dev, const struct op_case *op, int type)
{
    size_t n = (size_t)__builtin_popcount(op->types), every = n < 4 ? n : 4;
    size_t at = (size_t)__builtin_popcount(op->types & ((1u << type) - 1));

    return is_fake(dev) && at % every != strlen(op->name) % every;
}

static void check_op(weir_device *dev, const char *name)
{
    const struct op_case *op = op_case_find(name);
    weir_stream *s = new_stream(dev);

    if (op->flags & OP_NO_VALUES)
        SKIP("its values are checked in the suite `random`");
    CHECK_OK(weir_stream_set_current(s));
    for (int type = 0; type < WEIR_DTYPE_COUNT; type++)
        for (uint64_t salt = 0;
             salt < 1 + repeats(dev, 17) && op->types & 1u << type && !is_left_out(dev, op, type);
             salt++) {
            static const int64_t budgets[] = {1000, 60, 8, 4000, 200, 20000};
            struct call c;

            call_make(&c, op, (weir_dtype)type, salt, budgets[salt % countof(budgets)]);
            describe(&c, (weir_dtype)type, salt);
            check_call(&c, s);
            call_free(&c);
        }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
}

#define VALUES_CASE(name)     \
    CONFORMANCE(values, name) \
    {                         \
        check_op(dev, #name); \
    }
OP_CASES(VALUES_CASE)
