/* How work is spread over the cores of a GPU. */
#ifndef WEIR_OPS_GPU_SPREAD_H
#define WEIR_OPS_GPU_SPREAD_H

#include "base/base.h"
#include "device/code.h"

#define WEIR__GPU_THREADS 256

/* `units` shares of work, a block each, at most `per_core` blocks a core: those take several. */
static inline void weir__gpu_spread(int64_t units, unsigned cores, unsigned per_core,
                                    struct weir__code_launch *launch)
{
    launch->grid = (uint32_t)weir__min(units, (int64_t)cores * per_core);
}

/* The same for elements, a thread each. Few of them are spread over as many cores as there are. */
static inline void weir__gpu_spread_threads(int64_t elements, unsigned cores,
                                            struct weir__code_launch *launch)
{
    launch->threads = WEIR__GPU_THREADS;
    while (launch->threads > 32 && weir__div_up(elements, launch->threads) <= cores / 2)
        launch->threads /= 2;
    weir__gpu_spread(weir__div_up(elements, launch->threads), cores, 8, launch);
}

#endif
