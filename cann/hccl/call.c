/* What every collective does: checks, the job and how it is queued, or weir's own collective where
 * all ranks are of one process. */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

HcclResult call_check(struct call *c, HcclComm comm, bool reduces)
{
    HcclResult r = comm_get(c->function, comm, &c->comm);

    if (r)
        return r;
    if (!type_size(c->type))
        return hccl_fail(c->function, HCCL_E_NOT_SUPPORT, "data type %d is not supported",
                         (int)c->type);
    if (reduces && (unsigned)c->op >= HCCL_REDUCE_COUNT)
        return hccl_fail(c->function, HCCL_E_PARA, "reduction %d is none of 0..3", (int)c->op);
    return HCCL_SUCCESS;
}

HcclResult call_check_rank(const struct call *c, uint32_t rank, const char *what)
{
    if (rank < c->comm->nranks)
        return HCCL_SUCCESS;
    return hccl_fail(c->function, HCCL_E_PARA, "%s %u: the communicator has %u ranks", what, rank,
                     c->comm->nranks);
}

/* ---- jobs ---- */

/* Room for `nparts` messages, and for an inbox of one message of each rank. */
struct job *job_new(struct call *c, int nparts, uint64_t inbox)
{
    struct job *j = calloc(1, sizeof *j);

    if (j) {
        j->comm = c->comm;
        j->name = c->function;
        j->type = c->type;
        j->op = c->op;
        j->send = (char *)(uintptr_t)c->send;
        j->recv = c->recv;
        j->bytes = inbox;
        j->parts = calloc((size_t)nparts + 1, sizeof *j->parts);
        j->inbox = inbox ? malloc(inbox * c->comm->nranks) : NULL;
        if (j->parts && (!inbox || j->inbox))
            return j;
        job_free(j);
    }
    hccl_fail(c->function, HCCL_E_MEMORY, "%d messages of %llu bytes", nparts,
              (unsigned long long)inbox);
    return NULL;
}

void job_add(struct job *j, bool sends, uint32_t peer, char *bytes, uint64_t size)
{
    if (size)
        j->parts[j->nparts++] =
            (struct part){.peer = (int)peer, .bytes = bytes, .size = size, .sends = sends};
}

static weir_status nothing(const void *args, const weir_block *block)
{
    (void)args, (void)block;
    return WEIR_OK;
}

/* The operands are used from here to there, for memory and for the race checker. */
static HcclResult note_use(const struct call *c)
{
    weir_tensor *tensors[2] = {NULL, NULL};
    int64_t sizes[2] = {(int64_t)c->send_bytes, (int64_t)c->recv_bytes};
    struct weir_cann_launch l;
    size_t n = 0, reads;
    aclError err;

    if ((err = weir_cann_enter(c->stream, &l)))
        return HCCL_E_PARA;
    if (c->send_bytes)
        err = weir_cann_tensor(c->send, WEIR_U8, 1, &sizes[0], NULL, &tensors[n++]);
    reads = n;
    if (!err && c->recv_bytes)
        err = weir_cann_tensor(c->recv, WEIR_U8, 1, &sizes[1], NULL, &tensors[n++]);
    if (!err && !l.capture && n)
        err = weir_cann_fail_status(
            weir_launch_submit(l.stream, &(weir_launch){.name = c->function,
                                                        .fn = nothing,
                                                        .engine = WEIR_ENGINE_HOST,
                                                        .tensors = tensors,
                                                        .ntensors = n,
                                                        .nreads = reads}),
            c->function);
    weir_tensor_release(tensors[0]);
    weir_tensor_release(tensors[1]);
    weir_cann_leave(&l);
    return err ? HCCL_E_PARA : HCCL_SUCCESS;
}

static bool host_reads(const struct call *c)
{
    weir_device_props props;
    weir_stream *s;

    if (weir_cann_stream(c->stream, &s))
        return false;
    weir_device_get_props(weir_stream_device(s), &props, sizeof props);
    return props.features & WEIR_FEATURE_HOST_MEMORY;
}

