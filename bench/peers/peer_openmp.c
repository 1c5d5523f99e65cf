/* OpenMP tasks ordered by `depend`. Built by gcc (libgomp) and by clang (libomp). */
#include "../dag_gen.h"
#include "gemm.h"

#include <omp.h>
#include <stdio.h>

#ifdef __clang__
#define SUBJECT "LLVM OpenMP"
#else
#define SUBJECT "gcc OpenMP"
#endif

enum {
    CHAIN = 20000,
    HOPS = 5000,
    FORKS = 500,
    FORK_WIDTH = 8,
    WAITS = 1000,
    DAG_RUNS = 5,
};

/* Calls `submit` on the master of a team; other threads run tasks. */
static double in_team_of(int threads, void (*submit)(void), int items)
{
    double took = 0;

#pragma omp parallel num_threads(threads)
#pragma omp master
    {
        double start = bench_now_ns();

        submit();
        took = (bench_now_ns() - start) / items;
    }
    return took;
}

static double in_team(void (*submit)(void), int items)
{
    return in_team_of(2, submit, items);
}

static void submit_chain(void)
{
    int queue = 0;

    for (int i = 0; i < CHAIN; i++) {
#pragma omp task depend(inout : queue) shared(queue)
        queue++;
    }
#pragma omp taskwait
}

static void submit_hops(void)
{
    int queue[2] = {0, 0};

    /* Each task comes after the last of its own queue and the last of the other queue. */
    for (int i = 0; i < HOPS; i++) {
        int mine = i & 1;
#pragma omp task depend(inout : queue[mine]) depend(in : queue[1 - mine]) shared(queue)
        queue[mine]++;
    }
#pragma omp taskwait
}

static void submit_forks(void)
{
    int branch[FORK_WIDTH] = {0};

    for (int i = 0; i < FORKS; i++) {
        for (int j = 0; j < FORK_WIDTH; j++) {
#pragma omp task depend(inout : branch[j]) shared(branch)
            branch[j]++;
        }
#pragma omp taskwait
    }
}

static void submit_waits(void)
{
    int done = 0;

    for (int i = 0; i < WAITS; i++) {
#pragma omp task shared(done)
        done++;
#pragma omp taskwait
    }
}

/* A task depends on two earlier ones. The tasks of the next run depend on all of this run. */
static void submit_dag(void)
{
    static int deps[DAG_NODES][2], done[DAG_NODES];

    dag_generate(deps);
    for (int run = 0; run < DAG_RUNS; run++) {
        for (int i = 0; i < DAG_NODES; i++) {
            if (i) {
#pragma omp task depend(in : done[deps[i][0]], done[deps[i][1]]) depend(out : done[i])
                done[i] = run;
            } else {
#pragma omp task depend(out : done[0])
                done[0] = run;
            }
        }
#pragma omp taskwait
    }
}

static double dag_once(void *ctx)
{
    return in_team_of(*(const int *)ctx, submit_dag, DAG_RUNS * DAG_NODES);
}
static double chain_once(void *ctx)
{
    (void)ctx;
    return in_team(submit_chain, CHAIN);
}
static double hops_once(void *ctx)
{
    (void)ctx;
    return in_team(submit_hops, HOPS);
}
static double forks_once(void *ctx)
{
    (void)ctx;
    return in_team(submit_forks, FORKS);
}
static double waits_once(void *ctx)
{
    (void)ctx;
    return in_team(submit_waits, WAITS);
}

static void chain(struct bench *b)
{
    bench_sample(b, SUBJECT, "ns", 3, chain_once, NULL);
}
static void dag(struct bench *b)
{
    bench_sample(b, SUBJECT, "ns", 3, dag_once, &b->threads);
}
static void pingpong(struct bench *b)
{
    bench_sample(b, SUBJECT, "ns", 3, hops_once, NULL);
}
static void fork_join(struct bench *b)
{
    bench_sample(b, SUBJECT, "ns", 3, forks_once, NULL);
}
static void submit_wait(struct bench *b)
{
    bench_sample(b, SUBJECT, "ns", 3, waits_once, NULL);
}

#ifdef PEER_OPENBLAS
static double chains(void *ctx, int queues)
{
    struct gemm *work = ctx;
    double took = 0;

#pragma omp parallel num_threads(2)
#pragma omp master
    {
        int queue[2] = {0, 0};
        double start = bench_now_ns();

        for (int i = 0; i < 2 * GEMM_CHAIN; i++) {
            int which = i & 1, mine = queues == 1 ? 0 : which;
#pragma omp task depend(inout : queue[mine]) shared(queue)
            {
                gemm_run(&work[which]);
                queue[mine]++;
            }
        }
#pragma omp taskwait
        took = bench_now_ns() - start;
    }
    return took;
}

static void overlap(struct bench *b)
{
    struct gemm work[2] = {gemm_make(), gemm_make()};

    gemm_overlap(b, SUBJECT, chains, work);
}
#endif

/* ---- 64 chains ---- */

static double chain_task_ns;

static void submit_chains(void)
{
    static char queue[BENCH_CHAINS]; /* only addresses count */
    double ns = chain_task_ns;

    for (int i = 0; i < BENCH_CHAIN_TASKS; i++)
        for (int k = 0; k < BENCH_CHAINS; k++) {
#pragma omp task depend(inout : queue[k]) firstprivate(ns)
            {
                queue[k]++;
                if (ns > 0)
                    bench_spin_ns(ns);
            }
        }
#pragma omp taskwait
}

static double chains_once(void *ctx)
{
    const struct bench *b = ctx;

    return in_team_of(b->threads, submit_chains, BENCH_CHAINS * BENCH_CHAIN_TASKS);
}

static void chains_64(struct bench *b)
{
    int us = 0;

    sscanf(b->work, "chains_64_%dus", &us);
    chain_task_ns = us * 1000.0;
    bench_sample(b, SUBJECT, "ns", us ? 1 : 3, chains_once, b);
}

static void idle(struct bench *b)
{
    in_team(submit_waits, WAITS);
    bench_idle_share(b, SUBJECT);
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        {"chain", 2, chain},
        {"dag_1000_t1", 1, dag},
        {"dag_1000_t2", 2, dag},
        {"pingpong", 2, pingpong},
        {"fork_join_8", 2, fork_join},
        {"submit_wait", 2, submit_wait},
        BENCH_ON_CORES("chains_64_0us", chains_64),
        BENCH_ON_CORES("chains_64_1us", chains_64),
        BENCH_ON_CORES("chains_64_5us", chains_64),
        BENCH_ON_CORES("chains_64_20us", chains_64),
#ifdef PEER_OPENBLAS
        {"overlap_matmul", 2, overlap},
#endif
        {"idle_cpu", 1, idle},
    };

    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
