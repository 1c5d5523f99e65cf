/* What must hold of any operator and collective, whatever its size: more cores, fewer bytes and
 * fewer ranks are never slower, and nothing is faster than the profile's peaks. */
#include <stdlib.h>

#include "kernels.h"
#include "ops/product/gemm_grid.h"

enum { TRIALS = 2000 };

static uint64_t random_state;

static double draw_log(double least, double most)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return least * pow(most / least, (double)(random_state >> 11) / (double)(UINT64_C(1) << 53));
}

static struct weir__model model_of(const char *profile)
{
    struct weir__model m = {.overhead = true};

    CHECK_OK(weir__profile_load(profile, &m.profile));
    return m;
}

static const char *const types[] = {"f16", "bf16", "f32", "hf32", "f64", "i8", "i32", "f8"};
enum { TYPES = sizeof types / sizeof *types };

struct random_op {
    struct weir__load load;
    struct weir__flops flops;
    unsigned most; /* cores */
};

static struct random_op random_op(const struct weir__model *m)
{
    static const weir_engine engines[] = {WEIR_ENGINE_CUBE, WEIR_ENGINE_VECTOR, WEIR_ENGINE_MIX};
    struct random_op op = {.load = {.engine = engines[(int)draw_log(1, 3.999) - 1]}};

    op.most = (unsigned)(op.load.engine == WEIR_ENGINE_VECTOR ? m->profile.vector_cores
                                                              : m->profile.cube_cores);
    op.load.blocks = (unsigned)draw_log(1, 2 * op.most);
    op.load.bytes = draw_log(1, 1e10);
    op.flops = (struct weir__flops){.count = draw_log(1, 1e14),
                                    .type = types[(int)draw_log(1, TYPES + 0.999) - 1]};
    if (op.load.engine == WEIR_ENGINE_CUBE) {
        op.flops.m = floor(draw_log(1, 1e4));
        op.flops.n = floor(draw_log(1, 1e4));
        op.flops.k = floor(draw_log(1, 1e4));
        op.flops.count = 2 * op.flops.m * op.flops.n * op.flops.k;
    }
    op.load.flops = weir__model_flops(m, op.load.engine, &op.flops);
    return op;
}

/* Microseconds with the machine to itself. */
static double alone(const struct weir__model *m, const struct weir__load *load)
{
    struct weir__sim_limits limits;
    struct weir__sim_op op;

    weir__model_limits(m, &limits);
    weir__model_op(m, load, &op);
    return (double)(op.launch_ps + weir__sim_alone(&limits, &op)) / 1e6;
}

/* Rounding of rates and of picoseconds. */
#define SLACK (1 + 1e-6)
#define SLACK_US 2e-6

TEST(properties, more_cores_and_fewer_bytes_are_never_slower)
{
    for (size_t p = 0; weir__profile_at(p); p++) {
        struct weir__model m = model_of(weir__profile_at(p));

        for (int i = 0; i < TRIALS / 10; i++) {
            struct random_op op = random_op(&m);
            double before = INFINITY, most;

            test_note("%s, operator %d", m.profile.name, i);
            for (op.load.cores = 1; op.load.cores <= op.most; op.load.cores++) {
                double us = alone(&m, &op.load);

                CHECK(us <= before * SLACK + SLACK_US);
                before = us;
            }
            op.load.cores = op.most;
            most = alone(&m, &op.load);
            op.load.bytes /= 2;
            CHECK(alone(&m, &op.load) <= most * SLACK + SLACK_US);
        }
    }
}

