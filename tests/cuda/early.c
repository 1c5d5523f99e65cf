/* Kernels that are started while those before them end: which of a plan's are, and that nobody can
 * tell by the values. */
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

enum { POOL = 5, OPERATORS = 24, MOST = 512 };

struct work {
    weir_device *dev;
    weir_stream *s;
    const struct fake_control *fake;
    int64_t side;
    weir_tensor *in[POOL], *weight;
};

static void open_work(struct work *w, int major)
{
    *w = (struct work){.dev = NULL};
    if (major) {
        w->fake = use_fake();
        w->fake->set_major(major);
        CHECK_OK(weir_device_open("cuda:0", &w->dev));
    } else {
        w->dev = open_either("cuda:0", &w->fake);
    }
    w->s = weir_stream_default(w->dev);
    w->side = w->fake ? 16 : MOST;
    for (int i = 0; i < POOL; i++) {
        CHECK_OK(weir_tensor_empty(w->s, WEIR_F32, 2, (int64_t[]){w->side, w->side}, &w->in[i]));
        CHECK_OK(weir_random_normal(w->in[i], (uint64_t)i + 1, 0, 1));
    }
    w->weight = gpu_tensor(w->s, WEIR_F32, w->side, 0.5);
}

static void close_work(struct work *w)
{
    CHECK_OK(weir_device_sync(w->dev));
    for (int i = 0; i < POOL; i++)
        weir_tensor_release(w->in[i]);
    weir_tensor_release(w->weight);
    CHECK_OK(weir_device_close(w->dev));
}

static unsigned next_random(unsigned *state)
{
    return (*state = *state * 1664525u + 1013904223u) >> 8;
}

/* One operator: no two of them in a row become one kernel, unless they are of the first two. */
static weir_tensor *apply(unsigned kind, weir_tensor *x, weir_tensor *y, weir_tensor *weight)
{
    weir_tensor *out, *turned;

    switch (kind) {
    case 0:
        CHECK_OK(weir_add(x, y, &out));
        break;
    case 1:
        CHECK_OK(weir_sub(x, y, &out));
        break;
    case 2:
        CHECK_OK(weir_rms_norm(x, weight, 1e-5, &out));
        break;
    case 3:
        CHECK_OK(weir_softmax(x, 1, &out));
        break;
    default:
        CHECK_OK(weir_tensor_transpose(x, 0, 1, &turned));
        CHECK_OK(weir_copy(turned, &out));
        weir_tensor_release(turned);
    }
    return out;
}

/* Operators on what earlier ones gave, on so many streams: the same ones on however many. With
 * `alone` none is queued before the one before it is over. */
static void random_work(const struct work *w, unsigned seed, int lanes, bool alone,
                        weir_tensor **pool, weir_tensor *weight)
{
    static const char *const names[] = {"default", "a", "b"};

    for (int i = 0; i < OPERATORS; i++) {
        unsigned lane = next_random(&seed) % (unsigned)lanes, kind = next_random(&seed) % 5;
        unsigned x = next_random(&seed) % POOL, y = next_random(&seed) % POOL;
        weir_tensor *out;

        CHECK_OK(weir_scope_push_stream(names[lane], 0));
        out = apply(kind, pool[x], pool[y], weight);
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
        weir_tensor_release(pool[x]);
        pool[x] = out;
        if (alone)
            CHECK_OK(weir_stream_sync(w->s));
    }
}

static weir_plan *random_plan(const struct work *w, unsigned seed, int lanes)
{
    weir_tensor *pool[POOL], *weight;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(w->dev, &g));
    for (int i = 0; i < POOL; i++)
        CHECK_OK(weir_graph_input(g, (char[]){(char)('a' + i), 0}, WEIR_F32, 2,
                                  (int64_t[]){w->side, w->side}, &pool[i]));
    CHECK_OK(weir_graph_input(g, "weight", WEIR_F32, 1, &w->side, &weight));
    CHECK_OK(weir_graph_begin(g));
    random_work(w, seed, lanes, false, pool, weight);
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < POOL; i++) {
        CHECK_OK(weir_graph_output(g, (char[]){(char)('A' + i), 0}, pool[i]));
        weir_tensor_release(pool[i]);
    }
    weir_tensor_release(weight);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    return plan;
}

static void read_all(const struct work *w, weir_tensor *const *pool, float *to)
{
    int64_t n = w->side * w->side;

    for (int i = 0; i < POOL; i++)
        CHECK_OK(weir_tensor_read(pool[i], to + i * n, (size_t)n * sizeof *to));
}

