/* Sends tokens to the ranks of their experts (dispatch), and the results back (combine).
 *
 * Both gather the data of every rank, and a function on the host picks the rows it needs. The
 * routing is known on the device only, so the sizes of all buffers must not depend on it. Rank r
 * has the experts from r * local on. Rows arrive sorted by expert, then by source rank, then by
 * token and choice. The counts of rows are running sums in that order. */
#include <dlfcn.h>
#include <stdlib.h>

#include "acl/acl_rt.h"
#include "run.h"

struct exchange {
    int64_t world, rank, local, tokens, k, width, bytes; /* tokens: the most of a rank */
    int64_t mine;                                        /* tokens of this rank */
    int64_t rows;                                        /* the most rows that a rank receives */
    int64_t block;                                       /* bytes that each rank contributes */
    bool counts; /* rows per expert are counts; else running sums */
};

typedef int gather_fn(const char *name, uint32_t rank, void *send, void *recv, uint64_t bytes,
                      aclrtStream stream);

/* Gathers the blocks of all ranks at `all`, one after the other. libhccl is loaded in the process
 * if there is a communicator. */
static void gather(struct call *c, int group, const struct exchange *e, void *mine, void *all)
{
    void *hccl = dlopen("libhccl.so", RTLD_NOW | RTLD_NOLOAD);
    gather_fn *run = NULL;

    if (c->err)
        return;
    if (hccl)
        *(void **)&run = dlsym(hccl, "weir_hccl_all_gather");
    if (!run)
        (void)call_fail(c, "there is no communicator: libhccl is not loaded");
    call_outside(c);
    if (run && run(text(c, group), (uint32_t)e->rank, mine, all, (uint64_t)e->block, c->handle))
        c->err = ACLNN_ERR_RUNTIME_ERROR; /* libhccl has set the message */
    call_inside(c);
    if (hccl)
        dlclose(hccl);
}

/* Allocates the buffers for this rank's block and for all blocks. A graph in which they are
 * captured keeps them alive. */
static bool get_buffers(struct call *c, const struct exchange *e, void **mine, void **all)
{
    call_outside(c);
    if (aclrtMalloc(mine, (size_t)e->block, ACL_MEM_MALLOC_HUGE_FIRST) ||
        aclrtMalloc(all, (size_t)(e->block * e->world), ACL_MEM_MALLOC_HUGE_FIRST))
        c->err = ACLNN_ERR_RUNTIME_ERROR;
    call_inside(c);
    return !c->err;
}

/* Makes a view of memory that this call has allocated. */
static tensor *at(struct call *c, void *memory, int64_t offset, weir_dtype dtype, int ndim,
                  const int64_t *shape)
{
    tensor *x = NULL;

    if (c->err)
        return NULL;
    if (weir_cann_tensor((char *)memory + offset, dtype, ndim, shape, NULL, &x)) {
        c->err = ACLNN_ERR_RUNTIME_ERROR;
        return NULL;
    }
    return own(c, x);
}

/* Reads the operands after the group: world, rank, experts, tensor parallel group, its world and
 * rank, kinds. */
static bool read_groups(struct call *c, int group, struct exchange *e)
{
    int64_t experts = integer(c, group + 3);

    e->world = integer(c, group + 1);
    e->rank = integer(c, group + 2);
    if (e->world < 1 || e->rank < 0 || e->rank >= e->world)
        (void)call_fail(c, "rank %lld of %lld", (long long)e->rank, (long long)e->world);
    else if (experts < 1 || experts % e->world)
        (void)call_fail(c, "%lld experts cannot be divided among %lld ranks", (long long)experts,
                        (long long)e->world);
    else if (integer(c, group + 5) > 1)
        (void)call_fail(c, "tensor parallel groups (tp_world_size %lld) are not supported",
                        (long long)integer(c, group + 5));
    else if (integer(c, group + 9))
        (void)call_fail(c, "ranks of shared experts are not supported");
    else
        e->local = experts / e->world;
    return !c->err;
}

static void absent(struct call *c, int from, int to)
{
    for (int i = from; i <= to && !c->err; i++)
        if (given(c, i))
            (void)call_fail(c, "%s is not supported", c->row->operands[i].name);
}

static bool read_tokens(struct call *c, int ids, int global_bs, struct exchange *e)
{
    const aclTensor *t = c->args[ids].tensor;
    int64_t all = integer(c, global_bs);

    if (t->ndim != 2)
        (void)call_fail(c, "%s has %d dims, not 2", c->row->operands[ids].name, t->ndim);
    else {
        e->mine = t->shape[0];
        e->k = t->shape[1];
        e->tokens = all ? all / e->world : e->mine;
        if (e->mine > e->tokens)
            (void)call_fail(c, "%lld tokens are more than global_bs %lld leaves for a rank",
                            (long long)e->mine, (long long)all);
    }
    return !c->err;
}

