/* Attention for inference: key and value caches, also paged, and rotary parts. */
#include "attention.h"

/* Keys of a paged cache as rows: [blocks, length, h], or [blocks, heads, length, d], by the
 * table [b, blocks of a row]. */
static tensor *paged(struct call *c, tensor *cache, tensor *table, const char *layout,
                     int64_t kv_heads)
{
    static const int heads_last[] = {0, 2, 1, 3};
    int64_t to[4];

    table = op_maximums(c, cast(c, table, WEIR_I64), 0); /* unused entries are -1 */
    if (rank(cache) == 4) {
        cache = contiguous(c, permute(c, cache, heads_last));
        to[0] = size(cache, 0);
        to[1] = size(cache, 1);
        to[2] = size(cache, 2) * size(cache, 3);
        cache = reshape(c, cache, 3, to);
    }
    cache = op_embedding(c, cache, table); /* [b, blocks, length, h] */
    if (c->err)
        return NULL;
    to[0] = size(cache, 0);
    to[1] = size(cache, 1) * size(cache, 2);
    to[2] = size(cache, 3);
    cache = reshape(c, cache, 3, to);
    return layout_is(layout, "BSH") ? cache : contiguous(c, to_heads(c, cache, "BSH", kv_heads));
}

/* Concatenates a list of one tensor, or of one tensor per row. */
static tensor *joined(struct call *c, int i)
{
    tensor *rows[64];
    int n = items(c, i);

    if (n == 1)
        return item(c, i, 0);
    if (n < 1 || n > 64)
        return call_fail(c, "%s has %d tensors", c->row->operands[i].name, n);
    for (int k = 0; k < n; k++)
        rows[k] = item(c, i, k);
    return c->err ? NULL : concat(c, rows, n, 0);
}

/* Concatenates x and its rotary part along the last dim. */
static tensor *with_rope(struct call *c, tensor *x, tensor *rope)
{
    tensor *both[2] = {x, rope};

    return rope && numel(rope) ? concat(c, both, 2, rank(x) - 1) : x;
}

/* Runs the attention. If the cache is paged, k and v are first gathered from its pages. */
static void infer(struct call *c, struct attention *a, int table, int out, int lse)
{
    int64_t kv_heads = a->kv_heads ? a->kv_heads : a->heads;

    if (!c->err && table >= 0 && given(c, table)) {
        const char *kv = layout_is(a->layout, "BSH") ? "BSH" : "BNSD";
        tensor *q = to_heads(c, a->q, a->layout, a->heads), *y;
        struct scores s = {0};
        bool stats = lse >= 0 && given(c, lse);

        y = attend(c, a, q, to_heads(c, paged(c, a->k, in(c, table), kv, kv_heads), kv, kv_heads),
                   to_heads(c, paged(c, a->v, in(c, table), kv, kv_heads), kv, kv_heads),
                   stats ? &s : NULL);
        put(c, out, from_heads(c, y, a->layout));
        if (stats)
            put(c, lse, op_add(c, s.most, op_log(c, s.sum)));
        return;
    }
    attention_run(c, a, out, -1, -1, lse);
}

/* q, k, v, pse, mask, q_lengths, kv_lengths, 5 scales, heads, scale, pre, next, layout, kv_heads,
 * sparse, inner, out */
void run_prompt_flash_attention(struct call *c)
{
    struct attention a = {
        .q = in(c, 0),
        .k = in(c, 1),
        .v = in(c, 2),
        .bias = in(c, 3),
        .mask = in(c, 4),
        .q_lengths = c->args[5].ints,
        .kv_lengths = c->args[6].ints,
        .heads = integer(c, 12),
        .scale = real(c, 13),
        .before = integer(c, 14),
        .after = integer(c, 15),
        .layout = text(c, 16),
        .kv_heads = integer(c, 17),
        .sparse = integer(c, 18),
    };

    attention_refuse(c, 7, 11);
    infer(c, &a, -1, 20, -1);
}

/* q, k list, v list, pse, mask, kv_lengths, 5 scales, 2 antiquant, table, padding, heads, scale,
 * layout, kv_heads, block_size, inner, out */
void run_incre_flash_attention(struct call *c)
{
    struct attention a = {
        .q = in(c, 0),
        .k = joined(c, 1),
        .v = joined(c, 2),
        .bias = in(c, 3),
        .mask = in(c, 4),
        .kv_lengths = c->args[5].ints,
        .heads = integer(c, 15),
        .scale = real(c, 16),
        .layout = text(c, 17),
        .kv_heads = integer(c, 18),
    };

    attention_refuse(c, 6, 12);
    attention_refuse(c, 14, 14);
    infer(c, &a, 13, 21, -1);
}

/* q, k list, v list, pse, mask, q_lengths, kv_lengths, 5 scales, 2 antiquant, table, 2 paddings,
 * 4 antiquant, 2 prefixes, prefix_length [, q_rope, k_rope, rope_scale [, q_scale, sink [, q_start,
 * kv_start]]], heads, scale, pre, next, layout, kv_heads, sparse, inner, block_size,
 * antiquant_mode, lse_flag, k_mode, v_mode [, q_mode [, pse_type]], out, lse */
static void fused(struct call *c, int numbers, bool rope, int out)
{
    struct attention a = {
        .q = in(c, 0),
        .k = joined(c, 1),
        .v = joined(c, 2),
        .bias = in(c, 3),
        .mask = in(c, 4),
        .q_lengths = c->args[5].ints,
        .kv_lengths = c->args[6].ints,
        .heads = integer(c, numbers),
        .scale = real(c, numbers + 1),
        .before = integer(c, numbers + 2),
        .after = integer(c, numbers + 3),
        .layout = text(c, numbers + 4),
        .kv_heads = integer(c, numbers + 5),
        .sparse = integer(c, numbers + 6),
    };

    attention_refuse(c, 7, 13);
    attention_refuse(c, 15, 23);
    if (rope) {
        a.q = with_rope(c, a.q, in(c, 24));
        a.k = with_rope(c, a.k, in(c, 25));
        attention_refuse(c, 26, numbers - 1);
    }
    a.cumulative = layout_is(a.layout, "TND");
    infer(c, &a, 14, out, integer(c, numbers + 10) ? out + 1 : -1);
}

void run_fused_infer_attention_v2(struct call *c)
{
    fused(c, 24, false, 37);
}

void run_fused_infer_attention_v3(struct call *c)
{
    fused(c, 27, true, 40);
}

void run_fused_infer_attention_v4(struct call *c)
{
    fused(c, 29, true, 43);
}

void run_fused_infer_attention_v5(struct call *c)
{
    if (integer(c, 45)) {
        (void)call_fail(c, "pse_type %lld is not supported", (long long)integer(c, 45));
        return;
    }
    fused(c, 31, true, 46);
}
