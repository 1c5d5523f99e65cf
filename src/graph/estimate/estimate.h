/* How fast a language model will be on a modelled device.
 *
 *     weir__llm_load("config.json", &llm);
 *     weir__deploy_init(&d); d.ranks = 32; ...
 *     weir__estimate_model(dev, &llm, &d, &e);
 *     ... e.tpot_ms, e.ttft_ms, e.decode.parts[i] ...
 *     weir__estimate_fini(&e);
 *
 * A step of the model becomes an ordinary graph of Kernel nodes, which say what each computes
 * and moves; the device says how long. All dies do the same, so one is predicted, and its
 * collectives say how many ranks they have.
 */
#ifndef WEIR_GRAPH_ESTIMATE_ESTIMATE_H
#define WEIR_GRAPH_ESTIMATE_ESTIMATE_H

#include "graph/predict/predict.h"

/* ---- the model ---- */

/* Sizes as a Hugging Face config.json has them. What a family has not is 0. */
struct weir__llm {
    char family[48]; /* "deepseek_v3" */
    char quant[16];  /* how its file's weights are quantised, "fp8"; "" if they are not */
    double hidden, layers, heads, kv_heads, head_dim, vocab;
    double dense_dim;    /* of the MLP of layers without experts */
    double dense_layers; /* counted as the first ones; all of them without experts */
    double experts, top, expert_dim;
    double groups, top_groups; /* of experts, of which a token takes some; 0: any experts */
    double shared_dim;         /* of all shared experts together */
    double q_rank, kv_rank, rope, nope, v_dim; /* MLA; kv_rank 0: grouped heads */
    double window, window_layers; /* of sliding attention, and the layers that have it, evenly
                                   * spread; 0: none */
    double mtp;                   /* layers that draft */
    bool tied;                    /* embedding and head are one */
};

/* returns  WEIR_EIO; WEIR_EPARSE naming the place or the key that is missing. */
weir_status weir__llm_load(const char *path, struct weir__llm *out);
weir_status weir__llm_parse(const char *text, size_t size, const char *path, struct weir__llm *out);
/* Parameters, all and those that one token uses. */
double weir__llm_parameters(const struct weir__llm *m, bool active);
/* Of the attention of one layer. */
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
    uint32_t tp, pp, ep;   /* ep: dies that share the experts, 0 for tp x dp; 1: each tp group has
                            * all of them */
    double batch;          /* sequences of one replica of attention (tp x pp dies) */
    double prompt, output; /* tokens */
    enum weir__quant quant;
    enum weir__placement placement;
    double accept;         /* tokens of a step beyond the first that MTP brings; 0: no MTP */
    double imbalance;      /* load of the fullest die's experts, of the mean; 0: by how many
                            * experts a die has and how many dies there are */
    double jitter;         /* of what a die's attention takes: standard deviation, of the mean */
    uint32_t cube, vector; /* cores of the attention stream of two microbatches; the other has
                            * the rest. 0: what decodes fastest, 1/2, 2/3 or 5/6 of them */
    double chunk;          /* tokens of prompts that ride with each decode step; 0: prompts have
                            * steps of their own */
    double chunk_context;  /* keys that one of them sees; 0: half of a prompt */
    bool prefetch;         /* experts' weights come to the second level beside the dispatch */
    bool prolog;           /* of MLA, the cache's side on a stream of its own */
    bool spread; /* of MLA, in a prefill: each die has some heads of all tokens, and its own
                  * tokens for the rest, so that prompts of any length load dies alike */
};
void weir__deploy_init(struct weir__deploy *d);
/* The load of the fullest die's experts, of the mean. */
double weir__deploy_imbalance(const struct weir__llm *m, const struct weir__deploy *d,
                              bool prefill);
