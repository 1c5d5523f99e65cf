/* Operators of a program for AscendCL: y = relu(x w + b) by aclnn calls, the product on one stream
 * and what follows on another that waits for it; then the same captured, and run on new input.
 * Every value is compared with one computed here.
 *
 *     weir cann run -- build/release/examples/cann_operators
 *     weir cann run --device cuda:0 -- build/release/examples/cann_operators
 */
#include <acl/acl.h>
#include <aclnnop/aclnn_ops.h>
#include <stdio.h>

enum { ROWS = 48, INNER = 32, COLUMNS = 64 };

#define TRY(call)                                                                       \
    do {                                                                                \
        int error_ = (int)(call);                                                       \
        if (error_) {                                                                   \
            fprintf(stderr, "%s: error %d: %s\n", #call, error_, aclGetRecentErrMsg()); \
            return 1;                                                                   \
        }                                                                               \
    } while (0)

static float x[ROWS][INNER], w[INNER][COLUMNS], b[COLUMNS], y[ROWS][COLUMNS];

/* A matrix in device memory, and the aclTensor that operators take. */
struct matrix {
    void *memory;
    size_t bytes;
    aclTensor *tensor;
};

static int matrix(int64_t rows, int64_t columns, const void *values, struct matrix *out)
{
    const int64_t shape[] = {rows, columns};

    out->bytes = (size_t)(rows * columns) * sizeof(float);
    TRY(aclrtMalloc(&out->memory, out->bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    if (values)
        TRY(aclrtMemcpy(out->memory, out->bytes, values, out->bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    out->tensor =
        aclCreateTensor(shape, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 2, out->memory);
    return out->tensor ? 0 : 1;
}

/* Small whole numbers: every sum is exact, in any order. */
static void fill(int seed)
{
    for (int k = 0; k < INNER; k++) {
        for (int i = 0; i < ROWS; i++)
            x[i][k] = (float)((i * 3 + k * 7 + seed) % 9 - 4);
        for (int j = 0; j < COLUMNS; j++)
            w[k][j] = (float)((k * 4 + j * 5) % 7 - 3);
    }
    for (int j = 0; j < COLUMNS; j++)
        b[j] = (float)(j % 11 - 5);
}

static int wrong_values(void)
{
    int wrong = 0;

    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            float sum = b[j];

            for (int k = 0; k < INNER; k++)
                sum += x[i][k] * w[k][j];
            wrong += y[i][j] != (sum > 0 ? sum : 0);
        }
    return wrong;
}

static int layer(struct matrix m[4], aclScalar *one, aclrtStream product, aclrtStream rest,
                 aclrtEvent fork, aclrtEvent join)
{
    aclOpExecutor *executor;
    uint64_t bytes;

    TRY(aclnnMatmulGetWorkspaceSize(m[0].tensor, m[1].tensor, m[3].tensor, 0, &bytes, &executor));
    TRY(aclnnMatmul(NULL, bytes, executor, product)); /* weir's workspaces are of 0 bytes */
    TRY(aclrtRecordEvent(fork, product));
    TRY(aclrtStreamWaitEvent(rest, fork));
    TRY(aclnnInplaceAddGetWorkspaceSize(m[3].tensor, m[2].tensor, one, &bytes, &executor));
    TRY(aclnnInplaceAdd(NULL, bytes, executor, rest));
    TRY(aclnnInplaceReluGetWorkspaceSize(m[3].tensor, &bytes, &executor));
    TRY(aclnnInplaceRelu(NULL, bytes, executor, rest));
    TRY(aclrtRecordEvent(join, rest));
    TRY(aclrtStreamWaitEvent(product, join));
    return 0;
}

static int compare(const char *what, const struct matrix *result, aclrtStream stream)
{
    int wrong;

    TRY(aclrtMemcpyAsync(y, sizeof y, result->memory, sizeof y, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    TRY(aclrtSynchronizeStream(stream));
    wrong = wrong_values();
    printf("%s: %d of %d values are wrong\n", what, wrong, ROWS * COLUMNS);
    return wrong != 0;
}

int main(void)
{
    float unit = 1;
    struct matrix m[4]; /* x, w, b, y */
    aclrtStream product, rest;
    aclrtEvent fork, join;
    aclScalar *one;
    aclmdlRI graph;

    fill(1);
    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&product));
    TRY(aclrtCreateStream(&rest));
    TRY(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC));
    TRY(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC));
    one = aclCreateScalar(&unit, ACL_FLOAT);
    if (!one || matrix(ROWS, INNER, x, &m[0]) || matrix(INNER, COLUMNS, w, &m[1]) ||
        matrix(1, COLUMNS, b, &m[2]) || matrix(ROWS, COLUMNS, NULL, &m[3]))
        return 1;

    if (layer(m, one, product, rest, fork, join) || compare("as called", &m[3], product))
        return 1;

    TRY(aclmdlRICaptureBegin(product, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    if (layer(m, one, product, rest, fork, join))
        return 1;
    TRY(aclmdlRICaptureEnd(product, &graph));
    for (int run = 2; run < 4; run++) {
        fill(run);
        TRY(aclrtMemcpy(m[0].memory, sizeof x, x, sizeof x, ACL_MEMCPY_HOST_TO_DEVICE));
        TRY(aclmdlRIExecuteAsync(graph, product));
        if (compare("as captured", &m[3], product))
            return 1;
    }

    TRY(aclmdlRIDestroy(graph));
    for (int i = 0; i < 4; i++) {
        TRY(aclDestroyTensor(m[i].tensor));
        TRY(aclrtFree(m[i].memory));
    }
    TRY(aclDestroyScalar(one));
    TRY(aclFinalize());
    return 0;
}
