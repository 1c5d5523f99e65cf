/* Percentiles and rates of the served requests. */
#include <math.h>
#include <stdlib.h>

#include "graph/estimate/serve_state.h"

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

static struct weir__percentiles percentiles(double *values, size_t n)
{
    struct weir__percentiles p = {0};

    if (!n)
        return p;
    qsort(values, n, sizeof *values, compare);
    for (size_t i = 0; i < n; i++)
        p.mean += values[i] / (double)n;
    p.p50 = values[(n - 1) / 2];
    p.p90 = values[(size_t)(0.9 * (double)(n - 1))];
    p.p99 = values[(size_t)(0.99 * (double)(n - 1))];
    p.most = values[n - 1];
    return p;
}

void weir__served_fini(struct weir__served *s)
{
    weir__free(s->requests);
    *s = (struct weir__served){0};
}

weir_status weir__serve_sum_up(const struct weir__serve_job *jobs, size_t n,
                               struct weir__served *out)
{
    size_t nttft = 0, ntpot = 0;
    double *values = weir__malloc((3 * n + 1) * sizeof *values);
    double tokens = 0, prompts = 0, hits = 0, last = 0;

    out->requests = weir__malloc((n + 1) * sizeof *out->requests);
    if (!values || !out->requests) {
        weir__free(values);
        return weir__fail_nomem("allocating the times of %zu requests", n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct weir__serve_job *j = &jobs[i];

        out->never += j->never;
        if (j->never || isnan(j->last) || j->left > 0)
            continue;
        out->requests[nttft] = (struct weir__served_request){
            .at = j->at,
            .ttft = j->first - j->at,
            .wait = j->begun - j->at,
            .tpot = j->r->output > 1 ? (j->last - j->first) / (j->r->output - 1) : NAN,
        };
        values[nttft] = j->first - j->at;
        values[2 * n + nttft++] = j->begun - j->at;
        if (j->r->output > 1)
            values[n + ntpot++] = (j->last - j->first) / (j->r->output - 1);
        tokens += j->r->output;
        prompts += j->r->prompt;
        hits += j->hit;
        last = fmax(last, j->last);
    }
    out->n = nttft;
    out->ttft_ms = percentiles(values, nttft);
    out->tpot_ms = percentiles(values + n, ntpot);
    out->wait_ms = percentiles(values + 2 * n, nttft);
    out->seconds = last / 1e3;
    out->tokens_s = last > 0 ? tokens / out->seconds : 0;
    out->prompt_tokens_s = last > 0 ? prompts / out->seconds : 0;
    out->requests_s = last > 0 ? (double)nttft / out->seconds : 0;
    out->hit_share = prompts > 0 ? hits / prompts : 0;
    weir__free(values);
    return WEIR_OK;
}
