/* Ranks whose clocks differ: the offset is measured over the control channel, and their traces are
 * merged in order. */
#define _GNU_SOURCE
#include "procs/channel/control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

enum { CALLS = 20 };
#define AHEAD_S 1000
#define AHEAD_NS (INT64_C(1000000000) * AHEAD_S)

/* Children of this process have a clock that is ahead. False if the system refuses. */
static bool set_clock_ahead(void)
{
    char text[40];
    int fd, n = snprintf(text, sizeof text, "monotonic %d 0\n", AHEAD_S);
    bool set;

    if (unshare(CLONE_NEWTIME) ||
        (fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC)) < 0)
        return false;
    set = write(fd, text, (size_t)n) == n;
    close(fd);
    return set;
}

/* A process is in another time namespace once it has been forked there. The rank is the child. */
static void move_to_other_clock(void)
{
    uint64_t before = weir__clock_ns();
    int status;
    pid_t pid;

    CHECK(set_clock_ahead());
    CHECK((pid = fork()) >= 0);
    if (pid) {
        CHECK(waitpid(pid, &status, 0) == pid);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK(weir__clock_ns() - before >= (uint64_t)AHEAD_NS);
}

static void write_trace(weir_group *g, weir_device *dev)
{
    weir_tensor *x = numbers(dev, 100, 0), *y;
    weir_trace *trace;
    char path[120];

    CHECK_OK(weir_trace_start(NULL));
    for (int i = 0; i < CALLS; i++) {
        CHECK_OK(weir_all_reduce(weir_group_self(g), x, WEIR_REDUCE_SUM, &y));
        CHECK_OK(weir_stream_sync(weir_stream_default(dev)));
        weir_tensor_release(y);
    }
    CHECK_OK(weir_trace_stop(&trace));
    snprintf(path, sizeof path, "%s.%d", getenv("KID_TRACES"), weir_rank_index(weir_group_self(g)));
    CHECK_OK(weir_trace_write_chrome(trace, path));
    weir_trace_free(trace);
    weir_tensor_release(x);
}

/* Rank 1 reaches rank 0 at KID_RELAY, where rank 0 seems to be on another host, and says the offset
 * and how long it has looked for it: no message can have taken longer. */
SCENARIO(clocks)
{
    bool far = atoi(getenv("WEIR_RANK"));
    uint64_t began;
    weir_device *dev;
    weir_group *g, *same;
    int64_t offset;

    if (far && getenv("KID_AHEAD"))
        move_to_other_clock();
    began = weir__clock_ns();
    g = join(&dev, &(weir_join_options){.store = far ? getenv("KID_RELAY") : NULL});
    while (far && !weir_group_clock_offset_ns(g))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    offset = weir_group_clock_offset_ns(g);
    say("offset %" PRId64 " within %" PRIu64 "\n", offset, weir__clock_ns() - began);
    CHECK_OK(weir_group_split(g, (int[]){0, 1}, 2, NULL, &same));
    CHECK(far ? weir_group_clock_offset_ns(same) : !weir_group_clock_offset_ns(same));
    CHECK_OK(weir_group_destroy(same));
    if (getenv("KID_TRACES"))
        write_trace(g, dev);
    CHECK_OK(weir_barrier(weir_group_self(g)));
    CHECK_OK(weir_device_sync(dev));
    leave(g, dev);
}

/* `more` is an environment's "NAME=value", or "". Returns how far the offset may be off. */
static int64_t run_clocks(const char *more, const char *traces, int64_t shift_ns, int64_t offset_ns)
{
    char store[64], fd_text[64], relay[64];
    const char *const extra[] = {store, fd_text, relay, "WEIR_TOKEN=" TALK_TOKEN,
                                 more,  traces,  NULL};
    int64_t offset[2], within[2];
    int port, fd = listen_on_loopback(&port);
    struct relay r;
    struct kids k;

    relay_open(&r, port, true, shift_ns);
    snprintf(store, sizeof store, "WEIR_STORE=127.0.0.1:%d", port);
    snprintf(fd_text, sizeof fd_text, "WEIR_STORE_FD=%d", fd);
    snprintf(relay, sizeof relay, "KID_RELAY=127.0.0.1:%d", r.port);
    kids_start(&k, 2, "clocks", extra);
    close(fd);
    for (int i = 0; i < 2; i++) {
        kids_end(&k, i);
        test_note("rank %d: %s", i, k.text[i]);
        CHECK_EQ(k.status[i], 0);
        CHECK_EQ(sscanf(k.text[i], "offset %" SCNd64 " within %" SCNd64, &offset[i], &within[i]),
                 2);
    }
    relay_close(&r);
    CHECK_EQ(offset[0], 0); /* of rank 0's clock to itself */
    CHECK(offset[1] >= offset_ns - within[1]);
    CHECK(offset[1] <= offset_ns + within[1]);
    return within[1];
}

TEST(procs, the_offset_of_another_hosts_clock_is_measured)
{
    run_clocks("KID_NONE=", "KID_NONE=", AHEAD_NS, AHEAD_NS);
    run_clocks("KID_NONE=", "KID_NONE=", -AHEAD_NS / 2, -AHEAD_NS / 2);
}

/* Skips the case where processes cannot have another clock. */
static void need_other_clock(void)
{
    int status;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (!pid)
        _exit(set_clock_ahead() ? 0 : 77);
    CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        SKIP("this system lets nobody make time namespaces");
}

/* The k-th call of one rank and that of the other are over only when both have begun. */
TEST(procs, traces_of_ranks_whose_clocks_differ_are_merged_in_order)
{
    const weir_trace_op *ops[2][CALLS];
    char name[100], path[120];
    int n[2] = {0, 0};
    weir_trace *traces[2], *all;
    weir_trace_data d;
    int64_t within;

    need_other_clock();
    snprintf(name, sizeof name, "KID_TRACES=/tmp/weir-test-clocks-%d", (int)getpid());
    within = run_clocks("KID_AHEAD=1", name, 0, -AHEAD_NS);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s.%d", name + strlen("KID_TRACES="), i);
        CHECK_OK(weir_trace_load(path, &traces[i]));
        unlink(path);
    }
    CHECK_OK(weir_trace_merge((const weir_trace *[]){traces[1], traces[0]}, 2, &all));
    weir_trace_get(all, &d, sizeof d);
    for (size_t i = 0; i < d.nops; i++) {
        int rank = d.devices[d.ops[i].device].rank;

        if (!strcmp(d.ops[i].name, "AllReduce") && n[rank] < CALLS)
            ops[rank][n[rank]++] = &d.ops[i];
    }
    CHECK_EQ(n[0], CALLS);
    CHECK_EQ(n[1], CALLS);
    for (int i = 0; i < CALLS; i++) {
        CHECK(ops[0][i]->queued_ns <= ops[1][i]->ended_ns + within);
        CHECK(ops[1][i]->queued_ns <= ops[0][i]->ended_ns + within);
    }
    weir_trace_free(all);
    weir_trace_free(traces[0]);
    weir_trace_free(traces[1]);
}
