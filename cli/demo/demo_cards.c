/* Predicts what streams gain for a large model on cards that this machine does not have. */
#include "demo/demo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/estimate/estimate.h"
#include "term.h"

enum { RANKS = 64, BATCH = 32, PROMPT = 2048 };

/* The sizes in the model's config.json. */
static const char model[] =
    "{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, \"num_hidden_layers\": 61,"
    " \"num_attention_heads\": 128, \"num_key_value_heads\": 128, \"vocab_size\": 129280,"
    " \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048,"
    " \"first_k_dense_replace\": 3, \"n_routed_experts\": 256, \"num_experts_per_tok\": 8,"
    " \"n_shared_experts\": 1, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512,"
    " \"qk_rope_head_dim\": 64, \"qk_nope_head_dim\": 128, \"v_head_dim\": 128,"
    " \"num_nextn_predict_layers\": 1, \"tie_word_embeddings\": false}";

/* By enum weir__placement. */
struct answers {
    struct weir__estimate by[3];
};

static void estimate(struct answers *a)
{
    struct weir__deploy d;
    struct weir__llm llm;
    weir_device *dev;

    demo_must(weir_device_open("npu:a3", &dev));
    demo_must(weir__llm_parse(model, strlen(model), "DeepSeek-V3", &llm));
    weir__deploy_init(&d);
    d.ranks = RANKS;
    d.batch = BATCH;
    d.prompt = PROMPT;
    d.quant = WEIR__QUANT_W8A8;
    for (int p = 0; p < 3; p++) {
        d.placement = (enum weir__placement)p;
        demo_must(weir__estimate_model(dev, &llm, &d, &a->by[p]));
    }
    demo_must(weir_device_close(dev));
}

/* The labels of the parts that are long enough to show in the chart. */
static const struct part {
    const char *name, *label;
    int family;
} parts[] = {
    {"mla_prolog", "mla", 0}, {"attention", "attn", 0}, {"o_proj", "proj", 0},
    {"dispatch", "d", 2},     {"combine", "c", 2},      {"expert_up", "experts", 0},
    {"expert_down", "", 0},   {"shared_up", "s", 1},    {"shared_act", "", 1},
    {"shared_down", "s", 1},
};

static struct part part_of(const struct weir__estimate_bar *b)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(b->name, parts[i].name))
            return parts[i];
    return (struct part){b->name, "", 0};
}

static double first_of(const struct weir__estimate_step *s)
{
    double first = INFINITY;

    for (size_t i = 0; i < s->nbars; i++)
        first = fmin(first, s->bars[i].start);
    return first;
}

/* Prints a layer of a decode step in both placements, on one axis. */
static void print_layers(const struct answers *a)
{
    static const char *const names[] = {"1 stream", "2 streams"};
    const struct weir__estimate_step *steps[] = {&a->by[WEIR__PLACE_SINGLE].decode,
                                                 &a->by[WEIR__PLACE_SHARED].decode};
    struct term_bar *bars = demo_need(calloc(steps[0]->nbars + steps[1]->nbars + 1, sizeof *bars));
    char labels[DEMO_MAX_ROWS][64], notes[DEMO_MAX_ROWS][32] = {""};
    const char *rows[DEMO_MAX_ROWS], *ends[DEMO_MAX_ROWS], *streams[DEMO_MAX_ROWS];
    struct term_gantt g = {.rows = rows, .notes = ends, .bars = bars};

    for (int f = 0; f < 2; f++) {
        double first = first_of(steps[f]), last = 0;
        int top = g.nrows;

        for (size_t i = 0; i < steps[f]->nbars; i++) {
            const struct weir__estimate_bar *b = &steps[f]->bars[i];
            int row = top;

            if (!strcmp(b->stream, "peers")) /* waits for the other dies: not shown */
                continue;
            while (row < g.nrows && strcmp(streams[row], b->stream) != 0)
                row++;
            if (row == DEMO_MAX_ROWS)
                continue;
            if (row == g.nrows) {
                streams[row] = b->stream;
                snprintf(labels[row], sizeof labels[0], "%-9s  %s", row == top ? names[f] : "",
                         b->stream);
                rows[row] = labels[row];
                ends[row] = notes[row];
                g.nrows++;
            }
            last = fmax(last, b->end - first);
            bars[g.nbars++] = (struct term_bar){.row = row,
                                                .start = (b->start - first) / 1e3,
                                                .end = (b->end - first) / 1e3,
                                                .label = part_of(b).label,
                                                .family = part_of(b).family};
        }
        if (top < g.nrows)
            snprintf(notes[top], sizeof notes[0], "%s", term_ms(last / 1e3).text);
    }
    term_gantt_print(&g, 3);
    free(bars);
}

static void print(const struct answers *a, bool gains)
{
    const struct weir__estimate *one = &a->by[WEIR__PLACE_SINGLE];
    const struct weir__estimate *shared = &a->by[WEIR__PLACE_SHARED];
    const struct weir__estimate *two = &a->by[WEIR__PLACE_TWO];
    char text[512];

    demo_headline(
        5, "A large model on cards that you do not have",
        "DeepSeek-V3 with 8-bit weights on %d dies of npu:a3, a model of Ascend's 910C in "
        "virtual time. Each die decodes %d sequences after prompts of %d tokens; the "
        "experts are spread over all dies. One layer, with the shared expert after the "
        "others and at the same time as dispatch (d: dispatch, c: combine, s: shared "
        "expert):",
        RANKS, BATCH, PROMPT);
    print_layers(a);
    snprintf(text, sizeof text,
             "A token takes %.1f ms on one stream and %.1f ms with the shared expert beside "
             "dispatch (%.2fx). Prompts: %.0f tokens/s per card on one stream, %.0f as two "
             "microbatches, where one computes while the other communicates (%.2fx). Times may be "
             "off by %.0f %%; docs/validation.md compares them with published measurements.",
             one->tpot_ms, shared->tpot_ms, one->tpot_ms / shared->tpot_ms,
             one->prefill_rate / one->cards, two->prefill_rate / two->cards,
             two->prefill_rate / one->prefill_rate, 100 * one->error);
    term_paragraph(3, text);
    demo_verdict(gains, gains ? "streams help in both cases, and no card was needed to find out"
                              : "streams do not help");
}

static void print_json(const struct answers *a, struct json *j)
{
    json_object(j, "cards");
    json_int(j, "ranks", RANKS);
    json_array(j, "placements");
    for (int p = 0; p < 3; p++) {
        json_object(j, NULL);
        json_string(j, "name", weir__placement_names[p]);
        json_number(j, "tpot_ms", a->by[p].tpot_ms);
        json_number(j, "prefill_tokens_per_s", a->by[p].prefill_rate);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

bool demo_cards(struct json *j)
{
    struct answers a;
    bool gains;

    estimate(&a);
    gains = a.by[WEIR__PLACE_SHARED].tpot_ms < a.by[WEIR__PLACE_SINGLE].tpot_ms &&
            a.by[WEIR__PLACE_TWO].prefill_rate > a.by[WEIR__PLACE_SINGLE].prefill_rate;
    if (j)
        print_json(&a, j);
    else
        print(&a, gains);
    for (int p = 0; p < 3; p++)
        weir__estimate_fini(&a.by[p]);
    return gains;
}
