/* Sharing memory and events between processes, and waits of streams for values in memory. */
#include "helpers.h"

#include <sys/wait.h>
#include <unistd.h>

/* A child that waits for `size` bytes, then calls `use` with them; forked before any thread is. */
static pid_t t_child(int to_child[2], size_t size, int (*use)(const void *message))
{
    char message[128];
    pid_t child;

    CHECK_LE(size, sizeof message);
    CHECK_EQ(pipe(to_child), 0);
    child = fork();
    CHECK_GE(child, 0);
    if (child)
        return child;
    close(to_child[1]);
    if (read(to_child[0], message, size) != (ssize_t)size)
        _exit(100);
    _exit(use(message));
}

static int t_status(pid_t child)
{
    int status = -1;

    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

struct memory_message {
    char key[65];
};

static int use_memory(const void *message)
{
    const struct memory_message *m = message;
    void *mine, *again;

    if (aclrtSetDevice(0) || aclrtIpcMemImportByKey(&mine, m->key, 0))
        return 1;
    if (t_byte((char *)mine + 5) != 9 || aclrtMemset((char *)mine + 6, 1, 8, 1))
        return 2;
    if (aclrtFree(mine) != ACL_ERROR_RT_PARAM_INVALID)
        return 3;
    if (aclrtIpcMemImportByKey(&again, m->key, 0) || aclrtIpcMemClose(m->key) ||
        aclrtIpcMemClose(m->key))
        return 4;
    if (aclrtMemFlush(mine, 1) != ACL_ERROR_RT_PARAM_INVALID ||
        aclrtIpcMemClose(m->key) != ACL_ERROR_RT_PARAM_INVALID)
        return 5;
    return aclFinalize() == ACL_ERROR_UNINITIALIZE ? 0 : 6;
}

TEST(between, another_process_uses_memory_by_its_key)
{
    struct memory_message m = {""};
    int to_child[2];
    pid_t child;
    char *memory;

    NOT_ON_CUDA("its memory is not shared with other processes");
    child = t_child(to_child, sizeof m, use_memory);
    t_begin();
    memory = t_device(10000);
    CHECK_ACL(aclrtMemset(memory, 10000, 9, 10000));
    CHECK_ACL(aclrtIpcMemGetExportKey(memory + 4097, 5000, m.key, sizeof m.key, 0));
    CHECK_EQ(t_byte(memory + 9999), 9); /* what was there is there */
    CHECK_EQ(write(to_child[1], &m, sizeof m), sizeof m);
    CHECK_EQ(t_status(child), 0);
    CHECK_EQ(t_byte(memory + 4097 + 6), 8);
    CHECK_ACL(aclrtFree(memory));
    CHECK_EQ(aclrtIpcMemImportByKey((void **)&memory, m.key, 0), ACL_ERROR_RT_PARAM_INVALID);
    t_end();
}

TEST(between, exporting_memory_does_not_export_its_neighbours)
{
    char key[65], *memory[8];

    NOT_ON_CUDA("its memory is not shared with other processes");
    t_begin();
    for (int i = 0; i < 8; i++) {
        memory[i] = t_device(100);
        CHECK_ACL(aclrtMemset(memory[i], 100, i, 100));
    }
    for (int i = 0; i < 8; i += 2)
        CHECK_ACL(aclrtIpcMemGetExportKey(memory[i], 100, key, sizeof key, 0));
    for (int i = 0; i < 8; i++)
        CHECK_EQ(t_byte(memory[i] + 99), i);
    CHECK_EQ(aclrtIpcMemGetExportKey(memory[0], 101, key, sizeof key, 0),
             ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtIpcMemGetExportKey(memory[0], 100, key, 8, 0), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtIpcMemClose("weir.1.2.3"), ACL_ERROR_RT_PARAM_INVALID);
    t_end();
}

static int use_event(const void *message)
{
    aclrtIpcEventHandle handle;
    aclrtEventRecordedStatus status;
    aclrtEvent event;
    aclrtStream s;
    char *x;

    memcpy(&handle, message, sizeof handle);
    if (aclrtSetDevice(0) || aclrtIpcOpenEventHandle(handle, &event))
        return 1;
    /* The parent's stream has not got there: it waits for this process to end its pipe. */
    if (aclrtQueryEventStatus(event, &status) || status != ACL_EVENT_RECORDED_STATUS_NOT_READY)
        return 2;
    if (aclrtSynchronizeEventWithTimeout(event, 1) != ACL_ERROR_RT_WAIT_TIMEOUT)
        return 3;
    s = t_stream();
    x = t_device(64);
    if (aclrtStreamWaitEvent(s, event) || aclrtMemsetAsync(x, 64, 4, 64, s))
        return 4;
    close(((const int *)message)[16]); /* lets the parent's stream go */
    if (aclrtSynchronizeStream(s) || t_byte(x) != 4)
        return 5;
    if (aclrtSynchronizeEvent(event) || aclrtDestroyEvent(event))
        return 6;
    return 0;
}

static void wait_for_the_child(void *user)
{
    char byte;

    CHECK_EQ(read(*(int *)user, &byte, 1), 0); /* the other end is closed */
}

TEST(between, another_process_waits_for_an_event)
{
    struct {
        aclrtIpcEventHandle handle;
        int hold;
    } m;
    int to_child[2], hold[2];
    aclrtEvent event, plain;
    aclrtStream s;
    pid_t child;

    NOT_ON_CUDA("a forked process cannot use its driver");
    CHECK_EQ(pipe(hold), 0);
    child = t_child(to_child, sizeof m, use_event);
    close(hold[1]);
    t_begin();
    s = t_stream();
    CHECK_ACL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_ACL(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC));
    CHECK_EQ(aclrtIpcGetEventHandle(plain, &m.handle), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_ACL(aclrtLaunchHostFunc(s, wait_for_the_child, &hold[0]));
    CHECK_ACL(aclrtRecordEvent(event, s));
    CHECK_ACL(aclrtIpcGetEventHandle(event, &m.handle));
    m.hold = hold[1];
    CHECK_EQ(write(to_child[1], &m, sizeof m), sizeof m);
    CHECK_EQ(t_status(child), 0);
    CHECK_ACL(aclrtSynchronizeEvent(event));
    CHECK_ACL(aclrtDestroyEvent(event));
    CHECK_EQ(aclrtIpcOpenEventHandle(m.handle, &event), ACL_ERROR_RT_PARAM_INVALID);
    t_end();
}

static int record_and_die(const void *message)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event;
    aclrtStream s;
    char *x;

    memcpy(&handle, message, sizeof handle);
    if (aclrtSetDevice(0) || aclrtIpcOpenEventHandle(handle, &event))
        return 1;
    s = t_stream();
    x = t_device(64);
    if (aclrtValueWait(x, 1, ACL_STREAM_WAIT_VALUE_EQ, s) || aclrtRecordEvent(event, s))
        return 2;
    return 0; /* and the stream never gets there */
}

