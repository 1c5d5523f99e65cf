/* The soak's tensors: results that are allocated and freed, read by streams of other threads, run
 * through plans, under limits that change. Their values are compared with a serial reference: the
 * thread that queues computes each value itself, one step after the other. */
#include "soak.h"

#include <stdlib.h>

enum { PLAN_ELEMENTS = 256, GRAIN = 512 };

/* Up to the pool's small sizes, and beyond. */
static const int64_t sizes[] = {1, 64, 200, 1000, 1000, 4096, 8192, 20000};

static weir_tensor *filled(weir_stream *s, int64_t n, int64_t value)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_I64, 1, &n, &t));
    CHECK_OK(weir_fill(t, (double)value));
    return t;
}

/* The first element, which broadcasts. */
static weir_tensor *first_of(weir_tensor *t)
{
    weir_tensor *first;

    CHECK_OK(weir_tensor_slice(t, 0, 0, 1, 1, &first));
    return first;
}

static void replace(struct held *h, weir_tensor *t, int64_t value)
{
    weir_tensor_release(h->tensor);
    h->tensor = t;
    h->value = value;
}

static int64_t times3(int64_t value)
{
    return (int64_t)((uint64_t)value * 3);
}

static void multiply(struct held *h)
{
    weir_tensor *t;

    CHECK_OK(weir_mul_scalar(h->tensor, 3, &t));
    replace(h, t, times3(h->value));
}

/* Reads a tensor that another stream has computed. The caller may release it at once. */
static void combine(struct soak *soak, struct held *h, const struct held *other)
{
    weir_tensor *first = first_of(other->tensor), *t;

    CHECK_OK(weir_stream_wait_stream(soak->streams[h->stream], soak->streams[other->stream]));
    CHECK_OK(weir_bitwise_xor(h->tensor, first, &t));
    weir_tensor_release(first);
    replace(h, t, h->value ^ other->value);
}

/* Gives its tensor to whichever thread comes next, and takes what another one left. */
static void exchange(struct submitter *me, struct held *h)
{
    struct soak *soak = me->soak;
    struct held mine = *h, *slot = &soak->shown[draw(me) % SUBMITTERS], theirs;

    weir_tensor_retain(mine.tensor);
    pthread_mutex_lock(&soak->lock);
    theirs = *slot;
    *slot = mine;
    pthread_mutex_unlock(&soak->lock);
    if (!theirs.tensor) { /* two handles of one tensor would count twice */
        multiply(h);
        return;
    }
    combine(soak, h, &theirs);
    weir_tensor_release(theirs.tensor);
}

static void resize(struct submitter *me, struct held *h)
{
    int64_t n = sizes[draw(me) % (sizeof sizes / sizeof *sizes)];
    weir_tensor *first = first_of(h->tensor);
    weir_tensor *zeros = filled(me->soak->streams[h->stream], n, 0), *t;

    CHECK_OK(weir_bitwise_xor(zeros, first, &t));
    weir_tensor_release(zeros);
    weir_tensor_release(first);
    replace(h, t, h->value);
}

static void set_limit(struct submitter *me, weir_stream *s)
{
    int cores = 2 + (int)(draw(me) % (uint64_t)(me->soak->cores - 1)); /* gangs have two blocks */

    if (draw(me) % 4 == 0)
        weir_stream_reset_limit(s);
    else
        CHECK_OK(weir_stream_set_limit(s, (weir_cores){cores, cores}));
}

static void multiply_on_cores(struct submitter *me, struct held *h)
{
    int cores = 1 + (int)(draw(me) % (uint64_t)me->soak->cores);

    CHECK_OK(weir_scope_push_cores((weir_cores){cores, cores}));
    multiply(h);
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
}

static void run_plan(struct submitter *me)
{
    weir_tensor *out = NULL;

    CHECK_OK(weir_plan_run(me->plan, me->soak->streams[me->planned.stream], &me->planned.tensor, 1,
                           &out, 1));
    replace(&me->planned, out, times3(me->planned.value) ^ times3(times3(me->planned.value)));
}

