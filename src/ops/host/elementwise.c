/* The walker: brings rows of strided operands to the function and back. */
#include "ops/host/elementwise.h"

#include <string.h>

#include "ops/host/row.h"
#include "ops/tile.h"

enum { STREAM_LEAST = 1 << 15 };

/* Where the walk stands: `numel` elements in row-major order, a row at a time. */
struct cursor {
    int64_t at[WEIR_MAX_DIMS];
    char *out;
    const char *in[WEIR__EW_MAX_IN];
};

static void cursor_seek(struct cursor *c, const struct weir__ew *e, int64_t position)
{
    c->out = e->out;
    for (int i = 0; i < e->nin; i++)
        c->in[i] = e->in[i];
    for (int d = e->ndim - 1; d >= 0; d--) {
        c->at[d] = position % e->shape[d];
        position /= e->shape[d];
        c->out += c->at[d] * e->out_stride[d] * (int64_t)weir__elem_size(e->out_type);
        for (int i = 0; i < e->nin; i++)
            if (e->in[i])
                c->in[i] += c->at[d] * e->in_stride[i][d] * (int64_t)weir__elem_size(e->in_type[i]);
    }
}

/* Steps over n elements of the current row. */
static void cursor_advance(struct cursor *c, const struct weir__ew *e, int64_t n)
{
    int d = e->ndim - 1;

    for (;;) {
        int64_t back = 0;

        c->at[d] += n;
        if (c->at[d] == e->shape[d] && d > 0) {
            back = e->shape[d];
            c->at[d] = 0;
        }
        c->out += (n - back) * e->out_stride[d] * (int64_t)weir__elem_size(e->out_type);
        for (int i = 0; i < e->nin; i++)
            if (e->in[i])
                c->in[i] +=
                    (n - back) * e->in_stride[i][d] * (int64_t)weir__elem_size(e->in_type[i]);
        if (!back)
            return;
        n = 1;
        d--;
    }
}

/* Buffers of one block, in its local memory. */
struct buffers {
    char *out;
    char *in[WEIR__EW_MAX_IN];
};

/* An operand that does not move along the row: its value, WEIR__ROW_CHUNK or n times. */
static void spread(char *buffer, const struct weir__ew *e, int i, const char *src, int64_t n)
{
    _Alignas(8) char value[8];

    if (src)
        WEIR__ISA_NAME(weir__row_convert)(value, e->in_compute[i], src, e->in_type[i], 1);
    else
        memcpy(value, e->constant, sizeof value);
    WEIR__ISA_NAME(weir__row_fill)
    (buffer, value, weir__elem_size(e->in_compute[i]), weir__min(n, WEIR__ROW_CHUNK));
}

/* n elements of a row whose operands step by stride[i]. */
static void run_row(const struct weir__ew *e, const struct buffers *b, char *out,
                    int64_t out_stride, const char *const *in, const int64_t *in_stride, int64_t n)
{
    size_t out_elem = weir__elem_size(e->out_type);
    bool in_place = (out_stride == 1 || n == 1) && e->out_type == e->out_compute;
    const void *rows[WEIR__EW_MAX_IN];

    for (int i = 0; i < e->nin; i++)
        if (!in[i] || in_stride[i] == 0) {
            spread(b->in[i], e, i, in[i], n);
            rows[i] = b->in[i];
        }
    for (int64_t done = 0; done < n; done += WEIR__ROW_CHUNK) {
        int64_t m = weir__min(n - done, WEIR__ROW_CHUNK);
        char *target = out + done * out_stride * (int64_t)out_elem;
        void *result = in_place ? target : b->out;

        for (int i = 0; i < e->nin; i++) {
            const char *src = in[i];

            if (!src || in_stride[i] == 0)
                continue;
            src += done * in_stride[i] * (int64_t)weir__elem_size(e->in_type[i]);
            rows[i] = WEIR__ISA_NAME(weir__row_load)(e->fn ? b->in[i] : result, e->in_compute[i],
                                                     src, e->in_type[i], in_stride[i], m);
        }
        if (e->fn)
            e->fn(result, rows, m, e->constant);
        else if (rows[0] != result)
            memcpy(result, rows[0], (size_t)m * weir__elem_size(e->out_compute));
        if (!in_place)
            WEIR__ISA_NAME(weir__row_store)
        (target, e->out_type, out_stride, result, e->out_compute, m);
    }
}

