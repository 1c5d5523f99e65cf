/* Every operator gives the same bits under any core limit, on any stream, every time. */
#include "conformance/ops/opcases.h"

#include <stdlib.h>

enum { CROWD = 6 }; /* streams at once */

struct result {
    void *bytes[CALL_OUTPUTS];
    size_t size[CALL_OUTPUTS];
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Puts the call on every stream, each with its own limit, then reads what they give. */
static void run_crowd(const struct call *c, weir_stream *const *streams, const int *limits,
                      struct result *results)
{
    weir_tensor *in[CROWD][CALL_INPUTS], *out[CROWD][CALL_OUTPUTS] = {{NULL}};
    weir_device_props props;

    weir_device_get_props(weir_stream_device(streams[0]), &props, sizeof props);
    for (int k = 0; k < CROWD; k++) {
        CHECK_OK(weir_stream_set_current(streams[k]));
        CHECK_OK(weir_stream_set_limit(streams[k],
                                       (weir_cores){smaller(limits[k], props.cores.cube),
                                                    smaller(limits[k], props.cores.vector)}));
        call_upload(c, streams[k], in[k]);
    }
    for (int k = 0; k < CROWD; k++) {
        CHECK_OK(weir_stream_set_current(streams[k]));
        CHECK_OK(c->op->run(c, in[k], out[k]));
    }
    for (int k = 0; k < CROWD; k++) {
        CHECK_OK(weir_stream_set_current(streams[k]));
        for (int i = 0; i < c->nout; i++)
            results[k].bytes[i] =
                read_bytes(c->op->flags & OP_IN_PLACE ? in[k][0] : out[k][i], &results[k].size[i]);
        call_release(c->nin, in[k]);
        call_release(CALL_OUTPUTS, out[k]);
    }
}

/* Which threads meet does not depend on the type: where they are watched, the smallest and the
 * largest number of the operator's types are enough. */
static bool is_tried(unsigned types, int type)
{
    bool has = types & 1u << type;

    return has && (!TEST_THREADS_WATCHED || !(types >> type >> 1) || !(types & ((1u << type) - 1)));
}

static void check_same_bits(weir_device *dev, const char *name)
{
    static const int limits[CROWD] = {1, 2, 3, 7, 1 << 20, 1 << 20};
    const struct op_case *op = op_case_find(name);
    weir_stream *streams[CROWD];
    weir_device_props props;

    weir_device_get_props(dev, &props, sizeof props);
    if (props.cores.cube == 1 && props.cores.vector == 1)
        SKIP("every limit of one core is the same");

    for (int k = 0; k < CROWD; k++)
        streams[k] = new_stream(dev);
    for (int type = 0; type < WEIR_DTYPE_COUNT; type++)
        for (uint64_t salt = 0; salt < 1 + repeats(dev, 3) && is_tried(op->types, type); salt++) {
            struct result results[CROWD] = {{.size = {0}}};
            struct call c;

            call_make(&c, op, (weir_dtype)type, 1000 + salt, salt % 2 ? 25000 : 80000);
            run_crowd(&c, streams, limits, results);
            for (int k = CROWD - 1; k >= 0; k--)
                for (int i = 0; i < c.nout; i++) {
                    test_note("%s %s, salt %llu: %d cores against 1", name,
                              weir_dtype_name((weir_dtype)type), (unsigned long long)salt,
                              limits[k]);
                    CHECK_EQ(results[k].size[i], results[0].size[i]);
                    CHECK_MEM_EQ(results[k].bytes[i], results[0].bytes[i], results[k].size[i]);
                    free(results[k].bytes[i]);
                }
            call_free(&c);
        }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int k = 0; k < CROWD; k++)
        CHECK_OK(weir_stream_destroy(streams[k]));
}

#define BITS_CASE(name)              \
    CONFORMANCE(bits, name)          \
    {                                \
        check_same_bits(dev, #name); \
    }
OP_CASES(BITS_CASE)

/* Its keys are cut into parts, whatever the limit. */
CONFORMANCE(bits, attention_of_one_query_to_a_long_cache)
{
    static const int limits[] = {1, 2, 7};
    const weir_attention_options options = {0};
    weir_device_props props;
    weir_tensor *q, *k, *out;
    void *first = NULL, *bytes;
    size_t size;

    weir_device_get_props(dev, &props, sizeof props);
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 3, (int64_t[]){4, 1, 32}, &q));
    CHECK_OK(
        weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 3, (int64_t[]){2, 5000, 32}, &k));
    CHECK_OK(weir_random_normal(q, 1, 0, 1));
    CHECK_OK(weir_random_normal(k, 2, 0, 1));
    for (size_t i = 0; i < countof(limits); i++) {
        CHECK_OK(weir_stream_set_limit(weir_stream_default(dev),
                                       (weir_cores){smaller(limits[i], props.cores.cube),
                                                    smaller(limits[i], props.cores.vector)}));
        CHECK_OK(weir_attention(q, k, k, NULL, &options, &out));
        bytes = read_bytes(out, &size);
        test_note("%d cores against 1", limits[i]);
        if (first)
            CHECK_MEM_EQ(bytes, first, size);
        else
            first = bytes;
        if (bytes != first)
            free(bytes);
        weir_tensor_release(out);
    }
    free(first);
    weir_tensor_release(q);
    weir_tensor_release(k);
}

/* Cut for more cores, it has other blocks and a finely cut rest. */
CONFORMANCE(bits, large_product)
{
    static const int limits[] = {1, 2, 5, 1 << 20};
    const int64_t n = 400, k = 1000;
    weir_tensor *a, *b, *out;
    weir_device_props props;
    void *first = NULL;
    size_t size;

    weir_device_get_props(dev, &props, sizeof props);
    if (!(props.features & WEIR_FEATURE_HOST_MEMORY))
        SKIP("the library of products chooses other algorithms for other cores");
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){n, k}, &a));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){k, n}, &b));
    CHECK_OK(weir_random_normal(a, 1, 0, 1));
    CHECK_OK(weir_random_normal(b, 2, 0, 1));
    for (size_t i = 0; i < countof(limits); i++) {
        void *bytes;

        CHECK_OK(weir_stream_set_limit(weir_stream_default(dev),
                                       (weir_cores){smaller(limits[i], props.cores.cube),
                                                    smaller(limits[i], props.cores.vector)}));
        CHECK_OK(weir_matmul(a, b, &out));
        bytes = read_bytes(out, &size);
        test_note("%d cores against 1", limits[i]);
        if (first)
            CHECK_MEM_EQ(bytes, first, size);
        weir_tensor_release(out);
        free(first);
        first = bytes;
    }
    free(first);
    weir_tensor_release(a);
    weir_tensor_release(b);
}
