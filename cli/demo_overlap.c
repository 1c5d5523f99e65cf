/* Two chains of matrix products that need nothing from each other. */
#include "demo.h"

#include <math.h>

enum { CHAINS = 2, LENGTH = 8, SIZE = 256 };

struct chains {
    weir_stream *streams[CHAINS];
    weir_tensor *start[CHAINS], *weight[CHAINS];
};

/* Queues one chain on `stream`; its last product is the caller's. */
static weir_tensor *queue_chain(const struct chains *p, int chain, weir_stream *stream,
                                struct demo_run *run)
{
    weir_tensor *x = weir_tensor_retain(p->start[chain]);

    demo_must(weir_stream_set_current(stream));
    for (int i = 0; i < LENGTH; i++) {
        struct demo_span *span = demo_span_begin(run, stream, chain ? "b" : "a", chain);
        weir_tensor *y;

        demo_must(weir_matmul(x, p->weight[chain], &y));
        demo_span_end(span, stream);
        weir_tensor_release(x); /* the product that is queued keeps its bytes */
        x = y;
    }
    return x;
}

static void record(const struct chains *p, weir_stream *const *streams, struct demo_run *run,
                   float *values)
{
    weir_tensor *ends[CHAINS];

    demo_run_begin(run, streams[0]);
    for (int i = 0; i < CHAINS; i++)
        ends[i] = queue_chain(p, i, streams[i], run);
    demo_run_end(run);
    for (int i = 0; i < CHAINS; i++) {
        demo_must(weir_tensor_read(ends[i], values + i * SIZE * SIZE, SIZE * SIZE * sizeof *values));
        weir_tensor_release(ends[i]);
    }
}

static void record_one(void *program, struct demo_run *run, float *values)
{
    const struct chains *p = program;

    record(p, (weir_stream *[]){p->streams[0], p->streams[0]}, run, values);
}

static void record_two(void *program, struct demo_run *run, float *values)
{
    const struct chains *p = program;

    record(p, p->streams, run, values);
}

static void make(struct chains *p, weir_device *dev)
{
    static const char *const tags[CHAINS] = {"left", "right"};
    static const int64_t shape[2] = {SIZE, SIZE};

    for (int i = 0; i < CHAINS; i++) {
        demo_must(weir_stream_tagged(dev, tags[i], 0, &p->streams[i]));
        demo_must(weir_stream_set_limit(p->streams[i], (weir_cores){1, 1}));
        demo_must(weir_stream_set_current(p->streams[i]));
        demo_must(weir_tensor_empty(p->streams[i], WEIR_F32, 2, shape, &p->start[i]));
        demo_must(weir_tensor_empty(p->streams[i], WEIR_F32, 2, shape, &p->weight[i]));
        demo_must(weir_random_normal(p->start[i], (uint64_t)i, 0, 1));
        /* Keeps the products at the size of what they start from. */
        demo_must(weir_random_normal(p->weight[i], (uint64_t)i + 10, 0, 1 / sqrt(SIZE)));
    }
    demo_must(weir_device_sync(dev));
}

bool demo_overlap(weir_device *dev, struct json *j)
{
    static const struct demo_form forms[] = {{"1 stream", record_one}, {"2 streams", record_two}};
    struct demo_comparison c;
    struct chains p;
    bool same;

    make(&p, dev);
    demo_compare(dev, forms, 2, &p, (size_t)CHAINS * SIZE * SIZE, &c);
    if (j) {
        json_object(j, "overlap");
        demo_comparison_json(&c, j);
        json_object_end(j);
    } else {
        demo_headline(1, "Two streams",
                      "Two chains, a and b, of 8 products of 256 x 256 matrices. Within a chain each "
                      "product needs the one before; the chains need nothing from each other. Each "
                      "product is held to one core by a core limit. Measured by events:");
        demo_comparison_print(&c);
    }
    same = c.same;
    demo_comparison_free(&c);
    for (int i = 0; i < CHAINS; i++) {
        weir_stream_reset_limit(p.streams[i]);
        weir_tensor_release(p.start[i]);
        weir_tensor_release(p.weight[i]);
    }
    demo_must(weir_stream_set_current(weir_stream_default(dev)));
    return same;
}
