/* Mixtures of experts: gating, routing rows to experts and back, products per expert. */
#include <stdlib.h>

#include "run.h"

static const int last = 1;

/* Numbers [n, k] as i32, counted column by column. */
static tensor *column_numbers(struct call *c, int64_t n, int64_t k)
{
    return op_add(c, unsqueeze(c, arange(c, WEIR_I32, n, 0, 1), 1),
                  op_muls(c, arange(c, WEIR_I32, k, 0, 1), (double)n));
}

static void best(struct call *c, tensor *x, int64_t k, tensor **values, tensor **indices)
{
    *values = *indices = NULL;
    if (!c->err && x && call_ok(c, weir_topk(x, k, rank(x) - 1, true, values, indices))) {
        *values = own(c, *values);
        *indices = own(c, *indices);
    }
}

/* x [n, experts], finished, k, y, expert_idx, row_idx */
void run_moe_gating_softmax(struct call *c)
{
    tensor *x = wide(c, in(c, 0)), *y, *at;
    int64_t n = size(x, -1), k = integer(c, 2), to[2] = {n ? numel(x) / n : 0, n};

    x = reshape(c, x, 2, to);
    best(c, op_softmax(c, x, 1), k, &y, &at);
    if (given(c, 1))
        at = op_where(c, reshape(c, op_truth(c, in(c, 1)), 2, (const int64_t[]){to[0], 1}),
                      full(c, WEIR_I64, 0, NULL, (double)n), at);
    put(c, 3, y);
    put(c, 4, at);
    put(c, 5, column_numbers(c, to[0], k));
}

/* x, finished, k, renorm (1: chosen before the softmax), softmax_flag, y, expert_idx, softmax */
void run_moe_gating_softmax_v2(struct call *c)
{
    tensor *x = wide(c, in(c, 0)), *y, *at, *p;
    int64_t n = size(x, -1), to[2] = {n ? numel(x) / n : 0, n};

    x = reshape(c, x, 2, to);
    p = op_softmax(c, x, 1);
    best(c, integer(c, 3) ? x : p, integer(c, 2), &y, &at);
    if (integer(c, 3))
        y = op_softmax(c, y, 1);
    if (given(c, 1))
        at = op_where(c, reshape(c, op_truth(c, in(c, 1)), 2, (const int64_t[]){to[0], 1}),
                      full(c, WEIR_I64, 0, NULL, (double)n), at);
    put(c, 5, y);
    put(c, 6, at);
    if (integer(c, 4) && !integer(c, 3))
        put(c, 7, p);
}

/* x, bias, k, k_group, group_count, group_select_mode, renorm, norm_type, out_flag, scaling, eps,
 * y, expert_idx, out */
void run_moe_gating(struct call *c)
{
    tensor *x = wide(c, in(c, 0)), *p, *s, *y, *at, *g, *values;
    int64_t n = size(x, -1), groups = integer(c, 4), rows = n ? numel(x) / n : 0;
    int64_t to[2] = {rows, n}, grouped[3] = {rows, groups, groups ? n / groups : 0};

    p = reshape(c, integer(c, 7) ? op_sigmoid(c, x) : op_softmax(c, x, rank(x) - 1), 2, to);
    s = given(c, 1) ? op_add(c, p, wide(c, in(c, 1))) : p;
    if (groups > 1) {
        const int two = 2;
        tensor *hit;

        g = reshape(c, s, 3, grouped);
        if (integer(c, 5)) {
            best(c, g, 2, &values, &at);
            values = op_sum(c, values, &two, 1, false);
        } else {
            values = op_max(c, g, &two, 1, false);
        }
        best(c, values, integer(c, 3), &values, &at); /* [rows, k_group] */
        /* mask the experts of groups that were not chosen */
        hit = op_max(
            c, op_eq(c, unsqueeze(c, at, 1), unsqueeze(c, arange(c, WEIR_I64, groups, 0, 1), 1)),
            &two, 1, true);
        g = op_where(c, hit, g, full(c, type(g), 0, NULL, -INFINITY));
        s = reshape(c, g, 2, to);
    }
    best(c, s, integer(c, 2), &values, &at);
    y = op_gather(c, p, 1, at);
    if (integer(c, 7) || integer(c, 6))
        y = op_div(c, y, op_adds(c, op_sum(c, y, &last, 1, true), real(c, 10)));
    put(c, 11, op_muls(c, y, real(c, 9)));
    put(c, 12, at);
    if (integer(c, 8))
        put(c, 13, p);
}

