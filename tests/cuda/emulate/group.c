/* Barriers that some of the threads come to: named ones, and those in shared memory, for which
 * whole tiles count that the GPU fetches. A tile comes when no thread can go on without one. */
#include <stdlib.h>
#include <string.h>

#include "emu.h"

struct emu_tile_copy {
    struct emu_tile_copy *next;
    struct emu_tile_map map;
    uint32_t to;
    int at[3];
    struct emu_barrier *full;
    int thread; /* that asked for it, with what it knew */
    uint32_t *clock;
};

static uint32_t *new_clock(void)
{
    uint32_t *clock = calloc(EMU_THREADS, sizeof *clock);

    if (!clock)
        abort();
    return clock;
}

static void reset(struct emu_barrier *b)
{
    if (!b->gathers) {
        b->gathers = new_clock();
        b->gave = new_clock();
    }
    memset(b->gathers, 0, EMU_THREADS * sizeof *b->gathers);
    memset(b->gave, 0, EMU_THREADS * sizeof *b->gave);
    b->expected = b->arrived = b->bytes = 0;
    b->round = 0;
}

void emu_groups_reset(void)
{
    while (emu.tiles) {
        struct emu_tile_copy *t = emu.tiles;

        emu.tiles = t->next;
        free(t->clock);
        free(t);
    }
    emu.nbarriers = 0;
    if (emu.module->kernel->by_clocks)
        for (int i = 0; i < EMU_GROUP_BARRIERS; i++)
            reset(&emu.groups[i]);
}

static void end_round(struct emu_barrier *b)
{
    uint32_t *gave = b->gave;

    b->gave = b->gathers;
    b->gathers = gave;
    memcpy(gave, b->gave, EMU_THREADS * sizeof *gave); /* what came before is still known */
    b->arrived = 0;
    b->round++;
}

/* ---- named barriers ---- */

static struct emu_barrier *come(int barrier, int threads)
{
    struct emu_barrier *b = &emu.groups[barrier];

    if (b->arrived && b->expected != threads)
        emu_fault("barrier %d is of %d threads and of %d", barrier, b->expected, threads);
    b->expected = threads;
    emu_release(b->gathers);
    if (++b->arrived == threads)
        end_round(b);
    return b;
}

void emu_group_arrive(int barrier, int threads)
{
    come(barrier, threads);
}

void emu_group_sync(int barrier, int threads)
{
    uint32_t round = emu.groups[barrier].round;
    struct emu_barrier *b = come(barrier, threads);

    emu_wait(&b->round, round, "a barrier of some threads");
    emu_acquire(b->gave);
}

/* ---- barriers in shared memory ---- */

static struct emu_barrier *find_barrier(uint32_t address)
{
    for (int i = 0; i < emu.nbarriers; i++)
        if (emu.barriers[i].address == address)
            return &emu.barriers[i];
    emu_fault("there is no barrier at %x of shared memory", address);
    return NULL;
}

void emu_barrier_init(uint32_t address, int arrivals)
{
    struct emu_barrier *b = &emu.barriers[emu.nbarriers++];

    if (address % 8 || emu.nbarriers == EMU_BARRIERS)
        emu_fault("a barrier cannot be at %x of shared memory", address);
    reset(b);
    b->address = address;
    b->expected = arrivals;
}

static void look(struct emu_barrier *b)
{
    if (b->arrived == b->expected && !b->bytes)
        end_round(b);
}

void emu_barrier_arrive(uint32_t address, int bytes)
{
    struct emu_barrier *b = find_barrier(address);

    if (!b)
        return;
    emu_release(b->gathers);
    b->bytes += bytes;
    if (++b->arrived > b->expected)
        emu_fault("more arrive at the barrier at %x than the %d it is for", address, b->expected);
    look(b);
}

/* ---- tiles ---- */

void emu_copy_tile(uint32_t to, const void *map, const int *at, uint32_t full)
{
    struct emu_tile_copy *t = calloc(1, sizeof *t), **end = &emu.tiles;

    if (!t)
        abort();
    memcpy(&t->map, map, sizeof t->map);
    memcpy(t->at, at, sizeof t->at);
    t->to = to;
    t->full = find_barrier(full);
    t->thread = emu.current;
    t->clock = new_clock();
    if (to % 1024)
        emu_fault("a tile cannot be at %x of shared memory", to);
    /* From now on its memory is the copy's. */
    emu_access(emu_shared_at(to), t->map.box[0] * t->map.box[1] * 2, EMU_CLAIM, NULL);
    emu_release(t->clock);
    while (*end)
        end = &(*end)->next;
    *end = t;
}

/* Rows of 128 bytes whose chunks of 16 are exchanged by row number; zeros beyond the matrix. */
static void bring(const struct emu_tile_copy *t)
{
    const struct emu_tile_map *m = &t->map;
    int64_t x = t->at[0], z = t->at[2], left = (int64_t)m->sizes[0] - x;
    size_t there = left < 0 ? 0 : left < (int64_t)m->box[0] ? (size_t)left * 2 : m->box[0] * 2;

    for (uint32_t i = 0; i < m->box[1]; i++) {
        int64_t y = t->at[1] + (int64_t)i;
        const char *from =
            m->data + x * 2 + y * (int64_t)m->strides[0] + z * (int64_t)m->strides[1];
        char row[128] = {0};

        if (there && y < (int64_t)m->sizes[1] && z < (int64_t)m->sizes[2]) {
            emu_access(from, there, EMU_READ, NULL);
            memcpy(row, from, there);
        }
        for (uint32_t chunk = 0; chunk < 8; chunk++) {
            uint32_t at = t->to + i * 128 + chunk * 16;

            memcpy(emu_shared_at(at ^ (at >> 7 & 7) << 4), row + chunk * 16, 16);
        }
    }
    emu_access(emu_shared_at(t->to), m->box[1] * 128, EMU_FILL, NULL);
}

bool emu_bring_tile(void)
{
    struct emu_tile_copy *t = emu.tiles;
    struct emu_barrier *b;

    if (!t)
        return false;
    b = t->full;
    emu.tiles = t->next;
    emu.current = t->thread;
    bring(t);
    for (unsigned i = 0; i < emu.launch->threads; i++)
        b->gathers[i] = b->gathers[i] > t->clock[i] ? b->gathers[i] : t->clock[i];
    b->bytes -= (int)(t->map.box[0] * t->map.box[1] * 2);
    free(t->clock);
    free(t);
    look(b);
    return true;
}

void emu_barrier_wait(uint32_t address, int parity)
{
    struct emu_barrier *b = find_barrier(address);

    if (!b)
        return;
    while ((int)(b->round & 1) == parity)
        emu_wait(&b->round, b->round, "a barrier in shared memory");
    emu_acquire(b->gave);
}
