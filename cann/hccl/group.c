/* Collectives by weir's groups: for ranks within one process, or on several hosts. */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    weir_dtype dtype;
    bool there;
} types[HCCL_DATA_TYPE_COUNT] = {
    [HCCL_DATA_TYPE_INT8] = {WEIR_I8, true},   [HCCL_DATA_TYPE_INT32] = {WEIR_I32, true},
    [HCCL_DATA_TYPE_FP16] = {WEIR_F16, true},  [HCCL_DATA_TYPE_FP32] = {WEIR_F32, true},
    [HCCL_DATA_TYPE_INT64] = {WEIR_I64, true}, [HCCL_DATA_TYPE_UINT8] = {WEIR_U8, true},
    [HCCL_DATA_TYPE_FP64] = {WEIR_F64, true},  [HCCL_DATA_TYPE_BFP16] = {WEIR_BF16, true},
};
static const weir_reduce reductions[] = {[HCCL_REDUCE_SUM] = WEIR_REDUCE_SUM,
                                         [HCCL_REDUCE_PROD] = WEIR_REDUCE_PROD,
                                         [HCCL_REDUCE_MAX] = WEIR_REDUCE_MAX,
                                         [HCCL_REDUCE_MIN] = WEIR_REDUCE_MIN};

/* A call in progress. */
struct use {
    const struct call *call;
    weir_rank *rank;
    struct weir_cann_launch launch;
    weir_dtype dtype;
    size_t width;  /* bytes of dtype */
    int64_t units; /* values of dtype per element */
    weir_tensor *x, *y;
};

/* Starts a call. If weir lacks the data type, collectives that only move data treat it as bytes. */
static HcclResult use_begin(struct use *u, const struct call *c, bool reduces)
{
    size_t width = type_size(c->type);
    bool there = types[c->type].there;

    *u = (struct use){.call = c, .rank = weir_group_rank(c->comm->group, (int)c->comm->rank)};
    if (reduces && !there)
        return hccl_fail(c->function, HCCL_E_NOT_SUPPORT,
                         "reductions of data type %d within one process or between hosts",
                         (int)c->type);
    u->dtype = there ? types[c->type].dtype : WEIR_U8;
    u->width = there ? width : 1;
    u->units = (int64_t)(width / u->width);
    if (weir_cann_enter(c->stream, &u->launch))
        return HCCL_E_PARA;
    pthread_mutex_lock(&c->comm->lock); /* serialises the calls of a rank */
    return HCCL_SUCCESS;
}

static HcclResult use_end(struct use *u, aclError err)
{
    pthread_mutex_unlock(&u->call->comm->lock);
    weir_tensor_release(u->x);
    weir_tensor_release(u->y);
    weir_cann_leave(&u->launch);
    return err ? HCCL_E_INTERNAL : HCCL_SUCCESS;
}

/* Makes a view of `bytes` bytes at `address`. If `bytes` is 0, any address is valid. */
static aclError view(const struct use *u, const void *address, uint64_t bytes, weir_tensor **out)
{
    int64_t n = (int64_t)(bytes / u->width);

    if (n)
        return weir_cann_tensor(address, u->dtype, 1, &n, NULL, out);
    return weir_cann_fail_status(weir_tensor_empty(u->launch.stream, u->dtype, 1, &n, out),
                                 u->call->function);
}

static weir_status queue(const struct use *u, enum group_kind kind, int peer)
{
    weir_reduce op = reductions[u->call->op];
    weir_tensor *out = NULL;
    weir_status st;

    switch (kind) {
    case ALL_REDUCE:
        return weir_all_reduce_into(u->rank, u->x, op, u->y);
    case REDUCE:
        st = weir_reduce_to(u->rank, u->x, op, peer, &out);
        if (!st && u->y)
            st = weir_copy_into(out, u->y);
        weir_tensor_release(out);
        return st;
    case REDUCE_SCATTER:
        return weir_reduce_scatter_into(u->rank, u->x, op, u->y);
    case ALL_GATHER:
        return weir_all_gather_into(u->rank, u->x, u->y);
    case BROADCAST:
        return weir_broadcast_into(u->rank, u->x, peer, u->y);
    case SCATTER:
        return weir_scatter_from(u->rank, u->x, peer, u->y);
    case ALL_TO_ALL:
        return weir_all_to_all_into(u->rank, u->x, u->y);
    case SEND:
        return weir_send(u->rank, u->x, peer);
    case RECV:
        return weir_recv(u->rank, u->y, peer);
    case BARRIER:
        break;
    }
    return weir_barrier(u->rank);
}

HcclResult group_call(const struct call *c, enum group_kind kind, uint32_t peer)
{
    aclError err = ACL_SUCCESS;
    struct use u;
    HcclResult r = use_begin(&u, c, kind == ALL_REDUCE || kind == REDUCE || kind == REDUCE_SCATTER);

    if (r)
        return r;
    if (c->send_bytes)
        err = view(&u, c->send, c->send_bytes, &u.x);
    if (!err && c->recv_bytes)
        err = view(&u, c->recv, c->recv_bytes, &u.y);
    if (!err)
        err = weir_cann_fail_status(queue(&u, kind, (int)peer), c->function);
    return use_end(&u, err);
}

/* ---- parts of different sizes ---- */

/* Converts counts to units and adds them up. False unless the parts are contiguous. */
static bool take_counts(const struct use *u, const uint64_t *counts, const uint64_t *displs,
                        int64_t *out, uint64_t *total)
{
    bool packed = true;

    *total = 0;
    for (uint32_t i = 0; i < u->call->comm->nranks; i++) {
        packed &= !counts[i] || displs[i] == *total;
        *total += counts[i];
        out[i] = (int64_t)counts[i] * u->units;
    }
    return packed;
}

