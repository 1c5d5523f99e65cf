/* Rows of a mixture of experts on a GPU. */
#include "ops/host/move/experts.h"

#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"
#include "ops/host/math/choice.h"

/* A block takes a share of the entries, one entry a thread if there are enough cores. Every block
 * reads all entries.
 */
static void order_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct weir__expert_order *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->index_type;
    l->threads = (uint32_t)weir__max(weir__min(weir__div_up(a->m, 32) * 32, 1024), 32);
    weir__gpu_spread(weir__max(weir__div_up(a->m, 1024), 1), cores, 1, l);
}

const struct weir__code weir__gpu_expert_order = {
    .text = "expert_order", .fails = true, .shape = order_shape};

/* The number of columns that a thread takes at once: 16 bytes if alignment and strides allow it. */
static int64_t sum_at_once(const struct weir__expert_sum *a)
{
    int64_t n = 16 / (int64_t)weir__elem_size(a->dtype);

    return a->rows_step == 1 && a->out_step == 1 && a->width % n == 0 && a->rows_row % n == 0 &&
                   a->out_row % n == 0 && !(((uintptr_t)a->rows | (uintptr_t)a->out) & 15)
               ? n
               : 1;
}

static void sum_shape(const void *args, unsigned phase, unsigned cores, struct weir__code_launch *l)
{
    const struct weir__expert_sum *a = args;
    int64_t n = sum_at_once(a);

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = (uint8_t)a->weight_type;
    l->variant[2] = (uint8_t)a->index_type;
    l->variant[3] = (uint8_t)n;
    weir__gpu_spread_threads(a->tokens * (a->width / n), cores, l);
}

const struct weir__code weir__gpu_expert_sum = {
    .text = "expert_sum", .fails = true, .shape = sum_shape};

/* A warp takes a token, whose scores are in shared memory. */
static void choice_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__choice *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = (uint8_t)a->bias_type;
    l->variant[2] = a->sigmoid;
    l->variant[3] = a->group_k < a->groups;
    l->threads = 32;
    l->shared = (uint32_t)((2 * a->n + a->groups) * (a->dtype == WEIR_F64 ? 8 : 4));
    weir__gpu_spread(a->tokens, cores, 32, l);
}

const struct weir__code weir__gpu_choice = {.text = "choice", .shape = choice_shape};