/* sorted experts, count of experts, out: how many rows go to expert 0..e */
void run_moe_compute_expert_tokens(struct call *c)
{
    tensor *x = unsqueeze(c, flat(c, in(c, 0)), 1);
    const int rows = 0;

    give(c, op_sum(c, op_le(c, x, cast(c, arange(c, WEIR_I64, integer(c, 1), 0, 1), type(x))),
                   &rows, 1, false));
}

/* The inverse permutation: out[at[i]] = i. */
static tensor *inverse(struct call *c, tensor *at)
{
    tensor *values, *indices;

    op_sort(c, at, 0, false, &values, &indices);
    return indices;
}

/* x, row_idx, expert_idx, active_num, expanded_x, expanded_row_idx, expanded_expert_idx */
void run_moe_init_routing(struct call *c)
{
    tensor *x = in(c, 0), *expert, *order, *source, *rows;
    int64_t n = size(x, 0), kept = size(in(c, 4), 0);

    op_sort(c, flat(c, in(c, 2)), 0, false, &expert, &order);
    source = op_index_select(c, flat(c, in(c, 1)), 0, order);
    put(c, 5, inverse(c, source));
    put(c, 6, expert);
    rows =
        math2(c, MATH_REMAINDER, cast(c, source, WEIR_I64), full(c, WEIR_I64, 0, NULL, (double)n));
    put(c, 4, op_index_select(c, x, 0, slice(c, rows, 0, 0, kept, 1)));
}

/* x, expert_idx, active_num, capacity, experts, drop_pad_mode, count_flag (1 running sums, 2
 * counts), before_capacity_flag, expanded_x, expanded_row_idx, counts, before_capacity */
void run_moe_init_routing_v2(struct call *c)
{
    tensor *x = in(c, 0), *expert, *order, *rows, *ids = arange(c, WEIR_I64, integer(c, 4), 0, 1);
    int64_t k = size(in(c, 1), -1), kept = size(in(c, 8), 0);
    const int first = 0;

    if (integer(c, 5)) {
        (void)call_fail(c, "drop and pad mode %lld is not supported", (long long)integer(c, 5));
        return;
    }
    op_sort(c, flat(c, cast(c, in(c, 1), WEIR_I64)), 0, false, &expert, &order);
    put(c, 9, inverse(c, order));
    rows = op_div(c, order, full(c, WEIR_I64, 0, NULL, (double)k));
    put(c, 8, op_index_select(c, x, 0, slice(c, rows, 0, 0, kept, 1)));
    expert = unsqueeze(c, expert, 1);
    if (integer(c, 6))
        put(c, 10,
            op_sum(c, integer(c, 6) == 1 ? op_le(c, expert, ids) : op_eq(c, expert, ids), &first, 1,
                   false));
}

/* rows, skip1, skip2, bias, scales, source_to_row, experts: out[i] = skips + the sum over k of
 * scales[i, k] * (rows[place of (i, k)] + bias[expert of (i, k)]) */
