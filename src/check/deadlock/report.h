/* A report that is being built. It owns every text in it. */
#ifndef WEIR_CHECK_DEADLOCK_REPORT_H
#define WEIR_CHECK_DEADLOCK_REPORT_H

#include "check/deadlock/program.h"
#include "weir/check.h"

struct weir__report {
    weir_check_report public; /* must be first: users get a pointer to it */
    weir_finding *findings;
    int nfindings, cap_findings;
    char **texts;
    int ntexts, cap_texts;
    const char ***lists;
    int nlists, cap_lists;
    bool failed; /* set when out of memory; further texts are "" */
};

/* A growing list of lines. */
struct weir__lines {
    const char **at;
    int n, cap;
};

struct weir__report *weir__report_new(void);
/* Sorts the findings and fills the public part. Frees the report on failure.
 * returns  WEIR_ENOMEM if any call on the report ran out of memory. */
weir_status weir__report_finish(struct weir__report *report, weir_check_report **out);

const char *weir__report_text(struct weir__report *r, const char *format, ...) WEIR_PRINTF(2, 3);
void weir__report_line(struct weir__report *r, struct weir__lines *lines, const char *text);
/* Adds the line unless the list contains it already. */
void weir__report_line_once(struct weir__report *r, struct weir__lines *lines, const char *text);
/* Moves the lines into the report; `lines` is empty afterwards. */
const char *const *weir__report_lines(struct weir__report *r, struct weir__lines *lines,
                                      size_t *count);
void weir__report_add(struct weir__report *r, const weir_finding *finding);

/* "rank 1: ", or "" in a program of one rank. */
const char *weir__report_rank(struct weir__report *r, const struct weir__check_program *p,
                              int rank);
/* "16 vector cores"; "16 cores" on a rank with one kind of core. */
const char *weir__report_cores(struct weir__report *r, const struct weir__check_rank *rank,
                               int cube, int vector);
/* The cores that `blocks` blocks of the operator take, in the same words. */
const char *weir__report_blocks(struct weir__report *r, const struct weir__check_rank *rank,
                                const struct weir__check_op *op, int blocks);

/* ---- analyse.c ---- */

/* Explores the program and adds the findings. Changes the program while it tries remedies, and
 * restores it before it returns. */
weir_status weir__check_analyse(struct weir__check_program *p, const weir_check_options *options,
                                struct weir__report *report);
/* Sets *stuck and adds a finding if operators wait for each other even with unlimited cores. */
weir_status weir__check_stuck(struct weir__check_program *p, struct weir__report *report,
                              bool *stuck);

#endif
