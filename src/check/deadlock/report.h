/* Findings while they are put together. The report owns every text in it. */
#ifndef WEIR_CHECK_DEADLOCK_REPORT_H
#define WEIR_CHECK_DEADLOCK_REPORT_H

#include "check/deadlock/program.h"
#include "weir/check.h"

struct weir__report {
    weir_check_report public; /* first: it is what users get */
    weir_finding *findings;
    int nfindings, cap_findings;
    char **texts;
    int ntexts, cap_texts;
    const char ***lists;
    int nlists, cap_lists;
    bool failed; /* out of memory: texts are "" from then on */
};

/* A growing list of lines. */
struct weir__lines {
    const char **at;
    int n, cap;
};

struct weir__report *weir__report_new(void);
/* Orders the findings and fills the public part. On failure the report is freed.
 * returns  WEIR_ENOMEM if anything failed since it was made. */
weir_status weir__report_finish(struct weir__report *report, weir_check_report **out);

const char *weir__report_text(struct weir__report *r, const char *format, ...) WEIR_PRINTF(2, 3);
void weir__report_line(struct weir__report *r, struct weir__lines *lines, const char *text);
/* The same unless the text is there already. */
void weir__report_line_once(struct weir__report *r, struct weir__lines *lines, const char *text);
/* Hands the lines over; they are empty afterwards. */
const char *const *weir__report_lines(struct weir__report *r, struct weir__lines *lines,
                                      size_t *count);
void weir__report_add(struct weir__report *r, const weir_finding *finding);

/* "rank 1: ", or "" in a program of one rank. */
const char *weir__report_rank(struct weir__report *r, const struct weir__check_program *p,
                              int rank);
/* "16 vector cores"; "16 cores" where all are alike. */
const char *weir__report_cores(struct weir__report *r, const struct weir__check_rank *rank,
                               int cube, int vector);
/* The same of that many blocks of the operator. */
const char *weir__report_blocks(struct weir__report *r, const struct weir__check_rank *rank,
                                const struct weir__check_op *op, int blocks);

/* ---- analyse.c ---- */

/* Adds what can be said of the program, with exploration. The program is changed while
 * remedies are tried, and is as before afterwards. */
weir_status weir__check_analyse(struct weir__check_program *p, const weir_check_options *options,
                                struct weir__report *report);
/* Adds a finding if operators wait for each other whatever the cores. */
weir_status weir__check_stuck(struct weir__check_program *p, struct weir__report *report,
                              bool *stuck);

#endif