/* As `weir calibrate` writes them: what is small reaches less, and more of it beside others. */
TEST(properties, more_cores_and_less_work_are_never_slower_with_measured_curves)
{
    static const char text[] =
        "inherits h200\n"
        "hbm_curve 8:3e-6,1e4:0.003,1e6:0.3,1e7:1.7,1e8:1 # x\n"
        "hbm_curve_beside 8:4e-6,1e4:0.004,1e6:0.4,1e7:1.9,1e8:1 # x\n"
        "row_curve 1e4:0.002,1e7:0.7,1e9:0.9 # x\nrow_curve_beside 1e4:0.003,1e7:0.8,1e9:0.9 # x\n"
        "weight_curve 1e4:0.001,1e8:0.8 # x\nweight_curve_beside 1e4:0.001,1e8:0.9 # x\n"
        "cube_curve 1e6:0.001,1e9:0.5,1e11:1 # x\ncube_curve_beside 1e6:0.001,1e9:0.6,1e11:1 # x\n"
        "depth_curve 100:40,4000:300 # x\ndepth_curve_beside 100:50,4000:400 # x\n"
        "mix_curve 1e7:0.01,1e10:0.8 # x\nmix_curve_beside 1e7:0.02,1e10:0.9 # x\n"
        "vector_curve 1e3:1e-4,1e9:1 # x\nvector_curve_beside 1e3:2e-4,1e9:1 # x\n";
    struct weir__model m = {.overhead = true};

    CHECK_OK(weir__profile_parse(text, "text", &m.profile));
    for (int i = 0; i < TRIALS / 4; i++) {
        struct random_op op = random_op(&m);
        double before = INFINITY, most;

        op.load.rows = i % 3 == 0;
        op.load.depth = i % 5 ? 0 : op.flops.k;
        test_note("operator %d", i);
        for (op.load.cores = 1; op.load.cores <= op.most; op.load.cores++) {
            double us = alone(&m, &op.load);

            CHECK(us <= before * SLACK + SLACK_US);
            before = us;
        }
        op.load.cores = op.most;
        most = alone(&m, &op.load);
        op.load.bytes /= 1.7;
        op.load.flops /= 1.7;
        CHECK(alone(&m, &op.load) <= most * SLACK + SLACK_US);
    }
}

TEST(properties, nothing_is_faster_than_the_published_peaks)
{
    for (size_t p = 0; weir__profile_at(p); p++) {
        struct weir__model m = model_of(weir__profile_at(p));

        for (int i = 0; i < TRIALS; i++) {
            struct random_op op = random_op(&m);
            bool vector = op.load.engine == WEIR_ENGINE_VECTOR;
            double cores = op.most, peak, us;

            op.load.cores = op.most;
            us = alone(&m, &op.load);
            peak = cores * m.profile.clock_mhz *
                   (vector ? m.profile.vector_flop_per_cycle : m.profile.cube_flop_per_cycle);
            if (!strcmp(op.flops.type, "i8") && !vector)
                peak *= m.profile.cube_i8_ratio;
            else if (!strcmp(op.flops.type, "f8") && !vector)
                peak *= m.profile.cube_f8_ratio;
            test_note("%s, operator %d in %s", m.profile.name, i, op.flops.type);
            CHECK(op.flops.count / us <= peak * SLACK);
            CHECK(op.load.bytes / us <= m.profile.hbm_gb_s * 1e3 * SLACK);
        }
    }
}

static double collective_us(const struct weir__model *m, enum weir__comm_pattern kind,
                            uint32_t nranks, double bytes, struct weir__collective_cost *cost)
{
    weir__collective_find_cost(
        m, &(struct weir__collective){.kind = kind, .nranks = nranks, .bytes = bytes}, cost);
    return cost->us;
}

/* On a full mesh two dies have one link of seven, and peers of a package and beyond the super node
 * have links of their own: there more ranks may well be faster. */
TEST(properties, fewer_bytes_and_ranks_make_no_collective_slower)
{
    struct weir__collective_cost cost;

    for (size_t p = 0; weir__profile_at(p); p++) {
        struct weir__model m = model_of(weir__profile_at(p));

        for (int i = 0; i < TRIALS; i++) {
            enum weir__comm_pattern kind = (enum weir__comm_pattern)(i % (WEIR__BARRIER + 1));
            uint32_t nranks = (uint32_t)draw_log(3, 1000);
            double bytes = draw_log(1, 1e9);
            double us = collective_us(&m, kind, nranks, bytes, &cost);
            bool one_level = nranks <= m.profile.super_dies && nranks > m.profile.pair_dies + 2;
            bool exchange;

            test_note("%s, kind %d of %u ranks, %.0f bytes", m.profile.name, kind, nranks, bytes);
            CHECK(us > 0);
            CHECK(cost.link_us <= us * SLACK);
            CHECK(collective_us(&m, kind, nranks, bytes / 2, &cost) <= us * SLACK);
            exchange = kind == WEIR__ALL_TO_ALL || kind == WEIR__DISPATCH || kind == WEIR__COMBINE;
            if (!(m.profile.node_mesh > 0) && (!exchange || one_level))
                CHECK(collective_us(&m, kind, nranks - 1, bytes, &cost) <= us * SLACK);
        }
    }
}

static double exchange_us(const struct weir__model *m, struct weir__collective c)
{
    struct weir__collective_cost cost;

    weir__collective_find_cost(m, &c, &cost);
    return cost.us;
}

