/* Timing the algorithms of a product. Everything is timed as a graph: if kernels were launched one
 * by one, short ones would wait for the host, and the host's time would be measured. */
#include "cuda/product/product.h"

#include <math.h>

enum { TRIALS = 4, ROUNDS = 3 };
#define ABOUT_AS_FAST 1.02f
#define ROUND_MS 0.5f
#define LONG 1e10 /* products with more multiplications take longer than starting a graph */

bool weir__cuda_watch_open(struct weir__cuda *dev, const struct weir__cuda_part *part,
                           struct weir__cuda_watch *w)
{
    const struct weir__cu *cu = &dev->api->cu;

    *w = (struct weir__cuda_watch){.stream = NULL};
    if (!weir__cuda_new_stream(dev, part, 0, &w->stream) &&
        !cu->event_create(&w->events[0], CU_EVENT_DEFAULT) &&
        !cu->event_create(&w->events[1], CU_EVENT_DEFAULT))
        return true;
    weir__cuda_watch_close(dev, w);
    return false;
}

void weir__cuda_watch_close(struct weir__cuda *dev, struct weir__cuda_watch *w)
{
    const struct weir__cu *cu = &dev->api->cu;

    for (int i = 0; i < 2; i++)
        if (w->events[i])
            cu->event_destroy(w->events[i]);
    if (w->stream)
        cu->stream_destroy(w->stream);
    *w = (struct weir__cuda_watch){.stream = NULL};
}

/* Returns the mean time of `n` consecutive launches; negative on failure. */
static float watch_launches(struct weir__cuda *dev, struct weir__cuda_watch *w, weir__cu_exec exec,
                            int n)
{
    const struct weir__cu *cu = &dev->api->cu;
    float ms = -1;

    if (cu->event_record(w->events[0], w->stream))
        return -1;
    for (int i = 0; i < n; i++)
        if (cu->exec_launch(exec, w->stream))
            return -1;
    if (cu->event_record(w->events[1], w->stream) || cu->event_sync(w->events[1]) ||
        cu->event_elapsed(&ms, w->events[0], w->events[1]))
        return -1;
    return ms / (float)n;
}

float weir__cuda_watch_graph(struct weir__cuda *dev, struct weir__cuda_watch *w,
                             weir__cu_graph graph)
{
    const struct weir__cu *cu = &dev->api->cu;
    weir__cu_exec exec;
    float least, ms;
    int n;

    if (cu->graph_instantiate(&exec, graph, 0))
        return -1;
    least = watch_launches(dev, w, exec, 2);
    n = least > 0 ? (int)fminf(fmaxf(ROUND_MS / least, 1), 16) : 1;
    for (int i = 0; i < ROUNDS && least >= 0; i++) {
        ms = watch_launches(dev, w, exec, n);
        least = ms < least ? ms : least; /* a failed trial is negative and so ends the loop */
    }
    cu->exec_destroy(exec);
    return least;
}

/* ---- a product on its own ---- */

static float time_algorithm(const struct weir__cuda_sink *sink, struct weir__cuda_watch *w,
                            const struct weir__cuda_product *p, int algorithm,
                            const struct weir__product *x)
{
    const struct weir__cu *cu = &sink->dev->api->cu;
    int trials = (double)x->m * (double)x->n * (double)x->k * p->key.batch > LONG ? 1 : TRIALS;
    weir__cu_graph graph = NULL;
    float ms = -1;
    int r = 0;

    if (cu->capture_begin(w->stream, CU_CAPTURE_RELAXED))
        return -1;
    for (int i = 0; i < trials && !r; i++)
        r = weir__cuda_product_multiply(sink, p, algorithm, x, x->a, x->b, sink->into);
    if (!cu->capture_end(w->stream, &graph) && !r)
        ms = weir__cuda_watch_graph(sink->dev, w, graph);
    if (graph)
        cu->graph_destroy(graph);
    return ms / (float)trials;
}

/* Returns, of the algorithms that are about as fast as the fastest, the one that uses the smallest
 * part of the GPU. */
static int choose(const struct weir__cuda_product *p)
{
    int best = -1, modest = -1;

    for (int i = 0; i < p->nalgorithms; i++)
        if (p->algorithms[i].ms > 0 && (best < 0 || p->algorithms[i].ms < p->algorithms[best].ms))
            best = i;
    for (int i = 0; i < p->nalgorithms && best >= 0; i++)
        if (p->algorithms[i].ms > 0 &&
            p->algorithms[i].ms <= p->algorithms[best].ms * ABOUT_AS_FAST &&
            (modest < 0 || p->algorithms[i].how.waves < p->algorithms[modest].how.waves))
            modest = i;
    return modest;
}

static void time_all(const struct weir__cuda_sink *sink, struct weir__cuda_watch *w,
                     struct weir__cuda_product *p, const struct weir__product *x)
{
    int best;

    for (int t = 1; t < WEIR__CUDA_TARGETS; t++)
        weir__cuda_product_ask(sink->dev, p, t);
    for (int i = 0; i < p->nalgorithms; i++) {
        p->algorithms[i].ms = time_algorithm(sink, w, p, i, x);
        weir__log(WEIR_LOG_DEBUG,
                  "product [%lld, %lld, %lld]: algorithm %d, of target %d, %.2f waves: %.2f us",
                  (long long)x->m, (long long)x->k, (long long)x->n, i, p->algorithms[i].target,
                  (double)p->algorithms[i].how.waves, (double)p->algorithms[i].ms * 1e3);
    }
    if ((best = choose(p)) < 0)
        return;
    weir__cuda_choose(p, 0, best);
    weir__cuda_keep_choice(sink->dev, p, 0, best);
}

/* Timing uses a separate stream and temporary memory for results. Inputs may change meanwhile,
 * which does not affect the times. If there is no memory, the library's first choice stays. */
void weir__cuda_tune(const struct weir__cuda_sink *sink, const struct weir__cuda_part *part,
                     struct weir__cuda_product *p, const struct weir__product *x)
{
    struct weir__cuda_sink own = *sink;
    struct weir__cuda_watch w;
    weir__cu_address into;

    if (p->timed || !weir__cuda_watch_open(sink->dev, part, &w))
        return;
    p->timed = p->tuned = true;
    if (!sink->dev->api->cu.memory_alloc(&into, weir__cuda_product_span(x))) {
        own.stream = w.stream;
        own.into = (char *)(uintptr_t)into;
        time_all(&own, &w, p, x);
        weir__cuda_free(sink->dev, own.into);
    }
    weir__cuda_watch_close(sink->dev, &w);
}
