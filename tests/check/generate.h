/* Random programs, small enough to try every timing of them. */
#ifndef WEIR_TEST_GENERATE_H
#define WEIR_TEST_GENERATE_H

#include "check/deadlock/program.h"

struct shape {
    int ranks, streams, ops; /* at most; ops by rank */
    int cores;               /* at most, of each kind */
    bool priorities;         /* streams differ in it */
    bool mixed;              /* blocks that take cube and vector cores */
};

/* The same seed gives the same program. Free with weir__check_program_fini. */
void generate(struct weir__check_program *p, const struct shape *shape, unsigned seed);
/* What a failing test shows. */
void print_program(const struct weir__check_program *p);

#endif
