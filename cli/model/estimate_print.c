/* Prints the results of `weir estimate`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "model/estimate.h"
#include "term.h"

enum { STREAMS = 8 };

static void print_gantt(const struct weir__estimate_step *s)
{
    const char *rows[STREAMS], *notes[STREAMS];
    struct term_bar *bars = calloc(s->nbars + 1, sizeof *bars);
    struct term_gantt g = {.rows = rows, .notes = notes, .bars = bars};
    double first = INFINITY;

    if (!bars)
        return;
    for (size_t i = 0; i < s->nbars; i++)
        first = fmin(first, s->bars[i].start);
    for (size_t i = 0; i < s->nbars; i++) {
        int row = 0;

        while (row < g.nrows && strcmp(rows[row], s->bars[i].stream) != 0)
            row++;
        if (row == STREAMS)
            continue;
        if (row == g.nrows) {
            rows[g.nrows] = s->bars[i].stream;
            notes[g.nrows++] = "";
        }
        bars[g.nbars++] = (struct term_bar){.row = row,
                                            .start = (s->bars[i].start - first) / 1e3,
                                            .end = (s->bars[i].end - first) / 1e3,
                                            .label = s->bars[i].name,
                                            .family = (int)(i % 5)};
    }
    term_gantt_print(&g, 2);
    free(bars);
}

void estimate_print_parts(const char *title, const struct weir__estimate_step *s)
{
    static const struct term_column columns[] = {
        {"part", false},    {"stream", false}, {"times", true},    {"us each", true},
        {"alone us", true}, {"share", true},   {"bound by", false}};
    struct term_table t = {.columns = columns, .ncolumns = 7};
    double all = 0;

    for (size_t i = 0; i < s->nparts; i++)
        all += s->parts[i].us * s->parts[i].count;
    for (size_t i = 0; i < s->nparts; i++) {
        const struct weir__estimate_part *p = &s->parts[i];
        char count[16], us[24], alone[24], share[16];

        snprintf(count, sizeof count, "%u", p->count);
        snprintf(us, sizeof us, "%.1f", p->us);
        snprintf(alone, sizeof alone, "%.1f", p->alone);
        snprintf(share, sizeof share, "%.1f %%", all > 0 ? 100 * p->us * p->count / all : 0);
        term_table_add(&t, (const char *[]){p->name, p->stream, count, us, alone, share,
                                            weir__roof_names[p->limit]});
    }
    printf("\n%s\n", title);
    term_table_print(&t, 2);
}

void estimate_print(const struct estimate_job *job, const struct weir__estimate *e)
{
    const struct weir__deploy *d = &e->d;
    const struct weir__estimate_memory *m = &e->memory;
    double low = 1 - e->error, high = 1 + e->error;
    weir_device_props props;
    char how[64];

    estimate_placement(d, how, sizeof how);
    weir_device_get_props(job->dev, &props, sizeof props);
    printf("%s%s%s, %.1f B parameters, %.1f B of them for a token, on %u x %s\n",
           term_on(TERM_BOLD), job->llm.family[0] ? job->llm.family : job->path, term_off(),
           weir__llm_parameters(&job->llm, false) / 1e9,
           weir__llm_parameters(&job->llm, true) / 1e9, d->ranks, props.name);
    printf("tp %u, pp %u, ", d->tp, d->pp);
    if (job->llm.experts > 0)
        printf("ep %g, ", weir__deploy_expert_dies(d));
    printf("%g sequences a replica, %g + %g tokens, %s, %s\n\n", d->batch, d->prompt, d->output,
           weir__quant_names[d->quant], how);
    if (!job->as_asked)
        printf("  %g sequences on %u stages cannot be halved: one microbatch\n\n", d->batch, d->pp);
    if (job->llm.quant[0] && d->quant == WEIR__QUANT_BF16)
        printf("  the file's weights are in %s; these are taken to be in bf16 (--quant)\n\n",
               job->llm.quant);
    printf("  first token    %s%10.1f ms%s   %.1f to %.1f ms: ", term_on(TERM_BOLD), e->ttft_ms,
           term_off(), e->ttft_ms * low, e->ttft_ms * high);
    if (d->chunk > 0)
        printf("%g tokens of the prompt in each step\n", d->chunk);
    else
        printf("the prompts of a batch at once\n");
    printf("  each token     %s%10.2f ms%s   %.2f to %.2f ms\n", term_on(TERM_BOLD), e->tpot_ms,
           term_off(), e->tpot_ms * low, e->tpot_ms * high);
    printf("  decode         %10.0f tokens/s in all, %.0f a card\n", e->decode_rate,
           e->decode_rate / e->cards);
    printf("  prefill        %10.0f tokens/s in all, %.0f a card\n", e->prefill_rate,
           e->prefill_rate / e->cards);
    printf("  memory         %10s weights, %s cache, ", term_bytes((size_t)m->weights).text,
           term_bytes((size_t)m->cache).text);
    printf("%s activations of ", term_bytes((size_t)m->activations).text);
    printf("%s: %s%s%s, a batch of %.0f fits\n", term_bytes((size_t)m->most).text,
           term_on(d->batch <= m->most_batch ? TERM_GOOD : TERM_BAD),
           d->batch <= m->most_batch ? "fits" : "does not fit", term_off(), m->most_batch);
    printf("  exposed        %10.1f us of communication in a decode step\n", e->decode.exposed_us);
    estimate_print_parts("A decode step, by part", &e->decode);
    printf("\nA layer of it, in ms\n");
    print_gantt(&e->decode);
    if (!(d->chunk > 0))
        estimate_print_parts("The prefill, by part", &e->prefill);
}

static void json_step(struct json *j, const char *key, const struct weir__estimate_step *s)
{
    json_object(j, key);
    json_number(j, "us", s->us);
    json_number(j, "error", s->error);
    json_number(j, "exposed_communication_us", s->exposed_us);
    json_array(j, "parts");
    for (size_t i = 0; i < s->nparts; i++) {
        const struct weir__estimate_part *p = &s->parts[i];

        json_object(j, NULL);
        json_string(j, "name", p->name);
        json_string(j, "stream", p->stream);
        json_int(j, "count", p->count);
        json_number(j, "us", p->us);
        json_number(j, "alone_us", p->alone);
        json_string(j, "bound", weir__roof_names[p->limit]);
        json_object_end(j);
    }
    json_array_end(j);
    json_array(j, "layer");
    for (size_t i = 0; i < s->nbars; i++) {
        json_object(j, NULL);
        json_string(j, "name", s->bars[i].name);
        json_string(j, "stream", s->bars[i].stream);
        json_number(j, "start_us", s->bars[i].start);
        json_number(j, "end_us", s->bars[i].end);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void json_range(struct json *j, const char *key, double value, double error)
{
    json_array(j, key);
    json_number(j, NULL, value * (1 - error));
    json_number(j, NULL, value * (1 + error));
    json_array_end(j);
}

void estimate_print_json(const struct estimate_job *job, const struct weir__estimate *e)
{
    struct json j = {.out = stdout};
    weir_device_props props;

    weir_device_get_props(job->dev, &props, sizeof props);
    json_object(&j, NULL);
    json_string(&j, "device", props.name);
    json_string(&j, "model", job->llm.family);
    json_number(&j, "parameters", weir__llm_parameters(&job->llm, false));
    json_int(&j, "ranks", job->d.ranks);
    json_int(&j, "tp", e->d.tp);
    json_int(&j, "pp", e->d.pp);
    if (job->llm.experts > 0)
        json_int(&j, "ep", (int64_t)weir__deploy_expert_dies(&e->d));
    json_number(&j, "batch", e->d.batch);
    json_string(&j, "quant", weir__quant_names[e->d.quant]);
    json_string(&j, "placement", weir__placement_names[e->d.placement]);
    if (e->d.placement == WEIR__PLACE_TWO) {
        json_int(&j, "attention_cube_cores", e->d.cube);
        json_int(&j, "attention_vector_cores", e->d.vector);
    }
    if (job->llm.experts > 0)
        json_number(&j, "imbalance", weir__deploy_imbalance(&job->llm, &e->d, false));
    json_number(&j, "ttft_ms", e->ttft_ms);
    json_range(&j, "ttft_range_ms", e->ttft_ms, e->error);
    json_number(&j, "tpot_ms", e->tpot_ms);
    json_range(&j, "tpot_range_ms", e->tpot_ms, e->error);
    json_number(&j, "decode_tokens_s", e->decode_rate);
    json_number(&j, "prefill_tokens_s", e->prefill_rate);
    json_number(&j, "cards", e->cards);
    json_number(&j, "error", e->error);
    json_object(&j, "memory");
    json_number(&j, "weights", e->memory.weights);
    json_number(&j, "cache", e->memory.cache);
    json_number(&j, "activations", e->memory.activations);
    json_number(&j, "most", e->memory.most);
    json_number(&j, "most_batch", e->memory.most_batch);
    json_bool(&j, "fits", job->d.batch <= e->memory.most_batch);
    json_object_end(&j);
    json_step(&j, "decode", &e->decode);
    json_step(&j, "prefill", &e->prefill);
    json_object_end(&j);
}
