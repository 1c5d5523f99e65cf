/* Integer parameters at the ends of their range: every operator refuses them or does what they say,
 * by a call, as a node and from a file. What it must not do is for the sanitizers to see. */
#include "harness/test.h"
#include "ops/op.h"
#include "weir/weir.h"

#include <math.h>
#include <stdlib.h>

#define countof(a) (sizeof(a) / sizeof((a)[0]))

static const char spec[] = "cpu:cores=2,threads=1,memory=4m";

static const int64_t extremes[] = {INT64_MIN,           INT64_MIN + 1,
                                   -((int64_t)1 << 32), INT32_MIN - (int64_t)1,
                                   INT32_MIN,           -1,
                                   INT32_MAX,           INT32_MAX + (int64_t)1,
                                   (int64_t)1 << 32,    (int64_t)1 << 40,
                                   (int64_t)1 << 62,    INT64_MAX};

static uint64_t state = 88172645463325252u;

static uint64_t roll(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

static int64_t any_int(void)
{
    return roll(2) ? (int64_t)roll(4) : extremes[roll(countof(extremes))];
}

static void any_params(const struct weir__op *op, char *params)
{
    static const double reals[] = {0, 1, -1, 0.5, 1e30, -1e30};

    memset(params, 0, op->params_size);
    for (size_t f = 0; f < op->nfields; f++)
        for (size_t i = 0; i < op->fields[f].count; i++) {
            char *at = params + op->fields[f].offset;

            switch (op->fields[f].kind) {
            case WEIR__FIELD_INT:
                ((int64_t *)(void *)at)[i] = any_int();
                break;
            case WEIR__FIELD_FLOAT:
                ((double *)(void *)at)[i] = reals[roll(countof(reals))];
                break;
            case WEIR__FIELD_BOOL:
                ((bool *)at)[i] = roll(2);
                break;
            case WEIR__FIELD_DTYPE:
                ((weir_dtype *)(void *)at)[i] = (weir_dtype)roll(WEIR_DTYPE_COUNT);
                break;
            case WEIR__FIELD_STRING:
                break;
            }
        }
}

static weir_dtype any_type(void)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F32, WEIR_F64, WEIR_I64, WEIR_I32, WEIR_BOOL};

    return types[roll(countof(types))];
}

static int any_shape(int64_t *shape)
{
    int ndim = roll(3) ? 4 : (int)roll(4);

    for (int d = 0; d < ndim; d++)
        shape[d] = roll(12) ? 1 + (int64_t)roll(3) : 0;
    return ndim;
}

/* Those that meet others or call back need more than numbers. */
static bool is_plain(const struct weir__op *op)
{
    return op->nin_min && !(op->flags & WEIR__OP_COLLECTIVE) && strncmp(op->name, "HostCall", 8) &&
           strcmp(op->name, "Kernel");
}

static void try_call(weir_device *dev, const struct weir__op *op)
{
    _Alignas(max_align_t) char params[4096];
    weir_tensor *in[4] = {0}, *out[WEIR__OP_MAX_OUT] = {0};
    int nin = op->nin_min + (int)roll((uint64_t)(op->nin_max - op->nin_min) + 1);
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = any_shape(shape);
    weir_dtype type = any_type();

    nin = nin > 4 ? 4 : nin;
    for (int i = 0; i < nin; i++) {
        if (!roll(4))
            ndim = any_shape(shape);
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), roll(4) ? type : any_type(), ndim,
                                   shape, &in[i]));
        CHECK_OK(weir_fill(in[i], 0));
    }
    any_params(op, params);
    if (!weir__op_run(op, params, in, nin, out))
        for (int i = 0; i < op->nout; i++)
            weir_tensor_release(out[i]);
    for (int i = 0; i < nin; i++)
        weir_tensor_release(in[i]);
}

