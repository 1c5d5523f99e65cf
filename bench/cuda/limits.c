/* Measures core limits: two products side by side, a product beside an operator that is bound by
 * memory; and the same two products on the bare driver's green contexts. */
#include "cuda/product/product.h"
#include "figures.h"

enum { SIZE = 4096, CORES = 64 };
static const char work[] = "limits, 4096^3 f16";

struct set {
    weir_stream *s[2];
    weir_tensor *a[2], *b[2], *c[2], *from, *to;
};

static void product(const struct set *x, int i)
{
    check(weir_stream_set_current(x->s[i]));
    check(weir_matmul_into(x->a[i], x->b[i], x->c[i]));
}

static void both_products(const struct set *x)
{
    product(x, 0);
    product(x, 1);
}

static void addition(const struct set *x)
{
    check(weir_stream_set_current(x->s[1]));
    check(weir_add_into(x->from, x->from, x->to));
}

/* Two products on two streams; the plan is tuned to find the fastest kernels for both together. */
static weir_plan *plan_of_two(weir_device *dev, int cores)
{
    static const char *const names[2][3] = {{"a0", "b0", "c0"}, {"a1", "b1", "c1"}};
    const int64_t shape[] = {SIZE, SIZE};
    weir_tensor *a, *b, *c;
    weir_graph *g;
    weir_plan *plan;

    check(weir_graph_create(dev, &g));
    for (int i = 0; i < 2; i++) {
        check(weir_graph_input(g, names[i][0], WEIR_F16, 2, shape, &a));
        check(weir_graph_input(g, names[i][1], WEIR_F16, 2, shape, &b));
        check(weir_graph_begin(g));
        check(weir_scope_push_stream(i ? "side" : "default", 0));
        check(weir_scope_push_cores((weir_cores){cores, cores}));
        check(weir_matmul(a, b, &c));
        check(weir_scope_pop(WEIR_SCOPE_CORES));
        check(weir_scope_pop(WEIR_SCOPE_STREAM));
        check(weir_graph_end(g));
        check(weir_graph_output(g, names[i][2], c));
        weir_tensor_release(a);
        weir_tensor_release(b);
        weir_tensor_release(c);
    }
    check(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    return plan;
}

/* Also runs it once, which tunes the products for calls outside of plans. */
static void planned(weir_device *dev, const struct set *x, int cores, const char *with)
{
    weir_plan *plan = plan_of_two(dev, cores);
    weir_tensor *in[] = {x->a[0], x->b[0], x->a[1], x->b[1]}, *out[2] = {NULL, NULL};
    weir_stream *s = weir_stream_default(dev);
    char text[64];

    check(weir_plan_run(plan, s, in, 4, out, 2));
    check(weir_device_sync(dev));
    snprintf(text, sizeof text, "two side by side in a plan, %s", with);
    THROUGHPUT(work, text, "us", 40, check(weir_plan_run(plan, s, in, 4, out, 2)),
               weir_device_sync(dev));
    weir_plan_destroy(plan);
    weir_tensor_release(out[0]);
    weir_tensor_release(out[1]);
}

static void measure(weir_device *dev, const struct set *x, const char *with)
{
    char text[64];

    both_products(x);
    addition(x);
    check(weir_device_sync(dev));
    snprintf(text, sizeof text, "one product, %s", with);
    THROUGHPUT(work, text, "us", 40, product(x, 0), weir_device_sync(dev));
    snprintf(text, sizeof text, "two side by side, %s", with);
    THROUGHPUT(work, text, "us", 40, both_products(x), weir_device_sync(dev));
    snprintf(text, sizeof text, "one product, once, %s", with);
    ONCE(work, text, product(x, 0), weir_device_sync(dev));
    snprintf(text, sizeof text, "two side by side, once, %s", with);
    ONCE(work, text, both_products(x), weir_device_sync(dev));
    snprintf(text, sizeof text, "one 3 GB add, %s", with);
    THROUGHPUT(work, text, "us", 20, addition(x), weir_device_sync(dev));
    snprintf(text, sizeof text, "four products beside the add, %s", with);
    THROUGHPUT(
        work, text, "us for all", 20,
        {
            for (int k = 0; k < 4; k++)
                product(x, 0);
            addition(x);
        },
        weir_device_sync(dev));
}

/* ---- the bare driver ---- */

static void green_streams(struct bare *b, weir__cu_stream *out)
{
    const struct weir__cu *cu = &b->api->cu;
    struct weir__cu_resource all, rest, parts[2];
    weir__cu_descriptor descriptor;
    weir__cu_green green;
    weir__cu_device device;
    unsigned n = 2;

    bare_check(cu->device_get(&device, 0));
    bare_check(cu->device_resource(device, &all, CU_RESOURCE_SM));
    bare_check(cu->resource_split(parts, &n, &all, &rest, 0, CORES));
    for (int i = 0; i < 2; i++) {
        bare_check(cu->resource_descriptor(&descriptor, &parts[i], 1));
        bare_check(cu->green_create(&green, descriptor, device, CU_GREEN_DEFAULT_STREAM));
        bare_check(cu->green_stream(&out[i], green, CU_STREAM_NON_BLOCKING, 0));
    }
}

/* The same kernel that the limited streams have just run. */
static const struct weir__cuda_product *limited_product(const struct weir__cuda *dev)
{
    const struct weir__cuda_product *p = NULL;

    for (size_t i = 0; i < weir__countof(dev->products.lists) && !p; i++)
        for (p = dev->products.lists[i]; p; p = p->next)
            if (p->key.cores == CORES && p->key.m == SIZE)
                break;
    return p;
}

static void bare_products(struct bare *b, weir_device *dev, const struct set *x)
{
    const struct weir__cuda_product *p = limited_product(weir__cuda_of(dev));
    struct weir__cuda_sink sink[2] = {{.dev = weir__cuda_of(dev)}, {.dev = weir__cuda_of(dev)}};
    const struct weir__product no_stack = {.ndims = 0};
    void *workspace[2] = {NULL, NULL};
    weir__cu_stream streams[2];

    if (!p)
        return;
    green_streams(b, streams);
    for (int i = 0; i < 2; i++) {
        sink[i].stream = streams[i];
        sink[i].workspace = &workspace[i];
        check(weir__cuda_product_workspace(&sink[i]));
    }
#define BARE_PRODUCT(i)                                                                          \
    bare_check(weir__cuda_product_multiply(&sink[i], p, p->best, &no_stack,                      \
                                           weir_tensor_data(x->a[i]), weir_tensor_data(x->b[i]), \
                                           weir_tensor_data(x->c[i])))
    THROUGHPUT(work, "bare: one product, 64 cores each", "us", 40, BARE_PRODUCT(0), bare_sync(b));
    THROUGHPUT(
        work, "bare: two side by side, 64 cores each", "us", 40,
        {
            BARE_PRODUCT(0);
            BARE_PRODUCT(1);
        },
        bare_sync(b));
    ONCE(work, "bare: one product, once, 64 cores each", BARE_PRODUCT(0), bare_sync(b));
    ONCE(
        work, "bare: two side by side, once, 64 cores each",
        {
            BARE_PRODUCT(0);
            BARE_PRODUCT(1);
        },
        bare_sync(b));
}

void limits(struct bare *b, weir_device *dev)
{
    const int64_t big = (int64_t)1 << 28;
    struct set x;

    for (int i = 0; i < 2; i++) {
        check(weir_stream_create(dev, NULL, &x.s[i]));
        x.a[i] = random_matrix(x.s[i], WEIR_F16, SIZE, SIZE);
        x.b[i] = random_matrix(x.s[i], WEIR_F16, SIZE, SIZE);
        check(weir_tensor_empty(x.s[i], WEIR_F16, 2, (int64_t[]){SIZE, SIZE}, &x.c[i]));
    }
    check(weir_tensor_empty(x.s[1], WEIR_F32, 1, &big, &x.from));
    check(weir_tensor_empty(x.s[1], WEIR_F32, 1, &big, &x.to));
    check(weir_fill(x.from, 1));
    check(weir_device_sync(dev));
    planned(dev, &x, -1, "no limits");
    measure(dev, &x, "no limits");
    for (int i = 0; i < 2; i++)
        check(weir_stream_set_limit(x.s[i], (weir_cores){CORES, CORES}));
    planned(dev, &x, CORES, "64 cores each");
    measure(dev, &x, "64 cores each");
    bare_products(b, dev, &x);
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(x.a[i]);
        weir_tensor_release(x.b[i]);
        weir_tensor_release(x.c[i]);
        weir_stream_destroy(x.s[i]);
    }
    weir_tensor_release(x.from);
    weir_tensor_release(x.to);
    check(weir_stream_set_current(weir_stream_default(dev)));
}
