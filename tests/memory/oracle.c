#include "oracle.h"

#include <stdlib.h>

#include "harness/test.h"

static bool has(const struct oracle_set *s, unsigned command)
{
    return s->bits[command / 64] >> command % 64 & 1;
}

static void add(struct oracle_set *s, unsigned command)
{
    s->bits[command / 64] |= UINT64_C(1) << command % 64;
}

void oracle_unite(struct oracle_set *into, const struct oracle_set *set)
{
    for (unsigned i = 0; i < ORACLE_COMMANDS / 64; i++)
        into->bits[i] |= set->bits[i];
}

bool oracle_within(const struct oracle_set *set, const struct oracle_set *whole)
{
    for (unsigned i = 0; i < ORACLE_COMMANDS / 64; i++)
        if (set->bits[i] & ~whole->bits[i])
            return false;
    return true;
}

void oracle_fini(struct oracle *o)
{
    while (o->buffers) {
        struct oracle_buffer *b = o->buffers;

        o->buffers = b->next;
        free(b);
    }
}

unsigned oracle_command(struct oracle *o, int stream)
{
    CHECK_LT(o->ncommands, ORACLE_COMMANDS);
    add(&o->after[stream], o->ncommands);
    return o->ncommands++;
}

void oracle_use(struct oracle *o, struct oracle_buffer *b, unsigned command)
{
    (void)o;
    CHECK_LT(b->nuses, ORACLE_USES);
    b->uses[b->nuses++] = command;
}

void oracle_host_sync(struct oracle *o, int stream)
{
    for (int i = 0; i < ORACLE_STREAMS; i++)
        if (stream < 0 || i == stream)
            oracle_unite(&o->known, &o->after[i]);
    for (unsigned c = 0; c < o->ncommands; c++)
        if (has(&o->known, c) && !atomic_load(&o->over[c]))
            FAIL("command %u is not over, but the host waited for it", c);
}

static bool touches(const struct oracle_buffer *b, const char *address, size_t size)
{
    return b->address < address + size && address < b->address + b->size;
}

/* The stream comes after every use of these bytes. */
static void order_after_bytes(struct oracle *o, int stream, const char *address, size_t size)
{
    for (const struct oracle_buffer *b = o->buffers; b; b = b->next)
        if (touches(b, address, size))
            for (unsigned i = 0; i < b->nuses; i++)
                add(&o->after[stream], b->uses[i]);
}

/* Looks at one earlier use of bytes that `b` got. */
static void check_use(struct oracle *o, struct oracle_buffer *b, const struct oracle_buffer *old,
                      unsigned command)
{
    if (has(&o->known, command))
        return;
    add(&b->before, command);
    if (!has(&o->after[b->stream], command) && !atomic_load(&o->over[command]))
        FAIL("buffer %llu on stream %d got bytes of buffer %llu of stream %d, whose use by command "
             "%u is neither over nor ordered before it",
             (unsigned long long)b->id, b->stream, (unsigned long long)old->id, old->stream,
             command);
}

struct oracle_buffer *oracle_alloc(struct oracle *o, weir_buffer *handle, int stream, size_t waited)
{
    struct oracle_buffer *b = calloc(1, sizeof *b);

    CHECK(b);
    b->id = ++o->nbuffers;
    b->handle = handle;
    b->address = weir_buffer_data(handle);
    b->size = weir_buffer_size(handle);
    b->stream = stream;
    CHECK_EQ((uintptr_t)b->address % 64, 0);
    order_after_bytes(o, stream, b->address, waited);
    for (struct oracle_buffer *old = o->buffers; old; old = old->next) {
        if (!touches(old, b->address, b->size))
            continue;
        if (old->handle)
            FAIL("buffer %llu got bytes of buffer %llu, which is still held",
                 (unsigned long long)b->id, (unsigned long long)old->id);
        for (unsigned i = 0; i < old->nuses; i++)
            check_use(o, b, old, old->uses[i]);
    }
    b->born = o->after[stream];
    b->next = o->buffers;
    o->buffers = b;
    o->nlive++;
    return b;
}

void oracle_free(struct oracle *o, struct oracle_buffer *b)
{
    b->handle = NULL;
    o->nlive--;
}

bool oracle_bytes_are_free(const struct oracle *o, const struct oracle_buffer *b)
{
    for (unsigned c = 0; c < ORACLE_COMMANDS; c++)
        if (has(&b->before, c) && !atomic_load(&o->over[c]))
            return false;
    return true;
}

/* ---- the pool's own account ---- */

static void check_live(const struct oracle *o, const weir_block_info *rows, size_t n)
{
    int allocated = 0;

    for (size_t i = 0; i < n; i++)
        allocated += rows[i].state == WEIR_BLOCK_ALLOCATED;
    CHECK_EQ(allocated, o->nlive);
    for (const struct oracle_buffer *b = o->buffers; b; b = b->next) {
        size_t i = 0;

        if (!b->handle)
            continue;
        while (i < n && rows[i].address != (uintptr_t)b->address)
            i++;
        CHECK_LT(i, n);
        CHECK_EQ(rows[i].state, WEIR_BLOCK_ALLOCATED);
        CHECK_GE(rows[i].size, b->size);
    }
}

void oracle_check_blocks(const struct oracle *o, weir_device *dev)
{
    enum { ROWS = 4096 };
    static weir_block_info rows[ROWS];
    size_t bytes[3] = {0}, segments = 0, reserved = 0,
           n = weir_memory_get_blocks(dev, rows, sizeof *rows, ROWS);
    weir_memory_stats stats;

    CHECK_LE(n, ROWS);
    weir_memory_get_stats(dev, &stats, sizeof stats);
    for (size_t i = 0; i < n; i++) {
        const weir_block_info *row = &rows[i], *last = i ? &rows[i - 1] : NULL;

        if (!last || last->segment != row->segment) {
            CHECK_EQ(row->address, row->segment);
            if (last)
                CHECK_EQ(last->address + last->size, last->segment + last->segment_size);
            segments++;
            reserved += row->segment_size;
        } else {
            CHECK_EQ(row->address, last->address + last->size);
        }
        CHECK_GT(row->size, 0);
        bytes[row->state] += row->size;
    }
    if (n)
        CHECK_EQ(rows[n - 1].address + rows[n - 1].size,
                 rows[n - 1].segment + rows[n - 1].segment_size);
    CHECK_EQ(stats.segments, segments);
    CHECK_EQ(stats.blocks, n);
    CHECK_EQ(stats.reserved, reserved);
    CHECK_EQ(stats.allocated, bytes[WEIR_BLOCK_ALLOCATED]);
    CHECK_EQ(stats.pending, bytes[WEIR_BLOCK_PENDING]);
    CHECK_EQ(stats.idle, bytes[WEIR_BLOCK_IDLE]);
    CHECK_EQ(stats.reserved, stats.allocated + stats.pending + stats.idle);
    check_live(o, rows, n);
}
