#include "graph/file/pbtxt_source.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FEW = 2 }; /* number of pieces up to which none is dropped */

struct weir__pb_source {
    const char *path;
    int file;
    char *data; /* mapping as large as the file; pages are allocated as pieces are read */
    size_t size;
    int npieces, nthere;
    struct piece {
        bool there, known;
        uint64_t sum; /* checksum of its bytes, if `known` */
    } pieces[];
};

weir_status weir__pb_source_open(const char *path, size_t least, size_t most,
                                 struct weir__pb_source **out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct weir__pb_source *s;
    struct stat about;
    size_t n;

    *out = NULL;
    if (file < 0 || fstat(file, &about) || !S_ISREG(about.st_mode) ||
        about.st_size < (off_t)least) {
        if (file >= 0)
            close(file);
        return WEIR_OK;
    }
    if (about.st_size > (off_t)most) {
        close(file);
        return weir__fail(WEIR_EPARSE, "%s is larger than %s, the most for a graph file", path,
                          weir__size(most).text);
    }
    n = ((size_t)about.st_size + WEIR__PB_PIECE - 1) / WEIR__PB_PIECE;
    if (!(s = weir__calloc(1, sizeof *s + n * sizeof *s->pieces)) ||
        !(s->data = weir__malloc((size_t)about.st_size + 1))) {
        weir__free(s);
        close(file);
        return weir__fail_nomem("reading %s", path);
    }
    s->path = path;
    s->file = file;
    s->size = (size_t)about.st_size;
    s->npieces = (int)n;
    *out = s;
    return WEIR_OK;
}

void weir__pb_source_close(struct weir__pb_source *s)
{
    if (!s)
        return;
    close(s->file);
    weir__free(s->data);
    weir__free(s);
}

const char *weir__pb_source_data(const struct weir__pb_source *s)
{
    return s->data;
}

size_t weir__pb_source_size(const struct weir__pb_source *s)
{
    return s->size;
}

static uint64_t sum_of(const char *data, size_t size)
{
    uint64_t h = size, word;

    for (size_t i = 0; i < size; i += sizeof word) {
        word = 0;
        memcpy(&word, data + i, size - i < sizeof word ? size - i : sizeof word);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return h;
}

static size_t piece_end(const struct weir__pb_source *s, int piece)
{
    size_t end = ((size_t)piece + 1) * WEIR__PB_PIECE;

    return end < s->size ? end : s->size;
}

static weir_status bring(struct weir__pb_source *s, int piece)
{
    size_t begin = (size_t)piece * WEIR__PB_PIECE, end = piece_end(s, piece);
    struct piece *p = &s->pieces[piece];
    uint64_t sum;

    for (size_t at = begin; at < end;) {
        ssize_t n = pread(s->file, s->data + at, end - at, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return weir__fail(WEIR_EIO, "%s: %s", s->path, strerror(errno));
        if (!n)
            break;
        at += (size_t)n;
        if (at == end) {
            sum = sum_of(s->data + begin, end - begin);
            if (p->known && sum != p->sum)
                break;
            p->sum = sum;
            p->known = p->there = true;
            s->nthere++;
            return WEIR_OK;
        }
    }
    return weir__fail(WEIR_EIO, "%s was changed while it was read", s->path);
}

weir_status weir__pb_source_need(struct weir__pb_source *s, size_t from, size_t to)
{
    weir_status st;

    if (!s || from >= to)
        return WEIR_OK;
    for (int i = (int)(from / WEIR__PB_PIECE); i < s->npieces && (size_t)i * WEIR__PB_PIECE < to;
         i++)
        if (!s->pieces[i].there && (st = bring(s, i)))
            return st;
    return WEIR_OK;
}

/* Returns the pages that only this piece uses to the system. */
static void drop(struct weir__pb_source *s, int piece)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)s->data + (size_t)piece * WEIR__PB_PIECE;
    uintptr_t last = (uintptr_t)s->data + piece_end(s, piece);

    first = (first + page - 1) & ~(page - 1);
    last &= ~(page - 1);
    if (first < last)
        madvise((void *)first, last - first, MADV_DONTNEED);
    s->pieces[piece].there = false;
    s->nthere--;
}

void weir__pb_source_tidy(const struct weir__pb_source *s)
{
#ifdef __GLIBC__
    if (s)
        malloc_trim(0);
#else
    (void)s;
#endif
}

void weir__pb_source_keep(struct weir__pb_source *s, size_t from, size_t to)
{
    if (!s || s->nthere <= FEW)
        return;
    for (int i = 0; i < s->npieces; i++)
        if (s->pieces[i].there && (piece_end(s, i) <= from || (size_t)i * WEIR__PB_PIECE >= to))
            drop(s, i);
}
