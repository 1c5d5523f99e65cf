/* Runs the documents' example graph on one stream and on three, and writes its timeline. */
#include "demo/demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"
#include "trace/report.h"

enum { N = 1000, TENSORS = 4 };

static void forward(weir_tensor *const *in, weir_tensor **out)
{
    demo_must(weir_add(in[0], in[1], &out[0]));
    WEIR_STREAM_SCOPE("1", 0)
    {
        demo_must(weir_wait_tensor(in[3], out[0]));
        demo_must(weir_matmul(in[2], in[3], &out[1]));
    }
    demo_must(weir_matmul(in[2], in[3], &out[2]));
    WEIR_STREAM_SCOPE("2", 0)
    {
        demo_must(weir_wait_tensor(in[3], out[1]));
        demo_must(weir_add(in[2], in[3], &out[3]));
    }
}

static weir_plan *compile(weir_device *dev, bool one_stream)
{
    const int64_t shape[] = {N, N};
    weir_tensor *in[TENSORS], *out[TENSORS];
    weir_graph *graph;
    weir_plan *plan;
    char name[16];

    demo_must(weir_graph_create(dev, &graph));
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof name, "in%d", i + 1);
        demo_must(weir_graph_input(graph, name, WEIR_F16, 2, shape, &in[i]));
    }
    demo_must(weir_graph_begin(graph));
    if (one_stream) { /* the same calls without stream labels */
        demo_must(weir_add(in[0], in[1], &out[0]));
        demo_must(weir_matmul(in[2], in[3], &out[1]));
        demo_must(weir_matmul(in[2], in[3], &out[2]));
        demo_must(weir_add(in[2], in[3], &out[3]));
    } else {
        forward(in, out);
    }
    demo_must(weir_graph_end(graph));
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof name, "out%d", i + 1);
        demo_must(weir_graph_output(graph, name, out[i]));
    }
    demo_must(weir_graph_compile(
        graph, &(weir_compile_options){.mode = WEIR_COMPILE_REDUCE_OVERHEAD}, &plan));
    for (int i = 0; i < TENSORS; i++) {
        weir_tensor_release(in[i]);
        weir_tensor_release(out[i]);
    }
    weir_graph_destroy(graph);
    return plan;
}

/* Records one run; stores its results in `values`. */
static weir_trace *record(weir_device *dev, bool one_stream, weir_tensor *const *in,
                          uint16_t *values)
{
    weir_plan *plan = compile(dev, one_stream);
    weir_tensor *out[TENSORS] = {NULL};
    weir_trace *trace;

    for (int round = 0; round < 2; round++) { /* the first one warms up */
        if (round)
            demo_must(weir_trace_start(NULL));
        demo_must(weir_plan_run(plan, weir_stream_default(dev), in, TENSORS, out, TENSORS));
        demo_must(weir_device_sync(dev));
    }
    demo_must(weir_trace_stop(&trace));
    for (size_t i = 0; i < TENSORS; i++) {
        demo_must(weir_tensor_read(out[i], values + i * N * N, (size_t)N * N * sizeof *values));
        weir_tensor_release(out[i]);
    }
    weir_plan_destroy(plan);
    return trace;
}

static double span_ms(const weir_trace *trace)
{
    weir_trace_summary s;

    demo_must(weir_trace_summarise(trace, &s, sizeof s));
    return (double)(s.last_ns - s.first_ns) * 1e-6;
}

/* Runs both forms on a device. The caller owns the traces. */
static bool compare(const char *spec, weir_trace **one, weir_trace **three)
{
    const int64_t shape[] = {N, N};
    size_t bytes = (size_t)TENSORS * N * N * sizeof(uint16_t);
    uint16_t *a = demo_need(malloc(bytes)), *b = demo_need(malloc(bytes));
    weir_tensor *in[TENSORS];
    weir_device *dev;
    bool same;

    demo_must(weir_device_open(spec, &dev));
    for (int i = 0; i < TENSORS; i++) {
        demo_must(weir_tensor_empty(weir_stream_default(dev), WEIR_F16, 2, shape, &in[i]));
        demo_must(weir_random_normal(in[i], 1 + (uint64_t)i, 0, 1));
    }
    demo_must(weir_device_sync(dev));
    *one = record(dev, true, in, a);
    *three = record(dev, false, in, b);
    same = !memcmp(a, b, bytes);
    for (int i = 0; i < TENSORS; i++)
        weir_tensor_release(in[i]);
    demo_must(weir_device_close(dev));
    free(a);
    free(b);
    return same;
}

bool demo_graph(const struct demo_page *page, struct json *j)
{
    static const char *const specs[] = {"cpu", "npu:a3"};
    static const char *const titles[] = {"one stream", "three streams"};
    bool fine = true;

    if (j)
        json_array(j, "graph");
    else
        demo_headline(
            4, "A graph on three streams",
            "Two adds and two products of %d x %d f16 matrices; the second product and the "
            "second add have streams of their own. weir compiles the graph and inserts the "
            "waits between streams, only those that are needed. Each product already uses "
            "every core, so streams gain little here:",
            N, N);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        weir_trace *traces[2];
        bool same = compare(specs[i], &traces[0], &traces[1]);
        double one = span_ms(traces[0]), three = span_ms(traces[1]);

        fine &= same;
        if (j) {
            json_object(j, NULL);
            json_string(j, "device", specs[i]);
            json_number(j, "one_stream_ms", one);
            json_number(j, "three_streams_ms", three);
            json_bool(j, "same", same);
            json_object_end(j);
        } else {
            char text[160];

            snprintf(text, sizeof text, "%-7s one stream %s, three %s (%.2fx); %s bits", specs[i],
                     term_ms(one).text, term_ms(three).text, one / three,
                     same ? "the same" : "different");
            demo_verdict(same, text);
            trace_gantt_print(traces[1], 5);
            putchar('\n');
        }
        if (i == 1)
            demo_must(
                weir_trace_write_html((const weir_trace *const *)traces, titles, 2, page->path));
        weir_trace_free(traces[0]);
        weir_trace_free(traces[1]);
    }
    if (j)
        json_array_end(j);
    else if (strcmp(page->name, "-"))
        printf("   the timeline of both on npu:a3 is in %s: open it in a browser\n", page->name);
    return fine;
}
