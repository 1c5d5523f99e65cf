#include "comm/procs/nccl/api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/lock.h"

static struct weir__mutex lock; /* guards the next two variables */
static struct weir__nccl_api loaded;
static bool is_loaded;

static void take_any(void *lib, const char *name, void *at)
{
    void *fn = dlsym(lib, name);

    memcpy(at, &fn, sizeof fn);
}

static void load(void)
{
    static const struct {
        const char *name;
        size_t at;
    } names[] = {
#define X(symbol, name, args) {#symbol, offsetof(struct weir__nccl_api, name)},
        WEIR__NCCL_SYMBOLS(X)
#undef X
    };
    const char *path = getenv("WEIR_LIBNCCL");
    struct weir__nccl_api api = {0};
    void *lib;

    if (!path || !*path)
        path = "libnccl.so.2";
    if (!(lib = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        weir__fail(WEIR_EUNAVAILABLE,
                   "engine nccl: cannot load NCCL (WEIR_LIBNCCL names the file): %s", dlerror());
        return;
    }
    for (size_t i = 0; i < weir__countof(names); i++) {
        void *fn = dlsym(lib, names[i].name);

        if (!fn) {
            weir__fail(WEIR_EUNAVAILABLE, "engine nccl: %s has no %s: NCCL 2.18 is needed", path,
                       names[i].name);
            dlclose(lib);
            return;
        }
        memcpy((char *)&api + names[i].at, &fn, sizeof fn);
    }
    take_any(lib, "ncclGetErrorString", &api.error_string);
    take_any(lib, "ncclGetLastError", &api.last_error);
    take_any(lib, "ncclCommFinalize", &api.finalize);
    loaded = api;
    is_loaded = true;
}

const struct weir__nccl_api *weir__nccl_load(void)
{
    const struct weir__nccl_api *api;

    weir__mutex_lock(&lock);
    if (!is_loaded)
        load();
    api = is_loaded ? &loaded : NULL;
    weir__mutex_unlock(&lock);
    return api;
}
