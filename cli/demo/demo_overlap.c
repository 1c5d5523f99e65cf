/* Two independent chains of matrix products. */
#include "demo/demo.h"

#include <math.h>

enum { CHAINS = 2, LENGTH = 8, SIZE = 256 };

struct chains {
    weir_tensor *start[CHAINS], *weight[CHAINS];
};

/* Queues one chain on `stream`. Returns its last product, which the caller owns. */
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
        weir_tensor_release(x); /* the queued product keeps its memory alive */
        x = y;
    }
    return x;
}

static void record(const void *data, weir_stream *a, weir_stream *b, struct demo_run *run,
                   float *values)
{
    weir_stream *streams[CHAINS] = {a, b};
    weir_tensor *ends[CHAINS];

    demo_run_begin(run, a);
    for (int i = 0; i < CHAINS; i++)
        ends[i] = queue_chain(data, i, streams[i], run);
    demo_run_end(run);
    for (int i = 0; i < CHAINS; i++) {
        demo_must(
            weir_tensor_read(ends[i], values + i * SIZE * SIZE, SIZE * SIZE * sizeof *values));
        weir_tensor_release(ends[i]);
    }
}

static void make(struct chains *p, weir_device *dev)
{
    static const int64_t shape[2] = {SIZE, SIZE};

    for (int i = 0; i < CHAINS; i++) {
        demo_must(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &p->start[i]));
        demo_must(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &p->weight[i]));
        demo_must(weir_random_normal(p->start[i], (uint64_t)i, 0, 1));
        /* This scale keeps the magnitude of the products constant along the chain. */
        demo_must(weir_random_normal(p->weight[i], (uint64_t)i + 10, 0, 1 / sqrt(SIZE)));
    }
    demo_must(weir_device_sync(dev));
}

bool demo_overlap(weir_device *dev, struct json *j)
{
    struct chains p;
    struct demo_comparison c;

    make(&p, dev);
    demo_compare(dev, &(struct demo_program){record, &p, (size_t)CHAINS * SIZE * SIZE}, &c);
    for (int i = 0; i < CHAINS; i++) {
        weir_tensor_release(p.start[i]);
        weir_tensor_release(p.weight[i]);
    }
    if (j) {
        demo_comparison_json(&c, "overlap", j);
        return c.same;
    }
    demo_headline(2, "Two chains of operators",
                  "Each chain is %d products of %d x %d matrices, one after the other. The two "
                  "chains are independent. Core limits and runs as above:",
                  LENGTH, SIZE, SIZE);
    demo_comparison_print(&c);
    return c.same;
}
