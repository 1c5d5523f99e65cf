#include "memory/clock.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

weir_status weir__clock_grow(struct weir__clock *c, unsigned n)
{
    unsigned step = 4, cap;
    uint64_t *seq;

    /* Allocate at most a quarter more than needed, because every wait reads the whole clock. Clocks
     * are grown to each other's n, so growing to a value that this function has returned as n must
     * return the same n. */
    while (step * 8 <= n)
        step *= 2;
    cap = (n + step - 1) / step * step;
    if (!(seq = weir__calloc(cap, sizeof *seq)))
        return weir__fail_nomem("ordering %u streams", cap);
    if (c->n)
        memcpy(seq, c->seq, c->n * sizeof *seq);
    weir__free(c->seq);
    c->seq = seq;
    c->n = cap;
    return WEIR_OK;
}

weir_status weir__clock_copy(struct weir__clock *dst, const struct weir__clock *src)
{
    weir_status st = weir__clock_reserve(dst, src->n);

    if (st)
        return st;
    if (src->n)
        memcpy(dst->seq, src->seq, src->n * sizeof *src->seq);
    if (dst->n > src->n)
        memset(dst->seq + src->n, 0, (dst->n - src->n) * sizeof *dst->seq);
    return WEIR_OK;
}

static void merge(uint64_t *to, const uint64_t *from, unsigned n)
{
    for (unsigned u = 0; u < n; u++)
        if (from[u] > to[u])
            to[u] = from[u];
}

#if defined(__x86_64__)
/* Every wait merges two clocks, and this loop is most of its cost. n is a multiple of 4, and
 * command numbers fit in 63 bits. */
__attribute__((target("avx2"))) static void merge_avx2(uint64_t *to, const uint64_t *from,
                                                       unsigned n)
{
    for (unsigned u = 0; u < n; u += 4) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(from + u));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(to + u));

        _mm256_storeu_si256((__m256i *)(void *)(to + u),
                            _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b)));
    }
}
#endif

weir_status weir__clock_merge(struct weir__clock *dst, const struct weir__clock *src)
{
    weir_status st = weir__clock_reserve(dst, src->n);

    if (st)
        return st;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        merge_avx2(dst->seq, src->seq, src->n);
    else
#endif
        merge(dst->seq, src->seq, src->n);
    return WEIR_OK;
}

void weir__clock_fini(struct weir__clock *c)
{
    weir__free(c->seq);
    *c = (struct weir__clock){0};
}
