/* NULL, garbage and handles of destroyed objects give an error code and a message, never a
 * crash. */
#include "helpers.h"

#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "hccl/hccl.h"

/* Every call is refused, and says by whom. */
#define REFUSED(call)                                                \
    do {                                                             \
        if ((call) == 0)                                             \
            test_fail(__FILE__, __LINE__, "%s is accepted", #call);  \
        if (!*aclGetRecentErrMsg())                                  \
            test_fail(__FILE__, __LINE__, "%s says nothing", #call); \
    } while (0)

static void host_function(void *user)
{
    (void)user;
}

static void refuse_streams(void *bad, void *x)
{
    aclmdlRICaptureStatus capture;
    aclrtStreamStatus query;
    uint32_t u32;
    int32_t i32;

    REFUSED(aclrtSetCurrentContext(bad));
    REFUSED(aclrtDestroyContext(bad));
    REFUSED(aclrtDestroyStream(bad));
    REFUSED(aclrtDestroyStreamForce(bad));
    if (bad) { /* NULL is the default stream in these */
        REFUSED(aclrtSynchronizeStream(bad));
        REFUSED(aclrtSynchronizeStreamWithTimeout(bad, 10));
        REFUSED(aclrtStreamQuery(bad, &query));
        REFUSED(aclrtStreamGetId(bad, &i32));
        REFUSED(aclrtStreamGetPriority(bad, &u32));
        REFUSED(aclrtStreamGetFlags(bad, &u32));
        REFUSED(aclrtSetStreamOverflowSwitch(bad, 0));
        REFUSED(aclrtGetStreamOverflowSwitch(bad, &u32));
        REFUSED(aclrtSetStreamResLimit(bad, ACL_RT_DEV_RES_CUBE_CORE, 1));
        REFUSED(aclrtGetStreamResLimit(bad, ACL_RT_DEV_RES_CUBE_CORE, &u32));
        REFUSED(aclrtResetStreamResLimit(bad));
        REFUSED(aclrtUseStreamResInCurrentThread(bad));
        REFUSED(aclrtUnuseStreamResInCurrentThread(bad));
        REFUSED(aclrtMemsetAsync(x, 64, 0, 64, bad));
        REFUSED(aclrtMemcpyAsync(x, 4, &u32, 4, ACL_MEMCPY_HOST_TO_DEVICE, bad));
        REFUSED(aclrtSubscribeReport(1, bad));
        REFUSED(aclrtUnSubscribeReport(1, bad));
        REFUSED(aclrtLaunchHostFunc(bad, host_function, NULL));
        REFUSED(aclmdlRICaptureGetInfo(bad, &capture, NULL));
    }
    REFUSED(aclrtStreamAbort(bad));
    REFUSED(aclrtSetStreamFailureMode(bad, 0));
}

static void refuse_events(void *bad, aclrtStream good)
{
    aclrtEventRecordedStatus recorded;
    aclrtEventWaitStatus waited;
    aclrtEventStatus status;
    uint64_t u64;
    uint32_t u32;
    float ms;

    REFUSED(aclrtStreamWaitEvent(good, bad));
    REFUSED(aclrtRecordEvent(bad, good));
    REFUSED(aclrtResetEvent(bad, good));
    REFUSED(aclrtDestroyEvent(bad));
    REFUSED(aclrtQueryEvent(bad, &status));
    REFUSED(aclrtQueryEventStatus(bad, &recorded));
    REFUSED(aclrtQueryEventWaitStatus(bad, &waited));
    REFUSED(aclrtSynchronizeEvent(bad));
    REFUSED(aclrtSynchronizeEventWithTimeout(bad, 1));
    REFUSED(aclrtEventElapsedTime(&ms, bad, bad));
    REFUSED(aclrtEventGetTimestamp(bad, &u64));
    REFUSED(aclrtGetEventId(bad, &u32));
    REFUSED(aclrtDestroyNotify(bad));
    REFUSED(aclrtRecordNotify(bad, good));
    REFUSED(aclrtWaitAndResetNotify(bad, good, 0));
    REFUSED(aclrtGetNotifyId(bad, &u32));
}

static void refuse_memory(void *bad, void *x, aclrtStream good)
{
    uint64_t u64;

    REFUSED(aclrtFree(bad));
    REFUSED(aclrtFreeHost(bad));
    REFUSED(aclrtMemFlush(bad, 1));
    REFUSED(aclrtMemInvalidate(bad, 1));
    REFUSED(aclrtHostUnregister(bad));
    REFUSED(aclrtMemcpy(bad, 4, x, 4, ACL_MEMCPY_DEVICE_TO_DEVICE));
    REFUSED(aclrtMemcpy(x, 4, bad, 4, ACL_MEMCPY_DEVICE_TO_DEVICE));
    REFUSED(aclrtMemsetAsync(bad, 4, 0, 4, good));
    REFUSED(aclrtReleaseMemAddress(bad));
    REFUSED(aclrtFreePhysical(bad));
    REFUSED(aclrtMapMem(bad, 2 << 20, 0, bad, 0));
    REFUSED(aclrtUnmapMem(bad));
    REFUSED(aclrtMemExportToShareableHandle(bad, ACL_MEM_HANDLE_TYPE_NONE, 0, &u64));
}

static void refuse_captures(void *bad, aclrtStream good)
{
    aclmdlRI graph;
    char name[128];
    uint32_t u32;

    REFUSED(aclmdlRICaptureBegin(bad, 0));
    REFUSED(aclmdlRICaptureEnd(bad, &graph));
    REFUSED(aclmdlRICaptureTaskGrpBegin(bad));
    REFUSED(aclmdlRICaptureTaskGrpEnd(bad, &graph));
    REFUSED(aclmdlRICaptureTaskUpdateBegin(good, bad));
    REFUSED(aclmdlRICaptureTaskUpdateEnd(bad));
    REFUSED(aclmdlRIExecuteAsync(bad, good));
    REFUSED(aclmdlRIExecute(bad, 10));
    REFUSED(aclmdlRIDestroy(bad));
    REFUSED(aclmdlRIGetId(bad, &u32));
    REFUSED(aclmdlRIGetName(bad, 128, name));
    REFUSED(aclmdlRISetName(bad, "x"));
    REFUSED(aclmdlRIDebugPrint(bad));
    REFUSED(aclmdlRIDebugJsonPrint(bad, "/dev/null", 0));
}

static void refuse_objects(void *bad, void *x)
{
    REFUSED(aclDestroyDataBuffer(bad));
    REFUSED(aclUpdateDataBuffer(bad, x, 1));
    REFUSED(aclSetTensorFormat(bad, ACL_FORMAT_ND));
    REFUSED(aclSetTensorShape(bad, 0, NULL));
    REFUSED(aclSetTensorOriginShape(bad, 0, NULL));
    REFUSED(aclSetTensorConst(bad, x, 1));
    REFUSED(aclSetTensorPlaceMent(bad, ACL_MEMTYPE_HOST));
    REFUSED(aclopSetAttrInt(bad, "x", 1));
    REFUSED(acltdtStopChannel(bad));
    REFUSED(acltdtDestroyChannel(bad));
    REFUSED(acltdtReceiveTensor(bad, NULL, 0));
    CHECK_PTR_EQ(aclGetDataBufferAddr(bad), NULL);
    CHECK_EQ(aclGetTensorDescSize(bad), 0);
    CHECK_EQ(aclGetTensorDescType(bad), ACL_DT_UNDEFINED);
    aclDestroyTensorDesc(bad);
    aclopDestroyAttr(bad);
}

static void refuse_communicators(void *bad, void *x, aclrtStream good)
{
    HcclResult result;
    char name[128];
    HcclComm comm;
    uint32_t u32;

    REFUSED(HcclCommDestroy(bad));
    REFUSED(HcclGetRankSize(bad, &u32));
    REFUSED(HcclGetRankId(bad, &u32));
    REFUSED(HcclGetCommName(bad, name));
    REFUSED(HcclGetCommAsyncError(bad, &result));
    REFUSED(HcclAllReduce(x, x, 1, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, bad, good));
    REFUSED(HcclBroadcast(x, 1, HCCL_DATA_TYPE_INT8, 0, bad, good));
    REFUSED(HcclReduce(x, x, 1, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, 0, bad, good));
    REFUSED(HcclAllGather(x, x, 1, HCCL_DATA_TYPE_INT8, bad, good));
    REFUSED(HcclReduceScatter(x, x, 1, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, bad, good));
    REFUSED(HcclScatter(x, x, 1, HCCL_DATA_TYPE_INT8, 0, bad, good));
    REFUSED(HcclAlltoAll(x, 1, HCCL_DATA_TYPE_INT8, x, 1, HCCL_DATA_TYPE_INT8, bad, good));
    REFUSED(HcclBarrier(bad, good));
    REFUSED(HcclSend(x, 1, HCCL_DATA_TYPE_INT8, 0, bad, good));
    REFUSED(HcclRecv(x, 1, HCCL_DATA_TYPE_INT8, 0, bad, good));
    REFUSED(HcclBatchSendRecv(NULL, 0, bad, good));
    REFUSED(HcclAlltoAllVC(x, x, HCCL_DATA_TYPE_INT8, x, HCCL_DATA_TYPE_INT8, bad, good));
    REFUSED(HcclCommSetMemoryRange(bad, x, 1, 0, 0));
    REFUSED(HcclCommUnsetMemoryRange(bad, x));
    REFUSED(HcclCommActivateCommMemory(bad, x, 1, 0, NULL, 0));
    REFUSED(HcclCommDeactivateCommMemory(bad, x));
    REFUSED(HcclCommResume(bad));
    REFUSED(HcclCommWorkingDevNicSet(bad, NULL, NULL, 0));
    REFUSED(HcclCreateSubCommConfig(bad ? &bad : NULL, 1, NULL, 0, 0, NULL, &comm));
    REFUSED(HcclCommInitClusterInfo(bad ? "ranks.json" : NULL, 0, &comm));
}

static void refuse_handles(void *bad)
{
    aclrtStream good = t_stream();
    void *x = t_device(64);

    refuse_streams(bad, x);
    refuse_events(bad, good);
    refuse_memory(bad, x, good);
    refuse_captures(bad, good);
    refuse_objects(bad, x);
    refuse_communicators(bad, x, good);
    CHECK_ACL(aclrtFree(x));
    CHECK_ACL(aclrtDestroyStream(good));
}

TEST(garbage, invalid_handles_are_refused_by_every_function)
{
    static const uintptr_t bad[] = {
        0,          1, 64, 0x57ull << 56, 0x57ull << 56 | 2ull << 50 | 0xffffff, 0xdeadbeefdeadbeef,
        UINTPTR_MAX};
    aclrtStream gone;
    aclrtEvent event;

    t_begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_note("handle %#lx", (unsigned long)bad[i]);
        refuse_handles((void *)bad[i]);
    }
    test_note("a destroyed stream");
    gone = t_stream();
    CHECK_ACL(aclrtDestroyStream(gone));
    refuse_handles(gone);
    test_note("an event of another kind than asked for");
    CHECK_ACL(aclrtCreateEvent(&event));
    REFUSED(aclrtDestroyStream(event));
    REFUSED(aclmdlRIDestroy(event));
    CHECK_ACL(aclrtDestroyEvent(event));
    t_end();
}

TEST(garbage, null_pointers_for_results_are_refused)
{
    aclrtPhysicalMemProp prop = {0};
    aclrtDrvMemHandle memory;
    aclrtEvent event;
    HcclRootInfo root;
    HcclComm comm;
    aclrtStream s;
    size_t n;
    void *x;

    t_begin();
    s = t_stream();
    x = t_device(64);
    CHECK_ACL(aclrtCreateEvent(&event));
    REFUSED(aclrtMalloc(NULL, 1, 0));
    REFUSED(aclrtMalloc(&x, 0, 0));
    REFUSED(aclrtMallocAlign32(NULL, 1, 0));
    REFUSED(aclrtMallocCached(NULL, 1, 0));
    REFUSED(aclrtMallocHost(NULL, 1));
    REFUSED(aclrtMallocHost(&x, 0));
    REFUSED(aclrtGetMemInfo(ACL_HBM_MEM, NULL, &n));
    REFUSED(aclrtGetMemInfo(ACL_HBM_MEM, &n, NULL));
    REFUSED(aclrtCreateStream(NULL));
    REFUSED(aclrtCreateStreamWithConfig(NULL, 0, 0));
    REFUSED(aclrtCreateEvent(NULL));
    REFUSED(aclrtCreateEventWithFlag(NULL, 0));
    REFUSED(aclrtCreateEventExWithFlag(NULL, 0));
    REFUSED(aclrtCreateNotify(NULL, 0));
    REFUSED(aclrtCreateContext(NULL, 0));
    REFUSED(aclrtCreateContext(&x, -1));
    REFUSED(aclrtGetCurrentContext(NULL));
    REFUSED(aclrtGetDevice(NULL));
    REFUSED(aclrtGetDeviceCount(NULL));
    REFUSED(aclrtGetRunMode(NULL));
    REFUSED(aclrtSetDevice(-1));
    REFUSED(aclrtSetDevice(1000));
    REFUSED(aclrtResetDevice(7));
    REFUSED(aclrtStreamQuery(s, NULL));
    REFUSED(aclrtStreamGetId(s, NULL));
    REFUSED(aclrtQueryEvent(event, NULL));
    REFUSED(aclrtQueryEventStatus(event, NULL));
    REFUSED(aclrtEventElapsedTime(NULL, event, event));
    REFUSED(aclrtEventGetTimestamp(event, NULL));
    REFUSED(aclrtLaunchCallback(NULL, NULL, 0, s));
    REFUSED(aclrtLaunchHostFunc(s, NULL, NULL));
    REFUSED(aclrtSubscribeReport(0, s));
    REFUSED(aclrtProcessReport(-5));
    REFUSED(aclrtSynchronizeStreamWithTimeout(s, -5));
    REFUSED(aclrtSynchronizeDeviceWithTimeout(-5));
    REFUSED(aclrtReserveMemAddress(NULL, 2 << 20, 0, NULL, 0));
    REFUSED(aclrtReserveMemAddress(&x, 0, 0, NULL, 0));
    REFUSED(aclrtReserveMemAddress(&x, SIZE_MAX, 0, NULL, 0));
    REFUSED(aclrtMallocPhysical(NULL, 2 << 20, &prop, 0));
    REFUSED(aclrtMallocPhysical(&memory, 2 << 20, NULL, 0));
    REFUSED(aclrtMallocPhysical(&memory, 7, &prop, 0));
    REFUSED(aclrtGetStreamResLimit(s, ACL_RT_DEV_RES_CUBE_CORE, NULL));
    REFUSED(aclrtSetStreamResLimit(s, (aclrtDevResLimitType)7, 1));
    REFUSED(aclrtSetStreamResLimit(s, ACL_RT_DEV_RES_CUBE_CORE, 0));
    REFUSED(aclrtSetDeviceResLimit(99, ACL_RT_DEV_RES_CUBE_CORE, 1));
    REFUSED(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, NULL));
    REFUSED(aclmdlRICaptureBegin(s, (aclmdlRICaptureMode)9));
    REFUSED(aclmdlRICaptureEnd(s, NULL));
    REFUSED(aclmdlRICaptureGetInfo(s, NULL, NULL));
    REFUSED(aclmdlRICaptureThreadExchangeMode(NULL));
    REFUSED(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, NULL));
    REFUSED(aclGetDeviceCapability(0, (aclDeviceInfo)77, (int64_t *)&n));
    REFUSED(aclopCompileAndExecute("Abs", 0, NULL, NULL, 0, NULL, NULL, NULL, ACL_ENGINE_SYS,
                                   ACL_COMPILE_SYS, NULL, s));
    REFUSED(aclSetCompileopt(ACL_PRECISION_MODE, NULL));
    REFUSED(aclmdlSetDump("dump.json"));
    REFUSED(HcclGetRootInfo(NULL));
    REFUSED(HcclCommInitRootInfo(1, NULL, 0, &comm));
    memset(&root, 0, sizeof root);
    REFUSED(HcclCommInitRootInfo(1, &root, 0, &comm));
    CHECK_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    REFUSED(HcclCommInitRootInfo(0, &root, 0, &comm));
    REFUSED(HcclCommInitRootInfo(2, &root, 2, &comm));
    REFUSED(HcclCommInitRootInfo(1, &root, 0, NULL));
    t_end();
}

