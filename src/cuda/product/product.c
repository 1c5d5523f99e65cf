/* Matrix products by cuBLASLt. The algorithms for a shape are requested once and kept.
 *
 * The library uses column-major order and weir row-major, so the library gets the transposed
 * problem: c' = b' a', with n rows and m columns. */
#include "cuda/product/product.h"

#include <string.h>

/* ---- keys: what the library supports ---- */

/* Returns the common alignment of an address and of all addresses that are steps apart. */
static uint8_t alignment(const void *address, int64_t step, weir_dtype dtype)
{
    uint64_t bits = (uintptr_t)address | (uint64_t)step * weir_dtype_size(dtype);

    return bits % 256 == 0 ? 255 : (uint8_t)(bits & -bits); /* 255 stands for 256 */
}

/* The library's kernels describe a stack to the GPU's tile engine, whose strides have 40 bits. A
 * longer stride is silently truncated, and the kernel reads or writes the wrong memory. Products in
 * memory of two allocators can be that far apart. */
#define STEP_BITS 40

static bool reaches(int64_t step, weir_dtype dtype)
{
    int64_t most = (INT64_C(1) << STEP_BITS) / (int64_t)weir_dtype_size(dtype);

    return step > -most && step < most;
}

/* True if the matrix is contiguous along one of its dims. Sets the other dim's step, and whether
 * the matrix is transposed. */
static bool layout_of(int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t *step,
                      uint8_t *turned)
{
    if ((col == 1 || cols == 1) && (row >= cols || rows == 1)) {
        *turned = 0;
        *step = rows == 1 ? weir__max(cols, 1) : row;
        return *step >= cols;
    }
    if ((row == 1 || rows == 1) && (col >= rows || cols == 1)) {
        *turned = 1;
        *step = cols == 1 ? weir__max(rows, 1) : col;
        return *step >= rows;
    }
    return false;
}

/* True if the library may add the bias. For 16-bit types and unaligned matrices it rounds the
 * product before it adds the bias (seen with an odd n on an H200). So rows of all matrices must
 * begin at multiples of 16 bytes. */
