/* Products of several lanes as one call of the library: a stack whose steps are the differences of
 * their addresses. One launch fills the GPU where two would run one after the other or leave some
 * cores idle, and nodes that wait for both wait for one.
 *
 * A merge waits for everything that its members wait for, and everything that waits for a member
 * waits for the merge. That only adds order, so the plan's reuse of memory, which relies on order,
 * stays valid. There is no cycle if weir__cuda_line_up finds an order. */
#include "cuda/product/product.h"
#include "cuda/program/program.h"

#include <string.h>

/* ---- places ---- */

static bool is_alike(const struct weir__product *a, const struct weir__product *b)
{
    return a->dtype == b->dtype && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->a_row == b->a_row && a->a_col == b->a_col && a->b_row == b->b_row &&
           a->b_col == b->b_col && a->c_row == b->c_row && a->c_col == b->c_col &&
           a->bias == b->bias && a->bias_step == b->bias_step;
}

/* Computes the elements between two addresses. False if the library does not support that step: it
 * must be forwards and a multiple of 16 bytes. */
static bool step_between(const char *from, const char *to, weir_dtype dtype, int64_t *step)
{
    int64_t bytes = (int64_t)((uintptr_t)to - (uintptr_t)from);

    *step = bytes / (int64_t)weir_dtype_size(dtype);
    return bytes >= 0 && bytes % 16 == 0;
}

static void sort_by_result(const struct weir__product **x, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k && (uintptr_t)x[k]->c < (uintptr_t)x[k - 1]->c; k--) {
            const struct weir__product *lower = x[k];

            x[k] = x[k - 1];
            x[k - 1] = lower;
        }
}

/* Returns a step that puts the results close together but keeps their alignment, which is part of a
 * product's key. */
static int64_t packed_step(const struct weir__product *x, int64_t step)
{
    int64_t size = (int64_t)weir_dtype_size(x->dtype), unit = 256 / size;
    int64_t span = (int64_t)weir__cuda_product_span(x) / size;

    return weir__div_up(span, unit) * unit + step % unit;
}

bool weir__cuda_product_stack(const struct weir__product *x, int n, bool packed,
                              struct weir__product *out)
{
    const struct weir__product *sorted[WEIR__CUDA_MERGED];
    int64_t a[2], b[2], c[2], size = (int64_t)weir_dtype_size(x->dtype);

    for (int i = 0; i < n; i++) {
        if (x[i].ndims || !is_alike(x, &x[i]))
            return false;
        sorted[i] = &x[i];
    }
    sort_by_result(sorted, n);
    for (int i = 0; i + 1 < n; i++) {
        const struct weir__product *from = sorted[i], *to = sorted[i + 1];
        int at = i > 0;

        if (!step_between(from->a, to->a, x->dtype, &a[at]) ||
            !step_between(from->b, to->b, x->dtype, &b[at]) ||
            !step_between(from->c, to->c, x->dtype, &c[at]) || a[at] != a[0] || b[at] != b[0] ||
            c[at] != c[0])
            return false;
    }
    if ((size_t)(c[0] * size) < weir__cuda_product_span(x))
        return false;
    *out = *sorted[0];
    out->ndims = 1;
    out->shape[0] = n;
    out->a_step[0] = a[0];
    out->b_step[0] = b[0];
    out->c_step[0] = packed ? packed_step(x, c[0]) : c[0];
    return true;
}

/* ---- of a program ---- */

/* Reads the members' products. False if a member is not a product, may not use all cores, or has
 * another priority. */
static bool read_members(const struct weir__program *p, const struct weir__cuda_merge *m,
                         struct weir__product *x)
{
    for (int i = 0; i < m->n; i++) {
        const struct weir__kernel *k = &weir__cuda_item_at(p, m->members[i])->kernel;

        if (!k->fn || !k->code->product || k->cores < p->dev->cores.total ||
            p->lanes[m->members[i].lane].priority != p->lanes[m->members[0].lane].priority ||
            !k->code->product(k->args, &x[i]))
            return false;
    }
    return true;
}

bool weir__cuda_merge_stack(const struct weir__program *p, const struct weir__cuda_merge *m,
                            bool packed, struct weir__product *out)
{
    struct weir__product x[WEIR__CUDA_MERGED];

    return m->n > 1 && read_members(p, m, x) && weir__cuda_product_stack(x, m->n, packed, out);
}

weir_status weir__cuda_merge_issue(const struct weir__cuda_sink *sink,
                                   const struct weir__program *p, const struct weir__cuda_merge *m)
{
    struct weir__product x[WEIR__CUDA_MERGED];
    weir_status st = WEIR_OK;

    if (read_members(p, m, x) && (st = weir__cuda_product_run(sink, x, m->n)) != WEIR_EUNSUPPORTED)
        return st;
    st = WEIR_OK;
    for (int i = 0; i < m->n && !st; i++) /* products that can no longer be merged run one by one */
        st = weir__cuda_issue(sink, &weir__cuda_item_at(p, m->members[i])->kernel);
    return st;
}

static void set_merge(struct weir__program *p, const struct weir__cuda_merge *m, int number)
{
    for (int i = 0; i < m->n; i++)
        weir__cuda_item_at(p, m->members[i])->merge = number;
}

void weir__cuda_arrange(struct weir__program *p)
{
    const struct weir__cuda_arrangement *a = &p->arrangement;
    struct weir__cuda_product *product;
    struct weir__product stack;

    for (int i = 0; i < p->norder; i++)
        weir__cuda_item_at(p, p->order[i])->merge = 0;
    for (int i = 0; i < a->nmerges; i++) {
        if (!weir__cuda_merge_stack(p, &a->merges[i], false, &stack) ||
            weir__cuda_product_find(p->dev, &stack, p->dev->cores.total, &product))
            continue;
        set_merge(p, &a->merges[i], i + 1);
        if (!weir__cuda_line_up(p))
            set_merge(p, &a->merges[i], 0);
    }
    (void)weir__cuda_line_up(p);
}