TEST(garbage, an_operator_that_is_missing_is_named)
{
    t_begin();
    CHECK_EQ(aclopCompileAndExecute("RollV9", 0, NULL, NULL, 0, NULL, NULL, NULL, ACL_ENGINE_SYS,
                                    ACL_COMPILE_SYS, NULL, NULL),
             ACL_ERROR_OP_NOT_FOUND);
    CHECK_STR(aclGetRecentErrMsg(), "RollV9");
    t_end();
}

TEST(garbage, half_precision_goes_there_and_back_for_every_number)
{
    for (uint32_t i = 0; i < 65536; i++) {
        float f = aclFloat16ToFloat((aclFloat16)i);

        if (f == f)
            CHECK_EQ(aclFloatToFloat16(f), i);
        else
            CHECK(aclFloat16ToFloat(aclFloatToFloat16(f)) != f);
    }
    CHECK_EQ(aclFloatToFloat16(1e9f), 0x7c00);
    CHECK_EQ(aclFloatToFloat16(65519.0f), 0x7bff);
    CHECK_EQ(aclFloatToFloat16(65520.0f), 0x7c00);
    CHECK_EQ(aclFloatToFloat16(0x1p-25f), 0);
    CHECK_EQ(aclFloatToFloat16(0x1.8p-25f), 1);
}
