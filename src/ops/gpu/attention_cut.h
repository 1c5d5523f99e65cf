/* How attention of few query rows is cut for a GPU: into parts of the keys, and a block's warps.
 * A function of the sizes alone, since scratch memory follows from it. */
#ifndef WEIR_OPS_GPU_ATTENTION_CUT_H
#define WEIR_OPS_GPU_ATTENTION_CUT_H

#include <stdint.h>

struct weir__attention_cut {
    int64_t parts; /* of the keys: blocks of one unit */
    int64_t warps; /* of a block: 8 have a core for themselves, of 4 two blocks share one */
};

/* `units` stacks of up to 16 query rows, each against `keys` keys; `key_bytes` are those of a key
 * and its value. */
struct weir__attention_cut weir__attention_find_cut(int64_t units, int64_t keys, int64_t key_bytes);

#endif
