/* The library of matrix products: plain loops over columns, summed in double. */
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "fake.h"

struct desc {
    struct fake_object object;
    int a_turned, b_turned, biased;
    const void *bias;
};

struct layout {
    struct fake_object object;
    int type, batch;
    uint64_t rows, cols;
    int64_t step, batch_step;
};

struct fake_product {
    struct desc desc;
    struct layout a, b, c;
    double alpha, beta;
    const char *a_at, *b_at;
    char *c_at;
    int algorithm;
};

static void *new_object(size_t size)
{
    return fake_new(FAKE_LT, size);
}

static int destroy(const char *symbol, void *object)
{
    int code = fake_enter(symbol);

    fake_forget(fake_check(object, FAKE_LT));
    free(object);
    return code;
}

int cublasLtGetVersion(void)
{
    return 130000;
}

int cublasLtCreate(void **handle)
{
    FAKE_CALL_IN_CONTEXT();
    *handle = new_object(sizeof(struct fake_object));
    return 0;
}

int cublasLtDestroy(void *handle)
{
    return destroy(__func__, handle);
}

int cublasLtMatmulDescCreate(void **desc, int compute, int scale)
{
    FAKE_CALL();
    if ((compute == CUBLAS_COMPUTE_64F) != (scale == CUDA_R_64F))
        return FAKE_INVALID;
    *desc = new_object(sizeof(struct desc));
    return 0;
}

int cublasLtMatmulDescDestroy(void *desc)
{
    return destroy(__func__, desc);
}

int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t size)
{
    struct desc *d;

    FAKE_CALL();
    d = fake_check(desc, FAKE_LT);
    switch (attribute) {
    case CUBLASLT_DESC_TRANSA:
        memcpy(&d->a_turned, value, size);
        return 0;
    case CUBLASLT_DESC_TRANSB:
        memcpy(&d->b_turned, value, size);
        return 0;
    case CUBLASLT_DESC_EPILOGUE:
        memcpy(&d->biased, value, size);
        return 0;
    case CUBLASLT_DESC_BIAS_POINTER:
        memcpy(&d->bias, value, size);
        return 0;
    default:
        return 0;
    }
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols, int64_t step)
{
    struct layout *l;

    FAKE_CALL();
    if (step < (int64_t)rows)
        return FAKE_INVALID;
    l = new_object(sizeof *l);
    l->type = type;
    l->batch = 1;
    l->rows = rows;
    l->cols = cols;
    l->step = step;
    *layout = l;
    return 0;
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
    return destroy(__func__, layout);
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t size)
{
    struct layout *l;

    FAKE_CALL();
    l = fake_check(layout, FAKE_LT);
    if (attribute == CUBLASLT_LAYOUT_BATCH_COUNT)
        memcpy(&l->batch, value, size);
    else
        memcpy(&l->batch_step, value, size);
    return 0;
}

int cublasLtMatmulPreferenceCreate(void **preference)
{
    FAKE_CALL();
    *preference = new_object(sizeof(struct fake_object));
    return 0;
}

int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return destroy(__func__, preference);
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                         size_t size)
{
    (void)attribute;
    (void)value;
    (void)size;
    FAKE_CALL();
    fake_check(preference, FAKE_LT);
    return 0;
}

/* Ways differ in nothing but their numbers, and in how long a test makes them take. */
enum { WAYS = 3, WAY = 0x57415930, WAY_WORKSPACE = 1 << 20, SLOW_MS = 1000 };

static _Atomic int slow_algorithm = -1, last_algorithm = -1;

void fake_slow_algorithm(int algorithm)
{
    slow_algorithm = algorithm;
}

int fake_last_algorithm(void)
{
    return last_algorithm;
}

static void set_result(struct weir__lt_result *result, int algorithm)
{
    memset(result, 0, sizeof *result);
    result->algo.data[0] = (uint64_t)(WAY + algorithm);
    result->waves = 1;
    result->workspace = algorithm ? WAY_WORKSPACE : 0;
}

static int algorithm_of(const struct weir__lt_algo *algo)
{
    return algo->data[0] >= WAY && algo->data[0] < WAY + WAYS ? (int)(algo->data[0] - WAY) : -1;
}

