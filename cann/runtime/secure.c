/* The bounded string functions that TorchAir's and MindSpore's libraries use from CANN. The second
 * argument is the size of the destination. */
#include "runtime/runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int vsnprintf_s(char *dest, size_t room, size_t count, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
int snprintf_s(char *dest, size_t room, size_t count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int sprintf_s(char *dest, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int strcpy_s(char *dest, size_t room, const char *src);
int strncpy_s(char *dest, size_t room, const char *src, size_t count);
int strcat_s(char *dest, size_t room, const char *src);
int memcpy_s(void *dest, size_t room, const void *src, size_t count);
int memmove_s(void *dest, size_t room, const void *src, size_t count);
int memset_s(void *dest, size_t room, int value, size_t count);

/* Truncates the text to `count` characters; returns -1 if it was truncated. */
EXPORT int vsnprintf_s(char *dest, size_t room, size_t count, const char *format, va_list args)
{
    size_t size = count < room ? count + 1 : room;
    int n;

    if (!dest || !format || !room)
        return -1;
    n = vsnprintf(dest, size, format, args);
    if (n >= 0 && (size_t)n < size)
        return n;
    dest[n < 0 ? 0 : size - 1] = 0;
    return -1;
}

EXPORT int snprintf_s(char *dest, size_t room, size_t count, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf_s(dest, room, count, format, args);
    va_end(args);
    return n;
}

EXPORT int sprintf_s(char *dest, size_t room, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf_s(dest, room, room, format, args);
    va_end(args);
    return n;
}

EXPORT int memcpy_s(void *dest, size_t room, const void *src, size_t count)
{
    if (!dest || !src)
        return EINVAL;
    if (count > room)
        return ERANGE;
    memcpy(dest, src, count);
    return 0;
}

EXPORT int memmove_s(void *dest, size_t room, const void *src, size_t count)
{
    if (!dest || !src)
        return EINVAL;
    if (count > room)
        return ERANGE;
    memmove(dest, src, count);
    return 0;
}

EXPORT int memset_s(void *dest, size_t room, int value, size_t count)
{
    if (!dest)
        return EINVAL;
    if (count > room)
        return ERANGE;
    memset(dest, value, count);
    return 0;
}

EXPORT int strncpy_s(char *dest, size_t room, const char *src, size_t count)
{
    size_t n;

    if (!dest || !src || !room)
        return EINVAL;
    n = strnlen(src, count);
    if (n >= room) {
        dest[0] = 0;
        return ERANGE;
    }
    memcpy(dest, src, n);
    dest[n] = 0;
    return 0;
}

EXPORT int strcpy_s(char *dest, size_t room, const char *src)
{
    return strncpy_s(dest, room, src, room);
}

EXPORT int strcat_s(char *dest, size_t room, const char *src)
{
    size_t n = dest ? strnlen(dest, room) : room;

    return n >= room ? EINVAL : strncpy_s(dest + n, room - n, src, room);
}
