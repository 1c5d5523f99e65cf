/* Matrix products by cuBLASLt. What a product of some shape takes is asked for once and kept.
 *
 * The library sees columns where weir has rows, so it is given the transposed problem:
 * c' = b' a', with n rows and m columns. */
#include "cuda/cuda.h"

#include <string.h>

/* Everything that the choice of a kernel may depend on. */
struct key {
    int dtype, batch;
    int64_t m, n, k, lda, ldb, ldc, a_step, b_step, c_step;
    unsigned cores;
    uint8_t a_turned, b_turned;
    uint8_t biased; /* by the library, after the product */
    uint8_t align[4];
};

enum { CANDIDATES = 8, TRIALS = 3 };
#define ABOUT_AS_FAST 1.06f

struct weir__cuda_product {
    struct weir__cuda_product *next;
    struct key key;
    void *desc, *a, *b, *c;
    struct weir__lt_result found[CANDIDATES], *best; /* best is NULL if there is none */
    int nfound;
    bool tuned;
};

/* The library may round before it adds a bias of 16 bits; added to what is there it is exact. */
static bool bias_first(const struct weir__product *p)
{
    return p->bias && weir_dtype_size(p->dtype) == 2;
}

/* ---- what the library can be asked for ---- */

static uint8_t alignment(const void *address)
{
    uintptr_t bits = (uintptr_t)address;

    return bits % 256 == 0 ? 255 : (uint8_t)(bits & -bits); /* 255 stands for 256 */
}

/* A matrix stored along one of its dims: true with its step, and whether it is turned. */
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

