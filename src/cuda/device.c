/* The driver of the `cuda` device: opening, memory, and the table. */
#include "cuda/collective/meet.h"
#include "cuda/collective/share.h"
#include "cuda/fault/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *unavailable(void)
{
    const struct weir__cuda_api *api = weir__cuda_api_get();

    return api->no_driver[0]     ? api->no_driver
           : api->no_compiler[0] ? api->no_compiler
           : api->no_products[0] ? api->no_products
                                 : NULL;
}

bool weir__cuda_enter(struct weir__cuda *dev)
{
    weir__cu_context current;
    weir__cu_result r;

    if (weir__likely(!dev->api->cu.context_current(&current) && current == dev->gpu.context))
        return false;
    if (weir__likely(!(r = dev->api->cu.context_push(dev->gpu.context))))
        return true;
    (void)weir__cuda_check(dev, r, "the context"); /* the calls that follow will fail */
    return false;
}

void weir__cuda_leave(const struct weir__cuda *dev, bool pushed)
{
    weir__cu_context popped;

    if (pushed)
        dev->api->cu.context_pop(&popped);
}

/* ---- open and close ---- */

/* Reads the GPU's number, which is an option without a value: "cuda:1". */
static weir_status read_ordinal(const struct weir__cuda *dev, struct weir__spec *spec, int *ordinal)
{
    int count = 0;
    char *end;

    dev->api->cu.device_count(&count);
    *ordinal = 0;
    for (int i = 0; i < spec->n; i++) {
        long n = strtol(spec->options[i].key, &end, 10);

        if (spec->options[i].value || *end || end == spec->options[i].key)
            continue;
        if (n < 0 || n >= count)
            return weir__fail(WEIR_ESPEC, "device spec '%s': GPU %ld is out of range: 0..%d",
                              spec->text, n, count - 1);
        spec->options[i].used = true;
        *ordinal = (int)n;
    }
    return weir__spec_finish(spec, "a GPU's number, memory, op_timeout, deterministic, poison");
}

static weir_status read_attributes(struct weir__cuda *dev, int *cores)
{
    int mapping = 0, words = 0;
    const struct {
        int which, *value;
    } wanted[] = {
        {CU_ATTRIBUTE_MULTIPROCESSORS, cores},
        {CU_ATTRIBUTE_MAJOR, &dev->gpu.major},
        {CU_ATTRIBUTE_MINOR, &dev->gpu.minor},
        {CU_ATTRIBUTE_SHARED_OPTIN, &dev->gpu.shared_most},
        {CU_ATTRIBUTE_VIRTUAL_MEMORY, &mapping},
        {CU_ATTRIBUTE_STREAM_MEMORY_64, &words},
        {CU_ATTRIBUTE_CLUSTERS, &dev->gpu.clusters},
    };
    weir_status st;

    for (size_t i = 0; i < weir__countof(wanted); i++)
        if ((st = weir__cuda_check(
                 dev,
                 dev->api->cu.device_attribute(wanted[i].value, wanted[i].which, dev->gpu.device),
                 "what the GPU can do")))
            return st;
    if (dev->gpu.major < 8 || !mapping || !words)
        return weir__fail(WEIR_EUNAVAILABLE,
                          "%s: '%s' has compute capability %d.%d; weir needs 8.0, virtual memory "
                          "and 64-bit stream memory operations",
                          dev->base.props.name, dev->base.props.model, dev->gpu.major,
                          dev->gpu.minor);
    return WEIR_OK;
}

static weir_status read_properties(struct weir__cuda *dev)
{
    const struct weir__cu *cu = &dev->api->cu;
    weir_device_props *p = &dev->base.props;
    struct weir__cu_memory memory = {
        .type = CU_MEMORY_PINNED,
        .location = {CU_LOCATION_DEVICE, dev->gpu.device},
    };
    size_t available, total;
    int cores = 0;
    weir_status st;

    if ((st = weir__cuda_check(dev, cu->device_name(p->model, sizeof p->model, dev->gpu.device),
                               "the GPU's name")) ||
        (st = read_attributes(dev, &cores)))
        return st;
    p->cores = (weir_cores){cores, cores};
    p->features = WEIR_FEATURE_REAL_TIME | WEIR_FEATURE_TIMING;
    if ((st = weir__cuda_check(
             dev, cu->priority_range(&dev->gpu.priority_least, &dev->gpu.priority_greatest),
             "priorities")) ||
        (st = weir__cuda_check(dev, cu->memory_info(&available, &total), "memory")) ||
        (st = weir__cuda_check(
             dev, cu->granularity(&dev->gpu.granularity, &memory, CU_GRANULARITY_RECOMMENDED),
             "memory")))
        return st;
    p->memory_bytes = available;
    return WEIR_OK;
}

