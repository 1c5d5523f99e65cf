/* Runs in which a rank is lost: how long it takes until every other rank says so. Survivors say
 * "error at NANOSECONDS: ..." (say_error), and who loses the rank notes the same clock before.
 * `make test` asserts no times; with WEIR_SOAK a case fails if a rank took more than a second while
 * other programs left the processors alone. WEIR_SOAK_TABLE names a file for the figures. */
#ifndef TESTS_PROCS_LOSSES_H
#define TESTS_PROCS_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

enum how { KILL, STOP, TERMINATE, CUT, HOWS };
struct loss_way {
    int signal; /* 0: its connection is cut */
    const char *said, *name;
};
extern const struct loss_way loss_ways[HOWS];

/* CLOCK_MONOTONIC, which all processes of a machine share. */
int64_t clock_now(void);
/* The number after the last `before` in the text; 0 if there is none. */
int64_t number_after(const char *text, const char *before);

/* Before the first run; later it does nothing. */
void losses_begin(void);
/* Runs of a case: WEIR_SOAK, or so many. */
int losses_runs(int usual);
/* The seed of a random case: the time with WEIR_SOAK. */
unsigned losses_seed(unsigned usual);
/* A rank was lost at that time, and another has said what is in the text. */
void losses_add(enum how how, int64_t lost_ns, const char *text);
/* The runs so far are over: prints their times under that title, and forgets them. */
void losses_report(const char *title);

#endif
