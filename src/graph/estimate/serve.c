/* Simulates serving: replicas take steps, requests arrive and complete. Times are in
 * milliseconds. */
#include "graph/estimate/serve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/estimate/serve_state.h"

#define DEFAULT_BUDGET 16384

struct queue {
    int first, last;
    double tokens; /* prompt tokens of the queued jobs */
};

struct replica {
    struct queue waiting;
    int *running; /* jobs with a first token, or whose prompt is being computed */
    int nrunning, cap;
    double reserved; /* cache tokens that the running jobs may need */
    double missing;  /* prompt tokens still to compute */
};

struct server {
    const struct weir__llm *m;
    const struct weir__deploy *d;
    const struct weir__serve_options *o;
    const struct weir__requests *r;
    struct weir__step_times *times;
    struct weir__prefix_cache *cache;
    struct weir__serve_job *jobs;
    struct replica *replicas;
    uint32_t nreplicas;
    int *order;                  /* jobs in the order of `ready` */
    const struct server *before; /* the server that computes prompts for this one on dies of its
                                  * own; NULL: none */
    bool prompts_only;           /* it is such a server: a job completes with its first token */
    double room;                 /* cache tokens of a replica */
    double most_batch, budget, token_bytes, link_gb_s;
    size_t arrived, over, steps, decoding;
    double batches; /* sequences per replica, summed over decode steps */
    bool short_of_memory;
};

/* ---- queues ---- */

static void enqueue(struct server *s, struct queue *q, int job)
{
    s->jobs[job].next = -1;
    *(q->first < 0 ? &q->first : &s->jobs[q->last].next) = job;
    q->last = job;
    q->tokens += s->jobs[job].missing;
}

static void dequeue(struct server *s, struct queue *q)
{
    q->tokens -= s->jobs[q->first].missing;
    q->first = s->jobs[q->first].next;
}

/* ---- prompts ---- */

/* Prompt tokens that the replica has cached. The last token is always computed, because it gives
 * the first answer. */
static double hit_tokens(const struct server *s, const struct weir__request *r, uint32_t replica)
{
    double found = weir__prefix_find(s->cache, replica, s->r->blocks + r->first_block, r->nblocks);

    return fmin(found * WEIR__SERVE_BLOCK, r->prompt - 1);
}

static void remember(struct server *s, const struct weir__request *r, uint32_t replica)
{
    double room = s->room - s->replicas[replica].reserved;

    s->short_of_memory |= !weir__prefix_use(s->cache, replica, s->r->blocks + r->first_block,
                                            r->nblocks, fmax(0, room) / WEIR__SERVE_BLOCK);
}

/* The replica with the least work queued and to compute. */
static uint32_t choose(const struct server *s, const struct weir__request *r)
{
    double least = INFINITY;
    uint32_t best = 0;

    for (uint32_t i = 0; i < s->nreplicas; i++) {
        double work = r->prompt - hit_tokens(s, r, i) + s->replicas[i].waiting.tokens +
                      s->replicas[i].nrunning + s->replicas[i].missing;

        if (work < least) {
            least = work;
            best = i;
        }
    }
    return best;
}

static uint32_t least_loaded(const struct server *s)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < s->nreplicas; i++)
        if (s->replicas[i].reserved + s->replicas[i].waiting.tokens <
            s->replicas[best].reserved + s->replicas[best].waiting.tokens)
            best = i;
    return best;
}

static void admit(struct server *s, int index)
{
    struct weir__serve_job *j = &s->jobs[index];
    uint32_t at = s->before ? least_loaded(s) : choose(s, j->r);

    if (j->never || (s->before && !(j->left > 0)))
        s->over++;
    else
        enqueue(s, &s->replicas[at].waiting, index);
}

/* Cache tokens that the job occupies until it completes. */
static double need_of(const struct server *s, const struct weir__serve_job *j)
{
    return j->r->prompt + (s->prompts_only ? 1 : j->r->output);
}

