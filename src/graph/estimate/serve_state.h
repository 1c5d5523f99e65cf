/* Between the files of serving. Times are in milliseconds, from the first arrival on. */
#ifndef WEIR_GRAPH_ESTIMATE_SERVE_STATE_H
#define WEIR_GRAPH_ESTIMATE_SERVE_STATE_H

#include "graph/estimate/serve.h"

/* ---- serve.c ---- */

/* A request under way. */
struct weir__serve_job {
    const struct weir__request *r;
    double at;      /* when it arrives */
    double ready;   /* may be taken by a replica; later if its prompt is elsewhere first */
    double missing; /* tokens of its prompt that are to be computed */
    double hit;     /* those that the cache had */
    double begun, first, last; /* when its prompt was begun, first and last token; NAN before */
    double left;               /* tokens of the answer after the first */
    bool never;
    int next; /* in a queue */
};

/* ---- serve_results.c ---- */

/* Latencies and rates of the jobs that are over, and how many can never be.
 * returns  WEIR_ENOMEM. */
weir_status weir__serve_sum_up(const struct weir__serve_job *jobs, size_t n,
                               struct weir__served *out);

/* ---- serve_times.c ---- */

struct weir__step_times;
struct weir__step_times *weir__step_times_new(weir_device *dev, const struct weir__llm *m,
                                              const struct weir__deploy *d);
void weir__step_times_free(struct weir__step_times *t);
/* Of the first prediction that failed; times are 1 us from then on. */
weir_status weir__step_times_status(const struct weir__step_times *t);
/* A step of `batch` sequences of a replica that see `context` keys each; `chunk` tokens of prompts
 * ride with them. */
double weir__decode_us(struct weir__step_times *t, double batch, double context, double chunk,
                       double chunk_context);
/* A step of `tokens` of prompts of a replica, which see `context` keys on average. */
double weir__prefill_us(struct weir__step_times *t, double tokens, double context);

/* ---- serve_cache.c ---- */

/* Blocks of prompts that replicas keep, the least recently used first to go. */
struct weir__prefix_cache;
struct weir__prefix_cache *weir__prefix_cache_new(uint32_t replicas);
void weir__prefix_cache_free(struct weir__prefix_cache *c);
/* How many of the blocks, from the first on, the replica has. */
uint32_t weir__prefix_find(const struct weir__prefix_cache *c, uint32_t replica,
                           const uint64_t *blocks, uint32_t n);
/* The replica has used all of them; it keeps at most `most` blocks.
 * returns  false when out of memory. */
bool weir__prefix_use(struct weir__prefix_cache *c, uint32_t replica, const uint64_t *blocks,
                      uint32_t n, double most);

#endif
