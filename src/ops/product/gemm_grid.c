/* Cuts matrix products into blocks. */
#include "ops/product/gemm_grid.h"

const struct weir__grid_kernel weir__grid_floats = {50, 4, 8, 48};
const struct weir__grid_kernel weir__grid_host = {50, 8, 8, 16};
const struct weir__grid_kernel weir__grid_tiles = {500, 4, 32, 32};
const struct weir__grid_kernel weir__grid_lines = {50, 4, 4, 4};
const struct weir__grid_kernel weir__grid_stretches = {50, 4, 8, 64};

/* The rest for cores that finish early: 1/REST of the longer side, in REST_BLOCKS blocks per core.
 * Only if each core has at least REST_NS of work. */
#define REST 20
#define REST_BLOCKS 2
#define REST_NS 200000

static double part_ns(const struct weir__grid_kernel *kernel, int64_t m, int64_t n, int64_t k)
{
    return (double)k * ((double)m * (double)n / kernel->macs_per_ns +
                        (double)(m + n) / kernel->elements_per_ns);
}

static int64_t step_of(int64_t n, int64_t parts, int64_t unit)
{
    return weir__max(1, weir__div_up(weir__div_up(n, parts), unit)) * unit;
}

struct weir__grid weir__grid_make(const struct weir__grid_kernel *kernel, int64_t batch, int64_t m,
                                  int64_t n, int64_t k, unsigned cores)
{
    struct weir__grid grid = {batch, m, n, weir__max(batch, 1), m, n, 1, 0, 0};
    double best = (double)batch * part_ns(kernel, m, n, weir__max(k, 1));
    int64_t blocks = best / WEIR__TILE_MIN_NS < cores ? (int64_t)(best / WEIR__TILE_MIN_NS) : cores;

    for (int64_t parts_b = 1; parts_b <= weir__min(blocks, batch); parts_b++) {
        const int64_t rest = blocks / parts_b;
        const int64_t step_b = weir__div_up(batch, parts_b);

        for (int64_t parts_m = 1; parts_m <= rest; parts_m++) {
            const int64_t step_m = parts_m > 1 ? step_of(m, parts_m, kernel->unit_m) : m;
            const int64_t parts_n = rest / parts_m;
            const int64_t step_n = parts_n > 1 ? step_of(n, parts_n, kernel->unit_n) : n;
            const double ns = (double)step_b * part_ns(kernel, step_m, step_n, weir__max(k, 1));

            if (ns < best) {
                best = ns;
                grid.batch_step = step_b;
                grid.m_step = step_m;
                grid.n_step = step_n;
            }
        }
    }
    if (batch && m && n)
        grid.blocks = (unsigned)(weir__div_up(batch, grid.batch_step) *
                                 weir__div_up(m, grid.m_step) * weir__div_up(n, grid.n_step));
    return grid;
}

void weir__grid_make_two(const struct weir__grid_kernel *kernel, int64_t m, int64_t n, int64_t k,
                         unsigned cores, struct weir__grid grids[2])
{
    const bool rows = m >= n;
    const int64_t unit = rows ? kernel->unit_m : kernel->unit_n;
    const int64_t rest = (rows ? m : n) / REST / unit * unit;

    grids[1] = (struct weir__grid){0};
    if (cores == 1 || !rest || part_ns(kernel, m, n, k) / cores < REST_NS) {
        grids[0] = weir__grid_make(kernel, 1, m, n, k, cores);
        return;
    }
    grids[0] = weir__grid_make(kernel, 1, rows ? m - rest : m, rows ? n : n - rest, k, cores);
    grids[1] = weir__grid_make(kernel, 1, rows ? rest : m, rows ? n : rest, k, REST_BLOCKS * cores);
    grids[1].m0 = rows ? m - rest : 0;
    grids[1].n0 = rows ? 0 : n - rest;
}

static struct weir__range cut(int64_t from, int64_t n, int64_t step, int64_t index)
{
    return (struct weir__range){from + weir__min(n, step * index),
                                from + weir__min(n, step * (index + 1))};
}

struct weir__part weir__grid_part(const struct weir__grid *grid, unsigned index)
{
    const int64_t parts_n = weir__max(1, weir__div_up(grid->n, weir__max(grid->n_step, 1)));
    const int64_t parts_m = weir__max(1, weir__div_up(grid->m, weir__max(grid->m_step, 1)));
    const int64_t row = index / parts_n;

    return (struct weir__part){
        .batch = cut(0, grid->batch, grid->batch_step, row / parts_m),
        .m = cut(grid->m0, grid->m, grid->m_step, row % parts_m),
        .n = cut(grid->n0, grid->n, grid->n_step, index % parts_n),
    };
}

struct weir__part weir__grid_part_of_two(const struct weir__grid grids[2], unsigned index)
{
    const unsigned first = grids[0].blocks;

    return index < first ? weir__grid_part(&grids[0], index)
                         : weir__grid_part(&grids[1], index - first);
}