/* Starts queued jobs while there is cache and a place in the batch. */
static void begin(struct server *s, uint32_t at, double now)
{
    struct replica *p = &s->replicas[at];

    while (p->waiting.first >= 0 && p->nrunning < s->most_batch) {
        int index = p->waiting.first;
        struct weir__serve_job *j = &s->jobs[index];
        double need = need_of(s, j);

        if (j->ready > now || p->reserved + need > s->room)
            return;
        if (!weir__grow(&p->running, p->nrunning, &p->cap, sizeof *p->running)) {
            s->short_of_memory = true;
            return;
        }
        dequeue(s, &p->waiting);
        p->reserved += need;
        p->running[p->nrunning++] = index;
        if (s->before)
            continue;
        j->hit = hit_tokens(s, j->r, at);
        j->missing = j->r->prompt - j->hit;
        p->missing += j->missing;
        remember(s, j->r, at);
    }
}

/* ---- steps ---- */

/* Takes up to `most` prompt tokens of the replica's jobs, and computes the mean keys that one of
 * them sees. */
static double take_prompts(struct server *s, struct replica *p, double most, double now,
                           double *context)
{
    double taken = 0, pairs = 0;

    for (int i = 0; i < p->nrunning && taken < most; i++) {
        struct weir__serve_job *j = &s->jobs[p->running[i]];
        double n = fmin(j->missing, most - taken);

        if (!(n > 0))
            continue;
        if (isnan(j->begun))
            j->begun = now;
        pairs += n * (j->r->prompt - j->missing + n / 2);
        j->missing -= n;
        p->missing -= n;
        taken += n;
    }
    *context = taken > 0 ? pairs / taken : 0;
    return taken;
}

/* Counts the replica's decoding sequences and computes the mean keys that one of them sees. */
static double decoding(const struct server *s, const struct replica *p, double *context)
{
    double n = 0, keys = 0;

    for (int i = 0; i < p->nrunning; i++) {
        const struct weir__serve_job *j = &s->jobs[p->running[i]];

        if (isnan(j->first))
            continue;
        n++;
        keys += j->r->prompt + (j->r->output - 1 - j->left);
    }
    *context = n > 0 ? keys / n : 0;
    return n;
}

/* Ends a step: records first and next tokens, and removes completed jobs. */
static void finish_step(struct server *s, struct replica *p, double now, bool decoded)
{
    int kept = 0;

    for (int i = 0; i < p->nrunning; i++) {
        struct weir__serve_job *j = &s->jobs[p->running[i]];

        if (isnan(j->first)) {
            if (!(j->missing > 0))
                j->first = j->last = now;
        } else if (decoded) {
            j->left -= 1 + s->d->accept;
            j->last = now;
        }
        if (!isnan(j->first) && j->left <= 0 && (j->last >= j->first)) {
            s->over++;
            p->reserved -= need_of(s, j);
        } else {
            p->running[kept++] = p->running[i];
        }
    }
    p->nrunning = kept;
}

/* Simulates one common step of replicas [from, to): the fullest replica decides its time. returns
 * the end of the step. */
static double step(struct server *s, uint32_t from, uint32_t to, double now)
{
    double prompts = 0, prompt_context = 0, batch = 0, context = 0, most, us;
    bool chunked = s->d->chunk > 0 && !s->before, decoded;

    most = chunked ? s->d->chunk : s->budget;
    for (uint32_t i = from; i < to; i++) {
        double c, n = take_prompts(s, &s->replicas[i], most, now, &c);

        prompt_context = n > prompts ? c : prompt_context;
        prompts = fmax(prompts, n);
        n = decoding(s, &s->replicas[i], &c);
        s->batches += n;
        context = n > batch ? c : context;
        batch = fmax(batch, n);
    }
    decoded = batch > 0 && (chunked || !(prompts > 0));
    if (decoded || chunked) {
        us = weir__decode_us(s->times, batch, context, prompts, prompt_context);
        s->decoding += to - from;
    } else {
        us = weir__prefill_us(s->times, prompts, prompt_context);
    }
    if (!decoded)
        for (uint32_t i = from; i < to; i++) {
            double c;

            s->batches -= decoding(s, &s->replicas[i], &c); /* they waited during this step */
        }
    now += us / 1e3;
    for (uint32_t i = from; i < to; i++)
        finish_step(s, &s->replicas[i], now, decoded);
    s->steps++;
    return now;
}

static bool has_work(const struct server *s, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (s->replicas[i].nrunning)
            return true;
    return false;
}

