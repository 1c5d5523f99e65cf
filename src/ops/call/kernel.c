/* Kernel: a stand-in for a kernel of given cost. On a device with real time each block keeps its
 * core busy for the given time. A Kernel with a `collective` meets the Kernels with the same name
 * on the other ranks, if the plan is compiled for a rank. */
#include "tensor/kernel_params.h"

#include <math.h>
#include <time.h>

#include "ops/busy.h"
#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"

enum { MAX_BLOCKS = 1 << 20 };

static const struct weir__op_field kernel_fields[] = {
#define FIELD(name, kind, count)                                                     \
    {                                                                                \
#name, WEIR__FIELD_##kind, offsetof(struct weir__kernel_params, name), count \
    }
#define TEXT(name) FIELD(name, STRING, sizeof((struct weir__kernel_params *)NULL)->name)
    TEXT(engine),
    FIELD(blocks, INT, 1),
    FIELD(us_per_block, FLOAT, 1),
    FIELD(us, FLOAT, 1),
    FIELD(bytes, INT, 1),
    FIELD(gang, BOOL, 1),
    TEXT(class),
    TEXT(collective),
    FIELD(flops, FLOAT, 1),
    TEXT(dtype),
    FIELD(m, INT, 1),
    FIELD(n, INT, 1),
    FIELD(k, INT, 1),
    FIELD(ranks, INT, 1),
    FIELD(net_bytes, FLOAT, 1),
    FIELD(uneven, FLOAT, 1),
    FIELD(delay_us, FLOAT, 1),
    FIELD(measured, BOOL, 1),
    FIELD(of_cores, INT, 1),
#undef TEXT
#undef FIELD
};

static bool is_class(const char *name)
{
    static const char *const classes[] = {"",     "ascendc", "tbe",   "atb",
                                          "hccl", "mc2",     "aicpu", "static"};

    for (size_t i = 0; i < weir__countof(classes); i++)
        if (!strcmp(name, classes[i]))
            return true;
    return false;
}

static weir_status infer_kernel(struct weir__call *call)
{
    const struct weir__kernel_params *p = call->params;

    if (weir__kernel_engine(p) == WEIR_ENGINE_COUNT)
        return weir__fail(WEIR_EINVAL,
                          "Kernel: there is no engine '%s': cube, vector, mix, sdma or host",
                          p->engine);
    if (!is_class(p->class))
        return weir__fail(WEIR_EINVAL,
                          "Kernel: there is no class '%s': ascendc, tbe, atb, hccl, mc2, aicpu or "
                          "static",
                          p->class);
    if (p->blocks < 0 || p->blocks > MAX_BLOCKS)
        return weir__fail(WEIR_ERANGE, "Kernel: %lld blocks are out of range: 1..%d",
                          (long long)p->blocks, MAX_BLOCKS);
    if (!(p->us >= 0) || !(p->us_per_block >= 0) || isinf(p->us) || isinf(p->us_per_block))
        return weir__fail(WEIR_ERANGE,
                          "Kernel: us %g and us_per_block %g must be finite and not "
                          "negative",
                          p->us, p->us_per_block);
    if (p->us > 0 && p->us_per_block > 0)
        return weir__fail(WEIR_EINVAL, "Kernel: us %g and us_per_block %g exclude each other",
                          p->us, p->us_per_block);
    if (!(p->delay_us >= 0) || isinf(p->delay_us))
        return weir__fail(WEIR_ERANGE, "Kernel: delay_us %g must be finite and not negative",
                          p->delay_us);
    if (p->delay_us > 0 && !p->measured)
        return weir__fail(WEIR_EINVAL, "Kernel: delay_us %g is for a measured kernel", p->delay_us);
    if (p->of_cores < 0 || p->of_cores > MAX_BLOCKS || (p->of_cores && !p->measured))
        return weir__fail(WEIR_ERANGE,
                          "Kernel: of_cores %lld is for a measured kernel, and in 0..%d",
                          (long long)p->of_cores, MAX_BLOCKS);
    if (p->bytes < 0)
        return weir__fail(WEIR_ERANGE, "Kernel: bytes %lld must not be negative",
                          (long long)p->bytes);
    if (!(p->net_bytes >= 0) || isinf(p->net_bytes))
        return weir__fail(WEIR_ERANGE, "Kernel: net_bytes %g must be finite and not negative",
                          p->net_bytes);
    if (p->uneven != 0 && !(p->uneven >= 1 && p->uneven <= MAX_BLOCKS))
        return weir__fail(WEIR_ERANGE, "Kernel: uneven %g is out of range: 1..%d, or 0", p->uneven,
                          MAX_BLOCKS);
    if (!(p->flops >= 0) || isinf(p->flops))
        return weir__fail(WEIR_ERANGE, "Kernel: flops %g must be finite and not negative",
                          p->flops);
    if (p->flops > 0 && (p->us > 0 || p->us_per_block > 0))
        return weir__fail(WEIR_EINVAL, "Kernel: flops %g and a time of %g us exclude each other",
                          p->flops, p->us > 0 ? p->us : p->us_per_block);
    if (p->m < 0 || p->n < 0 || p->k < 0)
        return weir__fail(WEIR_ERANGE, "Kernel: m %lld, n %lld and k %lld must not be negative",
                          (long long)p->m, (long long)p->n, (long long)p->k);
    if (p->ranks < 0 || p->ranks > MAX_BLOCKS)
        return weir__fail(WEIR_ERANGE, "Kernel: %lld ranks are out of range: 0..%d",
                          (long long)p->ranks, MAX_BLOCKS);
    if (!weir__kernel_dtype_is_known(p->dtype))
        return weir__fail(WEIR_EINVAL,
                          "Kernel: there is no type '%s': f16, bf16, f32, hf32, f64, i8, i32, i64 "
                          "or f8",
                          p->dtype);
    call->out[0].dtype = WEIR_U8;
    call->out[0].ndim = 1;
    call->out[0].shape[0] = 0;
    return WEIR_OK;
}

