/* A matrix product of one shape: its cuBLASLt descriptions, the algorithms that the library offers,
 * and the chosen algorithm. Everything is under the device lock. */
#ifndef WEIR_CUDA_PRODUCT_PRODUCT_H
#define WEIR_CUDA_PRODUCT_PRODUCT_H

#include "cuda/cuda.h"

enum {
    WEIR__CUDA_TARGETS = 3,         /* numbers of cores for which algorithms are requested */
    WEIR__CUDA_OFFERS = 16,         /* the most algorithms per request */
    WEIR__CUDA_ALGORITHMS = 48,     /* the most algorithms kept */
    WEIR__CUDA_CONCURRENT_SETS = 8, /* the most choices kept for concurrent sets */
};

/* Everything on which the choice of an algorithm may depend. The steps of a stack are set with each
 * call; only their alignment is part of the key. */
struct weir__cuda_key {
    int32_t dtype, batch;
    int64_t m, n, k, lda, ldb, ldc;
    uint32_t cores; /* 0: all */
    uint8_t a_turned, b_turned;
    uint8_t a_shared, b_shared; /* the same matrix for all products of the stack */
    uint8_t biased;
    uint8_t align[4];
};

struct weir__cuda_algorithm {
    struct weir__lt_result how;
    int target; /* the index of the description for which it was offered */
    float ms;   /* its time alone; 0: not known, negative: it does not run */
    bool ran;   /* it has run, so the library has loaded its kernels */
};

/* Which algorithm is best depends on what runs at the same time. A *concurrent set* is a hash of
 * the products of a plan and their order; 0 stands for the product alone. */
struct weir__cuda_product {
    struct weir__cuda_product *next;
    struct weir__cuda_key key;
    void *desc[WEIR__CUDA_TARGETS]; /* NULL until algorithms are requested for that target */
    void *a, *b, *c;
    struct weir__cuda_algorithm algorithms[WEIR__CUDA_ALGORITHMS];
    int nalgorithms, best; /* the best alone; -1 if there is none */
    bool tuned;            /* `best` was chosen by time, or must not be changed */
    bool timed;            /* all algorithms have been timed */
    struct {
        uint64_t concurrent_set;
        int algorithm;
    } choices[WEIR__CUDA_CONCURRENT_SETS];
    unsigned nchoices; /* number of choices ever made; the newest are kept */
};

/* Finds or makes the product of the call's shape.
 * returns  WEIR_EUNSUPPORTED, without an error text, if the library has no algorithm. */
weir_status weir__cuda_product_find(struct weir__cuda *dev, const struct weir__product *x,
                                    unsigned cores, struct weir__cuda_product **out);
/* Makes the description for a target; false on failure. */
bool weir__cuda_product_describe(struct weir__cuda *dev, struct weir__cuda_product *p, int target);
/* Requests algorithms for a target and adds those that the library offers. */
void weir__cuda_product_ask(struct weir__cuda *dev, struct weir__cuda_product *p, int target);
/* Queues the call's product, or the last dim of its stack, at these addresses: c = a b, plus the
 * bias if the key has one. Returns the library's code. */
int weir__cuda_product_multiply(const struct weir__cuda_sink *sink,
                                const struct weir__cuda_product *p, int algorithm,
                                const struct weir__product *x, const char *a, const char *b,
                                char *c);
/* Queues one product, or n products that are a stack, by that algorithm. */
weir_status weir__cuda_product_issue(const struct weir__cuda_sink *sink,
                                     const struct weir__cuda_product *p, int algorithm,
                                     const struct weir__product *x, int n);
/* repeat.c: queues one product of the sink's own stream; a repeated product takes less host
 * time. */
weir_status weir__cuda_product_repeat(const struct weir__cuda_sink *sink,
                                      const struct weir__cuda_product *p, int algorithm,
                                      const struct weir__product *x);
/* Allocates the sink's workspace, if it has none. */
weir_status weir__cuda_product_workspace(const struct weir__cuda_sink *sink);
/* Returns the bytes from a call's first result to its last. */
size_t weir__cuda_product_span(const struct weir__product *x);
/* Makes one stack of several products, none of which is a stack. False if they differ in more than
 * their addresses, or the addresses are not equal steps apart. With `packed` the results of the
 * stack are close together. */
bool weir__cuda_product_stack(const struct weir__product *x, int n, bool packed,
                              struct weir__product *out);

/* ---- choice.c: the chosen algorithm, also on disk ---- */

/* Returns the algorithm chosen for that concurrent set; without a choice, the best alone. */
int weir__cuda_choice(const struct weir__cuda_product *p, uint64_t concurrent_set);
void weir__cuda_choose(struct weir__cuda_product *p, uint64_t concurrent_set, int algorithm);
/* Reads the choice of an earlier process from disk, applies and returns it; -1 if there is none. */
int weir__cuda_read_choice(struct weir__cuda *dev, struct weir__cuda_product *p,
                           uint64_t concurrent_set);
void weir__cuda_keep_choice(const struct weir__cuda *dev, const struct weir__cuda_product *p,
                            uint64_t concurrent_set, int algorithm);
/* Returns the index of an algorithm, adding it if needed; -1 if there is no room. */
int weir__cuda_add_algorithm(struct weir__cuda_product *p, const struct weir__lt_result *how,
                             int target);

/* ---- tune.c: times ---- */

/* A stream and events for timing. */
struct weir__cuda_watch {
    weir__cu_stream stream;
    weir__cu_event events[2];
};
bool weir__cuda_watch_open(struct weir__cuda *dev, const struct weir__cuda_part *part,
                           struct weir__cuda_watch *w);
void weir__cuda_watch_close(struct weir__cuda *dev, struct weir__cuda_watch *w);
/* Returns the milliseconds of one launch of the graph, the least of several trials; negative if it
 * does not run. */
float weir__cuda_watch_graph(struct weir__cuda *dev, struct weir__cuda_watch *w,
                             weir__cu_graph graph);
/* Times every algorithm that the library offers for a product alone, on that part of the cores, and
 * chooses the best. Does nothing if that was done before. */
void weir__cuda_tune(const struct weir__cuda_sink *sink, const struct weir__cuda_part *part,
                     struct weir__cuda_product *p, const struct weir__product *x);

#endif
