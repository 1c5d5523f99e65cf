/* The works all_reduce_SIZE and reduce_scatter_SIZE, the same for weir, for peers and for the
 * machine: f32 tensors of that many bytes on each of two ranks. */
#ifndef WEIR_BENCH_COLLECTIVE_SIZES_H
#define WEIR_BENCH_COLLECTIVE_SIZES_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* 4096 for "all_reduce_4k". */
static inline size_t bench_collective_bytes(const char *work)
{
    const char *at = strrchr(work, '_') + 1;
    char *end;
    size_t n = (size_t)strtoul(at, &end, 10);

    return *end == 'm' ? n << 20 : n << 10;
}

/* The bytes that both ranks must at least read and write: every input once, every output once. A
 * memcpy of N bytes counts as 2 N, since it reads and writes each. */
static inline double bench_collective_moved(const char *work)
{
    return (double)bench_collective_bytes(work) * (*work == 'r' ? 3 : 4);
}

/* Calls in a sample: a few milliseconds. */
static inline int bench_collective_calls(const char *work)
{
    size_t bytes = bench_collective_bytes(work);

    return bytes >= (size_t)16 << 20 ? 2 : bytes >= (size_t)1 << 20 ? 16 : 400;
}

#endif
