/* Kernels: sources that the emulator runs, and a few that a test or the fake has in their place;
 * parts of the cores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

/* What the text "busy" takes. */
struct busy {
    double ns;
    int64_t blocks;
};

/* ---- kernels that are functions ---- */

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

bool fake_is_function(const char *text)
{
    return find_replaced(text) || !strcmp(text, "fault") || !strcmp(text, "busy") ||
           !strcmp(text, "where");
}

static void emulate(const struct fake_op *op)
{
    struct emu_launch launch = {
        .module = op->u.kernel.module,
        .grid = op->u.kernel.blocks,
        .threads = op->u.kernel.threads,
        .shared = op->u.kernel.shared,
        .cluster = op->u.kernel.cluster,
        .params = (void **)(uintptr_t)op->u.kernel.params,
    };

    launch.ranges = fake_ranges(&launch.nranges, op->u.kernel.given);
    emu_run(&launch);
}

int fake_run_kernel(const struct fake_op *op)
{
    const char *text = op->u.kernel.text;
    void *args = op->u.kernel.params[0];
    fake_kernel own = find_replaced(text);

    if (own)
        return own(args, op->u.kernel.params[1]);
    if (!strcmp(text, "fault"))
        return FAKE_ILLEGAL_ADDRESS;
    if (!strcmp(text, "busy"))
        be_busy(args);
    else if (!strcmp(text, "where"))
        say_where(*(int **)args, &op->u.kernel.cores, op->u.kernel.blocks);
    else if (op->u.kernel.module)
        emulate(op);
    else
        fake_misuse("there is no kernel '%s'", text);
    return 0;
}

/* ---- modules and launches ---- */

/* An image is "fake w NAME PATH": the path is the emulator's, empty for a function. */
int cuModuleLoadData(weir__cu_module *module, const void *image)
{
    struct fake_module *m;
    char path[512] = "";

    FAKE_CALL_IN_CONTEXT();
    if (strncmp(image, "fake ", 5) || strlen(image) < 8)
        return 200; /* an invalid image */
    m = fake_new(FAKE_MODULE, sizeof *m);
    m->waits = ((const char *)image)[5] == 'w';
    m->shared = 48 << 10; /* without asking for more */
    sscanf((const char *)image + 7, "%63s %511s", m->text, path);
    if (*path && !(m->module = emu_load(path)))
        fake_misuse("module %s cannot be loaded", path);
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
    struct fake_module *m;

    FAKE_CALL_IN_CONTEXT();
    m = fake_check(function, FAKE_MODULE);
    if (attribute != CU_FUNCTION_DYNAMIC_SHARED || value > EMU_SHARED_MAX)
        return FAKE_INVALID;
    m->shared = (unsigned)value;
    return 0;
}

/* What the GPU asks of a tensor that it fetches tiles of, where a row of a tile is 128 bytes. */
int cuTensorMapEncodeTiled(struct weir__cu_tile_map *map, int type, unsigned rank, void *address,
                           const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *element_strides, int interleave, int swizzle,
                           int promotion, int fill)
{
    struct emu_tile_map made = {0};

    FAKE_CALL();
    if ((uintptr_t)map % 64 || type != CU_TILES_F16 || rank != 3 || (uintptr_t)address % 16 ||
        interleave || swizzle != CU_TILES_SWIZZLE_128 || promotion < 0 || promotion > 3 || fill ||
        box[0] * 2 > 128)
        return FAKE_INVALID;
    for (unsigned i = 0; i < rank; i++)
        if (!sizes[i] || sizes[i] > (uint64_t)1 << 32 || !box[i] || box[i] > 256 ||
            element_strides[i] != 1 ||
            (i && (!strides[i - 1] || strides[i - 1] % 16 || strides[i - 1] >> 40)))
            return FAKE_INVALID;
    memset(map, 0, sizeof *map);
    made.data = address;
    for (unsigned i = 0; i < 3; i++) {
        made.sizes[i] = sizes[i];
        made.box[i] = box[i];
        if (i)
            made.strides[i - 1] = strides[i - 1];
    }
    _Static_assert(sizeof made <= sizeof *map, "a map has room for it");
    memcpy(map, &made, sizeof made);
    return 0;
}

