/* Every allocation of CANN's libraries fails once: calls say so, nothing crashes or hangs, and the
 * process can go on. The allocator is this program's own: what is asked for from the code of these
 * libraries is counted, and one of them is refused. With WEIR_TEST_ALL_ALLOCATIONS those of weir
 * itself are refused as well, which takes longer. */
#include <link.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_ops.h"
#include "hccl/hccl.h"
#include "helpers.h"

#if !TEST_SANITIZED

static struct {
    uintptr_t begin, end;
} code[8];
static int ncode;
static atomic_int asked, refused_at; /* 0: none is */

static int note_code(struct dl_phdr_info *info, size_t size, void *user)
{
    static const char *const libraries[] = {"/libascendcl.", "/libopapi.", "/libnnopbase.",
                                            "/libhccl.", "/libweir."};
    const int n = getenv("WEIR_TEST_ALL_ALLOCATIONS") ? 5 : 4;
    const char *name = strrchr(info->dlpi_name, '/');
    bool ours = false;

    (void)size;
    (void)user;
    for (int i = 0; i < n && name; i++)
        ours |= !strncmp(name, libraries[i], strlen(libraries[i]));
    if (!ours)
        return 0;
    for (int i = 0; i < info->dlpi_phnum && ncode < 8; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            code[ncode].begin = info->dlpi_addr + p->p_vaddr;
            code[ncode++].end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
        }
    }
    return 0;
}