static bool make_key(const struct weir__product *p, unsigned cores, struct key *key)
{
    uint8_t c_turned;
    int d = p->ndims - 1;

    memset(key, 0, sizeof *key); /* compared as bytes */
    key->dtype = (int)p->dtype;
    key->m = p->m;
    key->n = p->n;
    key->k = p->k;
    key->cores = cores;
    key->batch = 1;
    key->biased = p->bias && !bias_first(p);
    if (!layout_of(p->m, p->k, p->a_row, p->a_col, &key->lda, &key->a_turned) ||
        !layout_of(p->k, p->n, p->b_row, p->b_col, &key->ldb, &key->b_turned) ||
        !layout_of(p->m, p->n, p->c_row, p->c_col, &key->ldc, &c_turned) || c_turned ||
        (key->biased && (p->bias_step != 1 || (uintptr_t)p->bias % 16)) || key->lda > INT32_MAX ||
        key->ldb > INT32_MAX || key->ldc > INT32_MAX || p->m > INT32_MAX || p->n > INT32_MAX ||
        p->k > INT32_MAX)
        return false;
    if (d >= 0) {
        if (p->shape[d] > 65535)
            return false;
        key->batch = (int)p->shape[d];
        key->a_step = p->a_step[d];
        key->b_step = p->b_step[d];
        key->c_step = p->c_step[d];
    }
    key->align[0] = alignment(p->b);
    key->align[1] = alignment(p->a);
    key->align[2] = key->align[3] = alignment(p->c);
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

/* ---- asking ---- */

static int make_layout(const struct weir__cublaslt *lt, int type, int64_t rows, int64_t cols,
                       int64_t step, int batch, int64_t batch_step, void **out)
{
    int r = lt->layout_create(out, type, (uint64_t)rows, (uint64_t)cols, step);

    if (!r && batch > 1 &&
        ((r = lt->layout_set(*out, CUBLASLT_LAYOUT_BATCH_COUNT, &batch, sizeof batch)) ||
         (r = lt->layout_set(*out, CUBLASLT_LAYOUT_BATCH_STEP, &batch_step, sizeof batch_step))))
        return r;
    return r;
}

static int describe(const struct weir__cublaslt *lt, struct weir__cuda_product *p)
{
    const struct key *k = &p->key;
    int type = cuda_type(k->dtype), turned = 1, epilogue = CUBLASLT_EPILOGUE_BIAS, r;
    bool wide = k->dtype == WEIR_F64;
    int32_t cores = (int32_t)k->cores;

    if ((r = lt->desc_create(&p->desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                             wide ? CUDA_R_64F : CUDA_R_32F)) ||
        (k->b_turned &&
         (r = lt->desc_set(p->desc, CUBLASLT_DESC_TRANSA, &turned, sizeof turned))) ||
        (k->a_turned &&
         (r = lt->desc_set(p->desc, CUBLASLT_DESC_TRANSB, &turned, sizeof turned))) ||
        (k->biased &&
         (r = lt->desc_set(p->desc, CUBLASLT_DESC_EPILOGUE, &epilogue, sizeof epilogue))) ||
        (r = lt->desc_set(p->desc, CUBLASLT_DESC_SM_COUNT, &cores, sizeof cores)))
        return r;
    if ((r = make_layout(lt, type, k->b_turned ? k->k : k->n, k->b_turned ? k->n : k->k, k->ldb,
                         k->batch, k->b_step, &p->b)) ||
        (r = make_layout(lt, type, k->a_turned ? k->m : k->k, k->a_turned ? k->k : k->m, k->lda,
                         k->batch, k->a_step, &p->a)))
        return r;
    return make_layout(lt, type, k->n, k->m, k->ldc, k->batch, k->c_step, &p->c);
}

static int ask(const struct weir__cuda *dev, struct weir__cuda_product *p)
{
    const struct weir__cublaslt *lt = &dev->api->lt;
    size_t workspace = WEIR__CUDA_WORKSPACE;
    uint32_t reductions = CUBLASLT_REDUCTIONS_IN_COMPUTE_TYPE;
    void *preference;
    int r = lt->preference_create(&preference);

    if (r)
        return r;
    r = lt->preference_set(preference, CUBLASLT_PREFER_WORKSPACE, &workspace, sizeof workspace);
    if (!r)
        r = lt->preference_set(preference, CUBLASLT_PREFER_REDUCTIONS, &reductions,
                               sizeof reductions);
    for (int i = 0; i < 4 && !r; i++) {
        uint32_t align = p->key.align[i] == 255 ? 256 : p->key.align[i];

        r = lt->preference_set(preference, CUBLASLT_PREFER_ALIGNMENT_A + i, &align, sizeof align);
    }
    if (!r)
        r = lt->heuristic(dev->lt, p->desc, p->b, p->a, p->c, p->c, preference, CANDIDATES,
                          p->found, &p->nfound);
    lt->preference_destroy(preference);
    if (!r && p->nfound)
        p->best = &p->found[0];
    return r;
}

static void free_product(const struct weir__cublaslt *lt, struct weir__cuda_product *p)
{
    if (p->desc)
        lt->desc_destroy(p->desc);
    if (p->a)
        lt->layout_destroy(p->a);
    if (p->b)
        lt->layout_destroy(p->b);
    if (p->c)
        lt->layout_destroy(p->c);
    weir__free(p);
}

/* The one last used comes first. */
static struct weir__cuda_product *find(struct weir__cuda *dev, const struct key *key)
{
    struct weir__cuda_product **at = &dev->products, *p;

    for (; (p = *at); at = &p->next)
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): keys are zeroed first */
        if (!memcmp(&p->key, key, sizeof *key)) {
            *at = p->next;
            p->next = dev->products;
            dev->products = p;
            return p;
        }
    if (!(p = weir__calloc(1, sizeof *p)))
        return NULL;
    p->key = *key;
    if (describe(&dev->api->lt, p) || ask(dev, p))
        p->best = NULL; /* remembered as well */
    p->next = dev->products;
    dev->products = p;
    return p;
}

/* ---- running ---- */

