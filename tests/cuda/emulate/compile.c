/* The host's compiler in NVRTC's place. Modules are files named by the hash of all that went into
 * them, so that a source is compiled once for all tests and builds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu.h"

extern char **environ;

static const char prelude[] = "cuda.hh";
/* Headers of which the emulator has its own, and those that NVRTC lacks and the host has. */
static const char *const own[] = {"ptx.cuh", "ptx_mma.cuh", "ptx_hopper.cuh", "ptx_cluster.cuh"};
static const char *const host[] = {"stdint.h", "stddef.h", "stdbool.h", "stdarg.h"};
static const char *const fixed[] = {
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
    "-g1",
    "-w",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-fsanitize=thread",
    "-fno-rtti",
    "-fno-exceptions",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-threadsafe-statics",
    "-fvisibility=hidden",
    "--param",
    "tsan-distinguish-volatile=1",
    "--param",
    "tsan-instrument-func-entry-exit=0",
    ("-I" EMU_DIR),
    "-include",
    "cuda.hh",
};

static uint64_t hash(uint64_t h, const char *text)
{
    size_t n = strlen(text) + 1;

    for (; n >= 8; n -= 8, text += 8) {
        uint64_t word;

        memcpy(&word, text, 8);
        h = (h ^ word) * 0x9fb21c651e98df25;
        h ^= h >> 32;
    }
    for (; n; n--)
        h = (h ^ (unsigned char)*text++) * 0x100000001b3;
    return h;
}

static bool is_in(const char *const *list, size_t n, const char *name)
{
    while (n--)
        if (!strcmp(list[n], name))
            return true;
    return false;
}

static uint64_t hash_file(uint64_t h, const char *name)
{
    char path[600];
    static char text[1 << 16];
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, EMU_DIR "/%s", name);
    if (!(f = fopen(path, "r")))
        return h;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    return hash(h, text);
}

/* Of what the sources do not say themselves. */
static uint64_t hash_emulator(void)
{
    uint64_t h = hash(1, EMU_CXX);

    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        h = hash(h, fixed[i]);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        h = hash_file(h, own[i]);
    h = hash_file(h, prelude);
    return hash_file(h, "../table.h");
}

/* Shared memory that the launch gives is an array of the module's. */
static void put_words(FILE *f, const char *text)
{
    static const char word[] = "extern __shared__";
    const char *at;

    for (; (at = strstr(text, word)); text = at + sizeof word - 1) {
        fwrite(text, 1, (size_t)(at - text), f);
        fputs("extern EMU_HIDDEN", f);
    }
    fputs(text, f);
}

static void put_text(const char *path, const char *text)
{
    char unfinished[700];
    FILE *f;

    snprintf(unfinished, sizeof unfinished, "%s.%d", path, (int)getpid());
    for (char *at = unfinished + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        (void)mkdir(unfinished, 0777);
        *at = '/';
    }
    if ((f = fopen(unfinished, "w"))) {
        put_words(f, text);
        fclose(f);
        (void)rename(unfinished, path);
    }
}

static void put_headers(const struct emu_source *s, const char *folder)
{
    char path[600];

    snprintf(path, sizeof path, "%s/done", folder);
    if (!access(path, F_OK))
        return;
    for (int i = 0; i < s->nheaders; i++) {
        if (is_in(own, sizeof own / sizeof *own, s->names[i]) ||
            is_in(host, sizeof host / sizeof *host, s->names[i]))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, s->names[i]);
        put_text(path, s->headers[i]);
    }
    snprintf(path, sizeof path, "%s/done", folder);
    put_text(path, "");
}

/* The source and the table of its entry. */
static void put_source(const struct emu_source *s, const char *path)
{
    size_t size = strlen(s->text) + 4096;
    char *text = malloc(size);

    if (!text)
        abort();
    snprintf(
        text, size,
        "#line 1 \"%s.cu\"\n%s\n"
        "alignas(1024) EMU_HIDDEN char memory[EMU_SHARED_MAX];\n"
        "#ifndef EMU_BY_CLOCKS\n"
        "#define EMU_BY_CLOCKS 0\n"
        "#endif\n"
        "typedef emu_entry<decltype(&%s)> emu_made;\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) emu_kernel emu_kernel_made = {\n"
        "    emu_start, [](void **p) { emu_call(%s, p); },\n"
        "    {emu_made::sizes[0], emu_made::sizes[1], emu_made::sizes[2], emu_made::sizes[3]},\n"
        "    emu_made::n, __bss_start, _end, memory, EMU_BY_CLOCKS};\n",
        s->name, s->text, s->name, s->name);
    put_text(path, text);
    free(text);
}