static tensor *finalize(struct call *c, int rows, int skip1, int skip2, int bias, int scales,
                        int places, int experts, bool row_by_row)
{
    tensor *x = in(c, rows), *at = cast(c, flat(c, in(c, places)), WEIR_I64), *y;
    int64_t h = size(x, -1), k = given(c, scales) ? size(in(c, scales), 1) : 1;
    int64_t n = k ? numel(at) / k : 0, to[3] = {n, k, h}, turned[2] = {k, n};
    int64_t table[2] = {h ? numel(x) / h : 0, h};
    const int one = 1;

    x = reshape(c, x, 2, table);
    if (!row_by_row)
        at = contiguous(c, transpose(c, reshape(c, at, 2, turned), 0, 1));
    y = reshape(c, wide(c, op_index_select(c, x, 0, flat(c, at))), 3, to);
    if (given(c, bias))
        y = op_add(c, y, wide(c, op_embedding(c, in(c, bias), in(c, experts))));
    if (given(c, scales))
        y = op_mul(c, y, unsqueeze(c, wide(c, in(c, scales)), 2));
    y = op_sum(c, y, &one, 1, false);
    if (given(c, skip1))
        y = op_add(c, y, wide(c, in(c, skip1)));
    if (given(c, skip2))
        y = op_add(c, y, wide(c, in(c, skip2)));
    return y;
}

/* rows, skip1, skip2, bias, scales, source_to_row, experts, out */
void run_moe_finalize_routing(struct call *c)
{
    give(c, finalize(c, 0, 1, 2, 3, 4, 5, 6, false));
}

/* rows, source_to_row, skip1, skip2, bias, scales, experts, mode, out */
void run_moe_finalize_routing_v2(struct call *c)
{
    int64_t mode = integer(c, 7);

    if (mode != 0 && mode != 2) {
        (void)call_fail(c, "drop and pad mode %lld is not supported", (long long)mode);
        return;
    }
    give(c, finalize(c, 0, 2, 3, 4, 5, 1, 6, mode == 2));
}

/* tokens, indices [n, k], num_out, padded, permuted, sorted_indices: rows by expert, and where
 * each pair of a token and an expert went */
void run_moe_token_permute(struct call *c)
{
    tensor *x = in(c, 0), *index = in(c, 1), *values, *order, *rows;
    int64_t k = rank(index) > 1 ? size(index, 1) : 1, kept = size(in(c, 4), 0);

    if (integer(c, 3)) {
        (void)call_fail(c, "the padded mode is not supported");
        return;
    }
    op_sort(c, flat(c, index), 0, false, &values, &order);
    rows = op_div(c, order, full(c, WEIR_I64, 0, NULL, (double)k));
    put(c, 4, op_index_select(c, x, 0, slice(c, rows, 0, 0, kept, 1)));
    put(c, 5, inverse(c, order));
}

/* permuted, sorted_indices, probs, padded, restore_shape, out */
void run_moe_token_unpermute(struct call *c)
{
    tensor *x = in(c, 0), *at = flat(c, in(c, 1)), *y;
    int64_t k = given(c, 2) ? size(in(c, 2), 1) : 1;
    int64_t to[3] = {k ? numel(at) / k : 0, k, size(x, -1)};
    const int one = 1;

    if (integer(c, 3)) {
        (void)call_fail(c, "the padded mode is not supported");
        return;
    }
    y = reshape(c, wide(c, op_index_select(c, x, 0, at)), 3, to);
    if (given(c, 2))
        y = op_mul(c, y, unsqueeze(c, wide(c, in(c, 2)), 2));
    give(c, op_sum(c, y, &one, 1, false));
}

/* grad of permuted, sorted_indices, k, padded, out */
void run_moe_token_permute_grad(struct call *c)
{
    tensor *g = in(c, 0), *at = flat(c, in(c, 1)), *y;
    int64_t k = integer(c, 2), to[3] = {k ? numel(at) / k : 0, k, size(g, -1)};
    const int one = 1;

    if (integer(c, 3)) {
        (void)call_fail(c, "the padded mode is not supported");
        return;
    }
    y = reshape(c, wide(c, op_index_select(c, g, 0, at)), 3, to);
    give(c, op_sum(c, y, &one, 1, false));
}

