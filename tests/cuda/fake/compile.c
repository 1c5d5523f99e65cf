/* The compiler: an image is the text's name. A text with #error in it does not compile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const char complaint[] = "error: #error directive";

struct program {
    struct fake_object object;
    char name[64];
    bool bad;
};

int nvrtcVersion(int *major, int *minor)
{
    FAKE_CALL();
    *major = *minor = 0;
    return 0;
}

int nvrtcCreateProgram(void **program, const char *text, const char *name, int nheaders,
                       const char *const *headers, const char *const *names)
{
    struct program *p;

    (void)headers;
    (void)names;
    FAKE_CALL();
    if (!nheaders)
        return FAKE_INVALID;
    p = fake_new(FAKE_PROGRAM, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", name);
    p->bad = strstr(text, "#error") != NULL;
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

    FAKE_CALL();
    p = fake_check(program, FAKE_PROGRAM);
    if (!noptions || strcmp(options[0], "--gpu-architecture=sm_90a"))
        return FAKE_INVALID;
    return p->bad ? 6 : 0;
}

int nvrtcGetCUBINSize(void *program, size_t *size)
{
    FAKE_CALL();
    *size = 6 + strlen(((struct program *)fake_check(program, FAKE_PROGRAM))->name);
    return 0;
}

int nvrtcGetCUBIN(void *program, char *bytes)
{
    FAKE_CALL();
    sprintf(bytes, "fake %s", ((struct program *)fake_check(program, FAKE_PROGRAM))->name);
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
