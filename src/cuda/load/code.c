/* Compiles kernel sources to functions, once per architecture and variant, and caches them on
 * disk. */
#include "cuda/cuda.h"
#include "cuda/load/cache.h"

#include <stdio.h>
#include <string.h>

/* ---- the cache on disk ---- */

/* Hashes all sources, because they include each other. */
static uint64_t hash_sources(void)
{
    uint64_t h = WEIR__CUDA_HASH;

    for (int i = 0; i < weir__cuda_nsources; i++) {
        h = weir__cuda_hash(h, weir__cuda_sources[i].name, strlen(weir__cuda_sources[i].name) + 1);
        h = weir__cuda_hash(h, weir__cuda_sources[i].text, strlen(weir__cuda_sources[i].text));
    }
    return h;
}

/* `own` is the source itself if it is not in kernels/, else NULL. */
static void cached_name(const struct weir__cuda *dev, const struct weir__code *code,
                        const char *own, uint64_t variant, char *name, size_t size)
{
    int major = 0, minor = 0;
    uint64_t h = hash_sources();

    if (own)
        h = weir__cuda_hash(h, own, strlen(own));
    dev->api->nvrtc.version(&major, &minor);
    snprintf(name, size, "%s-%016llx-sm%d%d-nvrtc%d.%d-%016llx.cubin", code->text,
             (unsigned long long)variant, dev->gpu.major, dev->gpu.minor, major, minor,
             (unsigned long long)h);
}

/* ---- compiling ---- */

static const char *find_source(const struct weir__code *code)
{
    char name[64];

    snprintf(name, sizeof name, "%s.cu", code->text);
    for (int i = 0; i < weir__cuda_nsources; i++)
        if (!strcmp(weir__cuda_sources[i].name, name))
            return weir__cuda_sources[i].text;
    return NULL;
}

static weir_status compile_failed(struct weir__cuda *dev, const struct weir__code *code,
                                  void *program)
{
    const struct weir__nvrtc *rtc = &dev->api->nvrtc;
    size_t size = 0;
    char *log;
    weir_status st;

    if (rtc->log_size(program, &size) || !(log = weir__malloc(size + 1)))
        return weir__fail(WEIR_EDRIVER, "kernel source '%s' does not compile", code->text);
    log[0] = 0;
    (void)rtc->log(program, log);
    st = weir__fail(WEIR_EDRIVER, "kernel source '%s' does not compile: %.2000s", code->text, log);
    weir__free(log);
    return st;
}

static weir_status compile_program(struct weir__cuda *dev, const struct weir__code *code,
                                   const uint8_t *variant, void *program, char **out, size_t *size)
{
    const struct weir__nvrtc *rtc = &dev->api->nvrtc;
    char defines[8][24], arch[32];
    const char *options[13] = {arch, "-default-device", "--std=c++17", "--disable-warnings",
                               code->contract ? "--fmad=true" : "--fmad=false"};
    weir_status st;

    /* Hopper's matrix instructions need the architecture-specific target sm_90a. */
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d%s", dev->gpu.major, dev->gpu.minor,
             dev->gpu.major == 9 && dev->gpu.minor == 0 ? "a" : "");
    for (int i = 0; i < 8; i++) {
        snprintf(defines[i], sizeof defines[i], "-DV%d=%u", i, variant[i]);
        options[5 + i] = defines[i];
    }
    if (rtc->compile(program, 13, options))
        return compile_failed(dev, code, program);
    if (rtc->cubin_size(program, size) || !(*out = weir__malloc(*size)))
        return weir__fail_nomem("loading kernel source '%s'", code->text);
    if (!rtc->cubin(program, *out))
        return WEIR_OK;
    st = compile_failed(dev, code, program);
    weir__free(*out);
    return st;
}

enum { MOST_HEADERS = 128 };

/* Sources include headers only, never another .cu file. */
static bool is_header(const char *name)
{
    size_t n = strlen(name);

    return n < 3 || strcmp(name + n - 3, ".cu") != 0;
}

