/* Every collective between processes gives the bits that it gives between ranks of one process. */
#include "procs/kids.h"

static const weir_dtype types[] = {WEIR_F32, WEIR_F16, WEIR_BF16, WEIR_F64,
                                   WEIR_I64, WEIR_I32, WEIR_I8,   WEIR_U8};
static const int64_t sizes[] = {0, 1, 7, 1000, 70001};

enum { RANKS = 3 };

struct both {
    int n, self;
    weir_device *dev[MOST_KIDS], *own;
    weir_group *local, *remote;
};

static void open_both(struct both *b)
{
    b->remote = join(&b->own, NULL);
    b->n = weir_group_size(b->remote);
    b->self = weir_rank_index(weir_group_self(b->remote));
    for (int i = 0; i < b->n; i++)
        CHECK_OK(weir_device_open("cpu:cores=1", &b->dev[i]));
    CHECK_OK(weir_group_create(b->dev, b->n, NULL, &b->local));
}

static void close_both(struct both *b)
{
    for (int i = 0; i < b->n; i++)
        weir_device_sync(b->dev[i]);
    CHECK_OK(weir_group_destroy(b->local));
    for (int i = 0; i < b->n; i++)
        CHECK_OK(weir_device_close(b->dev[i]));
    leave(b->remote, b->own);
}

/* Rank r's input: the same in every process. Strange bits are welcome, but for floats no NaN, whose
 * payloads may differ between paths of conversion. */
static weir_tensor *input(weir_device *dev, int r, weir_dtype dtype, int64_t rows, int64_t columns)
{
    int64_t shape[2] = {rows, columns}, n = rows * columns;
    size_t width = weir_dtype_size(dtype);
    unsigned char *data = malloc((size_t)n * width + 1);
    uint64_t x = (uint64_t)r * 7919 + 12345;
    weir_tensor *t;

    for (size_t i = 0; i < (size_t)n * width; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        data[i] = (unsigned char)(x >> 40);
        if (i % width == width - 1) /* exponents of ordinary numbers */
            data[i] = (unsigned char)((data[i] & 0x80) | (dtype == WEIR_F64   ? 0x3f
                                                          : dtype == WEIR_F32 ? 0x3f
                                                                              : 0x3c));
    }
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), dtype, 2, shape, data, &t));
    free(data);
    return t;
}

typedef weir_status (*call_fn)(weir_rank *rank, weir_tensor *x, int variant, weir_tensor **out);

static weir_status call_all_reduce(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    return weir_all_reduce(r, x, (weir_reduce)v, out);
}
static weir_status call_in_place(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    *out = weir_tensor_retain(x);
    return weir_all_reduce_into(r, x, (weir_reduce)v, x);
}
static weir_status call_reduce_scatter(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    return weir_reduce_scatter(r, x, (weir_reduce)v, out);
}
static weir_status call_all_gather(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    (void)v;
    return weir_all_gather(r, x, out);
}
static weir_status call_broadcast(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    return weir_broadcast(r, x, v % RANKS, out);
}
static weir_status call_all_to_all(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    (void)v;
    return weir_all_to_all(r, x, out);
}
/* Rank i keeps what is left after sending i + to rows to each. */
static weir_status call_counts(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    int64_t send[RANKS], recv[RANKS], rows;
    weir_tensor *part;
    weir_status st;
    int me = weir_rank_index(r);

    rows = 0;
    for (int i = 0; i < RANKS; i++) {
        send[i] = (me + i) % (v + 1);
        recv[i] = (i + me) % (v + 1);
        rows += send[i];
    }
    if (rows > weir_tensor_shape(x)[0])
        return weir_all_gather(r, x, out);
    if ((st = weir_tensor_slice(x, 0, 0, rows, 1, &part)))
        return st;
    st = weir_all_to_all_counts(r, part, send, recv, out);
    weir_tensor_release(part);
    return st;
}
/* For one rank; elsewhere the input stands in. */
static weir_status call_reduce_to(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    weir_status st = weir_reduce_to(r, x, (weir_reduce)v, v % RANKS, out);

    if (!st && !*out)
        *out = weir_tensor_retain(x);
    return st;
}
static weir_status call_gather(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    return weir_gather_to(r, x, v, out);
}
static weir_status call_scatter(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    weir_tensor *part;
    weir_status st = weir_tensor_slice(x, 0, 0, weir_tensor_shape(x)[0] / RANKS, 1, &part);

    if (!st)
        st = weir_copy(part, out);
    if (!st)
        st = weir_scatter_from(r, weir_rank_index(r) == v ? x : NULL, v, *out);
    weir_tensor_release(part);
    return st;
}
/* Rank i has i rows fewer than there are. */
static weir_status call_gather_counts(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    int64_t counts[RANKS], rows = weir_tensor_shape(x)[0];
    weir_tensor *part;
    weir_status st;

    (void)v;
    for (int i = 0; i < RANKS; i++)
        counts[i] = rows > i ? rows - i : 0;
    if ((st = weir_tensor_slice(x, 0, 0, counts[weir_rank_index(r)], 1, &part)))
        return st;
    st = weir_all_gather_counts(r, part, counts, out);
    weir_tensor_release(part);
    return st;
}
static weir_status call_scatter_counts(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    int64_t counts[RANKS] = {0, weir_tensor_shape(x)[0] / 3, 0};

    counts[2] = weir_tensor_shape(x)[0] - counts[1];
    return weir_reduce_scatter_counts(r, x, (weir_reduce)v, counts, out);
}
/* A column of the matrix: not contiguous. */
static weir_status call_strided(weir_rank *r, weir_tensor *x, int v, weir_tensor **out)
{
    weir_tensor *t;
    weir_status st = weir_tensor_transpose(x, 0, 1, &t);

    if (!st)
        st = weir_all_reduce(r, t, (weir_reduce)v, out);
    weir_tensor_release(t);
    return st;
}

