#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static weir_status too_large(const char *path, size_t most, const char *kind)
{
    return weir__fail(WEIR_EPARSE, "%s is larger than %s, which no %s is", path,
                      weir__size(most).text, kind);
}

static weir_status read_all(FILE *file, const char *path, size_t most, const char *kind,
                            char **data, size_t *size)
{
    struct stat about;
    size_t cap = (size_t)1 << 16, n;
    char *bigger;

    if (!fstat(fileno(file), &about) && S_ISREG(about.st_mode) && about.st_size > 0) {
        if ((size_t)about.st_size > most)
            return too_large(path, most, kind);
        cap = (size_t)about.st_size + 1;
    }
    *size = 0;
    if (!(*data = weir__malloc(cap)))
        return weir__fail(WEIR_ENOMEM, "%s", path);
    while ((n = fread(*data + *size, 1, cap - *size, file)) > 0) {
        if ((*size += n) < cap)
            continue;
        if (cap >= most)
            return too_large(path, most, kind);
        if (!(bigger = weir__malloc(2 * cap)))
            return weir__fail(WEIR_ENOMEM, "%s: %s of it are read", path, weir__size(*size).text);
        memcpy(bigger, *data, *size);
        weir__free(*data);
        *data = bigger;
        cap *= 2;
    }
    if (ferror(file))
        return weir__fail(WEIR_EIO, "%s: %s", path, strerror(errno));
    return WEIR_OK;
}

weir_status weir__file_read(const char *path, size_t most, const char *kind, char **data,
                            size_t *size)
{
    FILE *file = fopen(path, "rb");
    weir_status st;

    *data = NULL;
    if (!file)
        return weir__fail(WEIR_EIO, "%s: %s", path, strerror(errno));
    st = read_all(file, path, most, kind, data, size);
    fclose(file);
    return st;
}
