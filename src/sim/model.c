#include "sim/model.h"

#include <math.h>
#include <string.h>

/* Flops per byte that a matrix operator reads from the L2 cache, with tiles of 128 x 256 in half
 * precision. */
#define CUBE_FLOP_PER_L2_BYTE (2.0 * 128 * 256 / ((128 + 256) * 2))

uint64_t weir__model_ps(double us)
{
    return us > 0 ? (uint64_t)llround(us * (double)WEIR__PS_PER_US) : 0;
}

uint64_t weir__model_overhead(const struct weir__model *m, double us)
{
    return m->overhead ? weir__model_ps(us) : 0;
}

/* Returns the rate of a type on its engine, relative to half precision. */
static double rate_of(const struct weir__model *m, bool cube, const char *type)
{
    const struct weir__profile *p = &m->profile;
    const struct {
        const char *type;
        double cube, vector;
    } rates[] = {
        {"f32", m->hf32 ? p->cube_hf32_ratio : p->cube_f32_ratio, p->vector_f32_ratio},
        {"hf32", p->cube_hf32_ratio, p->vector_f32_ratio},
        {"bf16", p->cube_bf16_ratio, 1},
        {"f64", p->cube_f64_ratio, p->vector_f64_ratio},
        {"i64", p->cube_i32_ratio, p->vector_f64_ratio},
        {"i32", p->cube_i32_ratio, p->vector_f32_ratio},
        {"i8", p->cube_i8_ratio, 1},
        {"f8", p->cube_f8_ratio, 1},
    };

    for (size_t i = 0; type && i < weir__countof(rates); i++)
        if (!strcmp(type, rates[i].type))
            return cube ? rates[i].cube : rates[i].vector;
    return 1;
}

/* Returns the factor by which padding to a multiple of 16 increases n. */
static double padding(double n)
{
    return n > 0 ? ceil(n / 16) * 16 / n : 1;
}

double weir__model_flops(const struct weir__model *m, weir_engine engine,
                         const struct weir__flops *flops)
{
    bool cube = engine == WEIR_ENGINE_CUBE || engine == WEIR_ENGINE_MIX;
    double count = flops->count / rate_of(m, cube, flops->type);

    if (cube && flops->k > 0)
        count *= padding(flops->m) * padding(flops->n) * (1 + m->profile.cube_fill_k / flops->k);
    return count;
}

void weir__model_limits(const struct weir__model *m, struct weir__sim_limits *out)
{
    const struct weir__profile *p = &m->profile;

    *out = (struct weir__sim_limits){
        .cores = {[WEIR__POOL_CUBE] = (uint32_t)p->cube_cores,
                  [WEIR__POOL_VECTOR] = (uint32_t)p->vector_cores,
                  [WEIR__POOL_SDMA] = (uint32_t)p->sdma_channels,
                  [WEIR__POOL_HOST] = (uint32_t)p->host_cores},
        .flow = {[WEIR__FLOW_HBM] = (uint64_t)(p->hbm_gb_s * p->hbm_efficiency * 1e9),
                 [WEIR__FLOW_L2] = (uint64_t)(p->l2_gb_s * 1e9),
                 [WEIR__FLOW_LINK] = (uint64_t)(p->super_gb_s * 1e9)},
        .hold = m->hold,
        .seed = m->seed,
    };
}

static double launch_us(const struct weir__profile *p, const struct weir__load *load)
{
    if (load->engine == WEIR_ENGINE_HOST)
        return p->launch_host_us;
    if (load->in_graph)
        return p->graph_launch_us;
    if (load->comm)
        return p->launch_comm_us;
    return load->engine == WEIR_ENGINE_VECTOR || load->engine == WEIR_ENGINE_SDMA
               ? p->launch_vector_us
               : p->launch_cube_us;
}

static void set_cores(const struct weir__profile *p, const struct weir__load *load,
                      struct weir__sim_op *out)
{
    uint8_t *n = out->per_block;

    if (p->shared_cores > 0 && load->engine <= WEIR_ENGINE_MIX) {
        n[WEIR__POOL_CUBE] = 1;
        return;
    }
    switch (load->engine) {
    case WEIR_ENGINE_CUBE:
        n[WEIR__POOL_CUBE] = 1;
        break;
    case WEIR_ENGINE_MIX:
        n[WEIR__POOL_CUBE] = 1;
        n[WEIR__POOL_VECTOR] = p->vector_cores < 2 ? 1 : 2;
        break;
    case WEIR_ENGINE_SDMA:
        n[WEIR__POOL_SDMA] = 1;
        break;
    case WEIR_ENGINE_HOST:
        n[WEIR__POOL_HOST] = 1;
        break;
    default:
        n[WEIR__POOL_VECTOR] = 1;
        break;
    }
}

/* Returns the time before an operator's first byte moves; 0 if its time is given, which includes
 * it. */
static double head_us(const struct weir__profile *p, const struct weir__load *load)
{
    if (load->block_us > 0 || load->comm || load->engine > WEIR_ENGINE_MIX ||
        !(load->flops > 0 || load->bytes > 0))
        return 0;
    return load->engine == WEIR_ENGINE_VECTOR ? p->vector_head_us : p->cube_head_us;
}

/* Returns the flops of one core in a microsecond. */
static double core_rate(const struct weir__profile *p, weir_engine engine)
{
    bool cube = engine == WEIR_ENGINE_CUBE || engine == WEIR_ENGINE_MIX;
    double share = engine == WEIR_ENGINE_MIX ? p->mix_efficiency : p->cube_efficiency;
    double rate =
        cube ? p->cube_flop_per_cycle * share : p->vector_flop_per_cycle * p->vector_efficiency;

    return rate * p->clock_mhz;
}

