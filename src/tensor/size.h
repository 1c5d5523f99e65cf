/* Named sizes as numbers (weir/graph.h): the index in the graph's table and the example, packed
 * into one number far below any size. Code without the table can use the example. */
#ifndef WEIR_TENSOR_SIZE_H
#define WEIR_TENSOR_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__SIZE_BITS 41 /* of the example, which may be negative */
#define WEIR__SIZE_MAX (1 << 20)
#define WEIR__SIZE_LIMIT ((int64_t)1 << 39)

/* `index` counts from 0. */
static inline int64_t weir__size_name(int index, int64_t example)
{
    return INT64_MIN + (((int64_t)index + 1) << WEIR__SIZE_BITS) +
           (example + ((int64_t)1 << (WEIR__SIZE_BITS - 1)));
}

static inline bool weir__size_is_named(int64_t n)
{
    return n >= INT64_MIN + ((int64_t)1 << WEIR__SIZE_BITS) &&
           n < INT64_MIN + ((int64_t)(WEIR__SIZE_MAX + 1) << WEIR__SIZE_BITS);
}

static inline int weir__size_index(int64_t n)
{
    return (int)((n - INT64_MIN) >> WEIR__SIZE_BITS) - 1;
}

/* The value of a plain or named size: from `values`, indexed as the table, or the example if that
 * is NULL. */
static inline int64_t weir__size_value(int64_t n, const int64_t *values)
{
    int64_t low = (int64_t)1 << WEIR__SIZE_BITS;

    if (!weir__size_is_named(n))
        return n;
    return values ? values[weir__size_index(n)] : ((n - INT64_MIN) & (low - 1)) - low / 2;
}

#endif
