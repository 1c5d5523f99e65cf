/* Enumerates every timing of a program: slow, but simple enough to be obviously correct. */
#ifndef WEIR_TEST_BRUTE_H
#define WEIR_TEST_BRUTE_H

#include "check/deadlock/program.h"

enum brute { BRUTE_SAFE, BRUTE_DEADLOCKS, BRUTE_TOO_LARGE };

/* Visits at most `most` states. */
enum brute brute_force(const struct weir__check_program *p, enum weir__policy policy, int most);

#endif
