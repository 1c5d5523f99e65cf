/* Selects the experts of each token. */
#include "ops/host/math/choice.h"

#include <math.h>

#include "ops/host/math/norm_row.h"
#include "ops/host/row.h"
#include "ops/tile.h"

/* Room for a token's scores, and for the values that are compared. */
#define ROOM WEIR__CHOICE_MAX

static void sigmoid_f32(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += WEIR__VF_LANES) {
        int64_t m = weir__min(n - i, WEIR__VF_LANES);

        weir__vf_store_part(x + i, weir__vf_sigmoid(weir__vf_load_part(x + i, m)), m);
    }
}

static void sigmoid_f64(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double e = exp(-fabs(x[i]));

        x[i] = (x[i] < 0 ? e : 1) / (1 + e);
    }
}

#define CHOICE(T, type, TYPE)                                                                \
    /* NaN is the largest. The caller's order makes the first of equal scores win. */        \
    static bool beats_##T(type a, type b)                                                    \
    {                                                                                        \
        return a > b || (a != a && b == b);                                                  \
    }                                                                                        \
                                                                                             \
    /* The k largest of n in place[], in their order. */                                     \
    static void select_##T(const type *s, int64_t n, int64_t k, int64_t *place)              \
    {                                                                                        \
        int64_t held = 0;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                    \
            int64_t j = held;                                                                \
            if (held == k && !beats_##T(s[i], s[place[k - 1]]))                              \
                continue;                                                                    \
            if (held < k)                                                                    \
                held++;                                                                      \
            else                                                                             \
                j = k - 1;                                                                   \
            for (; j > 0 && beats_##T(s[i], s[place[j - 1]]); j--)                           \
                place[j] = place[j - 1];                                                     \
            place[j] = i;                                                                    \
        }                                                                                    \
    }                                                                                        \
                                                                                             \
    /* Experts outside the best groups get the score `outside`. */                           \
    static void leave_groups_##T(const struct weir__choice *a, type *s, type *score,         \
                                 int64_t *place)                                             \
    {                                                                                        \
        int64_t size = a->n / a->groups, best[2];                                            \
        for (int64_t g = 0; g < a->groups; g++) {                                            \
            select_##T(s + g * size, size, a->best_two ? 2 : 1, best);                       \
            score[g] = s[g * size + best[0]];                                                \
            if (a->best_two)                                                                 \
                score[g] += s[g * size + best[1]];                                           \
        }                                                                                    \
        select_##T(score, a->groups, a->group_k, place);                                     \
        for (int64_t g = 0; g < a->groups; g++) {                                            \
            bool stays = false;                                                              \
            for (int64_t i = 0; i < a->group_k; i++)                                         \
                stays |= place[i] == g;                                                      \
            for (int64_t j = g * size; j < (g + 1) * size && !stays; j++)                    \
                s[j] = (type)a->outside;                                                     \
        }                                                                                    \
    }                                                                                        \
                                                                                             \
    static void choose_##T(const struct weir__choice *a, int64_t token, char *local)         \
    {                                                                                        \
        type *p = (void *)local, *s = p + ROOM, *score = s + ROOM, sum = 0;                  \
        int64_t *place = (void *)(score + ROOM), elem = (int64_t)weir__elem_size(a->dtype);  \
        WEIR__ISA_NAME(weir__row_load_all)                                                   \
        (p, TYPE, a->in + token * a->in_row * elem, a->dtype, a->in_step, a->n);             \
        if (a->sigmoid) {                                                                    \
            sigmoid_##T(p, a->n);                                                            \
        } else {                                                                             \
            type max = weir__row_max_##T(p, a->n);                                           \
            weir__row_scale_##T(p, p, a->n, (type)(1 / weir__row_exp_##T(p, p, a->n, max))); \
        }                                                                                    \
        if (a->bias)                                                                         \
            WEIR__ISA_NAME(weir__row_load_all)                                               \
        (s, TYPE, a->bias, a->bias_type, a->bias_step, a->n);                                \
        for (int64_t j = 0; j < a->n; j++)                                                   \
            s[j] = a->bias ? p[j] + s[j] : p[j];                                             \
        if (a->group_k < a->groups)                                                          \
            leave_groups_##T(a, s, score, place);                                            \
        select_##T(s, a->n, a->k, place);                                                    \
        for (int64_t j = 0; j < a->k; j++)                                                   \
            sum += s[j] = p[place[j]];                                                       \
        for (int64_t j = 0; j < a->k; j++) {                                                 \
            type w = a->renormalise ? s[j] / (sum + (type)a->eps) : s[j];                    \
            ((type *)(void *)a->weights)[token * a->weights_row + j * a->weights_step] =     \
                w * (type)a->scale;                                                          \
            a->experts[token * a->experts_row + j * a->experts_step] = place[j];             \
        }                                                                                    \
    }
CHOICE(f32, float, WEIR_F32)
CHOICE(f64, double, WEIR_F64)

weir_status WEIR__ISA_NAME(weir__choice_kernel)(const void *args, const weir_block *block)
{
    const struct weir__choice *a = args;
    struct weir__range range = weir__tile_range(a->tokens, 1, block);

    for (int64_t i = range.begin; i < range.end; i++)
        if (a->dtype == WEIR_F64)
            choose_f64(a, i, block->local);
        else
            choose_f32(a, i, block->local);
    return WEIR_OK;
}