static const struct {
    const char *name;
    call_fn call;
    int variants;
} calls[] = {
    {"all_reduce", call_all_reduce, 5},
    {"all_reduce in place", call_in_place, 5},
    {"reduce_scatter", call_reduce_scatter, 5},
    {"reduce_to", call_reduce_to, 5},
    {"gather_to", call_gather, RANKS},
    {"scatter_from", call_scatter, RANKS},
    {"all_gather_counts", call_gather_counts, 1},
    {"reduce_scatter_counts", call_scatter_counts, 5},
    {"all_gather", call_all_gather, 1},
    {"broadcast", call_broadcast, RANKS},
    {"all_to_all", call_all_to_all, 1},
    {"all_to_all_counts", call_counts, 3},
    {"strided", call_strided, 1},
};

static void compare(weir_tensor *got, weir_tensor *want)
{
    size_t bytes = (size_t)weir_tensor_numel(want) * weir_dtype_size(weir_tensor_dtype(want));
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);

    CHECK_EQ(weir_tensor_numel(got), weir_tensor_numel(want));
    CHECK_OK(weir_tensor_read(got, a, bytes));
    CHECK_OK(weir_tensor_read(want, b, bytes));
    CHECK_MEM_EQ(a, b, bytes);
    free(a);
    free(b);
}

static void check_call(struct both *b, size_t c, int v, weir_dtype dtype, int64_t size)
{
    weir_tensor *x, *got, *out[MOST_KIDS];
    int64_t rows = size < RANKS ? size * RANKS : size / RANKS * RANKS, columns = size < 8 ? 3 : 2;

    test_note("%s %d of %s, %lld rows, rank %d", calls[c].name, v, weir_dtype_name(dtype),
              (long long)rows, b->self);
    for (int i = 0; i < b->n; i++) {
        x = input(b->dev[i], i, dtype, rows, columns);
        CHECK_OK(calls[c].call(weir_group_rank(b->local, i), x, v, &out[i]));
        weir_tensor_release(x);
    }
    x = input(b->own, b->self, dtype, rows, columns);
    CHECK_OK(calls[c].call(weir_group_self(b->remote), x, v, &got));
    compare(got, out[b->self]);
    weir_tensor_release(x);
    weir_tensor_release(got);
    for (int i = 0; i < b->n; i++)
        weir_tensor_release(out[i]);
}

SCENARIO(values)
{
    struct both b;

    open_both(&b);
    CHECK_STR_EQ(weir_group_engine(b.remote), getenv("WEIR_ENGINE") ? getenv("WEIR_ENGINE")
                                              : getenv("KID_FAR")   ? "mpi"
                                                                    : "shm");
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                if ((!TEST_SANITIZED && !getenv("KID_FEWER")) || sizes[s] < 1000 || !t)
                    check_call(&b, c, (int)(t + s) % calls[c].variants, types[t], sizes[s]);
    close_both(&b);
}

TEST(procs, collectives_between_processes_give_the_bits_of_one_process)
{
    kids_run(RANKS, "values", NULL);
}