void soak_tensors_step(struct submitter *me, int own)
{
    struct soak *soak = me->soak;
    struct held *h = &me->held[own];
    uint64_t r = draw(me) >> 20;

    CHECK_OK(weir_stream_set_current(soak->streams[h->stream]));
    switch (r % 16) {
    case 0:
        combine(soak, h, &me->held[(own + 1 + (int)((r >> 4) % (OWN - 1))) % OWN]);
        break;
    case 1:
        exchange(me, h);
        break;
    case 2:
        resize(me, h);
        break;
    case 3:
        set_limit(me, soak->streams[h->stream]);
        break;
    case 4:
        multiply_on_cores(me, h);
        break;
    case 5:
        run_plan(me);
        break;
    default:
        multiply(h);
    }
}

static void check_held(const struct held *h)
{
    size_t n = (size_t)weir_tensor_numel(h->tensor);
    int64_t *values = malloc(n * sizeof *values);

    CHECK(values != NULL);
    CHECK_OK(weir_tensor_read(h->tensor, values, n * sizeof *values));
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(values[i], h->value);
    free(values);
}

void soak_tensors_check(const struct submitter *me, int own)
{
    check_held(&me->held[own]);
    if (me->held[own].stream == me->planned.stream)
        check_held(&me->planned);
}

/* out = 3 x ^ 9 x, each side on a stream of its own. */
static weir_plan *make_plan(weir_device *dev)
{
    int64_t n = PLAN_ELEMENTS;
    weir_tensor *x, *three, *nine, *out;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_I64, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_stream("soak-left", 0));
    CHECK_OK(weir_mul_scalar(x, 3, &three));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_scope_push_stream("soak-right", 0));
    CHECK_OK(weir_mul_scalar(x, 9, &nine));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_bitwise_xor(three, nine, &out));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "out", out));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(three);
    weir_tensor_release(nine);
    weir_tensor_release(out);
    weir_graph_destroy(g);
    return plan;
}

void soak_tensors_begin(struct submitter *me)
{
    for (int own = 0; own < OWN; own++) {
        int k = me->index * OWN + own;

        CHECK_OK(weir_stream_set_current(me->soak->streams[k]));
        me->held[own] = (struct held){filled(me->soak->streams[k], 64, k + 1), k, k + 1};
    }
    me->planned = me->held[0];
    CHECK_OK(weir_stream_set_current(me->soak->streams[me->planned.stream]));
    me->planned.tensor =
        filled(me->soak->streams[me->planned.stream], PLAN_ELEMENTS, me->planned.value);
    me->plan = make_plan(me->soak->dev);
}

static size_t bytes_of(const weir_tensor *t)
{
    size_t bytes = t ? (size_t)weir_tensor_numel(t) * sizeof(int64_t) : 0;

    return (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

size_t soak_tensors_bytes(const struct submitter *me)
{
    size_t bytes = bytes_of(me->planned.tensor);
    weir_plan_stats plan;

    weir_plan_get_stats(me->plan, &plan, sizeof plan);
    bytes += plan.instances * plan.arena_bytes;
    for (int own = 0; own < OWN; own++)
        bytes += bytes_of(me->held[own].tensor);
    return bytes;
}

size_t soak_tensors_shown(const struct soak *soak)
{
    size_t bytes = 0;

    for (int i = 0; i < SUBMITTERS; i++)
        bytes += bytes_of(soak->shown[i].tensor);
    return bytes;
}

void soak_tensors_end(struct submitter *me)
{
    weir_plan_destroy(me->plan);
    weir_tensor_release(me->planned.tensor);
    for (int own = 0; own < OWN; own++)
        weir_tensor_release(me->held[own].tensor);
    weir_tensor_release(me->soak->shown[me->index].tensor);
}
