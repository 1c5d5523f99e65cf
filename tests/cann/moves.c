/* Operators that only move data take types that weir has no arithmetic for, and keep every bit. */
#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_ops.h"
#include "helpers.h"

#define PATTERNS 65536

static aclTensor *t_matrix(void *memory, aclDataType type, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = {rows, columns};
    aclTensor *t = aclCreateTensor(dims, 2, type, NULL, 0, ACL_FORMAT_ND, dims, 2, memory);

    CHECK(t != NULL);
    return t;
}

static void *t_upload(const void *data, size_t bytes)
{
    void *memory = t_device(bytes);

    CHECK_ACL(aclrtMemcpy(memory, bytes, data, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    return memory;
}

/* Both phases of an operator, and its end. */
#define RUN(name, ...)                                                              \
    do {                                                                            \
        aclOpExecutor *executor_;                                                   \
        uint64_t bytes_;                                                            \
        CHECK_ACL(aclnn##name##GetWorkspaceSize(__VA_ARGS__, &bytes_, &executor_)); \
        CHECK_ACL(aclnn##name(NULL, 0, executor_, NULL));                           \
        CHECK_ACL(aclrtSynchronizeStream(NULL));                                    \
    } while (0)

/* Every pattern of 16 bits, among them the signalling NaNs of a half. */
TEST(moves, every_bit_of_a_16_bit_integer_is_kept)
{
    static uint16_t all[PATTERNS], got[2 * PATTERNS];
    const int64_t swap[2] = {1, 0};
    aclIntArray *turned = aclCreateIntArray(swap, 2);
    aclTensor *x, *y, *pair[2];
    aclTensorList *both;
    void *in, *out;

    t_begin();
    for (int i = 0; i < PATTERNS; i++)
        all[i] = (uint16_t)i;
    in = t_upload(all, sizeof all);
    out = t_device(sizeof got);
    x = t_matrix(in, ACL_INT16, 256, 256);
    y = t_matrix(out, ACL_INT16, 256, 256);

    RUN(InplaceCopy, y, x);
    CHECK_ACL(aclrtMemcpy(got, sizeof all, out, sizeof all, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(got, all, sizeof all) == 0);

    RUN(Permute, x, turned, y);
    CHECK_ACL(aclrtMemcpy(got, sizeof all, out, sizeof all, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < PATTERNS; i++)
        CHECK_EQ(got[i], all[i % 256 * 256 + i / 256]);

    RUN(Flip, x, turned, y);
    CHECK_ACL(aclrtMemcpy(got, sizeof all, out, sizeof all, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < PATTERNS; i++)
        CHECK_EQ(got[i], all[PATTERNS - 1 - i]);

    pair[0] = x;
    pair[1] = t_matrix(in, ACL_INT16, 256, 256);
    both = aclCreateTensorList((const aclTensor *const *)pair, 2);
    aclDestroyTensor(y);
    y = t_matrix(out, ACL_INT16, 512, 256);
    RUN(Cat, both, 0, y);
    CHECK_ACL(aclrtMemcpy(got, sizeof got, out, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(got, all, sizeof all) == 0);
    CHECK(memcmp(got + PATTERNS, all, sizeof all) == 0);

    aclDestroyTensorList(both);
    aclDestroyTensor(y);
    aclDestroyIntArray(turned);
    t_end();
}

TEST(moves, a_type_that_weir_lacks_is_moved_and_never_converted)
{
    static const aclDataType lacking[] = {ACL_UINT32, ACL_UINT64, ACL_COMPLEX64};
    const uint64_t values[8] = {~0ull, 1, 1ull << 63, 0x7ff0000000000001, 0x7f800001, 6, 7, 8};
    aclOpExecutor *e = NULL;
    uint64_t bytes;
    void *in, *out;

    t_begin();
    in = t_upload(values, sizeof values);
    out = t_device(sizeof values);
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        aclTensor *x = t_matrix(in, lacking[i], 2, 4), *y = t_matrix(out, lacking[i], 2, 4),
                  *z = t_matrix(out, ACL_FLOAT, 2, 4);
        uint64_t got[8] = {0};
        size_t n = 8 * aclDataTypeSize(lacking[i]);

        test_note("type %d", (int)lacking[i]);
        RUN(InplaceCopy, y, x);
        CHECK_ACL(aclrtMemcpy(got, n, out, n, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK(memcmp(got, values, n) == 0);

        if (lacking[i] != ACL_COMPLEX64) { /* which is computed with by its parts */
            CHECK_EQ(aclnnInplaceCopyGetWorkspaceSize(z, x, &bytes, &e), ACLNN_ERR_PARAM_INVALID);
            CHECK_EQ(aclnnInplaceCopyGetWorkspaceSize(x, z, &bytes, &e), ACLNN_ERR_PARAM_INVALID);
            CHECK(strstr(aclGetRecentErrMsg(), "does not convert") != NULL);
            CHECK_EQ(aclnnNegGetWorkspaceSize(x, y, &bytes, &e), ACLNN_ERR_PARAM_INVALID);
        }
        CHECK_EQ(aclnnTanhGetWorkspaceSize(x, y, &bytes, &e), ACLNN_ERR_PARAM_INVALID);
        aclDestroyTensor(x);
        aclDestroyTensor(y);
        aclDestroyTensor(z);
    }
    t_end();
}

/* Weights keep their layout: their size is that of their elements, and turning them does nothing.
 */
TEST(moves, a_matrix_keeps_its_bytes_when_its_layout_is_asked_to_change)
{
    const int64_t dims[2] = {3, 5}, bad[2] = {3, -5};
    aclIntArray *shape = aclCreateIntArray(dims, 2), *broken = aclCreateIntArray(bad, 2);
    const float values[15] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uint64_t bytes = 0;
    float got[15];
    aclTensor *x;
    void *in;

    t_begin();
    CHECK_EQ(aclnnCalculateMatmulWeightSizeV2(shape, ACL_FLOAT16, &bytes), 0);
    CHECK_EQ(bytes, 30);
    CHECK_EQ(aclnnCalculateMatmulWeightSizeV2(broken, ACL_FLOAT16, &bytes),
             ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(aclnnCalculateMatmulWeightSizeV2(NULL, ACL_FLOAT16, &bytes), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(aclnnCalculateMatmulWeightSizeV2(shape, ACL_FLOAT16, NULL), ACLNN_ERR_PARAM_NULLPTR);
    in = t_upload(values, sizeof values);
    x = t_matrix(in, ACL_FLOAT, 3, 5);
    RUN(TransMatmulWeight, x);
    CHECK_ACL(aclrtMemcpy(got, sizeof got, in, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(got, values, sizeof got) == 0);
    aclDestroyTensor(x);
    aclDestroyIntArray(shape);
    aclDestroyIntArray(broken);
    t_end();
}

/* As llama.cpp gives them: [n, k] in memory and turned, two weights to a byte, the lower half
 * first. */
TEST(moves, weights_of_four_bits_are_multiplied)
{
    const int64_t turned[2] = {4, 2}, steps[2] = {1, 4}, storage = 8;
    const uint8_t weights[4] = {0x21, 0xf3, 0x80, 0x7f}; /* 1 2 3 -1, 0 -8 -1 7 */
    const float row[4] = {1, 10, 100, 1000}, one[2] = {1, 2};
    float got[2];
    aclTensor *x, *w, *scale, *y;
    void *out;

    t_begin();
    out = t_device(sizeof got);
    x = t_matrix(t_upload(row, sizeof row), ACL_FLOAT, 1, 4);
    scale = t_matrix(t_upload(one, sizeof one), ACL_FLOAT, 1, 2);
    y = t_matrix(out, ACL_FLOAT, 1, 2);
    w = aclCreateTensor(turned, 2, ACL_INT4, steps, 0, ACL_FORMAT_ND, &storage, 1,
                        t_upload(weights, sizeof weights));
    RUN(WeightQuantBatchMatmulV2, x, w, scale, NULL, NULL, NULL, NULL, 0, y);
    CHECK_ACL(aclrtMemcpy(got, sizeof got, out, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ((int)got[0], 1 + 20 + 300 - 1000);
    CHECK_EQ((int)got[1], 2 * (0 - 80 - 100 + 7000));
    aclDestroyTensor(x);
    aclDestroyTensor(w);
    aclDestroyTensor(scale);
    aclDestroyTensor(y);
    t_end();
}
