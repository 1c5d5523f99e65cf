/* What the checks print and how they end a case. */
#include "harness/run.h"
#include "harness/test.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

static _Thread_local char note[512];

void test_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
}

/* _exit: other threads may be anywhere, and a leak report would hide the cause. */
void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    dprintf(STDERR_FILENO, "%s:%d: ", file, line);
    vdprintf(STDERR_FILENO, format, args);
    dprintf(STDERR_FILENO, "\n");
    if (note[0])
        dprintf(STDERR_FILENO, "    at %s\n", note);
    va_end(args);
    _exit(TEST_EXIT_FAILED);
}

void test_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(test_report->reason, sizeof test_report->reason, format, args);
    va_end(args);
    _exit(TEST_EXIT_SKIPPED);
}

struct int_text {
    char text[48];
};

/* In decimal, and in hexadecimal where that is what one looks for. */
static struct int_text int_text(test_int v)
{
    struct int_text t;

    if (v < 0)
        snprintf(t.text, sizeof t.text, "%" PRId64, (int64_t)v);
    else if (v < 65536)
        snprintf(t.text, sizeof t.text, "%" PRIu64, (uint64_t)v);
    else
        snprintf(t.text, sizeof t.text, "%" PRIu64 " (0x%" PRIx64 ")", (uint64_t)v, (uint64_t)v);
    return t;
}

void test_compare(const char *file, int line, bool holds, const char *a_text, const char *op,
                  const char *b_text, test_int a, test_int b)
{
    if (!holds)
        test_fail(file, line, "%s %s %s does not hold: %s and %s", a_text, op, b_text,
                  int_text(a).text, int_text(b).text);
}

void test_compare_near(const char *file, int line, const char *a_text, const char *b_text, double a,
                       double b, double tolerance)
{
    /* a == b first: the difference of two infinities is NaN. */
    if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance)
        return;
    test_fail(file, line, "%s is not near %s: %.17g and %.17g differ by %g, allowed %g", a_text,
              b_text, a, b, fabs(a - b), tolerance);
}

void test_compare_ptr(const char *file, int line, const char *a_text, const char *b_text,
                      const void *a, const void *b)
{
    if (a != b)
        test_fail(file, line, "%s == %s does not hold: %p and %p", a_text, b_text, a, b);
}

void test_compare_str(const char *file, int line, const char *a_text, const char *a, const char *b)
{
    if (!a || strcmp(a, b) != 0)
        test_fail(file, line, "%s is \"%s\", expected \"%s\"", a_text, a ? a : "(null)", b);
}

void test_compare_mem(const char *file, int line, const char *a_text, const char *b_text,
                      const void *a, const void *b, size_t size)
{
    const unsigned char *x = a, *y = b;

    for (size_t i = 0; i < size; i++)
        if (x[i] != y[i])
            test_fail(file, line, "%s and %s differ at byte %zu of %zu: 0x%02x and 0x%02x", a_text,
                      b_text, i, size, x[i], y[i]);
}

void test_contains(const char *file, int line, const char *a_text, const char *a, const char *part)
{
    if (!a || !strstr(a, part))
        test_fail(file, line, "%s is \"%s\", which lacks \"%s\"", a_text, a ? a : "(null)", part);
}

void test_status(const char *file, int line, const char *text, weir_status got, weir_status want)
{
    if (got == want)
        return;
    test_fail(file, line, "%s gave %s, expected %s; last error: \"%s\"", text,
              weir_status_name(got), weir_status_name(want), weir_last_error());
}
