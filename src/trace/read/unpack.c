/* Unpacks compressed profiles: gzip with zlib, zstd with libzstd. Each library is opened when the
 * first such file is read, so weir does not depend on them otherwise. */
#include "trace/read/unpack.h"

#include <dlfcn.h>
#include <string.h>

/* Larger than any profile; a bound, so that a small malicious file cannot use up all memory. */
#define MOST ((size_t)1 << 36)

struct unpacked {
    const char *path;
    char *data;
    size_t size, cap;
};

static weir_status make_room(struct unpacked *u)
{
    size_t cap = u->cap ? 2 * u->cap : (size_t)1 << 20;
    char *bigger;

    if (u->size < u->cap)
        return WEIR_OK;
    if (cap > MOST)
        return weir__fail(WEIR_EPARSE, "%s unpacks to more than %s, the most for a trace", u->path,
                          weir__size(MOST).text);
    if (!(bigger = weir__malloc(cap)))
        return weir__fail_nomem("unpacking %s, of which %s are unpacked", u->path,
                                weir__size(u->size).text);
    if (u->size)
        memcpy(bigger, u->data, u->size);
    weir__free(u->data);
    u->data = bigger;
    u->cap = cap;
    return WEIR_OK;
}

static void *open_library(const char *name, const char *path, const char *tool)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        weir__fail(WEIR_EUNSUPPORTED, "%s is compressed and %s is not installed: %s it first", path,
                   name, tool);
    return library;
}

static weir_status damaged(const char *path, const char *why)
{
    return weir__fail(WEIR_EPARSE, "%s cannot be unpacked: %s", path, why);
}

/* ---- gzip ---- */

/* zlib's struct, whose layout has not changed since 1.0. */
struct z_stream {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state, *zalloc, *zfree, *opaque;
    int data_type;
    unsigned long adler, reserved;
};

struct zlib {
    int (*init)(struct z_stream *z, int window, const char *version, int size);
    int (*inflate)(struct z_stream *z, int flush);
    int (*reset)(struct z_stream *z);
    int (*end)(struct z_stream *z);
};

enum { Z_WINDOW = 15 + 16 /* gzip alone */, Z_NO_FLUSH = 0, Z_STREAM_END = 1, Z_PIECE = 1 << 30 };

static weir_status inflate_all(const struct zlib *lib, struct z_stream *z, const char *packed,
                               size_t size, struct unpacked *u)
{
    size_t fed = 0;
    weir_status st;

    for (;;) {
        size_t room;
        int code;

        if ((st = make_room(u)))
            return st;
        if (!z->avail_in && fed < size) {
            z->next_in = (const unsigned char *)packed + fed;
            z->avail_in = size - fed < Z_PIECE ? (unsigned)(size - fed) : Z_PIECE;
            fed += z->avail_in;
        }
        room = u->cap - u->size < Z_PIECE ? u->cap - u->size : Z_PIECE;
        z->next_out = (unsigned char *)u->data + u->size;
        z->avail_out = (unsigned)room;
        code = lib->inflate(z, Z_NO_FLUSH);
        u->size += room - z->avail_out;
        if (code == Z_STREAM_END) {
            if (!z->avail_in && fed == size)
                return WEIR_OK;
            if (lib->reset(z)) /* concatenated gzip files */
                return damaged(u->path, "zlib cannot go on");
        } else if (code) {
            return damaged(u->path, z->msg                        ? z->msg
                                    : !z->avail_in && fed == size ? "the file is cut off"
                                                                  : "zlib cannot go on");
        }
    }
}