static weir_status compile(struct weir__cuda *dev, const struct weir__code *code, const char *own,
                           const uint8_t *variant, char **out, size_t *size)
{
    const struct weir__nvrtc *rtc = &dev->api->nvrtc;
    const char *text = own ? own : find_source(code), *names[MOST_HEADERS], *texts[MOST_HEADERS];
    void *program;
    weir_status st;
    int n = 0, r;

    if (!text)
        return weir__fail(WEIR_EUNSUPPORTED, "there is no kernel source '%s'", code->text);
    for (int i = 0; i < weir__cuda_nsources; i++)
        if (is_header(weir__cuda_sources[i].name)) {
            if (n == MOST_HEADERS)
                return weir__fail(WEIR_EINTERNAL, "kernel sources have more than %d headers",
                                  MOST_HEADERS);
            names[n] = weir__cuda_sources[i].name;
            texts[n++] = weir__cuda_sources[i].text;
        }
    if ((r = rtc->create(&program, text, code->text, n, texts, names)))
        return weir__fail(WEIR_EDRIVER, "NVRTC cannot read kernel source '%s': code %d", code->text,
                          r);
    st = compile_program(dev, code, variant, program, out, size);
    rtc->destroy(&program);
    return st;
}

/* ---- the table of functions ---- */