/* Writes the rows of x to the start of a buffer that has room for more rows. */
static void put_rows(struct call *c, void *memory, int64_t offset, int64_t room, tensor *x)
{
    int64_t to[] = {room, size(x, 1)};
    tensor *all;

    if (c->err || !x)
        return;
    all = at(c, memory, offset, type(x), 2, to);
    put_tensor(c, slice(c, all, 0, 0, size(x, 0), 1), x);
}

static const int32_t *ids_of(const struct exchange *e, const char *all, int64_t rank)
{
    return (const int32_t *)(all + rank * e->block + e->tokens * e->width * e->bytes);
}

/* all -> rows, counts of experts, running counts by expert and rank, places of own tokens */
static weir_status pick_rows(const struct host *h)
{
    const struct exchange *e = h->params;
    const char *all = h->in[0];
    char *rows = h->out[0];
    int64_t *experts = h->out[1], n = 0, row = e->width * e->bytes;
    int32_t *counts = h->out[2], *places = h->out[3];
    const int32_t *own_ids = ids_of(e, all, e->rank);

    memset(rows, 0, (size_t)(e->rows * row));
    for (int64_t x = 0; x < e->local; x++) {
        int64_t before = n;

        for (int64_t r = 0; r < e->world; r++) {
            const int32_t *ids = ids_of(e, all, r);

            for (int64_t i = 0; i < e->tokens * e->k; i++)
                if (ids[i] == e->rank * e->local + x) {
                    if (n == e->rows)
                        return WEIR_ERANGE;
                    memcpy(rows + n++ * row, all + r * e->block + i / e->k * row, (size_t)row);
                }
            counts[x * e->world + r] = (int32_t)n;
        }
        experts[x] = e->counts ? n - before : n;
    }
    for (int64_t i = 0; i < e->mine * e->k; i++) {
        places[i] = 0;
        for (int64_t j = 0; j < i; j++)
            places[i] += own_ids[j] == own_ids[i];
    }
    return WEIR_OK;
}

/* Dispatches tokens. `out` is the index of the first operand that is written. */
static void dispatch(struct call *c, int out)
{
    struct exchange e = {0};
    tensor *x, *ids, *all, *got[4] = {0};
    void *mine = NULL, *memory = NULL;
    struct host_out outs[4];
    int64_t id_shape[2], whole;

    absent(c, 2, 4); /* scales, mask, expert_scales */
    if (!read_groups(c, 5, &e) || !read_tokens(c, 1, 16, &e))
        return;
    if (integer(c, 15))
        (void)call_fail(c, "quant_mode %lld is not supported", (long long)integer(c, 15));
    x = in(c, 0), ids = cast(c, in(c, 1), WEIR_I32);
    if (c->err || rank(x) != 2 || size(x, 0) != e.mine) {
        (void)call_fail(c, "x must have 2 dims and as many rows as expert_ids");
        return;
    }
    e.width = size(x, 1);
    e.bytes = (int64_t)weir_dtype_size(type(x));
    e.counts = integer(c, 17) != 0;
    e.rows = c->args[out].tensor->shape[0];
    e.block = (e.tokens * e.width * e.bytes + e.tokens * e.k * 4 + 63) / 64 * 64;
    if (!get_buffers(c, &e, &mine, &memory))
        goto free_memory;
    put_rows(c, mine, 0, e.tokens, contiguous(c, x));
    id_shape[0] = e.tokens, id_shape[1] = e.k;
    put_tensor(
        c, at(c, mine, e.tokens * e.width * e.bytes, WEIR_I32, 2, id_shape),
        full(c, WEIR_I32, 0, NULL, -1)); /* -1 marks unused rows of a rank with fewer tokens */
    put_rows(c, mine, e.tokens * e.width * e.bytes, e.tokens, contiguous(c, ids));
    gather(c, 5, &e, mine, memory);
    whole = e.block * e.world;
    all = at(c, memory, 0, WEIR_U8, 1, &whole);
    outs[0] = (struct host_out){type(x), 2, {e.rows, e.width}};
    outs[1] = (struct host_out){WEIR_I64, 1, {e.local}};
    outs[2] = (struct host_out){WEIR_I32, 1, {e.local * e.world}};
    outs[3] = (struct host_out){WEIR_I32, 1, {e.mine * e.k}};
    if (!c->err)
        host_run(c, "MoeDispatch", pick_rows, &e, sizeof e, &all, 1, outs, 4, got);
    put(c, out, got[0]);
    put(c, out + 3, got[1]);
    if (got[2] && c->args[out + 4].tensor) /* the output may be larger */
        put_tensor(c, slice(c, in(c, out + 4), 0, 0, e.local * e.world, 1), got[2]);
    if (got[3] && c->args[out + 2].tensor)
        put_tensor(c, slice(c, in(c, out + 2), 0, 0, e.mine * e.k, 1), got[3]);
free_memory:
    if (mine)
        aclrtFree(mine); /* queued work keeps the memory until it completes */
    if (memory)
        aclrtFree(memory);
}