/* When an idle replica of these can start a job; INFINITY for never. */
static double next_ready(const struct server *s, uint32_t from, uint32_t to)
{
    double next = INFINITY;

    for (uint32_t i = from; i < to; i++)
        if (s->replicas[i].waiting.first >= 0)
            next = fmin(next, s->jobs[s->replicas[i].waiting.first].ready);
    return next;
}

/* Runs the replicas: those that share experts step together, others each by itself. */
static void run(struct server *s, uint32_t together)
{
    uint32_t ngroups = s->nreplicas / together;
    double *clock = weir__calloc(ngroups, sizeof *clock);
    size_t n = (size_t)s->r->n;

    s->short_of_memory |= !clock;
    while (!s->short_of_memory && s->over < n && !weir__step_times_status(s->times)) {
        double now = INFINITY;
        uint32_t g = 0;

        for (uint32_t i = 0; i < ngroups; i++) { /* picks the group whose next step begins first */
            uint32_t from = i * together, to = from + together;
            double at = has_work(s, from, to) ? clock[i] : fmax(clock[i], next_ready(s, from, to));

            if (at < now) {
                now = at;
                g = i;
            }
        }
        if (s->arrived < n && s->jobs[s->order[s->arrived]].ready <= now) {
            admit(s, s->order[s->arrived++]);
            continue;
        }
        if (isinf(now))
            break;
        for (uint32_t i = g * together; i < (g + 1) * together; i++)
            begin(s, i, now);
        clock[g] = has_work(s, g * together, (g + 1) * together)
                       ? step(s, g * together, (g + 1) * together, now)
                       : now + 1e-3;
        if (s->o->poll && s->steps % 64 == 0 &&
            !s->o->poll(s->o->user, (double)s->over / (double)n))
            break;
    }
    weir__free(clock);
}

/* ---- serving ---- */

static weir_status check(const struct weir__llm *m, const struct weir__deploy *d,
                         const struct weir__serve_options *o, struct weir__deploy *decode,
                         struct weir__deploy *prompts)
{
    weir_status st;

    *decode = *prompts = *d;
    if (o->prefill_ranks >= d->ranks)
        return weir__fail(WEIR_EINVAL, "%u dies for prompts leave none of the %u to decode",
                          o->prefill_ranks, d->ranks);
    if (o->prefill_ranks && d->chunk > 0)
        return weir__fail(WEIR_EINVAL,
                          "prompts have dies of their own: a chunk of %g tokens has no place",
                          d->chunk);
    decode->ranks = d->ranks - o->prefill_ranks;
    if ((st = weir__deploy_check(m, decode)) || !o->prefill_ranks)
        return st;
    if (o->prefill_ranks % (d->tp * d->pp))
        return weir__fail(WEIR_EINVAL, "tp x pp %u does not divide the %u dies for prompts",
                          d->tp * d->pp, o->prefill_ranks);
    prompts->ranks = o->prefill_ranks;
    prompts->ep = d->ep == 1 ? 1 : 0;
    return weir__deploy_check(m, prompts);
}

static weir_status prepare(struct server *s, weir_device *dev)
{
    const struct weir__profile *p = &dev->model->profile;
    struct weir__estimate_memory memory;
    struct weir__deploy one = *s->d;

    one.batch = 1;
    weir__estimate_find_memory(s->m, &one, p, &memory);
    s->token_bytes = memory.cache / (one.prompt + one.output);
    s->room = fmax(0, 0.95 * memory.most - memory.weights - memory.activations) / s->token_bytes;
    s->most_batch = s->o->most_batch > 0 && !s->prompts_only ? s->o->most_batch : INFINITY;
    s->budget = s->o->budget > 0 ? s->o->budget : DEFAULT_BUDGET;
    s->link_gb_s = p->super_dies > 1 ? p->super_gb_s : p->net_gb_s;
    s->nreplicas = s->d->ranks / s->d->tp / s->d->pp;
    s->times = weir__step_times_new(dev, s->m, s->d);
    s->cache = weir__prefix_cache_new(s->nreplicas);
    s->jobs = weir__calloc((size_t)s->r->n + 1, sizeof *s->jobs);
    s->order = weir__calloc((size_t)s->r->n + 1, sizeof *s->order);
    s->replicas = weir__calloc(s->nreplicas, sizeof *s->replicas);
    if (!s->times || !s->cache || !s->jobs || !s->order || !s->replicas)
        return weir__fail_nomem("serving %d requests", s->r->n);
    for (uint32_t i = 0; i < s->nreplicas; i++)
        s->replicas[i].waiting.first = -1;
    for (int i = 0; i < s->r->n; i++) {
        const struct weir__request *r = &s->r->list[i];
        double at = (r->at_ms - s->r->list[0].at_ms) / (s->o->rate > 0 ? s->o->rate : 1);

        s->order[i] = i;
        s->jobs[i] = (struct weir__serve_job){.r = r,
                                              .at = at,
                                              .ready = at,
                                              .missing = r->prompt,
                                              .left = s->prompts_only ? 0 : r->output - 1,
                                              .never = r->prompt + r->output > s->room,
                                              .begun = NAN,
                                              .first = NAN,
                                              .last = NAN,
                                              .next = -1};
    }
    return WEIR_OK;
}

