/* Every access: where it may go, and what it may not meet.
 *
 * A cell stands for four bytes and has the stamps of the last write and of two reads. A stamp says
 * who, and when by the block's barriers: `epoch` counts them, through all blocks and launches, so
 * that a smaller one than the launch's first is of another launch, and a smaller one than the
 * block's first of another block of this launch. Blocks of a cluster take turns: a smaller one than
 * the cluster's first is of another cluster, and what is smaller than the phase's first came before
 * the cluster's blocks last met; a block's turn begins with `block_epoch`. Within an epoch, `time`
 * is that of the thread's warp (it counts __syncwarp) or, in kernels with barriers of their own, of
 * the thread; what a thread then knows of the others' time is its clock. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emu.h"

struct stamp {
    uint32_t epoch;
    uint32_t time : 17, thread : 10, bytes : 4, atomic : 1;
};

struct cell {
    struct stamp write, read[2];
    uint32_t filled; /* shared memory: the cluster's first epoch, */
    uint8_t bytes;   /* and the bytes that it has written */
};

/* ---- faults ---- */

static bool catches;
static char caught[2000];

void emu_catch(bool should)
{
    catches = should;
    caught[0] = 0;
}

const char *emu_caught(void)
{
    return caught;
}

static const void *place; /* of the access in the code */

/* The line of the source, asked of the tools of the compiler. */
static void find_line(char *line, size_t size)
{
    char command[700];
    FILE *out;

    line[0] = 0;
    if (!place)
        return;
    snprintf(command, sizeof command, "addr2line -s -e '%s' 0x%lx 2>/dev/null", emu.module->path,
             (unsigned long)((uintptr_t)place - emu.module->image - 1));
    if (!(out = popen(command, "r")))
        return;
    if (fgets(line, (int)size, out))
        line[strcspn(line, "\n")] = 0;
    pclose(out);
}

void emu_fault(const char *format, ...)
{
    char text[1000], line[200];
    va_list list;

    if (catches && caught[0])
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    find_line(line, sizeof line);
    snprintf(caught, sizeof caught, "block %u of %u, thread %d of %u, %s: %s", emu.at.block.x,
             emu.launch->grid, emu.current, emu.launch->threads, line, text);
    if (catches)
        return;
    fprintf(stderr, "emulated kernel %s: %s\n", emu.module->path, caught);
    abort();
}

/* ---- cells ---- */

enum { PAGE = 4096, TABLE = 1 << 14 };

static struct page {
    uintptr_t number; /* of the memory, + 1 */
    struct cell *cells;
} pages[TABLE];
static struct page *last = &pages[0];
static int npages;
static struct cell *shared_cells; /* of the block that runs */
enum { SHARED_CELLS = 1 << 18 };

static void *map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    return memory;
}

/* Between launches nothing needs to be remembered. */
static void forget_pages(void)
{
    for (int i = 0; i < TABLE; i++)
        if (pages[i].number) {
            munmap(pages[i].cells, PAGE / 4 * sizeof(struct cell));
            pages[i].number = 0;
        }
    npages = 0;
}

static struct cell *global_cells(uintptr_t address)
{
    uintptr_t number = address / PAGE + 1;
    unsigned i;

    if (last->number != number) {
        for (i = (unsigned)(number * 0x9e3779b1) % TABLE; pages[i].number != number;
             i = (i + 1) % TABLE)
            if (!pages[i].number) {
                if (npages == TABLE * 3 / 4)
                    return NULL; /* a launch over so much memory is not followed any further */
                pages[i].number = number;
                pages[i].cells = map(PAGE / 4 * sizeof(struct cell));
                npages++;
                break;
            }
        last = &pages[i];
    }
    return last->cells + address % PAGE / 4;
}

void emu_begin_launch(void)
{
    if (npages > TABLE / 4)
        forget_pages();
    emu.launch_epoch = ++emu.epoch;
    emu_use_cells(0);
}

void emu_use_cells(unsigned rank)
{
    static struct cell *all[EMU_CLUSTER];

    if (!all[rank])
        all[rank] = map(SHARED_CELLS * sizeof(struct cell));
    shared_cells = all[rank];
}

