/* Products and attention of bf16, by what the processor has and by a stand-in for AMX, against f64.
 */
#include "kernels/tiles.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/half.h"
#include "harness/test.h"

#if TILES_ARE_BUILT

static uint64_t state;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static bool chance(int percent)
{
    return below(100) < percent;
}

static uint16_t *random_halves(int64_t n)
{
    uint16_t *x = malloc((size_t)weir__max(n, 1) * sizeof *x);

    CHECK(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = weir__f32_to_bf16((float)(below(4001) - 2000) / 1000);
    return x;
}

static double value(const uint16_t *x, int64_t at)
{
    return (double)weir__bf16_to_f32(x[at]);
}

static void *make_local(void)
{
    void *local = aligned_alloc(64, WEIR_LOCAL_BYTES);

    if (weir__isa_best_pairs() == WEIR__ISA_NO_PAIRS)
        test_skip("this processor does not multiply pairs of bf16");
    CHECK(local);
    memset(local, 0xff, WEIR_LOCAL_BYTES); /* NaN */
    return local;
}

/* ---- products ---- */

static void check_product(const struct weir__gemm *g, const char *by)
{
    const uint16_t *a = (const uint16_t *)g->a, *b = (const uint16_t *)g->b;

    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const double got = value((const uint16_t *)g->c, i * g->c_row + j * g->c_col);
            double sum = 0, reach = 0;

            for (int64_t k = 0; k < g->k; k++) {
                const double term =
                    value(a, i * g->a_row + k * g->a_col) * value(b, k * g->b_row + j * g->b_col);

                sum += term;
                reach += fabs(term);
            }
            if (!(fabs(got - sum) <= fabs(sum) * 0x1p-8 + reach * 0x1p-20))
                test_fail(__FILE__, __LINE__, "by %s: row %lld, column %lld is %g, not %g", by,
                          (long long)i, (long long)j, got, sum);
        }
}

TEST(pairs, products_in_tiles_agree_with_f64)
{
    void *local = make_local();

    for (state = 1; state < 60 / TEST_SLOWDOWN;) {
        const uint64_t seed = state;
        const bool rows_of_k = chance(50), transposed = chance(30);
        struct weir__gemm g = {.dtype = WEIR_BF16,
                               .m = 8 + below(100),
                               .n = 8 + below(100),
                               .k = 1 + below(chance(20) ? 1300 : 150)};

        test_note("seed %llu: %lld x %lld x %lld", (unsigned long long)seed, (long long)g.m,
                  (long long)g.n, (long long)g.k);
        g.a_row = transposed ? 1 : g.k;
        g.a_col = transposed ? g.m : 1;
        g.b_row = rows_of_k ? 1 : g.n;
        g.b_col = rows_of_k ? g.k : 1;
        g.c_row = g.n;
        g.c_col = 1;
        g.a = (const char *)random_halves(g.m * g.k);
        g.b = (const char *)random_halves(g.k * g.n);
        g.c = (char *)random_halves(g.m * g.n);
        weir__gemm_bf16_amx(&g, local);
        check_product(&g, "tiles");
        WEIR__ISA_PICK(weir__gemm_bf16)(&g, local);
        check_product(&g, "the processor");
        free((void *)g.a);
        free((void *)g.b);
        free(g.c);
        state = seed + 1;
    }
    free(local);
}

/* ---- attention ---- */

struct problem {
    struct weir__attention a;
    int64_t batch;
    uint16_t *q, *k, *v, *mask, *out;
    bool bools;
};

static struct weir__attention_operand operand(const void *data, int64_t heads, int64_t rows,
                                              int64_t cols)
{
    return (struct weir__attention_operand){
        .data = data, .batch = {heads * rows * cols}, .head = rows * cols, .row = cols, .col = 1};
}

static void make_mask(struct problem *p)
{
    struct weir__attention *a = &p->a;
    const int64_t n = p->batch * a->heads * a->lq * a->lk;

    p->mask = random_halves(n);
    p->bools = chance(50);
    for (int64_t i = 0; i < n; i++)
        if (p->bools)
            ((char *)p->mask)[i] = !chance(30);
        else if (chance(20))
            p->mask[i] = weir__f32_to_bf16(-INFINITY);
    a->mask = operand(p->mask, a->heads, a->lq, a->lk);
    a->mask_dtype = p->bools ? WEIR_BOOL : WEIR_BF16;
}

static struct problem make_problem(void)
{
    static const int64_t blocks[] = {192, 96, 48, 24};
    struct problem p = {.batch = 1 + below(2)};
    struct weir__attention *a = &p.a;

