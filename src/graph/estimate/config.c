/* Reads config.json of a model, in Hugging Face's format. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/estimate/estimate.h"
#include "trace/read/json_read.h"

enum { MOST_BYTES = 4 << 20 };

/* Which layers use sliding-window attention. */
enum window_rule {
    WINDOW_NONE,
    WINDOW_ALL,  /* all layers, if there is a sliding_window */
    WINDOW_HALF, /* every other layer, unless layer_types says which */
    WINDOW_LAST, /* layers from max_window_layers on, if use_sliding_window is true */
};

/* The families whose layers layers.c can write. */
static const struct {
    const char *type;
    enum window_rule window;
} families[] = {
    {"llama", WINDOW_NONE},       {"mistral", WINDOW_ALL},      {"mixtral", WINDOW_ALL},
    {"phi3", WINDOW_ALL},         {"qwen2", WINDOW_LAST},       {"qwen2_moe", WINDOW_LAST},
    {"qwen3", WINDOW_LAST},       {"qwen3_moe", WINDOW_LAST},   {"deepseek", WINDOW_NONE},
    {"deepseek_v2", WINDOW_NONE}, {"deepseek_v3", WINDOW_NONE}, {"kimi_k2", WINDOW_NONE},
    {"glm4_moe", WINDOW_NONE},    {"gpt_oss", WINDOW_HALF},
};

/* The raw values of a config. */
struct config {
    char type[48], quant[16];
    double hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim;
    double vocab_size, intermediate_size, moe_intermediate_size, first_k_dense_replace;
    double n_routed_experts, num_experts, num_local_experts;
    double num_experts_per_tok, experts_per_token, n_shared_experts;
    double shared_expert_intermediate_size, q_lora_rank, kv_lora_rank;
    double qk_rope_head_dim, qk_nope_head_dim, v_head_dim, num_nextn_predict_layers;
    double sliding_window, max_window_layers, n_group, topk_group;
    double decoder_sparse_step, moe_layer_freq;
    double dense_named;   /* number of layers that mlp_only_layers or a list in moe_layer_freq
                           * names */
    double sliding_named; /* number of layers that layer_types marks as sliding */
    bool has_layer_types, other_attention;
    bool tie_word_embeddings, use_sliding_window;
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
    NUMBER(max_window_layers),
    NUMBER(decoder_sparse_step),
    NUMBER(moe_layer_freq),
    NUMBER(n_group),
    NUMBER(topk_group),
#undef NUMBER
};

/* Reads "layer_types": the kind of attention of each layer. */
static void read_layer_types(struct weir__json *j, struct config *c)
{
    c->has_layer_types = true;
    c->sliding_named = 0;
    weir__json_array(j);
    while (weir__json_item(j)) {
        const char *type = weir__json_peek(j) == WEIR__JSON_STRING ? weir__json_string(j)
                                                                   : (weir__json_skip(j), "");

        if (type && !strcmp(type, "sliding_attention"))
            c->sliding_named++;
        else if (type && strcmp(type, "full_attention") != 0)
            c->other_attention = true;
    }
}

/* Counts layers without experts: "mlp_only_layers" lists their numbers, "moe_layer_freq" may be a
 * list with 0 for each of them. */
static void read_dense_layers(struct weir__json *j, bool numbers_of_layers, struct config *c)
{
    weir__json_array(j);
    while (weir__json_item(j)) {
        bool number = weir__json_peek(j) == WEIR__JSON_NUMBER;
        double value = number ? (double)weir__json_number(j) : (weir__json_skip(j), 1);

        c->dense_named += numbers_of_layers ? number : number && value == 0;
    }
}

static void read_quantisation(struct weir__json *j, struct config *c)
{
    char key[32];

    weir__json_object(j);
    while (weir__json_key(j, key, sizeof key))
        if (!strcmp(key, "quant_method") && weir__json_peek(j) == WEIR__JSON_STRING)
            snprintf(c->quant, sizeof c->quant, "%s", weir__json_string(j));
        else
            weir__json_skip(j);
}

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
    } else if (kind == WEIR__JSON_ARRAY && !strcmp(key, "layer_types")) {
        read_layer_types(j, c);
    } else if (kind == WEIR__JSON_ARRAY && !strcmp(key, "mlp_only_layers")) {
        read_dense_layers(j, true, c);
    } else if (kind == WEIR__JSON_ARRAY && !strcmp(key, "moe_layer_freq")) {
        read_dense_layers(j, false, c);
    } else if (kind == WEIR__JSON_OBJECT && !strcmp(key, "quantization_config")) {
        read_quantisation(j, c);
    } else {
        weir__json_skip(j);
    }
}

