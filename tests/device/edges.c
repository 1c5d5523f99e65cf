/* Where threads, errors and waits meet: what a report may look at, what starts a sleeping
 * device, whose sentence an error carries, who is starved. */
#include "helpers.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/device.h"

static weir_status nothing_kernel(const void *args, const weir_block *block)
{
    (void)args, (void)block;
    return WEIR_OK;
}

/* The operator that runs is alone in its stream's run; the one before was a gang, and its
 * command has been overwritten or given back since. */
TEST(edges, a_report_reads_no_freed_command)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *s = weir_stream_default(dev);
    static const char args[WEIR_ARGS_MAX];
    struct gate gate = {0};

    CHECK_OK(weir_launch_submit(
        s, &(weir_launch){.name = "gang", .fn = nothing_kernel, .blocks = 2, .gang = true}));
    for (int i = 0; i < 64; i++) /* four times what a piece of the queue holds */
        CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "filler",
                                                      .fn = nothing_kernel,
                                                      .args = args,
                                                      .args_size = sizeof args}));
    submit_gate(s, &gate);
    while (!atomic_load(&gate.arrived))
        pause_us(50);
    CHECK_STATUS(weir_stream_sync_for(s, 1000000), WEIR_ETIMEDOUT);
    CHECK_STR(weir_last_error(), "at operator 'gate', which runs and holds 1 core");
    open_gate(&gate);
    CHECK_OK(weir_device_close(dev));
}

static weir_status fails_with_sentence(const void *args, const weir_block *block)
{
    (void)args, (void)block;
    return weir__fail(WEIR_ESHAPE, "the first kernel's sentence");
}

static weir_status fails_without(const void *args, const weir_block *block)
{
    (void)args, (void)block;
    return WEIR_ERANGE;
}

static void failing_call(void *user, weir_status status)
{
    weir_device *dev;

    (void)user, (void)status;
    CHECK_STATUS(weir_device_open("cpu:cores=none", &dev), WEIR_ESPEC);
}

/* A kernel that fails without a word gets the general text of its code, not what went wrong
 * on that thread some time before. */
TEST(edges, an_error_message_contains_no_earlier_one)
{
    static const char *const specs[] = {"cpu:cores=1", "npu:a2"};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        weir_device *dev = open_device(specs[i]), *none;
        weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0), *c = new_stream(dev, 0);

        test_note("%s", specs[i]);
        CHECK_OK(
            weir_launch_submit(a, &(weir_launch){.name = "speaks", .fn = fails_with_sentence}));
        CHECK_STATUS(weir_stream_sync(a), WEIR_ESHAPE);
        CHECK_STR(weir_last_error(), "the first kernel's sentence");
        CHECK_STATUS(weir_device_open("cpu:cores=none", &none), WEIR_ESPEC);
        CHECK_OK(weir_launch_submit(b, &(weir_launch){.name = "silent", .fn = fails_without}));
        CHECK_STATUS(weir_stream_sync(b), WEIR_ERANGE);
        CHECK_STR_EQ(strchr(weir_last_error(), ':'), ": value out of range");
        CHECK_OK(weir_stream_callback(c, failing_call, NULL));
        CHECK_OK(weir_launch_submit(c, &(weir_launch){.name = "silent", .fn = fails_without}));
        CHECK_STATUS(weir_stream_sync(c), WEIR_ERANGE);
        CHECK_STR_EQ(strchr(weir_last_error(), ':'), ": value out of range");
        weir_stream_destroy(a);
        weir_stream_destroy(b);
        weir_stream_destroy(c);
        CHECK_OK(weir_device_close(dev));
    }
}

/* Of the process's other threads: how many there are, and how many of them could be sent the
 * signal. */
static void count_threads(int signal, int *threads, int *open)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *e;

    CHECK(tasks != NULL);
    *threads = *open = 0;
    while ((e = readdir(tasks))) {
        char path[300], line[256];
        unsigned long long blocked;
        FILE *f;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        if (*e->d_name == '.' || atoi(e->d_name) == (int)getpid() || !(f = fopen(path, "r")))
            continue;
        while (fgets(line, sizeof line, f))
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1) {
                *threads += 1;
                *open += !(blocked >> (signal - 1) & 1);
            }
        fclose(f);
    }
    closedir(tasks);
}

/* A signal that the program's own threads block stays pending for them: the library's do
 * not take it. */
TEST(edges, signals_are_not_taken_by_threads_of_the_library)
{
    weir_device *dev = open_device("cpu:threads=3");
    sigset_t mine, pending;
    int threads, open;

    CHECK_OK(weir_launch_submit(weir_stream_default(dev),
                                &(weir_launch){.fn = nothing_kernel, .blocks = 3}));
    CHECK_OK(weir_device_sync(dev));
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mine, NULL), 0);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    count_threads(SIGUSR1, &threads, &open);
    CHECK_GE(threads, 3);
    CHECK_EQ(open, 0);
    CHECK_EQ(sigpending(&pending), 0);
    CHECK(sigismember(&pending, SIGUSR1));
    signal(SIGUSR1, SIG_IGN); /* discards it */
    CHECK_OK(weir_device_close(dev));
}

