/* How products are split among a host's cores: completely, and so that cores end together. */
#include "harness/test.h"
#include "ops/product/gemm_grid.h"

#include <stdlib.h>

static uint64_t state = 1;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* Adds one to each element of the parts. */
static void count_parts(const struct weir__grid *grid, unsigned char *times, int64_t n)
{
    for (unsigned i = 0; i < grid->blocks; i++) {
        const struct weir__part part = weir__grid_part(grid, i);

        for (int64_t r = part.m.begin; r < part.m.end; r++)
            for (int64_t c = part.n.begin; c < part.n.end; c++)
                times[r * n + c]++;
    }
}

TEST(cut, each_element_is_in_one_block)
{
    static const struct weir__grid_kernel *const kernels[] = {&weir__grid_host, &weir__grid_lines};

    for (int i = 0; i < 300 / TEST_SLOWDOWN_ALONE + 10; i++) {
        const int64_t m = 1 + below(below(2) ? 12 : 900), n = 1 + below(below(2) ? 12 : 900);
        const int64_t k = 1 + below(20000);
        const unsigned cores = 1 + (unsigned)below(24);
        unsigned char *times = calloc((size_t)(m * n), 1);
        struct weir__grid grids[2];

        CHECK(times);
        test_note("%lld x %lld x %lld on %u cores", (long long)m, (long long)n, (long long)k,
                  cores);
        weir__grid_make_two(kernels[below(2)], m, n, k, cores, grids);
        count_parts(&grids[0], times, n);
        count_parts(&grids[1], times, n);
        for (int64_t at = 0; at < m * n; at++)
            CHECK_EQ(times[at], 1);
        free(times);
    }
}

/* The core that is free first takes the next block; what a block takes is its tiles and what it
 * packs.
 */
static double run(const struct weir__grid grids[2], double *free_at, const double *speed,
                  unsigned cores)
{
    double end = 0;

    for (int g = 0; g < 2; g++)
        for (unsigned i = 0; i < grids[g].blocks; i++) {
            const struct weir__part part = weir__grid_part(&grids[g], i);
            const int64_t m = part.m.end - part.m.begin, n = part.n.end - part.n.begin;
            const double tiles = (double)(weir__div_up(m, 8) * 8 * weir__div_up(n, 16) * 16);
            unsigned first = 0;

            for (unsigned c = 1; c < cores; c++)
                first = free_at[c] < free_at[first] ? c : first;
            free_at[first] += (tiles + 6 * (double)(m + n)) / speed[first];
            end = end > free_at[first] ? end : free_at[first];
        }
    return end;
}

/* Of cores that differ by a tenth and come late by up to one in fifty of the whole. */
TEST(cut, unequal_cores_finish_sooner_if_the_rest_is_split_finely)
{
    static const int64_t sizes[] = {768, 1000, 1024, 1500, 2048, 4096};
    double with = 0, without = 0;

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned cores = 2; cores <= 16; cores++)
            for (int round = 0; round < 8; round++) {
                const int64_t n = sizes[s];
                const double ideal = (double)(n * n) / cores;
                double late[2][16], speed[16];
                struct weir__grid grids[2], one[2] = {{0}};

                for (unsigned c = 0; c < cores; c++) {
                    late[0][c] = late[1][c] = ideal * (double)below(1000) / 50000;
                    speed[c] = 1 - (double)below(1000) / 10000;
                }
                weir__grid_make_two(&weir__grid_host, n, n, n, cores, grids);
                one[0] = weir__grid_make(&weir__grid_floats, 1, n, n, n, cores);
                with += run(grids, late[0], speed, cores) / ideal;
                without += run(one, late[1], speed, cores) / ideal;
            }
    CHECK(with < 0.98 * without);
}
