/* Estimates the speed of a language model on a modelled device.
 *
 *     weir__llm_load("config.json", &llm);
 *     weir__deploy_init(&d); d.ranks = 32; ...
 *     weir__estimate_model(dev, &llm, &d, &e);
 *     ... e.tpot_ms, e.ttft_ms, e.decode.parts[i] ...
 *     weir__estimate_fini(&e);
 *
 * A step of the model becomes an ordinary graph of Kernel nodes with their flops and bytes; the
 * modelled device gives their times. All dies do the same, so only one is predicted; its
 * collectives state their number of ranks.
 */
#ifndef WEIR_GRAPH_ESTIMATE_ESTIMATE_H
#define WEIR_GRAPH_ESTIMATE_ESTIMATE_H

#include "graph/predict/predict.h"

/* ---- the model ---- */

/* Sizes as in a Hugging Face config.json; 0 for parts that the family lacks. */
struct weir__llm {
    char family[48]; /* "deepseek_v3" */
    char quant[16];  /* quantisation of the file's weights, "fp8"; "" if they are not quantised */
    double hidden, layers, heads, kv_heads, head_dim, vocab;
    double dense_dim;    /* MLP size of layers without experts */
    double dense_layers; /* layers without experts, taken to be the first ones; in a model without
                          * experts all layers */
    double experts, top, expert_dim;
    double groups, top_groups; /* groups of experts, and how many a token uses; 0: any experts */
    double shared_dim;         /* total of all shared experts */
    double q_rank, kv_rank, rope, nope, v_dim; /* MLA; kv_rank 0: grouped heads */
    double window, window_layers; /* size of sliding attention, and the number of layers that use
                                   * it, evenly spread; 0: none */
    double mtp;                   /* drafting layers */
    bool tied;                    /* embedding and head share their weights */
};

/* returns  WEIR_EIO; WEIR_EPARSE naming the place or the missing key. */
weir_status weir__llm_load(const char *path, struct weir__llm *out);
weir_status weir__llm_parse(const char *text, size_t size, const char *path, struct weir__llm *out);
/* Number of parameters: all, or those that one token uses. */
double weir__llm_parameters(const struct weir__llm *m, bool active);
/* Parameters of one layer's attention. */
double weir__llm_attention(const struct weir__llm *m);

/* ---- the deployment ---- */

enum weir__quant { WEIR__QUANT_BF16, WEIR__QUANT_W8A8, WEIR__QUANT_W4A8, WEIR__QUANT_F8 };
extern const char *const weir__quant_names[4]; /* bf16, w8a8, w4a8, fp8 */

enum weir__placement {
    WEIR__PLACE_SINGLE, /* one stream */
    WEIR__PLACE_SHARED, /* the shared expert on a stream of its own, beside dispatch */
    WEIR__PLACE_TWO,    /* two microbatches: attention and experts on streams of their own */
};
extern const char *const weir__placement_names[3]; /* single, shared, microbatch */

struct weir__deploy {
    uint32_t ranks;        /* dies */
    uint32_t tp, pp, ep;   /* ep: dies that share the experts; 0: tp x dp; 1: each tp group holds
                            * all experts */
    double batch;          /* sequences of one replica of attention (tp x pp dies) */
    double prompt, output; /* tokens */
    enum weir__quant quant;
    enum weir__placement placement;
    double accept;         /* mean tokens per step beyond the first, thanks to MTP; 0: no MTP */
    double imbalance;      /* load of the fullest die's experts relative to the mean; 0: derived
                            * from the experts per die and the number of dies */
    double jitter;         /* standard deviation of a die's attention time, relative to the mean */
    uint32_t cube, vector; /* cores of the attention stream with two microbatches; the other stream
                            * has the rest. 0: 1/2, 2/3 or 5/6 of all cores, whichever decodes
                            * fastest */
    uint32_t share;        /* 1 + the choice that weir__deploy_share_cores made; 0: none */
    double chunk;          /* tokens of prompts in each decode step; 0: prompts have steps of their
                            * own */
    double chunk_context;  /* keys that such a token sees; 0: half of a prompt */
    bool prefetch;         /* experts' weights are fetched to the second-level cache during
                            * dispatch */
    bool prolog;           /* for MLA: the cache's side runs on a stream of its own */
    bool spread; /* for MLA in a prefill: a die has some heads of all tokens, and its own tokens for
                  * everything else, so that prompts of any length load dies equally */
};
void weir__deploy_init(struct weir__deploy *d);
/* The load of the fullest die's experts, relative to the mean. */
double weir__deploy_imbalance(const struct weir__llm *m, const struct weir__deploy *d,
                              bool prefill);
/* The expected maximum of n normal variables, in standard deviations: how much later than the mean
 * the last of n dies is. */