static bool takes_bias(const struct weir__product *p, const struct weir__cuda_key *key)
{
    uint64_t bits = (uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c;
    uint64_t steps = (uint64_t)(key->lda | key->ldb | key->ldc | p->n);

    for (int d = 0; d < p->ndims; d++)
        steps |= (uint64_t)(p->a_step[d] | p->b_step[d] | p->c_step[d]);
    if (p->bias_step != 1 || (uintptr_t)p->bias % 16)
        return false;
    return weir_dtype_size(p->dtype) != 2 || (bits | steps * 2) % 16 == 0;
}

static bool make_key(const struct weir__product *p, unsigned cores, struct weir__cuda_key *key)
{
    uint8_t c_turned;
    int64_t a_step = 0, b_step = 0, c_step = 0;
    int d = p->ndims - 1;

    memset(key, 0, sizeof *key); /* compared as bytes */
    key->dtype = (int)p->dtype;
    key->m = p->m;
    key->n = p->n;
    key->k = p->k;
    key->cores = cores;
    key->batch = 1;
    key->biased = p->bias != NULL;
    if (!layout_of(p->m, p->k, p->a_row, p->a_col, &key->lda, &key->a_turned) ||
        !layout_of(p->k, p->n, p->b_row, p->b_col, &key->ldb, &key->b_turned) ||
        !layout_of(p->m, p->n, p->c_row, p->c_col, &key->ldc, &c_turned) || c_turned ||
        (key->biased && !takes_bias(p, key)) || key->lda > INT32_MAX || key->ldb > INT32_MAX ||
        key->ldc > INT32_MAX || p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX)
        return false;
    if (d >= 0) {
        if (p->shape[d] > 65535)
            return false;
        key->batch = (int)p->shape[d];
    }
    if (key->batch > 1) {
        a_step = p->a_step[d];
        b_step = p->b_step[d];
        c_step = p->c_step[d];
        if (!reaches(a_step, p->dtype) || !reaches(b_step, p->dtype) || !reaches(c_step, p->dtype))
            return false;
        key->a_shared = !a_step;
        key->b_shared = !b_step;
    }
    key->align[0] = alignment(p->b, b_step, p->dtype);
    key->align[1] = alignment(p->a, a_step, p->dtype);
    key->align[2] = key->align[3] = alignment(p->c, c_step, p->dtype);
    return true;
}

static int cuda_type(int dtype)
{
    switch (dtype) {
    case WEIR_F16:
        return CUDA_R_16F;
    case WEIR_BF16:
        return CUDA_R_16BF;
    case WEIR_F64:
        return CUDA_R_64F;
    default:
        return CUDA_R_32F;
    }
}

/* ---- requesting algorithms ---- */

static int make_layout(const struct weir__cublaslt *lt, int type, int64_t rows, int64_t cols,
                       int64_t step, int batch, void **out)
{
    int r = lt->layout_create(out, type, (uint64_t)rows, (uint64_t)cols, step);

    if (!r && batch > 1)
        r = lt->layout_set(*out, CUBLASLT_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    return r;
}

/* Sets how far apart the products of the call's stack are. */
static int set_steps(const struct weir__cublaslt *lt, const struct weir__cuda_product *p,
                     const struct weir__product *x)
{
    int d = x->ndims - 1, r;

    if (p->key.batch == 1)
        return 0;
    if ((r = lt->layout_set(p->a, CUBLASLT_LAYOUT_BATCH_STEP, &x->a_step[d], sizeof *x->a_step)) ||
        (r = lt->layout_set(p->b, CUBLASLT_LAYOUT_BATCH_STEP, &x->b_step[d], sizeof *x->b_step)))
        return r;
    return lt->layout_set(p->c, CUBLASLT_LAYOUT_BATCH_STEP, &x->c_step[d], sizeof *x->c_step);
}

/* Returns for how many cores the library should optimize; 0: the library decides. Fewer than all
 * are also requested for products without a limit, because they may share the cores with others. */
static int32_t target_cores(const struct weir__cuda *dev, const struct weir__cuda_key *k,
                            int target)
{
    const unsigned all[WEIR__CUDA_TARGETS] = {0, dev->cores.total / 2, dev->cores.total / 4};
    const unsigned some[WEIR__CUDA_TARGETS] = {k->cores, 0, k->cores / 2};

    return (int32_t)(k->cores ? some[target] : all[target]);
}

static int make_desc(const struct weir__cuda *dev, struct weir__cuda_product *p, int target)
{
    const struct weir__cublaslt *lt = &dev->api->lt;
    const struct weir__cuda_key *k = &p->key;
    int turned = 1, epilogue = CUBLASLT_EPILOGUE_BIAS, r;
    bool wide = k->dtype == WEIR_F64;
    int32_t cores = target_cores(dev, k, target);
    void *desc;

    if ((r = lt->desc_create(&desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                             wide ? CUDA_R_64F : CUDA_R_32F)))
        return r;
    if ((k->b_turned && (r = lt->desc_set(desc, CUBLASLT_DESC_TRANSA, &turned, sizeof turned))) ||
        (k->a_turned && (r = lt->desc_set(desc, CUBLASLT_DESC_TRANSB, &turned, sizeof turned))) ||
        (k->biased &&
         (r = lt->desc_set(desc, CUBLASLT_DESC_EPILOGUE, &epilogue, sizeof epilogue))) ||
        (r = lt->desc_set(desc, CUBLASLT_DESC_SM_COUNT, &cores, sizeof cores))) {
        lt->desc_destroy(desc);
        return r;
    }
    p->desc[target] = desc;
    return 0;
}

bool weir__cuda_product_describe(struct weir__cuda *dev, struct weir__cuda_product *p, int target)
{
    return p->desc[target] || !make_desc(dev, p, target);
}

static int make_layouts(const struct weir__cublaslt *lt, struct weir__cuda_product *p)
{
    const struct weir__cuda_key *k = &p->key;
    int type = cuda_type(k->dtype), r;

    if ((r = make_layout(lt, type, k->b_turned ? k->k : k->n, k->b_turned ? k->n : k->k, k->ldb,
                         k->batch, &p->b)) ||
        (r = make_layout(lt, type, k->a_turned ? k->m : k->k, k->a_turned ? k->k : k->m, k->lda,
                         k->batch, &p->a)))
        return r;
    return make_layout(lt, type, k->n, k->m, k->ldc, k->batch, &p->c);
}

static int set_preference(const struct weir__cublaslt *lt, const struct weir__cuda_key *k,
                          void *preference)
{
    size_t workspace = WEIR__CUDA_WORKSPACE;
    uint32_t reductions = CUBLASLT_REDUCTIONS_IN_COMPUTE_TYPE;
    int r = lt->preference_set(preference, CUBLASLT_PREFER_WORKSPACE, &workspace, sizeof workspace);

    if (!r)
        r = lt->preference_set(preference, CUBLASLT_PREFER_REDUCTIONS, &reductions,
                               sizeof reductions);
    for (int i = 0; i < 4 && !r; i++) {
        uint32_t align = k->align[i] == 255 ? 256 : k->align[i];

        r = lt->preference_set(preference, CUBLASLT_PREFER_ALIGNMENT_A + i, &align, sizeof align);
    }
    return r;
}

void weir__cuda_product_ask(struct weir__cuda *dev, struct weir__cuda_product *p, int target)
{
    const struct weir__cublaslt *lt = &dev->api->lt;
    struct weir__lt_result offers[WEIR__CUDA_OFFERS];
    void *preference;
    int found = 0;

    if (!weir__cuda_product_describe(dev, p, target) || lt->preference_create(&preference))
        return;
    if (!set_preference(lt, &p->key, preference) &&
        !lt->heuristic(dev->products.library, p->desc[target], p->b, p->a, p->c, p->c, preference,
                       WEIR__CUDA_OFFERS, offers, &found))
        for (int i = 0; i < found; i++)
            if (!offers[i].status)
                (void)weir__cuda_add_algorithm(p, &offers[i], target);
    lt->preference_destroy(preference);
}

static void free_product(const struct weir__cublaslt *lt, struct weir__cuda_product *p)
{
    for (int i = 0; i < WEIR__CUDA_TARGETS; i++)
        if (p->desc[i])
            lt->desc_destroy(p->desc[i]);
    if (p->a)
        lt->layout_destroy(p->a);
    if (p->b)
        lt->layout_destroy(p->b);
    if (p->c)
        lt->layout_destroy(p->c);
    weir__free(p);
}

/* A deterministic device always uses the first algorithm, because timing is not deterministic. */
static struct weir__cuda_product *new_product(struct weir__cuda *dev,
                                              const struct weir__cuda_key *key,
                                              const struct weir__product *x)
{
    struct weir__cuda_product *p = weir__calloc(1, sizeof *p);

    if (!p)
        return NULL;
    memcpy(&p->key, key, sizeof *key);
    p->best = -1; /* products without an algorithm are kept, too, and not requested again */
    p->tuned = dev->base.pool.deterministic;
    if (!make_layouts(&dev->api->lt, p) && !set_steps(&dev->api->lt, p, x))
        weir__cuda_product_ask(dev, p, 0);
    if (p->nalgorithms)
        p->best = 0;
    if (p->nalgorithms && !p->tuned && weir__cuda_read_choice(dev, p, 0) >= 0)
        p->tuned = true;
    return p;
}

static struct weir__cuda_product **list_of(struct weir__cuda *dev, const struct weir__cuda_key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], h = 0;

    _Static_assert(sizeof words == sizeof *key, "a key is whole words");
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < weir__countof(words); i++)
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
    return &dev->products.lists[h >> 58];
}

