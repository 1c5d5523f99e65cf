/* Shared by the files of `weir estimate`. */
#ifndef WEIR_CLI_ESTIMATE_H
#define WEIR_CLI_ESTIMATE_H

#include <stdio.h>

#include "graph/estimate/estimate.h"

struct estimate_job {
    const char *path;
    bool json;
    struct weir__llm llm;
    struct weir__deploy d;
    bool as_asked;                /* d is complete, and its placement is the requested one */
    double ttft, tpot, max_batch; /* limits of a search, times in ms; 0 for no limit */
    const char *html;             /* the page of --search or --serve; NULL for none */
    const char *requests;         /* of --serve */
    uint32_t prefill_ranks;
    double rate;
    weir_device *dev;
};

void estimate_print(const struct estimate_job *job, const struct weir__estimate *e);
void estimate_print_json(const struct estimate_job *job, const struct weir__estimate *e);

/* Each computes and prints its results. returns  an exit status. */
int estimate_search(struct estimate_job *job);
int estimate_serve(struct estimate_job *job);
/* Estimates a graph file instead of a model. */
int estimate_file(struct estimate_job *job);

/* Describes a placement, such as "microbatch 16+32 prefetch". */
void estimate_placement(const struct weir__deploy *d, char *text, size_t size);
/* Prints a table of parts with a title. */
void estimate_print_parts(const char *title, const struct weir__estimate_step *s);
struct weir__served;
/* Writes charts of the served requests. returns  an exit status. */
int estimate_write_served(const struct estimate_job *job, const struct weir__served *s);
/* Writes the head of a page, with its styles. */
void estimate_write_head(FILE *f, const char *title);
/* Writes a chart of the candidates that a search found. returns  an exit status. */
int estimate_write_page(const struct estimate_job *job, const struct weir__candidate *c, size_t n);

#endif