/* x, expert_ids, scales, mask, expert_scales; group_ep, world, rank, experts; group_tp, its world
 * and rank; shard type, shared experts and their ranks; quant_mode, global_bs, counts' type; then
 * expand_x, dynamic_scales, expand_idx, expert_token_nums, ep_recv_counts, tp_recv_counts,
 * expand_scales */
void run_moe_dispatch(struct call *c)
{
    dispatch(c, 18);
}

/* ... counts' type, algorithm */
void run_moe_dispatch_v2(struct call *c)
{
    dispatch(c, 19);
}

/* all, expert ids, places, scales -> sums in f32 */
static weir_status sum_rows(const struct host *h)
{
    const struct exchange *e = h->params;
    const char *all = h->in[0];
    const int32_t *ids = h->in[1], *places = h->in[2];
    const float *scales = h->in[3];
    float *out = h->out[0];

    memset(out, 0, (size_t)(e->mine * e->width) * sizeof *out);
    for (int64_t i = 0; i < e->mine * e->k; i++) {
        int64_t owner = ids[i] / e->local, slot = ids[i] % e->local * e->world + e->rank;
        const char *block = all + owner * e->block;
        const int32_t *counts = (const int32_t *)(block + e->rows * e->width * e->bytes);
        const float *row;
        int64_t place;

        if (ids[i] < 0 || owner >= e->world)
            return WEIR_ERANGE;
        place = (slot ? counts[slot - 1] : 0) + places[i];
        if (place < 0 || place >= e->rows)
            return WEIR_ERANGE;
        row = (const float *)block + place * e->width;
        for (int64_t d = 0; d < e->width; d++)
            out[i / e->k * e->width + d] += scales[i] * row[d];
    }
    return WEIR_OK;
}

/* expand_x, expert_ids, expand_idx, ep_send_counts, expert_scales, tp_send_counts, mask,
 * activation_scale, weight_scale, group_list, expand_scales [, shared_expert_x]; group_ep, ... as
 * above; global_bs, out type, quantised exchange, kind of group_list [, algorithm]; out */
static void combine(struct call *c, int group)
{
    int out = c->row->count - 1;
    struct exchange e = {0};
    tensor *x, *counts, *all, *inputs[4], *sum = NULL;
    void *mine = NULL, *memory = NULL;
    struct host_out o;
    int64_t n, whole;

    absent(c, 6, 9);
    if (group > 11)
        absent(c, 11, 11);
    if (!read_groups(c, group, &e) || !read_tokens(c, 1, group + 10, &e))
        return;
    if (integer(c, group + 12))
        (void)call_fail(c, "comm_quant_mode %lld is not supported",
                        (long long)integer(c, group + 12));
    x = cast(c, in(c, 0), WEIR_F32);
    if (c->err || rank(x) != 2) {
        (void)call_fail(c, "expand_x must have 2 dims");
        return;
    }
    n = e.local * e.world;
    counts = slice(c, flat(c, cast(c, in(c, 3), WEIR_I32)), 0, 0, n, 1);
    e.rows = size(x, 0);
    e.width = size(x, 1);
    e.bytes = sizeof(float);
    e.block = (e.rows * e.width * e.bytes + n * 4 + 63) / 64 * 64;
    if (!get_buffers(c, &e, &mine, &memory))
        goto free_memory;
    put_rows(c, mine, 0, e.rows, contiguous(c, x));
    put_tensor(c, at(c, mine, e.rows * e.width * e.bytes, WEIR_I32, 1, &n), counts);
    gather(c, group, &e, mine, memory);
    whole = e.block * e.world;
    all = at(c, memory, 0, WEIR_U8, 1, &whole);
    inputs[0] = all;
    inputs[1] = cast(c, in(c, 1), WEIR_I32);
    inputs[2] = slice(c, flat(c, cast(c, in(c, 2), WEIR_I32)), 0, 0, e.mine * e.k, 1);
    inputs[3] = cast(c, in(c, 4), WEIR_F32);
    o = (struct host_out){WEIR_F32, 2, {e.mine, e.width}};
    if (!c->err)
        host_run(c, "MoeCombine", sum_rows, &e, sizeof e, inputs, 4, &o, 1, &sum);
    put(c, out, sum);
free_memory:
    if (mine)
        aclrtFree(mine);
    if (memory)
        aclrtFree(memory);
}

void run_moe_combine(struct call *c)
{
    combine(c, 11);
}

void run_moe_combine_v2(struct call *c)
{
    combine(c, 12);
}
