/* AllToAllTable: an uneven exchange whose counts are in memory, for ranks of one process that are
 * too many for counts in the arguments of a call. */
#include "ops/collective/collective.h"

#include <string.h>

#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/tile.h"
#include "weir/stream.h"

/* Rows of the table; each has a number per rank. */
enum { SENT, RECEIVED, SENT_FROM, RECEIVED_AT, TABLE_ROWS };

struct table_args {
    struct weir__meet meet;
    const char *in;
    char *out;
    const int64_t *table;
    int64_t rows_in, rows_out, row; /* row: bytes of a row */
    int ranks;
};

static const int64_t *row_of(const struct table_args *a, int which)
{
    return a->table + (int64_t)which * a->ranks;
}

/* ---- the kernel ---- */

/* Whether each place follows the previous count, and the counts add up to `rows`. */
static bool is_sound(const int64_t *counts, const int64_t *places, int n, int64_t rows)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        if (places[i] != sum || counts[i] < 0 || __builtin_add_overflow(sum, counts[i], &sum))
            return false;
    return sum == rows;
}

static weir_status table_kernel(const void *args, const weir_block *block)
{
    const struct table_args *a = args;
    const int64_t *counts = row_of(a, RECEIVED), *places = row_of(a, RECEIVED_AT);
    struct weir__range mine = weir__tile_range(a->rows_out * a->row, 4096, block);
    int me = a->meet.rank;

    if (!is_sound(row_of(a, SENT), row_of(a, SENT_FROM), a->ranks, a->rows_in) ||
        !is_sound(counts, places, a->ranks, a->rows_out))
        return weir__fail(WEIR_ERANGE, "the table of rank %d does not add up to its rows", me);
    for (int i = 0; i < a->ranks; i++) {
        const struct table_args *peer = block->peers[i];
        int64_t sent = row_of(peer, SENT)[me], from = row_of(peer, SENT_FROM)[me];
        int64_t begin = weir__max(places[i] * a->row, mine.begin),
                end = weir__min((places[i] + counts[i]) * a->row, mine.end);

        if (sent != counts[i])
            return weir__fail(
                WEIR_EINVAL,
                "the counts differ: rank %d sends %lld rows to rank %d, which expects "
                "%lld from it",
                i, (long long)sent, me, (long long)counts[i]);
        if (from < 0 || from > peer->rows_in - sent)
            return weir__fail(WEIR_ERANGE, "the table of rank %d does not add up to its rows", i);
        if (begin < end)
            memcpy(a->out + begin, peer->in + from * a->row + begin - places[i] * a->row,
                   (size_t)(end - begin));
    }
    return WEIR_OK;
}

/* ---- the row ---- */

static weir_status infer_table(struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;
    const struct weir__view *x = call->in[0], *table = call->in[1];
    weir_status st = weir__collective_check(call);

    if (st)
        return st;
    if (!x->ndim)
        return weir__fail(WEIR_ESHAPE, "%s: a tensor without dims has no rows", call->op->name);
    if (table->dtype != WEIR_I64 || table->ndim != 2 || table->shape[0] != TABLE_ROWS ||
        table->shape[1] != p->ranks)
        return weir__fail(WEIR_ESHAPE, "%s: the table is %s, not i64[%d, %lld]", call->op->name,
                          weir__view_text(table).text, (int)TABLE_ROWS, (long long)p->ranks);
    if (p->rows < 0)
        return weir__fail(WEIR_ERANGE, "%s: %lld rows are out of range: at least 0", call->op->name,
                          (long long)p->rows);
    weir__infer_like(call);
    call->out[0].shape[0] = p->rows;
    return WEIR_OK;
}

static int64_t bytes_of(const struct weir__view *v)
{
    return weir__view_numel(v) * (int64_t)weir_dtype_size(v->dtype);
}

static void cost_table(const struct weir__call *call, struct weir__cost *cost)
{
    cost->bytes = (double)bytes_of(call->in[0]) + (double)bytes_of(&call->out[0]);
}

