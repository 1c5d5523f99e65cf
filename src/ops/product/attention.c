/* Attention: shapes, cutting, and calls of the host's kernels. */
#include <math.h>
#include <string.h>

#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/host/move/concat.h"
#include "ops/host/product/attention.h"
#include "ops/tile.h"

struct args {
    struct weir__attention attention; /* first: a GPU's kernel reads only this */
    void (*run)(const struct weir__attention *a, int64_t unit, void *local);
    void (*combine)(const struct weir__attention *a, int64_t row, void *local);
    int64_t units, rows; /* units: parts of all stacks of rows; rows of the output */
};

/* Blocks per core on a host. Units and cores differ in speed, so a core that finishes early takes
 * another block. Many rows are slow to compute; few rows mostly wait for memory. */
#define BLOCKS_OF_MANY 8
#define BLOCKS_OF_FEW 2

/* If there are fewer than MANY_UNITS key heads with few rows, their keys are cut into about PARTS
 * parts in total, but into parts of at least PART_KEYS keys. */
#define PARTS 128
#define PART_KEYS 256
#define MANY_UNITS 64

static weir_status check_types(const struct weir__call *call)
{
    const struct weir__view *q = call->in[0], *mask = call->nin > 3 ? call->in[3] : NULL;

    if (!weir_dtype_is_float(q->dtype))
        return weir__fail(WEIR_EDTYPE, "Attention: q is %s, not of a float type",
                          weir__view_text(q).text);
    for (int i = 1; i < 3; i++)
        if (call->in[i]->dtype != q->dtype)
            return weir__fail(WEIR_EDTYPE, "Attention: operands differ in type: %s and %s",
                              weir__view_text(q).text, weir__view_text(call->in[i]).text);
    if (mask && mask->dtype != WEIR_BOOL && mask->dtype != q->dtype)
        return weir__fail(WEIR_EDTYPE, "Attention: the mask must be bool or of q's type: %s and %s",
                          weir__view_text(mask).text, weir__view_text(q).text);
    return WEIR_OK;
}

/* Whether v's dims before the last `last` dims broadcast to q's. */
static bool leads_fit(const struct weir__view *v, const struct weir__view *q, int last)
{
    if (v->ndim > q->ndim)
        return false;
    for (int d = last + 1; d <= v->ndim; d++)
        if (v->shape[v->ndim - d] != 1 && v->shape[v->ndim - d] != q->shape[q->ndim - d])
            return false;
    return true;
}

static int64_t heads_of(const struct weir__view *v)
{
    return v->ndim > 2 ? v->shape[v->ndim - 3] : 1;
}

static weir_status infer(struct weir__call *call)
{
    const struct weir__view *q = call->in[0], *k = call->in[1], *v = call->in[2];
    const struct weir__view *mask = call->nin > 3 ? call->in[3] : NULL;
    const weir_attention_options *options = call->params;
    struct weir__view *out = &call->out[0];
    weir_status st;

    if ((st = check_types(call)))
        return st;
    if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2 ||
        q->shape[q->ndim - 1] != k->shape[k->ndim - 1] ||
        k->shape[k->ndim - 2] != v->shape[v->ndim - 2])
        return weir__fail(WEIR_ESHAPE,
                          "Attention: q must be [..., lq, d], k [..., lk, d] and v [..., lk, dv]: "
                          "they are %s, %s and %s",
                          weir__view_text(q).text, weir__view_text(k).text,
                          weir__view_text(v).text);
    if (!leads_fit(k, q, 3) || !leads_fit(v, q, 3) || heads_of(k) != heads_of(v) ||
        (heads_of(k) ? heads_of(q) % heads_of(k) : heads_of(q)))
        return weir__fail(WEIR_ESHAPE,
                          "Attention: the heads (dim -3) of k and v must be the same and divide "
                          "those of q, the dims before them must fit: q is %s, k %s and v %s",
                          weir__view_text(q).text, weir__view_text(k).text,
                          weir__view_text(v).text);
    *out = (struct weir__view){.dtype = q->dtype, .ndim = q->ndim};
    memcpy(out->shape, q->shape, sizeof q->shape);
    out->shape[q->ndim - 1] = k->shape[k->ndim - 2];
    if (mask && !leads_fit(mask, out, 0))
        return weir__fail(WEIR_ESHAPE, "Attention: the mask %s does not broadcast to %s",
                          weir__view_text(mask).text, weir__dims_text(out->ndim, out->shape).text);
    out->shape[q->ndim - 1] = v->shape[v->ndim - 1];
    if (options->rows_first) {
        if (q->ndim < 3)
            return weir__fail(WEIR_ESHAPE, "Attention: rows_first is for heads (dim -3): q is %s",
                              weir__view_text(q).text);
        out->shape[q->ndim - 3] = q->shape[q->ndim - 2];
        out->shape[q->ndim - 2] = q->shape[q->ndim - 3];
    }
    return WEIR_OK;
}

