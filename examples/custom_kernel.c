/* Your own kernel: y = a * x + y, cut into blocks that run on the device's cores.
 *
 *   cc custom_kernel.c $(pkg-config --cflags --libs weir) && ./a.out
 */
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                     \
    do {                                                \
        if ((call) != WEIR_OK) {                        \
            fprintf(stderr, "%s\n", weir_last_error()); \
            exit(1);                                    \
        }                                               \
    } while (0)

enum { N = 1000000, BLOCKS = 16 };

struct axpy {
    float a;
    const float *x;
    float *y;
    int64_t n;
};

/* Called once per block, on any core, while other blocks run: each has a slice of its own. */
static weir_status axpy(const void *args, const weir_block *block)
{
    const struct axpy *k = args;
    int64_t from = k->n * block->index / block->count;
    int64_t to = k->n * (block->index + 1) / block->count;

    for (int64_t i = from; i < to; i++)
        k->y[i] += k->a * k->x[i];
    return WEIR_OK;
}

/* Queues the kernel behind the work on the stream, and returns at once. */
static weir_status queue_axpy(weir_stream *stream, float a, weir_tensor *x, weir_tensor *y)
{
    struct axpy args = {a, weir_tensor_data(x), weir_tensor_data(y), weir_tensor_numel(x)};

    return weir_launch_submit(stream, &(weir_launch){
                                          .name = "axpy",
                                          .fn = axpy,
                                          .args = &args, /* copied */
                                          .args_size = sizeof args,
                                          .engine = WEIR_ENGINE_VECTOR,
                                          .blocks = BLOCKS,
                                          /* keeps their bytes until the kernel is over */
                                          .tensors = (weir_tensor *[]){x, y},
                                          .ntensors = 2,
                                      });
}

int main(void)
{
    static float result[N];
    weir_device *dev;
    weir_stream *stream;
    weir_tensor *x, *y;
    size_t wrong = 0;

    CHECK(weir_device_open(NULL, &dev));
    stream = weir_stream_default(dev);
    CHECK(weir_tensor_empty(stream, WEIR_F32, 1, (int64_t[]){N}, &x));
    CHECK(weir_tensor_empty(stream, WEIR_F32, 1, (int64_t[]){N}, &y));
    CHECK(weir_fill(x, 2));
    CHECK(weir_fill(y, 1));
    CHECK(queue_axpy(stream, 3, x, y));
    weir_tensor_release(x); /* the kernel may still be reading it: that is fine */
    CHECK(weir_tensor_read(y, result, sizeof result));
    weir_tensor_release(y);
    CHECK(weir_device_close(dev));

    for (size_t i = 0; i < N; i++)
        wrong += result[i] != 7;
    printf("3 * 2 + 1 = %g, wrong in %zu of %d places\n", (double)result[0], wrong, N);
    return wrong != 0;
}
