/* How far apart the two CPUs are: one cache line bounced between them. */
#include "harness.h"

#include <stdatomic.h>

enum { ROUND_TRIPS = 5000 };

struct hop {
    _Alignas(64) atomic_int turn;
    _Alignas(64) double ns;
};

static void bounce(void *ctx, int who)
{
    struct hop *h = ctx;
    double start = bench_now_ns();

    for (int i = 0; i < ROUND_TRIPS; i++) {
        while (atomic_load_explicit(&h->turn, memory_order_acquire) != 2 * i + who)
            continue;
        atomic_store_explicit(&h->turn, 2 * i + who + 1, memory_order_release);
    }
    if (who == 0)
        h->ns = (bench_now_ns() - start) / (2.0 * ROUND_TRIPS);
}

double bench_hop_ns(void)
{
    struct hop h = {.turn = 0};

    bench_on_two(bounce, &h);
    return h.ns;
}

bool bench_hops_agree(double a, double b)
{
    return a < b * BENCH_HOP_FACTOR && b < a * BENCH_HOP_FACTOR;
}