int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d,
                            const struct weir__lt_algo *algo, struct weir__lt_result *result)
{
    FAKE_CALL();
    fake_check(handle, FAKE_LT);
    fake_check(desc, FAKE_LT);
    fake_check(a, FAKE_LT);
    fake_check(b, FAKE_LT);
    fake_check(c, FAKE_LT);
    fake_check(d, FAKE_LT);
    if (algorithm_of(algo) < 0)
        return FAKE_INVALID;
    set_result(result, algorithm_of(algo));
    return 0;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, struct weir__lt_result *results,
                                   int *found)
{
    (void)handle;
    (void)desc;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    (void)preference;
    FAKE_CALL();
    *found = wanted < WAYS ? wanted : WAYS;
    for (int i = 0; i < *found; i++)
        set_result(&results[i], i);
    return 0;
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const struct weir__lt_algo *algo, void *workspace,
                   size_t workspace_size, weir__cu_stream stream)
{
    struct fake_op op = {.kind = FAKE_OP_PRODUCT};
    struct fake_product *p;
    int code;

    FAKE_CALL_IN_CONTEXT();
    fake_check(handle, FAKE_LT);
    if (c != d || c_layout != d_layout || algorithm_of(algo) < 0 ||
        (algorithm_of(algo) && (!workspace || workspace_size < WAY_WORKSPACE)))
        return FAKE_INVALID;
    if (!(p = calloc(1, sizeof *p)))
        abort();
    p->desc = *(struct desc *)fake_check(desc, FAKE_LT);
    p->a = *(struct layout *)fake_check(a_layout, FAKE_LT);
    p->b = *(struct layout *)fake_check(b_layout, FAKE_LT);
    p->c = *(struct layout *)fake_check(c_layout, FAKE_LT);
    p->alpha = p->c.type == CUDA_R_64F ? *(const double *)alpha : *(const float *)alpha;
    p->beta = p->c.type == CUDA_R_64F ? *(const double *)beta : *(const float *)beta;
    p->a_at = a;
    p->b_at = b;
    p->c_at = d;
    p->algorithm = algorithm_of(algo);
    op.u.product = p;
    pthread_mutex_lock(&fake_lock);
    code = fake_queue(fake_stream(stream), &op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

weir__cu_function fake_product_function(const struct fake_product *p)
{
    const struct layout *all[] = {&p->a, &p->b, &p->c};
    uint64_t h = (uint64_t)p->algorithm * 8 + (uint64_t)(p->desc.a_turned * 4) +
                 (uint64_t)(p->desc.b_turned * 2) + (uint64_t)p->desc.biased;

    for (int i = 0; i < 3; i++) {
        h = (h ^ all[i]->rows) * UINT64_C(0x9e3779b97f4a7c15);
        h = (h ^ all[i]->cols ^ (uint64_t)all[i]->batch << 32) * UINT64_C(0x9e3779b97f4a7c15);
        h = (h ^ (uint64_t)all[i]->step ^ (uint64_t)all[i]->type << 48) *
            UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 31;
    }
    return (weir__cu_function)(uintptr_t)(h | 1); /* no module is there */
}

struct fake_product *fake_copy_product(const struct fake_product *p)
{
    struct fake_product *copy = malloc(sizeof *copy);

    if (!copy)
        abort();
    *copy = *p;
    return copy;
}

/* ---- on the thread that runs streams ---- */

static double get(int type, const char *base, int64_t at)
{
    switch (type) {
    case CUDA_R_64F:
        return ((const double *)base)[at];
    case CUDA_R_16F:
        return weir__f16_to_f32(((const uint16_t *)base)[at]);
    case CUDA_R_16BF:
        return weir__bf16_to_f32(((const uint16_t *)base)[at]);
    default:
        return ((const float *)base)[at];
    }
}

static void put(int type, char *base, int64_t at, double value)
{
    switch (type) {
    case CUDA_R_64F:
        ((double *)base)[at] = value;
        break;
    case CUDA_R_16F:
        ((uint16_t *)base)[at] = weir__f32_to_f16((float)value);
        break;
    case CUDA_R_16BF:
        ((uint16_t *)base)[at] = weir__f32_to_bf16((float)value);
        break;
    default:
        ((float *)base)[at] = (float)value;
    }
}

static double rounded(int type, double value)
{
    char one[sizeof(double)];

    put(type, one, 0, value);
    return get(type, one, 0);
}

/* As an H200 has it: 16 bits are rounded before something is added to them, but for a bias where
 * everything is aligned. */
static bool rounds_first(const struct fake_product *p)
{
    uintptr_t at = (uintptr_t)p->a_at | (uintptr_t)p->b_at | (uintptr_t)p->c_at;
    int64_t steps =
        p->a.step | p->b.step | p->c.step | p->a.batch_step | p->b.batch_step | p->c.batch_step;

    if (p->c.type != CUDA_R_16F && p->c.type != CUDA_R_16BF)
        return false;
    return p->beta != 0 || (p->desc.biased && (at % 16 || steps % 8));
}

static double element(const struct fake_product *p, int batch, int64_t row, int64_t col)
{
    int64_t k = (int64_t)(p->desc.a_turned ? p->a.rows : p->a.cols);
    int64_t a0 = batch * p->a.batch_step, b0 = batch * p->b.batch_step;
    int64_t c = batch * p->c.batch_step + col * p->c.step + row;
    double sum = 0;

    for (int64_t i = 0; i < k; i++) {
        int64_t a = p->desc.a_turned ? row * p->a.step + i : i * p->a.step + row;
        int64_t b = p->desc.b_turned ? i * p->b.step + col : col * p->b.step + i;

        sum += get(p->a.type, p->a_at, a0 + a) * get(p->b.type, p->b_at, b0 + b);
    }
    sum *= p->alpha;
    if (rounds_first(p))
        sum = rounded(p->c.type, sum);
    if (p->beta != 0)
        sum += p->beta * get(p->c.type, p->c_at, c);
    if (p->desc.biased)
        sum += get(p->c.type, p->desc.bias, row);
    return sum;
}

void fake_run_product(const struct fake_product *p)
{
    last_algorithm = p->algorithm;
    if (p->algorithm == slow_algorithm || slow_algorithm == FAKE_EVERY_ALGORITHM)
        fake_skip_ms(SLOW_MS);
    for (int batch = 0; batch < p->c.batch; batch++)
        for (uint64_t col = 0; col < p->c.cols; col++)
            for (uint64_t row = 0; row < p->c.rows; row++)
                put(p->c.type, p->c_at,
                    batch * p->c.batch_step + (int64_t)col * p->c.step + (int64_t)row,
                    element(p, batch, (int64_t)row, (int64_t)col));
}
