/* Kernels: weir's own for the host, as one block each; parts of the cores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"
#include "ops/host/math/elementwise.h"
#include "ops/host/math/norm.h"
#include "ops/host/math/reduce.h"
#include "ops/host/math/rotary.h"
#include "ops/host/move/concat.h"
#include "ops/host/move/generate.h"
#include "ops/host/move/index.h"
#include "ops/host/move/nonzero.h"
#include "ops/host/move/transpose.h"
#include "ops/host/product/grouped.h"

/* What the texts "copy" and "busy" take: those are the device's own. */
struct strided {
    struct weir__copy copy;
    char *packed;
    int64_t first, count;
    unsigned char bytes[1024];
};

struct busy {
    double ns;
    int64_t blocks;
};

/* ---- texts ---- */

static void copy_strided(const struct strided *a)
{
    size_t elem = a->copy.elem;

    for (int64_t i = 0; i < a->count; i++) {
        int64_t rest = a->first + i, to = 0, from = 0;
        char *dst;
        const char *src;

        for (int d = a->copy.ndim - 1; d >= 0; d--) {
            int64_t at = rest % a->copy.shape[d];

            rest /= a->copy.shape[d];
            to += at * a->copy.dst_stride[d];
            from += at * a->copy.src_stride[d];
        }
        dst = a->packed && a->copy.direction == WEIR__COPY_TO_HOST
                  ? a->packed + i * (int64_t)elem
                  : a->copy.dst + to * (int64_t)elem;
        src = !a->copy.src ? (const char *)a->bytes + i * (int64_t)elem
              : a->packed && a->copy.direction == WEIR__COPY_FROM_HOST
                  ? a->packed + i * (int64_t)elem
                  : a->copy.src + from * (int64_t)elem;
        memcpy(dst, src, elem);
    }
}

static void be_busy(const struct busy *a)
{
    if (a->ns > 0)
        nanosleep(&(struct timespec){(time_t)(a->ns / 1e9), (long)a->ns % 1000000000}, NULL);
}

/* The test's own text: each block says which core it is on. */
static void say_where(int *out, const struct fake_cores *cores, unsigned blocks)
{
    unsigned at = 0, total = 0;

    for (int r = 0; r < cores->nruns; r++)
        total += cores->runs[r].count;
    for (unsigned i = 0; i < blocks; i++) {
        at = i % total;
        for (int r = 0; r < cores->nruns; at -= cores->runs[r++].count)
            if (at < cores->runs[r].count) {
                out[i] = (int)(cores->runs[r].first + at);
                break;
            }
    }
}

static weir_kernel_fn host_kernel(const char *text)
{
    weir_kernel_fn part;

#define TEXT(name, kernel)   \
    if (!strcmp(text, name)) \
    return WEIR__ISA_PICK(kernel)
    TEXT("ew", weir__ew_kernel);
    TEXT("transpose", weir__transpose_kernel);
    TEXT("concat", weir__concat_kernel);
    TEXT("gen", weir__gen_kernel);
    TEXT("take", weir__take_kernel);
    TEXT("gather", weir__gather_kernel);
    TEXT("scatter", weir__scatter_kernel);
    TEXT("nonzero", weir__nonzero_kernel);
    TEXT("softmax", weir__softmax_kernel);
    TEXT("row_norm", weir__norm_kernel);
    TEXT("gating", weir__gating_kernel);
    TEXT("reduce", weir__reduce_kernel);
    TEXT("rotary", weir__rotary_kernel);
    TEXT("grouped", weir__grouped_kernel);
    TEXT("grouped_tiles", weir__grouped_kernel);
#undef TEXT
    if (!strcmp(text, "chain"))
        return fake_chain;
    if (!strcmp(text, "chain_norm"))
        return fake_chain_norm;
    if ((part = fake_part(text)))
        return part;
    if (!strcmp(text, "sort"))
        return fake_sort;
    if (!strcmp(text, "gemm"))
        return fake_gemm;
    if (!strncmp(text, "conv", 4))
        return fake_conv;
    return strncmp(text, "attention", 9) ? NULL : fake_attention;
}