static weir_status workspace_of(const struct weir__cuda_sink *sink,
                                const struct weir__cuda_product *p)
{
    weir__cu_address address;
    weir_status st;

    if (*sink->workspace || (!p->best->workspace && !sink->tune))
        return WEIR_OK;
    if ((st = weir__cuda_check(sink->dev,
                               sink->dev->api->cu.memory_alloc(&address, WEIR__CUDA_WORKSPACE),
                               "the workspace of a matrix product")))
        return st;
    *sink->workspace = (void *)(uintptr_t)address;
    return WEIR_OK;
}

static int multiply(const struct weir__cuda_sink *sink, const struct weir__cuda_product *p,
                    const struct weir__lt_result *how, weir__cu_stream stream, double beta,
                    const char *a, const char *b, char *c)
{
    const double wide[2] = {1, beta};
    const float narrow[2] = {1, (float)beta};
    const void *alpha = narrow, *beta_at = narrow + 1;

    if (p->key.dtype == WEIR_F64) {
        alpha = wide;
        beta_at = wide + 1;
    }
    return sink->dev->api->lt.matmul(sink->dev->lt, p->desc, alpha, b, p->b, a, p->a, beta_at, c,
                                     p->c, c, p->c, &how->algo,
                                     how->workspace ? *sink->workspace : NULL,
                                     how->workspace ? WEIR__CUDA_WORKSPACE : 0, stream);
}

/* Milliseconds of a few runs, the first not counted; negative if it does not run. */
static float try_out(const struct weir__cuda_sink *sink, const struct weir__cuda_product *p,
                     const struct weir__lt_result *how, weir__cu_stream stream,
                     weir__cu_event events[2], const struct weir__product *x, char *c)
{
    const struct weir__cu *cu = &sink->dev->api->cu;
    float ms = -1;

    for (int i = 0; i <= TRIALS; i++)
        if ((i == 1 && cu->event_record(events[0], stream)) ||
            multiply(sink, p, how, stream, 0, x->a, x->b, c))
            return -1;
    if (cu->event_record(events[1], stream) || cu->event_sync(events[1]) ||
        cu->event_elapsed(&ms, events[0], events[1]))
        return -1;
    return ms;
}

/* Times what the library offers, on a stream of its own and into memory of its own: what is
 * read may change under it, which does not matter here. Without room for that the library's
 * first choice stays. */
static void tune(const struct weir__cuda_sink *sink, struct weir__cuda_product *p,
                 const struct weir__product *x)
{
    const struct weir__cu *cu = &sink->dev->api->cu;
    size_t size =
        (size_t)((p->key.batch - 1) * p->key.c_step + (p->key.m - 1) * p->key.ldc + p->key.n) *
        weir_dtype_size(x->dtype);
    weir__cu_event events[2] = {NULL, NULL};
    weir__cu_stream stream = NULL;
    weir__cu_address c = 0;
    float ms[CANDIDATES], least = -1;
    int tried = 0;

    p->tuned = true;
    if (!cu->memory_alloc(&c, size) && !cu->stream_create(&stream, CU_STREAM_NON_BLOCKING, 0) &&
        !cu->event_create(&events[0], CU_EVENT_DEFAULT) &&
        !cu->event_create(&events[1], CU_EVENT_DEFAULT))
        for (; tried < p->nfound; tried++) {
            ms[tried] = try_out(sink, p, &p->found[tried], stream, events, x, (char *)(uintptr_t)c);
            if (ms[tried] >= 0 && (least < 0 || ms[tried] < least)) {
                least = ms[tried];
                p->best = &p->found[tried];
            }
        }
    /* Of those about as fast, the one that leaves the most of the GPU to others. */
    for (int i = 0; i < tried; i++)
        if (ms[i] >= 0 && ms[i] <= least * ABOUT_AS_FAST && p->found[i].waves < p->best->waves)
            p->best = &p->found[i];
    for (int i = 0; i < 2; i++)
        if (events[i])
            cu->event_destroy(events[i]);
    if (stream)
        cu->stream_destroy(stream);
    if (c)
        cu->memory_free(c);
}

