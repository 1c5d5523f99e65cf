/* The compiler: an image is the text's name, and whether its entries wait for earlier kernels
 * before they do anything else. A text with #error in it does not compile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const char complaint[] = "error: #error directive";

struct program {
    struct fake_object object;
    char name[64];
    bool bad, waits;
};

int nvrtcVersion(int *major, int *minor)
{
    FAKE_CALL();
    *major = *minor = 0;
    return 0;
}

bool fake_waits(const char *text)
{
    static const char entry[] = "extern \"C\" __global__", wait[] = "{\n    await_earlier();\n";
    const char *body;

    for (const char *at = strstr(text, entry); at; at = strstr(body, entry))
        if (!(body = strchr(at, '{')) || strncmp(body, wait, sizeof wait - 1) != 0)
            return false;
    return true;
}

int nvrtcCreateProgram(void **program, const char *text, const char *name, int nheaders,
                       const char *const *headers, const char *const *names)
{
    struct program *p;

    (void)names;
    FAKE_CALL();
    if (!nheaders)
        return FAKE_INVALID;
    p = fake_new(FAKE_PROGRAM, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", name);
    p->bad = strstr(text, "#error") != NULL;
    p->waits = fake_waits(text);
    for (int i = 0; i < nheaders; i++) /* some have the entry of a text that includes them */
        p->waits &= fake_waits(headers[i]);
    *program = p;
    return 0;
}

int nvrtcDestroyProgram(void **program)
{
    int code = fake_enter(__func__);

    fake_forget(fake_check(*program, FAKE_PROGRAM));
    free(*program);
    *program = NULL;
    return code;
}

int nvrtcCompileProgram(void *program, int noptions, const char *const *options)
{
    const struct program *p;
    char arch[40];

    FAKE_CALL();
    p = fake_check(program, FAKE_PROGRAM);
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d0%s", fake_major(),
             fake_major() == 9 ? "a" : "");
    if (!noptions || strcmp(options[0], arch))
        return FAKE_INVALID;
    return p->bad ? 6 : 0;
}

int nvrtcGetCUBINSize(void *program, size_t *size)
{
    FAKE_CALL();
    *size = 8 + strlen(((struct program *)fake_check(program, FAKE_PROGRAM))->name);
    return 0;
}

int nvrtcGetCUBIN(void *program, char *bytes)
{
    const struct program *p;

    FAKE_CALL();
    p = fake_check(program, FAKE_PROGRAM);
    sprintf(bytes, "fake %c %s", p->waits ? 'w' : '-', p->name);
    return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *size)
{
    (void)program;
    FAKE_CALL();
    *size = sizeof complaint;
    return 0;
}

int nvrtcGetProgramLog(void *program, char *text)
{
    (void)program;
    FAKE_CALL();
    memcpy(text, complaint, sizeof complaint);
    return 0;
}