static double first_of(double a, double b)
{
    return a > 0 ? a : b;
}

/* The number of layers with an MLP in place of experts. */
static double dense_layers(const struct config *c)
{
    double layers = c->num_hidden_layers, every = first_of(c->decoder_sparse_step, 1);
    double from = c->first_k_dense_replace, frequency = first_of(c->moe_layer_freq, 1);
    double with = floor(layers / every);

    if (frequency > 1) /* layers whose number it divides have experts, after the first ones */
        with = fmax(0, ceil(layers / frequency) - ceil(from / frequency));
    else
        with -= from;
    return fmin(layers - with + c->dense_named, fmax(layers, layers - with));
}

static double window_layers(const struct config *c)
{
    enum window_rule rule = WINDOW_NONE;

    for (size_t i = 0; i < weir__countof(families); i++)
        if (!strcmp(c->type, families[i].type))
            rule = families[i].window;
    if (!(c->sliding_window > 0) || rule == WINDOW_NONE ||
        (rule == WINDOW_LAST && !c->use_sliding_window))
        return 0;
    return c->has_layer_types    ? c->sliding_named
           : rule == WINDOW_ALL  ? c->num_hidden_layers
           : rule == WINDOW_HALF ? ceil(c->num_hidden_layers / 2)
                                 : fmax(0, c->num_hidden_layers - c->max_window_layers);
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
        .dense_layers = experts > 0 ? dense_layers(c) : c->num_hidden_layers,
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
        .window_layers = window_layers(c),
        .mtp = c->num_nextn_predict_layers,
        .tied = c->tie_word_embeddings,
    };
    snprintf(m->family, sizeof m->family, "%s", c->type);
    snprintf(m->quant, sizeof m->quant, "%s", c->quant);
    m->window = m->window_layers > 0 ? c->sliding_window : 0;
    m->head_dim = first_of(c->head_dim, m->heads > 0 ? m->hidden / m->heads : 0);
    m->shared_dim = experts > 0 ? first_of(c->shared_expert_intermediate_size,
                                           c->n_shared_experts * c->moe_intermediate_size)
                                : 0;
}

/* Refuses unknown families: their answer would describe the layers of another family. */
static weir_status check_family(const struct config *c, const char *path)
{
    char known[256] = "";

    for (size_t i = 0; i < weir__countof(families); i++) {
        size_t n = strlen(known);

        if (!strcmp(c->type, families[i].type) && !c->other_attention)
            return WEIR_OK;
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", families[i].type);
    }
    if (c->other_attention)
        return weir__fail(WEIR_EPARSE,
                          "%s: layer_types has an entry that is neither full_attention nor "
                          "sliding_attention: only these are known",
                          path);
    return weir__fail(WEIR_EPARSE,
                      "%s: model_type '%.47s' is unknown; the known ones are %s. If its layers are "
                      "those of a known one, write that name into a copy of the file",
                      path, c->type, known);
}