static weir_status gunzip(const char *packed, size_t size, struct unpacked *u)
{
    void *library = open_library("libz.so.1", u->path, "gunzip");
    struct z_stream z = {0};
    struct zlib lib;
    weir_status st;

    if (!library)
        return weir__last_status();
    *(void **)&lib.init = dlsym(library, "inflateInit2_");
    *(void **)&lib.inflate = dlsym(library, "inflate");
    *(void **)&lib.reset = dlsym(library, "inflateReset");
    *(void **)&lib.end = dlsym(library, "inflateEnd");
    if (!lib.init || !lib.inflate || !lib.reset || !lib.end ||
        lib.init(&z, Z_WINDOW, "1.2.0", (int)sizeof z)) {
        st = weir__fail(WEIR_EUNSUPPORTED, "%s is compressed and libz.so.1 is not zlib's", u->path);
    } else {
        st = inflate_all(&lib, &z, packed, size, u);
        lib.end(&z);
    }
    dlclose(library);
    return st;
}

/* ---- zstd ---- */

struct zstd_in {
    const void *data;
    size_t size, at;
};

struct zstd_out {
    void *data;
    size_t size, at;
};

struct zstd {
    void *(*create)(void);
    size_t (*free)(void *stream);
    size_t (*decompress)(void *stream, struct zstd_out *out, struct zstd_in *in);
    unsigned (*is_error)(size_t code);
    const char *(*error_name)(size_t code);
};

static weir_status unzstd_all(const struct zstd *lib, void *stream, const char *packed, size_t size,
                              struct unpacked *u)
{
    struct zstd_in in = {packed, size, 0};
    size_t left = 1; /* bytes of the frame that libzstd still expects; 0 at its end */
    weir_status st;

    while (in.at < in.size || left) {
        struct zstd_out out;
        size_t before = in.at;

        if ((st = make_room(u)))
            return st;
        out = (struct zstd_out){u->data + u->size, u->cap - u->size, 0};
        left = lib->decompress(stream, &out, &in);
        if (lib->is_error(left))
            return damaged(u->path, lib->error_name(left));
        u->size += out.at;
        if (left && in.at == in.size && before == in.at && out.at < out.size)
            return damaged(u->path, "the file is cut off");
    }
    return WEIR_OK;
}

static weir_status unzstd(const char *packed, size_t size, struct unpacked *u)
{
    void *library = open_library("libzstd.so.1", u->path, "unzstd"), *stream = NULL;
    struct zstd lib;
    weir_status st;

    if (!library)
        return weir__last_status();
    *(void **)&lib.create = dlsym(library, "ZSTD_createDStream");
    *(void **)&lib.free = dlsym(library, "ZSTD_freeDStream");
    *(void **)&lib.decompress = dlsym(library, "ZSTD_decompressStream");
    *(void **)&lib.is_error = dlsym(library, "ZSTD_isError");
    *(void **)&lib.error_name = dlsym(library, "ZSTD_getErrorName");
    if (!lib.create || !lib.free || !lib.decompress || !lib.is_error || !lib.error_name)
        st = weir__fail(WEIR_EUNSUPPORTED, "%s is compressed and libzstd.so.1 is too old", u->path);
    else if (!(stream = lib.create()))
        st = weir__fail_nomem("unpacking %s", u->path);
    else
        st = unzstd_all(&lib, stream, packed, size, u);
    if (stream)
        lib.free(stream);
    dlclose(library);
    return st;
}

/* ---- either ---- */

static bool begins_with(const char *data, size_t size, const char *magic, size_t n)
{
    return size >= n && !memcmp(data, magic, n);
}

weir_status weir__trace_unpack(const char *path, const char *data, size_t size, char **out,
                               size_t *out_size)
{
    struct unpacked u = {.path = path};
    weir_status st = WEIR_OK;

    *out = NULL;
    if (begins_with(data, size, "\x1f\x8b", 2))
        st = gunzip(data, size, &u);
    else if (begins_with(data, size, "\x28\xb5\x2f\xfd", 4))
        st = unzstd(data, size, &u);
    if (st) {
        weir__free(u.data);
        return st;
    }
    if ((*out = u.data))
        *out_size = u.size;
    return WEIR_OK;
}