/* Returns the microseconds of one block, from its flops and bytes. */
static double block_us(const struct weir__profile *p, const struct weir__load *load, double blocks)
{
    double gb_s = load->engine == WEIR_ENGINE_SDMA ? p->sdma_gb_s : p->core_gb_s;
    double compute = load->flops / blocks / core_rate(p, load->engine);
    double memory = load->bytes / blocks / (gb_s * 1e3);

    return compute > memory ? compute : memory;
}

/* Returns the operator's time by the profile's curves on `cores` cores, alone or, with `beside`,
 * among other operators. */
static double curve_us(const struct weir__profile *p, const struct weir__load *load, double cores,
                       bool beside)
{
#define PICK(key) (beside ? &p->key##_beside : &p->key)
    bool cube = load->engine == WEIR_ENGINE_CUBE, mix = load->engine == WEIR_ENGINE_MIX;
    const struct weir__curve *flops = cube  ? PICK(cube_curve)
                                      : mix ? PICK(mix_curve)
                                            : PICK(vector_curve);
    const struct weir__curve *bytes = cube         ? PICK(weight_curve)
                                      : load->rows ? PICK(row_curve)
                                                   : PICK(hbm_curve);
    const struct weir__curve *depth = PICK(depth_curve);
#undef PICK
    double all = p->shared_cores > 0 || cube || mix ? p->cube_cores : p->vector_cores;
    double share = fmin(1, cores / all), rate = core_rate(p, load->engine) * cores;
    double whole = p->hbm_gb_s * p->hbm_efficiency * 1e3;
    double gb_s = fmin(whole, cores * p->core_gb_s * 1e3);

    /* beside others, cores with less work than the busiest run other operators meanwhile */
    double work = load->flops * (beside ? 1 : fmax(1, load->waste));
    double us = fmax(work / rate / weir__curve_at(flops, work / share),
                     load->bytes / gb_s / weir__curve_at(bytes, load->bytes * whole / gb_s));

    return load->depth > 0 && depth->n ? fmax(us, load->depth / weir__curve_at(depth, load->depth))
                                       : us;
}

/* Fills *out by the profile's curves; false if they do not apply. The operator holds its cores for
 * the time that it takes beside others. The additional time that it takes alone is launch and
 * waiting, in which other operators can use the cores. */
static bool by_curves(const struct weir__model *m, const struct weir__load *load, uint32_t cores,
                      struct weir__sim_op *out)
{
    const struct weir__profile *p = &m->profile;
    double us, busy;

    if (!p->hbm_curve.n || load->engine > WEIR_ENGINE_MIX)
        return false;
    us = curve_us(p, load, cores, false);
    busy = fmin(us, curve_us(p, load, cores, true));
    out->cores = out->blocks = cores;
    out->block_ps = weir__model_ps(busy);
    out->launch_ps += weir__model_overhead(m, us - busy);
    if (out->block_ps)
        out->draws[WEIR__FLOW_HBM] =
            (uint64_t)(fmin(load->bytes * 1e6 / busy, p->hbm_gb_s * p->hbm_efficiency * 1e9) /
                       out->blocks);
    return true;
}

/* Returns what one block draws. If `whole`, the operator's total time is given; then its draw is
 * limited so that it takes that time when it runs alone. */
static uint64_t draw(double bytes, const struct weir__sim_op *op, uint64_t limit, bool whole)
{
    double rate = bytes * 1e12 / (double)op->block_ps;
    uint32_t n = op->cores < op->blocks ? op->cores : op->blocks;

    return whole && rate > (double)limit / n ? limit / n : (uint64_t)rate;
}

void weir__model_op(const struct weir__model *m, const struct weir__load *load,
                    struct weir__sim_op *out)
{
    uint32_t blocks = load->blocks ? load->blocks : 1;
    uint32_t cores = load->cores < blocks ? load->cores : blocks, rounds = 1;
    bool timed = load->block_us > 0, whole = timed && load->together;
    struct weir__sim_limits limits;
    double bytes, l2;

    *out = (struct weir__sim_op){.comm = load->comm};
    set_cores(&m->profile, load, out);
    cores = cores ? cores : 1;
    out->launch_ps =
        weir__model_overhead(m, launch_us(&m->profile, load) + head_us(&m->profile, load));
    if (!timed && !load->gang && !load->together && (load->flops > 0 || load->bytes > 0) &&
        by_curves(m, load, load->cores ? load->cores : 1, out))
        return;
    /* One block per core of its limit: more cores are never slower. */
    if (!timed && (load->flops > 0 || load->bytes > 0))
        blocks = cores;
    out->block_ps = weir__model_ps(timed ? load->block_us : block_us(&m->profile, load, blocks));
    out->grant = load->gang       ? WEIR__GRANT_GANG
                 : load->together ? WEIR__GRANT_TOGETHER
                                  : WEIR__GRANT_ANY;
    if (out->grant != WEIR__GRANT_ANY) { /* each core runs an equal share of the blocks */
        rounds = (blocks + cores - 1) / cores;
        out->block_ps *= rounds;
        blocks = cores;
    }
    out->blocks = blocks;
    out->cores = cores;
    bytes = load->bytes / blocks;
    l2 = bytes;
    if (load->engine == WEIR_ENGINE_CUBE && load->flops / blocks / CUBE_FLOP_PER_L2_BYTE > l2)
        l2 = load->flops / blocks / CUBE_FLOP_PER_L2_BYTE;
    if (out->block_ps) {
        weir__model_limits(m, &limits);
        out->draws[WEIR__FLOW_HBM] = draw(bytes, out, limits.flow[WEIR__FLOW_HBM], whole);
        out->draws[WEIR__FLOW_L2] = draw(l2, out, limits.flow[WEIR__FLOW_L2], whole);
    }
}
