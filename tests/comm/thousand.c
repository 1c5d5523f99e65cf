/* Groups of more ranks than there is room for counts in a call, and of a thousand modelled ones. */
#include "helpers.h"

enum { RANKS = 120, MODELLED = TEST_SANITIZED ? 200 : 1024 };

/* ---- uneven exchanges, with values ---- */

struct crowd {
    weir_device *dev;
    weir_stream *streams[RANKS];
    weir_group *group;
};

static void crowd_open(struct crowd *c)
{
    weir_device *devices[RANKS];

    CHECK_OK(weir_device_open(is_modelled() ? "npu:a2" : "cpu:cores=2,op_timeout=20", &c->dev));
    for (int r = 0; r < RANKS; r++) {
        devices[r] = c->dev;
        CHECK_OK(weir_stream_create(c->dev, NULL, &c->streams[r]));
    }
    CHECK_OK(weir_group_create(
        devices, RANKS,
        &(weir_group_options){.mode = is_modelled() ? WEIR_COMM_SDMA : WEIR_COMM_VECTOR},
        &c->group));
}

static weir_rank *crowd_rank(struct crowd *c, int r)
{
    CHECK_OK(weir_stream_set_current(c->streams[r]));
    return weir_group_rank(c->group, r);
}

static void crowd_close(struct crowd *c)
{
    CHECK_OK(weir_stream_set_current(weir_stream_default(c->dev)));
    weir_device_sync(c->dev); /* may be in error */
    CHECK_OK(weir_group_destroy(c->group));
    for (int r = 0; r < RANKS; r++)
        weir_stream_destroy(c->streams[r]);
    CHECK_OK(weir_device_close(c->dev));
}

/* Rows that rank `from` has for rank `to`; those of row k are from * 10000 + to * 10 + k. */
static int64_t rows_for(int from, int to)
{
    return (from * 7 + to * 3) % 4;
}

static void fill_counts(int r, int64_t *send, int64_t *recv)
{
    for (int i = 0; i < RANKS; i++) {
        send[i] = rows_for(r, i);
        recv[i] = rows_for(i, r);
    }
}

static weir_tensor *rows_of(struct crowd *c, int r)
{
    int32_t data[4 * RANKS][2];
    int64_t n = 0;
    weir_tensor *x;

    for (int to = 0; to < RANKS; to++)
        for (int k = 0; k < rows_for(r, to); k++, n++)
            data[n][0] = -(data[n][1] = r * 10000 + to * 10 + k);
    CHECK_OK(weir_tensor_from(c->streams[r], WEIR_I32, 2, (int64_t[]){n, 2}, data, &x));
    return x;
}

static void check_rows(weir_tensor *y, int r)
{
    int32_t data[4 * RANKS][2];
    int64_t n = 0;

    CHECK_OK(weir_tensor_read(y, data, (size_t)weir_tensor_numel(y) * sizeof(int32_t)));
    for (int from = 0; from < RANKS; from++)
        for (int k = 0; k < rows_for(from, r); k++, n++) {
            CHECK_EQ(data[n][1], from * 10000 + r * 10 + k);
            CHECK_EQ(data[n][0], -data[n][1]);
        }
    CHECK_EQ(weir_tensor_shape(y)[0], n);
}

TEST(thousand, uneven_rows_of_more_than_a_hundred_ranks_are_exchanged)
{
    static weir_tensor *y[RANKS];
    int64_t send[RANKS], recv[RANKS];
    struct crowd c;

    if (is_gpu())
        test_skip("kernels of a GPU name 64 ranks at most");
    crowd_open(&c);
    for (int r = 0; r < RANKS; r++) {
        weir_rank *rank = crowd_rank(&c, r);
        weir_tensor *x = rows_of(&c, r);

        fill_counts(r, send, recv);
        CHECK_OK(weir_all_to_all_counts(rank, x, send, recv, &y[r]));
        weir_tensor_release(x);
    }
    CHECK_OK(weir_device_sync(c.dev));
    for (int r = 0; r < RANKS; r++) {
        check_rows(y[r], r);
        weir_tensor_release(y[r]);
    }
    crowd_close(&c);
}

