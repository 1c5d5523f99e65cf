/* Repeated products outside of plans: the same call, at the same addresses, on the same CUDA
 * stream. The library takes longer to queue a product than a graph launch takes. So a call that was
 * made a few times is captured, and from then on it is one launch of a graph.
 *
 * Each stream has a hash table of calls; a new call replaces the call with the same hash. */
#include <string.h>

#include "cuda/product/product.h"

enum { REPEATS = 128, FEW = 3 };

/* Identifies a call. The product stands for everything in its key. */
struct call {
    const struct weir__cuda_product *product;
    weir__cu_stream stream;
    const char *a, *b, *bias;
    char *c;
    int64_t a_step, b_step, c_step, algorithm;
};

struct weir__cuda_repeat {
    struct call call;
    int seen;     /* how often it was made, up to FEW */
    bool refused; /* it cannot be captured */
    weir__cu_exec exec;
};

static struct call call_of(const struct weir__cuda_sink *sink, const struct weir__cuda_product *p,
                           int algorithm, const struct weir__product *x)
{
    struct call call;

    memset(&call, 0, sizeof call); /* compared as bytes */
    call.product = p;
    call.stream = sink->stream;
    call.a = x->a;
    call.b = x->b;
    call.bias = x->bias;
    call.c = x->c;
    call.algorithm = algorithm;
    if (x->ndims) {
        call.a_step = x->a_step[x->ndims - 1];
        call.b_step = x->b_step[x->ndims - 1];
        call.c_step = x->c_step[x->ndims - 1];
    }
    return call;
}

static unsigned place_of(const struct call *call)
{
    const uint64_t words[] = {(uintptr_t)call->a, (uintptr_t)call->b, (uintptr_t)call->c,
                              (uintptr_t)call->product, (uintptr_t)call->stream};
    uint64_t h = 0;

    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
    return (unsigned)(h >> 57);
}

/* Captures on a temporary stream, because other threads may query the real stream meanwhile. */
static weir__cu_exec capture(const struct weir__cuda_sink *sink, const struct weir__cuda_product *p,
                             int algorithm, const struct weir__product *x)
{
    const struct weir__cu *cu = &sink->dev->api->cu;
    struct weir__cuda_sink to = *sink;
    const struct weir__cuda_queue *q = sink->own->queues.all;
    weir__cu_graph graph = NULL;
    weir__cu_exec exec = NULL;
    weir_status st;

    while (q->stream != sink->stream)
        q++;
    if (weir__cuda_new_stream(sink->dev, q->part, q->priority, &to.stream))
        return NULL;
    if (!cu->capture_begin(to.stream, CU_CAPTURE_RELAXED)) {
        st = weir__cuda_product_issue(&to, p, algorithm, x, 1);
        if ((cu->capture_end(to.stream, &graph) || st || cu->graph_instantiate(&exec, graph, 0)))
            exec = NULL;
        if (graph)
            cu->graph_destroy(graph);
    }
    cu->stream_destroy(to.stream);
    return exec;
}

weir_status weir__cuda_product_repeat(const struct weir__cuda_sink *sink,
                                      const struct weir__cuda_product *p, int algorithm,
                                      const struct weir__product *x)
{
    const struct weir__cu *cu = &sink->dev->api->cu;
    struct call call = call_of(sink, p, algorithm, x);
    struct weir__cuda_repeat *r;

    if (!sink->own->scratch.repeats &&
        !(sink->own->scratch.repeats = weir__calloc(REPEATS, sizeof *sink->own->scratch.repeats)))
        return weir__fail_nomem("keeping a matrix product");
    r = &sink->own->scratch.repeats[place_of(&call)];
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): calls are zeroed first */
    if (memcmp(&r->call, &call, sizeof call)) {
        if (r->exec)
            cu->exec_destroy(r->exec);
        memset(r, 0, sizeof *r);
        memcpy(&r->call, &call, sizeof call);
    }
    if (r->exec)
        return weir__cuda_check(sink->dev, cu->exec_launch(r->exec, sink->stream), "a product");
    if (r->seen < FEW)
        r->seen++;
    else if (!r->refused)
        r->refused = !(r->exec = capture(sink, p, algorithm, x));
    return weir__cuda_product_issue(sink, p, algorithm, x, 1);
}

void weir__cuda_repeats_close(struct weir__cuda_stream *s)
{
    for (int i = 0; i < REPEATS && s->scratch.repeats; i++)
        if (s->scratch.repeats[i].exec)
            weir__cuda_of(s->base.dev)->api->cu.exec_destroy(s->scratch.repeats[i].exec);
    weir__free(s->scratch.repeats);
}