TEST_TIMEOUT(extremes, no_call_of_an_operator_accesses_memory_outside_its_operands, 120)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(spec, &dev));
    for (size_t k = 0; k < weir__op_count(); k++) {
        const struct weir__op *op = weir__op_at(k);

        if (!is_plain(op))
            continue;
        test_note("%s", op->name);
        for (int i = 0; i < 600 / TEST_SLOWDOWN; i++)
            try_call(dev, op);
        /* What an index out of range says is no concern here. */
        (void)weir_stream_sync(weir_stream_default(dev));
    }
    CHECK_OK(weir_device_close(dev));
}

/* ---- convolutions, whose numbers all work together ---- */

TEST_TIMEOUT(extremes, no_convolution_accesses_memory_outside_its_operands, 120)
{
    weir_device *dev;
    int ran = 0;

    CHECK_OK(weir_device_open(spec, &dev));
    for (int i = 0; i < 6000 / TEST_SLOWDOWN; i++) {
        weir_conv2d_options o = {.groups = roll(8) ? 1 : any_int()};
        int64_t side = 1 + (int64_t)roll(5), kernel = 1 + (int64_t)roll(3);
        weir_tensor *x, *weight, *out;

        for (int d = 0; d < 2; d++) {
            o.stride[d] = any_int();
            o.padding[d] = roll(3) ? (int64_t)roll(3) : any_int();
            o.dilation[d] = any_int();
        }
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 4,
                                   (int64_t[]){1, 2, side, side}, &x));
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 4,
                                   (int64_t[]){2, 2, kernel, kernel}, &weight));
        CHECK_OK(weir_fill(x, 1));
        CHECK_OK(weir_fill(weight, 1));
        if (!weir_conv2d(x, weight, NULL, &o, &out)) {
            ran++;
            weir_tensor_release(out);
        }
        weir_tensor_release(x);
        weir_tensor_release(weight);
    }
    CHECK_OK(weir_stream_sync(weir_stream_default(dev)));
    CHECK_GT(ran, 50);
    CHECK_OK(weir_device_close(dev));
}

TEST(extremes, a_convolution_with_a_stride_beyond_the_image_has_one_output)
{
    weir_conv2d_options o = {.stride = {INT32_MAX, INT32_MAX}};
    weir_tensor *x, *weight, *out;
    weir_device *dev;
    float got;

    CHECK_OK(weir_device_open(spec, &dev));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 4, (int64_t[]){1, 1, 4, 4}, &x));
    CHECK_OK(
        weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 4, (int64_t[]){1, 1, 2, 2}, &weight));
    CHECK_OK(weir_fill(x, 1));
    CHECK_OK(weir_fill(weight, 1));
    CHECK_OK(weir_conv2d(x, weight, NULL, &o, &out));
    CHECK_EQ(weir_tensor_numel(out), 1);
    CHECK_OK(weir_tensor_read(out, &got, sizeof got));
    CHECK_NEAR(got, 4, 0);
    weir_tensor_release(out);
    o.stride[0] = (int64_t)1 << 31;
    CHECK_STATUS(weir_conv2d(x, weight, NULL, &o, &out), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "stride 2147483648");
    weir_tensor_release(x);
    weir_tensor_release(weight);
    CHECK_OK(weir_device_close(dev));
}

TEST(extremes, an_expanded_tensor_has_a_size_that_can_be_counted)
{
    weir_tensor *x, *big, *out;
    weir_device *dev;
    int64_t n = 1;

    CHECK_OK(weir_device_open(spec, &dev));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_U8, 1, &n, &x));
    CHECK_STATUS(weir_tensor_expand(x, 2, (int64_t[]){INT64_MAX, 2}, &big), WEIR_ESHAPE);
    CHECK_STATUS(weir_tensor_expand(x, 3, (int64_t[]){INT64_MAX, 0, 3}, &big), WEIR_ESHAPE);
    CHECK_OK(weir_tensor_expand(x, 1, (int64_t[]){INT64_MAX}, &big));
    CHECK_EQ(weir_tensor_numel(big), INT64_MAX);
    CHECK_STATUS(weir_concat((weir_tensor *[]){big, big}, 2, 0, &out), WEIR_ESHAPE);
    weir_tensor_release(big);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