TEST(between, a_wait_for_an_event_of_a_process_that_died_is_an_error)
{
    aclrtIpcEventHandle handle;
    int to_child[2];
    aclrtEvent event;
    aclrtStream s;
    pid_t child;

    NOT_ON_CUDA("a forked process cannot use its driver");
    child = t_child(to_child, sizeof handle, record_and_die);
    t_begin();
    s = t_stream();
    CHECK_ACL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_ACL(aclrtIpcGetEventHandle(event, &handle));
    CHECK_EQ(write(to_child[1], &handle, sizeof handle), sizeof handle);
    CHECK_EQ(t_status(child), 0);
    CHECK_ACL(aclrtStreamWaitEvent(s, event));
    CHECK(aclrtSynchronizeStream(s) != ACL_SUCCESS);
    CHECK(strstr(aclGetRecentErrMsg(), "has ended") != NULL);
    CHECK_EQ(aclrtSynchronizeEvent(event), ACL_ERROR_RT_IPC_ERROR);
    t_end();
}

TEST(values, a_stream_waits_until_another_has_written_the_value)
{
    aclrtStream a, b;
    uint64_t *word;
    char *x;

    NOT_ON_CUDA("the host cannot read its memory");
    t_begin();
    a = t_stream(), b = t_stream();
    word = t_device(64), x = t_device(64);
    CHECK_ACL(aclrtMemset(word, 64, 0, 64));
    CHECK_ACL(aclrtMemset(x, 64, 1, 64));
    CHECK_ACL(aclrtValueWait(word, 7, ACL_STREAM_WAIT_VALUE_EQ, b)); /* before the write */
    CHECK_ACL(aclrtMemsetAsync(x, 64, 2, 64, b));
    CHECK_ACL(aclrtValueWrite(word, 6, 0, a)); /* not the one */
    CHECK_ACL(aclrtSynchronizeStream(a));
    CHECK_EQ(t_byte(x), 1);
    CHECK_ACL(aclrtValueWrite(word, 7, 0, a));
    CHECK_ACL(aclrtSynchronizeStream(b));
    CHECK_EQ(t_byte(x), 2);
    CHECK_EQ(aclrtValueWait(word, 7, 0, b), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtValueWrite((char *)word + 4, 7, 0, b), ACL_ERROR_RT_ADDR_UNALIGNED);
    CHECK_EQ(aclrtValueWrite(word + 8, 7, 0, b), ACL_ERROR_RT_PARAM_INVALID);
    t_end();
}

/* As torch_npu's external events: a graph waits in each of its runs for what is outside of it. */
TEST(values, each_run_of_a_graph_waits_for_the_value_again)
{
    aclrtStream a, b;
    aclmdlRI graph;
    uint64_t *word;
    char *x, *y;

    NOT_ON_CUDA("the host cannot read its memory");
    t_begin();
    a = t_stream(), b = t_stream();
    word = t_device(64), x = t_device(64), y = t_device(64);
    CHECK_ACL(aclrtMemset(word, 64, 0, 64));
    CHECK_ACL(aclrtMemset(y, 64, 0, 64));
    CHECK_ACL(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CHECK_ACL(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, a));
    CHECK_ACL(aclrtValueWrite(word, 0, 0, a));
    CHECK_ACL(aclrtMemcpyAsync(y, 64, x, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, a));
    CHECK_ACL(aclmdlRICaptureEnd(a, &graph));
    for (int run = 1; run < 4; run++) {
        CHECK_ACL(aclmdlRIExecuteAsync(graph, a));
        CHECK_ACL(aclrtMemsetAsync(x, 64, run, 64, b)); /* the copy comes after it */
        CHECK_ACL(aclrtValueWrite(word, 1, 0, b));
        CHECK_ACL(aclrtSynchronizeStream(a));
        CHECK_EQ(t_byte(y), run);
    }
    CHECK_ACL(aclmdlRIDestroy(graph));
    t_end();
}
