/* Sets of ranks. */
#ifndef WEIR_COMM_RANKS_H
#define WEIR_COMM_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "weir/comm.h"

enum { WEIR__RANK_WORDS = (WEIR_MAX_RANKS + 63) / 64 };

struct weir__ranks {
    uint64_t words[WEIR__RANK_WORDS]; /* bit per rank */
};

static inline uint64_t weir__rank_bit(int rank)
{
    return UINT64_C(1) << (rank & 63);
}
static inline void weir__ranks_add(struct weir__ranks *set, int rank)
{
    set->words[rank >> 6] |= weir__rank_bit(rank);
}
static inline void weir__ranks_remove(struct weir__ranks *set, int rank)
{
    set->words[rank >> 6] &= ~weir__rank_bit(rank);
}
static inline bool weir__ranks_has(const struct weir__ranks *set, int rank)
{
    return set->words[rank >> 6] & weir__rank_bit(rank);
}

/* Returns the first member that is at least `from`; -1 if there is none. */
static inline int weir__ranks_next(const struct weir__ranks *set, int from)
{
    uint64_t word;
    int i = from >> 6;

    if (i >= WEIR__RANK_WORDS)
        return -1;
    word = set->words[i] & (UINT64_MAX << (from & 63));
    while (!word && ++i < WEIR__RANK_WORDS)
        word = set->words[i];
    return word ? i * 64 + __builtin_ctzll(word) : -1;
}
#define WEIR__EACH_RANK(rank, set) \
    for (int rank = weir__ranks_next((set), 0); rank >= 0; rank = weir__ranks_next((set), rank + 1))

/* The same for a set of exactly `count` members: stops after the last member without reading the
 * remaining words. */
#define WEIR__EACH_OF_RANKS(rank, set, count)                                             \
    for (int rank = weir__ranks_next((set), 0), left_of_##rank = (count); left_of_##rank; \
         rank = --left_of_##rank ? weir__ranks_next((set), rank + 1) : -1)

static inline int weir__ranks_count(const struct weir__ranks *set)
{
    int n = 0;

    for (int i = 0; i < WEIR__RANK_WORDS; i++)
        n += __builtin_popcountll(set->words[i]);
    return n;
}
/* Returns the number of members below `rank`. */
static inline int weir__ranks_below(const struct weir__ranks *set, int rank)
{
    int n = __builtin_popcountll(set->words[rank >> 6] & (weir__rank_bit(rank) - 1));

    for (int i = 0; i < rank >> 6; i++)
        n += __builtin_popcountll(set->words[i]);
    return n;
}
/* Returns the first rank that is in both sets; -1 if there is none. */
static inline int weir__ranks_first_of_both(const struct weir__ranks *a,
                                            const struct weir__ranks *b)
{
    WEIR__EACH_RANK(rank, a)
    if (weir__ranks_has(b, rank))
        return rank;
    return -1;
}
static inline bool weir__ranks_equal(const struct weir__ranks *a, const struct weir__ranks *b)
{
    return !memcmp(a, b, sizeof *a);
}

static inline struct weir__ranks weir__ranks_one(int rank)
{
    struct weir__ranks set = {{0}};

    weir__ranks_add(&set, rank);
    return set;
}
/* Returns the set 0..n-1. */
static inline struct weir__ranks weir__ranks_all(int n)
{
    struct weir__ranks set = {{0}};

    for (int i = 0; i < n >> 6; i++)
        set.words[i] = UINT64_MAX;
    if (n & 63)
        set.words[n >> 6] = weir__rank_bit(n) - 1;
    return set;
}
static inline struct weir__ranks weir__ranks_without(const struct weir__ranks *a,
                                                     const struct weir__ranks *b)
{
    struct weir__ranks set;

    for (int i = 0; i < WEIR__RANK_WORDS; i++)
        set.words[i] = a->words[i] & ~b->words[i];
    return set;
}
static inline struct weir__ranks weir__ranks_but(const struct weir__ranks *a, int rank)
{
    struct weir__ranks set = *a;

    weir__ranks_remove(&set, rank);
    return set;
}

#endif
