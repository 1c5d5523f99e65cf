/* A process that forks while other threads record. */
#include "harness/test.h"
#include "trace/record/trace.h"
#include "weir/weir.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool stop;
static atomic_int started;

/* Never the same name twice: each takes the lock of the names. */
static void *name_things(void *user)
{
    char name[32];

    for (unsigned i = 0; !atomic_load(&stop); i++) {
        snprintf(name, sizeof name, "%s %u", (const char *)user, i % 60000);
        (void)weir__trace_name(name);
        if (!i)
            atomic_fetch_add(&started, 1);
    }
    return NULL;
}

TEST(trace_forks, a_forked_child_can_record_although_threads_were_recording)
{
    pthread_t threads[2];
    weir_trace *trace;
    int status;

    CHECK_OK(weir_trace_start(NULL));
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, name_things, i ? "left" : "right"), 0);
    while (atomic_load(&started) < 2) /* a thread that starts holds locks of the C library's */
        sched_yield();
    for (int i = 0; i < 200; i++) {
        pid_t pid = fork();

        CHECK(pid >= 0);
        if (!pid) {
            alarm(10);
            (void)weir__trace_name("a name that the child has");
            _exit(0);
        }
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFEXITED(status));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_OK(weir_trace_stop(&trace));
    weir_trace_free(trace);
}