/* ---- grouped products ---- */

enum { GROUPS_MAX = 1024 };

/* Reads from the device where groups end; the host waits for the stream. */
static int read_ends(struct call *c, tensor *list, bool counts, int64_t *ends)
{
    int n = (int)numel(list);
    int64_t sum = 0;

    list = contiguous(c, flat(c, cast(c, list, WEIR_I64)));
    if (c->err || !list)
        return 0;
    if (n > GROUPS_MAX) {
        (void)call_fail(c, "%d groups are too many: %d fit", n, GROUPS_MAX);
        return 0;
    }
    if (!call_ok(c, weir_tensor_read(list, ends, (size_t)n * sizeof *ends)))
        return 0;
    for (int i = 0; counts && i < n; i++)
        ends[i] = sum += ends[i];
    return n;
}

/* Multiplies rows of x by weight e, and adds the bias. */
static tensor *expert_product(struct call *c, tensor *x, int weight, int bias, int e)
{
    tensor *w, *y;

    if (items(c, weight) == 1) {
        w = item(c, weight, 0);
        w = rank(w) == 3 ? squeeze(c, slice(c, w, 0, e, e + 1, 1), 0) : w;
    } else {
        w = item(c, weight, e);
    }
    y = op_matmul(c, x, w);
    if (bias >= 0 && given(c, bias) && items(c, bias)) {
        tensor *b = items(c, bias) == 1 ? item(c, bias, 0) : item(c, bias, e);

        if (b && rank(b) == 2)
            b = squeeze(c, slice(c, b, 0, e, e + 1, 1), 0);
        if (b && numel(b))
            y = op_add(c, y, b);
    }
    return y;
}

static void activate(struct call *c, tensor **y, int64_t kind)
{
    if (kind == 1)
        *y = op_relu(c, *y);
    else if (kind == 2)
        *y = op_gelu_tanh(c, wide(c, *y));
    else if (kind == 4)
        *y = op_silu(c, *y);
    else if (kind)
        (void)call_fail(c, "activation %lld is not supported", (long long)kind);
}

/* Multiplies rows of one x by the weight of their group; writes one result, or one per group. */
static void grouped(struct call *c, int x_at, int weight, int bias, const int64_t *ends, int n,
                    int64_t activation, int out)
{
    int64_t begin = 0;

    for (int e = 0; e < n && !c->err; e++) {
        bool one_x = items(c, x_at) == 1, one_out = items(c, out) == 1;
        tensor *x = one_x ? item(c, x_at, 0) : item(c, x_at, e), *y, *to;
        int64_t rows = one_x ? ends[e] - begin : size(x, 0);

        if (one_x && ends[e] < begin) {
            (void)call_fail(c, "the group list decreases at %d", e);
            return;
        }
        if (rows > 0) {
            y = expert_product(c, one_x ? slice(c, x, 0, begin, ends[e], 1) : x, weight, bias, e);
            activate(c, &y, activation);
            to = one_out ? slice(c, item(c, out, 0), 0, begin, begin + rows, 1) : item(c, out, e);
            put_tensor(c, to, y);
        }
        begin += rows;
    }
    if (n && items(c, out) == 1 && !c->err) { /* rows that belong to no group */
        tensor *y = item(c, out, 0);

        if (begin < size(y, 0)) {
            tensor *rest = slice(c, y, 0, begin, size(y, 0), 1);

            if (numel(rest))
                (void)call_ok(c, weir_fill(rest, 0));
        }
    }
}

/* True for one x, one weight of three dims and one result of one type: then only the device needs
 * to read the groups. */
