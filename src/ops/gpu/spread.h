/* Distributes work over the cores of a GPU. */
#ifndef WEIR_OPS_GPU_SPREAD_H
#define WEIR_OPS_GPU_SPREAD_H

#include "base/base.h"
#include "device/code.h"

#define WEIR__GPU_THREADS 256

/* One block for each of `units`, but at most `per_core` blocks per core: each then takes several
 * units. */
static inline void weir__gpu_spread(int64_t units, unsigned cores, unsigned per_core,
                                    struct weir__code_launch *launch)
{
    launch->grid = (uint32_t)weir__min(units, (int64_t)cores * per_core);
}

/* The same for elements, one thread each. A few elements are spread over as many cores as
 * possible. */
static inline void weir__gpu_spread_threads(int64_t elements, unsigned cores,
                                            struct weir__code_launch *launch)
{
    launch->threads = WEIR__GPU_THREADS;
    while (launch->threads > 32 && weir__div_up(elements, launch->threads) <= cores / 2)
        launch->threads /= 2;
    weir__gpu_spread(weir__div_up(elements, launch->threads), cores, 8, launch);
}

#endif