/* ---- the same from files ---- */

/* Puts an extreme in the place of one integer of the text; free the result. */
static char *mutate(const char *text)
{
    const char *places[256], *end;
    size_t n = 0, size = strlen(text) + 64;
    char *made = malloc(size);

    CHECK(made);
    for (const char *at = text; n < countof(places) && (at = strstr(at, " i: ")); at += 4)
        places[n++] = at + 4;
    if (!n) {
        snprintf(made, size, "%s", text);
        return made;
    }
    end = places[roll(n)];
    snprintf(made, size, "%.*s%lld", (int)(end - text), text,
             (long long)extremes[roll(countof(extremes))]);
    end += strspn(end, "-0123456789");
    snprintf(made + strlen(made), size - strlen(made), "%s", end);
    return made;
}

static char *make_text(weir_device *dev)
{
    weir_tensor *x, *w, *t[7];
    weir_graph *g;
    char *text;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 4, (int64_t[]){1, 2, 4, 4}, &x));
    CHECK_OK(weir_graph_input(g, "w", WEIR_F32, 4, (int64_t[]){2, 2, 3, 3}, &w));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_conv2d(
        x, w, NULL, &(weir_conv2d_options){.stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}},
        &t[0]));
    CHECK_OK(weir_topk(x, 2, 3, true, &t[1], &t[2]));
    CHECK_OK(weir_softmax(x, 2, &t[3]));
    CHECK_OK(weir_concat((weir_tensor *[]){x, x}, 2, 1, &t[4]));
    CHECK_OK(weir_sum(x, (int[]){1, 2}, 2, true, &t[5]));
    CHECK_OK(weir_tensor_slice(t[4], 1, 1, 4, 2, &t[6]));
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < 7; i++) {
        char name[] = "out0";

        name[3] += (char)i;
        CHECK_OK(weir_graph_output(g, name, t[i]));
        weir_tensor_release(t[i]);
    }
    weir_tensor_release(x);
    weir_tensor_release(w);
    CHECK((text = weir_graph_dump(g)));
    weir_graph_destroy(g);
    return text;
}

/* Runs it on zeros, if it is made for what it was made for. */
static void run_plan(weir_device *dev, weir_plan *plan)
{
    weir_tensor *in[2], *out[7] = {0};

    CHECK_OK(
        weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 4, (int64_t[]){1, 2, 4, 4}, &in[0]));
    CHECK_OK(
        weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 4, (int64_t[]){2, 2, 3, 3}, &in[1]));
    CHECK_OK(weir_fill(in[0], 0));
    CHECK_OK(weir_fill(in[1], 0));
    if (!weir_plan_run(plan, weir_stream_default(dev), in, 2, out, 7))
        CHECK_OK(weir_stream_sync(weir_stream_default(dev)));
    for (int i = 0; i < 7; i++)
        weir_tensor_release(out[i]);
    weir_tensor_release(in[0]);
    weir_tensor_release(in[1]);
}

TEST_TIMEOUT(extremes, no_file_makes_an_operator_access_memory_outside_its_operands, 120)
{
    weir_device *dev;
    char *text;

    CHECK_OK(weir_device_open(spec, &dev));
    text = make_text(dev);
    for (int i = 0; i < 2400 / TEST_SLOWDOWN; i++) {
        char *made = mutate(text);
        weir_plan *plan;
        weir_graph *g;

        test_note("%s", made);
        if (!weir_graph_load(dev, made, strlen(made), "extreme.pbtxt", &g)) {
            if (!weir_graph_compile(g, NULL, &plan)) {
                run_plan(dev, plan);
                weir_plan_destroy(plan);
            }
            weir_graph_destroy(g);
        }
        free(made);
    }
    free(text);
    CHECK_OK(weir_device_close(dev));
}
