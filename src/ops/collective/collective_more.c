/* Collectives composed of others. */
#include "ops/collective/collective.h"

#include <stdio.h>
#include <string.h>

#include "weir/graph.h"
#include "weir/ops.h"
#include "weir/scope.h"
#include "weir/stream.h"

static weir_status check_root(const weir_rank *rank, const char *what, int root)
{
    if (root >= 0 && root < rank->group->nranks)
        return WEIR_OK;
    return weir__fail(WEIR_ERANGE, "%s: rank %d is out of range: 0..%d", what, root,
                      rank->group->nranks - 1);
}

static weir_status check_rows(const char *what, const weir_tensor *x)
{
    if (weir_tensor_ndim(x))
        return WEIR_OK;
    return weir__fail(WEIR_ESHAPE, "%s: a tensor without dims has no rows", what);
}

/* For more ranks than counts fit: gathers on every rank; all ranks but the root keep no rows. */
static weir_status gather_to_all(weir_rank *rank, weir_tensor *x, int root, weir_tensor **out)
{
    weir_tensor *all = NULL, *nothing = NULL;
    weir_status st = weir_all_gather(rank, x, &all);

    if (st || rank->index == root) {
        *out = all;
        return st;
    }
    if (!(st = weir_tensor_slice(all, 0, 0, 0, 1, &nothing)))
        st = weir_contiguous(nothing, out);
    weir_tensor_release(nothing);
    weir_tensor_release(all);
    return st;
}

/* The same for scatter: the root broadcasts everything, and each rank keeps its part. */
static weir_status scatter_from_all(weir_rank *rank, weir_tensor *x, int root, weir_tensor *out)
{
    const int64_t *shape = weir_tensor_shape(out);
    int64_t all_shape[WEIR_MAX_DIMS], rows = shape[0];
    weir_tensor *room = NULL, *all = NULL, *part = NULL;
    int ndim = weir_tensor_ndim(out);
    weir_status st = WEIR_OK;

    memcpy(all_shape, shape, (size_t)ndim * sizeof *shape);
    all_shape[0] = rows * rank->group->nranks;
    if (rank->index != root) {
        if ((st = weir_tensor_empty(weir_stream_current(rank->dev), weir_tensor_dtype(out), ndim,
                                    all_shape, &room)))
            return st;
        x = room;
    }
    if (!(st = weir_broadcast(rank, x, root, &all)) &&
        !(st = weir_tensor_slice(all, 0, rank->index * rows, (rank->index + 1) * rows, 1, &part)))
        st = weir_copy_into(part, out);
    weir_tensor_release(part);
    weir_tensor_release(all);
    weir_tensor_release(room);
    return st;
}

weir_status weir_gather_to(weir_rank *rank, weir_tensor *x, int root, weir_tensor **out)
{
    int64_t send[WEIR_MAX_RANKS], recv[WEIR_MAX_RANKS], rows;
    weir_status st;

    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = check_root(rank, "gather", root)) || (st = check_rows("gather", x)))
        return st;
    rows = weir_tensor_shape(x)[0];
    if (rank->group->nranks > WEIR_MAX_COUNTED_RANKS && rank->group->procs)
        return gather_to_all(rank, x, root, out);
    for (int i = 0; i < rank->group->nranks; i++) {
        send[i] = i == root ? rows : 0;
        recv[i] = rank->index == root ? rows : 0;
    }
    return weir_all_to_all_counts(rank, x, send, recv, out);
}

weir_status weir_scatter_from(weir_rank *rank, weir_tensor *x, int root, weir_tensor *out)
{
    int64_t send[WEIR_MAX_RANKS], recv[WEIR_MAX_RANKS], rows;
    weir_tensor *nothing = NULL;
    weir_status st;

    WEIR__NEED(rank, "rank");
    WEIR__NEED(out, "out");
    if ((st = check_root(rank, "scatter", root)) || (st = check_rows("scatter", out)))
        return st;
    if (rank->index == root)
        WEIR__NEED(x, "x");
    if (rank->group->nranks > WEIR_MAX_COUNTED_RANKS && rank->group->procs)
        return scatter_from_all(rank, x, root, out);
    rows = weir_tensor_shape(out)[0];
    for (int i = 0; i < rank->group->nranks; i++) {
        send[i] = rank->index == root ? rows : 0;
        recv[i] = i == root ? rows : 0;
    }
    if (rank->index == root)
        return weir_all_to_all_counts_into(rank, x, send, recv, out);
    if ((st = weir_tensor_slice(out, 0, 0, 0, 1, &nothing)))
        return st;
    st = weir_all_to_all_counts_into(rank, nothing, send, recv, out);
    weir_tensor_release(nothing);
    return st;
}

static weir_status check_counts(const weir_rank *rank, const char *what, const int64_t *counts,
                                int64_t *sum)
{
    *sum = 0;
    for (int i = 0; i < rank->group->nranks; i++)
        if (counts[i] < 0 || __builtin_add_overflow(*sum, counts[i], sum))
            return weir__fail(WEIR_ERANGE,
                              "%s: count %lld of rank %d is negative, or the counts overflow", what,
                              (long long)counts[i], i);
    return WEIR_OK;
}

