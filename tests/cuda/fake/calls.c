/* Counting calls and failing one of them; objects; devices and contexts. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
_Atomic int fake_lost;

enum { MAGIC = 0x57e1fa4e, WATCHED = 1 << 16, DEPTH = 8 };

static _Atomic uint64_t calls, fail_at;
static _Atomic int fail_code;
static const char *_Atomic out_of_memory;
static const char *_Atomic watched[WATCHED];
static _Atomic uint64_t watch_from;
static _Atomic int counts[FAKE_KINDS];
static struct fake_context contexts[FAKE_DEVICES];
static _Thread_local struct fake_context *stack[DEPTH];
static _Thread_local int depth;

void fake_misuse(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("the fake GPU is misused: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

/* ---- calls ---- */

static bool is_drivers(const char *symbol)
{
    return !strncmp(symbol, "cu", 2) && strncmp(symbol, "cublas", 6);
}

/* Codes of the driver after which it refuses everything. */
static bool is_fatal(int code)
{
    return code >= 700 && code < 800;
}

/* Loading code and giving back memory waits until the context is idle, and all other calls wait as
 * long: as the real one does. */
static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER;

static bool waits_for_idle(const char *symbol)
{
    static const char *const symbols[] = {"cuModuleLoadData", "cuModuleUnload", "cuMemFree_v2",
                                          "cuMemFreeHost"};

    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!strcmp(symbol, symbols[i]))
            return true;
    return false;
}

static void pass_driver(const char *symbol)
{
    pthread_mutex_lock(&driver);
    if (waits_for_idle(symbol) && fake_current())
        fake_await_idle();
    pthread_mutex_unlock(&driver);
}

int fake_enter(const char *symbol)
{
    uint64_t n = atomic_fetch_add(&calls, 1) + 1, at = n - atomic_load(&watch_from);

    if (fake_is_engine())
        fake_misuse("%s is called by a function of the host within a stream", symbol);
    pass_driver(symbol);
    if (at && at <= WATCHED)
        atomic_store(&watched[at - 1], symbol);
    if (atomic_load(&out_of_memory) && !strcmp(symbol, atomic_load(&out_of_memory)))
        return 2;
    if (n == atomic_load(&fail_at)) {
        int code = atomic_load(&fail_code);

        if (is_fatal(code) && !is_drivers(symbol))
            return 0;
        if (is_fatal(code)) {
            pthread_mutex_lock(&fake_lock);
            fake_lose(code);
            pthread_mutex_unlock(&fake_lock);
        }
        return code;
    }
    return 0;
}

int fake_enter_context(const char *symbol)
{
    int code = fake_enter(symbol);

    if (code)
        return code;
    return depth ? atomic_load(&fake_lost) : FAKE_NO_CONTEXT;
}

static void fail_call(uint64_t n, int code)
{
    atomic_store(&fail_code, code);
    atomic_store(&fail_at, n ? atomic_load(&calls) + n : 0);
}

static void lack_memory(const char *function)
{
    atomic_store(&out_of_memory, function);
}

static uint64_t count_calls(void)
{
    return atomic_load(&calls);
}

static void watch(void)
{
    for (int i = 0; i < WATCHED; i++)
        atomic_store(&watched[i], NULL);
    atomic_store(&watch_from, atomic_load(&calls));
}

static const char *get_watched(uint64_t n)
{
    return n && n <= WATCHED ? atomic_load(&watched[n - 1]) : NULL;
}

static void heal(void)
{
    atomic_store(&fail_at, 0);
    pthread_mutex_lock(&fake_lock);
    fake_lose(0); /* with what was queued since it was lost */
    pthread_mutex_unlock(&fake_lock);
}

/* ---- objects ---- */

static const char *const kind_names[FAKE_KINDS] = {
    "retained context", "green context",
    "stream",           "event",
    "module",           "graph",
    "executable graph", "pinned block",
    "device block",     "address range",
    "memory handle",    "mapping",
    "compiler program", "object of the products library",
};

void fake_count(enum fake_kind kind, int n)
{
    atomic_fetch_add(&counts[kind], n);
}

void *fake_new(enum fake_kind kind, size_t size)
{
    struct fake_object *o = calloc(1, size);

    if (!o)
        abort();
    o->kind = kind;
    o->magic = MAGIC;
    fake_count(kind, 1);
    return o;
}

void *fake_check(void *object, enum fake_kind kind)
{
    struct fake_object *o = object;

    if (!o || o->magic != MAGIC || o->kind != kind)
        fake_misuse("%p is no %s", object, kind_names[kind]);
    return o;
}

void fake_forget(void *object)
{
    struct fake_object *o = object;

    fake_count(o->kind, -1);
    o->magic = 0;
}

static void live(char *text, size_t size)
{
    size_t at = 0;

    text[0] = 0;
    for (int i = 0; i < FAKE_KINDS && at < size; i++) {
        int n = atomic_load(&counts[i]);

        if (n)
            at += (size_t)snprintf(text + at, size - at, "%s%d %s%s", at ? ", " : "", n,
                                   kind_names[i], n == 1 ? "" : "s");
    }
}

static _Atomic bool apart;

static void set_apart(bool are)
{
    atomic_store(&apart, are);
}

