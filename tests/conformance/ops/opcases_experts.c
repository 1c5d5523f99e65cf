/* Rows of mixtures of experts on one device. */
#include "conformance/ops/opcases.h"

#include <math.h>
#include <stdlib.h>

/* ---- choice: whole is k, groups, group_k; real is outside and scale; flag is sigmoid and
 * whether a group counts as its best two and weights are renormalised ---- */

/* Logits apart enough that rounding cannot swap two experts of a token, and such that no two pairs
 * of sigmoids have one sum. */
static void shuffle_logits(struct call *c, weir_dtype dtype)
{
    int64_t tokens = c->in[0].shape[0], experts = c->in[0].shape[1];

    for (int64_t i = 0; i < tokens; i++) {
        double *row = c->in[0].at + i * experts;

        for (int64_t j = 0; j < experts; j++)
            row[j] = round_to(dtype, (double)j / 16 - 2 + 1.0 / 64);
        for (int64_t j = experts - 1; j > 0; j--) {
            int64_t with = rng_int(&c->rng, 0, j);
            double held = row[j];

            row[j] = row[with];
            row[with] = held;
        }
    }
}

static void make_choice(struct call *c, weir_dtype dtype)
{
    struct rng *r = &c->rng;
    int64_t tokens = rng_int(r, 0, c->budget > 10000 ? 1000 : 30);
    int64_t groups = rng_chance(r, 50) ? 1 : rng_int(r, 1, 8), size = rng_int(r, 2, 64 / groups);
    int64_t experts = groups * size;

    c->whole[0] = rng_int(r, 1, experts < 8 ? experts : 8);
    c->whole[1] = groups;
    c->whole[2] = rng_int(r, 1, groups);
    c->real[0] = rng_chance(r, 50) ? 0 : -INFINITY;
    c->real[1] = rng_chance(r, 50) ? 1 : 2.5;
    c->flag[0] = rng_chance(r, 50);
    c->flag[1] = rng_chance(r, 50);
    c->nout = 2;
    add_input(c, dtype, 2, (int64_t[]){tokens, experts});
    shuffle_logits(c, dtype);
    if (rng_chance(r, 50)) {
        add_input(c, (weir_dtype)rng_int(r, WEIR_F32, WEIR_F64), 1, &experts);
        for (int64_t j = 0; j < experts; j++)
            c->in[1].at[j] = (double)rng_int(r, -1, 2);
    } else {
        c->nin++;
    }
}

static weir_status run_choice(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    weir_expert_choice_options options = {
        .k = c->whole[0],
        .groups = c->whole[1],
        .group_k = c->whole[2],
        .sigmoid = c->flag[0],
        .best_two = c->flag[1],
        .renormalise = c->flag[1],
        .outside = c->real[0],
        .eps = 1e-20,
        .scale = c->real[1],
    };

    return weir_expert_choice(in[0], in[1], &options, &out[0], &out[1]);
}

/* The k largest of s, their places in their order; of equal ones the first. */
static void largest(const double *s, int64_t n, int64_t k, int64_t *place)
{
    bool taken[1024] = {false};

    for (int64_t i = 0; i < k; i++) {
        int64_t best = -1;

        for (int64_t j = 0; j < n; j++)
            if (!taken[j] && (best < 0 || s[j] > s[best]))
                best = j;
        taken[best] = true;
        place[i] = best;
    }
}

static void leave_groups(const struct call *c, double *s, int64_t n)
{
    int64_t groups = c->whole[1], size = n / groups, best[2], stay[64];
    double score[64];

    for (int64_t g = 0; g < groups; g++) {
        largest(s + g * size, size, 2, best);
        score[g] = s[g * size + best[0]] + (c->flag[1] ? s[g * size + best[1]] : 0);
    }
    largest(score, groups, c->whole[2], stay);
    for (int64_t j = 0; j < n; j++) {
        bool stays = false;

        for (int64_t i = 0; i < c->whole[2]; i++)
            stays |= stay[i] == j / size;
        s[j] = stays ? s[j] : c->real[0];
    }
}

