/* Shared by the files of serving. Times are in milliseconds since the first arrival. */
#ifndef WEIR_GRAPH_ESTIMATE_SERVE_STATE_H
#define WEIR_GRAPH_ESTIMATE_SERVE_STATE_H

#include "graph/estimate/serve.h"

/* ---- serve.c ---- */

/* A request in progress. */
struct weir__serve_job {
    const struct weir__request *r;
    double at;      /* when it arrives */
    double ready;   /* when a replica may take it; later than `at` if another server computes its
                     * prompt first */
    double missing; /* prompt tokens still to compute */
    double hit;     /* prompt tokens found in the cache */
    double begun, first, last; /* times of the start of its prompt, of the first and of the last
                                * token; NAN before */
    double left;               /* tokens of the answer after the first */
    bool never;
    int next; /* in a queue */
};

/* ---- serve_results.c ---- */

/* Computes latencies and rates of the completed jobs, and counts those that can never be served.
 * returns  WEIR_ENOMEM. */
weir_status weir__serve_sum_up(const struct weir__serve_job *jobs, size_t n,
                               struct weir__served *out);

/* ---- serve_times.c ---- */

struct weir__step_times;
struct weir__step_times *weir__step_times_new(weir_device *dev, const struct weir__llm *m,
                                              const struct weir__deploy *d);
void weir__step_times_free(struct weir__step_times *t);
/* The error of the first prediction that failed; after it all times are 1 us. */
weir_status weir__step_times_status(const struct weir__step_times *t);
/* Time of a decode step of `batch` sequences of a replica that see `context` keys each, with
 * `chunk` prompt tokens. */
double weir__decode_us(struct weir__step_times *t, double batch, double context, double chunk,
                       double chunk_context);
/* Time of a step of `tokens` prompt tokens of a replica, which see `context` keys on average. */
double weir__prefill_us(struct weir__step_times *t, double tokens, double context);

/* ---- serve_cache.c ---- */

/* The blocks of prompts that replicas have cached; the least recently used one is evicted first. */
struct weir__prefix_cache;
struct weir__prefix_cache *weir__prefix_cache_new(uint32_t replicas);
void weir__prefix_cache_free(struct weir__prefix_cache *c);
/* How many of the blocks, from the first on, the replica has cached. */
uint32_t weir__prefix_find(const struct weir__prefix_cache *c, uint32_t replica,
                           const uint64_t *blocks, uint32_t n);
/* Records that the replica has used all of the blocks; evicts until it has at most `most`.
 * returns  false when out of memory. */
bool weir__prefix_use(struct weir__prefix_cache *c, uint32_t replica, const uint64_t *blocks,
                      uint32_t n, double most);

#endif
