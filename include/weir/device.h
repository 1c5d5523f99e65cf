/* Devices: what work runs on.
 *
 * A device is opened by a spec string: `cpu`, `cpu:cores=4`,
 * `cpu:cube=24,vector=48`. Each open gives a device of its own, with its own
 * streams, memory pool and core limits; several may be open at once.
 */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_device weir_device;

/* What an operator runs on. On `cpu` and `cuda` cube and vector share cores
 * unless both were named in the spec. */
typedef enum weir_engine {
    WEIR_ENGINE_CUBE,
    WEIR_ENGINE_VECTOR,
    WEIR_ENGINE_MIX,
    WEIR_ENGINE_SDMA,
    WEIR_ENGINE_HOST,
    WEIR_ENGINE_COUNT
} weir_engine;

WEIR_API const char *weir_engine_name(weir_engine engine);

/* Core counts of the two limitable engines. -1 in a limit means "keep". */
typedef struct weir_cores {
    int cube;
    int vector;
} weir_cores;

enum {
    WEIR_FEATURE_REAL_TIME = 1 << 0,   /* work takes wall-clock time */
    WEIR_FEATURE_SPLIT_CORES = 1 << 1, /* cube and vector cores are separate */
    WEIR_FEATURE_HOST_MEMORY = 1 << 2, /* the host can read tensor bytes */
    WEIR_FEATURE_TIMING = 1 << 3,      /* events measure time */
};

typedef struct weir_device_props {
    char name[64];       /* the driver and its options, as opened */
    char model[128];     /* the hardware, for people */
    weir_cores cores;    /* all of them, before limits */
    int threads;         /* host threads that run blocks; 0 if none do */
    int priority_least;  /* 7 */
    int priority_most;   /* -8 */
    size_t memory_bytes; /* what the pool may take at most */
    unsigned features;   /* WEIR_FEATURE_* */
} weir_device_props;

/* Opens a device. NULL means $WEIR_DEVICE, or `cpu` without it.
 *
 * `cpu` options: cores=N (shared by cube and vector) or cube=N and vector=N;
 * threads=N; memory=SIZE (1g, 512m); op_timeout=SECONDS (0 waits for ever);
 * deterministic=0|1; poison=0|1; jitter=SEED (random delays, for tests).
 * `npu` takes a profile first (a2, a3, 910b4, or a path), then policy=hold|batch;
 * compute=on|off; overhead=on|off; seed=N; algorithm=auto|ring|mesh|hierarchical; and
 * memory, op_timeout, deterministic, poison as above. The device runs while the host waits for it
 * or queries it; otherwise its clock stands still.
 * returns  WEIR_ESPEC naming the wrong part; WEIR_EUNAVAILABLE with the reason if this machine has
 *          no such device.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_device_open(const char *spec, weir_device **out);

/* Waits for all queued work, then frees the device with its streams. NULL is fine.
 * Work that failed does not keep the device from closing.
 * returns  WEIR_EBUSY if the program still holds tensors, buffers, events (tagged ones too, once
 *          recorded), graphs, plans or groups of the device. The message counts them, and
 *          nothing changes.
 * threads  one, with no other call on the device in progress. */
WEIR_API weir_status weir_device_close(weir_device *dev);

/* The process's default device, opened on first use with weir_device_open(NULL). The library owns
 * it and never closes it. A child of fork() gets a default device of its own and must not use its
 * parent's devices.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_device_default(weir_device **out);

/* threads  any. */
WEIR_API void weir_device_get_props(const weir_device *dev, weir_device_props *out, size_t size);
WEIR_API const char *weir_device_name(const weir_device *dev);

/* Waits until everything queued on every stream is done.
 * returns  the first error of a stream that failed; WEIR_ETIMEDOUT past the
 *          device's op_timeout, with who waits for whom.
 * threads  any. */
WEIR_API weir_status weir_device_sync(weir_device *dev);

/* The device's clock in nanoseconds: wall time on real devices, virtual time on
 * modelled ones.
 * threads  any. */
WEIR_API uint64_t weir_device_now(const weir_device *dev);

/* Core limits of the whole device, for streams without limits of their own.
 * Values are 1..the device's count; -1 keeps the current value. A new limit applies to operators
 * that start afterwards: see weir_stream_set_limit.
 * returns  WEIR_ERANGE naming the range; nothing changes then.
 * threads  any. */
WEIR_API weir_status weir_device_set_limit(weir_device *dev, weir_cores limit);
WEIR_API weir_cores weir_device_get_limit(const weir_device *dev);

/* One row per driver that this build knows, for listings.
 * `reason` is NULL where the device can be opened here. */
typedef struct weir_driver_info {
    const char *name;
    const char *summary;
    const char *reason;
} weir_driver_info;

/* Fills `out` with at most `max` rows and returns how many there are.
 * threads  any. */
WEIR_API size_t weir_driver_list(weir_driver_info *out, size_t size, size_t max);

#ifdef __cplusplus
}
#endif
#endif
