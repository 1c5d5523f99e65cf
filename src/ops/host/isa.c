#include "ops/host/isa_of.h"

/* Compiled for every level like the other files, but its code is needed only once: in the variant
 * that every processor can run. */
#if WEIR__ISA_LEVEL == WEIR__ISA_V1 || defined(WEIR_ISA_ONLY)

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ops/host/product/gemm_i8.h"

static bool is(const char *wish, const char *text)
{
    return wish && !strcmp(wish, text);
}

int weir__isa_of(const struct weir__x86 *x, const char *wish)
{
    int level = weir__x86_level(x); /* 1, 3 and 4: WEIR__ISA_V1, V3, V4 */

    if (wish && wish[0] == 'v' && wish[1] >= '1' && wish[1] < '0' + level && !wish[2])
        return wish[1] >= '3' ? WEIR__ISA_V3 : WEIR__ISA_V1;
    return level;
}

enum weir__isa_pairs weir__isa_pairs_of(const struct weir__x86 *x, const char *wish)
{
    if (weir__isa_of(x, wish) != WEIR__ISA_V4 || is(wish, "v4") || !weir__x86_has_bf16(x))
        return WEIR__ISA_NO_PAIRS;
    return !is(wish, "bf16") && weir__x86_takes_amx(x) ? WEIR__ISA_AMX : WEIR__ISA_BF16;
}

bool weir__isa_bytes_of(const struct weir__x86 *x, const char *wish)
{
    return weir__isa_of(x, wish) == WEIR__ISA_V4 && !is(wish, "v4") && weir__x86_has_vnni(x);
}

/* ---- this machine: asked once; threads that race store the same value ---- */

int weir__isa(void)
{
    static _Atomic int cached;
    int isa = atomic_load_explicit(&cached, memory_order_relaxed);

    if (!isa) {
        isa = weir__isa_of(&weir__x86_here, getenv("WEIR_ISA"));
        atomic_store_explicit(&cached, isa, memory_order_relaxed);
    }
    return isa;
}

enum weir__isa_pairs weir__isa_best_pairs(void)
{
    static _Atomic int cached;
    int pairs = atomic_load_explicit(&cached, memory_order_relaxed);

    if (!pairs) {
        pairs = (int)weir__isa_pairs_of(&weir__x86_here, getenv("WEIR_ISA"));
        atomic_store_explicit(&cached, pairs, memory_order_relaxed);
    }
    return (enum weir__isa_pairs)pairs;
}

bool weir__isa_has_bytes(void)
{
    static _Atomic int cached; /* 0, or 1 + the answer */
    int found = atomic_load_explicit(&cached, memory_order_relaxed);

    if (!found) {
        found = 1 + weir__isa_bytes_of(&weir__x86_here, getenv("WEIR_ISA"));
        atomic_store_explicit(&cached, found, memory_order_relaxed);
    }
    return found > 1;
}

#endif
