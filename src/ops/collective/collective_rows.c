/* The rows of the collectives that reduce or move whole tensors. */
#include "ops/collective/collective.h"

#include <string.h>

#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"

/* From this size on a second rendezvous costs less than reading all inputs on all ranks. */
enum { ROUNDS_RANKS = 4, ROUNDS_BYTES = 256 << 10 };

/* Padded as the parameter is, for weir__word_is. */
const char weir__reduce_names[WEIR__REDUCES][8] = {"sum", "max", "min", "mean", "prod"};

static int find_reduce(const char *name)
{
    for (size_t i = 0; i < WEIR__REDUCES; i++)
        if (weir__word_is(name, weir__reduce_names[i]))
            return (int)i;
    return -1;
}

static weir_status check_reduce(const struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;
    weir_status st = weir__collective_check(call);

    if (!st && find_reduce(p->reduce) < 0)
        return weir__fail(WEIR_EINVAL,
                          "%s: there is no reduction '%s': sum, max, min, mean or prod",
                          call->op->name, p->reduce);
    return st ? st : weir__check_type(call->op->name, call->in[0], WEIR__TYPES_NUMBER);
}

/* Checks that the first dim can be divided into equal parts, one per rank. */
static weir_status check_parts(const struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;
    const struct weir__view *x = call->in[0];

    if (x->ndim && x->shape[0] % p->ranks == 0)
        return WEIR_OK;
    return weir__fail(WEIR_ESHAPE, "%s: the first dim of %s is not a multiple of %lld ranks",
                      call->op->name, weir__view_text(x).text, (long long)p->ranks);
}

static weir_status infer_same(struct weir__call *call)
{
    weir_status st = weir__collective_check(call);

    weir__infer_like(call);
    return st;
}

static weir_status infer_all_reduce(struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;

    if (p->reduced_for < 0 || p->reduced_for > p->ranks)
        return weir__fail(WEIR_ERANGE,
                          "%s: reduced_for %lld is out of range: 0 for all ranks, or 1 + one of "
                          "0..%lld",
                          call->op->name, (long long)p->reduced_for, (long long)p->ranks - 1);
    weir__infer_like(call);
    if (p->part)
        call->out[0].shape[0] = p->rows;
    return check_reduce(call);
}

static weir_status infer_reduce_scatter(struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;
    weir_status st;

    if ((st = check_reduce(call)) || (st = check_parts(call)))
        return st;
    weir__infer_like(call);
    call->out[0].shape[0] /= p->ranks;
    return WEIR_OK;
}

static weir_status infer_all_gather(struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;
    const struct weir__view *x = call->in[0];
    weir_status st;

    if ((st = weir__collective_check(call)))
        return st;
    if (!x->ndim)
        return weir__fail(WEIR_ESHAPE, "%s: a tensor without dims cannot be concatenated",
                          call->op->name);
    weir__infer_like(call);
    if (__builtin_mul_overflow(x->shape[0], p->ranks, &call->out[0].shape[0]))
        return weir__fail(WEIR_ESHAPE, "%s: %s times %lld ranks is too large", call->op->name,
                          weir__view_text(x).text, (long long)p->ranks);
    return WEIR_OK;
}

static weir_status infer_all_to_all(struct weir__call *call)
{
    weir_status st = weir__collective_check(call);

    weir__infer_like(call);
    return st ? st : check_parts(call);
}

static weir_status infer_broadcast(struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;

    if (p->root < 0 || p->root >= p->ranks)
        return weir__fail(WEIR_ERANGE, "%s: root %lld is out of range: 0..%lld", call->op->name,
                          (long long)p->root, (long long)p->ranks - 1);
    return infer_same(call);
}

static weir_status sum_counts(const struct weir__call *call, const char *what,
                              const int64_t *counts, int64_t n, int64_t *sum)
{
    const struct weir__collective_params *p = call->params;

    if (n != p->ranks)
        return weir__fail(WEIR_EINVAL, "%s: %lld %s counts for %lld ranks", call->op->name,
                          (long long)n, what, (long long)p->ranks);
    *sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (counts[i] < 0 || __builtin_add_overflow(*sum, counts[i], sum))
            return weir__fail(WEIR_ERANGE,
                              "%s: %s count %lld of rank %lld is negative, or the counts overflow",
                              call->op->name, what, (long long)counts[i], (long long)i);
    return WEIR_OK;
}

