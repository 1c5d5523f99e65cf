#include "sim/model.h"

#include <math.h>

/* Reads of a matrix operator from the second level, by its tiles of 128 x 256 in half
 * precision: flop for each byte. */
#define CUBE_FLOP_PER_L2_BYTE (2.0 * 128 * 256 / ((128 + 256) * 2))

uint64_t weir__model_ps(double us)
{
    return us > 0 ? (uint64_t)llround(us * (double)WEIR__PS_PER_US) : 0;
}

uint64_t weir__model_overhead(const struct weir__model *m, double us)
{
    return m->overhead ? weir__model_ps(us) : 0;
}

double weir__model_flop(const struct weir__model *m, weir_engine engine, weir_dtype dtype)
{
    if (engine != WEIR_ENGINE_CUBE && engine != WEIR_ENGINE_MIX)
        return 1;
    return dtype == WEIR_F32    ? 1 / m->profile.cube_f32_ratio
           : dtype == WEIR_BF16 ? 1 / m->profile.cube_bf16_ratio
                                : 1;
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

/* Microseconds of one block by what it computes and moves, and flop for each byte it
 * reads from the second level again (0: none). */
static double block_us(const struct weir__profile *p, const struct weir__load *load, double blocks)
{
    bool cube = load->engine == WEIR_ENGINE_CUBE || load->engine == WEIR_ENGINE_MIX;
    double rate = cube ? p->cube_flop_per_cycle * p->cube_efficiency
                       : p->vector_flop_per_cycle * p->vector_efficiency;
    double gb_s = load->engine == WEIR_ENGINE_SDMA ? p->sdma_gb_s : p->core_gb_s;
    double compute = load->flops / blocks / (rate * p->clock_mhz);
    double memory = load->bytes / blocks / (gb_s * 1e3);

    return compute > memory ? compute : memory;
}

void weir__model_op(const struct weir__model *m, const struct weir__load *load,
                    struct weir__sim_op *out)
{
    uint32_t blocks = load->blocks ? load->blocks : 1;
    uint32_t cores = load->cores < blocks ? load->cores : blocks, rounds = 1;
    double bytes, l2;

    *out = (struct weir__sim_op){.comm = load->comm};
    set_cores(&m->profile, load, out);
    cores = cores ? cores : 1;
    out->block_ps =
        weir__model_ps(load->block_us > 0 ? load->block_us : block_us(&m->profile, load, blocks));
    out->grant = load->gang       ? WEIR__GRANT_GANG
                 : load->together ? WEIR__GRANT_TOGETHER
                                  : WEIR__GRANT_ANY;
    if (out->grant != WEIR__GRANT_ANY) { /* each core has its share of the blocks */
        rounds = (blocks + cores - 1) / cores;
        out->block_ps *= rounds;
        blocks = cores;
    }
    out->blocks = blocks;
    out->cores = cores;
    out->launch_ps = weir__model_overhead(m, launch_us(&m->profile, load));
    bytes = load->bytes / blocks;
    l2 = bytes;
    if (load->engine == WEIR_ENGINE_CUBE && load->flops / blocks / CUBE_FLOP_PER_L2_BYTE > l2)
        l2 = load->flops / blocks / CUBE_FLOP_PER_L2_BYTE;
    if (out->block_ps) {
        out->draws[WEIR__FLOW_HBM] = (uint64_t)(bytes * 1e12 / (double)out->block_ps);
        out->draws[WEIR__FLOW_L2] = (uint64_t)(l2 * 1e12 / (double)out->block_ps);
    }
}
