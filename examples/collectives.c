/* Two devices as two ranks: gradients are averaged on the communication streams while the
 * next product is computed.
 *
 *   cc collectives.c $(pkg-config --cflags --libs weir) && ./a.out
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

enum { RANKS = 2, N = 256 };

static weir_tensor *filled(weir_device *dev, double value)
{
    weir_tensor *t;

    CHECK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){N, N}, &t));
    CHECK(weir_fill(t, value));
    return t;
}

int main(void)
{
    static float result[N][N];
    weir_device *dev[RANKS];
    weir_group *group;
    weir_tensor *x[RANKS], *grad[RANKS], *mean[RANKS], *next[RANKS];

    for (int r = 0; r < RANKS; r++)
        CHECK(weir_device_open(NULL, &dev[r])); /* each open is a device of its own */
    CHECK(weir_group_create(dev, RANKS, &(weir_group_options){.name = "data"}, &group));

    for (int r = 0; r < RANKS; r++) {
        weir_rank *rank = weir_group_rank(group, r);
        weir_stream *comm;

        x[r] = filled(dev[r], r + 1);
        CHECK(weir_matmul(x[r], x[r], &grad[r]));
        CHECK(weir_stream_communication(dev[r], &comm));
        CHECK(weir_stream_wait_stream(comm, weir_stream_default(dev[r])));
        CHECK(weir_stream_set_current(comm));
        /* Returns at once, though the other rank has not been called yet. */
        CHECK(weir_all_reduce(rank, grad[r], WEIR_REDUCE_MEAN, &mean[r]));
        CHECK(weir_stream_set_current(weir_stream_default(dev[r])));
        CHECK(weir_matmul(x[r], grad[r], &next[r])); /* runs beside it */
    }
    for (int r = 0; r < RANKS; r++) {
        weir_stream *comm;

        CHECK(weir_stream_communication(dev[r], &comm));
        CHECK(weir_stream_wait_stream(weir_stream_default(dev[r]), comm));
        CHECK(weir_tensor_read(mean[r], result, sizeof result));
        printf("rank %d: the mean is %g\n", r, (double)result[0][0]);
        weir_tensor_release(x[r]);
        weir_tensor_release(grad[r]);
        weir_tensor_release(mean[r]);
        weir_tensor_release(next[r]);
    }
    for (int r = 0; r < RANKS; r++)
        CHECK(weir_device_sync(dev[r]));
    CHECK(weir_group_destroy(group));
    for (int r = 0; r < RANKS; r++)
        CHECK(weir_device_close(dev[r]));
    return result[0][0] != N * (1 + 4) / 2.0f;
}
