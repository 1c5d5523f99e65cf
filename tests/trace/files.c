/* Traces in files: written, read back, and imported from other tools. */
#include "helpers.h"

#include <unistd.h>

static const char *temp_path(char *path, const char *name)
{
    const char *dir = getenv("TMPDIR");

    snprintf(path, 256, "%s/weir-test-%ld-%s", dir ? dir : "/tmp", (long)getpid(), name);
    return path;
}

static weir_trace *parse(const char *text)
{
    weir_trace *t;

    CHECK_OK(weir_trace_parse(text, strlen(text), "test.json", &t));
    return t;
}

/* A trace with something of everything. */
static weir_trace *record_some(void)
{
    weir_device *a = open_device("cpu:cube=2,vector=3,threads=2"), *b = open_device("cpu:cores=2");
    weir_stream *s = tagged(a, "odd \"name\"\n</script>", -2), *u = tagged(a, "u", 3);
    weir_buffer *x;
    weir_trace *t;
    long us = 100;

    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_buffer_alloc(s, 1 << 16, &x));
    submit_busy(s, "first", 3, 200);
    CHECK_OK(weir_stream_wait_stream(u, s));
    submit_busy(u, "second \xff \xe4\xb8\xad", 1, 100);
    CHECK_OK(weir_launch_submit(u, &(weir_launch){.name = "mix",
                                                  .fn = busy_kernel,
                                                  .args = &us,
                                                  .args_size = sizeof us,
                                                  .engine = WEIR_ENGINE_MIX,
                                                  .blocks = 2}));
    CHECK_OK(weir_stream_wait_stream(s, u)); /* with nothing behind it */
    submit_busy(weir_stream_default(b), "elsewhere", 2, 50);
    CHECK_OK(weir_launch_submit(u, &(weir_launch){.name = "host", .engine = WEIR_ENGINE_HOST}));
    weir_buffer_free(x);
    CHECK_OK(weir_device_sync(a));
    CHECK_OK(weir_device_sync(b));
    CHECK_OK(weir_trace_stop(&t));
    CHECK_OK(weir_device_close(a));
    CHECK_OK(weir_device_close(b));
    return t;
}

TEST(trace_files, what_was_written_reads_back_the_same)
{
    char first[256], second[256], *a, *b;
    weir_trace *t = record_some(), *again;
    weir_trace_data d, e;
    size_t na, nb;

    weir_trace_get(t, &d, sizeof d);
    CHECK_OK(weir_trace_write_chrome(t, temp_path(first, "a.json")));
    CHECK_OK(weir_trace_load(first, &again));
    weir_trace_get(again, &e, sizeof e);
    check_trace(&e);
    CHECK_EQ(e.nops, d.nops);
    CHECK_EQ(e.nwaits, 2);
    CHECK_EQ(e.waits[0].op, WEIR_TRACE_NONE);
    for (size_t i = 0; i < d.nops; i++) {
        if (i != 1 && strncmp(d.ops[i].name, "second", 6))
            CHECK_STR_EQ(e.ops[i].name, d.ops[i].name);
        CHECK_EQ(e.ops[i].started_ns, d.ops[i].started_ns);
        CHECK_EQ(e.ops[i].ended_ns, d.ops[i].ended_ns);
        CHECK_EQ(e.ops[i].queued_ns, d.ops[i].queued_ns);
        CHECK_EQ(e.ops[i].nparts, d.ops[i].nparts);
    }
    CHECK_STR_EQ(e.streams[find_op(&e, "first", 0)->stream].name, "odd \"name\"\n</script>");
    CHECK_OK(weir_trace_write_chrome(again, temp_path(second, "b.json")));
    a = read_file(first, &na);
    b = read_file(second, &nb);
    CHECK_EQ(na, nb);
    CHECK_MEM_EQ(a, b, na);
    CHECK(!strstr(a, "</script>"));
    free(a);
    free(b);
    remove(first);
    remove(second);
    weir_trace_free(t);
    weir_trace_free(again);
}

TEST(trace_files, output_errors_are_reported)
{
    weir_trace *t = record_some(), *none;

    CHECK_STATUS(weir_trace_write_chrome(t, "/no/such/dir/t.json"), WEIR_EIO);
    CHECK_STR(weir_last_error(), "/no/such/dir/t.json");
    if (!access("/dev/full", W_OK)) {
        CHECK_STATUS(weir_trace_write_chrome(t, "/dev/full"), WEIR_EIO);
        CHECK_EQ(access("/dev/full", F_OK), 0);
    }
    CHECK_STATUS(weir_trace_load("/no/such/file", &none), WEIR_EIO);
    CHECK(!none);
    weir_trace_free(t);
}

/* ---- profiles of others ---- */

