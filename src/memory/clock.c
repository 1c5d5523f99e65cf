#include "memory/clock.h"

#include <string.h>

weir_status weir__clock_grow(struct weir__clock *c, unsigned n)
{
    unsigned cap = 4;
    uint64_t *seq;

    while (cap < n)
        cap *= 2;
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

weir_status weir__clock_merge(struct weir__clock *dst, const struct weir__clock *src)
{
    weir_status st = weir__clock_reserve(dst, src->n);

    if (st)
        return st;
    for (unsigned u = 0; u < src->n; u++)
        if (src->seq[u] > dst->seq[u])
            dst->seq[u] = src->seq[u];
    return WEIR_OK;
}

void weir__clock_fini(struct weir__clock *c)
{
    weir__free(c->seq);
    *c = (struct weir__clock){0};
}
