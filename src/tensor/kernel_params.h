/* Parameters of "Kernel" nodes: any kernel that is not in the table of operators, known only by its
 * cost. Its inputs only order it; its output is a token of no bytes. */
#ifndef WEIR_TENSOR_KERNEL_PARAMS_H
#define WEIR_TENSOR_KERNEL_PARAMS_H

#include <string.h>

#include "weir/device.h"

struct weir__kernel_params {
    char engine[16]; /* cube, vector, mix, sdma, host; "" is vector */
    int64_t blocks;  /* 0 means 1 */
    double us_per_block;
    double us; /* a fixed time on exactly `blocks` cores granted together; excludes us_per_block */
    double delay_us;  /* measured: time from the end of all it waits for to its start */
    int64_t of_cores; /* measured: cores of the original device, of which it used `blocks`; 0:
                       * unknown */
    int64_t bytes;    /* memory traffic */
    double flops;     /* of all blocks; replaces a time: a device in virtual time derives the time
                       * from it */
    char dtype[8];    /* type of the computation; "" is f16 */
    int64_t m, n, k;  /* sizes of a matrix product, so that tiles and their filling count; 0:
                       * none */
    int64_t ranks;    /* ranks of its collective, which determine its cost. If exactly that many of
                       * the running ranks have a Kernel with this name, they meet. 0: all running
                       * ranks */
    double net_bytes; /* of an exchange: bytes that leave the super node, if they are forwarded
                       * there to several of its dies; 0: each die receives its own copy */
    double uneven;    /* of an exchange: bytes of the fullest rank relative to the mean; 0: equal */
    bool gang;
    bool measured;       /* `us` and `delay_us` come from a profile: no overhead is added */
    char class[16];      /* ascendc, tbe, atb, hccl, mc2, aicpu, static: decides whether core limits
                          * apply; "" is ascendc */
    char collective[64]; /* the k-th Kernel with this name on each rank meets the k-th on the
                          * others; "": none */
};

/* WEIR_ENGINE_COUNT if there is no engine of that name. */
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

/* The cores of a measured kernel on a device with `all` cores. If the original device had more, the
 * same share. */
static inline unsigned weir__kernel_measured_cores(const struct weir__kernel_params *p,
                                                   unsigned all)
{
    unsigned blocks = weir__kernel_blocks(p), of = (unsigned)p->of_cores;

    if (of > all)
        blocks = (unsigned)((uint64_t)blocks * all / of);
    return blocks > all ? all : blocks ? blocks : 1;
}

/* Whether the type is one it may compute in. */
static inline bool weir__kernel_dtype_is_known(const char *dtype)
{
    static const char *const types[] = {"",    "f16", "bf16", "f32", "hf32",
                                        "f64", "i8",  "i32",  "i64", "f8"};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], dtype))
            return true;
    return false;
}

/* Whether all its cores are granted at once. */
static inline bool weir__kernel_is_gang(const struct weir__kernel_params *p)
{
    return p->gang || p->us > 0;
}

/* Whether core limits apply, by class and engine as in Ascend's table of supported operators. The
 * tiling of static kernels is fixed, that of ATB kernels is not under our control. */
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

    if (p->measured) /* the time on fewer cores is unknown */
        return false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].class, p->class))
            return (engine == WEIR_ENGINE_CUBE && table[i].cube) ||
                   (engine == WEIR_ENGINE_VECTOR && table[i].vector) ||
                   (engine == WEIR_ENGINE_MIX && table[i].mix);
    return false;
}

#endif