/* Runs the server to the end. returns the first error. */
static weir_status run_through(struct server *s)
{
    bool spread = s->m->experts > 0 && s->d->ep != 1;
    weir_status st;

    run(s, spread ? s->nreplicas : 1);
    if (!(st = weir__step_times_status(s->times)) && s->short_of_memory)
        st = weir__fail_nomem("serving %d requests", s->r->n);
    return st;
}

static int by_ready(const void *x, const void *y, void *user)
{
    const struct weir__serve_job *jobs = user;
    int a = *(const int *)x, b = *(const int *)y;

    return jobs[a].ready != jobs[b].ready ? (jobs[a].ready > jobs[b].ready ? 1 : -1)
                                          : (a > b) - (a < b);
}

/* Takes over prompts that the other server has computed; their cache is sent over the links. */
static void take_over(struct server *s)
{
    for (int i = 0; i < s->r->n; i++) {
        struct weir__serve_job *j = &s->jobs[i];
        const struct weir__serve_job *b = &s->before->jobs[i];

        j->never |= b->never;
        if (j->never)
            continue;
        j->begun = b->begun;
        j->first = j->last = b->first;
        j->hit = b->hit;
        j->missing = 0;
        j->ready = b->first + j->r->prompt * s->token_bytes / (s->link_gb_s * 1e6);
    }
    qsort_r(s->order, (size_t)s->r->n, sizeof *s->order, by_ready, s->jobs);
}

static void fini(struct server *s)
{
    for (uint32_t i = 0; s->replicas && i < s->nreplicas; i++)
        weir__free(s->replicas[i].running);
    weir__step_times_free(s->times);
    weir__prefix_cache_free(s->cache);
    weir__free(s->jobs);
    weir__free(s->order);
    weir__free(s->replicas);
}

weir_status weir__serve(weir_device *dev, const struct weir__llm *m, const struct weir__deploy *d,
                        const struct weir__serve_options *options, const struct weir__requests *r,
                        struct weir__served *out)
{
    struct weir__deploy decode, prompts;
    struct server s = {.m = m, .d = &decode, .o = options, .r = r};
    struct server before = {.m = m, .d = &prompts, .o = options, .r = r, .prompts_only = true};
    weir_status st;

    *out = (struct weir__served){0};
    if (!dev->model)
        return weir__fail(
            WEIR_EUNSUPPORTED,
            "%s runs in real time: an estimate needs a modelled device such as npu:a3",
            dev->props.name);
    if ((st = check(m, d, options, &decode, &prompts)))
        return st;
    st = prepare(&s, dev);
    if (!st && options->prefill_ranks && !(st = prepare(&before, dev)) &&
        !(st = run_through(&before))) {
        s.before = &before;
        take_over(&s);
    }
    if (!st && !(st = run_through(&s)))
        st = weir__serve_sum_up(s.jobs, (size_t)r->n, out);
    if (st)
        weir__served_fini(out);
    out->steps = s.steps + before.steps;
    out->mean_batch = s.decoding ? s.batches / (double)s.decoding : 0;
    out->error = dev->model->profile.error;
    fini(&before);
    fini(&s);
    return st;
}
