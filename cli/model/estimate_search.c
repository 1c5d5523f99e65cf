/* `weir estimate --search`: prints the fastest deployments, and why the others are slower. */
#include <math.h>
#include <stdio.h>

#include "commands.h"
#include "json.h"
#include "model/estimate.h"
#include "progress.h"
#include "term.h"

enum { SHOWN = 12 };

static bool show(void *user, size_t tried, size_t all)
{
    (void)all;
    /* The total is unknown: larger batches are tried until memory or a limit is exceeded. */
    progress_show(user, fmin(0.99, (double)tried / ((double)tried + 200)), "%zu tried", tried);
    return true;
}

/* Returns the reason why `c` is not the best. */
static const char *reason(const struct weir__candidate *best, const struct weir__candidate *c)
{
    if (c == best)
        return "the most tokens a second";
    if (c->pareto)
        return "fewer tokens a second, but each of them sooner";
    if (c->d.batch < best->d.batch && c->d.tp == best->d.tp && c->d.pp == best->d.pp)
        return "a smaller batch reads the same weights";
    if (c->d.tp > best->d.tp)
        return "more dies share a replica: more communication";
    if (c->d.pp > best->d.pp)
        return "a token waits for more stages";
    return "slower in the same time";
}

void estimate_placement(const struct weir__deploy *d, char *text, size_t size)
{
    int n = snprintf(text, size, "%s", weir__placement_names[d->placement]);

    if (d->placement == WEIR__PLACE_TWO && d->cube)
        n += snprintf(text + n, size - (size_t)n, " %u+%u", d->cube, d->vector);
    snprintf(text + n, size - (size_t)n, "%s%s", d->prefetch ? " prefetch" : "",
             d->prolog ? " prolog" : "");
}

static void json_range(struct json *j, const char *key, double value, double error)
{
    json_array(j, key);
    json_number(j, NULL, value * (1 - error));
    json_number(j, NULL, value * (1 + error));
    json_array_end(j);
}

static void print_json(const struct weir__candidate *c, size_t n, size_t tried, double error)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_int(&j, "tried", (int64_t)tried);
    json_number(&j, "error", error);
    json_array(&j, "candidates");
    for (size_t i = 0; i < n; i++) {
        json_object(&j, NULL);
        json_int(&j, "tp", c[i].d.tp);
        json_int(&j, "pp", c[i].d.pp);
        json_int(&j, "ep", c[i].d.ep ? c[i].d.ep : c[i].d.ranks / c[i].d.pp);
        json_number(&j, "batch", c[i].d.batch);
        json_string(&j, "placement", weir__placement_names[c[i].d.placement]);
        json_int(&j, "attention_cube_cores", c[i].d.cube);
        json_int(&j, "attention_vector_cores", c[i].d.vector);
        json_bool(&j, "prefetch", c[i].d.prefetch);
        json_bool(&j, "prolog", c[i].d.prolog);
        json_number(&j, "ttft_ms", c[i].ttft_ms);
        json_range(&j, "ttft_range_ms", c[i].ttft_ms, error);
        json_number(&j, "tpot_ms", c[i].tpot_ms);
        json_range(&j, "tpot_range_ms", c[i].tpot_ms, error);
        json_number(&j, "decode_tokens_s", c[i].rate);
        json_bool(&j, "pareto", c[i].pareto);
        json_string(&j, "why", reason(c, &c[i]));
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
}

static void print_table(const struct weir__candidate *c, size_t n, size_t tried, double error)
{
    static const struct term_column columns[] = {
        {"tp", true},      {"pp", true},         {"ep", true},
        {"batch", true},   {"placement", false}, {"TTFT ms", true},
        {"TPOT ms", true}, {"tokens/s", true},   {"", false}};
    struct term_table t = {.columns = columns, .ncolumns = 9};
    size_t shown = 0;

    for (size_t i = 0; i < n && shown < SHOWN; i++) {
        char tp[16], pp[16], ep[16], batch[16], how[64], ttft[24], tpot[24], rate[24];

        if (i >= 4 && !c[i].pareto) /* the first four, then only those on the Pareto front */
            continue;
        shown++;
        snprintf(tp, sizeof tp, "%u", c[i].d.tp);
        snprintf(pp, sizeof pp, "%u", c[i].d.pp);
        snprintf(ep, sizeof ep, "%u", c[i].d.ep ? c[i].d.ep : c[i].d.ranks / c[i].d.pp);
        snprintf(batch, sizeof batch, "%g", c[i].d.batch);
        estimate_placement(&c[i].d, how, sizeof how);
        snprintf(ttft, sizeof ttft, "%.0f", c[i].ttft_ms);
        snprintf(tpot, sizeof tpot, "%.2f", c[i].tpot_ms);
        snprintf(rate, sizeof rate, "%.0f", c[i].rate);
        term_table_add(
            &t, (const char *[]){tp, pp, ep, batch, how, ttft, tpot, rate, reason(c, &c[i])});
    }
    printf("%zu of %zu deployments are within memory and limits; times are within %.0f %% by the "
           "profile's error\n\n",
           n, tried, 100 * error);
    term_table_print(&t, 2);
}

int estimate_search(struct estimate_job *job)
{
    struct progress progress = progress_begin();
    struct weir__search_options options = {.ttft_ms = job->ttft,
                                           .tpot_ms = job->tpot,
                                           .max_batch = job->max_batch,
                                           .poll = show,
                                           .user = &progress};
    struct weir__candidate *c = NULL;
    double error = job->dev->model->profile.error;
    size_t n = 0, tried = 0;
    weir_status st = weir__estimate_search(job->dev, &job->llm, &job->d, &options, &c, &n, &tried);

    progress_end(&progress);
    if (st)
        return st == WEIR_EINVAL ? (cli_complain("estimate", st), EXIT_USAGE)
                                 : cli_complain("estimate", st);
    if (cli_is_standard(job->html))
        ; /* standard output gets the page */
    else if (job->json)
        print_json(c, n, tried, error);
    else if (n)
        print_table(c, n, tried, error);
    else
        printf("none of %zu deployments is within memory and limits\n", tried);
    if (n && job->html) {
        int status = estimate_write_page(job, c, n);

        weir__free(c);
        return status;
    }
    weir__free(c);
    return n ? EXIT_FINE : EXIT_FAILED;
}
