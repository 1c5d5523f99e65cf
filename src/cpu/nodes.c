/* Machines whose memory is in several nodes: each CPU reaches that of its own node soonest.
 *
 * Whoever touches a page first gets it from its own node. So what a stream's worker writes lies
 * where it runs, as long as the stream stays there: workers steal from their own node first
 * (pick.c), and one that was woken late is moved within it (place.c). Threads are not bound to
 * nodes: Linux keeps them at their caches while it can, and a bound one could not get out of the
 * way of the program's own threads.
 *
 * Large tensors are read and written by all workers, a block by whoever is free, and are often
 * filled by one thread, which would get all their pages from one node. Their segments are spread
 * over all nodes page by page instead. A program that says itself where memory goes (numactl) is
 * left alone. Where there is one node, nothing of this happens. */
#define _GNU_SOURCE
#include "cpu/cpu.h"

#include <sys/syscall.h>
#include <unistd.h>

enum {
    DEFAULT_POLICY = 0,    /* MPOL_DEFAULT, */
    INTERLEAVE = 3,        /* MPOL_INTERLEAVE of linux/mempolicy.h */
    LARGE_BYTES = 1 << 20, /* from here on operators have blocks for many workers */
};

static long call_mbind(void *address, size_t size, int mode, const uint64_t *nodes)
{
    return syscall(SYS_mbind, address, size, mode, nodes, (unsigned long)WEIR__MAX_NODES + 1, 0u);
}

long (*weir__cpu_mbind)(void *, size_t, int, const uint64_t *) = call_mbind;

void weir__cpu_find_nodes(struct weir__cpu *cpu)
{
    const struct weir__cpu_nodes *nodes = weir__cpu_nodes();
    int policy = DEFAULT_POLICY;

    if (nodes->count < 2 || cpu->nworkers < 2 ||
        (!syscall(SYS_get_mempolicy, &policy, NULL, 0ul, NULL, 0ul) && policy != DEFAULT_POLICY))
        return;
    cpu->nodes = nodes;
}

/* The system may refuse, as in a container: then pages are where they were touched first. */
void weir__cpu_place_memory(weir_device *dev, void *address, size_t size, size_t asked)
{
    const struct weir__cpu *cpu = (const struct weir__cpu *)dev;

    if (cpu->nodes && asked >= LARGE_BYTES)
        weir__cpu_mbind(address, size, INTERLEAVE, &cpu->nodes->system);
}
