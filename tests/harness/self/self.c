#include "harness/test.h"

#include <stdlib.h>
#include <sys/wait.h>

struct outcome {
    char text[8192];
    int status;
};

static struct outcome run_cases(const char *args)
{
    struct outcome o = {0};
    char command[512];
    FILE *pipe;

    snprintf(command, sizeof command, "%s %s 2>&1", HARNESS_CASES, args);
    pipe = popen(command, "r");
    CHECK(pipe != NULL);
    fread(o.text, 1, sizeof o.text - 1, pipe);
    o.status = WEXITSTATUS(pclose(pipe));
    return o;
}

static void expect(const char *name, int status, const char *line, const char *total)
{
    char args[64];
    struct outcome o;

    snprintf(args, sizeof args, "--filter end.%s", name);
    o = run_cases(args);
    CHECK_STR(o.text, line);
    CHECK_STR(o.text, total);
    CHECK_EQ(o.status, status);
}

TEST(harness, a_case_that_returns_passes_and_its_output_is_hidden)
{
    struct outcome o = run_cases("--filter end.pass");

    CHECK_STR(o.text, "ok   end.pass");
    CHECK_STR(o.text, "\n1 passed, 0 failed\n");
    CHECK_EQ(o.status, 0);
    CHECK_PTR_EQ(strstr(o.text, "not shown"), NULL);
}

TEST(harness, a_failed_check_shows_place_values_and_output)
{
    struct outcome o = run_cases("--filter end.check");

    CHECK_STR(o.text, "FAIL end.check");
    CHECK_STR(o.text, "| shown\n");
    CHECK_STR(o.text, "harness/self/cases.c:");
    CHECK_STR(o.text, ": 1 + 1 == 3u does not hold: 2 and 3");
    CHECK_STR(o.text, "\n0 passed, 1 failed\n");
    CHECK_EQ(o.status, 1);
}

TEST(harness, a_note_is_shown_with_the_failure)
{
    expect("note", 1, "at row 7", "0 passed, 1 failed");
}

TEST(harness, a_check_in_a_thread_fails_the_case)
{
    expect("thread", 1, "in a thread", "0 passed, 1 failed");
}

TEST(harness, a_wrong_status_is_named)
{
    expect("status", 1, "gave WEIR_ESHAPE, expected WEIR_OK", "0 passed, 1 failed");
}

TEST(harness, a_crash_fails_with_the_signal)
{
    expect("crash", 1, "killed by signal 9", "0 passed, 1 failed");
}

TEST(harness, an_exit_before_the_end_fails)
{
    expect("early", 1, "exit status 0 before its end", "0 passed, 1 failed");
}

TEST(harness, a_hang_fails_after_its_timeout_with_its_children)
{
    expect("hang", 1, "timed out after", "0 passed, 1 failed");
}

TEST(harness, a_skip_gives_its_reason)
{
    expect("skip", 0, "no moon here", "0 passed, 0 failed, 1 skipped");
}

TEST(harness, no_case_at_all_is_a_failure)
{
    expect("nothing_of_that_name", 1, "0 passed", "0 failed");
}

TEST(harness, cases_run_side_by_side_give_the_same_totals)
{
    struct outcome o = run_cases("-j 4");

    CHECK_STR(o.text, "\n1 passed, 7 failed, 1 skipped\n");
}