static void cost(const struct weir__call *call, struct weir__cost *cost)
{
    const struct weir__view *q = call->in[0], *k = call->in[1], *out = &call->out[0];
    const weir_attention_options *options = call->params;
    double elements = (double)(weir__view_numel(q) + weir__view_numel(out));
    double lq = (double)q->shape[q->ndim - 2], keys = (double)k->shape[k->ndim - 2];

    /* The last row sees all keys, and each row before it one less; the mean over the rows. */
    if (options->causal && lq > 0)
        keys = lq > keys ? keys * (keys + 1) / (2 * lq) : keys - (lq - 1) / 2;
    cost->flops = 2.0 * elements * keys;
    cost->m = lq;
    cost->k = (double)k->shape[k->ndim - 2];
    cost->units = lq > 0 ? (double)weir__view_numel(q) / lq / (double)q->shape[q->ndim - 1] : 0;
    cost->causal = options->causal;
    for (int i = 1; i < call->nin; i++)
        if (call->in[i])
            elements += (double)weir__view_numel(call->in[i]);
    cost->bytes = elements * (double)weir_dtype_size(q->dtype);
}

/* The i-th unit in the order of execution: the longest first. The last rows of a head are fewer,
 * unless causality makes them longer. */
static int64_t unit_in_turn(const struct args *args, int64_t i)
{
    const struct weir__attention *a = &args->attention;
    const int64_t stacks = args->units / a->row_blocks;
    const int64_t block = i / stacks;

    return a->splits > 1
               ? i
               : i % stacks * a->row_blocks + (a->causal ? a->row_blocks - 1 - block : block);
}

static weir_status run_block(const void *pointer, const weir_block *block)
{
    const struct args *args = pointer;

    if (block->phase == 1) {
        for (int64_t row = block->index; row < args->rows; row += block->count)
            args->combine(&args->attention, row, block->local);
        return WEIR_OK;
    }
    /* In a round-robin, because causality makes later rows longer. */
    for (int64_t i = block->index; i < args->units; i += block->count)
        args->run(&args->attention, unit_in_turn(args, i), block->local);
    return WEIR_OK;
}

/* ---- keys and values from an absorbed Concat ---- */

/* Copies rows first .. last-1 of stack `outer` of a Concat's result. */
static void copy_rows(const struct weir__concat *c, int64_t outer, int64_t first, int64_t last)
{
    const int64_t size = (int64_t)weir_dtype_size(c->dtype), step = c->strided ? 2 + c->ndim : 2;
    const int64_t bytes = c->shape[c->dim + 1] * size;
    char *out = c->out + outer * c->shape[c->dim] * bytes;
    int64_t at = 0;

    for (const int64_t *piece = c->pieces; piece < c->pieces + c->npieces * step; piece += step) {
        const int64_t from = weir__max(first, at), to = weir__min(last, at + piece[1]);
        const char *data = (const char *)(intptr_t)piece[0];
        int64_t row = bytes, rest = outer;

        if (c->strided) {
            row = piece[2 + c->dim] * size;
            for (int d = c->dim - 1; d >= 0; rest /= c->shape[d--])
                data += rest % c->shape[d] * piece[2 + d] * size;
        } else {
            data += outer * piece[1] * bytes;
        }
        if (row == bytes && from < to)
            memcpy(out + from * bytes, data + (from - at) * bytes, (size_t)((to - from) * bytes));
        for (int64_t r = from; row != bytes && r < to; r++)
            memcpy(out + r * bytes, data + (r - at) * row, (size_t)bytes);
        at += piece[1];
    }
}

/* Like run_block for few rows, where `makers` are the Concats of keys, values or both. Copies the
 * keys and values of a part right before reading them, so that they are read from a near cache. */
static weir_status run_appending(const void *pointer, const void *const *makers, int n,
                                 const weir_block *block)
{
    const struct args *args = pointer;
    const struct weir__attention *a = &args->attention;

    if (block->phase == 1)
        return run_block(pointer, block);
    for (int64_t unit = block->index; unit < args->units; unit += block->count) {
        const int64_t first = unit % a->splits * a->split_keys;

        for (int i = 0; i < n; i++)
            copy_rows(makers[i], unit / a->splits, first, weir__min(a->lk, first + a->split_keys));
        args->run(a, unit, block->local);
    }
    return WEIR_OK;
}

/* The operand as [batch..., heads, rows, columns] with q's rank. `rows` and `cols` are its last two
 * sizes, after broadcasting. */