/* 48 cores move 9 MB 2.5 times as fast as 2 (arXiv 2508.02520). What a token costs the network once
 * for a whole server costs it no more than once for each of its dies. */
TEST(properties, exchanges_of_more_cores_of_even_ranks_and_forwarded_are_never_slower)
{
    struct weir__model a3 = model_of("a3");
    struct weir__collective few = {.kind = WEIR__COMBINE, .nranks = 16, .bytes = 9e6, .cores = 2};
    double on_two = exchange_us(&a3, few);

    few.cores = 48;
    CHECK_NEAR(on_two / exchange_us(&a3, few), 2.5, 0.25);
    for (size_t p = 0; weir__profile_at(p); p++) {
        struct weir__model m = model_of(weir__profile_at(p));

        for (int i = 0; i < TRIALS; i++) {
            struct weir__collective c = {
                .kind = i % 2 ? WEIR__DISPATCH : WEIR__COMBINE,
                .nranks = (uint32_t)draw_log(2, 1000),
                .bytes = draw_log(1, 1e9),
                .cores = draw_log(1, m.profile.vector_cores - 1),
            };
            double us = exchange_us(&m, c);
            struct weir__collective more = c, uneven = c, forwarded = c;

            test_note("%s, %u ranks, %.0f bytes, %.0f cores", m.profile.name, c.nranks, c.bytes,
                      c.cores);
            more.cores += 1;
            uneven.uneven = draw_log(1, 10);
            more.cores = fmin(more.cores, m.profile.vector_cores);
            CHECK(exchange_us(&m, more) <= us * SLACK);
            CHECK(exchange_us(&m, uneven) * SLACK >= us);
            forwarded.cores = 0;
            us = exchange_us(&m, forwarded);
            forwarded.net_bytes = c.bytes / 8; /* each of eight dies would have had it */
            if (c.nranks > 2 * m.profile.super_dies && m.profile.super_dies == 8)
                CHECK(exchange_us(&m, forwarded) <= us * SLACK);
        }
    }
}

/* What leaves a die in a collective takes at least as long as its links say. */
TEST(properties, no_collective_is_faster_than_its_links)
{
    for (size_t p = 0; weir__profile_at(p); p++) {
        struct weir__model m = model_of(weir__profile_at(p));
        const struct weir__profile *f = &m.profile;
        struct weir__collective_cost cost;

        for (int i = 0; i < TRIALS; i++) {
            enum weir__comm_pattern kind = (enum weir__comm_pattern)(i % WEIR__BARRIER);
            uint32_t nranks = (uint32_t)draw_log(2, 1000);
            double bytes = draw_log(1e3, 1e9), fastest;

            fastest = fmax(fmax(f->pair_gb_s, f->node_gb_s), fmax(f->super_gb_s, f->net_gb_s));
            if (kind == WEIR__SEND || kind == WEIR__BROADCAST)
                CHECK(bytes / collective_us(&m, kind, nranks, bytes, &cost) <=
                      (nranks <= f->pair_dies ? f->pair_gb_s : fastest) * 1e3 * SLACK);
            else /* a share stays at home; links of two levels may work at once */
                CHECK(
                    bytes * (nranks - 1) / nranks / collective_us(&m, kind, nranks, bytes, &cost) <=
                    (f->pair_gb_s + fmax(f->node_gb_s, f->super_gb_s) + f->net_gb_s) * 1e3 * SLACK);
        }
    }
}

TEST(properties, a_send_to_one_peer_has_one_link_of_a_full_mesh)
{
    struct weir__model a2 = model_of("a2"), a3 = model_of("a3");
    struct weir__collective c = {.kind = WEIR__SEND, .nranks = 2, .bytes = 1e9};
    struct weir__collective_cost cost;

    c.span = weir__span_between(&a2, 0, 5);
    weir__collective_find_cost(&a2, &c, &cost);
    CHECK_NEAR(cost.link_us, 1e9 / (196e3 / 7 * 0.85), 1);
    c.span = weir__span_between(&a3, 0, 1); /* the other die of the package */
    weir__collective_find_cost(&a3, &c, &cost);
    CHECK_NEAR(cost.link_us, 1e9 / (270e3 * 0.85), 1);
    c.span = weir__span_between(&a3, 0, 2);
    weir__collective_find_cost(&a3, &c, &cost);
    CHECK_NEAR(cost.link_us, 1e9 / (196e3 * 0.85), 1);
}

