/* What comes from the host and goes to it, limits, and streams that come and go. */
#include "conformance/eager/eager.h"

#include <stdlib.h>

/* Host memory that queued work reads or writes; freed, and compared with what is wanted, when all
 * is over. */
struct pending {
    struct pending *next;
    void *bytes, *want;
    size_t size;
    const char *what;
};

static struct pending *hold(struct machine *m, void *bytes, void *want, size_t size,
                            const char *what)
{
    struct pending *p = malloc(sizeof *p);

    *p = (struct pending){m->pending, bytes, want, size, what};
    return m->pending = p;
}

void check_pending(struct machine *m)
{
    while (m->pending) {
        struct pending *p = m->pending;

        if (p->want && memcmp(p->bytes, p->want, p->size))
            FAIL("%s gave other bytes", p->what);
        m->pending = p->next;
        free(p->bytes);
        free(p->want);
        free(p);
    }
}

/* Callbacks come once, before all is over. */
static void called(void *user, weir_status status)
{
    char *calls = user;

    *calls = (char)(*calls + (status ? 2 : 1));
}

void do_callback(struct machine *m)
{
    char *calls = calloc(1, 1), *once = malloc(1);

    *once = 1;
    CHECK_OK(weir_stream_callback(m->streams[m->at], called, calls));
    hold(m, calls, once, 1, "a callback");
}

static void *wanted_bytes(struct machine *m, const struct picked *p)
{
    int64_t *values = malloc(sizeof *values * (size_t)(p->n + 1));
    void *bytes;

    for (int64_t i = 0; i < p->n; i++)
        values[i] = value_at(m, p, i);
    bytes = to_bytes(m->type, values, p->n);
    free(values);
    return bytes;
}