static struct weir__attention_operand operand(const struct weir__view *v,
                                              const struct weir__attention *a, int64_t heads,
                                              int64_t rows, int64_t cols, bool headless)
{
    struct weir__attention_operand o = {.data = v->data};
    int64_t shape[WEIR_MAX_DIMS];
    struct weir__view wide;
    int nd = a->ndims;

    memcpy(shape, a->shape, sizeof a->shape);
    if (!headless)
        shape[nd++] = heads;
    shape[nd++] = rows;
    shape[nd++] = cols;
    wide = weir__view_broadcast(v, nd, shape);
    memcpy(o.batch, wide.stride, (size_t)a->ndims * sizeof *o.batch);
    o.head = headless ? 0 : wide.stride[nd - 3];
    o.row = wide.stride[nd - 2];
    o.col = wide.stride[nd - 1];
    return o;
}

static int64_t batches(const struct weir__attention *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndims; d++)
        n *= a->shape[d];
    return n;
}

/* Chooses the sizes of blocks of rows and keys, smaller for long rows. The sizes are multiples of
 * every instruction set's panels.
 * returns  false if d and dv are too large for local memory. */
static bool cut(struct weir__attention *a)
{
    const int64_t budget = (int64_t)(WEIR_LOCAL_BYTES / sizeof(double)) - 4096;
    const int64_t rows = weir__max(a->key_heads ? a->heads / a->key_heads * a->lq : 0, 1);
    const int64_t wide = weir__div_up(a->dv, 48) * 48;
    /* large blocks reuse packed keys more often, if there are enough blocks for all cores */
    const int64_t most = batches(a) * a->key_heads * rows >= MANY_UNITS * 192 ? 192 : 96;

    for (a->key_block = 192; a->key_block >= 48; a->key_block /= 2)
        for (a->row_block = most; a->row_block >= 24; a->row_block /= 2) {
            const int64_t lines = weir__max(a->row_block, 48);
            const int64_t need = lines * (a->d + 16 + wide + 2 * a->key_block + 2) +
                                 a->key_block * (weir__max(a->d, 48) + a->dv + 8);

            if (need <= budget) {
                a->row_blocks = a->lq ? weir__div_up(rows, a->row_block) : 0;
                return true;
            }
        }
    return false;
}

/* Describes the call without its cut. */
static struct weir__attention describe(const struct weir__call *call)
{
    const struct weir__view *q = call->in[0], *k = call->in[1], *v = call->in[2];
    const struct weir__view *mask = call->nin > 3 ? call->in[3] : NULL;
    const weir_attention_options *options = call->params;
    const bool headless = q->ndim == 2;
    struct weir__attention a = {.out = call->out[0].data,
                                .dtype = q->dtype,
                                .causal = options->causal,
                                .ndims = headless ? 0 : q->ndim - 3,
                                .heads = heads_of(q),
                                .key_heads = heads_of(k),
                                .lq = q->shape[q->ndim - 2],
                                .lk = k->shape[k->ndim - 2],
                                .d = q->shape[q->ndim - 1],
                                .dv = v->shape[v->ndim - 1]};

    memcpy(a.shape, q->shape, (size_t)a.ndims * sizeof *a.shape);
    a.scale = options->scale != 0 ? options->scale : 1 / sqrt((double)weir__max(a.d, 1));
    a.q = operand(q, &a, a.heads, a.lq, a.d, headless);
    a.k = operand(k, &a, a.key_heads, a.lk, a.d, headless);
    a.v = operand(v, &a, a.key_heads, a.lk, a.dv, headless);
    if (mask) {
        a.mask = operand(mask, &a, a.heads, a.lq, a.lk, headless);
        a.mask_dtype = mask->dtype;
    }
    a.rows_first = options->rows_first && a.heads > 1 && a.lq > 1; /* otherwise both layouts are the
                                                                    * same */
    a.splits = 1;
    return a;
}

/* The host splits the keys of few rows. The split depends only on the shape. */
static void cut_keys(struct weir__attention *a)
{
    const int64_t units = batches(a) * a->key_heads;

    a->few = a->key_heads && a->heads / a->key_heads * a->lq <= WEIR__ATTENTION_FEW;
    if (a->few && units && units < MANY_UNITS)
        a->splits = weir__max(1, weir__min(a->lk / PART_KEYS, weir__div_up(PARTS, units)));
    a->split_keys = weir__div_up(a->lk, a->splits);
}

static size_t scratch(const struct weir__call *call)
{
    struct weir__attention a = describe(call);
    const size_t size = a.dtype == WEIR_F64 ? sizeof(double) : sizeof(float);

    if (call->for_gpu)
        return weir__gpu_attention_scratch(&a);
    cut_keys(&a);
    return a.splits > 1 ? (size_t)(batches(&a) * a.heads * a.lq * a.splits * (a.dv + 2)) * size : 0;
}