/* What the last of n dies is expected to take more than the mean, in standard deviations. */
double weir__last_of(double n);
/* Dies that share the experts. */
double weir__deploy_expert_dies(const struct weir__deploy *d);
/* Dies that share the head: those of a replica, or up to 16 where replicas step together. */
double weir__deploy_head_dies(const struct weir__llm *m, const struct weir__deploy *d);
/* Layers without experts that each stage has. */
double weir__deploy_dense_layers(const struct weir__llm *m, const struct weir__deploy *d);
/* Whether there are two microbatches: a batch of one cannot be halved. */
bool weir__deploy_has_two(const struct weir__deploy *d);
/* Until the last prompt of a batch has its first token, where a step on all stages takes `us`. */
double weir__deploy_first_us(const struct weir__deploy *d, double us);
/* Shares of the cores that attention may have beside experts. */
enum { WEIR__CORE_SHARES = 3 };
void weir__deploy_share_cores(struct weir__deploy *d, const struct weir__profile *p, int share);
/* returns  WEIR_EINVAL naming what does not divide what, or is out of range. */
weir_status weir__deploy_check(const struct weir__llm *m, const struct weir__deploy *d);
/* Sets the cores that are left open. returns  as weir__estimate_model. */
weir_status weir__deploy_complete(weir_device *dev, const struct weir__llm *m,
                                  struct weir__deploy *d);

/* ---- the graph of a step ---- */

struct weir__model_step {
    bool prefill;
    double layers; /* of the model that are written, the first ones; 0: those of a stage */
};

/* The step as a graph file. */
weir_status weir__estimate_graph(const struct weir__llm *m, const struct weir__deploy *d,
                                 const struct weir__model_step *step, const struct weir__profile *p,
                                 struct weir__text *out);

/* ---- the answer ---- */

enum weir__roof {
    WEIR__ROOF_MEMORY,
    WEIR__ROOF_CUBE,
    WEIR__ROOF_VECTOR,
    WEIR__ROOF_LINK,
    WEIR__ROOF_HEAD,  /* launching, and before the first byte moves */
    WEIR__ROOF_CORES, /* the few cores it may have: neither memory nor all cores are busy */
    WEIR__ROOFS
};
extern const char *const weir__roof_names[WEIR__ROOFS];

/* Nodes of one kind, such as o_proj of every layer. */
struct weir__estimate_part {
    char name[32], stream[16];
    uint32_t count;
    double us;    /* of one, as it ran */
    double alone; /* of one with the machine to itself */
    enum weir__roof limit;
};

struct weir__estimate_step {
    double us; /* of the whole step on all stages, with what the host takes to start it */
    double error;
    struct weir__estimate_part *parts;
    size_t nparts;
    double exposed_us; /* communication that nothing hides */
    /* One layer in the middle, for a picture. */
    struct weir__estimate_bar {
        char name[32], stream[16];
        double start, end;
    } * bars;
    size_t nbars;
};

struct weir__estimate_memory {
    double weights, cache, activations; /* bytes of one die */
    double most;                        /* that it has */
    double most_batch;                  /* that fits */
};

struct weir__estimate {
    struct weir__deploy d; /* as settled */
    struct weir__estimate_step prefill, decode;
    struct weir__estimate_memory memory;
    double ttft_ms, tpot_ms;
    double prefill_rate, decode_rate; /* tokens a second of the whole system */
    double cards;                     /* packages */
    double error;
};

/* `dev` is a modelled device.
 * returns  WEIR_EUNSUPPORTED for one of real time; what weir__deploy_check does. */
weir_status weir__estimate_model(weir_device *dev, const struct weir__llm *m,
                                 const struct weir__deploy *d, struct weir__estimate *out);
void weir__estimate_fini(struct weir__estimate *e);
/* The same without parts and bars, from a few layers: for searches. */
weir_status weir__estimate_quick(weir_device *dev, const struct weir__llm *m,
                                 const struct weir__deploy *d, struct weir__estimate *out);

/* Microseconds of a prefill or a decode step on all stages, from a few layers. */
weir_status weir__estimate_time_step(weir_device *dev, const struct weir__llm *m,
                                     const struct weir__deploy *d, bool prefill, double *us);
/* A graph file instead of a model: its makespan and its parts, by what stands before a number in
 * the names of nodes. */
weir_status weir__estimate_file(weir_device *dev, const char *path, struct weir__estimate_step *out,
                                double *bytes);

void weir__estimate_find_memory(const struct weir__llm *m, const struct weir__deploy *d,
                                const struct weir__profile *p, struct weir__estimate_memory *out);

/* ---- search ---- */

struct weir__search_options {
    double ttft_ms, tpot_ms; /* limits; 0: none */
    double max_batch;
    bool (*poll)(void *user, size_t tried, size_t all); /* false ends it; may be NULL */
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
