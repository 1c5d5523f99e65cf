/* The compiler: an image is the text's name, whether its entries wait for earlier kernels before
 * they do anything else, and the module that the emulator has made of it. A text with #error in it
 * does not compile, nor does one that includes a header it was not given. With
 * WEIR_FAKE_NVRTC=/path/to/libnvrtc.so every text is compiled by the real compiler as well
 * (scripts/check-kernels). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct program {
    struct fake_object object;
    char name[64];
    char log[4000]; /* empty: it compiles */
    char path[512]; /* the emulator's */
    bool waits;
    struct emu_source source;
    const char *headers[128]; /* texts: the caller's, or a test's own */
    char *mutated;            /* the text that a test changed, or NULL */
    void *real;               /* the real compiler's program, or NULL */
};

/* ---- the real compiler ---- */

static struct {
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*destroy)(void **);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
} real;

/* NULL where none is asked for; a test that asks for one that cannot be loaded ends. */
static void *real_symbol(const char *name)
{
    static void *library;
    const char *path = getenv("WEIR_FAKE_NVRTC");
    void *symbol;

    if (!path || !*path)
        return NULL;
    if (!library && !(library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "WEIR_FAKE_NVRTC: %s\n", dlerror());
        abort();
    }
    if (!(symbol = dlsym(library, name))) {
        fprintf(stderr, "WEIR_FAKE_NVRTC: %s has no %s\n", path, name);
        abort();
    }
    return symbol;
}

static void find_real(void)
{
    *(void **)&real.create = real_symbol("nvrtcCreateProgram");
    *(void **)&real.destroy = real_symbol("nvrtcDestroyProgram");
    *(void **)&real.compile = real_symbol("nvrtcCompileProgram");
    *(void **)&real.log_size = real_symbol("nvrtcGetProgramLogSize");
    *(void **)&real.log = real_symbol("nvrtcGetProgramLog");
}

static void compile_really(struct program *p, int noptions, const char *const *options)
{
    size_t size = 0;
    char *log;

    if (!p->real || !real.compile(p->real, noptions, options))
        return;
    real.log_size(p->real, &size);
    if ((log = calloc(1, size + 1)))
        real.log(p->real, log);
    snprintf(p->log, sizeof p->log, "%s", log ? log : "does not compile");
    fprintf(stderr, "%s: %s\n", p->name, p->log);
    free(log);
}

/* ---- includes ---- */

struct headers {
    int n;
    const char *const *texts, *const *names;
    bool seen[128];
};

/* Follows the includes of a text; writes the first header that was not given. Conditions are not
 * read: a header under #ifdef must be there as well. */
static bool all_given(struct headers *h, const char *text, char *log, size_t size)
{
    static const char word[] = "#include ";

    for (const char *at = strstr(text, word); at; at = strstr(at, word)) {
        int i, n;

        at += sizeof word - 1;
        n = (int)strcspn(at + 1, "\">\n");
        for (i = 0; i < h->n; i++)
            if ((int)strlen(h->names[i]) == n && !memcmp(h->names[i], at + 1, (size_t)n))
                break;
        if (i == h->n) {
            snprintf(log, size, "error: cannot open source file \"%.*s\"", n, at + 1);
            return false;
        }
        if (h->seen[i])
            continue;
        h->seen[i] = true;
        if (!all_given(h, h->texts[i], log, size))
            return false;
    }
    return true;
}

int nvrtcVersion(int *major, int *minor)
{
    FAKE_CALL();
    *major = *minor = 0;
    return 0;
}

bool fake_waits(const char *text)
{
    static const char entry[] = "extern \"C\" __global__", wait[] = "\n    await_earlier();\n";
    static const char alone[] = "; /* of the arguments alone */";
    const char *body;

    for (const char *at = strstr(text, entry); at; at = strstr(body, entry)) {
        const char *line;

        if (!(body = strchr(at, '{')) || body[1] != '\n')
            return false;
        line = strchr(body + 2, '\n'); /* the end of the first statement */
        if (line && line - body > (int)sizeof alone &&
            !strncmp(line - (sizeof alone - 1), alone, sizeof alone - 1))
            body = line - 1;
        if (strncmp(body + 1, wait, sizeof wait - 1) != 0)
            return false;
    }
    return true;
}