/* ---- a mix block needs two vector cores at once, and somebody always wants one ---- */

struct crowd {
    atomic_int ran, mix_after; /* vector kernels that ran, in all and before the mix one */
};

static weir_status crowd_kernel(const void *args, const weir_block *block)
{
    struct crowd *c = *(struct crowd *const *)args;

    (void)block;
    pause_us(20);
    atomic_fetch_add(&c->ran, 1);
    return WEIR_OK;
}

static weir_status mix_kernel(const void *args, const weir_block *block)
{
    struct crowd *c = *(struct crowd *const *)args;

    (void)block;
    atomic_store(&c->mix_after, atomic_load(&c->ran));
    return WEIR_OK;
}

TEST(edges, a_mix_operator_is_not_starved_by_vector_operators)
{
    weir_device *dev = open_device("cpu:cube=1,vector=2,threads=2");
    enum { STREAMS = 4, EACH = 500 };
    weir_stream *streams[STREAMS], *mix = new_stream(dev, 0);
    struct crowd crowd = {0}, *c = &crowd;
    struct gate gate = {0};

    submit_gate(mix, &gate); /* on the cube core, while the vector work is queued */
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = new_stream(dev, 0);
        for (int k = 0; k < EACH; k++)
            CHECK_OK(weir_launch_submit(streams[i], &(weir_launch){.fn = crowd_kernel,
                                                                   .args = &c,
                                                                   .args_size = sizeof c,
                                                                   .engine = WEIR_ENGINE_VECTOR}));
    }
    CHECK_OK(weir_launch_submit(mix, &(weir_launch){.name = "mix",
                                                    .fn = mix_kernel,
                                                    .args = &c,
                                                    .args_size = sizeof c,
                                                    .engine = WEIR_ENGINE_MIX}));
    open_gate(&gate);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(atomic_load(&crowd.ran), STREAMS * EACH);
    CHECK_LT(atomic_load(&crowd.mix_after), STREAMS * EACH / 2);
    for (int i = 0; i < STREAMS; i++)
        weir_stream_destroy(streams[i]);
    weir_stream_destroy(mix);
    CHECK_OK(weir_device_close(dev));
}

/* ---- waits that are interrupted ---- */

static int interrupt(void *user)
{
    ++*(int *)user;
    return 1;
}

/* Nothing that waits for all streams takes an interrupted wait for one that is over. */
TEST(edges, an_interrupted_wait_for_all_streams_says_so)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2,memory=4m");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    weir_buffer *first, *second;
    struct gate gate = {0}, *g = &gate;
    int calls = 0;

    CHECK_OK(weir_buffer_alloc(a, 3 << 20, &first));
    CHECK_OK(weir_launch_submit(a, &(weir_launch){.fn = gate_kernel,
                                                  .args = &g,
                                                  .args_size = sizeof g,
                                                  .buffers = &first,
                                                  .nbuffers = 1}));
    weir_wait_hook_set(interrupt, &calls);
    CHECK_STATUS(weir_device_sync(dev), WEIR_EINTERRUPTED);
    CHECK_EQ(calls, 1);
    CHECK_STATUS(weir_device_close(dev), WEIR_EINTERRUPTED);
    CHECK_EQ(calls, 2);
    CHECK_STATUS(weir_buffer_alloc(b, 3 << 20, &second), WEIR_EINTERRUPTED);
    weir_wait_hook_set(NULL, NULL);
    open_gate(&gate);
    weir_buffer_free(first);
    CHECK_OK(weir_buffer_alloc(b, 3 << 20, &second));
    weir_buffer_free(second);
    weir_stream_destroy(a);
    weir_stream_destroy(b);
    CHECK_OK(weir_device_close(dev));
}

/* Once a transfer has returned, the memory it was given is the caller's again. */
TEST(edges, an_interrupted_transfer_leaves_the_hosts_memory_alone)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *s = weir_stream_default(dev);
    enum { N = 4096 };
    static float host[N];
    const int64_t n = N;
    struct gate gate = {0};
    weir_tensor *t;
    int calls = 0;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, &n, &t));
    CHECK_OK(weir_fill(t, 7));
    submit_gate(s, &gate);
    weir_wait_hook_set(interrupt, &calls);
    CHECK_STATUS(weir_tensor_read(t, host, sizeof host), WEIR_EINTERRUPTED);
    host[0] = 1;
    CHECK_STATUS(weir_tensor_write(t, host, sizeof host), WEIR_EINTERRUPTED);
    CHECK_EQ(calls, 2);
    open_gate(&gate);
    weir_wait_hook_set(NULL, NULL); /* on a busy machine this wait is long enough for it */
    CHECK_OK(weir_device_sync(dev));
    CHECK(host[0] == 1);
    weir_wait_hook_set(interrupt, &calls);
    CHECK_OK(weir_tensor_read(t, host, sizeof host)); /* with the hook, but there is no wait */
    CHECK(host[0] == 7 && host[N - 1] == 7);
    weir_wait_hook_set(NULL, NULL);
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(dev));
}