static weir_status infer_counts(struct weir__call *call)
{
    const struct weir__counts_params *p = call->params;
    const struct weir__view *x = call->in[0];
    int64_t sent, received;
    weir_status st;

    if ((st = weir__collective_check(call)) ||
        (st = sum_counts(call, "send", p->send, p->nsend, &sent)) ||
        (st = sum_counts(call, "receive", p->recv, p->nrecv, &received)))
        return st;
    if (!x->ndim || x->shape[0] != sent)
        return weir__fail(WEIR_ESHAPE, "%s: the send counts add up to %lld rows, the input is %s",
                          call->op->name, (long long)sent, weir__view_text(x).text);
    weir__infer_like(call);
    call->out[0].shape[0] = received;
    return WEIR_OK;
}

static weir_status infer_nothing(struct weir__call *call)
{
    return weir__collective_check(call);
}

/* ---- cost and work ---- */

static int64_t bytes_of(const struct weir__view *v)
{
    return weir__view_numel(v) * (int64_t)weir__dtype_size(v->dtype);
}

/* A rank's part reads one slice of all inputs and writes it to all outputs. */
static void cost_part(const struct weir__call *call, struct weir__cost *cost)
{
    if (call->nin)
        cost->bytes = (double)bytes_of(call->in[0]);
    cost->bytes += call->nout ? (double)bytes_of(&call->out[0]) : cost->bytes;
}

static void cost_nothing(const struct weir__call *call, struct weir__cost *cost)
{
    (void)call;
    (void)cost;
}

static struct weir__collective_args *begin_work(const struct weir__call *call,
                                                struct weir__work *work)
{
    const struct weir__collective_params *p = call->params;
    struct weir__collective_args *a = (void *)work->args;

    memset(a, 0, sizeof *a);
    a->ranks = (int)p->ranks;
    a->meet.spell = weir__collective_spell;
    if (!call->nin)
        return a;
    weir__collective_offer(call, &a->meet.offer);
    a->meet.shown = weir__collective_show;
    a->meet.wanted = weir__collective_want;
    if (call->nout)
        a->meet.aim = weir__collective_aim;
    a->in = call->in[0]->data;
    a->out = call->nout ? call->out[0].data : call->in[0]->data;
    a->numel = weir__view_numel(call->in[0]);
    a->dtype = (unsigned char)call->in[0]->dtype;
    a->nontemporal = call->nout && bytes_of(&call->out[0]) >= weir__nontemporal_bytes();
    return a;
}

static weir_status check_packed(const struct weir__call *call)
{
    if (weir__view_is_contiguous(&call->out[0]))
        return WEIR_OK;
    return weir__fail(WEIR_ESHAPE, "%s: the output %s is not contiguous", call->op->name,
                      weir__view_text(&call->out[0]).text);
}

static weir_status prepare_reduce(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__collective_params *p = call->params;
    struct weir__collective_args *a = begin_work(call, work);

    a->scatter = call->op == &weir__op_reduce_scatter;
    a->reduce = (unsigned char)find_reduce(p->reduce);
    a->meet.offer.reduce = weir__reduce_names[a->reduce];
    a->meet.offer.root = (int)p->reduced_for - 1;
    a->part = p->part != 0;
    if (p->part) {
        a->count = weir__view_numel(&call->out[0]);
        a->first = p->first * (a->count / weir__max(p->rows, 1));
    }
    a->meet.in_rounds = !a->scatter && !p->reduced_for && !a->part && a->ranks >= ROUNDS_RANKS &&
                        bytes_of(call->in[0]) >= ROUNDS_BYTES;
    work->code = &weir__gpu_reduce_part;
    weir__collective_work(call, work, WEIR__ISA_PICK(weir__reduce_part_kernel), sizeof *a,
                          bytes_of(call->in[0]) + bytes_of(&call->out[0]),
                          weir__div_up(a->numel / a->ranks, 64));
    return check_packed(call);
}

static void move_work(const struct weir__call *call, struct weir__work *work, enum weir__move move,
                      size_t counts)
{
    struct weir__collective_args *a = (void *)work->args;
    int64_t bytes = call->nout ? bytes_of(&call->out[0]) : bytes_of(call->in[0]);

    a->move = (unsigned char)move;
    work->code = &weir__gpu_move_part;
    weir__collective_work(call, work, WEIR__ISA_PICK(weir__move_part_kernel),
                          sizeof *a + counts * sizeof *a->counts, 2 * bytes,
                          weir__div_up(bytes, 4096));
}

