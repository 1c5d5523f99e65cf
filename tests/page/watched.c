/* A program to be watched: products on two streams until its standard input ends. */
#include <weir/weir.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void must(weir_status st)
{
    if (st) {
        fprintf(stderr, "%s\n", weir_last_error());
        exit(1);
    }
}

int main(void)
{
    weir_device *dev;
    weir_stream *streams[2];
    weir_tensor *x, *y;
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    char ignored[64];

    must(weir_device_open("cpu", &dev));
    must(weir_stream_tagged(dev, "left", 0, &streams[0]));
    must(weir_stream_tagged(dev, "right", 0, &streams[1]));
    must(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){64, 64}, &x));
    must(weir_fill(x, 0.5));
    must(weir_device_sync(dev));
    while (poll(&in, 1, 5) <= 0 || read(STDIN_FILENO, ignored, sizeof ignored) > 0)
        for (int i = 0; i < 2; i++) {
            must(weir_stream_set_current(streams[i]));
            must(weir_matmul(x, x, &y));
            weir_tensor_release(y);
        }
    must(weir_device_sync(dev));
    weir_tensor_release(x);
    weir_device_close(dev);
    return 0;
}
