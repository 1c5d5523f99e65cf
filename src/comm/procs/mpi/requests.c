/* Requests of calls by engine `mpi`: pending sends and receives. */
#include "comm/procs/mpi/mpi.h"

enum { MESSAGE_MOST = 1 << 30 };

static void note_error(const struct weir__mpi *mpi, struct weir__mpi_call *c, int code)
{
    if (c->failed_ns)
        return;
    c->failed_ns = weir__clock_ns();
    weir__mpi_error_text(mpi->api, code, c->error, sizeof c->error);
}

static bool is_send(int role)
{
    return role == WEIR__MPI_SEND_RECORD || role == WEIR__MPI_SEND_BYTES;
}

bool weir__mpi_post(struct weir__procs_group *p, struct weir__mpi_call *c, enum weir__mpi_role role,
                    int rank, void *memory, size_t bytes, int tag)
{
    const struct weir__mpi_api *api = p->world->mpi->api;

    do {
        size_t n = weir__min(bytes, (size_t)MESSAGE_MOST);
        struct weir__mpi_request *r;
        int code;

        if (!weir__grow(&c->requests, c->nrequests, &c->room, sizeof *r))
            return false;
        r = &c->requests[c->nrequests];
        *r = (struct weir__mpi_request){.role = (short)role, .rank = (short)rank};
        code = is_send(role)
                   ? api->isend(memory, (int)n, api->byte, rank, tag, p->comm, &r->handle)
                   : api->irecv(memory, (int)n, api->byte, rank, tag, p->comm, &r->handle);
        if (code) {
            note_error(p->world->mpi, c, code);
        } else {
            c->nrequests++;
            p->counts->of[rank].sent += is_send(role);
        }
        memory = (char *)memory + n;
        bytes -= n;
    } while (bytes);
    return true;
}

bool weir__mpi_is_under_way(const struct weir__mpi *mpi, struct weir__mpi_call *c, unsigned roles)
{
    bool under_way = false;

    for (int i = 0; i < c->nrequests; i++) {
        struct weir__mpi_request *r = &c->requests[i];
        int flag = 0, code;

        if (!r->over) {
            if ((code = mpi->api->test(&r->handle, &flag, NULL)))
                note_error(mpi, c, code);
            r->over = flag || code;
            if (flag && !code && c->p && !is_send(r->role))
                weir__mpi_count_received(c->p, r->rank);
        }
        under_way |= !r->over && roles >> r->role & 1;
    }
    return under_way;
}
