/* Reads the processor's time stamp counter if it runs at one rate on all cores; else the clock. */
#include "trace/record/store.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/lock.h"

enum { MEASURED_NS = 2000000 }; /* an error of 50 ns in both clock reads is then 0.005 % */

bool weir__trace_has_tsc;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    uint64_t ns, ticks;
} anchor;

static bool tsc_is_steady(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#else
    return false;
#endif
}

static void init(void)
{
    weir__trace_has_tsc = tsc_is_steady();
    anchor.ns = weir__clock_ns();
    anchor.ticks = weir__trace_ticks();
}

void weir__trace_ticks_init(void)
{
    pthread_once(&once, init);
}

uint64_t weir__trace_slow_ticks(void)
{
    return weir__clock_ns();
}

double weir__trace_tick_ns(void)
{
    uint64_t ns, ticks;

    if (!weir__trace_has_tsc)
        return 1;
    while ((ns = weir__clock_ns()) - anchor.ns < MEASURED_NS)
        weir__yield();
    ticks = weir__trace_ticks();
    return (double)(ns - anchor.ns) / (double)(ticks - anchor.ticks);
}
