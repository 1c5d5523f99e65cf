/* Makes the pictures of docs/guide.md. Everything runs on a modelled NPU, in virtual time, so they
 * are the same on every machine, and the costs of launches and events are left out. Traces
 * are written to files for `weir trace`; the rest is printed.
 *
 *     guide [DIRECTORY]
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

enum { N = 1024, STEPS = 3 };

static weir_device *dev;
static weir_stream *main_stream, *side;

static void check(weir_status status)
{
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "%s: %s\n", weir_status_name(status), weir_last_error());
    exit(1);
}

static weir_tensor *ones(int64_t rows, int64_t columns)
{
    weir_tensor *t;

    check(weir_tensor_empty(main_stream, WEIR_F16, 2, (int64_t[]){rows, columns}, &t));
    check(weir_fill(t, 1));
    check(weir_device_sync(dev));
    return t;
}

/* A few operators on the stream, each after the one before; the results are dropped. */
static void products(weir_stream *stream, weir_tensor *a)
{
    check(weir_stream_set_current(stream));
    for (int i = 0; i < STEPS; i++) {
        weir_tensor *out;

        check(weir_matmul(a, a, &out));
        weir_tensor_release(out);
    }
}

static void exponentials(weir_stream *stream, weir_tensor *x)
{
    check(weir_stream_set_current(stream));
    for (int i = 0; i < STEPS; i++) {
        weir_tensor *out;

        check(weir_exp(x, &out));
        weir_tensor_release(out);
    }
}

static void begin(void)
{
    check(weir_device_sync(dev));
    check(weir_trace_start(NULL));
}

static void end(const char *dir, const char *name)
{
    weir_trace *trace;
    char path[4096];

    check(weir_stream_set_current(main_stream));
    check(weir_device_sync(dev));
    check(weir_trace_stop(&trace));
    snprintf(path, sizeof path, "%s/%s.json", dir, name);
    check(weir_trace_write_chrome(trace, path));
    printf("%s\n", path);
    weir_trace_free(trace);
}

static void streams(const char *dir, weir_tensor *a, weir_tensor *x)
{
    begin();
    products(main_stream, a);
    exponentials(main_stream, x);
    end(dir, "one_stream");

    begin();
    products(main_stream, a);
    exponentials(side, x);
    end(dir, "two_streams");
}

/* The stream "side" continues after the first product, and the sum runs after both streams. */
static void waits(const char *dir, weir_tensor *a, weir_tensor *x)
{
    weir_tensor *first, *second, *e, *sum;
    weir_event *event;

    check(weir_event_create(dev, NULL, &event));
    begin();
    check(weir_matmul(a, a, &first));
    check(weir_event_record(event, main_stream));
    check(weir_matmul(a, a, &second));
    check(weir_stream_wait(side, event));
    check(weir_stream_set_current(side));
    check(weir_exp(first, &e));
    exponentials(side, x);
    check(weir_stream_set_current(main_stream));
    check(weir_stream_wait_stream(main_stream, side));
    check(weir_add(second, e, &sum));
    end(dir, "waits");
    weir_tensor_release(first);
    weir_tensor_release(second);
    weir_tensor_release(e);
    weir_tensor_release(sum);
    weir_event_destroy(event);
}

/* Small products beside large ones, which would take all cores. */
static void limits(const char *dir, weir_tensor *large, weir_tensor *small)
{
    begin();
    products(main_stream, large);
    products(side, small);
    end(dir, "no_limit");

    check(weir_stream_set_limit(main_stream, (weir_cores){.cube = 20, .vector = -1}));
    check(weir_stream_set_limit(side, (weir_cores){.cube = 4, .vector = -1}));
    begin();
    products(main_stream, large);
    products(side, small);
    end(dir, "limits");
    weir_stream_reset_limit(main_stream);
    weir_stream_reset_limit(side);
}

/* The tensor is released before the stream "side" has read it. */
static void memory(void)
{
    weir_tensor *x = ones(N, N), *y;
    char *summary;

    check(weir_stream_wait_stream(side, main_stream));
    check(weir_stream_set_current(side));
    check(weir_exp(x, &y));
    check(weir_stream_set_current(main_stream));
    weir_tensor_release(x);
    if ((summary = weir_memory_summary(dev)))
        printf("\n%s", summary);
    free(summary);
    weir_tensor_release(y);
}

/* The stream "side" reads the product without waiting for it: a race. */
static void race(weir_tensor *a)
{
    weir_tensor *product, *sum;
    char *report;

    check(weir_device_sync(dev));
    check(weir_race_set_mode(WEIR_RACE_REPORT));
    check(weir_matmul(a, a, &product));
    check(weir_stream_set_current(side));
    check(weir_sum(product, NULL, 0, false, &sum));
    check(weir_stream_set_current(main_stream));
    if ((report = weir_race_report()))
        printf("\n%s", report);
    free(report);
    check(weir_race_set_mode(WEIR_RACE_OFF));
    weir_tensor_release(product);
    weir_tensor_release(sum);
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : ".";
    weir_tensor *a, *x, *small;

    check(weir_device_open("npu:a3,overhead=off", &dev));
    main_stream = weir_stream_default(dev);
    check(weir_stream_tagged(dev, "side", 0, &side));
    a = ones(N, N);
    x = ones(N, N);
    small = ones(N / 2, N / 2);
    streams(dir, a, x);
    waits(dir, a, x);
    limits(dir, a, small);
    memory();
    race(a);
    weir_tensor_release(a);
    weir_tensor_release(x);
    weir_tensor_release(small);
    check(weir_device_close(dev));
    return 0;
}
