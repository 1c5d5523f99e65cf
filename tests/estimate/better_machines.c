/* A machine that is better in one figure is not slower: random models and deployments, on one
 * stream and on several, on profiles in which a rate is higher, a time shorter, or there are more
 * cores. Each built-in machine is compared with one that is better in one figure, and that with one
 * that is better in a second figure as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "configs.h"
#include "helpers.h"

static uint64_t random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((random_state >> 33) % below);
}

/* What makes a machine faster: more of it, or less where it ends in _us. */
#define FIELD(name)                                 \
    {                                               \
#name, offsetof(struct weir__profile, name) \
    }
static const struct {
    const char *name;
    size_t offset;
} fields[] = {
    FIELD(cube_cores),      FIELD(vector_cores),    FIELD(clock_mhz),
    FIELD(sdma_channels),   FIELD(cube_bf16_ratio), FIELD(cube_flop_per_cycle),
    FIELD(cube_i8_ratio),   FIELD(cube_f8_ratio),   FIELD(vector_flop_per_cycle),
    FIELD(cube_efficiency), FIELD(mix_efficiency),  FIELD(vector_efficiency),
    FIELD(cube_head_us),    FIELD(vector_head_us),  FIELD(hbm_gb_s),
    FIELD(hbm_efficiency),  FIELD(core_gb_s),       FIELD(l2_gb_s),
    FIELD(sdma_gb_s),       FIELD(graph_launch_us), FIELD(graph_dispatch_us),
    FIELD(graph_stream_us), FIELD(event_record_us), FIELD(event_wait_us),
    FIELD(pair_gb_s),       FIELD(pair_us),         FIELD(node_gb_s),
    FIELD(node_us),         FIELD(super_gb_s),      FIELD(super_us),
    FIELD(net_gb_s),        FIELD(net_us),          FIELD(exchange_us),
    FIELD(dispatch_gb_s),   FIELD(combine_gb_s),    FIELD(push_efficiency),
    FIELD(pull_efficiency), FIELD(exchange_flight),
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* Times are whole picoseconds, bandwidths whole bytes a second. */
#define ROUNDING 1e-8

static double better(const struct weir__profile *p, unsigned field)
{
    const char *name = fields[field].name;
    double now, factor = 1.02 + draw(200) / 100.0;

    memcpy(&now, (const char *)p + fields[field].offset, sizeof now);
    if (strstr(name, "_us"))
        return now / factor;
    if (strstr(name, "efficiency"))
        return now + (1 - now) * (draw(100) + 1) / 100;
    if (strstr(name, "cores") || strstr(name, "channels") || strstr(name, "flight"))
        return now + 1 + draw(8);
    return now * factor;
}

/* One figure of a profile is better; on shared cores the numbers of both kinds are one figure. */
struct change {
    unsigned field;
    double value;
};

static int write_change(char *text, size_t size, const struct change *c, bool shared)
{
    int n = snprintf(text, size, "%s %.9g # guessed\n", fields[c->field].name, c->value);

    if (shared && c->field < 2)
        n += snprintf(text + n, size - (size_t)n, "%s %.9g # guessed\n", fields[1 - c->field].name,
                      c->value);
    return n;
}

static weir_device *open_better(const char *profile, const struct change *changes, int count,
                                bool shared)
{
    char path[] = "/tmp/weir-better-XXXXXX", spec[64], text[512];
    int fd = mkstemp(path), n;
    weir_device *dev;

    CHECK_GE(fd, 0);
    n = snprintf(text, sizeof text, "inherits %s\n", profile);
    for (int i = 0; i < count; i++)
        n += write_change(text + n, sizeof text - (size_t)n, &changes[i], shared);
    CHECK_EQ(write(fd, text, (size_t)n), n);
    close(fd);
    snprintf(spec, sizeof spec, "npu:%s", path);
    CHECK_OK(weir_device_open(spec, &dev));
    unlink(path);
    return dev;
}

static struct weir__deploy random_deploy(const struct weir__llm *m)
{
    struct weir__deploy d;

    do {
        d = deploy(1u << draw(7), 1u << draw(9), (enum weir__placement)draw(3));
        d.tp = 1u << draw(4);
        d.pp = 1u << draw(3);
        d.ep = draw(3) ? 0 : 1;
        d.prompt = 1 + draw(1u << (4 + draw(11)));
        d.output = draw(1024);
        d.quant = (enum weir__quant)draw(4);
        d.prefetch = draw(4) == 0;
        d.prolog = draw(4) == 0;
    } while (weir__deploy_check(m, &d));
    return d;
}

static void estimate(weir_device *dev, const struct weir__llm *m, const struct weir__deploy *d,
                     double *us)
{
    struct weir__estimate e;

    CHECK_OK(weir__estimate_quick(dev, m, d, &e));
    us[0] = e.decode.us;
    us[1] = e.prefill.us;
    us[2] = e.ttft_ms * 1e3;
    us[3] = e.tpot_ms * 1e3;
    weir__estimate_fini(&e);
}

TEST_TIMEOUT(better_machines, are_not_slower, 600)
{
    static const char *const profiles[] = {"a2", "a3", "910b4", "950dt", "h800"};
    static const char *const what[] = {"decode", "prefill", "ttft", "tpot"};
    const char *first = getenv("BETTER_SEED"), *count = getenv("BETTER_COUNT");
    uint64_t seed = first ? strtoull(first, NULL, 0) : 1;
    uint64_t end = seed + (count ? strtoull(count, NULL, 0) : 200 / TEST_SLOWDOWN_ALONE);
    int wrong = 0;

    for (; seed < end; seed++) {
        const struct published_config *c;
        const char *profile;
        weir_device *dev, *other;
        struct change changes[2];
        struct weir__deploy d;
        struct weir__llm m;
        double us[4], than[4];
        bool shared;

        random_state = seed * 7919;
        draw(2);
        c = &published_configs[draw(PUBLISHED_CONFIGS)];
        profile = profiles[draw(sizeof profiles / sizeof *profiles)];
        changes[0].field = draw(FIELDS);
        CHECK_OK(weir__llm_parse(c->text, strlen(c->text), c->name, &m));
        d = random_deploy(&m);
        {
            char spec[32];

            snprintf(spec, sizeof spec, "npu:%s", profile);
            CHECK_OK(weir_device_open(spec, &dev));
        }
        shared = dev->model->profile.shared_cores > 0;
        changes[0].value = better(&dev->model->profile, changes[0].field);
        do { /* a figure that the first change did not touch */
            changes[1].field = draw(FIELDS);
        } while (changes[1].field == changes[0].field ||
                 (shared && changes[0].field < 2 && changes[1].field < 2));
        changes[1].value = better(&dev->model->profile, changes[1].field);
        estimate(dev, &m, &d, us);
        CHECK_OK(weir_device_close(dev));
        for (int step = 0; step < 2; step++) {
            other = open_better(profile, changes, step + 1, shared);
            estimate(other, &m, &d, than);
            CHECK_OK(weir_device_close(other));
            for (int k = 0; k < 4; k++) {
                if (than[k] > us[k] * (1 + ROUNDING)) {
                    printf(
                        "seed %llu: %s on %u x %s, tp %u, pp %u, ep %u, batch %g, prompt %g, %s, "
                        "%s: %s %.3f us, with %s %g %.3f us (%.3g %%)\n",
                        (unsigned long long)seed, c->name, d.ranks, profile, d.tp, d.pp, d.ep,
                        d.batch, d.prompt, weir__quant_names[d.quant],
                        weir__placement_names[d.placement], what[k], us[k],
                        fields[changes[step].field].name, changes[step].value, than[k],
                        (than[k] / us[k] - 1) * 100);
                    wrong++;
                }
                us[k] = than[k];
            }
        }
    }
    CHECK_EQ(wrong, 0);
}