void emu_begin_block(void)
{
    static uint32_t *clocks;
    unsigned n = emu.launch->threads;

    emu.block_epoch = ++emu.epoch;
    place = NULL;
    if (!emu.module->kernel->by_clocks)
        return;
    if (!clocks)
        clocks = map(sizeof(uint32_t) * EMU_THREADS * EMU_THREADS);
    memset(clocks, 0, sizeof(uint32_t) * n * n);
    for (unsigned i = 0; i < n; i++) {
        emu.threads[i].clock = clocks + i * n;
        emu.threads[i].time = 0;
    }
}

/* ---- order ---- */

void emu_release(uint32_t *clock)
{
    struct emu_thread *t = emu_self();

    if (!emu.module->kernel->by_clocks)
        return;
    t->clock[emu.current] = ++t->time;
    for (unsigned i = 0; i < emu.launch->threads; i++)
        clock[i] = clock[i] > t->clock[i] ? clock[i] : t->clock[i];
}

void emu_acquire(const uint32_t *clock)
{
    struct emu_thread *t = emu_self();

    if (!emu.module->kernel->by_clocks)
        return;
    for (unsigned i = 0; i < emu.launch->threads; i++)
        t->clock[i] = clock[i] > t->clock[i] ? clock[i] : t->clock[i];
}

static uint32_t time_now(void)
{
    return emu.module->kernel->by_clocks ? emu_self()->time
                                         : emu.warps[emu.current / EMU_WARP].time;
}

/* Whether the block itself, not another one of its cluster, had its turn then. */
static bool is_of_earlier_turn(uint32_t epoch)
{
    for (int i = 0; i < emu.nturns; i++)
        if (emu.turns[i].from <= epoch && epoch <= emu.turns[i].to)
            return true;
    return false;
}

/* Whether what the stamp is of comes before what the current thread does now. */
static bool is_before(struct stamp s, bool shared)
{
    if (s.epoch < emu.cluster_epoch)
        return shared || s.epoch < emu.launch_epoch || emu_is_told(s.epoch);
    if (s.epoch < emu.phase_epoch) /* meetings order shared memory alone */
        return shared || is_of_earlier_turn(s.epoch);
    if (s.epoch < emu.block_epoch) /* of another block of the cluster, since they have met */
        return false;
    if (s.epoch < emu.epoch || (int)s.thread == emu.current)
        return true;
    if (emu.module->kernel->by_clocks)
        return emu_self()->clock[s.thread] > s.time;
    return (int)s.thread / EMU_WARP == emu.current / EMU_WARP && s.time < time_now();
}

static const char *name_of(int how)
{
    return how == EMU_READ ? "reads" : how == EMU_ATOMIC ? "changes atomically" : "writes";
}

static void meet_other(struct stamp s, const char *did, int how, uintptr_t address, bool shared)
{
    if (s.epoch < emu.block_epoch)
        emu_fault("%s memory at %lx that thread %d of another block %s", name_of(how),
                  (unsigned long)address, s.thread, did);
    else
        emu_fault("%s %s memory at %lx that thread %d %s; there is no barrier between them",
                  name_of(how), shared ? "shared" : "global",
                  (unsigned long)(shared ? address - (uintptr_t)emu.module->shared : address),
                  s.thread, did);
}

static bool is_same(struct stamp a, struct stamp b)
{
    return a.epoch == b.epoch && a.time == b.time && a.thread == b.thread && a.atomic == b.atomic;
}

static void note(struct cell *c, struct stamp now, int how, uintptr_t address, bool shared)
{
    struct stamp w = c->write;

    if (w.bytes & now.bytes && !(w.atomic && now.atomic) && !is_before(w, shared))
        meet_other(w, w.atomic ? "changes atomically" : "writes", how, address, shared);
    if (how == EMU_READ) {
        if (is_same(c->read[0], now)) {
            c->read[0].bytes |= now.bytes;
        } else {
            if (c->read[0].thread != now.thread)
                c->read[1] = c->read[0];
            c->read[0] = now;
        }
        return;
    }
    for (int i = 0; i < 2; i++)
        if (c->read[i].bytes & now.bytes && !is_before(c->read[i], shared))
            meet_other(c->read[i], "reads", how, address, shared);
    if (is_same(w, now))
        c->write.bytes |= now.bytes;
    else
        c->write = now;
}

