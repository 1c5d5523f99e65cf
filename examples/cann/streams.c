/* A program for AscendCL, as one would write it for an NPU: two streams that an event orders, a
 * core limit, a captured graph that is run three times, and the time it took.
 *
 *     weir cann run -- build/release/examples/cann_streams
 *     weir cann run --device npu:a3 --trace t.html -- build/release/examples/cann_streams
 */
#include <acl/acl.h>
#include <stdio.h>
#include <string.h>

#define SIZE (1 << 20)

#define TRY(call)                                                                      \
    do {                                                                               \
        aclError error = (call);                                                       \
        if (error) {                                                                   \
            fprintf(stderr, "%s: error %d: %s\n", #call, error, aclGetRecentErrMsg()); \
            return 1;                                                                  \
        }                                                                              \
    } while (0)

static void called(void *text)
{
    printf("  the stream calls: %s\n", (const char *)text);
}

/* main -> side -> main, within the capture. */
static int capture(aclrtStream main_stream, aclrtStream side, void *x, void *y, aclmdlRI *graph)
{
    aclrtEvent fork, join;

    TRY(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC));
    TRY(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC));
    TRY(aclmdlRICaptureBegin(main_stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    TRY(aclrtMemcpyAsync(y, SIZE, x, SIZE / 2, ACL_MEMCPY_DEVICE_TO_DEVICE, main_stream));
    TRY(aclrtRecordEvent(fork, main_stream));
    TRY(aclrtStreamWaitEvent(side, fork)); /* the side stream takes part from here on */
    TRY(aclrtMemsetAsync((char *)y + SIZE / 2, SIZE / 2, 9, SIZE / 2, side));
    TRY(aclrtRecordEvent(join, side));
    TRY(aclrtStreamWaitEvent(main_stream, join));
    TRY(aclmdlRICaptureEnd(main_stream, graph));
    TRY(aclrtDestroyEvent(fork));
    TRY(aclrtDestroyEvent(join));
    return 0;
}

int main(void)
{
    static unsigned char host[SIZE];
    aclrtStream main_stream, side;
    aclrtEvent begin, end, copied;
    uint32_t cube, vector;
    aclmdlRI graph;
    void *x, *y;
    float ms;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&main_stream));
    TRY(aclrtCreateStream(&side));
    TRY(aclrtCreateEvent(&begin));
    TRY(aclrtCreateEvent(&end));
    TRY(aclrtCreateEventExWithFlag(&copied, ACL_EVENT_SYNC));
    TRY(aclrtMalloc(&x, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    TRY(aclrtMalloc(&y, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

    TRY(aclrtSetStreamResLimit(side, ACL_RT_DEV_RES_VECTOR_CORE, 1));
    TRY(aclrtGetStreamResLimit(side, ACL_RT_DEV_RES_CUBE_CORE, &cube));
    TRY(aclrtGetStreamResLimit(side, ACL_RT_DEV_RES_VECTOR_CORE, &vector));
    printf("%s: the side stream may use %u cube and %u vector cores\n", aclrtGetSocName(), cube,
           vector);

    memset(host, 7, SIZE);
    TRY(aclrtMemcpyAsync(x, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, main_stream));
    TRY(aclrtRecordEvent(copied, main_stream));
    TRY(aclrtStreamWaitEvent(side, copied));
    TRY(aclrtMemsetAsync(x, 16, 3, 16, side));
    TRY(aclrtLaunchHostFunc(side, called, "sixteen bytes are set"));
    TRY(aclrtSynchronizeStream(side));

    if (capture(main_stream, side, x, y, &graph))
        return 1;
    TRY(aclrtRecordEvent(begin, main_stream));
    for (int i = 0; i < 3; i++)
        TRY(aclmdlRIExecuteAsync(graph, main_stream));
    TRY(aclrtRecordEvent(end, main_stream));
    TRY(aclrtMemcpyAsync(host, SIZE, y, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, main_stream));
    TRY(aclrtSynchronizeStream(main_stream));
    TRY(aclrtEventElapsedTime(&ms, begin, end));
    printf("three runs of the graph took %.3f ms; it left %d, %d and %d\n", ms, host[0], host[16],
           host[SIZE - 1]);
    TRY(aclmdlRIDestroy(graph));
    TRY(aclFinalize());
    return host[0] == 3 && host[16] == 7 && host[SIZE - 1] == 9 ? 0 : 1;
}
