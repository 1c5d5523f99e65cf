/* `weir estimate --serve`: simulates requests as they arrive. Also estimates graph files. */
#include "graph/estimate/serve.h"

#include <stdio.h>

#include "commands.h"
#include "json.h"
#include "model/estimate.h"
#include "progress.h"
#include "term.h"

static bool show(void *user, double share)
{
    progress_show(user, share, "serving");
    return true;
}

static void json_percentiles(struct json *j, const char *key, const struct weir__percentiles *p)
{
    json_object(j, key);
    json_number(j, "p50", p->p50);
    json_number(j, "p90", p->p90);
    json_number(j, "p99", p->p99);
    json_number(j, "mean", p->mean);
    json_number(j, "most", p->most);
    json_object_end(j);
}

static void print_json(const struct weir__served *s)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_int(&j, "requests", (int64_t)s->n);
    json_int(&j, "never", (int64_t)s->never);
    json_number(&j, "seconds", s->seconds);
    json_percentiles(&j, "ttft_ms", &s->ttft_ms);
    json_percentiles(&j, "tpot_ms", &s->tpot_ms);
    json_percentiles(&j, "wait_ms", &s->wait_ms);
    json_number(&j, "output_tokens_s", s->tokens_s);
    json_number(&j, "prompt_tokens_s", s->prompt_tokens_s);
    json_number(&j, "requests_s", s->requests_s);
    json_number(&j, "prefix_hits", s->hit_share);
    json_number(&j, "mean_batch", s->mean_batch);
    json_int(&j, "steps", (int64_t)s->steps);
    json_number(&j, "error", s->error);
    json_object_end(&j);
}

static void add_row(struct term_table *t, const char *name, const struct weir__percentiles *p)
{
    char cells[5][24];
    const double values[] = {p->p50, p->p90, p->p99, p->mean, p->most};

    for (int i = 0; i < 5; i++)
        snprintf(cells[i], sizeof cells[i], values[i] < 100 ? "%.2f" : "%.0f", values[i]);
    term_table_add(t, (const char *[]){name, cells[0], cells[1], cells[2], cells[3], cells[4]});
}

static void print(const struct estimate_job *job, const struct weir__served *s)
{
    static const struct term_column columns[] = {{"ms", false}, {"p50", true},  {"p90", true},
                                                 {"p99", true}, {"mean", true}, {"most", true}};
    struct term_table t = {.columns = columns, .ncolumns = 6};

    printf("%s%zu requests%s in %.1f s, %.0f answer tokens/s, %.0f prompt tokens/s\n",
           term_on(TERM_BOLD), s->n, term_off(), s->seconds, s->tokens_s, s->prompt_tokens_s);
    if (job->prefill_ranks)
        printf("%u dies take prompts, %u decode", job->prefill_ranks,
               job->d.ranks - job->prefill_ranks);
    else if (job->d.chunk > 0)
        printf("%u dies; %g tokens of prompts ride with each step", job->d.ranks, job->d.chunk);
    else
        printf("%u dies; steps of prompts go before those that decode", job->d.ranks);
    printf("; %zu steps, %.1f sequences a replica in one\n\n", s->steps, s->mean_batch);
    add_row(&t, "first token", &s->ttft_ms);
    add_row(&t, "each token", &s->tpot_ms);
    add_row(&t, "wait before", &s->wait_ms);
    term_table_print(&t, 2);
    printf("\n  %.1f %% of the prompts' tokens were in the cache; times are within %.0f %% by the "
           "profile's error\n",
           100 * s->hit_share, 100 * s->error);
    if (s->never)
        printf("  %zu requests fit no replica, even alone\n", s->never);
}

int estimate_serve(struct estimate_job *job)
{
    struct progress progress = progress_begin();
    struct weir__serve_options options = {.prefill_ranks = job->prefill_ranks,
                                          .most_batch = job->max_batch,
                                          .rate = job->rate,
                                          .poll = show,
                                          .user = &progress};
    struct weir__requests requests;
    struct weir__served served;
    weir_status st = weir__requests_load(job->requests, &requests);
    bool read = !st;
    int status;

    if (!st)
        st = weir__serve(job->dev, &job->llm, &job->d, &options, &requests, &served);
    progress_end(&progress);
    weir__requests_fini(&requests);
    if (st) {
        status = cli_complain("estimate", st);
        return !read || st == WEIR_EINVAL ? EXIT_USAGE : status;
    }
    if (cli_is_standard(job->html))
        ; /* standard output gets the page */
    else if (job->json)
        print_json(&served);
    else
        print(job, &served);
    status = job->html ? estimate_write_served(job, &served) : EXIT_FINE;
    if (!status && served.never)
        status = EXIT_FAILED;
    weir__served_fini(&served);
    return status;
}

int estimate_file(struct estimate_job *job)
{
    struct weir__estimate_step step;
    struct json j = {.out = stdout};
    double bytes = 0;
    weir_status st = weir__estimate_file(job->dev, job->path, &step, &bytes);

    if (st) {
        cli_complain("estimate", st);
        return st == WEIR_EDEADLOCK ? EXIT_FAILED : EXIT_USAGE;
    }
    if (job->json) {
        json_object(&j, NULL);
        json_string(&j, "graph", job->path);
        json_number(&j, "us", step.us);
        json_number(&j, "error", step.error);
        json_number(&j, "memory_bytes", bytes);
        json_number(&j, "exposed_communication_us", step.exposed_us);
        json_array(&j, "parts");
        for (size_t i = 0; i < step.nparts; i++) {
            json_object(&j, NULL);
            json_string(&j, "name", step.parts[i].name);
            json_string(&j, "stream", step.parts[i].stream);
            json_int(&j, "count", step.parts[i].count);
            json_number(&j, "us", step.parts[i].us);
            json_number(&j, "alone_us", step.parts[i].alone);
            json_string(&j, "bound", weir__roof_names[step.parts[i].limit]);
            json_object_end(&j);
        }
        json_array_end(&j);
        json_object_end(&j);
    } else {
        printf("%s%s%s takes %.3f ms, %.3f to %.3f ms by the profile's error, and %s\n",
               term_on(TERM_BOLD), job->path, term_off(), step.us / 1e3,
               step.us * (1 - step.error) / 1e3, step.us * (1 + step.error) / 1e3,
               term_bytes((size_t)bytes).text);
        estimate_print_parts("By part", &step);
    }
    weir__free(step.parts);
    weir__free(step.bars);
    return EXIT_FINE;
}
