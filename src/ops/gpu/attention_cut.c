#include "ops/gpu/attention_cut.h"

#include "base/base.h"

#define CORES 132 /* of the GPUs that it is for; smaller ones have more rounds */
#define TILE 16   /* keys of a warp at a time */
#define MOST_PARTS 64
#define LONG_KEY 512 /* bytes of a key and a value of which two blocks find no room on a core */
/* In bytes that a core reads meanwhile, at some 31 in a nanosecond: a block's begin and end;
 * leaving a part in memory and saying so; one part that is read again. */
#define BLOCK_BYTES 48000
#define JOIN_BYTES 32000
#define PART_BYTES 2000

/* What the cut takes, in bytes that one core reads meanwhile. */
static int64_t cost(int64_t units, int64_t keys, int64_t key_bytes, struct weir__attention_cut c)
{
    bool shared = c.warps == 4 && key_bytes <= LONG_KEY;
    int64_t blocks = units * c.parts, slots = shared ? 2 * CORES : CORES;
    int64_t own = weir__div_up(weir__div_up(keys, c.parts), TILE) * TILE * key_bytes;
    int64_t rounds = weir__div_up(blocks, slots);

    if (shared && blocks > CORES)
        own *= 2; /* the other block reads as well */
    else if (c.warps == 4)
        own = own * 5 / 3; /* four warps alone do not keep a core's share of the memory busy */
    return rounds * (own + BLOCK_BYTES) + (c.parts > 1 ? JOIN_BYTES + c.parts * PART_BYTES : 0);
}

struct weir__attention_cut weir__attention_cut(int64_t units, int64_t keys, int64_t key_bytes)
{
    struct weir__attention_cut best = {.parts = 1, .warps = 4};

    for (int64_t warps = 4; units && warps <= 8; warps *= 2) {
        /* Many units fill the cores without parts. */
        int64_t most = units < 4 * CORES ? weir__min(keys / (TILE * warps), MOST_PARTS) : 1;

        for (int64_t parts = 1; parts <= weir__max(most, 1); parts++) {
            struct weir__attention_cut c = {parts, warps};

            if (cost(units, keys, key_bytes, c) < cost(units, keys, key_bytes, best))
                best = c;
        }
    }
    return best;
}
