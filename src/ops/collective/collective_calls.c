/* The public calls of the collectives that reduce or move whole tensors. */
#include "ops/collective/collective.h"

#include <string.h>

#include "graph/build/graph.h"
#include "ops/call/again.h"
#include "ops/call/registry.h"

/* Runs the operator; cached calls (again.c) take a shorter path. */
static weir_status run(const struct weir__op *op, weir_rank *rank,
                       const struct weir__collective_params *p, weir_tensor *x, weir_tensor *into,
                       weir_tensor **out)
{
    weir_status st;

    if (weir__unlikely(rank->group->agains) && weir__again_run(op, p, rank, x, into, out, &st))
        return st;
    return weir__collective_run(op, p, &x, 1, into, out);
}

/* root: the only rank that gets the result; -1: all ranks get it */
static weir_status reduce_for(int root, const struct weir__op *op, weir_rank *rank, weir_tensor *x,
                              weir_reduce how, weir_tensor *into, weir_tensor **out)
{
    struct weir__collective_params p = weir__collective_make_params(rank);

    if ((unsigned)how >= WEIR__REDUCES)
        return weir__fail(WEIR_EINVAL, "%s: %d is not a reduction", op->name, (int)how);
    memcpy(p.reduce, weir__reduce_names[how], sizeof p.reduce);
    p.reduced_for = 1 + root;
    return run(op, rank, &p, x, into, out);
}

static weir_status reduce(const struct weir__op *op, weir_rank *rank, weir_tensor *x,
                          weir_reduce how, weir_tensor *into, weir_tensor **out)
{
    return reduce_for(-1, op, rank, x, how, into, out);
}

bool weir__collective_has_parts(const weir_rank *rank, const weir_tensor *x)
{
    const weir_device *dev = rank->dev;

    return rank->group->procs && dev && weir__device_can(dev, WEIR__RUNS_HOST_FUNCTIONS) &&
           !dev->model && x->view.ndim && !x->graph && !weir__capture_on(dev);
}

weir_status weir__reduce_rows(weir_rank *rank, weir_tensor *x, weir_reduce how, int root,
                              int64_t first, int64_t rows, weir_tensor **out)
{
    struct weir__collective_params p = weir__collective_make_params(rank);
    const struct weir__op *op = &weir__op_all_reduce;

    if ((unsigned)how >= WEIR__REDUCES)
        return weir__fail(WEIR_EINVAL, "%s: %d is not a reduction", op->name, (int)how);
    memcpy(p.reduce, weir__reduce_names[how], sizeof p.reduce);
    p.reduced_for = 1 + root;
    p.part = true;
    p.first = first;
    p.rows = rows;
    return weir__collective_run(op, &p, &x, 1, NULL, out);
}