/* Finds or makes the product; moves it to the front of its list. */
static struct weir__cuda_product *find(struct weir__cuda *dev, const struct weir__cuda_key *key,
                                       const struct weir__product *x)
{
    struct weir__cuda_product **list = list_of(dev, key), **at = list, *p;

    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): keys are zeroed first */
    while ((p = *at) && memcmp(&p->key, key, sizeof *key))
        at = &p->next;
    if (p)
        *at = p->next;
    else if (!(p = new_product(dev, key, x)))
        return NULL;
    p->next = *list;
    *list = p;
    return p;
}

static int64_t outer_count(const struct weir__product *x)
{
    int64_t n = 1;

    for (int d = 0; d < x->ndims - 1; d++)
        n *= x->shape[d];
    return n;
}

weir_status weir__cuda_product_find(struct weir__cuda *dev, const struct weir__product *x,
                                    unsigned cores, struct weir__cuda_product **out)
{
    struct weir__cuda_key key;

    if (outer_count(x) > 64 || !make_key(x, cores < dev->cores.total ? cores : 0, &key))
        return WEIR_EUNSUPPORTED;
    if (!dev->products.library && dev->api->lt.create(&dev->products.library)) {
        dev->products.library = NULL;
        return weir__fail(WEIR_EDRIVER, "cuBLASLt cannot be initialized on %s",
                          dev->base.props.name);
    }
    if (!(*out = find(dev, &key, x)))
        return weir__fail_nomem("keeping a matrix product");
    return (*out)->best < 0 ? WEIR_EUNSUPPORTED : WEIR_OK;
}

/* ---- running ---- */

weir_status weir__cuda_product_workspace(const struct weir__cuda_sink *sink)
{
    weir__cu_address address;
    weir_status st;

    if (*sink->workspace)
        return WEIR_OK;
    if ((st = weir__cuda_check(sink->dev,
                               sink->dev->api->cu.memory_alloc(&address, WEIR__CUDA_WORKSPACE),
                               "the workspace of a matrix product")))
        return st;
    *sink->workspace = (void *)(uintptr_t)address;
    return WEIR_OK;
}

size_t weir__cuda_product_span(const struct weir__product *x)
{
    int64_t last = (x->m - 1) * x->c_row + (x->n - 1) * x->c_col;

    for (int d = 0; d < x->ndims; d++)
        last += (x->shape[d] - 1) * x->c_step[d];
    return (size_t)(last + 1) * weir_dtype_size(x->dtype);
}

