/* Offers: each rank describes its call, and the descriptions of all ranks must fit together. */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

void weir__call_text(const struct weir__meet *meet, uint64_t call, char *text, size_t size)
{
    const struct weir__channel *c = meet->channel;

    snprintf(text, size, "%s (call %llu%s%s of group '%s')", meet->offer.label,
             (unsigned long long)call + 1, *c->name ? " of " : "", c->name, c->group->name);
}

/* Writes text such as "AllReduce sum f32[2, 3]". */
static void describe(const struct weir__offer *o, char *text, size_t size)
{
    int n = snprintf(text, size, "%s", o->label);

    if (*o->reduce)
        n += snprintf(text + n, size - (size_t)n, " %s", o->reduce);
    if (o->root >= 0)
        n += snprintf(text + n, size - (size_t)n, " from rank %d", o->root);
    if (o->ndim < 0)
        return;
    n += snprintf(text + n, size - (size_t)n, " %s[", weir_dtype_name(o->dtype));
    for (int d = 0; d < o->ndim && (size_t)n < size; d++)
        n += o->shape[d] < 0 ? snprintf(text + n, size - (size_t)n, "%s?", d ? ", " : "")
                             : snprintf(text + n, size - (size_t)n, "%s%lld", d ? ", " : "",
                                        (long long)o->shape[d]);
    if ((size_t)n < size)
        snprintf(text + n, size - (size_t)n, "]");
}

static const char *find_difference(const struct weir__offer *a, const struct weir__offer *b)
{
    if (strcmp(a->what, b->what))
        return "operator";
    if (strcmp(a->reduce, b->reduce))
        return "reduction";
    if (a->root != b->root)
        return "root";
    if (a->ndim < 0 && b->ndim < 0)
        return NULL;
    if (a->dtype != b->dtype)
        return "data type";
    return a->ndim != b->ndim || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape)
               ? "shape"
               : NULL;
}

/* True if `to` expects as many rows from `from` as `from` sends to it. */
static bool counts_fit(const struct weir__meet *from, const struct weir__meet *to, char *text,
                       size_t size)
{
    int64_t sends, expects;

    if (!from->offer.send)
        return true;
    sends = weir__meet_counts(from, from->offer.send)[to->rank];
    expects = weir__meet_counts(to, to->offer.recv)[from->rank];
    if (sends == expects)
        return true;
    snprintf(text, size,
             "the counts differ: rank %d sends %lld rows to rank %d, which expects %lld from it",
             from->rank, (long long)sends, to->rank, (long long)expects);
    return false;
}

bool weir__offers_fit(const struct weir__meet *a, const struct weir__meet *b, char *text,
                      size_t size)
{
    const char *what = find_difference(&a->offer, &b->offer);
    char one[160], other[160];

    if (!what)
        return counts_fit(a, b, text, size) && counts_fit(b, a, text, size);
    describe(&a->offer, one, sizeof one);
    describe(&b->offer, other, sizeof other);
    snprintf(text, size, "the %s differs: rank %d calls %s, rank %d calls %s", what, a->rank, one,
             b->rank, other);
    return false;
}
