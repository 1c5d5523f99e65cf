/* Blocks that weir's pool has given out of the driver's memory, as a test program tells them: what
 * a kernel may touch there. The host is ahead of the GPU, so that a block may have been given out
 * again, with another size, before a kernel of its first owner runs: a block counts for every
 * kernel that was queued before that, and for some time after, since weir itself puts off launches.
 */
#include <stdlib.h>

#include "fake.h"

enum { GRAIN = 512, KEPT = 4096, PUT_OFF = 256 };

static struct block {
    struct emu_range range;
    uint64_t replaced; /* 0: not yet */
} * blocks;
static int nblocks, room;
static uint64_t given, dropped; /* how many; and when the last one was replaced that is forgotten */

static bool overlap(const struct emu_range *a, uintptr_t first, size_t size)
{
    return a->first < first + size && first < a->first + (a->size + GRAIN - 1) / GRAIN * GRAIN;
}

static void drop_old(void)
{
    int kept = 0;

    for (int i = 0; i < nblocks; i++)
        if (!blocks[i].replaced || blocks[i].replaced + KEPT > given)
            blocks[kept++] = blocks[i];
        else if (blocks[i].replaced > dropped)
            dropped = blocks[i].replaced;
    nblocks = kept;
}

void fake_give_block(const void *address, size_t size)
{
    uintptr_t first = (uintptr_t)address;

    if (!fake_is_device_memory(first))
        return;
    pthread_mutex_lock(&fake_lock);
    given++;
    for (int i = 0; i < nblocks; i++)
        if (!blocks[i].replaced && overlap(&blocks[i].range, first, size ? size : 1))
            blocks[i].replaced = given;
    if (nblocks == room) {
        drop_old();
        if (nblocks >= room / 2) {
            room = 2 * room + 64;
            if (!(blocks = realloc(blocks, (size_t)room * sizeof *blocks)))
                abort();
        }
    }
    blocks[nblocks++] = (struct block){.range = {first, size}};
    pthread_mutex_unlock(&fake_lock);
}

uint64_t fake_blocks_given(void)
{
    return given;
}

bool fake_has_blocks(uintptr_t first, size_t size, uint64_t at)
{
    if (dropped + PUT_OFF > at && dropped)
        return false;
    for (int i = 0; i < nblocks; i++)
        if (blocks[i].range.first - first < size)
            return true;
    return false;
}

int fake_blocks(struct emu_range *out, uint64_t at)
{
    int n = 0;

    for (int i = 0; i < nblocks; i++)
        if (!blocks[i].replaced || blocks[i].replaced + PUT_OFF > at) {
            if (out)
                out[n] = blocks[i].range;
            n++;
        }
    return n;
}
