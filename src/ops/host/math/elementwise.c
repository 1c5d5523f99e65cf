/* The walker: packs rows of strided operands for the function, and unpacks its results. It packs
 * many short rows at once, and packs operands that are contiguous along another dim tile by
 * tile. */
#include "ops/host/math/elementwise.h"

#include <string.h>

#include "ops/host/box.h"
#include "ops/host/row.h"
#include "ops/tile.h"

enum {
    NONTEMPORAL_LEAST = 1 << 15,
    SPREAD = 256,   /* copies of a value that rows use for every element */
    SHORT_ROW = 64, /* elements; for longer rows the cost of stepping to the next one is small */
    /* The size of a tile. It is longer along the dim in which a transposed operand is contiguous,
     * since the hardware does not prefetch the lines that are read there. */
    TILE_ROWS = 64,
    TILE_COLS = WEIR__ROW_CHUNK / TILE_ROWS,
    TURNED_LEAST = 8,
};

/* The position of the walk through `numel` elements in row-major order. */
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

/* Advances n positions along dim d. */
static void cursor_advance(struct cursor *c, const struct weir__ew *e, int d, int64_t n)
{
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

/* Buffers of one block, in its local memory. Buffers of constants are filled in advance. */
struct buffers {
    char *out;
    char *in[WEIR__EW_MAX_IN];
    char *raw; /* elements in their storage type */
};

/* Repeats the value of an operand that is constant along the row n times. */
static void spread(char *buffer, const struct weir__ew *e, int i, const char *src, int64_t n)
{
    _Alignas(8) char value[8];

    if (src)
        WEIR__ISA_NAME(weir__row_convert)(value, e->in_compute[i], src, e->in_type[i], 1);
    else
        memcpy(value, e->constant, sizeof value);
    WEIR__ISA_NAME(weir__row_fill)
    (buffer, value, weir__elem_size(e->in_compute[i]), n);
}

/* Computes n elements of a row whose operands step by in_stride[i]. */
static void run_row(const struct weir__ew *e, const struct buffers *b, char *out,
                    int64_t out_stride, const char *const *in, const int64_t *in_stride, int64_t n)
{
    size_t out_elem = weir__elem_size(e->out_type);
    bool in_place = (out_stride == 1 || n == 1) && e->out_type == e->out_compute;
    const void *rows[WEIR__EW_MAX_IN];
    int64_t chunk = WEIR__ROW_CHUNK;

    for (int i = 0; i < e->nin; i++)
        if (!in[i] || in_stride[i] == 0) {
            if (in[i]) {
                chunk = SPREAD;
                spread(b->in[i], e, i, in[i], weir__min(n, chunk));
            }
            rows[i] = b->in[i];
        }
    for (int64_t done = 0; done < n; done += chunk) {
        int64_t m = weir__min(n - done, chunk);
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

/* Short pieces let reads and non-temporal writes overlap. With longer pieces the memory alternates
 * between the two and loses a third of its speed. */
#define NONTEMPORAL_PIECE 512

static void run_stream(const struct weir__ew *e, const struct buffers *b, char *out,
                       const char *const *in, int64_t n)
{
    int64_t elem = (int64_t)weir__elem_size(e->out_type), piece = NONTEMPORAL_PIECE / elem;
    int64_t head = (int64_t)(-(uintptr_t)out & 63) / elem, m;
    const void *rows[WEIR__EW_MAX_IN];

    for (int i = 0; i < e->nin; i++)
        if (!in[i])
            rows[i] = b->in[i];
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
    if (e->nontemporal && n >= NONTEMPORAL_LEAST) /* the next operator reads a small piece again */
        run_stream(e, b, out, in, n);
    else if (e->direct && e->fn)
        e->fn(out, (const void *const *)in, n, e->constant);
    else
        run_row(e, b, out, 1, in, stride, n);
}

/* The part of every operand that is packed at once: `count` positions of dim `outer`. Each position
 * has all elements of the inner dims, or `cols` of the last dim if the dims between are skipped. */
struct piece {
    int outer;
    int64_t count, cols;
    struct weir__box out, in[WEIR__EW_MAX_IN];
};

static void piece_set(struct piece *p, const struct weir__ew *e, int outer, int64_t count,
                      int inner, int64_t cols)
{
    int64_t shape[WEIR_MAX_DIMS] = {count}, stride[WEIR_MAX_DIMS];
    int n = e->ndim - inner;

    if (p->outer == outer && p->count == count && p->cols == cols)
        return;
    p->outer = outer;
    p->count = count;
    p->cols = cols;
    memcpy(shape + 1, e->shape + inner, (size_t)n * sizeof *shape);
    shape[n] = cols;
    for (int i = -1; i < e->nin; i++) {
        const int64_t *from = i < 0 ? e->out_stride : e->in_stride[i];

        stride[0] = from[outer];
        memcpy(stride + 1, from + inner, (size_t)n * sizeof *stride);
        WEIR__ISA_NAME(weir__box_init)(i < 0 ? &p->out : &p->in[i], n + 1, shape, stride);
    }
}

/* The operand's elements, packed, in its compute type. Copied to `target`, unless memory already
 * has this form. */
static const void *piece_load(const struct piece *p, const struct weir__ew *e,
                              const struct buffers *b, int i, const char *src, char *target)
{
    const struct weir__box *box = &p->in[i];
    bool convert = e->in_type[i] != e->in_compute[i];

    if (weir__box_is_packed(box)) {
        if (!convert)
            return src;
        WEIR__ISA_NAME(weir__row_convert)(target, e->in_compute[i], src, e->in_type[i], box->numel);
        return target;
    }
    if (weir__box_is_one(box)) {
        spread(target, e, i, src, box->numel);
        return target;
    }
    WEIR__ISA_NAME(weir__box_pack)
    (convert ? b->raw : target, src, box, weir__elem_size(e->in_type[i]));
    if (convert)
        WEIR__ISA_NAME(weir__row_convert)
    (target, e->in_compute[i], b->raw, e->in_type[i], box->numel);
    return target;
}

static void piece_run(const struct piece *p, const struct weir__ew *e, const struct buffers *b,
                      char *out, const char *const *in)
{
    bool convert = e->out_type != e->out_compute, packed = weir__box_is_packed(&p->out);
    size_t elem = weir__elem_size(e->out_type);
    char *result = !convert && packed ? out : b->out;
    const void *rows[WEIR__EW_MAX_IN];

    for (int i = 0; i < e->nin; i++)
        rows[i] = in[i] ? piece_load(p, e, b, i, in[i], e->fn ? b->in[i] : result) : b->in[i];
    if (e->fn) {
        e->fn(result, rows, p->out.numel, e->constant);
        rows[0] = result;
    }
    if (convert) {
        char *target = packed ? out : b->raw;

        WEIR__ISA_NAME(weir__row_convert)
        (target, e->out_type, rows[0], e->out_compute, p->out.numel);
        rows[0] = target;
    }
    if (!packed)
        WEIR__ISA_NAME(weir__box_unpack)(out, rows[0], &p->out, elem);
    else if (rows[0] != out)
        memcpy(out, rows[0], (size_t)p->out.numel * elem);
}

/* Facts about the dims: the number of elements of one position of each dim. */
struct walk {
    int64_t inner[WEIR_MAX_DIMS];
    int turned; /* a dim other than the last in which some operand is contiguous; -1: none */
};

static struct walk walk_of(const struct weir__ew *e)
{
    struct walk w = {.turned = -1};
    int last = e->ndim - 1;

    w.inner[last] = 1;
    for (int d = last - 1; d >= 0; d--)
        w.inner[d] = w.inner[d + 1] * e->shape[d + 1];
    if (e->shape[last] < TURNED_LEAST)
        return w;
    for (int i = 0; i < e->nin && w.turned < 0; i++)
        if (e->in[i] && e->in_stride[i][last] >= TURNED_LEAST)
            for (int d = 0; d < last && w.turned < 0; d++)
                if (e->in_stride[i][d] == 1 && e->shape[d] >= TURNED_LEAST)
                    w.turned = d;
    return w;
}

/* Computes `rows` positions of the turned dim from the cursor on, each with all its inner
 * elements. */
static void run_tiles(const struct weir__ew *e, const struct buffers *b, const struct walk *w,
                      const struct cursor *from, int64_t rows, struct piece *p)
{
    int last = e->ndim - 1;
    struct cursor c = *from;

    for (int64_t done = 0, m; done < w->inner[w->turned]; done += m) {
        m = weir__min(TILE_COLS, e->shape[last] - c.at[last]);
        piece_set(p, e, w->turned, rows, last, m);
        piece_run(p, e, b, c.out, c.in);
        cursor_advance(&c, e, last, m);
    }
}

/* Finds how many elements from the cursor on, at most `left`, are computed at once: `n` positions
 * of dim `d`. */
static int64_t find_piece(const struct weir__ew *e, const struct walk *w, const struct cursor *c,
                          int64_t left, int *d)
{
    int last = e->ndim - 1;
    int64_t n;

    *d = last;
    n = weir__min(e->shape[last] - c->at[last], left);
    if (n > SHORT_ROW)
        return n;
    /* A dim that is covered completely is merged with the one before it. */
    while (*d > 0 && c->at[*d] == 0 && n == e->shape[*d]) {
        int64_t more = weir__min(e->shape[*d - 1] - c->at[*d - 1],
                                 weir__min(left, WEIR__ROW_CHUNK) / w->inner[*d - 1]);

        if (more < 1)
            break;
        n = more;
        --*d;
    }
    return n;
}

static bool is_at_start(const struct weir__ew *e, const struct cursor *c, int d)
{
    while (++d < e->ndim)
        if (c->at[d])
            return false;
    return true;
}

static void run_strided(const struct weir__ew *e, const struct buffers *b, int64_t begin,
                        int64_t end)
{
    struct walk w = walk_of(e);
    struct piece piece = {.count = 0}, tile = {.count = 0};
    int64_t stride[WEIR__EW_MAX_IN] = {0}, n;
    int last = e->ndim - 1, d;
    struct cursor c;

    for (int i = 0; i < e->nin; i++)
        stride[i] = e->in_stride[i][last];
    cursor_seek(&c, e, begin);
    while (begin < end) {
        if (w.turned >= 0 && end - begin >= 2 * w.inner[w.turned] && is_at_start(e, &c, w.turned)) {
            d = w.turned;
            n = weir__min(weir__min(TILE_ROWS, e->shape[d] - c.at[d]), (end - begin) / w.inner[d]);
            run_tiles(e, b, &w, &c, n, &tile);
        } else if (n = find_piece(e, &w, &c, end - begin, &d), d < last) {
            piece_set(&piece, e, d, n, d + 1, e->shape[last]);
            piece_run(&piece, e, b, c.out, c.in);
        } else {
            run_row(e, b, c.out, e->out_stride[last], c.in, stride, n);
        }
        cursor_advance(&c, e, d, n);
        begin += n * w.inner[d];
    }
}

void WEIR__ISA_NAME(weir__ew_range)(const struct weir__ew *e, int64_t begin, int64_t end,
                                    void *local)
{
    struct buffers b = {.out = local, .raw = (char *)local + WEIR__ROW_BYTES};

    if (begin >= end)
        return;
    for (int i = 0; i < e->nin; i++) {
        b.in[i] = b.raw + (size_t)(i + 1) * WEIR__ROW_BYTES;
        if (!e->in[i])
            spread(b.in[i], e, i, NULL, weir__min(end - begin, WEIR__ROW_CHUNK));
    }
    if (e->ndim == 0)
        run_flat(e, &b, begin, end - begin);
    else
        run_strided(e, &b, begin, end);
}

weir_status WEIR__ISA_NAME(weir__ew_kernel)(const void *args, const weir_block *block)
{
    const struct weir__ew *e = args;
    struct weir__range r = weir__tile_rows(e->numel, 64, block);

    WEIR__ISA_NAME(weir__ew_range)(e, r.begin, r.end, block->local);
    return WEIR_OK;
}