static weir_status prepare_table(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__collective_params *p = call->params;
    struct table_args *a = (void *)work->args;
    const struct weir__view *x = call->in[0], *out = &call->out[0];

    if (call->rank && call->rank->group->procs)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "%s: ranks of group '%s' are processes: use weir_all_to_all_counts",
                          call->op->name, call->rank->group->name);
    if (!weir__view_is_contiguous(out))
        return weir__fail(WEIR_ESHAPE, "%s: the output %s is not contiguous", call->op->name,
                          weir__view_text(out).text);
    if (p->ranks > 1 && x->data == out->data && weir__view_numel(x))
        return weir__fail(WEIR_EINVAL, "%s cannot write its own input: peers still read it",
                          call->op->name);
    memset(a, 0, sizeof *a);
    weir__collective_offer(call, &a->meet.offer);
    a->meet.offer.shape[0] = -1;
    a->in = x->data;
    a->out = out->data;
    a->table = (const void *)call->in[1]->data;
    a->rows_in = x->shape[0];
    a->rows_out = out->shape[0];
    a->row = (int64_t)weir_dtype_size(x->dtype);
    for (int d = 1; d < x->ndim; d++)
        a->row *= x->shape[d];
    a->ranks = (int)p->ranks;
    weir__collective_work(call, work, table_kernel, sizeof *a, 2 * bytes_of(out),
                          weir__div_up(bytes_of(out), 4096));
    return WEIR_OK;
}

static const struct weir__op_field table_fields[] = {WEIR__COLLECTIVE_FIELDS,
                                                     WEIR__COLLECTIVE_FIELD(rows, INT, 1)};

const struct weir__op weir__op_all_to_all_table = {
    .name = "AllToAllTable",
    .summary = "AllToAllCounts with counts and places of rows in a tensor",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_COLLECTIVE | WEIR__OP_ALWAYS_RUNS,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .params_size = sizeof(struct weir__collective_params),
    .fields = table_fields,
    .nfields = weir__countof(table_fields),
    .member = weir__collective_member,
    .infer = infer_table,
    .cost = cost_table,
    .prepare = prepare_table,
};

/* ---- the call ---- */

static weir_status fill_row(const weir_rank *rank, const char *what, const int64_t *counts,
                            int64_t *kept, int64_t *places, int64_t *sum)
{
    *sum = 0;
    for (int i = 0; i < rank->group->nranks; i++) {
        kept[i] = counts[i];
        places[i] = *sum;
        if (counts[i] < 0 || __builtin_add_overflow(*sum, counts[i], sum))
            return weir__fail(WEIR_ERANGE,
                              "AllToAllTable: %s count %lld of rank %d is negative, or the counts "
                              "overflow",
                              what, (long long)counts[i], i);
    }
    return WEIR_OK;
}

/* Takes over `table`: the tensor wraps it, because copying it to the device would wait for the
 * stream's queued work. */
static weir_status run_table(weir_rank *rank, weir_tensor *x, const int64_t *send,
                             const int64_t *recv, int64_t *table, weir_tensor *into,
                             weir_tensor **out)
{
    struct weir__collective_params p = weir__collective_make_params(rank);
    int64_t n = rank->group->nranks, sent, shape[2] = {TABLE_ROWS, n};
    weir_tensor *kept = NULL;
    weir_status st;

    if (!(st = fill_row(rank, "send", send, table + SENT * n, table + SENT_FROM * n, &sent)) &&
        !(st = fill_row(rank, "receive", recv, table + RECEIVED * n, table + RECEIVED_AT * n,
                        &p.rows)) &&
        (!weir_tensor_ndim(x) || weir_tensor_shape(x)[0] != sent))
        st = weir__fail(
            WEIR_ESHAPE, "AllToAllTable: the send counts add up to %lld rows, the input has %lld",
            (long long)sent, weir_tensor_ndim(x) ? (long long)weir_tensor_shape(x)[0] : 0);
    if (!st)
        st = weir_tensor_wrap(weir_stream_current(rank->dev), WEIR_I64, 2, shape, NULL, table,
                              weir__free, table, &kept);
    if (st) {
        weir__free(table);
        return st;
    }
    st = weir__collective_run(&weir__op_all_to_all_table, &p, (weir_tensor *const[]){x, kept}, 2,
                              into, out);
    weir_tensor_release(kept);
    return st;
}

weir_status weir__exchange_by_table(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                    const int64_t *recv, weir_tensor *into, weir_tensor **out)
{
    int64_t *table = weir__malloc((size_t)TABLE_ROWS * (size_t)rank->group->nranks * sizeof *table);

    if (!table)
        return weir__fail_nomem("exchanging rows of %d ranks", rank->group->nranks);
    return run_table(rank, x, send, recv, table, into, out);
}
