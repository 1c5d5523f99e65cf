/* config.json of a model, as Hugging Face has it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "graph/estimate/estimate.h"
#include "trace/read/json_read.h"

enum { MOST_BYTES = 4 << 20 };

/* What a config says, before it is known what that means. */
struct config {
    char type[48];
    double hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim;
    double vocab_size, intermediate_size, moe_intermediate_size, first_k_dense_replace;
    double n_routed_experts, num_experts, num_local_experts;
    double num_experts_per_tok, experts_per_token, n_shared_experts;
    double shared_expert_intermediate_size, q_lora_rank, kv_lora_rank;
    double qk_rope_head_dim, qk_nope_head_dim, v_head_dim, num_nextn_predict_layers;
    double sliding_window, n_group, topk_group;
    bool tie_word_embeddings, use_sliding_window, has_use_window;
};

static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
#define NUMBER(key)                        \
    {                                      \
#key, offsetof(struct config, key) \
    }
    NUMBER(hidden_size),
    NUMBER(num_hidden_layers),
    NUMBER(num_attention_heads),
    NUMBER(num_key_value_heads),
    NUMBER(head_dim),
    NUMBER(vocab_size),
    NUMBER(intermediate_size),
    NUMBER(moe_intermediate_size),
    NUMBER(first_k_dense_replace),
    NUMBER(n_routed_experts),
    NUMBER(num_experts),
    NUMBER(num_local_experts),
    NUMBER(num_experts_per_tok),
    NUMBER(experts_per_token),
    NUMBER(n_shared_experts),
    NUMBER(shared_expert_intermediate_size),
    NUMBER(q_lora_rank),
    NUMBER(kv_lora_rank),
    NUMBER(qk_rope_head_dim),
    NUMBER(qk_nope_head_dim),
    NUMBER(v_head_dim),
    NUMBER(num_nextn_predict_layers),
    NUMBER(sliding_window),
    NUMBER(n_group),
    NUMBER(topk_group),
#undef NUMBER
};

static void read_value(struct weir__json *j, const char *key, struct config *c)
{
    enum weir__json_kind kind = weir__json_peek(j);

    if (kind == WEIR__JSON_NUMBER)
        for (size_t i = 0; i < weir__countof(numbers); i++)
            if (!strcmp(key, numbers[i].key)) {
                *(double *)((char *)c + numbers[i].offset) = (double)weir__json_number(j);
                return;
            }
    if (kind == WEIR__JSON_STRING && !strcmp(key, "model_type")) {
        snprintf(c->type, sizeof c->type, "%s", weir__json_string(j));
    } else if (kind == WEIR__JSON_WORD && !strcmp(key, "tie_word_embeddings")) {
        c->tie_word_embeddings = weir__json_bool(j);
    } else if (kind == WEIR__JSON_WORD && !strcmp(key, "use_sliding_window")) {
        c->use_sliding_window = weir__json_bool(j);
        c->has_use_window = true;
    } else {
        weir__json_skip(j);
    }
}

static double first_of(double a, double b)
{
    return a > 0 ? a : b;
}

static void translate(const struct config *c, struct weir__llm *m)
{
    double experts = first_of(c->n_routed_experts, first_of(c->num_experts, c->num_local_experts));

    *m = (struct weir__llm){
        .hidden = c->hidden_size,
        .layers = c->num_hidden_layers,
        .heads = c->num_attention_heads,
        .kv_heads = first_of(c->num_key_value_heads, c->num_attention_heads),
        .vocab = c->vocab_size,
        .dense_dim = c->intermediate_size,
        .dense_layers = experts > 0 ? c->first_k_dense_replace : c->num_hidden_layers,
        .experts = experts,
        .top = experts > 0 ? first_of(c->num_experts_per_tok, c->experts_per_token) : 0,
        .expert_dim = experts > 0 ? first_of(c->moe_intermediate_size, c->intermediate_size) : 0,
        .groups = experts > 0 && c->topk_group > 0 ? c->n_group : 0,
        .top_groups = c->topk_group,
        .q_rank = c->q_lora_rank,
        .kv_rank = c->kv_lora_rank,
        .rope = c->qk_rope_head_dim,
        .nope = c->qk_nope_head_dim,
        .v_dim = c->v_head_dim,
        .window = c->has_use_window && !c->use_sliding_window ? 0 : c->sliding_window,
        .mtp = c->num_nextn_predict_layers,
        .tied = c->tie_word_embeddings,
    };
    snprintf(m->family, sizeof m->family, "%s", c->type);
    m->head_dim = first_of(c->head_dim, m->heads > 0 ? m->hidden / m->heads : 0);
    m->shared_dim = first_of(c->shared_expert_intermediate_size,
                             c->n_shared_experts * c->moe_intermediate_size);
    if (strcmp(c->type, "gpt_oss") != 0)
        m->window = 0; /* others attend to everything wherever this matters */
}