/* In a graph, and in one process, every rank computes the result. */
weir_status weir_reduce_to(weir_rank *rank, weir_tensor *x, weir_reduce op, int root,
                           weir_tensor **out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");

    weir_status st;

    *out = NULL;
    if (root < 0 || root >= rank->group->nranks)
        return weir__fail(WEIR_ERANGE, "reduction to rank %d: it is out of range: 0..%d", root,
                          rank->group->nranks - 1);
    st = weir__collective_has_parts(rank, x)
             ? weir__reduce_rows(rank, x, op, root, 0, rank->index == root ? x->view.shape[0] : 0,
                                 out)
             : reduce_for(root, &weir__op_all_reduce, rank, x, op, NULL, out);
    if (!st && rank->index != root) {
        weir_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

weir_status weir_all_reduce(weir_rank *rank, weir_tensor *x, weir_reduce op, weir_tensor **out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    *out = NULL;
    return reduce(&weir__op_all_reduce, rank, x, op, NULL, out);
}

weir_status weir_all_reduce_into(weir_rank *rank, weir_tensor *x, weir_reduce op, weir_tensor *out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    return reduce(&weir__op_all_reduce, rank, x, op, out, NULL);
}

weir_status weir_reduce_scatter(weir_rank *rank, weir_tensor *x, weir_reduce op, weir_tensor **out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    *out = NULL;
    return reduce(&weir__op_reduce_scatter, rank, x, op, NULL, out);
}

weir_status weir_reduce_scatter_into(weir_rank *rank, weir_tensor *x, weir_reduce op,
                                     weir_tensor *out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    return reduce(&weir__op_reduce_scatter, rank, x, op, out, NULL);
}

static weir_status plain(const struct weir__op *op, weir_rank *rank, weir_tensor *x,
                         weir_tensor *into, weir_tensor **out)
{
    struct weir__collective_params p = weir__collective_make_params(rank);

    return run(op, rank, &p, x, into, out);
}

weir_status weir_all_gather(weir_rank *rank, weir_tensor *x, weir_tensor **out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    return plain(&weir__op_all_gather, rank, x, NULL, out);
}

weir_status weir_all_gather_into(weir_rank *rank, weir_tensor *x, weir_tensor *out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    return plain(&weir__op_all_gather, rank, x, out, NULL);
}

weir_status weir_all_to_all(weir_rank *rank, weir_tensor *x, weir_tensor **out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    return plain(&weir__op_all_to_all, rank, x, NULL, out);
}

weir_status weir_all_to_all_into(weir_rank *rank, weir_tensor *x, weir_tensor *out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    return plain(&weir__op_all_to_all, rank, x, out, NULL);
}

static weir_status exchange(weir_rank *rank, weir_tensor *x, const int64_t *send,
                            const int64_t *recv, weir_tensor *into, weir_tensor **out)
{
    struct weir__counts_params p = {.of_all = weir__collective_make_params(rank)};
    size_t n = (size_t)p.of_all.ranks;

    if (p.of_all.ranks > WEIR_MAX_COUNTED_RANKS)
        return (rank->group->procs ? weir__exchange_many
                                   : weir__exchange_by_table)(rank, x, send, recv, into, out);
    p.nsend = p.nrecv = p.of_all.ranks;
    memcpy(p.send, send, n * sizeof *send);
    memcpy(p.recv, recv, n * sizeof *recv);
    return weir__collective_run(&weir__op_all_to_all_counts, &p, &x, 1, into, out);
}

weir_status weir_all_to_all_counts(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                   const int64_t *recv, weir_tensor **out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(send, "send");
    WEIR__NEED(recv, "recv");
    WEIR__NEED(out, "out");
    return exchange(rank, x, send, recv, NULL, out);
}

weir_status weir_all_to_all_counts_into(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                        const int64_t *recv, weir_tensor *out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(send, "send");
    WEIR__NEED(recv, "recv");
    WEIR__NEED(out, "out");
    return exchange(rank, x, send, recv, out, NULL);
}

static weir_status broadcast(weir_rank *rank, weir_tensor *x, int root, weir_tensor *into,
                             weir_tensor **out)
{
    struct weir__collective_params p = weir__collective_make_params(rank);

    p.root = root;
    return weir__collective_run(&weir__op_broadcast, &p, &x, 1, into, out);
}

weir_status weir_broadcast(weir_rank *rank, weir_tensor *x, int root, weir_tensor **out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    return broadcast(rank, x, root, NULL, out);
}

weir_status weir_broadcast_into(weir_rank *rank, weir_tensor *x, int root, weir_tensor *out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    return broadcast(rank, x, root, out, NULL);
}

weir_status weir_send(weir_rank *rank, weir_tensor *x, int to)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");

    struct weir__collective_params p = weir__collective_make_params(rank);

    p.to = to;
    return weir__collective_run(&weir__op_send, &p, &x, 1, NULL, NULL);
}

weir_status weir_recv(weir_rank *rank, weir_tensor *x, int from)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");

    struct weir__collective_params p = weir__collective_make_params(rank);

    p.from = from;
    return weir__op_run(&weir__op_recv, &p, &x, 1, NULL);
}

weir_status weir_barrier(weir_rank *rank)
{
    WEIR__NEED(rank, "rank");

    struct weir__collective_params p = weir__collective_make_params(rank);

    return weir__op_run(&weir__op_barrier, &p, NULL, 0, NULL);
}
