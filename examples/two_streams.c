/* Two products side by side, then their sum.
 *
 *   cc two_streams.c $(pkg-config --cflags --libs weir) && ./a.out
 */
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>

/* Every call says whether it worked; weir_last_error() says what went wrong. */
#define CHECK(call)                                     \
    do {                                                \
        if ((call) != WEIR_OK) {                        \
            fprintf(stderr, "%s\n", weir_last_error()); \
            exit(1);                                    \
        }                                               \
    } while (0)

enum { N = 256 };

static weir_tensor *filled(weir_stream *stream, double value)
{
    weir_tensor *t;

    CHECK(weir_tensor_empty(stream, WEIR_F32, 2, (int64_t[]){N, N}, &t));
    CHECK(weir_fill(t, value));
    return t;
}

int main(void)
{
    static float result[N][N];
    weir_device *dev;
    weir_stream *left, *right;
    weir_tensor *x, *y, *a, *b, *sum;

    CHECK(weir_device_open(NULL, &dev)); /* $WEIR_DEVICE, or "cpu" */
    x = filled(weir_stream_default(dev), 1);
    y = filled(weir_stream_default(dev), 2);
    CHECK(weir_stream_create(dev, NULL, &left));
    CHECK(weir_stream_create(dev, NULL, &right));
    CHECK(weir_stream_wait_stream(left, weir_stream_default(dev))); /* x and y are filled there */
    CHECK(weir_stream_wait_stream(right, weir_stream_default(dev)));

    CHECK(weir_stream_set_current(left)); /* operators go to the current stream */
    CHECK(weir_matmul(x, x, &a));         /* and return at once */
    CHECK(weir_stream_set_current(right));
    CHECK(weir_matmul(x, y, &b)); /* runs beside the first */
    CHECK(weir_stream_wait_stream(right, left));
    CHECK(weir_add(a, b, &sum)); /* runs after both */
    weir_tensor_release(a);      /* its bytes stay until the sum is done */
    weir_tensor_release(b);
    CHECK(weir_tensor_read(sum, result, sizeof result)); /* waits for the values */
    printf("every element is %g\n", (double)result[0][0]);

    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(sum);
    CHECK(weir_stream_destroy(left));
    CHECK(weir_stream_destroy(right));
    CHECK(weir_device_close(dev));
    return result[0][0] != 3 * N;
}