static _Atomic int major = 9;

static void set_major(int is)
{
    atomic_store(&major, is);
}

int fake_major(void)
{
    return atomic_load(&major);
}

__attribute__((visibility("default"))) extern const struct fake_control fake_cuda_control;
const struct fake_control fake_cuda_control = {
    .fail_call = fail_call,
    .lack_memory = lack_memory,
    .calls = count_calls,
    .watch = watch,
    .watched = get_watched,
    .live = live,
    .hold = fake_hold,
    .replace = fake_replace_kernel,
    .mutate = fake_mutate,
    .give_block = fake_give_block,
    .catch_faults = emu_catch,
    .caught = emu_caught,
    .report = fake_report,
    .slow_algorithm = fake_slow_algorithm,
    .last_algorithm = fake_last_algorithm,
    .apart = set_apart,
    .waits = fake_waits,
    .edges = fake_edges,
    .launched = fake_launched,
    .set_major = set_major,
    .heal = heal,
};

/* All that weir asks for is here, or this does not link. */
#define ADDRESS(symbol, name, params) (void (*)(void)) & symbol,
__attribute__((visibility("default"))) extern void (*const fake_cuda_all[])(void);
void (*const fake_cuda_all[])(void) = {WEIR__CU_SYMBOLS(ADDRESS) WEIR__NVRTC_SYMBOLS(ADDRESS)
                                           WEIR__CUBLASLT_SYMBOLS(ADDRESS)};
#undef ADDRESS

/* ---- devices ---- */

int cuInit(unsigned flags)
{
    (void)flags;
    FAKE_CALL();
    return 0;
}

int cuDriverGetVersion(int *version)
{
    FAKE_CALL();
    *version = 13000;
    return 0;
}

int cuGetErrorString(weir__cu_result code, const char **text)
{
    static const struct {
        int code;
        const char *text;
    } texts[] = {
        {1, "invalid argument"},
        {2, "out of memory"},
        {FAKE_NO_CONTEXT, "invalid device context"},
        {FAKE_NOT_READY, "device not ready"},
        {FAKE_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
        {719, "unspecified launch failure"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].code == code) {
            *text = texts[i].text;
            return 0;
        }
    return 1;
}

int cuDeviceGetCount(int *count)
{
    FAKE_CALL();
    *count = FAKE_DEVICES;
    return 0;
}

int cuDeviceGet(weir__cu_device *device, int ordinal)
{
    FAKE_CALL();
    *device = ordinal;
    return ordinal >= 0 && ordinal < FAKE_DEVICES ? 0 : 101;
}

int cuDeviceGetName(char *name, int size, weir__cu_device device)
{
    FAKE_CALL();
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, weir__cu_device device)
{
    (void)device;
    FAKE_CALL();
    *value = attribute == CU_ATTRIBUTE_MULTIPROCESSORS ? FAKE_CORES
             : attribute == CU_ATTRIBUTE_MAJOR         ? fake_major()
             : attribute == CU_ATTRIBUTE_MINOR         ? 0
             : attribute == CU_ATTRIBUTE_SHARED_OPTIN  ? 227 << 10
             : attribute == CU_ATTRIBUTE_CLUSTERS      ? fake_major() >= 9
                                                       : 1;
    return 0;
}

int cuDeviceCanAccessPeer(int *can, weir__cu_device device, weir__cu_device peer)
{
    FAKE_CALL();
    *can = device != peer && !atomic_load(&apart);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, weir__cu_device device)
{
    (void)device;
    FAKE_CALL();
    *bytes = FAKE_MEMORY;
    return 0;
}

/* ---- contexts ---- */

int cuDevicePrimaryCtxRetain(weir__cu_context *context, weir__cu_device device)
{
    FAKE_CALL();
    if (atomic_load(&fake_lost))
        return atomic_load(&fake_lost);
    pthread_mutex_lock(&fake_lock);
    contexts[device].device = device;
    contexts[device].retained++;
    pthread_mutex_unlock(&fake_lock);
    fake_count(FAKE_CONTEXT, 1);
    *context = &contexts[device];
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(weir__cu_device device)
{
    int code = fake_enter(__func__);

    pthread_mutex_lock(&fake_lock);
    if (!contexts[device].retained--)
        fake_misuse("a context is released that nobody has");
    pthread_mutex_unlock(&fake_lock);
    fake_count(FAKE_CONTEXT, -1);
    return code;
}

struct fake_context *fake_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

int cuCtxGetCurrent(weir__cu_context *context)
{
    FAKE_CALL();
    *context = fake_current();
    return 0;
}

int cuCtxPushCurrent_v2(weir__cu_context context)
{
    FAKE_CALL();
    if (depth == DEPTH)
        fake_misuse("%d contexts are pushed", DEPTH);
    stack[depth++] = context;
    return 0;
}

int cuCtxPopCurrent_v2(weir__cu_context *context)
{
    int code = fake_enter(__func__);

    if (!depth)
        fake_misuse("a context is popped that was not pushed");
    *context = stack[--depth];
    return code;
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    FAKE_CALL_IN_CONTEXT();
    *least = 0;
    *greatest = -5;
    return 0;
}
