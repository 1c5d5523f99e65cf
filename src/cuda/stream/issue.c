/* Kernels: from a description to a launch. */
#include "cuda/fault/faults.h"

#include <string.h>

/* The rough time of a memory-bound kernel: its start, and its bytes. */
#define START_NS 1000.0
#define BYTES_PER_NS 3000.0

/* The map's third coordinate counts steps of 16 bytes, whatever the strides of the stack. */
static weir_status map_tiles(struct weir__cuda *dev, const struct weir__code_tiled *t,
                             struct weir__cu_tile_map *map)
{
    const uint64_t sizes[] = {(uint64_t)t->columns, (uint64_t)t->rows, (uint64_t)t->reach / 16 + 1};
    const uint64_t strides[] = {(uint64_t)t->row_bytes, 16};
    const uint32_t box[] = {64, t->tile_rows, 1}, ones[] = {1, 1, 1};

    return weir__cuda_check(dev,
                            dev->api->cu.tile_map(map, CU_TILES_F16, 3, (void *)(uintptr_t)t->data,
                                                  sizes, strides, box, ones, 0,
                                                  CU_TILES_SWIZZLE_128, CU_TILES_PROMOTE_128, 0),
                            "tiles of an operand");
}

static weir_status map_all(struct weir__cuda *dev, const struct weir__kernel *k,
                           const struct weir__code_launch *l, struct weir__cu_tile_map *maps)
{
    struct weir__code_tiled tiled[WEIR__CODE_TILED];
    int n = k->code->tiled(k->args, l, tiled);
    weir_status st = WEIR_OK;

    for (int i = 0; i < n && !st; i++)
        st = map_tiles(dev, &tiled[i], &maps[i]);
    return st;
}

/* Replaces the kernel of a node. The node keeps its edges and its attributes, so it cannot get
 * another size of clusters: then nothing is counted. */
static weir__cu_result replace(const struct weir__cuda_sink *sink,
                               const struct weir__code_launch *l, weir__cu_function function,
                               void **params)
{
    const struct weir__cu_node_kernel to = {
        .function = function,
        .grid = {l->grid, 1, 1},
        .block = {l->threads, 1, 1},
        .shared = l->shared,
        .params = params,
    };

    if (sink->patch->cluster != weir__max(l->cluster, 1))
        return 0;
    sink->patch->n++;
    return sink->dev->api->cu.exec_set_kernel(sink->patch->exec, sink->patch->node, &to);
}

/* Launches a kernel. Every source in kernels/ waits itself (await_earlier) for the kernels before
 * it, in a graph for all its predecessors. So on GPUs that can, it is started before they end. */
static weir__cu_result start(const struct weir__cuda_sink *sink, const struct weir__code *code,
                             const struct weir__code_launch *l, weir__cu_function function,
                             void **params)
{
    struct weir__cu_launch_attribute attributes[2];
    unsigned n = 0;
    struct weir__cu_launch how = {
        .grid = {l->grid, 1, 1},
        .block = {l->threads, 1, 1},
        .shared = l->shared,
        .stream = sink->stream,
        .attributes = attributes,
    };

    if (sink->patch)
        return replace(sink, l, function, params);
    if (!code->source && l->arch >= 90)
        attributes[n++] = (struct weir__cu_launch_attribute){
            .id = CU_LAUNCH_PROGRAMMATIC_SERIALIZATION, .value.on = 1};
    if (l->cluster)
        attributes[n++] = (struct weir__cu_launch_attribute){.id = CU_LAUNCH_CLUSTER,
                                                             .value.cluster = {l->cluster, 1, 1}};
    how.nattributes = n;
    return sink->dev->api->cu.launch_with(&how, function, params, NULL);
}

struct weir__code_launch weir__cuda_plan_launch(const struct weir__cuda *dev, unsigned cores)
{
    /* Some of the cores may have none beside them for a cluster. Every GPU that has clusters has
     * them of 8 blocks. */
    bool clusters = dev->gpu.clusters && dev->gpu.major >= 9 && cores == dev->cores.total;

    return (struct weir__code_launch){.threads = 256,
                                      .arch = (uint32_t)(dev->gpu.major * 10 + dev->gpu.minor),
                                      .clusters = clusters ? 8 : 0};
}

static weir_status launch(const struct weir__cuda_sink *sink, const struct weir__kernel *k)
{
    struct weir__cuda *dev = sink->dev;
    struct weir__code_context context = sink->context;
    /* The entry's parameter may be longer than this call's arguments. */
    _Alignas(16) unsigned char args[WEIR_ARGS_MAX];
    struct weir__cu_tile_map maps[WEIR__CODE_TILED];
    void *params[] = {args, &context, maps};

    context.name = k->name;
    context.cores = sink->cores;
    context.counters =
        k->code->counts && sink->counters ? weir__cuda_counters_take(dev, sink->counters) : NULL;
    memcpy(args, k->args, k->args_size);
    for (unsigned phase = 0; phase < k->phases; phase++) {
        struct weir__code_launch l = weir__cuda_plan_launch(dev, sink->cores);
        weir__cu_function function;
        weir_status st;

        l.counters = context.counters ? WEIR__CODE_COUNTERS : 0;
        k->code->shape(k->args, phase, sink->cores, &l);
        if (!l.grid)
            continue;
        if ((st = weir__cuda_find_function(dev, k->code, k->args, &l, &function)))
            return st;
        if (k->code->tiled && (st = map_all(dev, k, &l, maps)))
            return st;
        context.phase = phase;
        if ((st = weir__cuda_check(dev, start(sink, k->code, &l, function, params), k->name)))
            return st;
    }
    return WEIR_OK;
}

static void one_block_a_core(const void *args, unsigned phase, unsigned cores,
                             struct weir__code_launch *l)
{
    (void)args;
    (void)phase;
    l->grid = cores ? cores : 1;
    l->threads = 32;
}

/* While products are timed, launches the source "busy" in place of a kernel, for about as long. */
static weir_status stand_in(const struct weir__cuda_sink *sink, const struct weir__kernel *k)
{
    static const struct weir__code busy = {.text = "busy", .shape = one_block_a_core};
    const struct {
        double ns;
        int64_t blocks;
    } args = {(double)k->bytes / BYTES_PER_NS - START_NS, sink->cores};
    const struct weir__kernel kernel = {
        .name = "a stand-in", .code = &busy, .args = &args, .args_size = sizeof args, .phases = 1};

    return launch(sink, &kernel);
}

weir_status weir__cuda_issue(const struct weir__cuda_sink *sink, const struct weir__kernel *k)
{
    struct weir__product product;

    if (sink->into && !k->code->product)
        return stand_in(sink, k);
    if (k->code->kind == WEIR__CODE_FILL) {
        const struct weir__fill *fill = k->args;

        return weir__cuda_check(
            sink->dev,
            sink->dev->api->cu.fill_async((weir__cu_address)(uintptr_t)fill->address, fill->value,
                                          fill->size, sink->stream),
            k->name);
    }
    if (k->code->product && k->code->product(k->args, &product)) {
        weir_status st = weir__cuda_product_run(sink, &product, 1);

        if (st != WEIR_EUNSUPPORTED)
            return st;
    }
    if (sink->into)
        return stand_in(sink, k);
    return launch(sink, k);
}