static weir_status check(const struct weir__llm *m, const char *path)
{
    const struct {
        const char *key;
        double value, most;
        bool may_lack;
    } needed[] = {
        {"hidden_size", m->hidden, 1e6, false},
        {"num_hidden_layers", m->layers, 1e4, false},
        {"num_attention_heads", m->heads, 1e5, false},
        {"num_key_value_heads", m->kv_heads, m->heads, false},
        {"head_dim", m->kv_rank > 0 ? 1 : m->head_dim, 1e5, false},
        {"vocab_size", m->vocab, 1e8, false},
        {"intermediate_size", m->dense_layers > 0 ? m->dense_dim : 1, 1e7, false},
        {"n_routed_experts, num_experts or num_local_experts", m->experts, 1e5, true},
        {"num_experts_per_tok", m->experts > 0 ? m->top : 1, 1e4, false},
        {"moe_intermediate_size", m->experts > 0 ? m->expert_dim : 1, 1e7, false},
        {"size of the shared experts", m->shared_dim, 1e7, true},
        {"first_k_dense_replace", m->experts > 0 ? m->dense_layers : 0, m->layers, true},
        {"kv_lora_rank", m->kv_rank, 1e5, true},
        {"q_lora_rank", m->q_rank, 1e5, true},
        {"qk_rope_head_dim", m->kv_rank > 0 ? m->rope : 1, 1e5, false},
        {"qk_nope_head_dim", m->kv_rank > 0 ? m->nope : 1, 1e5, false},
        {"v_head_dim", m->kv_rank > 0 ? m->v_dim : 1, 1e5, false},
        {"sliding_window", m->window, 1e9, true},
        {"num_nextn_predict_layers", m->mtp, 100, true},
    };

    for (size_t i = 0; i < weir__countof(needed); i++) {
        double value = needed[i].value;

        if (!(value >= (needed[i].may_lack ? 0 : 1) && value <= needed[i].most))
            return weir__fail(WEIR_EPARSE, "%s: %s is %g: it must be %s1..%g", path, needed[i].key,
                              value, needed[i].may_lack ? "absent or in " : "present and in ",
                              needed[i].most);
        if (value != floor(value))
            return weir__fail(WEIR_EPARSE, "%s: %s is %g, not a whole number", path, needed[i].key,
                              value);
    }
    if (m->experts > 0 && m->top > m->experts)
        return weir__fail(WEIR_EPARSE, "%s: num_experts_per_tok is %g, of %g experts", path, m->top,
                          m->experts);
    if (!(m->kv_rank > 0) && fmod(m->heads, m->kv_heads) != 0)
        return weir__fail(WEIR_EPARSE,
                          "%s: num_key_value_heads is %g: it must divide the %g of "
                          "num_attention_heads",
                          path, m->kv_heads, m->heads);
    return WEIR_OK;
}

weir_status weir__llm_parse(const char *text, size_t size, const char *path, struct weir__llm *out)
{
    struct config c = {0};
    struct weir__json j;
    char key[64], type[48] = "";
    weir_status st;
    bool bad;

    weir__json_init(&j, path, text, size);
    if (weir__json_object(&j))
        while (weir__json_key(&j, key, sizeof key)) {
            /* models of several modalities keep the sizes of the text part in text_config */
            if (!strcmp(key, "text_config") && weir__json_peek(&j) == WEIR__JSON_OBJECT) {
                weir__json_object(&j);
                while (weir__json_key(&j, key, sizeof key))
                    read_value(&j, key, &c);
                memcpy(type, c.type, sizeof type);
            } else {
                read_value(&j, key, &c);
            }
        }
    weir__json_end(&j);
    bad = j.bad;
    weir__json_fini(&j);
    if (bad)
        return WEIR_EPARSE;
    if (*type)
        memcpy(c.type, type, sizeof type);
    if ((*c.type || c.other_attention) && (st = check_family(&c, path)))
        return st;
    translate(&c, out);
    return (st = check(out, path)) ? st : check_family(&c, path);
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

double weir__llm_attention(const struct weir__llm *m)
{
    if (!(m->kv_rank > 0))
        return m->hidden * m->head_dim * (2 * m->heads + 2 * m->kv_heads);
    return (m->q_rank > 0 ? m->hidden * m->q_rank + m->q_rank * m->heads * (m->nope + m->rope)
                          : m->hidden * m->heads * (m->nope + m->rope)) +
           m->hidden * (m->kv_rank + m->rope) + m->kv_rank * m->heads * (m->nope + m->v_dim) +
           m->heads * m->v_dim * m->hidden;
}

double weir__llm_parameters(const struct weir__llm *m, bool active)
{
    double dense = 3 * m->hidden * m->dense_dim;
    double expert = 3 * m->hidden * m->expert_dim;
    double moe = (active ? m->top : m->experts) * expert + 3 * m->hidden * m->shared_dim +
                 m->hidden * m->experts;

    return m->layers * weir__llm_attention(m) + m->dense_layers * dense +
           (m->layers - m->dense_layers) * moe + (m->tied ? 1 : 2) * m->vocab * m->hidden;
}