/* The bias to every row of every product of the stack. */
static weir_status spread_bias(const struct weir__cuda_sink *sink, const struct weir__product *x)
{
    struct weir__copy copy = {
        .dst = x->c,
        .src = x->bias,
        .way = WEIR__COPY_DEVICE,
        .elem = (uint32_t)weir_dtype_size(x->dtype),
        .ndim = x->ndims + 2,
    };

    for (int d = 0; d < x->ndims; d++) {
        copy.shape[d] = x->shape[d];
        copy.dst_stride[d] = x->c_step[d];
    }
    copy.shape[x->ndims] = x->m;
    copy.dst_stride[x->ndims] = x->c_row;
    copy.shape[x->ndims + 1] = x->n;
    copy.dst_stride[x->ndims + 1] = x->c_col;
    copy.src_stride[x->ndims + 1] = x->bias_step;
    return weir__cuda_copy_within(sink->dev, sink->stream, &copy);
}

static weir_status run(const struct weir__cuda_sink *sink, struct weir__cuda_product *p,
                       const struct weir__product *x, const char *a, const char *b, char *c)
{
    const struct weir__cublaslt *lt = &sink->dev->api->lt;
    int r = 0;

    if (p->key.biased)
        r = lt->desc_set(p->desc, CUBLASLT_DESC_BIAS_POINTER, &x->bias, sizeof x->bias);
    if (!r)
        r = multiply(sink, p, p->best, sink->stream, bias_first(x), a, b, c);
    if (r)
        return weir__fail(WEIR_EDEVICE, "cuBLASLt refuses a product of [%lld, %lld, %lld]: code %d",
                          (long long)x->m, (long long)x->k, (long long)x->n, r);
    return WEIR_OK;
}

weir_status weir__cuda_product_run(const struct weir__cuda_sink *sink,
                                   const struct weir__product *x)
{
    struct weir__cuda *dev = sink->dev;
    unsigned cores = sink->cores < dev->cores.total ? sink->cores : 0;
    int64_t size = (int64_t)weir_dtype_size(x->dtype), outer = 1;
    struct weir__cuda_product *p;
    struct key key;
    weir_status st;

    for (int d = 0; d < x->ndims - 1; d++)
        outer *= x->shape[d];
    if (outer > 64 || !make_key(x, cores, &key))
        return WEIR_EUNSUPPORTED;
    if (!dev->lt && dev->api->lt.create(&dev->lt)) {
        dev->lt = NULL;
        return weir__fail(WEIR_EDEVICE, "cuBLASLt does not start on %s", dev->base.props.name);
    }
    if (!(p = find(dev, &key)))
        return weir__fail(WEIR_ENOMEM, "a matrix product");
    if (!p->best)
        return WEIR_EUNSUPPORTED;
    if ((st = workspace_of(sink, p)))
        return st;
    if (sink->tune && !p->tuned)
        tune(sink, p, x);
    if (bias_first(x) && (st = spread_bias(sink, x)))
        return st;
    for (int64_t i = 0; i < outer && !st; i++) {
        int64_t rest = i, a = 0, b = 0, c = 0;

        for (int d = x->ndims - 2; d >= 0; d--) {
            a += rest % x->shape[d] * x->a_step[d];
            b += rest % x->shape[d] * x->b_step[d];
            c += rest % x->shape[d] * x->c_step[d];
            rest /= x->shape[d];
        }
        st = run(sink, p, x, x->a + a * size, x->b + b * size, x->c + c * size);
    }
    return st;
}

void weir__cuda_products_close(struct weir__cuda *dev)
{
    while (dev->products) {
        struct weir__cuda_product *p = dev->products;

        dev->products = p->next;
        free_product(&dev->api->lt, p);
    }
    if (dev->lt)
        dev->api->lt.destroy(dev->lt);
}
