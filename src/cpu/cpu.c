/* The driver of the `cpu` device. */
#include "cpu/cpu.h"

#include <stdio.h>
#include <unistd.h>

enum { HOST_POLLS = 2000 }; /* polls before a waiting host thread sleeps: some 30 us */

/* ---- open and close ---- */

static weir_status read_cores(weir_device *dev, struct weir__spec *spec, unsigned hardware,
                              bool *split)
{
    int64_t cores = 0, cube = 0, vector = 0;
    weir_status st;

    if ((st = weir__spec_int(spec, "cores", 1, WEIR__MAX_CORES, &cores)) ||
        (st = weir__spec_int(spec, "cube", 1, WEIR__MAX_CORES, &cube)) ||
        (st = weir__spec_int(spec, "vector", 1, WEIR__MAX_CORES, &vector)))
        return st;
    if (cores && (cube || vector))
        return weir__fail(WEIR_ESPEC,
                          "device spec '%s': 'cores' makes shared cores, 'cube' and 'vector' make "
                          "separate cores: give either the first or the other two",
                          spec->text);
    if (!cube != !vector)
        return weir__fail(WEIR_ESPEC, "device spec '%s': '%s' needs '%s' as well", spec->text,
                          cube ? "cube" : "vector", cube ? "vector" : "cube");
    *split = cube;
    if (!cores)
        cores = hardware;
    dev->props.cores =
        *split ? (weir_cores){(int)cube, (int)vector} : (weir_cores){(int)cores, (int)cores};
    return WEIR_OK;
}

static weir_status cpu_open(weir_device *dev, struct weir__spec *spec)
{
    struct weir__cpu *cpu = (struct weir__cpu *)dev;
    int64_t threads = 0, seed = 0;
    bool split = false;
    weir_status st;

    cpu->hardware = weir__cpu_hardware_threads();
    if ((st = read_cores(dev, spec, cpu->hardware, &split)) ||
        (st = weir__spec_int(spec, "threads", 1, 256, &threads)) ||
        (st = weir__spec_int(spec, "jitter", 1, INT64_MAX, &seed)) ||
        (st = weir__spec_finish(spec, "cores, cube, vector, threads, memory, op_timeout, "
                                      "deterministic, poison, jitter")))
        return st;
    /* By default, no more threads than cores and than hardware threads. */
    unsigned cores =
        (unsigned)(split ? dev->props.cores.cube + dev->props.cores.vector : dev->props.cores.cube);
    cpu->nworkers = threads ? (unsigned)threads : cores < cpu->hardware ? cores : cpu->hardware;
    cpu->jitter = (uint64_t)seed;
    cpu->soft.meets_first = true;
    weir__sched_init(&cpu->soft.sched, dev->props.cores.cube, dev->props.cores.vector, split);
    weir__cpu_find_nodes(cpu);
    weir__cpu_model(dev->props.model, sizeof dev->props.model);
    dev->props.threads = (int)cpu->nworkers;
    dev->props.memory_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    dev->props.features = WEIR_FEATURE_REAL_TIME | WEIR_FEATURE_HOST_MEMORY | WEIR_FEATURE_TIMING |
                          (split ? WEIR_FEATURE_SPLIT_CORES : 0);
    return weir__cpu_start(cpu);
}

static void cpu_close(weir_device *dev)
{
    weir__cpu_stop((struct weir__cpu *)dev);
}

static void cpu_kick(weir_device *dev)
{
    weir__cpu_wake_for_host((struct weir__cpu *)dev);
}

/* ---- waiting ---- */

/* True if a waiting host thread has a hardware thread on which it can spin. */
static bool host_may_spin(const struct weir__cpu *cpu)
{
    return weir__cpu_awake(cpu) < cpu->hardware && weir__cpu_has_spare(cpu, 1) &&
           !atomic_load_explicit(&cpu->standby, memory_order_relaxed);
}

static weir_status wait_for(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin)
{
    struct weir__cpu *cpu = (struct weir__cpu *)s->dev;
    weir_status st;

    for (int i = 0; weir__soft_done(s) < seq; i++) {
        if (!spin || i == HOST_POLLS || ((i & 63) == 63 && !host_may_spin(cpu)))
            goto sleep;
        weir__relax();
    }
    return WEIR_OK;

sleep:
    weir__cpu_host_sleeps(cpu); /* this thread's CPU is free from now on */
    st = weir__soft_host_wait(s, seq, timeout_ns, &cpu->hosts_asleep);
    weir__cpu_host_is_up();
    return st;
}

/* The stream may be waiting for a collective, and so for workers of the group's other devices.
 * Ends their pauses. */
static void hurry_group(const weir_group *group, void *user)
{
    const weir_device *dev = user;
    bool mine = false;

    for (int i = 0; i < group->nranks && !mine; i++)
        mine = group->ranks[i].dev == dev;
    for (int i = 0; i < group->nranks && mine; i++)
        if (group->ranks[i].dev && group->ranks[i].dev->driver == dev->driver)
            weir__soft_hurry((struct weir__soft_device *)group->ranks[i].dev);
}

static weir_status cpu_sync(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin)
{
    struct weir__cpu *cpu = (struct weir__cpu *)s->dev;
    weir_status st;

    if (weir__soft_done(s) >= seq)
        return WEIR_OK;
    if (spin && timeout_ns)
        weir__cpu_help_with(weir__soft(s), seq);
    if (weir__unlikely(atomic_load_explicit(&s->dev->groups_live, memory_order_relaxed)))
        weir__groups_each(hurry_group, s->dev);
    atomic_fetch_add_explicit(&cpu->hosts_waiting, 1, memory_order_relaxed);
    st = wait_for(s, seq, timeout_ns, spin);
    atomic_fetch_sub_explicit(&cpu->hosts_waiting, 1, memory_order_relaxed);
    return st;
}

/* A host thread that queries in a loop is waiting, too, and so is a request for memory that is not
 * free yet: workers should not pause. */
static void cpu_poll(weir_device *dev)
{
    weir__soft_hurry((struct weir__soft_device *)dev);
}

static uint64_t cpu_now(const weir_device *dev)
{
    (void)dev;
    return weir__clock_ns();
}

const struct weir__driver weir__cpu_driver = {
    .name = "cpu",
    .summary = "host threads, in real time",
    .device_size = sizeof(struct weir__cpu),
    .stream_size = sizeof(struct weir__soft_stream),
    .can = WEIR__RUNS_HOST_FUNCTIONS | WEIR__SUBMITS_BY_STREAM,
    .trace_clock = WEIR__TRACE_TICKS,
    .open = cpu_open,
    .close = cpu_close,
    .stream_open = weir__soft_stream_open,
    .stream_close = weir__soft_stream_close,
    .submit = weir__soft_submit,
    .wait = weir__soft_wait,
    .callback = weir__soft_callback,
    .stamp = weir__soft_stamp,
    .kick = cpu_kick,
    .done = weir__soft_done,
    .sync = cpu_sync,
    .map = weir__soft_map_for,
    .unmap = weir__soft_unmap_for,
    .now = cpu_now,
    .plans = &weir__soft_plans,
    .collectives = &(const struct weir__driver_collectives){.explain = weir__soft_report,
                                                            .between_processes = true},
    .cross = &weir__soft_cross,
    .notices = &(const struct weir__driver_notices){.poll = cpu_poll,
                                                    .hurry = cpu_poll,
                                                    .grown = weir__cpu_place_memory},
    .helping = &(const struct weir__driver_helping){.hold = weir__cpu_hold, .help = weir__cpu_help},
};
