/* Between the files that write a model's layers as nodes; nobody else includes it. */
#ifndef WEIR_GRAPH_ESTIMATE_LAYER_H
#define WEIR_GRAPH_ESTIMATE_LAYER_H

#include "graph/estimate/estimate.h"

#define WEIR__LAYER_NAME 64

/* Where nodes go, and the microbatch that they are of. */
struct weir__layer_writer {
    const struct weir__llm *m;
    const struct weir__deploy *d;
    const struct weir__profile *p;
    struct weir__text *out;
    bool prefill;
    double sequences, tokens; /* of this microbatch on this die */
    double asking, context;   /* tokens of these that look at a cache; keys that one of them sees */
    double chunk, chunk_context; /* tokens of prompts among them, in a decode step */
    const char *stream;          /* NULL: the default one */
    unsigned cube, vector;       /* limits, 0 for none */
    double since_us;             /* of nodes that compute, since the last exchange */
    char late[WEIR__LAYER_NAME]; /* when the last die is through with its attention; "": now */
};

struct weir__layer_node {
    const char *engine, *dtype, *collective;
    double flops, bytes, m, n, k;
    double net_bytes, uneven; /* as of a Kernel */
    double us;                /* of one that only takes time */
    unsigned ranks, cores;    /* of a collective: its ranks; the cores it has, 0 for all or none */
};

/* ---- layer_nodes.c ---- */

/* Writes a node that runs after `first` and `second`; NULL or "" for none. */
void weir__layer_emit(struct weir__layer_writer *w, const char *name,
                      const struct weir__layer_node *n, const char *first, const char *second);
/* `name` becomes "prefix.part"; it has WEIR__LAYER_NAME bytes. */
void weir__layer_name(char *name, const char *prefix, const char *part);
/* A node after `last`, which becomes its name. */
void weir__layer_step(struct weir__layer_writer *w, const char *prefix, const char *part,
                      const struct weir__layer_node *n, char *last);
/* The same, where values of 16 bits become 8 with a scale for each row; nothing in bf16. */
void weir__layer_quantise(struct weir__layer_writer *w, const char *prefix, const char *part,
                          double rows, double values, char *last);
/* `rows` against `copies` matrices of k x n, spread evenly over them. */
struct weir__layer_node weir__layer_product(const struct weir__layer_writer *w, double rows,
                                            double k, double n, double copies);
/* The same with weights of half precision. */
struct weir__layer_node weir__layer_half_product(const struct weir__layer_writer *w, double rows,
                                                 double k, double n, double copies);
/* Reads and writes that many values of 16 bits for each of `rows`, a few flops each. */
struct weir__layer_node weir__layer_rowwise(double rows, double values);
double weir__layer_weight_bytes(const struct weir__deploy *d);
const char *weir__layer_product_type(const struct weir__deploy *d);

/* ---- layer_attention.c: `last` as with weir__layer_step ---- */

/* Absorbed where one token looks at the compressed cache, expanded where many do. */
void weir__layer_latent_attention(struct weir__layer_writer *w, const char *prefix, char *last);
/* Heads in groups that share keys and values, of which each token sees `context`. */
void weir__layer_grouped_attention(struct weir__layer_writer *w, const char *prefix, double context,
                                   char *last);

#endif
