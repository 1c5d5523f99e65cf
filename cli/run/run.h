/* The results of `weir run` on any device. run_model.c or run_real.c fills them; run_print.c and
 * run_json.c print them. Times are in microseconds. */
#ifndef WEIR_CLI_RUN_H
#define WEIR_CLI_RUN_H

#include <weir/weir.h>

#include "graph/predict/predict.h"
#include "ranks.h"

struct run_job;

enum { RUN_ENGINES = WEIR__POOLS };

struct run_stream {
    unsigned rank;
    const char *name; /* owned by the graph in modelled runs, else by the result */
    int priority;
    unsigned nodes;
    double busy, waiting; /* time running; time ready but without cores */
    double start, end;
};

struct run_rank {
    const char *file;
    double makespan;
    double compute, communication; /* time during which any operator of the kind runs */
    double exposed;                /* time during which only communication runs */
};

/* A node of the timeline. */
struct run_span {
    const char *name;
    unsigned rank, stream; /* stream: index into streams */
    weir_engine engine;
    unsigned blocks, cores; /* cores: the most it may use at once */
    double ready, start, end;
};

/* A step of the path that decided the makespan, first to last. */
struct run_step {
    unsigned span;          /* index into spans */
    enum weir__cause cause; /* why it waited */
    const char *cause_name; /* the node it waited for; NULL for the first step */
    unsigned cause_rank;
};

struct run_result {
    const char *device;
    const char *model;
    bool modelled;
    double makespan; /* NaN after a deadlock */
    double error;    /* relative error of a prediction */
    double serial, critical, dispatch;
    double utilisation[RUN_ENGINES]; /* NaN if the device has no such engine */
    double stalled[RUN_ENGINES];     /* cores held without progress */
    size_t memory;
    struct run_stream *streams;
    size_t nstreams;
    struct run_rank *ranks;
    size_t nranks;
    struct run_span *spans; /* by stream, then time */
    size_t nspans;
    struct run_step *path;
    size_t npath;
    struct weir__prediction prediction; /* modelled devices only; contains the deadlock */
};

/* Both return -1, or the exit status after printing an error. `parts` also records the parts of
 * nodes, which a trace needs. */
int run_model(const struct cli_ranks *ranks, bool parts, struct run_result *out);
/* `spec` describes `dev`; the other ranks run on devices opened by it, or in the job's
 * processes. */
int run_real(const struct cli_ranks *ranks, weir_device *dev, const char *spec,
             const struct run_job *job, struct run_result *out);
void run_result_free(struct run_result *r);
/* Prints why a graph did not run. returns  EXIT_USAGE if the device can never run it. */
int run_complain(weir_status status);

void run_print(const struct run_result *r);
/* With `timeline` the document contains every node. */
void run_print_json(const struct run_result *r, bool timeline);

/* run_trace.c: writes the result as a timeline page and as a Chrome trace. A NULL path omits that
 * file. returns  an exit status; prints an error first. */
int run_write(const struct run_result *r, const weir_device_props *props, const char *html,
              const char *chrome);

/* Describes a cause, such as "the node before it on its stream". */
const char *run_cause_text(enum weir__cause cause);

#endif