static void reference_choice(struct call *c)
{
    const struct array *x = &c->in[0], *bias = &c->in[1];
    int64_t n = x->shape[1], k = c->whole[0], shape[2] = {x->shape[0], k}, place[8];

    array_init(&c->out[0], x->dtype == WEIR_F64 ? WEIR_F64 : WEIR_F32, 2, shape);
    array_init(&c->out[1], WEIR_I64, 2, shape);
    for (int64_t t = 0; t < shape[0]; t++) {
        const double *row = x->at + t * n;
        double p[1024], s[1024], sum = 0, chosen = 0;

        for (int64_t j = 0; j < n; j++)
            sum += exp(row[j]);
        for (int64_t j = 0; j < n; j++) {
            p[j] = c->flag[0] ? 1 / (1 + exp(-row[j])) : exp(row[j]) / sum;
            s[j] = p[j] + (bias->at ? bias->at[j] : 0);
        }
        if (c->whole[2] < c->whole[1])
            leave_groups(c, s, n);
        largest(s, n, k, place);
        for (int64_t i = 0; i < k; i++)
            chosen += p[place[i]];
        for (int64_t i = 0; i < k; i++) {
            c->out[0].at[t * k + i] = p[place[i]] / (c->flag[1] ? chosen : 1) * c->real[1];
            c->out[1].at[t * k + i] = (double)place[i];
        }
    }
    c->terms = (double)n + 16;
}

/* ---- order: whole is how many experts there are, and k ---- */

static void make_order(struct call *c, weir_dtype dtype)
{
    int64_t m = rng_int(&c->rng, 0, c->budget > 10000 ? 4000 : 300);
    int64_t n = rng_int(&c->rng, 1, rng_chance(&c->rng, 50) ? 6 : 90);

    (void)dtype;
    c->whole[0] = n;
    c->whole[1] = rng_chance(&c->rng, 50) ? 1 : rng_int(&c->rng, 2, 9);
    c->nout = 3;
    add_indices(c, 1, &m, n);
}

static weir_status run_order(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_expert_order(in[0], c->whole[0], c->whole[1], &out[0], &out[1], &out[2]);
}

static void reference_order(struct call *c)
{
    const struct array *x = &c->in[0];
    int64_t at = 0;

    array_init(&c->out[0], WEIR_I64, 1, x->shape);
    array_init(&c->out[1], WEIR_I64, 1, x->shape);
    array_init(&c->out[2], WEIR_I32, 1, c->whole);
    for (int64_t e = 0; e < c->whole[0]; e++) {
        for (int64_t i = 0; i < x->shape[0]; i++)
            if ((int64_t)x->at[i] == e) {
                c->out[0].at[at] = (double)(i / c->whole[1]);
                c->out[1].at[i] = (double)at++;
            }
        c->out[2].at[e] = (double)at;
    }
}

/* ---- sum ---- */

static void make_sum(struct call *c, weir_dtype dtype)
{
    struct rng *r = &c->rng;
    int64_t unit = rng_chance(r, 50) ? 8 : 1, width = unit * rng_int(r, 1, 40);
    int64_t rows = rng_int(r, 1, 30), shape[2] = {rng_int(r, 0, 20), rng_int(r, 1, 9)};

    if (c->budget > 10000)
        width *= 20;
    add_input(c, dtype, 2, (int64_t[]){rows, width});
    add_indices(c, 2, shape, rows);
    if (rng_chance(r, 75))
        add_input(c, rng_chance(r, 50) ? WEIR_F32 : dtype, 2, shape);
    else
        c->nin++;
}

static weir_status run_sum(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_expert_sum(in[0], in[1], in[2], out);
}

static void reference_sum(struct call *c)
{
    const struct array *x = &c->in[0], *places = &c->in[1], *weights = &c->in[2];
    int64_t tokens = places->shape[0], k = places->shape[1], width = x->shape[1];
    struct array *out = &c->out[0];

    array_init(out, x->dtype, 2, (int64_t[]){tokens, width});
    add_reach(out);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t j = 0; j < width; j++)
            for (int64_t i = 0; i < k; i++) {
                double weight = weights->at ? weights->at[t * k + i] : 1;
                double term = weight * x->at[(int64_t)places->at[t * k + i] * width + j];

                out->at[t * width + j] += term;
                out->reach[t * width + j] += fabs(term);
            }
    c->terms = (double)k + 1;
}

const struct op_case opcases_experts[] = {
    {.name = "expert_choice",
     .types = TYPES_FLOAT,
     .make = make_choice,
     .run = run_choice,
     .reference = reference_choice},
    {.name = "expert_order",
     /* Indices have types of their own; of three such rows the fake GPU runs one. */
     .types = TYPE(I64) | TYPE(I32) | TYPE(I8),
     .flags = OP_EXACT,
     .make = make_order,
     .run = run_order,
     .reference = reference_order},
    {.name = "expert_sum",
     .types = TYPES_FLOAT,
     .make = make_sum,
     .run = run_sum,
     .reference = reference_sum},
    {.name = NULL},
};
