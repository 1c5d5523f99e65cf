/* Parameters of "Kernel" nodes: any kernel that is not in the table of operators, known
 * by its cost alone. Its inputs only order it; its output is a token of no bytes. */
#ifndef WEIR_TENSOR_KERNEL_PARAMS_H
#define WEIR_TENSOR_KERNEL_PARAMS_H

#include <string.h>

#include "weir/device.h"

struct weir__kernel_params {
    char engine[16]; /* cube, vector, mix, sdma, host; "" is vector */
    int64_t blocks;  /* 0 means 1 */
    double us_per_block;
    double us; /* a fixed time on exactly `blocks` cores granted together; then no us_per_block */
    double delay_us;  /* of a measured one: from when all it waits for is over to its start */
    int64_t of_cores; /* of a measured one: what its device had; `blocks` of them. 0: unknown */
    int64_t bytes;    /* memory traffic */
    double flops;     /* of all blocks, instead of a time; a device in virtual time says how long */
    char dtype[8];    /* that they compute in; "" is f16 */
    int64_t m, n, k;  /* of a matrix product, so that tiles and filling count; 0: none */
    int64_t ranks;    /* of its collective: for what it costs, and, if as many of the ranks that run
                       * have its name, those that meet; 0: all that run */
    double net_bytes; /* of an exchange: what leaves the super node, if that is forwarded there
                       * to several of its dies; 0: each die gets its own */
    double uneven;    /* of an exchange: what the fullest rank gets, of the mean; 0: all the same */
    bool gang;
    bool measured;       /* `us` and `delay_us` are from a profile: nothing is added to them */
    char class[16];      /* ascendc, tbe, atb, hccl, mc2, aicpu, static: whether a core limit
                          * reaches it; "" is ascendc */
    char collective[64]; /* the k-th of this name on each rank meets the k-th on the others; "" */
};

/* WEIR_ENGINE_COUNT if it has no engine of that name. */
static inline weir_engine weir__kernel_engine(const struct weir__kernel_params *p)
{
    weir_engine engine = WEIR_ENGINE_CUBE;

    if (!p->engine[0])
        return WEIR_ENGINE_VECTOR;
    while (engine < WEIR_ENGINE_COUNT && strcmp(weir_engine_name(engine), p->engine))
        engine++;
    return engine;
}

static inline unsigned weir__kernel_blocks(const struct weir__kernel_params *p)
{
    return p->blocks ? (unsigned)p->blocks : 1;
}

/* The cores of a measured one on a device that has `all` of them: if that is fewer than its own
 * had, the same share. */
static inline unsigned weir__kernel_measured_cores(const struct weir__kernel_params *p,
                                                   unsigned all)
{
    unsigned blocks = weir__kernel_blocks(p), of = (unsigned)p->of_cores;

    if (of > all)
        blocks = (unsigned)((uint64_t)blocks * all / of);
    return blocks > all ? all : blocks ? blocks : 1;
}

/* The types it may compute in. */
static inline bool weir__kernel_dtype_is_known(const char *dtype)
{
    static const char *const types[] = {"",    "f16", "bf16", "f32", "hf32",
                                        "f64", "i8",  "i32",  "i64", "f8"};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], dtype))
            return true;
    return false;
}

/* All its cores are granted at once. */
static inline bool weir__kernel_is_gang(const struct weir__kernel_params *p)
{
    return p->gang || p->us > 0;
}

/* A core limit reaches it: by class and engine, as Ascend's table of supported operators
 * says. A static kernel has lost its tiling, an ATB one never had it in our hands. */
static inline bool weir__kernel_obeys_limit(const struct weir__kernel_params *p)
{
    static const struct {
        const char *class;
        bool cube, vector, mix;
    } table[] = {
        {"", true, true, true},         {"ascendc", true, true, true},
        {"tbe", false, true, false},    {"hccl", false, true, false},
        {"mc2", false, true, false},    {"atb", false, false, false},
        {"aicpu", false, false, false}, {"static", false, false, false},
    };
    weir_engine engine = weir__kernel_engine(p);

    if (p->measured) /* what fewer cores would cost is not known */
        return false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].class, p->class))
            return (engine == WEIR_ENGINE_CUBE && table[i].cube) ||
                   (engine == WEIR_ENGINE_VECTOR && table[i].vector) ||
                   (engine == WEIR_ENGINE_MIX && table[i].mix);
    return false;
}

#endif