/* Whether the Concat `maker` of keys or values can be absorbed. Few rows read each key once: a key
 * head has one unit, and the unit's parts cover all keys. */
static bool absorbs(const struct weir__call *call, int i, const struct weir__call *maker)
{
    const struct weir__view *q = call->in[0], *x = call->in[i];
    struct weir__attention a;

    if ((i != 1 && i != 2) || !weir__is_concat(maker->op, maker->params, x->ndim, x->ndim - 2) ||
        x->ndim != q->ndim || !weir__view_numel(&call->out[0]) || !weir__view_numel(x))
        return false;
    for (int d = 0; d < x->ndim - 3; d++)
        if (x->shape[d] != q->shape[d])
            return false;
    for (int p = 0; p < maker->nin; p++)
        if (maker->in[p]->stride[x->ndim - 1] != 1)
            return false;
    a = describe(call);
    cut_keys(&a);
    return a.few && cut(&a) && a.row_blocks == 1;
}

/* Time on one core, roughly: about 40 multiply-adds per ns; few rows wait for memory. */
static double duration(const struct weir__call *call, const struct weir__attention *a)
{
    const double keys = (double)(batches(a) * a->lk);
    const double ns = (double)(a->heads * a->lq) * keys * (double)(a->d + a->dv + 32) / 40;
    const double bytes =
        (double)a->key_heads * keys * (double)(a->d + a->dv) * (double)weir_dtype_size(a->dtype);

    return a->few && !call->model ? weir__max(ns, bytes / WEIR__TILE_BYTES_PER_NS) : ns;
}

static weir_status prepare(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__view *q = call->in[0];
    struct args *args = (struct args *)work->args;
    struct weir__attention *a = &args->attention;
    unsigned blocks;

    *args = (struct args){
        .run = q->dtype == WEIR_F64 ? WEIR__ISA_PICK(weir__attention_f64)
                                    : WEIR__ISA_PICK(weir__attention_f32),
        .combine = q->dtype == WEIR_F64 ? WEIR__ISA_PICK(weir__attention_combine_f64)
                                        : WEIR__ISA_PICK(weir__attention_combine_f32),
        .attention = describe(call),
    };
    if (!cut(a))
        return weir__fail(WEIR_EUNSUPPORTED, "Attention: rows of %lld and %lld are too long",
                          (long long)a->d, (long long)a->dv);
    if (!call->for_gpu) {
        cut_keys(a);
        a->partial = call->scratch;
        if (weir__attention_takes_pairs(a))
            args->run = WEIR__ISA_PICK(weir__attention_bf16);
    }
    args->units = a->key_heads * a->row_blocks * batches(a);
    args->rows = batches(a) * a->heads * a->lq;
    work->fn = run_block;
    work->code = weir__gpu_attention(a, call->for_gpu ? call->scratch : NULL);
    /* The model of an NPU has no parts, and a GPU cuts by itself. */
    blocks = call->model || call->for_gpu || call->cores == 1 ? 1
             : a->few                                         ? BLOCKS_OF_FEW
                                                              : BLOCKS_OF_MANY;
    work->blocks =
        weir__tile_blocks((int64_t)duration(call, a), args->units * (call->model ? 1 : a->splits),
                          blocks * call->cores);
    args->units *= a->splits;
    work->phases = a->splits > 1 ? 2 : 1;
    work->args_size = sizeof *args;
    return WEIR_OK;
}

static const struct weir__op_field fields[] = {
    {"scale", WEIR__FIELD_FLOAT, offsetof(weir_attention_options, scale), 1},
    {"causal", WEIR__FIELD_BOOL, offsetof(weir_attention_options, causal), 1},
    {"rows_first", WEIR__FIELD_BOOL, offsetof(weir_attention_options, rows_first), 1},
};

const struct weir__op weir__op_attention = {
    .name = "Attention",
    .summary = "softmax(q k' scale + mask) v",
    .engine = WEIR_ENGINE_MIX,
    .nin_min = 3,
    .nin_max = 4,
    .nout = 1,
    .params_size = sizeof(weir_attention_options),
    .fields = fields,
    .nfields = weir__countof(fields),
    .infer = infer,
    .cost = cost,
    .scratch = scratch,
    .prepare = prepare,
    .absorbs = absorbs,
    .run_absorbing = run_appending,
};

weir_status weir_attention(weir_tensor *q, weir_tensor *k, weir_tensor *v, weir_tensor *mask,
                           const weir_attention_options *options, weir_tensor **out)
{
    static const weir_attention_options plain;

    return weir__op_run(&weir__op_attention, options ? options : &plain,
                        (weir_tensor *const[]){q, k, v, mask}, 4, out);
}
