/* Cuts attention of few query rows for a GPU: into parts of the keys, and warps per block. The cut
 * depends only on the sizes, because the scratch memory depends on it. */
#ifndef WEIR_OPS_GPU_ATTENTION_CUT_H
#define WEIR_OPS_GPU_ATTENTION_CUT_H

#include <stdint.h>

struct weir__attention_cut {
    int64_t parts; /* parts of the keys: blocks per unit */
    int64_t warps; /* warps per block: 8 have a core to themselves; two blocks of 4 share one */
};

/* `units` stacks of up to 16 query rows, each with `keys` keys. `key_bytes`: bytes of one key and
 * its value. */
struct weir__attention_cut weir__attention_find_cut(int64_t units, int64_t keys, int64_t key_bytes);

#endif