/* ---- a test's own texts ---- */

static struct {
    char file[64];
    const char *old, *new_text;
} mutation;

void fake_mutate(const char *file, const char *old, const char *new_text)
{
    snprintf(mutation.file, sizeof mutation.file, "%s", file);
    mutation.old = old;
    mutation.new_text = new_text;
}

/* The text, or where a test changes it, the program's copy. */
static const char *changed(struct program *p, const char *file, const char *text)
{
    const char *at;

    if (!mutation.old || strcmp(file, mutation.file) != 0)
        return text;
    if (!(at = strstr(text, mutation.old)))
        fake_misuse("%s has no '%s'", file, mutation.old);
    free(p->mutated);
    if (!(p->mutated = malloc(strlen(text) + strlen(mutation.new_text) + 1)))
        abort();
    sprintf(p->mutated, "%.*s%s%s", (int)(at - text), text, mutation.new_text,
            at + strlen(mutation.old));
    return p->mutated;
}

int nvrtcCreateProgram(void **program, const char *text, const char *name, int nheaders,
                       const char *const *headers, const char *const *names)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct program *p;
    struct headers given = {.n = nheaders, .texts = headers, .names = names};
    char file[80];

    FAKE_CALL();
    if (!nheaders || nheaders > 128)
        return FAKE_INVALID;
    pthread_once(&once, find_real);
    p = fake_new(FAKE_PROGRAM, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(file, sizeof file, "%s.cu", name);
    if (strstr(text, "#error"))
        snprintf(p->log, sizeof p->log, "error: #error directive");
    else
        all_given(&given, text, p->log, sizeof p->log);
    p->waits = fake_waits(text);
    for (int i = 0; i < nheaders; i++) { /* some have the entry of a text that includes them */
        p->waits &= fake_waits(headers[i]);
        p->headers[i] = changed(p, names[i], headers[i]);
    }
    p->source = (struct emu_source){.text = changed(p, file, text),
                                    .name = p->name,
                                    .nheaders = nheaders,
                                    .headers = p->headers,
                                    .names = names};
    if (real.create)
        real.create(&p->real, text, name, nheaders, headers, names);
    *program = p;
    return 0;
}

int nvrtcDestroyProgram(void **program)
{
    int code = fake_enter(__func__);
    struct program *p = fake_check(*program, FAKE_PROGRAM);

    if (p->real)
        real.destroy(&p->real);
    free(p->mutated);
    fake_forget(p);
    free(*program);
    *program = NULL;
    return code;
}

int nvrtcCompileProgram(void *program, int noptions, const char *const *options)
{
    struct program *p;
    char arch[40];

    FAKE_CALL();
    p = fake_check(program, FAKE_PROGRAM);
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d0%s", fake_major(),
             fake_major() == 9 ? "a" : "");
    if (!noptions || strcmp(options[0], arch))
        return FAKE_INVALID;
    compile_really(p, noptions, options);
    p->source.noptions = noptions;
    p->source.options = options;
    if (!*p->log && !fake_is_function(p->name))
        emu_compile(&p->source, p->path, sizeof p->path, p->log, sizeof p->log);
    return *p->log ? 6 : 0;
}

int nvrtcGetCUBINSize(void *program, size_t *size)
{
    const struct program *p;

    FAKE_CALL();
    p = fake_check(program, FAKE_PROGRAM);
    *size = 9 + strlen(p->name) + strlen(p->path);
    return 0;
}

int nvrtcGetCUBIN(void *program, char *bytes)
{
    const struct program *p;

    FAKE_CALL();
    p = fake_check(program, FAKE_PROGRAM);
    sprintf(bytes, "fake %c %s %s", p->waits ? 'w' : '-', p->name, p->path);
    return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *size)
{
    FAKE_CALL();
    *size = strlen(((struct program *)fake_check(program, FAKE_PROGRAM))->log) + 1;
    return 0;
}

int nvrtcGetProgramLog(void *program, char *text)
{
    FAKE_CALL();
    strcpy(text, ((struct program *)fake_check(program, FAKE_PROGRAM))->log);
    return 0;
}
