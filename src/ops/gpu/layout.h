/* How an operand's elements lie in memory, seen by a thread that takes a pack of n at a time.
 * Kernel sources read this header as well. */
#ifndef WEIR_OPS_GPU_LAYOUT_H
#define WEIR_OPS_GPU_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weir__layout {
    WEIR__LAYOUT_ANY,   /* each has its own place */
    WEIR__LAYOUT_NEXT,  /* one after the other, at an address that allows wide accesses */
    WEIR__LAYOUT_SAME,  /* all are one */
    WEIR__LAYOUT_LOOSE, /* one after the other, at any address */
};

/* Elements of a pack: 16 bytes of the narrowest operand, but not over 32 of the widest. Where
 * rows of `inner` elements (0: there are no rows) are not made of such packs, smaller ones, unless
 * that leaves next to nothing. */
static inline unsigned weir__layout_pack(size_t narrowest, size_t widest, int64_t inner)
{
    unsigned most = (unsigned)(16 / narrowest), n;

    while (most * widest > 32)
        most /= 2;
    for (n = most; inner & (n - 1);) /* powers of two, all of them */
        n /= 2;
    return n < 4 && most > 4 ? 4 : n < 2 ? most : n;
}

/* `bits` has the operand's address and its steps in bytes, or'ed; rows hold `inner` elements
 * (0: there are no rows) that are `stride` apart. */
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
