/* Memory placement on machines with several NUMA nodes.
 *
 * Linux allocates a page on the node of the thread that touches it first. So the memory that a
 * stream's worker writes is on that worker's node, and is local as long as the stream stays on the
 * node: workers steal from their own node first (pick.c), and a worker that was woken late is moved
 * within its node if possible (place.c). Threads are not bound to nodes: Linux keeps them near
 * their caches while it can, and a bound thread could not make room for the program's own threads.
 *
 * All workers read and write large tensors, because any free worker takes the next block. But often
 * one thread fills a large tensor, and all its pages would be on one node. So segments for large
 * tensors are interleaved over all nodes page by page. If the program has set a memory policy
 * (numactl), or the machine has one node, weir places nothing. */
#define _GNU_SOURCE
#include "cpu/cpu.h"

#include <sys/syscall.h>
#include <unistd.h>

enum {
    DEFAULT_POLICY = 0,    /* MPOL_DEFAULT, */
    INTERLEAVE = 3,        /* MPOL_INTERLEAVE of linux/mempolicy.h */
    LARGE_BYTES = 1 << 20, /* operators on tensors of this size have blocks for many workers */
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

/* mbind may fail, for example in a container. Then pages stay on the node of the first touch. */
void weir__cpu_place_memory(weir_device *dev, void *address, size_t size, size_t asked)
{
    const struct weir__cpu *cpu = (const struct weir__cpu *)dev;

    if (cpu->nodes && asked >= LARGE_BYTES)
        weir__cpu_mbind(address, size, INTERLEAVE, &cpu->nodes->system);
}