/* Finds the GPUs that can access this GPU's memory, for collectives and copies. */
static void find_peers(struct weir__cuda *dev)
{
    const struct weir__cu *cu = &dev->api->cu;
    int count = 0, can;

    if (cu->device_count(&count))
        return;
    for (int i = 0; i < count && dev->gpu.npeers < WEIR__CUDA_PEERS; i++) {
        weir__cu_device peer;

        if (!cu->device_get(&peer, i) && peer != dev->gpu.device &&
            !cu->device_reaches(&can, peer, dev->gpu.device) && can)
            dev->gpu.peers[dev->gpu.npeers++] = peer;
    }
}

static void cuda_close(weir_device *base)
{
    struct weir__cuda *dev = weir__cuda_of(base);
    bool pushed = weir__cuda_enter(dev);

    bool quiet = !weir__cuda_quiesce(dev, "a device that is closed");

    dev->api->cu.context_sync();
    if (quiet)
        weir__cuda_resume(dev);
    weir__cuda_jobs_close(dev);
    weir__cuda_faults_close(dev);
    weir__cuda_trace_close(dev);
    weir__cuda_stamps_close(dev);
    weir__cuda_leave(dev, pushed);
}

/* Allocates the words of all streams: their progress and their gates. */
static weir_status open_words(struct weir__cuda *dev)
{
    size_t size = WEIR__CODE_STREAMS * sizeof *dev->words;
    void *words;
    weir_status st = weir__cuda_check(
        dev, dev->api->cu.host_alloc(&words, size, CU_HOST_ALLOC_PORTABLE_MAPPED), "pinned memory");

    if (st)
        return st;
    dev->words = words;
    memset(words, 0, size);
    return WEIR_OK;
}

/* Frees everything that cuda_open has made. */
static void cuda_release(weir_device *base)
{
    struct weir__cuda *dev = weir__cuda_of(base);
    bool pushed = weir__cuda_enter(dev), quiet;

    weir__cuda_gates_close(dev);
    quiet = !weir__cuda_quiesce(dev, "a device that is closed");
    weir__cuda_copies_close(dev);
    weir__cuda_host_calls_close(dev);
    weir__cuda_functions_close(dev);
    weir__cuda_products_close(dev);
    weir__cuda_cores_close(dev);
    weir__cuda_share_close(dev);
    if (dev->words)
        dev->api->cu.host_free(dev->words);
    weir__cuda_faults_free(dev);
    weir__cuda_counters_close(dev);
    if (quiet)
        weir__cuda_resume(dev);
    weir__cuda_leave(dev, pushed);
    dev->api->cu.primary_release(dev->gpu.device);
}

static weir_status cuda_open(weir_device *base, struct weir__spec *spec)
{
    struct weir__cuda *dev = weir__cuda_of(base);
    const struct weir__cu *cu;
    int ordinal;
    bool pushed;
    weir_status st;

    dev->api = weir__cuda_api_get();
    dev->collectives = &weir__cuda_collectives;
    dev->traced.end = &dev->traced.first;
    weir__cuda_jobs_open(dev);
    cu = &dev->api->cu;
    if ((st = read_ordinal(dev, spec, &ordinal)) ||
        (st = weir__cuda_check(dev, cu->device_get(&dev->gpu.device, ordinal), "the GPU")) ||
        (st = weir__cuda_check(dev, cu->primary_retain(&dev->gpu.context, dev->gpu.device),
                               "a context")))
        return st;
    base->dlpack = (struct weir__dlpack_device){WEIR__DLPACK_CUDA, ordinal};
    pushed = weir__cuda_enter(dev);
    find_peers(dev);
    if (!(st = read_properties(dev)) && !(st = open_words(dev)) &&
        !(st = weir__cuda_faults_open(dev)) && !(st = weir__cuda_counters_open(dev)) &&
        !(st = weir__cuda_anchor(dev))) /* also waits for the fills that are queued above */
        st = weir__cuda_cores_open(dev);
    weir__cuda_leave(dev, pushed);
    if (st) {
        cuda_close(base);
        cuda_release(base);
    }
    return st;
}

static void cuda_kick(weir_device *dev)
{
    (void)dev; /* the work was passed to CUDA when it was queued */
}

static uint64_t cuda_now(const weir_device *dev)
{
    (void)dev;
    return weir__clock_ns();
}

/* ---- memory ---- */

static size_t mapped_size(const struct weir__cuda *dev, size_t size)
{
    return (size + dev->gpu.granularity - 1) / dev->gpu.granularity * dev->gpu.granularity;
}

