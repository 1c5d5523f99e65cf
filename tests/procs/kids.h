/* Ranks as real processes: a case starts this program again, once for each rank, and each of them
 * runs the scenario of that name instead of the cases. */
#ifndef TESTS_PROCS_KIDS_H
#define TESTS_PROCS_KIDS_H

#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "harness/test.h"
#include "procs/loss/losses.h"
#include "weir/weir.h"

enum { MOST_KIDS = 128, KID_TEXT = 4096 };

struct kids {
    int n;
    pid_t pid[MOST_KIDS];
    int out[MOST_KIDS]; /* what it says on standard output */
    char text[MOST_KIDS][KID_TEXT];
    size_t have[MOST_KIDS];
    int status[MOST_KIDS]; /* of waitpid */
    char store[128];
};

/* Starts n ranks of the scenario; `extra` is NULL-terminated, "NAME=value", or NULL. */
void kids_start(struct kids *k, int n, const char *scenario, const char *const *extra);
/* SIGKILL, SIGSTOP or SIGTERM to a rank of scenario `calls` in the middle of its calls, or its
 * connection to the others is cut: every other one names it, and ends, and nothing is left.
 * `extra` as above. */
void lose_one(int ranks, int victim, enum how how, const char *const *extra, long pause_us);
/* The same of a scenario, which says "ready". */
void lose_one_of(const char *scenario, int ranks, int victim, enum how how,
                 const char *const *extra, long pause_us);
/* As WEIR_SOAK says, or so often: random ranks, signals and points. `title`: of its times. */
void lose_at_random(const char *title, int runs, const char *const *extra);
/* Reads what rank i says until `part` is in it. */
void kids_await(struct kids *k, int i, const char *part);
/* The same, until that line is whole. */
void kids_await_line(struct kids *k, int i, const char *part);
/* Lets rank i go on, which waits (await_go). */
void kids_go(struct kids *k, int i);
/* Waits for rank i to end; its text is all there then. */
void kids_end(struct kids *k, int i);
/* Waits for all, and checks that each said nothing wrong. */
void kids_end_well(struct kids *k);
/* Starts them, and that. */
void kids_run(int n, const char *scenario, const char *const *extra);

/* ---- in a rank ---- */

struct scenario {
    const char *name;
    void (*run)(void);
    struct scenario *next;
};
void scenario_register(struct scenario *s);
#define SCENARIO(id)                                             \
    static void id##_scenario(void);                             \
    __attribute__((constructor(101))) static void id##_add(void) \
    {                                                            \
        static struct scenario s = {#id, id##_scenario, NULL};   \
        scenario_register(&s);                                   \
    }                                                            \
    static void id##_scenario(void)

/* Joins as the environment says, on a device of its own. */
weir_group *join(weir_device **dev, const weir_join_options *options);
void say(const char *format, ...) WEIR_PRINTF(1, 2);
/* "error at NANOSECONDS: what the last error was"; one that is not lost writes it to the file
 * KID_LOG, too. */
void say_error(void);
void await_go(void);
/* Destroys both (the group may be NULL), after which nothing of them may be left in the process. */
void leave(weir_group *group, weir_device *dev);
/* With KID_LOSE="RANK SIGNAL MICROSECONDS" that rank of the world sends it to itself then, and 0
 * cuts its connection. It says "lost at NANOSECONDS" before. True in that rank. */
bool lose_soon(weir_group *world);
/* This one is lost: the same at once. `world` is NULL while it joins; then it may connect again. */
void lose_self(weir_group *world, int signal);
/* All-reduces of n floats until there is an error, and says it; "ready" after some. */
void call_until_error(weir_group *group, weir_device *dev, int64_t n);
/* With KID_STAY=N until N ranks have said what they have to: a launcher may end all of them, or
 * wake one that is stopped, when the first ends. */
void stay_for_others(void);
/* A plan that sums n floats over the ranks, and the sums, so many times. */
weir_plan *plan_of_sums(weir_rank *rank, weir_device *dev, int64_t n, int times);

weir_tensor *zeros(weir_device *dev, int64_t n); /* floats */
/* value, value + 1, ... as i64; and that a tensor has first, first + step, ... */
weir_tensor *numbers(weir_device *dev, int64_t n, int64_t value);
void expect_numbers(weir_tensor *t, int64_t n, int64_t first, int64_t step);
/* An all-reduce of the whole group, whose values are checked; or its error. */
weir_status sum_once(weir_group *group, weir_device *dev);
/* The next of a row of random numbers. */
uint64_t draw(uint64_t *state);

#endif
