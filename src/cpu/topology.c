/* The hardware threads that this process may use. */
#define _GNU_SOURCE
#include "cpu/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#ifdef WEIR_HAVE_HWLOC
#include <hwloc.h>

/* hwloc knows what cgroups and disabled processors leave of the affinity mask. */
static unsigned count_allowed(void)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t mine = NULL;
    int n = 0;

    if (hwloc_topology_init(&topology))
        return 0;
    if (!hwloc_topology_load(topology) && (mine = hwloc_bitmap_alloc())) {
        if (hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS))
            hwloc_bitmap_copy(mine, hwloc_topology_get_allowed_cpuset(topology));
        hwloc_bitmap_and(mine, mine, hwloc_topology_get_allowed_cpuset(topology));
        n = hwloc_bitmap_weight(mine);
    }
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(topology);
    return n > 0 ? (unsigned)n : 0;
}
#else
static unsigned count_allowed(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? 0 : (unsigned)CPU_COUNT(&set);
}
#endif

unsigned weir__cpu_hardware_threads(void)
{
    static _Atomic unsigned cached; /* asking hwloc takes milliseconds */
    unsigned n = atomic_load(&cached);

    if (!n) {
        n = count_allowed();
        n = n ? n : 1;
        atomic_store(&cached, n);
    }
    return n;
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