static bool refuse(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;

    for (int i = 0; i < ncode; i++)
        if (at >= code[i].begin && at < code[i].end)
            return atomic_fetch_add(&asked, 1) + 1 == atomic_load(&refused_at);
    return false;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
    return refuse(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return refuse(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return refuse(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}

/* ---- a program that uses something of everything ---- */

static int failures;
#define TRY(call) (failures += (call) != 0)

static void called(void *count)
{
    atomic_fetch_add((atomic_int *)count, 1);
}

static aclTensor *tensor(void *memory, int64_t n)
{
    aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &n, 1, memory);

    failures += !t;
    return t;
}

/* z = sin(x + y), and both of them one after the other in `both` */
static void operators(float *x, float *y, float *z, float *both, aclrtStream s)
{
    aclTensor *tx = tensor(x, 4), *ty = tensor(y, 4), *tz = tensor(z, 4), *tb = tensor(both, 8);
    const aclTensor *two[2] = {tensor(x, 4), tensor(y, 4)};
    aclTensorList *list = two[0] && two[1] ? aclCreateTensorList(two, 2) : NULL;
    float unit = 1;
    aclScalar *one = aclCreateScalar(&unit, ACL_FLOAT);
    aclOpExecutor *executor = NULL;
    uint64_t bytes;

    failures += !list + !one;
    TRY(aclnnAddGetWorkspaceSize(tx, ty, one, tz, &bytes, &executor));
    TRY(aclnnAdd(NULL, 0, executor, s));
    executor = NULL;
    TRY(aclnnInplaceSinGetWorkspaceSize(tz, &bytes, &executor));
    TRY(aclnnInplaceSin(NULL, 0, executor, s));
    executor = NULL;
    TRY(aclnnCatGetWorkspaceSize(list, 0, tb, &bytes, &executor));
    TRY(aclnnCat(NULL, 0, executor, s));
    if (!list) {
        aclDestroyTensor(two[0]);
        aclDestroyTensor(two[1]);
    }
    aclDestroyTensorList(list);
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
    aclDestroyTensor(tz);
    aclDestroyTensor(tb);
    aclDestroyScalar(one);
}

/* out = x + y along the channels */
static void by_name(float *x, float *y, float *out, aclrtStream s)
{
    const int64_t dims[] = {1, 4};
    aclTensorDesc *from[] = {aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND),
                             aclCreateTensorDesc(ACL_FLOAT, 1, dims + 1, ACL_FORMAT_ND)};
    aclDataBuffer *sources[] = {aclCreateDataBuffer(x, 16), aclCreateDataBuffer(y, 16)};
    aclDataBuffer *target = aclCreateDataBuffer(out, 16);
    aclopAttr *attr = aclopCreateAttr();

    failures += !from[0] + !from[1] + !sources[0] + !sources[1] + !target + !attr;
    TRY(aclopSetAttrString(attr, "data_format", "NCHW"));
    TRY(aclopCompileAndExecuteV2("BiasAdd", 2, from, sources, 1, from, &target, attr,
                                 ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL, s));
    aclDestroyTensorDesc(from[0]);
    aclDestroyTensorDesc(from[1]);
    aclDestroyDataBuffer(sources[0]);
    aclDestroyDataBuffer(sources[1]);
    aclDestroyDataBuffer(target);
    aclopDestroyAttr(attr);
}

static void graphs(float *x, float *y, float *z, float *both, aclrtStream a, aclrtStream b)
{
    aclmdlRICondHandle condition = NULL;
    aclmdlRICaptureStatus status;
    aclmdlRI whole = NULL, child = NULL, ended = NULL, graph = NULL;
    aclrtTaskGrp group = NULL;
    uint64_t *word = NULL;

    TRY(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    operators(x, y, z, both, a);
    TRY(aclmdlRICaptureGetInfo(a, &status, &whole));
    TRY(aclmdlRICondHandleCreate(whole, 1, 1, &condition));
    TRY(aclmdlRICondHandleGetCondPtr(condition, &word));
    TRY(aclmdlRIAddCondTask((aclmdlRICondTaskParams){condition, 0, 1, &child}, a, 0));
    TRY(aclmdlRICaptureToModelRIBegin(b, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    TRY(aclrtMemsetAsync(both, 4, 0, 4, b));
    TRY(aclmdlRICaptureEnd(b, &ended));
    TRY(aclmdlRICaptureTaskGrpBegin(a));
    TRY(aclrtMemsetAsync(both + 1, 4, 0, 4, a));
    TRY(aclmdlRICaptureTaskGrpEnd(a, &group));
    TRY(aclmdlRICaptureEnd(a, &graph));
    TRY(aclmdlRIExecuteAsync(graph, a));
    TRY(aclrtSynchronizeStream(a));
    if (graph)
        TRY(aclmdlRIDestroy(graph));
}

static void memory(float *x)
{
    aclrtPhysicalMemProp prop = {0};
    aclrtDrvMemHandle physical = NULL;
    void *range = NULL, *mine = NULL, *host = NULL;
    char key[65] = "";

    TRY(aclrtReserveMemAddress(&range, 2 << 20, 0, NULL, 0));
    TRY(aclrtMallocPhysical(&physical, 2 << 20, &prop, 0));
    TRY(aclrtMapMem(range, 2 << 20, 0, physical, 0));
    if (range)
        TRY(aclrtReleaseMemAddress(range));
    if (physical)
        TRY(aclrtFreePhysical(physical));
    TRY(aclrtIpcMemGetExportKey(x, 16, key, sizeof key, 0));
    TRY(aclrtIpcMemImportByKey(&mine, key, 0));
    if (mine)
        TRY(aclrtIpcMemClose(key));
    TRY(aclrtMallocHost(&host, 64));
    if (host)
        TRY(aclrtFreeHost(host));
}

static void order(float *x, aclrtStream a, aclrtStream b, atomic_int *calls)
{
    aclrtNotify notify = NULL;
    aclrtEvent event = NULL, shared = NULL;

    TRY(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    TRY(aclrtCreateEventExWithFlag(&shared, ACL_EVENT_IPC));
    TRY(aclrtCreateNotify(&notify, 0));
    TRY(aclrtRecordEvent(event, a));
    TRY(aclrtStreamWaitEvent(b, event));
    TRY(aclrtRecordEvent(shared, a));
    TRY(aclrtSynchronizeEvent(shared));
    TRY(aclrtLaunchHostFunc(b, called, calls));
    TRY(aclrtRecordNotify(notify, a));
    if (!failures)
        TRY(aclrtWaitAndResetNotify(notify, b, 0)); /* of a record that failed it would not end */
    if (!failures) {
        TRY(aclrtMemset(x, 8, 0, 8));
        TRY(aclrtValueWrite(x, 3, 0, a));
        if (!failures)
            TRY(aclrtValueWait(x, 3, ACL_STREAM_WAIT_VALUE_EQ, b));
    }
    TRY(aclrtSynchronizeStream(a));
    TRY(aclrtSynchronizeStream(b));
    if (event)
        TRY(aclrtDestroyEvent(event));
    if (shared)
        TRY(aclrtDestroyEvent(shared));
    if (notify)
        TRY(aclrtDestroyNotify(notify));
}

static void collectives(float *x, aclrtStream a)
{
    HcclRootInfo root;
    HcclComm comm = NULL;

    memset(&root, 0, sizeof root);
    TRY(HcclGetRootInfo(&root));
    TRY(HcclCommInitRootInfo(1, &root, 0, &comm));
    TRY(HcclAllReduce(x, x, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, a));
    TRY(aclrtSynchronizeStream(a));
    if (comm)
        TRY(HcclCommDestroy(comm));
}

/* How many calls failed; -1 if none did and a value is wrong. */
static int program(void)
{
    float host[4] = {1, 2, 3, 4}, got[8] = {0}, *x = NULL, *y = NULL, *z = NULL, *both = NULL;
    aclrtStream a = NULL, b = NULL;
    atomic_int calls = 0;

    failures = 0;
    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&a));
    TRY(aclrtCreateStream(&b));
    TRY(aclrtMalloc((void **)&x, 16, 0));
    TRY(aclrtMalloc((void **)&y, 16, 0));
    TRY(aclrtMalloc((void **)&z, 16, 0));
    TRY(aclrtMalloc((void **)&both, 32, 0));
    if (!a || !b || !x || !y || !z || !both)
        goto finalize;
    TRY(aclrtMemcpy(x, 16, host, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    TRY(aclrtMemcpyAsync(y, 16, host, 16, ACL_MEMCPY_HOST_TO_DEVICE, a));
    by_name(x, y, z, a);
    operators(x, y, z, both, a);
    graphs(x, y, z, both, a, b);
    memory(x);
    collectives(y, a);
    TRY(aclrtMemcpy(got, 32, both, 32, ACL_MEMCPY_DEVICE_TO_HOST));
    TRY(aclrtMemcpy(host, 16, z, 16, ACL_MEMCPY_DEVICE_TO_HOST));
    order(x, a, b, &calls);
    TRY(aclrtFree(x));
finalize:
    if (aclFinalize())
        return -2;
    if (!failures &&
        (got[0] != 0 || got[1] != 0 || got[5] != 2 || calls != 1 || fabs(host[3] - sin(8)) > 1e-6))
        return -1;
    return failures;
}

enum { NONE_LEFT = 50, WRONG_VALUES, NOT_FINALISED, NOT_AS_BEFORE };

static int fail_at(int n)
{
    int first;

    alarm(30);
    dl_iterate_phdr(note_code, NULL);
    atomic_store(&refused_at, n);
    first = program();
    if (first < 0)
        return first == -1 ? WRONG_VALUES : NOT_FINALISED;
    if (atomic_load(&asked) < n)
        return first ? NOT_AS_BEFORE : NONE_LEFT;
    atomic_store(&refused_at, 0);
    return program() ? NOT_AS_BEFORE : 0;
}

TEST(faults, every_allocation_fails_once_and_the_process_goes_on)
{
    int n, status = 0;

    NOT_ON_CUDA("a forked process cannot use its driver");
    for (n = 1; n < 5000; n++) {
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (!child)
            _exit(fail_at(n));
        test_note("allocation %d", n);
        CHECK_EQ(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NONE_LEFT)
            break;
        CHECK_EQ(status, 0);
    }
    CHECK_GE(n, 40); /* they are counted */
    CHECK_LE(n, 4000);
}

#endif