static weir_status prepare_all_gather(const struct weir__call *call, struct weir__work *work)
{
    begin_work(call, work);
    move_work(call, work, WEIR__MOVE_GATHER, 0);
    return check_packed(call);
}

static weir_status prepare_broadcast(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__collective_params *p = call->params;
    struct weir__collective_args *a = begin_work(call, work);

    a->peer = a->meet.offer.root = (int)p->root;
    move_work(call, work, WEIR__MOVE_BROADCAST, 0);
    return check_packed(call);
}

/* Refuses an output that overlaps the input: peers read the input while this rank writes the
 * output. */
static weir_status check_apart(const struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;

    if (p->ranks == 1 || call->in[0]->data != call->out[0].data || !weir__view_numel(call->in[0]))
        return WEIR_OK;
    return weir__fail(WEIR_EINVAL, "%s cannot write its own input: peers still read it",
                      call->op->name);
}

static weir_status prepare_all_to_all(const struct weir__call *call, struct weir__work *work)
{
    weir_status st = check_apart(call);

    begin_work(call, work);
    move_work(call, work, WEIR__MOVE_EXCHANGE, 0);
    return st ? st : check_packed(call);
}

_Static_assert(sizeof(struct weir__collective_args) +
                       2 * WEIR_MAX_COUNTED_RANKS * sizeof(int64_t) <=
                   WEIR_ARGS_MAX,
               "counts fit into the arguments");

static weir_status prepare_counts(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__counts_params *p = call->params;
    weir_status st = check_apart(call);
    struct weir__collective_args *a = begin_work(call, work);
    size_t n = (size_t)p->of_all.ranks;

    a->row = (int64_t)weir_dtype_size(a->dtype);
    for (int d = 1; d < call->in[0]->ndim; d++)
        a->row *= call->in[0]->shape[d];
    memcpy(a->counts, p->send, n * sizeof *a->counts);
    memcpy(a->counts + n, p->recv, n * sizeof *a->counts);
    a->meet.offer.shape[0] = -1;
    a->meet.offer.send = offsetof(struct weir__collective_args, counts);
    a->meet.offer.recv = a->meet.offer.send + (uint32_t)(n * sizeof *a->counts);
    move_work(call, work, WEIR__MOVE_COUNTS, 2 * n);
    return st ? st : check_packed(call);
}

/* Send and Recv make the same offer, so that they match. */
static weir_status prepare_send(const struct weir__call *call, struct weir__work *work)
{
    struct weir__collective_args *a = begin_work(call, work);

    a->meet.offer.what = weir__op_send.name;
    a->move = WEIR__MOVE_NONE;
    weir__collective_work(call, work, NULL, sizeof *a, 0, 1);
    return WEIR_OK;
}

static weir_status prepare_recv(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__collective_params *p = call->params;
    struct weir__collective_args *a = begin_work(call, work);

    a->meet.offer.what = weir__op_send.name;
    a->peer = (int)p->from;
    a->nontemporal = bytes_of(call->in[0]) >= weir__nontemporal_bytes();
    move_work(call, work, WEIR__MOVE_RECEIVE, 0);
    return WEIR_OK;
}

static weir_status prepare_barrier(const struct weir__call *call, struct weir__work *work)
{
    struct weir__collective_args *a = begin_work(call, work);

    a->meet.offer = (struct weir__offer){
        .label = call->op->name, .what = call->op->name, .reduce = "", .root = -1, .ndim = -1};
    weir__collective_work(call, work, NULL, sizeof *a, 0, 1);
    return WEIR_OK;
}

static void member_send(const void *params, struct weir__member *member)
{
    weir__collective_member(params, member);
    member->to = (int)((const struct weir__collective_params *)params)->to;
}

static void member_recv(const void *params, struct weir__member *member)
{
    weir__collective_member(params, member);
    member->from = (int)((const struct weir__collective_params *)params)->from;
}

static weir_status infer_pair(struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;
    int64_t peer = call->op == &weir__op_send ? p->to : p->from;

    if (peer < 0 || peer >= p->ranks)
        return weir__fail(WEIR_ERANGE, "%s: peer %lld is out of range: 0..%lld", call->op->name,
                          (long long)peer, (long long)p->ranks - 1);
    return weir__collective_check(call);
}

/* ---- the rows ---- */

static const struct weir__op_field plain_fields[] = {WEIR__COLLECTIVE_FIELDS};
static const struct weir__op_field reduce_fields[] = {WEIR__COLLECTIVE_FIELDS,
                                                      WEIR__COLLECTIVE_FIELD(reduce, STRING, 8)};