void do_fresh(struct machine *m)
{
    static _Thread_local int64_t values[MOST];
    int ndim = (int)rng_int(&m->rng, 0, 3);
    int64_t shape[DIMS], n = 1, left = rng_chance(&m->rng, 12) ? MOST : 300;
    weir_tensor *t;
    void *bytes;

    for (int d = 0; d < ndim; d++) {
        shape[d] = rng_int(&m->rng, 1, d + 1 < ndim && left > 40 ? 40 : left);
        left /= shape[d];
        if (rng_chance(&m->rng, 3))
            shape[d] = 0;
        n *= shape[d];
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = some_value(m);
    bytes = to_bytes(m->type, values, n);
    if (rng_chance(&m->rng, 60)) {
        CHECK_OK(weir_tensor_from(m->streams[m->at], m->type, ndim, shape, bytes, &t));
        free(bytes);
    } else {
        CHECK_OK(weir_tensor_empty(m->streams[m->at], m->type, ndim, shape, &t));
        CHECK_OK(weir_tensor_write_async(t, bytes, (size_t)n * weir_dtype_size(m->type)));
        hold(m, bytes, NULL, 0, "a write");
    }
    put_new(m, t, values);
}

static void pick_view(struct machine *m, struct picked *p)
{
    pick_any(m, (int)rng_int(&m->rng, 0, SLOTS - 1), DIMS, p);
}

/* Waits by itself, for every stream. */
void do_read(struct machine *m)
{
    struct picked p;
    size_t size;
    void *got, *want;

    pick_view(m, &p);
    size = (size_t)p.n * weir_dtype_size(m->type);
    got = malloc(size + 1);
    want = wanted_bytes(m, &p);
    CHECK_OK(weir_tensor_read(p.t, got, size));
    CHECK_MEM_EQ(got, want, size);
    free(got);
    free(want);
    picked_free(&p);
}

void do_read_async(struct machine *m)
{
    struct picked p;
    size_t size;
    void *got;

    pick_view(m, &p);
    size = (size_t)p.n * weir_dtype_size(m->type);
    got = calloc(1, size + 1);
    before_read(m, p.slot);
    CHECK_OK(weir_tensor_read_async(p.t, got, size));
    after_read(m, p.slot);
    hold(m, got, wanted_bytes(m, &p), size, "a read");
    picked_free(&p);
}

void do_write(struct machine *m)
{
    static _Thread_local int64_t values[MOST];
    bool wait = rng_chance(&m->rng, 50);
    struct picked p;
    void *bytes;
    size_t size;

    pick_view(m, &p);
    if (!is_plain(&p)) {
        picked_free(&p);
        return;
    }
    for (int64_t i = 0; i < p.n; i++)
        values[i] = m->slots[p.slot].want[p.cells[i]] = some_value(m);
    bytes = to_bytes(m->type, values, p.n);
    size = (size_t)p.n * weir_dtype_size(m->type);
    before_write(m, p.slot);
    if (wait) {
        CHECK_OK(weir_tensor_write(p.t, bytes, size));
        memset(bytes, 0x5a, size);
        free(bytes);
        after_host_write(m, p.slot);
    } else {
        CHECK_OK(weir_tensor_write_async(p.t, bytes, size));
        hold(m, bytes, NULL, 0, "a write");
        after_write(m, p.slot);
    }
    picked_free(&p);
}

struct host_sum {
    weir_dtype type;
    int ndim;
    int64_t shape[DIMS], stride[DIMS], n;
};

/* The elements in the other order. */
static weir_status turn_round(void *user, void *const *in, void *const *out)
{
    const struct host_sum *h = user;
    int64_t index[DIMS] = {0}, i = h->n;
    size_t size = weir_dtype_size(h->type);

    for (bool more = h->n > 0; more; more = step_index(h->ndim, h->shape, index)) {
        int64_t at = 0;

        for (int d = 0; d < h->ndim; d++)
            at += index[d] * h->stride[d];
        i--;
        memcpy((char *)out[0] + (size_t)i * size, (const char *)in[0] + (size_t)at * size, size);
    }
    return WEIR_OK;
}

void do_host_call(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    struct host_sum *h = calloc(1, sizeof *h);
    weir_host_call call = {.size = sizeof call, .name = "turn", .fn = turn_round, .user = h};
    struct picked p;
    weir_tensor *out;

    pick_view(m, &p);
    h->type = m->type;
    h->ndim = p.ndim;
    h->n = p.n;
    memcpy(h->shape, p.shape, sizeof p.shape);
    memcpy(h->stride, weir_tensor_strides(p.t), sizeof(int64_t) * (size_t)p.ndim);
    call.nout = 1;
    call.out[0].dtype = m->type;
    call.out[0].ndim = p.ndim;
    memcpy(call.out[0].shape, p.shape, sizeof(int64_t) * (size_t)p.ndim);
    before_read(m, p.slot);
    CHECK_OK(weir_host_run(&call, &p.t, 1, &out));
    after_read(m, p.slot);
    for (int64_t i = 0; i < p.n; i++)
        made[i] = value_at(m, &p, p.n - 1 - i);
    hold(m, h, NULL, 0, "a host call");
    picked_free(&p);
    put_new(m, out, made);
}

void do_limit(struct machine *m)
{
    weir_device_props props;

    weir_device_get_props(m->dev, &props, sizeof props);
    if (rng_chance(&m->rng, 30))
        weir_stream_reset_limit(m->streams[m->at]);
    else
        CHECK_OK(weir_stream_set_limit(m->streams[m->at],
                                       (weir_cores){(int)rng_int(&m->rng, 1, props.cores.cube),
                                                    (int)rng_int(&m->rng, 1, props.cores.vector)}));
}

/* The old one goes with work still queued on it. */
void do_new_stream(struct machine *m)
{
    weir_stream *old = m->streams[m->at], *next;

    CHECK_OK(weir_stream_create(
        m->dev, &(weir_stream_options){.priority = (int)rng_int(&m->rng, -8, 7)}, &next));
    order(old, next);
    CHECK_OK(weir_stream_set_current(next));
    m->streams[m->at] = next;
    CHECK_OK(weir_stream_destroy(old));
}

void do_rest(struct machine *m)
{
    bool done;

    switch (rng_int(&m->rng, 0, 4)) {
    case 0:
        CHECK_OK(weir_memory_empty_cache(m->dev));
        break;
    case 1:
        CHECK_OK(weir_stream_sync(m->streams[m->at]));
        break;
    case 2:
        CHECK_OK(weir_stream_query(m->streams[rng_int(&m->rng, 0, STREAMS - 1)], &done));
        break;
    case 3:
        if (m->slots[0].writer >= 0)
            CHECK_OK(weir_event_sync(m->slots[0].written));
        break;
    default:
        CHECK_OK(weir_tensor_sync(m->slots[rng_int(&m->rng, 0, SLOTS - 1)].t));
    }
}
