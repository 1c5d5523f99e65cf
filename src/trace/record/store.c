/* A trace in memory. */
#include "trace/record/store.h"
#include "base/sized.h"

#include <string.h>

enum { CHUNK = 16 << 10 };

struct weir__trace_chunk {
    struct weir__trace_chunk *next;
    size_t cap;
    char bytes[];
};

const char *weir__trace_keep(struct weir__trace_texts *texts, const char *text, size_t size)
{
    struct weir__trace_chunk *c = texts->chunks;
    size_t cap = size < CHUNK ? CHUNK : size + 1;
    char *copy;

    if (!size)
        return "";
    if (texts->left < size + 1) {
        if (!(c = weir__malloc(sizeof *c + cap))) {
            weir__fail_nomem("allocating the texts of a trace");
            return NULL;
        }
        *c = (struct weir__trace_chunk){texts->chunks, cap};
        texts->chunks = c;
        texts->left = cap;
    }
    copy = c->bytes + c->cap - texts->left;
    texts->left -= size + 1;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

void weir_trace_free(weir_trace *t)
{
    if (!t)
        return;
    while (t->texts.chunks) {
        struct weir__trace_chunk *c = t->texts.chunks;

        t->texts.chunks = c->next;
        weir__free(c);
    }
    weir__free(t->devices);
    weir__free(t->streams);
    weir__free(t->ops);
    weir__free(t->parts);
    weir__free(t->waits);
    weir__free(t->memory);
    weir__free(t);
    weir__allocator_hold(-1);
}

void weir_trace_get(const weir_trace *t, weir_trace_data *out, size_t size)
{
    if (!t || !out)
        return;

    weir_trace_data data = {
        .devices = t->devices,
        .streams = t->streams,
        .ops = t->ops,
        .parts = t->parts,
        .waits = t->waits,
        .memory = t->memory,
        .ndevices = (size_t)t->ndevices,
        .nstreams = (size_t)t->nstreams,
        .nops = (size_t)t->nops,
        .nparts = (size_t)t->nparts,
        .nwaits = (size_t)t->nwaits,
        .nmemory = (size_t)t->nmemory,
        .dropped = t->dropped,
    };

    weir__sized_give(out, size, &data, sizeof data);
}
