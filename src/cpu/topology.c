/* The hardware threads that this process may use, and their NUMA nodes. */
#define _GNU_SOURCE
#include "cpu/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Read once per process, because hwloc takes milliseconds. */
static struct {
    unsigned threads;
    struct weir__cpu_nodes nodes;
} found;

#ifdef WEIR_HAVE_HWLOC
#include <hwloc.h>

/* Finds the nodes that have memory and at least one of our CPUs. If several nodes have the same
 * CPUs, such as fast and ordinary memory, only the first counts: the system allocates from it. */
static void find_nodes(hwloc_topology_t topology, hwloc_const_bitmap_t mine)
{
    struct weir__cpu_nodes *nodes = &found.nodes;
    hwloc_bitmap_t rest = hwloc_bitmap_dup(mine);
    hwloc_obj_t o = NULL;
    unsigned cpu;

    while (rest && nodes->count < WEIR__MAX_NODES &&
           (o = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, o))) {
        if (!o->attr->numanode.local_memory || o->os_index >= WEIR__MAX_NODES ||
            !hwloc_bitmap_intersects(o->cpuset, rest))
            continue;
        hwloc_bitmap_foreach_begin(cpu, o->cpuset) if (cpu < CPU_SETSIZE &&
                                                       hwloc_bitmap_isset(rest, cpu))
            nodes->of_cpu[cpu] = (uint8_t)nodes->count;
        hwloc_bitmap_foreach_end();
        hwloc_bitmap_andnot(rest, rest, o->cpuset);
        nodes->system |= UINT64_C(1) << o->os_index;
        nodes->count++;
    }
    hwloc_bitmap_free(rest);
}

/* hwloc also takes cgroups and disabled processors into account. */
static void look(void)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t mine = NULL;
    int n;

    if (hwloc_topology_init(&topology))
        return;
    if (!hwloc_topology_load(topology) && (mine = hwloc_bitmap_alloc())) {
        if (hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS))
            hwloc_bitmap_copy(mine, hwloc_topology_get_allowed_cpuset(topology));
        hwloc_bitmap_and(mine, mine, hwloc_topology_get_allowed_cpuset(topology));
        n = hwloc_bitmap_weight(mine);
        found.threads = n > 0 ? (unsigned)n : 0;
        find_nodes(topology, mine);
    }
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(topology);
}
#else
static void look(void)
{
    cpu_set_t set;

    found.threads = sched_getaffinity(0, sizeof set, &set) ? 0 : (unsigned)CPU_COUNT(&set);
}
#endif

static void look_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, look);
}

unsigned weir__cpu_hardware_threads(void)
{
    look_once();
    return found.threads ? found.threads : 1;
}

const struct weir__cpu_nodes *weir__cpu_nodes(void)
{
    look_once();
    return &found.nodes;
}

void weir__cpu_model(char *text, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(text, size, "unknown processor");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strstr(line, ": ");

        if (strncmp(line, "model name", 10) || !value)
            continue;
        value[strcspn(value, "\n")] = 0;
        snprintf(text, size, "%s", value + 2);
        break;
    }
    if (f)
        fclose(f);
}
