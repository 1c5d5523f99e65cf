/* One variant of weir's f32 product on threads of its own, for sweep.py: the product's source is
 * included, with the sizes that the variant has. Few rows are cut along k. */
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
    float *sums; /* of few rows: of parts of k times pieces of the columns; phase 1 adds them up */
    int64_t parts, pieces;
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
        gemm(&g, local);
}

/* Few rows: a part of k of a piece of the columns, or the sums of all parts of a stretch. */
static void some_columns(const struct team *t, unsigned index, unsigned phase, void *local)
{
    const int64_t next = t->g.m * t->g.n, size = (int64_t)weir_dtype_size(t->g.dtype);
    const weir_block block = {.index = phase ? index : (unsigned)(index % t->pieces),
                              .count = (unsigned)(phase ? t->parts * t->pieces : t->pieces)};
    const struct weir__range columns = weir__tile_range(t->g.n, phase ? 16 : 64, &block);
    const int64_t part = index / t->pieces;
    struct weir__gemm g = t->g;

    g.n = columns.end - columns.begin;
    g.b += columns.begin * size;
    g.c += columns.begin * size;
    if (g.n > 0 && phase)
        thin_join(&g, t->sums + columns.begin, t->parts, t->g.n, next, local);
    else if (g.n > 0)
        thin(&g, local, (struct thin_target){part, t->sums + part * next + columns.begin, t->g.n});
}

/* All threads have arrived; the last one resets what they count. */
static void meet(struct team *t, int round)
{
    if (atomic_fetch_add(&t->here, 1) + 1 == t->threads) {
        t->next = 0;
        t->here = 0;
        if (round == (t->sums ? 2 : 1))
            t->seconds = now(t->clock);
        atomic_fetch_add(&t->round, 1);
    } else {
        while (t->round == round)
            _mm_pause();
    }
}

static void *work(void *pointer)
{
    struct member *m = pointer;
    struct team *t = m->team;
    void *local = aligned_alloc(4096, WEIR_LOCAL_BYTES);

    const unsigned phases = t->sums ? 2 : 1;
    const unsigned blocks =
        t->sums ? (unsigned)(t->parts * t->pieces) : t->grids[0].blocks + t->grids[1].blocks;

    for (int i = 0; i < t->calls * (int)phases; i++) {
        const unsigned phase = (unsigned)i % phases;
        unsigned at;

        meet(t, i);
        while ((at = atomic_fetch_add(&t->next, 1)) < blocks)
            if (t->sums)
                some_columns(t, at, phase, local);
            else
                one_part(t, at, local);
    }
    if (t->threads == 1)
        t->seconds = now(t->clock) - t->seconds;
    free(local);
    return NULL;
}

/* Seconds of a call, the first left out. B is [k, n], or [n, k] if `nk`. Without m: of
 * multiply_only on each thread. The product is cut for so many cores. */
__attribute__((visibility("default"))) double sweep(int dtype, int64_t m, int64_t n, int64_t k,
                                                    const void *a, const void *b, void *c, int nk,
                                                    unsigned threads, unsigned cores, int calls)
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

    t.g.thin = m && weir__gemm_is_thin(&t.g);
    if (t.g.thin) {
        t.parts = weir__div_up(k, weir__gemm_part(k));
        t.pieces = weir__max(1, weir__div_up(2 * cores, t.parts));
        t.sums = aligned_alloc(4096, (size_t)(t.parts * m * n + 1024) / 1024 * 4096);
    }
    if (m)
        weir__grid_make_two(&weir__grid_host, m, n, k, cores, t.grids);
    else
        t.grids[0].blocks = threads;
    for (unsigned i = 0; i < threads; i++) {
        members[i] = (struct member){.team = &t, .index = i};
        pthread_create(&members[i].thread, NULL, work, &members[i]);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(members[i].thread, NULL);
    free(t.sums);
    return (threads == 1 ? t.seconds : now(t.clock) - t.seconds) / calls;
}