/* A graph keeps the counts. */
TEST(thousand, an_uneven_exchange_of_more_than_a_hundred_ranks_is_replayed)
{
    static weir_plan *plans[RANKS];
    static weir_tensor *x[RANKS], *y[RANKS];
    int64_t send[RANKS], recv[RANKS];
    struct crowd c;

    if (is_gpu())
        test_skip("kernels of a GPU name 64 ranks at most");
    crowd_open(&c);
    for (int r = 0; r < RANKS; r++) {
        weir_rank *rank = crowd_rank(&c, r);
        weir_tensor *in, *out;
        weir_graph *g;

        x[r] = rows_of(&c, r);
        fill_counts(r, send, recv);
        CHECK_OK(weir_graph_create(c.dev, &g));
        CHECK_OK(weir_graph_input(g, "x", WEIR_I32, 2, weir_tensor_shape(x[r]), &in));
        CHECK_OK(weir_graph_begin(g));
        CHECK_OK(weir_all_to_all_counts(rank, in, send, recv, &out));
        CHECK_OK(weir_graph_end(g));
        CHECK_OK(weir_graph_output(g, "y", out));
        CHECK_OK(weir_graph_compile(g, NULL, &plans[r]));
        weir_tensor_release(in);
        weir_tensor_release(out);
        weir_graph_destroy(g);
    }
    for (int run = 0; run < 2; run++) {
        for (int r = 0; r < RANKS; r++) {
            y[r] = NULL;
            CHECK_OK(weir_plan_run(plans[r], c.streams[r], &x[r], 1, &y[r], 1));
        }
        CHECK_OK(weir_device_sync(c.dev));
        for (int r = 0; r < RANKS; r++) {
            check_rows(y[r], r);
            weir_tensor_release(y[r]);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        weir_plan_destroy(plans[r]);
        weir_tensor_release(x[r]);
    }
    crowd_close(&c);
}

/* All but the root give and get nothing. */
TEST(thousand, more_than_a_hundred_ranks_gather_to_one_and_scatter_from_it)
{
    enum { ROOT = 111 };
    static weir_tensor *all[RANKS], *back[RANKS];
    int32_t got[2 * RANKS];
    struct crowd c;

    if (is_gpu())
        test_skip("kernels of a GPU name 64 ranks at most");
    crowd_open(&c);
    for (int r = 0; r < RANKS; r++) {
        weir_tensor *x;

        CHECK_OK(weir_tensor_from(c.streams[r], WEIR_I32, 1, (int64_t[]){2},
                                  (int32_t[]){r, 1000 + r}, &x));
        CHECK_OK(weir_gather_to(crowd_rank(&c, r), x, ROOT, &all[r]));
        CHECK_OK(weir_tensor_empty(c.streams[r], WEIR_I32, 1, (int64_t[]){2}, &back[r]));
        CHECK_OK(weir_scatter_from(weir_group_rank(c.group, r), all[r], ROOT, back[r]));
        weir_tensor_release(x);
    }
    CHECK_OK(weir_device_sync(c.dev));
    for (int r = 0; r < RANKS; r++) {
        CHECK_EQ(weir_tensor_numel(all[r]), r == ROOT ? 2 * RANKS : 0);
        CHECK_OK(weir_tensor_read(back[r], got, 2 * sizeof *got));
        CHECK_EQ(got[0], r);
        CHECK_EQ(got[1], 1000 + r);
    }
    CHECK_OK(weir_tensor_read(all[ROOT], got, sizeof got));
    for (int r = 0; r < RANKS; r++)
        CHECK_EQ(got[2 * r + 1], 1000 + r);
    for (int r = 0; r < RANKS; r++) {
        weir_tensor_release(all[r]);
        weir_tensor_release(back[r]);
    }
    crowd_close(&c);
}

TEST(thousand, counts_of_more_than_a_hundred_ranks_that_differ_are_an_error_with_both_sides)
{
    int64_t send[RANKS], recv[RANKS];
    weir_tensor *out;
    struct crowd c;

    if (is_gpu())
        test_skip("kernels of a GPU name 64 ranks at most");
    crowd_open(&c);
    for (int r = 0; r < RANKS; r++) {
        weir_rank *rank = crowd_rank(&c, r);
        weir_tensor *x = rows_of(&c, r);

        fill_counts(r, send, recv);
        if (!r) {
            send[5]++;
            CHECK_STATUS(weir_all_to_all_counts(rank, x, send, recv, &out), WEIR_ESHAPE);
            send[5] = -1;
            CHECK_STATUS(weir_all_to_all_counts(rank, x, send, recv, &out), WEIR_ERANGE);
            fill_counts(r, send, recv);
        }
        recv[33] += r == 107;
        CHECK_OK(weir_all_to_all_counts(rank, x, send, recv, &out));
        weir_tensor_release(x);
        weir_tensor_release(out);
    }
    CHECK(weir_device_sync(c.dev));
    CHECK_EQ(weir_group_state(c.group), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "rank 33 sends 0 rows to rank 107, which expects 1 from it");
    crowd_close(&c);
}

/* ---- a device for each rank, on one clock ---- */

struct host {
    weir_device *devices[MODELLED];
    weir_group *group;
};

static void host_open(struct host *h)
{
    for (int r = 0; r < MODELLED; r++)
        CHECK_OK(weir_device_open("npu:a3,compute=off", &h->devices[r]));
    CHECK_OK(weir_group_create(h->devices, MODELLED, NULL, &h->group));
}

/* Every rank has come to the same time, later than `before`. */
static uint64_t host_sync(struct host *h, uint64_t before)
{
    uint64_t now;

    for (int r = 0; r < MODELLED; r++)
        CHECK_OK(weir_device_sync(h->devices[r]));
    now = weir_device_now(h->devices[0]);
    CHECK(now > before);
    CHECK_EQ(now, weir_device_now(h->devices[MODELLED - 1]));
    return now;
}

typedef void (*call_fn)(weir_rank *rank, weir_tensor *x, weir_tensor *other, const int64_t *ones,
                        weir_tensor **out);

static void call_all_reduce(weir_rank *rank, weir_tensor *x, weir_tensor *other,
                            const int64_t *ones, weir_tensor **out)
{
    (void)other, (void)ones;
    CHECK_OK(weir_all_reduce(rank, x, WEIR_REDUCE_SUM, out));
}
static void call_reduce(weir_rank *rank, weir_tensor *x, weir_tensor *other, const int64_t *ones,
                        weir_tensor **out)
{
    (void)other, (void)ones;
    CHECK_OK(weir_reduce_to(rank, x, WEIR_REDUCE_MAX, MODELLED - 1, out));
}
static void call_reduce_scatter(weir_rank *rank, weir_tensor *x, weir_tensor *other,
                                const int64_t *ones, weir_tensor **out)
{
    (void)other, (void)ones;
    CHECK_OK(weir_reduce_scatter(rank, x, WEIR_REDUCE_SUM, out));
}
static void call_reduce_scatter_counts(weir_rank *rank, weir_tensor *x, weir_tensor *other,
                                       const int64_t *ones, weir_tensor **out)
{
    (void)other;
    CHECK_OK(weir_reduce_scatter_counts(rank, x, WEIR_REDUCE_SUM, ones, out));
}
static void call_all_gather(weir_rank *rank, weir_tensor *x, weir_tensor *other,
                            const int64_t *ones, weir_tensor **out)
{
    (void)x, (void)ones;
    CHECK_OK(weir_all_gather(rank, other, out));
}
static void call_broadcast(weir_rank *rank, weir_tensor *x, weir_tensor *other, const int64_t *ones,
                           weir_tensor **out)
{
    (void)other, (void)ones;
    CHECK_OK(weir_broadcast(rank, x, MODELLED / 2, out));
}
static void call_all_to_all(weir_rank *rank, weir_tensor *x, weir_tensor *other,
                            const int64_t *ones, weir_tensor **out)
{
    (void)other, (void)ones;
    CHECK_OK(weir_all_to_all(rank, x, out));
}
static void call_counts(weir_rank *rank, weir_tensor *x, weir_tensor *other, const int64_t *ones,
                        weir_tensor **out)
{
    (void)other;
    CHECK_OK(weir_all_to_all_counts(rank, x, ones, ones, out));
}
static void call_gather_scatter(weir_rank *rank, weir_tensor *x, weir_tensor *other,
                                const int64_t *ones, weir_tensor **out)
{
    (void)x, (void)ones;
    CHECK_OK(weir_gather_to(rank, other, 77, out));
    CHECK_OK(weir_scatter_from(rank, *out, 77, other));
}
static void call_send_recv(weir_rank *rank, weir_tensor *x, weir_tensor *other, const int64_t *ones,
                           weir_tensor **out)
{
    int me = weir_rank_index(rank);

    (void)x, (void)ones;
    *out = NULL;
    if (me % 2)
        CHECK_OK(weir_recv(rank, other, me - 1));
    else
        CHECK_OK(weir_send(rank, other, me + 1));
}
static void call_barrier(weir_rank *rank, weir_tensor *x, weir_tensor *other, const int64_t *ones,
                         weir_tensor **out)
{
    (void)x, (void)other, (void)ones;
    *out = NULL;
    CHECK_OK(weir_barrier(rank));
}

TEST_TIMEOUT(thousand, modelled_ranks_run_every_collective_in_virtual_time, 300)
{
    static const struct {
        const char *name;
        call_fn call;
    } calls[] = {
        {"all-reduce", call_all_reduce},
        {"reduce", call_reduce},
        {"reduce-scatter", call_reduce_scatter},
        {"uneven reduce-scatter", call_reduce_scatter_counts},
        {"all-gather", call_all_gather},
        {"broadcast", call_broadcast},
        {"all-to-all", call_all_to_all},
        {"uneven all-to-all", call_counts},
        {"gather, scatter", call_gather_scatter},
        {"send, receive", call_send_recv},
        {"barrier", call_barrier},
    };
    static struct host h;
    static weir_tensor *x[MODELLED], *other[MODELLED];
    static int64_t ones[MODELLED];
    uint64_t now = 0;

    if (is_gpu() || is_modelled())
        test_skip("it needs devices of its own: the run on cpu has them");
    host_open(&h);
    for (int r = 0; r < MODELLED; r++) {
        weir_stream *s = weir_stream_default(h.devices[r]);

        ones[r] = 1;
        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){MODELLED}, &x[r]));
        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){1}, &other[r]));
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        test_note("%s", calls[i].name);
        for (int r = 0; r < MODELLED; r++) {
            weir_tensor *out = NULL;

            calls[i].call(weir_group_rank(h.group, r), x[r], other[r], ones, &out);
            weir_tensor_release(out);
        }
        now = host_sync(&h, now);
    }
    for (int r = 0; r < MODELLED; r++) {
        weir_tensor_release(x[r]);
        weir_tensor_release(other[r]);
    }
    CHECK_OK(weir_group_destroy(h.group));
    for (int r = 0; r < MODELLED; r++)
        CHECK_OK(weir_device_close(h.devices[r]));
}

