/* Words in which kernels count their blocks; they are 0 between kernels. Each stream and each lane
 * of a plan has its own set, because its kernels run one after the other. Kernels must leave the
 * words 0, so they are zeroed only once. When all sets are taken, kernels run without counters. */
#include "cuda/cuda.h"

enum { SETS = 64, SET_BYTES = WEIR__CODE_COUNTERS * sizeof(uint32_t) };

weir_status weir__cuda_counters_open(struct weir__cuda *dev)
{
    const struct weir__cu *cu = &dev->api->cu;
    weir_status st = weir__cuda_check(
        dev, cu->memory_alloc(&dev->counters.words, (size_t)SETS * SET_BYTES), "memory");

    if (st) {
        dev->counters.words = 0;
        return st;
    }
    return weir__cuda_check(
        dev, cu->fill_async(dev->counters.words, 0, (size_t)SETS * SET_BYTES, NULL), "memory");
}

void weir__cuda_counters_close(struct weir__cuda *dev)
{
    if (dev->counters.words)
        dev->api->cu.memory_free(dev->counters.words);
}

uint32_t *weir__cuda_counters_take(struct weir__cuda *dev, uint32_t **own)
{
    uint64_t taken = atomic_load(&dev->counters.taken);

    while (!*own && ~taken) {
        int set = __builtin_ctzll(~taken);

        if (atomic_compare_exchange_weak(&dev->counters.taken, &taken, taken | UINT64_C(1) << set))
            *own = (uint32_t *)(uintptr_t)(dev->counters.words + (uint64_t)set * SET_BYTES);
    }
    return *own;
}

void weir__cuda_counters_give(struct weir__cuda *dev, uint32_t *own)
{
    if (own)
        atomic_fetch_and(
            &dev->counters.taken,
            ~(UINT64_C(1) << ((uint64_t)(uintptr_t)own - dev->counters.words) / SET_BYTES));
}