static weir_status check(const struct weir__llm *m, const char *path)
{
    const struct {
        const char *key;
        double value, most;
    } needed[] = {
        {"hidden_size", m->hidden, 1e6},
        {"num_hidden_layers", m->layers, 1e4},
        {"num_attention_heads", m->heads, 1e5},
        {"vocab_size", m->vocab, 1e8},
        {"intermediate_size", m->dense_layers > 0 ? m->dense_dim : 1, 1e7},
        {"num_experts_per_tok", m->experts > 0 ? m->top : 1, 1e4},
        {"moe_intermediate_size", m->experts > 0 ? m->expert_dim : 1, 1e7},
        {"qk_rope_head_dim", m->kv_rank > 0 ? m->rope : 1, 1e5},
        {"qk_nope_head_dim", m->kv_rank > 0 ? m->nope : 1, 1e5},
        {"v_head_dim", m->kv_rank > 0 ? m->v_dim : 1, 1e5},
    };

    for (size_t i = 0; i < weir__countof(needed); i++)
        if (!(needed[i].value >= 1 && needed[i].value <= needed[i].most))
            return weir__fail(WEIR_EPARSE, "%s: %s is %g: it must be there and in 1..%g", path,
                              needed[i].key, needed[i].value, needed[i].most);
    if (m->experts > 0 && m->top > m->experts)
        return weir__fail(WEIR_EPARSE, "%s: num_experts_per_tok is %g, of %g experts", path, m->top,
                          m->experts);
    return WEIR_OK;
}

weir_status weir__llm_parse(const char *text, size_t size, const char *path, struct weir__llm *out)
{
    struct config c = {0};
    struct weir__json j;
    char key[64];
    bool bad;

    weir__json_init(&j, path, text, size);
    if (weir__json_object(&j))
        while (weir__json_key(&j, key, sizeof key)) {
            /* models of several modes have the sizes of the text part one level down */
            if (!strcmp(key, "text_config") && weir__json_peek(&j) == WEIR__JSON_OBJECT) {
                weir__json_object(&j);
                while (weir__json_key(&j, key, sizeof key))
                    read_value(&j, key, &c);
            } else {
                read_value(&j, key, &c);
            }
        }
    weir__json_end(&j);
    bad = j.bad;
    weir__json_fini(&j);
    if (bad)
        return WEIR_EPARSE;
    translate(&c, out);
    return check(out, path);
}

weir_status weir__llm_load(const char *path, struct weir__llm *out)
{
    FILE *f = fopen(path, "re");
    char *text;
    size_t n;
    weir_status st;

    if (!f)
        return weir__fail(WEIR_EIO, "%s: %s", path, strerror(errno));
    if (!(text = weir__malloc(MOST_BYTES))) {
        fclose(f);
        return weir__fail_nomem("reading %s", path);
    }
    n = fread(text, 1, MOST_BYTES, f);
    if (ferror(f))
        st = weir__fail(WEIR_EIO, "%s: %s", path, strerror(errno));
    else if (n == MOST_BYTES)
        st = weir__fail(WEIR_EPARSE, "%s is longer than %d bytes", path, MOST_BYTES - 1);
    else
        st = weir__llm_parse(text, n, path, out);
    weir__free(text);
    fclose(f);
    return st;
}

double weir__llm_parameters(const struct weir__llm *m, bool active)
{
    double attention =
        m->kv_rank > 0
            ? (m->q_rank > 0 ? m->hidden * m->q_rank + m->q_rank * m->heads * (m->nope + m->rope)
                             : m->hidden * m->heads * (m->nope + m->rope)) +
                  m->hidden * (m->kv_rank + m->rope) +
                  m->kv_rank * m->heads * (m->nope + m->v_dim) + m->heads * m->v_dim * m->hidden
            : m->hidden * m->head_dim * (2 * m->heads + 2 * m->kv_heads);
    double dense = 3 * m->hidden * m->dense_dim;
    double expert = 3 * m->hidden * m->expert_dim;
    double moe = (active ? m->top : m->experts) * expert + 3 * m->hidden * m->shared_dim +
                 m->hidden * m->experts;

    return m->layers * attention + m->dense_layers * dense + (m->layers - m->dense_layers) * moe +
           (m->tied ? 1 : 2) * m->vocab * m->hidden;
}
