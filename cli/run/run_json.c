/* `weir run --json`. The keys are a contract: see DESIGN. */
#include "run/run.h"

#include "json.h"

static void print_streams(struct json *j, const struct run_result *r)
{
    json_array(j, "streams");
    for (size_t i = 0; i < r->nstreams; i++) {
        const struct run_stream *s = &r->streams[i];

        json_object(j, NULL);
        json_int(j, "rank", s->rank);
        json_string(j, "name", s->name);
        json_int(j, "priority", s->priority);
        json_int(j, "nodes", s->nodes);
        json_number(j, "busy_us", s->busy);
        json_number(j, "waiting_us", s->waiting);
        json_number(j, "start_us", s->start);
        json_number(j, "end_us", s->end);
        json_object_end(j);
    }
    json_array_end(j);
}

static void print_ranks(struct json *j, const struct run_result *r)
{
    json_array(j, "ranks");
    for (size_t i = 0; i < r->nranks; i++) {
        json_object(j, NULL);
        json_int(j, "rank", (int64_t)i);
        json_string(j, "file", r->ranks[i].file);
        json_number(j, "makespan_us", r->ranks[i].makespan);
        json_number(j, "compute_us", r->ranks[i].compute);
        json_number(j, "communication_us", r->ranks[i].communication);
        json_number(j, "exposed_communication_us", r->ranks[i].exposed);
        json_object_end(j);
    }
    json_array_end(j);
}

static void print_engines(struct json *j, const char *key, const double *share)
{
    json_object(j, key);
    for (int e = 0; e < RUN_ENGINES; e++)
        json_number(j, weir__pool_names[e], share[e]);
    json_object_end(j);
}

static void print_path(struct json *j, const struct run_result *r)
{
    static const char *const causes[] = {"start", "stream", "event", "cores", "peer"};

    json_array(j, "critical_path");
    for (size_t i = 0; i < r->npath; i++) {
        const struct run_step *step = &r->path[i];
        const struct run_span *s = &r->spans[step->span];

        json_object(j, NULL);
        json_int(j, "rank", s->rank);
        json_string(j, "node", s->name);
        json_string(j, "stream", r->streams[s->stream].name);
        json_number(j, "start_us", s->start);
        json_number(j, "end_us", s->end);
        json_string(j, "waited_for", causes[step->cause]);
        json_string(j, "waited_for_node", step->cause_name);
        if (step->cause_name)
            json_int(j, "waited_for_rank", step->cause_rank);
        json_object_end(j);
    }
    json_array_end(j);
}

static void print_timeline(struct json *j, const struct run_result *r)
{
    json_array(j, "timeline");
    for (size_t i = 0; i < r->nspans; i++) {
        const struct run_span *s = &r->spans[i];

        json_object(j, NULL);
        json_int(j, "rank", s->rank);
        json_string(j, "node", s->name);
        json_string(j, "stream", r->streams[s->stream].name);
        json_string(j, "engine", weir_engine_name(s->engine));
        json_number(j, "ready_us", s->ready);
        json_number(j, "start_us", s->start);
        json_number(j, "end_us", s->end);
        json_object_end(j);
    }
    json_array_end(j);
}

static void print_cores(struct json *j, const char *key, const uint32_t *cores)
{
    json_object(j, key);
    for (int e = 0; e < RUN_ENGINES; e++)
        if (cores[e])
            json_int(j, weir__pool_names[e], cores[e]);
    json_object_end(j);
}

static void print_stuck(struct json *j, const struct weir__prediction *p,
                        const struct weir__stuck *s)
{
    static const char *const why[] = {[WEIR__STUCK_CORES] = "cores",
                                      [WEIR__STUCK_PEERS] = "peers",
                                      [WEIR__STUCK_EVENT] = "event"};
    struct weir__text text = {0};

    weir__prediction_waits(p, s, &text);
    json_object(j, NULL);
    json_int(j, "rank", s->rank);
    json_string(j, "stream", weir__predict_stream_name(p, s->rank, s->stream));
    json_string(j, "node", weir__predict_node_name(p, s->rank, s->node));
    print_cores(j, "holds", s->held);
    json_string(j, "waits_for", why[s->why]);
    print_cores(j, "missing", s->missing);
    json_string(j, "text", text.data ? text.data : "");
    json_object_end(j);
    weir__text_free(&text);
}

static void print_deadlock(struct json *j, const struct weir__prediction *p)
{
    const struct weir__replay_result *run = &p->run;
    struct weir__text text = {0};
    const struct weir__stuck *first = run->stuck, *at;

    if (!run->deadlock) {
        json_string(j, "deadlock", NULL);
        return;
    }
    json_object(j, "deadlock");
    weir__prediction_report(p, &text);
    json_string(j, "report", text.data ? text.data : "");
    weir__text_free(&text);
    json_array(j, "streams");
    for (uint32_t i = 0; i < run->nstuck; i++)
        print_stuck(j, p, &run->stuck[i]);
    json_array_end(j);
    while (!first->in_cycle)
        first++;
    json_array(j, "cycle");
    at = first;
    do {
        json_object(j, NULL);
        json_int(j, "rank", at->rank);
        json_string(j, "node", weir__predict_node_name(p, at->rank, at->node));
        json_object_end(j);
        at = &run->stuck[at->next];
    } while (at != first);
    json_array_end(j);
    json_object_end(j);
}

void run_print_json(const struct run_result *r, bool timeline)
{
    struct json j = {.out = stdout};
    double communication = 0, exposed = 0;

    for (size_t i = 0; i < r->nranks; i++) {
        communication += r->ranks[i].communication / (double)r->nranks;
        exposed += r->ranks[i].exposed / (double)r->nranks;
    }
    json_object(&j, NULL);
    json_string(&j, "device", r->device);
    json_number(&j, "makespan_us", r->makespan);
    json_array(&j, "range_us");
    json_number(&j, NULL, r->makespan * (1 - r->error));
    json_number(&j, NULL, r->makespan * (1 + r->error));
    json_array_end(&j);
    json_number(&j, "error", r->error);
    json_number(&j, "serial_us", r->serial);
    json_number(&j, "critical_path_us", r->critical);
    json_number(&j, "overlap_gained_us", r->serial - r->makespan);
    json_number(&j, "communication_us", communication);
    json_number(&j, "exposed_communication_us", exposed);
    json_number(&j, "dispatch_us", r->dispatch);
    json_int(&j, "memory_peak_bytes", (int64_t)r->memory);
    print_streams(&j, r);
    print_ranks(&j, r);
    print_engines(&j, "utilisation", r->utilisation);
    print_engines(&j, "stalled", r->stalled);
    print_path(&j, r);
    if (timeline)
        print_timeline(&j, r);
    print_deadlock(&j, &r->prediction);
    json_object_end(&j);
}