static void release_all(weir_tensor **pool)
{
    for (int i = 0; i < POOL; i++)
        weir_tensor_release(pool[i]);
}

/* The bits of the operators one by one: in the plan, which runs twice, and queued in a row. */
static void check_seed(const struct work *w, unsigned seed, int lanes)
{
    size_t bytes = (size_t)(POOL * w->side * w->side) * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    weir_plan *plan = random_plan(w, seed, lanes);
    weir_tensor *in[POOL + 1], *pool[POOL], *out[POOL] = {NULL};

    test_note("seed %u, %d streams", seed, lanes);
    memcpy(in, w->in, sizeof w->in);
    in[POOL] = w->weight;
    for (int alone = 1; alone >= 0; alone--) {
        for (int i = 0; i < POOL; i++)
            pool[i] = weir_tensor_retain(w->in[i]);
        random_work(w, seed, 1, alone, pool, w->weight);
        read_all(w, pool, alone ? want : got);
        release_all(pool);
    }
    CHECK(!memcmp(want, got, bytes));
    for (int run = 0; run < 2; run++) {
        CHECK_OK(weir_plan_run(plan, w->s, in, POOL + 1, out, POOL));
        read_all(w, out, got);
        CHECK(!memcmp(want, got, bytes));
    }
    release_all(out);
    CHECK_OK(weir_device_sync(w->dev));
    weir_plan_destroy(plan);
    free(want);
    free(got);
}

TEST(cuda_early, random_plans_have_the_bits_of_their_operators_one_by_one)
{
    struct work w;

    open_work(&w, 0);
    for (unsigned seed = 0; seed < (w.fake ? 3 : 30); seed++)
        check_seed(&w, seed, 1 + (int)seed % 3);
    close_work(&w);
}

/* What is done behind the rows: nothing, or a product, and an operator behind that. */
static weir_plan *rows_plan(const struct work *w, int operators, bool product)
{
    weir_tensor *x, *weight, *y, *next;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(w->dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){w->side, w->side}, &x));
    CHECK_OK(weir_graph_input(g, "weight", WEIR_F32, 1, &w->side, &weight));
    CHECK_OK(weir_graph_begin(g));
    y = weir_tensor_retain(x);
    for (int i = 0; i < operators; i++) {
        next = apply(2 + (unsigned)i % 2, y, NULL, weight);
        weir_tensor_release(y);
        y = next;
    }
    if (product) {
        CHECK_OK(weir_matmul(y, x, &next));
        weir_tensor_release(y);
        y = apply(3, next, NULL, NULL);
        weir_tensor_release(next);
    }
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(weight);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    return plan;
}

/* The kinds of its edges, of which one is in front of a product. */
static void check_edges(const struct work *w, int operators, bool product, int early, int full)
{
    weir_plan *plan = rows_plan(w, operators, product);
    weir_tensor *in[] = {w->in[0], w->weight}, *out = NULL;
    int got[2];

    test_note("%d operators%s", operators, product ? ", a product" : "");
    CHECK_OK(weir_plan_run(plan, w->s, in, 2, &out, 1));
    CHECK_OK(weir_device_sync(w->dev));
    w->fake->edges(&got[0], &got[1]);
    CHECK_EQ(got[0], early);
    CHECK_EQ(got[1], full);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
}

TEST(cuda_early, kernels_of_a_plan_start_before_what_they_wait_for_has_ended_and_products_do_not)
{
    struct work w;

    open_work(&w, 9);
    check_edges(&w, 5, false, 4, 0);
    check_edges(&w, 3, true, 3, 1);
    close_work(&w);
}

TEST(cuda_early, a_gpu_that_cannot_start_kernels_early_is_not_asked_to)
{
    struct work w;

    open_work(&w, 8);
    check_edges(&w, 5, false, 0, 4);
    check_edges(&w, 3, true, 0, 4);
    check_seed(&w, 1, 2);
    close_work(&w);
}

/* Those that no case here launches as well. */
TEST(cuda_early, every_kernel_source_waits_for_earlier_kernels_first)
{
    const struct fake_control *fake = find_fake();
    int entries = 0;

    for (int i = 0; i < weir__cuda_nsources; i++) {
        test_note("%s", weir__cuda_sources[i].name);
        CHECK(fake->waits(weir__cuda_sources[i].text));
        entries += strstr(weir__cuda_sources[i].text, "__global__") != NULL;
    }
    CHECK_GT(entries, 20);
    CHECK(!fake->waits("extern \"C\" __global__ void f(int *p)\n{\n    *p = 1;\n}\n"));
}
