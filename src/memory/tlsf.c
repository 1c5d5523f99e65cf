/* Two-level segregated free lists, after Masmano et al. The first level of a size in grains is its
 * power of two; the second is one of 16 equal parts of that. A bit per non-empty list allows two
 * bit scans to find the smallest class whose blocks certainly fit. */
#include "memory/pool.h"

enum { SECOND_BITS = 4 };
_Static_assert(1 << SECOND_BITS == WEIR__TLSF_SECOND, "second level");

struct size_class {
    unsigned first, second;
};

/* Sizes below 16 grains have one list per size. */
static struct size_class class_of(size_t grains)
{
    if (grains < WEIR__TLSF_SECOND)
        return (struct size_class){0, (unsigned)grains};

    unsigned top = 63u - (unsigned)__builtin_clzll(grains);
    unsigned first = top - SECOND_BITS + 1;

    if (first >= WEIR__TLSF_FIRST)
        return (struct size_class){WEIR__TLSF_FIRST - 1, WEIR__TLSF_SECOND - 1};
    return (struct size_class){first,
                               (unsigned)(grains >> (top - SECOND_BITS)) & (WEIR__TLSF_SECOND - 1)};
}

void weir__tlsf_add(struct weir__tlsf *t, weir_buffer *b)
{
    struct size_class c = class_of(b->size / WEIR__POOL_GRAIN);
    weir_buffer **head = &t->heads[c.first][c.second];

    b->list_prev = NULL;
    b->list_next = *head;
    if (*head)
        (*head)->list_prev = b;
    *head = b;
    t->first |= UINT64_C(1) << c.first;
    t->second[c.first] |= 1u << c.second;
}

void weir__tlsf_remove(struct weir__tlsf *t, weir_buffer *b)
{
    struct size_class c = class_of(b->size / WEIR__POOL_GRAIN);

    if (b->list_next)
        b->list_next->list_prev = b->list_prev;
    if (b->list_prev) {
        b->list_prev->list_next = b->list_next;
        return;
    }
    if ((t->heads[c.first][c.second] = b->list_next))
        return;
    if (!(t->second[c.first] &= ~(1u << c.second)))
        t->first &= ~(UINT64_C(1) << c.first);
}

weir_buffer *weir__tlsf_find(const struct weir__tlsf *t, size_t size)
{
    size_t grains = size / WEIR__POOL_GRAIN;

    /* Round up to the next class, so that any block found fits. */
    if (grains >= WEIR__TLSF_SECOND) {
        unsigned top = 63u - (unsigned)__builtin_clzll(grains);

        grains += ((size_t)1 << (top - SECOND_BITS)) - 1;
    }

    struct size_class c = class_of(grains);
    uint32_t second = t->second[c.first] & (~0u << c.second);

    if (!second) {
        uint64_t first = c.first + 1 < 64 ? t->first & (~UINT64_C(0) << (c.first + 1)) : 0;

        if (!first)
            return NULL;
        c.first = (unsigned)__builtin_ctzll(first);
        second = t->second[c.first];
    }

    weir_buffer *b = t->heads[c.first][__builtin_ctz(second)];

    return b->size >= size ? b : NULL; /* the last class is open-ended */
}
