/* Requests as they arrive, served in virtual time.
 *
 *     weir__requests_load("trace.jsonl", &requests, &n);
 *     weir__serve(dev, &llm, &d, &(struct weir__serve_options){...}, requests, n, &s);
 *     ... s.ttft.p99, s.tpot.p50, s.tokens_s ...
 *
 * A system has replicas of attention (tp x pp dies each), which all step together because experts
 * are spread over all of them. A request goes to the replica with the least work, where a cached
 * prefix counts as done, and waits there until its cache fits. Prompts are taken in the order of
 * arrival, in one of three ways:
 *
 * - apart: a step of prompts, of up to `budget` tokens a replica, runs before the next decode step
 * - chunked: each decode step also takes d->chunk tokens of prompts
 * - elsewhere: `prefill_ranks` dies take prompts, several in a step and with shared experts, and
 *   send the cache over
 *
 * A prompt's blocks stay in the cache until they are the least recently used ones. A request with
 * the same beginning as an earlier one computes only the rest.
 */
#ifndef WEIR_GRAPH_ESTIMATE_SERVE_H
#define WEIR_GRAPH_ESTIMATE_SERVE_H

#include "graph/estimate/estimate.h"

enum { WEIR__SERVE_BLOCK = 512 }; /* tokens of a block, as published traces have them */

struct weir__request {
    double at_ms;
    double prompt, output;         /* tokens */
    uint32_t first_block, nblocks; /* the blocks that the prompt begins with, in blocks[]; 0:
                                    * nothing to share */
};

struct weir__requests {
    struct weir__request *list; /* by arrival */
    int n, cap;
    uint64_t *blocks;
    int nblocks, cap_blocks;
};

/* A line for each request, as published traces have them: {"timestamp": ms, "input_length": tokens,
 * "output_length": tokens, "hash_ids": [blocks]}; hash_ids may be missing.
 * returns  WEIR_EIO; WEIR_EPARSE with line and column, or naming the missing field. */
weir_status weir__requests_load(const char *path, struct weir__requests *out);
weir_status weir__requests_parse(const char *text, size_t size, const char *path,
                                 struct weir__requests *out);
void weir__requests_fini(struct weir__requests *r);

struct weir__serve_options {
    uint32_t prefill_ranks;                 /* dies that only take prompts; 0: none */
    double most_batch;                      /* sequences of a replica; 0: as many as fit */
    double budget;                          /* tokens of prompts in a step of a replica; 0: 16384 */
    double rate;                            /* factor on the arrival rate; 0: 1 */
    bool (*poll)(void *user, double share); /* false ends the run; may be NULL */
    void *user;
};

struct weir__percentiles {
    double p50, p90, p99, mean, most;
};

/* One request, in ms. */
struct weir__served_request {
    double at, ttft, wait;
    double tpot; /* NAN for an answer of one token */
};

struct weir__served {
    struct weir__percentiles ttft_ms, tpot_ms, wait_ms; /* wait: until the prompt is started */
    double seconds; /* from the first arrival to the last token */
    double tokens_s, prompt_tokens_s, requests_s;
    double hit_share;  /* share of prompt tokens found in the cache */
    double mean_batch; /* mean sequences of a replica in a decode step */
    size_t n, steps;
    size_t never;                          /* requests too large for any replica */
    double error;                          /* relative error of all times, from the profile */
    struct weir__served_request *requests; /* n of them, by arrival */
};
void weir__served_fini(struct weir__served *s);

/* returns  as weir__estimate_model; WEIR_EINVAL for options that contradict the deployment. */
weir_status weir__serve(weir_device *dev, const struct weir__llm *m, const struct weir__deploy *d,
                        const struct weir__serve_options *options, const struct weir__requests *r,
                        struct weir__served *out);

#endif
