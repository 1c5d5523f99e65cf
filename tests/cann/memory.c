/* Memory of a device, of the host, and addresses apart from memory. */
#include "helpers.h"

#include <sys/wait.h>
#include <unistd.h>

enum { GRANULE = 2 << 20 };

TEST(memory, freed_memory_is_refused)
{
    char *x;

    t_begin();
    x = t_device(256);
    CHECK_ACL(aclrtMemset(x + 100, 10, 5, 10));
    CHECK_EQ(t_byte(x + 105), 5);
    CHECK_EQ(aclrtMemset(x + 250, 100, 5, 100), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_STR(aclGetRecentErrMsg(), "beyond");
    CHECK_EQ(aclrtMemcpy(x, 8, x + 64, 9, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
    CHECK_ACL(aclrtFree(x));
    CHECK_EQ(aclrtFree(x), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemsetAsync(x, 1, 0, 1, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_STR(aclGetRecentErrMsg(), "freed");
    t_end();
}

TEST(memory, memory_freed_while_work_is_queued_keeps_its_bytes_until_then)
{
    static char back[1 << 20];
    aclrtStream s;

    t_begin();
    s = t_stream();
    for (int round = 0; round < 20; round++) {
        void *x = t_device(sizeof back);

        CHECK_ACL(aclrtMemsetAsync(x, sizeof back, round, sizeof back, s));
        CHECK_ACL(
            aclrtMemcpyAsync(back, sizeof back, x, sizeof back, ACL_MEMCPY_DEVICE_TO_HOST, s));
        CHECK_ACL(aclrtFree(x));
        x = t_device(sizeof back);
        CHECK_ACL(aclrtMemset(x, sizeof back, 99, sizeof back));
        CHECK_ACL(aclrtSynchronizeStream(s));
        CHECK_EQ(back[0], round);
        CHECK_EQ(back[sizeof back - 1], round);
        CHECK_ACL(aclrtFree(x));
    }
    t_end();
}

TEST(memory, a_copy_by_address_alone_finds_its_direction)
{
    char host[4] = {1, 2, 3, 4}, back[4] = {0};
    void *x;

    t_begin();
    x = t_device(4);
    CHECK_ACL(aclrtMemcpy(x, 4, host, 4, ACL_MEMCPY_DEFAULT));
    CHECK_ACL(aclrtMemcpy(back, 4, x, 4, ACL_MEMCPY_DEFAULT));
    CHECK_MEM_EQ(back, host, 4);
    CHECK_ACL(aclrtMemcpy2d(x, 2, host, 3, 1, 2, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_EQ(t_byte((char *)x + 2), 4);
    t_end();
}

TEST(memory, allocating_more_than_exists_is_an_error_and_not_a_crash)
{
    size_t free_bytes, total;
    void *x;

    setenv("WEIR_DEVICE", "cpu:memory=64m", 1);
    t_begin();
    CHECK_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_EQ(total, 64 << 20);
    CHECK_EQ(aclrtMalloc(&x, 65 << 20, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK_PTR_EQ(x, NULL);
    CHECK_EQ(aclrtMalloc(&x, SIZE_MAX, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    t_end();
}

TEST(memory, a_thread_without_a_context_gets_the_memory_info_of_device_0)
{
    size_t free_bytes, total;

    setenv("WEIR_DEVICE", "cpu:memory=64m", 1);
    CHECK_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_ACL(aclInit(NULL));
    CHECK_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_EQ(total, 64 << 20);
    CHECK_EQ(free_bytes, total);
    t_end();
}

TEST(vmm, a_tensor_may_lie_over_two_pieces_of_physical_memory)
{
    aclrtPhysicalMemProp prop = {0};
    aclrtDrvMemHandle one, two;
    void *range;
    char *edge;

    NOT_ON_CUDA("no memory is mapped by address");
    t_begin();
    CHECK_ACL(aclrtReserveMemAddress(&range, 4 * GRANULE, 0, NULL, 1));
    CHECK_ACL(aclrtMallocPhysical(&one, GRANULE, &prop, 0));
    CHECK_ACL(aclrtMallocPhysical(&two, GRANULE, &prop, 0));
    CHECK_ACL(aclrtMapMem(range, GRANULE, 0, one, 0));
    CHECK_ACL(aclrtMapMem((char *)range + GRANULE, GRANULE, 0, two, 0));
    CHECK_EQ(aclrtMapMem(range, GRANULE, 0, two, 0), ACL_ERROR_RT_PARAM_INVALID);
    edge = (char *)range + GRANULE - 8;
    CHECK_ACL(aclrtMemset(edge, 16, 7, 16));
    CHECK_EQ(t_byte(edge + 15), 7);
    CHECK_ACL(aclrtUnmapMem(range));
    CHECK_ACL(aclrtMapMem((char *)range + 2 * GRANULE, GRANULE, 0, one, 0));
    CHECK_EQ(t_byte((char *)range + 3 * GRANULE - 8), 7); /* the bytes are the memory's */
    CHECK_ACL(aclrtFreePhysical(one));
    CHECK_EQ(aclrtFreePhysical(one), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_ACL(aclrtReleaseMemAddress(range));
    CHECK_ACL(aclrtFreePhysical(two));
    t_end();
}

/* torch_npu asks for 512 bytes to see whether it can reserve at all, before it sets a device. */
TEST(vmm, a_small_range_can_be_reserved_before_a_device_is_set)
{
    void *range;

    NOT_ON_CUDA("no memory is mapped by address");
    CHECK_ACL(aclInit(NULL));
    CHECK_ACL(aclrtReserveMemAddress(&range, 512, 0, NULL, 1));
    CHECK_EQ((uintptr_t)range % GRANULE, 0);
    CHECK_ACL(aclrtReleaseMemAddress(range));
}

TEST(vmm, another_process_maps_what_was_exported)
{
    aclrtPhysicalMemProp prop = {0};
    aclrtDrvMemHandle memory;
    uint64_t share;
    int status, go[2];
    void *range;
    pid_t child;

    NOT_ON_CUDA("no memory is mapped by address");
    CHECK_EQ(pipe(go), 0);
    child = fork();
    CHECK_GE(child, 0);
    if (!child) {
        char *mine;

        if (read(go[0], &share, sizeof share) != sizeof share || aclrtSetDevice(0) ||
            aclrtMemImportFromShareableHandle(share, 0, &memory) ||
            aclrtReserveMemAddress((void **)&mine, GRANULE, 0, NULL, 1) ||
            aclrtMapMem(mine, GRANULE, 0, memory, 0) || mine[5] != 9 ||
            aclrtMemset(mine + 6, 1, 8, 1))
            _exit(1);
        _exit(0);
    }
    t_begin();
    CHECK_ACL(aclrtReserveMemAddress(&range, GRANULE, 0, NULL, 1));
    CHECK_ACL(aclrtMallocPhysical(&memory, GRANULE, &prop, 0));
    CHECK_ACL(aclrtMapMem(range, GRANULE, 0, memory, 0));
    CHECK_ACL(aclrtMemset(range, 64, 9, 64));
    CHECK_ACL(aclrtMemExportToShareableHandle(memory, ACL_MEM_HANDLE_TYPE_NONE, 0, &share));
    CHECK_EQ(write(go[1], &share, sizeof share), sizeof share);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(t_byte((char *)range + 6), 8);
    CHECK_EQ(aclrtMemImportFromShareableHandle(12345, 0, &memory), ACL_ERROR_RT_PARAM_INVALID);
    t_end();
}