TEST_TIMEOUT(thousand, modelled_ranks_dispatch_tokens_to_experts_and_combine_them, 300)
{
    enum { TOKENS = 2, K = 2, HIDDEN = 8, CAPACITY = 64 };
    static struct host h;
    static weir_tensor *rows[MODELLED], *positions[MODELLED], *experts[MODELLED];
    uint64_t now;

    if (is_gpu() || is_modelled())
        test_skip("it needs devices of its own: the run on cpu has them");
    host_open(&h);
    for (int r = 0; r < MODELLED; r++) {
        weir_stream *s = weir_stream_default(h.devices[r]);
        weir_tensor *x, *counts;

        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){TOKENS, HIDDEN}, &x));
        CHECK_OK(weir_tensor_empty(s, WEIR_I32, 2, (int64_t[]){TOKENS, K}, &experts[r]));
        CHECK_OK(weir_moe_dispatch(weir_group_rank(h.group, r), x, experts[r], MODELLED, CAPACITY,
                                   &rows[r], &counts, &positions[r]));
        weir_tensor_release(x);
        weir_tensor_release(counts);
    }
    now = host_sync(&h, 0);
    for (int r = 0; r < MODELLED; r++) {
        weir_stream *s = weir_stream_default(h.devices[r]);
        weir_tensor *weights, *out;

        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){TOKENS, K}, &weights));
        CHECK_OK(weir_moe_combine(weir_group_rank(h.group, r), rows[r], experts[r], MODELLED,
                                  positions[r], weights, &out));
        weir_tensor_release(weights);
        weir_tensor_release(out);
    }
    host_sync(&h, now);
    for (int r = 0; r < MODELLED; r++) {
        weir_tensor_release(rows[r]);
        weir_tensor_release(positions[r]);
        weir_tensor_release(experts[r]);
    }
    CHECK_OK(weir_group_destroy(h.group));
    for (int r = 0; r < MODELLED; r++)
        CHECK_OK(weir_device_close(h.devices[r]));
}
