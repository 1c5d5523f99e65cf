#include "ops/gpu/attention_cut.h"

#include "base/base.h"

#define CORES 132 /* cores of the GPUs it is tuned for; smaller GPUs need more rounds */
#define TILE 16   /* keys that a warp takes at a time */
#define MOST_PARTS 64
#define LONG_KEY 512 /* if a key and a value have more bytes, two blocks do not fit on a core */
/* Times as the bytes that a core could read meanwhile, at some 31 a nanosecond, measured on an H200
 * (bench/python/attention_cuts.py). BLOCK and WARP: start and end of a block, and of each of its
 * warps. JOIN: storing a part and signalling it. PART: reading one part again. */
#define BLOCK_BYTES 32000
#define WARP_BYTES 4000
#define JOIN_BYTES 58000
#define PART_BYTES 1700

/* The time of the cut, as bytes that one core could read meanwhile. */
static int64_t cost(int64_t units, int64_t keys, int64_t key_bytes, struct weir__attention_cut c)
{
    bool shared = c.warps == 4 && key_bytes <= LONG_KEY;
    int64_t blocks = units * c.parts, slots = shared ? 2 * CORES : CORES;
    int64_t own = weir__div_up(weir__div_up(keys, c.parts), TILE) * TILE * key_bytes;
    int64_t rounds = weir__div_up(blocks, slots), fixed = BLOCK_BYTES + c.warps * WARP_BYTES;

    if (shared && blocks > CORES)
        own = 2 * own + fixed; /* it shares the core with the other block */
    else if (c.warps == 4)
        own = own * 9 / 8; /* four warps do not use a core's whole memory bandwidth */
    return rounds * (own + fixed) + (c.parts > 1 ? JOIN_BYTES + c.parts * PART_BYTES : 0);
}

struct weir__attention_cut weir__attention_find_cut(int64_t units, int64_t keys, int64_t key_bytes)
{
    struct weir__attention_cut best = {.parts = 1, .warps = 4};

    for (int64_t warps = 4; units && warps <= 8; warps *= 2) {
        /* Many units fill the cores even without parts. */
        int64_t most = units < 4 * CORES ? weir__min(keys / (TILE * warps), MOST_PARTS) : 1;

        for (int64_t parts = 1; parts <= weir__max(most, 1); parts++) {
            struct weir__attention_cut c = {parts, warps};

            if (cost(units, keys, key_bytes, c) < cost(units, keys, key_bytes, best))
                best = c;
        }
    }
    return best;
}