double weir__last_of(double n);
/* Dies that share the experts. */
double weir__deploy_expert_dies(const struct weir__deploy *d);
/* Dies that share the head: those of a replica, or up to 16 if replicas step together. */
double weir__deploy_head_dies(const struct weir__llm *m, const struct weir__deploy *d);
/* Layers without experts in each stage. */
double weir__deploy_dense_layers(const struct weir__llm *m, const struct weir__deploy *d);
/* Whether there are two microbatches: a batch of one cannot be split. */
bool weir__deploy_has_two(const struct weir__deploy *d);
/* Time until the last prompt of a batch has its first token, if a step on all stages takes `us`. */
double weir__deploy_first_us(const struct weir__deploy *d, double us);
/* Choices for the share of the cores that attention gets beside experts. */
enum { WEIR__CORE_SHARES = 3 };
void weir__deploy_share_cores(struct weir__deploy *d, const struct weir__profile *p, int share);
/* returns  WEIR_EINVAL naming the numbers that do not divide, or the value out of range. */
weir_status weir__deploy_check(const struct weir__llm *m, const struct weir__deploy *d);
/* Sets the core counts that are 0: to the share that decodes fastest on the machine, or on the one
 * that its profile inherits (overlap.h). returns as weir__estimate_model. */
weir_status weir__deploy_complete(weir_device *dev, const struct weir__llm *m,
                                  struct weir__deploy *d);

/* ---- the graph of a step ---- */

struct weir__model_step {
    bool prefill;
    double layers; /* number of the model's first layers to write; 0: those of a stage */
};

/* Writes the step as a graph file. */
weir_status weir__estimate_graph(const struct weir__llm *m, const struct weir__deploy *d,
                                 const struct weir__model_step *step, const struct weir__profile *p,
                                 struct weir__text *out);

/* ---- the answer ---- */

enum weir__roof {
    WEIR__ROOF_MEMORY,
    WEIR__ROOF_CUBE,
    WEIR__ROOF_VECTOR,
    WEIR__ROOF_LINK,
    WEIR__ROOF_HEAD,  /* launch, and latency before the first byte moves */
    WEIR__ROOF_CORES, /* its core limit: neither memory nor all cores are busy */
    WEIR__ROOFS
};
extern const char *const weir__roof_names[WEIR__ROOFS];

/* Nodes of one kind, such as o_proj of every layer. */
struct weir__estimate_part {
    char name[32], stream[16];
    uint32_t count;
    double us;    /* time of one node, as it ran */
    double alone; /* time of one node with the machine to itself */
    enum weir__roof limit;
};

struct weir__estimate_step {
    double us; /* time of the whole step on all stages, with the host's time to start it */
    double error;
    struct weir__estimate_part *parts;
    size_t nparts;
    double exposed_us; /* communication that no computation hides */
    /* One layer in the middle, for a chart. */
    struct weir__estimate_bar {
        char name[32], stream[16];
        double start, end;
    } * bars;
    size_t nbars;
};

struct weir__estimate_memory {
    double weights, cache, activations; /* bytes of one die */
    double most;                        /* bytes that a die has */
    double most_batch;                  /* largest batch that fits */
};

struct weir__estimate {
    struct weir__deploy d; /* with all open values set */
    struct weir__estimate_step prefill, decode;
    struct weir__estimate_memory memory;
    double ttft_ms, tpot_ms;
    double prefill_rate, decode_rate; /* tokens a second of the whole system */
    double cards;                     /* packages */
    double error;
};

/* `dev` is a modelled device.
 * returns  WEIR_EUNSUPPORTED for a device of real time; the errors of weir__deploy_check. */
weir_status weir__estimate_model(weir_device *dev, const struct weir__llm *m,
                                 const struct weir__deploy *d, struct weir__estimate *out);
void weir__estimate_fini(struct weir__estimate *e);
/* The same without parts and bars, extrapolated from a few layers: for searches. */
weir_status weir__estimate_quick(weir_device *dev, const struct weir__llm *m,
                                 const struct weir__deploy *d, struct weir__estimate *out);

/* Microseconds of a prefill or decode step on all stages, extrapolated from a few layers. */
weir_status weir__estimate_time_step(weir_device *dev, const struct weir__llm *m,
                                     const struct weir__deploy *d, bool prefill, double *us);
/* The same for a graph file instead of a model: its makespan and its parts, by the text before a
 * number in node names. */
weir_status weir__estimate_file(weir_device *dev, const char *path, struct weir__estimate_step *out,
                                double *bytes);

void weir__estimate_find_memory(const struct weir__llm *m, const struct weir__deploy *d,
                                const struct weir__profile *p, struct weir__estimate_memory *out);

/* ---- search ---- */

struct weir__search_options {
    double ttft_ms, tpot_ms; /* limits; 0: none */
    double max_batch;
    bool (*poll)(void *user, size_t tried, size_t all); /* false ends the search; may be NULL */
    void *user;
};

struct weir__candidate {
    struct weir__deploy d;
    double ttft_ms, tpot_ms, rate; /* tokens a second of the system while decoding */
    bool pareto;                   /* no other has a lower TPOT and a higher rate */
};

/* Candidates that fit the memory and the limits, the fastest first.
 * returns  as weir__estimate. */
weir_status weir__estimate_search(weir_device *dev, const struct weir__llm *m,
                                  const struct weir__deploy *from,
                                  const struct weir__search_options *options,
                                  struct weir__candidate **out, size_t *n, size_t *tried);

#endif
