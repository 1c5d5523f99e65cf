/* A machine with as many CPUs as a test likes, in virtual time.
 *
 * The real sources of the `cpu` device run on it (CMakeLists.txt compiles them again with
 * vpause.h). Every thread of the library is a real thread, but one runs at a time: the one whose
 * clock is furthest behind. Clocks go on by what the machine charges for pauses, yields, sleeping
 * and waking, and by machine_work. So a run is the same every time, on any number of real CPUs.
 *
 * There are CPUs, each with a queue of threads that want it: a thread that is woken goes to an idle
 * CPU, or waits in a queue until the one that runs there sleeps or has used up its slice. What
 * caches cost is not modelled. */
#ifndef TESTS_CORES_MACHINE_H
#define TESTS_CORES_MACHINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MACHINE_MAX_CPUS = 64,
    MACHINE_PAUSE_NS = 40,
    MACHINE_SYSCALL_NS = 300,
    MACHINE_WAKE_NS = 2500,     /* what waking somebody takes whoever does it */
    MACHINE_WAKE_UP_NS = 40000, /* and until the other runs, on an idle CPU */
    MACHINE_SWITCH_NS = 1500,   /* from one thread of a CPU to the next */
    MACHINE_SLICE_NS = 3000000,
};

/* The calling thread becomes the machine's first. Once in a process. */
void machine_start(unsigned cpus);
/* How threads get CPUs from now on. `preempts`: one that is woken and finds no idle CPU takes it
 * from whoever runs there, as Linux lets one do that has slept for long. `pulls`: a CPU that
 * becomes idle takes a thread from another's queue, as Linux does if it has been idle for long
 * enough before. */
void machine_places_threads(bool preempts, bool pulls);
/* Devices that are opened from now on find its memory in so many nodes, with CPUs that follow each
 * other at each. */
void machine_has_nodes(unsigned nodes);
/* The calling thread's. */
unsigned machine_cpu(void);
/* The calling thread computes. */
void machine_work(uint64_t ns);
uint64_t machine_now(void);

struct machine_counts {
    uint64_t wakes; /* calls that woke a thread, */
    uint64_t vain;  /* and that woke nobody */
    uint64_t sleeps;
    uint64_t preempted; /* threads whose CPU went to another */
};
struct machine_counts machine_counts(void);

#endif