    *a = (struct weir__attention){.dtype = WEIR_BF16,
                                  .causal = chance(40),
                                  .ndims = 1,
                                  .shape = {p.batch},
                                  .key_heads = 1 + below(2),
                                  .lq = 1 + below(120),
                                  .lk = 1 + below(450),
                                  .d = chance(50) ? 64 : 1 + below(100),
                                  .dv = chance(50) ? 64 : 1 + below(100),
                                  .row_block = blocks[below(4)],
                                  .key_block = blocks[below(3)],
                                  .splits = 1};
    a->heads = a->key_heads * (1 + below(3));
    a->scale = (chance(10) ? -1 : 1) / sqrt((double)a->d);
    a->row_blocks = weir__div_up(a->heads / a->key_heads * a->lq, a->row_block);
    a->split_keys = a->lk;
    p.q = random_halves(p.batch * a->heads * a->lq * a->d);
    p.k = random_halves(p.batch * a->key_heads * a->lk * a->d);
    p.v = random_halves(p.batch * a->key_heads * a->lk * a->dv);
    p.out = random_halves(p.batch * a->heads * a->lq * a->dv);
    a->q = operand(p.q, a->heads, a->lq, a->d);
    a->k = operand(p.k, a->key_heads, a->lk, a->d);
    a->v = operand(p.v, a->key_heads, a->lk, a->dv);
    if (chance(20)) { /* keys and values that lie the other way round */
        a->k.row = a->v.row = 1;
        a->k.col = a->v.col = a->lk;
    }
    a->out = (char *)p.out;
    if (chance(40))
        make_mask(&p);
    return p;
}

static void free_problem(struct problem *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->mask);
    free(p->out);
}

/* The weights of one query; false if nothing takes part. */
static bool weigh(const struct problem *p, int64_t batch, int64_t head, int64_t row, double *weight)
{
    const struct weir__attention *a = &p->a;
    const int64_t key_head = head / (a->heads / a->key_heads);
    const int64_t q = batch * a->q.batch[0] + head * a->q.head + row * a->q.row;
    const int64_t k = batch * a->k.batch[0] + key_head * a->k.head;
    double top = -INFINITY, sum = 0;

    for (int64_t j = 0; j < a->lk; j++) {
        const int64_t mask = batch * a->mask.batch[0] + head * a->mask.head + row * a->mask.row + j;
        double score = 0;

        for (int64_t i = 0; i < a->d; i++)
            score += value(p->q, q + i) * value(p->k, k + j * a->k.row + i * a->k.col) * a->scale;
        if (p->mask && p->bools)
            score = ((const char *)p->mask)[mask] ? score : -INFINITY;
        else if (p->mask)
            score += value(p->mask, mask);
        if (a->causal && j > row + a->lk - a->lq)
            score = -INFINITY;
        weight[j] = score;
        top = fmax(top, score);
    }
    for (int64_t j = 0; j < a->lk; j++)
        sum += weight[j] = top == -INFINITY ? 0 : exp(weight[j] - top);
    for (int64_t j = 0; j < a->lk; j++)
        weight[j] /= top == -INFINITY ? 1 : sum;
    return top != -INFINITY;
}

/* A weight is rounded by 2^-8 of it at most, of which only what the weights do not share counts;
 * the scores, the function and the sums by much less; the result by 2^-8 of it. */
static void check_row(const struct problem *p, int64_t batch, int64_t head, int64_t row,
                      double *weight, const char *by)
{
    const struct weir__attention *a = &p->a;
    const int64_t v = batch * a->v.batch[0] + head / (a->heads / a->key_heads) * a->v.head;
    const bool any = weigh(p, batch, head, row, weight);

    for (int64_t i = 0; i < a->dv; i++) {
        const double got = value(p->out, ((batch * a->heads + head) * a->lq + row) * a->dv + i);
        double want = 0, apart = 0, reach = 0;

        for (int64_t j = 0; j < a->lk; j++)
            want += weight[j] * value(p->v, v + j * a->v.row + i * a->v.col);
        for (int64_t j = 0; j < a->lk; j++) {
            const double x = value(p->v, v + j * a->v.row + i * a->v.col);

            apart += weight[j] * fabs(x - want);
            reach += weight[j] * fabs(x);
        }
        if (!any ? got != 0
                 : !(fabs(got - want) <= 0x1p-8 * fabs(want) + 0x1p-8 * apart + 0x1p-15 * reach))
            test_fail(__FILE__, __LINE__,
                      "by %s: batch %lld, head %lld, row %lld, column %lld is %g, not %g", by,
                      (long long)batch, (long long)head, (long long)row, (long long)i, got, want);
    }
}

static void check_problem(const struct problem *p, const char *by)
{
    const struct weir__attention *a = &p->a;
    double *weight = malloc((size_t)a->lk * sizeof *weight);

    CHECK(weight);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t r = 0; r < a->lq; r++)
                check_row(p, b, h, r, weight, by);
    free(weight);
}

TEST(pairs, attention_in_tiles_agrees_up_to_the_rounding_of_weights)
{
    void *local = make_local();

    for (uint64_t seed = 1; seed < 60 / TEST_SLOWDOWN; seed++) {
        struct problem p;

        state = seed;
        p = make_problem();
        test_note("seed %llu: heads %lld of %lld, %lld x %lld, rows of %lld and %lld",
                  (unsigned long long)seed, (long long)p.a.heads, (long long)p.a.key_heads,
                  (long long)p.a.lq, (long long)p.a.lk, (long long)p.a.d, (long long)p.a.dv);
        for (int64_t u = 0; u < p.batch * p.a.key_heads * p.a.row_blocks; u++)
            weir__attention_bf16_amx(&p.a, u, local);
        check_problem(&p, "tiles");
        for (int64_t u = 0; u < p.batch * p.a.key_heads * p.a.row_blocks; u++)
            WEIR__ISA_PICK(weir__attention_bf16)(&p.a, u, local);
        check_problem(&p, "the processor");
        free_problem(&p);
    }
    free(local);
}

#else
TEST(pairs, products_in_tiles_need_x86_64)
{
    test_skip("built for another processor");
}
#endif
