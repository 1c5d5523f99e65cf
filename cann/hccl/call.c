/* Common code of all collectives: checks its arguments, builds its job and queues it. */
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
        return hccl_fail(c->function, HCCL_E_PARA, "reduction %d is not one of 0..3", (int)c->op);
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

/* Allocates a job with room for `nparts` messages, and for an inbox of one message per rank. */
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

/* Queues uses of the operands around the job, so that the pool keeps their memory and the race
 * checker sees the accesses. */
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

/* ---- devices whose memory the host cannot read ---- */

static void stage_free(void *stage, weir_status status)
{
    (void)status;
    free(stage);
}

/* Returns the address in the staging buffer, which holds copies of both operands one after the
 * other. Bytes that belong to both operands are read from the copy of `send` and written to that of
 * `recv`. */
static char *staged(const struct call *c, char *stage, char *bytes, bool reads)
{
    uintptr_t sent = (uintptr_t)bytes - (uintptr_t)c->send,
              received = (uintptr_t)bytes - (uintptr_t)c->recv;

    if (sent < c->send_bytes && (reads || received >= c->recv_bytes))
        return stage + sent;
    return received < c->recv_bytes ? stage + c->send_bytes + received : bytes;
}

static void use_stage(const struct call *c, struct job *j, char *stage)
{
    j->send = staged(c, stage, j->send, true);
    j->recv = staged(c, stage, j->recv, false);
    for (int i = 0; i < j->nparts; i++)
        j->parts[i].bytes = staged(c, stage, j->parts[i].bytes, j->parts[i].sends);
}

/* Queues a copy to the host, the job, and a copy back. Takes ownership of the job. */
static HcclResult queue_staged(const struct call *c, struct job *j)
{
    char *stage = malloc(c->send_bytes + c->recv_bytes + 1), *recv;
    weir_stream *s;

    if (!stage) {
        job_free(j);
        return hccl_fail(c->function, HCCL_E_MEMORY, "%llu bytes of the host",
                         (unsigned long long)(c->send_bytes + c->recv_bytes));
    }
    recv = stage + c->send_bytes;
    use_stage(c, j, stage);
    if (weir_cann_stream(c->stream, &s) ||
        (c->send_bytes && aclrtMemcpyAsync(stage, c->send_bytes, c->send, c->send_bytes,
                                           ACL_MEMCPY_DEVICE_TO_HOST, c->stream)) ||
        (c->recv_bytes && aclrtMemcpyAsync(recv, c->recv_bytes, c->recv, c->recv_bytes,
                                           ACL_MEMCPY_DEVICE_TO_HOST, c->stream))) {
        job_free(j);
        goto free_stage;
    }
    if (weir_cann_defer(c->stream, engine_begin, j, job_free) ||
        (c->recv_bytes && aclrtMemcpyAsync(c->recv, c->recv_bytes, recv, c->recv_bytes,
                                           ACL_MEMCPY_HOST_TO_DEVICE, c->stream)))
        goto free_stage;
    if (weir_stream_callback(s, stage_free, stage))
        goto free_stage;
    return HCCL_SUCCESS;

free_stage: /* after all queued work that uses it has completed */
    if (weir_cann_stream(c->stream, &s) || weir_stream_callback(s, stage_free, stage))
        (void)aclrtSynchronizeStream(c->stream), free(stage);
    return HCCL_E_INTERNAL;
}

/* Queues the job. It works on the operands directly if the host can read them, else on copies. */
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
    return queue_staged(c, j);

free_job:
    job_free(j);
    return r;
}
