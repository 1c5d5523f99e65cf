/* The log of failures, written by as many at once as a GPU has threads that run at once. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "cuda/fault/faults.h"
#include "gpu.h"

enum { WRITERS = 4, COMMANDS = 400, AGAIN = 20 };

struct writer {
    const struct fake_control *fake;
    struct weir__cuda *dev;
    weir_stream *stream;
    atomic_int *go;
    pthread_t thread;
    char name[24];
    int number;
};

/* Says of each command of its stream that it has failed, several times. */
static void *write_failures(void *arg)
{
    struct writer *w = arg;
    struct weir__code_context context = {
        .log = w->dev->log,
        .claims = (struct weir__code_claims *)(uintptr_t)w->dev->claims,
        .name = w->name,
    };

    while (!atomic_load(w->go))
        continue;
    for (uint64_t seq = 1; seq <= COMMANDS; seq++)
        for (int i = 0; i < AGAIN; i++) {
            context.where = weir__cuda_where(w->stream, seq);
            w->fake->report(&context, 1000 + w->number, 10 + w->number, 0);
        }
    atomic_fetch_add(w->go, 1);
    return NULL;
}

TEST(cuda_log, many_write_at_once_while_the_host_reads)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    struct writer writers[WRITERS];
    atomic_int go = 0;
    weir_tensor *t = gpu_tensor(weir_stream_default(dev), WEIR_F32, 4, 1);
    char text[160];

    CHECK_OK(weir_device_sync(dev));
    fake->hold(true);
    for (int i = 0; i < WRITERS; i++) {
        struct writer *w = &writers[i];

        *w = (struct writer){.fake = fake, .dev = weir__cuda(dev), .go = &go, .number = i};
        snprintf(w->name, sizeof w->name, "writer %d", i);
        CHECK_OK(weir_stream_create(dev, NULL, &w->stream));
        CHECK_OK(weir_stream_set_current(w->stream));
        for (int k = 0; k < COMMANDS; k++)
            CHECK_OK(weir_fill(t, k));
        weir__cuda_may_fail(weir__cuda_stream(w->stream), COMMANDS);
    }
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_create(&writers[i].thread, NULL, write_failures, &writers[i]), 0);
    atomic_store(&go, 1);
    while (atomic_load(&go) <= WRITERS)
        weir__cuda_poll(weir__cuda(dev));
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_join(writers[i].thread, NULL), 0);
    fake->hold(false);
    for (int i = 0; i < WRITERS; i++) {
        struct writer *w = &writers[i];

        CHECK_STATUS(weir_stream_sync(w->stream), WEIR_ERANGE);
        snprintf(text, sizeof text, "'writer %d' on stream '%s': index %d is out of range: 0..%d",
                 i, weir_stream_name(w->stream), 1000 + i, 9 + i);
        if (!strstr(weir_last_error(), "it is not known")) /* the others may have left no room */
            CHECK_STR(weir_last_error(), text);
        CHECK_EQ(atomic_load(&w->stream->failed_at), 1);
    }
    CHECK_EQ(weir__cuda(dev)->log->news, 0);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    weir_tensor_release(t);
    for (int i = 0; i < WRITERS; i++)
        CHECK_OK(weir_stream_destroy(writers[i].stream));
    CHECK_OK(weir_device_close(dev));
}