int weir__cuda_product_multiply(const struct weir__cuda_sink *sink,
                                const struct weir__cuda_product *p, int algorithm,
                                const struct weir__product *x, const char *a, const char *b,
                                char *c)
{
    const struct weir__cublaslt *lt = &sink->dev->api->lt;
    const struct weir__cuda_algorithm *w = &p->algorithms[algorithm];
    void *desc = p->desc[w->target];
    const double wide[2] = {1, 0};
    const float narrow[2] = {1, 0};
    const void *alpha = narrow, *beta = narrow + 1;
    int r;

    if ((r = set_steps(lt, p, x)) ||
        (p->key.biased &&
         (r = lt->desc_set(desc, CUBLASLT_DESC_BIAS_POINTER, &x->bias, sizeof x->bias))))
        return r;
    if (p->key.dtype == WEIR_F64) {
        alpha = wide;
        beta = wide + 1;
    }
    return lt->matmul(sink->dev->products.library, desc, alpha, b, p->b, a, p->a, beta, c, p->c, c,
                      p->c, &w->how.algo, w->how.workspace ? *sink->workspace : NULL,
                      w->how.workspace ? WEIR__CUDA_WORKSPACE : 0, sink->stream);
}

/* Multiplies a whole stack. The library handles the last dim of the stack; this loops over the
 * others. */
static int multiply_all(const struct weir__cuda_sink *sink, const struct weir__cuda_product *p,
                        int algorithm, const struct weir__product *x)
{
    int64_t size = (int64_t)weir_dtype_size(x->dtype), outer = outer_count(x);
    char *to = sink->into ? sink->into : x->c;
    int r = 0;

    for (int64_t i = 0; i < outer && !r; i++) {
        int64_t rest = i, a = 0, b = 0, c = 0;

        for (int d = x->ndims - 2; d >= 0; d--) {
            a += rest % x->shape[d] * x->a_step[d];
            b += rest % x->shape[d] * x->b_step[d];
            c += rest % x->shape[d] * x->c_step[d];
            rest /= x->shape[d];
        }
        r = weir__cuda_product_multiply(sink, p, algorithm, x, x->a + a * size, x->b + b * size,
                                        to + c * size);
    }
    return r;
}

weir_status weir__cuda_product_issue(const struct weir__cuda_sink *sink,
                                     const struct weir__cuda_product *p, int algorithm,
                                     const struct weir__product *x, int n)
{
    const struct weir__product *all = x;
    struct weir__product stack;
    weir_status st;
    int r;

    if (n > 1 && weir__cuda_product_stack(x, n, sink->into != NULL, &stack))
        all = &stack;
    if (!(r = multiply_all(sink, p, algorithm, all)))
        return WEIR_OK;
    if ((st = weir__cuda_ask(sink->dev)))
        return st;
    return weir__fail(WEIR_EDRIVER, "cuBLASLt refuses a product of [%lld, %lld, %lld]: code %d",
                      (long long)x->m, (long long)x->k, (long long)x->n, r);
}

weir_status weir__cuda_product_run(const struct weir__cuda_sink *sink,
                                   const struct weir__product *x, int n)
{
    const struct weir__product *all = x;
    struct weir__cuda_product *p;
    struct weir__product stack;
    weir_status st;
    int algorithm;
    bool first;

    if (n > 1) {
        if (!weir__cuda_product_stack(x, n, sink->into != NULL, &stack))
            return WEIR_EUNSUPPORTED;
        all = &stack;
    }
    if ((st = weir__cuda_product_find(sink->dev, all, sink->cores, &p)))
        return st;
    algorithm = weir__cuda_choice(p, sink->concurrent_set);
    if (p->algorithms[algorithm].how.workspace && (st = weir__cuda_product_workspace(sink)))
        return st;
    first = !p->algorithms[algorithm].ran;
    if (first &&
        (st = weir__cuda_quiesce(sink->dev, "a matrix product that is new to the library")))
        return st;
    st = sink->own && outer_count(x) == 1 ? weir__cuda_product_repeat(sink, p, algorithm, x)
                                          : weir__cuda_product_issue(sink, p, algorithm, x, n);
    if (first)
        weir__cuda_resume(sink->dev);
    p->algorithms[algorithm].ran |= !st;
    return st;
}

void weir__cuda_products_close(struct weir__cuda *dev)
{
    for (size_t i = 0; i < weir__countof(dev->products.lists); i++)
        while (dev->products.lists[i]) {
            struct weir__cuda_product *p = dev->products.lists[i];

            dev->products.lists[i] = p->next;
            free_product(&dev->api->lt, p);
        }
    if (dev->products.library)
        dev->api->lt.destroy(dev->products.library);
}