static weir__cu_result map_at(const struct weir__cuda *dev, weir__cu_address address, size_t size)
{
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cu_location here = {CU_LOCATION_DEVICE, dev->gpu.device};
    struct weir__cu_memory memory = {.type = CU_MEMORY_PINNED, .location = here};
    struct weir__cu_access access[1 + WEIR__CUDA_PEERS] = {{here, CU_ACCESS_READ_WRITE}};
    weir__cu_result r;
    uint64_t handle;

    for (int i = 0; i < dev->gpu.npeers; i++)
        access[1 + i] =
            (struct weir__cu_access){{CU_LOCATION_DEVICE, dev->gpu.peers[i]}, CU_ACCESS_READ_WRITE};

    if ((r = cu->memory_create(&handle, size, &memory, 0)))
        return r;
    r = cu->memory_map(address, size, 0, handle, 0);
    cu->memory_release(handle); /* the mapping keeps the memory */
    if (!r && (r = cu->memory_access(address, size, access, 1 + (size_t)dev->gpu.npeers)))
        cu->memory_unmap(address, size);
    return r;
}

static void *cuda_map(weir_device *base, size_t size)
{
    struct weir__cuda *dev = weir__cuda_of(base);
    bool pushed = weir__cuda_enter(dev);
    weir__cu_address address = 0;

    size = mapped_size(dev, size);
    if (atomic_load_explicit(&base->shares, memory_order_relaxed))
        address = (weir__cu_address)(uintptr_t)weir__cuda_share_map(dev, size);
    if (address)
        ; /* other processes can open it */
    else if (dev->api->cu.address_reserve(&address, size, 0, 0, 0))
        address = 0;
    else if (map_at(dev, address, size)) {
        dev->api->cu.address_free(address, size);
        address = 0;
    }
    weir__cuda_leave(dev, pushed);
    return (void *)(uintptr_t)address;
}

static void cuda_unmap(weir_device *base, void *address, size_t size)
{
    struct weir__cuda *dev = weir__cuda_of(base);
    bool pushed = weir__cuda_enter(dev);

    size = mapped_size(dev, size);
    if (!weir__cuda_share_unmap(dev, address)) {
        dev->api->cu.memory_unmap((weir__cu_address)(uintptr_t)address, size);
        dev->api->cu.address_free((weir__cu_address)(uintptr_t)address, size);
    }
    weir__cuda_leave(dev, pushed);
}

static const struct weir__driver_plans plans = {
    .one_launch = true,
    .slow_update = true,
    .make = weir__cuda_program_make,
    .free = weir__cuda_program_free,
    .run = weir__cuda_program_run,
    .update = weir__cuda_program_update,
    .may_update = weir__cuda_program_may_update,
};

static const struct weir__driver_tapes tapes = {
    .open = weir__cuda_reel_open,
    .close = weir__cuda_reel_close,
    .add = weir__cuda_reel_add,
    .begin = weir__cuda_reel_begin,
};

static const struct weir__driver_cross cross = {
    .signal_relay = weir__cuda_signal_relay,
    .wait_relay = weir__cuda_wait_relay,
    .reaches_device = weir__cuda_reaches_device,
};

static const struct weir__driver_native native = {
    .stream = weir__cuda_native,
    .wait = weir__cuda_wait_native,
    .signal = weir__cuda_signal_native,
    .reaches = weir__cuda_reaches,
    .trace = weir__cuda_trace_native,
};

static const struct weir__driver_hardware hardware = {
    .unavailable = unavailable,
    .release = cuda_release,
    .round_limit = weir__cuda_round_limit,
};

const struct weir__driver weir__cuda_driver = {
    .name = "cuda",
    .summary = "an NVIDIA GPU",
    .device_size = sizeof(struct weir__cuda),
    .stream_size = sizeof(struct weir__cuda_stream),
    .can = WEIR__RUNS_SOURCE,
    .trace_clock = WEIR__TRACE_HOST_NS,
    .open = cuda_open,
    .close = cuda_close,
    .stream_open = weir__cuda_stream_open,
    .stream_close = weir__cuda_stream_close,
    .submit = weir__cuda_submit,
    .wait = weir__cuda_wait,
    .callback = weir__cuda_callback,
    .stamp = weir__cuda_record_stamp,
    .kick = cuda_kick,
    .done = weir__cuda_done,
    .sync = weir__cuda_sync,
    .map = cuda_map,
    .unmap = cuda_unmap,
    .now = cuda_now,
    .plans = &plans,
    .tapes = &tapes,
    .collectives = &(const struct weir__driver_collectives){.explain = weir__cuda_explain,
                                                            .between_processes = true,
                                                            .sharing = &weir__cuda_sharing,
                                                            .most_ranks = WEIR__CODE_RANKS},
    .cross = &cross,
    .native = &native,
    .hardware = &hardware,
    .notices =
        &(const struct weir__driver_notices){.poll = weir__cuda_look, .mark = weir__cuda_mark},
};