/* Short pieces keep reads and streamed writes going side by side: with longer
 * ones the memory alternates between the two and loses a third of its speed. */
#define STREAM_PIECE 512

static void run_stream(const struct weir__ew *e, const struct buffers *b, char *out,
                       const char *const *in, int64_t n)
{
    int64_t elem = (int64_t)weir__elem_size(e->out_type), piece = STREAM_PIECE / elem;
    int64_t head = (int64_t)(-(uintptr_t)out & 63) / elem, m;
    const void *rows[WEIR__EW_MAX_IN];

    for (int i = 0; i < e->nin; i++)
        if (!in[i]) {
            spread(b->in[i], e, i, NULL, piece);
            rows[i] = b->in[i];
        }
    for (int64_t done = 0; done < n; done += m) {
        const void *result = b->out;

        m = weir__min(done == 0 && head ? head : piece, n - done);
        for (int i = 0; i < e->nin; i++)
            if (in[i])
                rows[i] = in[i] + done * (int64_t)weir__elem_size(e->in_type[i]);
        if (e->fn)
            e->fn(b->out, rows, m, e->constant);
        else
            result = rows[0];
        WEIR__ISA_NAME(weir__row_stream)(out + done * elem, result, (size_t)(m * elem));
    }
    WEIR__ISA_NAME(weir__row_stream_end)();
}

static void run_flat(const struct weir__ew *e, const struct buffers *b, int64_t begin, int64_t n)
{
    char *out = e->out + begin * (int64_t)weir__elem_size(e->out_type);
    const int64_t stride[WEIR__EW_MAX_IN] = {1, 1, 1};
    const char *in[WEIR__EW_MAX_IN] = {0};

    for (int i = 0; i < e->nin; i++)
        if (e->in[i])
            in[i] = e->in[i] + begin * (int64_t)weir__elem_size(e->in_type[i]);
    if (e->stream && n >= STREAM_LEAST) /* a small piece is read again by the next operator */
        run_stream(e, b, out, in, n);
    else if (e->direct && e->fn)
        e->fn(out, (const void *const *)in, n, e->constant);
    else
        run_row(e, b, out, 1, in, stride, n);
}

void WEIR__ISA_NAME(weir__ew_range)(const struct weir__ew *e, int64_t begin, int64_t end,
                                    void *local)
{
    struct buffers b = {.out = local};
    int64_t stride[WEIR__EW_MAX_IN] = {0};
    int last = e->ndim - 1;
    struct cursor c;

    if (begin >= end)
        return;
    for (int i = 0; i < e->nin; i++)
        b.in[i] = b.out + (size_t)(i + 1) * WEIR__ROW_BYTES;
    if (e->ndim == 0) {
        run_flat(e, &b, begin, end - begin);
        return;
    }
    for (int i = 0; i < e->nin; i++)
        stride[i] = e->in_stride[i][last];
    cursor_seek(&c, e, begin);
    while (begin < end) {
        int64_t n = weir__min(e->shape[last] - c.at[last], end - begin);

        run_row(e, &b, c.out, e->out_stride[last], c.in, stride, n);
        cursor_advance(&c, e, n);
        begin += n;
    }
}

weir_status WEIR__ISA_NAME(weir__ew_kernel)(const void *args, const weir_block *block)
{
    const struct weir__ew *e = args;
    struct weir__range r = weir__tile_range(e->numel, 64, block);

    WEIR__ISA_NAME(weir__ew_range)(e, r.begin, r.end, block->local);
    return WEIR_OK;
}