/* Sends every rank a copy of this rank's rows. If one Concat cannot make that many copies, pads and
 * gathers equal parts instead. */
weir_status weir_all_gather_counts(weir_rank *rank, weir_tensor *x, const int64_t *counts,
                                   weir_tensor **out)
{
    enum { MOST_COPIES = WEIR__OP_MAX_IN };
    weir_tensor *copies[MOST_COPIES], *all;
    int64_t send[MOST_COPIES], sum;
    weir_status st;
    _Static_assert((int)MOST_COPIES <= WEIR_MAX_COUNTED_RANKS, "their counts fit into one call");

    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(counts, "counts");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = check_rows("all-gather", x)) || (st = check_counts(rank, "all-gather", counts, &sum)))
        return st;
    if (weir_tensor_shape(x)[0] != counts[rank->index])
        return weir__fail(WEIR_ESHAPE, "all-gather: rank %d has %lld rows, its count is %lld",
                          rank->index, (long long)weir_tensor_shape(x)[0],
                          (long long)counts[rank->index]);
    if (rank->group->nranks > MOST_COPIES)
        return weir__all_gather_many(rank, x, counts, sum, out);
    for (int i = 0; i < rank->group->nranks; i++) {
        copies[i] = x;
        send[i] = counts[rank->index];
    }
    if ((st = weir_concat(copies, rank->group->nranks, 0, &all)))
        return st;
    st = weir_all_to_all_counts(rank, all, send, counts, out);
    weir_tensor_release(all);
    return st;
}

/* If ranks cannot compute only their own rows, reduces everything and keeps a part. */
weir_status weir_reduce_scatter_counts(weir_rank *rank, weir_tensor *x, weir_reduce op,
                                       const int64_t *counts, weir_tensor **out)
{
    weir_tensor *all, *part;
    int64_t sum, first = 0;
    weir_status st;

    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(counts, "counts");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = check_rows("reduce-scatter", x)) ||
        (st = check_counts(rank, "reduce-scatter", counts, &sum)))
        return st;
    if (weir_tensor_shape(x)[0] != sum)
        return weir__fail(WEIR_ESHAPE,
                          "reduce-scatter: the counts add up to %lld rows, the input has %lld",
                          (long long)sum, (long long)weir_tensor_shape(x)[0]);
    for (int i = 0; i < rank->index; i++)
        first += counts[i];
    if (weir__collective_has_parts(rank, x))
        return weir__reduce_rows(rank, x, op, -1, first, counts[rank->index], out);
    if ((st = weir_all_reduce(rank, x, op, &all)))
        return st;
    if (!(st = weir_tensor_slice(all, 0, first, first + counts[rank->index], 1, &part))) {
        st = weir_contiguous(part, out);
        weir_tensor_release(part);
    }
    weir_tensor_release(all);
    return st;
}

/* ---- batches ---- */

enum { MOST_MESSAGES = 64 };

static weir_status pass(weir_rank *rank, const weir_message *m)
{
    return m->receives ? weir_recv(rank, m->tensor, m->peer) : weir_send(rank, m->tensor, m->peer);
}

/* In a graph, data edges give all the order that is needed. */
static weir_status capture_batch(weir_rank *rank, const weir_message *messages, int count)
{
    weir_status st = WEIR_OK, back;

    for (int i = 0; i < count && !st; i++) {
        char tag[40];

        snprintf(tag, sizeof tag, "weir batch %d", i);
        if ((st = weir_scope_push_stream(tag, 0)))
            break;
        st = pass(rank, &messages[i]);
        if ((back = weir_scope_pop(WEIR_SCOPE_STREAM)) && !st)
            st = back;
    }
    return st;
}

weir_status weir_batch_send_recv(weir_rank *rank, const weir_message *messages, int count)
{
    weir_stream *streams[MOST_MESSAGES], *before;
    weir_status st = WEIR_OK, back;
    int n = 0;

    WEIR__NEED(rank, "rank");
    if (count < 0 || count > MOST_MESSAGES)
        return weir__fail(WEIR_ERANGE, "a batch of %d messages is out of range: 0..%d", count,
                          MOST_MESSAGES);
    if (!count)
        return WEIR_OK;
    WEIR__NEED(messages, "messages");
    if (weir_graph_current() || !rank->dev) /* a rank of another process is refused there */
        return capture_batch(rank, messages, count);
    before = weir_stream_current(rank->dev);
    for (; n < count && !st; n++) {
        char tag[40];

        snprintf(tag, sizeof tag, "weir batch %d", n);
        if ((st = weir_stream_tagged(rank->dev, tag, 0, &streams[n])) ||
            (st = weir_stream_wait_stream(streams[n], before)) ||
            (st = weir_stream_set_current(streams[n])))
            break;
        st = pass(rank, &messages[n]);
    }
    if ((back = weir_stream_set_current(before)) && !st)
        st = back;
    for (int i = 0; i < n; i++)
        if ((back = weir_stream_wait_stream(before, streams[i])) && !st)
            st = back;
    return st;
}
