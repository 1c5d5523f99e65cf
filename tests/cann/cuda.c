/* Behaviour that differs on a GPU: run WEIR_DEVICE=cuda:0 test_cann. */
#include "helpers.h"

#include <dlfcn.h>

typedef int retain_fn(void **context, int device);
typedef int set_fn(void *context);
typedef int attributes_fn(unsigned n, int *attributes, void **values, unsigned long long address);

static void *t_symbol(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    test_note("%s", name);
    CHECK(symbol != NULL);
    return symbol;
}

TEST(cuda, device_memory_is_memory_of_the_gpu)
{
    const char *library = getenv("WEIR_LIBCUDA");
    int kind = 2, type = 0; /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_DEVICE is 2 */
    void *cuda, *memory, *context, *value = &type;
    attributes_fn *get;
    retain_fn *retain;
    set_fn *set;

    if (!t_on_cuda())
        SKIP("WEIR_DEVICE is no GPU");
    t_begin();
    memory = t_device(4096);
    CHECK_ACL(aclrtMemset(memory, 4096, 7, 4096));
    CHECK_EQ(t_byte((char *)memory + 4095), 7);
    CHECK((cuda = dlopen(library ? library : "libcuda.so.1", RTLD_NOW)) != NULL);
    *(void **)&retain = t_symbol(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&set = t_symbol(cuda, "cuCtxPushCurrent_v2");
    *(void **)&get = t_symbol(cuda, "cuPointerGetAttributes");
    CHECK_EQ(retain(&context, 0), 0);
    CHECK_EQ(set(context), 0);
    CHECK_EQ(get(1, &kind, &value, (unsigned long long)(uintptr_t)memory), 0);
    CHECK_EQ(type, 2);
    CHECK_ACL(aclrtFree(memory));
    t_end();
}
