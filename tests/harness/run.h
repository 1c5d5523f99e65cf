/* The interface between the runner and the process of a case. */
#ifndef WEIR_TEST_RUN_H
#define WEIR_TEST_RUN_H

#include <stdbool.h>

enum {
    TEST_EXIT_FAILED = 1,
    TEST_EXIT_SKIPPED = 77,
};

/* In memory shared by the two. */
struct test_report {
    bool returned; /* the case came to its end, so exit status 0 means passed */
    char reason[512];
};

extern struct test_report *test_report;

#endif
