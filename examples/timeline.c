/* What ran when, as a picture: two matmuls and two adds, first on one stream, then on three,
 * each recorded and written as a file for Perfetto and `weir trace`, and both together as one
 * page for a browser.
 *
 *     timeline [DIRECTORY]
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

enum { N = 384, STEPS = 4 };

static void check(weir_status status)
{
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "%s: %s\n", weir_status_name(status), weir_last_error());
    exit(1);
}

/* One step of the model on streams of these tags; "default" is the caller's. */
static void step(weir_tensor *const *in, const char *first, const char *second)
{
    weir_tensor *add_result, *mm_result, *mm1, *add2;

    check(weir_add(in[0], in[1], &add_result));
    WEIR_STREAM_SCOPE(first, 0)
    {
        check(weir_wait_tensor(in[3], add_result));
        check(weir_matmul(in[2], in[3], &mm_result));
    }
    check(weir_matmul(in[2], in[3], &mm1));
    WEIR_STREAM_SCOPE(second, 0)
    {
        check(weir_wait_tensor(in[3], mm_result));
        check(weir_add(in[2], in[3], &add2));
    }
    weir_tensor_release(add_result);
    weir_tensor_release(mm_result);
    weir_tensor_release(mm1);
    weir_tensor_release(add2);
}

static weir_trace *record(weir_device *dev, weir_tensor *const *in, const char *first,
                          const char *second)
{
    weir_trace *trace;

    step(in, first, second); /* once before, so that memory is there */
    check(weir_device_sync(dev));
    check(weir_trace_start(NULL));
    for (int i = 0; i < STEPS; i++)
        step(in, first, second);
    check(weir_device_sync(dev));
    check(weir_trace_stop(&trace));
    return trace;
}

int main(int argc, char **argv)
{
    static const char *const titles[] = {"one stream", "three streams"};
    static const char *const names[] = {"one_stream.json", "three_streams.json"};
    const char *dir = argc > 1 ? argv[1] : ".";
    const int64_t shape[] = {N, N};
    const weir_trace *both[2];
    weir_trace *traces[2];
    weir_tensor *in[4];
    weir_device *dev;
    char path[4096];

    check(weir_device_open("cpu:cube=4,vector=8", &dev));
    for (int i = 0; i < 4; i++) {
        check(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &in[i]));
        check(weir_random_normal(in[i], 1 + (uint64_t)i, 0, 1));
    }
    traces[0] = record(dev, in, "default", "default");
    traces[1] = record(dev, in, "1", "2");
    for (int i = 0; i < 2; i++) {
        both[i] = traces[i];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        check(weir_trace_write_chrome(traces[i], path));
        printf("%s\n", path);
    }
    snprintf(path, sizeof path, "%s/timeline.html", dir);
    check(weir_trace_write_html(both, titles, 2, path));
    printf("%s\n", path);
    for (int i = 0; i < 4; i++)
        weir_tensor_release(in[i]);
    weir_trace_free(traces[0]);
    weir_trace_free(traces[1]);
    check(weir_device_close(dev));
    return 0;
}
