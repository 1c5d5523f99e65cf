/* Tells the fake GPU which blocks of its memory the pool gives out, so that kernels of the sources
 * are held to them. Linked into programs that run on it, with --wrap. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "cuda/fake/control.h"
#include "memory/pool.h"

weir_status __real_weir__pool_alloc(struct weir__pool *pool, uint32_t slot, size_t asked,
                                    weir_buffer **out);
weir_status __wrap_weir__pool_alloc(struct weir__pool *pool, uint32_t slot, size_t asked,
                                    weir_buffer **out);

static const struct fake_control *fake;

static void find_fake_gpu(void)
{
    const char *path = getenv("WEIR_LIBCUDA");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;

    fake = library ? dlsym(library, FAKE_CONTROL) : NULL;
}

weir_status __wrap_weir__pool_alloc(struct weir__pool *pool, uint32_t slot, size_t asked,
                                    weir_buffer **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    weir_status st = __real_weir__pool_alloc(pool, slot, asked, out);

    pthread_once(&once, find_fake_gpu);
    if (!st && fake)
        fake->give_block((*out)->address, asked);
    return st;
}
