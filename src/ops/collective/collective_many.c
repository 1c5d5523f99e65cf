/* Uneven collectives of more ranks than the counts in the arguments of one call allow. */
#include "ops/collective/collective.h"

#include <string.h>

#include "weir/ops.h"
#include "weir/stream.h"

enum {
    OFFSETS = 32
}; /* peers that messages are exchanged with at once: two messages each in a
    * batch */

static weir_status make_rows(weir_rank *rank, const weir_tensor *like, int64_t rows,
                             weir_tensor **out)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = weir_tensor_ndim(like);

    memcpy(shape, weir_tensor_shape(like), (size_t)ndim * sizeof *shape);
    shape[0] = rows;
    return weir_tensor_empty(weir_stream_current(rank->dev), weir_tensor_dtype(like), ndim, shape,
                             out);
}

static weir_status copy_rows(weir_tensor *from, int64_t from_row, weir_tensor *to, int64_t to_row,
                             int64_t rows)
{
    weir_tensor *a = NULL, *b = NULL;
    weir_status st;

    if (!rows)
        return WEIR_OK;
    if (!(st = weir_tensor_slice(from, 0, from_row, from_row + rows, 1, &a)) &&
        !(st = weir_tensor_slice(to, 0, to_row, to_row + rows, 1, &b)))
        st = weir_copy_into(a, b);
    weir_tensor_release(a);
    weir_tensor_release(b);
    return st;
}

/* Pads every rank's rows to the largest count, gathers, and copies the valid rows out. */
weir_status weir__all_gather_many(weir_rank *rank, weir_tensor *x, const int64_t *counts,
                                  int64_t sum, weir_tensor **out)
{
    int n = rank->group->nranks;
    weir_tensor *padded = NULL, *all = NULL, *result = NULL;
    int64_t most = 0, at = 0;
    weir_status st;

    for (int i = 0; i < n; i++)
        most = weir__max(most, counts[i]);
    if (!(st = make_rows(rank, x, sum, &result)) && most &&
        !(st = make_rows(rank, x, most, &padded)) &&
        !(st = copy_rows(x, 0, padded, 0, counts[rank->index])))
        st = weir_all_gather(rank, padded, &all);
    for (int i = 0; i < n && all && !st; i++) {
        st = copy_rows(all, i * most, result, at, counts[i]);
        at += counts[i];
    }
    weir_tensor_release(padded);
    weir_tensor_release(all);
    if (st)
        weir_tensor_release(result);
    else
        *out = result;
    return st;
}

static weir_status check_rows(const weir_tensor *t, const char *what, int64_t rows)
{
    if (weir_tensor_ndim(t) && weir_tensor_shape(t)[0] == rows)
        return WEIR_OK;
    return weir__fail(WEIR_ESHAPE, "all-to-all: the counts add up to %lld rows, the %s has %lld",
                      (long long)rows, what,
                      weir_tensor_ndim(t) ? (long long)weir_tensor_shape(t)[0] : 0);
}

static weir_status add_message(weir_message *m, int *n, weir_tensor *t, int64_t first, int64_t rows,
                               int peer, bool receives)
{
    weir_status st;

    if (!rows)
        return WEIR_OK;
    m[*n] = (weir_message){NULL, peer, receives};
    if (!(st = weir_tensor_slice(t, 0, first, first + rows, 1, &m[*n].tensor)))
        ++*n;
    return st;
}

/* Rank r sends to r + d and receives from r - d, for several d at once, in the same order on every
 * rank. */
static weir_status exchange_all(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                const int64_t *recv, weir_tensor *out, const int64_t *from,
                                const int64_t *to)
{
    int n = rank->group->nranks, me = rank->index;
    weir_status st = copy_rows(x, from[me], out, to[me], send[me]);

    for (int first = 1; first < n && !st; first += OFFSETS) {
        weir_message messages[2 * OFFSETS];
        int count = 0;

        for (int d = first; d < weir__min(first + OFFSETS, n) && !st; d++) {
            int next = (me + d) % n, before = (me + n - d) % n;

            if (!(st = add_message(messages, &count, x, from[next], send[next], next, false)))
                st = add_message(messages, &count, out, to[before], recv[before], before, true);
        }
        if (!st)
            st = weir_batch_send_recv(rank, messages, count);
        for (int i = 0; i < count; i++)
            weir_tensor_release(messages[i].tensor);
    }
    return st;
}

weir_status weir__exchange_many(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                const int64_t *recv, weir_tensor *into, weir_tensor **out)
{
    int n = rank->group->nranks;
    int64_t from[WEIR_MAX_RANKS], to[WEIR_MAX_RANKS], sent = 0, got = 0;
    weir_tensor *packed = NULL, *result = into;
    weir_status st;

    for (int i = 0; i < n; i++) {
        from[i] = sent;
        to[i] = got;
        if (send[i] < 0 || recv[i] < 0 || __builtin_add_overflow(sent, send[i], &sent) ||
            __builtin_add_overflow(got, recv[i], &got))
            return weir__fail(WEIR_ERANGE,
                              "all-to-all: a count of rank %d is negative, or the counts overflow",
                              i);
    }
    if (send[rank->index] != recv[rank->index])
        return weir__fail(WEIR_EINVAL,
                          "all-to-all: rank %d sends %lld rows to itself and expects %lld",
                          rank->index, (long long)send[rank->index], (long long)recv[rank->index]);
    if ((st = check_rows(x, "input", sent)) || (into && (st = check_rows(into, "output", got))) ||
        (st = weir_contiguous(x, &packed)))
        return st;
    if (into || !(st = make_rows(rank, x, got, &result)))
        st = exchange_all(rank, packed, send, recv, result, from, to);
    weir_tensor_release(packed);
    if (!into && !st)
        *out = result;
    else if (!into)
        weir_tensor_release(result);
    return st;
}
