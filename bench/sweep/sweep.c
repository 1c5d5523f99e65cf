/* One variant of weir's f32 product on threads of its own, for sweep.py: the product's source is
 * included, with the sizes that the variant has. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "ops/host/product/gemm_f32.c"
#include "ops/product/gemm_grid.h"

size_t weir_dtype_size(weir_dtype dtype)
{
    return dtype == WEIR_F32 ? 4 : 2;
}

bool weir_dtype_is_float(weir_dtype dtype)
{
    return dtype <= WEIR_F64;
}

#define PEAK_STEPS 100000 /* of 24 * 16 multiply-adds */

struct team {
    struct weir__gemm g;
    struct weir__grid grids[2];
    unsigned threads;
    int calls;
    clockid_t clock; /* of one thread its processor time, which others do not take part in */
    _Atomic unsigned next, here;
    _Atomic int round;
    double seconds;
};

struct member {
    struct team *team;
    unsigned index;
    pthread_t thread;
};

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The processor's peak: 24 chains of sums without loads. */
static void multiply_only(void)
{
    vec acc[24];

#pragma GCC unroll 24
    for (int i = 0; i < 24; i++)
        acc[i] = vec_set((real)0);
    for (int k = 0; k < PEAK_STEPS; k++)
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++)
            __asm__ volatile("vfmadd231ps %0, %0, %0" : "+v"(acc[i]));
}

static void one_part(const struct team *t, unsigned index, void *local)
{
    const struct weir__part part = weir__grid_part_of_two(t->grids, index);
    const int64_t size = (int64_t)weir_dtype_size(t->g.dtype);
    struct weir__gemm g = t->g;

    if (!g.m) {
        multiply_only();
        return;
    }
    g.m = part.m.end - part.m.begin;
    g.n = part.n.end - part.n.begin;
    g.a += part.m.begin * g.a_row * size;
    g.b += part.n.begin * g.b_col * size;
    g.c += (part.m.begin * g.c_row + part.n.begin) * size;
    if (g.m > 0 && g.n > 0)
        gemm(&g, NULL, local);
}

static void *work(void *pointer)
{
    struct member *m = pointer;
    struct team *t = m->team;
    void *local = aligned_alloc(4096, WEIR_LOCAL_BYTES);

    for (int i = 0; i < t->calls; i++) {
        unsigned at;

        /* all threads have arrived */
        if (atomic_fetch_add(&t->here, 1) + 1 == t->threads) {
            t->next = 0;
            t->here = 0;
            if (i == 1)
                t->seconds = now(t->clock);
            atomic_fetch_add(&t->round, 1);
        } else {
            while (t->round == i)
                _mm_pause();
        }
        while ((at = atomic_fetch_add(&t->next, 1)) < t->grids[0].blocks + t->grids[1].blocks)
            one_part(t, at, local);
    }
    if (t->threads == 1)
        t->seconds = now(t->clock) - t->seconds;
    free(local);
    return NULL;
}

/* Seconds of a call, the first left out. B is [k, n], or [n, k] if `nk`. Without m: of
 * multiply_only on each thread. */
__attribute__((visibility("default"))) double sweep(int dtype, int64_t m, int64_t n, int64_t k,
                                                    const void *a, const void *b, void *c, int nk,
                                                    unsigned threads, int calls)
{
    struct team t = {.g = {.m = m,
                           .n = n,
                           .k = k,
                           .a = a,
                           .b = b,
                           .c = c,
                           .dtype = (weir_dtype)dtype,
                           .a_row = k,
                           .a_col = 1,
                           .b_row = nk ? 1 : n,
                           .b_col = nk ? k : 1,
                           .c_row = n,
                           .c_col = 1},
                     .threads = threads,
                     .calls = calls + 1,
                     .clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC};
    struct member members[64];

    if (m)
        weir__grid_make_two(&weir__grid_host, m, n, k, threads, t.grids);
    else
        t.grids[0].blocks = threads;
    for (unsigned i = 0; i < threads; i++) {
        members[i] = (struct member){.team = &t, .index = i};
        pthread_create(&members[i].thread, NULL, work, &members[i]);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(members[i].thread, NULL);
    return (threads == 1 ? t.seconds : now(t.clock) - t.seconds) / calls;
}