/* Options that count: defines, and the GPU. */
static bool is_option(const char *option)
{
    return !strncmp(option, "-D", 2) || !strncmp(option, "--gpu-architecture=sm_", 22);
}

static bool run_compiler(const struct emu_source *s, const char *folder, const char *source,
                         const char *module, const char *log)
{
    enum { FIXED = sizeof fixed / sizeof *fixed };
    char include[600], arch[40] = "-D__CUDA_ARCH__=900";
    const char *words[FIXED + 40] = {EMU_CXX};
    int n = 1, status = 1;
    posix_spawn_file_actions_t files;
    pid_t child;

    for (int i = 0; i < FIXED; i++)
        words[n++] = fixed[i];
    for (int i = 0; i < s->noptions && n < FIXED + 30; i++)
        if (!strncmp(s->options[i], "-D", 2))
            words[n++] = s->options[i];
        else if (is_option(s->options[i]))
            snprintf(arch, sizeof arch, "-D__CUDA_ARCH__=%ld",
                     10 * strtol(s->options[i] + 22, NULL, 10));
    words[n++] = arch;
    snprintf(include, sizeof include, "-I%s", folder);
    words[n++] = include;
    words[n++] = "-o";
    words[n++] = module;
    words[n++] = source;
    words[n++] = "-lm";
    words[n++] = "-lc";
    words[n++] = "-lgcc";
    words[n] = NULL;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!posix_spawnp(&child, EMU_CXX, &files, NULL, (char *const *)(uintptr_t)words, environ))
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    posix_spawn_file_actions_destroy(&files);
    return !status;
}

static void read_log(const char *path, char *log, size_t size)
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(log, 1, size - 1, f) : 0;

    if (f)
        fclose(f);
    log[n] = 0;
    if (!n)
        snprintf(log, size, "the host's compiler %s does not run", EMU_CXX);
}

bool emu_compile(const struct emu_source *s, char *path, size_t size, char *log, size_t log_size)
{
    uint64_t headers = 0, all;
    char folder[500], source[600], module[600], words[640];
    bool made;

    for (int i = 0; i < s->nheaders; i++)
        headers = hash(hash(headers, s->names[i]), s->headers[i]);
    all = hash(hash(headers ^ hash_emulator(), s->text), s->name);
    for (int i = 0; i < s->noptions; i++)
        if (is_option(s->options[i]))
            all = hash(all, s->options[i]);
    snprintf(folder, sizeof folder, EMU_CACHE "/%016llx", (unsigned long long)headers);
    snprintf(path, size, EMU_CACHE "/%s-%016llx.so", s->name, (unsigned long long)all);
    if (!access(path, R_OK))
        return true;
    put_headers(s, folder);
    snprintf(source, sizeof source, "%s/%s-%d.cu", folder, s->name, (int)getpid());
    snprintf(module, sizeof module, "%s.%d", path, (int)getpid());
    snprintf(words, sizeof words, "%s.log", module);
    put_source(s, source);
    made = run_compiler(s, folder, source, module, words) && !rename(module, path);
    if (!made)
        read_log(words, log, log_size);
    (void)unlink(source);
    (void)unlink(words);
    return made;
}

/* ---- loading ---- */

static int find_image(struct dl_phdr_info *info, size_t size, void *user)
{
    struct emu_module *m = user;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t end = info->dlpi_addr + p->p_vaddr + p->p_memsz;

        if (p->p_type == PT_LOAD &&
            (uintptr_t)m->kernel - info->dlpi_addr < p->p_vaddr + p->p_memsz &&
            (uintptr_t)m->kernel >= info->dlpi_addr + p->p_vaddr) {
            m->image = info->dlpi_addr;
            m->image_size = end - info->dlpi_addr;
            return 1;
        }
    }
    return 0;
}

struct emu_module *emu_load(const char *path)
{
    static struct emu_module *modules;
    struct emu_module *m;
    void *library;

    for (m = modules; m; m = m->next)
        if (!strcmp(m->path, path))
            return m;
    if (!(library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    if (!(m = calloc(1, sizeof *m)))
        abort();
    m->kernel = dlsym(library, EMU_KERNEL);
    snprintf(m->path, sizeof m->path, "%s", path);
    m->shared = m->kernel->shared_begin - (uintptr_t)m->kernel->shared_begin % 1024;
    m->shared_size = (size_t)(m->kernel->shared_end - m->shared);
    dl_iterate_phdr(find_image, m);
    m->next = modules;
    modules = m;
    return m;
}
