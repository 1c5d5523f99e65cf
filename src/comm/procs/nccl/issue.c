/* Translates calls to calls of NCCL. */
#include "comm/procs/nccl/comm.h"

enum { SENDER, RECEIVER }; /* in the communicator of a pair */

int weir__nccl_type_of(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_F32:
        return WEIR__NCCL_F32;
    case WEIR_F64:
        return WEIR__NCCL_F64;
    case WEIR_F16:
        return WEIR__NCCL_F16;
    case WEIR_BF16:
        return WEIR__NCCL_BF16;
    case WEIR_I64:
        return WEIR__NCCL_I64;
    case WEIR_I32:
        return WEIR__NCCL_I32;
    case WEIR_I8:
        return WEIR__NCCL_I8;
    case WEIR_U8:
        return WEIR__NCCL_U8;
    default:
        return -1;
    }
}

static int issue_exchange(const struct weir__nccl_api *api, void *comm, int ranks,
                          const struct weir__verb *v, void *stream)
{
    const char *in = v->in;
    char *out = v->out;
    int code = api->group_start();

    for (int i = 0; i < ranks; i++) {
        size_t send = (size_t)(v->send ? v->send[i] * v->row : v->bytes / ranks);
        size_t recv = (size_t)(v->recv ? v->recv[i] * v->row : v->bytes / ranks);

        if (!code && send)
            code = api->send(in, send, WEIR__NCCL_I8, i, comm, stream);
        if (!code && recv)
            code = api->recv(out, recv, WEIR__NCCL_I8, i, comm, stream);
        in += send;
        out += recv;
    }
    return code ? (api->group_end(), code) : api->group_end();
}

int weir__nccl_issue(const struct weir__nccl_api *api, void *comm, int ranks,
                     const struct weir__verb *v, void *stream)
{
    static const int reduces[] = {[WEIR_REDUCE_SUM] = 0,
                                  [WEIR_REDUCE_PROD] = 1,
                                  [WEIR_REDUCE_MAX] = 2,
                                  [WEIR_REDUCE_MIN] = 3,
                                  [WEIR_REDUCE_MEAN] = 4};
    int type = weir__nccl_type_of(v->dtype);
    size_t bytes = (size_t)v->bytes;

    switch (v->kind) {
    case WEIR__VERB_ALL_REDUCE:
        return api->all_reduce(v->in, v->out, (size_t)v->numel, type, reduces[v->reduce], comm,
                               stream);
    case WEIR__VERB_REDUCE_SCATTER:
        return api->reduce_scatter(v->in, v->out, (size_t)(v->numel / ranks), type,
                                   reduces[v->reduce], comm, stream);
    case WEIR__VERB_ALL_GATHER:
        return api->all_gather(v->in, v->out, bytes, WEIR__NCCL_I8, comm, stream);
    case WEIR__VERB_BROADCAST:
        return api->broadcast(v->in, v->out, bytes, WEIR__NCCL_I8, v->root, comm, stream);
    case WEIR__VERB_EXCHANGE:
        return issue_exchange(api, comm, ranks, v, stream);
    case WEIR__VERB_SEND:
        return api->send(v->in, bytes, WEIR__NCCL_I8, RECEIVER, comm, stream);
    case WEIR__VERB_RECV:
        return api->recv(v->out, bytes, WEIR__NCCL_I8, SENDER, comm, stream);
    case WEIR__VERB_BARRIER:
        break;
    }
    return 0; /* a barrier: all ranks have arrived */
}
