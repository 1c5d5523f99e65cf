/* How a work is measured, the same for weir and for every peer.
 *
 * A program has a table of cases. Each case runs in a process of its own, so
 * that one runtime's idle threads never disturb the next case, and a case that
 * crashes or hangs loses only its own line. The output is JSON lines:
 *
 *   {"work": "chain", "subject": "oneTBB", "unit": "ns", "threads": 2, "samples": [ ... ]}
 *   {"work": "chain", "skipped": "why there are no samples"}
 *   {"probe": 1.93, "hop": 57, "foreign": 0.01}
 *   {"work": "chains_64_0us_t16", "busy": 0.31}
 *
 * A probe line has the speed of FMA on two threads divided by that on one, the
 * nanoseconds in which a cache line gets from one CPU to the other, and the share
 * of a core that other processes used since the last probe. On a virtual machine
 * two CPUs are at times two hardware threads of one core, or move closer or
 * further apart. A case on two threads therefore runs between two probes. A block
 * that was disturbed is measured again, a few times. A case on more threads uses
 * all CPUs of the machine. It has no probes, since a probe sees only two CPUs; a
 * busy line after it gives the share that other processes used, if that was much.
 *
 * threads  one, for all of these, unless said otherwise. */
#ifndef WEIR_BENCH_HARNESS_H
#define WEIR_BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Two threads count as two cores if the probe is at least this. */
#define BENCH_PROBE_MIN 1.7
/* The share of a core that other processes may use during a block. */
#define BENCH_FOREIGN_MAX 0.2
/* Hops that differ by more than this factor come from different placements of the CPUs. */
#define BENCH_HOP_FACTOR 1.6

/* The work chains_64: the number of chains, and of tasks in each. */
#define BENCH_CHAINS 64
#define BENCH_CHAIN_TASKS 200

/* One run of one case. */
struct bench {
    const char *work;
    int threads;
    bool quick; /* fewer repetitions, shorter work */
    int reps;   /* samples to take */
};

struct bench_case {
    const char *work;
    int threads; /* cores that must be real: 2 brackets the case with probes; more than 2 take all
                  * CPUs of the machine, without probes */
    void (*run)(struct bench *b);
};

/* Rows of a work on 1 to 16 cores, as far as the machine has them: work_t1 and so on. */
#define BENCH_ON_CORES(work, run)                                                           \
    {work "_t1", 1, run}, {work "_t2", 2, run}, {work "_t4", 4, run}, {work "_t8", 8, run}, \
    {                                                                                       \
        work "_t16", 16, run                                                                \
    }

/* Does the work once. returns its time or rate, in the unit given. */
typedef double (*bench_once_fn)(void *ctx);

/* Takes b->reps samples, each the median of `inner` calls, after a warm-up, and
 * prints them. A subject is a name, or a name and a form of it: "oneTBB: prebuilt". */
void bench_sample(const struct bench *b, const char *subject, const char *unit, int inner,
                  bench_once_fn once, void *ctx);

/* Prints samples that the caller has measured. */
void bench_emit(const struct bench *b, const char *subject, const char *unit, const double *samples,
                size_t count);

/* Prints why there are no samples. */
void bench_skip(const struct bench *b, const char *reason);

/* Sleeps a second after `b`'s work has completed and prints the share of one core
 * that the idle process uses afterwards, in percent. */
void bench_idle_share(const struct bench *b, const char *subject);

/* Runs the cases named in argv (all without a name) and prints their lines.
 * Arguments: [--quick] [--list] [WORK...].
 * returns  an exit status: 0, or 2 for bad usage. */
int bench_main(int argc, char **argv, const struct bench_case *cases, size_t count);

/* Runs one case in a process of its own; `out_fd` gets its lines. */
void bench_run_case(const struct bench_case *c, bool quick, int out_fd);

/* Whether `name` selects `work`: "add" selects "add_1000x1000_t1". `name` may
 * also be a shell pattern: "chains_64_*_t16". */
bool bench_work_matches(const char *work, const char *name);

/* Whether the machine has CPUs enough for the case. After bench_use_two_cpus. */
bool bench_case_fits(const struct bench_case *c);

/* Limits the process to the first two CPUs it may use; the figures are measured
 * on these. returns the number it has now: 1 or 2. */
int bench_use_two_cpus(void);

/* Undoes bench_use_two_cpus, for programs that a process starts. */
void bench_use_all_cpus(void);

/* Pins the calling thread to the first (0) or second (1) of them. threads any. */
void bench_pin(int which);

/* CPU seconds that other processes and the hypervisor have used since boot. */
double bench_foreign_seconds(void);

/* Monotonic nanoseconds. threads any. */
double bench_now_ns(void);

/* Spins on its CPU for that time. threads any. */
void bench_spin_ns(double ns);

/* Lets other threads run. threads any. */
void bench_yield(void);

/* Runs `fn(ctx, 0)` here and `fn(ctx, 1)` on a second thread, pinned apart and
 * released together. Either call may be timed inside. The caller's own pinning
 * is restored. */
void bench_on_two(void (*fn)(void *ctx, int who), void *ctx);

/* The speed of FMA on two threads divided by that on one: about 2 for two cores. Takes 10 ms. */
double bench_fma_ratio(void);

/* The time a cache line takes from one CPU to the other. Takes about 2 ms. */
double bench_hop_ns(void);

/* GFLOP/s of f32 FMA on 1 or 2 threads. */
double bench_fma_gflops(int threads);

/* Whether two hop times come from the same placement of the CPUs. */
bool bench_hops_agree(double a, double b);

/* Sorts `x` and gives the value at `share` (0..1) of the way, interpolated. */
double bench_quantile(double *x, size_t count, double share);

#ifdef __cplusplus
}
#endif
#endif
