/* The operator Kernel on a GPU. */
#include "ops/busy.h"

#include <string.h>

#include "ops/gpu/gpu.h"

static void busy_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__busy *a = args;

    (void)phase;
    (void)cores;
    l->threads = 32;
    l->grid = (uint32_t)a->blocks;
}

const struct weir__code weir__gpu_busy = {.text = "busy", .shape = busy_shape};

static void part_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    busy_shape(&((const struct weir__busy_part *)args)->busy, phase, cores, l);
}

static void part_gather(const void *args, const void *const *peers, bool pull, void *part)
{
    (void)peers;
    (void)pull;
    memcpy(part, &((const struct weir__busy_part *)args)->busy, sizeof(struct weir__busy));
}

static int nothing_shown(const void *args, struct weir__code_shown *shown)
{
    (void)args;
    (void)shown;
    return 0;
}

const struct weir__code weir__gpu_busy_part = {
    .text = "busy", .shape = part_shape, .shown = nothing_shown, .gather = part_gather};
