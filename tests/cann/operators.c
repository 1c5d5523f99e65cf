/* The operators' own rules, for every row of the table: NULLs, garbage, objects, executors,
 * captures. Their values are held against PyTorch's in tests/cann/opapi. */
#include <math.h>
#include <pthread.h>

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_ops.h"
#include "helpers.h"

static aclTensor *t_tensor(void *memory, int64_t n)
{
    aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &n, 1, memory);

    CHECK(t != NULL);
    return t;
}

static aclScalar *t_scalar(float value)
{
    aclScalar *s = aclCreateScalar(&value, ACL_FLOAT);

    CHECK(s != NULL);
    return s;
}

static float *t_floats(int64_t n, float first)
{
    float values[64], *memory = t_device((size_t)n * sizeof *values);

    for (int i = 0; i < n; i++)
        values[i] = first + (float)i;
    CHECK_ACL(aclrtMemcpy(memory, (size_t)n * sizeof *values, values, (size_t)n * sizeof *values,
                          ACL_MEMCPY_HOST_TO_DEVICE));
    return memory;
}

static float t_float(const float *address)
{
    float value;

    CHECK_ACL(aclrtMemcpy(&value, sizeof value, address, sizeof value, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

/* An operand of each letter, all of them objects of one kind that is never right, or NULL. */
#define ZERO_T(name) (void *)wrong,
#define ZERO_TQ ZERO_T
#define ZERO_O ZERO_T
#define ZERO_OQ ZERO_T
#define ZERO_X ZERO_T
#define ZERO_XQ ZERO_T
#define ZERO_L ZERO_T
#define ZERO_LQ ZERO_T
#define ZERO_M ZERO_T
#define ZERO_MQ ZERO_T
#define ZERO_S ZERO_T
#define ZERO_SQ ZERO_T
#define ZERO_Z ZERO_T
#define ZERO_N ZERO_T
#define ZERO_NQ ZERO_T
#define ZERO_D ZERO_T
#define ZERO_A ZERO_T
#define ZERO_AQ ZERO_T
#define ZERO_C(name) wrong ? "x" : NULL,
#define ZERO_CQ ZERO_C
#define ZERO_I(name) 0,
#define ZERO_J ZERO_I
#define ZERO_K ZERO_I
#define ZERO_B ZERO_I
#define ZERO_F ZERO_I
#define ZERO_G ZERO_I
#define ZERO_Y(name) ACL_FLOAT,
#define ZERO(operand) ZERO_##operand

TEST(operators, refuses_null_operands_and_names_the_operator)
{
    void *wrong = NULL;
    int n = 0;

    t_begin();
#define WEIR_ACLNN_ROW(name, run, types, ...)                                                   \
    {                                                                                           \
        aclOpExecutor *executor = NULL;                                                         \
        uint64_t bytes = 5;                                                                     \
        test_note("aclnn" #name);                                                               \
        CHECK_EQ(aclnn##name##GetWorkspaceSize(WEIR_MAP(ZERO, __VA_ARGS__) & bytes, &executor), \
                 ACLNN_ERR_PARAM_NULLPTR);                                                      \
        CHECK(strstr(aclGetRecentErrMsg(), "aclnn" #name ":") != NULL);                         \
        CHECK_EQ(aclnn##name##GetWorkspaceSize(WEIR_MAP(ZERO, __VA_ARGS__) NULL, &executor),    \
                 ACLNN_ERR_PARAM_NULLPTR);                                                      \
        CHECK_EQ(aclnn##name##GetWorkspaceSize(WEIR_MAP(ZERO, __VA_ARGS__) & bytes, NULL),      \
                 ACLNN_ERR_PARAM_NULLPTR);                                                      \
        CHECK_EQ(aclnn##name(NULL, 0, NULL, NULL), ACLNN_ERR_PARAM_NULLPTR);                    \
        n++;                                                                                    \
    }
#include "aclnnop/rows.h"
#undef WEIR_ACLNN_ROW
    CHECK(n >= 250);
    t_end();
}

TEST(operators, refuses_objects_of_another_kind)
{
    /* what looks like an object and is none of those that operators take */
    _Alignas(16) char garbage[512] = {1, 2, 3, 4};
    char *wrong = garbage;

    t_begin();
#define WEIR_ACLNN_ROW(name, run, types, ...)                                                   \
    {                                                                                           \
        aclOpExecutor *executor = NULL;                                                         \
        uint64_t bytes = 5;                                                                     \
        test_note("aclnn" #name);                                                               \
        CHECK_EQ(aclnn##name##GetWorkspaceSize(WEIR_MAP(ZERO, __VA_ARGS__) & bytes, &executor), \
                 ACLNN_ERR_PARAM_INVALID);                                                      \
        CHECK(executor == NULL);                                                                \
        CHECK_EQ(aclnn##name(NULL, 0, (aclOpExecutor *)(void *)wrong, NULL),                    \
                 ACLNN_ERR_PARAM_INVALID);                                                      \
    }
#include "aclnnop/rows.h"
#undef WEIR_ACLNN_ROW
    t_end();
}

TEST(operators, tensors_return_their_properties)
{
    const int64_t dims[] = {2, 3}, strides[] = {1, 4}, storage[] = {20};
    int64_t *got, offset;
    aclFormat format;
    aclDataType type;
    void *address;
    aclTensor *t;
    uint64_t n;

    t_begin();
    CHECK_ACL(aclnnInit(NULL));
    t = aclCreateTensor(dims, 2, ACL_BF16, strides, 5, ACL_FORMAT_NCHW, storage, 1, (void *)64);
    CHECK(t != NULL);
    CHECK_EQ(aclGetViewShape(t, &got, &n), 0);
    CHECK_EQ(n, 2);
    CHECK_EQ(got[1], 3);
    free(got);
    CHECK_EQ(aclGetViewStrides(t, &got, &n), 0);
    CHECK_EQ(got[1], 4);
    free(got);
    CHECK_EQ(aclGetStorageShape(t, &got, &n), 0);
    CHECK_EQ(n, 1);
    CHECK_EQ(got[0], 20);
    free(got);
    CHECK_EQ(aclGetViewOffset(t, &offset), 0);
    CHECK_EQ(offset, 5);
    CHECK_EQ(aclGetFormat(t, &format), 0);
    CHECK_EQ(format, ACL_FORMAT_NCHW);
    CHECK_EQ(aclGetDataType(t, &type), 0);
    CHECK_EQ(type, ACL_BF16);
    CHECK_EQ(aclSetRawTensorAddr(t, (void *)128), 0);
    CHECK_EQ(aclGetRawTensorAddr(t, &address), 0);
    CHECK_PTR_EQ(address, (void *)128);
    CHECK_EQ(aclInitTensor(t, dims, 1, ACL_INT8, NULL, 0, ACL_FORMAT_ND, storage, 1, NULL), 0);
    CHECK_EQ(aclGetViewStrides(t, &got, &n), 0);
    CHECK_EQ(n, 1);
    CHECK_EQ(got[0], 1);
    free(got);
    CHECK_EQ(aclGetViewShape(NULL, &got, &n), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(aclGetDataType(t, NULL), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(aclDestroyTensor(t), 0);
    CHECK_EQ(aclDestroyTensor(NULL), 0);
    CHECK(aclCreateTensor(dims, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 2, NULL) == NULL);
    CHECK_ACL(aclnnFinalize());
    t_end();
}

TEST(operators, arrays_and_lists_return_their_sizes)
{
    const int64_t ints[] = {7, 8};
    const float floats[] = {1.5f};
    const bool bools[] = {true, false, true};
    const aclTensor *both[2];
    const aclScalar *one[1];
    aclScalarList *scalars;
    aclTensorList *list;
    aclFloatArray *f;
    aclBoolArray *b;
    aclIntArray *a;
    uint64_t n;

    t_begin();
    CHECK_ACL(aclnnInit(NULL));
    a = aclCreateIntArray(ints, 2);
    f = aclCreateFloatArray(floats, 1);
    b = aclCreateBoolArray(bools, 3);
    CHECK_EQ(aclGetIntArraySize(a, &n), 0);
    CHECK_EQ(n, 2);
    CHECK_EQ(aclGetFloatArraySize(f, &n), 0);
    CHECK_EQ(n, 1);
    CHECK_EQ(aclGetBoolArraySize(b, &n), 0);
    CHECK_EQ(n, 3);
    CHECK_EQ(aclGetIntArraySize((aclIntArray *)(void *)b, &n), ACLNN_ERR_PARAM_INVALID);
    both[0] = t_tensor(NULL, 2);
    both[1] = t_tensor(NULL, 3);
    list = aclCreateTensorList(both, 2); /* takes them over */
    CHECK_EQ(aclGetTensorListSize(list, &n), 0);
    CHECK_EQ(n, 2);
    one[0] = t_scalar(2);
    scalars = aclCreateScalarList(one, 1);
    CHECK_EQ(aclGetScalarListSize(scalars, &n), 0);
    CHECK_EQ(n, 1);
    CHECK_EQ(aclDestroyTensorList(list), 0);
    CHECK_EQ(aclDestroyScalarList(scalars), 0);
    CHECK_EQ(aclDestroyIntArray(a), 0);
    CHECK_EQ(aclDestroyFloatArray(f), 0);
    CHECK_EQ(aclDestroyBoolArray(b), 0);
    CHECK(aclCreateScalar(NULL, ACL_FLOAT) == NULL);
    CHECK(aclCreateIntArray(NULL, 3) == NULL);
    CHECK_ACL(aclnnFinalize());
    t_end();
}

TEST(operators, objects_may_be_destroyed_between_the_phases)
{
    float *x, *y, *z;
    aclTensor *tx, *ty, *tz;
    aclScalar *alpha;
    aclOpExecutor *executor;
    uint64_t bytes;

    t_begin();
    x = t_floats(4, 1), y = t_floats(4, 10), z = t_floats(4, 0);
    tx = t_tensor(x, 4), ty = t_tensor(y, 4), tz = t_tensor(z, 4), alpha = t_scalar(2);
    CHECK_EQ(aclnnAddGetWorkspaceSize(tx, ty, alpha, tz, &bytes, &executor), 0);
    CHECK_EQ(bytes, 0);
    CHECK_EQ(aclDestroyTensor(tx), 0);
    CHECK_EQ(aclDestroyTensor(ty), 0);
    CHECK_EQ(aclDestroyTensor(tz), 0);
    CHECK_EQ(aclDestroyScalar(alpha), 0);
    CHECK_EQ(aclnnSub(NULL, 0, executor, NULL), ACLNN_ERR_PARAM_INVALID); /* another operator's */
    CHECK_EQ(aclnnAdd(NULL, 0, executor, NULL), 0);
    CHECK_ACL(aclrtSynchronizeStream(NULL));
    CHECK_NEAR(t_float(z + 3), 4 + 2 * 13, 0);
    t_end();
}

TEST(operators, repeatable_executors_run_again_on_other_addresses)
{
    float *x, *y, *z;
    aclTensor *tx, *ty, *tz;
    aclScalar *alpha;
    aclOpExecutor *executor;
    uint64_t bytes;

    t_begin();
    x = t_floats(4, 1), y = t_floats(4, 10), z = t_floats(4, 0);
    tx = t_tensor(x, 4), ty = t_tensor(y, 4), tz = t_tensor(z, 4), alpha = t_scalar(1);
    CHECK_EQ(aclnnAddGetWorkspaceSize(tx, ty, alpha, tz, &bytes, &executor), 0);
    CHECK_EQ(aclSetAclOpExecutorRepeatable(executor), 0);
    CHECK_EQ(aclnnAdd(NULL, 0, executor, NULL), 0);
    CHECK_ACL(aclrtSynchronizeStream(NULL));
    CHECK_NEAR(t_float(z), 11, 0);
    CHECK_EQ(aclSetInputTensorAddr(executor, 1, ty, x), 0);
    CHECK_EQ(aclSetOutputTensorAddr(executor, 0, tz, y), 0);
    CHECK_EQ(aclnnAdd(NULL, 0, executor, NULL), 0);
    CHECK_ACL(aclrtSynchronizeStream(NULL));
    CHECK_NEAR(t_float(y), 2, 0);
    CHECK_EQ(aclSetTensorAddr(executor, 3, tx, x), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(aclDestroyAclOpExecutor(executor), 0);
    CHECK_EQ(aclDestroyAclOpExecutor(NULL), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(aclDestroyTensor(tx), 0);
    CHECK_EQ(aclDestroyTensor(ty), 0);
    CHECK_EQ(aclDestroyTensor(tz), 0);
    CHECK_EQ(aclDestroyScalar(alpha), 0);
    t_end();
}

/* z = sin(x + y), of which one is weir's operator and one a function on the host. */
static void t_chain(float *x, float *y, float *z, aclrtStream s)
{
    aclTensor *tx = t_tensor(x, 4), *ty = t_tensor(y, 4), *tz = t_tensor(z, 4);
    aclScalar *one = t_scalar(1);
    aclOpExecutor *executor;
    uint64_t bytes;

    CHECK_EQ(aclnnAddGetWorkspaceSize(tx, ty, one, tz, &bytes, &executor), 0);
    CHECK_EQ(aclnnAdd(NULL, 0, executor, s), 0);
    CHECK_EQ(aclnnInplaceSinGetWorkspaceSize(tz, &bytes, &executor), 0);
    CHECK_EQ(aclnnInplaceSin(NULL, 0, executor, s), 0);
    CHECK_EQ(aclDestroyTensor(tx), 0);
    CHECK_EQ(aclDestroyTensor(ty), 0);
    CHECK_EQ(aclDestroyTensor(tz), 0);
    CHECK_EQ(aclDestroyScalar(one), 0);
}

TEST(operators, captured_operators_follow_new_inputs)
{
    float *x, *y, *z, *more;
    aclrtStream s;
    aclmdlRI graph;

    t_begin();
    s = t_stream();
    x = t_floats(4, 1), y = t_floats(4, 10), z = t_floats(4, 0), more = t_floats(4, 5);
    CHECK_ACL(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    t_chain(x, y, z, s);
    CHECK_ACL(aclmdlRICaptureEnd(s, &graph));
    CHECK_NEAR(t_float(z + 1), 1, 0);
    CHECK_ACL(aclmdlRIExecuteAsync(graph, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_NEAR(t_float(z + 1), sin(2 + 11), 1e-6);
    CHECK_ACL(aclrtMemcpy(x, 16, more, 16, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK_ACL(aclmdlRIExecuteAsync(graph, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_NEAR(t_float(z + 1), sin(6 + 11), 1e-6);
    CHECK_ACL(aclmdlRIDestroy(graph));
    t_end();
}

TEST(operators, captured_integers_of_16_bits_wrap_at_each_run)
{
    short first[3] = {32767, -32768, 300}, again[3] = {1, 2, -300}, got[3];
    int64_t n = 3;
    aclOpExecutor *executor;
    uint64_t bytes;
    aclTensor *t;
    aclmdlRI graph;
    aclrtStream s;
    void *x;

    t_begin();
    s = t_stream();
    x = t_device(sizeof first);
    t = aclCreateTensor(&n, 1, ACL_INT16, NULL, 0, ACL_FORMAT_ND, &n, 1, x);
    CHECK_ACL(aclrtMemcpy(x, sizeof first, first, sizeof first, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_ACL(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CHECK_ACL(aclnnInplaceMulGetWorkspaceSize(t, t, &bytes, &executor));
    CHECK_ACL(aclnnInplaceMul(NULL, bytes, executor, s));
    CHECK_ACL(aclmdlRICaptureEnd(s, &graph));
    for (int run = 0; run < 2; run++) {
        const short *from = run ? again : first;

        CHECK_ACL(aclrtMemcpy(x, sizeof first, from, sizeof first, ACL_MEMCPY_HOST_TO_DEVICE));
        CHECK_ACL(aclmdlRIExecuteAsync(graph, s));
        CHECK_ACL(aclrtSynchronizeStream(s));
        CHECK_ACL(aclrtMemcpy(got, sizeof got, x, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
        for (int i = 0; i < n; i++)
            CHECK_EQ(got[i], (short)(from[i] * from[i]));
    }
    CHECK_ACL(aclmdlRIDestroy(graph));
    CHECK_ACL(aclDestroyTensor(t));
    t_end();
}

static void *worker(void *stream)
{
    float *x, *y, *z;

    CHECK_ACL(aclrtSetDevice(0));
    x = t_floats(4, 1), y = t_floats(4, 10), z = t_floats(4, 0);
    for (int i = 0; i < 200; i++)
        t_chain(x, y, z, stream);
    CHECK_ACL(aclrtSynchronizeStream(stream));
    CHECK_NEAR(t_float(z + 1), sin(2 + 11), 1e-6);
    return NULL;
}

TEST(operators, two_threads_use_two_streams)
{
    pthread_t threads[2];

    t_begin();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, worker, t_stream()), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    t_end();
}

TEST(operators, an_address_outside_device_memory_is_refused)
{
    static float host[4];
    aclTensor *t;
    aclOpExecutor *executor;
    uint64_t bytes;

    t_begin();
    t = t_tensor(host, 4);
    CHECK_EQ(aclnnInplaceSinGetWorkspaceSize(t, &bytes, &executor), 0);
    CHECK_EQ(aclnnInplaceSin(NULL, 0, executor, NULL), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(aclDestroyTensor(t), 0);
    t_end();
}

/* torch_npu's queue is a thread of that name: it tells its first error once, and drops what comes
 * after it. */
static void *failing_queue(void *stream)
{
    static float host[4];
    aclOpExecutor *executor;
    uint64_t bytes;
    aclTensor *t;

    CHECK_EQ(pthread_setname_np(pthread_self(), "acl_thread"), 0);
    CHECK_ACL(aclrtSetDevice(0));
    t = t_tensor(host, 4);
    CHECK_EQ(aclnnInplaceSinGetWorkspaceSize(t, &bytes, &executor), 0);
    CHECK_EQ(aclnnInplaceSin(NULL, 0, executor, stream), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(aclDestroyTensor(t), 0);
    return NULL;
}

TEST(operators, waits_fail_after_the_queue_of_torch_npu_has_failed)
{
    pthread_t thread;
    aclrtStream s;
    aclrtEvent e;
    float *x, got[4];

    t_begin();
    x = t_floats(4, 1);
    s = t_stream();
    CHECK_ACL(aclrtCreateEvent(&e));
    CHECK_ACL(aclrtRecordEvent(e, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_EQ(pthread_create(&thread, NULL, failing_queue, s), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 2; i++) { /* told again and again, on every way to results */
        CHECK_EQ(aclrtSynchronizeStream(s), ACLNN_ERR_PARAM_INVALID);
        CHECK_STR(aclGetRecentErrMsg(), "aclnnInplaceSin");
        CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 1000), ACLNN_ERR_PARAM_INVALID);
        CHECK_EQ(aclrtSynchronizeEvent(e), ACLNN_ERR_PARAM_INVALID);
        CHECK_EQ(aclrtSynchronizeDevice(), ACLNN_ERR_PARAM_INVALID);
        CHECK_EQ(aclrtSynchronizeDeviceWithTimeout(1000), ACLNN_ERR_PARAM_INVALID);
        CHECK_EQ(aclrtMemcpy(got, sizeof got, x, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST),
                 ACLNN_ERR_PARAM_INVALID);
    }
    CHECK_ACL(aclrtDestroyEvent(e));
    CHECK_ACL(aclrtDestroyStream(s));
    t_end();
}