static bool stays_on_device(struct call *c, int out)
{
    tensor *x, *w, *b, *y;

    if (items(c, 0) != 1 || items(c, 1) != 1 || items(c, out) != 1)
        return false;
    x = item(c, 0, 0);
    w = item(c, 1, 0);
    y = item(c, out, 0);
    b = given(c, 2) && items(c, 2) ? item(c, 2, 0) : NULL;
    if (b && numel(b) && (items(c, 2) != 1 || rank(b) != 2 || type(b) != type(x)))
        return false;
    return x && w && y && rank(x) == 2 && rank(w) == 3 && weir_dtype_is_float(type(x)) &&
           type(w) == type(x) && type(y) == type(x) && size(w, 0) == numel(in(c, 8));
}

/* Running sums, computed by a matrix product, which every device supports. */
static tensor *add_up(struct call *c, tensor *counts)
{
    int64_t n = numel(counts), shape[2] = {n, n}, column[2] = {n, 1};
    int32_t *below;
    tensor *ones;

    if (c->err || n > GROUPS_MAX || !(below = calloc((size_t)(n * n), sizeof *below))) {
        (void)call_fail(c, "%lld groups are too many: %d fit", (long long)n, GROUPS_MAX);
        return NULL;
    }
    for (int64_t i = 0; i < n * n; i++)
        below[i] = i % n <= i / n;
    ones = from_host(c, WEIR_I32, 2, shape, below);
    free(below);
    return flat(c, op_matmul(c, ones, reshape(c, cast(c, counts, WEIR_I32), 2, column)));
}

static void grouped_on_device(struct call *c, bool counts, int64_t activation, int out)
{
    tensor *b = given(c, 2) && items(c, 2) ? item(c, 2, 0) : NULL, *y;
    tensor *ends = flat(c, in(c, 8));

    ends = counts ? add_up(c, ends) : cast(c, ends, WEIR_I64);
    y = op_grouped_matmul(c, item(c, 0, 0), item(c, 1, 0), ends, b && numel(b) ? b : NULL);
    activate(c, &y, activation);
    put_tensor(c, item(c, out, 0), y);
}

/* x, weight, bias, scale, offset, antiquant_scale, antiquant_offset, group_list, split, out */
void run_grouped_matmul(struct call *c)
{
    const aclIntArray *list = c->args[7].ints;
    int n = list && list->size ? (int)list->size : items(c, 0);
    int64_t ends[GROUPS_MAX] = {0};

    for (int i = 3; i <= 6; i++)
        if (given(c, i) && items(c, i) && item(c, i, 0) && numel(item(c, i, 0)))
            (void)call_fail(c, "%s is not supported", c->row->operands[i].name);
    for (int e = 0; e < n && e < GROUPS_MAX; e++)
        ends[e] = list && list->size ? list->value[e] : 0;
    grouped(c, 0, 1, 2, ends, n < GROUPS_MAX ? n : GROUPS_MAX, 0, 9);
}

/* x, weight, bias, scale, offset, antiquant_scale, antiquant_offset, per_token_scale, group_list,
 * 3 of activations, split, group_type, group_list_type (0 ends, 1 counts), act_type, [tuning,] out,
 * 2 more */
void run_grouped_matmul_v4(struct call *c)
{
    int64_t ends[GROUPS_MAX] = {0};
    int n = items(c, 0), out = c->row->count - 3;

    for (int i = 3; i <= 11; i++)
        if (i != 8 && given(c, i) && items(c, i) && item(c, i, 0) && numel(item(c, i, 0)))
            (void)call_fail(c, "%s is not supported", c->row->operands[i].name);
    if (integer(c, 13) > 0)
        (void)call_fail(c, "groups along k are not supported");
    if (given(c, 8) && numel(in(c, 8)) && stays_on_device(c, out)) {
        grouped_on_device(c, integer(c, 14) != 0, integer(c, 15), out);
        return;
    }
    if (given(c, 8) && numel(in(c, 8))) {
        if (c->capturing) {
            (void)call_fail(c, "group_list is read by the host: it cannot be captured");
            return;
        }
        n = read_ends(c, in(c, 8), integer(c, 14) != 0, ends);
    }
    grouped(c, 0, 1, 2, ends, n, integer(c, 15), out);
}
