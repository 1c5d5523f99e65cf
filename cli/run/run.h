/* What `weir run` found, whatever it ran on: filled by run_model.c or run_real.c, told by
 * run_print.c and run_json.c. Times are microseconds. */
#ifndef WEIR_CLI_RUN_H
#define WEIR_CLI_RUN_H

#include <weir/weir.h>

#include "graph/predict/predict.h"
#include "ranks.h"

struct run_job;

enum { RUN_ENGINES = WEIR__POOLS };

struct run_stream {
    unsigned rank;
    const char *name; /* of modelled runs the graph's, else freed with the result */
    int priority;
    unsigned nodes;
    double busy, waiting; /* running; ready but without cores */
    double start, end;
};

struct run_rank {
    const char *file;
    double makespan;
    double compute, communication, exposed; /* any of the kind; communication alone */
};

/* A node of the timeline. */
struct run_span {
    const char *name;
    unsigned rank, stream; /* stream: index into streams */
    weir_engine engine;
    unsigned blocks, cores; /* cores: the most it may have at once */
    double ready, start, end;
};

/* A step of what decided the makespan, first to last. */
struct run_step {
    unsigned span;          /* index into spans */
    enum weir__cause cause; /* what it waited for, */
    const char *cause_name; /* by name; NULL for the beginning */
    unsigned cause_rank;
};

struct run_result {
    const char *device;
    const char *model;
    bool modelled;
    double makespan; /* NaN after a deadlock */
    double error;    /* of a prediction, as a share of it */
    double serial, critical, dispatch;
    double utilisation[RUN_ENGINES]; /* NaN where the device has no such engine */
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
    struct weir__prediction prediction; /* of modelled devices; holds the deadlock */
};

/* Both return -1, or the exit status after a complaint. `parts`: for a trace. */
int run_model(const struct cli_ranks *ranks, bool parts, struct run_result *out);
/* `spec` is that of `dev`: the other ranks run on devices like it, or are the job's processes. */
int run_real(const struct cli_ranks *ranks, weir_device *dev, const char *spec,
             const struct run_job *job, struct run_result *out);
void run_result_free(struct run_result *r);
/* Says why a graph did not run. returns  EXIT_USAGE if it never can on the device. */
int run_complain(weir_status status);

void run_print(const struct run_result *r);
/* `timeline` adds every node. */
void run_print_json(const struct run_result *r, bool timeline);

/* run_trace.c: the same as a trace, for the page and for Perfetto. NULL: not that one.
 * returns  an exit status, after a complaint. */
int run_write(const struct run_result *r, const weir_device_props *props, const char *html,
              const char *chrome);

/* "the node before it on its stream", for the causes. */
const char *run_cause_text(enum weir__cause cause);

#endif