TEST(trace_import, pytorch_kernels_by_stream_with_waits)
{
    weir_trace_data d;
    const weir_trace_op *add;
    weir_trace *t = parse(
        "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0}], \"traceEvents\": ["
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":42,\"tid\":42,"
        " \"ts\":100.0,\"dur\":50},"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"tid\":0,"
        " \"args\":{\"name\":\"python\"}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":7,"
        " \"args\":{\"name\":\"stream 7 \"}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ampere_sgemm_128x64\",\"pid\":0,\"tid\":7,"
        " \"ts\":1000.5,\"dur\":200.25,\"args\":{\"stream\":7,\"grid\":[8,1,1]}},"
        "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD\",\"pid\":0,\"tid\":13,"
        " \"ts\":1050,\"dur\":100,\"args\":{\"bytes\":4096}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait Event\",\"pid\":0,\"tid\":13,"
        " \"ts\":1190,\"dur\":0,\"args\":{\"stream\":13,\"wait_on_stream\":7}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"add\",\"pid\":0,\"tid\":13,"
        " \"ts\":1203,\"dur\":10},"
        "{\"ph\":\"i\",\"name\":\"mark\",\"pid\":0,\"tid\":7,\"ts\":1}"
        "]}");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nops, 3);
    CHECK_EQ(d.ndevices, 1);
    CHECK_STR_EQ(d.devices[0].name, "python");
    CHECK_STR_EQ(d.streams[d.ops[0].stream].name, "stream 7");
    CHECK_EQ(d.ops[0].engine, WEIR_ENGINE_CUBE);
    CHECK_EQ(d.ops[0].started_ns, 0);
    CHECK_EQ(d.ops[0].ended_ns, 200250);
    CHECK_EQ(find_op(&d, "Memcpy HtoD", 0)->bytes, 4096);
    CHECK_EQ(find_op(&d, "Memcpy HtoD", 0)->engine, WEIR_ENGINE_SDMA);
    add = find_op(&d, "add", 0);
    CHECK_EQ(add->nwaits, 1);
    CHECK_EQ(d.waits[add->first_wait].source_op, 0);
    weir_trace_free(t);
}

TEST(trace_import, ascend_tasks_by_stream)
{
    weir_trace_data d;
    weir_trace *t = parse(
        "[{\"name\":\"process_name\",\"pid\":900,\"tid\":0,\"args\":{\"name\":\"Ascend Hardware\"},"
        " \"ph\":\"M\"},"
        "{\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"CANN\"},\"ph\":\"M\"},"
        "{\"name\":\"launch\",\"pid\":1,\"tid\":1,\"ts\":\"1.5\",\"dur\":2,\"ph\":\"X\"},"
        "{\"name\":\"MatMulV2\",\"pid\":900,\"tid\":2,\"ts\":\"1700000000000010.5\",\"dur\":30,"
        " \"args\":{\"Task Type\":\"AI_CORE\",\"Stream Id\":2,\"Block Dim\":\"20\"},\"ph\":\"X\"},"
        "{\"name\":\"EVENT_WAIT\",\"pid\":900,\"tid\":5,\"ts\":\"1700000000000011.5\",\"dur\":29,"
        " \"args\":{\"Task Type\":\"EVENT_WAIT\"},\"ph\":\"X\"},"
        "{\"name\":\"Softmax\",\"pid\":900,\"tid\":5,\"ts\":\"1700000000000042\",\"dur\":8,"
        " \"args\":{\"Task Type\":\"AI_VECTOR_CORE\"},\"ph\":\"X\"},"
        "{\"name\":\"hcom_allReduce_\",\"pid\":900,\"tid\":2,\"ts\":\"1700000000000041\",\"dur\":5,"
        " \"args\":{\"Task Type\":\"HCCL\"},\"ph\":\"X\"},]");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nops, 3);
    CHECK_EQ(find_op(&d, "MatMulV2", 0)->blocks, 20);
    CHECK_EQ(find_op(&d, "MatMulV2", 0)->engine, WEIR_ENGINE_CUBE);
    CHECK_EQ(find_op(&d, "Softmax", 0)->engine, WEIR_ENGINE_VECTOR);
    CHECK_EQ(find_op(&d, "Softmax", 0)->started_ns, 31500);
    CHECK_EQ(find_op(&d, "Softmax", 0)->nwaits, 1);
    CHECK_EQ(find_op(&d, "hcom_allReduce_", 0)->engine, WEIR_ENGINE_SDMA);
    weir_trace_free(t);
}

