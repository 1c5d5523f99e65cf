/* How an operand's elements lie in memory for a thread that takes a pack of n at a time. Kernel
 * sources include this header too. */
#ifndef WEIR_OPS_GPU_LAYOUT_H
#define WEIR_OPS_GPU_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weir__layout {
    WEIR__LAYOUT_ANY,   /* each element has an address of its own */
    WEIR__LAYOUT_NEXT,  /* consecutive, aligned for wide accesses */
    WEIR__LAYOUT_SAME,  /* all elements are the same one */
    WEIR__LAYOUT_LOOSE, /* consecutive, at any alignment */
};

/* The number of elements of a pack: 16 bytes of the narrowest operand, but at most 32 bytes of the
 * widest. If rows of `inner` elements (0: no rows) are not multiples of that, smaller packs, unless
 * they become too small to help. */
static inline unsigned weir__layout_pack(size_t narrowest, size_t widest, int64_t inner)
{
    unsigned most = (unsigned)(16 / narrowest), n;

    while (most * widest > 32)
        most /= 2;
    for (n = most; inner & (n - 1);) /* halves until it divides `inner` */
        n /= 2;
    return n < 4 && most > 4 ? 4 : n < 2 ? most : n;
}

/* The layout of an operand. `bits`: its address and its steps in bytes, combined by or. Rows hold
 * `inner` elements (0: no rows) that are `stride` apart. */
static inline enum weir__layout weir__layout_of(uintptr_t bits, size_t elem, int64_t inner,
                                                int64_t stride, unsigned n)
{
    size_t bytes = n * elem > 16 ? 16 : n * elem;

    if ((inner & (n - 1)) || (stride != 0 && stride != 1))
        return WEIR__LAYOUT_ANY;
    if (stride == 0)
        return WEIR__LAYOUT_SAME;
    return bits & (bytes - 1) ? WEIR__LAYOUT_LOOSE : WEIR__LAYOUT_NEXT;
}

#endif
