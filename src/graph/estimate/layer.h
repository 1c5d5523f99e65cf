/* Shared by the files that write a model's layers as nodes. */
#ifndef WEIR_GRAPH_ESTIMATE_LAYER_H
#define WEIR_GRAPH_ESTIMATE_LAYER_H

#include "graph/estimate/estimate.h"

#define WEIR__LAYER_NAME 64

/* Where nodes are written, and the microbatch they belong to. */
struct weir__layer_writer {
    const struct weir__llm *m;
    const struct weir__deploy *d;
    const struct weir__profile *p;
    struct weir__text *out;
    bool prefill;
    double sequences, tokens; /* of this microbatch on this die */
    double asking, context;   /* tokens of these that read a cache; keys that each of them sees */
    double chunk, chunk_context; /* prompt tokens among them, in a decode step */
    const char *stream;          /* NULL: the default one */
    unsigned cube, vector;       /* limits, 0 for none */
    double since_us;             /* time of compute nodes since the last exchange */
    char late[WEIR__LAYER_NAME]; /* node at whose end the last die has finished its attention; "":
                                  * now */
};

struct weir__layer_node {
    const char *engine, *dtype, *collective;
    double flops, bytes, m, n, k;
    double net_bytes, uneven; /* as in a Kernel */
    double us;                /* for a node that only takes time */
    unsigned ranks, cores;    /* ranks of a collective; cores, 0 for all or none */
};

/* ---- layer_nodes.c ---- */

/* Writes a node that runs after `first` and `second`; NULL or "" for none. */
void weir__layer_emit(struct weir__layer_writer *w, const char *name,
                      const struct weir__layer_node *n, const char *first, const char *second);
/* `name` becomes "prefix.part"; it has WEIR__LAYER_NAME bytes. */
void weir__layer_name(char *name, const char *prefix, const char *part);
/* Writes a node after `last`, and stores its name in `last`. */
void weir__layer_step(struct weir__layer_writer *w, const char *prefix, const char *part,
                      const struct weir__layer_node *n, char *last);
/* The same for a node that quantises values of 16 bits to 8, with a scale for each row. Writes
 * nothing in bf16. */
void weir__layer_quantise(struct weir__layer_writer *w, const char *prefix, const char *part,
                          double rows, double values, char *last);
/* `rows` rows times `copies` matrices of k x n; the rows are spread evenly over the copies. */
struct weir__layer_node weir__layer_product(const struct weir__layer_writer *w, double rows,
                                            double k, double n, double copies);
/* The same with weights of half precision. */
struct weir__layer_node weir__layer_half_product(const struct weir__layer_writer *w, double rows,
                                                 double k, double n, double copies);
/* Reads and writes that many 16-bit values for each of `rows`, with a few flops each. */
struct weir__layer_node weir__layer_rowwise(double rows, double values);
double weir__layer_weight_bytes(const struct weir__deploy *d);
const char *weir__layer_product_type(const struct weir__deploy *d);

/* ---- layer_attention.c: `last` as with weir__layer_step ---- */

/* Absorbed where one token reads the compressed cache, expanded where many do. */
void weir__layer_latent_attention(struct weir__layer_writer *w, const char *prefix, char *last);
/* Groups of heads that share keys and values; each token sees `context` keys. */
void weir__layer_grouped_attention(struct weir__layer_writer *w, const char *prefix, double context,
                                   char *last);

#endif