TEST(trace_import, streams_by_thread_name)
{
    weir_trace_data d;
    weir_trace *t = parse("{\"traceEvents\":["
                          "{\"name\":\"k1\",\"ph\":\"X\",\"cat\":\"cuda\",\"ts\":10,\"dur\":5,"
                          "\"tid\":\"Stream 7\",\"pid\":\"Device 0\",\"args\":{}},"
                          "{\"name\":\"api\",\"ph\":\"X\",\"ts\":1,\"dur\":2,\"tid\":\"CUDA API\","
                          "\"pid\":\"Host\"},"
                          "{\"name\":\"k2\",\"ph\":\"X\",\"ts\":15,\"dur\":5,"
                          "\"tid\":\"Stream 8\",\"pid\":\"Device 1\"}]}");

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nops, 2);
    CHECK_EQ(d.ndevices, 2);
    CHECK_STR_EQ(d.streams[0].name, "Stream 7");
    weir_trace_free(t);

    t = parse("[{\"name\":\"outer\",\"ph\":\"X\",\"ts\":0,\"dur\":100,\"tid\":1,\"pid\":1},"
              "{\"name\":\"one\",\"ph\":\"X\",\"ts\":1,\"dur\":9,\"tid\":1,\"pid\":1},"
              "{\"name\":\"two\",\"ph\":\"X\",\"ts\":10,\"dur\":90,\"tid\":1,\"pid\":1}]");
    weir_trace_get(t, &d, sizeof d);
    CHECK_EQ(d.nops, 3);
    CHECK_STR_EQ(d.ops[2].name, "two");
    CHECK_EQ(d.ops[0].ended_ns, 1000); /* of the outer one, what the others leave of it */
    weir_trace_free(t);
}

TEST(trace_import, a_long_pause_that_another_stream_ends_is_a_wait)
{
    struct weir_trace_data d;
    char text[8192] = "[";
    weir_trace *t;

    for (int i = 0; i < 20; i++) /* a pause of 1 us is usual, of 50 after the tenth */
        snprintf(text + strlen(text), 128,
                 "{\"name\":\"a%d\",\"ph\":\"X\",\"ts\":%d,\"dur\":9,\"tid\":\"stream 1\","
                 "\"pid\":0},",
                 i, 10 * i + (i > 10 ? 50 : 0));
    strcat(text, "{\"name\":\"b\",\"ph\":\"X\",\"ts\":3,\"dur\":155,\"tid\":\"stream 2\","
                 "\"pid\":0}]");
    t = parse(text);
    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_EQ(d.nwaits, 1);
    CHECK_STR_EQ(d.ops[d.waits[0].op].name, "a11");
    CHECK_STR_EQ(d.ops[d.waits[0].source_op].name, "b");
    weir_trace_free(t);
}

/* ---- hostile files ---- */

TEST(trace_files, bad_files_are_refused_with_the_place)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "test.json:1:1"},
        {"[", "expected a value"},
        {"{}", "no traceEvents"},
        {"[]", "no span"},
        {"[{\"ph\":\"X\",\"ts\":1,\"dur\":\"soon\"}]", "expected a time in microseconds"},
        {"[{\"ph\":\"X\",\n\"ts\":1e99999,\"dur\":1}]", "test.json:2:6"},
        {"[{\"ph\":\"X\" \"ts\":1}]", "expected ',' or '}'"},
        {"[{\"name\":\"\\q\"}]", "an unknown escape"},
        {"[{\"name\":\"endless", "has no end"},
        {"[{\"ph\":\"X\",\"ts\":\"1700", "has no end"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "64 deep"},
        {"[{\"ph\":\"X\",\"ts\":1,\"dur\":1}] x", "after the end"},
        {"\x1f\x8b\x08", "cut off"},
        {"\x28\xb5\x2f\xfd\x01", "cannot be unpacked"},
        {"{\"weir\":{\"trace\":2},\"traceEvents\":[]}", "later version"},
        {"{\"weir\":{\"trace\":1,\"streams\":[{\"device\":0}]},\"traceEvents\":[]}", "device"},
        {"{\"weir\":{\"trace\":1,\"devices\":[{}],\"streams\":[{\"device\":0}]},\"traceEvents\":["
         "{\"ph\":\"X\",\"cat\":\"op\",\"tid\":2,\"args\":{\"engine\":\"cube\"}}]}",
         "stream is not in the description"},
        {"{\"weir\":{\"trace\":1,\"devices\":[{}],\"streams\":[{\"device\":0}]},\"traceEvents\":["
         "{\"ph\":\"X\",\"cat\":\"part\",\"tid\":1,\"args\":{\"part\":0,\"op\":9}}]}",
         "belongs to no operator"},
        {"{\"weir\":{\"trace\":1,\"devices\":[{}],\"streams\":[{\"device\":0}]},\"traceEvents\":["
         "{\"ph\":\"X\",\"cat\":\"wait\",\"tid\":1,\"args\":{\"source_op\":9}}]}",
         "a wait names an operator that does not exist"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_trace *t;

        test_note("%s", bad[i].text);
        CHECK_STATUS(weir_trace_parse(bad[i].text, strlen(bad[i].text), "test.json", &t),
                     WEIR_EPARSE);
        CHECK_STR(weir_last_error(), bad[i].says);
        CHECK(!t);
    }
}