/* Queues the job: it uses the operands where the host reads them, else copies. */
HcclResult call_queue(struct call *c, struct job *j)
{
    HcclResult r;

    if (host_reads(c)) {
        if ((r = note_use(c)))
            goto free_job;
        if (weir_cann_defer(c->stream, engine_begin, j, job_free))
            return HCCL_E_INTERNAL;
        return note_use(c);
    }
    if (weir_cann_is_capturing(c->stream)) {
        r = hccl_fail(c->function, HCCL_E_NOT_SUPPORT,
                      "collectives between processes cannot be captured on this device");
        goto free_job;
    }
    r = hccl_fail(c->function, HCCL_E_NOT_SUPPORT,
                  "collectives between processes need a device whose memory the host reads");
free_job:
    job_free(j);
    return r;
}

/* ---- within one process: weir's own ---- */

static const struct {
    weir_dtype dtype;
    bool there;
} types[HCCL_DATA_TYPE_COUNT] = {
    [HCCL_DATA_TYPE_INT8] = {WEIR_I8, true},   [HCCL_DATA_TYPE_INT32] = {WEIR_I32, true},
    [HCCL_DATA_TYPE_FP16] = {WEIR_F16, true},  [HCCL_DATA_TYPE_FP32] = {WEIR_F32, true},
    [HCCL_DATA_TYPE_INT64] = {WEIR_I64, true}, [HCCL_DATA_TYPE_UINT8] = {WEIR_U8, true},
    [HCCL_DATA_TYPE_FP64] = {WEIR_F64, true},  [HCCL_DATA_TYPE_BFP16] = {WEIR_BF16, true},
};

HcclResult call_local(const struct call *c, enum local_kind kind, uint32_t peer)
{
    static const weir_reduce ops[] = {[HCCL_REDUCE_SUM] = WEIR_REDUCE_SUM,
                                      [HCCL_REDUCE_MAX] = WEIR_REDUCE_MAX,
                                      [HCCL_REDUCE_MIN] = WEIR_REDUCE_MIN};
    weir_rank *rank = weir_group_rank(c->comm->group, (int)c->comm->rank);
    size_t width = type_size(c->type);
    int64_t sent = (int64_t)(c->send_bytes / width), got = (int64_t)(c->recv_bytes / width);
    weir_tensor *x = NULL, *y = NULL;
    struct weir_cann_launch l;
    weir_status st = WEIR_OK;
    weir_reduce op;
    aclError err;

    if (!types[c->type].there)
        return hccl_fail(c->function, HCCL_E_NOT_SUPPORT, "data type %d within one process",
                         (int)c->type);
    if ((kind == ALL_REDUCE || kind == REDUCE_SCATTER) && c->op == HCCL_REDUCE_PROD)
        return hccl_fail(c->function, HCCL_E_NOT_SUPPORT, "products within one process");
    op = ops[c->op];
    if ((err = weir_cann_enter(c->stream, &l)))
        return HCCL_E_PARA;
    if (sent)
        err = weir_cann_tensor(c->send, types[c->type].dtype, 1, &sent, NULL, &x);
    if (!err && got)
        err = weir_cann_tensor(c->recv, types[c->type].dtype, 1, &got, NULL, &y);
    if (err)
        goto leave;
    switch (kind) {
    case ALL_REDUCE:
        st = weir_all_reduce_into(rank, x, op, y);
        break;
    case REDUCE_SCATTER:
        st = weir_reduce_scatter_into(rank, x, op, y);
        break;
    case ALL_GATHER:
        st = weir_all_gather_into(rank, x, y);
        break;
    case BROADCAST:
        st = weir_broadcast_into(rank, x, (int)peer, y);
        break;
    case ALL_TO_ALL:
        st = weir_all_to_all_into(rank, x, y);
        break;
    case SEND:
        st = weir_send(rank, x, (int)peer);
        break;
    case RECV:
        st = weir_recv(rank, y, (int)peer);
        break;
    case BARRIER:
        st = weir_barrier(rank);
        break;
    }
    err = weir_cann_fail_status(st, c->function);
leave:
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_cann_leave(&l);
    return err ? HCCL_E_INTERNAL : HCCL_SUCCESS;
}

HcclResult call_not_local(const struct call *c)
{
    return hccl_fail(c->function, HCCL_E_NOT_SUPPORT,
                     "not between devices of one process: give each rank a process");
}
