/* Status codes, their texts and the thread's last error. */
#include "base/base.h"

#include <stdio.h>

static _Thread_local char last_error[4096];
static _Thread_local weir_status last_status;
static _Thread_local bool said; /* last_error was set after weir__hush */

static const struct {
    const char *name, *text;
} statuses[WEIR_STATUS_COUNT] = {
#define ROW(code, text) [WEIR_##code] = {"WEIR_" #code, text},
    WEIR_STATUS_LIST(ROW)
#undef ROW
};

const char *weir_status_name(weir_status status)
{
    return (unsigned)status < WEIR_STATUS_COUNT ? statuses[status].name : "WEIR_E?";
}

const char *weir_status_text(weir_status status)
{
    return (unsigned)status < WEIR_STATUS_COUNT ? statuses[status].text : "unknown status";
}

const char *weir_last_error(void)
{
    return last_error;
}

weir_status weir__need(const void *object, const char *what)
{
    return object ? WEIR_OK
                  : weir__fail(WEIR_EINVAL, "%s is NULL; check the call that creates it", what);
}

weir_status weir__last_status(void)
{
    return last_status;
}

void weir__hush(void)
{
    said = false;
}

const char *weir__said(void)
{
    return said && *last_error ? last_error : NULL;
}

const char *weir_version(void)
{
    return WEIR_VERSION;
}

static weir_status fail(weir_status status, const char *before, const char *format, va_list args)
{
    /* Format into another buffer: the old text may be an argument of the new one. */
    char text[sizeof last_error];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", before);

    vsnprintf(text + n, sizeof text - n, format, args);
    /* Replace control characters: names may come from files, and a terminal would interpret
     * them. */
    for (char *c = text; *c; c++)
        if (((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f)
            *c = '?';
    snprintf(last_error, sizeof last_error, "%s", text);
    last_status = status;
    said = true;
    weir__log(WEIR_LOG_DEBUG, "%s: %s", weir_status_name(status), last_error);
    return status;
}

weir_status weir__fail(weir_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail(status, "", format, args);
    va_end(args);
    return status;
}

weir_status weir__fail_nomem(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail(WEIR_ENOMEM, "out of host memory: ", format, args);
    va_end(args);
    return WEIR_ENOMEM;
}