/* The parameters as they are now, one behind the other. A function takes what every entry may. */
static void copy_params(const struct fake_module *m, void **params, struct fake_op *op)
{
    size_t sizes[3] = {WEIR_ARGS_MAX, sizeof(struct weir__code_context), 0}, all = 0;

    for (int i = 0; i < 3; i++) {
        if (m->module)
            sizes[i] = emu_param_size(m->module, i);
        all += (sizes[i] + 127) / 128 * 128;
    }
    if (!(op->u.kernel.params[0] = aligned_alloc(128, all)))
        abort();
    for (int i = 0; i < 3 && sizes[i]; i++) {
        if (i)
            op->u.kernel.params[i] =
                (char *)op->u.kernel.params[i - 1] + (sizes[i - 1] + 127) / 128 * 128;
        memcpy(op->u.kernel.params[i], params[i], sizes[i]);
    }
}

static bool has_all(const struct fake_cores *cores)
{
    return cores->nruns == 1 && cores->runs[0].count == FAKE_CORES;
}

int fake_kernel_op(const struct fake_module *m, const struct weir__cu_launch *how, bool early,
                   unsigned cluster, void **params, struct fake_op *op)
{
    const unsigned *grid = how->grid, *block = how->block;

    if (!cluster || cluster > 8 || grid[0] % cluster || !grid[0] || grid[1] != 1 || grid[2] != 1 ||
        !block[0] || block[0] > 1024 || block[1] != 1 || block[2] != 1 || how->shared > m->shared)
        return FAKE_INVALID;
    if (early && !m->waits)
        fake_misuse("kernel '%s' is started early and does not wait", m->text);
    op->kind = FAKE_OP_KERNEL;
    copy_params(m, params, op);
    memcpy(op->u.kernel.text, m->text, sizeof op->u.kernel.text);
    op->u.kernel.function = m;
    op->u.kernel.module = m->module;
    op->u.kernel.blocks = grid[0];
    op->u.kernel.threads = block[0];
    op->u.kernel.shared = how->shared;
    op->u.kernel.early = early;
    op->u.kernel.cluster = cluster;
    return 0;
}

static int launch(const struct fake_module *m, const struct weir__cu_launch *how, bool early,
                  unsigned cluster, void **params)
{
    struct fake_op op = {0};
    int code = fake_kernel_op(m, how, early, cluster, params, &op);

    if (code)
        return code;
    pthread_mutex_lock(&fake_lock);
    op.u.kernel.given = fake_blocks_given();
    op.u.kernel.cores = fake_stream(how->stream)->cores;
    if (cluster > 1 && !has_all(&op.u.kernel.cores))
        fake_misuse("kernel '%s' has clusters on a part of the cores", m->text);
    code = fake_queue(fake_stream(how->stream), &op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int cuLaunchKernel(weir__cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   weir__cu_stream stream, void **params, void **extra)
{
    const struct weir__cu_launch how = {.grid = {grid_x, grid_y, grid_z},
                                        .block = {block_x, block_y, block_z},
                                        .shared = shared,
                                        .stream = stream};

    FAKE_CALL_IN_CONTEXT();
    if (extra)
        return FAKE_INVALID;
    return launch(fake_check(function, FAKE_MODULE), &how, false, 1, params);
}

int cuLaunchKernelEx(const struct weir__cu_launch *how, weir__cu_function function, void **params,
                     void **extra)
{
    unsigned cluster = 1;
    bool early = false;

    FAKE_CALL_IN_CONTEXT();
    if (extra || (how->nattributes && fake_major() < 9))
        return FAKE_INVALID;
    for (unsigned i = 0; i < how->nattributes; i++) {
        const struct weir__cu_launch_attribute *a = &how->attributes[i];

        if (a->id == CU_LAUNCH_PROGRAMMATIC_SERIALIZATION)
            early = a->value.on;
        else if (a->id == CU_LAUNCH_CLUSTER && a->value.cluster[1] == 1 && a->value.cluster[2] == 1)
            cluster = a->value.cluster[0];
        else
            return FAKE_INVALID;
    }
    return launch(fake_check(function, FAKE_MODULE), how, early, cluster, params);
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
