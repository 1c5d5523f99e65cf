#define _GNU_SOURCE
#include "comm/procs/mpi/api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

static const char standard_name[] = "libmpi_abi.so.1", open_mpi_name[] = "libmpi.so.40";

static struct weir__mutex lock; /* guards the next two variables */
static struct weir__mpi_api loaded;
static bool is_loaded;

static bool take_functions(void *lib, struct weir__mpi_api *api, const char *path)
{
    static const struct {
        const char *name;
        size_t at;
    } names[] = {
#define X(id, name, args) {name, offsetof(struct weir__mpi_api, id)},
        WEIR__MPI_FUNCTIONS(X)
#undef X
    };

    for (size_t i = 0; i < weir__countof(names); i++) {
        void *fn = dlsym(lib, names[i].name);

        if (!fn) {
            weir__fail(WEIR_EUNAVAILABLE, "engine mpi: %s has no %s", path, names[i].name);
            return false;
        }
        memcpy((char *)api + names[i].at, &fn, sizeof fn);
    }
    return true;
}

/* Recognises the ABI by the symbols that the library exports. */
static bool take_handles(void *lib, struct weir__mpi_api *api, const char *path)
{
    void *revoke;

    if ((api->comm_world = dlsym(lib, "ompi_mpi_comm_world"))) {
        api->family = "Open MPI";
        api->byte = dlsym(lib, "ompi_mpi_byte");
        api->errors_return = dlsym(lib, "ompi_mpi_errors_return");
        api->thread_multiple = 3;
    } else if (dlsym(lib, "MPI_Abi_get_version")) {
        api->family = "MPI 5 standard ABI";
        api->comm_world = (void *)(uintptr_t)0x101;
        api->byte = (void *)(uintptr_t)0x247;
        api->errors_return = (void *)(uintptr_t)0x143;
        api->thread_multiple = 4096;
    }
    if (!api->comm_world || !api->byte || !api->errors_return) {
        weir__fail(WEIR_EUNAVAILABLE,
                   "engine mpi: %s is neither Open MPI 4 or 5 nor of the standard ABI of MPI 5",
                   path);
        return false;
    }
    revoke = dlsym(lib, "MPIX_Comm_revoke");
    memcpy(&api->comm_revoke, &revoke, sizeof revoke);
    return true;
}

static bool try_open(const char *path, int flags)
{
    struct weir__mpi_api api = {0};
    void *lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL | flags);

    if (!lib)
        return false;
    if (!take_handles(lib, &api, path) || !take_functions(lib, &api, path)) {
        dlclose(lib);
        return false;
    }
    loaded = api;
    is_loaded = true;
    return true;
}

/* Under Open MPI's launcher, tries Open MPI first; under others, the standard ABI. */
static void find_library(void)
{
    const char *given = getenv("WEIR_MPI");
    bool open_mpi = getenv("OMPI_COMM_WORLD_RANK");
    const char *first = open_mpi ? open_mpi_name : standard_name;
    const char *second = open_mpi ? standard_name : open_mpi_name;

    if (given && *given) {
        if (!try_open(given, 0) && !dlopen(given, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD))
            weir__fail(WEIR_EUNAVAILABLE, "engine mpi: WEIR_MPI: %s", dlerror());
        return;
    }
    if (try_open(first, RTLD_NOLOAD) || try_open(second, RTLD_NOLOAD) || try_open(first, 0) ||
        try_open(second, 0))
        return;
    weir__fail(WEIR_EUNAVAILABLE,
               "engine mpi: there is neither %s (MPI 5 standard ABI: MPICH 5) nor %s (Open MPI 4, "
               "5): set WEIR_MPI to the file",
               standard_name, open_mpi_name);
}

const struct weir__mpi_api *weir__mpi_load(void)
{
    const struct weir__mpi_api *api;

    weir__mutex_lock(&lock);
    if (!is_loaded)
        find_library();
    api = is_loaded ? &loaded : NULL;
    weir__mutex_unlock(&lock);
    return api;
}

void weir__mpi_error_text(const struct weir__mpi_api *api, int code, char *text, size_t size)
{
    char room[8192] = "";
    int n = 0;

    if (api->error_string(code, room, &n))
        snprintf(room, sizeof room, "error %d", code);
    snprintf(text, size, "MPI: %s", room);
}