/* Side by side, operators and collectives have no more of the memory and the links than there
 * is: together they take at least as long as their bytes. */
TEST(properties, memory_and_links_are_conserved_between_streams)
{
    const double hbm = 1600 * 0.841;

    for (int i = 0; i < 60; i++) {
        double ends[3], bytes, us;
        struct kernel k[] = {
            {.name = "a", .engine = "cube", .blocks = 24, .stream = "a"},
            {.name = "b", .engine = "vector", .blocks = 24, .stream = "b"},
            {.name = "c",
             .engine = "sdma",
             .stream = "c",
             .collective = i % 2 ? "all_gather" : "combine"},
        };

        random_state = (uint64_t)i + 1;
        for (int j = 0; j < 3; j++)
            k[j].bytes = (int64_t)draw_log(1e6, 1e9);
        us = kernel_run("npu:a3,overhead=off", 8, k, 3, ends);
        bytes = (double)k[0].bytes + (double)k[1].bytes + 2.0 * 7 / 8 * (double)k[2].bytes;
        test_note("case %d: %.0f GB/s", i, bytes / us / 1e3);
        CHECK(bytes / us / 1e3 <= hbm * 1.001);
    }
}

/* What leaves a die for others than its package's, of a collective of eight dies. */
static double wire_bytes(int kind, double bytes)
{
    return kind < 2 ? bytes * 6 / 8 : kind < 4 ? bytes * 7 / 8 : 2 * bytes * 7 / 8;
}

/* Collectives of any two kinds side by side send no more than the link takes, whoever ends first.
 */
TEST(properties, concurrent_collectives_share_one_link)
{
    static const char *const kinds[] = {"combine", "dispatch", "all_gather", "reduce_scatter",
                                        "all_reduce"};
    double closest = 0;

    random_state = 3;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            struct kernel k[] = {
                {.name = "a", .engine = "sdma", .stream = "a", .collective = kinds[i]},
                {.name = "b", .engine = "sdma", .stream = "b", .collective = kinds[j]},
            };
            double us, sent;

            k[0].bytes = (int64_t)draw_log(1e7, 1e9);
            k[1].bytes = (int64_t)draw_log(1e7, 1e9);
            us = kernel_run("npu:a3,overhead=off", 8, k, 2, NULL);
            sent = wire_bytes(i, (double)k[0].bytes) + wire_bytes(j, (double)k[1].bytes);
            test_note("%s beside %s: %.0f GB/s", kinds[i], kinds[j], sent / us / 1e3);
            CHECK(sent / us / 1e3 <= 196 * SLACK);
            closest = fmax(closest, sent / us / 1e3);
        }
    CHECK(closest > 196 * 0.8);
}

/* Half of the pairs of query and key are never looked at. */
TEST(properties, causal_attention_costs_half_of_full)
{
    double us[2];

    for (int causal = 0; causal < 2; causal++) {
        weir_attention_options options = {.causal = causal};
        int64_t shape[] = {1, 8, 4096, 128};
        weir_tensor *q, *y;
        weir_device *dev;
        uint64_t from;

        CHECK_OK(weir_device_open("npu:a3,compute=off,overhead=off", &dev));
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F16, 4, shape, &q));
        from = weir_device_now(dev);
        CHECK_OK(weir_attention(q, q, q, NULL, &options, &y));
        CHECK_OK(weir_device_sync(dev));
        us[causal] = (double)(weir_device_now(dev) - from) / 1e3;
        weir_tensor_release(q);
        weir_tensor_release(y);
        CHECK_OK(weir_device_close(dev));
    }
    CHECK_NEAR(us[1], us[0] / 2, 0.01 * us[0]);
}

/* The cut of a product follows the cores it may have. */
TEST(properties, more_cores_never_get_fewer_blocks_of_a_product)
{
    random_state = 7;
    for (int i = 0; i < TRIALS / 4; i++) {
        int64_t m = (int64_t)draw_log(1, 4096), n = (int64_t)draw_log(1, 8192);
        int64_t k = (int64_t)draw_log(1, 8192);
        unsigned before = 0;

        for (unsigned cores = 1; cores <= 24; cores++) {
            unsigned blocks = weir__grid_make(&weir__grid_floats, 1, m, n, k, cores).blocks;

            test_note("%lld x %lld x %lld on %u cores", (long long)m, (long long)n, (long long)k,
                      cores);
            CHECK(blocks >= before);
            before = blocks;
        }
    }
}
