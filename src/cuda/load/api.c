/* Opening the libraries. */
#include "cuda/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static struct weir__cuda_api api;
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct symbol {
    const char *name;
    void **at;
};

/* An environment variable may name the file, for machines on which the loader does not find it. */
static void *open_library(const char *variable, const char *const *names, const char *what,
                          char *reason, size_t size)
{
    const char *path = getenv(variable);
    void *library;

    if (path && !*path)
        path = NULL;
    library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (; !path && !library && *names; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *text = dlerror();

        snprintf(reason, size, "there is no %s: %s", what, text ? text : "it cannot be opened");
    }
    return library;
}

static void load(const char *variable, const char *const *names, const char *what,
                 const struct symbol *symbols, size_t n, char *reason, size_t size)
{
    void *library = open_library(variable, names, what, reason, size);

    for (size_t i = 0; library && i < n; i++) {
        *symbols[i].at = dlsym(library, symbols[i].name);
        if (!*symbols[i].at) {
            snprintf(reason, size, "the %s has no %s: a newer one is needed", what,
                     symbols[i].name);
            dlclose(library);
            return;
        }
    }
}

#define DRIVER_SYMBOL(symbol, member, params) {#symbol, (void **)(void *)&api.cu.member},
#define COMPILER_SYMBOL(symbol, member, params) {#symbol, (void **)(void *)&api.nvrtc.member},
#define PRODUCT_SYMBOL(symbol, member, params) {#symbol, (void **)(void *)&api.lt.member},

static void start_driver(void)
{
    weir__cu_result r;
    int count = 0;

    if (api.no_driver[0])
        return;
    if ((r = api.cu.init(0)))
        snprintf(api.no_driver, sizeof api.no_driver, "the NVIDIA driver does not start: %s",
                 weir__cuda_error(r).text);
    else if (api.cu.device_count(&count) || !count)
        snprintf(api.no_driver, sizeof api.no_driver, "the NVIDIA driver finds no GPU");
}

static void load_all(void)
{
    static const char *const driver[] = {"libcuda.so.1", NULL};
    static const char *const compiler[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                           "/usr/local/cuda/lib64/libnvrtc.so", NULL};
    static const char *const products[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                           "/usr/local/cuda/lib64/libcublasLt.so", NULL};
    static const struct symbol driver_symbols[] = {WEIR__CU_SYMBOLS(DRIVER_SYMBOL)};
    static const struct symbol compiler_symbols[] = {WEIR__NVRTC_SYMBOLS(COMPILER_SYMBOL)};
    static const struct symbol product_symbols[] = {WEIR__CUBLASLT_SYMBOLS(PRODUCT_SYMBOL)};

    load("WEIR_LIBCUDA", driver, "NVIDIA driver", driver_symbols, weir__countof(driver_symbols),
         api.no_driver, sizeof api.no_driver);
    start_driver();
    if (api.no_driver[0])
        return;
    load("WEIR_LIBNVRTC", compiler, "NVRTC library", compiler_symbols,
         weir__countof(compiler_symbols), api.no_compiler, sizeof api.no_compiler);
    load("WEIR_LIBCUBLASLT", products, "cuBLASLt library", product_symbols,
         weir__countof(product_symbols), api.no_products, sizeof api.no_products);
}

const struct weir__cuda_api *weir__cuda_api_get(void)
{
    pthread_once(&once, load_all);
    return &api;
}

struct weir__cuda_text weir__cuda_error(weir__cu_result code)
{
    struct weir__cuda_text out;
    const char *text = NULL;

    if (!api.cu.error_string || api.cu.error_string(code, &text))
        text = NULL;
    snprintf(out.text, sizeof out.text, "%s (%d)", text ? text : "error", code);
    return out;
}