static void note_all(struct cell *c, uintptr_t address, size_t size, int how, bool shared)
{
    struct stamp now = {.epoch = emu.epoch,
                        .time = time_now(),
                        .thread = (unsigned)emu.current,
                        .atomic = how == EMU_ATOMIC};
    uintptr_t end = address + size;

    for (uintptr_t at = address & ~(uintptr_t)3; at < end; at += 4, c++) {
        unsigned bytes = 15;

        if (at < address)
            bytes &= 15U << (address - at);
        if (at + 4 > end)
            bytes &= 15U >> (at + 4 - end);
        now.bytes = bytes & 15;
        if (how != EMU_FILL)
            note(c, now, how, at < address ? address : at, shared);
        if (!shared)
            continue;
        if (c->filled != emu.cluster_epoch) {
            c->filled = emu.cluster_epoch;
            c->bytes = 0;
        }
        if ((how == EMU_READ || how == EMU_ATOMIC) && now.bytes & ~c->bytes)
            emu_fault("reads shared memory at %lx that the block has not written, or that a copy "
                      "under way writes",
                      (unsigned long)(at - (uintptr_t)emu.module->shared));
        if (how == EMU_CLAIM)
            c->bytes &= (uint8_t)~now.bytes;
        else if (how != EMU_READ)
            c->bytes |= now.bytes;
    }
}

/* ---- bounds ---- */

static bool is_known(uintptr_t address, size_t size)
{
    static int hit;
    const struct emu_range *r = emu.launch->ranges;
    int low = 0, high = emu.launch->nranges;

    if (hit < high && address - r[hit].first < r[hit].size)
        return size <= r[hit].size - (address - r[hit].first);
    while (low < high) {
        int middle = (low + high) / 2;

        if (address < r[middle].first)
            high = middle;
        else
            low = middle + 1;
    }
    hit = low ? low - 1 : 0;
    return low && address - r[hit].first < r[hit].size &&
           size <= r[hit].size - (address - r[hit].first);
}

static void check_shared(uintptr_t address, size_t size, int how)
{
    const struct emu_kernel *k = emu.module->kernel;
    uintptr_t dynamic = (uintptr_t)k->dynamic;

    if (dynamic && address - dynamic < EMU_SHARED_MAX &&
        address - dynamic + size > emu.launch->shared) {
        emu_fault("%s %zu bytes of shared memory at %lu; the launch has %u", name_of(how), size,
                  (unsigned long)(address - dynamic), emu.launch->shared);
        return;
    }
    note_all(shared_cells + (address - (uintptr_t)emu.module->shared) / 4, address, size, how,
             true);
}

static void check_global(uintptr_t address, size_t size, int how)
{
    struct cell *cells;

    if (!is_known(address, size)) {
        emu_fault("%s %zu bytes at %lx, which is no memory of the GPU", name_of(how), size,
                  (unsigned long)address);
        return;
    }
    for (size_t done = 0, part; done < size; done += part) {
        uintptr_t at = address + done;

        part = PAGE - at % PAGE < size - done ? PAGE - at % PAGE : size - done;
        if ((cells = global_cells(at)))
            note_all(cells, at, part, how, false);
    }
}

void emu_access(const void *p, size_t size, int how, const void *from)
{
    uintptr_t address = (uintptr_t)p;

    if (emu_on_stack(address))
        return;
    place = from;
    if (address - (uintptr_t)emu.module->shared < emu.module->shared_size)
        check_shared(address, size, how);
    else if (how != EMU_READ || address - emu.module->image >= emu.module->image_size) {
        check_global(address, size, how);
        if (how == EMU_ATOMIC)
            emu_change_word(address);
    }
}
