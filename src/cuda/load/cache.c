/* The cache on disk: compiled kernels, and the algorithms chosen for products. */
#include "cuda/load/cache.h"
#include "cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"

uint64_t weir__cuda_hash(uint64_t h, const void *bytes, size_t size)
{
    for (const unsigned char *b = bytes, *end = b + size; b < end; b++)
        h = (h ^ *b) * 0x100000001b3;
    return h;
}

/* Finds $WEIR_CACHE_DIR, or weir/ in the user's cache directory, and creates it if needed. False if
 * there is none. */
static bool cache_directory(char *path, size_t size)
{
    const char *own = getenv("WEIR_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n;

    if (own)
        n = snprintf(path, size, "%s", own);
    else if (cache && *cache)
        n = snprintf(path, size, "%s/weir", cache);
    else if (home && *home) {
        n = snprintf(path, size, "%s/.cache", home);
        if (n > 0 && (size_t)n < size)
            (void)mkdir(path, 0700);
        n = snprintf(path, size, "%s/.cache/weir", home);
    } else {
        return false;
    }
    if (n <= 0 || (size_t)n >= size)
        return false;
    return !mkdir(path, 0700) || errno == EEXIST;
}

static bool path_of(const char *name, char *path, size_t size)
{
    char directory[400];

    return cache_directory(directory, sizeof directory) &&
           snprintf(path, size, "%s/%s", directory, name) < (int)size;
}

char *weir__cuda_cache_read(const char *name, size_t *size)
{
    char path[700], *bytes = NULL;
    FILE *f;
    long n;

    *size = 0;
    if (!path_of(name, path, sizeof path) || !(f = fopen(path, "rb")))
        return NULL;
    if (!fseek(f, 0, SEEK_END) && (n = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET) &&
        (bytes = weir__malloc((size_t)n)) && fread(bytes, 1, (size_t)n, f) != (size_t)n) {
        weir__free(bytes);
        bytes = NULL;
    }
    if (bytes)
        *size = (size_t)n;
    fclose(f);
    return bytes;
}

struct entry {
    const void *bytes;
    size_t size;
};

static weir_status put_entry(FILE *out, const void *user)
{
    const struct entry *e = user;

    (void)fwrite(e->bytes, 1, e->size, out); /* errors are checked when the file is closed */
    return WEIR_OK;
}

/* Writes the file atomically, because other processes may write it at the same time. A failure is
 * only logged: without the cache weir works, but slower. */
void weir__cuda_cache_write(const char *name, const void *bytes, size_t size)
{
    struct entry entry = {bytes, size};
    char path[700];

    if (path_of(name, path, sizeof path) && weir__file_write(path, put_entry, &entry))
        weir__log(WEIR_LOG_INFO, "cache of kernels: %s", weir_last_error());
}
