/* The test harness.
 *
 *     TEST(pool, reuses_a_freed_block)
 *     {
 *         CHECK_OK(weir_buffer_alloc(s, 64, &b));
 *         CHECK_EQ(weir_buffer_size(b), 64);
 *     }
 *
 * A case registers itself and runs in a process of its own with a timeout. It
 * passes if it returns and the process ends cleanly (a leak report of a
 * sanitizer is no clean end). The first check that does not hold ends it, from
 * any thread. What it prints is shown only if it fails.
 */
#ifndef WEIR_TEST_H
#define WEIR_TEST_H

#include "weir/status.h"

#include <stdio.h>
#include <string.h>

struct test_case {
    const char *suite, *name;
    int seconds; /* timeout, multiplied by TEST_SLOWDOWN */
    void (*run)(void);
    struct test_case *next;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

#if defined(__SANITIZE_THREAD__)
#define TEST_THREADS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_THREADS_WATCHED 1
#endif
#endif
#ifndef TEST_THREADS_WATCHED
#define TEST_THREADS_WATCHED 0
#endif

/* How much longer things may take in this build; also for repeat counts. */
#define TEST_SLOWDOWN (TEST_SANITIZED ? 4 : 1)
/* For repeat counts of what has one thread, where the thread sanitizer has nothing to find. */
#define TEST_SLOWDOWN_ALONE (TEST_THREADS_WATCHED ? 40 : TEST_SLOWDOWN)

/* How many times longer things may take now: where more runs than the machine has processors for,
 * the share of each is smaller. 1 .. 10; what has a timeout of its own takes it times that. */
double test_patience(void);

#define TEST(suite, name) TEST_TIMEOUT(suite, name, 60)

#define TEST_TIMEOUT(suite_, name_, seconds_)                                                   \
    static void suite_##_##name_##_test(void);                                                  \
    __attribute__((constructor)) static void suite_##_##name_##_register(void)                  \
    {                                                                                           \
        static struct test_case c = {#suite_, #name_, seconds_, suite_##_##name_##_test, NULL}; \
        test_register(&c);                                                                      \
    }                                                                                           \
    static void suite_##_##name_##_test(void)

void test_register(struct test_case *c);

/* Ends the case. */
_Noreturn void test_fail(const char *file, int line, const char *format, ...) WEIR_PRINTF(3, 4);
_Noreturn void test_skip(const char *format, ...) WEIR_PRINTF(1, 2);

/* A line that is shown with the next failure of this thread, for cases that
 * loop over a table: test_note("row %zu: %s", i, row->name). "" clears it. */
void test_note(const char *format, ...) WEIR_PRINTF(1, 2);

/* Wide enough for every integer, signed or not, so that checks may mix them. */
__extension__ typedef __int128 test_int;

void test_compare(const char *file, int line, bool holds, const char *a_text, const char *op,
                  const char *b_text, test_int a, test_int b);
void test_compare_near(const char *file, int line, const char *a_text, const char *b_text, double a,
                       double b, double tolerance);
void test_compare_ptr(const char *file, int line, const char *a_text, const char *b_text,
                      const void *a, const void *b);
void test_compare_str(const char *file, int line, const char *a_text, const char *a, const char *b);
void test_compare_mem(const char *file, int line, const char *a_text, const char *b_text,
                      const void *a, const void *b, size_t size);
void test_contains(const char *file, int line, const char *a_text, const char *a, const char *part);
void test_status(const char *file, int line, const char *text, weir_status got, weir_status want);

#define SKIP(...) test_skip(__VA_ARGS__)
#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(cond)                                                   \
    do {                                                              \
        if (!(cond))                                                  \
            test_fail(__FILE__, __LINE__, "%s does not hold", #cond); \
    } while (0)

/* Integers. */
#define CHECK_EQ(a, b) TEST_COMPARE(a, ==, b)
#define CHECK_NE(a, b) TEST_COMPARE(a, !=, b)
#define CHECK_LT(a, b) TEST_COMPARE(a, <, b)
#define CHECK_LE(a, b) TEST_COMPARE(a, <=, b)
#define CHECK_GT(a, b) TEST_COMPARE(a, >, b)
#define CHECK_GE(a, b) TEST_COMPARE(a, >=, b)
#define TEST_IS_FLOAT(x) _Generic((x), float : 1, double : 1, long double : 1, default : 0)
#define TEST_COMPARE(a, op, b)                                                             \
    do {                                                                                   \
        _Static_assert(!TEST_IS_FLOAT(a) && !TEST_IS_FLOAT(b), "use CHECK_NEAR or CHECK"); \
        test_int a_ = (test_int)(a), b_ = (test_int)(b);                                   \
        test_compare(__FILE__, __LINE__, a_ op b_, #a, #op, #b, a_, b_);                   \
    } while (0)

/* |a - b| <= tolerance; NaN equals NaN only. */
#define CHECK_NEAR(a, b, tolerance) test_compare_near(__FILE__, __LINE__, #a, #b, a, b, tolerance)
#define CHECK_PTR_EQ(a, b) test_compare_ptr(__FILE__, __LINE__, #a, #b, a, b)
#define CHECK_STR_EQ(a, b) test_compare_str(__FILE__, __LINE__, #a, a, b)
#define CHECK_MEM_EQ(a, b, size) test_compare_mem(__FILE__, __LINE__, #a, #b, a, b, size)
/* The text `a` contains `part`. */
#define CHECK_STR(a, part) test_contains(__FILE__, __LINE__, #a, a, part)

/* Both show weir_last_error when they do not hold. */
#define CHECK_OK(call) test_status(__FILE__, __LINE__, #call, call, WEIR_OK)
#define CHECK_STATUS(call, want) test_status(__FILE__, __LINE__, #call, call, want)

#endif