/* Concatenates the parts and releases them. Works in several steps, as one Concat takes a limited
 * number of inputs. */
static weir_status concat(weir_tensor **parts, int n, weir_tensor **x)
{
    enum { AT_ONCE = 32 };
    weir_status st = WEIR_OK;

    *x = NULL;
    for (int first = 0; first < n && !st;) {
        weir_tensor *some[AT_ONCE] = {*x}, *joined;
        int have = *x ? 1 : 0;

        while (have < AT_ONCE && first < n)
            some[have++] = parts[first++];
        st = weir_concat(some, have, 0, &joined);
        weir_tensor_release(*x);
        *x = st ? NULL : joined;
    }
    while (n)
        weir_tensor_release(parts[--n]);
    return st;
}

/* Returns the parts for all ranks as one contiguous tensor: a view if possible, else a copy. */
static aclError pack(const struct use *u, const uint64_t *counts, const uint64_t *displs,
                     int64_t *out, weir_tensor **x)
{
    uint64_t each = (uint64_t)u->units * u->width, total;
    weir_tensor *parts[MAX_RANKS] = {NULL};
    aclError err = ACL_SUCCESS;
    int n = 0;

    if (take_counts(u, counts, displs, out, &total) || !total)
        return view(u, u->call->send, total * each, x);
    for (uint32_t i = 0; i < u->call->comm->nranks && !err; i++)
        if (counts[i])
            err = view(u, (const char *)u->call->send + displs[i] * each, counts[i] * each,
                       &parts[n++]);
    if (!err)
        return weir_cann_fail_status(concat(parts, n, x), u->call->function);
    while (n)
        weir_tensor_release(parts[--n]);
    return err;
}

/* Copies every rank's part to its displacement. */
static aclError unpack(const struct use *u, weir_tensor *from, const uint64_t *counts,
                       const uint64_t *displs)
{
    uint64_t each = (uint64_t)u->units * u->width;
    aclError err = ACL_SUCCESS;
    int64_t at = 0;

    for (uint32_t i = 0; i < u->call->comm->nranks && !err; i++) {
        int64_t n = (int64_t)counts[i] * u->units;
        weir_tensor *part = NULL, *place = NULL;

        if (!n)
            continue;
        err = view(u, (char *)u->call->recv + displs[i] * each, counts[i] * each, &place);
        if (!err)
            err = weir_cann_fail_status(weir_tensor_slice(from, 0, at, at + n, 1, &part),
                                        u->call->function);
        if (!err)
            err = weir_cann_fail_status(weir_copy_into(part, place), u->call->function);
        weir_tensor_release(part);
        weir_tensor_release(place);
        at += n;
    }
    return err;
}

HcclResult group_exchange(const struct call *c, const uint64_t *scounts, const uint64_t *sdispls,
                          const uint64_t *rcounts, const uint64_t *rdispls)
{
    int64_t send[MAX_RANKS], recv[MAX_RANKS];
    weir_tensor *out = NULL;
    uint64_t total;
    struct use u;
    aclError err;
    HcclResult r = use_begin(&u, c, false);

    if (r)
        return r;
    err = pack(&u, scounts, sdispls, send, &u.x);
    if (!err && take_counts(&u, rcounts, rdispls, recv, &total)) {
        err = view(&u, c->recv, total * (uint64_t)u.units * u.width, &u.y);
        if (!err)
            err = weir_cann_fail_status(weir_all_to_all_counts_into(u.rank, u.x, send, recv, u.y),
                                        c->function);
    } else if (!err) {
        err = weir_cann_fail_status(weir_all_to_all_counts(u.rank, u.x, send, recv, &out),
                                    c->function);
        if (!err)
            err = unpack(&u, out, rcounts, rdispls);
        weir_tensor_release(out);
    }
    return use_end(&u, err);
}

HcclResult group_reduce_scatter(const struct call *c, const uint64_t *counts,
                                const uint64_t *displs)
{
    int64_t rows[MAX_RANKS];
    weir_tensor *out = NULL;
    struct use u;
    aclError err;
    HcclResult r = use_begin(&u, c, true);

    if (r)
        return r;
    err = pack(&u, counts, displs, rows, &u.x);
    if (!err)
        err = weir_cann_fail_status(
            weir_reduce_scatter_counts(u.rank, u.x, reductions[c->op], rows, &out), c->function);
    if (!err && c->recv_bytes)
        err = view(&u, c->recv, c->recv_bytes, &u.y);
    if (!err && u.y)
        err = weir_cann_fail_status(weir_copy_into(out, u.y), c->function);
    weir_tensor_release(out);
    return use_end(&u, err);
}

HcclResult group_batch(const struct call *c, const HcclSendRecvItem *items, uint32_t count)
{
    weir_message *messages = calloc(count, sizeof *messages);
    aclError err = ACL_SUCCESS;
    HcclResult r;
    struct use u;
    int n = 0;

    if (!messages)
        return hccl_fail(c->function, HCCL_E_MEMORY, "%u messages", count);
    if ((r = use_begin(&u, c, false)))
        goto free_messages;
    for (uint32_t i = 0; i < count && !err; i++) {
        uint64_t bytes = items[i].count * type_size(items[i].dataType);

        if (!bytes)
            continue;
        messages[n].peer = (int)items[i].remoteRank;
        messages[n].receives = items[i].sendRecvType != HCCL_SEND;
        err = view(&u, items[i].buf, bytes, &messages[n++].tensor);
    }
    if (!err && n)
        err = weir_cann_fail_status(weir_batch_send_recv(u.rank, messages, n), c->function);
    r = use_end(&u, err);
free_messages:
    while (n)
        weir_tensor_release(messages[--n].tensor);
    free(messages);
    return r;
}