#define WEIR__REPORT_FN static inline

static uint64_t weir__report_load(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void weir__report_store(uint64_t *p, uint64_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

static uint64_t weir__report_replace(uint64_t *p, uint64_t old, uint64_t value)
{
    __atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}

#include "device/report.h"

void fake_report(struct weir__code_context *c, int64_t index, int64_t limit, int64_t at)
{
    weir__code_report(c, index, limit, at);
}

static void report_index(struct weir__code_context *c)
{
    const char *text = strstr(weir_last_error(), "index "),
               *end = strstr(weir_last_error(), "end ");
    long long index, position, first, limit;

    if (fake_moe_failed(c))
        return;
    if (end && sscanf(end, "end %lld of group %lld is out of range: %lld..%lld", &index, &position,
                      &first, &limit) == 4) {
        fake_report(c, index, limit + 1, first);
        return;
    }
    if (!text || sscanf(text, "index %lld at position %lld is out of range: the dim has %lld",
                        &index, &position, &limit) != 3)
        fake_misuse("a kernel fails: %s", weir_last_error());
    fake_report(c, index, limit, 0);
}

static void run_on_host(weir_kernel_fn kernel, const void *args, struct weir__code_context *context)
{
    static _Alignas(64) unsigned char local[WEIR_LOCAL_BYTES]; /* one thread runs kernels */
    weir_block block = {.count = 1, .phase = context->phase, .local = local};
    bool at_once = kernel == fake_sort || kernel == fake_conv || kernel == fake_attention;

    /* Some do in the first phase what texts do in several. */
    if (!(at_once && context->phase) && kernel(args, &block))
        report_index(context);
}

/* ---- replaced kernels ---- */

static struct {
    char text[64];
    fake_kernel kernel;
} replaced[16];

void fake_replace_kernel(const char *text, fake_kernel kernel)
{
    int i = 0;

    pthread_mutex_lock(&fake_lock);
    while (i < 15 && replaced[i].text[0] && strcmp(replaced[i].text, text))
        i++;
    snprintf(replaced[i].text, sizeof replaced[i].text, "%s", text);
    replaced[i].kernel = kernel;
    pthread_mutex_unlock(&fake_lock);
}

static fake_kernel find_replaced(const char *text)
{
    fake_kernel found = NULL;

    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < 16; i++)
        if (!strcmp(replaced[i].text, text))
            found = replaced[i].kernel;
    pthread_mutex_unlock(&fake_lock);
    return found;
}

int fake_run_kernel(const struct fake_op *op)
{
    const char *text = op->u.kernel.text;
    struct weir__code_context context = op->u.kernel.context;
    fake_kernel own = find_replaced(text);
    weir_kernel_fn kernel;

    if (own)
        return own(op->u.kernel.args, &context);
    if (!strcmp(text, "fault"))
        return FAKE_ILLEGAL_ADDRESS;
    if (!strcmp(text, "copy"))
        copy_strided((const void *)op->u.kernel.args);
    else if (!strcmp(text, "busy"))
        be_busy((const void *)op->u.kernel.args);
    else if (!strcmp(text, "where"))
        say_where(*(int **)(void *)op->u.kernel.args, &op->u.kernel.cores, op->u.kernel.blocks);
    else if ((kernel = host_kernel(text)))
        run_on_host(kernel, op->u.kernel.args, &context);
    else
        fake_misuse("there is no kernel '%s'", text);
    return 0;
}

/* ---- modules and launches ---- */

int cuModuleLoadData(weir__cu_module *module, const void *image)
{
    struct fake_module *m;

    FAKE_CALL_IN_CONTEXT();
    if (strncmp(image, "fake ", 5) || strlen(image) < 8)
        return 200; /* an invalid image */
    m = fake_new(FAKE_MODULE, sizeof *m);
    m->waits = ((const char *)image)[5] == 'w';
    snprintf(m->text, sizeof m->text, "%s", (const char *)image + 7);
    *module = m;
    return 0;
}

int cuModuleUnload(weir__cu_module module)
{
    int code = fake_enter_context(__func__);

    fake_forget(fake_check(module, FAKE_MODULE));
    free(module);
    return code;
}

/* A module has one function, which is the module. */
int cuModuleGetFunction(weir__cu_function *function, weir__cu_module module, const char *name)
{
    const struct fake_module *m;

    FAKE_CALL_IN_CONTEXT();
    m = fake_check(module, FAKE_MODULE);
    *function = module;
    return strcmp(m->text, name) ? FAKE_NOT_FOUND : 0;
}

int cuFuncSetAttribute(weir__cu_function function, int attribute, int value)
{
    FAKE_CALL_IN_CONTEXT();
    fake_check(function, FAKE_MODULE);
    return attribute == CU_FUNCTION_DYNAMIC_SHARED && value <= 227 << 10 ? 0 : FAKE_INVALID;
}

/* What the GPU asks of a tensor that it fetches tiles of, where a row of a tile is 128 bytes. */
int cuTensorMapEncodeTiled(struct weir__cu_tile_map *map, int type, unsigned rank, void *address,
                           const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *element_strides, int interleave, int swizzle,
                           int promotion, int fill)
{
    FAKE_CALL();
    if ((uintptr_t)map % 64 || type != CU_TILES_F16 || rank < 3 || rank > 5 ||
        (uintptr_t)address % 16 || interleave || swizzle != CU_TILES_SWIZZLE_128 || promotion < 0 ||
        promotion > 3 || fill || box[0] * 2 > 128)
        return FAKE_INVALID;
    for (unsigned i = 0; i < rank; i++)
        if (!sizes[i] || sizes[i] > (uint64_t)1 << 32 || !box[i] || box[i] > 256 ||
            element_strides[i] != 1 ||
            (i && (!strides[i - 1] || strides[i - 1] % 16 || strides[i - 1] >> 40)))
            return FAKE_INVALID;
    memset(map, 0, sizeof *map);
    map->words[0] = (uint64_t)(uintptr_t)address;
    return 0;
}

static int launch(const struct fake_module *m, const unsigned *grid, const unsigned *block,
                  bool early, weir__cu_stream stream, void **params)
{
    struct fake_op op = {.kind = FAKE_OP_KERNEL};
    size_t size;
    int code;

    if (!grid[0] || grid[1] != 1 || grid[2] != 1 || !block[0] || block[0] > 1024 || block[1] != 1 ||
        block[2] != 1)
        return FAKE_INVALID;
    if (early && !m->waits)
        fake_misuse("kernel '%s' is started early and does not wait", m->text);
    size = strcmp(m->text, "copy") ? WEIR_ARGS_MAX : sizeof(struct strided);
    if (!(op.u.kernel.args = aligned_alloc(16, (size + 15) / 16 * 16)))
        abort();
    memcpy(op.u.kernel.args, params[0], size);
    if (strcmp(m->text, "copy"))
        memcpy(&op.u.kernel.context, params[1], sizeof op.u.kernel.context);
    memcpy(op.u.kernel.text, m->text, sizeof op.u.kernel.text);
    op.u.kernel.blocks = grid[0];
    op.u.kernel.early = early;
    pthread_mutex_lock(&fake_lock);
    op.u.kernel.cores = fake_stream(stream)->cores;
    code = fake_queue(fake_stream(stream), &op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int cuLaunchKernel(weir__cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   weir__cu_stream stream, void **params, void **extra)
{
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};

    (void)shared;
    FAKE_CALL_IN_CONTEXT();
    if (extra)
        return FAKE_INVALID;
    return launch(fake_check(function, FAKE_MODULE), grid, block, false, stream, params);
}

int cuLaunchKernelEx(const struct weir__cu_launch *how, weir__cu_function function, void **params,
                     void **extra)
{
    const struct weir__cu_launch_attribute *a = how->attributes;
    bool early = false;

    FAKE_CALL_IN_CONTEXT();
    if (extra || how->nattributes > 1)
        return FAKE_INVALID;
    if (how->nattributes) {
        if (a->id != CU_LAUNCH_PROGRAMMATIC_SERIALIZATION || fake_major() < 9)
            return FAKE_INVALID;
        early = a->value.on;
    }
    return launch(fake_check(function, FAKE_MODULE), how->grid, how->block, early, how->stream,
                  params);
}

/* ---- parts of the cores ---- */

int cuDeviceGetDevResource(weir__cu_device device, struct weir__cu_resource *resource, int type)
{
    (void)device;
    FAKE_CALL();
    memset(resource, 0, sizeof *resource);
    resource->type = type;
    resource->u.sm.sm_count = FAKE_CORES;
    return type == CU_RESOURCE_SM ? 0 : FAKE_INVALID;
}

/* The first core of a resource is kept where the real one keeps secrets. */
int cuDevSmResourceSplitByCount(struct weir__cu_resource *result, unsigned *groups,
                                const struct weir__cu_resource *input,
                                struct weir__cu_resource *rest, unsigned flags, unsigned min_count)
{
    (void)flags;
    FAKE_CALL();
    *rest = *input;
    if (*groups > FAKE_CORES / min_count)
        *groups = FAKE_CORES / min_count;
    if (min_count == 8 && *groups > 15)
        *groups = 15; /* what an H200 gives */
    for (unsigned i = 0; i < *groups; i++) {
        unsigned first = i * min_count;

        result[i] = *input;
        result[i].u.sm.sm_count = min_count;
        memcpy(result[i].padding, &first, sizeof first);
    }
    return 0;
}

int cuDevResourceGenerateDesc(weir__cu_descriptor *out, struct weir__cu_resource *resources,
                              unsigned n)
{
    static _Thread_local struct fake_cores cores; /* until the next */

    FAKE_CALL();
    cores.nruns = 0;
    for (unsigned i = 0; i < n && i < 32; i++) {
        struct fake_range *run = &cores.runs[cores.nruns++];

        memcpy(&run->first, resources[i].padding, sizeof run->first);
        run->count = resources[i].u.sm.sm_count;
    }
    *out = &cores;
    return 0;
}

struct fake_green {
    struct fake_object object;
    struct fake_cores cores;
};

int cuGreenCtxCreate(weir__cu_green *green, weir__cu_descriptor desc, weir__cu_device device,
                     unsigned flags)
{
    struct fake_green *g;

    (void)device;
    FAKE_CALL_IN_CONTEXT();
    if (flags != CU_GREEN_DEFAULT_STREAM)
        return FAKE_INVALID;
    g = fake_new(FAKE_GREEN, sizeof *g);
    g->cores = *(const struct fake_cores *)desc;
    *green = g;
    return 0;
}

int cuGreenCtxDestroy(weir__cu_green green)
{
    int code = fake_enter(__func__);

    fake_forget(fake_check(green, FAKE_GREEN));
    free(green);
    return code;
}

int cuGreenCtxStreamCreate(weir__cu_stream *stream, weir__cu_green green, unsigned flags,
                           int priority)
{
    const struct fake_green *g;

    (void)flags;
    FAKE_CALL_IN_CONTEXT();
    g = fake_check(green, FAKE_GREEN);
    if (priority < -5 || priority > 0)
        return FAKE_INVALID;
    pthread_mutex_lock(&fake_lock);
    *stream = fake_new_stream(&g->cores);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}