/* Zeros are not written to files: an ordinary all-reduce has no attribute reduced_for. */
static const struct weir__op_field all_reduce_fields[] = {
    WEIR__COLLECTIVE_FIELDS, WEIR__COLLECTIVE_FIELD(reduce, STRING, 8),
    WEIR__COLLECTIVE_FIELD(reduced_for, INT, 1)};
static const struct weir__op_field root_fields[] = {WEIR__COLLECTIVE_FIELDS,
                                                    WEIR__COLLECTIVE_FIELD(root, INT, 1)};
static const struct weir__op_field to_fields[] = {WEIR__COLLECTIVE_FIELDS,
                                                  WEIR__COLLECTIVE_FIELD(to, INT, 1)};
static const struct weir__op_field from_fields[] = {WEIR__COLLECTIVE_FIELDS,
                                                    WEIR__COLLECTIVE_FIELD(from, INT, 1)};
static const struct weir__op_field counts_fields[] = {
    WEIR__COLLECTIVE_FIELDS,
    {"nsend", WEIR__FIELD_INT, offsetof(struct weir__counts_params, nsend), 1},
    {"send", WEIR__FIELD_INT, offsetof(struct weir__counts_params, send), WEIR_MAX_COUNTED_RANKS},
    {"nrecv", WEIR__FIELD_INT, offsetof(struct weir__counts_params, nrecv), 1},
    {"recv", WEIR__FIELD_INT, offsetof(struct weir__counts_params, recv), WEIR_MAX_COUNTED_RANKS},
};

#define ROW_OF(params, id, text, about, in, out, more_flags, table, member_fn, infer_fn, cost_fn, \
               prepare_fn)                                                                        \
    const struct weir__op weir__op_##id = {                                                       \
        .name = text,                                                                             \
        .summary = about,                                                                         \
        .engine = WEIR_ENGINE_VECTOR,                                                             \
        .flags = WEIR__OP_COLLECTIVE | WEIR__OP_ALWAYS_RUNS | (more_flags),                       \
        .nin_min = in,                                                                            \
        .nin_max = in,                                                                            \
        .nout = out,                                                                              \
        .params_size = sizeof(struct params),                                                     \
        .fields = table,                                                                          \
        .nfields = weir__countof(table),                                                          \
        .member = member_fn,                                                                      \
        .infer = infer_fn,                                                                        \
        .cost = cost_fn,                                                                          \
        .prepare = prepare_fn,                                                                    \
    }
#define ROW(...) ROW_OF(weir__collective_params, __VA_ARGS__)

ROW(all_reduce, "AllReduce", "the reduction of all ranks' tensors, on every rank", 1, 1, 0,
    all_reduce_fields, weir__collective_member, infer_all_reduce, cost_part, prepare_reduce);
ROW(reduce_scatter, "ReduceScatter", "the reduction of all ranks' tensors, a part on each", 1, 1, 0,
    reduce_fields, weir__collective_member, infer_reduce_scatter, cost_part, prepare_reduce);
ROW(all_gather, "AllGather", "all ranks' tensors in a row, on every rank", 1, 1, 0, plain_fields,
    weir__collective_member, infer_all_gather, cost_part, prepare_all_gather);
ROW(broadcast, "Broadcast", "one rank's tensor, on every rank", 1, 1, 0, root_fields,
    weir__collective_member, infer_broadcast, cost_part, prepare_broadcast);
ROW(all_to_all, "AllToAll", "part i of the tensor to rank i, part i from there", 1, 1, 0,
    plain_fields, weir__collective_member, infer_all_to_all, cost_part, prepare_all_to_all);
ROW_OF(weir__counts_params, all_to_all_counts, "AllToAllCounts",
       "AllToAll with a count of rows for and from each rank", 1, 1, 0, counts_fields,
       weir__collective_member, infer_counts, cost_part, prepare_counts);
ROW(send, "Send", "a tensor to another rank's Recv", 1, 0, 0, to_fields, member_send, infer_pair,
    cost_nothing, prepare_send);
ROW(recv, "Recv", "the tensor takes the values of another rank's Send", 1, 0,
    WEIR__OP_IN_PLACE | WEIR__OP_OVERWRITES, from_fields, member_recv, infer_pair, cost_part,
    prepare_recv);
ROW(barrier, "Barrier", "continues when all ranks have arrived", 0, 0, 0, plain_fields,
    weir__collective_member, infer_nothing, cost_nothing, prepare_barrier);
