/* The chosen algorithms of products and arrangements of plans. Choices are stored as files in the
 * cache, because making them takes time. The file's name contains everything on which the choice
 * depends; the product's key is a hash there, and is also stored in the file. */
#include "cuda/load/cache.h"
#include "cuda/product/product.h"
#include "cuda/program/program.h"

#include <stdio.h>
#include <string.h>

struct stored {
    struct weir__cuda_key key;
    int64_t target;
    struct weir__lt_algo algo;
};

static void stored_name(const struct weir__cuda *dev, const struct weir__cuda_product *p,
                        uint64_t concurrent_set, char *name, size_t size)
{
    uint64_t h = weir__cuda_hash(WEIR__CUDA_HASH, &p->key, sizeof p->key);

    snprintf(name, size, "product-%016llx-%016llx-sm%d%d-cores%u-cublaslt%d.algorithm",
             (unsigned long long)h, (unsigned long long)concurrent_set, dev->gpu.major,
             dev->gpu.minor, dev->cores.total, dev->api->lt.version());
}

int weir__cuda_add_algorithm(struct weir__cuda_product *p, const struct weir__lt_result *how,
                             int target)
{
    for (int i = 0; i < p->nalgorithms; i++)
        if (p->algorithms[i].target == target &&
            !memcmp(&p->algorithms[i].how.algo, &how->algo, sizeof how->algo))
            return i;
    if (p->nalgorithms == WEIR__CUDA_ALGORITHMS)
        return -1;
    p->algorithms[p->nalgorithms] = (struct weir__cuda_algorithm){.how = *how, .target = target};
    return p->nalgorithms++;
}

void weir__cuda_choose(struct weir__cuda_product *p, uint64_t concurrent_set, int algorithm)
{
    unsigned n = p->nchoices < WEIR__CUDA_CONCURRENT_SETS ? p->nchoices
                                                          : WEIR__CUDA_CONCURRENT_SETS,
             i = 0;

    if (!concurrent_set) {
        p->best = algorithm;
        return;
    }
    while (i < n && p->choices[i].concurrent_set != concurrent_set)
        i++;
    if (i == n)
        i = p->nchoices++ % WEIR__CUDA_CONCURRENT_SETS;
    p->choices[i].concurrent_set = concurrent_set;
    p->choices[i].algorithm = algorithm;
}

int weir__cuda_choice(const struct weir__cuda_product *p, uint64_t concurrent_set)
{
    for (unsigned i = 0; concurrent_set && i < p->nchoices && i < WEIR__CUDA_CONCURRENT_SETS; i++)
        if (p->choices[i].concurrent_set == concurrent_set)
            return p->choices[i].algorithm;
    return p->best;
}

/* A file may have any content, so the library checks whether it supports the stored algorithm. */
int weir__cuda_read_choice(struct weir__cuda *dev, struct weir__cuda_product *p,
                           uint64_t concurrent_set)
{
    char name[160];
    size_t size;
    struct stored *s;
    struct weir__lt_result how = {.workspace = 0};
    int algorithm = -1;

    stored_name(dev, p, concurrent_set, name, sizeof name);
    if (!(s = (struct stored *)weir__cuda_cache_read(name, &size)))
        return -1;
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): keys are zeroed first */
    if (size == sizeof *s && !memcmp(&s->key, &p->key, sizeof s->key) && s->target >= 0 &&
        s->target < WEIR__CUDA_TARGETS) {
        if (weir__cuda_product_describe(dev, p, (int)s->target) &&
            !dev->api->lt.check(dev->products.library, p->desc[s->target], p->b, p->a, p->c, p->c,
                                &s->algo, &how) &&
            how.workspace <= WEIR__CUDA_WORKSPACE) {
            how.algo = s->algo;
            algorithm = weir__cuda_add_algorithm(p, &how, (int)s->target);
        }
    }
    if (algorithm >= 0)
        weir__cuda_choose(p, concurrent_set, algorithm);
    else
        weir__log(WEIR_LOG_WARN, "%s has no algorithm for this product and is ignored", name);
    weir__free(s);
    return algorithm;
}

void weir__cuda_keep_choice(const struct weir__cuda *dev, const struct weir__cuda_product *p,
                            uint64_t concurrent_set, int algorithm)
{
    struct stored s;
    char name[160];

    memset(&s, 0, sizeof s);
    memcpy(&s.key, &p->key, sizeof s.key); /* with padding: keys are compared as bytes */
    s.target = p->algorithms[algorithm].target;
    s.algo = p->algorithms[algorithm].how.algo;
    stored_name(dev, p, concurrent_set, name, sizeof name);
    weir__cuda_cache_write(name, &s, sizeof s);
}

/* ---- plans ---- */

static void plan_name(const struct weir__program *p, char *name, size_t size)
{
    snprintf(name, size, "plan-%016llx-sm%d%d-cores%u-cublaslt%d.plan",
             (unsigned long long)p->concurrent_set, p->dev->gpu.major, p->dev->gpu.minor,
             p->dev->cores.total, p->dev->api->lt.version());
}

static bool is_kernel(const struct weir__program *p, struct weir__cuda_place at)
{
    return at.lane >= 0 && at.lane < p->nlanes && at.item >= 0 &&
           at.item < p->lanes[at.lane].nitems && !weir__cuda_item_at(p, at)->is_wait;
}

/* Validates an arrangement from a file, which may have any content. No item may be in two
 * merges. */
static bool fits(const struct weir__program *p, const struct weir__cuda_arrangement *a)
{
    struct weir__cuda_place seen[WEIR__CUDA_MERGES * WEIR__CUDA_MERGED];
    int n = 0;

    if (a->nmerges < 0 || a->nmerges > WEIR__CUDA_MERGES)
        return false;
    for (int i = 0; i < a->nmerges; i++) {
        const struct weir__cuda_merge *m = &a->merges[i];

        if (m->n < 2 || m->n > WEIR__CUDA_MERGED)
            return false;
        for (int k = 0; k < m->n; k++) {
            for (int j = 0; j < n; j++)
                if (seen[j].lane == m->members[k].lane && seen[j].item == m->members[k].item)
                    return false;
            if (!is_kernel(p, m->members[k]))
                return false;
            seen[n++] = m->members[k];
        }
    }
    return true;
}

bool weir__cuda_read_arrangement(struct weir__program *p)
{
    struct weir__cuda_arrangement *a;
    char name[160];
    size_t size;
    bool good;

    plan_name(p, name, sizeof name);
    if (!(a = (struct weir__cuda_arrangement *)weir__cuda_cache_read(name, &size)))
        return false;
    if ((good = size == sizeof *a && fits(p, a)))
        p->arrangement = *a;
    else
        weir__log(WEIR_LOG_WARN, "%s belongs to another plan and is ignored", name);
    weir__free(a);
    return good;
}

void weir__cuda_keep_arrangement(const struct weir__program *p)
{
    char name[160];

    plan_name(p, name, sizeof name);
    weir__cuda_cache_write(name, &p->arrangement, sizeof p->arrangement);
}
