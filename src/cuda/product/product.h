/* A matrix product of one shape: what cuBLASLt was asked, the algorithms it offers, and the one
 * that is taken. All of it is under the device lock. */
#ifndef WEIR_CUDA_PRODUCT_PRODUCT_H
#define WEIR_CUDA_PRODUCT_PRODUCT_H

#include "cuda/cuda.h"

enum {
    WEIR__CUDA_TARGETS = 3,         /* numbers of cores for which algorithms are asked for */
    WEIR__CUDA_OFFERS = 16,         /* algorithms asked for at once */
    WEIR__CUDA_ALGORITHMS = 48,     /* kept */
    WEIR__CUDA_CONCURRENT_SETS = 8, /* choices kept beside the one on its own */
};

/* Everything that the choice of an algorithm may depend on. How far the products of a stack lie
 * apart is none of that but for the alignment: it is said with each call. */
struct weir__cuda_key {
    int32_t dtype, batch;
    int64_t m, n, k, lda, ldb, ldc;
    uint32_t cores; /* 0: all */
    uint8_t a_turned, b_turned;
    uint8_t a_shared, b_shared; /* by all products of the stack */
    uint8_t biased;
    uint8_t align[4];
};

struct weir__cuda_algorithm {
    struct weir__lt_result how;
    int target; /* the description it was offered for */
    float ms;   /* it takes on its own; 0: not known, negative: it does not run */
    bool ran;   /* so the library has loaded what it takes */
};

/* Which algorithm is best depends on what runs at the same time: a *concurrent set* is a number for
 * the products of a plan and their order, 0 for the product on its own. */
struct weir__cuda_product {
    struct weir__cuda_product *next;
    struct weir__cuda_key key;
    void *desc[WEIR__CUDA_TARGETS]; /* NULL until something is asked for so many cores */
    void *a, *b, *c;
    struct weir__cuda_algorithm algorithms[WEIR__CUDA_ALGORITHMS];
    int nalgorithms, best; /* best is -1 if there is none */
    bool tuned;            /* best was chosen by its time, or is not to be */
    bool timed;            /* the algorithms have their times */
    struct {
        uint64_t concurrent_set;
        int algorithm;
    } choices[WEIR__CUDA_CONCURRENT_SETS];
    unsigned nchoices; /* ever made: the newest are kept */
};

/* The product of the call's shape, found or made.
 * returns  WEIR_EUNSUPPORTED, without an error text, if the library has nothing for it. */
weir_status weir__cuda_product_find(struct weir__cuda *dev, const struct weir__product *x,
                                    unsigned cores, struct weir__cuda_product **out);
/* Makes what the library is asked with, for one of the numbers of cores; false if it fails. */
bool weir__cuda_product_describe(struct weir__cuda *dev, struct weir__cuda_product *p, int target);
/* Asks for algorithms on another number of cores; those offered are added. */
void weir__cuda_product_ask(struct weir__cuda *dev, struct weir__cuda_product *p, int target);
/* The call's products from these places on, one or a whole stack of them: c = a b, and the
 * bias if the key has one. What the library returns. */
int weir__cuda_product_multiply(const struct weir__cuda_sink *sink,
                                const struct weir__cuda_product *p, int algorithm,
                                const struct weir__product *x, const char *a, const char *b,
                                char *c);
/* One product, or several that are a stack, with their bias, by that algorithm. */
weir_status weir__cuda_product_issue(const struct weir__cuda_sink *sink,
                                     const struct weir__cuda_product *p, int algorithm,
                                     const struct weir__product *x, int n);
/* repeat.c: one product of the sink's own stream, with less of the host's time if it comes again.
 */
weir_status weir__cuda_product_repeat(const struct weir__cuda_sink *sink,
                                      const struct weir__cuda_product *p, int algorithm,
                                      const struct weir__product *x);
/* Memory for whatever algorithm the product takes. */
weir_status weir__cuda_product_workspace(const struct weir__cuda_sink *sink);
/* Bytes from a call's first result to its last. */
size_t weir__cuda_product_span(const struct weir__product *x);
/* Several products, each no stack itself, as one: false if they differ in more than their places,
 * or these are not evenly apart. With `packed` the results follow each other, wherever they were.
 */
bool weir__cuda_product_stack(const struct weir__product *x, int n, bool packed,
                              struct weir__product *out);

/* ---- choice.c: the algorithm that is taken, which is kept on disk ---- */

/* The algorithm to take in that concurrent set; the best on its own where nothing was chosen. */
int weir__cuda_choice(const struct weir__cuda_product *p, uint64_t concurrent_set);
void weir__cuda_choose(struct weir__cuda_product *p, uint64_t concurrent_set, int algorithm);
/* The algorithm that an earlier process chose, which is then chosen; -1 if none did. */
int weir__cuda_read_choice(struct weir__cuda *dev, struct weir__cuda_product *p,
                           uint64_t concurrent_set);
void weir__cuda_keep_choice(const struct weir__cuda *dev, const struct weir__cuda_product *p,
                            uint64_t concurrent_set, int algorithm);
/* The number of an algorithm, which is added unless it is there; -1 if there is no room. */
int weir__cuda_add_algorithm(struct weir__cuda_product *p, const struct weir__lt_result *how,
                             int target);

/* ---- tune.c: times ---- */

/* What times are taken with. */
struct weir__cuda_watch {
    weir__cu_stream stream;
    weir__cu_event events[2];
};
bool weir__cuda_watch_open(struct weir__cuda *dev, const struct weir__cuda_part *part,
                           struct weir__cuda_watch *w);
void weir__cuda_watch_close(struct weir__cuda *dev, struct weir__cuda_watch *w);
/* Milliseconds of one launch of the graph, the least of some; negative if it does not run. */
float weir__cuda_watch_graph(struct weir__cuda *dev, struct weir__cuda_watch *w,
                             weir__cu_graph graph);
/* Times every algorithm the library offers for a product on its own, on that part of the cores, and
 * chooses, unless that was done. */
void weir__cuda_tune(const struct weir__cuda_sink *sink, const struct weir__cuda_part *part,
                     struct weir__cuda_product *p, const struct weir__product *x);

#endif