static struct weir__cuda_function *find_slot(struct weir__cuda_function *table, unsigned cap,
                                             const struct weir__code *code, uint64_t variant)
{
    uint64_t h = ((uint64_t)(uintptr_t)code ^ variant * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
    unsigned i = (unsigned)(h >> 32) & (cap - 1);

    while (table[i].code && (table[i].code != code || table[i].variant != variant))
        i = (i + 1) & (cap - 1);
    return &table[i];
}

static weir_status grow_table(struct weir__cuda *dev)
{
    unsigned cap = dev->code.cap ? 2 * dev->code.cap : 128;
    struct weir__cuda_function *table = weir__calloc(cap, sizeof *table);

    if (!table)
        return weir__fail_nomem("allocating the table of %u kernels", cap);
    for (unsigned i = 0; i < dev->code.cap; i++)
        if (dev->code.functions[i].code)
            *find_slot(table, cap, dev->code.functions[i].code, dev->code.functions[i].variant) =
                dev->code.functions[i];
    weir__free(dev->code.functions);
    dev->code.functions = table;
    dev->code.cap = cap;
    return WEIR_OK;
}

/* Loaded code. Devices on one GPU share it: loading waits for the GPU, so a rank of a collective
 * should not load code that another rank has loaded. */
struct weir__cuda_module {
    struct weir__cuda_module *next;
    weir__cu_context context;
    const struct weir__code *code;
    uint64_t variant;
    weir__cu_module module;
    weir__cu_function function;
    int users;
};

static struct weir__mutex modules_lock;
static struct weir__cuda_module *modules;

static bool find_loaded(const struct weir__cuda *dev, const struct weir__code *code,
                        uint64_t variant, struct weir__cuda_function *f)
{
    struct weir__cuda_module *m;

    weir__mutex_lock(&modules_lock);
    for (m = modules; m; m = m->next)
        if (m->context == dev->gpu.context && m->code == code && m->variant == variant)
            break;
    if (m) {
        m->users++;
        f->module = m;
        f->function = m->function;
    }
    weir__mutex_unlock(&modules_lock);
    return m != NULL;
}

static void unload(struct weir__cuda *dev, struct weir__cuda_module *m)
{
    struct weir__cuda_module **at = &modules;

    weir__mutex_lock(&modules_lock);
    if (--m->users)
        m = NULL;
    while (m && *at != m)
        at = &(*at)->next;
    if (m)
        *at = m->next;
    weir__mutex_unlock(&modules_lock);
    if (m)
        dev->api->cu.module_unload(m->module);
    weir__free(m);
}

static weir_status load(struct weir__cuda *dev, const struct weir__code *code, uint64_t variant,
                        const char *image, struct weir__cuda_function *f)
{
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_module *m = weir__calloc(1, sizeof *m);
    weir_status st;

    if (!m)
        return weir__fail_nomem("loading kernel source '%s'", code->text);
    if (!(st = weir__cuda_quiesce(dev, code->text))) {
        if (!(st = weir__cuda_check(dev, cu->module_load(&m->module, image), code->text)) &&
            (st = weir__cuda_check(dev, cu->module_function(&m->function, m->module, code->text),
                                   code->text)))
            cu->module_unload(m->module);
        weir__cuda_resume(dev);
    }
    if (st) {
        weir__free(m);
        return st;
    }
    m->context = dev->gpu.context;
    m->code = code;
    m->variant = variant;
    m->users = 1;
    f->module = m;
    f->function = m->function;
    weir__mutex_lock(&modules_lock);
    m->next = modules;
    modules = m;
    weir__mutex_unlock(&modules_lock);
    return WEIR_OK;
}

static weir_status make_function(struct weir__cuda *dev, const struct weir__code *code,
                                 const char *own, const uint8_t *variant, uint64_t key,
                                 struct weir__cuda_function *f)
{
    char name[200], *image;
    size_t size;
    weir_status st;

    cached_name(dev, code, own, key, name, sizeof name);
    if ((image = weir__cuda_cache_read(name, &size))) {
        st = load(dev, code, key, image, f);
        weir__free(image);
        if (!st || atomic_load(&dev->faults.dead))
            return st;
        weir__log(WEIR_LOG_WARN, "%s cannot be loaded: compiling it again", name);
    }
    if ((st = compile(dev, code, own, variant, &image, &size)))
        return st;
    if (!(st = load(dev, code, key, image, f)))
        weir__cuda_cache_write(name, image, size);
    weir__free(image);
    return st;
}

static weir_status add_function(struct weir__cuda *dev, const struct weir__code *code,
                                const void *args, const uint8_t *variant, uint64_t key,
                                struct weir__cuda_function *f)
{
    struct weir__text text = {0};
    weir_status st;

    if (!code->write)
        return make_function(dev, code, code->source, variant, key, f);
    code->write(args, &text);
    if (text.failed)
        st = weir__fail_nomem("loading kernel source '%s'", code->text);
    else
        st = make_function(dev, code, text.data, variant, key, f);
    weir__text_free(&text);
    return st;
}

weir_status weir__cuda_find_function(struct weir__cuda *dev, const struct weir__code *code,
                                     const void *args, const struct weir__code_launch *launch,
                                     weir__cu_function *out)
{
    struct weir__cuda_function *f;
    uint64_t key;
    weir_status st;

    memcpy(&key, launch->variant, sizeof key);
    if (dev->code.n >= dev->code.cap / 2 && (st = grow_table(dev)))
        return st;
    f = find_slot(dev->code.functions, dev->code.cap, code, key);
    if (weir__unlikely(!f->code)) {
        if (!find_loaded(dev, code, key, f) &&
            (st = add_function(dev, code, args, launch->variant, key, f)))
            return st;
        f->code = code;
        f->variant = key;
        dev->code.n++;
    }
    if (launch->shared > 48 << 10 && launch->shared > f->shared) {
        if ((st =
                 weir__cuda_check(dev,
                                  dev->api->cu.function_attribute(
                                      f->function, CU_FUNCTION_DYNAMIC_SHARED, (int)launch->shared),
                                  code->text)))
            return st;
        f->shared = launch->shared;
    }
    *out = f->function;
    return WEIR_OK;
}

void weir__cuda_functions_close(struct weir__cuda *dev)
{
    for (unsigned i = 0; i < dev->code.cap; i++)
        if (dev->code.functions[i].code)
            unload(dev, dev->code.functions[i].module);
    weir__free(dev->code.functions);
}
