/* One case for every way to end; self.c looks at what the runner says of them. */
#include "harness/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

TEST(end, pass)
{
    printf("not shown\n");
}

TEST(end, check)
{
    printf("shown\n");
    CHECK_EQ(1 + 1, 3u);
}

TEST(end, note)
{
    test_note("row %d", 7);
    CHECK(1 > 2);
}

static void *fail_in_thread(void *arg)
{
    (void)arg;
    FAIL("in a thread");
}

TEST(end, thread)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    pthread_join(thread, NULL);
}

TEST(end, status)
{
    CHECK_OK(WEIR_ESHAPE);
}

TEST(end, crash)
{
    raise(SIGKILL);
}

TEST(end, early)
{
    exit(0);
}

TEST(end, skip)
{
    SKIP("no %s here", "moon");
}

/* The grandchild holds the case's process group open: it must die as well. */
TEST_TIMEOUT(end, hang, 1)
{
    if (fork() == 0)
        pause();
    for (;;)
        pause();
}