static double block_us(const struct weir__kernel_params *p)
{
    return p->us > 0 ? p->us : p->us_per_block;
}

static void cost_kernel(const struct weir__call *call, struct weir__cost *cost)
{
    const struct weir__kernel_params *p = call->params;
    const double flops_per_us = 32e3; /* rough value for one core, used when only the time is
                                       * known */

    cost->flops = p->flops > 0 ? p->flops : flops_per_us * block_us(p) * weir__kernel_blocks(p);
    cost->type = p->dtype[0] ? p->dtype : "f16";
    cost->m = (double)p->m;
    cost->n = (double)p->n;
    cost->k = (double)p->k;
    cost->bytes = (double)p->bytes;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Runs for a kernel without time: it is called like any other. */
static weir_status empty_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_OK;
}

static weir_status busy_kernel(const void *args, const weir_block *block)
{
    double ns = ((const struct weir__busy *)args)->ns;
    uint64_t began = now_ns();

    (void)block;
    while ((double)(now_ns() - began) < ns)
        ;
    return WEIR_OK;
}

static weir_status busy_part(const void *args, const weir_block *block)
{
    const struct weir__busy_part *a = args;

    return busy_kernel(&a->busy, block);
}

static void member_kernel(const void *params, struct weir__member *member)
{
    const struct weir__kernel_params *p = params;

    *member = (struct weir__member){.is_collective = *p->collective,
                                    .group = "",
                                    .of_some = p->ranks,
                                    .name = p->collective,
                                    .to = -1,
                                    .from = -1};
}

/* The name lives as long as the plan's graph, and so as long as the kernel. */
static void prepare_part(const struct weir__call *call, const struct weir__busy *busy,
                         struct weir__work *work)
{
    const struct weir__kernel_params *p = call->params;
    struct weir__busy_part *a = (void *)work->args;

    memset(a, 0, sizeof *a);
    a->meet.args_size = sizeof *a;
    a->meet.offer = (struct weir__offer){
        .label = p->collective, .what = p->collective, .reduce = "", .root = -1, .ndim = -1};
    if (call->rank->group->procs) /* records between processes have room for an operator's name */
        a->meet.offer.what = "Kernel";
    a->busy = *busy;
    work->args_size = sizeof *a;
    work->fn = busy->ns > 0 && !call->model ? busy_part : NULL;
    work->code = &weir__gpu_busy_part;
    work->is_collective = true;
}

static weir_status prepare_kernel(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__kernel_params *p = call->params;
    struct weir__busy args = {1000 * block_us(p), weir__kernel_blocks(p)};

    memcpy(work->args, &args, sizeof args);
    work->args_size = sizeof args;
    work->fn = args.ns > 0 && !call->model ? busy_kernel : empty_kernel;
    work->code = &weir__gpu_busy;
    if (call->rank)
        prepare_part(call, &args, work);
    work->blocks = weir__kernel_blocks(p);
    work->engine = weir__kernel_engine(p);
    work->gang = weir__kernel_is_gang(p);
    work->together = !p->gang && p->us > 0;
    work->block_us = block_us(p);
    return WEIR_OK;
}

const struct weir__op weir__op_kernel = {
    .name = "Kernel",
    .summary = "any other kernel, by its cost; inputs only order it",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_ALWAYS_RUNS,
    .nin_min = 0,
    .nin_max = WEIR__OP_MAX_IN,
    .nout = 1,
    .params_size = sizeof(struct weir__kernel_params),
    .fields = kernel_fields,
    .nfields = weir__countof(kernel_fields),
    .member = member_kernel,
    .infer = infer_kernel,
    .cost = cost_kernel,
    .prepare = prepare_kernel,
};
