/* Snapshots of a running recording, and WEIR_WATCH. */
#include "helpers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static size_t ops_now(void)
{
    weir_trace_data d;
    weir_trace *t;
    size_t n;

    CHECK_OK(weir_trace_snapshot(&t));
    weir_trace_get(t, &d, sizeof d);
    n = d.nops;
    weir_trace_free(t);
    return n;
}

TEST(snapshot, a_recording_continues_while_a_snapshot_is_taken)
{
    weir_device *dev = open_device("cpu:cores=1");
    weir_stream *s = tagged(dev, "work", 0);
    weir_trace_data d;
    weir_trace *t;

    CHECK_STATUS(weir_trace_snapshot(&t), WEIR_ESTATE);
    CHECK_PTR_EQ(t, NULL);
    CHECK_OK(weir_trace_start(NULL));
    CHECK_EQ(ops_now(), 0);
    submit_empty(s, "early", 5);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(ops_now(), 5);
    CHECK_EQ(ops_now(), 5);
    submit_empty(s, "late", 3);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(ops_now(), 8);
    t = stop_trace(&d);
    CHECK_EQ(d.nops, 8);
    CHECK_STR_EQ(d.streams[find_op(&d, "late", 2)->stream].name, "work");
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

TEST(snapshot, a_snapshot_of_full_rings_has_the_newest_operators_and_counts_the_lost)
{
    weir_device *dev = open_device("cpu:cores=1");
    weir_stream *s = tagged(dev, "work", 0);
    weir_trace_data d;
    weir_trace *t;

    CHECK_OK(weir_trace_start(&(weir_trace_options){.bytes_per_thread = 4096}));
    submit_empty(s, "old", 500);
    CHECK_OK(weir_device_sync(dev));
    submit_empty(s, "new", 5);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_snapshot(&t));
    weir_trace_get(t, &d, sizeof d);
    CHECK_GT(d.dropped, 0);
    CHECK_LT(d.nops, 64);
    find_op(&d, "new", 4);
    weir_trace_free(t);
    t = stop_trace(&d);
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

static void *look_until(void *done)
{
    while (!atomic_load((atomic_bool *)done))
        (void)ops_now();
    return NULL;
}

TEST(snapshot, a_snapshot_may_be_taken_while_threads_record)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *s[] = {tagged(dev, "a", 0), tagged(dev, "b", 0)};
    atomic_bool done = false;
    pthread_t looker;
    weir_trace_data d;
    weir_trace *t;

    CHECK_OK(weir_trace_start(NULL));
    CHECK_EQ(pthread_create(&looker, NULL, look_until, &done), 0);
    for (int i = 0; i < 40; i++) {
        submit_empty(s[i % 2], "op", 50 / TEST_SLOWDOWN + 1);
        CHECK_OK(weir_device_sync(dev));
    }
    atomic_store(&done, true);
    CHECK_EQ(pthread_join(looker, NULL), 0);
    t = stop_trace(&d);
    CHECK_EQ(d.nops, 40 * (50 / TEST_SLOWDOWN + 1));
    check_trace(&d);
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

/* ---- from outside ---- */

struct outside {
    char folder[64];
    int socket;
};

/* WEIR_WATCH for a folder of the test's own. */
static struct outside prepare(void)
{
    struct outside o = {"/tmp/weir-test-XXXXXX", -1};

    CHECK(mkdtemp(o.folder));
    CHECK_EQ(setenv("WEIR_WATCH", o.folder, 1), 0);
    return o;
}

static void attach(struct outside *o)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof address.sun_path, "%s/%ld", o->folder, (long)getpid());
    o->socket = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_EQ(connect(o->socket, (const struct sockaddr *)&address, sizeof address), 0);
}

static void receive(int from, char *to, size_t size)
{
    while (size) {
        ssize_t n = recv(from, to, size, 0);

        CHECK_GT(n, 0);
        to += n;
        size -= (size_t)n;
    }
}

/* The trace that the program sends when it is asked. */
static weir_trace *ask(struct outside *o, weir_trace_data *d)
{
    char line[64] = "", *text;
    weir_trace *t;
    size_t size;

    CHECK_EQ(send(o->socket, "trace\n", 6, 0), 6);
    for (size_t n = 0; n + 1 < sizeof line && (!n || line[n - 1] != '\n'); n++)
        receive(o->socket, line + n, 1);
    size = strtoul(line, NULL, 10);
    CHECK_GT(size, 0);
    CHECK(text = malloc(size));
    receive(o->socket, text, size);
    CHECK_OK(weir_trace_parse(text, size, "watched", &t));
    free(text);
    weir_trace_get(t, d, sizeof *d);
    return t;
}

static void leave(struct outside *o)
{
    char path[128];

    close(o->socket);
    snprintf(path, sizeof path, "%s/%ld", o->folder, (long)getpid());
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(o->folder), 0);
}

TEST(watch, an_unmodified_program_can_be_watched)
{
    struct outside o = prepare();
    weir_device *dev = open_device("cpu:cores=1");
    weir_trace_data d;
    weir_trace *t;

    CHECK(!weir_trace_running()); /* not as far as the program is concerned */
    submit_empty(tagged(dev, "work", 0), "first", 3);
    CHECK_OK(weir_device_sync(dev));
    attach(&o);
    t = ask(&o, &d);
    CHECK_EQ(d.nops, 3);
    weir_trace_free(t);
    submit_empty(tagged(dev, "work", 0), "second", 2);
    CHECK_OK(weir_device_sync(dev));
    t = ask(&o, &d);
    CHECK_EQ(d.nops, 5);
    CHECK_STR_EQ(d.streams[find_op(&d, "second", 1)->stream].name, "work");
    weir_trace_free(t);
    leave(&o);
    CHECK_OK(weir_device_close(dev));
}

TEST(watch, the_watch_ends_when_the_program_starts_a_recording)
{
    struct outside o = prepare();
    weir_device *dev = open_device("cpu:cores=1");
    weir_stream *s = tagged(dev, "work", 0);
    weir_trace_data d;
    weir_trace *t;

    CHECK_STATUS(weir_trace_stop(&t), WEIR_ESTATE);
    CHECK_OK(weir_trace_start(NULL));
    CHECK(weir_trace_running());
    CHECK_STATUS(weir_trace_start(NULL), WEIR_ESTATE);
    submit_empty(s, "own", 4);
    CHECK_OK(weir_device_sync(dev));
    attach(&o);
    t = ask(&o, &d);
    CHECK_EQ(d.nops, 4);
    weir_trace_free(t);
    t = stop_trace(&d);
    CHECK_EQ(d.nops, 4);
    weir_trace_free(t);
    t = ask(&o, &d); /* the watch's own begins again */
    CHECK_EQ(d.nops, 0);
    weir_trace_free(t);
    submit_empty(s, "after", 2);
    CHECK_OK(weir_device_sync(dev));
    t = ask(&o, &d);
    CHECK_EQ(d.nops, 2);
    weir_trace_free(t);
    leave(&o);
    CHECK_OK(weir_device_close(dev));
}

TEST(watch, a_folder_that_others_may_enter_is_not_used)
{
    struct outside o = prepare();
    weir_device *dev;
    char path[128];

    CHECK_EQ(chmod(o.folder, 0755), 0);
    dev = open_device("cpu:cores=1");
    snprintf(path, sizeof path, "%s/%ld", o.folder, (long)getpid());
    CHECK_EQ(access(path, F_OK), -1);
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(rmdir(o.folder), 0);
}
