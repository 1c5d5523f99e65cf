/* Prepares a program for exploration, and tries remedies on it. */
#ifndef WEIR_CHECK_DEADLOCK_TRIAL_H
#define WEIR_CHECK_DEADLOCK_TRIAL_H

#include "check/deadlock/explore.h"
#include "check/deadlock/report.h"

/* A program with its order. */
struct weir__trial {
    struct weir__deadlock deadlock;   /* where streams stop if cores are unlimited */
    bool over;                        /* all of them finished */
    struct weir__check_order *orders; /* by rank, if over */
};

weir_status weir__prepare(struct weir__trial *out, const struct weir__check_program *p);
void weir__trial_fini(struct weir__trial *x, const struct weir__check_program *p);

struct weir__trials {
    struct weir__check_program *p; /* changed during a trial, and changed back */
    struct weir__report *report;
    unsigned policies; /* 1 << enum weir__policy: policies that must be free of deadlock */
    size_t max_states; /* of one trial */
    size_t steps;      /* left for all trials together */
};

/* Finds a remedy for the operators `names`, which block each other. out->text is NULL if no
 * change that was tried helps. */
weir_status weir__find_remedy(struct weir__trials *t, const struct weir__lines *names,
                              weir_remedy *out);
/* Finds a core limit for an operator that asks for more cores than exist: tries `most` blocks,
 * then fewer. */
weir_status weir__find_limit(struct weir__trials *t, const char *name, int most, weir_remedy *out);

/* ---- rules.c ---- */

/* For programs that are too large to explore: a program cannot deadlock if on every rank the
 * operators that may overlap, one per stream, fit the cores. Otherwise adds a finding. */
weir_status weir__add_rule_broken(const struct weir__check_program *p,
                                  const struct weir__check_order *orders, enum weir__policy policy,
                                  struct weir__report *report, bool *broken);
/* Warns of pairs of streams whose gangs and collectives do not fit the cores together. */
void weir__add_tight_streams(const struct weir__check_program *p,
                             const struct weir__check_order *orders, struct weir__report *report);

#endif
