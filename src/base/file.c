#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static weir_status too_large(const char *path, size_t most, const char *kind)
{
    return weir__fail(WEIR_EPARSE, "%s is larger than %s, the most for a %s", path,
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
        return weir__fail_nomem("reading %s", path);
    while ((n = fread(*data + *size, 1, cap - *size, file)) > 0) {
        if ((*size += n) < cap)
            continue;
        if (cap >= most)
            return too_large(path, most, kind);
        if (!(bigger = weir__malloc(2 * cap)))
            return weir__fail_nomem("reading %s, of which %s are read", path,
                                    weir__size(*size).text);
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

/* ---- writing ---- */

/* Creates and opens a new file beside `path`; *draft is its name. Returns -1 with errno on
 * failure. */
static int open_draft(const char *path, char **draft)
{
    static atomic_uint number;
    size_t size = strlen(path) + 48;
    int file;

    if (!(*draft = weir__malloc(size))) {
        errno = ENOMEM;
        return -1;
    }
    do {
        snprintf(*draft, size, "%s.%ld.%u.part", path, (long)getpid(),
                 atomic_fetch_add(&number, 1));
        file = open(*draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file < 0 && errno == EEXIST);
    if (file < 0) {
        int error = errno;

        weir__free(*draft);
        *draft = NULL;
        errno = error;
    }
    return file;
}

/* Runs `body` and flushes. Returns the first errno of a failure; 0 if everything was written. */
static int fill(FILE *out, weir_status (*body)(FILE *out, const void *user), const void *user,
                weir_status *st)
{
    int error = 0;

    errno = 0;
    *st = body(out, user);
    if (ferror(out) || (!*st && fflush(out)))
        error = errno ? errno : EIO;
    return error;
}

/* Writes pipes and devices directly. */
static weir_status write_in_place(const char *path, int file,
                                  weir_status (*body)(FILE *out, const void *user),
                                  const void *user)
{
    FILE *out = fdopen(file, "w");
    weir_status st = WEIR_OK;
    int error;

    if (!out) {
        error = errno;
        close(file);
        return weir__fail(WEIR_EIO, "cannot write '%s': %s", path, strerror(error));
    }
    error = fill(out, body, user, &st);
    if (fclose(out) && !error)
        error = errno;
    return st || !error ? st : weir__fail(WEIR_EIO, "cannot write '%s': %s", path, strerror(error));
}

/* Syncs the directory, so that the renamed entry is on disk too. Failures are ignored. */
static void sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *directory = weir__strdup(slash ? path : ".");
    int file;

    if (!directory)
        return;
    if (slash)
        directory[slash == path ? 1 : slash - path] = 0;
    if ((file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
        (void)fsync(file);
        close(file);
    }
    weir__free(directory);
}

static weir_status write_beside(const char *path, int file, const char *draft,
                                const struct stat *old,
                                weir_status (*body)(FILE *out, const void *user), const void *user)
{
    FILE *out = fdopen(file, "w");
    weir_status st = WEIR_OK;
    int error = out ? 0 : errno;

    if (out) {
        if (old)
            (void)fchmod(file, old->st_mode & 07777);
        error = fill(out, body, user, &st);
        if (!st && !error && fsync(file) && errno != EINVAL && errno != EROFS)
            error = errno;
        if (fclose(out) && !error)
            error = errno;
    } else {
        close(file);
    }
    if (!st && !error && rename(draft, path))
        error = errno;
    if (st || error)
        (void)unlink(draft);
    else
        sync_directory(path);
    return st || !error ? st : weir__fail(WEIR_EIO, "cannot write '%s': %s", path, strerror(error));
}

weir_status weir__file_write(const char *path, weir_status (*body)(FILE *out, const void *user),
                             const void *user)
{
    char *target = realpath(path, NULL), *draft; /* a link is kept and its target is replaced */
    const char *to = target ? target : path;
    struct stat old;
    bool exists = !stat(to, &old);
    weir_status st;
    int file;

    if (exists && !S_ISREG(old.st_mode)) {
        file = open(to, O_WRONLY | O_CLOEXEC);
    } else if (exists && access(to, W_OK)) {
        file = -1; /* do not replace a file that this user may not write */
    } else if ((file = open_draft(to, &draft)) >= 0) {
        st = write_beside(to, file, draft, exists ? &old : NULL, body, user);
        weir__free(draft);
        free(target);
        return st;
    } else if (exists && (errno == EACCES || errno == EPERM)) {
        file = open(to, O_WRONLY | O_TRUNC | O_CLOEXEC); /* no new files allowed in this folder */
    }
    st = file < 0 ? weir__fail(WEIR_EIO, "cannot write '%s': %s", path, strerror(errno))
                  : write_in_place(to, file, body, user);
    free(target);
    return st;
}

static weir_status put_text(FILE *out, const void *text)
{
    (void)fputs(text, out); /* the caller checks ferror */
    return WEIR_OK;
}

weir_status weir__file_write_text(const char *path, const char *text)
{
    return weir__file_write(path, put_text, text);
}

weir_status weir__file_check_writable(const char *path)
{
    char *draft;
    int file;

    if (!access(path, F_OK)) {
        if (!access(path, W_OK))
            return WEIR_OK;
    } else if ((file = open_draft(path, &draft)) >= 0) {
        (void)unlink(draft);
        close(file);
        weir__free(draft);
        return WEIR_OK;
    }
    return weir__fail(WEIR_EIO, "cannot write '%s': %s", path, strerror(errno));
}
